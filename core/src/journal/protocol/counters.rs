//! What voters and owners of quorum logs count. Spec: sharding 10.7.

use crate::counters::counters;

counters! {
/// Counters of the quorum logs.
"journal": pub struct Counters {
    pub logs_opened,
    pub appends_acknowledged,
    /// Appends that were refused, because the log is as large as it may be.
    pub appends_refused,
    pub snapshots_acknowledged,
    /// Tokens that were refused while a log was being opened, so that a higher one was taken.
    pub tokens_refused,
    /// Logs that somebody else took over, or that could not be opened because somebody else has them.
    pub owners_ended,
    /// Times that a log's replicas were asked again, because they had not all answered.
    pub repetitions,
    /// Requests for a store whose node is not known, or is no member.
    pub stores_absent,
    /// Requests that this node's replica answered.
    pub requests_answered,
    /// Requests that it refused, because a higher token is promised.
    pub requests_refused,
    /// Requests that were dropped, because too many waited.
    pub requests_shed,
    /// Requests that were dropped, because the store failed.
    pub requests_failed,
    /// Commands that were refused, because this node owns as many logs as it may.
    pub logs_refused,
    /// Introductions of nodes that hold other voters.
    pub voters_conflicts,
}
}
