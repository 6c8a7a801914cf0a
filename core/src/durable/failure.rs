//! What is said to those who ask a durable entity when what they asked for cannot be kept. Values only.

use crate::store::StoreError;

/// Why a command of a durable entity was not made durable. Nothing of it is applied: the entity's state is
/// unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DurableFailure {
    /// The store is unavailable: ask again later. Returned after two seconds at the earliest; until then
    /// commands wait.
    #[error("the store is unavailable; nothing was done")]
    Unavailable,
    /// The store has no room: ask again once there is some. The entity goes on answering what changes
    /// nothing.
    #[error("the store is full; nothing was done")]
    Full,
    /// An event, all events of the command, or the state is beyond its limit (`durable::limits` of the
    /// driver), or cannot be encoded: fix the program.
    #[error("the events or the state are too large or cannot be encoded; nothing was done")]
    TooLarge,
    /// The entity's id has no log, because the kind's name and the id together are longer than the name of a
    /// log may be.
    #[error("the kind's name and the entity's id are too long for a log; nothing was done")]
    NameTooLong,
    /// A later incarnation has taken the log over, and this one stopped: ask again, and the later one
    /// answers.
    #[error("a later incarnation owns the log; nothing was done")]
    Fenced,
    /// The same, but the command's events had been on their way already: the later incarnation has them or
    /// not.
    #[error("a later incarnation owns the log; the command may have been done")]
    FencedUnknown,
    /// What the log holds is damaged, or a record is missing: the entity cannot be recovered from this store.
    #[error("the log is damaged; nothing was done")]
    Damaged,
    /// The log holds a version of an event or a state that this program cannot read: roll on, or fix it
    /// (`Versioned` of the driver).
    #[error("the log holds a version that this program cannot read; nothing was done")]
    Unreadable,
    /// The kind was registered as one of a single host (`Kind::single_host`), and another member may host it.
    #[error("only one node can read the store, and several may host the kind; nothing was done")]
    SeveralHosts,
    /// As many of the entity's messages are unconfirmed as may be
    /// ([`unconfirmed_max`](crate::delivery::AtLeastOnceSettings::unconfirmed_max)): ask again when some are.
    #[error("too many of the entity's messages are unconfirmed; nothing was done")]
    TooManyUnconfirmed,
    /// What the entity says about redelivery is out of its range: fix the program.
    #[error("a setting of the entity is out of its range; nothing was done")]
    BadSetting,
    /// The entity would have more reminders than there may be (`durable::limits::REMINDERS_MAX`).
    #[error("the entity has too many reminders; nothing was done")]
    TooManyReminders,
}

impl DurableFailure {
    /// Whether it may be durable after all. `false` means that asking again cannot do it twice.
    #[must_use]
    pub const fn may_have_been_handled(self) -> bool {
        match self {
            Self::FencedUnknown => true,
            Self::Unavailable
            | Self::Full
            | Self::TooLarge
            | Self::NameTooLong
            | Self::Fenced
            | Self::Damaged
            | Self::Unreadable
            | Self::SeveralHosts
            | Self::TooManyUnconfirmed
            | Self::BadSetting
            | Self::TooManyReminders => false,
        }
    }

    /// Its byte on the wire, which never changes.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Unavailable => 1,
            Self::Full => 2,
            Self::TooLarge => 3,
            Self::NameTooLong => 4,
            Self::Fenced => 5,
            Self::FencedUnknown => 6,
            Self::Damaged => 7,
            Self::Unreadable => 8,
            Self::SeveralHosts => 9,
            Self::TooManyUnconfirmed => 10,
            Self::BadSetting => 11,
            Self::TooManyReminders => 12,
        }
    }

    /// The failure with this byte; `None` for one of a later version.
    #[must_use]
    pub const fn of(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Unavailable,
            2 => Self::Full,
            3 => Self::TooLarge,
            4 => Self::NameTooLong,
            5 => Self::Fenced,
            6 => Self::FencedUnknown,
            7 => Self::Damaged,
            8 => Self::Unreadable,
            9 => Self::SeveralHosts,
            10 => Self::TooManyUnconfirmed,
            11 => Self::BadSetting,
            12 => Self::TooManyReminders,
            _ => return None,
        })
    }

    /// What is said to who asks for something that the store did not do, and has surely not done.
    #[must_use]
    pub const fn by(error: StoreError) -> Self {
        match error {
            StoreError::NoStore | StoreError::Busy | StoreError::Unavailable | StoreError::OutcomeUnknown => {
                Self::Unavailable
            }
            StoreError::Full => Self::Full,
            StoreError::TooLarge => Self::TooLarge,
            StoreError::Fenced { .. } | StoreError::SequenceConflict { .. } => Self::Fenced,
            StoreError::Corrupt => Self::Damaged,
        }
    }
}
