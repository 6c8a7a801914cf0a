//! Between core and sockets: synchronous, without I/O, without a clock; a test plays both sides. Owns the
//! node, its links (`quorate-links`) and its entities, and connects them, so that the loop only moves bytes
//! and time. Spec: `ARCHITECTURE.md`.
//!
//! Everything that is refused, shed or lost here is counted, and what concerns a message goes back to the
//! core as an input (I-44). Control links are read at once; user links only while there is room (sharding
//! 10.2).

pub(crate) mod action;
#[cfg(test)]
mod aging_tests;
mod announce;
mod base;
mod callers;
mod data;
#[cfg(test)]
mod door_tests;
mod effects;
mod ending;
mod executor;
mod hosted;
mod journal;
mod keeping;
#[cfg(test)]
mod key_tests;
pub(crate) mod limits;
mod load;
pub(crate) mod log;
mod machine;
#[cfg(test)]
mod path_tests;
pub(crate) mod policy;
mod replies;
#[cfg(test)]
mod singleton_tests;
mod slots;
#[cfg(test)]
mod store_tests;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use quorate_core::config::ValidConfig;
use quorate_core::effect::{Answer, HaltReason};
use quorate_core::ident::UniqueAddress;
use quorate_core::input::{HostReport, Input};
use quorate_core::node::Node;
use quorate_core::owner::Requester;
use quorate_core::sharding::ids::KindId;
use quorate_core::singleton::state::SingletonId;
use quorate_core::time::{Instant, Now};
use quorate_core::view::View;
use quorate_links::{LinkId, LinkInput, LinkedNode, Links, Source, ValidLinkLimits};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

pub(crate) use action::LoopAction;
use base::PumpBase;
use executor::Executor;
use hosted::{Hosted, RegisteredName};
use limits::{FEEDBACK_BEFORE_TICK, REPORTS_PER_TURN};
use load::LoadMeasuring;
use machine::Machine;
use replies::{Replies, ReplyWaiter};

use crate::commands::{ControlCommand, Registration};
use crate::lease::Leases;
use crate::mailbox::{Reported, Reports};
use crate::notices::Followers;
use crate::security::Authentication;
use crate::shortcut::ShortcutPlace;
use crate::stats::NodeStats;
use crate::store::Stores;
use crate::subscriptions::Subscriptions;
use crate::sync::WakeLater;
use crate::transport::HandshakeStats;

/// The node with everything between it and the sockets.
#[derive(Debug)]
pub(crate) struct Pump<M = Node<ChaCha8Rng>> {
    linked: LinkedNode<M>,
    base: PumpBase,
    /// Handshakes that the transport does below them.
    below: HandshakeStats,
    hosted: Hosted,
    executor: Executor,
    load: LoadMeasuring,
    replies: Replies,
    subscriptions: Subscriptions,
    followers: Followers,
    leases: Leases,
    stores: Stores,
    halted: Option<HaltReason>,
}

/// What a node is made of.
pub(crate) struct Parts {
    pub(crate) config: ValidConfig,
    pub(crate) limits: ValidLinkLimits,
    pub(crate) me: UniqueAddress,
    pub(crate) rng: ChaCha8Rng,
    pub(crate) reports: Arc<Reports>,
    pub(crate) authentication: Authentication,
}

impl Parts {
    /// Links with a generator of their own: how often the network fails must not change what the core draws.
    fn links(&mut self, now: Now) -> Links {
        let age = match self.authentication {
            Authentication::None => None,
            #[cfg(feature = "psk")]
            Authentication::Psk(_) => Some(self.limits.max_link_age),
            #[cfg(feature = "tls")]
            Authentication::Certificates(_) => Some(self.limits.max_link_age),
        };
        let rng = ChaCha8Rng::from_rng(&mut self.rng);
        Links::new(self.config.clone(), self.me.clone(), rng, now)
            .limited(self.limits.clone())
            .authenticated(self.authentication.clone(), age)
    }
}

impl Pump {
    /// A pump around a new node.
    pub(crate) fn new(mut parts: Parts, now: Now) -> Self {
        let rng = ChaCha8Rng::from_rng(&mut parts.rng);
        let node = Node::new(parts.config.clone(), parts.me.clone(), rng, now);
        let links = parts.links(now);
        Self::around(
            node,
            links,
            PumpBase::new(parts.config, parts.me, now),
            parts.reports,
        )
    }
}

