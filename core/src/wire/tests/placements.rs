//! Where a shard is and why, to those who know of wishes and to those who do not.

use super::*;
use crate::sharding::protocol::survey::{DECISIONS_MAX, PLAIN_DECISIONS_MAX};
use crate::wire::handshake::FEATURE_WISHES;

fn there(placement: Placement) -> Message {
    let placement = Some(placement);
    Message::Sharding(ShardingMsg::Survey(SurveyMsg::There { id: 4, placement }))
}

fn sent(placement: Placement, features: u64) -> Result<Vec<u8>, WireError> {
    let mut bytes = Vec::new();
    let limits = Limits::default();
    let written = Encoder::new().encode_for(features, &there(placement), 7, &limits, &mut bytes);
    written.map(|()| bytes)
}

fn heard(bytes: &[u8]) -> Placement {
    match message_of(bytes) {
        Ok(Message::Sharding(ShardingMsg::Survey(SurveyMsg::There {
            placement: Some(placement),
            ..
        }))) => placement,
        other => panic!("{other:?}"),
    }
}

/// A decision that every version knows.
fn found(at_ms: u64) -> Decided {
    let home = crate::fixture::node("a", 9);
    let decision = ShardDecision::Found { home };
    Decided { at_ms, decision }
}

#[test]
fn who_does_not_know_of_wishes_is_told_the_rest() {
    let plain = placement();
    assert_eq!(sent(plain.clone(), 0), sent(plain, FEATURE_WISHES), "as ever");
    let whole = Placement {
        home: Some(crate::fixture::node("b", 9)),
        is_moving: true,
        ..wished_placement()
    };
    assert_eq!(heard(&sent(whole.clone(), FEATURE_WISHES).unwrap()), whole);
    let moves = whole.decided[2].clone();
    assert!(matches!(moves.decision, ShardDecision::Moves { .. }));
    let rest = Placement {
        may_run_twice: false,
        wish: None,
        decided: vec![moves],
        ..whole.clone()
    };
    assert_eq!(heard(&sent(whole, 0).unwrap()), rest);
}

#[test]
fn who_knows_of_five_decisions_is_told_the_last_five_that_it_knows() {
    let all = |count| Placement {
        decided: (0..count as u64).map(found).collect(),
        ..Placement::default()
    };
    let most = all(DECISIONS_MAX);
    let last: Vec<u64> = heard(&sent(most.clone(), 0).unwrap())
        .decided
        .iter()
        .map(|decided| decided.at_ms)
        .collect();
    assert_eq!(last, [3, 4, 5, 6, 7]);
    assert_eq!(heard(&sent(most.clone(), FEATURE_WISHES).unwrap()), most);
    let too_many = sent(all(DECISIONS_MAX + 1), FEATURE_WISHES);
    assert_eq!(too_many, Err(WireError::Unencodable { what: "decisions" }));
    let five = all(PLAIN_DECISIONS_MAX);
    assert_eq!(sent(five.clone(), FEATURE_WISHES), sent(five, 0));
}

#[test]
fn what_could_be_said_plainly_and_what_nobody_says_is_refused() {
    let read = |body: &[u8]| {
        let limits = Limits::default();
        decode_message(0x0105, Lane::Control, body, &limits)
    };
    let body = |tag: u8, rest: &[u8]| [&[tag][..], &4_u64.to_le_bytes(), rest].concat();
    // Nothing known, not moving, and then: no wish, no decisions.
    assert!(read(&body(4, &[1, 0, 0, 0])).is_ok());
    let plain = read(&body(6, &[0, 0, 0, 0, 0]));
    assert_eq!(plain, Err(WireError::Malformed { what: "placement" }));
    // Both sides would run it.
    assert!(read(&body(6, &[0, 0, 1, 0, 0])).is_ok());
    let unanswered = [&[0; 8][..], &[8]].concat();
    let said = |head: &[u8], count: u8, decided: &[u8]| [head, &[count], decided].concat();
    assert!(read(&body(6, &said(&[0, 0, 0, 0], 1, &unanswered))).is_ok());
    assert_eq!(
        read(&body(4, &said(&[1, 0, 0], 1, &unanswered))),
        Err(WireError::Malformed { what: "decision" }),
        "who says 4 says what every version knows"
    );
    let nine = unanswered.repeat(9);
    assert_eq!(
        read(&body(6, &said(&[0, 0, 0, 0], 9, &nine))),
        Err(WireError::Malformed {
            what: "count of decisions"
        })
    );
    let address = [&[1, b'a'][..], &7_u16.to_le_bytes()].concat();
    for (why, is_known) in [(0, false), (1, true), (12, true), (13, false)] {
        let decided = [&[0; 8][..], &[7], &address, &[why]].concat();
        let read = read(&body(6, &said(&[0, 0, 0, 0], 1, &decided)));
        assert_eq!(read.is_ok(), is_known, "{why}");
    }
}

#[test]
fn an_answer_that_fits_no_frame_leaves_out_the_oldest_decisions() {
    let long = crate::fixture::node(&"h".repeat(128), 9);
    let decided = (0..DECISIONS_MAX as u64).map(|at_ms| Decided {
        at_ms,
        decision: ShardDecision::Stays { home: long.clone() },
    });
    let whole = Placement {
        home: Some(long.clone()),
        is_moving: true,
        may_run_twice: true,
        wish: Some(Wish {
            at: long.address().clone(),
            by: Some(long.clone()),
            since_ms: 1,
        }),
        decided: decided.collect(),
    };
    let mut all = whole.clone();
    all.fit(usize::MAX);
    assert_eq!(all, whole);
    // As small as a frame may be.
    let most = 1_024;
    let mut fits = whole;
    fits.fit(most - 64);
    let kept: Vec<u64> = fits.decided.iter().map(|decided| decided.at_ms).collect();
    assert_eq!(kept, [5, 6, 7]);
    let limits = Limits {
        control_frame_bytes_max: most,
        ..Limits::default()
    };
    let written = Encoder::new().encode_for(FEATURE_WISHES, &there(fits), 7, &limits, &mut Vec::new());
    assert_eq!(written, Ok(()));
}
