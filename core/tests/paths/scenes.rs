//! Runs by seed, and single cases by their number. Spec: sharding 6.11, membership 6 P.

use std::time::Duration;

use quorate_core::effect::CommandError;
use quorate_core::event::PathEvent;
use quorate_core::input::{LoadMeasure, PathCommand};
use quorate_core::load::state::capacity::Cpu;
use quorate_core::paths::protocol::{PathCommandError, PathRefusal};
use quorate_core::paths::state::instances::FaultTolerance;
use quorate_core::paths::state::name::PathName;
use quorate_core::paths::state::options::HandoffOptions;
use quorate_core::paths::state::settings::PathSettings;
use quorate_core::planner::MoveError;
use rand_chacha::rand_core::Rng;

use crate::laws::check;
use crate::world::World;

pub(crate) const SOON: Duration = Duration::from_secs(120);

/// `QUORATE_SEEDS` many; 40 of each kind by default.
fn seeds() -> u64 {
    let seeds = std::env::var("QUORATE_SEEDS").ok();
    seeds.and_then(|seeds| seeds.parse().ok()).unwrap_or(40)
}

pub(crate) fn path(name: &str, handoff: HandoffOptions, spare: u16) -> PathSettings {
    PathSettings {
        handoff,
        fault_tolerance: FaultTolerance::Constant(spare),
        ..PathSettings::new(PathName::new(name).unwrap())
    }
}

pub(crate) fn three() -> Vec<PathSettings> {
    vec![
        path("free", HandoffOptions::STATELESS, 1),
        path("in/order", HandoffOptions::ORDERED, 1),
        path("with/state", HandoffOptions::STATEFUL, 1),
    ]
}

/// With three instances each.
fn more() -> Vec<PathSettings> {
    let three = three().into_iter().map(|settings| PathSettings {
        fault_tolerance: FaultTolerance::Constant(2),
        ..settings
    });
    three.collect()
}

pub(crate) fn registered(world: &mut World, paths: &[PathSettings]) {
    for settings in paths {
        world.register(settings);
    }
    world.run_until(SOON, |world| {
        let runs = |settings: &PathSettings| {
            let FaultTolerance::Constant(spare) = settings.fault_tolerance else {
                return false;
            };
            world.running(&settings.name) == usize::from(spare) + 1
        };
        paths.iter().all(runs) && world.is_quiet()
    });
}

#[test]
fn m_430_paths_are_placed_and_their_instances_run() {
    let mut world = World::new(4, 1);
    let paths = three();
    registered(&mut world, &paths);
    for settings in &paths {
        let hosts = world.hosts_of(&settings.name);
        assert_eq!(hosts.iter().flatten().count(), 2);
        assert_ne!(hosts[0], hosts[1], "never two on one member");
    }
    for _ in 0..20 {
        for settings in &paths {
            world.ask(3, settings.name.id(), 0);
        }
        world.run_for(Duration::from_millis(20));
    }
    world.run_for(Duration::from_secs(25));
    assert_eq!(world.handled.len(), 60);
    check(&world, &paths, true);
}

#[test]
fn s_308_a_path_above_another_is_refused_and_so_is_one_with_other_settings() {
    let mut world = World::new(2, 2);
    let settings = path("a/b", HandoffOptions::ORDERED, 0);
    world.register(&settings);
    let register = |settings: PathSettings| PathCommand::Register {
        settings,
        hosts: false,
    };
    let refused = |refusal| Err(CommandError::Path(PathCommandError::Refused(refusal)));
    let above = path("a", HandoffOptions::ORDERED, 0);
    assert_eq!(
        world.told(1, register(above)),
        refused(PathRefusal::Overlaps(PathName::new("a/b").unwrap()))
    );
    let other = path("a/b", HandoffOptions::STATELESS, 0);
    assert_eq!(
        world.told(1, register(other.clone())),
        refused(PathRefusal::Differs)
    );
    assert_eq!(world.told(0, PathCommand::Change(other.clone())), Ok(()));
    assert_eq!(world.told(1, register(other)), Ok(()));
    let unknown = PathName::new("c").unwrap();
    assert_eq!(
        world.told(1, PathCommand::Remove(unknown)),
        refused(PathRefusal::Unknown)
    );
}

#[test]
fn s_322_a_slot_is_not_moved_to_where_the_path_runs_already() {
    let mut world = World::new(3, 3);
    let paths = [path("a", HandoffOptions::ORDERED, 1)];
    registered(&mut world, &paths);
    let hosts = world.hosts_of(&paths[0].name);
    let to = hosts[1].clone().unwrap();
    let path = paths[0].name.clone();
    assert_eq!(
        world.told(0, PathCommand::Move { path, slot: 0, to }),
        Err(CommandError::Path(PathCommandError::Refused(PathRefusal::Move(
            MoveError::AlreadyThere
        ))))
    );
}

