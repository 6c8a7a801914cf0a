//! What is said about watched entities, as bytes. Unstable as all of sharding. Spec: sharding 1.17,
//! `docs/WIRE.md` 4.12.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::declare::{List, by_hand, choice, codes};
use crate::bytes::WireError;
use crate::sharding::protocol::watch::{EntityEnd, STATEMENTS_MAX, WatchMsg, WatchStatement};
use crate::sharding::state::ids::{EntityId, KindId};

/// The number of a statement, from 1.
struct StatementNumber;

by_hand! {
    StatementNumber: u64, "u64" + ", not 0", 8, |first, what, out| match first {
        0 => Err(WireError::Unencodable { what }),
        first => u64::put(first, what, out),
    }, |reader, what| match reader.u64()? {
        0 => Err(WireError::Malformed { what }),
        first => Ok(first),
    };
}

codes! { EntityEnd as "end" { 1 Stopped, 2 Failed, 3 NotRunning } }

choice! {
    WatchMsg as "watch" {
        1 Say { first: StatementNumber, statements: List<u8, WatchStatement, STATEMENTS_MAX, 1> },
        2 Heard { up_to: u64 },
    }
}

choice! {
    WatchStatement as "statement" {
        1 Watch { id: u64, kind: KindId, known: bool, entity: EntityId },
        2 Unwatch { id: u64 },
        3 Watching { id: u64 },
        4 Moved { id: u64 },
        5 Ended { id: u64, why: EntityEnd },
        6 Full { id: u64 },
    }
}
