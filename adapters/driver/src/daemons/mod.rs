//! Daemons as users hold them: a fixed number of tasks, each running exactly once in the cluster, and a
//! handle to change how many there are. Page: `docs/daemons.md`. Spec: sharding 1.8.
//!
//! | part | decides |
//! |---|---|
//! | `quorate_core::daemons` | how a daemon is called, whether it may begin, what is next when the number changes |
//! | [`Daemon`], [`Daemons`] | nothing: what users write and hold |
//! | `manager` | when daemons are seen to; it runs in a singleton, and its scales are in distributed data |
//! | `running` | how a daemon ends that is told to |

mod manager;
mod running;

pub(crate) use manager::Manager;
pub use quorate_core::daemons::DAEMONS_MAX;
pub(crate) use running::{Answered, DaemonStarter, Told};

use std::fmt;
use std::future::Future;
use std::time::Duration;

use quorate_core::daemons::DaemonScale;
use serde::{Deserialize, Serialize};

use crate::data::Set;
use crate::entity::EntityContext;
use crate::error::{DaemonsError, DataReadError};
use crate::request::{Request, TIMEOUT_DEFAULT};
use crate::singleton::Singleton;

/// One of a fixed number of tasks that always run somewhere in the cluster. Started with
/// [`Cluster::daemons`](crate::Cluster::daemons).
///
/// ```
/// use quorate_driver::{Daemon, DaemonContext};
///
/// struct Projection {
///     part: u32,
/// }
///
/// impl Daemon for Projection {
///     async fn run(&mut self, daemon: &DaemonContext) {
///         while !daemon.is_stopping() {
///             // Handle what belongs to `self.part` of `daemon.count()`, and look up now and then.
///             daemon.stopping().await;
///         }
///     }
/// }
/// ```
pub trait Daemon: Send + 'static {
    /// Does the work. It is to return soon after [`DaemonContext::stopping`] completes: its shard moves, its
    /// node leaves, or the number of daemons changes. One that returns without being told to, or panics,
    /// begins again with the next look (`sharding.daemon_keep_alive_interval`).
    ///
    /// # Cancel safety
    /// It is dropped in the middle when the node stops at once, or when it has not returned some time after
    /// it was told to (a quarter of `sharding.handoff_timeout`).
    fn run(&mut self, daemon: &DaemonContext) -> impl Future<Output = ()> + Send;
}

/// A daemon's identity and its access to the cluster. Cheap to clone.
#[derive(Clone)]
pub struct DaemonContext {
    index: u32,
    count: u32,
    revision: u64,
    entity: EntityContext,
    stopping: async_channel::Receiver<()>,
}

impl DaemonContext {
    /// This daemon's number, 0 to `count` - 1.
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// How many daemons there are.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// How often the number was changed, from 1 on.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// The access to entities, singletons and the node.
    #[must_use]
    pub const fn entity(&self) -> &EntityContext {
        &self.entity
    }

    /// Whether this daemon has to stop.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.is_closed()
    }

    /// Completes when this daemon has to stop.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn stopping(&self) {
        while self.stopping.recv().await.is_ok() {}
    }
}

impl fmt::Debug for DaemonContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DaemonContext")
            .field("index", &self.index)
            .field("count", &self.count)
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}

/// How many daemons there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonsState {
    /// How many.
    pub count: u32,
    /// How often the number was changed, from 1 on.
    pub revision: u64,
    /// Whether a change is in progress: earlier daemons are stopping, and none of these runs yet.
    pub is_rescaling: bool,
}

/// What is said to the manager.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum DaemonsRequest {
    State,
    Rescale { count: u32 },
}

/// What it answers.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum DaemonsReply {
    State(DaemonsState),
    InProgress,
    Count,
    NoMajority,
}

/// Scales as they are kept: revision, count, settled.
pub(crate) type Kept = (u64, u32, bool);

/// The scales that are known, in distributed data.
#[derive(Clone)]
pub(crate) struct Scales(Set<Kept>);

impl Scales {
    pub(crate) const fn of(kept: Set<Kept>) -> Self {
        Self(kept)
    }

