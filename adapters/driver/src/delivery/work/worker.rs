//! A worker as users hold it: asks for a job when it is to have one, and says what is done. Decides nothing.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorate_core::ordered::OrderedSet;
use quorate_core::sharding::errors::AskFailure;
use serde::de::DeserializeOwned;

use super::{WorkReply, WorkRequest, WorkerId};
use crate::codec;
use crate::error::AskError;
use crate::shared::Shared;
use crate::singleton::Singleton;
use crate::sync::{Either, lock, race};

/// How long a worker waits for a job before it asks again: so that who holds the queue hears of it.
const PULL_TIMEOUT: Duration = Duration::from_secs(10);

/// The pause after a question that nobody has answered.
const PAUSE: Duration = Duration::from_millis(100);

/// What a worker has, and what it has to say. As much as jobs were given to it.
#[derive(Default)]
struct Hands {
    /// Of which instance of the queue the numbers are.
    instance: u64,
    holds: OrderedSet<u64>,
    /// Done, and the queue may not have heard of it.
    done: OrderedSet<u64>,
    turn: u64,
}

struct WorkerInner {
    shared: Arc<Shared>,
    desk: Singleton<WorkRequest, WorkReply>,
    id: WorkerId,
    hands: Mutex<Hands>,
}

impl WorkerInner {
    fn settle(&self, instance: u64, id: u64, is_done: bool) {
        let mut hands = lock(&self.hands);
        if hands.instance == instance {
            hands.holds.remove(&id);
            if is_done {
                hands.done.insert(id);
            }
        }
        drop(hands);
        // At once; what gets lost is said with the next question.
        let worker = self.id;
        let _ = self.desk.try_tell(&WorkRequest::Settled {
            worker,
            instance,
            id,
            is_done,
        });
    }
}

impl Drop for WorkerInner {
    fn drop(&mut self) {
        // Otherwise its jobs wait until its node is gone.
        let _ = self.desk.try_tell(&WorkRequest::Bye { worker: self.id });
    }
}

/// Takes jobs from a queue, on the node where it was made. Dropping it and the last of its jobs returns what
/// it has not confirmed.
pub struct Worker<J> {
    inside: Arc<WorkerInner>,
    types: PhantomData<fn() -> J>,
}

impl<J: DeserializeOwned> Worker<J> {
    pub(super) fn new(shared: Arc<Shared>, desk: Singleton<WorkRequest, WorkReply>, id: WorkerId) -> Self {
        let inside = WorkerInner {
            shared,
            desk,
            id,
            hands: Mutex::default(),
        };
        Self {
            inside: Arc::new(inside),
            types: PhantomData,
        }
    }

    /// Waits for the next job; `None` when the node has stopped. A job that this node cannot decode is
    /// returned and counted in `deliveries_undecodable`.
    ///
    /// # Cancel safety
    /// Safe: a job that was given meanwhile is given again, to this worker or to another.
    pub async fn next(&mut self) -> Option<Job<J>> {
        loop {
            let (instance, id, payload) = self.given().await?;
            let hold = Hold {
                inside: Arc::clone(&self.inside),
                instance,
                id,
                is_done: false,
            };
            match codec::decode(&payload) {
                Some(message) => return Some(Job { message, hold }),
                None => {
                    self.inside.shared.deliveries.undecodable();
                    drop(hold);
                    self.inside.shared.background.sleeper()(PAUSE).await;
                }
            }
        }
    }

    async fn given(&self) -> Option<(u64, u64, Box<[u8]>)> {
        let inside = &self.inside;
        loop {
            let (order, told) = {
                let mut hands = lock(&inside.hands);
                hands.turn += 1;
                let told: Vec<u64> = hands.done.iter().copied().collect();
                let order = WorkRequest::Pull {
                    worker: inside.id,
                    instance: hands.instance,
                    turn: hands.turn,
                    done: told.clone(),
                    holds: hands.holds.iter().copied().collect(),
                };
                (order, told)
            };
            let asked = async { inside.desk.ask(&order).timeout(PULL_TIMEOUT).await };
            let answered = match race(asked, inside.shared.ended()).await {
                Either::Left(answered) => answered,
                Either::Right(()) => return None,
            };
            match answered {
                Ok(WorkReply::Job { instance, job }) => {
                    let mut hands = lock(&inside.hands);
                    if hands.instance != instance {
                        // Another one holds the queue, and never heard of what is in hand.
                        hands.instance = instance;
                        hands.holds.clear();
                        hands.done.clear();
                    }
                    told.iter().for_each(|id| {
                        hands.done.remove(id);
                    });
                    if let Some((id, payload)) = job {
                        hands.holds.insert(id);
                        return Some((instance, id, payload.0));
                    }
                }
                Err(
                    AskError::Stopped
                    | AskError::Failed(AskFailure::NodeStopped | AskFailure::NodeStoppedUnsent),
                ) => return None,
                Ok(_) | Err(_) => inside.shared.background.sleeper()(PAUSE).await,
            }
        }
    }
}

impl<J> fmt::Debug for Worker<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Worker").field(&self.inside.id).finish()
    }
}

/// A job that a worker has taken. Dropped unconfirmed, it goes to another worker.
#[must_use = "what is dropped unconfirmed is given to another worker"]
pub struct Job<J> {
    message: J,
    hold: Hold,
}

struct Hold {
    inside: Arc<WorkerInner>,
    instance: u64,
    id: u64,
    is_done: bool,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.inside.settle(self.instance, self.id, self.is_done);
    }
}

impl<J> Job<J> {
    /// The job's message.
    pub const fn message(&self) -> &J {
        &self.message
    }

    /// Confirms that the job is done. Returns at once.
    pub fn confirm(mut self) {
        self.hold.is_done = true;
    }
}

impl<J: fmt::Debug> fmt::Debug for Job<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("message", &self.message)
            .field("id", &self.hold.id)
            .finish()
    }
}
