//! What nodes say to the oldest member of the cluster about the kinds they have, and what it says to them. Types only.
//! Spec: sharding 10.11.

use alloc::vec::Vec;

use crate::sharding::state::fields::KindFields;
use crate::sharding::state::ids::{KindId, Term};

/// Kinds that one node may have: more than a service has, few enough for one control frame of announcements.
pub const KINDS_PER_NODE_MAX: usize = 256;

/// One message between a node and the oldest member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistryMsg {
    /// Member to the oldest: these are my kinds, and no others.
    Announce {
        /// Counts the changes of my list; the answer carries it.
        round: u32,
        /// At most [`KINDS_PER_NODE_MAX`], each id once.
        kinds: Vec<Announced>,
    },
    /// The oldest to a member: what I think of your kinds. One that is not named has not been decided about.
    Verdicts {
        /// The oldest member as a term.
        term: Term,
        /// The round of the list that this is about.
        round: u32,
        /// Kinds and verdicts, each id once.
        verdicts: Vec<(KindId, Verdict)>,
    },
    /// The oldest to a member that it has not heard: which kinds have you?
    Query {
        /// The oldest member as a term.
        term: Term,
    },
}

/// One of a node's kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    /// What it is.
    pub fields: KindFields,
    /// The number under which it was accepted, by this oldest member or an earlier one. A lower one is older.
    pub accepted: Option<u64>,
    /// Whether shards of it run there.
    pub running: bool,
}

/// What becomes of an announced kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The node may host it.
    Accepted {
        /// Counts acceptances.
        number: u64,
    },
    /// The kind stands with other fields.
    Refused {
        /// These.
        standing: KindFields,
    },
    /// The cluster has as many kinds as it may have.
    TooMany,
}

/// Timers of the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RegistryTimer {
    /// Announce again what has not been accepted.
    Announce,
    /// The oldest: ask again who has not spoken, and see whether those removed have certainly stopped.
    Recovery,
}