#[test]
fn a_host_without_the_path_s_mailbox_is_refused_and_passed_over_and_it_is_not_changed() {
    let mut world = World::new(3, 7);
    let with = PathSettings {
        mailbox: true,
        ..path("mail", HandoffOptions::DURABLE, 0)
    };
    let without = PathSettings {
        mailbox: false,
        ..with.clone()
    };
    let register = |settings: &PathSettings| PathCommand::Register {
        settings: settings.clone(),
        hosts: true,
    };
    let differs = Err(CommandError::Path(PathCommandError::Refused(
        PathRefusal::Differs,
    )));
    assert_eq!(world.told(0, register(&with)), Ok(()));
    assert_eq!(world.told(1, register(&without)), differs);
    assert_eq!(world.told(0, PathCommand::Change(without)), differs);
    world.run_until(Duration::from_secs(60), |world| {
        world.running(&with.name) == 1 && world.is_quiet()
    });
    let to = world.address(1);
    let (path, slot) = (with.name.clone(), 0);
    assert_eq!(world.told(0, PathCommand::Move { path, slot, to }), Ok(()));
    world.run_for(Duration::from_secs(10));
    assert_eq!(world.hosts_of(&with.name), [Some(world.address(0))]);
    assert!(
        world.hosts[1]
            .events
            .iter()
            .any(|event| matches!(event, PathEvent::CodeMissing { .. }))
    );
}

#[test]
fn a_path_that_is_removed_stops_and_is_forgotten() {
    let mut world = World::new(3, 4);
    let paths = three();
    registered(&mut world, &paths);
    let name = paths[1].name.clone();
    assert_eq!(world.told(2, PathCommand::Remove(name.clone())), Ok(()));
    let is_over = |world: &World| {
        let nobody = world.hosts_of(&name).iter().all(Option::is_none);
        world.running(&name) == 0 && nobody && world.is_quiet()
    };
    world.run_until(SOON, is_over);
    assert_eq!(world.running(&paths[0].name), 2);
    // Registered anew while it is remembered, its instances have higher tokens.
    let token = |world: &World| world.token_of(&name);
    let before = token(&world);
    world.register(&paths[1]);
    world.run_until(SOON, |world| world.running(&name) == 2 && world.is_quiet());
    assert!(token(&world) > before);
    // A minute after its end nothing is left of it.
    assert_eq!(world.told(2, PathCommand::Remove(name.clone())), Ok(()));
    world.run_until(SOON, is_over);
    world.run_for(Duration::from_secs(50));
    assert!(!world.hosts_of(&name).is_empty());
    world.run_until(SOON, |world| world.hosts_of(&name).is_empty() && world.is_quiet());
}

/// Messages from all nodes to all slots while slots move, by seed.
fn run(seed: u64, faults: bool) {
    let mut world = World::new(4, seed);
    let paths = three();
    registered(&mut world, &paths);
    let (mut clean, mut whole) = (true, true);
    for round in 0..60 {
        let settings = &paths[(world.rng.next_u64() % 3) as usize];
        for _ in 0..world.rng.next_u64() % 6 {
            let live: Vec<usize> = world.live_nodes().into_iter().collect();
            if live.is_empty() {
                let ends: Vec<_> = world.hosts.iter().map(|host| (host.end, host.crashed)).collect();
                panic!("seed {seed}, round {round}: nobody lives: {ends:?}");
            }
            let at = live[(world.rng.next_u64() % live.len() as u64) as usize];
            let slot = (world.rng.next_u64() % 2) as u16;
            world.ask(at, settings.name.id(), slot);
        }
        match world.rng.next_u64() % 10 {
            0 | 1 => {
                let slot = (world.rng.next_u64() % 2) as u16;
                let to = (world.rng.next_u64() % 4) as usize;
                let to = world.address(to);
                let path = settings.name.clone();
                world.command(
                    0,
                    quorate_core::input::Command::Path(PathCommand::Move { path, slot, to }),
                );
            }
            2 if faults => {
                let (from, to) = (world.rng.next_u64() % 4, world.rng.next_u64() % 4);
                if from != to {
                    world.reset(from as usize, to as usize);
                    clean = false;
                }
            }
            3 if faults && round > 20 && whole => {
                whole = false;
                let at = (world.rng.next_u64() % 4) as usize;
                if world.rng.next_u64().is_multiple_of(2) {
                    world.leave(at);
                } else if at != 0 {
                    world.crash(at);
                }
                clean = false;
            }
            _ => {}
        }
        let pause = world.rng.next_u64() % 400;
        world.run_for(Duration::from_millis(pause));
    }
    world.run_until(Duration::from_secs(400), |world| {
        let runs = |settings: &PathSettings| {
            let FaultTolerance::Constant(spare) = settings.fault_tolerance else {
                return false;
            };
            world.running(&settings.name) == usize::from(spare) + 1
        };
        paths.iter().all(runs) && world.is_quiet()
    });
    world.run_for(Duration::from_secs(25));
    check(&world, &paths, clean);
    let by = |path: &PathSettings| {
        let of_path = world.handled.iter().filter(|it| it.path == path.name.id());
        of_path
            .map(|it| (it.slot, it.by))
            .collect::<std::collections::BTreeSet<_>>()
            .len()
    };
    eprintln!(
        "seed {seed}: {} handled, hosts {:?}",
        world.handled.len(),
        paths.iter().map(by).collect::<Vec<_>>()
    );
}

