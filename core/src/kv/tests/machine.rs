//! What callers get while nothing is lost, while ranges move, and while owners and coordinators come and go.

use alloc::vec::Vec;
use alloc::{format, vec};
use core::time::Duration;

use super::world::{World, carts, change, get, key, put, settings, values};
use crate::effect::{Answer as AnyAnswer, CommandError};
use crate::kv::hosting::BucketStore;
use crate::kv::protocol::ranges::{RangeCommand, RangeCommandError, RangeEvent};
use crate::kv::protocol::{BucketBody, Event, KvCommandError, RangeStatement};
use crate::kv::state::clock::VersionClock;
use crate::kv::state::exchange::{KvAsk, KvChange};
use crate::kv::state::level::Level;
use crate::kv::state::outcome::{CallAnswer, CallError, CallGoal};
use crate::kv::state::table::RangeId;
use crate::membership::state::member::Status;

const SECOND: Duration = Duration::from_secs(1);

fn keys() -> Vec<alloc::string::String> {
    (0..40).map(|number| format!("key {number}")).collect()
}

fn delete(context: VersionClock) -> CallGoal {
    CallGoal::Write {
        change: KvChange::Delete,
        context,
        level: Level::Quorum,
    }
}

#[test]
fn ranges_are_given_when_there_are_as_many_stores_as_copies() {
    let mut world = World::new(2);
    world.open([0, 1]);
    let lead = world.peers[0].machine.lead(&carts()).unwrap();
    assert!(lead.is_active());
    assert_eq!(lead.table().entries().len(), 0);
    let third = world.start();
    world.see();
    world.open([third]);
    for range in 0..8 {
        let mut owners = world.owners(0, RangeId(range));
        owners.sort_unstable();
        let mut stores = [0, 1, 2].map(|index| world.store(index));
        stores.sort_unstable();
        assert_eq!(owners, stores);
    }
    assert!(world.peers.iter().all(|peer| peer.rejections == 0));
}

#[test]
fn a_key_is_put_read_and_deleted_from_any_member() {
    let mut world = World::new(5);
    world.open(0..5);
    assert!(world.get(4, "a").is_empty());
    world.put(4, "a", "1");
    for index in 0..5 {
        assert_eq!(values(&world.get(index, "a")), ["1"]);
    }
    world.put(2, "a", "2");
    assert_eq!(values(&world.get(0, "a")), ["2"]);
    let context = world.get(1, "a").siblings.clock().clone();
    world.call(1, "a", delete(context)).unwrap();
    assert_eq!(values(&world.get(3, "a")), [] as [&str; 0]);
}

#[test]
fn two_blind_puts_are_siblings_and_one_context_overwrites_both() {
    let mut world = World::new(3);
    world.open(0..3);
    let blind = |value| put(value, VersionClock::new());
    world.call(0, "a", blind("1")).unwrap();
    world.call(0, "a", blind("2")).unwrap();
    let found = world.get(1, "a");
    let mut both = values(&found);
    both.sort_unstable();
    assert_eq!(both, ["1", "2"]);
    let context = found.siblings.clock().clone();
    world.call(2, "a", put("3", context)).unwrap();
    assert_eq!(values(&world.get(0, "a")), ["3"]);
}

#[test]
fn of_conditional_puts_that_name_one_version_one_takes_effect() {
    let mut world = World::new(5);
    world.open(0..5);
    let first = CallGoal::Conditional {
        expected: None,
        change: change("0"),
    };
    let Ok(CallAnswer::Decided(version)) = world.call(0, "a", first) else {
        panic!("nobody else was there")
    };
    let next = |value: &str| CallGoal::Conditional {
        expected: Some(version),
        change: change(value),
    };
    let tokens: Vec<u64> = (0..5)
        .map(|index| world.begin(index, "a", next(&format!("{index}"))))
        .collect();
    world.run(SECOND * 11);
    let answers = tokens.iter().enumerate();
    let answers: Vec<_> = answers
        .map(|(index, token)| world.called(index, *token).unwrap())
        .collect();
    let decided = |answer: &&Result<CallAnswer, CallError>| matches!(answer, Ok(CallAnswer::Decided(_)));
    assert_eq!(answers.iter().filter(decided).count(), 1, "{answers:?}");
    let winner = answers.iter().position(|answer| decided(&answer)).unwrap();
    let present = answers[winner].clone().map(|answer| match answer {
        CallAnswer::Decided(version) => Some(version),
        _ => None,
    });
    let present = present.unwrap();
    for (index, answer) in answers.iter().enumerate().filter(|(index, _)| *index != winner) {
        assert_eq!(*answer, Ok(CallAnswer::Conflict { present }), "{index}");
    }
    assert_eq!(values(&world.get(4, "a")), [format!("{winner}")]);
    let ordinary = world.call(0, "a", put("9", VersionClock::new()));
    assert_eq!(ordinary, Err(CallError::Conditional));
}

