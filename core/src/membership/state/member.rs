//! A member and its status: the status order, the legal transitions and what one member's record is. Decides
//! nothing about the cluster. Spec: membership 1.2, 1.3, 8.2.

use core::cmp::Ordering;
use core::fmt;

use crate::ident::{Roles, UniqueAddress};
use crate::membership::state::app_version::AppVersion;

/// Where a member is in its life. The order of the variants is the merge order: when two records of one
/// incarnation meet, the later status wins. `Removed` is never stored; it is what a vanished member is
/// reported as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// Known, not yet counted for anything.
    Joining,
    /// Admitted by a leader that could not reach convergence.
    WeaklyUp,
    /// A full member.
    Up,
    /// The whole cluster was asked to shut down.
    PreparingForShutdown,
    /// Everybody knows that the whole cluster is to shut down.
    ReadyForShutdown,
    /// Asked to leave; still works.
    Leaving,
    /// Everybody knows that it leaves; it hands its work over and goes.
    Exiting,
    /// Declared dead. Final for this incarnation.
    Down,
    /// Not a member any more.
    Removed,
}

impl Status {
    /// All statuses in merge order.
    pub const ALL: [Self; 9] = [
        Self::Joining,
        Self::WeaklyUp,
        Self::Up,
        Self::PreparingForShutdown,
        Self::ReadyForShutdown,
        Self::Leaving,
        Self::Exiting,
        Self::Down,
        Self::Removed,
    ];

    /// Whether a member may go from `self` to `to` in one step. The same status again is allowed and means
    /// nothing.
    #[must_use]
    pub const fn allows(self, to: Self) -> bool {
        use Status::{
            Down, Exiting, Joining, Leaving, PreparingForShutdown, ReadyForShutdown, Removed, Up, WeaklyUp,
        };
        match self {
            Joining => matches!(to, Joining | WeaklyUp | Up | Leaving | Down | Removed),
            WeaklyUp => matches!(to, WeaklyUp | Up | Leaving | Down | Removed),
            Up => matches!(to, Up | Leaving | Down | Removed | PreparingForShutdown),
            PreparingForShutdown => {
                matches!(
                    to,
                    PreparingForShutdown | ReadyForShutdown | Leaving | Down | Removed
                )
            }
            ReadyForShutdown => matches!(to, ReadyForShutdown | Leaving | Down | Removed),
            Leaving => matches!(to, Leaving | Exiting | Down | Removed),
            Exiting => matches!(to, Exiting | Removed | Down),
            Down => matches!(to, Down | Removed),
            Removed => matches!(to, Removed),
        }
    }

    /// Up, Leaving, PreparingForShutdown or ReadyForShutdown: the statuses whose holders must have seen a
    /// state before it counts as converged, and who may lead.
    #[must_use]
    pub const fn is_up_like(self) -> bool {
        matches!(
            self,
            Self::Up | Self::Leaving | Self::PreparingForShutdown | Self::ReadyForShutdown
        )
    }

    /// PreparingForShutdown or ReadyForShutdown: the whole cluster is to shut down.
    #[must_use]
    pub const fn is_preparing(self) -> bool {
        matches!(self, Self::PreparingForShutdown | Self::ReadyForShutdown)
    }

    /// Down or Exiting: on the way out for good; unreachability of such a member blocks nothing.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Down | Self::Exiting | Self::Removed)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The number a member got when it became Up, counted per data center: smaller is older. [`UpNumber::NONE`]
/// until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpNumber(u32);

impl UpNumber {
    /// Not Up yet: younger than every number.
    pub const NONE: Self = Self(i32::MAX as u32);
    /// The number of a data center's first member.
    pub const FIRST: Self = Self(1);

    /// A number; anything from `i32::MAX` on means [`UpNumber::NONE`].
    #[must_use]
    pub const fn new(number: u32) -> Self {
        if number > Self::NONE.0 {
            Self::NONE
        } else {
            Self(number)
        }
    }

    /// The bare number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Whether a number was assigned.
    #[must_use]
    pub const fn is_assigned(self) -> bool {
        self.0 != Self::NONE.0
    }

    /// The number after this one; the first number after [`UpNumber::NONE`] (the youngest of nobody counts as
    /// 0).
    #[must_use]
    pub const fn next(self) -> Self {
        if self.is_assigned() {
            Self::new(self.0.saturating_add(1))
        } else {
            Self::FIRST
        }
    }
}

/// One incarnation as the membership table holds it. Equality and order of *nodes* is by [`Member::node`];
/// the derived equality here compares whole records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The incarnation.
    pub node: UniqueAddress,
    /// Where it is in its life; never [`Status::Removed`].
    pub status: Status,
    /// Its age within its data center.
    pub up_number: UpNumber,
    /// Its roles; immutable per incarnation.
    pub roles: Roles,
    /// Its application's version; immutable per incarnation.
    pub app_version: AppVersion,
}

impl Member {
    /// A member that has just asked to join.
    #[must_use]
    pub const fn joining(node: UniqueAddress, roles: Roles, app_version: AppVersion) -> Self {
        Self {
            node,
            status: Status::Joining,
            up_number: UpNumber::NONE,
            roles,
            app_version,
        }
    }

    /// The data center it belongs to.
    #[must_use]
    pub fn data_center(&self) -> &str {
        self.roles.data_center()
    }

    /// Oldest first: smaller up number, then lower address. Only members of one data center have comparable
    /// ages; `None` otherwise (M-027).
    #[must_use]
    pub fn age_cmp(&self, other: &Self) -> Option<Ordering> {
        if self.data_center() != other.data_center() {
            return None;
        }
        Some(
            self.up_number
                .cmp(&other.up_number)
                .then_with(|| self.node.cmp(&other.node)),
        )
    }

    /// The record both sides of a merge agree on: the later status and the smaller up number (membership
    /// 8.2). Roles and version never change among honest nodes; where a liar says otherwise, the greater ones
    /// win on both sides, so that all nodes still end up with one state (8.9).
    #[must_use]
    pub fn merged(&self, other: &Self) -> Self {
        debug_assert_eq!(self.node, other.node, "only records of one incarnation merge");
        let keeps_roles = self.keeps_roles(other);
        let keeps_version = self.keeps_version(other);
        Self {
            node: self.node.clone(),
            status: self.status.max(other.status),
            up_number: self.up_number.min(other.up_number),
            roles: if keeps_roles { &self.roles } else { &other.roles }.clone(),
            app_version: if keeps_version {
                &self.app_version
            } else {
                &other.app_version
            }
            .clone(),
        }
    }

    /// Whether merging with `other` would leave this record as it is.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        self.status >= other.status
            && self.up_number <= other.up_number
            && self.keeps_roles(other)
            && self.keeps_version(other)
    }

    fn keeps_roles(&self, other: &Self) -> bool {
        self.roles.is_same(&other.roles) || self.roles >= other.roles
    }

    fn keeps_version(&self, other: &Self) -> bool {
        // Versions of different text may be equal.
        let (ours, theirs) = (&self.app_version, &other.app_version);
        ours.is_same(theirs) || (ours, ours.as_str()) >= (theirs, theirs.as_str())
    }
}
