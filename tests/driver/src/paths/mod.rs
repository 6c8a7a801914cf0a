//! Paths over real links: every way to an instance, slots that move under load by command and because a host
//! leaves, state that goes with them, and what senders hear where nothing can be reached. Spec: sharding 5,
//! 10.17.

mod counting;
mod mailboxes;

pub use self::mailboxes::*;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use quorate_core::sharding::errors::AskFailure;
use quorate_driver::paths::{
    FaultTolerance, HandoffOptions, PathCommandError, PathNameError, PathRefusal, PathSettingsError,
};
use quorate_driver::spi::Adapter;
use quorate_driver::{
    Cluster, ClusterError, CommandError, LookupError, PathError, Security, TellError, Termination,
};

use self::counting::*;
use quorate_conformance::support::{all_up, cluster, eventually, sleep, within};

/// Three instances on three nodes: the router takes turns, a slot and a key name one, all of them are told at
/// once, and a node that has registered nothing reaches them all the same.
pub async fn every_way_to_an_instance_leads_there<A: Adapter>(security: &Security) {
    let nodes = cluster::<A>(4, security).await;
    let (handles, notes) = hosted(&nodes[..3], "shop/prices", 2, HandoffOptions::STATELESS).await;
    let all: Vec<&Cluster> = nodes.iter().collect();
    let places = settled::<A>(&all, "shop/prices", 3).await;
    assert_eq!(
        places.iter().collect::<BTreeSet<_>>().len(),
        3,
        "each has a node of its own: {places:?}"
    );
    let stranger = nodes[3]
        .path::<CounterOrder, Counted>("shop/prices")
        .expect("a name");
    for path in [&handles[0], &stranger] {
        let mut slots = BTreeSet::new();
        for _ in 0..3 {
            let counted = path.ask(CounterOrder::Count).await.expect("it is answered");
            let place = &places[usize::from(counted.slot.expect("it has one"))];
            assert_eq!((counted.node, counted.below), (place.to_string(), None));
            slots.insert(counted.slot);
        }
        assert_eq!(slots.len(), 3, "each in its turn");
        let first = path
            .by("tea")
            .ask(CounterOrder::Count)
            .await
            .expect("it is answered");
        for handle in &handles {
            let again = handle
                .by("tea")
                .ask(CounterOrder::Count)
                .await
                .expect("it is answered");
            assert_eq!(again.slot, first.slot, "whoever sends");
        }
        for slot in 0..3 {
            let counted = path
                .slot(slot)
                .ask(CounterOrder::Count)
                .await
                .expect("it is answered");
            assert_eq!(counted.slot, Some(slot));
        }
        let nowhere = path.slot(3).ask(CounterOrder::Count).await;
        assert_eq!(nowhere, failed(AskFailure::NoInstance));
    }
    stranger
        .every()
        .tell(CounterOrder::Note(7))
        .await
        .expect("it is taken");
    eventually::<A>("all of them have noted it", async || notes.numbers() == [7, 7, 7]).await;
    let own = handles[0]
        .slot(1)
        .ask(CounterOrder::AskSlot(1))
        .await
        .expect("it is answered");
    assert!(own.own, "an instance cannot ask itself");
    let other = handles[0]
        .slot(1)
        .ask(CounterOrder::AskSlot(2))
        .await
        .expect("it is answered");
    assert!(!other.own);
    let stats = nodes[0].stats().await.expect("the node runs");
    assert_eq!(stats.host.path_instances, 1);
    assert!(stats.core.paths.instances_started >= 1 && stats.core.paths.messages_delivered > 0);
    let ended = handles[0].slot(1).ask(CounterOrder::Panic).await;
    assert_eq!(ended, failed(AskFailure::EntityStopped));
    eventually::<A>("another one begins after a rest", async || {
        handles[0]
            .slot(1)
            .ask(CounterOrder::Count)
            .await
            .is_ok_and(|counted| counted.count == 1)
    })
    .await;
}

