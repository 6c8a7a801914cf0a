//! What the failure detector counts. Spec: membership 2.11 to 2.14, 8.5.

use crate::counters::counters;

counters! {
/// Counters of the failure detector.
"detector": pub struct Counters {
    pub heartbeats_sent,
    pub heartbeats_answered,
    pub heartbeats_late,
    pub unreachable_verdicts,
    pub reachable_verdicts,
    pub pauses_compensated,
    pub refused_by_members,
}
}
