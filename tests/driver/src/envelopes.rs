//! Envelopes from which a kind takes the entity and the message, and shards that a function of the user's own
//! says.

use quorate_core::effect::{CommandError, ShardingCommandError};
use quorate_core::event::{Event, ShardingEvent};
use quorate_core::sharding::extractor::ShardExtractor;
use quorate_core::sharding::ids::{EntityId, KindId};
use quorate_driver::spi::Adapter;
use quorate_driver::{
    Cluster, ClusterError, ClusterEvent, Entity, EntityContext, Kind, Region, Security, TellError,
};

use quorate_conformance::support::{cluster, eventually, within};

const SHARDS: u32 = 10;

/// What a scanner sees: never sent as it is.
struct Scan {
    cart: Option<String>,
    item: u64,
}

/// Answers with its shard and how much it holds.
struct Cart {
    items: Vec<u64>,
}

impl Entity for Cart {
    type Message = u64;
    type Reply = (String, u32, Vec<u64>);

    async fn handle(&mut self, context: &EntityContext, item: u64) -> (String, u32, Vec<u64>) {
        if item > 0 {
            self.items.push(item);
        }
        (
            context.id_text().into_owned(),
            context.shard().0,
            self.items.clone(),
        )
    }
}

type Carts = Region<u64, (String, u32, Vec<u64>)>;

fn carts() -> Kind<u64, (String, u32, Vec<u64>)> {
    // The last digit of the id, if there is one.
    let digit = |id: &EntityId, shards: u32| {
        assert_eq!(shards, SHARDS);
        id.as_bytes()
            .last()
            .map_or(0, |last| u32::from(last.wrapping_sub(b'0')))
    };
    Kind::new("cart")
        .shards(SHARDS)
        .extractor(ShardExtractor::custom("last-digit", digit))
}

async fn host<A: Adapter>(
    node: &Cluster,
    kind: Kind<u64, (String, u32, Vec<u64>)>,
) -> Result<Carts, ClusterError> {
    let registered = node.entities(kind).start(|_| Cart { items: Vec::new() });
    within::<A, _>("the cluster decides", registered).await
}

/// Envelopes find their entities from every node that knows how to open them, and only there; what is for
/// nobody is an error and counts.
pub async fn envelopes_find_their_entities<A: Adapter>(security: &Security) {
    let nodes = cluster::<A>(2, security).await;
    let open = |scan: Scan| Some((scan.cart?, scan.item));
    let region = host::<A>(&nodes[0], carts().extract(open))
        .await
        .expect("it is registered");
    let plain = host::<A>(&nodes[1], carts()).await.expect("it is registered");
    let scan = |cart: &str, item| Scan {
        cart: Some(cart.to_owned()),
        item,
    };
    for (cart, item) in [("a1", 1), ("b2", 2), ("a1", 3)] {
        region.tell(scan(cart, item)).await.expect("the node takes it");
    }
    let looked_up: Carts = nodes[0].region("cart").expect("it is registered here");
    for (cart, items) in [("a1", vec![1, 3]), ("b2", vec![2])] {
        eventually::<A>("what was told", async || {
            let asked = looked_up.ask(scan(cart, 0)).expect("it opens");
            asked
                .await
                .is_ok_and(|(id, _, found)| id == cart && found == items)
        })
        .await;
    }
    let nobody = Scan { cart: None, item: 9 };
    let mut events = nodes[0].events();
    assert_eq!(region.tell(nobody).await, Err(TellError::NoMatch));
    within::<A, _>("those who listen hear of it", async {
        let unmatched = ShardingEvent::EnvelopeUnmatched;
        let kind = KindId::of("cart");
        let expected = ClusterEvent::Event(Event::Sharding {
            kind,
            event: unmatched,
        });
        while events.next().await.expect("the node runs") != expected {}
    })
    .await;
    let stats = nodes[0].stats().await.expect("the node runs").host;
    assert_eq!(stats.messages_unmatched, 1);
    assert_eq!(region.tell(7_u64).await, Err(TellError::NoEnvelope));
    assert_eq!(plain.tell(scan("a1", 4)).await, Err(TellError::NoEnvelope));
    let empty = Scan {
        cart: Some(String::new()),
        item: 1,
    };
    assert_eq!(region.tell(empty).await, Err(TellError::BadEntityId));
}

/// A function of the user's own places entities the same on every node; another one of this kind is refused
/// by its name.
pub async fn a_function_of_ones_own_places_entities<A: Adapter>(security: &Security) {
    let nodes = cluster::<A>(2, security).await;
    let first = host::<A>(&nodes[0], carts()).await.expect("it is registered");
    let other = carts().extractor(ShardExtractor::custom("other", |_, _| 0));
    let refused = host::<A>(&nodes[1], other)
        .await
        .expect_err("the cluster has another");
    let text = refused.to_string();
    assert!(
        text.contains("custom:last-digit") && text.contains("custom:other"),
        "{text}"
    );
    let second = host::<A>(&nodes[1], carts()).await.expect("now it is the same");
    for region in [first, second] {
        for (id, shard) in [("x0", 0), ("x7", 7), ("9", 9)] {
            let asked = region.entity(id).ask(0);
            let (_, found, _) = within::<A, _>("an answer", asked.into_future())
                .await
                .expect("an answer");
            assert_eq!(found, shard);
        }
    }
    // A function that panics ends no node: the first shard counts.
    let bad = ShardExtractor::custom("panics", |id, _| match id.as_bytes() {
        b"bad" => panic!("as it was told to"),
        _ => 5,
    });
    let kind = Kind::<u64, (String, u32, Vec<u64>)>::new("panics").extractor(bad);
    let region = host::<A>(&nodes[0], kind).await.expect("it is registered");
    for (id, shard) in [("bad", 0), ("good", 5)] {
        let asked = region.entity(id).ask(0);
        let (_, found, _) = within::<A, _>("an answer", asked.into_future())
            .await
            .expect("an answer");
        assert_eq!(found, shard);
    }
    let long = carts().extractor(ShardExtractor::custom(&"l".repeat(58), |_, _| 0));
    let bad = CommandError::Sharding(ShardingCommandError::BadExtractorName);
    let refused = host::<A>(&nodes[0], long)
        .await
        .expect_err("its name is too long");
    assert!(matches!(refused, ClusterError::Refused(error) if error == bad));
}
