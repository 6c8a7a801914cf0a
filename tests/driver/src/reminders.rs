//! Reminders of durable entities: handled when they are due, once, whatever happened to the entity meanwhile.
//! Spec: issue "reminders".

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorate_core::config::Config;
use quorate_driver::durable::{Change, Decision, DurableState, EventSourced, Retention, Versioned};
use quorate_driver::spi::Adapter;
use quorate_driver::{
    Cluster, EntityContext, Kind, Region, Security,
    store::{MemoryStore, SharedMemoryStore, Store, StoreScope},
};
use quorate_driver::{data::Pattern, sharding::RememberStore};
use serde::{Deserialize, Serialize};

use quorate_conformance::support::{all_up, eventually, first, joined_as, keeping, node};

/// Due when the entity has left memory, or its node has died: longer where a machine is slow.
const SOON_MS: [u64; 4] = [400, 2_000, 10_000, 40_000];
/// Entities of nodes of which one dies: more than the shards of one node.
const EGGS: usize = 12;
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

/// How often handlers have rung, by entity and which of its incarnations: not durable.
type Heard = Arc<Mutex<BTreeMap<String, u64>>>;

struct Alarm {
    heard: Heard,
    /// Its number among those of this entity on this node.
    incarnation: u64,
}

impl Alarm {
    fn new(context: &EntityContext, heard: &Heard) -> Self {
        let mut counted = heard.lock().expect("nobody panicked");
        let incarnation = counted.entry(format!("{}/made", context.id_text())).or_default();
        *incarnation += 1;
        Self {
            incarnation: *incarnation,
            heard: Arc::clone(heard),
        }
    }

    fn ring(&self, context: &EntityContext, name: &str) {
        let (id, incarnation) = (context.id_text(), self.incarnation);
        let mut heard = self.heard.lock().expect("nobody panicked");
        *heard.entry(format!("{id}/{name}@{incarnation}")).or_default() += 1;
    }
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
                    .remind("soon", soon, Command::Ring("soon".to_owned()))
                    .remind("later", LATER, &Command::Look)
                    .remind_every("again", soon, &again)
                    .reply((clock.rung, before));
                if leaves { wound.and_passivate() } else { wound }
            }
            Command::Ring(name) => {
                self.ring(context, &name);
                let rung = Decision::persist(Event::Rung);
                // One that comes again ends itself; it is over when it is handled.
                let rung = rung.forget_reminder(name);
                rung.then_reply(move |clock: &Clock| (clock.rung, before))
            }
            Command::Regret => Decision::persist_all([])
                .remind("regretted", Duration::ZERO, Command::Ring("regretted".to_owned()))
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

/// The same with its newest state alone.
impl DurableState for Alarm {
    type Command = Command;
    type Reply = Answer;
    type State = Clock;

    async fn handle(&mut self, context: &EntityContext, clock: &Clock, command: Command) -> Change<Self> {
        let answer = (clock.rung, names(context));
        match command {
            Command::Wind { after_ms, leaves } => {
                let soon = Duration::from_millis(after_ms);
                let again = Command::Ring("again".to_owned());
                let wound = Change::nothing()
                    .remind("soon", soon, &Command::Ring("soon".to_owned()))
                    .remind("later", LATER, &Command::Look)
                    .remind_every("again", soon, &again)
                    .reply(answer);
                if leaves { wound.and_passivate() } else { wound }
            }
            Command::Ring(name) => {
                self.ring(context, &name);
                let rung = clock.rung + 1;
                Change::to(Clock { rung }).forget_reminder(name).reply(answer)
            }
            Command::Regret => Change::nothing()
                .remind(
                    "regretted",
                    Duration::ZERO,
                    &Command::Ring("regretted".to_owned()),
                )
                .forget_reminder("regretted")
                .reply(answer),
            Command::Look => Change::reply(answer),
        }
    }
}

/// What a kind's alarms keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Events,
    /// Events, and the cluster remembers who there is.
    Remembered,
    State,
}

impl Style {
    /// The kind's name: what they keep may be in one store.
    const fn kind(self) -> &'static str {
        match self {
            Self::Events => "alarm",
            Self::Remembered => "remembered-alarm",
            Self::State => "alarm-state",
        }
    }
}

/// A node with this store, which alone keeps everything; the kind's alarms, and how often their handlers have
/// rung.
async fn begun<A: Adapter>(
    security: &Security,
    store: impl Store,
    style: Style,
) -> (Cluster, Region<Command, Answer>, Heard) {
    let remembering = |config: &mut Config| {
        config.ddata.durable_keys = vec![Pattern::parse("shard-*").expect("it is short")];
    };
    let node = first::<A>(keeping(node::<A>(security).config(remembering), store, 1)).await;
    let heard = Heard::default();
    let alarms = host(&node, style, &heard).await;
    (node, alarms, heard)
}

