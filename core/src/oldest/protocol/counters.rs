//! What the room of age counts. Spec: sharding 10.1.

use crate::counters::counters;

counters! {
/// Counters of the room of age.
"oldest": pub struct Counters {
    /// How often this node, the oldest of a role, had to wait because those before it might still have been
    /// running.
    pub successions_awaited,
}
}
