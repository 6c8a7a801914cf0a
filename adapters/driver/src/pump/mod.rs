//! Between core and sockets: synchronous, without I/O, without a clock; a test plays both sides. Owns the node and does what
//! it orders, so that the loop only moves bytes and time. Spec: `ARCHITECTURE.md`.
//!
//! Everything that is refused, shed or lost here is counted, and what concerns a message goes back to the core as an input
//! (I-44). Control links are read at once; user links only while there is room (sharding 10.2).

pub(crate) mod action;
mod aging;
#[cfg(test)]
mod aging_tests;
mod announce;
mod base;
mod budget;
#[cfg(test)]
mod bulk_tests;
mod data;
#[cfg(test)]
mod datagram_tests;
mod datagrams;
mod ending;
mod entities;
mod executor;
mod feedback;
mod inbound;
mod inbuf;
mod keeping;
#[cfg(test)]
mod key_tests;
#[cfg(test)]
mod leak_tests;
pub(crate) mod limits;
mod machine;
mod outbound;
mod peer_link;
pub(crate) mod policy;
mod quarantine;
mod queue;
mod rates;
mod reading;
mod refusal;
#[cfg(test)]
mod renewal_tests;
mod replies;
mod room;
#[cfg(test)]
mod store_tests;
#[cfg(test)]
mod stranger_tests;
mod strangers;
#[cfg(test)]
mod tests;
mod timers;
#[cfg(test)]
mod unsent_tests;
mod violations;

use std::collections::VecDeque;
use std::sync::Arc;

use quorate_core::config::ValidConfig;
use quorate_core::effect::{Effect, HaltReason, Output};
use quorate_core::event::Event;
use quorate_core::ident::UniqueAddress;
use quorate_core::input::{Command, DropReason, EntityReport, Input, ShardingCommand, Target};
use quorate_core::node::Node;
use quorate_core::reject::Rejection;
use quorate_core::time::{Instant, Now};
use quorate_core::view::View;
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

pub(crate) use action::{Action, Chunk, LinkId, LinkInput};
use base::{Base, Feedback};
use entities::Entities;
use executor::Executor;
use inbound::Inbound;
use limits::{FEEDBACK_PER_TURN, REPORTS_PER_TURN, SWEEP_INTERVAL};
use machine::Machine;
use outbound::Outbound;
use policy::Policy;
use quarantine::Quarantine;
use replies::{Replies, Waiting};
use timers::Due;
use violations::Violations;

use crate::crowd::Source;
use crate::data::Subscriptions;
use crate::entity::Reports;
use crate::lease::Leases;
use crate::security::Security;
use crate::shared::{ControlCommand, UserCommand};
use crate::stats::NodeStats;
use crate::store::Stores;
use crate::transport::Unproved;

/// The node with everything between it and the sockets.
#[derive(Debug)]
pub(crate) struct Pump<M = Node<ChaCha8Rng>> {
    node: M,
    base: Base,
    inbound: Inbound,
    outbound: Outbound,
    quarantine: Quarantine,
    violations: Violations<UniqueAddress>,
    entities: Entities,
    executor: Executor,
    replies: Replies,
    subscriptions: Subscriptions,
    leases: Leases,
    stores: Stores,
    policy: Policy,
    /// What entities reported and the node has not heard yet.
    reports: VecDeque<EntityReport>,
    wake: Option<Instant>,
    /// The picture whose members links were last compared with.
    recognized: Option<u64>,
    halted: Option<HaltReason>,
    user_reads_paused: bool,
}

impl Pump {
    /// A pump around a new node.
    pub(crate) fn new(
        config: ValidConfig,
        me: UniqueAddress,
        mut rng: ChaCha8Rng,
        reports: Arc<Reports>,
        security: &Security,
        now: Now,
    ) -> Self {
        let node = Node::new(config.clone(), me.clone(), ChaCha8Rng::from_rng(&mut rng), now);
        let base = Base::new(config, me, security.authentication(), &mut rng, now);
        Self::around(node, base, reports)
    }
}

