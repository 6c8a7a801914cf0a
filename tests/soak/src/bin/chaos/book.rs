//! The singleton that writes through its token: every question becomes a record of one log in PostgreSQL,
//! which all nodes reach whatever is cut between them. It opens the log before it does anything else, names
//! what each append follows, repeats what has no outcome, and ends when it is refused. Spec: sharding 10.7.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quorate_driver::store::Store;
use quorate_store_postgres::{Postgres, Tls};
use quorate_tokio::Token;
use quorate_tokio::store::{Outcome, Record, Space, StoreAnswer, StoreError, StoreOrder};
use quorate_tokio::{Entity, EntityContext};

use crate::node::{Question, SINGLETON, Told, micros, print};

/// The log's part of the database: none of Quorate's own.
const SPACE: Space = Space(1_000);
const LOG: &str = "chaos";
/// Before a database that did not answer is asked again.
const PAUSE: Duration = Duration::from_millis(100);
/// Records that are read at once.
const PAGE_BYTES: usize = 1 << 20;

/// The log, as one process reaches it. Blocks.
#[derive(Debug)]
pub(crate) struct Book(Mutex<(Postgres, bool)>);

impl Book {
    pub(crate) fn new(server: &str, name: &str) -> Result<Self, String> {
        let store = Postgres::new(server, name, Tls::off()).map_err(|error| error.to_string())?;
        Ok(Self(Mutex::new((store, false))))
    }

    /// Does it, durably. `None`: nobody knows what became of it.
    fn commit(&self, order: &StoreOrder) -> Option<Outcome> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (store, is_open) = &mut *held;
        if !*is_open {
            store.open().ok()?;
            *is_open = true;
        }
        match store.commit(&[(SPACE, order)]) {
            Ok(outcomes) => outcomes.into_iter().next(),
            Err(_) => {
                *is_open = false;
                None
            }
        }
    }

    /// All of it.
    pub(crate) fn records(&self) -> Result<Vec<Record>, String> {
        let mut all: Vec<Record> = Vec::new();
        loop {
            let from = all.last().map_or(1, |last| last.sequence + 1);
            let read = StoreOrder::ReadLog {
                log: LOG.into(),
                from,
                bytes_max: PAGE_BYTES,
            };
            match self.commit(&read) {
                Some(Ok(StoreAnswer::Records { records, more })) => {
                    all.extend(records);
                    if !more {
                        return Ok(all);
                    }
                }
                other => return Err(format!("the book cannot be read: {other:?}")),
            }
        }
    }
}

/// Asks the database until it says what became of it.
async fn outcome(book: &Arc<Book>, order: StoreOrder) -> Outcome {
    loop {
        let (book, order) = (Arc::clone(book), order.clone());
        let asked = tokio::task::spawn_blocking(move || book.commit(&order)).await;
        match asked {
            Ok(Some(outcome)) => return outcome,
            Ok(None) | Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// The instance.
pub(crate) struct Booked {
    token: Token,
    instance: String,
    book: Arc<Book>,
    /// The last record of the log.
    last: u64,
    is_stale: bool,
}

impl Booked {
    pub(crate) const fn new(token: Token, instance: String, book: Arc<Book>) -> Self {
        Self {
            token,
            instance,
            book,
            last: 0,
            is_stale: false,
        }
    }

    /// It is refused: another one is later.
    async fn give_up(&mut self, context: &EntityContext, error: &StoreError) {
        self.is_stale = true;
        print(&format!("refused {} {error}", self.token));
        if let (StoreError::Fenced { held }, Ok(me)) =
            (error, context.singleton_ref::<Question, Option<Told>>(SINGLETON))
        {
            // The next token is above it. If the node cannot be told, it has ended.
            let _ = me.token_refused(*held).await;
        }
        context.stop();
    }
}

impl Entity for Booked {
    type Message = Question;
    type Reply = Option<Told>;

    async fn on_start(&mut self, context: &EntityContext) {
        let open = StoreOrder::Open {
            log: LOG.into(),
            token: self.token,
            opener: context.node().uid(),
        };
        match outcome(&self.book, open).await {
            Ok(StoreAnswer::Opened(state)) => {
                self.last = state.last;
                print(&format!("opened {} {} {}", self.token, self.last, self.instance));
            }
            Ok(_) => self.is_stale = true,
            Err(error) => self.give_up(context, &error).await,
        }
    }

    async fn handle(&mut self, context: &EntityContext, question: Question) -> Option<Told> {
        if self.is_stale {
            context.stop();
            return None;
        }
        let append = StoreOrder::Append {
            log: LOG.into(),
            token: self.token,
            expected: self.last,
            records: vec![question.name().into_bytes().into()],
        };
        match outcome(&self.book, append).await {
            Ok(StoreAnswer::Appended { last }) => self.last = last,
            Ok(_) => return None,
            Err(error) => {
                self.give_up(context, &error).await;
                return None;
            }
        }
        Some(Told {
            question: question.number,
            entity: SINGLETON.to_owned(),
            instance: self.instance.clone(),
            at: micros(),
            count: self.last,
        })
    }
}
