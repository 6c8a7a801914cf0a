//! Where a shard is and why.

use super::*;
use crate::sharding::protocol::survey::DECISIONS_MAX;

fn there(placement: Placement) -> Message {
    let placement = Some(placement);
    Message::Sharding(ShardingMsg::Survey(SurveyMsg::There { id: 4, placement }))
}

fn sent(placement: Placement, limits: &Limits) -> Result<Vec<u8>, WireError> {
    let mut bytes = Vec::new();
    encode_message(&there(placement), 7, limits, &mut bytes).map(|()| bytes)
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

#[test]
fn as_many_decisions_are_told_as_a_coordinator_remembers() {
    let all = |count| Placement {
        decided: (0..count as u64)
            .map(|at_ms| Decided {
                at_ms,
                decision: ShardDecision::Unanswered,
            })
            .collect(),
        ..Placement::default()
    };
    let most = all(DECISIONS_MAX);
    assert_eq!(heard(&sent(most.clone(), &Limits::default()).unwrap()), most);
    let too_many = sent(all(DECISIONS_MAX + 1), &Limits::default());
    assert_eq!(too_many, Err(WireError::Unencodable { what: "decided" }));
}

#[test]
fn what_nobody_says_is_refused() {
    let read = |decided: &[u8]| {
        let head = [&[4][..], &4_u64.to_le_bytes(), &[1, 0, 0, 0, 0]].concat();
        decode_message(
            0x0105,
            Lane::Control,
            &[&head, decided].concat(),
            &Limits::default(),
        )
    };
    assert!(read(&[0]).is_ok());
    let unanswered = [&[0; 8][..], &[8]].concat();
    assert!(read(&[&[1][..], &unanswered].concat()).is_ok());
    assert_eq!(
        read(&[&[9][..], &unanswered.repeat(9)].concat()),
        Err(WireError::LimitExceeded { what: "decided" })
    );
    let address = [&[1, b'a'][..], &7_u16.to_le_bytes()].concat();
    for (why, is_known) in [(0, false), (1, true), (12, true), (13, false)] {
        let decided = [&[1][..], &[0; 8], &[7], &address, &[why]].concat();
        assert_eq!(read(&decided).is_ok(), is_known, "{why}");
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
    assert!(sent(fits, &limits).is_ok());
}
