//! Where the pump is while the loop takes no turn, so that whoever has one thing to say can have it said on
//! its own thread: one command or report, and the writes that come of it. Everything else that comes of it is
//! the loop's, which is woken. Nobody waits for the pump but the loop, and who waits is next. Spec:
//! `docs/adr/0024-who-has-one-thing-to-say-takes-the-turn.md`.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use async_channel::Receiver;
use quorate_core::time::{Instant, Now};
use quorate_core::view::View;
use quorate_links::{LinkInput, LinkOrder};

use super::WRITES_PER_TURN;
use super::link::LinkTable;
use crate::commands::UserCommand;
use crate::mailbox::Reported;
use crate::pump::{LoopAction, Pump};
use crate::shortcut::Shortcut;
use crate::sync::{Notify, lock};

/// The pump, and what whoever holds it leaves to the loop.
pub(super) struct StandingPump {
    pub(super) pump: Pump,
    /// For the loop to do, before what the pump says next. Of one message at most: nobody is let in before it
    /// is done.
    pub(super) later: VecDeque<LoopAction>,
    /// Until when the loop sleeps.
    pub(super) until: Option<Instant>,
    /// What users see.
    pub(super) shown: Option<Arc<View>>,
    /// What callers have put down for the loop.
    pub(super) user: Receiver<UserCommand>,
    links: Arc<LinkTable>,
}

impl StandingPump {
    pub(super) fn new(pump: Pump, user: Receiver<UserCommand>, links: Arc<LinkTable>) -> Self {
        Self {
            pump,
            later: VecDeque::new(),
            until: None,
            shown: None,
            user,
            links,
        }
    }

    /// Whether an ask may come in now: it is the next thing in any case, and nobody else waits for an answer.
    /// Callers who do are answered together and ask together: their asks are better written together.
    fn takes_ask(&mut self) -> bool {
        self.pump.has_no_asks() && self.is_idle() && self.pump.takes_user_commands()
    }

    /// The same for what something that runs here has said.
    fn takes_report(&self) -> bool {
        self.is_idle() && self.pump.is_quiet()
    }

    /// Whether the loop would find nothing to do, and it does not look as if it soon would.
    fn is_idle(&self) -> bool {
        self.pump.is_one_at_a_time() && self.user.is_empty() && self.later.is_empty() && !self.pump.has_work()
    }

    /// Writes what the node has said, and what has room by that. All else is left to the loop. Whether there
    /// may be more to write.
    fn write(&mut self) -> bool {
        for _ in 0..WRITES_PER_TURN {
            self.pump.flush();
            if !self.write_once() {
                return false;
            }
        }
        true
    }

    /// Whether something was written at once.
    fn write_once(&mut self) -> bool {
        let mut has_written = false;
        while let Some(action) = self.pump.next_action() {
            if let LoopAction::Link(LinkOrder::Write { link, bytes }) = action {
                let control = self.links.get(link);
                if let Some(buffer) = control.and_then(|control| control.write(bytes, true)) {
                    self.pump.link(LinkInput::Written(link, buffer));
                    has_written = true;
                }
            } else {
                self.later.push_back(action);
            }
        }
        has_written
    }

    /// Whether the loop has to look: there is something for it to do, or it sleeps for too long.
    fn needs_loop(&self) -> bool {
        let is_too_late = match (self.pump.deadline(), self.until) {
            (Some(at), Some(until)) => at < until,
            (at, None) => at.is_some(),
            (None, Some(_)) => false,
        };
        let is_shown = |shown| Arc::ptr_eq(shown, self.pump.view());
        is_too_late
            || !self.later.is_empty()
            || !self.shown.as_ref().is_some_and(is_shown)
            || self.pump.has_work()
    }
}

/// See the module.
pub(super) struct PumpPlace {
    standing: Mutex<Option<StandingPump>>,
    /// The loop waits for its turn.
    loop_waits: AtomicBool,
    /// Whoever held the pump has panicked.
    is_broken: AtomicBool,
    wake: Arc<Notify>,
    clock: Box<dyn Fn() -> Now + Send + Sync>,
}

impl PumpPlace {
    pub(super) fn new(
        standing: StandingPump,
        wake: Arc<Notify>,
        clock: impl Fn() -> Now + Send + Sync + 'static,
    ) -> Self {
        Self {
            standing: Mutex::new(Some(standing)),
            loop_waits: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
            wake,
            clock: Box::new(clock),
        }
    }

    /// The loop's turn, as soon as whoever holds the pump has said its one thing. `None`: it has been taken
    /// away.
    pub(super) fn turn(&self) -> MutexGuard<'_, Option<StandingPump>> {
        self.loop_waits.store(true, Ordering::SeqCst);
        let standing = lock(&self.standing);
        self.loop_waits.store(false, Ordering::SeqCst);
        standing
    }

    /// Takes the pump away for good.
    pub(super) fn take(&self) -> Option<StandingPump> {
        self.turn().take()
    }

    /// Whether somebody panicked who held the pump: what it says from then on is worth nothing.
    pub(super) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::SeqCst)
    }

    /// Has one thing said here and now, unless somebody holds the pump or it may not be.
    pub(super) fn have_said<T>(
        &self,
        thing: T,
        may: impl FnOnce(&mut StandingPump) -> bool,
        give: impl FnOnce(&mut Pump, T),
    ) -> Result<(), T> {
        if self.loop_waits.load(Ordering::SeqCst) || self.is_broken() {
            return Err(thing);
        }
        let Ok(mut place) = self.standing.try_lock() else {
            return Err(thing);
        };
        let Some(standing) = place.as_mut() else {
            return Err(thing);
        };
        if !may(standing) {
            return Err(thing);
        }
        let now = (self.clock)();
        let said = catch_unwind(AssertUnwindSafe(|| {
            standing.pump.set_time(now);
            give(&mut standing.pump, thing);
            standing.write() || standing.needs_loop()
        }));
        if said.is_err() {
            self.is_broken.store(true, Ordering::SeqCst);
        }
        let woken = standing.pump.take_woken();
        drop(place);
        woken.wake();
        if said.unwrap_or(true) {
            self.wake.notify();
        }
        Ok(())
    }
}

/// Of one of this node's callers.
impl Shortcut<UserCommand> for PumpPlace {
    fn say(&self, ask: UserCommand) -> Result<(), UserCommand> {
        self.have_said(ask, StandingPump::takes_ask, Pump::user)
    }
}

/// Of something that runs here.
impl Shortcut<Reported> for PumpPlace {
    fn say(&self, reported: Reported) -> Result<(), Reported> {
        let give = |pump: &mut Pump, (owner, report)| pump.report(owner, report);
        self.have_said(reported, |standing| standing.takes_report(), give)
    }
}

impl fmt::Debug for PumpPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PumpPlace")
            .field("is_broken", &self.is_broken)
            .finish_non_exhaustive()
    }
}
