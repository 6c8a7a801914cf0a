//! What the handles and the loop share: the queues into the loop, the newest picture, how it ended. No handle
//! ever waits for a lock that is held while user code or I/O runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_channel::{Receiver, Sender, TrySendError};
use quorate_core::config::Config;
use quorate_core::effect::{Answer, CommandError, DdataAnswer, SingletonAnswer, StopOutcome};
use quorate_core::event::{Event, ShardingEvent};
use quorate_core::ident::UniqueAddress;
use quorate_core::input::{Command, DdataCommand, JournalCommand, KvCommand, SingletonCommand};
use quorate_core::ordered::OrderedSet;
use quorate_core::paths::state::name::PathId;
use quorate_core::sharding::ids::{EntityId, KindId, Payload};
use quorate_core::sharding::protocol::watch::WatchId;
use quorate_core::singleton::state::{SingletonId, SingletonState};
use quorate_core::token::Token;
use quorate_core::view::View;

use crate::background::Background;
use crate::commands::{ControlCommand, DataCommand, LogCommand, UserCommand, outcome};
use crate::counters::DeliveryCounters;
use crate::error::{ClusterError, LookupError, TellError};
use crate::events::{ClusterEvent, Hub};
use crate::full::FullKinds;
use crate::kinds::{Kinds, Types};
use crate::queue_bounds::QueueBounds;
use crate::shortcut::ShortcutPlace;
use crate::shutdown::Life;
use crate::stats::NodeStats;
use crate::store::StoreAccess;
use crate::subscriptions::SubscriberPlaces;
use crate::sync::{self, Notify};
use quorate_core::input::Recipient;

/// Messages that wait between users' tasks and the loop: some turns of the loop, so that neither waits for
/// the other. Beyond it `tell` and `ask` wait.
const USER_COMMANDS_MAX: usize = 4_096;

/// Other commands that wait: people and programs that manage a node are few.
const CONTROL_COMMANDS_MAX: usize = 256;

/// Operations on replicated data, and calls of the keyed store, that wait: as many as messages. Beyond it
/// callers wait.
const DATA_COMMANDS_MAX: usize = 4_096;

/// The loop's end of the queues.
#[derive(Debug)]
pub(crate) struct Commands {
    pub(crate) user: Receiver<UserCommand>,
    pub(crate) control: Receiver<ControlCommand>,
    pub(crate) data: Receiver<DataCommand>,
    pub(crate) data_later: Receiver<DataCommand>,
    pub(crate) logs: Receiver<LogCommand>,
    /// Closed when the node has ended and its phases are over: closes `Shared::ended`.
    pub(crate) ended: Sender<()>,
}

/// What a message may have. The core checks it as well; here the caller hears of it.
#[derive(Clone, Copy, Debug)]
struct MessageLimits {
    payload_bytes: usize,
    id_bytes: usize,
}

/// The handles' end.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) me: UniqueAddress,
    pub(crate) hub: Arc<Hub>,
    pub(crate) wake: Arc<Notify>,
    /// How the node ends, and what waits for it.
    pub(crate) life: Life,
    /// What a message may have.
    limits: MessageLimits,
    pub(crate) kinds: Kinds<KindId>,
    pub(crate) singletons: Kinds<SingletonId>,
    pub(crate) paths: Kinds<PathId>,
    /// Queues of work by their singleton, with what a job is.
    queues: Kinds<SingletonId>,
    /// Envelopes that were for no entity.
    unmatched: AtomicU64,
    /// Kinds whose buffers are full.
    pub(crate) full: FullKinds,
    /// Kinds that something of this node follows already: wishes for their shards, or their clocks.
    followed: Mutex<OrderedSet<KindId>>,
    user: Sender<UserCommand>,
    /// The way past that queue.
    pub(crate) shortcut: ShortcutPlace<UserCommand>,
    control: Sender<ControlCommand>,
    pub(crate) data: Sender<DataCommand>,
    /// Commands that must not wait: at most two for each inbox and for each watch that there may be.
    data_later: Sender<DataCommand>,
    /// Commands about logs: of each owner what it waits for, and that it has ended.
    logs: Sender<LogCommand>,
    /// Streams of changes that there may be.
    pub(crate) subscribers: Arc<SubscriberPlaces>,
    /// Watches that there may be.
    pub(crate) watchers: Arc<SubscriberPlaces>,
    /// The last watch's number.
    watches: AtomicU64,
    /// The way of entities to the node's store, if it has one.
    pub(crate) store: Option<StoreAccess>,
    /// Whether several stores of the cluster keep logs.
    pub(crate) keeps_logs: bool,
    /// How much durable producers and work queues may keep.
    pub(crate) queue_bounds: QueueBounds,
    /// How often daemons are seen to.
    pub(crate) keep_alive_interval: Duration,
    /// How long one may take to end.
    pub(crate) handoff_timeout: Duration,
    /// How long a region may take that its user shuts down.
    pub(crate) region_shutdown_timeout: Duration,
    pub(crate) openers: AtomicU64,
    /// What runs beside users' tasks.
    pub(crate) background: Background,
    /// What producers and consumers have done.
    pub(crate) deliveries: DeliveryCounters,
    ended: Receiver<()>,
}