#[test]
fn a_call_waits_for_the_bucket_and_one_that_was_never_opened_is_refused() {
    let mut world = World::new(3);
    let early = world.begin(0, "a", get());
    let refused = AnyAnswer::Refused(CommandError::Kv(KvCommandError::NotOpen));
    assert_eq!(world.peers[0].answers.get(&early), Some(&refused));
    for index in 0..3 {
        world.open_as(index, settings());
    }
    let waiting = world.begin(2, "a", put("1", VersionClock::new()));
    assert_eq!(world.called(2, waiting), None);
    world.run(SECOND * 5);
    assert!(matches!(
        world.called(2, waiting),
        Some(Ok(CallAnswer::Written(_)))
    ));
}

#[test]
fn ranges_move_to_a_newcomer_and_nothing_is_lost() {
    let mut world = World::new(3);
    world.open(0..3);
    for name in keys() {
        world.put(0, &name, &name);
    }
    let fourth = world.start();
    world.see();
    world.open([fourth]);
    let mut rounds = 0;
    while world.peers[fourth]
        .machine
        .bucket(&carts())
        .unwrap()
        .store()
        .unwrap()
        .ranges()
        .len()
        < 6
    {
        rounds += 1;
        assert!(rounds < 100, "nothing moves");
        for name in keys() {
            assert_eq!(values(&world.get(rounds % 4, &name)), [name.as_str()]);
        }
    }
    world.run(SECOND * 30);
    let own = world.store(fourth);
    let owned = (0..8).filter(|range| world.owners(0, RangeId(*range)).contains(&own));
    assert_eq!(owned.count(), 6, "24 copies on 4 stores");
    for name in keys() {
        assert_eq!(values(&world.get(1, &name)), [name.as_str()]);
    }
    assert!(world.peers.iter().all(|peer| peer.rejections == 0));
}

#[test]
fn puts_during_moves_are_read_after_them() {
    let mut world = World::new(4);
    world.open(0..4);
    for round in 0..12 {
        let range = RangeId(round % 8);
        let owners = world.owners(0, range);
        let stores: Vec<_> = (0..4).map(|index| world.store(index)).collect();
        let spare = stores.iter().find(|store| !owners.contains(store));
        if let Some(to) = spare {
            let from = owners[usize::from(round) % owners.len()];
            let done = world.command_ranges(0, RangeCommand::Move { range, from, to: *to });
            assert_eq!(done, Ok(()));
        }
        for (index, name) in keys().iter().enumerate() {
            world.put(index % 4, name, &format!("{name} in round {round}"));
        }
    }
    let ended = |event: &&Event| matches!(event, Event::Ranges(RangeEvent::MoveEnded { .. }));
    assert!(world.peers[0].events.iter().filter(ended).count() >= 8);
    for name in keys() {
        assert_eq!(values(&world.get(3, &name)), [format!("{name} in round 11")]);
    }
}

#[test]
fn an_owner_that_crashes_is_replaced_and_nothing_is_lost() {
    let mut world = World::new(4);
    world.open(0..4);
    for name in keys() {
        world.put(1, &name, &name);
    }
    let lost = world.store(3);
    world.kill(3);
    world.lose_sight_of(3);
    for name in keys() {
        assert_eq!(values(&world.get(2, &name)), [name.as_str()]);
    }
    world.remove(3);
    world.run(SECOND * 60);
    for range in 0..8 {
        let owners = world.owners(0, RangeId(range));
        assert!(owners.len() == 3 && !owners.contains(&lost), "{range} {owners:?}");
    }
    for name in keys() {
        assert_eq!(values(&world.get(0, &name)), [name.as_str()]);
    }
}

