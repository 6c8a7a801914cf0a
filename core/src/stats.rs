//! Counters. Plain numbers that only grow; the host may publish them as it likes, by name, so that it forgets
//! none. What a machine counts is in its `protocol::counters`.

use crate::counters::counters;
pub use crate::ddata::protocol::counters::Counters as DdataCounters;
pub use crate::detector::protocol::counters::Counters as DetectorCounters;
pub use crate::downing::protocol::counters::Counters as DowningCounters;
pub use crate::journal::protocol::counters::Counters as JournalCounters;
pub use crate::kv::protocol::counters::Counters as KvCounters;
pub use crate::load::protocol::counters::Counters as LoadCounters;
pub use crate::membership::protocol::counters::Counters as MembershipCounters;
pub use crate::oldest::protocol::counters::Counters as OldestCounters;
pub use crate::paths::protocol::counters::Counters as PathCounters;
pub use crate::sharding::protocol::counters::Counters as ShardingCounters;
pub use crate::singleton::protocol::counters::Counters as SingletonCounters;

counters! {
/// What the node counts before and after its machines.
"node": pub struct NodeCounters {
    pub frames_received,
    pub messages_sent,
    pub rejected,
    pub rejected_wire,
    /// Those of `rejected_wire` that were beyond a limit.
    pub rejected_limit,
    pub links_lost,
    pub messages_dropped_by_host,
}
}

/// Writes the struct of all machines' counters, and the way through them.
macro_rules! all_counters {
    ($($(#[$doc:meta])* $part:ident: $counters:ty,)*) => {
        /// What a node has counted since it was made, machine by machine.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[$doc])* pub $part: $counters,)*
        }

        impl Stats {
            /// Every counter with its name, which begins with who counts: `membership_gossips_sent`.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                core::iter::empty()$(.chain(self.$part.iter()))*
            }
        }
    };
}

all_counters! {
    /// Frames, messages and links.
    node: NodeCounters,
    /// Of membership.
    membership: MembershipCounters,
    /// Of the failure detector.
    detector: DetectorCounters,
    /// Of the split-brain resolver.
    downing: DowningCounters,
    /// Of the room of age.
    oldest: OldestCounters,
    /// Of regions, coordinators and the ask table.
    sharding: ShardingCounters,
    /// Of the replicator.
    ddata: DdataCounters,
    /// Of managers and proxies of singletons.
    singleton: SingletonCounters,
    /// Of voters and owners of quorum logs.
    journal: JournalCounters,
    /// Of load.
    load: LoadCounters,
    /// Of paths.
    paths: PathCounters,
    /// Of the keyed store.
    kv: KvCounters,
}

#[cfg(test)]
mod tests {
    use crate::ordered::OrderedSet;

    use super::*;

    #[test]
    fn no_counter_of_any_machine_is_left_out_of_the_way_through_all_of_them() {
        let mut stats = Stats::default();
        stats.node.frames_received = 1;
        stats.sharding.hand_offs_timed_out = 2;
        let all: std::vec::Vec<_> = stats.iter().collect();
        assert_eq!(all.len() * size_of::<u64>(), size_of::<Stats>());
        assert_eq!(all.first(), Some(&("node_frames_received", 1)));
        assert!(all.contains(&("sharding_hand_offs_timed_out", 2)));
        let names: OrderedSet<_> = all.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), all.len(), "a name says which one is meant");
    }
}
