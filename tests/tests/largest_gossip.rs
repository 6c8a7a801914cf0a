//! The largest legal gossip into the emptiest nodes, through a real frame: no panic, and work that is bounded
//! by a few effects for each member. Spec: `ARCHITECTURE.md` ("a bounded queue whose bound is not a protocol
//! fact is a remote crash").

use std::sync::Arc;

use quorate_core::admission::PeerProof;
use quorate_core::agreement::Settings;
use quorate_core::config::{Config, Limits};
use quorate_core::effect::{Effect, Output};
use quorate_core::event::Event;
use quorate_core::ident::{Address, ClusterName, Role, Roles, UniqueAddress};
use quorate_core::input::{Command, Input, MembershipCommand};
use quorate_core::membership::app_version::AppVersion;
use quorate_core::membership::gossip::{Gossip, GossipParts};
use quorate_core::membership::member::{Member, Status, UpNumber};
use quorate_core::membership::member_set::MemberSet;
use quorate_core::membership::reachability::Reachability;
use quorate_core::membership::vector_clock::VectorClock;
use quorate_core::message::{GossipEnvelope, InitJoinAck, MembershipMsg, Message, Welcome};
use quorate_core::node::Node;
use quorate_core::ordered::OrderedSet;
use quorate_core::paths::state::name::PathName;
use quorate_core::paths::state::options::HandoffOptions;
use quorate_core::paths::state::settings::PathSettings;
use quorate_core::paths::state::table::{MoveStatus, PathEntry, PathEpoch, PathRecord, PathTable, SlotMove};
use quorate_core::reject::Rejection;
use quorate_core::time::{Instant, Now};
use quorate_core::view::MembershipPhase;
use quorate_core::wire::{self, DecodedFrame, Reaction, WireError};
use quorate_tests::sim::Purpose;
use rand_chacha::ChaCha8Rng;

/// Effects that one input may cause for each member: its events (joined, up, left, exited or downed,
/// unreachable), and a role leader for each of its roles.
const EFFECTS_PER_MEMBER_MAX: usize = 8;

fn config() -> Config {
    Config::lan(ClusterName::new("test").expect("legal"))
}

fn unique(index: usize) -> UniqueAddress {
    let host = format!("node-{index:05}.rack-{:02}.example", index % 40);
    UniqueAddress::new(
        Address::new(&host, 2_551).expect("legal"),
        index as u64 * 7_919 + 1,
    )
}

fn now(millis: u64) -> Now {
    Now {
        mono: Instant::from_millis(millis),
        unix_ms: 1_750_000_000_000 + millis,
    }
}

/// As many members as a cluster may have, all with clock entries, a tenth of them unreachable for a
/// neighbour, and with a mixture of statuses.
fn largest(me: &UniqueAddress) -> Gossip {
    with_members(me, config().limits.members_max)
}

fn with_members(me: &UniqueAddress, count: usize) -> Gossip {
    let config = config();
    let mut nodes: Vec<UniqueAddress> = (1..count).map(unique).collect();
    nodes.push(me.clone());
    nodes.sort();
    let statuses = [
        Status::Up,
        Status::Up,
        Status::Up,
        Status::Joining,
        Status::Leaving,
        Status::Exiting,
        Status::Down,
    ];
    let members: Vec<Member> = nodes
        .iter()
        .enumerate()
        .map(|(at, node)| {
            let roles = [Role::new(&format!("role-{}", at % 30)).expect("legal")];
            let status = if node == me {
                Status::Joining
            } else {
                statuses[at % statuses.len()]
            };
            let up_number = if status == Status::Joining {
                UpNumber::NONE
            } else {
                UpNumber::new(at as u32 + 1)
            };
            Member {
                node: node.clone(),
                status,
                up_number,
                roles: Roles::new(roles, "default").expect("legal"),
                app_version: AppVersion::default(),
            }
        })
        .collect();
    let mut reachability = Reachability::new();
    for pair in nodes.windows(2).step_by(10) {
        reachability.unreachable(&pair[0], &pair[1]);
    }
    let clock = nodes
        .iter()
        .filter(|node| *node != me)
        .map(|node| (node.clone(), 1 << 40));
    let clock = VectorClock::from_entries(clock.collect()).expect("no entry twice");
    let mut seen = MemberSet::new();
    for at in (0..count).step_by(2) {
        seen.insert(at);
    }
    let tombstones: OrderedSet<UniqueAddress> = (0..config.limits.tombstones_max)
        .map(|at| unique(20_000 + at))
        .collect();
    Gossip::from_parts(GossipParts {
        members,
        reachability,
        version: clock,
        seen,
        tombstones,
        paths: largest_table(),
    })
    .expect("well formed")
}

/// As many paths, slots and moves as there may be.
fn largest_table() -> Arc<PathTable> {
    let epoch = PathEpoch {
        counter: 1,
        leader: unique(0),
    };
    let entries = (0..8).map(|at| {
        let hosts: Vec<_> = (0..1_000).map(|slot| Some(unique(slot))).collect();
        let a_move = |host: &Option<UniqueAddress>| SlotMove {
            id: epoch.clone(),
            status: MoveStatus::Complete,
            from: host.clone(),
            to: Some(unique(0)),
            options: HandoffOptions::ORDERED,
        };
        let name = PathName::new(&format!("p{at}")).expect("legal");
        Arc::new(PathEntry {
            moves: hosts.iter().map(|host| Some(a_move(host))).collect(),
            record: PathRecord {
                epoch: epoch.clone(),
                settings: Some(Arc::new(PathSettings::new(name.clone()))),
                scale: 0,
                hosts,
            },
            name,
        })
    });
    Arc::new(PathTable::new(1, None, entries.collect()).expect("fits"))
}

