//! The instance of a singleton on this node: takes a term before it begins, carries the token, rests after a failure, is killed when
//! it does not stop. Who may have one is decided elsewhere. Spec: sharding 10.7, 10.13.
//!
//! A term counts once a majority of the members that are up has promised it; the others are asked until they have, so that whoever
//! comes later hears of it. A higher one makes this token void.

mod delivery;

pub(in crate::singleton) use delivery::{not_here, refuse};

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use crate::buffered::Buffered;
use crate::ident::UniqueAddress;
use crate::membership::state::member::Status;
use crate::reject::Rejection as AnyRejection;
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::ids::Slot;
use crate::singleton::protocol::{Body, Delivery, Event, Order, Rejection, Timer};
use crate::singleton::state::SingletonId;
use crate::singleton::voter::TERM_MAX;
use crate::singleton::{Cx, say};
use crate::time::Instant;
use crate::token::Token;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    slot: Slot,
    token: Token,
    since: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// There is none, and none is wanted.
    Absent,
    /// It is to begin as soon as nothing holds it up.
    Wanted,
    /// It begins as soon as the term is taken.
    Claiming,
    Running(Run),
    /// It is told to stop.
    Stopping(Run),
    /// It failed; the next one begins after a rest.
    Resting,
}

/// See the module.
#[derive(Clone, Debug)]
pub(in crate::singleton) struct Instance {
    id: SingletonId,
    /// The singleton's own index on this node.
    index: u32,
    generation: u32,
    life: Life,
    /// What runs or stops here was killed, or the last one was.
    killed: bool,
    /// The term that was claimed last; this node's while `claimed`.
    term: u64,
    claimed: bool,
    count: u64,
    /// The highest term this node has heard of.
    highest: u64,
    /// Counts the claims; answers to an earlier one are not heard.
    epoch: u64,
    promised: BTreeSet<UniqueAddress>,
    failures: u32,
    /// Proxies that asked where it is, with the number of their question.
    watchers: BTreeMap<UniqueAddress, u64>,
    /// What came while this process did not know whether it is still a member.
    /// With the time until which somebody waits, if it is an ask.
    held: VecDeque<(Option<Instant>, Delivery)>,
    held_bytes: usize,
}

impl Instance {
    pub(super) const fn new(id: SingletonId, index: u32) -> Self {
        Self {
            id,
            index,
            generation: 0,
            life: Life::Absent,
            killed: false,
            term: 0,
            claimed: false,
            count: 0,
            highest: 0,
            epoch: 0,
            promised: BTreeSet::new(),
            failures: 0,
            watchers: BTreeMap::new(),
            held: VecDeque::new(),
            held_bytes: 0,
        }
    }

    pub(in crate::singleton) const fn index(&self) -> u32 {
        self.index
    }

    /// Whether nothing of it runs here.
    pub(super) const fn is_absent(&self) -> bool {
        match self.life {
            Life::Absent | Life::Wanted | Life::Claiming | Life::Resting => true,
            Life::Running(_) | Life::Stopping(_) => false,
        }
    }

    /// The token of what runs or stops here.
    pub(in crate::singleton) const fn token(&self) -> Option<Token> {
        match self.life {
            Life::Running(run) | Life::Stopping(run) => Some(run.token),
            Life::Absent | Life::Wanted | Life::Claiming | Life::Resting => None,
        }
    }

    /// Whether the last one did not stop by itself.
    pub(super) const fn was_killed(&self) -> bool {
        self.killed
    }

    pub(in crate::singleton) fn buffered(&self) -> Buffered {
        Buffered {
            messages: self.held.len(),
            bytes: self.held_bytes,
        }
    }

    pub(super) const fn highest_term(&self) -> u64 {
        self.highest
    }

    /// This node has heard of a term: the next one is above it.
    pub(super) fn note_term(&mut self, term: u64) {
        self.highest = self.highest.max(term.min(TERM_MAX));
    }

    /// There is to be one.
    pub(super) fn want(&mut self, cx: &mut Cx<'_>, held_up: bool) {
        self.life = Life::Wanted;
        self.go_on(cx, held_up);
    }

    /// Takes the next step towards one, unless something holds it up.
    pub(super) fn go_on(&mut self, cx: &mut Cx<'_>, held_up: bool) {
        if held_up {
            return;
        }
        match self.life {
            Life::Wanted if self.claimed => self.run(cx),
            Life::Wanted => self.claim(cx),
            Life::Claiming => self.run_if_promised(cx),
            Life::Absent | Life::Running(_) | Life::Stopping(_) | Life::Resting => {}
        }
    }

    fn claim(&mut self, cx: &mut Cx<'_>) {
        self.life = Life::Claiming;
        self.note_term(self.highest.saturating_add(1));
        self.term = self.highest;
        self.count = 0;
        self.epoch += 1;
        self.promised.clear();
        self.ask(cx);
    }

