//! Work pulling as users hold it: a queue by name from which workers on any node take jobs, one after the
//! other, and confirm them. Page: `docs/delivery.md`. Spec: sharding 1.14.
//!
//! | part | decides |
//! |---|---|
//! | `quorate_core::delivery::WorkPulling` | who gets which job, and what becomes of those of a worker that is gone |
//! | [`WorkQueue`], [`Worker`], [`Job`] | nothing: what users hold |
//! | `desk` | who waits, for room and for jobs; it runs in a singleton |

mod desk;
#[cfg(test)]
mod frozen_tests;
mod worker;

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::effect::{CommandError, SingletonCommandError};
use quorate_core::sharding::errors::AskFailure;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use worker::{Job, Worker};

use self::desk::Desk;
use crate::codec;
use crate::codec::Bytes;
use crate::entity::EntityContext;
use crate::error::{AskError, ClusterError};
use crate::journal::Keeper;
use crate::request::{Request, TIMEOUT_DEFAULT};
use crate::shared::Shared;
use crate::singleton::Singleton;
use crate::singleton_builder::SingletonBuilder;

/// The most jobs that may wait for a worker. Mirrors the work pulling producer's `buffer-size`.
pub const JOBS_WAITING_MAX: usize = 1_000;

/// A name is as long, in bytes.
pub(crate) const NAME_BYTES: RangeInclusive<usize> = 1..=200;

/// Why a job was not taken, or is not known to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkError {
    /// The job could not be encoded: not taken.
    #[error("the job cannot be encoded")]
    Encode,
    /// The job is too large for a message, or for the store of a durable queue: not taken.
    #[error("the job is too large")]
    TooLarge,
    /// As many wait for room as may: not taken.
    #[error("the work queue is full; try again later")]
    Full,
    /// A durable queue's store did not keep the job: it may have been taken.
    #[error("the queue's store failed to keep the job; it may have been taken")]
    Store,
    /// There is no answer: the job may have been taken, unless the error says that it was not handled.
    #[error(transparent)]
    Failed(#[from] AskError),
}

impl WorkError {
    /// Whether no answer came within the time limit.
    #[must_use]
    pub const fn is_timeout(self) -> bool {
        match self {
            Self::Failed(error) => error.is_timeout(),
            Self::Encode | Self::TooLarge | Self::Full | Self::Store => false,
        }
    }

    /// Whether the queue may have taken the job. `false`: a retry cannot have it done twice.
    #[must_use]
    pub const fn may_have_been_handled(self) -> bool {
        match self {
            Self::Failed(error) => error.may_have_been_handled(),
            Self::Store => true,
            Self::Encode | Self::TooLarge | Self::Full => false,
        }
    }
}

/// A worker, as the queue knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct WorkerId {
    /// The uid of its node.
    node: u64,
    /// Among those of the node.
    number: u64,
}

/// What is said to the queue.
#[derive(Debug, Serialize, Deserialize)]
enum WorkRequest {
    Push {
        payload: Bytes,
        /// Answered when it is done, not when it is taken.
        waits: bool,
    },
    Pull {
        worker: WorkerId,
        /// Of which instance the numbers are.
        instance: u64,
        turn: u64,
        done: Vec<u64>,
        holds: Vec<u64>,
    },
    /// A job is done, or given back.
    Settled {
        worker: WorkerId,
        instance: u64,
        id: u64,
        is_done: bool,
    },
    /// A worker ends.
    Bye {
        worker: WorkerId,
    },
    State,
    /// The queue to itself.
    Look,
}

/// What it answers.
#[derive(Debug, Serialize, Deserialize)]
enum WorkReply {
    Taken,
    Done,
    /// A job, or none so far. What was said to be done is heard.
    Job {
        instance: u64,
        job: Option<(u64, Bytes)>,
    },
    State(WorkState),
    Full,
    TooLarge,
    Store,
}

/// What a work queue holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkState {
    /// Jobs that are not done, those that wait included.
    pub unfinished: usize,
    /// Jobs that wait for a worker.
    pub waiting: usize,
    /// Workers that have asked for jobs and are not gone.
    pub workers: usize,
}

