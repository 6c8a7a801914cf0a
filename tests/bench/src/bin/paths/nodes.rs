//! Nodes in this process, over loopback.

use std::time::{Duration, Instant};

use quorate_tokio::{Cluster, Config, Security, Status};

use super::Failure;

/// The role of the nodes that host something.
pub(super) const HOST: &str = "host";

/// Longest wait for anything.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// So many nodes that are up, each known to all; the first `hosts` of them have the role.
pub(super) async fn start(nodes: usize, hosts: usize, state_bytes: usize) -> Result<Vec<Cluster>, Failure> {
    let change = move |config: &mut Config| {
        config.membership.min_nr_of_members = nodes;
        // What stands in front of it, and every slot may be moved at once.
        config.paths.state_bytes_max = state_bytes + 1_024;
        config.paths.move_cooldown = Duration::ZERO;
    };
    let mut started: Vec<Cluster> = Vec::new();
    for at in 0..nodes {
        let mut builder = quorate_tokio::builder("paths")
            .bind("127.0.0.1:0")
            .security(Security::insecure_plaintext())
            .config(change);
        if at < hosts {
            builder = builder.role(HOST);
        }
        if let Some(first) = started.first() {
            builder = builder.seeds([first.address().address()]);
        }
        let node = builder.start().await?;
        if at == 0 {
            node.join([node.address().address()]).await?;
        }
        started.push(node);
    }
    let begun = Instant::now();
    for node in &started {
        node.up().await?;
        while node
            .members()
            .iter()
            .filter(|member| member.status == Status::Up)
            .count()
            < nodes
        {
            wait(begun, "all nodes are up everywhere").await?;
        }
    }
    Ok(started)
}

/// A short pause, unless that went on for too long.
pub(super) async fn wait(begun: Instant, until: &str) -> Result<(), Failure> {
    if begun.elapsed() > PATIENCE {
        return Err(format!("waited in vain until {until}").into());
    }
    tokio::time::sleep(LOOK_AGAIN).await;
    Ok(())
}
