//! The singleton: numbers invoices. It writes its token into the book before it reads anything, and believes
//! nothing that it has not written or read under it. One that the book refuses is stale, and stops.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_channel::Sender;
use quorate_driver::Token;
use quorate_driver::{Entity, EntityContext};

use super::book::{Reply, Request};
use crate::program::say;

/// The way to the book, which another process holds: a line there, a line back.
#[derive(Debug, Default)]
pub(super) struct Desk {
    last: AtomicU64,
    waiting: Mutex<BTreeMap<u64, Sender<Reply>>>,
}

impl Desk {
    /// Asks the book, and waits for as long as it takes: what became of an append must be known before the
    /// next.
    async fn ask(&self, request: &Request) -> Reply {
        let id = self.last.fetch_add(1, Ordering::Relaxed);
        let (sender, reply) = async_channel::bounded(1);
        self.lock().insert(id, sender);
        say(format_args!("book {id} {request}"));
        reply.recv().await.unwrap_or(Reply::Failed)
    }

    /// The book has said something: `id reply`.
    pub(super) fn hear(&self, line: &str) {
        let heard = line
            .split_once(' ')
            .and_then(|(id, reply)| Some((id.parse().ok()?, reply.parse().ok()?)));
        let Some((id, reply)) = heard else {
            return;
        };
        let waiting = self.lock().remove(&id);
        if let Some(waiting) = waiting {
            // Nobody waits if its instance was killed meanwhile.
            let _ = waiting.try_send(reply);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Sender<Reply>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a client hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) enum Receipt {
    /// The order has this number, now and for ever.
    Number(u64),
    /// This instance is stale: another one knows.
    Stale,
}

/// The instance.
pub(super) struct Billing {
    token: Token,
    desk: Arc<Desk>,
    /// The last number in the book.
    last: u64,
    /// Every order in the book, so that one that is sent twice is numbered once.
    numbers: BTreeMap<String, u64>,
    is_stale: bool,
}

impl Billing {
    pub(super) const fn new(token: Token, desk: Arc<Desk>) -> Self {
        Self {
            token,
            desk,
            last: 0,
            numbers: BTreeMap::new(),
            is_stale: false,
        }
    }

    /// Makes the book its own, then reads it. `None` if it is somebody else's.
    async fn open(&mut self, opener: u64) -> Option<()> {
        let token = self.token;
        let Reply::Opened { last } = self.desk.ask(&Request::Open { token, opener }).await else {
            return None;
        };
        self.last = last;
        let mut from = 1;
        loop {
            let Reply::Invoices { orders, more } = self.desk.ask(&Request::Read { from }).await else {
                return None;
            };
            from = orders.last().map_or(from, |(number, _)| number + 1);
            self.numbers
                .extend(orders.into_iter().map(|(number, order)| (order, number)));
            if !more {
                return Some(());
            }
        }
    }

    async fn number(&mut self, order: String) -> Option<u64> {
        if let Some(number) = self.numbers.get(&order) {
            return Some(*number);
        }
        let append = Request::Append {
            token: self.token,
            expected: self.last,
            order: order.clone(),
        };
        let Reply::Appended { number } = self.desk.ask(&append).await else {
            return None;
        };
        self.last = number;
        self.numbers.insert(order, number);
        Some(number)
    }
}

impl Entity for Billing {
    type Message = String;
    type Reply = Receipt;

    async fn on_start(&mut self, context: &EntityContext) {
        self.is_stale = self.open(context.node().uid()).await.is_none();
    }

    async fn handle(&mut self, context: &EntityContext, order: String) -> Receipt {
        let number = if self.is_stale {
            None
        } else {
            self.number(order).await
        };
        match number {
            Some(number) => Receipt::Number(number),
            None => {
                self.is_stale = true;
                context.stop();
                Receipt::Stale
            }
        }
    }
}
