//! Exactly one instance of something in the whole cluster, on the oldest member of a role, with a token that
//! grows with every instance. This file holds the managers, the proxies and this node's vote, and hands each
//! message to its machine; it decides nothing. Spec: sharding 1.10, 1.11, 2.2, 10.7, 10.12, 10.13.
//!
//! `handover` has the rules of the hand-over as a pure function; `manager` does what it says, and
//! `manager/instance` takes the term and starts and stops, `manager/retirement` has a node that stays host it
//! no more; `voter` promises terms; `proxy` finds the instance for this node's users; `asks` are theirs;
//! `registration` has the cluster accept it first.

mod commands;
pub mod handover;
mod manager;
pub mod protocol;
mod proxy;
mod registration;
pub mod state;
mod voter;

use alloc::string::String;
use alloc::sync::Arc;

use crate::buffered::{BufferedLoad, BufferingMachine};
use crate::cx::OfSingleton;
use crate::effect::CommandError as AnyError;
use crate::ident::UniqueAddress;
use crate::input::{DropReason, HostReport, SendTarget};
use crate::lease::protocol::LeaseReport;
use crate::membership::state::member::Status;
use crate::messaging::{Asks, answer, answer_again, may_send, unsent};
use crate::ordered::OrderedMap;
use crate::reject::Rejection as AnyRejection;
use crate::sharding::state::errors::AskFailure;
use crate::singleton::manager::SingletonManager;
use crate::singleton::manager::instance::{not_here, refuse};
use crate::singleton::protocol::{
    Event, InstanceMessage, Msg, SingletonBody, SingletonCommandError, SingletonSettings, SingletonStatement,
    Timer,
};
use crate::singleton::proxy::{SingletonProxy, fail};
use crate::singleton::registration::SingletonRegistration;
use crate::singleton::state::{SingletonId, SingletonState};
use crate::singleton::voter::{PromiseGiven, TermVoter};
use crate::store::StoreReport;
use crate::view::{MembershipPhase, View};

pub use crate::singleton::voter::{ask_promise, lower_promise};

/// What the machine may touch outside itself.
pub(crate) type Cx<'a> = crate::cx::Cx<'a, OfSingleton>;

/// Singletons one node may host or reach: each costs a timer, a question per second while it is looked for,
/// and a look at every change of the members.
pub const SINGLETONS_MAX: usize = 256;

/// A singleton on this node.
#[derive(Clone, Debug)]
struct SingletonEntry {
    settings: SingletonSettings,
    registration: SingletonRegistration,
    proxy: SingletonProxy,
    /// `None` on a node that only reaches it.
    manager: Option<SingletonManager>,
    /// The downing strategy, if it lets both sides of a partition run an instance.
    may_run_twice: Option<&'static str>,
}

/// Everything a node knows about singletons. Users see it through [`Singletons::state`].
#[derive(Clone, Debug, Default)]
pub struct Singletons {
    entries: OrderedMap<SingletonId, SingletonEntry>,
    /// The index of the next manager; none is taken away again.
    next_index: u32,
    asks: Asks<SingletonId>,
    voter: TermVoter,
    draining: bool,
    drained: bool,
    halted: bool,
    /// This process stood still, and nobody has counted it in since.
    paused: bool,
}

impl Singletons {
    /// A singleton here, now; `None` if this node has not registered it.
    #[must_use]
    pub fn state(&self, singleton: SingletonId) -> Option<SingletonState> {
        let entry = self.entries.get(&singleton)?;
        let manager = entry.manager.as_ref();
        Some(SingletonState {
            phase: manager.map(SingletonManager::phase),
            running: manager.and_then(|manager| manager.instance.token()),
            head: entry.proxy.head().cloned(),
            target: entry.proxy.target().cloned(),
            waiting: entry.proxy.waiting(),
            may_run_twice: entry.may_run_twice,
        })
    }

    /// Names of the singletons of which both sides of a partition may run an instance, and the downing
    /// strategy that lets them.
    pub(crate) fn may_run_twice(&self) -> impl Iterator<Item = (&'static str, &Arc<str>)> {
        let entries = self.entries.values();
        entries.filter_map(|entry| Some((entry.may_run_twice?, &entry.settings.name)))
    }

    /// The highest term of a singleton that this node has promised, as far as it has looked into its store; 0
    /// if none.
    #[must_use]
    pub fn promised(&self, singleton: SingletonId) -> u64 {
        self.voter.promised(singleton)
    }

