//! What the facade adds up over its machines, and how a node ends. Spec: I-44, I-45.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use super::*;
use crate::config::Config;
use crate::effect::HostOrder;
use crate::fixture;
use crate::ident::ClusterName;
use crate::input::MessageCommand;
use crate::input::Recipient;
use crate::input::ShardingCommand;
use crate::input::SingletonCommand;
use crate::input::{DownTarget, DropReason, KindSettings, MembershipCommand, SendTarget, SingletonSettings};
use crate::lease::protocol::{LeaseOrder, LeaseOutcome, LeaseReport};
use crate::message::SingletonMsg;
use crate::message::{AskTicket, EntityEnvelope, Message, ShardingMsg};
use crate::owner::Requester;
use crate::paths::protocol::{Command as PathCommand, Msg as PathMsg, PathMessage, PathPick};
use crate::paths::state::name::PathName;
use crate::paths::state::settings::PathSettings;
use crate::sharding::state::chain::AskChain;
use crate::sharding::state::ids::{AskRef, EntityId, KindId, Payload, ShardId, Slot};
use crate::singleton::protocol::InstanceMessage;
use crate::singleton::state::SingletonId;
use crate::token::Token;

const KINDS: [&str; 2] = ["cart", "order"];

/// A node outside of any cluster, with two kinds: what is told to their entities waits.
fn node_with_room_for(messages: usize, bytes: usize) -> Node<ChaCha8Rng> {
    let mut config = Config::lan(ClusterName::new("test").unwrap());
    config.sharding.buffer_messages_max = messages;
    config.sharding.buffer_bytes_max = bytes;
    let (me, rng) = (fixture::node("a", 1), ChaCha8Rng::seed_from_u64(1));
    let mut node = Node::new(config.validate().unwrap(), me, rng, Now::default());
    for (token, name) in (1..).zip(KINDS) {
        let command = Command::Sharding(ShardingCommand::RegisterKind(Box::new(KindSettings::new(
            name, 8, true,
        ))));
        node.handle(Now::default(), Input::Command { token, command });
    }
    node
}

fn tell(node: &mut Node<ChaCha8Rng>, kind: &str, bytes: usize) {
    let tell = Input::Tell {
        to: Recipient::Entity(KindId::of(kind), EntityId::new(b"e")),
        payload: Payload::from(std::vec![7; bytes]),
    };
    node.handle(Now::default(), tell);
}

#[test]
fn i_45_what_is_buffered_is_the_sum_of_what_each_machine_buffers() {
    let mut node = node_with_room_for(100, 1_000);
    assert_eq!(node.buffered(), BufferedLoad::NOTHING);
    for kind in KINDS {
        tell(&mut node, kind, 9);
    }
    let shares = node.machines.shares();
    let all = BufferedLoad {
        messages: 2,
        bytes: 20,
    };
    let expected = [
        ("membership", BufferedLoad::NOTHING),
        ("detector", BufferedLoad::NOTHING),
        ("resolver", BufferedLoad::NOTHING),
        ("sharding", all),
        ("ddata", BufferedLoad::NOTHING),
        ("singletons", BufferedLoad::NOTHING),
        ("paths", BufferedLoad::NOTHING),
    ];
    assert_eq!((shares, node.buffered()), (expected, all));
}

fn books(lease: bool) -> SingletonSettings {
    SingletonSettings {
        name: "books".into(),
        role: None,
        hosts: true,
        lease,
        durable: false,
    }
}

/// To whom users' messages go, all of whom answer for their asks in one way.
fn recipients() -> [Recipient; 3] {
    let entity = Recipient::Entity(KindId::of(KINDS[0]), EntityId::from("e"));
    let singleton = Recipient::Singleton(SingletonId::of("books"));
    [entity, singleton, Recipient::Path(shelf().id(), PathPick::Routed)]
}

fn shelf() -> PathName {
    PathName::new("shelf").unwrap()
}

