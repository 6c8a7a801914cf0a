//! Shards whose place is said from outside, or by a strategy of the application.

use std::collections::BTreeSet;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_channel::Receiver;
use quorate_core::config::DowningStrategy;
use quorate_core::ident::UniqueAddress;
use quorate_core::sharding::allocation::{AllocationSettings, PLACED_NAME_BYTES_MAX};
use quorate_core::sharding::ids::{EntityId, ShardId};
use quorate_core::sharding::protocol::{HomeWanted, RegionShards};
use quorate_driver::spi::{Adapter, Runtime};
use quorate_driver::{
    Address, CommandError,
    sharding::{Placement, ShardDecision, ShardingCommandError, WishObstacle},
};
use quorate_driver::{
    Cluster, ClusterError, EntityContext, Kind, Security,
    sharding::{AllocationFailure, AsyncAllocationStrategy, PlaceError},
};

use quorate_conformance::support::{cluster_with, eventually, within};

/// Shards of the kind.
const SHARDS: u32 = 8;

/// S-050: a shard that is wanted elsewhere moves there, whoever says so, and its entity answers from there.
pub async fn s_050_a_shard_goes_where_it_is_wanted_from_outside<A: Adapter>(security: &Security) {
    let nodes = cluster_with::<A>(2, security, |config| {
        config.sharding.rebalance_interval = std::time::Duration::from_millis(200);
    })
    .await;
    let mut regions = Vec::new();
    for node in &nodes {
        let me = node.address().to_string();
        let kind = Kind::<(), String>::new("parcel")
            .shards(SHARDS)
            .allocation(AllocationSettings::External);
        let handle = move |_: EntityContext, (): ()| {
            let me = me.clone();
            async move { me }
        };
        regions.push(
            node.entities(kind)
                .start_fn(handle)
                .await
                .expect("the kind is registered"),
        );
    }
    let ask = async || within::<A, _>("an answer", regions[0].entity("ada").ask(()).into_future()).await;
    let first = ask().await.expect("it is answered");
    assert_eq!(
        first,
        nodes[0].address().to_string(),
        "it began where it was asked for"
    );
    let shard = ShardId::of(&EntityId::from("ada"), SHARDS);
    let places = nodes[1].shard_places("parcel").expect("a legal name");
    assert_eq!(places.places().await, Ok(vec![]));
    let there = nodes[1].address();
    places
        .place(shard, there.address())
        .await
        .expect("a majority knows");
    assert_eq!(places.places().await, Ok(vec![(shard, there.address().clone())]));
    eventually::<A>("the shard has moved", async || {
        ask().await == Ok(there.to_string())
    })
    .await;
    places.forget(shard).await.expect("a majority knows");
    let elsewhere = nodes[0].shard_places("parcel").expect("a legal name");
    assert_eq!(elsewhere.places().await, Ok(vec![]));
    assert_eq!(ask().await, Ok(there.to_string()), "it stays");
}

/// Wishes are heeded where nothing is hosted, too, if the coordinator is there. And one that no majority can
/// hear of ends with the time of its client (`external-shard-allocation-strategy.client-timeout`), and says
/// that it counts all the same.
pub async fn a_proxy_heeds_wishes_and_the_client_timeout_ends_one_that_no_majority_hears<A: Adapter>(
    security: &Security,
) {
    const PATIENCE: Duration = Duration::from_secs(30);
    const CLIENT_TIMEOUT: Duration = Duration::from_millis(300);
    let mut nodes = cluster_with::<A>(3, security, |config| {
        config.sharding.rebalance_interval = Duration::from_millis(200);
        // So that who is gone is missed for ever, however slow this machine is.
        config.downing.strategy = DowningStrategy::Off;
    })
    .await;
    let kind = || {
        Kind::<(), String>::new("parcel")
            .shards(SHARDS)
            .allocation(AllocationSettings::External)
    };
    // The oldest coordinates and hosts nothing.
    let proxy = nodes[0]
        .entities(kind())
        .proxy()
        .await
        .expect("the kind is registered");
    for node in &nodes[1..] {
        let me = node.address().to_string();
        let handle = move |_: EntityContext, (): ()| {
            let me = me.clone();
            async move { me }
        };
        node.entities(kind())
            .start_fn(handle)
            .await
            .expect("the kind is registered");
    }
    let ask = async || within::<A, _>("an answer", proxy.entity("ada").ask(()).into_future()).await;
    let first = ask().await.expect("it is answered");
    let is_elsewhere = |node: &&Cluster| node.address().to_string() != first;
    let there = nodes[1..]
        .iter()
        .find(is_elsewhere)
        .expect("there are two")
        .address()
        .clone();
    let shard = ShardId::of(&EntityId::from("ada"), SHARDS);
    // Here it only has to be heard, however busy this machine is.
    let places = nodes[0].shard_places("parcel").expect("a legal name");
    let placed = places.place(shard, there.address()).timeout(PATIENCE).await;
    placed.expect("a majority knows");
    eventually::<A>("the shard has moved", async || {
        ask().await == Ok(there.to_string())
    })
    .await;

    for node in nodes.drain(1..) {
        node.stop().await;
    }
    let runtime = A::runtime().expect("there is one");
    let began = runtime.mono();
    let place = places.place(shard, nodes[0].address().address());
    let wish = within::<A, _>("the client gives up", place.timeout(CLIENT_TIMEOUT));
    let error = wish.await.expect_err("nobody else is there");
    assert!(error.may_have_been_handled(), "{error}");
    assert!(runtime.mono().since(began) >= CLIENT_TIMEOUT, "{error}");
}

