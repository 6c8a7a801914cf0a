//! What the machine of the keyed store counts. Spec: sharding 5.6, 10.19.

use crate::counters::counters;

counters! {
/// Counters of the keyed store.
"kv": pub struct Counters {
    pub ignored,
    pub rejected,
    /// Calls that were answered with what they asked for; a conditional put that met another version counts
    /// as one.
    pub calls_done,
    pub calls_failed,
    /// Answers of owners to calls that were over.
    pub answers_late,
    /// Questions about keys that this node's stores were asked.
    pub asked,
    /// Times that a call was asked again because an owner had not answered.
    pub calls_repeated,
    /// Ranges of which this node's stores became an owner.
    pub ranges_taken,
    /// Ranges of which they became none any more.
    pub ranges_given,
    /// Moves that this node's coordinators began.
    pub moves_begun,
    /// Moves that this node's coordinators ended.
    pub moves_ended,
    /// Moves that this node's coordinators undid.
    pub moves_undone,
    /// Changes of tables that voters have kept for this node's coordinators.
    pub changes_kept,
    /// Times that voters refused one of them, which began anew.
    pub tables_refused,
    /// Keys of which this node had something forgotten that nobody needed any more.
    pub keys_settled,
    /// Keys of which this node's stores took over from another owner what they lacked, and keys that were
    /// read because owners did not hold the same.
    pub keys_repaired,
    /// Times that a store of this node found out in which keys of a range it differs from another owner.
    pub trees_compared,
    /// Leaves of trees that differed.
    pub leaves_differing,
    /// Turns about keys that nobody had gone on with, and that this node ended.
    pub turns_resolved,
    /// Times that somebody was refused a log of a durable entity because a later owner has it.
    pub logs_fenced,
    pub parts_sent,
    pub parts_merged,
    /// Questions that a store of this node refused because it holds as much as it may.
    pub puts_full,
    /// Times that a store of this node kept something for an owner that was away.
    pub hints_kept,
    /// Hints that their owners have.
    pub hints_delivered,
    /// Hints that were dropped because they were too old.
    pub hints_expired,
    /// Hints that a store of this node did not keep, or that an owner refused for good.
    pub hints_refused,
    /// Times that the node's store did not do what it was asked, and was asked again.
    pub store_failures,
}
}
