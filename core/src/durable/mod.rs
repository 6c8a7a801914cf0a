//! Entities that keep what they did: what an entity does with what the keeper of its log says. A value for
//! each entity, without a clock, I/O or knowledge of what events mean: its host does what a [`DurableStep`]
//! says and hands in what came of it. Page: `docs/durable.md`. Spec: sharding 10.7, 10.10, 10.15.
//!
//! | part | decides |
//! |---|---|
//! | [`DurableMachine`] | when it has recovered, what becomes of a write, when a snapshot is due, when it has to stop |
//! | [`LogRetention`] | when that is, and what a snapshot makes needless |
//! | [`LetterOutbox`] | which messages an entity has to deliver, their numbers, and when it has to be awake for them |
//! | [`Reminders`] | what it wants to be reminded of, and what of it is due |
//! | [`DurableNote`], [`EntityNotes`] | nothing: how its log keeps both beside the events, and what they amount to |
//! | [`DurableFailure`] | nothing: what is said to who asks |
//!
//! ```text
//! recovering ──▶ running ──▶ writing ──▶ running      nothing is handled before a write is durable,
//!     ▲ │           │           │                     and it is repeated until that is known
//!     └─┘           ▼           ▼
//!   a pause     retaining ──▶ running                 a snapshot, and what it makes needless;
//!                   │           │                     also where a log is full
//!                   └───────────┴──▶ stopped          a later incarnation owns the log
//! ```

mod entity;
mod failure;
mod letter;
mod note;
mod noted;
mod outbox;
mod reminders;
mod retention;
#[cfg(test)]
mod tests;
mod trouble;

pub use entity::{DurableMachine, DurablePause, DurableStep, RecoveryError};
pub use failure::DurableFailure;
pub use letter::{Letter, LetterRecipient};
pub use note::{DurableNote, UnknownNote, in_front, split};
pub use noted::EntityNotes;
pub use outbox::{LetterNumber, LetterOutbox};
pub use reminders::{REMINDER_NAME_BYTES_MAX, REMINDERS_MAX, Reminder, ReminderWish, Reminders};
pub use retention::{LogRetention, RetentionKeeps};

/// The bytes that a recovery reads at once: a few thousand small events, a quarter of what a store gives out
/// at most, so that an entity with a long log lets others have the store in between.
pub const RECOVERY_PAGE_BYTES: usize = 256 * 1024;
