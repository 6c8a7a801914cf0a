//! Entities beside the counters that nobody wakes: the cluster remembers them and starts them by itself,
//! after all nodes were killed too.

use quorate_driver::{Cluster, ClusterError, EntityContext, Kind, Region};
use quorate_driver::{Config, data::Pattern};

use super::ALARMS;
use crate::stores::State;

/// Fewer than there are alarms, so that some shards have several.
const SHARDS: u32 = 15;

/// What the nodes' stores keep of entities that are remembered in replicated data.
const REMEMBERED: &str = "shard-*";

/// The same configuration for nodes that remember.
pub(super) fn remembering(config: &mut Config, state: State) {
    match state {
        State::Events | State::Bucket => config.ddata.durable_keys.extend(Pattern::parse(REMEMBERED)),
        // The logs are where those of the counters are.
        State::Data => {}
    }
    config.sharding.updating_state_timeout = std::time::Duration::from_secs(10);
}

/// Hosts them.
pub(super) async fn host(cluster: &Cluster, state: State) -> Result<Region<(), String>, ClusterError> {
    let kind = Kind::new("Alarm")
        .shards(SHARDS)
        .store_mode(state.homes())
        .remember_entities(state.remembered());
    let here = |context: EntityContext, (): ()| async move { context.node().address().to_string() };
    cluster.entities(kind).start_fn(here).await
}

/// What they are called.
pub(super) fn ids() -> impl Iterator<Item = String> {
    (0..ALARMS).map(|alarm| format!("alarm-{alarm}"))
}
