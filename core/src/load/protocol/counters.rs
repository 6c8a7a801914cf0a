//! What is counted of load. Spec: sharding 5.5.

use crate::counters::counters;

counters! {
/// Counters of load.
"load": pub struct Counters {
    /// Measures that the host handed in.
    pub measured,
    /// Parts of them beyond what a node tells of.
    pub parts_left_out,
    /// Samples sent to members.
    pub samples_sent,
    /// Samples taken from members, of themselves or of their neighbours.
    pub samples_taken,
    /// Samples of nodes that this one does not hear of load from: they are no full members, or are too far
    /// from who told of them.
    pub samples_ignored,
    /// Members asked for samples.
    pub probes_sent,
    /// Questions of members answered.
    pub probes_answered,
    /// Questions left unanswered, because there were too many at once.
    pub probes_refused,
    /// Questions of this node without an answer in time.
    pub probes_unanswered,
    /// Answers that came too late, and were ignored.
    pub replies_late,
}
}
