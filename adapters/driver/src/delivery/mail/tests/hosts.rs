//! Hosts of one slot with a durable mailbox, over a store that a test has wait or fill up.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use async_channel::{Receiver, Sender, unbounded};
use quorate_core::input::HostReport;
use quorate_core::sharding::chain::AskChain;
use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::{AskRef, Payload, Slot};
use quorate_core::store::{Outcome, Space, StoreError, StoreIdentity, StoreOrder};
use quorate_core::token::Token;

use crate::codec;
use crate::delivery::mail::{Mail, MailboxStarter};
use crate::entity::{Entity, EntityContext};
use crate::error::AskError;
use crate::journal::Keeper;
use crate::mailbox::{EntityStart, Mailbox, MailboxMessage, Occasion, Reports, Starter, Who};
use crate::shared::Shared;
use crate::store::{SharedMemoryStore, Store, StoreFault, StoreScope, Stores};
use crate::sync::lock;
use crate::testing::{block_on, idle_node};

/// Far beyond what anything here takes.
pub(super) const LIMIT: Duration = Duration::from_secs(60);
/// Over this one an instance fails.
pub(super) const POISON: u64 = 666;

/// What instances have handled: whose place, number, whether repeated, message.
pub(super) type Notes = Arc<Mutex<Vec<(u64, bool, u64)>>>;
pub(super) type Numbered = Mail<(u64, Vec<u8>)>;

/// Notes each message, and waits for leave to be done with it.
pub(super) struct Noting {
    pub(super) notes: Notes,
    pub(super) leave: Receiver<()>,
}

impl Entity for Noting {
    type Message = Numbered;
    type Reply = ();

    async fn handle(&mut self, context: &EntityContext, mail: Numbered) {
        let (message, _) = mail.message;
        lock(&self.notes).push((mail.number, mail.is_repeated, message));
        if message == POISON {
            return context.fail("it is poison").await;
        }
        let _ = self.leave.recv().await;
    }
}

/// The store of all hosts, whose appends wait or find no room while a test says so.
#[derive(Clone, Debug, Default)]
pub(super) struct Tried {
    pub(super) inner: Arc<Mutex<Option<SharedMemoryStore>>>,
    pub(super) waits: Arc<AtomicBool>,
    pub(super) is_full: Arc<AtomicBool>,
    pub(super) reached: Arc<AtomicBool>,
    /// Commits with appends that succeeded.
    pub(super) appended: Arc<AtomicUsize>,
}

impl Store for Tried {
    fn open(&mut self) -> Result<StoreIdentity, StoreFault> {
        lock(&self.inner)
            .get_or_insert_with(SharedMemoryStore::new)
            .open()
    }

    fn commit(&mut self, orders: &[(Space, &StoreOrder)]) -> Result<Vec<Outcome>, StoreFault> {
        let appends = orders
            .iter()
            .any(|(_, order)| matches!(order, StoreOrder::Append { .. }));
        while appends && self.waits.load(Ordering::SeqCst) {
            self.reached.store(true, Ordering::SeqCst);
            thread::yield_now();
        }
        if appends && self.is_full.load(Ordering::SeqCst) {
            return Ok(orders.iter().map(|_| Err(StoreError::Full)).collect());
        }
        let mut inner = lock(&self.inner);
        let outcomes = inner.get_or_insert_with(SharedMemoryStore::new).commit(orders);
        if appends && outcomes.is_ok() {
            self.appended.fetch_add(1, Ordering::SeqCst);
        }
        outcomes
    }

    fn scope(&self) -> StoreScope {
        StoreScope::Shared
    }
}

/// Hosts of one slot, one after the other, over one store.
pub(super) struct Hosts {
    pub(super) store: Tried,
    pub(super) stores: Stores,
    pub(super) shared: Arc<Shared>,
    pub(super) notes: Notes,
    pub(super) leave: (Sender<()>, Receiver<()>),
}

/// One instance.
pub(super) struct Running {
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) reports: Arc<Reports>,
    pub(super) task: JoinHandle<()>,
    pub(super) asked: u64,
    pub(super) answers: BTreeMap<u64, Result<(), AskError>>,
    /// What was told and not kept, and whether it has said that it runs and has ended.
    pub(super) dead: Vec<AskFailure>,
    pub(super) has_started: bool,
    pub(super) has_failed: bool,
    pub(super) has_stopped: bool,
}

impl Hosts {
    pub(super) fn new() -> Self {
        let store = Tried::default();
        let stores = Stores::start(Box::new(store.clone()), Arc::default()).unwrap();
        let (shared, _) = idle_node(|config| config.journal.log_bytes_max = 1 << 20);
        let notes = Notes::default();
        Self {
            store,
            stores,
            shared,
            notes,
            leave: unbounded(),
        }
    }