    /// Asks those who have not promised the term, now and until they have.
    fn ask(&self, cx: &mut Cx<'_>) {
        let missing: Vec<UniqueAddress> = voters(cx)
            .into_iter()
            .filter(|node| !self.promised.contains(node))
            .collect();
        if missing.is_empty() {
            return;
        }
        for node in missing {
            say(cx, &node, (self.id, self.epoch), Body::Claim { term: self.term });
        }
        let at = cx.mono() + cx.config().singleton.hand_over_retry_interval;
        cx.wake(Timer::Claim(self.id), at);
    }

    /// Time to ask again.
    pub(in crate::singleton) fn on_claim_timer(&self, cx: &mut Cx<'_>) {
        if self.claimed || self.life == Life::Claiming {
            self.ask(cx);
        }
    }

    /// A member promised.
    pub(in crate::singleton) fn on_promised(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        (epoch, term): (u64, u64),
        held_up: bool,
    ) {
        if epoch != self.epoch || term != self.term {
            return stale(cx, from);
        }
        self.promised.insert(from.clone());
        self.go_on(cx, held_up);
    }

    /// A member has promised a higher term.
    pub(in crate::singleton) fn on_refused(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        (epoch, held): (u64, u64),
        held_up: bool,
    ) {
        if epoch != self.epoch || held > TERM_MAX {
            return stale(cx, from);
        }
        self.note_term(held);
        if self.life == Life::Claiming {
            self.life = Life::Wanted;
            self.go_on(cx, held_up);
        } else {
            self.supersede(cx, held);
        }
    }

    /// This node itself has promised a term to somebody.
    pub(in crate::singleton) fn on_given(&mut self, cx: &mut Cx<'_>, to: &UniqueAddress, term: u64) {
        self.note_term(term);
        if to != cx.me() && term > self.term {
            self.supersede(cx, term);
        }
    }

    /// Somebody has a higher term: what runs here is told so, and begins nothing more.
    fn supersede(&mut self, cx: &mut Cx<'_>, term: u64) {
        self.claimed = false;
        if let Life::Running(run) = self.life {
            cx.counters().instances_superseded += 1;
            let token = run.token;
            cx.notify((self.id, Event::Superseded { token, term }));
            self.life = Life::Stopping(run);
            self.order_kill(cx, run);
            self.leave(cx, token);
        }
    }

    /// The members changed: new ones are asked, and those that are gone are not waited for.
    pub(super) fn on_members_changed(&mut self, cx: &mut Cx<'_>, held_up: bool) {
        let view = alloc::sync::Arc::clone(cx.view());
        self.watchers.retain(|node, _| view.member(node).is_some());
        self.promised.retain(|node| view.member(node).is_some());
        self.go_on(cx, held_up);
        if !cx.is_set(Timer::Claim(self.id)) {
            self.on_claim_timer(cx);
        }
    }

    fn run_if_promised(&mut self, cx: &mut Cx<'_>) {
        let voters = voters(cx);
        let promised = voters.iter().filter(|node| self.promised.contains(node)).count();
        if promised * 2 > voters.len() {
            self.claimed = true;
            cx.counters().terms_taken += 1;
            self.run(cx);
        }
    }

    fn run(&mut self, cx: &mut Cx<'_>) {
        self.count += 1;
        self.generation = self.generation.wrapping_add(1);
        let slot = Slot {
            index: self.index,
            generation: self.generation,
        };
        let token = Token::new(self.term, self.count);
        let since = cx.mono();
        self.life = Life::Running(Run { slot, token, since });
        self.killed = false;
        cx.counters().instances_started += 1;
        let singleton = self.id;
        cx.order_instance(Order::Start {
            slot,
            singleton,
            token,
        });
        cx.notify((self.id, Event::Started { token }));
        for (node, epoch) in &self.watchers {
            say(cx, node, (self.id, *epoch), Body::Identified { token });
        }
    }

    /// It is to stop, and is killed if that takes longer than usual; says whether it has ended by that.
    pub(super) fn stop(&mut self, cx: &mut Cx<'_>) -> bool {
        let timeout = cx.config().singleton.stop_timeout;
        self.stop_within(cx, timeout)
    }

    /// It is to stop, and is killed if that takes so long; says whether it has ended by that.
    pub(super) fn stop_within(&mut self, cx: &mut Cx<'_>, timeout: Duration) -> bool {
        self.claimed = false;
        match self.life {
            Life::Absent | Life::Wanted | Life::Claiming | Life::Resting => {
                self.life = Life::Absent;
                cx.cancel(Timer::Claim(self.id));
                cx.cancel(Timer::Restart(self.id));
                true
            }
            Life::Running(run) => {
                self.life = Life::Stopping(run);
                cx.order_instance(Order::Stop { slot: run.slot });
                cx.wake(Timer::StopLate(self.id), cx.mono() + timeout);
                self.leave(cx, run.token);
                false
            }
            Life::Stopping(_) => {
                let at = cx.mono() + timeout;
                if cx.due(Timer::StopLate(self.id)).is_some_and(|set| set > at) {
                    cx.wake(Timer::StopLate(self.id), at);
                }
                false
            }
        }
    }

