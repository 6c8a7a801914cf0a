//! What the machine of paths counts. Spec: sharding 5.4.

use crate::counters::counters;

counters! {
/// Counters of paths.
"paths": pub struct Counters {
    pub instances_started,
    pub instances_stopped,
    /// Instances that ended without having been asked to.
    pub instances_failed,
    /// Instances that did not stop in time and were killed.
    pub instances_killed,
    /// Moves that this node planned as the leader.
    pub moves_planned,
    /// Moves of slots of this node that were completed.
    pub moves_completed,
    /// Moves of slots of this node that were given up.
    pub moves_aborted,
    /// Messages that this node passed on as the old host.
    pub messages_forwarded,
    /// Messages that waited here for a hand-off.
    pub messages_buffered,
    /// Messages that were not taken because such a buffer was full.
    pub messages_refused,
    pub messages_delivered,
    /// Messages without an asker that nobody handled.
    pub dead_letters,
    /// Messages for a slot that is not here any more, or not yet.
    pub messages_misplaced,
    /// Answers to asks that were passed on and that nobody waits for any more.
    pub answers_stale,
    pub asks_opened,
    pub asks_answered,
    pub asks_failed,
}
}
