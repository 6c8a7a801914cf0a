//! The node as the pump sees it, so that tests can put a scripted one in its place.

use std::sync::Arc;

use quorate_core::effect::Output;
use quorate_core::explain::Explanation;
use quorate_core::ident::UniqueAddress;
use quorate_core::input::Input;
use quorate_core::node::Node;
use quorate_core::singleton::state::{SingletonId, SingletonState};
use quorate_core::stats::Stats;
use quorate_core::time::Now;
use quorate_core::view::View;
use rand_core::Rng;

use crate::stats::KindState;

/// See [`Node`].
pub(crate) trait Machine {
    fn handle(&mut self, now: Now, input: Input<'_>);
    fn poll(&mut self) -> Output;
    /// See [`Node::stop`].
    fn stop(&mut self, now: Now);
    fn view(&self) -> &Arc<View>;
    fn stats(&self) -> &Stats;
    /// Which picture [`Self::view`] is.
    fn revision(&self) -> u64 {
        self.view().revision()
    }
    /// See [`Node::hears`].
    fn hears(&self, from: &UniqueAddress, kind: u16) -> bool;
    /// Whether it has heard of this node: it is a member.
    fn knows(&self, node: &UniqueAddress) -> bool;
    fn kinds(&self) -> Vec<KindState>;
    /// See [`Node::singletons`].
    fn singleton(&self, singleton: SingletonId) -> Option<SingletonState>;
    fn explain(&self) -> Explanation;
}

impl<R: Rng> Machine for Node<R> {
    fn handle(&mut self, now: Now, input: Input<'_>) {
        Self::handle(self, now, input);
    }

    #[inline]
    fn poll(&mut self) -> Output {
        Self::poll(self)
    }

    fn stop(&mut self, now: Now) {
        Self::stop(self, now);
    }

    fn view(&self) -> &Arc<View> {
        Self::view(self)
    }

    fn stats(&self) -> &Stats {
        Self::stats(self)
    }

    fn explain(&self) -> Explanation {
        Self::explain(self)
    }

    fn hears(&self, from: &UniqueAddress, kind: u16) -> bool {
        Self::hears(self, from, kind)
    }

    fn knows(&self, node: &UniqueAddress) -> bool {
        Self::view(self).member(node).is_some()
    }

    fn singleton(&self, singleton: SingletonId) -> Option<SingletonState> {
        self.singletons().state(singleton)
    }

    fn kinds(&self) -> Vec<KindState> {
        let sharding = self.sharding();
        let state = |(kind, name): (_, &str)| {
            Some(KindState {
                kind,
                name: name.to_owned(),
                region: sharding.region(kind)?,
                coordinator: sharding.coordinator(kind),
            })
        };
        sharding.kinds().filter_map(state).collect()
    }
}
