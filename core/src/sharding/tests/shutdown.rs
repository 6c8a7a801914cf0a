//! Regions that are shut down while their node stays: where their shards go, who hears of it when, and what
//! is hosted afterwards.

use alloc::vec::Vec;

use super::*;
use crate::effect::{Answer, CommandError, ShardingAnswer, ShardingCommandError};
use crate::input::ShardingCommand;
use crate::sharding::protocol::RegionShutdown;

const LIMIT: Duration = secs(30);

impl World {
    fn shut_down(&mut self, at: usize) {
        self.with(at, |peer| {
            let (kind, timeout) = (kind(), Some(LIMIT));
            let command = ShardingCommand::ShutDownRegion { kind, timeout };
            peer.sharding.on_command(&mut peer.fixture.cx(), 1, command);
        });
    }

    /// What this node's callers were told, since this was asked last.
    fn told(&mut self, at: usize) -> Vec<Answer> {
        self.peers[at].registered.drain(..).collect()
    }

    /// A kind that is formed, and its registrations answered.
    fn at_work(workers: usize, others: usize) -> Self {
        let mut world = Self::formed(workers, others);
        world.touch_all(workers + others - 1);
        for at in 0..workers + others {
            world.told(at);
        }
        world
    }
}

fn said(outcome: RegionShutdown) -> Answer {
    Answer::Sharding(ShardingAnswer::ShutDown(outcome))
}

#[test]
fn s_092_the_shards_of_a_region_that_is_shut_down_are_elsewhere_when_its_caller_hears() {
    for at in 0..3 {
        // The oldest node coordinates on.
        let mut world = World::at_work(3, 1);
        world.shut_down(at);
        assert_eq!(world.told(at), [said(RegionShutdown::HandedOver)]);
        let mut counts = alloc::vec![6, 6, 6, 0];
        counts[at] = 0;
        assert_eq!(world.counts(), counts, "at once, without a margin");
        for from in 0..4 {
            world.touch_all(from);
        }
        assert_eq!(
            world.handled(),
            5 * SHARDS as usize,
            "it forwards what its users send"
        );
        assert!(!world.peers[at].drained, "the node stays");
        world.run_for(secs(60));
        assert_eq!(world.counts(), counts, "no balance brings shards back");
        assert!(world.peers.iter().all(|peer| peer.rejected.is_empty()));
        world.shut_down(at);
        assert_eq!(world.told(at), [said(RegionShutdown::HandedOver)], "asked again");
    }
}

#[test]
fn s_102_a_region_without_shards_and_a_proxy_are_shut_down_at_once() {
    let mut world = World::formed(2, 1);
    for at in 0..3 {
        world.told(at);
        world.shut_down(at);
        assert_eq!(world.told(at), [said(RegionShutdown::HandedOver)]);
    }
}

#[test]
fn a_region_that_is_registered_again_hosts_again() {
    let mut world = World::at_work(2, 1);
    world.shut_down(1);
    assert_eq!((world.counts(), world.told(1).len()), (alloc::vec![12, 0, 0], 1));
    world.register(1, true);
    assert_eq!(world.told(1), [Answer::Done]);
    world.run_for(secs(60));
    assert_eq!(world.counts(), [6, 6, 0]);
    world.touch_all(1);
    assert_eq!(world.handled(), 24);
}

#[test]
fn where_nobody_else_hosts_entities_stop_and_their_messages_wait() {
    let mut world = World::at_work(1, 1);
    world.shut_down(0);
    let shards = SHARDS as usize;
    assert_eq!(world.told(0), [said(RegionShutdown::WithoutHome { shards })]);
    world.touch_all(1);
    world.run_for(secs(10));
    assert_eq!((world.handled(), world.counts()[0]), (shards, 0));
    world.register(0, true);
    world.run_for(secs(10));
    assert_eq!((world.handled(), world.counts()[0]), (2 * shards, shards));
}

#[test]
fn where_the_others_have_been_shut_down_too_the_last_one_hears_that_nobody_is_left() {
    let mut world = World::at_work(2, 1);
    world.shut_down(0);
    world.shut_down(1);
    let shards = SHARDS as usize;
    assert_eq!(world.told(1), [said(RegionShutdown::WithoutHome { shards })]);
}

#[test]
fn two_regions_that_are_shut_down_at_once_both_end() {
    let mut world = World::at_work(3, 1);
    world.peers[0].stubborn = true;
    world.shut_down(0);
    world.shut_down(1);
    world.peers[0].stubborn = false;
    world.run_for(LIMIT + secs(5));
    assert_eq!(world.counts(), [0, 0, 12, 0]);
    assert_eq!(world.told(1), [said(RegionShutdown::HandedOver)]);
    assert_eq!(world.told(0), [said(RegionShutdown::Killed)]);
}

