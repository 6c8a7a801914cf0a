//! The consumer against the sequences of spec sharding 6.10.

use alloc::boxed::Box;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

type Output = ConsumerOutput<u8>;

/// The producer of most tests.
const A: u8 = b'a';

struct Under {
    consumer: ConsumerController<u8>,
    now: Instant,
}

impl Under {
    fn new(window: u64) -> Self {
        Self::with(ConsumerSettings {
            window,
            ..ConsumerSettings::default()
        })
    }

    fn with(settings: ConsumerSettings) -> Self {
        Self {
            consumer: ConsumerController::new(settings).unwrap(),
            now: Instant::from_millis(500),
        }
    }

    fn message(&mut self, seq: u64) -> Vec<Output> {
        self.sequenced(A, seq, seq == 1, MessagePart::WHOLE)
    }

    fn sequenced(&mut self, producer: u8, seq: u64, first: bool, part: MessagePart) -> Vec<Output> {
        let mut out = Vec::new();
        let message = SequencedMessage {
            producer,
            seq,
            first,
            part,
            payload: payload(seq),
        };
        self.consumer.on_message(self.now, message, &mut out);
        out
    }

    fn confirm(&mut self, seq: u64) -> Vec<Output> {
        let mut out = Vec::new();
        assert!(self.consumer.on_confirmed(self.now, seq, &mut out), "{seq}");
        out
    }

    /// Waits for the next repetition; after how many milliseconds, and what it says.
    fn retry(&mut self) -> (u128, Vec<Output>) {
        let at = self.consumer.retry_at().unwrap();
        let waited = at.since(self.now).as_millis();
        self.now = at;
        let mut out = Vec::new();
        self.consumer.on_retry(self.now, &mut out);
        (waited, out)
    }
}

fn payload(seq: u64) -> Payload {
    Box::new(seq.to_le_bytes())
}

fn deliver(seq: u64) -> Output {
    ConsumerOutput::Deliver {
        producer: A,
        seq,
        payload: payload(seq),
    }
}

fn request(confirmed: u64, up_to: u64) -> Output {
    ConsumerOutput::Request {
        to: A,
        confirmed,
        up_to,
        support_resend: true,
        via_timeout: false,
    }
}

fn again(confirmed: u64, up_to: u64) -> Output {
    ConsumerOutput::Request {
        to: A,
        confirmed,
        up_to,
        support_resend: true,
        via_timeout: true,
    }
}

fn resend(from: u64) -> Output {
    ConsumerOutput::Resend { to: A, from }
}

#[test]
fn a_window_of_twenty_is_renewed_when_half_of_it_is_left() {
    let mut under = Under::new(20);
    assert_eq!(under.message(1), [deliver(1), request(0, 20)]);
    assert_eq!(under.confirm(1), [request(1, 20)]);
    for seq in 2..=9 {
        assert_eq!(under.message(seq), [deliver(seq)]);
        assert_eq!(under.confirm(seq), []);
    }
    assert_eq!(under.message(10), [deliver(10)]);
    assert_eq!(under.confirm(10), [request(10, 30)]);
}

#[test]
fn s_237_what_follows_a_gap_is_ignored_until_it_has_been_sent_again() {
    let mut under = Under::new(20);
    under.message(1);
    under.confirm(1);
    under.message(2);
    under.confirm(2);
    assert_eq!(under.message(5), [resend(3)]);
    assert_eq!(under.message(6), []);
    for seq in 3..=5 {
        assert_eq!(under.message(seq), [deliver(seq)]);
        assert_eq!(under.message(seq), [], "twice");
        under.confirm(seq);
    }
}

#[test]
fn s_238_the_first_message_may_have_any_number() {
    let mut under = Under::new(20);
    let first = under.sequenced(A, 23, true, MessagePart::WHOLE);
    assert_eq!(first, [deliver(23), request(0, 42)]);
    let mut under = Under::new(20);
    assert_eq!(
        under.sequenced(A, 7, true, MessagePart::WHOLE),
        [deliver(7), request(0, 26)]
    );
    let mut under = Under::new(20);
    assert_eq!(
        under.sequenced(A, 7, false, MessagePart::WHOLE),
        [resend(0)],
        "not from the beginning"
    );
}

