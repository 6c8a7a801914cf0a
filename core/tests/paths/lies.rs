//! What a member says of moves, requests and asks that there are not, or in which it has no part: nothing
//! comes of it. Spec: reliability 1a (F-30), sharding 10.17, `docs/limits.md`.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_core::effect::CommandError;
use quorate_core::ident::UniqueAddress;
use quorate_core::input::PathCommand;
use quorate_core::message::{AskReply, Message, PathMsg};
use quorate_core::paths::protocol::{
    MoveRef, PathBody, PathCommandError, PathMark, PathMessage, PathRefusal, PathStatement, StateChunk,
};
use quorate_core::paths::state::name::PathName;
use quorate_core::paths::state::table::PathEpoch;
use quorate_core::token::Token;

use crate::laws::check;
use crate::scenes::{SOON, registered, three};
use crate::world::World;

/// Who leads, and who lies.
const LEADER: usize = 0;
const LIAR: usize = 3;

/// Everything that is said of a move.
fn about(change: &MoveRef, to: &UniqueAddress, liar: &UniqueAddress) -> Vec<PathMsg> {
    let of = || change.clone();
    let bodies = [
        PathBody::Init(of()),
        PathBody::Ready(of()),
        PathBody::Failed(of()),
        PathBody::Begin(of()),
        PathBody::Begun(of()),
        PathBody::Marked(of()),
        PathBody::ForwardMarked {
            change: of(),
            sender: to.clone(),
        },
        PathBody::GiveUp(of()),
        PathBody::StateReceived {
            change: of(),
            bytes: u64::MAX,
        },
    ];
    let statements = bodies.map(|body| PathMsg::Statement(PathStatement { to: to.clone(), body }));
    let mark = |origin| PathMsg::Mark(PathMark { change: of(), origin });
    let passed_on = PathMsg::Delivery(PathMessage {
        path: change.path,
        slot: change.slot,
        known: change.id.counter,
        is_first: true,
        origin: Some(liar.clone()),
        ask: None,
        payload: Box::from([15, 0, 0, 0, 0, 0, 0, 0, 0]),
    });
    let state = PathMsg::State(StateChunk {
        change: of(),
        total: u64::MAX,
        offset: u64::MAX,
        bytes: Box::from([1]),
    });
    statements
        .into_iter()
        .chain([mark(None), mark(Some(to.clone())), passed_on, state])
        .collect()
}

fn tokens(world: &World) -> BTreeMap<(String, u16), (usize, Token)> {
    let mut all = BTreeMap::new();
    for (at, host) in world.hosts.iter().enumerate() {
        for (name, slot, token) in host.node.paths().running() {
            all.insert((name.as_str().to_owned(), slot), (at, token));
        }
    }
    all
}

fn counter(world: &World) -> u64 {
    world.hosts[LEADER].node.view().gossip().paths().counter()
}

/// Tells everybody everything about moves with these counters of each slot, and one more.
fn lie(world: &mut World, counters: &[u64]) {
    let liar = world.address(LIAR);
    let entries = world.hosts[LIAR].node.view().gossip().paths().entries().to_vec();
    for to in 0..LIAR {
        let receiver = world.address(to);
        for entry in &entries {
            for slot in 0..=u16::try_from(entry.slots()).unwrap() {
                let last = entry.last_move(usize::from(slot)).map(|last| last.id.clone());
                let leaders = [world.address(LEADER), liar.clone()];
                let made_up = counters.iter().flat_map(|counter| {
                    leaders.clone().map(|leader| PathEpoch {
                        counter: *counter,
                        leader,
                    })
                });
                for id in made_up.chain(last) {
                    let change = MoveRef {
                        path: entry.name.id(),
                        slot,
                        id,
                    };
                    for msg in about(&change, &receiver, &liar) {
                        world.hear(LIAR, to, &Message::Path(msg));
                    }
                }
            }
        }
    }
}

#[test]
fn i_100_moves_of_any_epoch_that_there_are_not_change_nothing() {
    let mut world = World::new(4, 9);
    let paths = three();
    registered(&mut world, &paths);
    let (before, at) = (tokens(&world), counter(&world));
    lie(&mut world, &[0, 1, at, at + 1, 1 << 48, u64::MAX]);
    world.run_for(Duration::from_secs(5));
    assert_eq!((tokens(&world), counter(&world)), (before.clone(), at));
    // The next move of each slot is a step above the last one, as if nothing had been said.
    for settings in &paths {
        let hosts = world.hosts_of(&settings.name);
        let free = (0..LIAR).map(|at| world.address(at));
        let free = free.into_iter().find(|node| !hosts.contains(&Some(node.clone())));
        let (path, to) = (settings.name.clone(), free.unwrap());
        assert_eq!(world.told(1, PathCommand::Move { path, slot: 0, to }), Ok(()));
        for round in 0..100 {
            world.run_for(Duration::from_millis(2));
            // Of the move that is under way, as soon as the liar knows of it.
            lie(&mut world, &[]);
            if round % 10 == 0 {
                world.ask(round % 4, settings.name.id(), 0);
            }
        }
    }
    world.run_until(SOON, World::is_quiet);
    let after = tokens(&world);
    for settings in &paths {
        let slot = (settings.name.as_str().to_owned(), 0);
        assert!(after[&slot].0 != before[&slot].0 && after[&slot].1 > before[&slot].1);
    }
    assert!(counter(&world) < at + 64, "{}", counter(&world));
    world.run_for(Duration::from_secs(25));
    check(&world, &paths, true);
}

#[test]
fn i_100_answers_to_requests_and_asks_that_nobody_has_made_are_nobody_s() {
    let mut world = World::new(4, 10);
    let paths = three();
    registered(&mut world, &paths);
    for number in (0..64).map(|bit| 1 << bit).chain([0, u64::MAX, 1 << 63 | 1]) {
        for to in 0..LIAR {
            let receiver = world.address(to);
            let body = PathBody::Answer {
                number,
                refusal: None,
            };
            let statement = PathStatement {
                to: receiver.clone(),
                body,
            };
            world.hear(LIAR, to, &Message::Path(PathMsg::Statement(statement)));
            let reply = AskReply {
                id: number,
                to: receiver,
                result: Ok(Box::from(*b"a lie")),
            };
            world.hear(LIAR, to, &Message::Path(PathMsg::Reply(reply)));
        }
    }
    let unknown = PathName::new("nowhere").unwrap();
    assert_eq!(
        world.told(1, PathCommand::Remove(unknown)),
        Err(CommandError::Path(PathCommandError::Refused(
            PathRefusal::Unknown
        ))),
        "the leader's own answer"
    );
    for from in 0..LIAR {
        world.ask(from, paths[0].name.id(), 0);
    }
    world.run_for(Duration::from_secs(25));
    assert_eq!(world.handled.len(), LIAR);
    check(&world, &paths, true);
}
