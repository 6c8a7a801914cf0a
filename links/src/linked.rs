//! A node and its links as one: what a host has to do between them in every turn, in the right order.
//! [`LinkedNode::poll`] does all of it; a host that puts something of its own between the two, as the driver
//! does, calls the steps it is made of. Decides nothing.

use quorate_core::config::ValidConfig;
use quorate_core::effect::{Effect, Output};
use quorate_core::event::{Event, MembershipEvent};
use quorate_core::ident::UniqueAddress;
use quorate_core::input::Input;
use quorate_core::node::Node;
use quorate_core::time::{Instant, Now};
use rand_core::Rng;

use crate::limits::FRAMES_PER_TURN;
use crate::links::Links;
use crate::order::LinkInput;
use crate::recipient::LinkRecipient;

/// What a host does next.
#[derive(Debug)]
pub enum HostStep {
    /// This: an order for entities, an answer, a fact. Never a `Send` or a `Quarantine`: the links have done
    /// those.
    Effect(Effect),
    /// What [`Links::next_order`] says; then sleep until then, or until something happens. A time that has
    /// come: there is more to do in the next turn. `None`: nothing is due, because the node has not begun or
    /// has halted.
    Sleep(Option<Instant>),
}

/// See the module. The parts are the host's too: to ask them, and for what they take beside [`Self::link`].
#[derive(Debug)]
pub struct LinkedNode<N> {
    /// The node.
    pub node: N,
    /// Its links.
    pub links: Links,
    /// When the node wants to be ticked, as it said last.
    wake: Option<Instant>,
    /// Frames of user links in this turn.
    frames: usize,
}

impl<R: Rng + Send + 'static> LinkedNode<Node<R>> {
    /// A new node with links whose ends prove nothing, each with a generator of its own.
    pub fn new(config: ValidConfig, me: UniqueAddress, [ours, theirs]: [R; 2], now: Now) -> Self {
        let links = Links::new(config.clone(), me.clone(), theirs, now);
        Self::of(Node::new(config, me, ours, now), links)
    }
}

impl<N: LinkRecipient> LinkedNode<N> {
    /// The same of parts that the host has made. Both must be of the same node.
    pub const fn of(node: N, links: Links) -> Self {
        Self {
            node,
            links,
            wake: None,
            frames: 0,
        }
    }

    /// A new turn begins. Read the clock anew after every sleep: so the node sees when its process stood
    /// still.
    pub const fn set_time(&mut self, now: Now) {
        self.links.set_time(now);
        self.frames = 0;
    }

    /// Tells the node something. Poll until it sleeps before the next input.
    pub fn handle(&mut self, input: Input<'_>) {
        self.node.handle(self.links.now(), input);
    }

    /// Tells the links what happened to one. Poll until it sleeps before the next input.
    pub fn link(&mut self, input: LinkInput) {
        self.links.handle(&mut self.node, input);
    }

    /// What is next: timers that are due, frames that have come, messages that are to be sent, all in their
    /// order. `has_room`: whether the host has room for messages to entities; without it, or without room in
    /// the node, user links stay unread.
    pub fn poll(&mut self, has_room: bool) -> HostStep {
        loop {
            if let Some(effect) = self.next_effect() {
                return HostStep::Effect(effect);
            }
            if self.next_urgent_frame() || self.hear() || self.tick() {
                continue;
            }
            if !self.tick_links() && !self.reads_users(has_room) {
                self.flush();
                return HostStep::Sleep(self.sleep(has_room));
            }
        }
    }

    /// What the node wants of its host: what concerns links is done. `None` once it wants nothing more.
    #[inline]
    pub fn next_effect(&mut self) -> Option<Effect> {
        loop {
            match self.node.poll() {
                // What each message needs stands here, and the rest beside it, so as not to weigh on every
                // call.
                Output::Effect(Effect::Send { to, message }) => {
                    self.links.send(self.node.view(), to, message);
                }
                Output::Effect(effect @ (Effect::Host(..) | Effect::Reply { .. })) => return Some(effect),
                Output::Effect(
                    effect @ (Effect::Offer { .. }
                    | Effect::Quarantine(_)
                    | Effect::Notify(_)
                    | Effect::Lease(..)
                    | Effect::Store(..)
                    | Effect::Allocate(_)
                    | Effect::Halt(_)),
                ) => {
                    if let Some(effect) = self.perform(effect) {
                        return Some(effect);
                    }
                }
                Output::Sleep(wake) => {
                    self.wake = wake.map(|wake| wake.at);
                    return None;
                }
            }
        }
    }

    #[inline(never)]
    fn perform(&mut self, effect: Effect) -> Option<Effect> {
        let effect = self.links.perform(self.node.view(), effect)?;
        if let Effect::Notify(Event::Membership(MembershipEvent::SelfRemoved)) = &effect {
            self.take_back_unsent();
        }
        if let Effect::Halt(_) = &effect {
            self.links.stop();
        }
        Some(effect)
    }

    /// Tells the node the next thing that its links have to say; `false` if there is none.
    pub fn hear(&mut self) -> bool {
        let Some(event) = self.links.next_event() else {
            return false;
        };
        self.handle(Input::Link(event));
        true
    }

    /// Whether the node's time has come.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.wake.is_some_and(|at| at <= self.links.now().mono)
    }

    /// When that is; `None` if nothing is due, because the node has not begun or has halted.
    #[must_use]
    pub const fn wake(&self) -> Option<Instant> {
        self.wake
    }

    /// Tells the node that its time has come, if it has.
    pub fn tick(&mut self) -> bool {
        let is_due = self.is_due();
        if is_due {
            self.handle(Input::Tick);
        }
        is_due
    }

    /// See [`Links::tick`].
    pub fn tick_links(&mut self) -> bool {
        self.links.tick(&mut self.node)
    }

    /// See [`Links::next_urgent_frame`].
    pub fn next_urgent_frame(&mut self) -> bool {
        self.links.next_urgent_frame(&mut self.node)
    }

    /// See [`Links::next_frame`].
    pub fn next_frame(&mut self, has_room: bool) -> bool {
        self.links.next_frame(&mut self.node, has_room)
    }

    /// See [`Links::flush`].
    pub fn flush(&mut self) {
        self.links.flush(&self.node);
    }

    /// The node has ended and says next how far each ask has come: it hears before which of them no writer
    /// has.
    pub fn take_back_unsent(&mut self) {
        self.links.return_waiting_asks();
        while self.hear() {}
    }

    fn reads_users(&mut self, has_room: bool) -> bool {
        if self.frames >= FRAMES_PER_TURN {
            return false;
        }
        let was_frame = self.next_frame(has_room);
        self.frames += usize::from(was_frame);
        was_frame
    }

    fn sleep(&self, has_room: bool) -> Option<Instant> {
        if self.links.has_unread(has_room) {
            return Some(self.links.now().mono);
        }
        let links = self.links.deadline().filter(|_| self.wake.is_some());
        self.wake.into_iter().chain(links).min()
    }
}