#[test]
fn s_240_one_that_stops_says_how_far_it_has_come() {
    let mut under = Under::new(20);
    let mut out = Vec::new();
    for seq in 1..=2 {
        under.message(seq);
        under.confirm(seq);
    }
    under.message(3);
    under.consumer.on_stop(&mut out);
    assert_eq!(out, [ConsumerOutput::Ack { to: A, confirmed: 2 }]);
    assert_eq!(under.consumer.retry_at(), None);
}

#[test]
fn s_250_requests_are_repeated_ever_more_rarely_while_nothing_comes() {
    let mut under = Under::new(20);
    under.message(1);
    under.confirm(1);
    let waits: Vec<u128> = (0..9)
        .map(|_| {
            let (waited, out) = under.retry();
            assert_eq!(out, [again(1, 20)]);
            waited
        })
        .collect();
    assert_eq!(
        waits,
        [2_000, 3_000, 4_500, 6_750, 10_125, 15_187, 22_781, 30_000, 30_000]
    );
    under.message(2);
    assert_eq!(under.retry().0, 2_000);
    under.message(4);
    assert_eq!(under.retry().1, [resend(3)], "what is missing is asked for again");
}

#[test]
fn what_comes_while_the_user_is_busy_waits_and_more_than_was_asked_for_is_not_kept() {
    let mut under = Under::new(4);
    under.message(1);
    for seq in 2..=4 {
        assert_eq!(under.message(seq), []);
    }
    assert_eq!(under.message(5), [], "nobody asked for it");
    assert_eq!(under.confirm(1), [request(1, 4), deliver(2)]);
    assert_eq!(under.confirm(2), [request(2, 6), deliver(3)]);
    assert_eq!(under.message(6), [resend(5)]);
    let mut out = Vec::new();
    assert!(
        !under.consumer.on_confirmed(under.now, 2, &mut out),
        "confirmed before"
    );
}

#[test]
fn a_repeated_first_message_has_the_request_repeated() {
    let mut under = Under::new(20);
    under.message(1);
    assert_eq!(under.message(1), [request(0, 20)]);
}

#[test]
fn another_producer_begins_with_a_first_message_only() {
    let mut under = Under::new(20);
    under.message(1);
    assert_eq!(under.sequenced(b'b', 2, false, MessagePart::WHOLE), []);
    let out = under.sequenced(b'b', 9, true, MessagePart::WHOLE);
    assert!(matches!(
        out[0],
        ConsumerOutput::Deliver {
            producer: b'b',
            seq: 9,
            ..
        }
    ));
    assert_eq!(under.message(2), [], "the old one is not heard any more");
}

#[test]
fn flow_control_alone_accepts_gaps() {
    let mut under = Under::with(ConsumerSettings {
        window: 20,
        only_flow_control: true,
        ..ConsumerSettings::default()
    });
    under.message(1);
    under.confirm(1);
    assert_eq!(under.message(5), [deliver(5)]);
}

const BEGIN: MessagePart = MessagePart {
    first: true,
    last: false,
};
const MIDDLE: MessagePart = MessagePart {
    first: false,
    last: false,
};
const END: MessagePart = MessagePart {
    first: false,
    last: true,
};

#[test]
fn a_message_of_many_parts_is_delivered_in_one_piece_and_confirmed_with_its_last() {
    let mut under = Under::new(4);
    assert_eq!(under.sequenced(A, 1, true, BEGIN), [request(0, 4)]);
    assert_eq!(
        under.sequenced(A, 2, false, MIDDLE),
        [request(0, 6)],
        "more parts than the window"
    );
    assert_eq!(under.sequenced(A, 3, false, MIDDLE), []);
    let whole: Payload = (1..=4_u64).flat_map(u64::to_le_bytes).collect();
    let delivered = ConsumerOutput::Deliver {
        producer: A,
        seq: 4,
        payload: whole,
    };
    assert_eq!(under.sequenced(A, 4, false, END), [delivered]);
    assert_eq!(under.confirm(4), [request(4, 6)]);
}

