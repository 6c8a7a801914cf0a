//! Starts durable entities of one kind without knowing their types. Decides nothing.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::life::run;
use super::surroundings::Surroundings;
use super::{DurableFailure, EventSourced};
use crate::entity::{EntityContext, Life};
use crate::journal::{Keeper, log_name};
use crate::mailbox::{EntityStart, Starter};
use crate::shared::Shared;
#[cfg(any(test, feature = "testing"))]
use crate::store::StoreAccess;

/// See the module.
pub(crate) struct DurableStarter<F> {
    pub(super) make: Arc<F>,
    pub(super) shared: Arc<Shared>,
    pub(super) keeper: Keeper,
    pub(super) around: Surroundings,
}

#[cfg(any(test, feature = "testing"))]
impl<F> DurableStarter<F> {
    /// A starter for entities of a kind that every node may host.
    pub(crate) fn new(
        make: F,
        shared: Arc<Shared>,
        store: StoreAccess,
        sleep: crate::background::Sleep,
    ) -> Self {
        Self {
            make: Arc::new(make),
            shared,
            keeper: Keeper::Store(store),
            around: Surroundings {
                sleep,
                alone: None,
                clocks: None,
            },
        }
    }

    /// The same with logs that are kept elsewhere.
    #[cfg(test)]
    pub(crate) fn kept_by(mut self, keeper: Keeper) -> Self {
        self.keeper = keeper;
        self
    }

    /// The same with the clocks of a kind of this name.
    #[cfg(test)]
    pub(crate) fn with_clocks(mut self, kind: &str) -> Self {
        let clocks = quorate_core::sharding::ids::KindId::of(&quorate_core::wakeups::clocks_of(kind));
        self.around.clocks = Some(crate::region::Region::new(Arc::clone(&self.shared), clocks, None));
        self
    }
}

impl<F, E> Starter for DurableStarter<F>
where
    F: Fn(EntityContext) -> E + Send + Sync + 'static,
    E: EventSourced,
{
    fn start(&self, start: EntityStart) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let life = Life::new(start, Arc::clone(&self.shared));
        let context = life.context();
        let name = log_name(context.kind(), context.id());
        let journal = name.and_then(|name| {
            self.keeper
                .journal(&self.shared, &self.around.sleep, name, context.placement())
        });
        let journal = journal.ok_or(DurableFailure::NameTooLong);
        Box::pin(run(Arc::clone(&self.make), life, journal, self.around.clone()))
    }
}
