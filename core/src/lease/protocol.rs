//! Leases: exclusive, named, kept by somebody outside the cluster. The core asks and is told; who keeps the
//! lease, renews it and lets it expire is the host's. Spec: membership 3.6, reliability I-26.

use alloc::sync::Arc;
use core::time::Duration;

use crate::ident::UniqueAddress;

/// A lease's name; all that want the same thing name the same lease.
pub type LeaseName = Arc<str>;

/// What the node asks of the lease's keeper. Every order is answered by one [`LeaseReport`]; an answer that
/// does not come in time counts as a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseOrder {
    /// Get hold of the lease for `owner`, and keep it until it is released or its owner has not been heard of
    /// for `time_to_live`. Granted again to who holds it already, with the same token.
    Acquire {
        /// Which.
        name: LeaseName,
        /// Who wants it: exactly this incarnation.
        owner: UniqueAddress,
        /// After so much silence of its owner somebody else may have it.
        time_to_live: Duration,
    },
    /// Give it back. Released, too, if `owner` does not hold it.
    Release {
        /// Which.
        name: LeaseName,
        /// Who gives it back.
        owner: UniqueAddress,
    },
}

/// What the lease's keeper says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseReport {
    /// Which lease.
    pub name: LeaseName,
    /// What became of it.
    pub outcome: LeaseOutcome,
}

/// What became of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseOutcome {
    /// This node holds it.
    Granted {
        /// Grows with every change of hands: whoever is shown a smaller one afterwards refuses it.
        token: u64,
    },
    /// Somebody else holds it, or its keeper cannot be asked.
    Denied,
    /// This node held it and does not any more: it could not be renewed in time.
    Lost,
    /// It was given back.
    Released,
}
