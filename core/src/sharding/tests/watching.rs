//! Watches over a small cluster: who hears of which end, once, whatever is lost, moves, sleeps or dies in
//! between.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::*;
use crate::effect::{Answer, CommandError, ShardingAnswer, ShardingCommandError};
use crate::ident::UniqueAddress;
use crate::input::{HostReport, ShardingCommand, Token};
use crate::ordered::{OrderedMap, OrderedSet};
use crate::sharding::passivation::PassivationSettings;
use crate::sharding::protocol::watch::{TerminationReason, WatchId, WatchMsg, WatchStatement, WatchTarget};
use crate::sharding::state::ids::Slot;

impl World {
    /// Watches with this number, which is the token too.
    fn watch(&mut self, at: usize, id: u64, entity: &EntityId) {
        let entity = entity.clone();
        self.watch_target(at, id, WatchTarget::Entity { kind: kind(), entity });
    }

    fn watch_target(&mut self, at: usize, watch: WatchId, target: WatchTarget) {
        self.with(at, |peer| {
            let command = ShardingCommand::Watch { watch, target };
            peer.sharding.on_command(&mut peer.fixture.cx(), watch, command);
        });
    }

    fn unwatch(&mut self, at: usize, watch: WatchId) {
        self.with(at, |peer| {
            let command = ShardingCommand::Unwatch { watch };
            peer.sharding.on_command(&mut peer.fixture.cx(), 9_999, command);
        });
    }

    /// What a node's watches have ended with, in order.
    fn ends(&self, at: usize) -> Vec<(Token, TerminationReason)> {
        let ends = self.peers[at].terminated.iter();
        let ends = ends.map(|(token, answer)| match answer {
            Answer::Sharding(ShardingAnswer::Terminated(why)) => (*token, *why),
            other => panic!("{other:?}"),
        });
        ends.collect()
    }

    fn runs_on(&self, entity: &EntityId) -> Option<(usize, Slot)> {
        let live = self.peers.iter().enumerate().filter(|(_, peer)| peer.alive);
        let mut found =
            live.flat_map(|(at, peer)| peer.running.iter().map(move |(slot, id)| (at, *slot, id)));
        found
            .find(|(_, _, id)| *id == entity)
            .map(|(at, slot, _)| (at, slot))
    }

    /// An entity ends by itself.
    fn end(&mut self, entity: &EntityId, failed: bool) {
        let (at, slot) = self.runs_on(entity).expect("it runs");
        self.with(at, |peer| {
            peer.running.remove(&slot);
            let why = if failed {
                HostReport::Failed { slot }
            } else {
                HostReport::Ending { slot, forget: false }
            };
            for report in [why, HostReport::Stopped { slot }] {
                peer.sharding.on_report(&mut peer.fixture.cx(), report);
            }
        });
    }

    fn passivate(&mut self, entity: &EntityId) {
        let (at, slot) = self.runs_on(entity).expect("it runs");
        self.with(at, |peer| {
            let report = HostReport::Passivate { slot };
            peer.sharding.on_report(&mut peer.fixture.cx(), report);
        });
    }

    fn all_running(workers: usize, others: usize) -> Self {
        let mut world = Self::formed(workers, others);
        world.touch_all(workers + others - 1);
        world
    }

    fn home_of(&self, entity: &EntityId) -> usize {
        self.runs_on(entity).expect("it runs").0
    }
}

#[test]
fn whoever_watches_an_entity_hears_once_that_it_stopped_or_failed() {
    for (failed, why) in [
        (false, TerminationReason::Stopped),
        (true, TerminationReason::Failed),
    ] {
        let mut world = World::all_running(3, 1);
        let entity = entity_in(5);
        for at in 0..4 {
            world.watch(at, 1, &entity);
            world.watch(at, 2, &entity_in(6));
        }
        world.end(&entity, failed);
        world.run_for(secs(30));
        for at in 0..4 {
            assert_eq!(
                world.ends(at),
                [(1, why)],
                "from node {at}, its own home included"
            );
        }
        world.tell(3, &entity, "begin again");
        world.end(&entity, failed);
        assert_eq!(world.ends(0).len(), 1, "that was another one");
    }
}

