//! A range is moved from one owner to another, message by message in the order in which they were sent, and
//! at each step something happens: a store stops, loses what it held, or all that is on its way is lost; the
//! coordinator is paused, or another one takes over. Whatever it is, the range comes to rest with as many
//! copies as there should be, and nothing that was acknowledged is missing.

use super::driving::RANGE;
use super::words::Bug;
use super::world::World;
use crate::journal::state::StoreId;
use crate::kv::ranges::RangeCommand;
use crate::kv::state::configuration::Owners;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Crash(StoreId),
    Loss(StoreId),
    Reset,
    Pause,
    Change { is_kept: bool },
}

const LEAVER: StoreId = StoreId(1);
const NEWCOMER: StoreId = StoreId(4);
const TROUBLES: [Trouble; 10] = [
    Trouble::Crash(LEAVER),
    Trouble::Crash(StoreId(2)),
    Trouble::Crash(NEWCOMER),
    Trouble::Loss(LEAVER),
    Trouble::Loss(StoreId(2)),
    Trouble::Loss(NEWCOMER),
    Trouble::Reset,
    Trouble::Pause,
    Trouble::Change { is_kept: false },
    Trouble::Change { is_kept: true },
];

/// How long a trouble lasts that ends.
const LASTS: u64 = 40;

/// The same, and a request every now and then.
fn step(world: &mut World) {
    quiet_step(world);
    if world.now.is_multiple_of(20) {
        world.begin_request();
    }
}

/// One message, or a look of everybody every few steps.
fn quiet_step(world: &mut World) {
    world.now += 1;
    world.forget_old();
    if !world.net.is_empty() {
        world.deliver(0);
    }
    if world.now.is_multiple_of(4) {
        world.keep();
        world.look();
    }
    if world.now.is_multiple_of(20) {
        let now = world.at();
        let stores: alloc::vec::Vec<StoreId> = world.stores.keys().copied().collect();
        for store in stores {
            if let Some(arrival) = world
                .stores
                .get_mut(&store)
                .and_then(|known| known.arrival.as_mut())
            {
                arrival.on_tick(now);
            }
            world.flush(store);
        }
        world.reap();
    }
}

/// Whether the range is at rest: its owners are all there and have adopted what was decided last.
fn is_whole(world: &World) -> bool {
    let Some(newest) = &world.newest else { return false };
    let Owners::Stable(owners) = &newest.owners else {
        return false;
    };
    let has = |store: &StoreId| {
        let known = world.stores.get(store).filter(|known| known.is_up);
        known.is_some_and(|known| known.held.as_ref() == Some(newest))
    };
    owners.iter().all(has)
}

fn given(levels: (u8, u8, u8), keeping: (bool, bool), bug: Option<Bug>) -> World {
    let mut world = World::new(1, levels, keeping, bug);
    while world.now < 100 || !is_whole(&world) {
        step(&mut world);
    }
    for key in [0, 1] {
        world.put(key, false);
    }
    while !world.net.is_empty() {
        step(&mut world);
    }
    let owners = world.newest.clone().expect("it is given").owners;
    assert_eq!(owners, Owners::Stable([1, 2, 3].map(StoreId).to_vec()));
    command(&mut world, LEAVER, NEWCOMER);
    world
}

fn command(world: &mut World, from: StoreId, to: StoreId) {
    let (range, now) = (RANGE, world.at());
    let command = RangeCommand::Move { range, from, to };
    world
        .coordinator
        .on_command(command, now)
        .expect("a move that can be done");
}

fn trouble(world: &mut World, trouble: Trouble, is_over: bool) {
    match trouble {
        Trouble::Crash(store) => world.stop_or_start(store),
        Trouble::Loss(store) if !is_over => {
            world.lose(store);
            world.add_store();
        }
        Trouble::Loss(_) => world.give_up_lost(),
        Trouble::Reset if !is_over => world.net.clear(),
        Trouble::Pause => world.pause(!is_over),
        Trouble::Change { is_kept } if !is_over => {
            if is_kept {
                world.keep();
            } else {
                world.keeping = None;
            }
            world.renew_coordinator();
        }
        Trouble::Reset | Trouble::Change { .. } => {}
    }
}

/// The move with a trouble at a step; how many steps it took, or `None` if the trouble came too late.
fn moved(levels: (u8, u8, u8), keeping: (bool, bool), (what, at): (Option<Trouble>, u64)) -> Option<u64> {
    let mut world = given(levels, keeping, None);
    let begin = world.now;
    let mut has_ended = false;
    loop {
        let step_number = world.now - begin;
        let is_moved = world.moves + world.undone > 0 && is_whole(&world);
        if !has_ended && is_moved && world.keeping.is_none() {
            has_ended = true;
            if step_number < at {
                return None;
            }
        }
        if let Some(what) = what.filter(|_| step_number == at) {
            trouble(&mut world, what, false);
        }
        if let Some(what) = what.filter(|_| step_number == at + LASTS) {
            trouble(&mut world, what, true);
        }
        if what.is_none() && has_ended {
            return Some(step_number);
        }
        if step_number > at + LASTS + 40 && is_whole(&world) && world.keeping.is_none() {
            break;
        }
        assert!(
            step_number < 3_000,
            "{levels:?} {keeping:?} {what:?} at {at}: it does not come to rest"
        );
        step(&mut world);
    }
    // All reads that follow.
    for _ in 0..200 {
        step(&mut world);
    }
    assert_eq!(world.violation, None, "{levels:?} {keeping:?} {what:?} at {at}");
    let newest = world.newest.expect("it has owners");
    assert_eq!(newest.owners.sets().0.len(), usize::from(levels.0));
    Some(world.now - begin)
}

#[test]
fn a_move_bears_any_trouble_at_each_of_its_steps() {
    for levels in [(3, 2, 2), (3, 1, 3), (3, 3, 1)] {
        let is_usual = levels == (3, 2, 2);
        for keeping in [(true, true), (false, true), (true, false), (false, false)] {
            if !is_usual && keeping != (true, true) {
                continue;
            }
            let steps = moved(levels, keeping, (None, 0)).expect("without trouble it ends");
            assert!((20..200).contains(&steps), "{steps} steps");
            for what in TROUBLES {
                // One that stops in memory has lost what it held.
                let (is_durable, _) = keeping;
                if !is_durable && matches!(what, Trouble::Crash(_)) {
                    continue;
                }
                for at in 0..=steps {
                    moved(levels, keeping, (Some(what), at));
                }
            }
        }
    }
}

#[test]
fn what_was_deleted_does_not_return_with_an_owner_of_before() {
    for bug in [None, Some(Bug::LeftoversKept)] {
        let mut world = given((3, 2, 2), (true, true), bug);
        let until = |world: &mut World, is_done: &dyn Fn(&World) -> bool| {
            let end = world.now + 1_000;
            while !is_done(world) {
                assert!(world.now < end, "it does not come to rest");
                quiet_step(world);
            }
        };
        until(&mut world, &|world| world.moves == 1 && is_whole(world));
        assert!(
            world.stores[&LEAVER].cells[1].version > 0,
            "it has something left over"
        );
        world.put(1, true);
        until(&mut world, &|world| world.reaped[1] > 0 && world.net.is_empty());
        command(&mut world, StoreId(2), LEAVER);
        until(&mut world, &|world| world.moves == 2 && is_whole(world));
        for _ in 0..20 {
            world.get(1);
            until(&mut world, &|world| world.net.is_empty());
        }
        assert_eq!(world.violation.is_some(), bug.is_some());
    }
}