#[test]
fn s_315_s_320_m_433_m_434_order_and_loss_over_moves_by_seed() {
    for seed in 0..seeds() {
        run(seed, false);
    }
}

#[test]
fn moves_beside_crashes_leaving_members_and_lost_links_by_seed() {
    for seed in 1_000..1_000 + seeds() {
        run(seed, true);
    }
}

/// A round of load: how much of its processor time each node uses.
fn measured(world: &mut World, cpus: &[f64]) {
    for (at, combined) in cpus.iter().enumerate() {
        let cpu = Some(Cpu {
            combined: *combined,
            stolen: 0.0,
        });
        let measure = LoadMeasure {
            cpu,
            ..LoadMeasure::default()
        };
        world.measure(at, measure);
    }
    world.run_for(Duration::from_millis(300));
}

fn hosted_by(world: &World, paths: &[PathSettings], at: usize) -> usize {
    let me = world.address(at);
    let hosts = paths.iter().flat_map(|path| world.hosts_of(&path.name));
    hosts.flatten().filter(|host| *host == me).count()
}

#[test]
fn s_327_the_busiest_member_gives_up_a_slot_after_three_rounds_and_none_comes_back_in_the_cool_down() {
    let mut world = World::with(4, 5, |config| config.load.half_life = Duration::from_millis(1));
    let paths = more();
    registered(&mut world, &paths);
    let hot = (0..4).max_by_key(|at| hosted_by(&world, &paths, *at)).unwrap();
    let before = hosted_by(&world, &paths, hot);
    let cpus: Vec<f64> = (0..4).map(|at| if at == hot { 0.9 } else { 0.1 }).collect();
    for _ in 0..2 {
        measured(&mut world, &cpus);
    }
    assert!(world.is_quiet());
    assert_eq!(
        hosted_by(&world, &paths, hot),
        before,
        "two rounds are not enough"
    );
    for _ in 0..40 {
        measured(&mut world, &cpus);
    }
    assert_eq!(hosted_by(&world, &paths, hot), before - 1);
    // It is the idlest now; within the cool-down nothing goes back.
    let turned: Vec<f64> = cpus.iter().map(|cpu| 1.0 - cpu).collect();
    for _ in 0..20 {
        measured(&mut world, &turned);
        assert!(hosted_by(&world, &paths, hot) < before);
    }
    check(&world, &paths, true);
}

#[test]
fn a_path_with_bounds_gets_an_instance_more_while_its_hosts_are_busy() {
    let mut world = World::with(4, 6, |config| config.load.half_life = Duration::from_millis(1));
    let bounded = PathSettings {
        instances_max: 3,
        ..path("bounded", HandoffOptions::STATELESS, 0)
    };
    let free = path("free", HandoffOptions::STATELESS, 0);
    world.register(&bounded);
    world.register(&free);
    world.run_for(Duration::from_secs(10));
    assert_eq!((world.running(&bounded.name), world.running(&free.name)), (1, 1));
    for _ in 0..6 {
        measured(&mut world, &[0.9; 4]);
    }
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.running(&bounded.name), 2);
    assert_eq!(world.running(&free.name), 1, "it has no bound of its own");
    // Not again before the cool-down is over.
    for _ in 0..100 {
        measured(&mut world, &[0.9; 4]);
    }
    assert_eq!(world.running(&bounded.name), 2);
    for _ in 0..120 {
        measured(&mut world, &[0.9; 4]);
    }
    assert_eq!(world.running(&bounded.name), 3);
    for _ in 0..220 {
        measured(&mut world, &[0.9; 4]);
    }
    assert_eq!(world.running(&bounded.name), 3, "its bound");
    for _ in 0..40 {
        measured(&mut world, &[0.1; 4]);
    }
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.running(&bounded.name), 2);
}

#[test]
fn a_path_of_which_more_is_expected_gets_an_instance_more_at_less_load() {
    let mut world = World::with(4, 6, |config| config.load.half_life = Duration::from_millis(1));
    let bounded = PathSettings {
        instances_max: 3,
        ..path("bounded", HandoffOptions::STATELESS, 0)
    };
    let peak = PathSettings {
        expected_load: 200,
        instances_max: 3,
        ..path("peak", HandoffOptions::STATELESS, 0)
    };
    world.register(&bounded);
    world.register(&peak);
    world.run_for(Duration::from_secs(10));
    for _ in 0..6 {
        measured(&mut world, &[0.5; 4]);
    }
    world.run_for(Duration::from_secs(5));
    assert_eq!((world.running(&bounded.name), world.running(&peak.name)), (1, 2));
}
