//! Durable entities over a store, without a cluster around them: for tests of what a store does to them.
//! Everything from the mailbox to the store's thread is what a node has.

use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use quorate_core::config::Config;
use quorate_core::effect::PlacementToken;
use quorate_core::ident::{Address, ClusterName, UniqueAddress};
use quorate_core::input::HostReport;
use quorate_core::sharding::chain::AskChain;
use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::{AskRef, EntityId, Payload, ShardId, Slot};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::background::{Background, Sleep};
use crate::codec;
use crate::durable::{DurableStarter, EventSourced};
use crate::entity::EntityContext;
use crate::error::AskError;
use crate::mailbox::{EntityStart, Mailbox, MailboxMessage, Occasion, Reports, Starter, Who};
use crate::shared::{Commands, Shared, SharedParts};
use crate::shutdown::Life;
use crate::store::{Store, Stores};
use crate::sync::{self, Notify};

/// Far beyond what any answer takes.
const LIMIT: Duration = Duration::from_secs(60);

/// A node's store, and what entities need of a node.
#[derive(Debug)]
pub struct DurableHost {
    stores: Stores,
    shared: Arc<Shared>,
    /// Nobody takes what is sent to other entities, but for tests of that.
    #[cfg_attr(not(test), expect(dead_code, reason = "it keeps the queues open"))]
    pub(crate) commands: Commands,
}

/// One incarnation of an entity.
#[derive(Debug)]
pub struct DurableEntity<M, R> {
    me: UniqueAddress,
    mailbox: Arc<Mailbox>,
    reports: Arc<Reports>,
    task: JoinHandle<()>,
    asked: u64,
    types: PhantomData<fn(M) -> R>,
}

impl DurableHost {
    /// Starts the store's thread.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start(store: Box<dyn Store>) -> io::Result<Self> {
        let wake = Arc::new(Notify::default());
        let stores = Stores::start(store, Arc::clone(&wake))?;
        let address = Address::new("127.0.0.1", 2551).map_err(io::Error::other)?;
        let me = UniqueAddress::new(address, 1);
        let name = ClusterName::new("durable").map_err(io::Error::other)?;
        let config = Config::fast(name);
        let parts = SharedParts {
            wake,
            store: stores.access(),
            // Nothing is registered for the end of a node that is not there.
            life: Life::new(&config, drop),
            background: Background::none(),
        };
        let (shared, commands) = Shared::new(me, &config, parts);
        Ok(Self {
            stores,
            shared,
            commands,
        })
    }

    /// Starts an incarnation of an entity. Nobody sees to it that it is the only one: that is what its log is
    /// for.
    ///
    /// # Panics
    /// The host was stopped.
    pub fn entity<E: EventSourced>(
        &self,
        (kind, id): (&str, &[u8]),
        make: impl Fn(EntityContext) -> E + Send + Sync + 'static,
    ) -> DurableEntity<E::Command, E::Reply> {
        let store = self.stores.access().expect("invariant: the host runs");
        let starter = DurableStarter::new(make, Arc::clone(&self.shared), store, sleep());
        self.begin((kind, id), &starter)
    }

    /// The same of one whose log the nodes' stores vote about: one voter, and so many bytes at most. One
    /// entity at a time.
    #[cfg(test)]
    pub(crate) fn entity_over_voters<E: EventSourced>(
        &self,
        (kind, id): (&str, &[u8]),
        make: impl Fn(EntityContext) -> E + Send + Sync + 'static,
    ) -> DurableEntity<E::Command, E::Reply> {
        let store = self.stores.access().expect("invariant: the host runs");
        let starter = DurableStarter::new(make, Arc::clone(&self.shared), store, sleep());
        self.begin((kind, id), &starter.kept_by(crate::journal::Keeper::Quorum))
    }

    /// The same of one that has clocks, which the caller answers for.
    #[cfg(test)]
    pub(crate) fn entity_with_clocks<E: EventSourced>(
        &self,
        (kind, id): (&str, &[u8]),
        make: impl Fn(EntityContext) -> E + Send + Sync + 'static,
    ) -> DurableEntity<E::Command, E::Reply> {
        let store = self.stores.access().expect("invariant: the host runs");
        let shared = Arc::clone(&self.shared);
        let starter = DurableStarter::new(make, shared, store, sleep()).with_clocks(kind);
        self.begin((kind, id), &starter)
    }

    fn begin<M, R>(&self, (kind, id): (&str, &[u8]), starter: &dyn Starter) -> DurableEntity<M, R> {
        let (mailbox, reports) = (Arc::new(Mailbox::default()), Arc::<Reports>::default());
        let task = starter.start(EntityStart {
            who: Who::entity(
                Arc::from(kind),
                (ShardId(0), PlacementToken::default()),
                EntityId::new(id),
            ),
            slot: Slot {
                index: 0,
                generation: 0,
            },
            mailbox: Arc::clone(&mailbox),
            state: None,
            reports: Arc::clone(&reports),
        });
        DurableEntity {
            me: self.shared.me.clone(),
            mailbox,
            reports,
            task: thread::spawn(move || block_on(task)),
            asked: 0,
            types: PhantomData,
        }
    }

    /// Lets go of the store. Completes when it is closed.
    pub fn stop(mut self) {
        self.stores.stop();
        let begin = Instant::now();
        while !self.stores.has_ended() {
            assert!(begin.elapsed() < LIMIT, "the store's thread has ended");
            thread::yield_now();
        }
    }
}

