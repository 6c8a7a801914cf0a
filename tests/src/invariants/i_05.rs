//! I-05: nobody invents ticks: no state has a higher clock entry of a member than that member itself ever
//! published; and a node that changes its state on its own account counts its entry up.

use super::{Facts, Step};
use crate::sim::History;

/// Nothing to remember: the history has every node's own counter.
#[derive(Debug, Default)]
pub(super) struct OwnTicksOnly;

impl OwnTicksOnly {
    #[allow(clippy::unused_self, reason = "all invariants are asked in one way")]
    pub(super) fn check(&self, step: &Step<'_>, facts: &Facts, history: &History) -> Result<(), String> {
        let (before, after) = (step.before.gossip(), step.after.gossip());
        for (node, claimed) in after.version().entries() {
            let own = history.of(node).map_or(0, |process| process.own_counter);
            if *claimed > own {
                return Err(format!("claims {claimed} changes of {node}, which made {own}"));
            }
        }
        let me = step.after.me();
        let (old, new) = (before.version().get(me), after.version().get(me));
        if after.contains(me) && before.contains(me) && new < old {
            return Err(format!("its own clock entry goes back from {old} to {new}"));
        }
        let local = !step.cause.is_merge() && facts.content.0 != facts.content.1;
        if local && new <= old {
            return Err(format!("changes its state without counting: {old} then {new}"));
        }
        Ok(())
    }
}
