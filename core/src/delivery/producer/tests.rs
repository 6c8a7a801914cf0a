//! The producer against the sequences of spec sharding 6.10, and together with a consumer over a link that
//! loses and doubles.

use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::delivery::{ConsumerController, ConsumerOutput};

type Output = ProducerOutput<u8>;

const A: u8 = b'a';

struct Under {
    producer: ProducerController<u8>,
    now: Instant,
}

impl Under {
    fn new(settings: ProducerSettings) -> Self {
        Self {
            producer: ProducerController::new(A, settings).unwrap(),
            now: Instant::from_millis(700),
        }
    }

    /// With a consumer that has confirmed the first message and asked for up to ten.
    fn begun() -> Self {
        let mut under = Self::new(ProducerSettings::default());
        under.consumer();
        under.give(1);
        under.request(1, 10);
        under
    }

    fn act(
        &mut self,
        call: impl FnOnce(&mut ProducerController<u8>, Instant, &mut Vec<Output>),
    ) -> Vec<Output> {
        let mut out = Vec::new();
        call(&mut self.producer, self.now, &mut out);
        out
    }

    fn consumer(&mut self) -> Vec<Output> {
        self.act(|producer, now, out| producer.on_consumer(now, out))
    }

    fn give(&mut self, seq: u64) -> Vec<Output> {
        self.act(|producer, now, out| {
            assert_eq!(producer.on_message(now, payload(seq), out), Ok(seq));
        })
    }

    fn request(&mut self, confirmed: u64, up_to: u64) -> Vec<Output> {
        self.act(|producer, now, out| {
            producer.on_request(
                now,
                ConsumerRequest {
                    confirmed,
                    up_to,
                    support_resend: true,
                    via_timeout: false,
                },
                out,
            )
        })
    }

    fn resend(&mut self, from: u64) -> Vec<Output> {
        self.act(|producer, now, out| producer.on_resend(now, from, out))
    }

    fn timer(&mut self) -> Vec<Output> {
        self.now = self.producer.timer_at().unwrap();
        self.act(|producer, now, out| producer.on_timer(now, out))
    }
}

fn payload(seq: u64) -> Payload {
    alloc::boxed::Box::new(seq.to_le_bytes())
}

fn stored(seq: u64) -> StoredMessage {
    StoredMessage {
        seq,
        part: MessagePart::WHOLE,
        payload: payload(seq),
    }
}

fn sends(seq: u64, first: bool) -> Output {
    ProducerOutput::Send(SequencedMessage {
        producer: A,
        seq,
        first,
        part: MessagePart::WHOLE,
        payload: payload(seq),
    })
}

const fn asks(seq: u64, confirmed: u64) -> Output {
    ProducerOutput::RequestNext { seq, confirmed }
}

const fn confirmed(seq: u64) -> Output {
    ProducerOutput::Confirmed { seq }
}

#[test]
fn the_first_message_goes_unasked_and_again_until_it_is_confirmed() {
    let mut under = Under::new(ProducerSettings::default());
    assert_eq!(under.consumer(), [asks(1, 0)]);
    assert_eq!(under.give(1), [sends(1, true)]);
    let mut out = Vec::new();
    assert_eq!(
        under.producer.on_message(under.now, payload(2), &mut out),
        Err(NotRequested)
    );
    let start = under.now;
    assert_eq!(under.timer(), [sends(1, true)]);
    assert_eq!(under.now.since(start), Duration::from_secs(1));
    assert_eq!(under.request(1, 2), [confirmed(1), asks(2, 1)]);
    assert_eq!(under.producer.timer_at(), None);
    assert_eq!(under.give(2), [sends(2, false)]);
    assert_eq!(under.request(1, 3), [asks(3, 1)]);
}

