//! What regions, coordinators and the ask table count. Spec: sharding 1.3 to 1.8.

use crate::counters::counters;

counters! {
/// Counters of regions, coordinators and the ask table.
"sharding": pub struct Counters {
    pub entity_messages_accepted,
    pub entity_messages_buffered,
    pub entity_messages_forwarded,
    pub entity_messages_handed_back,
    /// Marks behind messages to a home that is used no more, repeated ones included.
    pub marks_sent,
    pub entity_messages_delivered,
    pub entity_messages_expired,
    pub dead_letters,
    pub entities_passivated,
    /// Entities that wanted to be passivated while they stopped already, or while messages waited for them.
    pub passivations_ignored,
    pub asks_opened,
    pub asks_answered,
    pub asks_failed,
    pub ask_replies_late,
    pub shards_allocated,
    /// Shards that this coordinator began to move because of load.
    pub shards_moved_by_load,
    pub shards_started,
    pub shards_stopped,
    /// Shards that this coordinator had stopped because users wanted that.
    pub shards_stopped_by_command,
    /// Shards that were given to this node with a lower token than it had for them: by a coordinator that
    /// does not know of that.
    pub tokens_stale,
    /// Leases of shards that were lost while the shard ran here.
    pub shard_leases_lost,
    /// Claims of shards whose token was not the stored one, so that they were given another one.
    pub claims_renewed,
    /// Shards that were stopped because they ran with tokens that no coordinator can have given.
    pub claims_void,
    /// Claims of shards that a region with a higher token claims too, so that it goes on.
    pub claims_outdone,
    /// Shards all of whose entities were stopped because one had failed and escalated it.
    pub shards_failed,
    /// Entities started without a message because they are remembered.
    pub entities_recovered,
    /// Writes of which entities are remembered that were confirmed, each of one or many.
    pub remember_writes,
    /// Messages that had entities started which another shard remembers, repeated ones included.
    pub entity_starts_sent,
    /// Shards that began again because what they remember could not be read or stored.
    pub remember_failures,
    /// Steps of an entity that the rules do not know: a bug of this crate.
    pub entity_transitions_invalid,
    /// Parts of registrations that were of no use: an earlier one is missing, or a later registration has
    /// begun.
    pub registration_parts_dropped,
    /// Changes of homes that a majority of the voters has stored.
    pub state_writes,
    /// Times that a coordinator's store did not answer within its time limit.
    pub state_answers_late,
    /// Coordinators whose stored state was damaged.
    pub states_damaged,
    /// Coordinators that their store refused.
    pub coordinators_refused,
    /// Shards whose stored home did not come back in time.
    pub homes_given_up,
    /// Questions to strategies of the application that were not answered in time, or failed.
    pub allocations_unanswered,
    /// Answers of such strategies to questions that are not open any more.
    pub allocation_answers_late,
    pub watches_opened,
    /// Watches that the entity's home has confirmed, and each new home after a move.
    pub watches_confirmed,
    /// Watches that ended with an end: not those that were given up.
    pub watches_ended,
    /// Watches of others that were one too many.
    pub watches_refused,
    /// Statements about watches that came again after they had been heard.
    pub watch_statements_repeated,
    /// Statements about watches for which too many others waited.
    pub watch_statements_dropped,
    /// Peers that have heard nothing of too many statements about watches, and are refused for good.
    pub watch_peers_quarantined,
    pub hand_offs_completed,
    pub hand_offs_timed_out,
    /// Those of `hand_offs_timed_out` of a shard that several regions host.
    pub conflicts_timed_out,
}
}
