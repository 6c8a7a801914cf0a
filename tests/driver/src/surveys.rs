//! What hosts a kind, asked from any node: everybody answers, and who does not is named in time.

use std::time::Duration;

use async_channel::Receiver;
use quorate_core::ident::UniqueAddress;
use quorate_core::sharding::protocol::survey::{Placement, ShardDecision};
use quorate_driver::spi::Adapter;
use quorate_driver::{Entity, EntityContext, Kind, Security};

use quorate_conformance::support::{cluster, eventually, living_on, notebooks, read, until, within};

/// Far less than a test waits, far more than an answer takes.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Entities that are spread over three nodes are counted the same from each; one that ends without a word is
/// named, or not waited for once it is removed.
pub async fn a_kind_is_surveyed_from_any_node<A: Adapter>(security: &Security) {
    const ENTITIES: u64 = 30;
    let mut nodes = cluster::<A>(3, security).await;
    let mut regions = Vec::new();
    for node in &nodes {
        regions.push(notebooks(node).await);
    }
    for region in &regions {
        eventually::<A>("the region has a coordinator", async || {
            region.is_registered().await.expect("the node runs")
        })
        .await;
    }
    for id in 0..ENTITIES {
        read::<A>(&regions[0], &format!("counted-{id}")).await;
    }
    let survey =
        async |at: usize, timeout| within::<A, _>("a survey", regions[at].stats().timeout(timeout)).await;
    let first = survey(0, TIMEOUT).await.expect("the node runs");
    assert_eq!((first.silent.len(), first.regions.len()), (0, 3));
    let counted = first
        .regions
        .values()
        .flatten()
        .map(|counts| counts.entities_total);
    assert_eq!(counted.sum::<u64>(), ENTITIES);
    for at in 1..3 {
        assert_eq!(survey(at, TIMEOUT).await.expect("the node runs"), first);
    }
    let gone = nodes.pop().expect("there are three");
    let who = gone.address().clone();
    gone.stop().await;
    let after = survey(0, Duration::from_millis(100))
        .await
        .expect("the node runs");
    assert!(
        after.silent == [who.clone()] || !after.regions.contains_key(&who),
        "{after:?}"
    );
    until::<A>(&nodes[0], "the node is removed", |view| view.members().len() == 2).await;
    let later = survey(0, TIMEOUT).await.expect("the node runs");
    assert_eq!((later.silent.len(), later.regions.len()), (0, 2));
}

/// Is busy with its first message until the channel is closed.
struct Busy {
    closed: Receiver<()>,
}

impl Entity for Busy {
    type Message = ();
    type Reply = ();

    async fn handle(&mut self, _: &EntityContext, (): ()) {
        // Nothing is ever sent: the error says that it is closed.
        let _ = self.closed.recv().await;
    }
}

/// Nothing that an entity does keeps statistics waiting: regions whose entities are all busy, with messages
/// that wait for them, answer at once and with all of them. Afterwards what waited is handled.
pub async fn s_114_regions_whose_entities_are_busy_answer_a_survey<A: Adapter>(security: &Security) {
    const ENTITIES: u64 = 12;
    let nodes = cluster::<A>(2, security).await;
    let (open, closed) = async_channel::bounded(1);
    let mut regions = Vec::new();
    for node in &nodes {
        let closed = closed.clone();
        let make = move |_: EntityContext| Busy {
            closed: closed.clone(),
        };
        let region = node.entities(Kind::new("busy").shards(8)).start(make).await;
        regions.push(region.expect("the kind is registered"));
    }
    for number in 0..3 * ENTITIES {
        let entity = regions[0].entity(format!("busy-{}", number % ENTITIES));
        entity.tell(&()).await.expect("it is taken");
    }
    for region in &regions {
        eventually::<A>("all of them are counted", async || {
            let survey = region.stats().timeout(TIMEOUT).await.expect("the node runs");
            assert_eq!(survey.silent, []);
            let hosted = survey.regions.values().flatten();
            hosted.map(|counts| counts.entities_total).sum::<u64>() == ENTITIES
        })
        .await;
    }
    drop(open);
    let last = regions[1].entity("busy-0").ask(()).into_future();
    within::<A, _>("an answer", last).await.expect("it is answered");
}

/// Where an entity is and why is the same from every node, a proxy included: it is where it says, and what
/// became of its shard when its node ended is in it.
pub async fn an_entity_is_explained_the_same_from_every_node<A: Adapter>(security: &Security) {
    let mut nodes = cluster::<A>(3, security).await;
    let mut regions = Vec::new();
    for node in &nodes {
        regions.push(notebooks(node).await);
    }
    // The youngest is not the coordinator, and is the one that ends.
    let gone = nodes.pop().expect("there are three");
    let home = gone.address().clone();
    let id = living_on::<A>(&regions[0], &home).await;
    let explain = async |at: usize| {
        let entity = regions[at].entity(&id);
        let explained = entity.explain().timeout(TIMEOUT);
        within::<A, _>("an explanation", explained)
            .await
            .expect("the node runs")
    };
    let same = async |wanted: &dyn Fn(&Placement) -> bool, from: usize| {
        eventually::<A>("all say the same", async || {
            let first = explain(0).await;
            let is_wanted = first.placement.as_ref().is_some_and(wanted);
            for at in 1..from {
                if explain(at).await != first {
                    return false;
                }
            }
            is_wanted && first.coordinator.as_ref() == Some(nodes[0].address())
        })
        .await;
    };
    let lives_there = |placement: &Placement| {
        let last = placement.decided.last().map(|decided| &decided.decision);
        let chosen = |node: &UniqueAddress| match last {
            Some(ShardDecision::Allocated { home, is_desired }) => home == node && !is_desired,
            Some(ShardDecision::Found { home }) => home == node,
            Some(
                ShardDecision::Moves { .. }
                | ShardDecision::MovesByLoad { .. }
                | ShardDecision::Freed { .. }
                | ShardDecision::Stays { .. }
                | ShardDecision::Wished(_)
                | ShardDecision::NotFollowed { .. }
                | ShardDecision::Unanswered,
            )
            | None => false,
        };
        placement.home.as_ref() == Some(&home) && !placement.is_moving && chosen(&home)
    };
    same(&lives_there, 3).await;
    gone.stop().await;
    until::<A>(&nodes[0], "the node is removed", |view| view.members().len() == 2).await;
    read::<A>(&regions[0], &id).await;
    let was_freed = |placement: &Placement| {
        let decided: Vec<_> = placement
            .decided
            .iter()
            .map(|decided| &decided.decision)
            .collect();
        let freed = ShardDecision::Freed { home: home.clone() };
        let at = decided.iter().position(|decision| **decision == freed);
        let later = at.map_or(&[][..], |at| &decided[at + 1..]);
        let elsewhere = later
            .iter()
            .any(|decision| matches!(decision, ShardDecision::Allocated { .. }));
        elsewhere && placement.home.as_ref().is_some_and(|now| *now != home)
    };
    same(&was_freed, 2).await;
}