#[test]
fn parts_that_are_here_are_not_asked_for_again() {
    let mut under = Under::new(20);
    under.sequenced(A, 1, true, BEGIN);
    under.sequenced(A, 2, false, MIDDLE);
    let missing = [ConsumerOutput::Resend { to: A, from: 3 }, request(0, 20)];
    assert_eq!(under.retry().1, missing, "nothing came for a while");
    assert_eq!(
        under.sequenced(A, 1, true, BEGIN),
        missing,
        "it was begun with again"
    );
    under.sequenced(A, 3, false, END);
    assert_eq!(
        under.sequenced(A, 1, true, BEGIN),
        [request(0, 20)],
        "it is whole"
    );
}

#[test]
fn a_message_that_is_too_large_is_left_out_and_does_not_hold_up_the_next() {
    let mut under = Under::with(ConsumerSettings {
        window: 20,
        message_bytes_max: 16,
        ..ConsumerSettings::default()
    });
    under.sequenced(A, 1, true, BEGIN);
    under.sequenced(A, 2, false, MIDDLE);
    under.sequenced(A, 3, false, MIDDLE);
    let dropped = ConsumerOutput::Dropped { producer: A, seq: 4 };
    assert_eq!(under.sequenced(A, 4, false, END), [dropped, request(4, 20)]);
    assert_eq!(under.message(5), [deliver(5)]);
}

#[test]
fn settings_out_of_range_are_refused() {
    for spoil in [
        |s: &mut ConsumerSettings| s.window = 0,
        |s: &mut ConsumerSettings| s.window = ConsumerSettings::WINDOW_MAX + 1,
        |s: &mut ConsumerSettings| s.resend_min = Duration::ZERO,
        |s: &mut ConsumerSettings| s.resend_max = Duration::from_millis(1),
        |s: &mut ConsumerSettings| s.message_bytes_max = 0,
    ] {
        let mut settings = ConsumerSettings::default();
        spoil(&mut settings);
        assert!(ConsumerController::<u8>::new(settings).is_err());
    }
}

proptest! {
    /// Whatever comes in whatever order, the user gets every number once and in order, and what waits is
    /// bounded.
    #[test]
    fn numbers_are_delivered_in_order_and_once(
        events in prop::collection::vec((1_u64..40, any::<bool>()), 1..300),
        window in 1_u64..12,
    ) {
        let mut under = Under::new(window);
        let mut next = 1;
        let mut pending = None;
        for (seq, confirms) in events {
            let mut out = under.message(seq);
            if let (true, Some(seq)) = (confirms, pending) {
                pending = None;
                out.extend(under.confirm(seq));
            }
            for output in out {
                if let ConsumerOutput::Deliver { seq, .. } = output {
                    prop_assert_eq!(seq, next);
                    prop_assert_eq!(pending.replace(seq), None);
                    next += 1;
                }
            }
            let waiting = under.consumer.source.as_ref().map_or(0, |source| source.ready.len());
            prop_assert!(waiting as u64 <= window);
        }
    }
}

#[test]
fn a_message_of_parts_may_have_exactly_as_many_bytes_as_one_may_have() {
    let mut under = Under::with(ConsumerSettings {
        window: 20,
        message_bytes_max: 16,
        ..ConsumerSettings::default()
    });
    under.sequenced(A, 1, true, BEGIN);
    let whole: Payload = (1..=2_u64).flat_map(u64::to_le_bytes).collect();
    let delivered = ConsumerOutput::Deliver {
        producer: A,
        seq: 2,
        payload: whole,
    };
    assert_eq!(under.sequenced(A, 2, false, END), [delivered]);
}
