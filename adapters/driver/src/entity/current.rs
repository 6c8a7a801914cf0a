//! Which entity's code runs on this thread at the moment, so that one that asks itself is refused instead of waiting for an
//! answer that only it could give. Decides nothing.

use std::cell::RefCell;
use std::sync::Arc;

use super::EntityContext;
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

/// Whether the code that runs is this recipient's, on this node.
pub(crate) fn is(node: &Arc<Shared>, recipient: &Recipient) -> bool {
    CURRENT.with_borrow(|current| {
        current
            .as_ref()
            .is_some_and(|current| current.is(node, recipient))
    })
}
