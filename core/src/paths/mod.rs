//! Named paths with N instances each: the gossiped table, the leader that decides who hosts which slot, the
//! hand-offs of slots, and the way of messages to an instance. This file holds the parts and hands each
//! message to one of them; it decides nothing. Spec: sharding 5.0 to 5.5, 10.17.
//!
//! `requests` has the leader accept what this node's users want; `leader` plans; `hosting` runs the slots of
//! this node and moves them; `routing` sends messages of this node's users; `passing` remembers whose asks
//! were passed on.

mod hosting;
mod leader;
mod passing;
pub mod protocol;
mod requests;
mod router;
mod routing;
pub mod state;

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use self::hosting::Hosting;
use self::leader::PathLeader;
use self::passing::PassedAsks;
use self::protocol::{Command, Event, Msg, PathBody, PathCommandError, PathStatement, Timer};
use self::requests::PathRequests;
use self::routing::PathRoutes;
use self::state::name::PathId;
use self::state::settings::PathSettings;
use crate::buffered::{BufferedLoad, BufferingMachine};
use crate::config::ValidConfig;
use crate::cx::OfPaths;
use crate::effect::{Answer as AnyAnswer, CommandError as AnyError};
use crate::ident::UniqueAddress;
use crate::input::{DropReason, HostReport, SendTarget, Token};
use crate::membership::state::member::Status;
use crate::messaging::protocol::AskReply;
use crate::messaging::{AskCount, AskingMachine, Asks, answer_again, may_send, unsent};
use crate::ordered::OrderedMap;
use crate::reject::Rejection as AnyRejection;
use crate::sharding::state::errors::AskFailure;
use crate::stats::PathCounters;
use crate::timer::PathTimer;
use crate::view::{MembershipPhase, View};

/// What the machine may touch outside itself.
pub(crate) type Cx<'a> = crate::cx::Cx<'a, OfPaths>;

/// Everything a node knows about paths beside the gossiped table.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    /// The paths that this node can run, as its user registered them.
    codes: OrderedMap<PathId, Arc<PathSettings>>,
    requests: PathRequests,
    leader: PathLeader,
    hosting: Hosting,
    routes: PathRoutes,
    asks: Asks<PathId>,
    passed: PassedAsks,
    /// This node leaves; set until it has said that it has handed over.
    draining: bool,
    halted: bool,
    paused: bool,
}

impl Paths {
    /// The slots that run here now, with their tokens.
    pub fn running(&self) -> impl Iterator<Item = (&state::name::PathName, u16, crate::token::Token)> {
        self.hosting.running()
    }

    /// What each slot that moves keeps here of each sender.
    pub fn kept(&self) -> impl Iterator<Item = BufferedLoad> {
        self.hosting.kept()
    }

