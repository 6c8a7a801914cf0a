//! Where shards begin while a member is unreachable that nobody has removed. Spec: sharding 10.23.

use super::*;
use crate::sharding::allocation::AllocationSettings;
use crate::sharding::protocol::{AllocationAnswer, AllocationDecided, AllocationQuestion};

const MEMBERS: fn() -> [(UniqueAddress, Status); 3] =
    || [(a(), Status::Up), (b(), Status::Up), (c(), Status::Up)];

/// Where these shards go, each asked for by `a`.
fn homes(rig: &mut Rig, shards: core::ops::Range<u32>) -> Vec<UniqueAddress> {
    let homes = shards.map(|shard| {
        rig.asks_home(&a(), ShardId(shard));
        rig.coordinator.places.home(ShardId(shard)).cloned().unwrap()
    });
    homes.collect()
}

#[test]
fn s_10_23_a_new_shard_begins_where_it_is_served() {
    let mut rig = Rig::active();
    assert_eq!(homes(&mut rig, 0..3), [a(), b(), c()]);
    rig.view_with(&MEMBERS(), &[c()]);
    assert_eq!(homes(&mut rig, 3..8), [a(), b(), a(), b(), a()]);
    assert_eq!(
        rig.coordinator.places.home(ShardId(2)),
        Some(&c()),
        "what has begun stays until its node is removed"
    );
    rig.view(&MEMBERS());
    assert_eq!(homes(&mut rig, 8..10), [c(), c()], "it has the fewest");
}

#[test]
fn where_nobody_is_reached_a_shard_has_a_home_all_the_same() {
    let mut rig = Rig::active();
    rig.act(|coordinator, cx| coordinator.on_graceful_shutdown(cx, &a()));
    rig.view_with(&MEMBERS(), &[b(), c()]);
    assert_eq!(homes(&mut rig, 0..2), [b(), c()]);
}

#[test]
fn a_strategy_of_the_application_is_asked_about_who_is_reached_and_heeded_no_further() {
    let mut rig = Rig::active();
    rig.coordinator.kind.settings.allocation = Some(AllocationSettings::Asked("own".into()));
    rig.view_with(&MEMBERS(), &[c()]);
    let effects = rig.asks_home(&a(), ShardId(7));
    let mut asked = effects.into_iter().filter_map(|effect| match effect {
        Effect::Allocate(question) => Some(*question),
        _ => None,
    });
    let AllocationQuestion { number, regions, .. } = asked.next().unwrap();
    let nodes: Vec<&UniqueAddress> = regions.iter().map(|region| &region.node).collect();
    assert_eq!(nodes, [&a(), &b()]);
    let decided = AllocationDecided::Homes(vec![(ShardId(7), c())]);
    let kind = rig.coordinator.kind.id;
    let answer = AllocationAnswer {
        kind,
        number,
        decided,
    };
    rig.act(|coordinator, cx| coordinator.on_allocation_answer(cx, answer));
    assert_eq!(rig.coordinator.places.home(ShardId(7)), Some(&a()));
}
