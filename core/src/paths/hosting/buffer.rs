//! Messages that wait for a hand-off: at the old host all together, at the new host sender by sender. Bounded
//! for each sender in messages and bytes, so that one who sends much takes room from nobody else. Spec:
//! sharding 5.4.

use alloc::collections::VecDeque;

use crate::buffered::BufferedLoad;
use crate::config::ValidConfig;
use crate::ident::UniqueAddress;
use crate::ordered::OrderedMap;
use crate::paths::protocol::{MoveRef, PathMessage};
use crate::time::Instant;

/// A message, and until when somebody waits for its answer.
#[derive(Clone, Debug)]
pub(super) struct HeldMessage {
    pub(super) from: UniqueAddress,
    pub(super) until: Option<Instant>,
    pub(super) message: PathMessage,
}

/// What waits at the old host, in the order in which it came.
#[derive(Clone, Debug)]
pub(super) enum Waiting {
    Message(HeldMessage),
    Mark(UniqueAddress, MoveRef),
}

/// How much each sender has in a buffer.
#[derive(Clone, Debug, Default)]
pub(super) struct SenderShares {
    shares: OrderedMap<UniqueAddress, BufferedLoad>,
}

impl SenderShares {
    /// Takes a message in, unless its sender has too much here.
    fn admit(&mut self, config: &ValidConfig, from: &UniqueAddress, bytes: usize) -> bool {
        let share = self.shares.entry(from.clone()).or_insert(BufferedLoad::NOTHING);
        let all = share.bytes.saturating_add(bytes);
        let limits = &config.paths;
        if share.messages >= limits.buffer_messages_max || all > limits.buffer_bytes_max {
            return false;
        }
        share.messages += 1;
        share.bytes = all;
        true
    }

    fn release(&mut self, from: &UniqueAddress, bytes: usize) {
        if let Some(share) = self.shares.get_mut(from) {
            share.messages = share.messages.saturating_sub(1);
            share.bytes = share.bytes.saturating_sub(bytes);
            if share.messages == 0 {
                self.shares.remove(from);
            }
        }
    }

    pub(super) fn load(&self) -> BufferedLoad {
        self.shares.values().copied().sum()
    }

    fn each(&self) -> impl Iterator<Item = BufferedLoad> {
        self.shares.values().copied()
    }
}

/// Messages in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(super) struct HeldMessages {
    queue: VecDeque<Waiting>,
    shares: SenderShares,
}

impl HeldMessages {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Keeps a message; gives it back if its sender has too much here.
    pub(super) fn push(&mut self, config: &ValidConfig, held: HeldMessage) -> Option<HeldMessage> {
        if !self.shares.admit(config, &held.from, held.message.payload.len()) {
            return Some(held);
        }
        self.queue.push_back(Waiting::Message(held));
        None
    }

    /// A mark stays behind what its sender sent before. One of each sender.
    pub(super) fn push_mark(&mut self, from: &UniqueAddress, change: MoveRef) {
        let is_it = |waiting: &Waiting| matches!(waiting, Waiting::Mark(node, _) if node == from);
        if !self.queue.iter().any(is_it) {
            self.queue.push_back(Waiting::Mark(from.clone(), change));
        }
    }

    pub(super) fn pop(&mut self) -> Option<Waiting> {
        let first = self.queue.pop_front()?;
        if let Waiting::Message(held) = &first {
            self.shares.release(&held.from, held.message.payload.len());
        }
        Some(first)
    }

    pub(super) fn load(&self) -> BufferedLoad {
        self.shares.load()
    }

    /// What it holds of each sender.
    pub(super) fn of_each(&self) -> impl Iterator<Item = BufferedLoad> {
        self.shares.each()
    }
}
