//! What managers and proxies of singletons count. Spec: sharding 1.10, 1.11.

use crate::counters::counters;

counters! {
/// Counters of the singletons.
"singleton": pub struct Counters {
    pub instances_started,
    pub instances_stopped,
    /// Instances that ended without having been asked to.
    pub instances_failed,
    /// Instances that did not stop in time and were killed.
    pub instances_killed,
    /// Instances that were stopped because somebody else took a higher term.
    pub instances_superseded,
    pub hand_overs_stuck,
    /// Answers to a question that is not open any more: of an earlier attempt, or of an earlier oldest
    /// member.
    pub answers_stale,
    pub terms_taken,
    pub terms_refused,
    /// Terms that could not be kept, because there are too many singletons or the store failed.
    pub terms_not_kept,
    /// Refusals with a term further above the claim than one step.
    pub terms_out_of_reach,
    /// Claims that were not made, because no term is left.
    pub terms_used_up,
    pub messages_accepted,
    pub messages_delivered,
    /// Messages kept during a pause of which nobody waited for an answer any more.
    pub messages_expired,
    /// Messages without an asker that nobody handled.
    pub dead_letters,
    /// Messages that were pushed out of a proxy's buffer.
    pub messages_pushed_out,
    pub asks_opened,
    pub asks_answered,
    pub asks_failed,
}
}
