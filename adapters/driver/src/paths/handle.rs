//! A path as senders and operators hold it: every call becomes a command to the node's loop. Which path a
//! name belongs to is looked up in the table that this node has. Decides nothing. Spec: sharding 5.4, 10.17.

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

use quorate_core::ident::UniqueAddress;
use quorate_core::input::{Command, PathCommand, Recipient};
use quorate_core::paths::protocol::PathPick;
use quorate_core::paths::state::below;
use quorate_core::paths::state::name::{PathId, PathName};
use quorate_core::paths::state::settings::PathSettings;
use quorate_core::paths::state::table::PathTable;
use quorate_core::sharding::ids::Payload;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::codec;
use crate::commands::{ControlCommand, Registration, UserCommand, outcome};
use crate::error::{ClusterError, LookupError, PathError, TellError};
use crate::kinds::{Mismatch, Types};
use crate::mailbox::Starter;
use crate::region::Ask;
use crate::shared::Shared;
use crate::sync;

/// A handle to the instances of a path, wherever they run. Get it with
/// [`Cluster::path`](crate::Cluster::path), or from the builder that hosts it. Cheap to clone; does not keep
/// the node alive, and dropping it stops nothing.
///
/// Messages go to an instance that the path's router picks; [`Self::slot`], [`Self::by`] and [`Self::every`]
/// pick others. Nothing waits for a path or an instance: an ask fails at once with
/// [`UnknownPath`](crate::AskFailure::UnknownPath) where this node has not heard of the path, and with
/// [`NoInstance`](crate::AskFailure::NoInstance) where no instance is placed, neither of which was handled.
pub struct Path<M, R> {
    inside: Arc<PathInner>,
    types: PhantomData<fn(M) -> R>,
}

struct PathInner {
    shared: Arc<Shared>,
    name: PathName,
    /// What the name came to in the table that was looked into last.
    found: Mutex<Option<FoundPath>>,
}

/// To which path messages go, and what stands in front of each.
#[derive(Clone)]
struct FoundPath {
    table: Arc<PathTable>,
    path: PathId,
    /// Messages of one name below a path go to one instance.
    pick: PathPick,
    prefix: Arc<[u8]>,
}

impl PathInner {
    /// Costs two locks, and a look-up where the table has changed.
    fn find(&self) -> FoundPath {
        let view = self.shared.hub.view();
        let table = view.gossip().paths();
        let mut found = sync::lock(&self.found);
        if let Some(found) = found.as_ref().filter(|found| Arc::ptr_eq(&found.table, table)) {
            return found.clone();
        }
        // One that is unknown here is for the core to refuse.
        let (path, part) = below::find(table, &self.name)
            .map_or_else(|| (self.name.id(), None), |(entry, part)| (entry.name.id(), part));
        let pick = part.map_or(PathPick::Routed, |part| {
            PathPick::Hash(below::key_hash(part.as_bytes()))
        });
        let new = FoundPath {
            table: Arc::clone(table),
            path,
            pick,
            // A part of a path is never longer than a path.
            prefix: Arc::from(below::put(part).unwrap_or_else(|_| vec![0])),
        };
        *found = Some(new.clone());
        new
    }

    /// To whom a message goes, and its bytes; nothing where it cannot be encoded.
    fn message<M: Serialize>(&self, pick: Option<PathPick>, message: &M) -> (Recipient, Option<Payload>) {
        let found = self.find();
        let payload = codec::encode_after(&found.prefix, message);
        let to = Recipient::Path(found.path, pick.unwrap_or(found.pick));
        (to, payload)
    }

    fn tell_command<M: Serialize>(
        &self,
        pick: Option<PathPick>,
        message: &M,
    ) -> Result<UserCommand, TellError> {
        let (to, payload) = self.message(pick, message);
        let payload = payload.ok_or(TellError::Encode)?;
        self.shared.check_payload(&payload)?;
        Ok(UserCommand::Tell { to, payload })
    }