#[test]
fn an_entity_that_does_not_run_is_gone() {
    let mut world = World::all_running(3, 1);
    world.watch(3, 1, &EntityId::from("never began"));
    assert_eq!(world.ends(3), [(1, TerminationReason::NotRunning)]);
    world.end(&entity_in(5), false);
    world.watch(3, 2, &entity_in(5));
    assert_eq!(
        world.ends(3)[1..],
        [(2, TerminationReason::NotRunning)],
        "gone before"
    );
}

#[test]
fn a_passivated_entity_has_not_ended_and_its_watch_hears_of_a_later_incarnation() {
    let mut world = World::all_running(3, 1);
    let entity = entity_in(5);
    world.watch(3, 1, &entity);
    world.passivate(&entity);
    assert_eq!(world.runs_on(&entity), None);
    world.watch(2, 7, &entity);
    world.run_for(secs(60));
    assert_eq!((world.ends(3), world.ends(2)), (Vec::new(), Vec::new()));
    world.tell(3, &entity, "again");
    world.end(&entity, false);
    assert_eq!(world.ends(3), [(1, TerminationReason::Stopped)]);
    assert_eq!(
        world.ends(2),
        [(7, TerminationReason::Stopped)],
        "known to be passivated"
    );
}

#[test]
fn a_watch_follows_an_entity_that_moves() {
    let mut world = World::all_running(2, 2);
    let entity = entity_in(5);
    let (home, other) = (world.home_of(&entity), 1 - world.home_of(&entity));
    world.watch(2, 1, &entity);
    world.watch(other, 1, &entity);
    world.with(home, |peer| {
        let (kind, timeout) = (kind(), None);
        let command = ShardingCommand::ShutDownRegion { kind, timeout };
        peer.sharding.on_command(&mut peer.fixture.cx(), 77, command);
    });
    world.run_for(secs(30));
    assert_eq!(
        (world.ends(2), world.ends(other)),
        (Vec::new(), Vec::new()),
        "a mere move"
    );
    assert_eq!(
        world.peers[other].sharding.open_watches(),
        (1, 2),
        "kept at the new home"
    );
    assert_eq!(world.peers[home].sharding.open_watches(), (0, 0));
    world.tell(3, &entity, "begin at the new home");
    assert_eq!(world.home_of(&entity), other);
    world.end(&entity, true);
    assert_eq!(world.ends(2), [(1, TerminationReason::Failed)]);
    assert_eq!(world.ends(other), [(1, TerminationReason::Failed)]);
}

#[test]
fn i_53_a_watch_that_comes_to_the_new_home_after_the_end_hears_of_that_end() {
    for begins_again in [false, true] {
        let mut world = World::all_running(2, 2);
        let (entity, asleep) = (entity_in(5), world::nth_entity_in(5, 1));
        world.tell(3, &asleep, "begin");
        let (home, other) = (world.home_of(&entity), 1 - world.home_of(&entity));
        world.watch(2, 1, &entity);
        world.watch(2, 2, &asleep);
        world.lose = |message| matches!(message, Message::Sharding(ShardingMsg::Watch(_)));
        world.with(home, |peer| {
            let (kind, timeout) = (kind(), None);
            let command = ShardingCommand::ShutDownRegion { kind, timeout };
            peer.sharding.on_command(&mut peer.fixture.cx(), 77, command);
        });
        world.run_for(secs(5));
        world.tell(3, &entity, "begin at the new home");
        assert_eq!(world.home_of(&entity), other);
        world.end(&entity, true);
        if begins_again {
            world.tell(3, &entity, "begin once more");
        }
        world.lose = |_| false;
        world.run_for(secs(30));
        assert_eq!(
            world.ends(2),
            [(1, TerminationReason::Failed)],
            "the other one has moved, and has not begun"
        );
        // A shard that has come anew knows of nothing that ended before.
        world.tell(3, &entity, "begin");
        world.watch(2, 3, &entity);
        world.register(home, true);
        world.with(other, |peer| {
            let (kind, timeout) = (kind(), None);
            let command = ShardingCommand::ShutDownRegion { kind, timeout };
            peer.sharding.on_command(&mut peer.fixture.cx(), 78, command);
        });
        world.run_for(secs(30));
        world.register(other, true);
        world.with(home, |peer| {
            let (kind, timeout) = (kind(), None);
            let command = ShardingCommand::ShutDownRegion { kind, timeout };
            peer.sharding.on_command(&mut peer.fixture.cx(), 79, command);
        });
        world.run_for(secs(30));
        assert_eq!(world.ends(2).len(), 1, "it has moved twice, and back");
        assert_eq!(world.peers[other].sharding.open_watches().1, 2);
    }
}

