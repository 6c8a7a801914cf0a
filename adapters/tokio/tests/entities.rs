//! What an entity has around it: the way to itself and to others, its hooks, its end; and what callers hear
//! when there is no answer.

use crate::common;

use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use common::log::Log;
use common::{LIMIT, all_up, cluster, node, within};
use quorate_tokio::{
    AskError, Cluster, ClusterError, ClusterEvent, Entity, EntityContext, Kind, LookupError, Region,
    TellError,
};
use quorate_tokio::{
    AskFailure, CommandError, Event,
    events::ShardingEvent,
    membership::Role,
    sharding::{FieldDifference, ShardingCommandError},
};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
enum Order {
    /// Notes this.
    Note(String),
    /// Tells itself to note this.
    NoteLater(String),
    /// Asks itself.
    AskYourself,
    /// Has a task ask it, and does not wait for it.
    HaveYourselfAsked,
    /// Tells another one to note this.
    Pass(String, String),
    /// Stops, after a while.
    Stop(Duration),
    /// Answers with so many bytes.
    Answer(usize),
    Read,
}

/// What the process says; each test looks for what only its nodes can have caused.
static LOG: LazyLock<Log> = LazyLock::new(Log::of_the_process);

type Notes = Vec<String>;
type Said = Arc<Mutex<Notes>>;

/// Notes what it is told; `said` outlives it.
struct Notebook {
    said: Said,
    notes: Notes,
}

impl Notebook {
    fn say(&self, context: &EntityContext, what: &str) {
        self.said
            .lock()
            .unwrap()
            .push(format!("{} {what}", context.id_text()));
    }
}

impl Entity for Notebook {
    type Message = Order;
    type Reply = Notes;

    async fn on_start(&mut self, context: &EntityContext) {
        self.say(context, "starts");
    }

    async fn handle(&mut self, context: &EntityContext, order: Order) -> Notes {
        match order {
            Order::Note(note) => self.notes.push(note),
            Order::NoteLater(note) => {
                let itself = context.self_ref::<Self>().unwrap();
                itself.tell(&Order::Note(note)).await.unwrap();
            }
            Order::AskYourself => {
                let answer = context.self_ref::<Self>().unwrap().ask(&Order::Read).await;
                self.notes.push(format!("{:?}", answer.unwrap_err()));
            }
            Order::HaveYourselfAsked => {
                let (itself, said) = (context.self_ref::<Self>().unwrap(), Arc::clone(&self.said));
                tokio::spawn(async move {
                    let answer = itself.ask(&Order::Read).await;
                    said.lock().unwrap().push(format!("{answer:?}"));
                });
            }
            Order::Pass(to, note) => {
                let others = context.region::<Order, Notes>(context.kind()).unwrap();
                others.entity(to).tell(&Order::Note(note)).await.unwrap();
            }
            Order::Stop(after) => {
                context.stop();
                tokio::time::sleep(after).await;
            }
            Order::Answer(bytes) => return vec!["x".repeat(bytes)],
            Order::Read => {}
        }
        self.notes.clone()
    }

    async fn on_stop(&mut self, context: &EntityContext) {
        // What it awaits is waited for.
        tokio::task::yield_now().await;
        self.say(context, "stops");
    }
}

async fn notebooks(node: &Cluster, said: &Said) -> Region<Order, Notes> {
    let said = Arc::clone(said);
    let make = move |_| Notebook {
        said: Arc::clone(&said),
        notes: Notes::new(),
    };
    node.entities(Kind::new("notebook").shards(4))
        .start(make)
        .await
        .unwrap()
}

async fn ask(region: &Region<Order, Notes>, id: &str, order: Order) -> Result<Notes, AskError> {
    within(region.entity(id).ask(&order).timeout(LIMIT).into_future()).await
}

