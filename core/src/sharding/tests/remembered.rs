//! What the host says of the end of a remembered entity, and what its shard does then. The store has nothing,
//! and keeps everything at once.

use alloc::vec::Vec;

use super::world::{config, settings};
use super::*;
use crate::ddata::protocol::{Answer as DataAnswer, Command as DataCommand, ReadError};
use crate::effect::Answer;
use crate::input::{Command, HostReport, KindSettings};
use crate::sharding::state::ids::Slot;
use crate::sharding::state::remember::RememberStore;

const BACKOFF: Duration = Duration::from_secs(10);

/// One node that hosts a kind with remembered entities.
fn remembering() -> World {
    let mut world = World::bare(1, 0, &config());
    world.all_up();
    world.register_as(
        0,
        KindSettings {
            remember_entities: Some(RememberStore::Data),
            ..settings(true)
        },
    );
    settle(&mut world);
    world
}

/// Answers what the store is asked, until it is asked nothing more.
fn settle(world: &mut World) {
    loop {
        let asked: Vec<_> = world.peers[0].fixture.outbox.asked.drain(..).collect();
        if asked.is_empty() {
            return;
        }
        for (ask, command) in asked {
            let answer = match &command {
                Command::Ddata(DataCommand::Get { .. }) => DataAnswer::Value(Err(ReadError::NotFound)),
                _ => DataAnswer::Written(Ok(())),
            };
            world.with(0, |peer| {
                let cx = &mut peer.fixture.cx();
                peer.sharding.on_store_answer(cx, ask, Answer::Ddata(answer));
            });
        }
    }
}

fn wait(world: &mut World, time: Duration) {
    world.run_for(time);
    settle(world);
}

fn slot(world: &World) -> Option<Slot> {
    world.peers[0].running.keys().next().copied()
}

fn report(world: &mut World, report: HostReport) {
    world.with(0, |peer| peer.sharding.on_report(&mut peer.fixture.cx(), report));
    settle(world);
}

/// The entity begins with a message and ends by itself.
fn begin_and_end(world: &mut World, forget: bool) {
    world.tell(0, &entity_in(5), "begin");
    settle(world);
    let slot = slot(world).expect("it has begun");
    report(world, HostReport::Ending { slot, forget });
    world.peers[0].running.remove(&slot);
    report(world, HostReport::Stopped { slot });
}

#[test]
fn s_132_a_remembered_entity_that_stops_itself_starts_again_after_the_backoff_or_with_a_message() {
    let mut world = remembering();
    wait(&mut world, secs(1));
    begin_and_end(&mut world, false);
    wait(&mut world, BACKOFF - Duration::from_millis(10));
    assert_eq!(slot(&world), None, "not before the pause is over");
    wait(&mut world, Duration::from_millis(20));
    assert!(slot(&world).is_some(), "nobody has sent it a message");
    begin_and_end(&mut world, false);
    world.tell(0, &entity_in(5), "sooner");
    assert!(
        slot(&world).is_some(),
        "with its next message, which waits for no store"
    );
}

#[test]
fn s_132_a_remembered_entity_that_forgets_itself_starts_with_its_next_message_only() {
    let mut world = remembering();
    wait(&mut world, secs(1));
    begin_and_end(&mut world, true);
    wait(&mut world, BACKOFF * 3);
    assert_eq!(slot(&world), None);
    world.tell(0, &entity_in(5), "anew");
    assert_eq!(slot(&world), None, "the store has to have its id first");
    settle(&mut world);
    assert!(slot(&world).is_some());
}