#[test]
fn a_home_that_is_killed_ends_its_entities_at_its_removal() {
    let mut world = World::all_running(3, 1);
    let entity = entity_in(5);
    let home = world.home_of(&entity);
    world.watch(3, 1, &entity);
    world.crash(&[home]);
    world.suspect(&[home]);
    world.run_for(secs(30));
    world.set(&[(home, Status::Down)]);
    assert_eq!(world.ends(3), [], "it may be back, or run on");
    world.remove(&[home]);
    assert_eq!(world.ends(3), [(1, TerminationReason::NodeRemoved)]);
}

#[test]
fn a_home_that_leaves_hands_its_watches_over() {
    let mut world = World::all_running(3, 1);
    for shard in 0..SHARDS {
        world.watch(3, u64::from(shard), &entity_in(shard));
    }
    world.set(&[(1, Status::Leaving)]);
    world.drain(1);
    assert!(world.peers[1].drained);
    world.set(&[(1, Status::Exiting)]);
    world.remove(&[1]);
    world.run_for(secs(30));
    assert_eq!(world.ends(3), []);
    world.touch_all(3);
    for shard in 0..SHARDS {
        world.end(&entity_in(shard), false);
    }
    assert_eq!(world.ends(3).len(), 12);
}

#[test]
fn a_node_that_leaves_waits_a_moment_for_its_last_words_to_be_heard() {
    let mut world = World::all_running(3, 1);
    let entity = entity_in(5);
    let home = world.home_of(&entity);
    world.watch(3, 1, &entity);
    world.lose = |message| matches!(message, Message::Sharding(ShardingMsg::Watch(_)));
    world.end(&entity, false);
    world.set(&[(home, Status::Leaving)]);
    world.drain(home);
    assert!(!world.peers[home].drained, "somebody has to hear something");
    world.lose = |_| false;
    world.run_for(secs(1));
    assert_eq!(world.ends(3), [(1, TerminationReason::Stopped)]);
    assert!(world.peers[home].drained);
}

#[test]
fn a_node_that_leaves_does_not_wait_for_ever_for_who_does_not_listen() {
    let mut world = World::all_running(3, 1);
    let entity = entity_in(5);
    let home = world.home_of(&entity);
    world.watch(3, 1, &entity);
    world.lose = |message| matches!(message, Message::Sharding(ShardingMsg::Watch(_)));
    world.end(&entity, false);
    world.set(&[(home, Status::Leaving)]);
    world.drain(home);
    assert!(!world.peers[home].drained);
    world.run_for(secs(3));
    assert!(world.peers[home].drained);
}

#[test]
fn a_node_that_leaves_has_no_last_words_for_one_that_was_removed() {
    let mut world = World::all_running(3, 1);
    let entity = entity_in(5);
    let home = world.home_of(&entity);
    world.watch(3, 1, &entity);
    world.crash(&[3]);
    world.end(&entity, false);
    world.crash_and_remove(&[3]);
    world.set(&[(home, Status::Leaving)]);
    world.drain(home);
    assert!(world.peers[home].drained);
}