async fn eventually(mut is_so: impl AsyncFnMut() -> bool) {
    within(async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_lines_about_a_kind_or_a_singleton_have_its_name() {
    LazyLock::force(&LOG);
    let (node, said) = (cluster(1).await.remove(0), Said::default());
    let region = notebooks(&node, &said).await;
    let alone = node.singleton("diary").start({
        let said = Arc::clone(&said);
        move |_| Notebook {
            said: Arc::clone(&said),
            notes: Notes::new(),
        }
    });
    let alone = within(alone).await.unwrap();
    within(alone.ask(&Order::Read).into_future()).await.unwrap();
    ask(&region, "a", Order::Read).await.unwrap();
    let me = format!("me={}", node.address());
    for event in [r#"event="coordinator_started""#, r#"event="shard_started""#] {
        LOG.said(&["cluster::sharding", event, &me, "kind=notebook"])
            .await;
    }
    let started = r#"event="singleton_started""#;
    LOG.said(&["cluster::singleton", started, &me, "name=diary "])
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entity_tells_itself_and_others_by_its_context() {
    let node = cluster(1).await.remove(0);
    let region = notebooks(&node, &Said::default()).await;
    assert_eq!(
        ask(&region, "a", Order::NoteLater("one".to_owned())).await,
        Ok(vec![])
    );
    assert_eq!(ask(&region, "a", Order::Read).await, Ok(vec!["one".to_owned()]));
    let pass = Order::Pass("b".to_owned(), "two".to_owned());
    assert_eq!(ask(&region, "a", pass).await, Ok(vec!["one".to_owned()]));
    assert_eq!(ask(&region, "b", Order::Read).await, Ok(vec!["two".to_owned()]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ask_of_itself_is_refused_at_once_and_one_that_nobody_waits_for_is_answered() {
    let node = cluster(1).await.remove(0);
    let said = Said::default();
    let region = notebooks(&node, &said).await;
    let begun = Instant::now();
    let refused = vec!["OwnEntity".to_owned()];
    assert_eq!(ask(&region, "a", Order::AskYourself).await, Ok(refused.clone()));
    assert!(begun.elapsed() < LIMIT / 3, "{:?}", begun.elapsed());
    assert!(!AskError::OwnEntity.may_have_been_handled());
    assert_eq!(
        ask(&region, "a", Order::HaveYourselfAsked).await,
        Ok(refused.clone())
    );
    let answered = format!("{:?}", Ok::<_, AskError>(refused));
    eventually(async || said.lock().unwrap().contains(&answered)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_region_is_had_by_name_and_only_with_its_types() {
    let node = cluster(1).await.remove(0);
    let unknown = node.region::<Order, Notes>("notebook").unwrap_err();
    assert!(matches!(unknown, LookupError::NotRegistered { .. }), "{unknown}");
    notebooks(&node, &Said::default()).await;
    let region = node.region::<Order, Notes>("notebook").unwrap();
    assert_eq!(ask(&region, "a", Order::Read).await, Ok(vec![]));
    let other = node.region::<String, Notes>("notebook").unwrap_err();
    assert!(matches!(other, LookupError::OtherTypes { .. }), "{other}");
    let again = node
        .entities(Kind::<String, Notes>::new("notebook").shards(4))
        .proxy()
        .await;
    assert_eq!(again.unwrap_err(), ClusterError::Lookup(other));
    // A refused registration leaves nothing behind.
    let none = node
        .entities(Kind::<Order, Notes>::new("none").shards(0))
        .proxy()
        .await;
    assert!(matches!(none, Err(ClusterError::Refused(_))), "{none:?}");
    assert!(node.region::<Order, Notes>("none").is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_hooks_run_around_an_entitys_messages_when_it_stops_and_when_its_node_leaves() {
    let node = cluster(1).await.remove(0);
    let said = Said::default();
    let region = notebooks(&node, &said).await;
    ask(&region, "a", Order::Note("one".to_owned())).await.unwrap();
    assert_eq!(*said.lock().unwrap(), ["a starts"]);
    ask(&region, "a", Order::Stop(Duration::ZERO)).await.unwrap();
    eventually(async || said.lock().unwrap().len() == 2).await;
    assert_eq!(*said.lock().unwrap(), ["a starts", "a stops"]);
    let read = async || ask(&region, "a", Order::Read).await;
    eventually(async || read().await == Ok(vec![])).await;
    assert_eq!(said.lock().unwrap()[2..], ["a starts"], "a new one");
    within(node.leave()).await.unwrap();
    assert_eq!(said.lock().unwrap()[3..], ["a stops"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_while_an_entity_stops_was_not_handled() {
    let node = cluster(1).await.remove(0);
    let region = notebooks(&node, &Said::default()).await;
    ask(&region, "a", Order::Read).await.unwrap();
    let stopping = region
        .entity("a")
        .ask(Order::Stop(Duration::from_millis(300)))
        .into_future();
    let waiting = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        ask(&region, "a", Order::Note("lost".to_owned())).await
    };
    let (stopped, waited) = tokio::join!(within(stopping), waiting);
    assert_eq!(stopped, Ok(vec![]));
    let failed = waited.unwrap_err();
    assert_eq!(failed, AskError::Failed(AskFailure::EntityStoppedUnhandled));
    assert!(!failed.may_have_been_handled());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s_100_a_message_for_no_entity_or_too_large_is_an_error() {
    let node = cluster(1).await.remove(0);
    let region = notebooks(&node, &Said::default()).await;
    let long = Order::Note("x".repeat(5 << 20));
    assert_eq!(region.entity("a").tell(&long).await, Err(TellError::TooLarge));
    assert_eq!(region.entity("a").try_tell(&long), Err(TellError::TooLarge));
    assert_eq!(
        region.entity("").tell(&Order::Read).await,
        Err(TellError::BadEntityId)
    );
    assert_eq!(
        region.entity("x".repeat(2_000)).tell(&Order::Read).await,
        Err(TellError::BadEntityId)
    );
    assert_eq!(region.entity("a").tell(&Order::Read).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_over_the_limit_fails_at_once_on_the_same_node_and_on_another() {
    let nodes = cluster(2).await;
    let said = Said::default();
    let mut regions = Vec::new();
    for node in &nodes {
        regions.push(notebooks(node, &said).await);
    }
    // Four shards on two nodes: some of these are here, some there.
    for id in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        eventually(async || ask(&regions[0], id, Order::Read).await.is_ok()).await;
        let begun = Instant::now();
        let failed = ask(&regions[0], id, Order::Answer(5 << 20)).await.unwrap_err();
        assert_eq!(failed, AskError::Failed(AskFailure::ReplyTooLarge));
        assert!(failed.may_have_been_handled());
        assert!(begun.elapsed() < LIMIT / 3, "{:?}", begun.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ask_of_a_kind_that_nobody_hosts_says_so_and_one_after_the_end_was_not_handled() {
    let node = cluster(1).await.remove(0);
    let region = node
        .entities(Kind::<Order, Notes>::new("nowhere").shards(4))
        .proxy()
        .await
        .unwrap();
    let short = Duration::from_millis(300);
    let failed = within(region.entity("a").ask(&Order::Read).timeout(short).into_future())
        .await
        .unwrap_err();
    assert_eq!(failed, AskError::Failed(AskFailure::NobodyHosts));
    assert!(!failed.may_have_been_handled());
    within(node.leave()).await.unwrap();
    let failed = ask(&region, "a", Order::Read).await.unwrap_err();
    assert_eq!(failed, AskError::Failed(AskFailure::NodeStoppedUnsent));
    assert!(!failed.may_have_been_handled());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_with_another_role_is_refused_with_the_field_and_both_values() {
    let first = cluster(1).await.remove(0);
    let seeds = [first.address().address()];
    let second = node().role("stock").seeds(seeds).start().await.unwrap();
    all_up(&first, 2).await;
    all_up(&second, 2).await;
    let said = Said::default();
    let region = notebooks(&first, &said).await;
    let mut events = first.events();

    let make = |_| Notebook {
        said: Said::default(),
        notes: Notes::new(),
    };
    let other = Kind::new("notebook").shards(4).role("stock");
    let refused = within(second.entities(other).start(make))
        .await
        .map(drop)
        .unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the kind differs from the cluster's: role is stock here and none in the cluster"
    );
    let ClusterError::Refused(CommandError::Sharding(ShardingCommandError::KindDiffers { difference })) =
        refused
    else {
        panic!("{refused:?}");
    };
    let (ours, theirs) = (Some(Role::new("stock").unwrap()), None);
    assert_eq!(difference.fields(), [FieldDifference::Role { ours, theirs }]);
    // The oldest tells its operator, and names the node.
    within(async {
        loop {
            if let ClusterEvent::Event(Event::Sharding {
                event:
                    ShardingEvent::KindRefusedOn {
                        node,
                        difference: said,
                    },
                ..
            }) = events.next().await.unwrap()
            {
                assert_eq!((&node, &said), (second.address(), &difference));
                return;
            }
        }
    })
    .await;

    // Nothing of the refused kind is left there, and what stands works on, there too with the cluster's
    // fields.
    let gone = second.region::<Order, Notes>("notebook").unwrap_err();
    assert!(matches!(gone, LookupError::NotRegistered { .. }), "{gone}");
    let note = Order::Note("one".to_owned());
    assert_eq!(ask(&region, "a", note).await, Ok(vec!["one".to_owned()]));
    let same = within(notebooks(&second, &said)).await;
    assert_eq!(ask(&same, "a", Order::Read).await, Ok(vec!["one".to_owned()]));
}
