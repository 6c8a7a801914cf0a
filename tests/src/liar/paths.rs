//! What members say of paths: to the leader, of hand-offs, to instances. The table of paths is in the state,
//! which it says as it is. Of the paths that others registered it wants no change and no move: whoever may
//! say a command is a member, and what it wants is done (`SECURITY.md`, 0x0150), so that its requests name
//! paths of its own, for a role that nobody has. Spec: sharding 5.4, 10.17, `docs/WIRE.md` 4.16.

use std::sync::Arc;

use quorate_core::ident::Role;
use quorate_core::message::{Message, PathMsg as Msg};
use quorate_core::paths::protocol::{
    MoveRef, PathBody, PathMark, PathMessage, PathRefusal, PathRequest, PathStatement, StateChunk,
};
use quorate_core::paths::state::instances::FaultTolerance;
use quorate_core::paths::state::name::{PathId, PathName};
use quorate_core::paths::state::options::HandoffOptions;
use quorate_core::paths::state::settings::{PathRouter, PathSettings};
use quorate_core::paths::state::table::{PathEntry, PathEpoch};
use quorate_core::planner::MoveError;

use super::numbers::{
    EXPECTED_LOAD, HASH, INSTANCES, KNOWN_MOVE, PATH_EPOCH, PATH_REQUEST, SLOT, STATE_BYTES, TOLERANCE,
};
use super::{Lie, entities};

/// See [`super::Kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names of the messages")]
pub enum Kind {
    Request,
    Answer,
    Init,
    Ready,
    Failed,
    Begin,
    Begun,
    Marked,
    ForwardMarked,
    GiveUp,
    StateReceived,
    Delivery,
    Mark,
    State,
    Reply,
}

impl Kind {
    pub(super) const ALL: [Self; 15] = [
        Self::Request,
        Self::Answer,
        Self::Init,
        Self::Ready,
        Self::Failed,
        Self::Begin,
        Self::Begun,
        Self::Marked,
        Self::ForwardMarked,
        Self::GiveUp,
        Self::StateReceived,
        Self::Delivery,
        Self::Mark,
        Self::State,
        Self::Reply,
    ];

    pub(super) const fn of(msg: &Msg) -> Self {
        match msg {
            Msg::Statement(statement) => match &statement.body {
                PathBody::Request { .. } => Self::Request,
                PathBody::Answer { .. } => Self::Answer,
                PathBody::Init(_) => Self::Init,
                PathBody::Ready(_) => Self::Ready,
                PathBody::Failed(_) => Self::Failed,
                PathBody::Begin(_) => Self::Begin,
                PathBody::Begun(_) => Self::Begun,
                PathBody::Marked(_) => Self::Marked,
                PathBody::ForwardMarked { .. } => Self::ForwardMarked,
                PathBody::GiveUp(_) => Self::GiveUp,
                PathBody::StateReceived { .. } => Self::StateReceived,
            },
            Msg::Delivery(_) => Self::Delivery,
            Msg::Mark(_) => Self::Mark,
            Msg::State(_) => Self::State,
            Msg::Reply(_) => Self::Reply,
        }
    }
}

pub(super) fn say(kind: Kind, lie: &mut Lie<'_>) -> Message {
    let body = match kind {
        Kind::Request => PathBody::Request {
            number: lie.number(PATH_REQUEST),
            request: request(lie),
        },
        Kind::Answer => PathBody::Answer {
            number: lie.number(PATH_REQUEST),
            refusal: lie.flag().then(|| refusal(lie)),
        },
        Kind::Init => PathBody::Init(change(lie)),
        Kind::Ready => PathBody::Ready(change(lie)),
        Kind::Failed => PathBody::Failed(change(lie)),
        Kind::Begin => PathBody::Begin(change(lie)),
        Kind::Begun => PathBody::Begun(change(lie)),
        Kind::Marked => PathBody::Marked(change(lie)),
        Kind::ForwardMarked => PathBody::ForwardMarked {
            change: change(lie),
            sender: lie.node(),
        },
        Kind::GiveUp => PathBody::GiveUp(change(lie)),
        Kind::StateReceived => PathBody::StateReceived {
            change: change(lie),
            bytes: lie.number(STATE_BYTES),
        },
        Kind::Delivery => return Msg::Delivery(message(lie)).into(),
        Kind::Mark => {
            let (change, origin) = (change(lie), lie.flag().then(|| lie.node()));
            return Msg::Mark(PathMark { change, origin }).into();
        }
        Kind::State => {
            return Msg::State(StateChunk {
                change: change(lie),
                total: lie.number(STATE_BYTES),
                offset: lie.number(STATE_BYTES),
                bytes: lie.bytes().into(),
            })
            .into();
        }
        Kind::Reply => return Msg::Reply(entities::reply(lie)).into(),
    };
    let to = lie.to.clone();
    Msg::Statement(PathStatement { to, body }).into()
}