#[test]
fn an_end_is_told_until_it_is_heard_and_heard_once() {
    let mut world = World::all_running(3, 1);
    let entity = entity_in(5);
    world.watch(3, 1, &entity);
    let home = world.home_of(&entity);
    world.cut.insert((home, 3));
    world.end(&entity, false);
    world.run_for(secs(10));
    assert_eq!(world.ends(3), []);
    world.cut.clear();
    // Now its answers are lost: it hears the same again and again.
    world.cut.insert((3, home));
    world.run_for(secs(10));
    world.cut.clear();
    world.run_for(secs(10));
    assert_eq!(world.ends(3), [(1, TerminationReason::Stopped)]);
    let stats = world.peers[3].fixture.stats.iter();
    let repeated = stats
        .into_iter()
        .find(|(name, _)| *name == "sharding_watch_statements_repeated");
    assert!(repeated.is_some_and(|(_, count)| count > 0), "{repeated:?}");
}

#[test]
fn an_escalation_ends_all_entities_of_the_shard() {
    let mut world = World::all_running(3, 1);
    let entity = entity_in(5);
    world.watch(3, 1, &entity);
    world.watch(3, 2, &entity_in(6));
    let (at, slot) = world.runs_on(&entity).unwrap();
    world.with(at, |peer| {
        let report = HostReport::Escalated { slot };
        peer.sharding.on_report(&mut peer.fixture.cx(), report);
    });
    assert_eq!(world.ends(3), [(1, TerminationReason::Failed)]);
}

#[test]
fn who_begins_to_watch_one_that_is_about_to_end_hears_how_it_does() {
    let mut world = World::all_running(3, 1);
    let (failing, escalating) = (entity_in(5), entity_in(6));
    for (id, entity, report) in [
        (
            1,
            &failing,
            (|slot| HostReport::Failed { slot }) as fn(Slot) -> HostReport,
        ),
        (2, &escalating, |slot| HostReport::Escalated { slot }),
    ] {
        let (at, slot) = world.runs_on(entity).unwrap();
        world.with(at, |peer| {
            peer.sharding.on_report(&mut peer.fixture.cx(), report(slot));
        });
        world.watch(3, id, entity);
        assert_eq!(world.ends(3).len() as u64, id - 1, "it has not ended yet");
        world.with(at, |peer| {
            peer.running.remove(&slot);
            peer.sharding
                .on_report(&mut peer.fixture.cx(), HostReport::Stopped { slot });
        });
        assert_eq!(world.ends(3).last(), Some(&(id, TerminationReason::Failed)));
    }
}

#[test]
fn an_escalation_in_a_shard_that_goes_elsewhere_ends_one_entity() {
    let mut world = World::all_running(2, 1);
    let (over, other) = (entity_in(5), world::nth_entity_in(5, 1));
    world.tell(2, &other, "begin");
    let (home, slot) = world.runs_on(&over).unwrap();
    world.watch(2, 1, &over);
    world.watch(2, 2, &other);
    world.peers[home].stubborn = true;
    world.with(home, |peer| {
        let (kind, timeout) = (kind(), Some(secs(2)));
        let command = ShardingCommand::ShutDownRegion { kind, timeout };
        peer.sharding.on_command(&mut peer.fixture.cx(), 77, command);
    });
    world.with(home, |peer| {
        peer.running.remove(&slot);
        for report in [HostReport::Escalated { slot }, HostReport::Stopped { slot }] {
            peer.sharding.on_report(&mut peer.fixture.cx(), report);
        }
    });
    world.run_for(secs(30));
    assert_eq!(world.ends(2), [(1, TerminationReason::Failed)]);
}

#[test]
fn nobody_says_that_nobody_hosts_while_somebody_joins_who_may() {
    for status in [Status::Joining, Status::Up] {
        let mut world = World::new(1, 1);
        world.set(&[(0, Status::Joining), (1, status)]);
        world.watch(1, 1, &entity_in(5));
        world.run_for(secs(5));
        assert_eq!(
            world.ends(1),
            [],
            "the other one may be Up by now, and this node hear so late"
        );
        world.all_up();
        world.run_for(secs(5));
        assert_eq!(world.ends(1), [(1, TerminationReason::NotRunning)]);
    }
}