    pub(super) fn start(&self) -> Running {
        let (notes, leave) = (Arc::clone(&self.notes), self.leave.1.clone());
        let make = move |_: EntityContext| Noting {
            notes: Arc::clone(&notes),
            leave: leave.clone(),
        };
        self.start_made_by(make)
    }

    pub(super) fn start_made_by<E>(
        &self,
        make: impl Fn(EntityContext) -> E + Send + Sync + 'static,
    ) -> Running
    where
        E: Entity<Message = Numbered, Reply = ()>,
    {
        let starter = MailboxStarter {
            make: Arc::new(make),
            shared: Arc::clone(&self.shared),
            keeper: Keeper::Store(self.stores.access().unwrap()),
        };
        let (mailbox, reports) = (Arc::<Mailbox>::default(), Arc::<Reports>::default());
        let task = starter.start(EntityStart {
            who: Who::path("orders".into(), 0, Token::new(1, 1)),
            slot: Slot {
                index: 0,
                generation: 0,
            },
            mailbox: Arc::clone(&mailbox),
            state: None,
            reports: Arc::clone(&reports),
        });
        Running {
            mailbox,
            reports,
            task: thread::spawn(move || block_on(task)),
            asked: 0,
            answers: BTreeMap::new(),
            dead: Vec::new(),
            has_started: false,
            has_failed: false,
            has_stopped: false,
        }
    }

    /// The instance may be done with so many messages.
    pub(super) fn let_finish(&self, messages: usize) {
        (0..messages).for_each(|_| self.leave.0.try_send(()).unwrap());
    }

    pub(super) fn notes(&self) -> Vec<(u64, bool, u64)> {
        lock(&self.notes).clone()
    }

    /// Waits until instances have begun with so many messages.
    pub(super) fn noted(&self, messages: usize) -> Vec<(u64, bool, u64)> {
        until("they are handled", || self.notes().len() >= messages);
        self.notes()
    }
}

pub(super) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < LIMIT, "{what}");
        thread::yield_now();
    }
}

/// As it travels: for nothing below the path.
pub(super) fn payload(message: u64, filling: usize) -> Payload {
    codec::encode_after(&[0], &(message, vec![7_u8; filling])).unwrap()
}

impl Running {
    pub(super) fn put(&mut self, payload: Payload, is_asked: bool) -> u64 {
        self.asked += 1;
        let asker = quorate_core::ident::Address::new("127.0.0.1", 1).unwrap();
        let ask = AskRef {
            asker: quorate_core::ident::UniqueAddress::new(asker, 7),
            id: self.asked,
        };
        let occasion = Occasion::of(is_asked.then_some(ask), None, AskChain::default());
        let delivery = MailboxMessage { payload, occasion };
        if let Some(waker) = self.mailbox.push(delivery, &self.reports.budget).unwrap() {
            waker.wake();
        }
        self.asked
    }

    pub(super) fn ask(&mut self, message: u64) -> u64 {
        self.put(payload(message, 0), true)
    }

    pub(super) fn hear(&mut self) {
        while let Some(report) = self.reports.take_one() {
            match report {
                HostReport::Answered { ask, result } => {
                    let answer = match result {
                        Ok(payload) => codec::decode_answer(&payload),
                        Err(failure) => Err(AskError::Failed(failure)),
                    };
                    assert_eq!(self.answers.insert(ask.id, answer), None, "one answer each");
                }
                HostReport::Refused { reason, .. } => self.dead.push(reason),
                HostReport::Running { .. } => self.has_started = true,
                HostReport::Failed { .. } => self.has_failed = true,
                HostReport::Stopped { .. } => self.has_stopped = true,
                other => panic!("{other:?}"),
            }
        }
    }

    pub(super) fn answer(&mut self, ask: u64) -> Result<(), AskError> {
        until("it is answered", || {
            self.hear();
            self.answers.contains_key(&ask)
        });
        self.answers[&ask]
    }

    /// It has to stop for a move; what it had said until it had ended.
    pub(super) fn drained(mut self) -> Self {
        self.mailbox.drain();
        self.ended();
        self
    }

    /// Its process dies.
    pub(super) fn killed(mut self) {
        self.mailbox.kill();
        self.ended();
    }

    pub(super) fn ended(&mut self) {
        until("it has ended", || {
            self.hear();
            self.has_stopped
        });
        until("its task is gone", || self.task.is_finished());
    }
}
