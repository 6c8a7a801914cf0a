//! What the reader asks and the nodes answer.

use quorate_driver::Kind;
use serde::{Deserialize, Serialize};

/// The role of the nodes that host files.
pub(crate) const WORKER: &str = "worker";
/// The role of the member that only asks.
pub(crate) const READER: &str = "reader";
/// Shards of the files: twice as many as there may be nodes, so that every node gets some.
pub(crate) const SHARDS: u32 = 64;
/// Longest path the system allows; every node must accept it as an entity's id.
pub(crate) const ID_BYTES_MAX: usize = 4096;

/// A question to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Question {
    /// How many words do you have?
    Words,
    /// Which node hosts you? The file need not exist.
    Where,
}

/// A file's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Told {
    /// The demo's number of the node that answers.
    pub(crate) node: u32,
    /// What it found.
    pub(crate) content: Content,
}

/// What a node found in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Content {
    /// Not looked at.
    Unread,
    /// So many words.
    Words(u64),
    /// It cannot be read any more.
    Unreadable(String),
}

/// The kind of the files; the same in every process.
pub(crate) fn files() -> Kind<Question, Told> {
    Kind::new("files").shards(SHARDS).role(WORKER)
}
