//! Unit tests of producers to many entities.

use alloc::boxed::Box;
use alloc::vec;

use super::*;

type Output = ToEntitiesOutput<u8, &'static str>;

fn payload(text: &str) -> Payload {
    Box::from(text.as_bytes())
}

fn at(seconds: u64) -> Instant {
    Instant::from_millis(seconds * 1_000)
}

fn new(settings: ToEntitiesSettings) -> ToEntities<u8, &'static str> {
    ToEntities::new(b'p', settings).unwrap()
}

const fn request(confirmed: u64, up_to: u64) -> ConsumerRequest {
    ConsumerRequest {
        confirmed,
        up_to,
        support_resend: true,
        via_timeout: false,
    }
}

fn durable() -> ToEntitiesSettings {
    ToEntitiesSettings {
        producer: ProducerSettings {
            is_durable: true,
            ..ProducerSettings::default()
        },
        ..ToEntitiesSettings::default()
    }
}

/// Entity, its number, and the bytes of everything that is sent.
fn sent(out: &[Output]) -> Vec<(&'static str, u64, &[u8])> {
    let send = |output| match output {
        &ToEntitiesOutput::Send { entity, ref message } => Some((entity, message.seq, &message.payload[..])),
        _ => None,
    };
    out.iter().filter_map(send).collect()
}

#[test]
fn every_entity_has_numbers_of_its_own_and_waits_for_itself_alone() {
    let mut to = new(ToEntitiesSettings::default());
    let mut out = Vec::new();
    for (entity, text) in [("a", "1"), ("a", "2"), ("b", "3")] {
        to.on_message(at(0), entity, payload(text), &mut out).unwrap();
    }
    assert_eq!(sent(&out), [("a", 1, &b"1"[..]), ("b", 1, b"3")]);
    assert_eq!(to.waiting(), 1);
    out.clear();
    to.on_request(at(0), &"a", request(1, 10), &mut out);
    assert_eq!(out[0], ToEntitiesOutput::Confirmed { seq: 1 });
    assert_eq!(sent(&out), [("a", 2, &b"2"[..])]);
    assert_eq!(to.waiting(), 0);
}

#[test]
fn s_245_after_a_restart_an_entitys_numbers_begin_again_and_the_stored_one_does_not() {
    let mut to = new(durable());
    let mut out = Vec::new();
    for (entity, text) in [("a", "1"), ("a", "2"), ("b", "3")] {
        to.on_message(at(0), entity, payload(text), &mut out).unwrap();
    }
    assert_eq!(sent(&out), [], "nothing is stored yet");
    out.clear();
    to.on_stored(at(0), 3, &mut out);
    assert_eq!(sent(&out), [("b", 1, &b"3"[..])]);
    let mut again = new(durable());
    out.clear();
    again.recover(at(0), [(3, "b", payload("3"))], &mut out);
    assert_eq!(sent(&out), [("b", 1, &b"3"[..])]);
    out.clear();
    again.on_request(at(0), &"b", request(1, 10), &mut out);
    let confirmed = [
        ToEntitiesOutput::Confirmed { seq: 3 },
        ToEntitiesOutput::StoreConfirmed { seq: 3 },
    ];
    assert_eq!(out, confirmed);
    assert_eq!(again.on_message(at(0), "b", payload("4"), &mut out), Ok(4));
}

#[test]
fn an_entity_that_wants_no_more_confirms_what_it_has() {
    let mut to = new(ToEntitiesSettings::default());
    let mut out = Vec::new();
    to.on_message(at(0), "a", payload("1"), &mut out).unwrap();
    out.clear();
    to.on_ack(at(1), &"a", 1, &mut out);
    assert_eq!(out, [ToEntitiesOutput::Confirmed { seq: 1 }]);
    assert_eq!(to.timer_at(), Some(at(121)), "it is used then");
}

#[test]
fn what_waits_is_bounded_over_all_entities() {
    let mut to = new(ToEntitiesSettings {
        waiting_max: 2,
        ..ToEntitiesSettings::default()
    });
    let mut out = Vec::new();
    for _ in 0..3 {
        to.on_message(at(0), "a", payload("x"), &mut out).unwrap();
    }
    assert_eq!(
        to.on_message(at(0), "b", payload("x"), &mut out),
        Err(TooManyWaiting)
    );
}

#[test]
fn an_entity_that_has_confirmed_nothing_yet_is_waited_for() {
    let mut to = new(ToEntitiesSettings::default());
    let mut out = Vec::new();
    to.on_message(at(0), "a", payload("1"), &mut out).unwrap();
    to.on_request(at(0), &"a", request(1, 10), &mut out);
    to.on_message(at(0), "a", payload("2"), &mut out).unwrap();
    out.clear();
    to.on_timer(at(9), &mut out);
    assert_eq!(sent(&out), []);
}

#[test]
fn an_entity_that_confirms_nothing_gets_the_first_again_and_an_unused_one_is_forgotten() {
    let mut to = new(ToEntitiesSettings::default());
    let mut out = Vec::new();
    to.on_message(at(0), "a", payload("1"), &mut out).unwrap();
    to.on_request(at(0), &"a", request(1, 10), &mut out);
    to.on_message(at(0), "a", payload("2"), &mut out).unwrap();
    out.clear();
    assert_eq!(to.timer_at(), Some(at(10)));
    to.on_timer(at(10), &mut out);
    let first = |output: &Output| matches!(output, ToEntitiesOutput::Send { message, .. } if message.first);
    assert_eq!(sent(&out), [("a", 2, &b"2"[..])]);
    assert!(out.iter().any(first));
    to.on_request(at(20), &"a", request(2, 10), &mut out);
    assert_eq!(to.timer_at(), Some(at(140)));
    to.on_timer(at(140), &mut out);
    assert_eq!(to.timer_at(), None);
    assert_eq!(to.demand().collect::<Vec<_>>(), vec![]);
}
