//! A node whose regions hold together what one of them may: what others send is delivered all the same where
//! it can be, and goes back where it would have to wait. Spec: sharding 10.14 b, reliability I-45.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::secs;
use super::world::{self, World, entity_in, kind, nth_entity_in};
use crate::input::{HostReport, KindSettings};
use crate::ordered::OrderedMap;
use crate::sharding::state::ids::{EntityId, KindId, Payload};

/// Messages that one region may buffer.
const BUFFERED_MAX: usize = 4;

/// A kind that nobody hosts: what is sent to its entities waits.
fn unhosted() -> KindId {
    KindId::of("unhosted")
}

/// Two nodes of which the second holds as many messages of its own as one region may, for a kind that nobody
/// hosts. Beside it hosts, and so does the first, the kind under test; its shards' homes are known. The
/// entities are read when the test says so.
fn crowded() -> World {
    let mut config = world::config();
    config.sharding.buffer_messages_max = BUFFERED_MAX;
    let mut world = World::with_config(2, 0, &config);
    world.all_up();
    for peer in &mut world.peers {
        peer.mailboxes = Some(OrderedMap::new());
    }
    let settings = KindSettings {
        role: world::settings(true).role,
        ..KindSettings::new("unhosted", world::SHARDS, false)
    };
    world.register_as(1, settings);
    world.touch_all(0);
    handle_all(&mut world);
    for number in 0..BUFFERED_MAX {
        world.with(1, |peer| {
            let payload = Payload::from(number.to_string().as_bytes());
            let cx = &mut peer.fixture.cx();
            peer.sharding.tell(cx, unhosted(), entity_in(0), payload);
        });
    }
    let held = world.peers[1].sharding.region(unhosted()).unwrap();
    assert_eq!(held.buffered, BUFFERED_MAX);
    world
}

/// Every entity handles what it has, and stops if it was told to.
fn handle_all(world: &mut World) {
    for at in 0..world.peers.len() {
        while let Some(slot) = world.peers[at].busy().first().copied() {
            world.with(at, |peer| {
                peer.turn(slot);
            });
        }
    }
}

fn handled_by(world: &World, entity: &EntityId) -> Vec<Payload> {
    let all = world.peers.iter().flat_map(|peer| &peer.handled);
    let of_it = all.filter(|(of, payload)| of == entity && **payload != *b"touch".as_slice());
    of_it.map(|(_, payload)| payload.clone()).collect()
}

#[test]
fn i_45_what_finds_all_kinds_of_a_node_full_goes_back_and_holds_up_nobody_else() {
    let mut world = crowded();
    let here = world.hosts();
    let mut on_it = here
        .iter()
        .filter(|(_, at)| at[..] == [1])
        .map(|(shard, _)| shard.0);
    let (first, second) = (on_it.next().unwrap(), on_it.next().unwrap());
    let (leaving, other) = (entity_in(first), nth_entity_in(second, 1));
    // What can be handled is, whatever waits for another kind.
    for text in ["1", "2", "3"] {
        world.tell(0, &other, text);
    }
    handle_all(&mut world);
    assert_eq!(handled_by(&world, &other).len(), 3);
    // What would have to wait goes back.
    let slot = *world.peers[1]
        .mailboxes
        .iter()
        .flatten()
        .find(|(_, mailbox)| mailbox.entity == leaving)
        .unwrap()
        .0;
    world.with(1, |peer| {
        let report = HostReport::Passivate { slot };
        peer.sharding.on_report(&mut peer.fixture.cx(), report);
    });
    for text in ["1", "2", "3"] {
        world.tell(0, &leaving, text);
    }
    let buffered = |world: &World, at: usize| world.peers[at].sharding.region(kind()).unwrap().buffered;
    assert_eq!((buffered(&world, 0), buffered(&world, 1)), (3, 0));
    let given_back = world.peers[1].fixture.stats.sharding.entity_messages_handed_back;
    assert!(given_back > 0);
    // The entity has stopped: its next incarnation gets all of it, in order.
    handle_all(&mut world);
    world.run_for(secs(10));
    handle_all(&mut world);
    let texts = handled_by(&world, &leaving);
    assert_eq!(texts, ["1", "2", "3"].map(|text| Payload::from(text.as_bytes())));
    assert_eq!((buffered(&world, 0), buffered(&world, 1)), (0, 0));
    assert_eq!(
        world.peers[1].sharding.region(unhosted()).unwrap().buffered,
        BUFFERED_MAX
    );
}