    fn try_tell<M: Serialize>(&self, pick: Option<PathPick>, message: &M) -> Result<(), TellError> {
        let command = self.tell_command(pick, message)?;
        self.shared.try_user(command).map_err(|(error, _)| error)
    }

    fn ask<M: Serialize, R>(&self, pick: Option<PathPick>, message: &M) -> Ask<R> {
        let (to, payload) = self.message(pick, message);
        Ask::new(Arc::clone(&self.shared), to, payload)
    }

    async fn command(&self, command: PathCommand) -> Result<(), ClusterError> {
        self.shared.core(Command::Path(command)).await
    }
}

impl<M: 'static, R: 'static> Path<M, R> {
    /// The way to a path of this name. This node need not have registered it.
    pub(crate) fn known(shared: &Arc<Shared>, name: &str) -> Result<Self, ClusterError> {
        let name = parse_path(name)?;
        let tops = name.as_str().match_indices('/').map(|(end, _)| end);
        for end in tops.chain([name.as_str().len()]) {
            let id = PathId::of(&name.as_str()[..end]);
            match shared.paths.check(id, Types::of::<M, R>()) {
                Ok(_) | Err(Mismatch::Missing) => {}
                Err(mismatch) => return Err(LookupError::path(name.as_str(), mismatch).into()),
            }
        }
        Ok(Self::new(Arc::clone(shared), name))
    }

    /// Registers a path, with the means to start its instances if this node hosts it.
    pub(crate) async fn register(
        shared: &Arc<Shared>,
        settings: PathSettings,
        starter: Option<Arc<dyn Starter>>,
    ) -> Result<Self, ClusterError> {
        settings.check().map_err(PathError::Settings)?;
        let name = settings.name.clone();
        let id = name.id();
        // Before it is registered: its instances look it up.
        let added = shared.paths.add(id, Types::of::<M, R>(), None);
        let is_new = added.map_err(|mismatch| LookupError::path(name.as_str(), mismatch))?;
        let (reply, answer) = sync::oneshot();
        let hosts = starter.is_some();
        let command = ControlCommand::Register {
            what: Registration::Path(Box::new(settings), hosts),
            starter,
            decider: None,
            reply,
        };
        shared.control(command).await?;
        let registered = outcome(answer.await);
        if registered.is_err() && is_new && !hosts {
            shared.paths.remove(id);
        }
        registered?;
        Ok(Self::new(Arc::clone(shared), name))
    }
}

