//! The laws of the merge on histories of three nodes that change, gossip and remove: commutative,
//! associative, idempotent, inflationary, on members, reachability, tombstones and the clock after tombstone
//! pruning; `seen` is outside. Spec: membership 8.4.

use super::{m, n};
use crate::ident::UniqueAddress;
use crate::membership::state::gossip::Gossip;
use crate::membership::state::member::{Member, Status, UpNumber};
use crate::membership::state::merge::{merge, with_merged_seen};
use crate::membership::state::reachability::{ReachabilityRecord, ReachabilityStatus};
use crate::membership::state::vector_clock::{ClockOrder, VectorClock};
use crate::ordered::OrderedSet;
use alloc::vec::Vec;
use proptest::prelude::*;

const NAMES: [&str; 6] = ["a", "b", "c", "d", "d#2", "e"];
/// The nodes whose states are kept; each writes only its own reachability rows and clock entry.
const WRITERS: usize = 4;

#[derive(Clone, Debug)]
enum Op {
    Join(usize),
    Status(usize, usize),
    Number(usize, u32),
    Observe(usize, ReachabilityStatus),
    Remove(usize),
    Receive(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let who = 0..NAMES.len();
    prop_oneof![
        2 => who.clone().prop_map(Op::Join),
        4 => (who.clone(), 0..Status::ALL.len() - 1).prop_map(|(who, status)| Op::Status(who, status)),
        1 => (who.clone(), 1..5_u32).prop_map(|(who, number)| Op::Number(who, number)),
        4 => (who.clone(), prop_oneof![Just(ReachabilityStatus::Unreachable), Just(ReachabilityStatus::Reachable), Just(ReachabilityStatus::Terminated)])
            .prop_map(|(who, status)| Op::Observe(who, status)),
        1 => who.prop_map(Op::Remove),
        3 => (0..WRITERS).prop_map(Op::Receive),
    ]
}

fn apply(states: &mut [Gossip], writer: usize, op: &Op) {
    let me = n(NAMES[writer]);
    if let Op::Receive(from) = op {
        states[writer] = merge(&states[writer], &states[*from]);
        return;
    }
    let gossip = &mut states[writer];
    if !gossip.contains(&me) {
        return;
    }
    match op {
        Op::Join(who) if !gossip.contains(&n(NAMES[*who])) => {
            gossip.upsert_member(Member {
                status: Status::Joining,
                up_number: UpNumber::NONE,
                ..m(NAMES[*who])
            });
        }
        Op::Status(who, status) => {
            let (node, status) = (n(NAMES[*who]), Status::ALL[*status]);
            if gossip
                .member(&node)
                .is_some_and(|member| member.status.allows(status))
            {
                gossip.set_status(&node, status);
            }
        }
        Op::Number(who, number) => {
            let node = n(NAMES[*who]);
            // A number is given once; a second one on another branch is smaller or larger.
            if gossip
                .member(&node)
                .is_some_and(|member| !member.up_number.is_assigned())
            {
                gossip.set_up_number(&node, UpNumber::new(*number));
            }
        }
        Op::Observe(who, status) => {
            let node = n(NAMES[*who]);
            if gossip.contains(&node) && node != me {
                gossip.reachability_mut().change(&me, &node, *status);
            }
        }
        Op::Remove(who) if n(NAMES[*who]) != me => {
            gossip.remove(&n(NAMES[*who]));
        }
        Op::Join(_) | Op::Remove(_) | Op::Receive(_) => {}
    }
    gossip.stamp(&me, true, 0);
}

/// States of several nodes after a common start and a history of changes and merges.
fn states() -> impl Strategy<Value = Vec<Gossip>> {
    prop::collection::vec((0..WRITERS, op()), 0..40).prop_map(|history| {
        let mut start = Gossip::new();
        for writer in &NAMES[..WRITERS] {
            start.upsert_member(m(writer));
        }
        start.stamp(&n("a"), true, 0);
        let mut states = alloc::vec![start; WRITERS];
        for (writer, op) in &history {
            apply(&mut states, *writer, op);
        }
        states
    })
}

/// What the laws are about.
#[derive(Debug, PartialEq)]
struct Core<'a> {
    members: &'a [Member],
    rows: &'a [ReachabilityRecord],
    tombstones: &'a OrderedSet<UniqueAddress>,
    version: &'a VectorClock,
}

fn core_of(gossip: &Gossip) -> Core<'_> {
    Core {
        members: gossip.members(),
        rows: gossip.reachability().records(),
        tombstones: gossip.tombstones(),
        version: gossip.version(),
    }
}

/// Whether `after` lost nothing that `before` knew.
fn contains(after: &Gossip, before: &Gossip) -> bool {
    let members = before.members().iter().all(|old| {
        after.tombstones().contains(&old.node)
            || after
                .member(&old.node)
                .is_some_and(|new| new.status >= old.status && new.up_number <= old.up_number)
    });
    let mut clock = before.version().clone();
    clock.retain(|node| !after.tombstones().contains(node));
    let versions = before
        .reachability()
        .versions()
        .iter()
        .all(|(observer, version)| {
            after.tombstones().contains(observer) || after.reachability().version_of(observer) >= *version
        });
    members
        && versions
        && before.tombstones().is_subset(after.tombstones())
        && matches!(
            clock.compare(after.version()),
            ClockOrder::Same | ClockOrder::Before
        )
}

proptest! {
    #[test]
    fn merge_is_commutative_idempotent_and_loses_nothing(states in states()) {
        for a in &states {
            let twice = merge(a, a);
            prop_assert_eq!(core_of(&twice), core_of(a));
            for b in &states {
                let both = merge(a, b);
                prop_assert_eq!(&both, &merge(b, a));
                prop_assert_eq!(both.check_invariants(), Ok(()));
                prop_assert!(contains(&both, a) && contains(&both, b));
                let again = merge(&both, a);
                prop_assert_eq!(core_of(&again), core_of(&both));
            }
        }
    }

    #[test]
    fn merge_is_associative(states in states()) {
        for a in &states {
            for b in &states {
                for c in &states {
                    let (left, right) = (merge(&merge(a, b), c), merge(a, &merge(b, c)));
                    prop_assert_eq!(core_of(&left), core_of(&right));
                    prop_assert_eq!(left.reachability().versions(), right.reachability().versions());
                }
            }
        }
    }

    /// Equal clocks do not prove equal states: a change by an incarnation that others remove before they hear
    /// of it has no clock entry any more. Such states must merge instead of passing for each other.
    #[test]
    fn states_of_one_clock_end_up_as_one_state(states in states()) {
        for a in &states {
            for b in &states {
                if a.version().compare(b.version()) == ClockOrder::Same {
                    let (both, expected) = (with_merged_seen(a, b), merge(a, b));
                    prop_assert_eq!(core_of(&both), core_of(&expected));
                    prop_assert_eq!(both.check_invariants(), Ok(()));
                    prop_assert!(both.seen_count() == 0 || core_of(&both) == core_of(b));
                }
            }
        }
    }
}
