//! How large what a store keeps may be. Every store has the same limits, so that moving to another loses
//! nothing.

/// A key. Engines and databases index keys of this size without a page of their own for each.
pub const KEY_BYTES_MAX: usize = 1_024;

/// A value, a record or a snapshot: several times the largest frame, so that whatever came over a link can be
/// kept, and small enough that a hundred of them on their way do not fill a small machine.
pub const VALUE_BYTES_MAX: usize = 4 * 1_024 * 1_024;

/// A log's name: a kind and an entity's id fit.
pub const LOG_NAME_BYTES_MAX: usize = 1_024;

/// Changes of a batch, records of an append: a commit stays a matter of milliseconds.
pub const CHANGES_PER_BATCH_MAX: usize = 4_096;

/// The bytes of one order: a batch of many small values, or two of the largest.
pub const ORDER_BYTES_MAX: usize = 8 * 1_024 * 1_024;

/// The answer to a range or to a part of a log, but for its first item.
pub const ANSWER_BYTES_MAX: usize = 1_024 * 1_024;
