//! Durable entities, in the node's store: event sourcing with snapshots ([`EventSourced`]) and the newest
//! state alone ([`DurableState`]). An entity answers **after** its decision is durable and recovers before
//! its first command; an owner that was replaced is refused. Page: `docs/durable.md`. Spec: sharding 10.7,
//! 10.10, 10.15.
//!
//! | part | decides |
//! |---|---|
//! | [`EventSourced`], [`DurableState`], [`Decision`], [`Change`] | nothing: what users write |
//! | [`Versioned`], [`AnyVersion`], [`Golden`] | how events, states and messages become bytes, and which versions of them can be read |
//! | `life`, `handling`, `driven`, `recovery` | nothing: they do what `quorate_core::durable` says, which decides what an entity does with what the store says |
//! | `outbox`, `letter`, `post` | nothing: they write, send and await messages of which the core's outbox says the number and the time ([`DeliveryId`], [`Received`]) |
//! | `clocks`, `woken` | who wakes an entity that does not run, and what it says to them |

mod any_version;
mod behaviour;
mod change;
mod clocks;
mod decision;
mod driven;
mod golden;
mod handling;
mod letter;
mod life;
pub mod limits;
mod outbox;
mod post;
mod recovery;
mod register;
mod replacing;
mod retention;
mod schema;
mod starter;
mod surroundings;
#[cfg(test)]
mod tests;
mod upcoming;
mod woken;

pub use crate::entity::Upcoming;
pub use crate::error::{DurabilityError, DurableFailure};
pub use any_version::AnyVersion;
pub use behaviour::{DurableState, EventSourced};
pub use change::{Change, ChangeTo};
pub use decision::{Decision, Persist};
pub use golden::Golden;
pub use letter::DeliveryId;
pub use outbox::Received;
pub use post::{Confirmed, Overdue};
pub use quorate_core::delivery::AtLeastOnceSettings;
pub use recovery::Recovery;
pub(crate) use register::{host_durable_state, host_event_sourced};
pub use retention::Retention;
pub use schema::{SchemaError, Versioned, read};
pub(crate) use starter::DurableStarter;
