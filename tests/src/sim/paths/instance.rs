//! The instances of paths on the simulated hosts: a mailbox each, one message at a time. Decides only how
//! long they take and how they fail.

use std::collections::VecDeque;

use quorate_core::effect::{HostOrder, HostedInstance};
use quorate_core::input::{HostReport, Input};
use quorate_core::owner::Requester;
use quorate_core::paths::state::name::PathId;
use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::{AskRef, EntityId, Payload, Slot};
use quorate_core::token::Token;

use super::{PathHappening, PathKind};
use crate::invariants::{Cause, PathHandled, i_44};
use crate::sim::engine::{Happening, Sim};
use crate::sim::history::{ProcessId, Whereabouts, message_number};
use crate::sim::trace::Show;

/// Messages one mailbox takes. Small, so that a slow instance really refuses some.
const MAILBOX_MAX: usize = 32;
/// How soon an instance that must not begin looks again.
const LOOK_AGAIN: u64 = 20_000;
/// An instance that never runs gives up after so long.
const NEVER: u64 = 8_000_000;

#[derive(Debug)]
struct SlotLetter {
    payload: Payload,
    reply_to: Option<AskRef>,
}

/// One instance.
#[derive(Debug)]
pub(crate) struct PathInstance {
    pub(crate) path: PathId,
    pub(crate) number: u16,
    pub(crate) token: Token,
    pub(crate) runs: bool,
    /// It fails when its start is over.
    never_runs: bool,
    mailbox: VecDeque<SlotLetter>,
    /// It was told to stop, and whether it leaves its state.
    pub(crate) stops: Option<bool>,
    /// It cleans up.
    ends: bool,
    handled: u64,
    busy: bool,
}

impl Sim {
    /// The node wants something done with an instance of a path.
    pub(crate) fn on_path_order(&mut self, process: ProcessId, order: HostOrder) {
        self.trace.begin(self.now, process, b'P');
        match &order {
            // A state may be long.
            HostOrder::Start { slot, .. } => self.trace.debug(slot),
            HostOrder::Deliver { .. }
            | HostOrder::Stop { .. }
            | HostOrder::StopWithState { .. }
            | HostOrder::Kill { .. } => self.trace.debug(&order),
        }
        match order {
            HostOrder::Start { slot, instance } => self.start_path(process, slot, instance),
            HostOrder::Deliver {
                slot,
                payload,
                reply_to,
                ..
            } => self.deliver_to_path(process, slot, SlotLetter { payload, reply_to }),
            HostOrder::Stop { slot } => self.stop_path(process, slot, false),
            HostOrder::StopWithState { slot } => self.stop_path(process, slot, true),
            HostOrder::Kill { slot } => {
                if self.has_path(process, slot) {
                    self.end_path(process, slot, AskFailure::EntityStoppedUnhandled);
                }
            }
        }
    }

    fn has_path(&self, process: ProcessId, slot: Slot) -> bool {
        self.processes[process as usize].hosted.contains_key(&slot)
    }

    fn start_path(&mut self, process: ProcessId, slot: Slot, instance: HostedInstance) {
        let HostedInstance::Path {
            path,
            slot: number,
            token,
            state,
        } = instance
        else {
            return self.violated("I-51", process, format!("starts {instance:?} as a path"));
        };
        let kind = PathKind::of(path).map_or("?", |kind| kind.name);
        let bytes = state.as_ref().map(|state| state.len());
        self.fact(
            process,
            format_args!("starts {kind} {number} with token {token}, state {bytes:?}"),
        );
        let must_have = self.awaits_state(process, path, number, token);
        let (safe, at) = (self.assumptions.safe(), (path, number));
        let started =
            self.checks
                .i51
                .on_start((process, slot), at, token, state.as_deref(), (safe, must_have));
        match started {
            Ok(overlaps) => self.paths.counts.overlaps += overlaps,
            Err(what) => return self.violated("I-51", process, what),
        }
        self.unrest_at(process, path, number);
        let never_runs = self.paths.oddly(15);
        let is_slow = self.paths.oddly(60);
        let wait = match (never_runs, is_slow) {
            (true, _) => (NEVER, NEVER),
            (false, true) => (300_000, 2_900_000),
            (false, false) => (10, 30_000),
        };
        self.paths.counts.never_ran += u64::from(never_runs);
        let instance = PathInstance {
            path,
            number,
            token,
            runs: false,
            never_runs,
            mailbox: VecDeque::new(),
            stops: None,
            ends: false,
            handled: 0,
            busy: true,
        };
        self.processes[process as usize].hosted.insert(slot, instance);
        self.path_turn(process, slot, wait);
    }

