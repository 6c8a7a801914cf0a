//! Entries by key, each alive as long as one of its dots is, and what was seen: what sets with removal and all maps are made
//! of. A dot survives a join if both sides have it, or one has it and the other has not seen it. Never knows what a key
//! or a payload means. Spec: sharding 10.21 (Almeida, Shoker, Baquero 2018).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt::Debug;

use super::context::{CLOUD_MAX, Context, Dot, NODES_MAX, Range};
use super::few::Few;
use super::{MergeError, Minting, OpError};
use crate::ident::UniqueAddress;

/// What hangs on a dot. One dot has one payload; only a forger sends two, which are then joined so that the order in which
/// they come does not matter.
pub(crate) trait Payload: Clone + Debug + PartialEq {
    /// Joins what two replicas hold under the same dot; whether anything changed.
    fn join(&mut self, other: &Self) -> bool;
}

impl Payload for () {
    fn join(&mut self, (): &Self) -> bool {
        false
    }
}

/// A dot and what hangs on it.
#[derive(Clone, Debug)]
pub(crate) struct Live<P> {
    pub(crate) dot: Dot,
    pub(crate) payload: P,
}

/// Entries by key with a context that covers every dot in them. An entry without dots is gone; in a delta it stands for a
/// key whose dots were removed.
#[derive(Clone, Debug)]
pub(crate) struct Dotted<K, P> {
    pub(crate) context: Context,
    pub(crate) entries: BTreeMap<K, Few<Live<P>>>,
}

impl<K, P> Default for Dotted<K, P> {
    fn default() -> Self {
        Self {
            context: Context::default(),
            entries: BTreeMap::new(),
        }
    }
}

/// What an operation changed: the entries it touched, and in the context what it added and what it superseded.
#[derive(Clone, Debug)]
pub(crate) struct DottedDelta<K, P> {
    pub(crate) part: Dotted<K, P>,
    /// Whether the context speaks about all keys (a clear) or only about those listed, which spares the others a visit.
    pub(crate) whole: bool,
}

