//! Whose code runs on this thread at the moment, so that an entity that asks itself, or somebody who waits
//! for it, is refused instead of waiting for an answer that only it could give. Decides nothing.

use std::cell::RefCell;
use std::sync::Arc;

use quorate_core::sharding::chain::AskChain;

use crate::error::AskError;
use crate::shared::Shared;
use quorate_core::input::Recipient;

/// Somebody whose handlers ask.
pub(crate) trait Asker: Send + Sync {
    /// Whether a message to this recipient would come to it, or to its successor.
    fn is(&self, node: &Arc<Shared>, recipient: &Recipient) -> bool;

    /// Whose handlers wait for an ask that its handler makes. `None` if the recipient is one of them: it
    /// would wait for itself.
    fn chain_to(&self, recipient: &Recipient) -> Option<AskChain>;
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<dyn Asker>>> = const { RefCell::new(None) };
}

/// Puts back who ran before when it is dropped.
pub(crate) struct Entered(Option<Arc<dyn Asker>>);

/// Its code runs on this thread from now on.
pub(crate) fn enter(asker: Arc<dyn Asker>) -> Entered {
    Entered(CURRENT.replace(Some(asker)))
}

impl Drop for Entered {
    fn drop(&mut self) {
        drop(CURRENT.replace(self.0.take()));
    }
}

/// Whose handlers wait for an ask that is made here and now, through this node: nobody's outside of all
/// handlers.
///
/// # Errors
/// The recipient is one of them, or whoever asks: it would wait for itself.
pub(crate) fn chain(node: &Arc<Shared>, recipient: &Recipient) -> Result<AskChain, AskError> {
    CURRENT.with_borrow(|current| match current {
        None => Ok(AskChain::default()),
        Some(current) if current.is(node, recipient) => Err(AskError::OwnEntity),
        Some(current) => current.chain_to(recipient).ok_or(AskError::Cycle),
    })
}
