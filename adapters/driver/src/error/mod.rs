//! What can go wrong for a caller, each with the one thing to know about it. Peers' mistakes are events and
//! counters, never errors of these types.

mod changes;
mod daemons;
mod data;
mod durable;
mod paths;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;

use quorate_core::agreement::SettingError;
use quorate_core::config::ConfigError;
use quorate_core::ddata::crdt::RegisterError;
use quorate_core::delivery::BadSetting;
use quorate_core::effect::{CommandError, HaltReason};
use quorate_core::event::JoinFailure;
use quorate_core::ident::NameError;
use quorate_core::kv::state::bucket::BadBucketName;
use quorate_core::membership::app_version::AppVersionError;
use quorate_core::sharding::errors::AskFailure;

use crate::extract::Unopened;
use crate::kinds::Mismatch;
use crate::signals::ShutdownSignal;
pub use changes::KvChangesError;
pub use daemons::DaemonsError;
pub use data::{DataReadError, DataWriteError};
pub use durable::{DurabilityError, DurableFailure};
pub use paths::PathError;
use paths::has_no_answer;

/// Why a node did not start. Nothing of it is left running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A cluster name, role or address is not legal.
    #[error("{what} `{value}`: {error}")]
    Name {
        /// Which setting.
        what: &'static str,
        /// Its value.
        value: String,
        /// What is wrong.
        error: NameError,
    },
    /// The version of the application is not one.
    #[error("application version `{value}`: {error}")]
    AppVersion {
        /// What was given.
        value: String,
        /// What is wrong.
        error: AppVersionError,
    },
    /// A setting is outside its range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A setting of the application that is checked on join is not legal.
    #[error("checked on join: {0}")]
    JoinCheck(#[from] SettingError),
    /// A replicated type of the application's own cannot be made known.
    #[error("replicated type: {0}")]
    DataType(#[from] RegisterError),
    /// The address cannot be listened at; a port in use for instance.
    #[error("cannot listen at {address}: {error}")]
    Bind {
        /// The address.
        address: String,
        /// What the system said.
        error: io::Error,
    },
    /// The node listens at every address of the machine, so that peers would not know which to dial.
    #[error("cannot advertise wildcard address {address}; set `advertise`")]
    UnspecifiedAddress {
        /// The address.
        address: String,
    },
    /// Lease-majority without a keeper: every split would end both sides.
    #[error("the strategy lease-majority needs a lease keeper; set one with `leases`")]
    NoLeaseKeeper,
    /// The runtime, the transport or the system's entropy cannot be had.
    #[error("{what}: {error}")]
    Environment {
        /// What is missing.
        what: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// The node refused to join.
    #[error(transparent)]
    Join(#[from] ClusterError),
}

/// Why a command to the cluster failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The node refused it.
    #[error(transparent)]
    Refused(#[from] CommandError),
    /// An address or a role is not legal.
    #[error("`{value}`: {error}")]
    Name {
        /// The text.
        value: String,
        /// What is wrong.
        error: NameError,
    },
    /// The kind's stop message cannot be encoded.
    #[error("the kind's stop message cannot be encoded")]
    StopMessage,
    /// The node has stopped.
    #[error("this node has stopped")]
    Stopped,
    /// The node has stopped because it could not join: this was last in the way.
    #[error("this node has stopped because {halted}: {cause}")]
    NotJoined {
        /// Why it stopped.
        halted: HaltReason,
        /// What every seed had against it, or the one that was asked.
        cause: Box<JoinFailure>,
    },
    /// The kind or the singleton is registered already, with messages or answers of other types.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// A kind of durable entities on a node whose store cannot keep them.
    #[error(transparent)]
    Durability(#[from] DurabilityError),
    /// Daemons that cannot be.
    #[error(transparent)]
    Daemons(#[from] DaemonsError),
    /// A setting of reliable delivery is out of its range.
    #[error(transparent)]
    Setting(#[from] BadSetting),
    /// A path that cannot be.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A bucket of the keyed store cannot have this name.
    #[error(transparent)]
    Bucket(#[from] BadBucketName),
    /// The system's signals cannot be had.
    #[error("cannot listen for signals: {0}")]
    Signals(String),
}

impl ClusterError {
    /// Whether something was not done within its time limit: the node could not join in time
    /// (`membership.shutdown_after_unsuccessful_join`), no answer about daemons came, or no leader has
    /// answered about a path.
    #[must_use]
    pub const fn is_timeout(&self) -> bool {
        match self {
            Self::NotJoined { halted, .. } => matches!(halted, HaltReason::JoinAborted),
            Self::Daemons(error) => error.is_timeout(),
            Self::Refused(error) => has_no_answer(error),
            Self::Path(_)
            | Self::Name { .. }
            | Self::StopMessage
            | Self::Stopped
            | Self::Lookup(_)
            | Self::Durability(_)
            | Self::Setting(_)
            | Self::Bucket(_)
            | Self::Signals(_) => false,
        }
    }

    /// Whether the command may have taken effect, or may still. `false`: nothing has changed.
    #[must_use]
    pub const fn may_have_been_handled(&self) -> bool {
        match self {
            Self::Stopped => true,
            // A member may have let it in, and the Welcome was lost: it is Joining there until it is downed.
            Self::NotJoined { halted, .. } => {
                !matches!(halted, HaltReason::JoinRefused | HaltReason::IncompatibleConfig)
            }
            Self::Daemons(error) => error.may_have_been_handled(),
            Self::Refused(error) => has_no_answer(error),
            Self::Path(_)
            | Self::Name { .. }
            | Self::StopMessage
            | Self::Lookup(_)
            | Self::Durability(_)
            | Self::Setting(_)
            | Self::Bucket(_)
            | Self::Signals(_) => false,
        }
    }
}

/// Why this node has no way to a kind's entities or to a singleton. A retry does not help: start it or a
/// proxy to it on this node first, or correct the types.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LookupError {
    /// This node has not registered it, neither to host it nor as a proxy.
    #[error("the {what} `{name}` is not registered on this node")]
    NotRegistered {
        /// `kind`, `singleton` or `path`.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// It has messages or answers of other types.
    #[error("the {what} `{name}` was registered for {registered}, not for {wanted}")]
    OtherTypes {
        /// `kind`, `singleton` or `path`.
        what: &'static str,
        /// Its name.
        name: String,
        /// The message and the answer as registered.
        registered: &'static str,
        /// The message and the answer that were wanted.
        wanted: &'static str,
    },
}

impl LookupError {
    /// Of a kind.
    pub(crate) fn kind(name: &str, mismatch: Mismatch) -> Self {
        Self::of("kind", name, mismatch)
    }

    /// Of a singleton.
    pub(crate) fn singleton(name: &str, mismatch: Mismatch) -> Self {
        Self::of("singleton", name, mismatch)
    }

    /// Of a path.
    pub(crate) fn path(name: &str, mismatch: Mismatch) -> Self {
        Self::of("path", name, mismatch)
    }

    fn of(what: &'static str, name: &str, mismatch: Mismatch) -> Self {
        let name = name.to_owned();
        match mismatch {
            Mismatch::Missing => Self::NotRegistered { what, name },
            Mismatch::OtherTypes { registered, wanted } => Self::OtherTypes {
                what,
                name,
                registered,
                wanted,
            },
        }
    }
}

impl From<Unopened> for TellError {
    fn from(unopened: Unopened) -> Self {
        match unopened {
            Unopened::OtherType => Self::NoEnvelope,
            Unopened::NoMatch => Self::NoMatch,
        }
    }
}

/// Why [`EntityContext::passivate_with`](crate::EntityContext::passivate_with) was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PassivateError {
    /// The entity's kind has messages or answers of other types.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// The message could not be encoded.
    #[error("the message cannot be encoded")]
    Encode,
}

/// The message and reply types that were named are not the entity's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the entity's message and reply types are not {wanted}")]
pub struct OtherTypes {
    /// The types of messages and answers that were named.
    pub wanted: &'static str,
}

/// Why a timer was not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TimerError {
    /// The entity has messages or answers of other types.
    #[error(transparent)]
    OtherTypes(#[from] OtherTypes),
    /// It has [`TIMERS_MAX`](crate::sharding::TIMERS_MAX) already.
    #[error("the entity already has `TIMERS_MAX` timers")]
    TooMany,
    /// The interval is below [`TIMER_INTERVAL_MIN`](crate::sharding::TIMER_INTERVAL_MIN).
    #[error("the timer's interval is below `TIMER_INTERVAL_MIN`")]
    TooShort,
}

/// Why a reply cannot be deferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplyLaterError {
    /// The entity has messages or answers of other types.
    #[error(transparent)]
    OtherTypes(#[from] OtherTypes),
    /// Nobody waits for an answer, or it has been put off before.
    #[error("nobody waits for a reply to this message, or the reply was already deferred")]
    NotAsked,
}

/// Why a `tell` failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TellError {
    /// The message could not be encoded.
    #[error("the message cannot be encoded")]
    Encode,
    /// The message, encoded and with the entity's id, is longer than
    /// [`payload_bytes_max`](quorate_core::config::Limits::payload_bytes_max).
    #[error("the message is too large")]
    TooLarge,
    /// The entity's id is empty or longer than `limits.entity_id_bytes_max`.
    #[error("the entity id is empty or too long")]
    BadEntityId,
    /// The kind, as it is registered on this node, takes no envelopes of this type
    /// ([`Kind::extract`](crate::Kind::extract)).
    #[error("the kind has no `extract` function for envelopes of this type")]
    NoEnvelope,
    /// The envelope is for no entity.
    #[error("the envelope names no entity")]
    NoMatch,
    /// The queue into the node or the kind's buffer is full (only from `try_tell`; `tell` waits), or too many
    /// wait for room in the buffer.
    #[error("the node's command queue or the kind's buffer is full; try again later")]
    Full,
    /// The node has stopped.
    #[error("this node has stopped")]
    Stopped,
}

impl TellError {
    /// Whether the message may have been handled: never, as every error is known before it is sent.
    #[must_use]
    pub const fn may_have_been_handled(self) -> bool {
        match self {
            Self::Encode
            | Self::TooLarge
            | Self::BadEntityId
            | Self::NoEnvelope
            | Self::NoMatch
            | Self::Full
            | Self::Stopped => false,
        }
    }
}

/// Why an ask failed, as its caller hears it: on this node, or ([`AskFailure`]) in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The message could not be encoded: not handled.
    #[error("the message cannot be encoded; it was not handled")]
    Encode,
    /// The entity's node could not decode the message: not handled.
    #[error("the entity's node could not decode the message; it was not handled")]
    Undecodable,
    /// The answer could not be decoded, or could not be encoded there: handled.
    #[error("the answer cannot be decoded; the message was handled")]
    Decode,
    /// An entity asked itself, and would wait for itself. Not handled; it may tell itself.
    #[error("an entity cannot ask itself; the message was not handled")]
    OwnEntity,
    /// The ask would close a cycle: the entity asked waits, directly or through others, for the handler that
    /// asks. Not handled; let one of them tell instead. Asks made outside of handlers, in tasks for instance,
    /// are never refused for this.
    #[error("ask cycle detected; the message was not handled")]
    Cycle,
    /// This node has stopped: it may have been handled.
    #[error("this node has stopped; the message may have been handled")]
    Stopped,
    /// The entity is a durable one, and what the message asks for could not be made durable.
    #[error(transparent)]
    NotDurable(#[from] DurableFailure),
    /// The cluster has no answer.
    #[error(transparent)]
    Failed(#[from] AskFailure),
}

impl AskError {
    /// Whether no answer came within the time limit.
    #[must_use]
    pub const fn is_timeout(self) -> bool {
        match self {
            Self::Failed(failure) => failure.is_timeout(),
            Self::Encode
            | Self::Undecodable
            | Self::Decode
            | Self::OwnEntity
            | Self::Cycle
            | Self::Stopped
            | Self::NotDurable(_) => false,
        }
    }

    /// Whether the entity may have handled the message. `false`: a retry cannot make it handled twice.
    #[must_use]
    pub const fn may_have_been_handled(self) -> bool {
        match self {
            Self::Encode | Self::Undecodable | Self::OwnEntity | Self::Cycle => false,
            Self::Decode | Self::Stopped => true,
            Self::NotDurable(failure) => failure.may_have_been_handled(),
            Self::Failed(failure) => failure.may_have_been_handled(),
        }
    }
}

/// How a node ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Termination {
    /// The node finished by its own protocol: it left, was downed or was removed.
    Halted(HaltReason),
    /// The last [`crate::Cluster`] handle was dropped, or [`crate::Cluster::stop`] was called: the others
    /// will notice its silence.
    Stopped,
    /// A second signal came while it ended, and it was stopped at once.
    Signalled(ShutdownSignal),
}

impl fmt::Display for Termination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Halted(reason) => reason.fmt(f),
            Self::Stopped => f.write_str("it was stopped without leaving"),
            Self::Signalled(signal) => write!(f, "{signal} came while it ended"),
        }
    }
}

impl Termination {
    /// Whether the node handed over its work before it ended.
    #[must_use]
    pub const fn is_graceful(&self) -> bool {
        match self {
            Self::Halted(HaltReason::Left) => true,
            Self::Halted(_) | Self::Stopped | Self::Signalled(_) => false,
        }
    }

    /// The exit code for a program whose node has ended like this: 0 if the node has left, whoever asked for
    /// it; 1 if it could not join, or was stopped without leaving; 255 if it was downed or removed (Akka's
    /// -1); 128 and the signal's number after a second signal, as shells have it (130 for SIGINT, 143 for
    /// SIGTERM).
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Halted(HaltReason::Left) => 0,
            Self::Halted(HaltReason::Downed | HaltReason::Removed) => 255,
            Self::Halted(
                HaltReason::IncompatibleConfig | HaltReason::JoinAborted | HaltReason::JoinRefused | _,
            )
            | Self::Stopped => 1,
            Self::Signalled(signal) => 128 + signal.number(),
        }
    }
}

/// [`Termination::exit_code`], for the end of `main`.
impl From<Termination> for std::process::ExitCode {
    fn from(termination: Termination) -> Self {
        Self::from(termination.exit_code())
    }
}
