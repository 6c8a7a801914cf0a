//! Counters. Plain numbers that only grow; the host may publish them as it likes, by name, so that it forgets none.

/// Writes a struct of counters, and the way through all of them.
macro_rules! counters {
    ($(#[$about:meta])* pub struct $name:ident { $($(#[$doc:meta])* pub $counter:ident: u64,)* }) => {
        $(#[$about])*
        pub struct $name {
            $($(#[$doc])* pub $counter: u64,)*
        }

        impl $name {
            /// Every counter with its name, in the order of their declaration.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($counter), self.$counter)),*].into_iter()
            }
        }
    };
}

counters! {
/// What a node has counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each name says what is counted")]
#[non_exhaustive]
pub struct Stats {
    pub frames_received: u64,
    pub messages_sent: u64,
    pub gossips_sent: u64,
    pub gossip_statuses_sent: u64,
    pub gossips_received: u64,
    pub gossip_merges: u64,
    pub heartbeats_sent: u64,
    pub heartbeats_answered: u64,
    pub heartbeats_late: u64,
    pub joins_received: u64,
    pub welcomes_resent: u64,
    pub joins_refused: u64,
    /// Questions to join of nodes whose settings differ.
    pub joiners_with_other_settings: u64,
    pub incarnations_terminated: u64,
    pub removed_told: u64,
    pub leader_actions: u64,
    pub members_weakly_up: u64,
    pub members_removed: u64,
    pub tombstones_pruned: u64,
    pub rejected: u64,
    pub rejected_wire: u64,
    /// Those of `rejected_wire` that were beyond a limit.
    pub rejected_limit: u64,
    pub rejected_forged_clock: u64,
    /// Messages of nodes that are no members and may not say that; they were not decoded.
    pub rejected_strangers: u64,
    pub unreachable_verdicts: u64,
    pub reachable_verdicts: u64,
    pub pauses_compensated: u64,
    pub downing_decisions: u64,
    pub links_lost: u64,
    pub messages_dropped_by_host: u64,
    pub entity_messages_accepted: u64,
    pub entity_messages_buffered: u64,
    pub entity_messages_forwarded: u64,
    pub entity_messages_handed_back: u64,
    pub entity_messages_delivered: u64,
    pub dead_letters: u64,
    pub asks_opened: u64,
    pub asks_answered: u64,
    pub asks_failed: u64,
    pub ask_replies_late: u64,
    pub entity_messages_expired: u64,
    pub shards_allocated: u64,
    pub shards_started: u64,
    pub shards_stopped: u64,
    pub hand_offs_completed: u64,
    pub hand_offs_timed_out: u64,
    /// Those of `hand_offs_timed_out` of a shard that several regions host.
    pub conflicts_timed_out: u64,
    pub ddata_ignored: u64,
    pub ddata_rejected: u64,
    pub ddata_statuses_sent: u64,
    pub ddata_gossips_sent: u64,
    pub ddata_gossips_received: u64,
    pub ddata_deltas_sent: u64,
    pub ddata_delta_gaps: u64,
    pub ddata_operations_done: u64,
    pub ddata_operations_failed: u64,
    /// Answers of replicas to operations that were over.
    pub ddata_answers_late: u64,
    pub ddata_repairs_sent: u64,
    pub ddata_repairs_received: u64,
    pub ddata_keys_expired: u64,
    pub ddata_pruned: u64,
    pub ddata_store_failures: u64,
}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_counter_is_left_out_of_the_way_through_all_of_them() {
        let stats = Stats {
            frames_received: 1,
            hand_offs_timed_out: 2,
            ..Stats::default()
        };
        let all: std::vec::Vec<_> = stats.iter().collect();
        assert_eq!(all.len() * size_of::<u64>(), size_of::<Stats>());
        assert_eq!(all.first(), Some(&("frames_received", 1)));
        assert!(all.contains(&("hand_offs_timed_out", 2)));
    }
}
