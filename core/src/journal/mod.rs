//! The quorum log: an append log that is kept on a majority of fixed stores, each a node's own, and owned by whoever holds the
//! highest token. Found again after its owner has moved, after a store is lost for good, and after all nodes were killed. What
//! one node's own store cannot: a file orders the incarnations of one node, and claims nothing beyond it. State machines without
//! a clock, a network or a store of their own: each call says what has happened and gets what is to be done. Spec: sharding 10.7,
//! 10.10, 10.15, 10.16; reliability I-80 to I-84.
//!
//! * [`writer`]: opens a log, appends to it, keeps snapshots of it.
//! * [`replica`]: one voter, in one node's store.
//!
//! Why an acknowledged record is never lost: it is one entry, which a majority accepted with the owner's token. Who opens the log
//! later has a higher token, which a majority promised before it said what it holds; the two majorities share a replica. That one
//! accepted the entry before it promised, so it names it; or it promised first, and then refused the entry. Whatever was written at
//! that place with a higher token was written by somebody who had seen the entry, so the highest token has the right one.

pub mod protocol;
pub mod replica;
pub mod state;
pub mod writer;

mod layout;
#[cfg(test)]
mod tests;
