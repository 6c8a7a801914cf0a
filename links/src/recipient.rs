//! The node that links serve, as they and a [`LinkedNode`](crate::LinkedNode) see it. [`Node`] is one; a test
//! puts a scripted one in its place.

use alloc::sync::Arc;

use quorate_core::effect::Output;
use quorate_core::ident::UniqueAddress;
use quorate_core::input::Input;
use quorate_core::node::Node;
use quorate_core::time::Now;
use quorate_core::view::View;
use rand_core::Rng;

/// The node that links serve.
pub trait LinkRecipient {
    /// Tells it something. What it wants because of that is polled once this has returned.
    fn handle(&mut self, now: Now, input: Input<'_>);

    /// See [`Node::poll`].
    fn poll(&mut self) -> Output;

    /// The cluster as it sees it.
    fn view(&self) -> &Arc<View>;

    /// See [`Node::hears`].
    fn hears(&self, from: &UniqueAddress, kind: u16) -> bool;

    /// Which picture [`Self::view`] is: links look for new members when it has changed.
    fn revision(&self) -> u64 {
        self.view().revision()
    }

    /// Whether a node is a member.
    fn is_member(&self, node: &UniqueAddress) -> bool {
        self.view().member(node).is_some()
    }
}

impl<R: Rng> LinkRecipient for Node<R> {
    fn handle(&mut self, now: Now, input: Input<'_>) {
        Self::handle(self, now, input);
    }

    #[inline]
    fn poll(&mut self) -> Output {
        Self::poll(self)
    }

    fn view(&self) -> &Arc<View> {
        Self::view(self)
    }

    fn hears(&self, from: &UniqueAddress, kind: u16) -> bool {
        Self::hears(self, from, kind)
    }
}
