//! Who sees to the daemons: a singleton, which has each of them run and carries changes of their number to
//! their end, whoever began them. What there are it reads from distributed data, so its successor goes on
//! where it was. Spec: sharding 1.8.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_channel::{Receiver, Sender};
use quorate_core::daemons::{DAEMONS_MAX, DaemonId, DaemonScale, ScalePlan};

use super::running::{Answered, Told};
use super::{DaemonsReply, DaemonsRequest, DaemonsState, Scales, kept};
use crate::data::Write;
use crate::entity::{Entity, EntityContext, ReplyTo};
use crate::region::Region;
use crate::shared::Shared;
use crate::sync::{Either, race};

/// Orders that wait: people and programs that change the number are few. Past it they hear that a change is
/// in progress.
const ORDERS_MAX: usize = 64;

/// Between two daemons that are seen to, if there are few: so that they do not all begin at once. As in Akka.
const BREATH_MAX: Duration = Duration::from_millis(100);

/// Daemons that are told to end at a time.
const ENDINGS_MAX: usize = 64;

/// The pause before the same is tried again.
const PAUSE: Duration = Duration::from_millis(250);

/// How long a daemon may take to answer that it has ended: longer than it has for that.
const END_SHARE: u32 = 2;

/// Somebody wants something.
type Wish = (DaemonsRequest, ReplyTo<DaemonsReply>);

/// See the module.
pub(crate) struct Manager {
    work: Work,
    wishes: Option<Sender<Wish>>,
    /// Closed when this instance is gone: its work ends then.
    alive: Option<Sender<()>>,
}

impl Manager {
    pub(crate) const fn new(
        shared: Arc<Shared>,
        region: Region<Told, Answered>,
        scales: Scales,
        count: u32,
    ) -> Self {
        let work = Work {
            shared,
            region,
            scales,
            count,
        };
        Self {
            work,
            wishes: None,
            alive: None,
        }
    }
}

impl Entity for Manager {
    type Message = DaemonsRequest;
    type Reply = DaemonsReply;

    async fn on_start(&mut self, _: &EntityContext) {
        let (wishes, heard) = async_channel::bounded(ORDERS_MAX);
        let (alive, gone) = async_channel::bounded::<()>(1);
        (self.wishes, self.alive) = (Some(wishes), Some(alive));
        let work = self.work.clone();
        let background = work.shared.background.clone();
        background.spawn(async move {
            race(gone.recv(), work.run(&heard)).await;
        });
    }

    async fn handle(&mut self, context: &EntityContext, order: DaemonsRequest) -> DaemonsReply {
        let reply = context.reply_later::<Self>();
        if let (Ok(reply), Some(wishes)) = (reply, &self.wishes)
            && let Err(full) = wishes.try_send((order, reply))
        {
            full.into_inner().1.send(&DaemonsReply::InProgress);
        }
        // Told, or answered by the work.
        DaemonsReply::InProgress
    }
}

#[derive(Clone)]
struct Work {
    shared: Arc<Shared>,
    region: Region<Told, Answered>,
    scales: Scales,
    /// How many at first.
    count: u32,
}

impl Work {
    async fn run(&self, wishes: &Receiver<Wish>) {
        let mut asked: Option<ReplyTo<DaemonsReply>> = None;
        loop {
            match self.plan().await {
                Some(ScalePlan::Begin(scale)) => self.write(scale).await,
                Some(ScalePlan::Settle { ends, then }) => {
                    let ending = async {
                        for scale in ends {
                            self.end_all(scale).await;
                        }
                    };
                    self.beside_change(wishes, then, ending).await;
                    self.write(then).await;
                }
                Some(ScalePlan::Keep { scale, forget }) => {
                    if let Some(asked) = asked.take() {
                        asked.send(&DaemonsReply::State(state(scale)));
                    }
                    self.forget(forget);
                    match self.keep(scale, wishes).await {
                        Wanted::Look => {}
                        Wanted::Change(next, reply) => {
                            match self.scales.0.add(kept(next), Write::Majority).await {
                                Ok(()) => asked = Some(reply),
                                Err(_) => reply.send(&DaemonsReply::NoMajority),
                            }
                        }
                        Wanted::Nothing => return,
                    }
                }
                None => self.shared.background.sleeper()(PAUSE).await,
            }
        }
    }

    /// What need not be kept any more; next time, if not now.
    fn forget(&self, scales: Vec<DaemonScale>) {
        if scales.is_empty() {
            return;
        }
        let known = self.scales.clone();
        self.shared.background.spawn(async move {
            for old in scales {
                let _ = known.0.remove(kept(old), Write::Majority).await;
            }
        });
    }