impl<M: Machine> Pump<M> {
    fn around(node: M, links: Links, base: PumpBase, reports: Arc<Reports>) -> Self {
        Self {
            linked: LinkedNode::of(node, links),
            base,
            below: HandshakeStats::default(),
            hosted: Hosted::new(reports),
            executor: Executor::default(),
            load: LoadMeasuring::default(),
            replies: Replies::default(),
            subscriptions: Subscriptions::default(),
            followers: Followers::default(),
            leases: Leases::default(),
            stores: Stores::default(),
            halted: None,
        }
    }

    /// A new turn begins.
    pub(crate) const fn set_time(&mut self, now: Now) {
        self.base.now = now;
        self.linked.set_time(now);
    }

    /// Fires what is due.
    pub(crate) fn tick(&mut self) {
        if self.linked.is_due() {
            // What came back unsent is heard before the node takes it for lost, however much it is.
            for _ in 0..FEEDBACK_BEFORE_TICK {
                if !self.linked.links.has_events() {
                    break;
                }
                self.drive_node();
            }
            self.linked.handle(Input::Tick);
            self.drive_node();
        }
        self.hosted.beat();
        while self.linked.tick_links() {
            self.drive_node();
        }
        self.ask_for_load();
        if self.base.look_at.is_some_and(|at| at <= self.base.now.mono) {
            self.look_at_executor();
            self.drive_node();
        }
    }

    /// A peer has opened a link. `None`: close it.
    pub(crate) fn accepted(&mut self, source: Source) -> Option<LinkId> {
        if self.halted.is_some() {
            return None;
        }
        self.linked.links.accepted(source)
    }

    /// The system has no socket for a link that a peer opens.
    pub(crate) fn short_of_sockets(&mut self) {
        self.linked.links.short_of_sockets();
    }

    /// Something happened to a link.
    pub(crate) fn link(&mut self, input: LinkInput) {
        self.linked.link(input);
        loop {
            let was_frame = self.linked.next_urgent_frame();
            self.drive_node();
            if !was_frame {
                return;
            }
        }
    }

    /// The transport did not take a datagram; most bytes that it takes now.
    pub(crate) fn datagram_unsent(&mut self, link: LinkId, bytes: &[u8], max: usize) {
        self.linked.links.datagram_unsent(link, bytes, max);
    }

    /// The transport has turned strangers away before they had a link: how many, and why the last one.
    pub(crate) fn turned_away(&mut self, count: u64, reason: String) {
        self.linked.links.turned_away(count, reason);
    }

    /// What the transport has counted of handshakes that never reach a link.
    pub(crate) const fn handshakes_below(&mut self, below: HandshakeStats) {
        self.below = below;
    }

    /// Any other command. `Stop` is the loop's.
    pub(crate) fn control(&mut self, command: ControlCommand) {
        let (token, command) = match command {
            ControlCommand::Core { command, reply } => {
                policy::own_command(&self.base.me, &command);
                (self.replies.insert(ReplyWaiter::Command(reply)), command)
            }
            ControlCommand::Register {
                what,
                starter,
                decider,
                reply,
            } => {
                if what.needs_lease() && !self.leases.has_keeper() {
                    return reply.send(Answer::Refused(what.without_keeper()));
                }
                let (of, name) = match &what {
                    Registration::Kind(kind) => (
                        RegisteredName::Kind(KindId::of(&kind.name)),
                        Arc::clone(&kind.name),
                    ),
                    Registration::Singleton(singleton) => {
                        let id = SingletonId::of(&singleton.name);
                        (RegisteredName::Singleton(id), Arc::clone(&singleton.name))
                    }
                    Registration::Path(path, _) => (
                        RegisteredName::Path(path.name.id()),
                        Arc::from(path.name.as_str()),
                    ),
                };
                let undo = self.hosted.register(of, &name, starter, decider);
                let token = self.replies.insert(ReplyWaiter::Register { reply, undo });
                (token, what.into_command())
            }
            ControlCommand::SingletonState(singleton, reply) => {
                return reply.send(self.linked.node.singleton(singleton));
            }
            ControlCommand::Links(reply) => return reply.send(self.linked.links.states()),
            ControlCommand::Stats(reply) => return reply.send(self.stats()),
            ControlCommand::Explain(reply) => return reply.send(self.linked.node.explain()),
            ControlCommand::Kinds(reply) => return reply.send(self.linked.node.kinds()),
            ControlCommand::Buckets(reply) => {
                return reply.send(self.linked.node.buckets(self.base.now.mono));
            }
            ControlCommand::Paths(reply) => return reply.send(self.linked.node.paths()),
            ControlCommand::Stop => return,
        };
        self.linked.handle(Input::Command { token, command });
        self.drive_node();
    }