impl<M: Machine> Pump<M> {
    fn around(node: M, mut base: Base, reports: Arc<Reports>) -> Self {
        base.timers.arm(base.now.mono + SWEEP_INTERVAL, Due::Sweep);
        let inbound = Inbound::new(&base.config.limits);
        Self {
            node,
            base,
            inbound,
            outbound: Outbound::default(),
            quarantine: Quarantine::default(),
            violations: Violations::default(),
            entities: Entities::new(reports),
            executor: Executor::default(),
            replies: Replies::default(),
            subscriptions: Subscriptions::default(),
            leases: Leases::default(),
            stores: Stores::default(),
            policy: Policy::default(),
            reports: VecDeque::new(),
            wake: None,
            recognized: None,
            halted: None,
            user_reads_paused: false,
        }
    }

    /// A new turn begins.
    pub(crate) const fn set_time(&mut self, now: Now) {
        self.base.now = now;
    }

    /// Fires what is due.
    pub(crate) fn tick(&mut self) {
        if self.wake.is_some_and(|at| at <= self.base.now.mono) {
            self.node.handle(self.base.now, Input::Tick);
            self.drive_node();
        }
        self.entities.beat();
        while let Some(due) = self.base.timers.pop(self.base.now.mono) {
            match due {
                Due::Inbound(link) => self.inbound.on_due(&mut self.base, link),
                Due::PeerLink(address, kind) => self.outbound.on_due(&mut self.base, &address, kind),
                Due::Renewal(address, kind) => self.on_renewal_due(&address, kind),
                Due::Expiry(link) => self.on_expired(link),
                Due::Stranger(link) => self.stranger_due(link),
                Due::Sweep => {
                    self.sweep_inbound();
                    self.outbound.sweep(&mut self.base, self.node.view());
                    self.base
                        .timers
                        .arm(self.base.now.mono + SWEEP_INTERVAL, Due::Sweep);
                }
                Due::Executor => self.look_at_executor(),
            }
            self.drive_node();
        }
    }

    /// A peer has opened a link. `None`: close it.
    pub(crate) fn accepted(&mut self, source: Source) -> Option<LinkId> {
        if self.halted.is_some() {
            return None;
        }
        self.inbound.accept(&mut self.base, source)
    }

    /// The system has no socket for a link that a peer opens.
    pub(crate) fn short_of_sockets(&mut self) {
        self.inbound.relieve(&mut self.base);
    }

    /// Something happened to a link.
    pub(crate) fn link(&mut self, input: LinkInput) {
        let link = input.link();
        let mine = self.outbound.is_mine(link);
        match input {
            LinkInput::Dialed(link) => self.outbound.dialed(&mut self.base, link),
            LinkInput::Datagrams(link, max) => self.outbound.takes_datagrams(link, max),
            LinkInput::DialFailed(link, error) => match Unproved::of(&error) {
                Some(why) => self.outbound.unproved(&mut self.base, link, why, false),
                None => self.outbound.dial_failed(&mut self.base, link, &error),
            },
            LinkInput::Received(link, chunk) if mine => {
                self.outbound
                    .received(&mut self.base, &self.quarantine, link, chunk);
            }
            LinkInput::Received(link, chunk) => self.received(link, chunk),
            // Only who dials sends: nothing that this node could use.
            LinkInput::Datagram(link, chunk) if mine => self.base.act(Action::Resume { link, chunk }),
            LinkInput::Datagram(link, chunk) => self.datagram(link, chunk),
            LinkInput::Written(link, buffer) => self.outbound.written(&mut self.base, link, buffer),
            LinkInput::Identified(link, proved) if mine => self.outbound.identified(link, proved),
            LinkInput::Identified(link, proved) => self.inbound.identified(link, proved),
            LinkInput::Unproved(link, why) if mine => {
                self.outbound.unproved(&mut self.base, link, &why, true)
            }
            LinkInput::Unproved(link, why) => self.inbound.unproved(&mut self.base, link, why),
            LinkInput::Broken(link) if mine => self.outbound.broken(&mut self.base, link),
            LinkInput::Broken(link) => self.inbound.closed(&mut self.base, link),
            LinkInput::Closed(link) if mine => self.outbound.closed(&mut self.base, link),
            LinkInput::Closed(link) => self.inbound.closed(&mut self.base, link),
        }
        self.drive_node();
    }

