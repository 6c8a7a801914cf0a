//! What a kind of durable entities is hosted with. Spec: sharding 10.7: a file of one node claims nothing
//! after a move.

use std::sync::Arc;

use quorate_core::sharding::ids::KindId;

use super::clocks::{ClockAnswer, ClockEntity, ClockRequest, ClockSeeing, kind_beside};
use super::replacing::Replacing;
use super::surroundings::Surroundings;
use super::{DurableStarter, DurableState, EventSourced};
use crate::background::Sleep;
use crate::entity::EntityContext;
use crate::error::ClusterError;
use crate::journal::Keeper;
use crate::kind::Kind;
use crate::region::Region;
use crate::shared::Shared;

/// Hosts entities of a kind that keep their events, and the clocks that wake them.
pub(crate) async fn host_event_sourced<E, F>(
    shared: &Arc<Shared>,
    kind: Kind<E::Command, E::Reply>,
    sleep: Sleep,
    make: F,
) -> Result<Region<E::Command, E::Reply>, ClusterError>
where
    E: EventSourced,
    F: Fn(EntityContext) -> E + Send + Sync + 'static,
{
    let (keeper, is_alone) = match kind.bucket() {
        Some(bucket) => (Keeper::of_bucket(shared, bucket).await?, false),
        None => Keeper::of(shared, kind.has_single_host())?,
    };
    let alone = if is_alone {
        Some(kind.settings(true)?.role)
    } else {
        None
    };
    let around = Surroundings {
        sleep,
        alone,
        clocks: None,
    };
    let clocks = host_clocks(shared, &kind, keeper.clone(), around.clone()).await?;
    let starter = DurableStarter {
        make: Arc::new(make),
        shared: Arc::clone(shared),
        keeper,
        around: Surroundings {
            clocks: Some(clocks),
            ..around
        },
    };
    Region::host(shared, &kind, Arc::new(starter)).await
}

/// Hosts the clocks that wake the entities of a kind, and sees that they run.
async fn host_clocks<M, R>(
    shared: &Arc<Shared>,
    kind: &Kind<M, R>,
    keeper: Keeper,
    around: Surroundings,
) -> Result<Region<ClockRequest, ClockAnswer>, ClusterError> {
    let entities = KindId::of(kind.name());
    let clocks = kind_beside(kind);
    let role = clocks.settings(true)?.role;
    let starter = DurableStarter {
        make: Arc::new(move |_| ClockEntity::new(entities)),
        shared: Arc::clone(shared),
        keeper,
        around,
    };
    let region = Region::host(shared, &clocks, Arc::new(starter)).await?;
    if shared.follows(region.kind()) {
        let seeing = ClockSeeing::new(&region, role);
        shared.background.spawn(seeing.run());
    }
    Ok(region)
}

/// Hosts entities of a kind that keep their newest state.
pub(crate) async fn host_durable_state<D, F>(
    shared: &Arc<Shared>,
    kind: Kind<D::Command, D::Reply>,
    sleep: Sleep,
    make: F,
) -> Result<Region<D::Command, D::Reply>, ClusterError>
where
    D: DurableState,
    F: Fn(EntityContext) -> D + Send + Sync + 'static,
{
    let make = move |context: EntityContext| Replacing {
        inner: make(context),
        nothing: D::State::default(),
    };
    host_event_sourced(shared, kind, sleep, make).await
}