#[test]
fn a_new_coordinator_finds_the_table_in_the_middle_of_a_move() {
    let mut world = World::new(5);
    world.open(0..5);
    for name in keys() {
        world.put(1, &name, &name);
    }
    // Nothing of what newcomers are sent arrives.
    world.lose = |body| matches!(body, BucketBody::Ranges(RangeStatement::Refuses { .. }));
    let range = RangeId(0);
    let owners = world.owners(0, range);
    let stores: Vec<_> = (0..5).map(|index| world.store(index)).collect();
    let to = *stores.iter().find(|store| !owners.contains(store)).unwrap();
    let gone = world.store(0);
    let from = *owners.iter().find(|store| **store != gone).unwrap();
    world
        .command_ranges(0, RangeCommand::Move { range, from, to })
        .unwrap();
    world.run(SECOND);
    let begun = |event: &Event| matches!(event, Event::Ranges(RangeEvent::MoveBegun { .. }));
    assert!(world.peers[0].events.iter().any(begun));
    world.kill(0);
    world.lose_sight_of(0);
    world.remove(0);
    world.lose = |_| false;
    world.peers[1].events.clear();
    world.run(SECOND * 60);
    let lead = world.peers[1].machine.lead(&carts()).unwrap();
    assert!(lead.is_active());
    assert_eq!(lead.table().entries().len(), 8);
    for range in 0..8 {
        let owners = world.owners(1, RangeId(range));
        assert!(owners.len() == 3 && !owners.contains(&gone), "{range} {owners:?}");
    }
    for name in keys() {
        assert_eq!(values(&world.get(2, &name)), [name.as_str()]);
        world.put(3, &name, "after");
        assert_eq!(values(&world.get(4, &name)), ["after"]);
    }
}

#[test]
fn what_was_deleted_or_has_expired_is_forgotten_by_all_owners_after_the_grace() {
    let mut world = World::new(4);
    world.open(0..4);
    let held = |world: &World, name: &str| {
        let stores = world
            .peers
            .iter()
            .map(|peer| peer.machine.bucket(&carts()).unwrap().store().unwrap());
        let ranges = stores.flat_map(|store| store.ranges());
        ranges
            .filter(|(_, held)| held.entry(&key(name)).is_some())
            .count()
    };
    world.put(0, "stays", "1");
    world.put(0, "goes", "1");
    let short = CallGoal::Write {
        change: KvChange::Put {
            bytes: b"1"[..].into(),
            ttl_ms: Some(2_000),
        },
        context: VersionClock::new(),
        level: Level::Quorum,
    };
    world.call(1, "ends", short).unwrap();
    let context = world.get(1, "goes").siblings.clock().clone();
    // One owner does not hear of it, and gets it when it turns out that it holds something else.
    world.lose = |body| match body {
        BucketBody::Ask(asked) => {
            matches!(asked.ask, KvAsk::Merge(_)) && asked.store == asked.configuration.owners.sets().0[2]
        }
        _ => false,
    };
    world.call(1, "goes", delete(context.clone())).unwrap();
    world.run(SECOND * 10);
    world.lose = |_| false;
    assert_eq!(values(&world.get(2, "ends")), [] as [&str; 0]);
    assert_eq!((held(&world, "goes"), held(&world, "ends")), (3, 3));
    world.run(SECOND * 100);
    assert_eq!((held(&world, "goes"), held(&world, "ends")), (0, 0));
    assert_eq!(
        (
            held(&world, "stays"),
            world.get(3, "stays").siblings.values().count()
        ),
        (3, 1)
    );
    // What is put again has dots that nobody has seen.
    world.call(2, "goes", put("2", context)).unwrap();
    assert_eq!(values(&world.get(0, "goes")), ["2"]);
    assert!(world.peers.iter().all(|peer| peer.machine.keys_ending() == 0));
}

#[test]
fn a_leaving_member_hands_over_its_ranges_if_others_can_have_them() {
    let mut world = World::new(5);
    world.open(0..5);
    for name in keys() {
        world.put(1, &name, &name);
    }
    // The coordinator itself leaves.
    let own = world.store(0);
    world.see_as(|index| if index == 0 { Status::Leaving } else { Status::Up });
    world.with(0, |machine, cx| machine.on_drain_requested(cx));
    assert!(!world.peers[0].is_drained);
    world.run(SECOND * 30);
    assert!(world.peers[0].is_drained);
    for range in 0..8 {
        assert!(!world.owners(0, RangeId(range)).contains(&own));
    }
    world.kill(0);
    world.remove(0);
    world.run(SECOND * 5);
    for name in keys() {
        assert_eq!(values(&world.get(2, &name)), [name.as_str()]);
    }
    let mut few = World::new(3);
    few.open(0..3);
    few.see_as(|index| if index == 1 { Status::Leaving } else { Status::Up });
    few.with(1, |machine, cx| machine.on_drain_requested(cx));
    assert!(few.peers[1].is_drained, "nobody else can have them");
}

#[test]
fn a_range_that_is_repaired_has_all_copies_of_what_some_owners_lack() {
    let mut world = World::new(3);
    world.open(0..3);
    // The third node's store hears of nothing that others made.
    world.cut.insert((0, 2));
    for name in keys() {
        world.put(0, &name, &name);
    }
    world.run(SECOND * 12);
    world.cut.clear();
    let held = |world: &World| {
        let store = world.peers[2].machine.bucket(&carts()).unwrap().store().unwrap();
        store
            .ranges()
            .map(|(_, held)| held.entries().len())
            .sum::<usize>()
    };
    world.run(SECOND * 12);
    assert!(held(&world) < 40, "nobody reads them");
    for range in (0..8).map(RangeId) {
        assert_eq!(world.command_ranges(0, RangeCommand::Repair { range }), Ok(()));
    }
    world.run(SECOND * 10);
    assert_eq!(held(&world), 40);
}