impl<K: Ord + Clone, P: Payload> Dotted<K, P> {
    pub(crate) fn live(&self, key: &K) -> &[Live<P>] {
        self.entries.get(key).map_or(&[], Few::as_slice)
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &UniqueAddress> {
        self.context.sorted().map(|(_, seen)| &seen.node)
    }

    /// Joins a whole state; whether anything changed.
    pub(super) fn merge(&mut self, other: &Self) -> Result<bool, MergeError> {
        self.check_nodes(other)?;
        Ok(self.absorb(other, true, false))
    }

    fn check_nodes(&self, other: &Self) -> Result<(), MergeError> {
        if self.context.len() + other.context.len() > NODES_MAX
            && self.context.len_with(&other.context) > NODES_MAX
        {
            return Err(MergeError::TooManyNodes);
        }
        Ok(())
    }

    /// Joins a delta; whether anything changed.
    pub(super) fn merge_delta(&mut self, delta: &DottedDelta<K, P>) -> Result<bool, MergeError> {
        self.check_nodes(&delta.part)?;
        if self.context.cloud() + delta.part.context.cloud() + delta.part.context.len() > CLOUD_MAX {
            let mut after = self.context.clone();
            after.merge(&delta.part.context);
            if after.cloud() > CLOUD_MAX.max(self.context.cloud()) {
                return Err(MergeError::CloudFull);
            }
        }
        Ok(self.absorb(&delta.part, delta.whole, false))
    }

    /// Joins `other`. Its context judges all keys, or only those that `other` lists. `keep_empty` keeps keys without dots.
    fn absorb(&mut self, other: &Self, whole: bool, keep_empty: bool) -> bool {
        let to = self.context.translate(&other.context);
        let Self { context, entries } = self;
        let mut changed = false;
        let join = |held: &mut Few<Live<P>>, theirs: Option<&Few<Live<P>>>| {
            let theirs = theirs.map_or(&[][..], Few::as_slice);
            let mut changed = held.retain(|live| match to.theirs(live.dot) {
                Some(dot) => theirs.iter().any(|their| their.dot == dot) || !other.context.covers(dot),
                None => true,
            });
            for their in theirs {
                let dot = to.mine(their.dot);
                if let Some(live) = held.as_mut_slice().iter_mut().find(|live| live.dot == dot) {
                    changed |= live.payload.join(&their.payload);
                } else if !context.covers(dot) {
                    held.push(Live {
                        dot,
                        payload: their.payload.clone(),
                    });
                    changed = true;
                }
            }
            changed
        };
        if whole {
            let mut theirs = other.entries.iter().peekable();
            entries.retain(|key, held| {
                while theirs.next_if(|(their, _)| *their < key).is_some() {}
                let their = theirs.next_if(|(their, _)| *their == key);
                changed |= join(held, their.map(|(_, live)| live));
                keep_empty || !held.is_empty()
            });
        }
        for (key, theirs) in &other.entries {
            match entries.get_mut(key) {
                Some(_) if whole => {}
                Some(held) => {
                    changed |= join(held, Some(theirs));
                    if held.is_empty() && !keep_empty {
                        entries.remove(key);
                    }
                }
                None => {
                    let mut held = Few::none();
                    changed |= join(&mut held, Some(theirs));
                    if keep_empty || !held.is_empty() {
                        entries.insert(key.clone(), held);
                    }
                }
            }
        }
        self.context.merge(&other.context) || changed
    }

    /// Forgets what is known of a node. Its dots in entries, up to `folded` or all, must be gone before or go with it.
    pub(super) fn clean(&mut self, removed: &UniqueAddress, folded: Option<u64>) -> bool {
        let Some(index) = self.context.index(removed) else {
            return false;
        };
        let mut changed = false;
        self.entries.retain(|_, held| {
            changed |= held.retain(|live| {
                live.dot.node != index || folded.is_some_and(|folded| live.dot.version > folded)
            });
            !held.is_empty()
        });
        // What came after the pruning stays until it is pruned as well.
        if folded.is_some_and(|folded| self.context.highest(removed) > folded) {
            return changed;
        }
        self.forget(removed);
        true
    }

    /// Takes a node out of the table; no entry may have a dot of it.
    pub(super) fn forget(&mut self, removed: &UniqueAddress) {
        if let Some(shift) = self.context.forget(removed) {
            for live in self.entries.values_mut().flat_map(Few::as_mut_slice) {
                shift.shift(&mut live.dot.node);
            }
        }
    }

    /// Gives every entry for which `fold` finds a payload one new dot of the minting node in the place of those of the nodes
    /// that it `supersedes`, then forgets `removed`. Says the highest version of the removed node.
    pub(super) fn prune(
        &mut self,
        removed: &UniqueAddress,
        minting: &mut Minting,
        supersedes: impl Fn(&UniqueAddress) -> bool,
        mut fold: impl FnMut(&Context, &[Live<P>], &mut Minting) -> Result<Option<P>, OpError>,
    ) -> Result<u64, OpError> {
        minting.check(self.context.highest(minting.me()))?;
        let folded = self.context.highest(removed);
        let Self { context, entries } = self;
        for held in entries.values_mut() {
            let Some(payload) = fold(context, held.as_slice(), minting)? else {
                continue;
            };
            held.retain(|live| !supersedes(context.node(live.dot.node)));
            let version = minting.next();
            let (dot, _) = context.mint(minting.me(), version);
            held.push(Live { dot, payload });
        }
        self.clean(removed, None);
        Ok(folded)
    }

    /// Makes the written order of dots: by node, then by version.
    pub(crate) fn sorted_live<'a>(&self, held: &'a Few<Live<P>>) -> Vec<&'a Live<P>> {
        let mut live: Vec<&Live<P>> = held.iter().collect();
        live.sort_by(|left, right| {
            let nodes = self
                .context
                .node(left.dot.node)
                .cmp(self.context.node(right.dot.node));
            nodes.then(left.dot.version.cmp(&right.dot.version))
        });
        live
    }
}

impl<K: Ord + Clone, P: Payload> PartialEq for Dotted<K, P> {
    fn eq(&self, other: &Self) -> bool {
        let same_dots = |left: &Few<Live<P>>, right: &Few<Live<P>>| {
            left.len() == right.len()
                && left.iter().all(|live| {
                    let node = self.context.node(live.dot.node);
                    right.iter().any(|their| {
                        their.dot.version == live.dot.version
                            && their.payload == live.payload
                            && other.context.node(their.dot.node) == node
                    })
                })
        };
        self.context == other.context
            && self.entries.len() == other.entries.len()
            && self
                .entries
                .iter()
                .zip(&other.entries)
                .all(|((left, mine), (right, theirs))| left == right && same_dots(mine, theirs))
    }
}

