//! The programs that prove something under faults, and what they share: five nodes as processes, their
//! command line, stores, a transport that can be cut, how a run ends.
#![forbid(unsafe_code)]

pub mod bank;
pub mod burning;
pub mod counter;
pub mod deliveries;
mod ending;
mod fleet;
mod gate;
pub mod instances;
mod ledger;
pub mod liars;
pub mod likes;
pub mod mailboxes;
mod node;
pub mod only_one;
mod processes;
mod program;
pub mod store_history;
mod stores;
pub mod word_index;
