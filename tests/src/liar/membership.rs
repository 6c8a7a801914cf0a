//! What a member says of the membership, with clocks that are not so; and heartbeats. Its states name the
//! members, statuses, observations and tombstones that an honest node's name. Spec: membership 5,
//! `docs/WIRE.md` 4, 5.

use std::sync::Arc;

use quorate_core::agreement::{Setting, Settings};
use quorate_core::ident::{DEFAULT_DATA_CENTER, Roles};
use quorate_core::membership::app_version::AppVersion;
use quorate_core::membership::gossip::{Gossip, GossipParts};
use quorate_core::membership::member_set::MemberSet;
use quorate_core::membership::protocol::JoinRefusal;
use quorate_core::membership::vector_clock::VectorClock;
use quorate_core::message::{
    DetectorMsg, GossipBody, GossipDelta, GossipEnvelope, GossipSeen, GossipStatus, Heartbeat, InitJoin,
    InitJoinAck, Join, JoinRefused, MembershipMsg, Message, StateDigest, StateSteps, Welcome,
};
use quorate_core::ordered::OrderedSet;

use super::Lie;
use super::numbers::{CLOCK, DIGEST, HEARTBEAT, REASON};

/// Entries of a clock in a hundred that are not so.
const WRONG_PER_CENT: u64 = 30;

/// See [`super::Kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names of the messages")]
pub enum Kind {
    InitJoin,
    InitJoinAck,
    InitJoinNack,
    Join,
    Welcome,
    JoinRefused,
    ExitingConfirmed,
    GossipStatus,
    Gossip,
    GossipDelta,
    GossipSeen,
    Heartbeat,
    HeartbeatRsp,
}

impl Kind {
    pub(super) const ALL: [Self; 13] = [
        Self::InitJoin,
        Self::InitJoinAck,
        Self::InitJoinNack,
        Self::Join,
        Self::Welcome,
        Self::JoinRefused,
        Self::ExitingConfirmed,
        Self::GossipStatus,
        Self::Gossip,
        Self::GossipDelta,
        Self::GossipSeen,
        Self::Heartbeat,
        Self::HeartbeatRsp,
    ];

    pub(super) const fn of(msg: &MembershipMsg) -> Option<Self> {
        match msg {
            MembershipMsg::InitJoin(_) => Some(Self::InitJoin),
            MembershipMsg::InitJoinAck(_) => Some(Self::InitJoinAck),
            MembershipMsg::InitJoinNack => Some(Self::InitJoinNack),
            MembershipMsg::Join(_) => Some(Self::Join),
            MembershipMsg::Welcome(_) => Some(Self::Welcome),
            MembershipMsg::JoinRefused(_) => Some(Self::JoinRefused),
            MembershipMsg::ExitingConfirmed { .. } => Some(Self::ExitingConfirmed),
            MembershipMsg::GossipStatus(_) => Some(Self::GossipStatus),
            MembershipMsg::Gossip(_) => Some(Self::Gossip),
            MembershipMsg::GossipDelta(_) => Some(Self::GossipDelta),
            MembershipMsg::GossipSeen(_) => Some(Self::GossipSeen),
            // Members trust each other with these.
            MembershipMsg::Removed { .. } | MembershipMsg::Leave(_) | MembershipMsg::Down(_) => None,
        }
    }

    pub(super) const fn of_detector(msg: &DetectorMsg) -> Self {
        match msg {
            DetectorMsg::Heartbeat(_) => Self::Heartbeat,
            DetectorMsg::HeartbeatRsp(_) => Self::HeartbeatRsp,
        }
    }
}

