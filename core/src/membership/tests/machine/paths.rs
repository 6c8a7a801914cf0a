//! The table of paths in the gossip, and the members that it keeps Leaving. Spec: sharding 10.17 k, M-437.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::{Rig, n, secs, state, versioned};
use crate::ident::Role;
use crate::membership::state::gossip::Gossip;
use crate::paths::state::name::PathName;
use crate::paths::state::options::HandoffOptions;
use crate::paths::state::settings::PathSettings;
use crate::paths::state::table::{MoveStatus, PathEntry, PathEpoch, PathRecord, PathTable, SlotMove};

/// A table of one path with one slot, which `host` runs and which may be moving.
fn table(counter: u64, role: Option<&str>, host: Option<&str>, change: Option<SlotMove>) -> Arc<PathTable> {
    let name = PathName::new("shop").unwrap();
    let settings = PathSettings {
        role: role.map(|role| Role::new(role).unwrap()),
        ..PathSettings::new(name.clone())
    };
    let entry = PathEntry {
        name,
        record: PathRecord {
            epoch: epoch(counter),
            settings: Some(Arc::new(settings)),
            scale: 0,
            hosts: Vec::from([host.map(n)]),
        },
        moves: Vec::from([change]),
    };
    Arc::new(PathTable::new(counter, None, Vec::from([Arc::new(entry)])).unwrap())
}

fn epoch(counter: u64) -> PathEpoch {
    PathEpoch {
        counter,
        leader: n("a"),
    }
}

fn from_b_to_c(status: MoveStatus) -> Option<SlotMove> {
    Some(SlotMove {
        id: epoch(2),
        status,
        from: Some(n("b")),
        to: Some(n("c")),
        options: HandoffOptions::ORDERED,
    })
}

fn with_table(mut gossip: Gossip, table: Arc<PathTable>) -> Gossip {
    gossip.set_paths(table);
    gossip
}

/// `a` leads; `b` has just become Leaving with what the table says.
fn leader_of(leaving: Gossip, table: Arc<PathTable>) -> Rig {
    let mut rig = Rig::member("a", with_table(state("a b c", "a b c", "a"), Arc::clone(&table)));
    rig.gossip("b", &versioned(&with_table(leaving, table), "a b"));
    rig.told();
    rig
}

fn b_leaves() -> Gossip {
    state("a bL c", "a b c", "")
}

#[test]
fn m_437_a_leaving_member_stays_so_while_a_slot_or_a_move_names_it() {
    let tables = [
        (table(1, None, Some("b"), None), "a bL c"),
        (
            table(2, None, Some("b"), from_b_to_c(MoveStatus::Awaiting)),
            "a bL c",
        ),
        (
            table(2, None, Some("b"), from_b_to_c(MoveStatus::Settled)),
            "a bL c",
        ),
        (
            table(3, None, Some("c"), from_b_to_c(MoveStatus::Applied)),
            "a bX c",
        ),
    ];
    for (table, expected) in tables {
        let mut rig = leader_of(b_leaves(), Arc::clone(&table));
        rig.leader_tick();
        assert_eq!(rig.members(), expected, "{table:?}");
    }
}

#[test]
fn m_437_the_gate_opens_with_the_last_move() {
    let mut rig = leader_of(
        b_leaves(),
        table(2, None, Some("b"), from_b_to_c(MoveStatus::Complete)),
    );
    rig.leader_tick();
    assert_eq!(rig.members(), "a bL c");
    let over = table(3, None, Some("c"), from_b_to_c(MoveStatus::Applied));
    rig.gossip("c", &versioned(&with_table(b_leaves(), over), "a b c"));
    rig.leader_tick();
    assert_eq!(rig.members(), "a bX c");
    assert!(!rig.told().contains("not-handed-over"));
}

#[test]
fn a_member_that_has_not_handed_over_in_time_is_let_go_and_named() {
    let mut rig = leader_of(b_leaves(), table(1, None, Some("b"), None));
    let limit = rig.f.config.paths.exit_timeout;
    rig.run(limit - Duration::from_millis(1));
    rig.leader_tick();
    assert_eq!(rig.members(), "a bL c");
    assert!(!rig.told().contains("not-handed-over"));
    rig.run(secs(2));
    rig.leader_tick();
    assert_eq!(rig.members(), "a bX c");
    assert!(rig.told().contains("not-handed-over(b)"));
}

#[test]
fn nobody_is_waited_for_where_nobody_can_take_over() {
    // The others leave too, or have not the path's role.
    let all_leave = state("aL bL cL", "a b c", "");
    let mut rig = leader_of(all_leave, table(1, None, Some("b"), None));
    rig.leader_tick();
    assert_eq!(rig.members(), "aX bX cX");
    let mut rig = leader_of(b_leaves(), table(1, Some("store"), Some("b"), None));
    rig.leader_tick();
    assert_eq!(rig.members(), "a bX c");
    assert!(!rig.told().contains("not-handed-over"));
}

#[test]
fn what_is_written_of_paths_is_a_change_of_the_state_if_it_adds_anything() {
    let mut rig = Rig::member("a", state("a b", "a b", "a"));
    let written = table(1, None, Some("b"), None);
    rig.call(|m, cx| m.on_paths_written(cx, &written));
    assert_eq!((rig.seen().as_str(), rig.clock("a")), ("a", 2));
    assert_eq!(rig.m.gossip.paths(), &written);
    rig.did();
    rig.call(|m, cx| m.on_paths_written(cx, &written));
    assert_eq!((rig.clock("a"), rig.did().as_str()), (2, ""), "nothing new");
    for gone in ["aD b", "aX b"] {
        let mut state = state(gone, "a b", "a");
        state.mark_gone(&n("a"));
        let mut rig = Rig::member("a", state);
        rig.call(|m, cx| m.on_paths_written(cx, &written));
        assert_eq!(rig.clock("a"), 1, "{gone}: it has no part in it");
    }
}
