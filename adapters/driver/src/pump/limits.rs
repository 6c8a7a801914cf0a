//! The bounds of a turn that nobody needs to change, with their reasons. Those of links are `quorate-links`';
//! the others are settings: `Config::limits`, and what counts against each is in `docs/limits.md`. Spec:
//! reliability 3b.

/// Things a node hears back about one drained batch of effects before it turns to the sockets again.
pub(crate) const FEEDBACK_PER_TURN: usize = 1_024;

/// Such batches at most before a node hears that time has passed: more than wait for one peer by default.
pub(crate) const FEEDBACK_BEFORE_TICK: usize = 64;

/// Reports of entities in one turn: about as long as a batch of messages takes.
pub(crate) const REPORTS_PER_TURN: usize = 1_024;

/// Answers of the store in one turn: as many as one commit has.
pub(crate) const STORED_PER_TURN: usize = 256;