    /// Whether an instance with this token has to be given what an earlier one left.
    fn awaits_state(&self, process: ProcessId, path: PathId, number: u16, token: Token) -> bool {
        let host = &self.processes[process as usize];
        let entry = host.node.view().gossip().paths().by_id(path);
        let change = entry.and_then(|entry| entry.last_move(usize::from(number)));
        change.is_some_and(|change| {
            change.options.transfer
                && change.from.is_some()
                && change.to.as_ref() == Some(&host.me)
                && change.token(&host.me) == token
                && !self.checks.i51.ran_before(process, path, number, token)
        })
    }

    fn deliver_to_path(&mut self, process: ProcessId, slot: Slot, letter: SlotLetter) {
        let host = &mut self.processes[process as usize];
        let Some(instance) = host.hosted.get_mut(&slot) else {
            // It has ended, and its node has not heard of it yet.
            let reason = AskFailure::EntityStoppedUnhandled;
            let ask = letter.reply_to;
            return self.report_path(process, HostReport::Refused { slot, ask, reason }, 1);
        };
        if instance.mailbox.len() >= MAILBOX_MAX {
            let (ask, reason) = (letter.reply_to, AskFailure::MailboxFull);
            return self.report_path(process, HostReport::Refused { slot, ask, reason }, 1);
        }
        let number = message_number(&letter.payload);
        instance.mailbox.push_back(letter);
        let schedule = instance.runs && !core::mem::replace(&mut instance.busy, true);
        if let Some(message) = number.and_then(|at| self.history.messages.get_mut(at)) {
            message.whereabouts = Whereabouts::Mailbox(process);
            if let Err(what) = i_44::on_delivered(message, self.now) {
                return self.violated("I-44", process, format!("message {number:?} {what}"));
            }
        }
        if schedule {
            self.path_turn(process, slot, (10, 2_000));
        }
    }

    fn stop_path(&mut self, process: ProcessId, slot: Slot, with_state: bool) {
        let Some(instance) = self.processes[process as usize].hosted.get_mut(&slot) else {
            return;
        };
        instance.stops = Some(with_state);
        let hangs = instance.never_runs;
        let (path, number) = (instance.path, instance.number);
        let schedule = instance.runs && !core::mem::replace(&mut instance.busy, true);
        self.unrest_at(process, path, number);
        if schedule {
            self.path_turn(process, slot, (10, 2_000));
        } else if hangs {
            // Nobody can make it: it is given up.
            self.end_path(process, slot, AskFailure::EntityStoppedUnhandled);
        }
    }

    fn path_turn(&mut self, process: ProcessId, slot: Slot, (low, high): (u64, u64)) {
        let at = self.now + self.paths.chance.between(low, high);
        let turn = PathHappening::Turn { process, slot };
        self.queue.push(at, Happening::Path(Box::new(turn)));
    }

    fn report_path(&mut self, process: ProcessId, report: HostReport, wait: u64) {
        let reported = PathHappening::Reported { process, report };
        self.queue
            .push(self.now + wait, Happening::Path(Box::new(reported)));
    }

    pub(crate) fn on_path(&mut self, happening: PathHappening) {
        match happening {
            PathHappening::Turn { process, slot } => self.on_path_turn(process, slot),
            PathHappening::Reported { process, report } => self.on_path_reported(process, report),
        }
    }

    fn on_path_reported(&mut self, process: ProcessId, report: HostReport) {
        if !self.processes[process as usize].runs() {
            return;
        }
        self.trace.begin(self.now, process, b'E');
        if let HostReport::State { slot, state } = &report {
            self.trace.debug(&(slot, state.len()));
        } else {
            self.trace.debug(&report);
            if self.trace.shows(Show::Everything) {
                self.say(process, format_args!("{report:?}"));
            }
        }
        self.feed(process, &Cause::Entity, Input::Host(Requester::Path, report));
    }

    fn on_path_turn(&mut self, process: ProcessId, slot: Slot) {
        let may_begin = self.processes[process as usize].may_begin(self.now);
        let Some(instance) = self.processes[process as usize].hosted.get_mut(&slot) else {
            return;
        };
        let (path, number) = (instance.path, instance.number);
        if !instance.runs {
            if instance.never_runs {
                return self.end_path(process, slot, AskFailure::EntityStoppedUnhandled);
            }
            instance.runs = true;
            self.path_turn(process, slot, (10, 1_000));
            self.unrest_at(process, path, number);
            return self.on_path_reported(process, HostReport::Running { slot });
        }
        if !may_begin && (!instance.mailbox.is_empty() || instance.stops.is_some()) {
            return self.path_turn(process, slot, (LOOK_AGAIN, LOOK_AGAIN));
        }
        if let Some(letter) = instance.mailbox.pop_front() {
            return self.handle_in_path(process, slot, letter);
        }
        match instance.stops {
            None => instance.busy = false,
            Some(_) if !core::mem::replace(&mut instance.ends, true) => {
                // Longer than an instance may take to stop, now and then.
                let is_slow = self.paths.oddly(60);
                self.paths.counts.stopped_late += u64::from(is_slow);
                let wait = if is_slow {
                    (300_000, 3_000_000)
                } else {
                    (10, 20_000)
                };
                self.path_turn(process, slot, wait);
            }
            Some(with_state) => {
                if with_state {
                    self.leave_state(process, slot);
                }
                self.end_path(process, slot, AskFailure::EntityStoppedUnhandled);
            }
        }
    }

