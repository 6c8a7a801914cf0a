//! A map whose last write per key wins. A write supersedes every write it has seen; of those that did not see each other the
//! greater stamp is read. Never reads a clock. Spec: sharding 1.13, 10.21, reliability I-67.

use core::cmp::Ordering;

use super::context::Context;
use super::dotted::{Change, Dotted, DottedDelta, Live, Payload};
use super::op::{Element, LwwMapOp, OpError, check_element};
use super::{MergeError, Minting};
use crate::ident::UniqueAddress;

/// A value with its stamp; its writer is the dot's node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamped {
    pub(crate) stamp: i64,
    pub(crate) value: Element,
}

impl Payload for Stamped {
    fn join(&mut self, other: &Self) -> bool {
        let wins = *other > *self;
        if wins {
            self.clone_from(other);
        }
        wins
    }
}

/// A map of registers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LwwMap(pub(crate) Dotted<Element, Stamped>);

/// What operations changed in a [`LwwMap`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LwwMapDelta(pub(crate) DottedDelta<Element, Stamped>);

/// The greater stamp, then the lower node, then the greater bytes.
fn winner<'a>(context: &Context, live: &'a [Live<Stamped>]) -> Option<&'a Stamped> {
    let order = |left: &&Live<Stamped>, right: &&Live<Stamped>| -> Ordering {
        let stamps = left.payload.stamp.cmp(&right.payload.stamp);
        stamps
            .then_with(|| context.node(right.dot.node).cmp(context.node(left.dot.node)))
            .then_with(|| left.payload.value.cmp(&right.payload.value))
    };
    live.iter().max_by(order).map(|live| &live.payload)
}

impl LwwMap {
    /// The empty map.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<&Element> {
        let live = self.0.entries.get(key)?;
        winner(&self.0.context, live.as_slice()).map(|won| &won.value)
    }

    /// Keys and values in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&Element, &Element)> {
        self.0
            .entries
            .iter()
            .filter_map(|(key, live)| winner(&self.0.context, live.as_slice()).map(|won| (key, &won.value)))
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.entries.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.entries.is_empty()
    }

    pub(super) fn apply(
        &mut self,
        op: &LwwMapOp,
        minting: &mut Minting,
    ) -> Result<Option<LwwMapDelta>, OpError> {
        let delta = match op {
            LwwMapOp::Put { key, value, clock } => {
                check_element(key)?;
                let mut change = Change::adding(&mut self.0, minting)?;
                let previous = winner(change.context(), change.live(key)).map_or(0, |won| won.stamp);
                let new = Stamped {
                    stamp: clock.stamp(minting.now_ms(), previous),
                    value: value.clone(),
                };
                // Where the first write wins, a later one loses against what it has seen.
                if change.live(key).is_empty() || new.stamp > previous {
                    change.replace(key, new, minting);
                }
                change.finish()
            }
            LwwMapOp::Remove(key) => {
                let mut change = Change::of(&mut self.0);
                change.remove(key, |_, _| true);
                change.finish()
            }
            LwwMapOp::Clear if self.is_empty() => None,
            LwwMapOp::Clear => {
                let mut change = Change::of(&mut self.0);
                change.clear();
                change.finish()
            }
        };
        Ok(delta.map(LwwMapDelta))
    }

    pub(super) fn merge(&mut self, other: &Self) -> Result<bool, MergeError> {
        self.0.merge(&other.0)
    }

    pub(super) fn merge_delta(&mut self, delta: &LwwMapDelta) -> Result<bool, MergeError> {
        self.0.merge_delta(&delta.0)
    }

    /// The minting node takes over what is read of keys that the removed node wrote, stamp and all.
    pub(super) fn prune(&mut self, removed: &UniqueAddress, minting: &mut Minting) -> Result<u64, OpError> {
        self.0.prune(
            removed,
            minting,
            |_| true,
            |context, live, _| {
                let wrote = live.iter().any(|live| context.node(live.dot.node) == removed);
                Ok(winner(context, live).filter(|_| wrote).cloned())
            },
        )
    }

    /// The greatest stamp of any value.
    pub(super) fn newest_stamp(&self) -> Option<i64> {
        newest_stamp(&self.0)
    }
}

impl LwwMapDelta {
    /// The greatest stamp of any value.
    pub(super) fn newest_stamp(&self) -> Option<i64> {
        newest_stamp(&self.0.part)
    }
}

fn newest_stamp(map: &Dotted<Element, Stamped>) -> Option<i64> {
    map.entries
        .values()
        .flat_map(super::few::Few::iter)
        .map(|live| live.payload.stamp)
        .max()
}
