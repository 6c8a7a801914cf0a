//! What a path is registered with: the same for the whole cluster. Types, their limits and what two of them
//! differ in. Spec: sharding 5.1, 5.2, 10.17 h and i.

use crate::ident::Role;
use crate::paths::state::instances::FaultTolerance;
use crate::paths::state::name::PathName;
use crate::paths::state::options::HandoffOptions;

/// Most instances of one path.
pub const INSTANCES_MAX: u16 = 1_024;
/// Most load that can be expected, in percent of what is measured.
pub const EXPECTED_LOAD_MAX: u16 = 10_000;
/// Most paths of a cluster, removed ones that are not forgotten yet included.
pub const PATHS_MAX: usize = 1_024;
/// Most slots of all paths together.
pub const SLOTS_MAX: usize = 8_192;

/// How a message that names no slot finds one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathRouter {
    /// One after the other, each sender by itself.
    #[default]
    RoundRobin,
    /// The one whose host has the most capacity left, as far as this sender knows; round robin among equals
    /// and where no load is known.
    LeastLoaded,
    /// By chance, in proportion to the capacity of the hosts; round robin where no load is known.
    Weighted,
}

/// For which instance of a path a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathPick {
    /// The path's router chooses.
    Routed,
    /// This slot.
    Slot(u16),
    /// The same slot for the same number, while the number of slots stays.
    Hash(u64),
    /// Every slot; only for messages without an answer.
    Every,
}

/// A path, as it is registered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathSettings {
    /// Its name.
    pub name: PathName,
    /// Instances run on members with this role; on all if `None`.
    pub role: Option<Role>,
    /// How many hosts may be lost at once while an instance still runs.
    pub fault_tolerance: FaultTolerance,
    /// Least instances, 1 to 1,024: scaling goes no lower.
    pub instances_min: u16,
    /// Most instances, at least `instances_min` and at most 1,024.
    pub instances_max: u16,
    /// The load that users expect, in percent of what is measured, 1 to 10,000: scaling goes by it.
    pub expected_load: u16,
    /// What happens to messages while a slot moves.
    pub handoff: HandoffOptions,
    /// How messages that name no slot find one.
    pub router: PathRouter,
    /// Whether each instance is the top of a subtree: messages to paths below it go to an instance of it.
    pub subtree: bool,
    /// Whether each slot has a durable mailbox: its messages are in a store before they are handled.
    pub mailbox: bool,
}

/// What is wrong with a path's settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathSettingsError {
    /// Bounds of the number of instances.
    #[error("a path has 1 to {INSTANCES_MAX} instances, and not fewer at most than at least")]
    BadBounds,
    /// The load that is expected.
    #[error("the expected load is 1 to {EXPECTED_LOAD_MAX} percent of what is measured")]
    BadExpectation,
    /// State is moved only of an instance that stops first and whose messages are kept.
    #[error("state is transferred only where the old host keeps messages (option 2b)")]
    TransferWithoutKeeping,
    /// A durable mailbox has one owner, and keeps the order of what it was given.
    #[error("a durable mailbox takes the hand-off options `DURABLE`")]
    MailboxNotDurable,
}

impl PathSettings {
    /// A path with one instance, anywhere, that keeps order: preset `Ordered`, round robin.
    #[must_use]
    pub fn new(name: PathName) -> Self {
        Self {
            name,
            role: None,
            fault_tolerance: FaultTolerance::Constant(0),
            instances_min: 1,
            instances_max: INSTANCES_MAX,
            expected_load: 100,
            handoff: HandoffOptions::ORDERED,
            router: PathRouter::RoundRobin,
            subtree: false,
            mailbox: false,
        }
    }

    /// Checks what can be checked of one path alone.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), PathSettingsError> {
        let bounds = 1..=INSTANCES_MAX;
        if !bounds.contains(&self.instances_min)
            || !bounds.contains(&self.instances_max)
            || self.instances_min > self.instances_max
        {
            return Err(PathSettingsError::BadBounds);
        }
        if !(1..=EXPECTED_LOAD_MAX).contains(&self.expected_load) {
            return Err(PathSettingsError::BadExpectation);
        }
        if !self.handoff.are_possible() {
            return Err(PathSettingsError::TransferWithoutKeeping);
        }
        if self.mailbox && self.handoff != HandoffOptions::DURABLE {
            return Err(PathSettingsError::MailboxNotDurable);
        }
        Ok(())
    }
}