    /// Another node (or this one itself) speaks.
    pub(crate) fn on_message(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, msg: Msg) {
        match msg {
            Msg::Statement(statement) => self.on_statement(cx, from, statement),
            Msg::Delivery(delivery) => self.on_delivery(cx, from, delivery),
            Msg::Reply(reply) => self.asks.on_reply(cx, from, reply),
        }
        self.say_if_drained(cx);
    }

    fn on_statement(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, statement: SingletonStatement) {
        let SingletonStatement {
            singleton,
            to,
            epoch,
            body,
        } = statement;
        if to != *cx.me() {
            return cx.reject(from, AnyRejection::WrongReceiver { to });
        }
        // The picture may lag, and everything is said again: nothing is done for one that is no member here.
        let is_member = |status| status != Status::Down;
        if self.halted
            || !cx
                .view()
                .member(from)
                .is_some_and(|member| is_member(member.status))
        {
            return;
        }
        match body {
            SingletonBody::Claim { term } => {
                let given = self.voter.on_claim(cx, from, singleton, epoch, term);
                self.on_given(cx, given);
            }
            SingletonBody::Promised { term } => self.with_instance(cx, singleton, |manager, cx, held_up| {
                manager.instance.on_promised(cx, from, epoch, term, held_up);
            }),
            SingletonBody::Refused { held } => self.with_instance(cx, singleton, |manager, cx, held_up| {
                manager.instance.on_refused(cx, from, epoch, held, held_up);
            }),
            SingletonBody::Identify => self.with_instance(cx, singleton, |manager, cx, _| {
                manager.instance.on_identify(cx, from, epoch);
            }),
            SingletonBody::Identified { token } => {
                if let Some(entry) = self.entries.get_mut(&singleton) {
                    entry.proxy.on_identified(cx, &mut self.asks, from, epoch, token);
                }
            }
            SingletonBody::Gone { token } => {
                if let Some(entry) = self.entries.get_mut(&singleton) {
                    entry.proxy.on_gone(cx, from, token);
                }
            }
            // Whoever leaves is not kept waiting by a successor that does not host it, or not yet.
            SingletonBody::TakeOverFromMe if !self.hosts(singleton) => {
                say(cx, from, singleton, 0, SingletonBody::HandOverToMe);
            }
            // Nor who waits for everybody older by a node on its way out that never will.
            SingletonBody::HandOverToMe
                if !self.hosts(singleton) && cx.view().self_status() == Status::Exiting =>
            {
                say(
                    cx,
                    from,
                    singleton,
                    epoch,
                    SingletonBody::HandOverDone { term: 0 },
                );
            }
            SingletonBody::HandOverToMe
            | SingletonBody::HandOverInProgress
            | SingletonBody::HandOverDone { .. }
            | SingletonBody::TakeOverFromMe => self.with_instance(cx, singleton, |manager, cx, _| {
                manager.on_hand_over(cx, from, epoch, body);
            }),
        }
    }

    /// Whether the cluster has it with other fields.
    fn is_refused(&self, singleton: SingletonId) -> bool {
        let entry = self.entries.get(&singleton);
        entry.is_some_and(|entry| entry.registration.is_refused())
    }

    fn hosts(&self, singleton: SingletonId) -> bool {
        let entry = self.entries.get(&singleton);
        entry.is_some_and(|entry| entry.manager.is_some())
    }

