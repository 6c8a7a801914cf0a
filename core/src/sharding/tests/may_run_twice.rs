//! Kinds in a cluster whose downing strategy lets both sides of a partition go on: who is warned, and how
//! often.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::world::*;
use super::*;
use crate::config::{CustomStrategy, DowningStrategy};
use crate::downing::decision::DowningDecision;
use crate::downing::strategy::Strategy;
use crate::downing::view::DowningView;
use crate::effect::{Answer, ShardingAnswer};
use crate::input::{KindSettings, ShardingCommand};

/// A strategy of an application that knows what it does.
#[derive(Debug)]
struct Reckless(bool);

impl Strategy for Reckless {
    fn name(&self) -> &'static str {
        "reckless"
    }

    fn decide(&self, _: &DowningView) -> DowningDecision {
        DowningDecision::DownUnreachable
    }

    fn lets_both_sides_go_on(&self) -> bool {
        self.0
    }
}

/// Two workers, which host the kind, and a proxy.
fn under(strategy: DowningStrategy, change: impl Fn(&mut KindSettings)) -> World {
    hosted_by(|at| at < 2, strategy, change)
}

/// Two workers, of which the first coordinates, and one more.
fn hosted_by(
    hosts: impl Fn(usize) -> bool,
    strategy: DowningStrategy,
    change: impl Fn(&mut KindSettings),
) -> World {
    let mut config = config();
    config.downing.strategy = strategy;
    let mut world = World::bare(2, 1, &config);
    world.set(&[(0, Status::Up), (1, Status::Up), (2, Status::Up)]);
    for at in 0..3 {
        let mut settings = settings(hosts(at));
        change(&mut settings);
        world.register_as(at, settings);
    }
    world.run_for(secs(5));
    world
}

fn warned(world: &World) -> Vec<usize> {
    let warnings = |events: &Vec<ShardingEvent>| {
        let of_it = |event: &&ShardingEvent| matches!(event, ShardingEvent::MayRunTwice { .. });
        events.iter().filter(of_it).count()
    };
    world.peers.iter().map(|peer| warnings(&peer.events)).collect()
}

fn explained(world: &mut World, at: usize) -> Option<&'static str> {
    world.with(at, |peer| {
        peer.registered.clear();
        let command = ShardingCommand::Explain {
            kind: kind(),
            entity: entity_in(1),
            timeout: secs(1),
        };
        peer.sharding.on_command(&mut peer.fixture.cx(), 901, command);
    });
    world.run_for(secs(2));
    match world.peers[at].registered.pop() {
        Some(Answer::Sharding(ShardingAnswer::Explained(explained))) => explained.may_run_twice,
        other => panic!("{other:?}"),
    }
}

#[test]
fn under_auto_down_every_host_is_warned_once_and_explanations_say_so() {
    let mut world = under(DowningStrategy::AutoDown, |_| ());
    assert_eq!(warned(&world), [1, 1, 0], "a proxy runs nothing");
    let strategy = "auto-down";
    assert!(
        world.peers[0]
            .events
            .contains(&ShardingEvent::MayRunTwice { strategy })
    );
    // Neither who comes and goes nor who registers again is a beginning.
    world.set(&[(1, Status::Down)]);
    world.register_as(0, settings(true));
    world.run_for(secs(60));
    assert_eq!(warned(&world)[0], 1);
    for (at, said) in [(0, Some(strategy)), (2, None)] {
        // The coordinator tells the proxy.
        assert_eq!(explained(&mut world, at), Some(strategy));
        let sharding = &world.peers[at].sharding;
        assert_eq!(sharding.region(kind()).unwrap().may_run_twice, said);
        assert_eq!(sharding.may_run_twice().count(), usize::from(at == 0));
    }
}

#[test]
fn a_proxy_that_does_not_name_the_lease_of_its_kind_says_nothing_false() {
    let mut world = under(DowningStrategy::AutoDown, |settings| {
        settings.lease = settings.hosts
    });
    assert_eq!(warned(&world), [0, 0, 0]);
    for at in [0, 2] {
        assert_eq!(explained(&mut world, at), None);
        let sharding = &world.peers[at].sharding;
        assert_eq!(sharding.region(kind()).unwrap().may_run_twice, None);
        assert_eq!(sharding.may_run_twice().count(), 0);
    }
}

#[test]
fn where_a_proxy_coordinates_only_those_who_host_know() {
    let mut world = hosted_by(|at| at == 1, DowningStrategy::AutoDown, |_| ());
    assert_eq!(warned(&world), [0, 1, 0]);
    let said = [0, 1, 2].map(|at| explained(&mut world, at));
    assert_eq!(said, [None, Some("auto-down"), None]);
}

#[test]
fn nobody_is_warned_where_one_side_stays_or_one_side_holds_the_leases() {
    let safe = DowningStrategy::KeepMajority { role: None };
    for (strategy, lease) in [
        (safe, false),
        (DowningStrategy::Off, false),
        (DowningStrategy::AutoDown, true),
    ] {
        let mut world = under(strategy, |settings| settings.lease = lease);
        assert_eq!(warned(&world), [0, 0, 0]);
        assert_eq!(explained(&mut world, 0), None);
    }
}

#[test]
fn a_strategy_of_the_application_says_of_itself_whether_both_sides_go_on() {
    for reckless in [true, false] {
        let strategy = DowningStrategy::Custom(CustomStrategy(Arc::new(Reckless(reckless))));
        let mut world = under(strategy, |_| ());
        assert_eq!(warned(&world)[..2], [usize::from(reckless); 2]);
        assert_eq!(explained(&mut world, 0), reckless.then_some("reckless"));
    }
}
