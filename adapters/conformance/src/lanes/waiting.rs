//! Messages that wait for the homes of their shards: far more than may wait for a peer, and more than a
//! region may buffer. Callers wait for room, and nothing is lost. Spec: sharding 10.3, 10.4, 10.14 b.

use std::sync::{Arc, Mutex, PoisonError};

use quorate_core::event::{Event, ShardingEvent};
use quorate_driver::spi::Adapter;
use quorate_driver::{Cluster, ClusterEvent, EntityContext, Events, Kind, Security, TellError};

use crate::support::{both, cluster_with, eventually, within};

/// Messages in all, what the sender's region may buffer of them, and how many wait for a peer at most.
const MESSAGES: usize = 16_000;
const BUFFERED_MAX: usize = 8_000;

/// Entities that they are for: each has fewer than a mailbox holds.
const ENTITIES: usize = 40;

fn kind() -> Kind<usize, ()> {
    Kind::new("waiting").shards(10)
}

async fn buffer_is_full<A: Adapter>(events: &mut Events) {
    within::<A, _>("the buffer is full", async {
        loop {
            let event = events.next().await.expect("the node runs");
            let what = ShardingEvent::BufferFull {
                messages: BUFFERED_MAX,
            };
            if matches!(&event, ClusterEvent::Event(Event::Sharding { event, .. }) if *event == what) {
                return;
            }
        }
    })
    .await;
}

async fn dead_letters<A: Adapter>(node: &Cluster) -> u64 {
    let stats = within::<A, _>("counters", node.stats()).await;
    stats.expect("the node runs").core.sharding.dead_letters
}

/// A kind beside it, and how many messages each of its entities gets from a node that is no home of it.
fn beside() -> Kind<usize, ()> {
    Kind::new("beside").shards(4)
}
const BESIDE: usize = 200;

/// What entities have handled, in order.
type Notes = Arc<Mutex<Vec<(String, usize)>>>;

async fn notes_of(node: &Cluster, kind: Kind<usize, ()>) -> Notes {
    let notes = Notes::default();
    let kept = Arc::clone(&notes);
    let handle = move |context: EntityContext, number: usize| {
        let notes = Arc::clone(&notes);
        async move {
            let mut notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
            notes.push((context.id_text().into_owned(), number));
        }
    };
    let hosted = node.entities(kind).start_fn(handle).await;
    hosted.expect("it is hosted");
    kept
}

fn noted(notes: &Notes) -> Vec<(String, usize)> {
    notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Each entity has handled its messages in the order in which they were told.
fn are_in_order(noted: &[(String, usize)], entities: usize) {
    for at in 0..entities {
        let id = format!("e{at}");
        let of_it = noted.iter().filter(|(entity, _)| *entity == id);
        let numbers: Vec<usize> = of_it.map(|(_, number)| *number).collect();
        assert!(numbers.is_sorted(), "{id} handled {numbers:?}");
    }
}

/// One caller tells them one after the other, to a kind that nobody hosts yet. Once the region has buffered
/// what it may the caller waits, and who does not want to wait hears it. Meanwhile what others send to
/// another kind there is handled: the buffer holds up no link. When somebody hosts the kind all of them are
/// handled, each entity's in their order.
pub async fn a_full_buffer_has_callers_wait_and_loses_nothing<A: Adapter>(security: &Security) {
    let limits = |config: &mut quorate_core::config::Config| {
        config.sharding.buffer_messages_max = BUFFERED_MAX;
    };
    let nodes = cluster_with::<A>(2, security, limits).await;
    let [sender, host] = &nodes[..] else {
        panic!("there are two");
    };
    let mut events = sender.events();
    let region = sender.entities(kind()).proxy().await.expect("it may be reached");
    let others = notes_of(sender, beside()).await;
    let other = host.entities(beside()).proxy().await.expect("it may be reached");
    let telling = async {
        for number in 0..MESSAGES {
            let entity = region.entity(format!("e{}", number % ENTITIES));
            entity.tell(&number).await.expect("it is taken");
        }
    };
    let hosting = async {
        buffer_is_full::<A>(&mut events).await;
        let told = region.entity("e0").try_tell(MESSAGES);
        assert_eq!(told, Err(TellError::Full), "who does not want to wait hears it");
        for number in 0..BESIDE {
            let entity = other.entity(format!("e{}", number % 4));
            entity.tell(&number).await.expect("it is taken");
        }
        eventually::<A>("another kind goes on", async || noted(&others).len() == BESIDE).await;
        are_in_order(&noted(&others), 4);
        notes_of(host, kind()).await
    };
    let (handled, ()) = within::<A, _>("all are told", both(hosting, telling)).await;
    let seen = || noted(&handled);
    eventually::<A>("all are handled", async || {
        let lost = dead_letters::<A>(sender).await + dead_letters::<A>(host).await;
        assert_eq!(lost, 0, "{} of {MESSAGES} were handled", seen().len());
        seen().len() == MESSAGES
    })
    .await;
    are_in_order(&seen(), ENTITIES);
}
