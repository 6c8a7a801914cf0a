//! One daemon: begins when it is seen to and may, runs beside its mailbox, and ends when it is told to. Spec:
//! sharding 1.8.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;

use quorate_core::daemons::DaemonId;
use serde::{Deserialize, Serialize};

use super::{Daemon, DaemonContext, Scales};
use crate::codec;
use crate::entity::{Beside, Life};
use crate::mailbox::{EntityStart, Starter};
use crate::shared::Shared;
use crate::sync::{Either, race};

/// A daemon that was told to end may take a share of the time that a hand-off has; so the rest of it does not
/// wait in vain.
const STOP_SHARE: u32 = 4;

/// What the manager says to a daemon.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Told {
    /// See that you run.
    KeepAlive,
    /// End. Answered when it has.
    End,
}

/// That it has ended.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Answered;

/// Starts daemons.
pub(crate) struct DaemonStarter<F> {
    pub(crate) make: Arc<F>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) scales: Scales,
}

impl<F, D> Starter for DaemonStarter<F>
where
    F: Fn(u32) -> D + Send + Sync + 'static,
    D: Daemon,
{
    fn start(&self, start: EntityStart) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let life = Life::new(start, Arc::clone(&self.shared));
        Box::pin(run(Arc::clone(&self.make), life, self.scales.clone()))
    }
}

async fn run<F, D>(make: Arc<F>, mut life: Life, scales: Scales)
where
    F: Fn(u32) -> D,
    D: Daemon,
{
    let Some(id) = DaemonId::of(life.context().id()) else {
        // Nobody but the manager has the types to speak to one.
        return;
    };
    if life.may_begin().await.is_none() || !begins(&mut life, id, &scales).await {
        return;
    }
    let (running, stopping) = async_channel::bounded(1);
    let context = DaemonContext {
        index: id.index,
        count: id.count,
        revision: id.revision,
        entity: life.context().clone(),
        stopping,
    };
    tracing::debug!(target: "cluster::sharding", event = "daemon_started", entity = ?life.context());
    let mut daemon = life.enter(|| make(id.index));
    {
        let mut work = pin!(daemon.run(&context));
        let is_done = loop {
            match life.next_beside(work.as_mut()).await {
                Beside::Done(()) => break true,
                Beside::Stop => break false,
                Beside::Message(payload) => match codec::decode(&payload) {
                    Some(Told::KeepAlive) => life.answer(Ok(codec::encode_answer(&Answered))),
                    Some(Told::End) => break false,
                    None => life.answer(Ok(codec::undecodable())),
                },
            }
        };
        // From here on it is told, whether it looks or not.
        drop(running);
        if !is_done {
            let shared = Arc::clone(life.context().shared());
            let until = shared.background.now() + shared.handoff_timeout / STOP_SHARE;
            let ending = race(
                life.unless_killed(work),
                shared.background.sleep_until(Some(until)),
            );
            if let Either::Right(()) = ending.await {
                tracing::warn!(
                    target: "cluster::sharding", event = "daemon_cut_off", entity = ?life.context(),
                    "a daemon did not end in time and is dropped"
                );
            }
        }
    }
    drop(daemon);
    tracing::debug!(target: "cluster::sharding", event = "daemon_ended", entity = ?life.context());
    // What asked it to end, if somebody did: only now is it true.
    life.answer(Ok(codec::encode_answer(&Answered)));
}

/// Waits until it is seen to and may begin; `false` if it is to end without having begun.
async fn begins(life: &mut Life, id: DaemonId, scales: &Scales) -> bool {
    while let Some(payload) = life.next().await {
        match codec::decode(&payload) {
            Some(Told::KeepAlive) => {
                // A majority: an order that has been on its way since before a change begins nothing.
                match life.unless_killed(scales.known()).await {
                    Some(Ok(known)) if id.may_begin(known.iter().copied()) => return true,
                    Some(Ok(_)) => return false,
                    Some(Err(error)) => {
                        tracing::debug!(
                            target: "cluster::sharding", event = "daemon_waits", entity = ?life.context(), %error,
                            "cannot tell whether a daemon may start; checked again with the next order"
                        );
                    }
                    None => return false,
                }
            }
            Some(Told::End) => {
                life.answer(Ok(codec::encode_answer(&Answered)));
                return false;
            }
            None => life.answer(Ok(codec::undecodable())),
        }
    }
    false
}
