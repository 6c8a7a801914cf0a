//! What all machines of a node share, as its owner holds it: the node, or the fixture of a unit test. Lends
//! it to one machine at a time. Decides nothing.

use alloc::sync::Arc;
use core::marker::PhantomData;

use rand_core::Rng;

use super::{Cx, MachineWords};
use crate::config::ValidConfig;
use crate::effect::Effect;
use crate::event::Event;
use crate::ident::UniqueAddress;
use crate::load::state::sample::Loads;
use crate::oldest::state::Succession;
use crate::outbox::NodeOutbox;
use crate::reject::Rejection;
use crate::signal::Signals;
use crate::stats::Stats;
use crate::time::Now;
use crate::timers::NodeTimers;
use crate::view::View;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct NodeBase<R> {
    pub(crate) now: Now,
    pub(crate) me: UniqueAddress,
    pub(crate) config: ValidConfig,
    pub(crate) rng: R,
    pub(crate) stats: Stats,
    pub(crate) signals: Signals,
    pub(crate) timers: NodeTimers,
    pub(crate) outbox: NodeOutbox,
    pub(crate) view: Arc<View>,
    pub(crate) succession: Arc<Succession>,
    pub(crate) loads: Arc<Loads>,
}

impl<R: Rng> NodeBase<R> {
    /// Nothing was said, nothing is waited for, and the picture is empty.
    pub(crate) fn idle(config: ValidConfig, me: UniqueAddress, rng: R, now: Now) -> Self {
        Self {
            now,
            view: Arc::new(View::idle(me.clone())),
            me,
            config,
            rng,
            stats: Stats::default(),
            signals: Signals::default(),
            timers: NodeTimers::default(),
            outbox: NodeOutbox::default(),
            succession: Arc::default(),
            loads: Arc::default(),
        }
    }

    /// The surroundings of the machine that has these words.
    pub(crate) fn cx<W: MachineWords>(&mut self) -> Cx<'_, W> {
        Cx {
            now: self.now,
            me: &self.me,
            config: &self.config,
            rng: &mut self.rng,
            stats: &mut self.stats,
            signals: &mut self.signals,
            timers: &mut self.timers,
            outbox: &mut self.outbox,
            view: &mut self.view,
            succession: &mut self.succession,
            loads: &mut self.loads,
            words: PhantomData,
        }
    }

    /// Records what a peer did wrong before any machine heard of it.
    pub(crate) fn reject(&mut self, peer: &UniqueAddress, rejection: Rejection) {
        record_rejection(&mut self.stats, &mut self.outbox, peer, rejection);
    }
}

pub(super) fn record_rejection(
    stats: &mut Stats,
    outbox: &mut NodeOutbox,
    peer: &UniqueAddress,
    rejection: Rejection,
) {
    stats.node.rejected += 1;
    outbox.effects.push_back(Effect::Notify(Event::Rejected {
        peer: peer.clone(),
        rejection,
    }));
}
