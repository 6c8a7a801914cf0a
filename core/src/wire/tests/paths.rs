//! Samples of what nodes say about paths.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{chained, node};
use crate::ident::{Role, UniqueAddress};
use crate::message::{AskReply, AskTicket, Message, PathMsg};
use crate::paths::protocol::{
    MoveRef, PathBody, PathMark, PathMessage, PathRefusal, PathRequest, PathStatement, StateChunk,
};
use crate::paths::state::instances::FaultTolerance;
use crate::paths::state::name::PathName;
use crate::paths::state::options::HandoffOptions;
use crate::paths::state::settings::{PathRouter, PathSettings};
use crate::paths::state::table::PathEpoch;
use crate::planner::MoveError;
use crate::sharding::state::chain::AskChain;
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::ids::AskRef;

fn name(name: &str) -> PathName {
    PathName::new(name).unwrap()
}

/// Every field other than the least, and each form of a fault tolerance.
fn settings() -> [Arc<PathSettings>; 4] {
    let least = PathSettings::new(name("orders"));
    let shared = PathSettings {
        name: name("shop/orders_2/eu-west"),
        role: Some(Role::new("worker").unwrap()),
        fault_tolerance: FaultTolerance::share(2, 3).unwrap(),
        instances_min: 2,
        instances_max: 9,
        expected_load: 150,
        handoff: HandoffOptions::STATEFUL,
        router: PathRouter::LeastLoaded,
        subtree: true,
        mailbox: false,
    };
    let by_rows = PathSettings {
        fault_tolerance: FaultTolerance::table([(3, 1), (7, 2)].to_vec()).unwrap(),
        handoff: HandoffOptions::LOSSY,
        router: PathRouter::Weighted,
        subtree: false,
        ..shared.clone()
    };
    let kept = PathSettings {
        handoff: HandoffOptions::DURABLE,
        mailbox: true,
        ..least.clone()
    };
    [least, shared, by_rows, kept].map(Arc::new)
}

fn change() -> MoveRef {
    MoveRef {
        path: name("orders").id(),
        slot: 1_023,
        id: PathEpoch {
            counter: 0x0102_0304_0506,
            leader: node("leader", 2551, 9),
        },
    }
}

fn bodies(to: &UniqueAddress) -> Vec<(&'static str, PathBody)> {
    let [least, shared, by_rows, kept] = settings();
    let request = |request| PathBody::Request { number: 3, request };
    let answer = |refusal| PathBody::Answer { number: 3, refusal };
    let register = |settings: &Arc<PathSettings>, hosts| {
        request(PathRequest::Register {
            settings: Arc::clone(settings),
            hosts,
        })
    };
    let moving = PathRequest::Move {
        path: name("orders"),
        slot: 7,
        to: to.clone(),
    };
    let received = PathBody::StateReceived {
        change: change(),
        bytes: 1 << 40,
    };
    let marked = PathBody::ForwardMarked {
        change: change(),
        sender: node("sender", 1, 7),
    };
    let refused = |refusal| answer(Some(refusal));
    let unmoved = |error| refused(PathRefusal::Move(error));
    [
        ("path_register", register(&least, false)),
        ("path_register_share", register(&shared, true)),
        ("path_register_rows", register(&by_rows, true)),
        ("path_register_mailbox", register(&kept, true)),
        ("path_change", request(PathRequest::Change(shared))),
        ("path_remove", request(PathRequest::Remove(name("a/b")))),
        ("path_move", request(moving)),
        ("path_accepted", answer(None)),
        ("path_differs", refused(PathRefusal::Differs)),
        ("path_overlaps", refused(PathRefusal::Overlaps(name("a/b")))),
        ("path_same_id", refused(PathRefusal::SameId(name("a/b")))),
        ("path_too_many", refused(PathRefusal::TooManyPaths)),
        ("path_too_many_slots", refused(PathRefusal::TooManySlots)),
        ("path_too_many_bytes", refused(PathRefusal::TooManyBytes)),
        ("path_unknown", refused(PathRefusal::Unknown)),
        ("path_moving", refused(PathRefusal::Moving)),
        ("path_move_unknown_unit", unmoved(MoveError::UnknownUnit)),
        ("path_move_unknown_slot", unmoved(MoveError::UnknownSlot)),
        ("path_move_other_host", unmoved(MoveError::OtherHost)),
        ("path_move_in_flight", unmoved(MoveError::InFlight)),
        ("path_move_already_there", unmoved(MoveError::AlreadyThere)),
        ("path_move_not_eligible", unmoved(MoveError::NotEligible)),
        ("path_init", PathBody::Init(change())),
        ("path_ready", PathBody::Ready(change())),
        ("path_failed", PathBody::Failed(change())),
        ("path_begin", PathBody::Begin(change())),
        ("path_begun", PathBody::Begun(change())),
        ("path_marked", PathBody::Marked(change())),
        ("path_forward_marked", marked),
        ("path_give_up", PathBody::GiveUp(change())),
        ("path_state_received", received),
    ]
    .into()
}

pub(super) fn path_messages(to: &UniqueAddress) -> Vec<(&'static str, Message)> {
    let statement = |body| PathMsg::Statement(PathStatement { to: to.clone(), body });
    let ask = AskTicket {
        ask: AskRef {
            asker: to.clone(),
            id: 77,
        },
        remaining_ms: 5_000,
        chain: AskChain::default(),
    };
    let sender = || Some(node("sender", 1, 7));
    let message = |known, ask, origin, payload: &[u8]| {
        PathMsg::Delivery(PathMessage {
            path: name("orders").id(),
            slot: 2,
            known,
            is_first: known == 0,
            origin,
            ask,
            payload: Box::from(payload),
        })
    };
    let mark = |origin| {
        PathMsg::Mark(PathMark {
            change: change(),
            origin,
        })
    };
    let state = |total, offset, bytes: &[u8]| {
        PathMsg::State(StateChunk {
            change: change(),
            total,
            offset,
            bytes: Box::from(bytes),
        })
    };
    let reply = |result| {
        PathMsg::Reply(AskReply {
            id: 1 << 63 | 77,
            to: to.clone(),
            result,
        })
    };
    let statements = bodies(to).into_iter();
    let others = [
        ("path_tell", message(0, None, None, b"")),
        ("path_ask", message(5, Some(ask.clone()), None, b"which number?")),
        (
            "path_ask_chain",
            message(5, Some(chained(ask.clone())), None, b"which number?"),
        ),
        (
            "path_passed_on",
            message(5, Some(ask), sender(), b"which number?"),
        ),
        ("path_mark", mark(None)),
        ("path_mark_passed_on", mark(sender())),
        ("path_state", state(70_000, 65_536, b"the rest")),
        ("path_state_empty", state(0, 0, b"")),
        ("path_reply", reply(Ok(Box::from(*b"42")))),
        ("path_unknown_path", reply(Err(AskFailure::UnknownPath))),
        ("path_no_instance", reply(Err(AskFailure::NoInstance))),
    ];
    statements
        .map(|(name, body)| (name, statement(body)))
        .chain(others)
        .map(|(name, msg)| (name, Message::Path(msg)))
        .collect()
}