    /// It has not stopped in time.
    pub(super) fn on_stop_late(&mut self, cx: &mut Cx<'_>) {
        if let Life::Stopping(run) = self.life {
            cx.counters().instances_killed += 1;
            cx.notify((self.id, Event::StopTimeout { token: run.token }));
            self.order_kill(cx, run);
        }
    }

    fn order_kill(&mut self, cx: &mut Cx<'_>, run: Run) {
        self.killed = true;
        cx.order_instance(Order::Kill { slot: run.slot });
    }

    /// What runs or stops here is to end at once.
    pub(super) fn kill_running(&mut self, cx: &mut Cx<'_>) {
        match self.life {
            Life::Running(_) | Life::Stopping(_) => self.kill(cx),
            Life::Absent | Life::Wanted | Life::Claiming | Life::Resting => {}
        }
    }

    /// It is to stop at once, and nothing follows.
    pub(super) fn kill(&mut self, cx: &mut Cx<'_>) {
        self.claimed = false;
        match self.life {
            Life::Running(run) | Life::Stopping(run) => {
                self.life = Life::Stopping(run);
                self.order_kill(cx, run);
                self.leave(cx, run.token);
            }
            Life::Absent | Life::Wanted | Life::Claiming | Life::Resting => self.life = Life::Absent,
        }
        for timer in [
            Timer::Claim(self.id),
            Timer::Restart(self.id),
            Timer::StopLate(self.id),
        ] {
            cx.cancel(timer);
        }
    }

    /// The host says that one has ended; says whether it was the present one. If this node is `responsible` and the end was
    /// not asked for, the next one begins after a rest.
    pub(super) fn on_stopped(&mut self, cx: &mut Cx<'_>, slot: Slot, responsible: bool) -> bool {
        let (run, by_itself) = match self.life {
            Life::Running(run) => (run, true),
            Life::Stopping(run) => (run, false),
            Life::Absent | Life::Wanted | Life::Claiming | Life::Resting => return false,
        };
        if run.slot != slot {
            return false;
        }
        let token = run.token;
        cx.cancel(Timer::StopLate(self.id));
        cx.counters().instances_stopped += 1;
        if by_itself {
            cx.counters().instances_failed += 1;
            self.leave(cx, token);
        }
        self.life = Life::Absent;
        if !responsible {
            cx.notify((self.id, Event::Stopped { token }));
            return true;
        }
        let restart_after = self.rest(cx, cx.mono().since(run.since));
        cx.notify((self.id, Event::Failed { token, restart_after }));
        true
    }

    /// The next one begins later: after twice the time of the last failure, unless this one ran for long.
    fn rest(&mut self, cx: &mut Cx<'_>, ran: Duration) -> Duration {
        let config = &cx.config().singleton;
        let (min, max) = (config.restart_backoff_min, config.restart_backoff_max);
        if ran >= max {
            self.failures = 0;
        }
        // 2^20 times a microsecond is a second: beyond, the longest rest is reached by any setting.
        let rest = min.saturating_mul(1 << self.failures.min(20)).min(max);
        self.failures = self.failures.saturating_add(1);
        self.life = Life::Resting;
        cx.wake(Timer::Restart(self.id), cx.mono() + rest);
        rest
    }

    /// Tells proxies that it takes nothing any more, and gives back what it did not get.
    fn leave(&mut self, cx: &mut Cx<'_>, token: Token) {
        for (node, epoch) in core::mem::take(&mut self.watchers) {
            say(cx, &node, (self.id, epoch), Body::Gone { token });
        }
        self.held_bytes = 0;
        for (_, delivery) in core::mem::take(&mut self.held) {
            refuse(cx, delivery, AskFailure::EntityStoppedUnhandled);
        }
    }

    /// A proxy asks where it is. If it is not there yet, the answer follows when it is.
    pub(in crate::singleton) fn on_identify(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, epoch: u64) {
        self.watchers.insert(from.clone(), epoch);
        if let Life::Running(Run { token, .. }) = self.life {
            say(cx, from, (self.id, epoch), Body::Identified { token });
        }
    }
}

/// Members that vote about terms: all that were Up and neither are Down nor end. Who ends tells its successor the term itself.
fn voters(cx: &Cx<'_>) -> Vec<UniqueAddress> {
    let votes = |status| match status {
        Status::Up | Status::PreparingForShutdown | Status::ReadyForShutdown | Status::Leaving => true,
        Status::Joining | Status::WeaklyUp | Status::Exiting | Status::Down | Status::Removed => false,
    };
    let members = cx.view().by_age(None);
    let voting = members.iter().filter(|member| votes(member.status));
    voting.map(|member| member.node.clone()).collect()
}

fn stale(cx: &mut Cx<'_>, from: &UniqueAddress) {
    cx.counters().answers_stale += 1;
    cx.reject(from, AnyRejection::Singleton(Rejection::StaleEpoch));
}
