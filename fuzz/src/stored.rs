//! A node that begins again on a store which may hold anything: the homes and the remembered ids of two
//! kinds, in logs and in replicated data, as a former life has left them, and then changed on their way back.
//! After each answer the node's invariants hold.

use std::sync::LazyLock;
use std::time::Duration;

use arbitrary::{Arbitrary, Unstructured};
use quorate_core::config::Config;
use quorate_core::ddata::state::key::Pattern;
use quorate_core::ident::{Address, ClusterName, UniqueAddress};
use quorate_core::input::Recipient;
use quorate_core::input::{Command, Input, KindSettings, MembershipCommand, ShardingCommand};
use quorate_core::owner::Requester;
use quorate_core::sharding::fields::StoreMode;
use quorate_core::sharding::ids::KindId;
use quorate_core::sharding::remember::RememberStore;
use quorate_core::store::memory::MemoryMap;
use quorate_core::store::{Bytes, StoreAnswer, StoreError, StoreReport, StoreRequest};

use crate::node::World;

/// Lies of one run; more would only make runs slow.
const LIES_MAX: usize = 32;
/// Answers at one moment before a node counts as spinning.
const ANSWERS_MAX: usize = 10_000;
/// Between two looks at what the node asks of its store, microseconds.
const STEP: u64 = 100_000;
/// So long a life goes on.
const LIFE: Duration = Duration::from_secs(90);

/// The kinds, and how each is kept.
const KINDS: [(&str, StoreMode, RememberStore); 2] = [
    ("logs", StoreMode::Events, RememberStore::Events),
    ("data", StoreMode::DistributedData, RememberStore::Data),
];
const SHARDS: u32 = 4;
/// Entities of each kind.
const ENTITIES: [&str; 6] = ["a", "b", "c/%", "d\0", "e", "f"];

/// What the store does with what it has kept, when it is asked for it.
#[derive(Arbitrary, Clone, Debug)]
pub(crate) enum Lie {
    /// Says it.
    Not,
    /// One byte is another one.
    Wrong(u16, u8),
    /// It ends here.
    Cut(u16),
    /// More follows.
    Longer(Vec<u8>),
    /// It is something else altogether.
    Instead(Vec<u8>),
    /// There is nothing.
    Gone,
    Fails(u8),
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restarted {
    /// Answers with something in them.
    pub read: usize,
    /// Entities that were started without a message.
    pub entities: usize,
}

/// See the module.
pub fn stored(data: &[u8]) {
    if let Ok(lies) = Vec::arbitrary(&mut Unstructured::new(data)) {
        restart(lies);
    }
}

/// The second life, when nobody lies.
#[must_use]
pub fn restarted() -> Restarted {
    restart(Vec::new())
}

fn restart(lies: Vec<Lie>) -> Restarted {
    static KEPT: LazyLock<MemoryMap> = LazyLock::new(|| {
        let mut life = Life::begin(1, MemoryMap::new(), Vec::new());
        life.pass(LIFE);
        for (kind, ..) in KINDS {
            for entity in ENTITIES {
                let (kind, entity) = (KindId::of(kind), entity.into());
                let payload = (*b"work").into();
                life.world.feed(Input::Tell {
                    to: Recipient::Entity(kind, entity),
                    payload,
                });
            }
        }
        life.pass(LIFE);
        life.world.disk
    });
    let mut life = Life::begin(2, KEPT.clone(), lies);
    life.pass(LIFE);
    let entities = life.world.slots.len();
    let read = life.read;
    Restarted { read, entities }
}

/// One life of the node.
struct Life {
    world: World,
    /// The next one last.
    lies: Vec<Lie>,
    read: usize,
}

impl Life {
    fn begin(uid: u64, mut disk: MemoryMap, mut lies: Vec<Lie>) -> Self {
        let mut config = Config::fast(ClusterName::new("fuzz").expect("a legal name"));
        config.journal.voters = 1;
        config.ddata.durable_keys = vec![Pattern::parse("*").expect("a pattern")];
        // So that there are snapshots, and records behind them.
        config.sharding.snapshot_after = 3;
        let address = Address::new("a", 2551).expect("a legal name");
        disk.boot(1);
        let begin = uid * 1_000_000_000;
        let mut world = World::of(config, &UniqueAddress::new(address.clone(), uid), begin);
        world.disk = disk;
        for (name, store_mode, remember) in KINDS {
            world.command(Command::Sharding(ShardingCommand::RegisterKind(Box::new(
                KindSettings {
                    store_mode: Some(store_mode),
                    remember_entities: Some(remember),
                    ..KindSettings::new(name, SHARDS, true)
                },
            ))));
        }
        world.command(Command::Membership(MembershipCommand::Join(address)));
        lies.truncate(LIES_MAX);
        lies.reverse();
        Self { world, lies, read: 0 }
    }