    /// The transport did not take a datagram; most bytes that it takes now.
    pub(crate) fn datagram_unsent(&mut self, link: LinkId, bytes: &[u8], max: usize) {
        self.outbound.datagram_unsent(&mut self.base, link, bytes, max);
        self.outbound.flush(&mut self.base);
    }

    /// The transport has turned strangers away before they had a link: how many, and why the last one.
    pub(crate) fn turned_away(&mut self, count: u64, reason: String) {
        self.inbound.turned_away(&mut self.base, count, reason);
    }

    /// A message from one of this node's callers.
    pub(crate) fn user(&mut self, command: UserCommand) {
        let input = match command {
            UserCommand::Tell {
                kind,
                entity,
                payload,
            } => Input::Tell {
                kind,
                entity,
                payload,
            },
            UserCommand::Ask {
                kind,
                entity,
                payload,
                timeout,
                reply,
            } => Input::Command {
                token: self.replies.insert(Waiting::Ask(reply)),
                command: Command::Sharding(ShardingCommand::Ask {
                    kind,
                    entity,
                    payload,
                    timeout,
                }),
            },
        };
        self.node.handle(self.base.now, input);
        self.drive_node();
    }

    /// Whether messages of this node's callers may come in now.
    pub(crate) fn takes_user_commands(&mut self) -> bool {
        !self
            .outbound
            .slows_senders(&self.base.config.limits, self.base.now.mono)
    }

    /// Any other command. `Stop` is the loop's.
    pub(crate) fn control(&mut self, command: ControlCommand) {
        let (token, command) = match command {
            ControlCommand::Core { command, reply } => {
                policy::own_command(&self.base.me, &command);
                (self.replies.insert(Waiting::Command(reply)), command)
            }
            ControlCommand::Register {
                settings,
                starter,
                reply,
            } => {
                let forget = self.entities.register(&settings.name, starter);
                let token = self.replies.insert(Waiting::Register { reply, forget });
                let command = ShardingCommand::RegisterKind(settings);
                (token, Command::Sharding(command))
            }
            ControlCommand::Links(reply) => return reply.send(self.outbound.links()),
            ControlCommand::Stats(reply) => return reply.send(self.stats()),
            ControlCommand::Explain(reply) => return reply.send(self.node.explain()),
            ControlCommand::Kinds(reply) => return reply.send(self.node.kinds()),
            ControlCommand::Stop => return,
        };
        self.node.handle(self.base.now, Input::Command { token, command });
        self.drive_node();
    }

    /// The same pump with somebody to ask who may join, and who may end a membership.
    pub(crate) fn with_policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Hands what entities reported to the node, at most a batch per turn.
    pub(crate) fn take_reports(&mut self) {
        if self.reports.is_empty() {
            self.entities.take_reports(&mut self.reports);
        }
        for _ in 0..REPORTS_PER_TURN {
            let Some(report) = self.reports.pop_front() else {
                return;
            };
            if let EntityReport::Stopped { slot } = &report {
                self.entities.stopped(*slot);
            }
            self.node.handle(self.base.now, Input::Entity(report));
            self.drive_node();
        }
    }

    fn has_room(&self) -> bool {
        self.node.has_capacity() && self.entities.has_room()
    }