#[test]
fn that_nobody_hosts_holds_until_somebody_does() {
    let mut world = World::bare(2, 1, &world::config());
    world.register(0, false);
    world.register(2, false);
    world.all_up();
    world.watch(2, 1, &entity_in(5));
    world.run_for(secs(5));
    assert_eq!(world.ends(2), [(1, TerminationReason::NotRunning)]);
    world.register(1, true);
    world.run_for(secs(5));
    world.tell(1, &entity_in(5), "begin");
    world.watch(2, 2, &entity_in(5));
    world.run_for(secs(5));
    assert_eq!(world.ends(2).len(), 1, "it runs");
    world.end(&entity_in(5), false);
    assert_eq!(world.ends(2)[1..], [(2, TerminationReason::Stopped)]);
}

#[test]
fn entities_that_are_killed_on_the_way_to_another_node_have_not_ended() {
    let mut world = World::all_running(2, 1);
    let entity = entity_in(5);
    let home = world.home_of(&entity);
    world.watch(2, 1, &entity);
    world.peers[home].stubborn = true;
    world.with(home, |peer| {
        let (kind, timeout) = (kind(), Some(secs(2)));
        let command = ShardingCommand::ShutDownRegion { kind, timeout };
        peer.sharding.on_command(&mut peer.fixture.cx(), 77, command);
    });
    world.run_for(secs(30));
    assert_eq!((world.ends(2), world.counts()[home]), (Vec::new(), 0));
}

#[test]
fn who_watches_no_more_hears_nothing_and_costs_nothing() {
    let mut world = World::all_running(3, 1);
    let entity = entity_in(5);
    let home = world.home_of(&entity);
    world.watch(3, 1, &entity);
    assert_eq!(world.peers[home].sharding.open_watches().1, 1);
    world.unwatch(3, 1);
    assert_eq!(world.peers[home].sharding.open_watches().1, 0);
    world.end(&entity, false);
    assert_eq!(world.ends(3), []);
    let done = world.peers[3]
        .registered
        .iter()
        .filter(|answer| **answer == Answer::Done);
    assert!(done.count() >= 2, "the watch and its end are answered");
}

#[test]
fn limits_refuse_what_is_too_much() {
    let mut config = Config::lan(ClusterName::new("test").unwrap());
    config.sharding.watches_max = 3;
    config.sharding.watchers_per_entity_max = 2;
    let mut world = World::with_config(2, 2, &config);
    world.all_up();
    world.touch_all(3);
    let refused = |world: &World, at: usize, error| {
        let answer = Answer::Refused(CommandError::Sharding(error));
        world.peers[at].registered.contains(&answer)
    };
    for id in 0..4 {
        world.watch(2, id, &entity_in(u32::try_from(id).unwrap()));
    }
    assert!(refused(&world, 2, ShardingCommandError::TooManyWatches));
    world.watch(3, 1, &entity_in(0));
    world.watch(3, 2, &entity_in(0));
    assert!(refused(&world, 3, ShardingCommandError::TooManyWatchers));
    assert_eq!(world.peers[3].sharding.open_watches().0, 1);
    world.watch(3, 5, &EntityId::from(""));
    assert!(refused(&world, 3, ShardingCommandError::BadEntityId));
    let unknown = WatchTarget::Entity {
        kind: KindId::of("others"),
        entity: entity_in(0),
    };
    world.watch_target(3, 6, unknown);
    assert!(refused(&world, 3, ShardingCommandError::NotRegistered));
}

