//! A register whose last write wins: the greater stamp, then the lower node, then the greater bytes, so that
//! every replica picks the same one. Never reads a clock: the stamp comes from the clock handed in and only
//! grows. Spec: sharding 1.13, reliability I-67, I-68.

use core::cmp::Ordering;

use super::minting::{is_nobody, nobody};
use super::op::{Element, LwwRegisterOp, OpError};
use super::replicated::ReplicatedData;
use super::{Applied, MergeError, Minting};
use crate::ident::UniqueAddress;
use crate::ordered::OrderedSet;

/// One write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LwwWrite {
    /// Who wrote.
    pub node: UniqueAddress,
    /// When, in milliseconds since 1970 and growing with every write that has seen this one; negative and
    /// falling where the first write wins.
    pub stamp: i64,
    /// What.
    pub value: Element,
}

impl LwwWrite {
    /// Who wrote; `None` once that node has been removed for some time.
    #[must_use]
    pub fn writer(&self) -> Option<&UniqueAddress> {
        Some(&self.node).filter(|node| !is_nobody(node))
    }

    fn wins_over(&self, other: &Self) -> bool {
        let order = self
            .stamp
            .cmp(&other.stamp)
            .then_with(|| other.node.cmp(&self.node))
            .then_with(|| self.value.cmp(&other.value));
        order == Ordering::Greater
    }
}

/// A register, empty before the first write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LwwRegister(Option<LwwWrite>);

impl LwwRegister {
    /// A register nobody has written.
    #[must_use]
    pub const fn new() -> Self {
        Self(None)
    }

    pub(crate) const fn from_written(written: Option<LwwWrite>) -> Self {
        Self(written)
    }

    /// The write that won, if there is one.
    #[must_use]
    pub const fn get(&self) -> Option<&LwwWrite> {
        self.0.as_ref()
    }

    fn join(&mut self, other: &Self) -> bool {
        let wins = match (&self.0, &other.0) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(mine), Some(theirs)) => theirs.wins_over(mine),
        };
        if wins {
            self.0.clone_from(&other.0);
        }
        wins
    }
}

impl ReplicatedData for LwwRegister {
    type Op = LwwRegisterOp;
    type Delta = Self;

    /// A write that loses leaves the register as it was.
    fn apply(&mut self, op: &LwwRegisterOp, minting: &mut Minting) -> Result<Applied<Self>, OpError> {
        let LwwRegisterOp::Set { value, clock } = op;
        let previous = self.0.as_ref().map_or(0, |held| held.stamp);
        let new = Self(Some(LwwWrite {
            node: minting.me().clone(),
            stamp: clock.stamp(minting.now_ms(), previous),
            value: value.clone(),
        }));
        Ok(Applied::of(self.join(&new).then_some(new)))
    }

    fn merge(&mut self, other: &Self) -> Result<bool, MergeError> {
        Ok(self.join(other))
    }

    fn merge_delta(&mut self, delta: &Self) -> Result<bool, MergeError> {
        self.merge(delta)
    }

    /// The write stays and becomes nobody's.
    fn settle(&mut self, removed: &UniqueAddress) -> Result<(), OpError> {
        if let Some(held) = self.0.as_mut().filter(|held| held.node == *removed) {
            held.node = nobody();
        }
        Ok(())
    }

    fn nodes(&self, all: &mut OrderedSet<UniqueAddress>) {
        all.extend(self.get().map(|held| held.node.clone()));
    }

    fn mentions(&self, node: &UniqueAddress) -> bool {
        self.get().is_some_and(|held| held.node == *node)
    }

    fn newest_stamp(&self) -> Option<i64> {
        self.get().map(|held| held.stamp)
    }
}