    /// Whether nothing is under way here: no command is open, no mark is owed, no slot moves, nothing waits
    /// or was passed on.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        let is_owed = self.requests.are_open() || self.routes.owe() || self.hosting.moves();
        !is_owed && self.passed.is_empty()
    }

    /// What each slot that moves to or from this node waits for, in words for an operator.
    #[must_use]
    pub fn explain(&self) -> Vec<String> {
        self.hosting.explain()
    }

    /// Another node (or this one itself) speaks.
    pub(crate) fn on_message(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, msg: Msg) {
        let is_member = |status| status != Status::Down;
        let view = cx.view();
        let is_heard = from == view.me() || view.member(from).is_some_and(|m| is_member(m.status));
        match msg {
            Msg::Reply(reply) => self.on_reply(cx, from, reply),
            Msg::Delivery(delivery) if !may_send(cx, from, delivery.ask.as_ref()) => {}
            Msg::Delivery(delivery) if self.halted || !is_heard => {
                hosting::refuse(cx, delivery.path, delivery.ask, AskFailure::NodeStoppedUnsent);
            }
            // The picture may lag, and everything is said again.
            Msg::Statement(_) | Msg::Mark(_) | Msg::State(_) if self.halted || !is_heard => {}
            Msg::Statement(statement) => self.on_statement(cx, from, statement),
            Msg::Delivery(delivery) => self.hosting.on_delivery(cx, &mut self.passed, from, delivery),
            Msg::Mark(mark) => self.hosting.on_mark(cx, &mut self.passed, from, mark),
            Msg::State(chunk) => self.hosting.on_state(cx, from, chunk),
        }
    }

    fn on_statement(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, statement: PathStatement) {
        let PathStatement { to, body } = statement;
        if to != *cx.me() {
            return cx.reject(from, AnyRejection::WrongReceiver { to });
        }
        match body {
            PathBody::Request { number, request } => self.leader.on_request(cx, from, number, request),
            PathBody::Answer { number, refusal } => self.requests.on_answer(cx, from, number, refusal),
            PathBody::Init(change) => self.hosting.on_init(cx, &self.codes, from, change),
            PathBody::Ready(change) => self.hosting.on_ready(cx, from, &change),
            PathBody::Failed(change) => self.hosting.on_failed(cx, from, &change),
            PathBody::Begin(change) => self.hosting.on_begin(cx, from, change),
            PathBody::Begun(change) => self.hosting.on_begun(from, &change),
            PathBody::Marked(change) => self.routes.on_marked(from, &change),
            PathBody::ForwardMarked { change, sender } => {
                self.hosting.on_forward_marked(cx, from, &change, &sender);
            }
            PathBody::GiveUp(change) => self.hosting.on_give_up(cx, from, &change),
            PathBody::StateReceived { change, bytes } => {
                self.hosting.on_state_received(cx, from, &change, bytes);
            }
        }
    }

    /// An answer to an ask of this node's user, or to one that this node passed on.
    fn on_reply(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, reply: AskReply) {
        if reply.to == *cx.me() && PassedAsks::is_of(reply.id) {
            self.passed.on_reply(cx, from, reply);
        } else {
            self.asks.on_reply(cx, from, reply);
        }
    }

    /// A caller wants something.
    pub(crate) fn on_command(&mut self, cx: &mut Cx<'_>, token: Token, command: Command) {
        if self.halted {
            return cx.reply(token, AnyAnswer::Refused(AnyError::Stopped));
        }
        if let Command::Register {
            settings,
            hosts: true,
        } = &command
            && settings.check().is_ok()
        {
            self.codes.insert(settings.name.id(), Arc::new(settings.clone()));
        }
        if let Err(error) = self.requests.begin(cx, token, command) {
            cx.reply(token, AnyAnswer::Refused(AnyError::Path(error)));
        }
        self.look(cx);
    }

    /// A timer is due.
    pub(crate) fn on_timer(&mut self, cx: &mut Cx<'_>, timer: Timer) {
        match timer {
            Timer::AskDeadline => {
                self.asks.on_deadline(cx, |_| false);
            }
            Timer::Plan => self.plan(cx),
            Timer::Repeat => {
                self.requests.repeat(cx);
                self.routes.repeat(cx);
                self.hosting.repeat(cx);
                self.passed.forget_expired(cx.mono());
                self.repeat_later(cx);
            }
            Timer::Write => self.hosting.write(cx),
            Timer::Flush => self.hosting.flush(cx, &mut self.passed),
            Timer::Restart(path, slot) => self.hosting.on_restart(cx, path, slot),
            Timer::StopLate(path, slot) => self.hosting.on_stop_late(cx, path, slot),
        }
    }

    fn plan(&mut self, cx: &mut Cx<'_>) {
        if !self.halted && !self.paused {
            self.leader.plan(cx);
        }
    }

    fn repeat_later(&self, cx: &mut Cx<'_>) {
        let waits =
            self.requests.are_open() || self.routes.owe() || self.hosting.moves() || !self.passed.is_empty();
        if waits && !self.halted && !cx.is_set(Timer::Repeat) {
            let at = cx.mono() + cx.config().paths.repeat_interval;
            cx.wake(Timer::Repeat, at);
        }
    }

    /// The host of the instances reports.
    pub(crate) fn on_report(&mut self, cx: &mut Cx<'_>, report: HostReport) {
        let is_of_a_message = matches!(report, HostReport::Answered { .. } | HostReport::Refused { .. });
        self.hosting.on_report(cx, report);
        if is_of_a_message {
            return;
        }
        if self.hosting.is_stale() && !self.halted {
            return self.look(cx);
        }
        self.repeat_later(cx);
        self.say_if_drained(cx);
    }

    /// The picture changed.
    pub(crate) fn on_view_changed(&mut self, cx: &mut Cx<'_>, before: &View, after: &View) {
        if self.halted {
            return;
        }
        let was_member = before.self_member().is_some();
        if after.phase() == MembershipPhase::Halted
            || after.is_lost(after.me())
            || (was_member && after.self_member().is_none())
        {
            return self.halt(cx);
        }
        for member in after.lost_since(before) {
            self.asks.give_up_on(cx, &member.node);
            self.passed.give_up_on(cx, &member.node);
        }
        self.look(cx);
    }

    /// Looks at the table and the members as they are now.
    fn look(&mut self, cx: &mut Cx<'_>) {
        if cx.view().self_member().is_none() {
            return;
        }
        let table = Arc::clone(cx.view().gossip().paths());
        if !table.is_empty() || self.hosting.moves() {
            self.routes.look(cx, &table);
            self.hosting.look(cx, &table, &self.codes);
        }
        self.requests.look(cx);
        self.leader.look(cx);
        self.repeat_later(cx);
        self.say_if_drained(cx);
    }

    /// A removal margin is over.
    pub(crate) fn on_margin_over(&mut self, cx: &mut Cx<'_>) {
        if !self.halted {
            self.leader.look(cx);
        }
    }

    /// This process stood still: nothing is planned or started here until it is known to be a member still.
    pub(crate) fn on_paused(&mut self) {
        self.paused = true;
        self.hosting.on_paused();
    }

    /// After a pause the others still count this node in.
    pub(crate) fn on_still_member(&mut self, cx: &mut Cx<'_>) {
        self.paused = false;
        self.hosting.on_still_member(cx);
        if !self.halted {
            self.look(cx);
        }
    }

    /// This node leaves: the leader gives its slots to others. Where nobody can take over, they end with it.
    pub(crate) fn on_drain_requested(&mut self, cx: &mut Cx<'_>) {
        self.draining = true;
        self.say_if_drained(cx);
    }

    fn say_if_drained(&mut self, cx: &mut Cx<'_>) {
        if !self.draining || self.halted {
            return;
        }
        let view = cx.view();
        let is_leaving = view.self_status() == Status::Leaving && !view.is_shutting_down();
        if !is_leaving || !view.gossip().awaits_hand_over(cx.me()) {
            self.hosting.stop_all(cx);
        }
        if self.hosting.is_empty() {
            self.draining = false;
            cx.say_drained();
        }
    }

    /// Everything stops at once: this node is Down, removed or finished.
    pub(crate) fn halt(&mut self, cx: &mut Cx<'_>) {
        if core::mem::replace(&mut self.halted, true) {
            return;
        }
        self.hosting.halt(cx);
        self.requests.end(cx);
        self.asks.give_up_unsent(cx);
    }

    /// The node says nothing more after this.
    pub(crate) fn answer_the_rest(&mut self, cx: &mut Cx<'_>) {
        self.asks.stop(cx);
    }

    /// The links to a peer are gone: what was sent there may be lost.
    pub(crate) fn on_link_down(&mut self, cx: &mut Cx<'_>, peer: &UniqueAddress) {
        self.asks.on_node_lost(cx, peer);
        self.passed.give_up_on(cx, peer);
    }

    /// The host gives a message back that it did not send. What is said about hand-offs is said again by
    /// itself.
    pub(crate) fn on_dropped(&mut self, cx: &mut Cx<'_>, to: &SendTarget, msg: Msg, reason: DropReason) {
        match msg {
            Msg::Delivery(delivery) => {
                let failure = unsent(reason, self.halted);
                match delivery.ask {
                    Some(ticket) if PassedAsks::is_of(ticket.ask.id) => {
                        self.passed.fail(cx, ticket.ask.id, failure);
                    }
                    Some(ticket) => self.asks.end(cx, ticket, failure),
                    None => dead_letter(cx, delivery.path, failure),
                }
            }
            Msg::Reply(reply) => answer_again(cx, to, reply, reason),
            Msg::Statement(_) | Msg::Mark(_) | Msg::State(_) => {}
        }
    }

    /// What must hold between the calls.
    pub(crate) fn check_invariants(&self) -> Result<(), String> {
        self.asks.check_invariants()?;
        self.hosting.check_invariants()?;
        match self.codes.iter().find(|(id, code)| **id != code.name.id()) {
            Some((id, _)) => Err(format!("{id:?} is not the id of its path")),
            None => Ok(()),
        }
    }
}

