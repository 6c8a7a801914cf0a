//! Everything a machine may touch outside itself: the time, who I am, the picture, chance and the sinks. No machine ever
//! holds a reference to another.

use alloc::sync::Arc;

use rand_core::Rng;

use crate::config::ValidConfig;
use crate::effect::{Answer, Effect, EntityOrder};
use crate::event::{Event, ShardingEvent};
use crate::ident::{Address, UniqueAddress};
use crate::input::{Target, Token};
use crate::lease::protocol::LeaseOrder;
use crate::message::Message;
use crate::outbox::Outbox;
use crate::owner::Owner;
use crate::reject::Rejection;
use crate::sharding::state::ids::KindId;
use crate::signal::Signals;
use crate::stats::Stats;
use crate::time::{Instant, Now};
use crate::timer::Timer;
use crate::timers::Timers;
use crate::view::View;

/// A machine's surroundings for the length of one call.
pub(crate) struct Cx<'a> {
    pub(crate) now: Now,
    pub(crate) me: &'a UniqueAddress,
    pub(crate) config: &'a ValidConfig,
    pub(crate) rng: &'a mut dyn Rng,
    pub(crate) stats: &'a mut Stats,
    pub(crate) signals: &'a mut Signals,
    pub(crate) timers: &'a mut Timers,
    pub(crate) outbox: &'a mut Outbox,
    pub(crate) view: &'a mut Arc<View>,
}

impl Cx<'_> {
    /// The monotonic time.
    pub(crate) const fn mono(&self) -> Instant {
        self.now.mono
    }

    /// The current picture.
    pub(crate) const fn view(&self) -> &Arc<View> {
        self.view
    }

    /// Replaces the picture. Membership only.
    pub(crate) fn publish(&mut self, view: View) {
        let before = core::mem::replace(self.view, Arc::new(view));
        self.signals.view_changed(before);
    }

    /// Sends a message to an incarnation. One to myself comes back through the router after this handler, like any
    /// other.
    pub(crate) fn send(&mut self, to: &UniqueAddress, message: Message) {
        if to == self.me {
            self.outbox.loopback.push_back(message);
            return;
        }
        self.stats.messages_sent += 1;
        self.outbox.effects.push_back(Effect::Send {
            to: Target::Node(to.clone()),
            message,
        });
    }

    /// Sends a message to whoever listens at an address.
    pub(crate) fn send_to_address(&mut self, to: &Address, message: Message) {
        debug_assert!(to != self.me.address(), "a node knows its own incarnation");
        self.stats.messages_sent += 1;
        self.outbox.effects.push_back(Effect::Send {
            to: Target::Address(to.clone()),
            message,
        });
    }

    /// Tells users a fact.
    pub(crate) fn notify(&mut self, event: Event) {
        self.outbox.effects.push_back(Effect::Notify(event));
    }

    /// Tells users a fact about a kind.
    pub(crate) fn notify_sharding(&mut self, kind: KindId, event: ShardingEvent) {
        self.notify(Event::Sharding { kind, event });
    }

    /// Answers a command.
    pub(crate) fn reply(&mut self, token: Token, answer: Answer) {
        self.outbox.effects.push_back(Effect::Reply { token, answer });
    }

    /// Has the host do something with an entity.
    pub(crate) fn order(&mut self, order: EntityOrder) {
        self.outbox.effects.push_back(Effect::Entity(order));
    }

    /// Asks the keeper of a lease for something; its report comes home to `owner`.
    pub(crate) fn order_lease(&mut self, owner: Owner, order: LeaseOrder) {
        self.outbox.effects.push_back(Effect::Lease(owner, order));
    }

    /// Has the host refuse links of an incarnation.
    pub(crate) fn quarantine(&mut self, node: UniqueAddress) {
        self.outbox.effects.push_back(Effect::Quarantine(node));
    }

    /// Sets a timer.
    pub(crate) fn wake(&mut self, timer: Timer, at: Instant) {
        // Never due within the same tick, so that a tick ends.
        let soonest = self.now.mono + core::time::Duration::from_micros(1);
        self.timers.set(timer, at.max(soonest));
    }

    /// Records what a peer did wrong.
    pub(crate) fn reject(&mut self, peer: &UniqueAddress, rejection: Rejection) {
        self.stats.rejected += 1;
        self.notify(Event::Rejected {
            peer: peer.clone(),
            rejection,
        });
    }
}