    /// Lets time pass; the store answers at once.
    fn pass(&mut self, time: Duration) {
        for _ in 0..time.as_micros() / u128::from(STEP) {
            for answers in 0.. {
                assert!(answers < ANSWERS_MAX, "the node asks its store for ever");
                if self.world.halted || self.world.stores.is_empty() {
                    break;
                }
                let (owner, request) = self.world.stores.remove(0);
                self.answer(owner, &request);
            }
            self.world.pass(STEP);
        }
    }

    fn answer(&mut self, owner: Requester, request: &StoreRequest) {
        let mut outcome = self.world.disk.obey(owner.space(), &request.order);
        let has_something = match &outcome {
            Ok(StoreAnswer::Value(value)) => value.is_some(),
            Ok(StoreAnswer::Items { items, .. }) => !items.is_empty(),
            Ok(StoreAnswer::Records { records, .. }) => !records.is_empty(),
            Ok(StoreAnswer::Snapshot(snapshot)) => snapshot.is_some(),
            _ => false,
        };
        if has_something {
            self.read += 1;
            let lie = self.lies.pop().unwrap_or(Lie::Not);
            if let Lie::Fails(how) = lie {
                outcome = Err(match how % 3 {
                    0 => StoreError::OutcomeUnknown,
                    1 => StoreError::Unavailable,
                    _ => StoreError::Corrupt,
                });
            } else {
                outcome = outcome.map(|answer| lie.about(answer));
            }
        }
        let id = request.id;
        self.world.feed(Input::Stored(owner, StoreReport { id, outcome }));
    }
}

impl Lie {
    /// The answer as it arrives; of several things the last is lied about.
    fn about(&self, answer: StoreAnswer) -> StoreAnswer {
        match answer {
            StoreAnswer::Value(value) => StoreAnswer::Value(value.and_then(|value| self.changed(&value))),
            StoreAnswer::Items { mut items, more } => {
                if let Some((key, value)) = items.pop() {
                    items.extend(self.changed(&value).map(|value| (key, value)));
                }
                StoreAnswer::Items { items, more }
            }
            StoreAnswer::Records { mut records, more } => {
                if let Some(mut record) = records.pop() {
                    records.extend(self.changed(&record.bytes).map(|bytes| {
                        record.bytes = bytes;
                        record
                    }));
                }
                StoreAnswer::Records { records, more }
            }
            StoreAnswer::Snapshot(snapshot) => StoreAnswer::Snapshot(snapshot.and_then(|mut snapshot| {
                snapshot.state = self.changed(&snapshot.state)?;
                Some(snapshot)
            })),
            other => other,
        }
    }

    fn changed(&self, kept: &Bytes) -> Option<Bytes> {
        let mut bytes = kept.to_vec();
        match self {
            Self::Not | Self::Fails(_) => {}
            Self::Wrong(at, to) => {
                let at = usize::from(*at) % bytes.len().max(1);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = *to;
                }
            }
            Self::Cut(at) => bytes.truncate(usize::from(*at) % bytes.len().max(1)),
            Self::Longer(more) => bytes.extend(more),
            Self::Instead(other) => bytes.clone_from(other),
            Self::Gone => return None,
        }
        Some(Bytes::from(bytes))
    }
}