pub(super) fn say(kind: Kind, lie: &mut Lie<'_>) -> Message {
    let to = lie.to.clone();
    let msg = match kind {
        Kind::InitJoin => MembershipMsg::InitJoin(InitJoin {
            settings: settings(lie),
        }),
        Kind::InitJoinAck => MembershipMsg::InitJoinAck(InitJoinAck {
            compatible: lie.flag(),
            settings: settings(lie),
        }),
        Kind::InitJoinNack => MembershipMsg::InitJoinNack,
        Kind::Join => MembershipMsg::Join(join(lie)),
        Kind::Welcome => MembershipMsg::Welcome(Welcome {
            to,
            gossip: state(lie),
        }),
        Kind::JoinRefused => MembershipMsg::JoinRefused(JoinRefused {
            to,
            reason: refusal(lie),
        }),
        Kind::ExitingConfirmed => MembershipMsg::ExitingConfirmed { to },
        Kind::GossipStatus => MembershipMsg::GossipStatus(GossipStatus {
            to_uid: to.uid(),
            state: name(lie),
            seen_digest: lie.number(DIGEST),
            is_answer: lie.flag(),
        }),
        Kind::Gossip => MembershipMsg::Gossip(GossipEnvelope {
            to,
            gossip: state(lie),
        }),
        Kind::GossipDelta => MembershipMsg::GossipDelta(GossipDelta {
            to,
            is_push: lie.flag(),
            base: name(lie),
            result: name(lie),
            seen: lie.known.gossip.seen_set().clone(),
            steps: StateSteps::new(lie.number(DIGEST).to_le_bytes().to_vec()),
        }),
        Kind::GossipSeen => MembershipMsg::GossipSeen(GossipSeen { to, state: name(lie) }),
        Kind::Heartbeat => return DetectorMsg::Heartbeat(heartbeat(lie)).into(),
        Kind::HeartbeatRsp => return DetectorMsg::HeartbeatRsp(heartbeat(lie)).into(),
    };
    msg.into()
}

fn heartbeat(lie: &mut Lie<'_>) -> Heartbeat {
    Heartbeat::new(lie.to, lie.number(HEARTBEAT))
}

fn join(lie: &Lie<'_>) -> Join {
    let roles = Roles::new(lie.known.roles.clone(), DEFAULT_DATA_CENTER);
    let app_version = lie.known.gossip.member(&lie.known.me).map_or_else(
        || AppVersion::new("1").expect("invariant: a short version is legal"),
        |member| member.app_version.clone(),
    );
    Join {
        to: lie.to.clone(),
        roles: roles.expect("invariant: these roles are a member's"),
        app_version,
    }
}

fn refusal(lie: &mut Lie<'_>) -> JoinRefusal {
    match lie.number(REASON) {
        1 => JoinRefusal::ShuttingDown,
        2 => JoinRefusal::ReceiverLeaving,
        3 => JoinRefusal::AddressConflict,
        4 => JoinRefusal::UidRemoved,
        5 => JoinRefusal::TooManyMembers,
        6 => JoinRefusal::TooManyTombstones,
        7 => JoinRefusal::NotAdmitted,
        8 => JoinRefusal::StateTooLarge,
        code => JoinRefusal::Other {
            code: u8::try_from(code).unwrap_or(u8::MAX),
        },
    }
}

fn settings(lie: &mut Lie<'_>) -> Settings {
    let count = lie.chance.below(3);
    let settings = (0..count).map(|at| Setting::new(format!("liar.{at}"), lie.number(DIGEST)));
    Settings::new(settings.collect::<Vec<_>>()).expect("invariant: a few short settings are legal")
}

/// The name of a state that nobody holds, or of no state at all.
fn name(lie: &mut Lie<'_>) -> StateDigest {
    StateDigest(u128::from(lie.number(DIGEST)))
}

/// A clock of the members, with numbers that are not so.
fn clock(lie: &mut Lie<'_>) -> VectorClock {
    let known = Arc::clone(&lie.known.gossip);
    let entries = known.members().iter().map(|member| {
        let counter = known.version().get(&member.node);
        let is_wrong = lie.chance.per_mille(WRONG_PER_CENT * 10);
        let counter = if is_wrong { lie.number(CLOCK) } else { counter };
        (member.node.clone(), counter)
    });
    let entries = entries.filter(|(_, counter)| *counter > 0).collect();
    VectorClock::from_entries(entries).expect("invariant: members are named once")
}

/// The state that it holds under such a clock, seen by nobody but the liar.
fn state(lie: &mut Lie<'_>) -> GossipBody {
    let version = clock(lie);
    let known = &lie.known.gossip;
    let mut seen = MemberSet::new();
    if let Some(me) = known.position(&lie.known.me) {
        seen.insert(me);
    }
    let tombstones: OrderedSet<_> = known.tombstones().iter().cloned().collect();
    let state = Gossip::from_parts(GossipParts {
        members: known.members().to_vec(),
        reachability: known.reachability().clone(),
        version,
        seen,
        tombstones,
        paths: Arc::clone(known.paths()),
    });
    GossipBody::Held(Arc::new(
        state.expect("invariant: a member's state is well formed"),
    ))
}
