//! What the split-brain resolver counts. Spec: membership 3.

use crate::counters::counters;

counters! {
/// Counters of the split-brain resolver.
"downing": pub struct Counters {
    pub decisions,
}
}
