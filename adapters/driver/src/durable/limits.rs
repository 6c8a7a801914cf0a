//! How much a durable entity may write and read at once. Every store has the same limits behind these
//! (`quorate_core::store::limits`).

pub use crate::queue_bounds::EVENT_BYTES_MAX;
pub use quorate_core::durable::{REMINDER_NAME_BYTES_MAX, REMINDERS_MAX};
pub use quorate_core::kv::state::logged::LOG_BYTES_MAX;
use quorate_core::store::limits::{ORDER_BYTES_MAX, VALUE_BYTES_MAX};

/// The events of one command: a batch that a user's click causes, written in one order. More belong to
/// several commands.
pub const EVENTS_PER_COMMAND_MAX: usize = 1_024;

/// The bytes of all events of one command: half of the largest order, so that two entities still share a
/// commit.
pub const COMMAND_BYTES_MAX: usize = ORDER_BYTES_MAX / 2;

/// The bytes of a state, as a snapshot or as a [`DurableState`](super::DurableState): what a store keeps as
/// one value, without what is written in front of it.
pub const STATE_BYTES_MAX: usize = VALUE_BYTES_MAX - super::schema::HEADER_BYTES;
