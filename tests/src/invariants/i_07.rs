//! I-07: whoever counts as having seen a state really held it, or a later one.

use super::{Facts, Step};
use crate::sim::History;

pub(super) fn check(step: &Step<'_>, facts: &Facts, history: &History) -> Result<(), String> {
    let gossip = step.after.gossip();
    for node in gossip.seen() {
        let held = history
            .of(node)
            .is_some_and(|process| process.held(gossip.version(), facts.clock.1));
        if !held {
            return Err(format!("{node} counts as having seen a state that it never held"));
        }
    }
    Ok(())
}