/// What handles reach beside the loop's queues.
pub(crate) struct SharedParts {
    pub(crate) wake: Arc<Notify>,
    pub(crate) store: Option<StoreAccess>,
    pub(crate) life: Life,
    pub(crate) background: Background,
}

impl Shared {
    pub(crate) fn new(
        me: UniqueAddress,
        config: &Config,
        SharedParts {
            wake,
            store,
            life,
            background,
        }: SharedParts,
    ) -> (Arc<Self>, Commands) {
        let (user_in, user_out) = async_channel::bounded(USER_COMMANDS_MAX);
        let (control_in, control_out) = async_channel::bounded(CONTROL_COMMANDS_MAX);
        let (data_in, data_out) = async_channel::bounded(DATA_COMMANDS_MAX);
        let (later_in, later_out) = async_channel::unbounded();
        let (logs_in, logs_out) = async_channel::unbounded();
        let (ended_in, ended_out) = async_channel::bounded(1);
        let limits = &config.limits;
        let idle = Arc::new(View::idle(me.clone()));
        let shared = Self {
            // Drawn for this incarnation.
            openers: AtomicU64::new(me.uid()),
            keeps_logs: config.journal.voters > 0,
            queue_bounds: QueueBounds::of(config),
            keep_alive_interval: config.sharding.daemon_keep_alive_interval,
            handoff_timeout: config.sharding.handoff_timeout,
            region_shutdown_timeout: config.shutdown.cluster_sharding_shutdown_region_timeout,
            me,
            hub: Arc::new(Hub::new(idle)),
            wake,
            life,
            limits: MessageLimits {
                payload_bytes: limits.payload_bytes_max(),
                id_bytes: limits.entity_id_bytes_max,
            },
            kinds: Kinds::default(),
            singletons: Kinds::default(),
            paths: Kinds::default(),
            queues: Kinds::default(),
            unmatched: AtomicU64::new(0),
            full: FullKinds::default(),
            followed: Mutex::default(),
            user: user_in,
            shortcut: ShortcutPlace::default(),
            control: control_in,
            data: data_in,
            data_later: later_in,
            logs: logs_in,
            subscribers: SubscriberPlaces::new(config.ddata.subscribers_max),
            watchers: SubscriberPlaces::new(config.sharding.watches_max),
            watches: AtomicU64::new(0),
            store,
            background,
            deliveries: DeliveryCounters::default(),
            ended: ended_out,
        };
        let commands = Commands {
            user: user_out,
            control: control_out,
            data: data_out,
            data_later: later_out,
            logs: logs_out,
            ended: ended_in,
        };
        (Arc::new(shared), commands)
    }

    /// Whether a message may be sent to this entity.
    pub(crate) fn check(&self, entity: &EntityId, payload: &Payload) -> Result<(), TellError> {
        self.check_bytes(entity, payload.len())
    }

    /// Whether this many bytes may be sent to this entity.
    pub(crate) fn check_bytes(&self, entity: &EntityId, bytes: usize) -> Result<(), TellError> {
        let id_bytes = entity.as_bytes().len();
        if id_bytes == 0 || id_bytes > self.limits.id_bytes {
            return Err(TellError::BadEntityId);
        }
        if bytes.saturating_add(id_bytes) > self.limits.payload_bytes {
            return Err(TellError::TooLarge);
        }
        Ok(())
    }

    /// How many bytes fit into a message to any entity, beside so many others.
    pub(crate) const fn payload_room(&self, others: usize) -> usize {
        let limits = &self.limits;
        limits
            .payload_bytes
            .saturating_sub(limits.id_bytes)
            .saturating_sub(others)
    }