async fn host(node: &Cluster, style: Style, heard: &Heard) -> Region<Command, Answer> {
    let kind = Kind::new(style.kind()).shards(4);
    let heard = Arc::clone(heard);
    let make = move |context: EntityContext| Alarm::new(&context, &heard);
    let alarms = match style {
        Style::Events => node.entities(kind).start_event_sourced(make).await,
        Style::Remembered => {
            let kind = kind.remember_entities(RememberStore::Data);
            node.entities(kind).start_event_sourced(make).await
        }
        Style::State => node.entities(kind).start_durable_state(make).await,
    };
    alarms.expect("it is registered")
}

/// What of an entity has rung, and in which incarnation.
fn rings(heard: &Heard, id: &str) -> Vec<(String, u64)> {
    let heard = heard.lock().expect("nobody panicked");
    let own = heard.iter().filter_map(|(name, rings)| {
        let name = name.strip_prefix(id)?.strip_prefix('/')?;
        (name != "made").then(|| (name.to_owned(), *rings))
    });
    own.collect()
}

/// An entity that has left memory is begun again when it is due, though nobody sends it anything; it handles
/// its reminders once, also if it is stopped and started again afterwards. One of the same name is replaced,
/// and one that is forgotten never comes.
pub async fn a_reminder_wakes_its_entity_and_counts_once<A: Adapter>(security: &Security) {
    let store = MemoryStore::new();
    a_reminder_wakes_its_entity_on::<A, _>(security, || store.clone()).await;
}

/// The same with the store that `open` makes, anew for each life of the node.
pub async fn a_reminder_wakes_its_entity_on<A: Adapter, S: Store>(security: &Security, open: impl Fn() -> S) {
    for style in [Style::Events, Style::State] {
        wakes_its_entity::<A, _>(security, style, &open).await;
    }
}

async fn wakes_its_entity<A: Adapter, S: Store>(security: &Security, style: Style, open: impl Fn() -> S) {
    let (node, alarms, heard) = begun::<A>(security, open(), style).await;
    let mut woken = None;
    // Until one comes when it has left memory.
    for after_ms in SOON_MS {
        let id = format!("tea-{after_ms}");
        let wind = Command::Wind {
            after_ms,
            leaves: true,
        };
        assert_eq!(alarms.entity(&id).ask(&wind).await, Ok((0, vec![])));
        eventually::<A>("both have rung without a message", async || {
            rings(&heard, &id).len() == 2
        })
        .await;
        let second = [("again@2".to_owned(), 1), ("soon@2".to_owned(), 1)];
        if rings(&heard, &id) == second {
            woken = Some(id);
            break;
        }
    }
    let id = woken.expect("one was woken");
    // An entity that begins because it was woken does first what is due.
    eventually::<A>("it counts as woken", async || {
        let stats = node.stats().await.expect("the node runs");
        stats.host.entities_woken > 0
    })
    .await;
    let ask = async |command: Command| {
        let answer = alarms.entity(&id).ask(&command).await;
        answer.expect("it answers")
    };
    let _ = ask(Command::Regret).await;
    let later = vec!["later".to_owned()];
    assert_eq!(ask(Command::Look).await, (2, later.clone()));
    node.stop().await;

    // The next node knows what was handled, and what was not.
    let (node, alarms, heard) = begun::<A>(security, open(), style).await;
    let answer = alarms.entity(&id).ask(&Command::Look).await;
    assert_eq!(answer, Ok((2, later)));
    assert_eq!(rings(&heard, &id), []);
    node.stop().await;
}

/// An entity is there when its reminder is due, without a message, on a node that was started afterwards:
/// whatever its kind keeps, and whether that remembers its entities or not.
pub async fn reminders_wake_entities_after_all_nodes_were_stopped<A: Adapter>(security: &Security) {
    let store = MemoryStore::new();
    reminders_outlive_all_nodes_on::<A, _>(security, || store.clone()).await;
}

/// The same with the store that `open` makes, anew for each life of the node.
pub async fn reminders_outlive_all_nodes_on<A: Adapter, S: Store>(security: &Security, open: impl Fn() -> S) {
    for style in [Style::Events, Style::Remembered, Style::State] {
        let mut has_outlived = false;
        // Until one comes when its node has ended.
        for after_ms in SOON_MS {
            let (node, alarms, heard) = begun::<A>(security, open(), style).await;
            let id = format!("egg-{after_ms}");
            let wind = Command::Wind {
                after_ms,
                leaves: style != Style::Remembered,
            };
            assert!(alarms.entity(&id).ask(&wind).await.is_ok());
            node.stop().await;
            if !rings(&heard, &id).is_empty() {
                continue;
            }
            let (node, alarms, heard) = begun::<A>(security, open(), style).await;
            eventually::<A>("it rings without a message", async || {
                rings(&heard, &id).len() == 2
            })
            .await;
            let (rung, left) = alarms.entity(&id).ask(&Command::Look).await.expect("it answers");
            assert_eq!((rung, left), (2, vec!["later".to_owned()]));
            node.stop().await;
            has_outlived = true;
            break;
        }
        assert!(has_outlived, "no reminder outlived its node: {style:?}");
    }
}

