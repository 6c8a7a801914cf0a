//! Reminders of durable entities: handled when they are due, once, whatever happened to the entity meanwhile. Spec: issue "reminders".

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorate_core::config::Config;
use quorate_driver::core::{Pattern, RememberStore};
use quorate_driver::durable::{Decision, EventSourced, Retention, Versioned};
use quorate_driver::{Adapter, Cluster, EntityContext, Kind, MemoryStore, Region, Security};
use serde::{Deserialize, Serialize};

use super::support::{eventually, first, node, sleep};

/// Due when the entity has left memory.
const SOON_MS: u64 = 300;
/// Not in any test.
const LATER: Duration = Duration::from_secs(36_000);

#[derive(Clone, Serialize, Deserialize)]
enum Command {
    /// Rings after so many milliseconds, and much later; may ask to be passivated.
    Wind {
        after_ms: u64,
        leaves: bool,
    },
    Ring(String),
    /// Sets and forgets in one decision.
    Regret,
    Look,
}

/// How often it has rung, and which reminders it has.
type Answer = (u64, Vec<String>);

#[derive(Serialize, Deserialize)]
enum Event {
    Wound,
    Rung,
}

impl Versioned for Event {}

#[derive(Default, Serialize, Deserialize)]
struct Clock {
    rung: u64,
}

impl Versioned for Clock {}

/// How often handlers have rung, by entity: not durable.
type Heard = Arc<Mutex<BTreeMap<String, u64>>>;

struct Alarm {
    heard: Heard,
}

fn names(context: &EntityContext) -> Vec<String> {
    let reminders = context.reminders();
    reminders.into_iter().map(|reminder| reminder.name).collect()
}

impl EventSourced for Alarm {
    type Command = Command;
    type Reply = Answer;
    type Event = Event;
    type State = Clock;

    async fn handle(&mut self, context: &EntityContext, clock: &Clock, command: Command) -> Decision<Self> {
        let before = names(context);
        match command {
            Command::Wind { after_ms, leaves } => {
                let soon = Duration::from_millis(after_ms);
                let again = Command::Ring("again".to_owned());
                let wound = Decision::persist(Event::Wound)
                    .remind("soon", LATER, &Command::Look)
                    .remind("soon", soon, &Command::Ring("soon".to_owned()))
                    .remind("later", LATER, &Command::Look)
                    .remind_every("again", soon, &again)
                    .reply((clock.rung, before));
                if leaves { wound.and_passivate() } else { wound }
            }
            Command::Ring(name) => {
                let id = context.id_text().to_string();
                let mut heard = self.heard.lock().expect("nobody panicked");
                *heard.entry(format!("{id}/{name}")).or_default() += 1;
                let rung = Decision::persist(Event::Rung);
                // One that comes again ends itself; it is over when it is handled.
                let rung = rung.forget_reminder(name);
                rung.then_reply(move |clock: &Clock| (clock.rung, before))
            }
            Command::Regret => Decision::persist_all([])
                .remind(
                    "regretted",
                    Duration::ZERO,
                    &Command::Ring("regretted".to_owned()),
                )
                .forget_reminder("regretted")
                .reply((clock.rung, before)),
            Command::Look => Decision::reply((clock.rung, before)),
        }
    }

    fn apply(clock: &mut Clock, event: Event) {
        match event {
            Event::Wound => {}
            Event::Rung => clock.rung += 1,
        }
    }

    fn retention(&self) -> Retention {
        Retention::snapshot_every(3).delete_covered_events()
    }
}

/// A node with this store, which alone keeps everything; the kind's alarms, and how often their handlers have rung.
async fn begun<A: Adapter>(
    security: &Security,
    store: &MemoryStore,
    remembers: bool,
) -> (Cluster<A>, Region<Command, Answer>, Heard) {
    let remembering = |config: &mut Config| {
        config.journal.voters = 1;
        config.ddata.durable_keys = vec![Pattern::parse("shard-*").expect("it is short")];
    };
    let node = first(node::<A>(security).config(remembering).store(store.clone())).await;
    let heard = Heard::default();
    let kind = Kind::new("alarm").shards(4);
    let kind = if remembers {
        kind.remember_entities(RememberStore::Data)
    } else {
        kind
    };
    let rings = Arc::clone(&heard);
    let make = move |_: EntityContext| Alarm {
        heard: Arc::clone(&rings),
    };
    let alarms = node.register_event_sourced(kind, make).await;
    (node, alarms.expect("it is registered"), heard)
}

fn rings(heard: &Heard) -> Vec<(String, u64)> {
    let heard = heard.lock().expect("nobody panicked");
    heard.iter().map(|(name, rings)| (name.clone(), *rings)).collect()
}

/// What is due while the entity is not in memory is handled with its next command, before that, and once, also if it is stopped and started
/// again afterwards; a reminder of the same name is replaced, and one that is forgotten never comes.
pub async fn a_reminder_outlives_its_entity_and_counts_once<A: Adapter>(security: &Security) {
    let store = MemoryStore::new();
    let (node, alarms, heard) = begun::<A>(security, &store, false).await;
    let ask = async |command: Command| {
        let answer = alarms.entity("tea").ask(&command).await;
        answer.expect("it answers")
    };
    let wind = Command::Wind {
        after_ms: SOON_MS,
        leaves: true,
    };
    assert_eq!(ask(wind).await, (0, vec![]));
    eventually::<A>("it has left memory", async || {
        node.stats().await.expect("the node runs").host.entities == 0
    })
    .await;
    sleep::<A>(Duration::from_millis(SOON_MS * 2)).await;
    assert_eq!(rings(&heard), [], "nobody wakes it");
    let _ = ask(Command::Regret).await;
    eventually::<A>("both have rung", async || {
        ask(Command::Look).await == (2, vec!["later".to_owned()])
    })
    .await;
    let both = [("tea/again".to_owned(), 1), ("tea/soon".to_owned(), 1)];
    assert_eq!(rings(&heard), both);
    node.stop().await;

    // The next node knows what was handled, and what was not.
    let (node, alarms, heard) = begun::<A>(security, &store, false).await;
    let answer = alarms.entity("tea").ask(&Command::Look).await;
    assert_eq!(answer, Ok((2, vec!["later".to_owned()])));
    assert_eq!(rings(&heard), []);
    node.stop().await;
}

/// An entity of a kind that remembers is there when its reminder is due, without a message, on a node that was started afterwards.
pub async fn a_reminder_wakes_a_remembered_entity_after_a_restart<A: Adapter>(security: &Security) {
    let store = MemoryStore::new();
    // Until one comes when its node has ended.
    for after_ms in [1_000, 4_000, 16_000] {
        let (node, alarms, heard) = begun::<A>(security, &store, true).await;
        let id = format!("egg-{after_ms}");
        let wind = Command::Wind {
            after_ms,
            leaves: false,
        };
        assert!(alarms.entity(&id).ask(&wind).await.is_ok());
        node.stop().await;
        if rings(&heard).iter().any(|(name, _)| name.starts_with(&id)) {
            continue;
        }
        let (node, _, heard) = begun::<A>(security, &store, true).await;
        let both = [(format!("{id}/again"), 1), (format!("{id}/soon"), 1)];
        eventually::<A>("it rings without a message", async || rings(&heard) == both).await;
        node.stop().await;
        return;
    }
    panic!("no reminder outlived its node");
}