    /// A number for an opener of logs that several stores keep, or for a producer: no other of this node has
    /// it, and by chance none of any node.
    pub(crate) fn next_opener(&self) -> u64 {
        self.openers.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether a message may be sent to a singleton.
    pub(crate) fn check_payload(&self, payload: &Payload) -> Result<(), TellError> {
        if payload.len() > self.limits.payload_bytes {
            return Err(TellError::TooLarge);
        }
        Ok(())
    }

    /// An envelope is for no entity: nobody else hears of it, so those who listen do.
    pub(crate) fn unmatched(&self, kind: KindId) {
        self.unmatched.fetch_add(1, Ordering::Relaxed);
        let event = ShardingEvent::EnvelopeUnmatched;
        let event = ClusterEvent::Event(Event::Sharding { kind, event });
        self.hub.publish(&event);
    }

    /// Notes that a queue's jobs are of this type; says whether it is new.
    pub(crate) fn add_queue<J: 'static>(&self, singleton: &str) -> Result<bool, LookupError> {
        let added = self
            .queues
            .add(SingletonId::of(singleton), Types::of::<J, ()>(), None);
        added.map_err(|mismatch| LookupError::singleton(singleton, mismatch))
    }

    /// Such a queue was not registered.
    pub(crate) fn remove_queue(&self, singleton: &str) {
        self.queues.remove(SingletonId::of(singleton));
    }

    /// Whether a kind has to be followed from now on, its wishes for shards or, of clocks, that they run:
    /// nobody does so yet.
    pub(crate) fn follows(&self, kind: KindId) -> bool {
        sync::lock(&self.followed).insert(kind)
    }

    /// Hands a message in without waiting; gives it back if the queue is full.
    pub(crate) fn try_user(&self, command: UserCommand) -> Result<(), (TellError, Option<UserCommand>)> {
        match self.user.try_send(command) {
            Ok(()) => {
                self.wake.notify();
                Ok(())
            }
            Err(TrySendError::Full(command)) => Err((TellError::Full, Some(command))),
            Err(TrySendError::Closed(_)) => Err((TellError::Stopped, None)),
        }
    }

    /// Hands an ask in without waiting, past the queue if it is the only thing that is to be said; gives it
    /// back if the queue is full.
    pub(crate) fn try_ask(&self, ask: UserCommand) -> Result<(), (TellError, Option<UserCommand>)> {
        match self.shortcut.say(ask) {
            Ok(()) => Ok(()),
            Err(ask) => self.try_user(ask),
        }
    }

    /// Hands a message in, waiting for room.
    pub(crate) async fn user(&self, command: UserCommand) -> Result<(), TellError> {
        match self.try_user(command) {
            Ok(()) => Ok(()),
            Err((_, Some(command))) => {
                let sent = self.user.send(command).await;
                self.wake.notify();
                sent.map_err(|_| TellError::Stopped)
            }
            Err((error, None)) => Err(error),
        }
    }

    /// Hands a message in for a kind whose buffer is full, behind those that were handed in before, and waits
    /// until there is room for it.
    pub(crate) async fn tell_in_time(&self, to: Recipient, payload: Payload) -> Result<(), TellError> {
        let (reply, answer) = sync::oneshot();
        let command = UserCommand::TellInTime { to, payload, reply };
        self.user(command).await?;
        match outcome(answer.await) {
            Ok(()) => Ok(()),
            Err(ClusterError::Refused(_)) => Err(TellError::Full),
            Err(_) => Err(TellError::Stopped),
        }
    }

    pub(crate) async fn control(&self, command: ControlCommand) -> Result<(), ClusterError> {
        let sent = self.control.send(command).await;
        self.wake.notify();
        sent.map_err(|_| ClusterError::Stopped)
    }

    /// A command of the replicator and its answer; nothing if the node has stopped. Waits while the queue is
    /// full.
    pub(crate) async fn data(&self, command: DdataCommand) -> Option<DdataAnswer> {
        let (reply, answer) = sync::oneshot();
        let sent = self.data.send(DataCommand::Operation { command, reply }).await;
        self.wake.notify();
        sent.ok()?;
        answer.await
    }

    /// A call of the keyed store and its answer; nothing if the node has stopped. Waits while the queue is
    /// full.
    pub(crate) async fn kv(&self, command: KvCommand) -> Option<Answer> {
        let (reply, answer) = sync::oneshot();
        let sent = self.data.send(DataCommand::Keyed { command, reply }).await;
        self.wake.notify();
        sent.ok()?;
        answer.await
    }

