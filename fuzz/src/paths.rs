//! A small table of paths, and what is said about it, out of a few bytes.

use std::sync::Arc;

use quorate_core::ident::UniqueAddress;
use quorate_core::message::{Message, PathMsg};
use quorate_core::paths::protocol::{
    MoveRef, PathBody, PathMark, PathMessage, PathRequest, PathStatement, StateChunk,
};
use quorate_core::paths::state::name::PathName;
use quorate_core::paths::state::options::HandoffOptions;
use quorate_core::paths::state::settings::PathSettings;
use quorate_core::paths::state::table::{MoveStatus, PathEntry, PathEpoch, PathRecord, PathTable, SlotMove};

const STATUSES: [MoveStatus; 5] = [
    MoveStatus::Awaiting,
    MoveStatus::Complete,
    MoveStatus::Settled,
    MoveStatus::Aborted,
    MoveStatus::Applied,
];

const NAMES: [&str; 2] = ["a", "b/c"];

/// What is said to the first node, about a move of the path of [`table`] that the second one may have
/// decided.
pub(crate) fn said(bytes: &[u8], what: u8, [to, leader]: [UniqueAddress; 2]) -> Message {
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
    let name = PathName::new(NAMES[usize::from(byte(0)) % 2]).expect("a legal path");
    let change = MoveRef {
        path: name.id(),
        slot: u16::from(byte(1) % 3),
        id: PathEpoch {
            counter: u64::from(byte(2)),
            leader: leader.clone(),
        },
    };
    let origin = (byte(3) % 2 == 1).then(|| leader.clone());
    let (number, payload) = (u64::from(byte(3)), bytes.into());
    let body = match what % 16 {
        0 => PathBody::Init(change),
        1 => PathBody::Ready(change),
        2 => PathBody::Failed(change),
        3 => PathBody::Begin(change),
        4 => PathBody::Begun(change),
        5 => PathBody::Marked(change),
        6 => PathBody::GiveUp(change),
        7 => PathBody::ForwardMarked {
            change,
            sender: leader,
        },
        8 => PathBody::StateReceived {
            change,
            bytes: number,
        },
        9 => PathBody::Answer {
            number,
            refusal: None,
        },
        10 => return Message::Path(PathMsg::Mark(PathMark { change, origin })),
        11 => {
            let (total, offset) = (number, u64::from(byte(4)));
            return Message::Path(PathMsg::State(StateChunk {
                change,
                total,
                offset,
                bytes: payload,
            }));
        }
        12 => {
            return Message::Path(PathMsg::Delivery(PathMessage {
                path: change.path,
                slot: change.slot,
                known: number,
                is_first: byte(4) % 2 == 1,
                origin,
                ask: None,
                payload,
            }));
        }
        13 => PathBody::Request {
            number,
            request: PathRequest::Remove(name),
        },
        _ => PathBody::Request {
            number,
            request: PathRequest::Register {
                settings: Arc::new(PathSettings::new(name)),
                hosts: byte(4) % 2 == 1,
            },
        },
    };
    Message::Path(PathMsg::Statement(PathStatement { to, body }))
}

/// One path of one slot that moves from the first node to the second.
pub(crate) fn table(counter: u8, [from, to]: [UniqueAddress; 2], status: u8) -> Arc<PathTable> {
    let name = PathName::new(NAMES[usize::from(status) % 2]).expect("a legal path");
    let epoch = PathEpoch {
        counter: u64::from(counter).max(1),
        leader: from.clone(),
    };
    let entry = PathEntry {
        record: PathRecord {
            epoch: epoch.clone(),
            settings: Some(Arc::new(PathSettings::new(name.clone()))),
            scale: 0,
            hosts: vec![Some(from.clone())],
        },
        moves: vec![Some(SlotMove {
            id: epoch.clone(),
            status: STATUSES[usize::from(status) % STATUSES.len()],
            from: Some(from),
            to: Some(to),
            options: HandoffOptions::ORDERED,
        })],
        name,
    };
    Arc::new(PathTable::new(epoch.counter, None, vec![Arc::new(entry)]).expect("well formed"))
}
