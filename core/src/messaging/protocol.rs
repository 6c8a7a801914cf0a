//! What travels with an ask, and its answer. Types only. Spec: sharding 10.2.

mod ask;

pub use ask::{AskReply, AskTicket};
