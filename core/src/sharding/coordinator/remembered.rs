//! Which shards have entities that are remembered: those begin without a message, and a new one is stored
//! before it has a home. The store is asked for as long as it takes; what regions host is known without it.
//! Spec: sharding 1.1 (`unallocated`), 1.5.

use alloc::vec::Vec;

use super::Coordinator;
use crate::ddata::crdt::Element;
use crate::effect::Answer;
use crate::event::ShardingEvent;
use crate::input::StoreAsk;
use crate::journal::state::TokenClaim;
use crate::ordered::OrderedSet;
use crate::sharding::Cx;
use crate::sharding::kind::RegisteredKind;
use crate::sharding::protocol::StoreUser;
use crate::sharding::remembered::{
    NameStore, QuestionOutcome, StoredLog, StoredSet, coordinator_keys, coordinator_part, shards_log,
};
use crate::sharding::state::ids::ShardId;
use crate::sharding::state::remember::RememberStore;
use crate::timer::CoordinatorTimer;

/// The shards of a kind that remembers its entities.
#[derive(Clone, Debug)]
pub(super) struct RememberedShards {
    store: NameStore,
    /// `None` until the store has said so.
    known: Option<OrderedSet<ShardId>>,
    /// Being written.
    adding: OrderedSet<ShardId>,
    /// To be written next.
    waiting: OrderedSet<ShardId>,
    /// It was said that what the store has is damaged.
    is_damaged: bool,
    /// Counts questions to the store, over all tenures of this node: an answer to an earlier one is passed
    /// over.
    requests: u64,
}

impl RememberedShards {
    /// Those of a kind, if it remembers any.
    pub(super) fn of(kind: &RegisteredKind) -> Option<Self> {
        let (user, name) = (StoreUser::Coordinator, &kind.settings.name);
        let store = match kind.settings.remember_entities? {
            RememberStore::Data => {
                let keys = coordinator_keys(name)?;
                NameStore::Data(StoredSet::new(kind, user, keys, part_of))
            }
            // Shards only come, whoever says so: of two that coordinate the later one has the log, and the
            // other tries again.
            RememberStore::Events => {
                NameStore::Log(StoredLog::new(kind, user, shards_log(name), TokenClaim::Term))
            }
        };
        Some(Self {
            store,
            is_damaged: false,
            known: None,
            adding: OrderedSet::new(),
            waiting: OrderedSet::new(),
            requests: 0,
        })
    }

    /// This node coordinates no more: what it knows may change.
    pub(super) fn forget(&mut self, cx: &mut Cx<'_>) {
        self.store.give_up(cx);
        self.is_damaged = false;
        self.known = None;
        self.adding.clear();
        self.waiting.clear();
    }

    fn read(&mut self, cx: &mut Cx<'_>) {
        self.requests += 1;
        self.store.read(cx, self.requests);
    }

    fn write_next(&mut self, cx: &mut Cx<'_>) {
        if self.adding.is_empty() && !self.waiting.is_empty() {
            self.adding = core::mem::take(&mut self.waiting);
            self.requests += 1;
            let names = self.adding.iter().map(|shard| name_of(*shard)).collect();
            self.store.write(cx, self.requests, names, Vec::new());
        }
    }
}

impl Coordinator {
    /// A tenure begins: asks which shards there are.
    pub(super) fn recall_shards(&mut self, cx: &mut Cx<'_>) {
        if let Some(remembered) = &mut self.remembered {
            remembered.read(cx);
        }
    }

    /// Whether a shard may get a home; if not, it is asked for again once the store has it.
    pub(super) fn is_remembered(&mut self, cx: &mut Cx<'_>, shard: ShardId) -> bool {
        let Some(remembered) = &mut self.remembered else {
            return true;
        };
        match &remembered.known {
            Some(known) if known.contains(&shard) => true,
            Some(_) => {
                if !remembered.adding.contains(&shard) {
                    remembered.waiting.insert(shard);
                    remembered.write_next(cx);
                }
                false
            }
            // Who waits for it is remembered by `requesters`, and all shards are looked at then.
            None => false,
        }
    }

    /// Shards that have entities to be started, and no home.
    pub(super) fn forgotten_shards(&self) -> Vec<ShardId> {
        let known = self
            .remembered
            .iter()
            .filter_map(|it| it.known.as_ref())
            .flatten();
        let has_home =
            |shard: &&ShardId| self.places.placement(**shard).is_some() || self.hand_offs.contains_key(shard);
        known.filter(|shard| !has_home(shard)).copied().collect()
    }

    /// The store answers.
    pub(crate) fn on_store_answer(&mut self, cx: &mut Cx<'_>, ask: StoreAsk, answer: Answer) {
        let kind = &self.kind;
        let Some(remembered) = &mut self.remembered else {
            return;
        };
        match remembered.store.on_answer(cx, ask, answer) {
            None => return,
            Some(done @ (QuestionOutcome::Failed | QuestionOutcome::Damaged)) => {
                if done == QuestionOutcome::Damaged && !core::mem::replace(&mut remembered.is_damaged, true) {
                    let event = ShardingEvent::RememberedDamaged { shard: None };
                    cx.notify_sharding(kind.id, event);
                }
                let again = core::mem::take(&mut remembered.adding);
                remembered.waiting.extend(again);
                return self.wake(cx, CoordinatorTimer::Remembered, kind.config.retry_interval);
            }
            Some(QuestionOutcome::Read(names)) => {
                let shards = names.iter().filter_map(shard_of).filter(|shard| kind.has(*shard));
                remembered.known = Some(shards.collect());
            }
            Some(QuestionOutcome::Written) => {
                let added = core::mem::take(&mut remembered.adding);
                remembered.known.get_or_insert_default().extend(added);
                remembered.write_next(cx);
            }
        }
        if self.is_active() {
            self.allocate_requested(cx);
        }
    }

    /// The store is asked again.
    pub(super) fn on_remembered_timer(&mut self, cx: &mut Cx<'_>) {
        if self.term().is_none() {
            return;
        }
        if let Some(remembered) = &mut self.remembered {
            match remembered.known {
                None => remembered.read(cx),
                Some(_) => remembered.write_next(cx),
            }
        }
    }
}

/// A shard's name in the store: on disks, so it never changes.
fn name_of(shard: ShardId) -> Element {
    Element::from(shard.0.to_le_bytes())
}

fn part_of(name: &Element, _: usize) -> u8 {
    shard_of(name).map_or(0, coordinator_part)
}

fn shard_of(name: &Element) -> Option<ShardId> {
    let bytes = <[u8; 4]>::try_from(&**name).ok()?;
    Some(ShardId(u32::from_le_bytes(bytes)))
}
