//! I-08: when a node takes a state for converged, every member that convergence waits for really held it, or
//! a later one; and the specification's rule, worked out a second time, agrees both ways.

use super::{Facts, Step, oracle};
use crate::sim::History;

/// Nothing to remember.
#[derive(Debug, Default)]
pub(super) struct SoundConvergence;

impl SoundConvergence {
    #[allow(clippy::unused_self, reason = "all invariants are asked in one way")]
    pub(super) fn check(&self, step: &Step<'_>, facts: &Facts, history: &History) -> Result<(), String> {
        let gossip = step.after.gossip();
        let confirmed = &history.processes[step.process as usize].exiting_confirmed;
        if !step.after.is_converged() {
            // A confirmation may be forgotten again, so only those that need none are compared.
            let nobody = std::collections::BTreeSet::new();
            return if oracle::converged(gossip, step.after.me(), &nobody) {
                Err("does not take a state for converged that is".to_owned())
            } else {
                Ok(())
            };
        }
        if !oracle::converged(gossip, step.after.me(), confirmed) {
            return Err("takes a state for converged that is not".to_owned());
        }
        let liar = oracle::required(gossip, step.after.me())
            .into_iter()
            .find(|node| {
                let held =
                    |process: &crate::sim::ProcessHistory| process.held(gossip.version(), facts.clock.1);
                !confirmed.contains(*node) && !history.of(node).is_some_and(held)
            });
        match liar {
            Some(node) => Err(format!("takes a state for converged that {node} never held")),
            None => Ok(()),
        }
    }
}