impl<K: Ord + Clone, P: Payload> Eq for Dotted<K, P> {}

impl<K: Ord + Clone, P: Payload> PartialEq for DottedDelta<K, P> {
    fn eq(&self, other: &Self) -> bool {
        self.whole == other.whole && self.part == other.part
    }
}

impl<K: Ord + Clone, P: Payload> Eq for DottedDelta<K, P> {}

impl<K: Ord + Clone, P: Payload> DottedDelta<K, P> {
    /// How many entries it changes.
    pub(super) fn size(&self) -> usize {
        self.part.entries.len().max(1)
    }

    /// Appends the next delta of the same sender.
    pub(super) fn join(&mut self, later: &Self) -> Result<(), MergeError> {
        self.part.check_nodes(&later.part)?;
        self.part.absorb(&later.part, later.whole, true);
        self.whole |= later.whole;
        Ok(())
    }
}

/// One operation on a [`Dotted`] under way: changes the state and writes down the delta.
pub(super) struct Change<'a, K, P> {
    state: &'a mut Dotted<K, P>,
    delta: DottedDelta<K, P>,
}

impl<'a, K: Ord + Clone, P: Payload> Change<'a, K, P> {
    /// An operation that only removes.
    pub(super) fn of(state: &'a mut Dotted<K, P>) -> Self {
        Self {
            state,
            delta: DottedDelta {
                part: Dotted::default(),
                whole: false,
            },
        }
    }

    /// An operation that adds; refused before anything is changed.
    pub(super) fn adding(state: &'a mut Dotted<K, P>, minting: &Minting) -> Result<Self, OpError> {
        minting.check(state.context.highest(minting.me()))?;
        Ok(Self::of(state))
    }

    pub(super) fn live(&self, key: &K) -> &[Live<P>] {
        self.state.live(key)
    }

    pub(super) fn context(&self) -> &Context {
        &self.state.context
    }

    /// Removes the dots of a key that `is_gone` names.
    pub(super) fn remove(&mut self, key: &K, is_gone: impl Fn(&Context, Dot) -> bool) {
        let Some(held) = self.state.entries.get_mut(key) else {
            return;
        };
        let (context, delta) = (&self.state.context, &mut self.delta);
        held.retain(|live| {
            let gone = is_gone(context, live.dot);
            if gone {
                let version = live.dot.version;
                let single = Range {
                    from: version,
                    to: version,
                };
                delta.part.context.add(context.node(live.dot.node), single);
            }
            !gone
        });
        if held.is_empty() {
            self.state.entries.remove(key);
        }
        self.delta
            .part
            .entries
            .entry(key.clone())
            .or_insert_with(Few::none);
    }

    /// Adds a new dot to a key, beside what is left of its old ones.
    pub(super) fn add(&mut self, key: &K, payload: P, minting: &mut Minting) {
        let version = minting.next();
        let (dot, range) = self.state.context.mint(minting.me(), version);
        let new = Live {
            dot,
            payload: payload.clone(),
        };
        self.state
            .entries
            .entry(key.clone())
            .or_insert_with(Few::none)
            .push(new);
        let dot = self.delta.part.context.add(minting.me(), range);
        let listed = self
            .delta
            .part
            .entries
            .entry(key.clone())
            .or_insert_with(Few::none);
        listed.push(Live { dot, payload });
    }

    /// Replaces all dots of a key by a new one.
    pub(super) fn replace(&mut self, key: &K, payload: P, minting: &mut Minting) {
        self.remove(key, |_, _| true);
        self.add(key, payload, minting);
    }

    /// Removes everything that was seen.
    pub(super) fn clear(&mut self) {
        self.state.entries.clear();
        self.delta.part.context = self.state.context.clone();
        self.delta.whole = true;
    }

    /// The delta; `None` if nothing was touched.
    pub(super) fn finish(self) -> Option<DottedDelta<K, P>> {
        (self.delta.whole || !self.delta.part.entries.is_empty()).then_some(self.delta)
    }
}
