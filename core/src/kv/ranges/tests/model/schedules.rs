//! Random schedules: whatever was acknowledged, in whichever configuration, is seen by every read that begins
//! later. Each of the bugs that are built in is found.

use alloc::string::String;

use super::words::{Body, Bug};
use super::world::World;
use crate::planner::NodeStanding;

/// Levels that intersect.
const LEVELS: [(u8, u8, u8); 7] = [
    (3, 2, 2),
    (3, 1, 3),
    (3, 2, 3),
    (3, 3, 1),
    (3, 3, 3),
    (2, 1, 2),
    (5, 3, 3),
];

const STEPS: u64 = 1_000;

fn step(world: &mut World) {
    world.now += 1;
    world.forget_old();
    let draw = world.below(1_000);
    // Every now and then it rests for long enough to have tombstones reaped.
    let moves = (world.now / 200).is_multiple_of(2);
    let message = |world: &mut World| {
        let count = world.net.len();
        (count > 0).then(|| world.below(count))
    };
    let any_store = |world: &mut World| {
        let at = world.below(world.stores.len());
        let mut stores = world.stores.keys().copied();
        stores.nth(at).expect("there are stores")
    };
    match draw {
        // What moves the range goes first every now and then.
        0..=149 => {
            let is_of_a_move = |body: &Body| {
                matches!(
                    body,
                    Body::Refuse { .. } | Body::Refused { .. } | Body::Give { .. } | Body::Part { .. }
                )
            };
            if let Some(at) = world.net.iter().position(|message| is_of_a_move(&message.body)) {
                world.deliver(at);
            }
        }
        150..=709 => {
            if let Some(at) = message(world) {
                world.deliver(at);
            }
        }
        710..=719 => {
            if let Some(at) = message(world) {
                world.net.remove(at);
            }
        }
        720..=724 => {
            if let Some(at) = message(world) {
                let again = world.net[at].clone();
                world.net.push(again);
            }
        }
        725..=779 => world.begin_request(),
        780..=839 => world.look(),
        840..=864 => {
            let now = world.at();
            let store = any_store(world);
            if let Some(arrival) = world
                .stores
                .get_mut(&store)
                .and_then(|known| known.arrival.as_mut())
            {
                arrival.on_tick(now);
            }
            world.flush(store);
        }
        865..=894 => world.keep(),
        895..=909 => world.reap(),
        910..=949 if moves => world.command_move(),
        950..=959 => world.ask_any_again(),
        960..=974 if world.settings.is_durable => {
            let store = any_store(world);
            if !world.stores[&store].is_up || (moves && world.below(4) == 0) {
                world.stop_or_start(store);
            }
        }
        975..=979 => {
            let store = any_store(world);
            world.lose(store);
        }
        980..=983 if world.stores.len() < 8 => world.add_store(),
        984..=986 => world.give_up_lost(),
        987..=990 => world.change_coordinator(),
        991..=994 => {
            let is_paused = !world.is_paused && world.below(4) == 0;
            world.pause(is_paused);
        }
        995..=999 => {
            let store = any_store(world);
            if world.stores[&store].standing != NodeStanding::Open || world.below(4) == 0 {
                world.leave_or_stay(store);
            }
        }
        _ => {}
    }
}

struct Outcome {
    violation: Option<String>,
    moves: usize,
    answered: usize,
}

fn run(seed: u64, bug: Option<Bug>) -> Outcome {
    let levels = LEVELS[seed as usize % LEVELS.len()];
    let keeping = (!(seed / 7).is_multiple_of(3), (seed / 21).is_multiple_of(2));
    let mut world = World::new(seed, levels, keeping, bug);
    while world.now < STEPS && world.violation.is_none() {
        step(&mut world);
    }
    Outcome {
        violation: world.violation,
        moves: world.moves,
        answered: world.answered,
    }
}

#[test]
fn what_is_acknowledged_is_seen_by_every_later_read_whatever_moves() {
    let (mut moves, mut answered) = (0, 0);
    for seed in 0..SEEDS {
        let outcome = run(seed, None);
        assert_eq!(outcome.violation, None, "seed {seed}");
        moves += outcome.moves;
        answered += outcome.answered;
    }
    assert!(moves > SEEDS as usize / 2, "{moves} moves");
    assert!(answered > 5 * SEEDS as usize, "{answered} answers");
}

/// Ten thousand take a minute; these take a second.
const SEEDS: u64 = 150;

#[test]
fn each_bug_is_found() {
    // With the seed from which on it is found soon.
    for (bug, first) in [
        (Bug::OneSideOfJoint, 0),
        (Bug::OwnersAsNodes, 0),
        (Bug::AcknowledgementsOfBothEpochs, 800),
        (Bug::MergeBeforeRefusal, 1_700),
        (Bug::PromisesLeftBehind, 0),
    ] {
        let mut seeds = first..first + 20 * SEEDS;
        let found = seeds.find(|seed| run(*seed, Some(bug)).violation.is_some());
        assert!(found.is_some(), "{bug:?}");
    }
}
