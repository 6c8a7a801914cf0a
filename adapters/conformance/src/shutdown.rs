//! How nodes end: a whole cluster in good order. Spec: membership 2.12, sharding 10.12.

use quorate_core::effect::{CommandError, MembershipCommandError};
use quorate_core::event::{Event, ShardingEvent, SingletonEvent};
use quorate_core::membership::member::Status;
use quorate_driver::{Adapter, Cluster, ClusterError, ClusterEvent, Events, Runtime, Security};

use super::singletons::{Journal, billing, count, is_here};
use super::support::{cluster, living_on, node, notebooks, runtime, until, within};

const NODES: usize = 5;

/// What began or moved anywhere since the events were asked for, as a node has told it. Waits for its end.
async fn begun<A: Adapter>(mut events: Events) -> Vec<Event> {
    let mut begun = Vec::new();
    within::<A, _>("the node ends", async {
        while let Some(event) = events.next().await {
            let ClusterEvent::Event(event) = event else {
                continue;
            };
            let of_sharding = matches!(
                &event,
                Event::Sharding {
                    event: ShardingEvent::ShardAllocated { .. } | ShardingEvent::ShardStarted { .. },
                    ..
                }
            );
            let of_singletons = matches!(
                &event,
                Event::Singleton {
                    event: SingletonEvent::Started { .. } | SingletonEvent::HandedOver { .. },
                    ..
                }
            );
            if of_sharding || of_singletons {
                begun.push(event);
            }
        }
    })
    .await;
    begun
}

fn leave_all<A: Adapter>(nodes: &[Cluster<A>]) {
    for node in nodes {
        let node = node.clone();
        runtime::<A>().spawn(async move {
            let _ = node.leave().await;
        });
    }
}

/// Whoever prepares hears when all are ready; then all leave at once, and nothing moves and nothing begins anywhere.
pub async fn m_220_five_nodes_prepare_and_stop_together_without_a_hand_over<A: Adapter>(security: &Security) {
    let outside: Cluster<A> = node(security).start().await.expect("the node starts");
    let not_a_member = CommandError::Membership(MembershipCommandError::NotAMember);
    assert_eq!(
        outside.prepare_for_shutdown().await,
        Err(ClusterError::Refused(not_a_member))
    );
    outside.stop().await;

    let (nodes, journal) = (cluster::<A>(NODES, security).await, Journal::default());
    let (mut regions, mut handles) = (Vec::new(), Vec::new());
    for node in &nodes {
        regions.push(notebooks(node).await);
        handles.push(billing(node, &journal).await);
    }
    for node in &nodes {
        living_on::<A>(&regions[0], node.address()).await;
    }
    is_here::<A>(&handles[0]).await;
    count::<A>(&handles[3]).await;

    let prepared = within::<A, _>("all are ready", nodes[2].prepare_for_shutdown()).await;
    assert_eq!(prepared, Ok(()));
    let statuses = nodes[2].members();
    assert!(
        statuses
            .iter()
            .all(|member| member.status == Status::ReadyForShutdown),
        "{statuses:?}"
    );
    for node in &nodes {
        until(node, "everybody knows", |view| view.is_ready_for_shutdown()).await;
    }
    let told: Vec<Events> = nodes.iter().map(Cluster::events).collect();
    leave_all(&nodes);
    for (node, events) in nodes.iter().zip(told) {
        assert_eq!(begun::<A>(events).await, [], "{}", node.address());
        let ended = node.terminated().await;
        assert!(ended.is_graceful(), "{ended:?}");
        assert_eq!(node.prepare_for_shutdown().await, Err(ClusterError::Stopped));
    }
    assert_eq!(journal.instances().len(), 1);
}
