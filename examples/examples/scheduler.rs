//! A scheduler that runs once in the whole cluster: a singleton with a timer of its own. When its node
//! leaves, the next oldest member begins, with a higher token. `cargo run --example scheduler`
#![forbid(unsafe_code)]

use std::time::Duration;

use quorate_tokio::Token;
use quorate_tokio::{Cluster, Entity, EntityContext, Security, Singleton};
use serde::{Deserialize, Serialize};

/// How often it ticks.
const TICK: Duration = Duration::from_millis(50);

#[derive(Clone, Serialize, Deserialize)]
enum Message {
    Tick,
    Read,
}

/// Whose it is, and how often it has ticked.
type Answer = (String, u64);

struct Scheduler {
    node: String,
    token: Token,
    ticks: u64,
}

impl Entity for Scheduler {
    type Message = Message;
    type Reply = Answer;

    async fn on_start(&mut self, context: &EntityContext) {
        println!("the scheduler runs on {}, token {}", self.node, self.token);
        if let Err(error) = context.start_timer_every::<Self>("tick", TICK, Message::Tick) {
            println!("no timer: {error}");
        }
    }

    async fn handle(&mut self, _: &EntityContext, message: Message) -> Answer {
        match message {
            // A job that writes elsewhere names `self.token`, so that a store can refuse an instance that was
            // replaced.
            Message::Tick => self.ticks += 1,
            Message::Read => {}
        }
        (self.node.clone(), self.ticks)
    }
}

type Failed = Box<dyn std::error::Error>;

async fn node(seed: Option<&Cluster>) -> Result<(Cluster, Singleton<Message, Answer>), Failed> {
    let builder = quorate_tokio::builder("jobs").bind("127.0.0.1:0").fast_profile();
    let cluster = builder.security(Security::insecure_plaintext()).start().await?;
    cluster
        .join([seed.unwrap_or(&cluster).address().address()])
        .await?;
    cluster.up().await?;
    let node = cluster.address().address().to_string();
    let make = move |token| Scheduler {
        node: node.clone(),
        token,
        ticks: 0,
    };
    let scheduler = cluster.singleton("scheduler").start(make).await?;
    Ok((cluster, scheduler))
}

/// Asks until it has ticked, and says where.
async fn ticked(scheduler: &Singleton<Message, Answer>) -> Result<String, Failed> {
    loop {
        match scheduler.ask(Message::Read).await? {
            (node, 1..) => return Ok(node),
            (_, 0) => tokio::time::sleep(TICK).await,
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let (first, from_first) = node(None).await?;
    let (second, from_second) = node(Some(&first)).await?;
    println!("it ticks on {}, the oldest", ticked(&from_second).await?);

    println!("{} leaves: {:?}", first.address(), first.leave().await?);
    drop(from_first);
    println!("it ticks on {}", ticked(&from_second).await?);

    println!("{:?}", second.leave().await?);
    Ok(())
}