/// A path that is in the table.
fn entry(lie: &mut Lie<'_>) -> Option<Arc<PathEntry>> {
    let known = lie.known;
    lie.one(known.gossip.paths().entries())
}

/// A path that nobody else registers.
fn own_path(lie: &mut Lie<'_>) -> PathName {
    let names = ["lie", "lies/1", "lies/2", "lies/2/3", "lies-4"];
    let name = lie.one(&names).unwrap_or("lie");
    PathName::new(name).expect("a legal path")
}

fn epoch(lie: &mut Lie<'_>) -> PathEpoch {
    PathEpoch {
        counter: lie.number(PATH_EPOCH),
        leader: lie.node(),
    }
}

/// A move that there is, with one of its parts or none made up; or one that there is not.
fn change(lie: &mut Lie<'_>) -> MoveRef {
    let entry = entry(lie);
    let (path, slots) = match &entry {
        Some(entry) if !lie.chance.per_mille(100) => (entry.name.id(), entry.slots()),
        _ => (PathId::from_raw(lie.number(HASH)), 0),
    };
    let slot = match u16::try_from(lie.chance.index(slots)) {
        Ok(slot) if !lie.chance.per_mille(100) => slot,
        _ => lie.number_u16(SLOT),
    };
    let last = entry
        .as_ref()
        .and_then(|entry| entry.last_move(usize::from(slot)));
    let id = match last {
        Some(last) if lie.flag() => last.id.clone(),
        _ => epoch(lie),
    };
    MoveRef { path, slot, id }
}

fn settings(lie: &mut Lie<'_>) -> Arc<PathSettings> {
    let of = lie.number_u16(TOLERANCE);
    let tolerances = [
        FaultTolerance::Constant(of),
        FaultTolerance::share(of.min(9), 9).unwrap_or(FaultTolerance::Constant(0)),
        FaultTolerance::table(vec![(1, 0), (of.max(2), of)]).unwrap_or(FaultTolerance::Constant(0)),
    ];
    let handoffs = [
        HandoffOptions::STATELESS,
        HandoffOptions::ORDERED,
        HandoffOptions::LOSSY,
        HandoffOptions::DURABLE,
        HandoffOptions::STATEFUL,
    ];
    let routers = [
        PathRouter::RoundRobin,
        PathRouter::LeastLoaded,
        PathRouter::Weighted,
    ];
    let (one, other) = (lie.number_u16(INSTANCES), lie.number_u16(INSTANCES));
    let handoff = lie.one(&handoffs).unwrap_or(HandoffOptions::ORDERED);
    Arc::new(PathSettings {
        name: own_path(lie),
        role: Role::new("lie").ok(),
        fault_tolerance: lie.one(&tolerances).unwrap_or(FaultTolerance::Constant(0)),
        instances_min: one.min(other),
        instances_max: one.max(other),
        expected_load: lie.number_u16(EXPECTED_LOAD),
        mailbox: handoff == HandoffOptions::DURABLE && lie.flag(),
        handoff,
        router: lie.one(&routers).unwrap_or_default(),
        subtree: lie.flag(),
    })
}

fn request(lie: &mut Lie<'_>) -> PathRequest {
    match lie.chance.below(4) {
        0 => PathRequest::Register {
            settings: settings(lie),
            hosts: lie.flag(),
        },
        1 => PathRequest::Change(settings(lie)),
        2 => PathRequest::Remove(own_path(lie)),
        _ => PathRequest::Move {
            path: own_path(lie),
            slot: lie.number_u16(SLOT),
            to: lie.node(),
        },
    }
}

fn refusal(lie: &mut Lie<'_>) -> PathRefusal {
    let refusals = [
        PathRefusal::Differs,
        PathRefusal::Overlaps(own_path(lie)),
        PathRefusal::SameId(own_path(lie)),
        PathRefusal::TooManyPaths,
        PathRefusal::TooManySlots,
        PathRefusal::TooManyBytes,
        PathRefusal::Unknown,
        PathRefusal::Moving,
        PathRefusal::Move(MoveError::InFlight),
    ];
    lie.one(&refusals).unwrap_or(PathRefusal::Unknown)
}

fn message(lie: &mut Lie<'_>) -> PathMessage {
    let MoveRef { path, slot, .. } = change(lie);
    PathMessage {
        path,
        slot,
        known: lie.number(KNOWN_MOVE),
        is_first: lie.flag(),
        origin: lie.flag().then(|| lie.node()),
        ask: lie.flag().then(|| entities::ticket(lie)),
        payload: lie.bytes().into(),
    }
}