    /// Calls a singleton's manager, if there is one here, with whether an instance must not begin now.
    fn with_instance(
        &mut self,
        cx: &mut Cx<'_>,
        singleton: SingletonId,
        call: impl FnOnce(&mut SingletonManager, &mut Cx<'_>, bool),
    ) {
        let entry = self.entries.get_mut(&singleton);
        if let Some(manager) = entry.and_then(|entry| entry.manager.as_mut()) {
            let held_up = manager.is_held_up(cx);
            call(manager, cx, held_up);
        }
    }

    fn on_given(&mut self, cx: &mut Cx<'_>, given: Option<PromiseGiven>) {
        if let Some(PromiseGiven { singleton, term, to }) = given {
            self.with_instance(cx, singleton, |manager, cx, held_up| {
                manager.instance.on_given(cx, &to, term, held_up);
            });
        }
    }

    fn on_delivery(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, delivery: InstanceMessage) {
        if !may_send(cx, from, delivery.ask.as_ref()) {
            return;
        }
        if self.halted {
            return refuse(cx, delivery, AskFailure::NodeStoppedUnsent);
        }
        let entry = self.entries.get_mut(&delivery.singleton);
        match entry.and_then(|entry| entry.manager.as_mut()) {
            Some(manager) => {
                let paused = manager.is_paused();
                manager.instance.deliver(cx, from, delivery, paused);
            }
            None => not_here(cx, from, delivery),
        }
    }

    /// A timer is due.
    pub(crate) fn on_timer(&mut self, cx: &mut Cx<'_>, timer: Timer) {
        let managed = |id: SingletonId, call: fn(&mut SingletonManager, &mut Cx<'_>)| (id, call);
        let (id, call) = match timer {
            Timer::AskDeadline => return self.on_ask_deadline(cx),
            Timer::Identify(id) => {
                if let Some(entry) = self.entries.get(&id) {
                    entry.proxy.identify(cx);
                }
                return;
            }
            Timer::Flush(id) => {
                if let Some(entry) = self.entries.get_mut(&id) {
                    entry.proxy.flush(cx, &mut self.asks);
                }
                return;
            }
            Timer::Retry(id) => managed(id, SingletonManager::on_retry),
            Timer::Lease(id) => managed(id, SingletonManager::on_lease_timer),
            Timer::Restart(id) => managed(id, SingletonManager::on_restart),
            Timer::Claim(id) => managed(id, |manager, cx| {
                let held_up = manager.is_held_up(cx);
                manager.instance.on_claim_timer(cx, held_up);
            }),
            Timer::StopLate(id) => managed(id, SingletonManager::on_stop_late),
        };
        self.with_instance(cx, id, |manager, cx, _| call(manager, cx));
        self.say_if_drained(cx);
    }

    fn on_ask_deadline(&mut self, cx: &mut Cx<'_>) {
        let entries = &self.entries;
        let nobody_hosts = |id| entries.get(&id).is_none_or(|entry| entry.proxy.head().is_none());
        for expired in self.asks.on_deadline(cx, nobody_hosts) {
            if let Some(entry) = self.entries.get_mut(&expired.place) {
                entry.proxy.on_ask_expired(expired.id);
            }
        }
    }

    /// The host of the instances reports.
    pub(crate) fn on_report(&mut self, cx: &mut Cx<'_>, report: HostReport) {
        let manager_of = |(id, entry): (&SingletonId, &SingletonEntry), index| {
            let manager = entry.manager.as_ref()?;
            (manager.instance.index() == index).then_some(*id)
        };
        match report {
            HostReport::Answered { ask, result } => answer(cx, ask, result),
            // A singleton is always there.
            HostReport::Passivate { .. }
            | HostReport::Ending { .. }
            | HostReport::Failed { .. }
            | HostReport::Escalated { .. }
            // Said of instances of paths.
            | HostReport::Running { .. }
            | HostReport::State { .. } => {}
            HostReport::Refused {
                ask: Some(ask),
                reason,
                ..
            } => answer(cx, ask, Err(reason)),
            HostReport::Refused {
                slot,
                ask: None,
                reason,
            } => {
                cx.counters().dead_letters += 1;
                if let Some(id) = self
                    .entries
                    .iter()
                    .find_map(|entry| manager_of(entry, slot.index))
                {
                    cx.notify((id, Event::DeadLetter { reason }));
                }
            }
            HostReport::Stopped { slot } => {
                if let Some(id) = self
                    .entries
                    .iter()
                    .find_map(|entry| manager_of(entry, slot.index))
                {
                    self.with_instance(cx, id, |manager, cx, _| manager.on_stopped(cx, slot));
                    self.begin(cx, id);
                }
                self.say_if_drained(cx);
            }
        }
    }

    /// The picture and the ages changed.
    pub(crate) fn on_ages_changed(&mut self, cx: &mut Cx<'_>, before: &View, after: &View) {
        if self.halted {
            return;
        }
        let was_member = before.self_member().is_some();
        let is_gone = after.phase() == MembershipPhase::Halted
            || after.is_lost(after.me())
            || (was_member && after.self_member().is_none());
        if is_gone {
            return self.halt(cx);
        }
        if core::ptr::eq(before.members(), after.members()) {
            return;
        }
        for member in after.lost_since(before) {
            self.asks.give_up_on(cx, &member.node);
        }
        let entries = self.entries.values_mut();
        for entry in entries.filter(|entry| !entry.registration.is_refused()) {
            entry.proxy.on_ages_changed(cx);
        }
        self.on_margin_over(cx);
    }

    /// Whoever waited for the margin of a removed member may go on.
    pub(crate) fn on_margin_over(&mut self, cx: &mut Cx<'_>) {
        for manager in self.managers() {
            manager.look(cx);
        }
        self.say_if_drained(cx);
    }

    fn managers(&mut self) -> impl Iterator<Item = &mut SingletonManager> {
        self.entries
            .values_mut()
            .filter_map(|entry| entry.manager.as_mut())
    }

    /// The lease keeper speaks.
    pub(crate) fn on_lease(&mut self, cx: &mut Cx<'_>, report: &LeaseReport) {
        let owner = self
            .managers()
            .find(|manager| manager.has_lease(cx, &report.name));
        if let Some(manager) = owner {
            manager.on_lease(cx, report.outcome);
        }
        self.say_if_drained(cx);
    }

    /// The node's store answers.
    pub(crate) fn on_stored(&mut self, cx: &mut Cx<'_>, report: StoreReport) {
        let given = self.voter.on_stored(cx, report);
        self.on_given(cx, given);
    }

    /// This process stood still: nothing begins here until it is known to be a member still.
    pub(crate) fn on_paused(&mut self) {
        self.paused = true;
        self.managers().for_each(SingletonManager::on_paused);
    }

    /// After a pause the others still count this node in.
    pub(crate) fn on_still_member(&mut self, cx: &mut Cx<'_>) {
        self.paused = false;
        for manager in self.managers() {
            manager.on_still_member(cx);
        }
    }

    /// This node leaves: its instances are handed over.
    pub(crate) fn on_drain_requested(&mut self, cx: &mut Cx<'_>) {
        self.draining = true;
        self.end_registrations(cx, &AnyError::Singleton(SingletonCommandError::Leaving));
        for manager in self.managers() {
            manager.drain(cx);
        }
        self.say_if_drained(cx);
    }

    /// Everything stops at once: this node is Down, removed or finished. Its tokens are void. Asks whose
    /// messages are under way stay open until [`Self::answer_the_rest`].
    pub(crate) fn halt(&mut self, cx: &mut Cx<'_>) {
        if core::mem::replace(&mut self.halted, true) {
            return;
        }
        for entry in self.entries.values_mut() {
            if let Some(manager) = &mut entry.manager {
                manager.halt(cx);
            }
            entry.proxy.end(cx, &mut self.asks, AskFailure::NodeStoppedUnsent);
        }
        self.end_registrations(cx, &AnyError::Stopped);
        self.asks.give_up_unsent(cx);
    }

    /// The node says nothing more after this: whoever still waits for an answer hears how far its message
    /// came.
    pub(crate) fn answer_the_rest(&mut self, cx: &mut Cx<'_>) {
        self.asks.stop(cx);
    }

    /// The links to a peer are gone: what was sent there may be lost.
    pub(crate) fn on_link_down(&mut self, cx: &mut Cx<'_>, peer: &UniqueAddress) {
        self.asks.on_node_lost(cx, peer);
    }

    /// The host gives a message back that it did not send. What managers and proxies ask is asked again by
    /// itself.
    pub(crate) fn on_dropped(&mut self, cx: &mut Cx<'_>, to: &SendTarget, msg: Msg, reason: DropReason) {
        match msg {
            Msg::Delivery(delivery) => {
                let failure = unsent(reason, self.halted);
                fail(cx, &mut self.asks, delivery.singleton, delivery.ask, failure);
            }
            Msg::Reply(reply) => answer_again(cx, to, reply, reason),
            Msg::Statement(_) => {}
        }
    }

    fn say_if_drained(&mut self, cx: &mut Cx<'_>) {
        if self.draining && !self.drained && self.managers().all(|manager| manager.is_drained()) {
            self.drained = true;
            cx.say_drained();
        }
    }

    /// What must hold between the calls.
    pub(crate) fn check_invariants(&self) -> Result<(), String> {
        self.asks.check_invariants()?;
        for (id, entry) in &self.entries {
            if *id != SingletonId::of(&entry.settings.name) {
                return Err(alloc::format!("{id:?} is not the id of its name"));
            }
            if let Some(manager) = &entry.manager {
                manager.check_invariants()?;
                if !entry.registration.may_run(manager) {
                    return Err(alloc::format!("{id:?} runs and was not accepted"));
                }
            }
        }
        Ok(())
    }
}

impl BufferingMachine for Singletons {
    fn buffered(&self) -> BufferedLoad {
        let managers = self.entries.values().filter_map(|entry| entry.manager.as_ref());
        managers.map(|manager| manager.instance.buffered()).sum()
    }
}

/// Says something about a singleton to a node, this one included.
fn say(cx: &mut Cx<'_>, to: &UniqueAddress, singleton: SingletonId, epoch: u64, body: SingletonBody) {
    let meant = to.clone();
    cx.send(
        to,
        Msg::Statement(SingletonStatement {
            singleton,
            to: meant,
            epoch,
            body,
        }),
    );
}

#[cfg(test)]
mod tests;