/// Builds a work queue or a proxy to it. See [`Cluster::work_queue`](crate::Cluster::work_queue).
#[must_use = "nothing happens before it is started or a proxy is made"]
#[derive(Clone)]
pub struct WorkQueueBuilder {
    shared: Arc<Shared>,
    name: String,
    role: Option<String>,
    is_durable: bool,
}

impl WorkQueueBuilder {
    pub(crate) const fn new(shared: Arc<Shared>, name: String) -> Self {
        Self {
            shared,
            name,
            role: None,
            is_durable: false,
        }
    }

    /// The oldest member with this role holds it (default: the oldest of all). The same on every node,
    /// proxies included.
    pub fn role(mut self, role: impl Into<String>) -> Self {
        self.role = Some(role.into());
        self
    }

    /// Keeps each job in the store until it is confirmed, up to 1 MiB each: the next holder of the queue goes
    /// on with them (default: they are gone with their holder). The same on every node that starts it. The
    /// store has to be one that all nodes share, or the nodes' stores vote about logs (`journal.voters`).
    pub const fn durable(mut self) -> Self {
        self.is_durable = true;
        self
    }

    /// Hosts the queue on this node while it is the oldest member that may, and reaches it. Call it on every
    /// node with the role.
    ///
    /// # Errors
    /// Those of [`SingletonBuilder::start`](crate::SingletonBuilder::start), [`ClusterError::Lookup`] also
    /// if this node has registered it for other jobs; [`ClusterError::Durability`] for a durable one whose
    /// store no other node reads.
    ///
    /// # Cancel safety
    /// Dropping it may or may not register.
    pub async fn start<J: 'static>(self) -> Result<WorkQueue<J>, ClusterError> {
        let keeper = if self.is_durable {
            let (keeper, _) = Keeper::of(&self.shared, false)?;
            Some(keeper)
        } else {
            None
        };
        let (shared, name) = (Arc::clone(&self.shared), Arc::<str>::from(self.internal_name()));
        let make = move |token| Desk::new(Arc::clone(&shared), Arc::clone(&name), token, keeper.clone());
        self.registered(self.singleton().start(make)).await
    }

    /// Reaches the queue from this node without hosting it.
    ///
    /// # Errors
    /// Those of [`SingletonBuilder::proxy`](crate::SingletonBuilder::proxy).
    ///
    /// # Cancel safety
    /// Dropping it may or may not register.
    pub async fn proxy<J: 'static>(self) -> Result<WorkQueue<J>, ClusterError> {
        self.registered(self.singleton().proxy()).await
    }

    /// The queue's singleton is the same whatever its jobs are: what they are is noted beside it.
    async fn registered<J: 'static>(
        &self,
        desk: impl Future<Output = Result<Singleton<WorkRequest, WorkReply>, ClusterError>>,
    ) -> Result<WorkQueue<J>, ClusterError> {
        if !NAME_BYTES.contains(&self.name.len()) {
            let error = CommandError::Singleton(SingletonCommandError::BadName);
            return Err(ClusterError::Refused(error));
        }
        let name = self.internal_name();
        let is_new = self.shared.add_queue::<J>(&name)?;
        match desk.await {
            Ok(desk) => Ok(WorkQueue::new(Arc::clone(&self.shared), desk)),
            Err(error) => {
                if is_new {
                    self.shared.remove_queue(&name);
                }
                Err(error)
            }
        }
    }

    fn internal_name(&self) -> String {
        format!("work-{}", self.name)
    }

    fn singleton(&self) -> SingletonBuilder {
        let singleton = SingletonBuilder::new(Arc::clone(&self.shared), self.internal_name().into());
        let singleton = singleton.durable(self.is_durable);
        match &self.role {
            Some(role) => singleton.role(role),
            None => singleton,
        }
    }
}

impl fmt::Debug for WorkQueueBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueueBuilder")
            .field("name", &self.name)
            .field("role", &self.role)
            .field("is_durable", &self.is_durable)
            .finish_non_exhaustive()
    }
}

/// A handle to a queue of jobs `J`. Cheap to clone; dropping it stops nothing.
pub struct WorkQueue<J> {
    shared: Arc<Shared>,
    desk: Singleton<WorkRequest, WorkReply>,
    types: PhantomData<fn(J) -> J>,
}

