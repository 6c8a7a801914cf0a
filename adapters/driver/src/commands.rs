//! What handles hand to the loop: messages, what is for logs, operations on replicated data, and everything
//! else. Types only.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::ddata::state::key::Pattern;
use quorate_core::effect::{Answer, CommandError, DdataAnswer, ShardingCommandError, SingletonCommandError};
use quorate_core::explain::Explanation;
use quorate_core::input::{
    Command, DdataCommand, JournalCommand, KindSettings, KvCommand, PathCommand, Recipient, ShardingCommand,
    SingletonCommand, SingletonSettings,
};
use quorate_core::kv::state::bucket::BucketName;
use quorate_core::paths::state::settings::PathSettings;
use quorate_core::sharding::chain::AskChain;
use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::Payload;
use quorate_core::sharding::protocol::watch::{WatchId, WatchTarget};
use quorate_core::singleton::state::{SingletonId, SingletonState};

use crate::allocating::Decider;
use crate::error::ClusterError;
use crate::mailbox::Starter;
use crate::notices::NoticeInbox;
use crate::stats::{BucketState, KindState, LinkState, NodeStats, PathState};
use crate::subscriptions::{ChangeInbox, SubscriberPlace};
use crate::sync;

/// A message to an entity, to a singleton or to an instance of a path.
pub(crate) enum UserCommand {
    Tell {
        to: Recipient,
        payload: Payload,
    },
    /// The same, of a caller who waits to hear that there was room for it.
    TellInTime {
        to: Recipient,
        payload: Payload,
        reply: sync::Sender<Answer>,
    },
    Ask {
        to: Recipient,
        payload: Payload,
        timeout: Duration,
        /// Whose handlers wait for the answer.
        chain: AskChain,
        reply: sync::Sender<Result<Payload, AskFailure>>,
    },
}

impl UserCommand {
    /// The node does not take it any more.
    pub(crate) fn refuse(self, failure: AskFailure) {
        match self {
            // Who waits learns it from the closed end.
            Self::Tell { .. } | Self::TellInTime { .. } => {}
            Self::Ask { reply, .. } => reply.send(Err(failure)),
        }
    }
}

/// Something for a log that several stores keep. Its owner waits for the answer.
pub(crate) struct LogCommand {
    pub(crate) command: JournalCommand,
    pub(crate) reply: sync::Sender<Answer>,
}

/// Something for the replicator or the keyed store, or about watches.
pub(crate) enum DataCommand {
    Operation {
        command: DdataCommand,
        reply: sync::Sender<DdataAnswer>,
    },
    /// Of the keyed store.
    Keyed {
        command: KvCommand,
        reply: sync::Sender<Answer>,
    },
    Subscribe {
        pattern: Pattern,
        inbox: Arc<ChangeInbox>,
    },
    Unsubscribe(Arc<ChangeInbox>),
    /// Changes in a bucket are to be heard of.
    Follow {
        bucket: BucketName,
        pattern: Pattern,
        inbox: Arc<NoticeInbox>,
    },
    Unfollow(Arc<NoticeInbox>),
    Watch {
        watch: WatchId,
        target: WatchTarget,
        reply: sync::Sender<Answer>,
    },
    /// Its place is free when this has been heard.
    Unwatch(WatchId, SubscriberPlace),
}

/// Everything else a handle wants.
pub(crate) enum ControlCommand {
    Core {
        command: Command,
        reply: sync::Sender<Answer>,
    },
    Register {
        what: Registration,
        starter: Option<Arc<dyn Starter>>,
        decider: Option<Decider>,
        reply: sync::Sender<Answer>,
    },
    SingletonState(SingletonId, sync::Sender<Option<SingletonState>>),
    Stats(sync::Sender<NodeStats>),
    Links(sync::Sender<Vec<LinkState>>),
    Kinds(sync::Sender<Vec<KindState>>),
    Paths(sync::Sender<Vec<PathState>>),
    Buckets(sync::Sender<Vec<BucketState>>),
    Explain(sync::Sender<Explanation>),
    Stop,
}

/// What a node is to host or reach.
pub(crate) enum Registration {
    Kind(Box<KindSettings>),
    Singleton(SingletonSettings),
    /// A path, and whether this node hosts instances of it.
    Path(Box<PathSettings>, bool),
}

impl Registration {
    pub(crate) const fn needs_lease(&self) -> bool {
        match self {
            Self::Kind(settings) => settings.hosts && settings.lease,
            Self::Singleton(settings) => settings.hosts && settings.lease,
            Self::Path(..) => false,
        }
    }

    /// Why it is refused on a node that has no lease keeper.
    pub(crate) const fn without_keeper(&self) -> CommandError {
        match self {
            Self::Kind(_) => CommandError::Sharding(ShardingCommandError::NoLeaseKeeper),
            // A path needs none, and nobody asks.
            Self::Singleton(_) | Self::Path(..) => {
                CommandError::Singleton(SingletonCommandError::NoLeaseKeeper)
            }
        }
    }

    pub(crate) fn into_command(self) -> Command {
        match self {
            Self::Kind(settings) => Command::Sharding(ShardingCommand::RegisterKind(settings)),
            Self::Singleton(settings) => Command::Singleton(SingletonCommand::Register(settings)),
            Self::Path(settings, hosts) => Command::Path(PathCommand::Register {
                settings: *settings,
                hosts,
            }),
        }
    }
}

/// What an answer that says no more than whether comes to.
pub(crate) fn outcome(answer: Option<Answer>) -> Result<(), ClusterError> {
    match answer {
        Some(
            Answer::Done
            | Answer::Asked(_)
            | Answer::Sharding(_)
            | Answer::Ddata(_)
            | Answer::Singleton(_)
            | Answer::Journal(_)
            | Answer::Kv(_),
        ) => Ok(()),
        Some(Answer::Refused(error)) => Err(ClusterError::Refused(error)),
        None => Err(ClusterError::Stopped),
    }
}