/// Registers a path of one instance, and waits until asks find it.
fn run_path(node: &mut Node<ChaCha8Rng>, now: &mut Now) {
    let settings = PathSettings::new(shelf());
    let command = Command::Path(PathCommand::Register {
        settings,
        hosts: true,
    });
    node.handle(*now, Input::Command { token: 6, command });
    while now.mono < Now::default().mono + Duration::from_secs(10) {
        match node.poll() {
            Output::Effect(Effect::Host(owner, HostOrder::Start { slot, .. })) => {
                node.handle(*now, Input::Host(owner, HostReport::Running { slot }));
            }
            Output::Effect(_) => {}
            Output::Sleep(wake) => {
                now.mono = wake.unwrap().at;
                node.handle(*now, Input::Tick);
            }
        }
    }
}

/// Four asks of somebody on this node, which is alone and Up; who waits for the answers.
fn node_with_open_asks(to: &Recipient) -> (Node<ChaCha8Rng>, Now, Vec<AskRef>) {
    let mut now = Now::default();
    let mut node = node_with_room_for(100, 1_000);
    let command = Command::Singleton(SingletonCommand::Register(books(false)));
    node.handle(now, Input::Command { token: 4, command });
    let me = node.me().address().clone();
    let join = Command::Membership(MembershipCommand::Join(me));
    node.handle(
        now,
        Input::Command {
            token: 3,
            command: join,
        },
    );
    if matches!(to, Recipient::Path(..)) {
        run_path(&mut node, &mut now);
    }
    let ask = |token| {
        let command = Command::Message(MessageCommand::Ask {
            to: to.clone(),
            payload: Payload::from(b"?".as_slice()),
            timeout: Duration::from_secs(3_600),
            chain: AskChain::default(),
        });
        Input::Command { token, command }
    };
    for token in 10..14 {
        node.handle(now, ask(token));
    }
    let mut asked = Vec::new();
    while asked.len() < 4 {
        match node.poll() {
            Output::Effect(Effect::Host(_, HostOrder::Deliver { reply_to, .. })) => asked.extend(reply_to),
            Output::Effect(Effect::Store(owner, request)) => {
                node.handle(now, Input::Stored(owner, request.without_a_store()));
            }
            Output::Effect(_) => {}
            Output::Sleep(wake) => {
                now.mono = wake.unwrap().at;
                node.handle(now, Input::Tick);
            }
        }
    }
    (node, now, asked)
}

/// What a host gives back when the node has ended: the first ask was not sent, the second not begun with, the
/// third answered.
fn give_back(node: &mut Node<ChaCha8Rng>, now: Now, asked: &[AskRef], to: &Recipient) {
    let payload = Payload::from(b"?".as_slice());
    let ask = Some(AskTicket {
        ask: asked[0].clone(),
        remaining_ms: 1,
        chain: AskChain::default(),
    });
    let (owner, message) = match to {
        Recipient::Entity(kind, entity) => {
            let message = EntityEnvelope {
                kind: *kind,
                shard: ShardId::of(entity, 8),
                entity: entity.clone(),
                payload,
                ask,
                hops: 0,
            };
            (
                Requester::Sharding,
                Message::Sharding(ShardingMsg::Entity(message)),
            )
        }
        Recipient::Singleton(singleton) => {
            let message = InstanceMessage {
                singleton: *singleton,
                token: Token::new(1, 1),
                ask,
                payload,
            };
            (
                Requester::Singleton,
                Message::Singleton(SingletonMsg::Delivery(message)),
            )
        }
        Recipient::Path(path, _) => {
            let message = PathMessage {
                path: *path,
                slot: 0,
                known: 0,
                is_first: true,
                origin: None,
                ask,
                payload,
            };
            (Requester::Path, Message::Path(PathMsg::Delivery(message)))
        }
    };
    let unsent = LinkEvent::Dropped {
        to: SendTarget::Node(node.me().clone()),
        message,
        reason: DropReason::Unreachable,
    };
    node.handle(now, Input::Link(unsent));
    let not_begun = Err(AskFailure::EntityStoppedUnhandled);
    let done = Ok(Payload::from(b"!".as_slice()));
    for (ask, result) in [(&asked[1], not_begun), (&asked[2], done)] {
        let ask = ask.clone();
        node.handle(now, Input::Host(owner, HostReport::Answered { ask, result }));
    }
}