/// What can never be placed is refused with its reason, and nothing is kept of it; a proxy that names no
/// allocation leaves that to who hosts.
pub async fn what_cannot_be_placed_from_outside_is_refused<A: Adapter>(security: &Security) {
    let nodes = cluster_with::<A>(2, security, |_| ()).await;
    let kind = |name: &str| Kind::<(), String>::new(name).shards(SHARDS);
    let handle = |_: EntityContext, (): ()| async { String::new() };
    let external = |name: &str| kind(name).allocation(AllocationSettings::External);
    let long = "k".repeat(PLACED_NAME_BYTES_MAX + 1);
    let refused = nodes[0].entities(external(&long)).start_fn(handle).await;
    let too_long = ShardingCommandError::NameTooLongToPlace;
    let expected = ClusterError::Refused(CommandError::Sharding(too_long.clone()));
    assert_eq!(refused.map(drop), Err(expected));
    for (name, error) in [(long.as_str(), too_long), ("", ShardingCommandError::BadKindName)] {
        let places = nodes[0].shard_places(name).map(drop);
        assert_eq!(places, Err(PlaceError::Refused(error)));
    }

    for kind in [external("parcel"), external(&long[1..]), kind("letter")] {
        let registered = nodes[0].entities(kind).start_fn(handle).await;
        registered.expect("the kind is registered");
    }
    for name in ["parcel", "letter"] {
        let registered = nodes[1].entities(kind(name)).proxy().await;
        registered.expect("the kind is registered");
    }
    let at = nodes[0].address().address();
    let there = ShardId(SHARDS - 1);
    let nowhere = ShardId(SHARDS);
    let no_such = ShardingCommandError::NoSuchShard {
        shard: nowhere,
        shards: SHARDS,
    };
    for node in &nodes {
        let places = node.shard_places("parcel").expect("a legal name");
        let error = places.place(nowhere, at).await.expect_err("there is none");
        assert_eq!(error, PlaceError::Refused(no_such.clone()));
        assert!(!error.may_have_been_handled());
        // The first one could be placed.
        let both = places
            .place_all([(there, at.clone()), (nowhere, at.clone())])
            .await;
        assert_eq!(both, Err(error));
        assert_eq!(places.places().await, Ok(vec![]), "nothing has been kept");
    }
    let letters = nodes[0].shard_places("letter").expect("a legal name");
    let error = letters.place(there, at).await;
    assert_eq!(error, Err(PlaceError::Refused(ShardingCommandError::NotPlaced)));
    for (at_node, name) in [(0, "parcel"), (1, "parcel"), (1, "letter"), (0, &long[1..])] {
        let places = nodes[at_node].shard_places(name).expect("a legal name");
        places.place(there, at).await.expect("a majority knows");
        assert_eq!(places.places().await, Ok(vec![(there, at.clone())]), "{name}");
    }
}

