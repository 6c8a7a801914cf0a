//! The coordinator and its log: claims it when it starts, writes what has changed, begins anew when it was
//! refused, and gives shards back to the homes that are stored. Never acts on what the log has not said, or
//! on a log that it cannot read. Spec: sharding 1.1 (ddata-mode write rule, persistent mode), 10.16.

use alloc::vec::Vec;
use core::time::Duration;

use super::ledger::LedgerAnswer;
use super::record::PlacedHome;
use super::{Coordinator, CoordinatorTenure};
use crate::effect::Answer as AnyAnswer;
use crate::event::ShardingEvent;
use crate::ident::UniqueAddress;
use crate::input::{Command as AnyCommand, StoreAsk};
use crate::journal::protocol::{Answer, Command, JournalCommandError};
use crate::journal::state::WriterError;
use crate::rng;
use crate::sharding::Cx;
use crate::sharding::protocol::StoreUser;
use crate::sharding::state::ids::ShardId;
use crate::timer::CoordinatorTimer;

/// How far the wait after a refusal grows, as a multiple of the first.
const BACKOFF_MAX: u32 = 5;

impl Coordinator {
    /// Claims the log and has it read, beside asking regions.
    pub(super) fn claim_log(&mut self, cx: &mut Cx<'_>) {
        if !self.ledger.is_durable() {
            return;
        }
        let opener = rng::number(cx.rng());
        let command = self.ledger.open(opener, self.outdone.term);
        self.order(cx, command);
    }

    /// Owns the log no more.
    pub(super) fn give_up_log(&mut self, cx: &mut Cx<'_>) {
        if let Some(command) = self.ledger.close() {
            self.ask_log(cx, command);
        }
    }

    /// Has what has changed written, if nothing is on its way. Not before everybody has spoken: until then
    /// what regions claim is not compared with what is stored.
    pub(super) fn write(&mut self, cx: &mut Cx<'_>) {
        if !self.is_active() || !self.ledger.is_durable() {
            return;
        }
        let placement = |shard: ShardId| self.places.placement(shard).cloned();
        match self.ledger.next(self.kind.config.snapshot_after, placement) {
            Ok(Some(command)) => self.order(cx, command),
            Ok(None) => {}
            Err(_) => self.rest(cx, JournalCommandError::Refused(WriterError::TooLarge)),
        }
    }

    /// Asks the quorum logs of this node. What is asked is answered once, under the number of who opened the
    /// log.
    fn ask_log(&self, cx: &mut Cx<'_>, command: Command) {
        let ask = StoreAsk {
            kind: self.kind.id,
            user: StoreUser::CoordinatorLog,
            request: self.ledger.opener(),
            part: 0,
        };
        cx.ask_store(ask, AnyCommand::Journal(command));
    }

    fn order(&mut self, cx: &mut Cx<'_>, command: Command) {
        self.ask_log(cx, command);
        self.late = 0;
        self.watch_log(cx);
    }

    /// Looks whether the log answers in time.
    fn watch_log(&self, cx: &mut Cx<'_>) {
        let settings = &self.kind.config;
        let timeout = match self.ledger.awaits() {
            None => return,
            Some(false) => settings.waiting_for_state_timeout,
            Some(true) => settings.updating_state_timeout,
        };
        self.wake(cx, CoordinatorTimer::State, timeout);
    }

    /// The log owes an answer for long, or the wait after a refusal is over.
    pub(super) fn on_state_timer(&mut self, cx: &mut Cx<'_>) {
        if self.tenure == CoordinatorTenure::Resting {
            self.tenure = CoordinatorTenure::Idle;
            return self.consider_takeover(cx);
        }
        let Some(writing) = self.ledger.awaits() else {
            return;
        };
        // The log asks its voters again by itself, until it is answered: this is for people.
        self.late = self.late.saturating_add(1);
        let times = self.late;
        cx.counters().state_answers_late += 1;
        if times.is_power_of_two() {
            self.notify(cx, ShardingEvent::CoordinatorStateLate { writing, times });
        }
        self.watch_log(cx);
    }

    /// The log answers one who opened it.
    pub(crate) fn on_log_answer(&mut self, cx: &mut Cx<'_>, ask: StoreAsk, answer: AnyAnswer) {
        if !self.ledger.is_opener(ask.request) {
            return;
        }
        if let Some(answer) = answer.of_log() {
            self.on_log(cx, answer);
        }
    }