    /// What a majority knows; nothing if nobody has written anything.
    async fn known(&self) -> Result<Vec<DaemonScale>, DataReadError> {
        match self.0.read(crate::data::Read::Majority).await {
            Ok(kept) => Ok(kept.into_iter().map(scale).collect()),
            Err(DataReadError::Failed(quorate_core::ddata::protocol::ReadError::NotFound)) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

const fn scale((revision, count, is_settled): Kept) -> DaemonScale {
    DaemonScale {
        revision,
        is_settled,
        count,
    }
}

const fn kept(scale: DaemonScale) -> Kept {
    (scale.revision, scale.count, scale.is_settled)
}

/// A handle to the daemons of a name, on a node that runs some or only reaches them. Cheap to clone; dropping
/// it stops nothing.
#[derive(Clone)]
pub struct Daemons {
    manager: Singleton<DaemonsRequest, DaemonsReply>,
    /// How long a change may take: until everybody has ended.
    patience: Duration,
}

impl Daemons {
    pub(crate) const fn new(manager: Singleton<DaemonsRequest, DaemonsReply>, patience: Duration) -> Self {
        Self { manager, patience }
    }

    /// How many daemons there are, and whether that is being changed. Mirrors `GetNumberOfProcesses`.
    ///
    /// # Errors
    /// [`DaemonsError::Failed`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub fn state(&self) -> Request<Result<DaemonsState, DaemonsError>> {
        let asked = self.manager.ask(DaemonsRequest::State);
        Request::new(TIMEOUT_DEFAULT, async move |timeout| {
            answer(asked.timeout(timeout).await?)
        })
    }

    /// Changes the number of daemons, from any node. All that run are stopped first, then those of the new
    /// number start; completes in between, when the last has ended. Whatever happens to nodes meanwhile, a
    /// change that was begun is completed. Waits for twice `sharding.handoff_timeout` unless its time limit
    /// says otherwise (1 ms to 24 h, clamped). Mirrors `ChangeNumberOfProcesses`.
    ///
    /// # Errors
    /// [`DaemonsError`]; with [`DaemonsError::Failed`] and [`DaemonsError::NoMajority`] the change may take
    /// place, and [`Self::state`] says whether it does.
    ///
    /// # Cancel safety
    /// Dropping it stops waiting; a change that was begun is completed.
    pub fn rescale(&self, count: u32) -> Request<Result<DaemonsState, DaemonsError>> {
        let asked = self.manager.ask(DaemonsRequest::Rescale { count });
        Request::new(self.patience, async move |timeout| {
            if !(1..=DAEMONS_MAX).contains(&count) {
                return Err(DaemonsError::Count);
            }
            answer(asked.timeout(timeout).await?)
        })
    }
}

const fn answer(said: DaemonsReply) -> Result<DaemonsState, DaemonsError> {
    match said {
        DaemonsReply::State(state) => Ok(state),
        DaemonsReply::InProgress => Err(DaemonsError::InProgress),
        DaemonsReply::Count => Err(DaemonsError::Count),
        DaemonsReply::NoMajority => Err(DaemonsError::NoMajority),
    }
}

impl fmt::Debug for Daemons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Daemons").field(&self.manager).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::running::Told;
    use super::*;
    use crate::codec::{decode, encode};

    /// On their way between versions of the library, and in replicated data: variants are only appended.
    #[test]
    fn the_bytes_of_what_daemons_are_told_never_change() {
        fn bytes<T: Serialize>(value: &T) -> Vec<u8> {
            encode(value).unwrap().into_vec()
        }
        assert_eq!(bytes(&DaemonsRequest::State), [0]);
        assert_eq!(bytes(&DaemonsRequest::Rescale { count: 300 }), [1, 0xac, 2]);
        let state = DaemonsState {
            count: 7,
            revision: 2,
            is_rescaling: true,
        };
        assert_eq!(bytes(&DaemonsReply::State(state)), [0, 7, 2, 1]);
        let others = [
            DaemonsReply::InProgress,
            DaemonsReply::Count,
            DaemonsReply::NoMajority,
        ];
        assert_eq!(others.map(|said| bytes(&said)), [[1], [2], [3]]);
        assert_eq!([Told::KeepAlive, Told::End].map(|told| bytes(&told)), [[0], [1]]);
        let kept: Kept = (2, 7, true);
        assert_eq!(bytes(&kept), [2, 7, 1]);
        assert_eq!(decode(&[2, 7, 1]), Some(kept));
        assert!(matches!(decode(&[0, 7, 2, 1]), Some(DaemonsReply::State(said)) if said == state));
    }
}
