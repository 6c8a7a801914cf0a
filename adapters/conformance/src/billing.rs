//! A singleton that writes down where it begins and ends, for the tests of what ends nodes and processes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quorate_core::ident::UniqueAddress;
use quorate_core::token::Token;
use quorate_driver::spi::Adapter;
use quorate_driver::{AskError, Cluster, Entity, EntityContext, Singleton};

use super::support::{LOOK_AGAIN, eventually, sleep, within};

/// What happened to instances, in its order, on all nodes of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceHappened {
    /// An instance began on this node, with this token.
    Started(UniqueAddress, Token),
    /// It was let handle what it had.
    Stopped(Token),
    /// Its code cannot run any more.
    Ended(Token),
}

/// What happened to the instances of one test, written down by themselves.
#[derive(Clone, Debug, Default)]
pub struct InstanceJournal(Arc<Mutex<Vec<InstanceHappened>>>);

impl InstanceJournal {
    fn note(&self, happened: InstanceHappened) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.push(happened);
    }

    /// All of it, in its order.
    pub fn entries(&self) -> Vec<InstanceHappened> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where instances began, with which tokens. Each ended before the next began, and had a lower token.
    pub fn instances(&self) -> Vec<(UniqueAddress, Token)> {
        let mut instances: Vec<(UniqueAddress, Token)> = Vec::new();
        let mut runs = None;
        for happened in self.entries() {
            match happened {
                InstanceHappened::Started(node, token) => {
                    assert_eq!(runs, None, "two at a time: {:?}", self.entries());
                    assert!(
                        instances.last().is_none_or(|(_, last)| *last < token),
                        "tokens grow: {:?}",
                        self.entries()
                    );
                    runs = Some(token);
                    instances.push((node, token));
                }
                InstanceHappened::Stopped(_) => {}
                InstanceHappened::Ended(token) => assert_eq!(runs.take(), Some(token)),
            }
        }
        instances
    }
}

/// What it is told or asked.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub enum BillingOrder {
    /// Count it.
    Count,
    /// Say nothing for ever.
    Wait,
    /// Fail.
    Panic,
    /// Ask yourself.
    AskYourself,
    /// Bytes that nobody looks at.
    Carry(Vec<u8>),
}

/// Where the instance is, its token, and how much it has counted; or why it could not ask itself.
pub type Receipt = Result<(String, u64, u64), bool>;

/// The singleton, as a node reaches it.
pub type Billing = Singleton<BillingOrder, Receipt>;

/// The instance: it counts, and writes down when it began, was let go and ended.
#[derive(Debug)]
pub struct BillingCounter {
    token: Token,
    journal: InstanceJournal,
    counted: u64,
}

impl Entity for BillingCounter {
    type Message = BillingOrder;
    type Reply = Receipt;

    async fn on_start(&mut self, context: &EntityContext) {
        assert_eq!((context.kind(), context.token()), ("billing", self.token));
        let node = context.node().clone();
        self.journal.note(InstanceHappened::Started(node, self.token));
    }

    async fn handle(&mut self, context: &EntityContext, order: BillingOrder) -> Receipt {
        match order {
            BillingOrder::Count | BillingOrder::Carry(_) => self.counted += 1,
            BillingOrder::Wait => std::future::pending().await,
            BillingOrder::Panic => panic!("as it was told to"),
            BillingOrder::AskYourself => {
                let billing = context.singleton_ref::<BillingOrder, Receipt>("billing");
                let billing = billing.expect("it is registered where it runs");
                let answer = billing.ask(&BillingOrder::Count).await;
                return Err(answer == Err(AskError::OwnEntity));
            }
        }
        Ok((context.node().to_string(), self.token.term, self.counted))
    }

    async fn on_stop(&mut self, _: &EntityContext) {
        self.journal.note(InstanceHappened::Stopped(self.token));
    }
}

impl Drop for BillingCounter {
    fn drop(&mut self) {
        self.journal.note(InstanceHappened::Ended(self.token));
    }
}

/// Makes instances that write into this journal.
pub fn make(journal: &InstanceJournal) -> impl Fn(Token) -> BillingCounter + Send + Sync + use<> {
    let journal = journal.clone();
    move |token| BillingCounter {
        token,
        journal: journal.clone(),
        counted: 0,
    }
}

/// Starts the singleton on a node.
pub async fn billing(node: &Cluster, journal: &InstanceJournal) -> Billing {
    let started = node.singleton("billing").start(make(journal)).await;
    started.expect("it is started")
}

/// Where it counts now. Asks again while it is nowhere.
pub async fn count<A: Adapter>(billing: &Billing) -> (String, u64, u64) {
    within::<A, _>("an answer", async {
        loop {
            match billing
                .ask(&BillingOrder::Count)
                .timeout(Duration::from_secs(2))
                .await
            {
                Ok(receipt) => return receipt.expect("it counted"),
                Err(AskError::Failed(_)) => sleep::<A>(LOOK_AGAIN).await,
                Err(error) => panic!("{error}"),
            }
        }
    })
    .await
}

/// Waits until the instance runs on the node of this handle.
pub async fn is_here<A: Adapter>(billing: &Billing) {
    eventually::<A>("the instance runs on this node", async || {
        billing.is_running_here().await.expect("the node runs")
    })
    .await;
}
