//! What a lease keeper has to show: [`crate::lease_conformance`]. Spec: membership 3.6, reliability I-26.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use quorate_core::ident::{Address, UniqueAddress};
use quorate_driver::lease::LeaseKeeper;

/// How long leases of these tests live. A keeper whose shortest time to live is longer cannot pass.
pub const LEASE_TIME_TO_LIVE: Duration = Duration::from_secs(2);

const NAME: &str = "conformance/sbr 1";

/// How many ask at once, and how often.
const ASKERS: u64 = 4;
const ROUNDS: u64 = 25;

fn node(uid: u64) -> UniqueAddress {
    let address = Address::new("host", 7355).expect("invariant: a legal address");
    UniqueAddress::new(address, uid)
}

fn acquire(keeper: &dyn LeaseKeeper, uid: u64) -> Option<u64> {
    let answer = keeper.acquire(NAME, &node(uid), LEASE_TIME_TO_LIVE);
    answer.expect("the keeper can be asked")
}

fn renew(keeper: &dyn LeaseKeeper, uid: u64, token: u64) -> bool {
    let answer = keeper.renew(NAME, &node(uid), token);
    answer.expect("the keeper can be asked")
}

fn release(keeper: &dyn LeaseKeeper, uid: u64) {
    let answer = keeper.release(NAME, &node(uid));
    answer.expect("the keeper can be asked");
}

/// The second who asks is refused; the holder is granted it again, with the same token.
pub fn one_holder_at_a_time(keeper: &dyn LeaseKeeper, _pass: &dyn Fn(Duration)) {
    let token = acquire(keeper, 1).expect("a free lease is granted");
    assert_eq!(acquire(keeper, 2), None);
    assert_eq!(acquire(keeper, 1), Some(token));
    assert_eq!(acquire(keeper, 2), None);
}

/// Only its holder gives it back; the next one gets a larger token, and so does the same one.
pub fn a_lease_given_back_is_free_and_its_token_grows(keeper: &dyn LeaseKeeper, _pass: &dyn Fn(Duration)) {
    let first = acquire(keeper, 1).expect("a free lease is granted");
    release(keeper, 2);
    assert_eq!(acquire(keeper, 2), None, "only its holder gives it back");
    release(keeper, 1);
    release(keeper, 1);
    assert!(!renew(keeper, 1, first));
    let second = acquire(keeper, 2).expect("it was given back");
    assert!(second > first);
    release(keeper, 2);
    assert!(acquire(keeper, 2).expect("it was given back") > second);
}

/// A lease that nobody renews is free after its time to live; who held it is told so and cannot take it back.
pub fn a_stopped_holder_does_not_block_for_ever_and_a_resumed_one_has_lost_it(
    keeper: &dyn LeaseKeeper,
    pass: &dyn Fn(Duration),
) {
    let first = acquire(keeper, 1).expect("a free lease is granted");
    pass(LEASE_TIME_TO_LIVE / 2);
    assert_eq!(acquire(keeper, 2), None);
    pass(LEASE_TIME_TO_LIVE / 2 + LEASE_TIME_TO_LIVE / 10);
    assert!(!renew(keeper, 1, first), "nobody renews what has expired");
    let second = acquire(keeper, 2).expect("the holder was silent for its time to live");
    assert!(second > first);
    assert!(!renew(keeper, 1, first));
    release(keeper, 1);
    assert_eq!(acquire(keeper, 1), None);
    assert!(renew(keeper, 2, second));
}

/// A lease lives as long as it is renewed.
pub fn renewing_keeps_a_lease(keeper: &dyn LeaseKeeper, pass: &dyn Fn(Duration)) {
    let token = acquire(keeper, 1).expect("a free lease is granted");
    for _ in 0..4 {
        pass(LEASE_TIME_TO_LIVE / 2);
        assert!(renew(keeper, 1, token));
        assert_eq!(acquire(keeper, 2), None);
    }
}

/// An incarnation renews with the token it was granted, or not at all.
pub fn a_token_shown_by_another_holder_renews_nothing(keeper: &dyn LeaseKeeper, _pass: &dyn Fn(Duration)) {
    let token = acquire(keeper, 1).expect("a free lease is granted");
    assert!(!renew(keeper, 2, token), "another incarnation of the address");
    assert!(!renew(keeper, 1, token + 1));
    assert!(renew(keeper, 1, token));
}

/// Two names are two leases.
pub fn leases_of_different_names_do_not_meet(keeper: &dyn LeaseKeeper, _pass: &dyn Fn(Duration)) {
    assert!(acquire(keeper, 1).is_some());
    for other in ["conformance/sbr", "conformance/sbr 1.1", "conformance/sbr 12"] {
        let answer = keeper.acquire(other, &node(2), LEASE_TIME_TO_LIVE);
        assert!(answer.expect("the keeper can be asked").is_some(), "{other}");
    }
}

/// Threads that ask at the same moment: one gets it, and no token is given out twice.
pub fn one_of_many_who_ask_at_once_gets_the_lease(keeper: &dyn LeaseKeeper, _pass: &dyn Fn(Duration)) {
    let mut tokens = BTreeSet::new();
    for round in 0..ROUNDS {
        let granted: Vec<(u64, u64)> = thread::scope(|scope| {
            let ask = |uid: u64| scope.spawn(move || acquire(keeper, uid).map(|token| (uid, token)));
            let askers: Vec<_> = (1..=ASKERS).map(|asker| ask(round * ASKERS + asker)).collect();
            let answers = askers.into_iter().map(|asker| asker.join());
            answers
                .filter_map(|answer| answer.expect("no keeper panics"))
                .collect()
        });
        assert_eq!(granted.len(), 1, "round {round}: {granted:?}");
        for (uid, token) in granted {
            assert!(tokens.last() < Some(&token), "tokens grow");
            tokens.insert(token);
            release(keeper, uid);
        }
    }
}
