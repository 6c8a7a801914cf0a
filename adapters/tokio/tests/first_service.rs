//! A first service, written from README.md and `docs/` alone: a shop on three nodes, with baskets
//! (entities), accounts (durable entities), one office that numbers invoices (a singleton) and the customers
//! that it has had (a replicated set). The node that runs the office leaves, and the shop goes on.

use std::collections::BTreeSet;

use quorate_tokio::data::{Read, Set, Write};
use quorate_tokio::durable::{Decision, EventSourced, Versioned};
use quorate_tokio::store::SharedMemoryStore;
use quorate_tokio::{Cluster, Entity, EntityContext, Kind, Region, Security, Singleton, Token};
use serde::{Deserialize, Serialize};

type Failure = Box<dyn std::error::Error>;

#[derive(Serialize, Deserialize)]
enum BasketOrder {
    Add { cents: u64 },
    CheckOut,
}

/// What a customer is about to buy: in memory, gone when the basket is checked out.
struct Basket {
    cents: u64,
}

impl Entity for Basket {
    type Message = BasketOrder;
    type Reply = u64;

    async fn handle(&mut self, context: &EntityContext, order: BasketOrder) -> u64 {
        match order {
            BasketOrder::Add { cents } => self.cents += cents,
            BasketOrder::CheckOut => context.stop(),
        }
        self.cents
    }
}

#[derive(Serialize, Deserialize)]
enum AccountOrder {
    Charge { purchase: u64, cents: u64 }, // purchases of a customer are numbered: each counts once
    Read,
}

#[derive(Serialize, Deserialize)]
enum AccountEvent {
    Charged { purchase: u64, cents: u64 },
}
impl Versioned for AccountEvent {}

#[derive(Default, Serialize, Deserialize)]
struct Owed {
    cents: u64,
    purchase: u64,
}
impl Versioned for Owed {}

/// What a customer owes: survives the node that it is on.
struct Account;

impl EventSourced for Account {
    type Command = AccountOrder;
    type Reply = u64;
    type Event = AccountEvent;
    type State = Owed;

    async fn handle(&mut self, _: &EntityContext, owed: &Owed, order: AccountOrder) -> Decision<Self> {
        match order {
            AccountOrder::Charge { purchase, cents } if purchase > owed.purchase => {
                Decision::persist(AccountEvent::Charged { purchase, cents })
                    .then_reply(|owed: &Owed| owed.cents)
            }
            AccountOrder::Charge { .. } | AccountOrder::Read => Decision::reply(owed.cents),
        }
    }

    fn apply(owed: &mut Owed, event: AccountEvent) {
        let AccountEvent::Charged { purchase, cents } = event;
        owed.cents += cents;
        owed.purchase = purchase;
    }
}

/// Numbers invoices. Its count is in memory, so a number is the token of the instance and the count.
struct Office {
    token: Token,
    count: u64,
}

#[derive(Serialize, Deserialize)]
struct Invoice {
    token: u128,
    count: u64,
    node: String,
}

impl Entity for Office {
    type Message = String;
    type Reply = Invoice;

    async fn handle(&mut self, context: &EntityContext, _customer: String) -> Invoice {
        self.count += 1;
        Invoice {
            token: self.token.to_u128(),
            count: self.count,
            node: context.node().to_string(),
        }
    }
}

/// One node of the shop.
struct Shop {
    cluster: Cluster,
    baskets: Region<BasketOrder, u64>,
    accounts: Region<AccountOrder, u64>,
    office: Singleton<String, Invoice>,
    customers: Set<String>,
}

impl Shop {
    async fn start(store: SharedMemoryStore, first: Option<&Shop>) -> Result<Self, Failure> {
        let cluster = quorate_tokio::builder("shop")
            .bind("127.0.0.1:0")
            .security(Security::insecure_plaintext())
            .fast_profile()
            .store(store)
            .start()
            .await?;
        match first {
            None => cluster.form().await?,
            Some(shop) => cluster.join([shop.cluster.address().address()]).await?,
        }
        cluster.up().await?;
        let baskets = cluster.entities(Kind::new("basket"));
        let accounts = cluster.entities(Kind::new("account"));
        let office = cluster.singleton("office");
        Ok(Self {
            baskets: baskets.start(|_| Basket { cents: 0 }).await?,
            accounts: accounts.start_event_sourced(|_| Account).await?,
            office: office.start(|token| Office { token, count: 0 }).await?,
            customers: cluster.data().set("customers"),
            cluster,
        })
    }

    /// A customer puts two things into the basket and pays.
    async fn sell(&self, customer: &str, purchase: u64) -> Result<Invoice, Failure> {
        let basket = self.baskets.entity(customer);
        basket.ask(BasketOrder::Add { cents: 250 }).await?;
        basket.ask(BasketOrder::Add { cents: 50 }).await?;
        let cents = basket.ask(BasketOrder::CheckOut).await?;
        let charge = AccountOrder::Charge { purchase, cents };
        self.accounts.entity(customer).ask(charge).await?;
        self.customers.add(customer.to_owned(), Write::Majority).await?;
        Ok(self.office.ask(customer.to_owned()).await?)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shop_goes_on_when_the_node_of_its_office_leaves() -> Result<(), Failure> {
    let stores = SharedMemoryStore::new();
    let first = Shop::start(stores.node(), None).await?;
    let second = Shop::start(stores.node(), Some(&first)).await?;
    let third = Shop::start(stores.node(), Some(&first)).await?;
    let names: Vec<String> = (0..12).map(|number| format!("customer {number}")).collect();

    let mut invoices = Vec::new();
    for (name, shop) in names.iter().zip([&first, &second, &third].into_iter().cycle()) {
        invoices.push(shop.sell(name, 1).await?);
    }
    let left = first.cluster.address().to_string();
    let by_it = invoices.iter().all(|invoice| invoice.node == left);
    assert!(by_it, "the oldest member runs the office");

    first.cluster.leave().await?;
    for (name, shop) in names.iter().zip([&second, &third].into_iter().cycle()) {
        invoices.push(shop.sell(name, 2).await?);
    }
    let (before, after) = invoices.split_at(names.len());
    let is_later = |invoice: &Invoice| invoice.node != left && invoice.token > before[0].token;
    assert!(after.iter().all(is_later), "its successor has a higher token");
    let numbers: BTreeSet<_> = invoices
        .iter()
        .map(|invoice| (invoice.token, invoice.count))
        .collect();
    assert_eq!(numbers.len(), invoices.len(), "no number twice");

    for shop in [&second, &third] {
        for name in &names {
            let owed = shop.accounts.entity(name).ask(AccountOrder::Read).await?;
            assert_eq!(owed, 600, "{name}");
        }
        let customers: BTreeSet<_> = shop.customers.read(Read::Majority).await?.into_iter().collect();
        assert_eq!(customers, names.iter().cloned().collect());
        assert_eq!(shop.cluster.members().len(), 2);
    }
    third.cluster.leave().await?;
    second.cluster.leave().await?;
    Ok(())
}