/// Who placed a shard from outside, how it got there, and why a wish is not followed is explained the same
/// from every node, a proxy included.
pub async fn an_explanation_says_who_wants_a_shard_where_and_why_it_is_not_there<A: Adapter>(
    security: &Security,
) {
    const TIMEOUT: Duration = Duration::from_secs(20);
    let nodes = cluster_with::<A>(3, security, |config| {
        config.sharding.rebalance_interval = Duration::from_millis(200);
    })
    .await;
    let kind = || {
        Kind::<(), String>::new("parcel")
            .shards(SHARDS)
            .allocation(AllocationSettings::External)
    };
    let mut regions = Vec::new();
    for node in &nodes[..2] {
        let handle = |_: EntityContext, (): ()| async { String::new() };
        let registered = node.entities(kind()).start_fn(handle).await;
        regions.push(registered.expect("the kind is registered"));
    }
    let proxy = nodes[2].entities(kind()).proxy().await;
    regions.push(proxy.expect("the kind is registered"));
    let [here, there, nowhere] = [0, 1, 2].map(|at: usize| nodes[at].address().clone());
    let entity = |at: usize| regions[at].entity("ada");
    let asked = within::<A, _>("an answer", entity(0).ask(()).timeout(TIMEOUT).into_future()).await;
    asked.expect("it is answered");
    let same = async |wanted: &dyn Fn(&Placement) -> bool| {
        eventually::<A>("all say the same", async || {
            let mut said = Vec::new();
            for at in 0..3 {
                let entity = entity(at);
                let explained = within::<A, _>("an explanation", entity.explain().timeout(TIMEOUT)).await;
                said.push(explained.expect("the node runs").placement);
            }
            let first = said[0].as_ref().is_some_and(wanted);
            first && said.iter().all(|other| *other == said[0])
        })
        .await;
    };
    let all = |placement: &Placement| -> Vec<ShardDecision> {
        let decided = placement.decided.iter();
        decided.map(|decided| decided.decision.clone()).collect()
    };

    let shard = ShardId::of(&EntityId::from("ada"), SHARDS);
    // Said through the proxy's node, and moved away from the first.
    let places = nodes[2].shard_places("parcel").expect("a legal name");
    let placed = places.place(shard, there.address()).await;
    placed.expect("a majority knows");
    same(&|placement| {
        let Some(wish) = &placement.wish else {
            return false;
        };
        assert_eq!((&wish.at, wish.by.as_ref()), (there.address(), Some(&nowhere)));
        assert!(wish.since_ms > 0, "{wish:?}");
        // A slow machine has it take more than one attempt.
        let decided = all(placement);
        let at = |wanted: &ShardDecision| decided.iter().position(|decision| decision == wanted);
        let wished = at(&ShardDecision::Wished(Box::new(wish.clone())));
        let moves = at(&ShardDecision::Moves { from: here.clone() });
        let arrived = ShardDecision::Allocated {
            home: there.clone(),
            is_desired: true,
        };
        let has_moved = wished.is_some() && wished < moves && decided.last() == Some(&arrived);
        has_moved && placement.home.as_ref() == Some(&there)
    })
    .await;
    // A proxy hosts nothing, and nobody is where nobody listens.
    let stranger: Address = "127.0.0.1:1".parse().expect("an address");
    for (wanted, why) in [
        (nowhere.address(), WishObstacle::NoRegion),
        (&stranger, WishObstacle::NotAMember),
    ] {
        places.place(shard, wanted).await.expect("a majority knows");
        let (wanted, not_followed) = (
            wanted.clone(),
            ShardDecision::NotFollowed {
                wanted: wanted.clone(),
                why,
            },
        );
        same(&|placement| {
            let is_wanted = placement.wish.as_ref().is_some_and(|wish| wish.at == wanted);
            is_wanted
                && all(placement).last() == Some(&not_followed)
                && placement.home.as_ref() == Some(&there)
        })
        .await;
    }
    places.forget(shard).await.expect("a majority knows");
    same(&|placement| placement.wish.is_none() && placement.home.as_ref() == Some(&there)).await;
}

/// Says what the test tells it to, about shard after shard of [`SHARDS`].
struct Whimsical {
    /// Where everything is wanted.
    there: UniqueAddress,
    /// An answer to the first question is given when this says so.
    may_answer: Receiver<()>,
    asked: Arc<AtomicUsize>,
}

