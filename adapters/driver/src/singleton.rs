//! Singletons as users hold them: exactly one instance of something in the whole cluster, and a handle with
//! `tell`, `ask` and `stop`; everything becomes a command to the node's loop. Decides nothing. Spec: sharding
//! 1.10, 1.11; `docs/singletons.md`.

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

pub use quorate_core::effect::{SingletonCommandError, StopOutcome};
pub use quorate_core::event::SingletonEvent;
use quorate_core::input::SingletonSettings;
pub use quorate_core::singleton::state::{SingletonId, SingletonPhase, SingletonState};
use quorate_core::token::Token;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::codec;
use crate::commands::{ControlCommand, Registration, UserCommand, outcome};
use crate::error::{ClusterError, LookupError, TellError};
use crate::kinds::Types;
use crate::mailbox::Starter;
use crate::region::Ask;
use crate::request::Request;
use crate::shared::Shared;
use crate::sync;
use quorate_core::input::Recipient;

/// How long an instance has to end when its node stops hosting it, unless the call sets another limit.
/// Mirrors the `cluster-exiting` phase of Akka, in which instances are handed over.
pub const STOP_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// A handle to a singleton's instance, wherever it runs; this node may host it or only reach it. Get it with
/// [`Cluster::singleton`](crate::Cluster::singleton). Cheap to clone; does not keep the node alive, and
/// dropping it stops nothing.
pub struct Singleton<M, R> {
    shared: Arc<Shared>,
    name: Arc<str>,
    id: SingletonId,
    types: PhantomData<fn(M) -> R>,
}

impl<M: 'static, R: 'static> Singleton<M, R> {
    /// The way to a registered singleton.
    pub(crate) fn known(shared: &Arc<Shared>, name: &str) -> Result<Self, LookupError> {
        let known = shared
            .singletons
            .check(SingletonId::of(name), Types::of::<M, R>());
        known.map_err(|mismatch| LookupError::singleton(name, mismatch))?;
        Ok(Self::new(Arc::clone(shared), Arc::from(name)))
    }

    /// Registers a singleton, with the means to start its instances if this node hosts it.
    pub(crate) async fn register(
        shared: &Arc<Shared>,
        settings: SingletonSettings,
        starter: Option<Arc<dyn Starter>>,
    ) -> Result<Self, ClusterError> {
        let name = Arc::clone(&settings.name);
        let id = SingletonId::of(&name);
        // Before it is registered: its instance looks it up.
        let added = shared.singletons.add(id, Types::of::<M, R>(), None);
        let is_new = added.map_err(|mismatch| LookupError::singleton(&name, mismatch))?;
        let (reply, answer) = sync::oneshot();
        let command = ControlCommand::Register {
            what: Registration::Singleton(settings),
            starter,
            decider: None,
            reply,
        };
        shared.control(command).await?;
        let registered = outcome(answer.await);
        if registered.is_err() && is_new {
            shared.singletons.remove(id);
        }
        registered?;
        Ok(Self::new(Arc::clone(shared), name))
    }
}

impl<M, R> Singleton<M, R> {
    pub(crate) fn new(shared: Arc<Shared>, name: Arc<str>) -> Self {
        Self {
            shared,
            id: SingletonId::of(&name),
            name,
            types: PhantomData,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number in events: the hash of its name.
    #[must_use]
    pub const fn id(&self) -> SingletonId {
        self.id
    }

    /// What this node knows of the singleton now: what runs here, where messages go, how many wait.
    ///
    /// # Errors
    /// [`ClusterError::Stopped`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn state(&self) -> Result<SingletonState, ClusterError> {
        let state = self.shared.singleton_state(self.id).await?;
        state.ok_or(ClusterError::Stopped)
    }

    /// The token of the instance that runs on this node, or stops here; `None` if there is none. It may
    /// change at once, so what must not be done by two instances has to be guarded by the token.
    ///
    /// # Errors
    /// [`ClusterError::Stopped`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn token(&self) -> Result<Option<Token>, ClusterError> {
        Ok(self.state().await?.running)
    }

