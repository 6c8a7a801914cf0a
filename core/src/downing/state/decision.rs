//! What a downing strategy may answer, and which statuses count for what. Values only: no time, no chance, no
//! effects. Spec: membership 3.2.

use core::fmt;
use core::time::Duration;

use crate::membership::state::member::Status;

/// Which sides of a split have to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DowningDecision {
    /// This side stays; everybody it cannot reach goes.
    DownUnreachable,
    /// The other side may stay; everybody here goes.
    DownReachable,
    /// No side can know that it is the one to stay: everybody goes.
    DownAll,
    /// No clean split: those on the broken links go, and whoever the strategy gives up besides.
    DownIndirectlyConnected,
    /// As [`DowningDecision::DownUnreachable`], but only the holder of the lease may do it; the others do
    /// [`DowningDecision::DownReachable`].
    AcquireLeaseAndDownUnreachable {
        /// How long this side lets the other one go first.
        after: Duration,
    },
    /// As [`DowningDecision::DownIndirectlyConnected`], but only the holder of the lease may do it; the
    /// others down themselves and whoever is on a broken link.
    AcquireLeaseAndDownIndirectlyConnected,
    /// Nobody is downed; an operator may have to. No strategy of ours answers this.
    DownNobody,
}

impl DowningDecision {
    /// Whether it is an answer to a split that is not clean.
    #[must_use]
    pub const fn is_indirectly_connected(self) -> bool {
        matches!(
            self,
            Self::DownIndirectlyConnected | Self::AcquireLeaseAndDownIndirectlyConnected
        )
    }

    /// Whether only the holder of the lease may carry it out.
    #[must_use]
    pub const fn needs_lease(self) -> bool {
        matches!(
            self,
            Self::AcquireLeaseAndDownUnreachable { .. } | Self::AcquireLeaseAndDownIndirectlyConnected
        )
    }
}

impl fmt::Display for DowningDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DownUnreachable => "down-unreachable",
            Self::DownReachable => "down-reachable",
            Self::DownAll => "down-all",
            Self::DownIndirectlyConnected => "down-indirectly-connected",
            Self::AcquireLeaseAndDownUnreachable { .. } => "acquire-lease-and-down-unreachable",
            Self::AcquireLeaseAndDownIndirectlyConnected => "acquire-lease-and-down-indirectly-connected",
            Self::DownNobody => "down-nobody",
        })
    }
}

/// Whether downing a member of this status changes anything.
#[must_use]
pub const fn can_be_downed(status: Status) -> bool {
    match status {
        Status::Joining
        | Status::WeaklyUp
        | Status::Up
        | Status::PreparingForShutdown
        | Status::ReadyForShutdown
        | Status::Leaving => true,
        Status::Exiting | Status::Down | Status::Removed => false,
    }
}

/// Counted when sides are compared: in, and not yet known to go.
#[must_use]
pub const fn is_counted(status: Status) -> bool {
    match status {
        Status::Up | Status::PreparingForShutdown | Status::ReadyForShutdown | Status::Leaving => true,
        Status::Joining | Status::WeaklyUp | Status::Exiting | Status::Down | Status::Removed => false,
    }
}

/// Counted, and it cannot be Exiting already without this side's knowledge.
#[must_use]
pub const fn is_counted_and_stays(status: Status) -> bool {
    is_counted(status) && !matches!(status, Status::Leaving)
}

/// Counted, or it may be Up already without this side's knowledge.
#[must_use]
pub const fn may_be_counted(status: Status) -> bool {
    is_counted(status) || matches!(status, Status::Joining | Status::WeaklyUp)
}