#[test]
fn a_watched_node_ends_when_it_is_removed_and_one_that_was_never_seen_is_not_waited_for_for_ever() {
    let mut world = World::all_running(3, 1);
    let watch = |world: &mut World, id, node: &UniqueAddress| {
        world.watch_target(3, id, WatchTarget::Node(node.clone()));
    };
    let other = crate::fixture::node("n01", 77);
    watch(&mut world, 1, &address(1));
    watch(&mut world, 2, &other);
    world.crash(&[1]);
    world.set(&[(1, Status::Down)]);
    assert_eq!(world.ends(3), []);
    world.remove(&[1]);
    assert_eq!(world.ends(3), [(1, TerminationReason::NodeRemoved)]);
    watch(&mut world, 3, &address(1));
    assert_eq!(
        world.ends(3)[1..],
        [(3, TerminationReason::NodeRemoved)],
        "gone before"
    );
    world.run_for(secs(29));
    assert_eq!(world.ends(3).len(), 2, "it may appear");
    world.run_for(secs(1));
    assert_eq!(world.ends(3)[2..], [(2, TerminationReason::NeverSeen)]);
}

#[test]
fn a_node_that_may_appear_delays_no_repetition_and_no_repetition_delays_its_end() {
    let mut world = World::all_running(3, 1);
    let entity = entity_in(5);
    let home = world.home_of(&entity);
    world.watch(3, 1, &entity);
    let unknown = WatchTarget::Node(crate::fixture::node("n01", 77));
    world.watch_target(home, 2, unknown);
    world.run_for(secs(15));
    world.cut.insert((home, 3));
    world.end(&entity, false);
    world.run_for(secs(5));
    world.cut.clear();
    world.run_for(secs(1));
    assert_eq!(world.ends(3), [(1, TerminationReason::Stopped)], "a second later");
    world.run_for(secs(8));
    assert_eq!(world.ends(home), []);
    world.run_for(secs(1));
    assert_eq!(world.ends(home), [(2, TerminationReason::NeverSeen)]);
}

#[test]
fn the_end_of_the_watching_node_is_the_end_of_its_watches() {
    let mut world = World::all_running(3, 1);
    let entity = entity_in(5);
    world.watch(3, 1, &entity);
    let home = world.home_of(&entity);
    world.set(&[(3, Status::Down)]);
    let stopped = Answer::Refused(CommandError::Stopped);
    assert!(world.peers[3].registered.contains(&stopped));
    world.remove(&[3]);
    assert_eq!(world.peers[home].sharding.open_watches(), (0, 0));
}

#[test]
fn what_is_said_out_of_turn_changes_nothing() {
    let mut world = World::all_running(3, 1);
    world.watch(3, 1, &entity_in(5));
    let home = world.home_of(&entity_in(5));
    let stranger = (0..3).find(|at| *at != home).unwrap();
    let say = |first, statement| {
        let statements = alloc::vec![statement];
        Message::Sharding(ShardingMsg::Watch(WatchMsg::Say { first, statements }))
    };
    let moved = WatchStatement::Moved { id: 1 };
    world.deliver(stranger, 3, say(1, moved.clone()));
    world.deliver(home, 3, say(9, moved));
    let heard = WatchMsg::Heard { up_to: 50 };
    world.deliver(stranger, 3, Message::Sharding(ShardingMsg::Watch(heard)));
    assert_eq!(world.peers[3].rejected.len(), 1, "an answer to what was not said");
    world.end(&entity_in(5), false);
    assert_eq!(world.ends(3), [(1, TerminationReason::Stopped)]);
}

/// A thousand watches of a few hundred entities, from every node, while entities end, fail, sleep and are
/// told to, nodes are killed, leave and are shut down, and a third of what is said about watches is lost.
/// Each watch ends once, and only with an end that its entity had since: none for a move or a passivation.
#[test]
fn each_of_a_thousand_watches_hears_of_exactly_one_end_and_of_no_move() {
    for seed in 0..8_u64 {
        storm(seed);
    }
}

struct Luck(u64);