    /// Whether its instance runs on this node, or stops here, as of now.
    ///
    /// # Errors
    /// [`ClusterError::Stopped`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn is_running_here(&self) -> Result<bool, ClusterError> {
        Ok(self.token().await?.is_some())
    }

    /// Reports that what this node's instance writes to refused its token because it holds this one: the
    /// instance ends at once, with the handler that waits for this, and the next one has a higher term. An
    /// instance whose token is higher goes on.
    ///
    /// One that is stale need say nothing: it is ended when its node learns of its successor. This is for
    /// tokens that are too low for another reason, as after a restart of all nodes without a store.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] if this node does not host it
    /// ([`NotHosted`](crate::singleton::SingletonCommandError::NotHosted)) or no instance can have had the
    /// token ([`TokenOutOfRange`](crate::singleton::SingletonCommandError::TokenOutOfRange));
    /// [`ClusterError::Stopped`].
    ///
    /// # Cancel safety
    /// Dropping it stops waiting; once said, the node knows.
    pub async fn token_refused(&self, held: Token) -> Result<(), ClusterError> {
        self.shared.token_refused(self.id, held).await
    }

    /// Stops hosting the singleton on this node, which stays a member. An instance that runs here handles
    /// what is in its mailbox, runs [`Entity::on_stop`](crate::Entity::on_stop), and is killed once the time
    /// limit has passed (default [`STOP_TIMEOUT_DEFAULT`], 1 ms to 24 h, clamped). Completes when it has
    /// ended; at the latest a second after the limit, with [`StopOutcome::StillRuns`] if its handler blocks
    /// its thread.
    ///
    /// It runs nowhere then: the others wait for the oldest member of the role, which this node stays until
    /// it leaves. Messages wait in proxies, asks end with
    /// [`TimeoutBuffered`](crate::AskFailure::TimeoutBuffered).
    /// [`SingletonBuilder::start`](crate::SingletonBuilder::start) has this node host it again. A node that
    /// leaves needs none of this: it hands over.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] if this node does not host it
    /// ([`NotHosted`](crate::singleton::SingletonCommandError::NotHosted)) or is stopping it already
    /// ([`Stopping`](crate::singleton::SingletonCommandError::Stopping)); [`ClusterError::Stopped`].
    ///
    /// # Cancel safety
    /// Dropping it stops waiting; once asked, the node goes on stopping it.
    pub fn stop(&self) -> Request<Result<StopOutcome, ClusterError>> {
        let (shared, id) = (Arc::clone(&self.shared), self.id);
        Request::new(STOP_TIMEOUT_DEFAULT, async move |limit| {
            shared.stop_singleton(id, limit).await
        })
    }
}

impl<M: Serialize, R> Singleton<M, R> {
    fn tell_command(&self, message: &M) -> Result<UserCommand, TellError> {
        let payload = codec::encode(message).ok_or(TellError::Encode)?;
        self.shared.check_payload(&payload)?;
        Ok(UserCommand::Tell {
            to: Recipient::Singleton(self.id),
            payload,
        })
    }

    /// Sends a message, at most once and without a reply. While the instance's node is unknown the message
    /// waits on this node; past `singleton.buffer_messages_max` the oldest that wait are dropped, each with
    /// an event. Waits only while the node's command queue is full.
    ///
    /// # Errors
    /// [`TellError::Encode`], [`TellError::TooLarge`], [`TellError::Stopped`].
    ///
    /// # Cancel safety
    /// Dropping it before it completes sends nothing.
    pub fn tell(&self, message: impl Borrow<M>) -> impl Future<Output = Result<(), TellError>> + Send {
        let command = self.tell_command(message.borrow());
        async move { self.shared.user(command?).await }
    }

    /// Like [`Self::tell`], but fails instead of waiting.
    ///
    /// # Errors
    /// [`TellError::Full`] besides those of `tell`.
    pub fn try_tell(&self, message: impl Borrow<M>) -> Result<(), TellError> {
        let command = self.tell_command(message.borrow())?;
        self.shared.try_user(command).map_err(|(error, _)| error)
    }
}

impl<M: Serialize, R: DeserializeOwned> Singleton<M, R> {
    /// Sends a message, by value or by reference, and waits for the answer, at most
    /// [`TIMEOUT_DEFAULT`](crate::TIMEOUT_DEFAULT) unless [`Ask::timeout`] says otherwise:
    /// `singleton.ask(message).timeout(duration).await`. Every error says whether the message may have been
    /// handled ([`AskError::may_have_been_handled`](crate::AskError::may_have_been_handled)). Nothing is sent
    /// before it is awaited.
    pub fn ask(&self, message: impl Borrow<M>) -> Ask<R> {
        let to = Recipient::Singleton(self.id);
        Ask::new(Arc::clone(&self.shared), to, codec::encode(message.borrow()))
    }
}

impl<M, R> Clone for Singleton<M, R> {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.shared), Arc::clone(&self.name))
    }
}

impl<M, R> fmt::Debug for Singleton<M, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Singleton").field(&self.name).finish()
    }
}
