//! Owners that compare what they hold, and one that was away for longer than deletions are remembered.

use core::time::Duration;

use super::durable::{durable, opened};
use super::world::{World, carts, put, values};
use crate::kv::hosting::BucketStore;
use crate::kv::protocol::BucketBody;
use crate::kv::protocol::trees::TreeStatement;
use crate::kv::state::exchange::KvChange;
use crate::kv::state::level::Level;
use crate::kv::state::node::MerkleNode;
use crate::kv::state::outcome::CallGoal;

const SECOND: Duration = Duration::from_secs(1);

fn store_at(world: &World, index: usize) -> &BucketStore {
    world.peers[index]
        .machine
        .bucket(&carts())
        .unwrap()
        .store()
        .unwrap()
}

fn held(world: &World, index: usize) -> usize {
    store_at(world, index)
        .ranges()
        .map(|(_, held)| held.entries().len())
        .sum()
}

fn roots(world: &World, index: usize) -> alloc::vec::Vec<u64> {
    let ranges = store_at(world, index).ranges();
    ranges
        .map(|(_, held)| held.replica().tree().sum(MerkleNode::ROOT))
        .collect()
}

/// Three nodes of which the last one hears of no key for twelve seconds, and that many keys.
fn with_one_that_lacks(keys: usize) -> World {
    let mut world = World::new(3);
    world.open(0..3);
    world.cut.insert((0, 2));
    for at in 0..keys {
        world.put(0, &alloc::format!("key-{at}"), "value");
    }
    world.run(SECOND * 12);
    world.cut.clear();
    world
}

#[test]
fn i_74_owners_find_out_by_themselves_what_they_lack() {
    let mut world = with_one_that_lacks(600);
    assert!(held(&world, 2) < 600);
    world.run(SECOND * 65);
    assert_eq!(held(&world, 2), 600);
    assert_eq!(roots(&world, 0), roots(&world, 2));
    let repaired = store_at(&world, 2).keys_repaired();
    let counters = &world.peers[2].fixture.stats.kv;
    assert_eq!(counters.keys_repaired, repaired);
    assert!(repaired > 0 && counters.leaves_differing > 0);
    // From then on nothing differs, and nothing is sent.
    let before = *counters;
    world.lose = |body| match body {
        BucketBody::Trees(said) => match **said {
            TreeStatement::Fetch { .. } => panic!("nothing differs"),
            _ => false,
        },
        _ => false,
    };
    world.run(SECOND * 130);
    let after = world.peers[2].fixture.stats.kv;
    assert!(after.trees_compared >= before.trees_compared + 2 * 8 * 2);
    assert_eq!(after.keys_repaired, before.keys_repaired);
}

#[test]
fn a_comparison_without_an_answer_is_given_up_and_comes_again() {
    let mut world = with_one_that_lacks(5);
    world.lose = |body| match body {
        BucketBody::Trees(said) => matches!(**said, TreeStatement::Held { .. }),
        _ => false,
    };
    world.run(SECOND * 65);
    assert!(held(&world, 2) < 5);
    world.lose = |_| false;
    world.run(SECOND * 65);
    assert_eq!(held(&world, 2), 5);
    assert!(world.peers.iter().all(|peer| peer.rejections == 0));
}

#[test]
fn i_75_an_owner_that_was_away_for_longer_than_the_grace_catches_up_before_it_serves() {
    let mut world = opened(3);
    let first = world.put(0, "a", "1");
    world.put(0, "b", "1");
    world.run(SECOND * 5);
    world.kill(2);
    world.lose_sight_of(2);
    world.remove(2);
    // While it is away the first key is deleted, and the second one changes.
    let gone = CallGoal::Write {
        change: KvChange::Delete,
        context: first,
        level: Level::Quorum,
    };
    world.call(0, "a", gone).unwrap();
    let context = world.get(1, "b").siblings.clock().clone();
    world.call(1, "b", put("2", context)).unwrap();
    world.run(SECOND * 60);
    let back = world.restart(2);
    // Nobody answers what it asks about trees.
    world.lose = |body| matches!(body, BucketBody::Trees(_));
    world.see();
    world.open_as(back, durable());
    world.run(SECOND * 5);
    assert!(store_at(&world, back).is_behind());
    let all = |level| CallGoal::Get { level };
    assert!(
        world.call(0, "b", all(Level::All)).is_err(),
        "it answers no reads"
    );
    assert_eq!(values(&world.get(0, "b")), ["2"], "a quorum of the others does");
    world.lose = |_| false;
    world.run(SECOND * 15);
    assert!(!store_at(&world, back).is_behind());
    assert!(world.call(0, "b", all(Level::All)).is_ok());
    assert_eq!(values(&world.get(back, "a")), [] as [&str; 0]);
    // Once it has caught up what was deleted is forgotten.
    world.run(SECOND * 100);
    assert_eq!(held(&world, 0), 1);
    assert_eq!(values(&world.get(back, "a")), [] as [&str; 0]);
}

#[test]
fn all_owners_that_were_away_at_once_catch_up_with_each_other() {
    let mut world = opened(3);
    world.put(0, "a", "1");
    world.run(SECOND * 5);
    for index in 0..3 {
        world.kill(index);
        world.forget(index);
    }
    let late = world.now() + SECOND * 60;
    for peer in &mut world.peers {
        peer.fixture.now.mono = late;
        peer.fixture.now.unix_ms += 60_000;
    }
    // One of them never comes back.
    for index in 0..2 {
        world.restart(index);
    }
    world.see();
    for index in 3..5 {
        world.open_as(index, durable());
    }
    world.run(SECOND * 10);
    assert!((3..5).all(|index| !store_at(&world, index).is_behind()));
    assert_eq!(values(&world.get(4, "a")), ["1"]);
}
