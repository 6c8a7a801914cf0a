//! What the replicator counts. Spec: sharding 1.12.

use crate::counters::counters;

counters! {
/// Counters of the replicator.
"ddata": pub struct Counters {
    pub ignored,
    pub rejected,
    pub statuses_sent,
    pub gossips_sent,
    pub gossips_received,
    pub deltas_sent,
    pub delta_gaps,
    pub operations_done,
    pub operations_failed,
    /// Answers of replicas to operations that were over.
    pub answers_late,
    pub repairs_sent,
    pub repairs_received,
    /// Times that somebody named versions of this node which it had not minted, and that it went above them.
    pub versions_skipped,
    pub keys_expired,
    pub pruned,
    pub store_failures,
    /// Times that this node stood still for longer than markers live.
    pub absences,
}
}