#[test]
fn s_241_what_the_consumer_misses_is_sent_again_and_one_answer_confirms_all_of_it() {
    let mut under = Under::begun();
    for seq in 2..=4 {
        assert_eq!(under.give(seq), [sends(seq, false), asks(seq + 1, 1)]);
    }
    assert_eq!(under.resend(3), [sends(3, false), sends(4, false)]);
    let out = under.act(|producer, _, out| producer.on_ack(4, out));
    assert_eq!(out, [confirmed(4)]);
    assert!(under.producer.is_idle());
    let out = under.act(|producer, _, out| producer.on_ack(9, out));
    assert_eq!(out, [], "nobody can confirm what was never sent");
}

#[test]
fn a_request_that_confirms_what_was_never_sent_or_that_comes_before_a_consumer_changes_nothing() {
    let mut under = Under::begun();
    under.give(2);
    for confirmed in [3, 9, u64::MAX] {
        assert_eq!(under.request(confirmed, u64::MAX), []);
        assert_eq!(under.producer.unconfirmed().count(), 1);
    }
    assert_eq!(under.request(2, 10), [confirmed(2)], "it is confirmed as ever");
    let mut under = Under {
        producer: ProducerController::recover(A, ProducerSettings::default(), 0, [stored(1)]).unwrap(),
        now: under.now,
    };
    assert_eq!(under.request(0, 10), [], "nobody is there yet");
    assert_eq!(under.consumer(), [sends(1, true)]);
}

#[test]
fn s_242_a_new_consumer_gets_the_first_unconfirmed_until_it_asks() {
    let mut under = Under::begun();
    under.give(2);
    under.give(3);
    assert_eq!(under.consumer(), [sends(2, true)]);
    assert_eq!(under.timer(), [sends(2, true)]);
    assert_eq!(
        under.request(0, 21),
        [sends(3, false)],
        "it may have what it asks for"
    );
    let mut under = Under::begun();
    under.give(2);
    under.give(3);
    under.consumer();
    assert_eq!(under.request(2, 10), [confirmed(2), sends(3, false)]);
}

#[test]
fn s_244_a_durable_producer_sends_what_is_stored_and_after_a_restart_the_same_numbers() {
    let settings = ProducerSettings {
        is_durable: true,
        ..ProducerSettings::default()
    };
    let mut under = Under::new(settings.clone());
    under.consumer();
    assert_eq!(under.give(1), [ProducerOutput::Store(vec![stored(1)])]);
    let start = under.now;
    assert_eq!(
        under.timer(),
        [ProducerOutput::Store(vec![stored(1)])],
        "no answer"
    );
    assert_eq!(under.now.since(start), Duration::from_secs(3));
    let out = under.act(|producer, now, out| producer.on_stored(now, out));
    assert_eq!(out, [sends(1, true)]);
    assert_eq!(
        under.request(1, 10),
        [
            confirmed(1),
            ProducerOutput::StoreConfirmed { seq: 1 },
            asks(2, 1)
        ]
    );
    let unfinished = StoredMessage {
        part: MessagePart {
            first: true,
            last: false,
        },
        ..stored(4)
    };
    let kept = [stored(1), stored(3), stored(2), unfinished];
    let mut again = Under {
        producer: ProducerController::recover(A, settings, 1, kept).unwrap(),
        now: under.now,
    };
    assert_eq!(
        again.consumer(),
        [sends(2, true)],
        "1 is confirmed, 4 was not stored as a whole"
    );
    let out = again.request(2, 10);
    assert_eq!(out[2..], [sends(3, false), asks(4, 2)]);
}

#[test]
fn a_store_that_never_answers_ends_the_producer() {
    let mut under = Under::new(ProducerSettings {
        is_durable: true,
        store_attempts: 2,
        ..ProducerSettings::default()
    });
    under.consumer();
    under.give(1);
    assert_eq!(under.timer().len(), 1);
    assert_eq!(under.timer(), [ProducerOutput::StoreFailed]);
    assert_eq!(under.producer.timer_at(), None);
    assert_eq!(under.request(0, 10), [], "it is at its end");
}