    fn on_log(&mut self, cx: &mut Cx<'_>, answer: Result<Answer, JournalCommandError>) {
        cx.cancel(self.timer(CoordinatorTimer::State));
        cx.counters().state_writes += u64::from(matches!(answer, Ok(Answer::Appended { .. })));
        match (self.ledger.on_answer(&answer), answer) {
            (LedgerAnswer::Opened, _) => {
                self.try_activate(cx);
                self.store(cx);
            }
            (LedgerAnswer::Stored, _) => self.store(cx),
            (LedgerAnswer::Damaged, _) => {
                self.give_up_log(cx);
                cx.counters().states_damaged += 1;
                self.notify(cx, ShardingEvent::CoordinatorStateDamaged);
            }
            (LedgerAnswer::Refused, Err(error)) => self.rest(cx, error),
            (LedgerAnswer::Passed | LedgerAnswer::Refused, _) => {}
        }
    }

    /// The log does not serve this coordinator: another one has it, or cannot hold it. All that was decided
    /// and not told is void.
    fn rest(&mut self, cx: &mut Cx<'_>, error: JournalCommandError) {
        let Some(term) = self.term().cloned() else {
            return;
        };
        cx.counters().coordinators_refused += 1;
        self.notify(cx, ShardingEvent::CoordinatorRefused { term, error });
        self.halt(cx);
        self.tenure = CoordinatorTenure::Resting;
        self.rejections = self.rejections.saturating_add(1);
        let least = self.kind.config.coordinator_failure_backoff;
        let wait = least.saturating_mul(self.rejections.min(BACKOFF_MAX));
        let after = wait + drawn(cx, wait / 5);
        self.wake(cx, CoordinatorTimer::State, after);
    }

    /// Everybody has spoken: shards that nobody runs go where the log says, and wait for nodes that may still
    /// come back. Those of a member that was removed have no home.
    pub(super) fn honour_stored(&mut self, cx: &mut Cx<'_>) {
        for PlacedHome { token, .. } in self.ledger.stored().values() {
            self.tokens.hear_of(*token);
        }
        let claimed: Vec<ShardId> = self.places.homes().map(|(shard, _)| shard).collect();
        for shard in claimed {
            self.renew_unless_stored(cx, shard);
        }
        let view = alloc::sync::Arc::clone(cx.view());
        for (shard, PlacedHome { node: home, .. }) in self.ledger.stored() {
            let is_known = self.places.has_home(*shard) || self.hand_offs.contains_key(shard);
            if is_known || !self.kind.has(*shard) {
                continue;
            }
            let is_back = self.regions.keys().any(|node| node.address() == home.address());
            if is_back || !(view.is_removed(home) || self.without_region.contains(home)) {
                self.places.wait_for(*shard, home.clone());
            }
        }
        let gone: Vec<ShardId> = self.ledger.stored().keys().copied().collect();
        for shard in gone {
            if !self.places.is_somewhere(shard) {
                self.ledger.note(shard);
            }
        }
        let returning: Vec<ShardId> = self.places.all_returning().map(|(shard, _)| shard).collect();
        if returning.is_empty() {
            return;
        }
        self.homeless.extend(returning);
        // A node that is cut off with its shards knows within the margin that it has to stop them.
        let margin = cx.config().removal_margin(view.members().len());
        let after = self.kind.config.home_return_timeout.max(margin);
        self.wake(cx, CoordinatorTimer::Returning, after);
    }

    /// A region has come, perhaps one that shards wait for.
    pub(super) fn welcome_back(&mut self, node: &UniqueAddress) {
        let waiting = self.places.all_returning();
        let its = waiting.filter(|(_, home)| home.address() == node.address());
        self.homeless.extend(its.map(|(shard, _)| shard));
    }

    /// Who has not come back by now is not waited for.
    pub(super) fn on_returning_timer(&mut self, cx: &mut Cx<'_>) {
        if !self.sees_enough(cx) {
            // Nobody could be given a shard: those that come may be the ones that are waited for.
            let after = self.kind.config.home_return_timeout;
            return self.wake(cx, CoordinatorTimer::Returning, after);
        }
        let given_up = self.places.give_up_returning();
        cx.counters().homes_given_up += given_up.len() as u64;
        for shard in given_up {
            self.ledger.note(shard);
        }
        self.allocate_requested(cx);
    }
}

/// A time up to this, so that two do not begin at once.
fn drawn(cx: &mut Cx<'_>, longest: Duration) -> Duration {
    let micros = usize::try_from(longest.as_micros()).unwrap_or(usize::MAX);
    Duration::from_micros(rng::below(cx.rng(), micros.max(1)) as u64)
}