    /// Hands a command about a log in, without waiting: where its answer will be, or nothing if the node has
    /// stopped.
    pub(crate) fn log(&self, command: JournalCommand) -> Option<sync::Receiver<Answer>> {
        let (reply, answer) = sync::oneshot();
        let sent = self.logs.try_send(LogCommand { command, reply });
        self.wake.notify();
        sent.ok().map(|()| answer)
    }

    /// Hands a subscription or a watch in, or its end, without waiting.
    pub(crate) fn data_later(&self, command: DataCommand) {
        if let Err(refused) = self.data_later.try_send(command) {
            match refused.into_inner() {
                DataCommand::Subscribe { inbox, .. } => inbox.end(),
                DataCommand::Follow { inbox, .. } => inbox.end(),
                DataCommand::Operation { .. }
                | DataCommand::Keyed { .. }
                | DataCommand::Unsubscribe(_)
                | DataCommand::Unfollow(_)
                | DataCommand::Watch { .. }
                | DataCommand::Unwatch(..) => {}
            }
        }
        self.wake.notify();
    }

    /// A number that no watch of this node has had.
    pub(crate) fn next_watch(&self) -> WatchId {
        self.watches.fetch_add(1, Ordering::Relaxed)
    }

    /// A command of the node and its answer.
    pub(crate) async fn core(&self, command: Command) -> Result<(), ClusterError> {
        let (reply, answer) = sync::oneshot();
        self.control(ControlCommand::Core { command, reply }).await?;
        outcome(answer.await)
    }

    pub(crate) async fn singleton_state(
        &self,
        singleton: SingletonId,
    ) -> Result<Option<SingletonState>, ClusterError> {
        let (reply, answer) = sync::oneshot();
        self.control(ControlCommand::SingletonState(singleton, reply))
            .await?;
        answer.await.ok_or(ClusterError::Stopped)
    }

    /// Has this node host a singleton no more.
    pub(crate) async fn stop_singleton(
        &self,
        singleton: SingletonId,
        timeout: Duration,
    ) -> Result<StopOutcome, ClusterError> {
        let (reply, answer) = sync::oneshot();
        let command = Command::Singleton(SingletonCommand::Stop { singleton, timeout });
        self.control(ControlCommand::Core { command, reply }).await?;
        match answer.await {
            Some(Answer::Singleton(SingletonAnswer::Stopped(outcome))) => Ok(outcome),
            Some(Answer::Refused(CommandError::Stopped)) | None => Err(ClusterError::Stopped),
            Some(Answer::Refused(error)) => Err(ClusterError::Refused(error)),
            Some(
                Answer::Done
                | Answer::Asked(_)
                | Answer::Sharding(_)
                | Answer::Ddata(_)
                | Answer::Journal(_)
                | Answer::Kv(_),
            ) => Err(ClusterError::Stopped),
        }
    }

    /// What an instance of this node writes to has refused its token.
    pub(crate) async fn token_refused(
        &self,
        singleton: SingletonId,
        held: Token,
    ) -> Result<(), ClusterError> {
        let (reply, answer) = sync::oneshot();
        let command = Command::Singleton(SingletonCommand::TokenRefused { singleton, held });
        self.control(ControlCommand::Core { command, reply }).await?;
        outcome(answer.await)
    }

    pub(crate) async fn stats(&self) -> Result<NodeStats, ClusterError> {
        let (reply, answer) = sync::oneshot();
        self.control(ControlCommand::Stats(reply)).await?;
        let mut stats = answer.await.ok_or(ClusterError::Stopped)?;
        stats.host.messages_unmatched = self.unmatched.load(Ordering::Relaxed);
        self.deliveries.show(&mut stats.host);
        Ok(stats)
    }

    /// Ends everything at once.
    pub(crate) fn stop(&self) {
        self.life.cut();
        self.stop_loop();
    }

    /// Asks the loop to end. Never waits: a loop with a full queue of commands is told by the closed queue.
    pub(crate) fn stop_loop(&self) {
        if self.control.try_send(ControlCommand::Stop).is_err() {
            self.control.close();
        }
        self.wake.notify();
    }

    /// Completes once the node has ended.
    pub(crate) async fn ended(&self) {
        // Nothing is ever sent: the error says that it is closed.
        while self.ended.recv().await.is_ok() {}
    }
}
