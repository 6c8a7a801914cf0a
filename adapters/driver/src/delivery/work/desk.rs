//! Who holds a queue: the instance of a singleton. Keeps who waits for room and who for jobs, and the store's
//! word before its own. Spec: sharding 1.14.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::delivery::{WorkPulling, WorkerPull};
use quorate_core::ordered::OrderedMap;
use quorate_core::token::Token;

use super::{JOBS_WAITING_MAX, WorkReply, WorkRequest, WorkState, WorkerId, look};
use crate::codec::Bytes;
use crate::delivery::{DurableQueue, Entry};
use crate::entity::{Entity, EntityContext, ReplyTo};
use crate::journal::Keeper;
use crate::shared::Shared;

/// Jobs that wait for room, their callers with them. Past it they are refused.
const PARKED_MAX: usize = 1_000;

/// Their bytes: as much as a producer's messages may have. Past it jobs are refused, but for the only one
/// that waits.
const PARKED_BYTES_MAX: usize = 64 << 20;

/// Jobs that are noted to be done at once.
const NOTED_MAX: usize = 256;

/// How often it looks who is gone, and whom it has to answer before their time is over.
const LOOK: Duration = Duration::from_millis(250);

/// An answer that nothing has come is given so long before nobody waits for it.
const EARLY: Duration = Duration::from_secs(1);

/// The pause before a store is asked again.
const PAUSE: Duration = Duration::from_millis(500);

/// See the module.
pub(super) struct Desk {
    shared: Arc<Shared>,
    name: Arc<str>,
    /// Whose numbers the jobs have.
    instance: u64,
    keeper: Option<Keeper>,
    queue: Option<DurableQueue>,
    work: WorkPulling<WorkerId>,
    /// Who waits for a job.
    idle: VecDeque<(WorkerId, ReplyTo<WorkReply>)>,
    /// Who waits for room.
    parked: VecDeque<(Bytes, bool, ReplyTo<WorkReply>)>,
    parked_bytes: usize,
    /// Jobs that are done, which the store has not noted.
    unnoted: Vec<u64>,
    /// Who waits for a job's end.
    ends: OrderedMap<u64, ReplyTo<WorkReply>>,
}

impl Desk {
    pub(super) fn new(shared: Arc<Shared>, name: Arc<str>, token: Token, keeper: Option<Keeper>) -> Self {
        Self {
            shared,
            name,
            // Numbers that are stored are the same in every instance.
            instance: if keeper.is_some() { 0 } else { token.term },
            keeper,
            queue: None,
            work: WorkPulling::new(JOBS_WAITING_MAX, 1),
            idle: VecDeque::new(),
            parked: VecDeque::new(),
            parked_bytes: 0,
            unnoted: Vec::new(),
            ends: OrderedMap::new(),
        }
    }

    async fn push(&mut self, payload: Bytes, waits: bool, reply: ReplyTo<WorkReply>) {
        let kept = payload.clone();
        let Ok(id) = self.work.on_job(payload.0) else {
            return reply.send(&WorkReply::Full);
        };
        let entry = Entry::Sent {
            seq: id,
            entity: Vec::new(),
            payload: kept,
        };
        if !self.note(vec![entry]).await {
            self.work.on_done(id);
            return reply.send(&WorkReply::Store);
        }
        if waits {
            self.ends.insert(id, reply);
        } else {
            reply.send(&WorkReply::Taken);
        }
    }

    /// Stores something, if this queue does; whether it is stored.
    async fn note(&mut self, entries: Vec<Entry>) -> bool {
        let Some(queue) = &mut self.queue else {
            return true;
        };
        let written = queue.write(entries, &self.shared.background).await;
        if let Err(error) = written {
            tracing::error!(
                target: "cluster::delivery", event = "work_queue_not_kept", queue = &*self.name, %error,
                "the store of a work queue failed; the queue takes no more jobs"
            );
        }
        written.is_ok()
    }

    async fn on_done(&mut self, ids: Vec<u64>) {
        if ids.is_empty() {
            return;
        }
        // What cannot be noted is noted with the next, or done again by the next holder.
        self.unnoted.extend(&ids);
        let entries = self.unnoted.iter().map(|id| Entry::Confirmed { seq: *id });
        if self.note(entries.take(NOTED_MAX).collect()).await {
            self.unnoted.drain(..NOTED_MAX.min(self.unnoted.len()));
        }
        for id in ids {
            if let Some(reply) = self.ends.remove(&id) {
                reply.send(&WorkReply::Done);
            }
        }
    }

    /// A job comes: it waits for its turn, if it can ever have one.
    fn park(&mut self, payload: Bytes, waits: bool, reply: ReplyTo<WorkReply>) {
        let bytes = payload.0.len();
        if self.keeper.is_some() && bytes > self.shared.queue_bounds.message_bytes_max() {
            return reply.send(&WorkReply::TooLarge);
        }
        let fits = self.parked_bytes.saturating_add(bytes) <= PARKED_BYTES_MAX;
        if !self.parked.is_empty() && (self.parked.len() >= PARKED_MAX || !fits) {
            return reply.send(&WorkReply::Full);
        }
        self.parked_bytes = self.parked_bytes.saturating_add(bytes);
        self.parked.push_back((payload, waits, reply));
    }