fn feed(node: &mut Node<ChaCha8Rng>, at: Now, from: &UniqueAddress, message: &Message) -> Vec<Effect> {
    let limits = node.config().limits.clone();
    feed_encoded(node, at, from, message, &limits)
}

/// The message as a peer with these limits sends it.
fn feed_encoded(
    node: &mut Node<ChaCha8Rng>,
    at: Now,
    from: &UniqueAddress,
    message: &Message,
    theirs: &Limits,
) -> Vec<Effect> {
    let limits = node.config().limits.clone();
    let mut bytes = Vec::new();
    wire::encode_message(message, 1, theirs, &mut bytes).expect("fits into its lane's frame");
    let DecodedFrame::Frame { frame, consumed } = wire::decode_frame(&bytes, &limits) else {
        panic!("the frame is whole and legal");
    };
    assert_eq!(consumed, bytes.len());
    node.handle(
        at,
        Input::Frame {
            proof: PeerProof::Nothing,
            from,
            lane: frame.lane,
            kind: frame.kind,
            body: frame.body,
        },
    );
    drain(node)
}

fn drain(node: &mut Node<ChaCha8Rng>) -> Vec<Effect> {
    let mut effects = Vec::new();
    while let Output::Effect(effect) = node.poll() {
        effects.push(effect);
    }
    effects
}

fn node(me: &UniqueAddress) -> Node<ChaCha8Rng> {
    let config = config().validate().expect("legal");
    Node::new(config, me.clone(), Purpose::Node(0).rng(1), now(0))
}

#[test]
fn the_largest_welcome_makes_an_empty_node_a_member_with_bounded_work() {
    let (me, seed) = (unique(0), unique(1));
    let mut node = node(&me);
    let command = Command::Membership(MembershipCommand::JoinSeeds(vec![seed.address().clone()]));
    node.handle(now(1), Input::Command { token: 1, command });
    drain(&mut node);
    feed(
        &mut node,
        now(2),
        &seed,
        &Message::Membership(MembershipMsg::InitJoinAck(InitJoinAck {
            compatible: true,
            settings: Settings::default(),
        })),
    );
    let gossip = Arc::new(largest(&me));
    let count = gossip.members().len();
    assert_eq!(count, config().limits.members_max);
    let effects = feed(
        &mut node,
        now(3),
        &seed,
        &Message::Membership(MembershipMsg::Welcome(Welcome {
            to: me.clone(),
            gossip: gossip.into(),
        })),
    );
    assert_eq!(node.view().phase(), MembershipPhase::Member);
    assert_eq!(node.view().members().len(), count);
    assert!(
        effects.len() <= EFFECTS_PER_MEMBER_MAX * count,
        "{} effects",
        effects.len()
    );
    node.check_invariants().expect("a well-formed node");
    for step in 1..=50 {
        node.handle(now(3 + step * 200), Input::Tick);
        assert!(drain(&mut node).len() <= EFFECTS_PER_MEMBER_MAX * count);
    }
    node.check_invariants().expect("a well-formed node");
}

#[test]
fn the_largest_gossip_into_a_node_that_asked_for_nothing_changes_nothing() {
    let (me, stranger) = (unique(0), unique(1));
    let mut node = node(&me);
    let envelope = GossipEnvelope {
        to: me.clone(),
        gossip: Arc::new(largest(&me)).into(),
    };
    let effects = feed(
        &mut node,
        now(1),
        &stranger,
        &Message::Membership(MembershipMsg::Gossip(envelope)),
    );
    assert!(effects.len() <= 1, "{effects:?}");
    assert_eq!(node.view().members().len(), 0);
    node.check_invariants().expect("a well-formed node");
}

/// The joiner of [`the_largest_welcome_makes_an_empty_node_a_member_with_bounded_work`], but for one member.
#[test]
fn b_29_with_one_member_more_the_largest_welcome_is_refused_and_changes_nothing() {
    let (me, seed) = (unique(0), unique(1));
    let mut node = node(&me);
    let command = Command::Membership(MembershipCommand::JoinSeeds(vec![seed.address().clone()]));
    node.handle(now(1), Input::Command { token: 1, command });
    drain(&mut node);
    let ack = Message::Membership(MembershipMsg::InitJoinAck(InitJoinAck {
        compatible: true,
        settings: Settings::default(),
    }));
    feed(&mut node, now(2), &seed, &ack);
    let mut theirs = config().limits;
    theirs.members_max += 1;
    let gossip = Arc::new(with_members(&me, theirs.members_max));
    assert_eq!(gossip.members().len(), config().limits.members_max + 1);
    let welcome = Message::Membership(MembershipMsg::Welcome(Welcome {
        to: me.clone(),
        gossip: gossip.into(),
    }));
    let before = *node.stats();
    let effects = feed_encoded(&mut node, now(3), &seed, &welcome, &theirs);
    let [
        Effect::Notify(Event::Rejected {
            peer,
            rejection: Rejection::Wire(error),
        }),
    ] = &effects[..]
    else {
        panic!("{effects:?}");
    };
    assert_eq!(peer, &seed);
    assert!(
        matches!(error, WireError::LimitExceeded { what: "members" }),
        "{error:?}"
    );
    assert_eq!(error.reaction(), Reaction::CloseAndCount);
    assert_eq!(node.stats().node.rejected_limit, before.node.rejected_limit + 1);
    assert_eq!(node.view().members().len(), 0);
    assert_ne!(node.view().phase(), MembershipPhase::Member);
    node.check_invariants().expect("a well-formed node");
}
