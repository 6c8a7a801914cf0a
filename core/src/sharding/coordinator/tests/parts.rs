//! Registrations in parts: what a coordinator makes of them while it recovers.

use super::*;
use crate::sharding::protocol::ListPart;

/// The second member of a cluster of two, whose shards take two parts.
fn recovering() -> Rig {
    let mut rig = Rig::on(a(), 64);
    rig.view(&[(a(), Status::Up), (b(), Status::Up)]);
    rig.register(&a(), &[]);
    assert_eq!(rig.phase(), Some(CoordinatorPhase::Recovering));
    rig
}

impl Rig {
    fn part(&mut self, list: u64, index: u16, hosted: &[u32]) -> Vec<Effect> {
        self.part_of(&b(), (list, index), hosted)
    }

    fn part_of(&mut self, from: &UniqueAddress, (list, index): (u64, u16), hosted: &[u32]) -> Vec<Effect> {
        let said = RegionRegistration {
            fields: KindFields::of(&self.coordinator.kind.settings),
            hosted: hosted.iter().copied().map(ShardId).collect(),
            draining: false,
        };
        let part = ListPart {
            list,
            index,
            count: 2,
        };
        self.act(|coordinator, cx| coordinator.on_register_part(cx, from, part, said))
    }

    fn homed(&self) -> Vec<u32> {
        self.coordinator
            .places
            .homes()
            .map(|(shard, _)| shard.0)
            .collect()
    }
}

fn acknowledged(effects: &[Effect]) -> bool {
    let ack = says(b(), ShardingBody::RegisterAck { term: term() });
    effects.contains(&ack)
}

#[test]
fn nothing_is_given_away_before_the_last_part_has_come() {
    let mut rig = recovering();
    assert_eq!(rig.part(1, 0, &[1, 2]), vec![]);
    assert_eq!(
        (rig.homed(), rig.phase()),
        (vec![], Some(CoordinatorPhase::Recovering))
    );
    assert!(acknowledged(&rig.part(1, 1, &[7])));
    assert_eq!(
        (rig.homed(), rig.phase()),
        (vec![1, 2, 7], Some(CoordinatorPhase::Active))
    );
}

#[test]
fn a_lost_part_leaves_the_region_silent_until_it_registers_again() {
    let mut rig = recovering();
    assert_eq!(rig.part(1, 1, &[7]), vec![]);
    assert_eq!(rig.phase(), Some(CoordinatorPhase::Recovering));
    assert_eq!(rig.fixture.stats.sharding.registration_parts_dropped, 1);
    rig.part(2, 0, &[1, 2]);
    assert!(acknowledged(&rig.part(2, 1, &[7])));
    assert_eq!(rig.homed(), [1, 2, 7]);
}

#[test]
fn a_newer_registration_counts_and_the_rest_of_an_older_one_does_not() {
    let mut rig = recovering();
    rig.part(1, 0, &[1, 2]);
    rig.part(2, 0, &[3]);
    assert_eq!(rig.part(1, 1, &[9]), vec![]);
    assert!(acknowledged(&rig.part(2, 1, &[4])));
    assert_eq!(rig.homed(), [3, 4]);
}

#[test]
fn a_part_that_another_term_has_heard_does_not_count_in_this_one() {
    let mut rig = recovering();
    rig.part(1, 0, &[1, 2]);
    rig.act(Coordinator::halt);
    rig.act(Coordinator::consider_takeover);
    rig.register(&a(), &[]);
    assert_eq!(rig.part(1, 1, &[7]), vec![]);
    assert_eq!(
        (rig.homed(), rig.phase()),
        (vec![], Some(CoordinatorPhase::Recovering))
    );
}

#[test]
fn parts_of_a_node_that_is_removed_are_forgotten() {
    let mut rig = recovering();
    rig.part(1, 0, &[1, 2]);
    rig.removed.push(b());
    rig.view(&[(a(), Status::Up)]);
    assert_eq!(rig.part(1, 1, &[7]), vec![]);
    rig.removed.clear();
    rig.view(&[(a(), Status::Up), (b(), Status::Up)]);
    assert_eq!(rig.part(1, 1, &[7]), vec![]);
    assert_eq!(rig.homed(), []);
}

#[test]
fn parts_of_one_that_is_no_member_or_for_nobodys_coordinator_are_not_looked_at() {
    let mut rig = recovering();
    assert_eq!(rig.part_of(&c(), (1, 1), &[7]), vec![]);
    assert_eq!(rig.fixture.stats.sharding.registration_parts_dropped, 0);
    let mut rig = Rig::on(c(), 64);
    rig.view(&[(a(), Status::Up), (b(), Status::Up), (c(), Status::Up)]);
    assert_eq!(rig.part(1, 1, &[7]), vec![], "a is the oldest");
    assert_eq!(rig.fixture.stats.sharding.registration_parts_dropped, 0);
}