/// A slot moves by command while it is told numbers from every node: under `ORDERED` each sender's numbers
/// arrive once and in their order, and the new instance has the higher token.
pub async fn an_ordered_slot_moves_under_load_and_keeps_the_order<A: Adapter>(security: &Security) {
    let nodes = cluster::<A>(3, security).await;
    let (handles, notes) = hosted(&nodes, "orders", 0, HandoffOptions::ORDERED).await;
    let all: Vec<&Cluster> = nodes.iter().collect();
    let before = settled::<A>(&all, "orders", 1).await;
    let to = nodes
        .iter()
        .map(Cluster::address)
        .find(|node| **node != before[0]);
    let to = to.expect("there are others");
    let (sent, is_there) = (AtomicU64::new(0), AtomicBool::new(false));
    let load = async {
        for number in 0.. {
            if number >= 600 && is_there.load(Ordering::Relaxed) {
                return sent.store(number, Ordering::Relaxed);
            }
            for (sender, handle) in (0_u64..).zip(&handles) {
                let number = CounterOrder::Note(sender * SENDERS_APART + number);
                handle.slot(0).tell(number).await.expect("it is taken");
            }
            if number % 20 == 0 {
                sleep::<A>(Duration::from_millis(5)).await;
            }
        }
    };
    let moving = async {
        sleep::<A>(Duration::from_millis(30)).await;
        moved::<A>(&handles[0], to).await;
        eventually::<A>("it is there", async || {
            hosts(&nodes[0], "orders").await.as_deref() == Some(std::slice::from_ref(to))
        })
        .await;
        is_there.store(true, Ordering::Relaxed);
    };
    futures_lite::future::zip(load, moving).await;
    let sent = sent.into_inner();
    let all_sent = usize::try_from(3 * sent).expect("they are not that many");
    eventually::<A>("all have arrived", async || notes.numbers().len() >= all_sent).await;
    let numbers = notes.numbers();
    for sender in 0..3 {
        let of_one = numbers.iter().filter(|number| **number / SENDERS_APART == sender);
        let of_one: Vec<u64> = of_one.map(|number| number % SENDERS_APART).collect();
        assert!(of_one.iter().copied().eq(0..sent), "of {sender}: {of_one:?}");
    }
    let last = handles[2]
        .slot(0)
        .ask(CounterOrder::Count)
        .await
        .expect("it is answered");
    assert_eq!(last.node, to.to_string());
    let tokens = notes.tokens(0);
    assert!(tokens.first() < tokens.last(), "{tokens:?}");
}

/// The state of an instance goes with its slot: when an operator moves it and when its host leaves. Two never
/// live at once: the tokens that note something never go back.
pub async fn a_stateful_slot_takes_its_state_along<A: Adapter>(security: &Security) {
    let nodes = cluster::<A>(3, security).await;
    let (handles, notes) = hosted(&nodes, "ledger", 0, HandoffOptions::STATEFUL).await;
    let all: Vec<&Cluster> = nodes.iter().collect();
    let first = settled::<A>(&all, "ledger", 1).await;
    for count in 1..=10 {
        let counted = handles[1]
            .ask(CounterOrder::Note(count))
            .await
            .expect("it is answered");
        assert_eq!(counted.count, count);
    }
    let to = nodes.iter().map(Cluster::address).find(|node| **node != first[0]);
    let to = to.expect("there are others").clone();
    moved::<A>(&handles[2], &to).await;
    let mut count = 10;
    eventually::<A>("it is there", async || {
        count += 1;
        let counted = handles[1]
            .ask(CounterOrder::Note(count))
            .await
            .expect("it is answered");
        assert_eq!(counted.count, count, "nothing is lost and nothing counted twice");
        counted.node == to.to_string()
    })
    .await;
    assert_eq!(settled::<A>(&all, "ledger", 1).await, std::slice::from_ref(&to));
    let leaver = nodes
        .iter()
        .position(|node| *node.address() == to)
        .expect("it is one of them");
    let left = within::<A, _>("the host leaves", nodes[leaver].leave()).await;
    assert!(left.as_ref().is_ok_and(Termination::is_graceful), "{left:?}");
    let stayers: Vec<&Cluster> = nodes.iter().filter(|node| *node.address() != to).collect();
    all_up::<A>(stayers[0], 2).await;
    settled::<A>(&stayers, "ledger", 1).await;
    let stayer = stayers[0]
        .path::<CounterOrder, Counted>("ledger")
        .expect("a name");
    let counted = stayer
        .ask(CounterOrder::Note(count + 1))
        .await
        .expect("it is answered");
    assert_eq!(counted.count, count + 1, "its state came over before it left");
    let tokens = notes.tokens(0);
    assert!(
        tokens.windows(2).all(|pair| pair[0] < pair[1]) && tokens.len() == 3,
        "{tokens:?}"
    );
}