#[test]
fn all_callers_hear_and_one_too_many_is_refused() {
    let mut world = World::at_work(2, 1);
    world.peers[0].stubborn = true;
    for _ in 0..17 {
        world.shut_down(0);
    }
    let refused = Answer::Refused(CommandError::Sharding(ShardingCommandError::ShutdownPending));
    assert_eq!(world.told(0), [refused]);
    world.register(0, true);
    let stopping = Answer::Refused(CommandError::Sharding(ShardingCommandError::ShuttingDown));
    assert_eq!(world.told(0), [stopping], "it cannot host again before");
    world.run_for(LIMIT);
    assert_eq!(world.told(0), alloc::vec![said(RegionShutdown::Killed); 16]);
    world.run_for(secs(5));
    assert_eq!(world.counts(), [0, 12, 0], "who did not stop was killed");
}

#[test]
fn a_coordinator_that_dies_meanwhile_is_followed_by_one_that_goes_on() {
    let mut world = World::at_work(3, 1);
    world.lose = |message| {
        let Message::Sharding(ShardingMsg::Kind(message)) = message else {
            return false;
        };
        matches!(message.body, ShardingBody::HandOff { .. })
    };
    world.shut_down(1);
    world.run_for(secs(3));
    assert_eq!((world.counts()[1], world.told(1).len()), (4, 0));
    world.crash_and_remove(&[0]);
    world.lose = |_| false;
    world.run_for(MARGIN + secs(5));
    assert_eq!(world.told(1), [said(RegionShutdown::HandedOver)]);
    world.touch_all(3);
    assert_eq!(
        (world.counts(), world.peers[1].drained),
        (alloc::vec![0, 0, 12, 0], false)
    );
}

#[test]
fn a_coordinator_that_cannot_be_reached_is_not_waited_for_for_ever() {
    let mut world = World::at_work(3, 1);
    world.cut.extend([(0, 1), (1, 0)]);
    world.shut_down(1);
    world.run_for(LIMIT + secs(2));
    assert_eq!(world.told(1), [said(RegionShutdown::Killed)]);
    world.cut.clear();
    world.run_for(secs(10));
    assert_eq!(world.counts()[1], 0);
    world.touch_all(1);
    assert_eq!(world.counts(), [6, 0, 6, 0], "it was told in the end");
    assert_eq!(world.handled(), 24);
}

#[test]
fn a_coordinator_whose_answers_about_the_new_homes_are_lost_is_asked_again() {
    let mut world = World::at_work(2, 1);
    world.lose = |message| {
        let Message::Sharding(ShardingMsg::Kind(message)) = message else {
            return false;
        };
        matches!(
            message.body,
            ShardingBody::ShardHomes { .. } | ShardingBody::RegisterAck { .. }
        )
    };
    world.shut_down(1);
    assert_eq!((world.counts(), world.told(1).len()), (alloc::vec![12, 0, 0], 0));
    world.run_for(secs(10));
    world.lose = |_| false;
    world.run_for(secs(5));
    assert_eq!(world.told(1), [said(RegionShutdown::HandedOver)]);
}

#[test]
fn a_node_that_leaves_meanwhile_answers_when_it_is_empty() {
    let mut world = World::at_work(3, 1);
    world.peers[1].stubborn = true;
    world.shut_down(1);
    world.set(&[(1, Status::Leaving)]);
    world.drain(1);
    assert!(!world.peers[1].drained);
    world.shut_down(1);
    world.peers[1].stubborn = false;
    world.run_for(secs(30));
    assert!(world.peers[1].drained);
    assert_eq!(world.told(1).len(), 2, "both hear");
    assert_eq!(world.counts(), [6, 0, 6, 0]);
}

#[test]
fn a_node_that_was_shut_down_before_it_leaves_has_nothing_to_hand_over() {
    let mut world = World::at_work(3, 1);
    world.shut_down(1);
    world.set(&[(1, Status::Leaving)]);
    world.drain(1);
    assert!(world.peers[1].drained);
}

#[test]
fn s_107_callers_hear_that_the_node_has_ended() {
    let mut world = World::at_work(3, 1);
    world.peers[1].stubborn = true;
    world.shut_down(1);
    world.set(&[(1, Status::Down)]);
    assert_eq!(world.told(1), [Answer::Refused(CommandError::Stopped)]);
}

#[test]
fn a_cluster_that_ends_meanwhile_has_the_entities_stop_where_they_are() {
    let mut world = World::at_work(3, 1);
    world.cut.extend([(0, 1), (1, 0)]);
    world.shut_down(1);
    assert_eq!(world.counts()[1], 4);
    world.cut.clear();
    let ends: Vec<_> = (0..4).map(|at| (at, Status::PreparingForShutdown)).collect();
    world.set(&ends);
    assert_eq!(world.counts()[1], 0);
    assert_eq!(world.told(1), [said(RegionShutdown::WithoutHome { shards: 4 })]);
}

#[test]
fn what_waits_while_it_is_shut_down_is_delivered_at_the_new_home() {
    let mut world = World::at_work(2, 1);
    world.peers[1].stubborn = true;
    world.shut_down(1);
    world.touch_all(1);
    world.touch_all(2);
    let before = world.handled();
    world.run_for(LIMIT + secs(2));
    assert_eq!((before, world.handled()), (12 + 12, 36), "six of each waited");
    assert_eq!(world.counts(), [12, 0, 0]);
}