    async fn plan(&self) -> Option<ScalePlan> {
        let known = self.scales.known().await;
        known.ok().map(|known| ScalePlan::of(known, self.count))
    }

    /// Does something while a change is under way, and tells so whoever wishes for anything. At other times
    /// wishes wait.
    async fn beside_change(
        &self,
        wishes: &Receiver<Wish>,
        then: DaemonScale,
        work: impl Future<Output = ()>,
    ) {
        let answers = async {
            while let Ok((order, reply)) = wishes.recv().await {
                match order {
                    DaemonsRequest::State => reply.send(&DaemonsReply::State(DaemonsState {
                        is_rescaling: true,
                        ..state(then)
                    })),
                    DaemonsRequest::Rescale { .. } => reply.send(&DaemonsReply::InProgress),
                }
            }
            std::future::pending::<()>().await;
        };
        race(work, answers).await;
    }

    /// Writes until a majority has it.
    async fn write(&self, scale: DaemonScale) {
        while self.scales.0.add(kept(scale), Write::Majority).await.is_err() {
            self.shared.background.sleeper()(PAUSE).await;
        }
    }

    /// Has all daemons of a scale ended: each has said so from where its shard is, and nowhere else is one.
    async fn end_all(&self, scale: DaemonScale) {
        let daemons: Vec<DaemonId> = scale.daemons().collect();
        for some in daemons.chunks(ENDINGS_MAX) {
            let (ended, all) = async_channel::bounded::<()>(1);
            for daemon in some {
                let (work, daemon, ended) = (self.clone(), *daemon, ended.clone());
                let background = self.shared.background.clone();
                background.spawn(async move {
                    // When whoever waits for this is gone, so is the wish.
                    race(work.end(daemon), ended.closed()).await;
                });
            }
            drop(ended);
            // Closed when the last of them is done.
            while all.recv().await.is_ok() {}
        }
    }

    async fn end(&self, daemon: DaemonId) {
        let timeout = self.shared.handoff_timeout / END_SHARE;
        loop {
            let entity = self.region.entity(daemon.entity().as_bytes());
            if entity.ask(Told::End).timeout(timeout).await.is_ok() {
                return;
            }
            self.shared.background.sleeper()(PAUSE).await;
        }
    }

    /// Sees to the daemons, and to wishes, until something else is to be done.
    async fn keep(&self, scale: DaemonScale, wishes: &Receiver<Wish>) -> Wanted {
        let interval = self.shared.keep_alive_interval;
        let breath = (interval / scale.count.max(1)).min(BREATH_MAX);
        let background = &self.shared.background;
        let round_ends = background.now() + interval;
        for daemon in scale.daemons() {
            let entity = self.region.entity(daemon.entity().as_bytes());
            // Full or stopped: in the next round.
            let _ = entity.try_tell(Told::KeepAlive);
            let until = background.now() + breath;
            if let Some(wanted) = self.wait(scale, wishes, until).await {
                return wanted;
            }
        }
        match self.wait(scale, wishes, round_ends).await {
            Some(wanted) => wanted,
            None => Wanted::Look,
        }
    }

    async fn wait(
        &self,
        scale: DaemonScale,
        wishes: &Receiver<Wish>,
        until: quorate_core::time::Instant,
    ) -> Option<Wanted> {
        let over = self.shared.background.sleep_until(Some(until));
        let mut over = std::pin::pin!(over);
        loop {
            match race(wishes.recv(), over.as_mut()).await {
                Either::Right(()) => return None,
                Either::Left(Err(_)) => return Some(Wanted::Nothing),
                Either::Left(Ok((DaemonsRequest::State, reply))) => {
                    reply.send(&DaemonsReply::State(state(scale)))
                }
                Either::Left(Ok((DaemonsRequest::Rescale { count }, reply))) => {
                    if count == scale.count {
                        reply.send(&DaemonsReply::State(state(scale)));
                    } else if (1..=DAEMONS_MAX).contains(&count) {
                        return Some(Wanted::Change(scale.next(count), reply));
                    } else {
                        reply.send(&DaemonsReply::Count);
                    }
                }
            }
        }
    }
}

/// What is next.
enum Wanted {
    /// What is known may have changed.
    Look,
    Change(DaemonScale, ReplyTo<DaemonsReply>),
    /// This instance is gone.
    Nothing,
}

const fn state(scale: DaemonScale) -> DaemonsState {
    DaemonsState {
        count: scale.count,
        revision: scale.revision,
        is_rescaling: !scale.is_settled,
    }
}