impl Luck {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn storm(seed: u64) {
    const WATCHES: u64 = 1_000;
    const ENTITIES: u64 = 200;
    let mut luck = Luck(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d);
    let mut config = Config::lan(ClusterName::new("test").unwrap());
    config.sharding.passivation = PassivationSettings::off();
    let mut world = World::with_config(6, 2, &config);
    world.all_up();
    let entities: Vec<EntityId> = (0..ENTITIES)
        .map(|id| EntityId::from(id.to_string().as_str()))
        .collect();
    for entity in &entities {
        world.tell(7, entity, "begin");
    }
    world.lose_one_in = Some(3);
    // Who watches what, and the end that is due.
    let mut watches: OrderedMap<u64, (usize, usize)> = OrderedMap::new();
    for id in 0..WATCHES {
        let (at, of) = (6 + (id % 2) as usize, luck.below(ENTITIES) as usize);
        world.watch(at, id, &entities[of]);
        watches.insert(id, (at, of));
    }
    // Until all are confirmed, so that nothing is over before it begins.
    world.run_for(secs(60));
    let early: usize = (6..8).map(|at| world.ends(at).len()).sum();
    assert_eq!(early, 0, "seed {seed}: nothing has ended");
    let mut ended: OrderedMap<usize, TerminationReason> = OrderedMap::new();
    let mut gone: OrderedSet<usize> = OrderedSet::new();
    for _ in 0..400 {
        let of = luck.below(ENTITIES) as usize;
        let runs = world.runs_on(&entities[of]).is_some();
        match luck.below(20) {
            0..=3 if runs => {
                let failed = luck.below(2) == 0;
                world.end(&entities[of], failed);
                let why = if failed {
                    TerminationReason::Failed
                } else {
                    TerminationReason::Stopped
                };
                ended.entry(of).or_insert(why);
            }
            4..=8 if runs => world.passivate(&entities[of]),
            9..=13 => world.tell(7, &entities[of], "wake"),
            14 if gone.len() < 2 => {
                let at = (1 + luck.below(5)) as usize;
                if gone.insert(at) {
                    // Its entities, and those that sleep in its shards, have no home that could say that they
                    // did not end.
                    let hosted: Vec<ShardId> = world
                        .hosts()
                        .into_iter()
                        .filter(|(_, hosts)| hosts.contains(&at))
                        .map(|(shard, _)| shard)
                        .collect();
                    for (of, entity) in entities.iter().enumerate() {
                        if hosted.contains(&ShardId::of(entity, SHARDS)) {
                            ended.entry(of).or_insert(TerminationReason::NodeRemoved);
                        }
                    }
                    world.crash_and_remove(&[at]);
                }
            }
            15 if gone.len() < 4 => {
                let at = (1 + luck.below(5)) as usize;
                if gone.insert(at) {
                    world.set(&[(at, Status::Leaving)]);
                    world.drain(at);
                    world.run_for(secs(40));
                    assert!(world.peers[at].drained, "seed {seed}");
                    world.set(&[(at, Status::Exiting)]);
                    world.remove(&[at]);
                }
            }
            16 => world.register(1 + luck.below(5) as usize, true),
            17 => {
                let at = luck.below(2) as usize;
                if !gone.contains(&at) {
                    world.with(at, |peer| {
                        let (kind, timeout) = (kind(), None);
                        let command = ShardingCommand::ShutDownRegion { kind, timeout };
                        peer.sharding.on_command(&mut peer.fixture.cx(), 99_999, command);
                    });
                    world.run_for(secs(20));
                    world.register(at, true);
                }
            }
            _ => world.run_for(secs(1)),
        }
    }
    world.run_for(secs(120));
    let mut heard: OrderedMap<u64, TerminationReason> = OrderedMap::new();
    for at in 6..8 {
        for (id, why) in world.ends(at) {
            assert_eq!(heard.insert(id, why), None, "seed {seed}: watch {id} ended twice");
        }
    }
    for (id, (at, of)) in &watches {
        let (heard, due) = (heard.get(id), ended.get(of));
        assert_eq!(heard, due, "seed {seed}: watch {id} of {of} from node {at}");
    }
    assert!(
        ended.len() > 10 && ended.len() < ENTITIES as usize,
        "seed {seed}: {}",
        ended.len()
    );
}