impl BufferingMachine for Paths {
    fn buffered(&self) -> BufferedLoad {
        self.hosting.buffered()
    }
}

/// A message that nobody waits for was not handled.
fn dead_letter(cx: &mut Cx<'_>, path: PathId, reason: AskFailure) {
    cx.counters().dead_letters += 1;
    cx.notify((path, Event::DeadLetter { reason }));
}

/// Says something to a node, this one included.
fn say(cx: &mut Cx<'_>, to: &UniqueAddress, body: PathBody) {
    let meant = to.clone();
    cx.send(to, Msg::Statement(PathStatement { to: meant, body }));
}

impl AskingMachine for OfPaths {
    type Place = PathId;

    fn deadline() -> PathTimer {
        PathTimer::AskDeadline
    }

    fn open_asks_max(config: &ValidConfig) -> usize {
        config.paths.open_asks_max
    }

    fn counter(counters: &mut PathCounters, of: AskCount) -> &mut u64 {
        match of {
            AskCount::Opened => &mut counters.asks_opened,
            AskCount::Answered => &mut counters.asks_answered,
            AskCount::Failed => &mut counters.asks_failed,
            AskCount::Late => &mut counters.answers_stale,
        }
    }

    fn reply(reply: AskReply) -> Msg {
        Msg::Reply(reply)
    }
}

impl From<AskFailure> for PathCommandError {
    fn from(reason: AskFailure) -> Self {
        Self::NotAccepted(reason)
    }
}