    /// Whether another turn has work without any new input.
    pub(crate) fn has_work(&self) -> bool {
        !self.base.feedback.is_empty()
            || !self.reports.is_empty()
            || self.stores.has_reports()
            || self.inbound.has_room_for_waiting()
            || (!self.inbound.ready.is_empty() && self.has_room())
    }

    /// Turns what was encoded into writes: once per turn.
    pub(crate) fn flush(&mut self) {
        self.drive_node();
        self.recognize();
        self.outbound.flush(&mut self.base);
    }

    /// The next thing for the hands.
    pub(crate) fn next_action(&mut self) -> Option<Action> {
        self.base.actions.pop_front()
    }

    /// When [`Self::tick`] is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match (self.wake, self.base.timers.next()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The newest picture.
    pub(crate) fn view(&self) -> &Arc<View> {
        self.node.view()
    }

    pub(crate) fn stats(&self) -> NodeStats {
        let mut links = self.base.stats;
        links.entities = self.entities.live();
        links.links_open = (self.inbound.len() + self.outbound.len()) as u64;
        let (pending, strangers) = self.inbound.without_members();
        links.handshakes_pending = pending as u64;
        links.stranger_links = strangers as u64;
        links.inbound_bytes_held = self.inbound.bytes_held() as u64;
        links.log_lines_left_out = self.base.log.left_out_ever;
        NodeStats {
            core: *self.node.stats(),
            links,
        }
    }
}

impl<M: Machine> Pump<M> {
    /// Does what the node orders, and tells it what came of that, until it is content.
    fn drive_node(&mut self) {
        let mut left = FEEDBACK_PER_TURN;
        loop {
            match self.node.poll() {
                Output::Effect(effect) => self.apply(effect),
                Output::Sleep(wake) => {
                    self.wake = wake.map(|wake| wake.at);
                    if left == 0 {
                        return;
                    }
                    left -= 1;
                    match self.base.feedback.pop_front() {
                        None => return,
                        Some(feedback) => self.hear(feedback),
                    }
                }
            }
        }
    }

    fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Send { to, message } => {
                if matches!(&to, Target::Node(node) if self.quarantine.contains(node)) {
                    self.base.drop_message(to, message, DropReason::Unreachable);
                } else {
                    self.outbound.send(&mut self.base, self.node.view(), to, message);
                }
            }
            Effect::Notify(event) if self.is_for_subscribers(&event) => {}
            Effect::Notify(event) => {
                let event = self.outbound.explain(event);
                self.entities.heed(&event);
                if let Event::Rejected {
                    peer,
                    rejection: Rejection::Wire(error),
                } = &event
                {
                    self.react(peer, error.reaction());
                }
                announce::event(&self.base.me, &event, &mut self.base.log, self.base.now.mono);
                self.base.act(Action::Publish(event));
            }
            Effect::Reply { token, answer } => {
                if let Some(kind) = self.replies.answer(token, answer) {
                    self.entities.forget(kind);
                }
            }
            Effect::Entity(order) => match self.entities.order(order) {
                Ok(Some(task)) => self.base.act(Action::Start(task)),
                Ok(None) => {}
                Err(report) => {
                    if matches!(report, EntityReport::Refused { .. }) {
                        self.base.stats.mailbox_refused += 1;
                    }
                    self.base.feedback.push_back(Feedback::Entity(report));
                }
            },
            Effect::Lease(owner, order) => {
                let answer = self.leases.order(owner, order);
                let answer = answer.map(|report| Feedback::Lease(owner, report));
                self.base.feedback.extend(answer);
            }
            Effect::Store(owner, request) => {
                let answer = self.stores.order(owner, request);
                self.not_stored(answer);
            }
            Effect::Quarantine(node) => self.cut_off(node),
            Effect::Halt(reason) => {
                self.halted = Some(reason);
                self.stop();
                self.base.act(Action::Halt(reason));
            }
        }
    }
}