/// Four nodes share a store. Entities leave memory, then a node dies with its share of them and of their
/// clocks, the oldest first and then another: the others ring, each once by what is kept, though nobody sends
/// them anything.
pub async fn reminders_wake_entities_of_a_node_that_has_died<A: Adapter>(security: &Security) {
    let logs = SharedMemoryStore::new();
    reminders_outlive_two_of_four_nodes_on::<A, _>(security, |_| logs.node()).await;
}

/// The same with the stores that `open` makes. Of stores that only their nodes read three vote, and the node
/// that dies last has none: two of them stay.
pub async fn reminders_outlive_two_of_four_nodes_on<A: Adapter, S: Store>(
    security: &Security,
    open: impl Fn(usize) -> S,
) {
    let quick = |config: &mut Config| config.downing.stable_after = Some(Duration::from_secs(1));
    let builder = || node::<A>(security).config(quick);
    let with_store = |index: usize| keeping(builder(), open(index), 3);
    let mut nodes = vec![first::<A>(with_store(0)).await];
    let seed = nodes[0].address().address().clone();
    for index in [1, 2] {
        nodes.push(joined_as::<A>(with_store(index), &seed).await);
    }
    let last = match open(3).scope() {
        StoreScope::NodeLocal => builder().config(|config| config.journal.voters = 3),
        StoreScope::Shared => with_store(3),
    };
    nodes.push(joined_as::<A>(last, &seed).await);
    let heard = Heard::default();
    let mut regions = Vec::new();
    for node in &nodes {
        all_up::<A>(node, 4).await;
        regions.push(host(node, Style::Events, &heard).await);
    }
    let asked = regions.remove(1);
    let oldest = nodes.remove(0);
    outlive::<A>(&asked, &heard, "a", oldest).await;
    // All clocks have begun elsewhere by now, a third of them where nobody sees to them.
    let last = nodes.remove(2);
    outlive::<A>(&asked, &heard, "b", last).await;
}

/// Entities whose names begin so outlive a node.
async fn outlive<A: Adapter>(alarms: &Region<Command, Answer>, heard: &Heard, name: &str, node: Cluster) {
    let mut node = Some(node);
    for after_ms in &SOON_MS[1..] {
        let ids: Vec<String> = (0..EGGS)
            .map(|number| format!("{name}-{after_ms}-{number}"))
            .collect();
        for id in &ids {
            let wind = Command::Wind {
                after_ms: *after_ms,
                leaves: true,
            };
            assert!(alarms.entity(id).ask(&wind).await.is_ok());
        }
        let has_rung = ids.iter().any(|id| !rings(heard, id).is_empty());
        if has_rung {
            continue;
        }
        if let Some(node) = node.take() {
            node.stop().await;
        }
        eventually::<A>("all ring without a message", async || {
            ids.iter().all(|id| rings(heard, id).len() >= 2)
        })
        .await;
        for id in &ids {
            let answer = alarms.entity(id).ask(&Command::Look).await;
            assert_eq!(answer, Ok((2, vec!["later".to_owned()])), "{id}");
        }
        return;
    }
    panic!("all reminders were due before the node died");
}

/// Entities with reminders that are far away have left memory. A second node gets its share of the shards,
/// and what will wake them runs there without having been sent anything.
pub async fn what_wakes_entities_runs_on_where_it_moves<A: Adapter>(security: &Security) {
    let logs = SharedMemoryStore::new();
    what_wakes_entities_moves_on::<A, _>(security, |_| logs.node()).await;
}

/// The same with the stores that `open` makes for the two nodes; where only its node reads a store, that of
/// the first keeps all logs.
pub async fn what_wakes_entities_moves_on<A: Adapter, S: Store>(
    security: &Security,
    open: impl Fn(usize) -> S,
) {
    let builder = |index: usize| keeping(node::<A>(security), open(index), 1);
    let one = first::<A>(builder(0)).await;
    let heard = Heard::default();
    let alarms = host(&one, Style::Events, &heard).await;
    for number in 0..EGGS {
        let wind = Command::Wind {
            after_ms: u64::try_from(LATER.as_millis()).expect("some hours"),
            leaves: true,
        };
        assert!(alarms.entity(format!("egg-{number}")).ask(&wind).await.is_ok());
    }
    let two = joined_as::<A>(builder(1), one.address().address()).await;
    let _alarms = host(&two, Style::Events, &heard).await;
    eventually::<A>("some run on the other node", async || {
        two.stats().await.expect("the node runs").host.entities >= 2
    })
    .await;
    let made: u64 = heard.lock().expect("nobody panicked").values().sum();
    assert_eq!(made, EGGS as u64, "nobody was woken for it");
}
