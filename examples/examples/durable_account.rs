//! An account that keeps what happened to it in a file, and has its balance when the program is started
//! again. `cargo run --example durable_account -- account.redb`, twice; `-- "host=localhost user=postgres"`
//! keeps it in PostgreSQL.
#![forbid(unsafe_code)]

use quorate_store_postgres::{Postgres, Tls};
use quorate_store_redb::Redb;
use quorate_tokio::durable::{Decision, EventSourced, Versioned};
use quorate_tokio::{ClusterBuilder, EntityContext, Kind, Security};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
enum Command {
    Deposit(Change),
    Withdraw(Change),
    Read,
}

/// Numbered by whoever sends it, so that it may be sent again.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Change {
    number: u64,
    amount: u64,
}

#[derive(Serialize, Deserialize)]
enum Event {
    Deposited(Change),
    Withdrawn(Change),
}
impl Versioned for Event {}

#[derive(Default, Serialize, Deserialize)]
struct Balance {
    amount: u64,
    /// The last command that counted.
    newest: u64,
}
impl Versioned for Balance {}

/// Balance and number of the last command.
type Answer = Result<(u64, u64), String>;

struct Account;

impl EventSourced for Account {
    type Command = Command;
    type Reply = Answer;
    type Event = Event;
    type State = Balance;

    async fn handle(&mut self, _: &EntityContext, balance: &Balance, command: Command) -> Decision<Self> {
        let shown = |balance: &Balance| Ok((balance.amount, balance.newest));
        match command {
            Command::Deposit(change) | Command::Withdraw(change) if change.number <= balance.newest => {
                Decision::reply(shown(balance)) // sent again: it has counted
            }
            Command::Withdraw(change) if change.amount > balance.amount => {
                Decision::reply(Err(format!("{} are more than {}", change.amount, balance.amount)))
            }
            Command::Deposit(change) => Decision::persist(Event::Deposited(change)).then_reply(shown),
            Command::Withdraw(change) => Decision::persist(Event::Withdrawn(change)).then_reply(shown),
            Command::Read => Decision::reply(shown(balance)),
        }
    }

    fn apply(balance: &mut Balance, event: Event) {
        let (Event::Deposited(change) | Event::Withdrawn(change)) = event;
        balance.newest = change.number;
        match event {
            Event::Deposited(_) => balance.amount += change.amount,
            Event::Withdrawn(_) => balance.amount -= change.amount,
        }
    }
}

type Failed = Box<dyn std::error::Error>;

fn with_store<S>(builder: ClusterBuilder<S>, place: &str) -> Result<ClusterBuilder<S>, Failed> {
    if place.contains("host=") {
        return Ok(builder.store(Postgres::new(place, "node-1", Tls::off())?));
    }
    Ok(builder.store(Redb::open(place)?))
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let place = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "account.redb".to_owned());
    let builder = quorate_tokio::builder("bank").bind("127.0.0.1:0").fast_profile();
    let builder = with_store(builder, &place)?.security(Security::insecure_plaintext());
    let cluster = builder.start().await?;
    cluster.form().await?;
    cluster.up().await?;

    // A file is this node's alone: the kind has to say that it lives on one host.
    let kind = Kind::new("account").single_host();
    let account = cluster
        .entities(kind)
        .start_event_sourced(|_| Account)
        .await?
        .entity("ada");
    let (before, newest) = account.ask(Command::Read).await??;
    println!("the balance was {before}");
    let change = |more, amount| Change {
        number: newest + more,
        amount,
    };
    account.ask(Command::Deposit(change(1, 10))).await??;
    account.ask(Command::Deposit(change(1, 10))).await??; // counts once
    let (after, _) = account.ask(Command::Withdraw(change(2, 3))).await??;
    println!("the balance is {after}");

    println!("{:?}", cluster.leave().await?);
    Ok(())
}
