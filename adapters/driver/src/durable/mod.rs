//! Entities that keep what they did: event sourcing with snapshots ([`EventSourced`]) and the newest state alone
//! ([`DurableState`]), in the node's store. An entity answers **after** what it decided is durable, recovers before its first
//! command, and an owner that was replaced is refused. Page: `docs/durable.md`. Spec: sharding 10.7, 10.10, 10.15.
//!
//! | part | decides |
//! |---|---|
//! | [`EventSourced`], [`DurableState`], [`Decision`], [`Change`] | nothing: what users write |
//! | [`Versioned`], [`AnyVersion`], [`Golden`] | how events, states and messages become bytes, and which versions of them can be read |
//! | `keeper` | who keeps the logs of a kind |
//! | `journal`, `quorum` | in which order a log is taken over and written: the token first; each append with token and expected sequence |
//! | `life`, `handling`, `writing`, `recovery` | what an entity does with what the store says: wait, repeat, give up, stop |
//! | `outbox`, `post`, `note` | which messages an entity has to deliver, when they are sent again, how its log keeps that ([`DeliveryId`], [`Received`]) |
//! | `reminders` | what an entity wants to be reminded of, and what of it is due |
//! | `clocks`, `woken` | who wakes an entity that does not run, and what it says to them |
//! | `name` | how a log is called |

mod any_version;
mod behaviour;
mod change;
mod clocks;
mod counters;
mod decision;
mod failure;
mod golden;
mod handling;
mod journal;
mod keeper;
mod life;
pub mod limits;
mod name;
mod note;
mod obstacle;
mod outbox;
mod post;
mod quorum;
mod recovery;
mod register;
mod reminders;
mod retention;
mod schema;
mod starter;
mod state;
#[cfg(test)]
mod tests;
mod woken;
mod writing;

pub use any_version::AnyVersion;
pub use behaviour::{DurableState, EventSourced};
pub use change::{Change, ChangeTo};
pub(crate) use counters::DurableCounters;
pub use decision::{Decision, Persist};
pub use failure::{DurabilityError, DurableFailure};
pub use golden::Golden;
pub(crate) use journal::{Journal, Purpose};
pub(crate) use keeper::{Keeper, KeptJournal};
pub(crate) use name::log_name;
pub(crate) use obstacle::Sleep;
pub use outbox::{DeliveryId, Received};
pub use post::{Confirmed, Overdue};
pub use quorate_core::delivery::AtLeastOnceSettings;
pub use recovery::Recovery;
pub use reminders::Upcoming;
pub use retention::Retention;
pub use schema::{SchemaError, Versioned, read};
pub(crate) use starter::DurableStarter;
