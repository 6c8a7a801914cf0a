//! The states of an entity within its shard, and the only steps between them. Decides what is legal; does
//! nothing. Spec: sharding 1.4 (entity states).

use crate::sharding::passivation::StrategyPlace;
use crate::sharding::state::ids::Slot;

/// An entity that has a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunningEntity {
    pub(crate) slot: Slot,
    /// Where the strategy has it; `None` without one, and once it is being passivated.
    pub(crate) place: Option<StrategyPlace>,
    pub(crate) told: StopOrder,
}

/// What a running entity has been ordered to do for its shard's sake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopOrder {
    /// Nothing: it takes messages.
    Nothing,
    /// To stop when it has handled what it has been given. The order cannot be taken back.
    Stop,
    /// To stop at once.
    Kill,
}

impl StopOrder {
    const fn holds_back(self) -> bool {
        match self {
            Self::Nothing => false,
            Self::Stop | Self::Kill => true,
        }
    }
}

/// Where an entity is in its life. One that is not there has none of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntityState {
    /// The store knows it, and it has not been started here yet.
    RememberedButNotCreated,
    /// It starts once the store has its id.
    RememberingStart,
    /// It runs.
    Active(RunningEntity),
    /// It was told to stop, or stops by itself, and what comes for it waits for its next incarnation.
    Passivating(RunningEntity),
    /// It has stopped, and the store is to forget it.
    RememberingStop,
    /// It has stopped without having been told to: it starts again after a pause, or with its next message.
    WaitingForRestart,
}

/// The states by name; `Absent` is the one of an entity that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateName {
    Absent,
    RememberedButNotCreated,
    RememberingStart,
    Active,
    Passivating,
    RememberingStop,
    WaitingForRestart,
}

impl EntityState {
    /// What runs.
    pub(crate) const fn running(&self) -> Option<&RunningEntity> {
        match self {
            Self::Active(running) | Self::Passivating(running) => Some(running),
            Self::RememberedButNotCreated
            | Self::RememberingStart
            | Self::RememberingStop
            | Self::WaitingForRestart => None,
        }
    }

    /// Whether its messages have to wait.
    pub(crate) const fn holds_back(&self) -> bool {
        match self {
            Self::Active(running) => running.told.holds_back(),
            Self::Passivating(_) | Self::RememberingStart | Self::RememberingStop => true,
            Self::RememberedButNotCreated | Self::WaitingForRestart => false,
        }
    }

    pub(crate) const fn name(&self) -> StateName {
        match self {
            Self::RememberedButNotCreated => StateName::RememberedButNotCreated,
            Self::RememberingStart => StateName::RememberingStart,
            Self::Active(_) => StateName::Active,
            Self::Passivating(_) => StateName::Passivating,
            Self::RememberingStop => StateName::RememberingStop,
            Self::WaitingForRestart => StateName::WaitingForRestart,
        }
    }
}

/// Whether an entity may go from one state to the other, in a shard that remembers or in one that does not.
pub(crate) const fn is_legal(remembers: bool, from: StateName, to: StateName) -> bool {
    match (from, to) {
        (StateName::Active, StateName::Passivating) => true,
        (StateName::Absent, StateName::Active)
        | (StateName::Active | StateName::Passivating, StateName::Absent) => !remembers,
        (StateName::Absent, StateName::RememberedButNotCreated | StateName::RememberingStart)
        | (StateName::RememberedButNotCreated, StateName::Active | StateName::RememberingStop)
        | (StateName::RememberingStart, StateName::RememberingStart | StateName::Active)
        | (StateName::Active, StateName::WaitingForRestart)
        | (StateName::Passivating, StateName::RememberingStop)
        | (StateName::RememberingStop, StateName::Absent)
        | (StateName::WaitingForRestart, StateName::Active | StateName::RememberingStart) => remembers,
        (StateName::Absent, StateName::Absent | StateName::Passivating)
        | (StateName::Absent, StateName::RememberingStop | StateName::WaitingForRestart)
        | (StateName::RememberedButNotCreated, StateName::Absent | StateName::RememberedButNotCreated)
        | (StateName::RememberedButNotCreated, StateName::RememberingStart | StateName::Passivating)
        | (StateName::RememberedButNotCreated, StateName::WaitingForRestart)
        | (StateName::RememberingStart, StateName::Absent | StateName::RememberedButNotCreated)
        | (StateName::RememberingStart, StateName::Passivating | StateName::RememberingStop)
        | (StateName::RememberingStart, StateName::WaitingForRestart)
        | (StateName::Active, StateName::RememberedButNotCreated | StateName::RememberingStart)
        | (StateName::Active, StateName::Active | StateName::RememberingStop)
        | (StateName::Passivating, StateName::RememberedButNotCreated | StateName::RememberingStart)
        | (StateName::Passivating, StateName::Active | StateName::Passivating)
        | (StateName::Passivating, StateName::WaitingForRestart)
        | (StateName::RememberingStop, StateName::RememberedButNotCreated | StateName::RememberingStart)
        | (StateName::RememberingStop, StateName::Active | StateName::Passivating)
        | (StateName::RememberingStop, StateName::RememberingStop | StateName::WaitingForRestart)
        | (StateName::WaitingForRestart, StateName::Absent | StateName::RememberedButNotCreated)
        | (StateName::WaitingForRestart, StateName::Passivating | StateName::RememberingStop)
        | (StateName::WaitingForRestart, StateName::WaitingForRestart) => false,
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const ALL: [StateName; 7] = [
        StateName::Absent,
        StateName::RememberedButNotCreated,
        StateName::RememberingStart,
        StateName::Active,
        StateName::Passivating,
        StateName::RememberingStop,
        StateName::WaitingForRestart,
    ];

    fn legal(remembers: bool, from: StateName) -> Vec<StateName> {
        ALL.into_iter()
            .filter(|to| is_legal(remembers, from, *to))
            .collect()
    }

    #[test]
    fn only_the_steps_of_the_table_are_legal() {
        use StateName::*;
        assert_eq!(legal(true, Absent), [RememberedButNotCreated, RememberingStart]);
        assert_eq!(legal(true, RememberedButNotCreated), [Active, RememberingStop]);
        assert_eq!(legal(true, RememberingStart), [RememberingStart, Active]);
        assert_eq!(legal(true, Active), [Passivating, WaitingForRestart]);
        assert_eq!(legal(true, Passivating), [RememberingStop]);
        assert_eq!(legal(true, RememberingStop), [Absent]);
        assert_eq!(legal(true, WaitingForRestart), [RememberingStart, Active]);
        assert_eq!(legal(false, Absent), [Active]);
        assert_eq!(legal(false, Active), [Absent, Passivating]);
        assert_eq!(legal(false, Passivating), [Absent]);
        for from in [
            RememberedButNotCreated,
            RememberingStart,
            RememberingStop,
            WaitingForRestart,
        ] {
            assert_eq!(legal(false, from), []);
        }
    }
}