/// The answers to asks until the node says nothing more, and how often it halts.
fn last_words(node: &mut Node<ChaCha8Rng>) -> (Vec<(u64, Option<AskFailure>)>, usize) {
    let (mut answers, mut halts) = (Vec::new(), 0);
    while let Output::Effect(effect) = node.poll() {
        assert_eq!(halts, 0, "nothing follows: {effect:?}");
        match effect {
            Effect::Reply {
                token,
                answer: Answer::Asked(result),
            } => answers.push((token, result.err())),
            Effect::Halt(_) => halts += 1,
            _ => {}
        }
    }
    answers.sort_by_key(|(token, _)| *token);
    (answers, halts)
}

const TRUTH: [(u64, Option<AskFailure>); 4] = [
    (10, Some(AskFailure::NodeStoppedUnsent)),
    (11, Some(AskFailure::EntityStoppedUnhandled)),
    (12, None),
    (13, Some(AskFailure::NodeStopped)),
];

#[test]
fn i_44_a_downed_node_tells_its_callers_what_its_host_gives_back_before_it_halts() {
    for to in recipients() {
        let (mut node, mut now, asked) = node_with_open_asks(&to);
        let target = DownTarget::Node(node.me().clone());
        let command = Command::Membership(MembershipCommand::Down(target));
        node.handle(now, Input::Command { token: 5, command });
        loop {
            match node.poll() {
                Output::Effect(Effect::Notify(Event::Membership(MembershipEvent::SelfRemoved))) => break,
                Output::Effect(Effect::Reply { token: 10.., answer }) => panic!("too early: {answer:?}"),
                Output::Effect(_) => {}
                Output::Sleep(wake) => {
                    now.mono = wake.unwrap().at;
                    node.handle(now, Input::Tick);
                }
            }
        }
        give_back(&mut node, now, &asked, &to);
        assert_eq!(last_words(&mut node), (TRUTH.to_vec(), 1), "{to:?}");
        give_back(&mut node, now, &asked, &to);
        assert!(matches!(node.poll(), Output::Sleep(None)), "said is said");
    }
}

#[test]
fn i_44_a_node_that_is_stopped_tells_its_callers_what_its_host_gives_back() {
    for to in recipients() {
        let (mut node, now, asked) = node_with_open_asks(&to);
        node.stop(now);
        give_back(&mut node, now, &asked, &to);
        assert_eq!(last_words(&mut node), (TRUTH.to_vec(), 0), "{to:?}");
        assert_eq!(node.check_invariants(), Ok(()));
    }
}

#[test]
fn i_44_a_host_that_gives_nothing_back_hears_of_every_ask_all_the_same() {
    for to in recipients() {
        let (mut node, now, _) = node_with_open_asks(&to);
        node.stop(now);
        let stopped = |token| (token, Some(AskFailure::NodeStopped));
        let all = (10..14).map(stopped).collect();
        assert_eq!(last_words(&mut node), (all, 0), "{to:?}");
    }
}