#[test]
fn a_large_message_goes_in_parts_as_far_as_the_consumer_has_asked() {
    let mut under = Under::new(ProducerSettings {
        part_bytes: Some(64),
        ..ProducerSettings::default()
    });
    under.consumer();
    let large: Payload = (0..200).collect();
    let out = under.act(|producer, now, out| {
        assert_eq!(producer.on_message(now, large, out), Ok(4), "its last part");
    });
    let shape = |out: &[Output]| -> Vec<(u64, bool, bool, usize)> {
        let part = |output: &Output| match output {
            ProducerOutput::Send(sent) => {
                Some((sent.seq, sent.part.first, sent.part.last, sent.payload.len()))
            }
            _ => None,
        };
        out.iter().filter_map(part).collect()
    };
    assert_eq!(shape(&out), [(1, true, false, 64)]);
    let out = under.request(0, 3);
    assert_eq!(shape(&out), [(2, false, false, 64), (3, false, false, 64)]);
    let out = under.request(0, 6);
    assert_eq!(shape(&out), [(4, false, true, 8)]);
    assert_eq!(out.last(), Some(&asks(5, 0)));
}

#[test]
fn what_a_consumer_has_of_a_message_in_parts_is_not_sent_again_to_it() {
    let mut under = Under::new(ProducerSettings {
        part_bytes: Some(64),
        ..ProducerSettings::default()
    });
    under.consumer();
    under.act(|producer, now, out| {
        assert_eq!(producer.on_message(now, (0..=255).collect(), out), Ok(4));
    });
    under.request(0, 10);
    // Silence: it begins again as with a new consumer, which turns out to be the old one.
    let numbers = |out: &[Output]| -> Vec<u64> {
        let sent = out.iter().filter_map(|output| match output {
            ProducerOutput::Send(sent) => Some(sent.seq),
            _ => None,
        });
        sent.collect()
    };
    assert_eq!(numbers(&under.consumer()), [1]);
    assert_eq!(numbers(&under.resend(3)), [], "not asked for yet");
    assert_eq!(numbers(&under.request(0, 10)), [3, 4]);
    assert_eq!(numbers(&under.resend(0)), [1, 2, 3, 4], "a new one");
}

#[test]
fn a_consumer_that_wants_nothing_again_is_kept_nothing_for() {
    let mut under = Under::new(ProducerSettings::default());
    under.consumer();
    under.give(1);
    let request = |under: &mut Under, confirmed, up_to| {
        under.act(|producer, now, out| {
            producer.on_request(
                now,
                ConsumerRequest {
                    confirmed,
                    up_to,
                    support_resend: false,
                    via_timeout: false,
                },
                out,
            )
        })
    };
    request(&mut under, 1, 3);
    under.give(2);
    under.give(3);
    assert!(under.producer.is_idle());
    // Both were lost, and the window moves past them.
    assert_eq!(request(&mut under, 1, 3), [asks(4, 1)]);
}

#[test]
fn a_consumer_that_wants_nothing_again_gets_no_more_than_it_asked_for() {
    let mut under = Under::new(ProducerSettings::default());
    under.consumer();
    under.give(1);
    let request = |under: &mut Under, up_to| {
        let request = ConsumerRequest {
            confirmed: 1,
            up_to,
            support_resend: false,
            via_timeout: false,
        };
        under.act(|producer, now, out| producer.on_request(now, request, out))
    };
    request(&mut under, 3);
    under.give(2);
    under.give(3);
    // Both were lost, and there is room for one more all the same.
    assert_eq!(request(&mut under, 4), [asks(4, 1)]);
    assert_eq!(under.give(4), [sends(4, false)]);
}

#[test]
fn a_consumer_cannot_ask_for_more_than_the_largest_window() {
    let mut under = Under::new(ProducerSettings::default());
    under.consumer();
    under.give(1);
    under.request(1, u64::MAX);
    assert_eq!(under.producer.requested, 1 + ConsumerSettings::WINDOW_MAX);
}

#[test]
fn settings_out_of_range_are_refused() {
    for spoil in [
        |s: &mut ProducerSettings| s.resend_first = Duration::ZERO,
        |s: &mut ProducerSettings| s.part_bytes = Some(63),
        |s: &mut ProducerSettings| s.store_timeout = Duration::ZERO,
        |s: &mut ProducerSettings| s.store_attempts = 0,
    ] {
        let mut settings = ProducerSettings::default();
        spoil(&mut settings);
        assert!(ProducerController::new(A, settings).is_err());
    }
}

