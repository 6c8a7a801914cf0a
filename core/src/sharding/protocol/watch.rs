//! What nodes say to each other about entities that are watched, and what whoever watches hears in the end.
//! Types only. Spec: sharding 1.17.

use alloc::vec::Vec;

use crate::ident::UniqueAddress;
use crate::sharding::state::ids::{EntityId, KindId};

/// A watch of one node, chosen by its host. None is used again while it is open.
pub type WatchId = u64;

/// Statements in one message: a few thousand bytes with usual ids.
pub const STATEMENTS_MAX: usize = 64;

/// Between a node that watches entities and one that hosts them. Statements are numbered from 1 for each pair
/// of incarnations, said again until they have been heard, and heard once and in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchMsg {
    /// Statements in a row.
    Say {
        /// The number of the first one.
        first: u64,
        /// One to [`STATEMENTS_MAX`].
        statements: Vec<WatchStatement>,
    },
    /// All statements up to this one have been heard.
    Heard {
        /// Its number; 0: none.
        up_to: u64,
    },
}

/// One statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchStatement {
    /// To the home of an entity: tell me when it ends.
    Watch {
        /// The watch; whoever speaks has it once.
        id: WatchId,
        /// The entity's kind.
        kind: KindId,
        /// The entity.
        entity: EntityId,
        /// Another home has confirmed it before: that the entity does not run yet is no end.
        known: bool,
    },
    /// To the home: tell me no more.
    Unwatch {
        /// The watch.
        id: WatchId,
    },
    /// From the home: you will hear.
    Watching {
        /// The watch.
        id: WatchId,
    },
    /// From a node that is not the home, or not any more: look for it.
    Moved {
        /// The watch.
        id: WatchId,
    },
    /// From the home: it has ended.
    Ended {
        /// The watch.
        id: WatchId,
        /// How.
        why: EntityEnd,
    },
    /// From the home: as many watch as may.
    Full {
        /// The watch.
        id: WatchId,
    },
}

/// How an entity has ended, as its home knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntityEnd {
    /// It wanted to stop.
    Stopped,
    /// It failed and was not restarted, or its whole shard was stopped because another one had failed.
    Failed,
    /// It did not run when its home learned of the watch.
    NotRunning,
}

/// What is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchTarget {
    /// An entity, wherever it lives.
    Entity {
        /// Its kind.
        kind: KindId,
        /// The entity.
        entity: EntityId,
    },
    /// An incarnation of a node.
    Node(UniqueAddress),
}

/// Why a watch has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum TerminationReason {
    /// The entity wanted to stop.
    Stopped,
    /// The entity failed and was not restarted, or its whole shard was stopped because another entity had
    /// failed.
    Failed,
    /// The entity did not run when its home learned of the watch: it ended before, was passivated before, has
    /// moved and had no message since, or never began.
    NotRunning,
    /// The node has been removed, or the one on which the entity ran.
    NodeRemoved,
    /// The node is no member and nobody remembers its removal: it was removed long ago, or never was one.
    NeverSeen,
}
