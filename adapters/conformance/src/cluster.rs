//! Whole nodes: formation, messages between them, leaving, restarting.

use quorate_core::effect::HaltReason;
use quorate_core::membership::member::Status;
use quorate_core::sharding::errors::AskFailure;
use quorate_driver::spi::Adapter;
use quorate_driver::{AskError, Security, Termination};

use super::support::{
    all_up, cluster, eventually, first, joined, living_on, node, notebooks, read, start_at, until, within,
};

/// Messages of the test of order: some hundred batches of the pump.
const MESSAGES: u32 = 5_000;

/// Formation; a message told from one node and asked for from another reaches one entity wherever it lives.
pub async fn three_nodes_form_a_cluster_and_answer_for_each_other<A: Adapter>(security: &Security) {
    let nodes = cluster::<A>(3, security).await;
    let mut regions = Vec::new();
    for node in &nodes {
        regions.push(notebooks(node).await);
    }
    for (node, page) in nodes.iter().zip(1..) {
        let id = living_on::<A>(&regions[0], node.address()).await;
        regions[1]
            .entity(&id)
            .tell(&vec![page])
            .await
            .expect("it is taken");
        eventually::<A>("what was told is read", async || {
            read::<A>(&regions[2], &id).await == (node.address().to_string(), vec![page])
        })
        .await;
    }
    for node in &nodes {
        let stats = node.stats().await.expect("the node runs");
        assert_eq!(stats.links.handshakes_refused, 0, "{stats:?}");
        assert_eq!(stats.core.node.rejected_wire, 0, "{stats:?}");
        assert!(stats.links.handshakes_completed > 0, "{stats:?}");
    }
}

/// Leaving: the oldest goes, with the shard coordinator, and its entities live on elsewhere.
pub async fn a_node_leaves_and_hands_over<A: Adapter>(security: &Security) {
    let nodes = cluster::<A>(3, security).await;
    let mut regions = Vec::new();
    for node in &nodes {
        regions.push(notebooks(node).await);
    }
    let (leaver, stayer) = (&nodes[0], &nodes[1]);
    let id = living_on::<A>(&regions[1], leaver.address()).await;
    let left = within::<A, _>("the node has left", leaver.leave()).await;
    assert_eq!(left, Ok(Termination::Halted(HaltReason::Left)));
    all_up::<A>(stayer, 2).await;
    let (home, _) = read::<A>(&regions[1], &id).await;
    assert_ne!(home, leaver.address().to_string());
    let ended = AskError::Failed(AskFailure::NodeStoppedUnsent);
    assert_eq!(
        regions[0].entity(&id).ask(vec![]).await,
        Err(ended),
        "not handled"
    );
}

/// A node that stops without a word and comes back at its address is another member: a new uid, new link
/// epochs, and the peers find their way to it.
pub async fn a_restarted_node_is_a_new_member<A: Adapter>(security: &Security) {
    let nodes = cluster::<A>(3, security).await;
    let (seed, old) = (nodes[0].address().address(), nodes[2].address());
    assert_eq!(nodes[2].stop().await, Termination::Stopped);
    let again = start_at::<A>(old.address(), seed, security).await;
    assert_ne!(again.address().uid(), old.uid());
    within::<A, _>("the restarted node is up", again.up())
        .await
        .expect("it is up");
    for node in nodes.iter().take(2) {
        until::<A>(node, "the new incarnation takes the old one's place", |view| {
            let up = |member: &quorate_core::membership::member::Member| member.status == Status::Up;
            view.member(old).is_none() && view.member(again.address()).is_some_and(up)
        })
        .await;
    }
    let mut regions = Vec::new();
    for node in [&nodes[0], &nodes[1], &again] {
        regions.push(notebooks(node).await);
    }
    let id = living_on::<A>(&regions[0], again.address()).await;
    assert_eq!(read::<A>(&regions[1], &id).await.0, again.address().to_string());
}

/// What one node tells one entity arrives in the order in which it was told, each once.
pub async fn messages_to_an_entity_keep_their_order<A: Adapter>(security: &Security) {
    let nodes = cluster::<A>(2, security).await;
    let (here, _there) = (notebooks(&nodes[0]).await, notebooks(&nodes[1]).await);
    let id = living_on::<A>(&here, nodes[1].address()).await;
    let entity = here.entity(&id);
    for page in 0..MESSAGES {
        // A message may be refused for lack of room, but never overtakes: so one that is waited for goes
        // between.
        if page % 500 == 499 {
            entity.ask(vec![page]).await.expect("it is answered");
        } else {
            entity.tell(&vec![page]).await.expect("it is taken");
        }
    }
    let (_, pages) = read::<A>(&here, &id).await;
    assert!(
        pages.iter().copied().eq(0..MESSAGES),
        "{} pages: {pages:?}",
        pages.len()
    );
}

/// A message beyond the largest frame is refused to the caller; one just below it crosses, in a frame that
/// needs many reads.
pub async fn a_message_that_is_too_large_is_refused_and_the_next_one_passes<A: Adapter>(security: &Security) {
    let nodes = cluster::<A>(2, security).await;
    let (here, _there) = (notebooks(&nodes[0]).await, notebooks(&nodes[1]).await);
    let id = living_on::<A>(&here, nodes[1].address()).await;
    let words = |bytes: usize| vec![u32::MAX; bytes / 5];
    let too_large = here.entity(&id).ask(words(5 << 20)).await;
    assert_eq!(too_large, Err(AskError::Failed(AskFailure::TooLarge)));
    let large = words(1 << 20);
    let answer = within::<A, _>("the answer", here.entity(&id).ask(&large).into_future()).await;
    assert_eq!(answer, Ok((nodes[1].address().to_string(), large)));
}

/// Nodes of two adapters of the same transport are members of one cluster: call it for adapters that share a
/// wire.
pub async fn adapters_form_one_cluster<A: Adapter, B: Adapter>(security: &Security) {
    let one = first::<A>(node::<A>(security)).await;
    let other = joined::<B>(one.address().address(), security).await;
    let third = joined::<A>(other.address().address(), security).await;
    all_up::<A>(&one, 3).await;
    all_up::<B>(&other, 3).await;
    all_up::<A>(&third, 3).await;
    let (ones, others) = (notebooks(&one).await, notebooks(&other).await);
    let id = living_on::<A>(&ones, other.address()).await;
    assert_eq!(read::<A>(&ones, &id).await.0, other.address().to_string());
    let id = living_on::<B>(&others, one.address()).await;
    assert_eq!(read::<B>(&others, &id).await.0, one.address().to_string());
    let left = within::<B, _>("the node has left", other.leave()).await;
    assert_eq!(left, Ok(Termination::Halted(HaltReason::Left)));
    all_up::<A>(&one, 2).await;
}
