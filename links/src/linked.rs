//! A node and its links as one: what a host has to do between them in every turn, in the right order. For hosts that put nothing of
//! their own between the two; the driver does, and connects them itself. Decides nothing.

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

/// What a host does next.
#[derive(Debug)]
pub enum Next {
    /// This: an order for entities, an answer, a fact. Never a `Send` or a `Quarantine`: the links have done those.
    Effect(Effect),
    /// What [`Links::next_order`] says; then sleep until then, or until something happens. A time that has come: there is more to
    /// do in the next turn. `None`: nothing is due, because the node has not begun or has halted.
    Sleep(Option<Instant>),
}

/// See the module. The parts are the host's too: to ask them, and for what they take beside [`Self::link`].
#[derive(Debug)]
pub struct LinkedNode<R> {
    /// The node.
    pub node: Node<R>,
    /// Its links.
    pub links: Links,
    /// Frames of user links in this turn.
    frames: usize,
}

impl<R: Rng + Send + 'static> LinkedNode<R> {
    /// A new node with links whose ends prove nothing, each with a generator of its own.
    pub fn new(config: ValidConfig, me: UniqueAddress, [ours, theirs]: [R; 2], now: Now) -> Self {
        let links = Links::new(config.clone(), me.clone(), theirs, now);
        Self::of(Node::new(config, me, ours, now), links)
    }

    /// The same of parts that the host has made. Both must be of the same node.
    pub const fn of(node: Node<R>, links: Links) -> Self {
        let frames = 0;
        Self { node, links, frames }
    }

    /// A new turn begins. Read the clock anew after every sleep: so the node sees when its process stood still.
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

    /// What is next: timers that are due, frames that have come, messages that are to be sent, all in their order. `has_room`:
    /// whether the host has room for messages to entities; without it, or without room in the node, user links stay unread.
    pub fn poll(&mut self, has_room: bool) -> Next {
        loop {
            let wake = match self.node.poll() {
                Output::Effect(effect) => {
                    let Some(effect) = self.links.perform(self.node.view(), effect) else {
                        continue;
                    };
                    match &effect {
                        Effect::Notify(Event::Membership(MembershipEvent::SelfRemoved)) => {
                            self.take_back_unsent()
                        }
                        Effect::Halt(_) => self.links.stop(),
                        Effect::Send { .. }
                        | Effect::Offer { .. }
                        | Effect::Quarantine(_)
                        | Effect::Notify(_)
                        | Effect::Entity(_)
                        | Effect::Singleton(_)
                        | Effect::Reply { .. }
                        | Effect::Lease(..)
                        | Effect::Store(..)
                        | Effect::Allocate(_) => {}
                    }
                    return Next::Effect(effect);
                }
                Output::Sleep(wake) => wake.map(|wake| wake.at),
            };
            let now = self.links.now();
            if self.links.next_urgent_frame(&mut self.node) {
                continue;
            }
            if let Some(event) = self.links.next_event() {
                self.node.handle(now, Input::Link(event));
            } else if wake.is_some_and(|at| at <= now.mono) {
                self.node.handle(now, Input::Tick);
            } else if !self.links.tick(&mut self.node) && !self.reads_users(has_room) {
                self.links.flush(&self.node);
                return Next::Sleep(self.sleep(wake, has_room));
            }
        }
    }

    /// The node has ended and says next how far each ask has come: it hears before which of them no writer has.
    fn take_back_unsent(&mut self) {
        self.links.return_waiting_asks();
        let now = self.links.now();
        while let Some(event) = self.links.next_event() {
            self.node.handle(now, Input::Link(event));
        }
    }

    fn reads_users(&mut self, has_room: bool) -> bool {
        if self.frames >= FRAMES_PER_TURN {
            return false;
        }
        let was_frame = self.links.next_frame(&mut self.node, has_room);
        self.frames += usize::from(was_frame);
        was_frame
    }

    fn sleep(&self, wake: Option<Instant>, has_room: bool) -> Option<Instant> {
        if self.links.has_unread(has_room) {
            return Some(self.links.now().mono);
        }
        let links = self.links.deadline().filter(|_| wake.is_some());
        wake.into_iter().chain(links).min()
    }
}
