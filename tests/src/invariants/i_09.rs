//! I-09: the leader a node names is the one the specification's rule gives, worked out a second time; and all
//! nodes that take one state for converged name the same one. Rows that downed members wrote are left aside
//! in the comparison: by the specification they count for the name and not for convergence, so that three
//! nodes may each name themselves; who *acts* is decided without them (I-10 checks that one process acts from
//! one state). A state that is converged only because an exiting member confirmed that it is done is left
//! aside too: until its last gossip comes that member may itself have led in the same state, and by the
//! specification (M-086) its confirmation counts at once, so that it can be removed although its gossip was
//! lost.

use std::collections::{BTreeSet, HashMap};

use quorate_core::ident::UniqueAddress;

use super::{Facts, Step, oracle};

/// The leader of each converged clock, by data center.
#[derive(Debug, Default)]
pub(super) struct OneLeader {
    leaders: HashMap<(u64, String), Option<UniqueAddress>>,
}

impl OneLeader {
    pub(super) fn check(&mut self, step: &Step<'_>, facts: &Facts) -> Result<(), String> {
        let (gossip, me) = (step.after.gossip(), step.after.me());
        let (named, expected) = (step.after.leader(), oracle::leader(gossip, me, false));
        if named != expected {
            return Err(format!("names {named:?} the leader instead of {expected:?}"));
        }
        if !step.after.is_converged() {
            return Ok(());
        }
        if !oracle::converged(gossip, me, &BTreeSet::new()) {
            return Ok(());
        }
        let acting = oracle::leader(gossip, me, true);
        let first = self
            .leaders
            .entry((facts.clock.1, oracle::home(gossip, me).to_owned()))
            .or_insert_with(|| acting.cloned());
        if first.as_ref() == acting {
            return Ok(());
        }
        Err(format!(
            "follows {acting:?} in a converged state in which others follow {first:?}"
        ))
    }
}