/// What a link does with the next message.
#[derive(Clone, Copy, Debug)]
enum Luck {
    Passes,
    IsLost,
    Doubles,
}

proptest! {
    /// Over a link that loses and doubles, the consumer's user gets every message once and in order, and
    /// everything is confirmed in the end.
    #[test]
    fn a_link_that_loses_and_doubles_loses_and_doubles_nothing(
        luck in prop::collection::vec(
            prop_oneof![6 => Just(Luck::Passes), 2 => Just(Luck::IsLost), 1 => Just(Luck::Doubles)],
            0..200,
        ),
        window in 1_u64..8,
        messages in 1_u64..30,
        part_bytes in prop::option::of(Just(64_usize)),
    ) {
        let settings = ConsumerSettings { window, ..ConsumerSettings::default() };
        let mut consumer = ConsumerController::new(settings).unwrap();
        let mut under = Under::new(ProducerSettings { part_bytes, ..ProducerSettings::default() });
        let (mut luck, mut given, mut got) = (luck.into_iter(), 0, Vec::new());
        let mut outputs = under.consumer();
        for _ in 0..10_000 {
            let mut said = Vec::new();
            for output in core::mem::take(&mut outputs) {
                match output {
                    ProducerOutput::Send(message) => {
                        let copies = match luck.next().unwrap_or(Luck::Passes) {
                            Luck::IsLost => 0,
                            Luck::Passes => 1,
                            Luck::Doubles => 2,
                        };
                        for _ in 0..copies {
                            consumer.on_message(under.now, message.clone(), &mut said);
                        }
                    }
                    ProducerOutput::RequestNext { .. } if given < messages => {
                        given += 1;
                        let bytes = if given % 3 == 0 { 150 } else { 8 };
                        let mut payload = given.to_le_bytes().to_vec();
                        payload.resize(bytes, 7);
                        let taken = under.producer.on_message(under.now, payload.into(), &mut outputs);
                        prop_assert!(taken.is_ok());
                    }
                    _ => {}
                }
            }
            while !said.is_empty() {
                for output in core::mem::take(&mut said) {
                    let is_lost = matches!(luck.next(), Some(Luck::IsLost));
                    match output {
                        ConsumerOutput::Deliver { seq, payload, .. } => {
                            got.push(u64::from_le_bytes(payload[..8].try_into().unwrap()));
                            consumer.on_confirmed(under.now, seq, &mut said);
                        }
                        ConsumerOutput::Request { confirmed, up_to, via_timeout, .. } if !is_lost => {
                            under.producer.on_request(under.now, ConsumerRequest { confirmed, up_to, support_resend: true, via_timeout }, &mut outputs);
                        }
                        ConsumerOutput::Resend { from, .. } if !is_lost => {
                            under.producer.on_resend(under.now, from, &mut outputs);
                        }
                        _ => {}
                    }
                }
            }
            if !outputs.is_empty() {
                continue;
            }
            if given == messages && under.producer.is_idle() {
                break;
            }
            let next = [under.producer.timer_at(), consumer.retry_at()].into_iter().flatten().min();
            under.now = next.unwrap();
            under.producer.on_timer(under.now, &mut outputs);
            let mut said = Vec::new();
            consumer.on_retry(under.now, &mut said);
            for output in said {
                match output {
                    ConsumerOutput::Request { confirmed, up_to, via_timeout, .. } => {
                        under.producer.on_request(under.now, ConsumerRequest { confirmed, up_to, support_resend: true, via_timeout }, &mut outputs);
                    }
                    ConsumerOutput::Resend { from, .. } => under.producer.on_resend(under.now, from, &mut outputs),
                    _ => {}
                }
            }
        }
        prop_assert_eq!(&got, &(1..=messages).collect::<Vec<_>>());
        prop_assert!(under.producer.is_idle());
    }
}