impl<M, R> Path<M, R> {
    fn new(shared: Arc<Shared>, name: PathName) -> Self {
        let found = Mutex::default();
        Self {
            inside: Arc::new(PathInner { shared, name, found }),
            types: PhantomData,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &PathName {
        &self.inside.name
    }

    /// Its number in events: the hash of its name.
    #[must_use]
    pub fn id(&self) -> PathId {
        self.inside.name.id()
    }

    /// With what it is registered, as far as this node knows. `None` for one that it has not heard of, and
    /// for a name below another path.
    #[must_use]
    pub fn settings(&self) -> Option<PathSettings> {
        let view = self.inside.shared.hub.view();
        let entry = view.gossip().paths().get(&self.inside.name)?;
        entry.settings().map(|settings| PathSettings::clone(settings))
    }

    /// The instance in this slot, 0 or higher. Slots keep their numbers when their hosts change.
    pub fn slot(&self, slot: u16) -> PathInstance<M, R> {
        self.picked(PathPick::Slot(slot))
    }

    /// The instance for this key: the same one for the same key while the number of instances stays, whoever
    /// sends; the next one where none is placed.
    pub fn by(&self, key: impl AsRef<[u8]>) -> PathInstance<M, R> {
        self.picked(PathPick::Hash(below::key_hash(key.as_ref())))
    }

    /// All of its instances: they can be told something, not asked.
    pub fn every(&self) -> EveryInstance<M> {
        EveryInstance {
            inside: Arc::clone(&self.inside),
            types: PhantomData,
        }
    }

    fn picked(&self, pick: PathPick) -> PathInstance<M, R> {
        PathInstance {
            inside: Arc::clone(&self.inside),
            pick,
            types: PhantomData,
        }
    }

    /// Changes the path's settings for the whole cluster: `settings`, with what is to be different. Slots
    /// that move keep the options with which they began. Completes when the leader has accepted it.
    ///
    /// # Errors
    /// [`ClusterError::Path`] if they are settings of another path or not legal; [`ClusterError::Refused`]
    /// with a [`PathCommandError`](crate::paths::PathCommandError) if the leader refuses it or none answered
    /// in time: it may still be done then; [`ClusterError::Stopped`].
    ///
    /// # Cancel safety
    /// Dropping it stops waiting; it may be done all the same.
    pub async fn change(&self, settings: PathSettings) -> Result<(), ClusterError> {
        if settings.name != self.inside.name {
            return Err(PathError::OtherPath { path: settings.name }.into());
        }
        settings.check().map_err(PathError::Settings)?;
        self.inside.command(PathCommand::Change(settings)).await
    }

    /// Removes the path from the cluster: its instances stop once they have handled what they have. Completes
    /// when the leader has accepted it.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] as of [`Self::change`]; [`ClusterError::Stopped`].
    ///
    /// # Cancel safety
    /// As of [`Self::change`].
    pub async fn remove(&self) -> Result<(), ClusterError> {
        let name = self.inside.name.clone();
        self.inside.command(PathCommand::Remove(name)).await
    }

    /// Moves a slot to another member. Completes when the leader has planned it, not when it is done:
    /// [`Cluster::paths_state`](crate::Cluster::paths_state) shows that.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] as of [`Self::change`], with
    /// [`PathRefusal::Moving`](crate::paths::PathRefusal::Moving) if the slot is being moved and
    /// [`PathRefusal::Move`](crate::paths::PathRefusal::Move) if it cannot go there;
    /// [`ClusterError::Stopped`].
    ///
    /// # Cancel safety
    /// As of [`Self::change`].
    pub async fn move_slot(&self, slot: u16, to: &UniqueAddress) -> Result<(), ClusterError> {
        let (path, to) = (self.inside.name.clone(), to.clone());
        self.inside.command(PathCommand::Move { path, slot, to }).await
    }
}

impl<M: Serialize, R> Path<M, R> {
    /// Sends a message to one instance, at most once and without a reply. One that no instance takes is a
    /// dead letter: an event, and a counter. Waits only while the node's command queue is full.
    ///
    /// # Errors
    /// [`TellError::Encode`], [`TellError::TooLarge`], [`TellError::Stopped`].
    ///
    /// # Cancel safety
    /// Dropping it before it completes sends nothing.
    pub fn tell(&self, message: impl Borrow<M>) -> impl Future<Output = Result<(), TellError>> + Send {
        let command = self.inside.tell_command(None, message.borrow());
        let shared = Arc::clone(&self.inside.shared);
        async move { shared.user(command?).await }
    }

    /// Like [`Self::tell`], but fails instead of waiting.
    ///
    /// # Errors
    /// [`TellError::Full`] besides those of `tell`.
    pub fn try_tell(&self, message: impl Borrow<M>) -> Result<(), TellError> {
        self.inside.try_tell(None, message.borrow())
    }
}

impl<M: Serialize, R: DeserializeOwned> Path<M, R> {
    /// Sends a message to one instance and waits for the answer, at most
    /// [`TIMEOUT_DEFAULT`](crate::TIMEOUT_DEFAULT) unless [`Ask::timeout`] says otherwise. Every error says
    /// whether the message may have been handled
    /// ([`AskError::may_have_been_handled`](crate::AskError::may_have_been_handled)). Nothing is sent before
    /// it is awaited.
    pub fn ask(&self, message: impl Borrow<M>) -> Ask<R> {
        self.inside.ask(None, message.borrow())
    }
}

/// One instance of a path, by its slot or for a key. See [`Path::slot`] and [`Path::by`].
#[must_use = "it does nothing by itself"]
pub struct PathInstance<M, R> {
    inside: Arc<PathInner>,
    pick: PathPick,
    types: PhantomData<fn(M) -> R>,
}

impl<M: Serialize, R> PathInstance<M, R> {
    /// As [`Path::tell`], to this instance.
    ///
    /// # Errors
    /// Those of [`Path::tell`].
    ///
    /// # Cancel safety
    /// Dropping it before it completes sends nothing.
    pub fn tell(&self, message: impl Borrow<M>) -> impl Future<Output = Result<(), TellError>> + Send {
        let command = self.inside.tell_command(Some(self.pick), message.borrow());
        let shared = Arc::clone(&self.inside.shared);
        async move { shared.user(command?).await }
    }

    /// Like [`Self::tell`], but fails instead of waiting.
    ///
    /// # Errors
    /// [`TellError::Full`] besides those of `tell`.
    pub fn try_tell(&self, message: impl Borrow<M>) -> Result<(), TellError> {
        self.inside.try_tell(Some(self.pick), message.borrow())
    }
}

impl<M: Serialize, R: DeserializeOwned> PathInstance<M, R> {
    /// As [`Path::ask`], of this instance.
    pub fn ask(&self, message: impl Borrow<M>) -> Ask<R> {
        self.inside.ask(Some(self.pick), message.borrow())
    }
}

/// All instances of a path. See [`Path::every`].
#[must_use = "it does nothing by itself"]
pub struct EveryInstance<M> {
    inside: Arc<PathInner>,
    types: PhantomData<fn(M)>,
}

impl<M: Serialize> EveryInstance<M> {
    /// As [`Path::tell`], to every instance that is placed.
    ///
    /// # Errors
    /// Those of [`Path::tell`].
    ///
    /// # Cancel safety
    /// Dropping it before it completes sends nothing.
    pub fn tell(&self, message: impl Borrow<M>) -> impl Future<Output = Result<(), TellError>> + Send {
        let command = self.inside.tell_command(Some(PathPick::Every), message.borrow());
        let shared = Arc::clone(&self.inside.shared);
        async move { shared.user(command?).await }
    }

    /// Like [`Self::tell`], but fails instead of waiting.
    ///
    /// # Errors
    /// [`TellError::Full`] besides those of `tell`.
    pub fn try_tell(&self, message: impl Borrow<M>) -> Result<(), TellError> {
        self.inside.try_tell(Some(PathPick::Every), message.borrow())
    }
}

impl<M, R> Clone for Path<M, R> {
    fn clone(&self) -> Self {
        Self {
            inside: Arc::clone(&self.inside),
            types: PhantomData,
        }
    }
}

impl<M, R> Clone for PathInstance<M, R> {
    fn clone(&self) -> Self {
        Self {
            inside: Arc::clone(&self.inside),
            pick: self.pick,
            types: PhantomData,
        }
    }
}

impl<M> Clone for EveryInstance<M> {
    fn clone(&self) -> Self {
        Self {
            inside: Arc::clone(&self.inside),
            types: PhantomData,
        }
    }
}

impl<M, R> fmt::Debug for Path<M, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Path").field(&self.inside.name).finish()
    }
}

impl<M, R> fmt::Debug for PathInstance<M, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, pick) = (&self.inside.name, &self.pick);
        f.debug_tuple("PathInstance").field(name).field(pick).finish()
    }
}

impl<M> fmt::Debug for EveryInstance<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EveryInstance").field(&self.inside.name).finish()
    }
}

/// A path of this name.
pub(crate) fn parse_path(name: &str) -> Result<PathName, PathError> {
    PathName::new(name).map_err(|error| PathError::Name {
        path: name.to_owned(),
        error,
    })
}
