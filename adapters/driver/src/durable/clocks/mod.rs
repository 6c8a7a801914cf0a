//! Clocks: what wakes durable entities that do not run, for reminders that are due and for messages that
//! nobody has confirmed. Each kind of durable entities has a kind of
//! [`CLOCKS`](quorate_core::wakeups::CLOCKS) clocks beside it, durable entities themselves, in the same
//! store. Page: `docs/durable.md`, "Who is woken"; `docs/adr/0016`.
//!
//! | part | decides |
//! |---|---|
//! | `quorate_core::wakeups` | whose time which clock keeps, whom it wakes next, what an entity has to say |
//! | `clock` | nothing: a clock as an event-sourced entity, and the form of what it keeps |
//! | `ringing` | how a clock that runs wakes entities, and who begins it elsewhere when it has ended |
//! | `seeing` | nothing: looks at all clocks of a kind when the core says so |
//! | `waker` | nothing: what an entity says to its clock |

mod clock;
mod ringing;
mod seeing;
mod waker;

use quorate_core::sharding::passivation::PassivationSettings;
use quorate_core::wakeups;
use serde::{Deserialize, Serialize};

pub(super) use clock::ClockEntity;
pub(super) use seeing::ClockSeeing;
pub(super) use waker::ClockWaker;

use crate::codec::Bytes;
use crate::kind::Kind;

/// What is said to a clock. Between nodes, so variants are only appended.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ClockRequest {
    /// See that you run, if there is anybody to be woken.
    Look,
    /// Wake this entity at this time, in milliseconds since 1970, or before.
    Wake { entity: Bytes, at_ms: u64 },
    /// This entity was woken under this version, and has done what was due.
    Handled {
        entity: Bytes,
        version: u64,
        next_ms: Option<u64>,
    },
}

/// What a clock answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ClockAnswer {
    /// This is kept of the entity.
    Kept { version: u64, at_ms: u64 },
    /// Nothing is kept of it.
    Nothing,
    /// It was woken under another version since.
    Outdated,
    /// The clock keeps as much as it may.
    Full,
}

/// The kind of a kind's clocks: hosted where that is.
pub(super) fn kind_beside<M, R>(kind: &Kind<M, R>) -> Kind<ClockRequest, ClockAnswer> {
    kind.beside(wakeups::clocks_of(kind.name()))
        .shards(wakeups::CLOCKS)
        .extractor(wakeups::extractor())
        .passivation(PassivationSettings::off())
}
