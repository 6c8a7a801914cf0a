//! A set of names in replicated data, in one or several keys: read as a whole, changed in batches, repeated a
//! few times where replicas do not answer. One question at a time; answers to earlier ones are passed over.
//! Spec: sharding 1.5.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::config::ShardingConfig;
use crate::ddata::crdt::{DataOp, DataValue, Element, OrSet, OrSetOp};
use crate::ddata::protocol::{Answer as DataAnswer, Command as DataCommand, ReadError, WriteError};
use crate::ddata::state::consistency::Consistency;
use crate::ddata::state::key::Key;
use crate::effect::Answer;
use crate::input::{Command, StoreAsk};
use crate::ordered::{OrderedMap, OrderedSet};
use crate::sharding::Cx;
use crate::sharding::kind::RegisteredKind;
use crate::sharding::protocol::StoreUser;
use crate::sharding::state::ids::{EntityId, KindId};
use crate::time::Instant;

/// How often a key is read before that has failed: with the default pause of 2 s half a minute, in which a
/// majority of the members comes back after most faults.
pub(crate) const READ_ATTEMPTS: u32 = 15;

/// How often a key is written before that has failed: all of them together take
/// `sharding.updating_state_timeout`.
const WRITE_ATTEMPTS: u32 = 4;

/// What became of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum QuestionOutcome {
    /// What is there.
    Read(OrderedSet<Element>),
    /// The changes are on a majority.
    Written,
    /// Nobody knows.
    Failed,
    /// What is there nobody here wrote.
    Damaged,
}

/// A part of a question that has no answer yet.
#[derive(Clone, Debug)]
struct OpenPart {
    /// `None`: a read.
    change: Option<OrSetOp>,
    attempts_left: u32,
}

/// Which of so many keys a name is in; what stands in a store does not move, so this never changes.
pub(crate) type PartOf = fn(&Element, usize) -> u8;