    fn leave_state(&mut self, process: ProcessId, slot: Slot) {
        let is_large = self.paths.chance.per_mille(100);
        let filler = self.paths.chance.between(0, if is_large { 600_000 } else { 64 });
        let Some(instance) = self.processes[process as usize].hosted.get(&slot) else {
            return;
        };
        let mut state = format!("{}/{} ", instance.token, instance.handled).into_bytes();
        if filler > 0 {
            let length = state.len() + usize::try_from(filler).unwrap_or(0);
            state.resize(length, 0x5A);
            state.push(b'.');
        }
        let at = (instance.path, instance.number);
        self.checks.i51.on_left(at, &state);
        self.paths.counts.states_left += 1;
        let state = state.into();
        self.on_path_reported(process, HostReport::State { slot, state });
    }

    fn handle_in_path(&mut self, process: ProcessId, slot: Slot, letter: SlotLetter) {
        let Some(instance) = self.processes[process as usize].hosted.get_mut(&slot) else {
            return;
        };
        instance.handled += 1;
        let (path, number, token) = (instance.path, instance.number, instance.token);
        if let Err((invariant, what)) = self.check_handled(process, (path, number, token), &letter.payload) {
            return self.violated(invariant, process, what);
        }
        let is_slow = self.paths.oddly(10);
        let fails = self.paths.oddly(3);
        let (result, wait) = (
            if fails {
                Err(AskFailure::EntityStopped)
            } else {
                Ok(letter.payload)
            },
            if is_slow { (50_000, 400_000) } else { (10, 2_000) },
        );
        self.path_turn(process, slot, wait);
        if let Some(ask) = letter.reply_to {
            self.on_path_reported(process, HostReport::Answered { ask, result });
        }
        if fails {
            self.paths.counts.failures += 1;
            self.end_path(process, slot, AskFailure::EntityStoppedUnhandled);
        }
    }

    fn check_handled(
        &mut self,
        process: ProcessId,
        (path, number, token): (PathId, u16, Token),
        payload: &[u8],
    ) -> Result<(), (&'static str, String)> {
        let kind = PathKind::of(path).ok_or(("I-51", format!("handles a message of {path:?}")))?;
        let sent =
            super::work::Sent::read(payload).ok_or(("I-44", "a payload lost its number".to_owned()))?;
        if let Some(at) = sent.message {
            let name = EntityId::from(kind.name);
            let handled = self.checks.i44.on_handled(&mut self.history, at, Some(&name));
            handled.map_err(|what| ("I-44", what))?;
        }
        let sure = self.checks.i52.on_handled(process, self.now);
        sure.map_err(|what| ("I-52", what))?;
        let host = &self.processes[process as usize];
        let handled = PathHandled {
            process,
            path,
            slot: number,
            token,
            options: kind.handoff,
            sender: sent.sender,
            order: sent.order,
            safe: self.assumptions.safe(),
            view: host.node.view(),
        };
        let lags_behind = |next: ProcessId| {
            let next = &self.processes[next as usize];
            next.node.view().is_removed(&host.me) || next.node.view().member(&host.me).is_none()
        };
        let found = self.checks.i51.on_handled(&handled, &lags_behind);
        self.paths.counts.overlaps +=
            found.map_err(|what| ("I-51", format!("{} {number}: {what}", kind.name)))?;
        Ok(())
    }

    /// An instance ends, with all that waits for it.
    fn end_path(&mut self, process: ProcessId, slot: Slot, why: AskFailure) {
        let Some(instance) = self.processes[process as usize].hosted.remove(&slot) else {
            return;
        };
        self.checks.i51.on_ended(process, slot);
        self.unrest_at(process, instance.path, instance.number);
        for letter in instance.mailbox {
            self.history.message_is(&letter.payload, Whereabouts::Destroyed);
            if let Some(ask) = letter.reply_to {
                let result = Err(why);
                self.report_path(process, HostReport::Answered { ask, result }, 1);
            }
        }
        let wait = self.paths.chance.between(10, 3_000);
        self.report_path(process, HostReport::Stopped { slot }, wait);
    }

    /// A process has ended, and its instances with it.
    pub(crate) fn bury_paths(&mut self, process: ProcessId) {
        self.processes[process as usize].hosted.clear();
        self.checks.i51.process_ended(process);
    }
}
