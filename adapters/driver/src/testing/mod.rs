//! What the crate `quorate-conformance` needs of the inside of this one. Not for users: it changes with any
//! version.

mod durable;
mod script;
#[cfg(test)]
pub(crate) mod voter;

use std::io;
use std::sync::Arc;

use quorate_core::owner::Requester;
use quorate_core::store::{StoreAnswer, StoreError, StoreOrder, StoreRequest};

#[cfg(test)]
pub(crate) use durable::block_on;
pub use durable::{DurableEntity, DurableHost};
pub use script::play;

use crate::store::{Store, Stores};
#[cfg(test)]
use {
    crate::background::Background,
    crate::shared::{Commands, Shared, SharedParts},
    crate::shutdown::Life,
    quorate_core::config::Config,
    quorate_core::ident::{Address, ClusterName, UniqueAddress},
};

/// What handles need of a node that is not there: nothing that is spawned runs, and no time passes.
#[cfg(test)]
pub(crate) fn idle_node(change: impl FnOnce(&mut Config)) -> (Arc<Shared>, Commands) {
    node_beside(Background::none(), change)
}

/// The same with this in place of the users' executor.
#[cfg(test)]
pub(crate) fn node_beside(
    background: Background,
    change: impl FnOnce(&mut Config),
) -> (Arc<Shared>, Commands) {
    let me = UniqueAddress::new(Address::new("127.0.0.1", 2551).unwrap(), 1);
    let mut config = Config::fast(ClusterName::new("idle").unwrap());
    change(&mut config);
    let parts = SharedParts {
        wake: Arc::default(),
        store: None,
        life: Life::new(&config, drop),
        background,
    };
    Shared::new(me, &config, parts)
}

/// The thread of a node's store, without the node.
#[derive(Debug)]
pub struct StoreThread(Stores);

impl StoreThread {
    /// Starts it, and opens the store on it.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start(store: Box<dyn Store>) -> io::Result<Self> {
        Stores::start(store, Arc::default()).map(Self)
    }

    /// Hands an order over; says whether there was room for it.
    #[must_use]
    pub fn order(&self, id: u64, order: StoreOrder) -> bool {
        self.0
            .order(Requester::Ddata, StoreRequest { id, order })
            .is_none()
    }

    /// The next outcome, if there is one.
    #[must_use]
    pub fn next(&self) -> Option<Result<StoreAnswer, StoreError>> {
        self.0.next_report().map(|(_, report)| report.outcome)
    }
}