#[test]
fn the_next_oldest_member_coordinates_also_a_bucket_that_it_has_not_opened() {
    let mut world = World::new(6);
    // The second oldest has not.
    world.open([0, 2, 3, 4, 5]);
    for name in keys() {
        world.put(2, &name, &name);
    }
    let gone = world.store(0);
    world.kill(0);
    world.remove(0);
    world.run(SECOND * 60);
    assert!(world.peers[1].machine.lead(&carts()).unwrap().is_active());
    for range in 0..8 {
        assert!(!world.owners(1, RangeId(range)).contains(&gone));
    }
    for name in keys() {
        assert_eq!(values(&world.get(3, &name)), [name.as_str()]);
    }
}

#[test]
fn commands_about_ranges_are_taken_where_they_are_coordinated() {
    let mut world = World::new(3);
    world.open(0..3);
    let lost = world.store(2);
    let replace = RangeCommand::Replace { lost };
    let elsewhere = world.command_ranges(1, replace);
    assert_eq!(elsewhere, Err(RangeCommandError::NotCoordinating.into()));
    assert_eq!(
        world.command_ranges(0, replace),
        Err(RangeCommandError::NotAway.into())
    );
}

#[test]
fn a_level_that_cannot_be_met_ends_in_time_and_says_how_many_have_it() {
    let mut world = World::new(3);
    world.open(0..3);
    for index in [1, 2] {
        world.kill(index);
    }
    let one = CallGoal::Write {
        change: change("1"),
        context: VersionClock::new(),
        level: Level::One,
    };
    assert!(matches!(world.call(0, "a", one), Ok(CallAnswer::Written(_))));
    let quorum = world.call(0, "a", put("2", VersionClock::new()));
    assert_eq!(quorum, Err(CallError::Timeout { acknowledged: 1 }));
    let weak = CallGoal::Get { level: Level::One };
    let Ok(CallAnswer::Found(found)) = world.call(0, "a", weak) else {
        panic!("one owner is there")
    };
    assert_eq!(values(&found), vec!["1", "2"], "what was written stays");
    let none = CallGoal::Get {
        level: Level::Replicas(4),
    };
    assert!(matches!(world.call(0, "a", none), Err(CallError::Level(_))));
}

#[test]
fn i_75_what_is_answered_after_a_call_s_time_makes_it_send_nothing_more() {
    let mut world = World::new(4);
    world.open(0..4);
    let own = world.store(3);
    let is_elsewhere = |name: &alloc::string::String| {
        let range = settings().range_of(&key(name));
        !world.owners(0, range).contains(&own)
    };
    let name = keys().into_iter().find(is_elsewhere).unwrap();
    let token = world.begin(3, &name, put("1", VersionClock::new()));
    // An owner says as whom it makes versions, then has made one when the process that asked stands still.
    world.run(Duration::from_millis(3));
    for peer in &mut world.peers {
        peer.fixture.now.mono = peer.fixture.now.mono + SECOND * 20;
    }
    world.run(SECOND);
    let timeout = Err(CallError::Timeout { acknowledged: 0 });
    assert_eq!(world.called(3, token), Some(timeout));
    let stores = world
        .peers
        .iter()
        .map(|peer| peer.machine.bucket(&carts()).unwrap().store().unwrap());
    let holds = |store: &BucketStore| store.ranges().any(|(_, held)| held.entry(&key(&name)).is_some());
    assert_eq!(stores.filter(|store| holds(store)).count(), 1);
}

#[test]
fn who_restarts_with_an_empty_store_is_no_owner_of_what_was_its_own() {
    let mut world = World::new(3);
    world.open(0..3);
    // The second owner does not hear of it.
    world.cut.extend([(0, 1), (1, 0)]);
    world.call(0, "a", put("1", VersionClock::new())).unwrap();
    let before = world.store(2);
    world.kill(2);
    world.remove(2);
    let back = world.restart(2);
    world.see();
    world.open_as(back, settings());
    world.run(SECOND * 3);
    assert_ne!(
        world.store(back),
        before,
        "its address says nothing of what it holds"
    );
    world.cut.extend([(0, back), (back, 0)]);
    match world.call(back, "a", get()) {
        Ok(CallAnswer::Found(entry)) => assert_eq!(values(&entry), ["1"]),
        Ok(other) => panic!("unexpected {other:?}"),
        Err(_) => {}
    }
}