/// By the name's hash: about as many in each.
pub(crate) fn by_hash(name: &Element, keys: usize) -> u8 {
    let hash = EntityId::from(Arc::clone(name)).hash64();
    u8::try_from(hash % keys.max(1) as u64).unwrap_or(0)
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct StoredSet {
    kind: KindId,
    config: Arc<ShardingConfig>,
    user: StoreUser,
    keys: Arc<[Key]>,
    part_of: PartOf,
    consistency: Consistency,
    request: u64,
    open: OrderedMap<u8, OpenPart>,
    /// What is in each part that was answered.
    found: OrderedMap<u8, Vec<Element>>,
    /// When the first of them was.
    first_at: Option<Instant>,
}

impl StoredSet {
    /// A set in these keys; at most 255.
    pub(crate) fn new(kind: &RegisteredKind, user: StoreUser, keys: Vec<Key>, part_of: PartOf) -> Self {
        debug_assert!((1..=255).contains(&keys.len()), "parts have one byte");
        Self {
            kind: kind.id,
            config: Arc::clone(&kind.config),
            user,
            keys: keys.into(),
            part_of,
            consistency: Consistency::Majority,
            request: 0,
            open: OrderedMap::new(),
            found: OrderedMap::new(),
            first_at: None,
        }
    }

    /// Asks what is there. `request` was not used before, by whoever has this name.
    pub(crate) fn read(&mut self, cx: &mut Cx<'_>, request: u64) {
        self.consistency = Consistency::Majority;
        self.ask_all(cx, request);
    }

    /// The same of this node alone, which costs nothing: all that it has heard of, and all that it was told
    /// by [`Self::read`].
    pub(crate) fn look(&mut self, cx: &mut Cx<'_>, request: u64) {
        self.consistency = Consistency::Local;
        self.ask_all(cx, request);
    }

    fn ask_all(&mut self, cx: &mut Cx<'_>, request: u64) {
        let parts = 0..u8::try_from(self.keys.len()).unwrap_or(u8::MAX);
        self.begin(cx, request, parts.map(|part| (part, None)).collect());
    }

    /// Adds and removes names; at least one.
    pub(crate) fn write(&mut self, cx: &mut Cx<'_>, request: u64, add: Vec<Element>, remove: Vec<Element>) {
        self.consistency = Consistency::Majority;
        let mut changes: OrderedMap<u8, (Vec<Element>, Vec<Element>)> = OrderedMap::new();
        for name in add {
            changes
                .entry((self.part_of)(&name, self.keys.len()))
                .or_default()
                .0
                .push(name);
        }
        for name in remove {
            changes
                .entry((self.part_of)(&name, self.keys.len()))
                .or_default()
                .1
                .push(name);
        }
        let changes = changes.into_iter();
        let changes = changes.map(|(part, (add, remove))| (part, Some(OrSetOp::Change { add, remove })));
        self.begin(cx, request, changes.collect());
    }

    /// Waits for nothing any more.
    pub(crate) fn give_up(&mut self) {
        self.open.clear();
        self.found.clear();
        self.first_at = None;
    }

    /// A part of the question is answered; `None` while others are open, or if it is not of this question.
    pub(crate) fn on_answer(
        &mut self,
        cx: &mut Cx<'_>,
        ask: StoreAsk,
        answer: Answer,
    ) -> Option<QuestionOutcome> {
        if ask.request != self.request {
            return None;
        }
        let open = self.open.get_mut(&ask.part)?;
        let is_read = open.change.is_none();
        match answer {
            Answer::Ddata(DataAnswer::Value(Ok(data))) => {
                let DataValue::OrSet(set) = &*data else {
                    return self.fail();
                };
                self.found.insert(ask.part, set.iter().cloned().collect());
            }
            Answer::Ddata(DataAnswer::Value(Err(ReadError::NotFound)) | DataAnswer::Written(Ok(()))) => {}
            Answer::Ddata(DataAnswer::Value(Err(ReadError::Deleted)))
            | Answer::Ddata(DataAnswer::Written(Err(
                WriteError::Deleted | WriteError::Refused(_) | WriteError::TooLarge { .. } | WriteError::Full,
            ))) => return self.fail(),
            Answer::Ddata(
                DataAnswer::Value(Err(_))
                | DataAnswer::Written(Err(_))
                | DataAnswer::Subscribed(_)
                | DataAnswer::Keys(_)
                | DataAnswer::Replicas(_),
            )
            | Answer::Done
            | Answer::Refused(_)
            | Answer::Asked(_)
            | Answer::Sharding(_)
            | Answer::Singleton(_)
            | Answer::Kv(_)
            | Answer::Journal(_) => {
                if open.attempts_left == 0 {
                    return self.fail();
                }
                open.attempts_left -= 1;
                self.ask(cx, ask.part);
                return None;
            }
        }
        self.open.remove(&ask.part);
        let first_at = *self.first_at.get_or_insert(cx.mono());
        if !self.open.is_empty() {
            return None;
        }
        if !is_read {
            return Some(QuestionOutcome::Written);
        }
        if self.consistency == Consistency::Majority && first_at != cx.mono() {
            self.look_again(cx);
            return None;
        }
        let found = core::mem::take(&mut self.found).into_values();
        Some(QuestionOutcome::Read(found.flatten().collect()))
    }

    /// Parts were answered one after the other, and this node may have heard of changes of one while others
    /// were open: looks at what it holds of all of them by now, at one time. What it does not hold is as it
    /// was answered.
    fn look_again(&mut self, cx: &mut Cx<'_>) {
        let found = core::mem::take(&mut self.found);
        self.look(cx, self.request);
        self.found = found;
    }

    fn begin(&mut self, cx: &mut Cx<'_>, request: u64, parts: Vec<(u8, Option<OrSetOp>)>) {
        self.give_up();
        self.request = request;
        for (part, change) in parts {
            let attempts = if change.is_some() {
                WRITE_ATTEMPTS
            } else {
                READ_ATTEMPTS
            };
            let attempts_left = attempts - 1;
            self.open.insert(
                part,
                OpenPart {
                    change,
                    attempts_left,
                },
            );
            self.ask(cx, part);
        }
    }

    fn fail(&mut self) -> Option<QuestionOutcome> {
        self.give_up();
        Some(QuestionOutcome::Failed)
    }

    fn ask(&self, cx: &mut Cx<'_>, part: u8) {
        let (Some(key), Some(open)) = (self.keys.get(usize::from(part)), self.open.get(&part)) else {
            return;
        };
        let (key, consistency) = (key.clone(), self.consistency);
        let settings = &self.config;
        let command = match &open.change {
            None => DataCommand::Get {
                key,
                consistency,
                timeout: settings.waiting_for_state_timeout,
            },
            Some(change) => DataCommand::Update {
                key,
                initial: DataValue::OrSet(OrSet::new()),
                op: DataOp::OrSet(change.clone()),
                consistency,
                timeout: settings.updating_state_timeout / WRITE_ATTEMPTS,
            },
        };
        let ask = StoreAsk {
            kind: self.kind,
            user: self.user,
            request: self.request,
            part,
        };
        cx.ask_store(ask, Command::Ddata(command));
    }
}