/// Messages to names below the top of a subtree go to one of its instances, the same for the same name, and
/// the handler knows the part below.
pub async fn names_below_a_subtree_lead_to_its_instances<A: Adapter>(security: &Security) {
    let nodes = cluster::<A>(3, security).await;
    for node in &nodes[..2] {
        let builder = node
            .instances("top")
            .fault_tolerance(FaultTolerance::Constant(1))
            .subtree();
        let started = builder.start(|_| CountingInstance {
            count: 0,
            notes: Notes::default(),
        });
        started.await.expect("the leader takes it");
    }
    let all: Vec<&Cluster> = nodes.iter().collect();
    settled::<A>(&all, "top", 2).await;
    let mut slots = BTreeSet::new();
    for name in 0..16 {
        let name = format!("x/{name}");
        let path = nodes[2]
            .path::<CounterOrder, Counted>(format!("top/{name}"))
            .expect("a name");
        let counted = path.ask(CounterOrder::Count).await.expect("it is answered");
        assert_eq!(counted.below.as_deref(), Some(&*name));
        let again = nodes[0]
            .path::<CounterOrder, Counted>(format!("top/{name}"))
            .expect("a name");
        let again = again.ask(CounterOrder::Count).await.expect("it is answered");
        assert_eq!(again.slot, counted.slot, "whoever sends");
        slots.insert(counted.slot);
    }
    assert_eq!(slots.len(), 2, "they are spread");
    let top = nodes[2].path::<CounterOrder, Counted>("top").expect("a name");
    let counted = top.ask(CounterOrder::Count).await.expect("it is answered");
    assert_eq!(counted.below, None, "it is for the path itself");
}

/// What cannot be is refused with an error that says why, and what cannot be reached is not handled.
pub async fn paths_that_cannot_be_are_refused_and_unknown_ones_fail_at_once<A: Adapter>(security: &Security) {
    let nodes = cluster::<A>(2, security).await;
    let node = &nodes[0];
    let unknown = node.path::<CounterOrder, Counted>("no/where").expect("a name");
    let asked = unknown.ask(CounterOrder::Count).await;
    assert_eq!(asked, failed(AskFailure::UnknownPath));
    assert!(asked.is_err_and(|error| !error.may_have_been_handled() && !error.is_timeout()));
    assert_eq!(
        unknown.tell(CounterOrder::Count).await,
        Ok(()),
        "a dead letter, as an event says"
    );
    eventually::<A>("it is counted", async || {
        let stats = node.stats().await.expect("the node runs");
        stats.core.paths.dead_letters == 1
    })
    .await;
    // Registered, and nobody hosts it.
    let empty = node
        .instances("empty")
        .role("nobody")
        .register::<CounterOrder, Counted>()
        .await;
    let empty = empty.expect("the leader takes it");
    eventually::<A>("it is known, and nobody runs it", async || {
        empty.ask(CounterOrder::Count).await == failed(AskFailure::NoInstance)
    })
    .await;
    let bad = node
        .instances("a//b")
        .register::<CounterOrder, Counted>()
        .await
        .map(drop);
    let error = PathNameError::BadSegment;
    let name = PathError::Name {
        path: "a//b".to_owned(),
        error,
    };
    assert_eq!(bad, Err(ClusterError::Path(name)));
    let none = node
        .instances("none")
        .at_least(0)
        .register::<CounterOrder, Counted>()
        .await
        .map(drop);
    let bounds = PathError::Settings(PathSettingsError::BadBounds);
    assert_eq!(none, Err(ClusterError::Path(bounds)));
    let stateless = node.instances("s").handoff(HandoffOptions::STATEFUL);
    let started = stateless.start(|_| CountingInstance {
        count: 0,
        notes: Notes::default(),
    });
    let started = started.await.map(drop);
    assert!(
        matches!(started, Err(ClusterError::Path(PathError::WithoutState { .. }))),
        "{started:?}"
    );
    let differs = node
        .instances("empty")
        .register::<CounterOrder, Counted>()
        .await
        .map(drop);
    assert_eq!(differs, refused(PathRefusal::Differs), "another role");
    let above = node
        .instances("empty/below")
        .register::<CounterOrder, Counted>()
        .await
        .map(drop);
    assert!(
        matches!(&above, Err(ClusterError::Refused(CommandError::Path(PathCommandError::Refused(PathRefusal::Overlaps(name))))) if name.as_str() == "empty"),
        "{above:?}"
    );
    let typed = node.path::<u64, u64>("empty").map(drop);
    assert!(
        matches!(typed, Err(ClusterError::Lookup(LookupError::OtherTypes { .. }))),
        "{typed:?}"
    );
    let too_large = node.path::<Vec<u8>, ()>("large").expect("a name");
    assert_eq!(too_large.tell(vec![7; 5 << 20]).await, Err(TellError::TooLarge));
    assert_eq!(
        empty
            .move_slot(0, node.address())
            .await
            .map_err(|error| error.may_have_been_handled()),
        Err(false)
    );
    let mut settings = empty.settings().expect("it is known");
    settings.role = None;
    empty.change(settings.clone()).await.expect("the leader takes it");
    let other = unknown.change(settings).await;
    assert!(
        matches!(other, Err(ClusterError::Path(PathError::OtherPath { .. }))),
        "{other:?}"
    );
    empty.remove().await.expect("the leader takes it");
    eventually::<A>("it is gone", async || {
        empty.ask(CounterOrder::Count).await == failed(AskFailure::UnknownPath)
    })
    .await;
    assert_eq!(unknown.remove().await, refused(PathRefusal::Unknown));
}
