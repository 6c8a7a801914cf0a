//! What a store has to show that several machines share: [`crate::shared_store_conformance`]. Spec: sharding
//! 10.7.

use quorate_core::store::{LogState, StoreAnswer, StoreError, StoreOrder};
use quorate_driver::store::Store;

use super::stores::{
    Reopen, append, get, log, one, open_log, opened, put, read_log, records, token, value, written,
};

/// For stores that several machines share: logs are everybody's and follow the token, keys are each node's
/// own, and who was started again at the same place is refused what its earlier life still tries.
pub fn logs_follow_the_token_between_machines_and_keys_stay_at_home(
    here: Reopen<'_>,
    there: Reopen<'_>,
    again_here: Reopen<'_>,
) {
    let (mut here, mut there) = (opened(here), opened(there));
    written(&[
        one(&mut *here, &put("k", b"here")),
        one(&mut *there, &put("k", b"there")),
    ]);
    assert_eq!(one(&mut *here, &get("k")), value(b"here"));
    assert!(one(&mut *here, &open_log(1)).is_ok());
    assert_eq!(
        one(&mut *here, &append(1, 0, &["a"])),
        Ok(StoreAnswer::Appended { last: 1 })
    );
    let state = LogState {
        first: 1,
        last: 1,
        snapshot: None,
    };
    assert_eq!(one(&mut *there, &open_log(2)), Ok(StoreAnswer::Opened(state)));
    assert_eq!(
        one(&mut *here, &append(1, 1, &["stale"])),
        Err(StoreError::Fenced { held: token(2) })
    );
    assert_eq!(
        one(&mut *there, &append(2, 1, &["b"])),
        Ok(StoreAnswer::Appended { last: 2 })
    );
    let expected = [(1, 1, "a".to_owned()), (2, 2, "b".to_owned())];
    assert_eq!(records(one(&mut *here, &read_log(0))), expected);

    let mut again = opened(again_here);
    written(&[one(&mut *again, &put("k", b"again"))]);
    let late = one(&mut *here, &put("k", b"late"));
    assert!(
        late.is_err_and(StoreError::is_refusal),
        "an earlier life of the node writes nothing"
    );
    assert_eq!(one(&mut *again, &get("k")), value(b"again"));
}

/// Two that take the same token at the same moment: one is refused. Two that append behind the same end: one
/// is refused.
pub fn of_two_that_race_one_is_refused(here: Reopen<'_>, there: Reopen<'_>) {
    let (mut here, mut there) = (opened(here), opened(there));
    for round in 1..=20 {
        let ask = |store: &mut Box<dyn Store>, opener| {
            let open = StoreOrder::Open {
                log: log(),
                token: token(round),
                opener,
            };
            let append = append(round, round - 1, &["x"]);
            let opened = one(&mut **store, &open);
            (
                opened.is_ok(),
                opened.is_ok() && one(&mut **store, &append).is_ok(),
            )
        };
        let (left, right) = std::thread::scope(|scope| {
            let left = scope.spawn(|| ask(&mut here, 1));
            let right = ask(&mut there, 2);
            (left.join().expect("no store panics"), right)
        });
        assert_ne!(left.0, right.0, "round {round}: one opens");
        assert_ne!(left.1, right.1, "round {round}: one appends");
    }
    assert_eq!(records(one(&mut *here, &read_log(0))).len(), 20);
}