    /// The next of those that wait, if there is room for it.
    fn next_parked(&mut self) -> Option<(Bytes, bool, ReplyTo<WorkReply>)> {
        let (payload, ..) = self.parked.front()?;
        let bytes = payload.0.len();
        let is_kept = self.queue.as_ref().is_none_or(|queue| queue.has_room(bytes));
        if !self.work.has_room() || !is_kept {
            return None;
        }
        self.parked_bytes = self.parked_bytes.saturating_sub(bytes);
        self.parked.pop_front()
    }

    /// Takes what there is room for, and gives what there is to who waits.
    async fn serve(&mut self) {
        while let Some((payload, waits, reply)) = self.next_parked() {
            if !reply.time_left().is_zero() {
                self.push(payload, waits, reply).await;
            }
        }
        while self.work.waiting() > 0
            && let Some((worker, reply)) = self.idle.pop_front()
        {
            if reply.time_left().is_zero() {
                continue;
            }
            let job = self.work.give(worker);
            let job = job.map(|(id, payload)| (id, Bytes(payload.clone())));
            let instance = self.instance;
            reply.send(&WorkReply::Job { instance, job });
        }
    }

    /// Who is gone, and who has waited long enough.
    fn on_look(&mut self) {
        let view = self.shared.hub.view();
        let is_member = |worker: &WorkerId| {
            let mut nodes = view.members().iter().map(|member| member.node.uid());
            nodes.any(|uid| uid == worker.node)
        };
        let gone: Vec<WorkerId> = self.work.workers().filter(|worker| !is_member(worker)).collect();
        for worker in gone {
            self.leave(worker);
        }
        let (instance, idle) = (self.instance, std::mem::take(&mut self.idle));
        for (worker, reply) in idle {
            if reply.time_left() > EARLY {
                self.idle.push_back((worker, reply));
            } else {
                reply.send(&WorkReply::Job { instance, job: None });
            }
        }
    }

    fn leave(&mut self, worker: WorkerId) {
        self.idle.retain(|(idle, _)| *idle != worker);
        self.work.on_gone(worker);
    }
}

impl Entity for Desk {
    type Message = WorkRequest;
    type Reply = WorkReply;

    async fn on_start(&mut self, context: &EntityContext) {
        while let Some(keeper) = &self.keeper
            && self.queue.is_none()
        {
            match DurableQueue::open_with(&self.shared, keeper, &self.name).await {
                Ok(queue) => {
                    let (kept, queue) = queue.split();
                    self.work
                        .recover(kept.into_iter().map(|(id, _, payload)| (id, payload)));
                    self.queue = Some(queue);
                }
                Err(error) => {
                    tracing::warn!(
                        target: "cluster::delivery", event = "work_queue_not_opened", queue = &*self.name, %error,
                        "a work queue waits for its store"
                    );
                    self.shared.background.sleeper()(PAUSE).await;
                }
            }
        }
        look(context, LOOK);
    }

    async fn handle(&mut self, context: &EntityContext, order: WorkRequest) -> WorkReply {
        match order {
            WorkRequest::Push { payload, waits } => {
                if let Ok(reply) = context.reply_later::<Self>() {
                    self.park(payload, waits, reply);
                }
            }
            WorkRequest::Pull {
                worker,
                instance,
                turn,
                done,
                holds,
            } => {
                // Numbers of another instance mean nothing here.
                let (done, holds) = if instance == self.instance {
                    (done, holds)
                } else {
                    (Vec::new(), Vec::new())
                };
                let (may_have, done) = self.work.on_pull(worker, &WorkerPull { turn, done, holds });
                self.on_done(done).await;
                if may_have && let Ok(reply) = context.reply_later::<Self>() {
                    self.idle.retain(|(idle, _)| *idle != worker);
                    self.idle.push_back((worker, reply));
                }
            }
            WorkRequest::Settled {
                worker,
                instance,
                id,
                is_done,
            } => {
                let is_ours = instance == self.instance;
                if is_ours && !is_done {
                    self.work.on_returned(worker, id);
                } else if is_ours && self.work.on_done(id) {
                    self.on_done(vec![id]).await;
                }
            }
            WorkRequest::Bye { worker } => self.leave(worker),
            WorkRequest::State => {
                return WorkReply::State(WorkState {
                    unfinished: self.work.unfinished(),
                    waiting: self.work.waiting(),
                    workers: self.work.workers().count(),
                });
            }
            WorkRequest::Look => {
                self.on_look();
                look(context, LOOK);
            }
        }
        self.serve().await;
        // Told, or answered elsewhere.
        WorkReply::Taken
    }
}
