//! Handlers that ask on: a cycle is refused where it would close, on whichever nodes its entities live, and
//! whoever is asked knows how long somebody waits.

use std::time::Duration;

use quorate_core::sharding::errors::AskFailure;
use quorate_driver::spi::Adapter;
use quorate_driver::{AskError, Cluster, Entity, EntityContext, Kind, Region, Security};
use serde::{Deserialize, Serialize};

use quorate_conformance::support::{cluster, within};

/// Longer than anything here takes: a cycle that waits for it is noticed.
const LONG: Duration = Duration::from_secs(20);

/// Whom to ask on, one after the other, and what comes of it.
#[derive(Serialize, Deserialize)]
struct Order {
    through: Vec<String>,
    timeout_ms: u64,
}

/// What the last of them found.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Found {
    /// It is the last, and so long somebody waits, in milliseconds.
    End(Option<u64>),
    /// This entity was refused so when it asked on.
    Refused(String, String),
}

struct Asker;

impl Entity for Asker {
    type Message = Order;
    type Reply = Found;

    async fn handle(&mut self, context: &EntityContext, order: Order) -> Found {
        let left = || context.time_left().map(|left| left.as_millis() as u64);
        let mut through = order.through.into_iter();
        let Some(next) = through.next() else {
            return Found::End(left());
        };
        let region: Region<Order, Found> = context.region("asker").expect("its own kind");
        let order = Order {
            through: through.collect(),
            ..order
        };
        let asked = region.entity(&next).ask(&order);
        match asked.timeout(Duration::from_millis(order.timeout_ms)).await {
            Ok(found) => found,
            Err(error) => Found::Refused(context.id_text().into_owned(), format!("{error:?}")),
        }
    }
}

async fn askers(node: &Cluster) -> Region<Order, Found> {
    let kind = Kind::new("asker").shards(8);
    node.entities(kind)
        .start(|_| Asker)
        .await
        .expect("it is registered")
}

/// Asks of entities in a cycle are refused at the one that would close it; the others, long chains among
/// them, are not.
pub async fn a_cycle_of_asks_is_refused_where_it_would_close<A: Adapter>(security: &Security) {
    let nodes = cluster::<A>(2, security).await;
    let region = askers(&nodes[0]).await;
    askers(&nodes[1]).await;
    let order = |through: &[&str]| Order {
        through: through.iter().map(ToString::to_string).collect(),
        timeout_ms: LONG.as_millis() as u64,
    };
    let ask = async |first: &str, through: &[&str]| {
        let asked = region.entity(first).ask(order(through)).timeout(LONG);
        within::<A, _>("an answer, not the end of its time", asked.into_future()).await
    };
    let refused = |at: &str| Ok(Found::Refused(at.to_owned(), "Cycle".to_owned()));
    // Eight shards on two nodes: some of these pairs share a node, and some do not.
    for (a, b) in [("a", "b"), ("c", "d"), ("e", "f"), ("g", "h")] {
        assert!(matches!(ask(a, &[b]).await, Ok(Found::End(Some(1..)))));
        assert_eq!(ask(a, &[b, a]).await, refused(b));
        assert_eq!(ask(a, &["x", b, "x"]).await, refused(b));
        assert_eq!(ask(a, &["x", b, a]).await, refused(b));
    }
    let itself = Found::Refused("a".to_owned(), "OwnEntity".to_owned());
    assert_eq!(ask("a", &["a"]).await, Ok(itself));
    let long: Vec<String> = (0..40).map(|at| format!("long-{at}")).collect();
    let long: Vec<&str> = long.iter().map(String::as_str).collect();
    assert!(matches!(ask("a", &long).await, Ok(Found::End(Some(1..)))));
    assert!(!AskError::Cycle.may_have_been_handled());
}

/// Who is asked sees how long whoever asked still waits, which shrinks on the way.
pub async fn an_entity_sees_how_long_somebody_waits<A: Adapter>(security: &Security) {
    let nodes = cluster::<A>(2, security).await;
    let region = askers(&nodes[0]).await;
    askers(&nodes[1]).await;
    for id in ["a", "b", "c", "d", "e", "f"] {
        let order = Order {
            through: Vec::new(),
            timeout_ms: 0,
        };
        let asked = region.entity(id).ask(&order).timeout(Duration::from_secs(7));
        let found = within::<A, _>("an answer", asked.into_future())
            .await
            .expect("an answer");
        let Found::End(Some(left)) = found else {
            panic!("{found:?}");
        };
        assert!((1..=7_000).contains(&left), "{left} ms are left");
    }
    // The one that asks on decides how long: a second, and no time of its own asker's.
    let order = Order {
        through: vec!["b".to_owned()],
        timeout_ms: 1_000,
    };
    let asked = region.entity("a").ask(&order).timeout(LONG);
    match within::<A, _>("an answer", asked.into_future())
        .await
        .expect("an answer")
    {
        Found::End(Some(left)) => assert!((1..=1_000).contains(&left), "{left} ms are left"),
        found @ (Found::End(None) | Found::Refused(..)) => {
            let slow = format!("{:?}", AskError::Failed(AskFailure::TimeoutSent));
            assert_eq!(found, Found::Refused("a".to_owned(), slow));
        }
    }
}