    /// Hands what entities and instances reported to the node, at most a batch of each per turn. How many.
    pub(crate) fn take_reports(&mut self) -> usize {
        self.hosted.take_reports();
        let mut taken = 0;
        for owner in Hosted::OWNERS {
            for _ in 0..REPORTS_PER_TURN {
                let Some(report) = self.hosted.next_report(owner) else {
                    break;
                };
                self.linked.handle(Input::Host(owner, report));
                self.drive_node();
                taken += 1;
            }
        }
        taken
    }

    /// One report past the queue, when nothing is in it: what the loop would have come to next.
    pub(crate) fn report(&mut self, owner: Requester, report: HostReport) {
        self.linked.handle(Input::Host(owner, report));
        self.drive_node();
    }

    /// The way past the queues of what was reported.
    pub(crate) fn shortcut(&self) -> Arc<ShortcutPlace<Reported>> {
        self.hosted.shortcut()
    }

    /// Whether nothing waits for anything that runs here, and nothing was reported that is not heard yet.
    pub(crate) fn is_quiet(&self) -> bool {
        self.hosted.is_quiet()
    }

    /// Whether user links are read: mailboxes have room. Buffers never pause a link (10.14 b).
    fn has_room(&self) -> bool {
        self.hosted.has_room()
    }

    /// Whether another turn has work without any new input.
    pub(crate) fn has_work(&self) -> bool {
        !self.base.feedback.is_empty()
            || self.hosted.has_reports()
            || self.stores.has_reports()
            || self.linked.links.has_events()
            || self.linked.links.has_unread(self.has_room())
    }

    /// Turns what was encoded into writes: once per turn.
    pub(crate) fn flush(&mut self) {
        self.drive_node();
        self.linked.flush();
        self.write_log();
    }

    /// Writes down what links had to say.
    fn write_log(&mut self) {
        while let Some(report) = self.linked.links.next_report() {
            log::report(&report, &mut self.base.log, self.base.now.mono);
        }
    }

    /// Reads user links in turn, at most `frames` frames, while there is room. What came back is heard
    /// before: of one sender's messages those that found no room keep their place. How many there were.
    pub(crate) fn read_users(&mut self, frames: usize) -> usize {
        for read in 0..frames {
            if self.linked.links.has_events() {
                return read;
            }
            let has_room = self.has_room();
            if !self.linked.next_frame(has_room) {
                return read;
            }
            self.drive_node();
        }
        frames
    }

    /// A turn had so many messages.
    pub(crate) const fn turned(&mut self, messages: usize) {
        self.base.turned(messages);
    }

    /// Whether messages come one at a time.
    pub(crate) const fn is_one_at_a_time(&self) -> bool {
        self.base.is_one_at_a_time()
    }

    /// Who is to be woken once the pump is free: has to be done before anybody waits.
    pub(crate) fn take_woken(&mut self) -> WakeLater {
        self.base.take_woken()
    }

    /// The next thing for the hands.
    pub(crate) fn next_action(&mut self) -> Option<LoopAction> {
        let order = self.linked.links.next_order().map(LoopAction::Link);
        order.or_else(|| self.base.actions.pop_front())
    }

    /// When [`Self::tick`] is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let leases = self.leases.safe_for().map(|left| self.base.now.mono + left);
        let others = [
            self.linked.links.deadline(),
            self.base.look_at,
            self.load.ask_at,
            leases,
        ];
        let earlier = |first: Option<Instant>, at: Instant| Some(first.map_or(at, |first| first.min(at)));
        others.into_iter().flatten().fold(self.linked.wake(), earlier)
    }

    /// The newest picture.
    pub(crate) fn view(&self) -> &Arc<View> {
        self.linked.node.view()
    }

    pub(crate) fn stats(&self) -> NodeStats {
        let mut host = self.base.stats;
        host.log_lines_left_out = self.base.log.left_out_ever;
        self.hosted.show(&mut host);
        let (mut links, below) = (self.linked.links.stats(), self.below);
        links.handshakes_pending += below.pending;
        links.handshakes_refused += below.displaced + below.timed_out;
        links.refused_too_many += below.displaced;
        links.refused_timeout += below.timed_out;
        NodeStats {
            core: *self.linked.node.stats(),
            links,
            host,
            load: self.linked.node.own_load(),
        }
    }
}
