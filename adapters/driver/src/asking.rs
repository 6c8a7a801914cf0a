//! Which entity's code runs on this thread at the moment, so that one that asks itself, or somebody who waits for it, is refused
//! instead of waiting for an answer that only it could give. Decides nothing.

use std::cell::RefCell;
use std::sync::Arc;

use quorate_core::sharding::chain::AskChain;

use super::EntityContext;
use crate::error::AskError;
use crate::shared::{Recipient, Shared};

thread_local! {
    static CURRENT: RefCell<Option<EntityContext>> = const { RefCell::new(None) };
}

/// Puts back who ran before when it is dropped.
pub(crate) struct Entered(Option<EntityContext>);

/// This entity's code runs on this thread from now on.
pub(crate) fn enter(context: &EntityContext) -> Entered {
    Entered(CURRENT.replace(Some(context.clone())))
}

impl Drop for Entered {
    fn drop(&mut self) {
        drop(CURRENT.replace(self.0.take()));
    }
}

/// Whose handlers wait for an ask that is made here and now, through this node: nobody's outside of all handlers.
///
/// # Errors
/// The recipient is one of them, or whoever asks: it would wait for itself.
pub(crate) fn chain(node: &Arc<Shared>, recipient: &Recipient) -> Result<AskChain, AskError> {
    CURRENT.with_borrow(|current| match current {
        None => Ok(AskChain::default()),
        Some(current) if current.is(node, recipient) => Err(AskError::OwnEntity),
        Some(current) => current.chain_to(recipient).ok_or(AskError::Circle),
    })
}
