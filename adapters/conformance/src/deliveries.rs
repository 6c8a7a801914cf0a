//! Reliable delivery over links that break: what counts is what the entity saw, which it writes down before
//! it confirms it. Spec: sharding 1.14.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quorate_driver::delivery::{Consumer, ConsumerSettings, Delivery, SendError, ToEntitiesSettings};
use quorate_driver::spi::Adapter;
use quorate_driver::{EntityContext, Kind, Security};

use super::breaking::{BROKEN, Breaking};
use super::support::{all_up, first, joined_as, node, within};

/// The lengths of the whole texts that the entity saw, in order, and zero for one that is not what it should
/// be.
#[derive(Clone, Default)]
struct SeenTexts(Arc<Mutex<Vec<u64>>>);

impl SeenTexts {
    fn note(&self, length: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(length);
    }

    fn all(&self) -> Vec<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Notes of each text how long it is and whether every byte is what it should be.
struct TextReader {
    seen: SeenTexts,
}

/// A text in which every byte follows from where it is.
fn text(bytes: usize) -> String {
    let letters = (0..=bytes / 8).map(|at| format!("{:08}", at % 100_000_000));
    let mut text: String = letters.collect();
    text.truncate(bytes);
    text
}

impl Consumer for TextReader {
    type Message = String;

    async fn handle(&mut self, _: &EntityContext, delivery: Delivery<String>) {
        let message = delivery.message();
        let is_whole = *message == text(message.len());
        let number = if is_whole { message.len() as u64 } else { 0 };
        self.seen.note(number);
        delivery.confirm();
    }
}

/// A message of nearly 64 MiB crosses in parts, over links that break every few of them; what is sent behind
/// it comes behind it.
pub async fn s_238_64_mib_arrive_in_parts_over_links_that_break<A: Adapter>(security: &Security) {
    const LARGE: usize = (64 << 20) - 4_096;
    let seen = SeenTexts::default();
    let asking = first::<Breaking<A>>(node::<Breaking<A>>(security)).await;
    let seed = asking.address().address().clone();
    let hosting = joined_as::<Breaking<A>>(node::<Breaking<A>>(security).role("readers"), &seed).await;
    for node in [&asking, &hosting] {
        all_up::<A>(node, 2).await;
    }
    let kind = || {
        Kind::<Delivery<String>, ()>::new("reader")
            .shards(4)
            .role("readers")
    };
    let settings = ConsumerSettings {
        resend_min: Duration::from_millis(250),
        ..ConsumerSettings::default()
    };
    let noted = seen.clone();
    let make = move |_: EntityContext| TextReader { seen: noted.clone() };
    let registered = hosting.entities(kind()).start_consumer_with(settings, make).await;
    registered.expect("it is registered");
    let region = asking.entities(kind()).proxy().await.expect("it is registered");
    let producer = region
        .producer("library")
        .settings(ToEntitiesSettings {
            resend_idle: Duration::from_secs(1),
            ..ToEntitiesSettings::default()
        })
        .parts_of(256 << 10);
    let producer = producer.start().await.expect("it starts");
    let before = BROKEN.load(Ordering::Relaxed);
    let sent = within::<Breaking<A>, _>("it is taken", producer.send("r", &text(LARGE))).await;
    let sent = sent.expect("it is taken");
    drop(producer.send("r", &text(7)).await.expect("it is taken"));
    let last = producer.send("r", &text(1_000)).await.expect("it is taken");
    within::<Breaking<A>, _>("the large one is confirmed", sent)
        .await
        .expect("it runs");
    within::<Breaking<A>, _>("the last one is confirmed", last)
        .await
        .expect("it runs");
    assert_eq!(seen.all(), [LARGE as u64, 7, 1_000]);
    let broken = BROKEN.load(Ordering::Relaxed) - before;
    assert!(broken >= 5, "only {broken} links broke");
    let host = asking.stats().await.expect("it runs").host;
    assert!(host.deliveries_resent > 0, "{host:?}");
    // Without parts it does not fit into a frame, and says so.
    let whole = region.producer("whole").start().await.expect("it starts");
    let refused = whole.send("r", &text(LARGE)).await.map(drop);
    assert_eq!(refused, Err(SendError::TooLarge));
}
