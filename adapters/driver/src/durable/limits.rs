//! How much a durable entity may write and read at once. Every store has the same limits behind these
//! (`quorate_core::store::limits`).

use quorate_core::store::limits::{ORDER_BYTES_MAX, VALUE_BYTES_MAX};

/// The bytes of one event: far above what an event says that a person could read, and four of them fit into what a command may
/// write.
pub const EVENT_BYTES_MAX: usize = 1024 * 1024;

/// The events of one command: a batch that a user's click causes, written in one order. More belong to several commands.
pub const EVENTS_PER_COMMAND_MAX: usize = 1_024;

/// The bytes of all events of one command: half of the largest order, so that two entities still share a commit.
pub const COMMAND_BYTES_MAX: usize = ORDER_BYTES_MAX / 2;

/// The bytes of a state, as a snapshot or as a [`DurableState`](super::DurableState): what a store keeps as one value, without
/// what is written in front of it.
pub const STATE_BYTES_MAX: usize = VALUE_BYTES_MAX - super::schema::HEADER_BYTES;

/// Reminders of one entity: each is written again with every snapshot.
pub const REMINDERS_MAX: usize = 1_024;

/// The bytes of a reminder's name: as of a kind's.
pub const REMINDER_NAME_BYTES_MAX: usize = 255;

/// The bytes that a recovery reads at once: a few thousand small events, a quarter of what a store gives out at most, so that an
/// entity with a long log lets others have the store in between.
pub(super) const RECOVERY_PAGE_BYTES: usize = 256 * 1024;

/// A log is taken over with the token that is held plus one; somebody else may do so at the same moment, so it is taken again,
/// so often. More than that is no race but a fault, and waits.
pub(super) const OPENINGS_MAX: u32 = 16;