/// A node that is alone and Up, with an entity and a singleton's instance that run under leases; where they
/// run.
fn node_with_leases() -> (Node<ChaCha8Rng>, Now, [Slot; 2]) {
    let mut now = Now::default();
    let mut node = node_with_room_for(100, 1_000);
    let kind = KindSettings {
        lease: true,
        ..KindSettings::new("vault", 1, true)
    };
    let join = MembershipCommand::Join(node.me().address().clone());
    let commands = [
        Command::Sharding(ShardingCommand::RegisterKind(Box::new(kind))),
        Command::Singleton(SingletonCommand::Register(books(true))),
        Command::Membership(join),
    ];
    for (token, command) in (3..).zip(commands) {
        node.handle(now, Input::Command { token, command });
    }
    tell(&mut node, "vault", 1);
    let (mut entity, mut instance) = (None, None);
    loop {
        assert!(
            now.mono < Now::default().mono + Duration::from_secs(300),
            "both run soon"
        );
        match node.poll() {
            Output::Effect(Effect::Host(Requester::Sharding, HostOrder::Start { slot, .. })) => {
                entity = Some(slot)
            }
            Output::Effect(Effect::Host(Requester::Singleton, HostOrder::Start { slot, .. })) => {
                instance = Some(slot)
            }
            Output::Effect(Effect::Lease(owner, LeaseOrder::Acquire { name, .. })) => {
                let outcome = LeaseOutcome::Granted { token: 1 };
                node.handle(now, Input::Lease(owner, LeaseReport { name, outcome }));
            }
            Output::Effect(Effect::Store(owner, request)) => {
                node.handle(now, Input::Stored(owner, request.without_a_store()));
            }
            Output::Effect(_) => {}
            Output::Sleep(_) if entity.is_some() && instance.is_some() => break,
            Output::Sleep(wake) => {
                now.mono = wake.unwrap().at;
                node.handle(now, Input::Tick);
            }
        }
    }
    (node, now, [entity.unwrap(), instance.unwrap()])
}

/// What the node says until it says nothing more; who gives a lease back with it.
fn given_back(node: &mut Node<ChaCha8Rng>) -> (usize, Vec<Requester>) {
    let (mut said, mut owners) = (0, Vec::new());
    while let Output::Effect(effect) = node.poll() {
        said += 1;
        if let Effect::Lease(owner, LeaseOrder::Release { .. }) = effect {
            owners.push(owner);
        }
    }
    (said, owners)
}

fn gives_back_with_the_last_end(mut node: Node<ChaCha8Rng>, now: Now, [entity, instance]: [Slot; 2]) {
    assert!(node.is_halted());
    assert_eq!(given_back(&mut node).1, [], "both run");
    node.handle(
        now,
        Input::Host(Requester::Sharding, HostReport::Stopped { slot: entity }),
    );
    assert_eq!(
        given_back(&mut node),
        (1, std::vec![Requester::Sharding]),
        "and nothing else is said"
    );
    node.handle(
        now,
        Input::Host(Requester::Singleton, HostReport::Stopped { slot: instance }),
    );
    assert_eq!(given_back(&mut node), (1, std::vec![Requester::Singleton]));
    assert!(
        matches!(node.poll(), Output::Sleep(None)),
        "nothing is waited for"
    );
    assert_eq!(node.check_invariants(), Ok(()));
    for slot in [entity, instance] {
        node.handle(
            now,
            Input::Host(Requester::Sharding, HostReport::Stopped { slot }),
        );
        node.handle(
            now,
            Input::Host(Requester::Singleton, HostReport::Stopped { slot }),
        );
    }
    assert_eq!(given_back(&mut node), (0, Vec::new()), "once");
}

#[test]
fn i_34_i_54_a_downed_node_gives_its_leases_back_once_nothing_runs_under_them() {
    let (mut node, mut now, slots) = node_with_leases();
    let target = DownTarget::Node(node.me().clone());
    let command = Command::Membership(MembershipCommand::Down(target));
    node.handle(now, Input::Command { token: 4, command });
    while !node.is_halted() {
        match node.poll() {
            Output::Effect(Effect::Lease(_, order)) => panic!("too early: {order:?}"),
            Output::Effect(_) => {}
            Output::Sleep(wake) => {
                now.mono = wake.unwrap().at;
                node.handle(now, Input::Tick);
            }
        }
    }
    gives_back_with_the_last_end(node, now, slots);
}

#[test]
fn i_34_i_54_a_node_that_is_stopped_gives_its_leases_back_once_nothing_runs_under_them() {
    let (mut node, now, slots) = node_with_leases();
    node.stop(now);
    gives_back_with_the_last_end(node, now, slots);
}
