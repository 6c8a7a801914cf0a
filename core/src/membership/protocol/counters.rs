//! What membership counts. Spec: membership 2, 8.

use crate::counters::counters;

counters! {
/// Counters of the membership machine.
"membership": pub struct Counters {
    pub gossips_sent,
    /// States that were sent as what differs from another one; they count as gossips too.
    pub gossip_deltas_sent,
    /// Of all of these, those that were sent at once because they were new.
    pub gossips_pushed,
    /// Pushes that waited because as much as may was sent within the last second.
    pub gossip_pushes_held_back,
    /// Deltas to a state that is not known here: the sender hears which one is.
    pub gossip_deltas_without_base,
    pub gossip_statuses_sent,
    pub gossips_received,
    pub gossip_merges,
    pub joins_received,
    pub welcomes_resent,
    pub joins_refused,
    /// Joins, leaves and downs that the policy of this node did not allow a peer.
    pub requests_refused_by_policy,
    /// Questions to join of nodes whose settings differ.
    pub joiners_with_other_settings,
    pub incarnations_terminated,
    pub removed_told,
    pub leader_actions,
    pub members_weakly_up,
    pub members_removed,
    pub tombstones_pruned,
    pub rejected_forged_clock,
    /// States that said of this node's observations what it has not observed.
    pub rejected_forged_rows,
    /// Entries of other members in versions that were too far above those held here to be believed.
    pub rejected_clock_ahead,
    /// States whose table of paths was too far ahead of the one held here to be taken over.
    pub rejected_paths_ahead,
    /// Messages of nodes that are no members and may not say that; they were not decoded.
    pub rejected_strangers,
}
}
