//! Load of real processes: a node measures its own, and the others hear of it.

use quorate_conformance::support::{cluster, eventually};
use quorate_driver::Security;
use quorate_driver::spi::Adapter;

/// On Linux everything is measured that can be. Elsewhere stalls and mailboxes are.
pub async fn a_node_measures_its_load_and_the_others_hear_of_it<A: Adapter>(security: &Security) {
    let nodes = cluster::<A>(2, security).await;
    for node in &nodes {
        eventually::<A>("load is measured and heard of", async || {
            let stats = node.stats().await.expect("the node runs");
            let (load, counted) = (stats.load, stats.core.load);
            let of_system = [load.cpu, load.machine, load.memory];
            let is_measured = !cfg!(target_os = "linux") || of_system.iter().all(Option::is_some);
            let is_exchanged = counted.samples_sent > 0 && counted.samples_taken > 0;
            is_measured && load.stall.is_some() && load.mailboxes.is_some() && is_exchanged
        })
        .await;
    }
}