impl<J> WorkQueue<J> {
    const fn new(shared: Arc<Shared>, desk: Singleton<WorkRequest, WorkReply>) -> Self {
        let types = PhantomData;
        Self { shared, desk, types }
    }

    /// What the queue holds now.
    ///
    /// # Errors
    /// [`WorkError::Failed`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub fn state(&self) -> Request<Result<WorkState, WorkError>> {
        let asked = self.desk.ask(WorkRequest::State);
        Request::new(TIMEOUT_DEFAULT, async move |timeout| {
            let said = asked.timeout(timeout).await?;
            if let WorkReply::State(state) = said {
                return Ok(state);
            }
            Err(unexpected(&said))
        })
    }
}

impl<J: Serialize> WorkQueue<J> {
    /// Adds a job. Completes when the queue has taken it, a durable queue when it is stored; waits while
    /// [`JOBS_WAITING_MAX`] wait for a worker, but not longer than its time limit (default
    /// [`TIMEOUT_DEFAULT`], 1 ms to 24 h, clamped).
    ///
    /// # Errors
    /// [`WorkError`]. With an error that says that the job may have been taken, handing it in again may have
    /// it done twice.
    ///
    /// # Cancel safety
    /// Dropping it may or may not hand the job in.
    pub fn push(&self, job: impl Borrow<J>) -> Request<Result<(), WorkError>> {
        self.ask(job.borrow(), false)
    }

    /// Adds a job and completes when a worker has confirmed it, at the latest after its time limit (default
    /// [`TIMEOUT_DEFAULT`], 1 ms to 24 h, clamped): `queue.run(job).timeout(minute).await`.
    ///
    /// # Errors
    /// As for [`Self::push`]; after the timeout the job goes on.
    ///
    /// # Cancel safety
    /// As for [`Self::push`].
    pub fn run(&self, job: impl Borrow<J>) -> Request<Result<(), WorkError>> {
        self.ask(job.borrow(), true)
    }

    fn ask(&self, job: &J, waits: bool) -> Request<Result<(), WorkError>> {
        let payload = codec::encode(job).map(Bytes);
        let asked = payload.map(|payload| self.desk.ask(WorkRequest::Push { payload, waits }));
        Request::new(TIMEOUT_DEFAULT, async move |timeout| {
            match asked.ok_or(WorkError::Encode)?.timeout(timeout).await {
                Ok(WorkReply::Taken | WorkReply::Done) => Ok(()),
                Ok(
                    said @ (WorkReply::Job { .. }
                    | WorkReply::State(_)
                    | WorkReply::Full
                    | WorkReply::TooLarge
                    | WorkReply::Store),
                ) => Err(unexpected(&said)),
                Err(AskError::Failed(AskFailure::TooLarge)) => Err(WorkError::TooLarge),
                Err(error) => Err(WorkError::Failed(error)),
            }
        })
    }
}

impl<J: DeserializeOwned> WorkQueue<J> {
    /// Makes a worker on this node. There may be any number; each has one job at a time asked for, and any
    /// number in hand.
    #[must_use]
    pub fn worker(&self) -> Worker<J> {
        let id = WorkerId {
            node: self.shared.me.uid(),
            number: self.shared.next_opener(),
        };
        Worker::new(Arc::clone(&self.shared), self.desk.clone(), id)
    }
}

const fn unexpected(said: &WorkReply) -> WorkError {
    match said {
        WorkReply::Full => WorkError::Full,
        WorkReply::TooLarge => WorkError::TooLarge,
        WorkReply::Store => WorkError::Store,
        WorkReply::Taken | WorkReply::Done | WorkReply::Job { .. } | WorkReply::State(_) => {
            WorkError::Failed(AskError::Decode)
        }
    }
}

impl<J> Clone for WorkQueue<J> {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.shared), self.desk.clone())
    }
}

impl<J> fmt::Debug for WorkQueue<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WorkQueue").field(&self.desk).finish()
    }
}

/// Has the queue look after a time.
fn look(context: &EntityContext, after: Duration) {
    let started = context.start_timer::<Desk>("look", after, WorkRequest::Look);
    debug_assert!(started.is_ok(), "it has one timer");
}
