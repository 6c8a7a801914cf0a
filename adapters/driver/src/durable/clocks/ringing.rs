//! A clock that runs: asks each entity that is due to do what it has to, so that it begins where its shard
//! is, and asks again where nothing comes of it. When the clock ends with somebody still to be woken, has it
//! begin at its next home. Decides nothing: the core's schedule does.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_channel::{Receiver, Sender};
use quorate_core::sharding::chain::AskChain;
use quorate_core::sharding::ids::{EntityId, KindId};
use quorate_core::wakeups::{self, DueWakeup, WakeUp, WakeUps, WakeupSchedule};

use super::{ClockAnswer, ClockRequest};
use crate::commands::UserCommand;
use crate::entity::EntityContext;
use crate::error::AskError;
use crate::region::{EntityRef, Region};
use crate::shared::Shared;
use crate::sync::{Either, lock, oneshot, race};
use quorate_core::input::Recipient;

/// Entities that a clock wakes at a time: all clocks of a node together stay below the asks that a node may
/// have open.
const WAKES_AT_ONCE: usize = 64;

/// How long a clock sleeps at most before it looks at the wall clock again, which may be set.
const NAP_MAX: Duration = Duration::from_secs(60);

/// The pause before a clock that has not answered is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What a clock and its ringing share.
pub(super) struct ClockAlarm {
    schedule: Mutex<WakeupSchedule>,
    /// Has the ringing look again. One that is not heard yet is enough.
    ring: Sender<()>,
    on_their_way: AtomicUsize,
}

impl ClockAlarm {
    pub(super) fn new() -> (Self, Receiver<()>) {
        let (ring, news) = async_channel::bounded(1);
        let alarm = Self {
            schedule: Mutex::default(),
            ring,
            on_their_way: AtomicUsize::new(0),
        };
        (alarm, news)
    }

    /// All that is kept.
    pub(super) fn begin(&self, kept: &WakeUps) {
        *lock(&self.schedule) = WakeupSchedule::of(kept);
    }

    /// This is kept of an entity, durably.
    pub(super) fn put(&self, entity: &EntityId, kept: Option<WakeUp>) {
        lock(&self.schedule).put(entity, kept);
        self.look();
    }

    fn look(&self) {
        // Full: it has not looked since the last one.
        let _ = self.ring.try_send(());
    }

    fn take_due(&self, now_ms: u64) -> Vec<DueWakeup> {
        let room = WAKES_AT_ONCE.saturating_sub(self.on_their_way.load(Ordering::SeqCst));
        let due = lock(&self.schedule).take_due(now_ms, room);
        self.on_their_way.fetch_add(due.len(), Ordering::SeqCst);
        due
    }

    /// How long until somebody is due; nothing is looked for while there is no room: the next answer says so.
    fn pause(&self, now_ms: u64) -> Duration {
        if self.on_their_way.load(Ordering::SeqCst) >= WAKES_AT_ONCE {
            return NAP_MAX;
        }
        let next = lock(&self.schedule).next_ms();
        next.map_or(NAP_MAX, |next| {
            Duration::from_millis(next.saturating_sub(now_ms)).min(NAP_MAX)
        })
    }

    fn has_answered(&self) {
        self.on_their_way.fetch_sub(1, Ordering::SeqCst);
        self.look();
    }
}

/// See the module.
pub(super) struct ClockRinging {
    shared: Arc<Shared>,
    clock: EntityRef<ClockRequest, ClockAnswer>,
    /// The kind of the entities.
    kind: KindId,
    alarm: Arc<ClockAlarm>,
}

impl ClockRinging {
    /// The ringing of this clock.
    pub(super) fn new(context: &EntityContext, kind: KindId, alarm: Arc<ClockAlarm>) -> Self {
        let shared = Arc::clone(context.shared());
        let clocks = Region::new(Arc::clone(&shared), KindId::of(context.kind()), None);
        Self {
            clock: clocks.entity(context.id().as_bytes()),
            shared,
            kind,
            alarm,
        }
    }

    /// Wakes until the clock has ended.
    pub(super) async fn run(self, news: &Receiver<()>, gone: &Receiver<()>) {
        let background = self.shared.background.clone();
        loop {
            for due in self.alarm.take_due(background.unix_ms()) {
                self.wake(due);
            }
            let pause = self.alarm.pause(background.unix_ms());
            let waiting = race(
                news.recv(),
                background.sleep_until(Some(background.now() + pause)),
            );
            if let Either::Left(_) = race(gone.recv(), waiting).await {
                break;
            }
        }
        if !lock(&self.alarm.schedule).is_empty() {
            look_at(&self.shared, &self.clock).await;
        }
    }

    /// Asks an entity, which begins by that.
    fn wake(
        &self,
        DueWakeup {
            entity,
            version,
            again_in,
        }: DueWakeup,
    ) {
        let (reply, answer) = oneshot();
        let command = UserCommand::Ask {
            to: Recipient::Entity(self.kind, entity.clone()),
            payload: wakeups::call(version),
            timeout: again_in,
            chain: AskChain::of_a_clock(),
            reply,
        };
        let (shared, alarm) = (Arc::clone(&self.shared), Arc::clone(&self.alarm));
        let background = shared.background.clone();
        background.spawn(async move {
            if shared.user(command).await.is_ok() {
                match answer.await {
                    Some(Ok(_)) => tracing::trace!(
                        target: "cluster::store", event = "entity_woken", %entity, version
                    ),
                    Some(Err(failure)) => tracing::debug!(
                        target: "cluster::store", event = "entity_not_woken", %entity, version, %failure,
                        "asked again later"
                    ),
                    None => {}
                }
            }
            alarm.has_answered();
        });
    }
}

/// Has a clock run, if there is anybody to be woken. Completes when it has said so, or when this node ends.
pub(super) async fn look_at(shared: &Shared, clock: &EntityRef<ClockRequest, ClockAnswer>) {
    loop {
        match clock.ask(ClockRequest::Look).await {
            Ok(_) | Err(AskError::Stopped) => return,
            Err(error) => tracing::debug!(
                target: "cluster::store", event = "clock_does_not_answer", ?clock, %error, "asked again"
            ),
        }
        if shared.hub.termination().is_some() {
            return;
        }
        let background = &shared.background;
        background.sleep_until(Some(background.now() + LOOK_AGAIN)).await;
    }
}
