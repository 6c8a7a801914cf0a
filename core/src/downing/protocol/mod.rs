//! What the downing machine tells users, and its timer. Types only. Spec: membership 3.

pub mod counters;

use alloc::vec::Vec;

use crate::downing::state::decision::DowningDecision;
use crate::downing::state::view::IndirectRule;
use crate::ident::{Role, UniqueAddress};
use crate::time::Instant;

/// Timers of the downing machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Look whether the picture is stable, and decide if so.
    Tick,
}

/// What users hear of downing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The resolver decided, or waits for the lease to do so.
    Decision(DowningReport),
    /// There are more members than the downing strategy can decide about: the next partition ends the whole
    /// cluster.
    TooManyMembersToDecide {
        /// Members counted.
        members: usize,
        /// Most that it can decide about.
        members_max: usize,
    },
    /// No member has the role that the downing strategy counts by: the next partition ends the whole cluster,
    /// or at least does not end as the strategy says.
    NobodyHasDowningRole {
        /// The role.
        role: Role,
    },
}

/// A decision of the split-brain resolver, or what it would be now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DowningReport {
    /// The strategy, as its configuration names it.
    pub strategy: &'static str,
    /// Which complaints told whether the split is clean.
    pub rule: IndirectRule,
    /// The decision.
    pub decision: DowningDecision,
    /// What made it, in words.
    pub reason: &'static str,
    /// Members that were counted.
    pub members: Vec<UniqueAddress>,
    /// Those of them that are unreachable.
    pub unreachable: Vec<UniqueAddress>,
    /// Members on broken links.
    pub indirectly_connected: Vec<UniqueAddress>,
    /// Who is downed.
    pub down: Vec<UniqueAddress>,
    /// What it waits for; `None` if it was carried out.
    pub waits_for: Option<DowningWait>,
}

impl core::fmt::Display for DowningReport {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let names = |nodes: &[UniqueAddress]| {
            let names: Vec<_> = nodes.iter().map(alloc::string::ToString::to_string).collect();
            if names.is_empty() {
                alloc::string::String::from("nobody")
            } else {
                names.join(", ")
            }
        };
        let (strategy, down) = (self.strategy, names(&self.down));
        write!(f, "By {strategy}, {} would be downed: {}.", down, self.reason)?;
        match self.waits_for {
            None => f.write_str(" The decision comes at the resolver's next tick."),
            Some(DowningWait::Stable { .. }) => f.write_str(" The resolver waits for a stable picture."),
            Some(DowningWait::Leader) => f.write_str(" The leader decides, and this node is not the leader."),
            Some(DowningWait::OtherSide { .. }) => {
                f.write_str(" The larger side may ask for the lease first.")
            }
            Some(DowningWait::Lease { .. }) => f.write_str(" The lease has been asked for."),
        }
    }
}

/// What a downing decision waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DowningWait {
    /// The picture has to stay as it is until then.
    Stable {
        /// Until when.
        until: Instant,
    },
    /// Another node is the leader; it decides.
    Leader,
    /// The larger side may ask for the lease first.
    OtherSide {
        /// Until when.
        until: Instant,
    },
    /// The lease has been asked for.
    Lease {
        /// After this the answer counts as a refusal.
        until: Instant,
    },
}