impl AsyncAllocationStrategy for Whimsical {
    fn name(&self) -> &str {
        "whimsical"
    }

    async fn allocate(
        &self,
        wanted: &[HomeWanted],
        regions: &[RegionShards],
    ) -> Result<Vec<(ShardId, UniqueAddress)>, AllocationFailure> {
        assert!(
            regions.iter().any(|region| region.node == self.there),
            "both may have shards"
        );
        match self.asked.fetch_add(1, Ordering::SeqCst) {
            0 => drop(self.may_answer.recv().await),
            1 => panic!("a strategy that panics"),
            2 => return Err("it has lost its map".into()),
            3 => pending().await,
            _ => {}
        }
        Ok(wanted
            .iter()
            .map(|wanted| (wanted.shard, self.there.clone()))
            .collect())
    }

    async fn rebalance(
        &self,
        regions: &[RegionShards],
        in_progress: &BTreeSet<ShardId>,
    ) -> Result<Vec<ShardId>, AllocationFailure> {
        // Once, when everything else is done, all that is elsewhere.
        if self.asked.load(Ordering::SeqCst) < 5 {
            return Ok(Vec::new());
        }
        let elsewhere = regions.iter().filter(|region| region.node != self.there);
        let shards = elsewhere.flat_map(|region| region.shards.iter().copied());
        Ok(shards.filter(|shard| !in_progress.contains(shard)).collect())
    }
}

/// A strategy of the application is waited for; one that panics, fails or never ends counts as one that said
/// nothing, and the shard begins where it was asked for. What it wants to move moves.
pub async fn a_strategy_of_ones_own_may_take_its_time<A: Adapter>(security: &Security) {
    let nodes = cluster_with::<A>(2, security, |config| {
        config.sharding.rebalance_interval = Duration::from_millis(200);
        config.sharding.allocation_timeout = Duration::from_millis(700);
    })
    .await;
    let there = nodes[1].address().clone();
    let (answer, may_answer) = async_channel::bounded(1);
    let asked = Arc::new(AtomicUsize::new(0));
    let mut regions = Vec::new();
    // The younger one first: a question is asked when both can have shards.
    for node in nodes.iter().rev() {
        let me = node.address().to_string();
        let strategy = Whimsical {
            there: there.clone(),
            may_answer: may_answer.clone(),
            asked: Arc::clone(&asked),
        };
        let kind = Kind::<(), String>::new("parcel")
            .shards(SHARDS)
            .allocation_by(strategy);
        let handle = move |_: EntityContext, (): ()| {
            let me = me.clone();
            async move { me }
        };
        regions.push(
            node.entities(kind)
                .start_fn(handle)
                .await
                .expect("the kind is registered"),
        );
    }
    let region = &regions[1];
    eventually::<A>("both are there", async || {
        let state = nodes[0].sharding_state().await.expect("the node runs");
        let coordinator = state.iter().find_map(|kind| kind.coordinator.as_ref());
        coordinator.is_some_and(|coordinator| coordinator.regions.len() == 2)
    })
    .await;
    // One entity in each of five shards.
    let mut ids = (0_u32..).map(|number| format!("ada-{number}"));
    let mut id_in = |shard| {
        let of = |id: &String| ShardId::of(&EntityId::from(id.as_str()), SHARDS) == ShardId(shard);
        ids.find(of).expect("there is one")
    };
    let ids: Vec<String> = (0..5).map(&mut id_in).collect();
    let ask = async |at: usize| {
        let asked = region.entity(&ids[at]).ask(()).timeout(Duration::from_secs(20));
        within::<A, _>("an answer", asked.into_future())
            .await
            .expect("it is answered")
    };
    let (here, there) = (nodes[0].address().to_string(), there.to_string());
    answer.send(()).await.expect("it is waited for");
    assert_eq!(ask(0).await, there, "the strategy has said so");
    for at in 1..4 {
        assert_eq!(ask(at).await, here, "it has said nothing: where it was asked for");
        assert_eq!(asked.load(Ordering::SeqCst), at + 1);
    }
    let stats = nodes[0].stats().await.expect("the node runs");
    assert!(stats.core.sharding.allocations_unanswered >= 3);
    assert_eq!(ask(4).await, there);
    for at in 1..4 {
        eventually::<A>("what it wants to move has moved", async || ask(at).await == there).await;
    }
}
