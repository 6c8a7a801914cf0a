//! Everything a machine may touch outside itself: the time, who I am, the picture, chance and the sinks. No
//! machine ever holds a reference to another, and none can speak another's words: a [`Cx`] knows whose it is.
//! Spec: `ARCHITECTURE.md`.

mod base;
mod orders;
mod words;

use alloc::sync::Arc;
use core::marker::PhantomData;

use rand_core::Rng;

pub(crate) use self::base::NodeBase;
pub(crate) use self::words::{
    MachineWords, OfDdata, OfDetector, OfDowning, OfJournal, OfKv, OfLoad, OfMembership, OfOldest, OfPaths,
    OfSharding, OfSingleton,
};
use crate::config::ValidConfig;
use crate::effect::{Answer, Effect};
use crate::ident::{Address, UniqueAddress};
use crate::input::{Caller, SendTarget};
use crate::load::state::sample::Loads;
use crate::oldest::state::Succession;
use crate::outbox::NodeOutbox;
use crate::reject::Rejection;
use crate::signal::Signals;
use crate::stats::Stats;
use crate::time::{Instant, Now};
use crate::timers::NodeTimers;
use crate::view::View;

/// The surroundings of the machine with these words, for the length of one call. What only that machine may
/// do stands in `orders`.
pub(crate) struct Cx<'a, W> {
    now: Now,
    me: &'a UniqueAddress,
    config: &'a ValidConfig,
    rng: &'a mut dyn Rng,
    stats: &'a mut Stats,
    signals: &'a mut Signals,
    timers: &'a mut NodeTimers,
    outbox: &'a mut NodeOutbox,
    view: &'a mut Arc<View>,
    succession: &'a mut Arc<Succession>,
    loads: &'a mut Arc<Loads>,
    words: PhantomData<fn(W)>,
}

impl<'a, W: MachineWords> Cx<'a, W> {
    /// Sends a message to an incarnation. One to myself comes back through the router after this handler,
    /// like any other.
    pub(crate) fn send(&mut self, to: &UniqueAddress, message: W::Msg) {
        let message = message.into();
        if to == self.me {
            self.outbox.loopback.push_back(message);
            return;
        }
        self.stats.node.messages_sent += 1;
        self.push(Effect::Send {
            to: SendTarget::Node(to.clone()),
            message,
        });
    }

    /// Sends a message to another incarnation unless the queue to it is full: then it comes back at once, and
    /// this machine hears when there is room.
    pub(crate) fn offer(&mut self, to: &UniqueAddress, message: W::Msg) {
        debug_assert!(to != self.me, "nothing of this node waits for a link to itself");
        self.stats.node.messages_sent += 1;
        self.push(Effect::Offer {
            to: SendTarget::Node(to.clone()),
            message: message.into(),
        });
    }

    /// Sends a message to whoever listens at an address.
    pub(crate) fn send_to_address(&mut self, to: &Address, message: W::Msg) {
        debug_assert!(to != self.me.address(), "a node knows its own incarnation");
        self.stats.node.messages_sent += 1;
        self.push(Effect::Send {
            to: SendTarget::Address(to.clone()),
            message: message.into(),
        });
    }

    /// Tells users a fact.
    pub(crate) fn notify(&mut self, event: W::Event) {
        self.push(Effect::Notify(event.into()));
    }

    /// Answers a command.
    pub(crate) fn reply(&mut self, caller: impl Into<Caller>, answer: Answer) {
        match caller.into() {
            Caller::Host(token) => self.push(Effect::Reply { token, answer }),
            Caller::Sharding(ask) => self.outbox.answered.push_back((ask, answer)),
            Caller::Kv(opener) => self.outbox.log_answered.push_back((opener, answer)),
        }
    }

    /// Records what a peer did wrong.
    pub(crate) fn reject(&mut self, peer: &UniqueAddress, rejection: impl Into<Rejection>) {
        base::record_rejection(self.stats, self.outbox, peer, rejection.into());
    }

    /// Sets a timer, or moves it.
    pub(crate) fn wake(&mut self, timer: W::Timer, at: Instant) {
        // Never due within the same tick, so that a tick ends.
        let soonest = self.now.mono + core::time::Duration::from_micros(1);
        self.timers.set(timer.into(), at.max(soonest));
    }

    /// Forgets a timer; says whether it was set.
    pub(crate) fn cancel(&mut self, timer: W::Timer) -> bool {
        self.timers.cancel(&timer.into())
    }

    /// When a timer is due, if it is set.
    pub(crate) fn due(&self, timer: W::Timer) -> Option<Instant> {
        self.timers.at(&timer.into())
    }

    /// Whether a timer is set.
    pub(crate) fn is_set(&self, timer: W::Timer) -> bool {
        self.due(timer).is_some()
    }

    /// The machine's own counters.
    pub(crate) fn counters(&mut self) -> &mut W::Counters {
        W::counters(self.stats)
    }

    /// What is known of the members' load.
    pub(crate) const fn loads(&self) -> &Arc<Loads> {
        self.loads
    }

    /// Chance.
    pub(crate) fn rng(&mut self) -> &mut dyn Rng {
        self.rng
    }

    /// The time of this input.
    pub(crate) const fn now(&self) -> Now {
        self.now
    }

    /// The monotonic time.
    pub(crate) const fn mono(&self) -> Instant {
        self.now.mono
    }

    /// Who this node is.
    pub(crate) const fn me(&self) -> &'a UniqueAddress {
        self.me
    }

    /// Every setting; reading those of others is no harm.
    pub(crate) const fn config(&self) -> &'a ValidConfig {
        self.config
    }

    /// The current picture.
    pub(crate) const fn view(&self) -> &Arc<View> {
        self.view
    }

    /// Who acts for whom, in the current picture.
    pub(crate) const fn succession(&self) -> &Arc<Succession> {
        self.succession
    }

    fn push(&mut self, effect: Effect) {
        self.outbox.effects.push_back(effect);
    }
}