impl<M: Serialize, R: DeserializeOwned> DurableEntity<M, R> {
    /// Puts a command into its mailbox; says which it is.
    ///
    /// # Panics
    /// The mailbox is full, or the entity has ended.
    pub fn send(&mut self, command: &M) -> u64 {
        self.put(command).expect("there is room in the mailbox")
    }

    /// Which command it is, if the mailbox takes it.
    fn put(&mut self, command: &M) -> Option<u64> {
        let payload = codec::encode(command).expect("a command can be encoded");
        self.put_bytes(payload, AskChain::default())
    }

    /// The same of these bytes, asked by these.
    pub(crate) fn put_bytes(&mut self, payload: Payload, chain: AskChain) -> Option<u64> {
        self.asked += 1;
        let ask = AskRef {
            asker: self.me.clone(),
            id: self.asked,
        };
        let occasion = Occasion::of(Some(ask), None, chain);
        let delivery = MailboxMessage { payload, occasion };
        let taken = self.mailbox.push(delivery, &self.reports.budget);
        if let Some(waker) = taken.ok()? {
            waker.wake();
        }
        Some(self.asked)
    }

    /// The next answer, and to which command; the end of the entity is `None`.
    ///
    /// # Panics
    /// Nothing comes.
    pub fn next_answer(&self) -> Option<(u64, Result<R, AskError>)> {
        let begin = Instant::now();
        loop {
            match self.reports.take_one() {
                Some(HostReport::Stopped { .. }) => return None,
                Some(report) => {
                    if let Some(answer) = answer(report) {
                        return Some(answer);
                    }
                }
                None => {
                    assert!(begin.elapsed() < LIMIT, "an answer in time");
                    let waiting = sync::race(self.reports.wake.notified(), sleep()(LIMIT * HASTE));
                    let _ = block_on(waiting);
                }
            }
        }
    }

    /// Whether there is an answer to take.
    #[must_use]
    pub fn has_answered(&self) -> bool {
        self.reports.has_any()
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// Those of an ask.
    ///
    /// # Panics
    /// Those of [`Self::next_answer`].
    pub fn ask(&mut self, command: &M) -> Result<R, AskError> {
        let Some(asked) = self.put(command) else {
            return Err(AskError::Failed(AskFailure::EntityStoppedUnhandled));
        };
        match self.next_answer() {
            Some((answered, answer)) => {
                assert_eq!(answered, asked, "answers come in order");
                answer
            }
            None => Err(AskError::Failed(AskFailure::EntityStopped)),
        }
    }

    /// Ends it as a node that dies does, in the middle of whatever it does; what it has answered before and
    /// nobody has heard.
    pub fn kill(self) -> Vec<(u64, Result<R, AskError>)> {
        self.mailbox.kill();
        // A panic of the entity is its test's business.
        let _ = self.task.join();
        let mut left = Vec::new();
        while let Some(report) = self.reports.take_one() {
            left.extend(answer(report));
        }
        left
    }

    /// Ends it as a shard that moves does: what waits is handled first.
    pub fn drain(self) {
        self.mailbox.drain();
        let _ = self.task.join();
    }
}

/// Which command is answered by it, and how.
fn answer<R: DeserializeOwned>(report: HostReport) -> Option<(u64, Result<R, AskError>)> {
    match report {
        HostReport::Answered { ask, result } => {
            let answer = match result {
                Ok(payload) => codec::decode_answer(&payload),
                Err(failure) => Err(AskError::Failed(failure)),
            };
            Some((ask.id, answer))
        }
        HostReport::Stopped { .. }
        | HostReport::Escalated { .. }
        | HostReport::Failed { .. }
        | HostReport::Passivate { .. }
        | HostReport::Ending { .. }
        | HostReport::Running { .. }
        | HostReport::State { .. }
        | HostReport::Refused { .. } => None,
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to its end on this thread.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return done;
        }
        thread::park();
    }
}

/// So much faster than a clock: what an entity waits for in these tests is how often it tries again, not for
/// how long.
const HASTE: u32 = 10;

/// A timer for tests: a thread for each.
fn sleep() -> Sleep {
    Arc::new(|time| {
        let (wake, over) = sync::oneshot();
        thread::spawn(move || {
            thread::sleep(time / HASTE);
            wake.send(());
        });
        Box::pin(async move {
            over.await;
        })
    })
}
