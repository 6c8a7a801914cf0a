//! Entries by key, each alive as long as one of its dots is, and what was seen: what sets with removal and
//! all maps are made of. A dot survives a join if both sides have it, or one has it and the other has not
//! seen it. Never knows what a key means. Spec: sharding 10.21 (Almeida, Shoker, Baquero 2018);
//! `docs/adr/0010`, `docs/adr/0012`.

use alloc::collections::BTreeMap;
use core::fmt::Debug;

use super::context::{CLOUD_MAX, CausalContext, Dot, NODES_MAX, PositionMap, VersionRange};
use super::few::Few;
use super::minting::nobody_with_room;
use super::{MergeError, Minting, OpError};
use crate::ident::UniqueAddress;
use crate::ordered::OrderedSet;

/// What stands under a key while it is alive. The values of a map are joined, those of a set are nothing.
pub(crate) trait DottedValue: Clone + Debug + PartialEq {
    /// Joins what another replica holds under the key; whether anything changed.
    fn join(&mut self, other: &Self) -> bool;

    /// Whether it mentions a node.
    fn mentions(&self, _node: &UniqueAddress) -> bool {
        false
    }

    /// The nodes that it mentions.
    fn nodes(&self, _all: &mut OrderedSet<UniqueAddress>) {}

    /// Moves what a node contributed to nobody's part.
    fn settle(&mut self, _removed: &UniqueAddress) -> Result<(), OpError> {
        Ok(())
    }

    /// The greatest stamp in it.
    fn newest_stamp(&self) -> Option<i64> {
        None
    }
}

impl DottedValue for () {
    fn join(&mut self, (): &Self) -> bool {
        false
    }
}

/// A key's dots, at least one, and its value.
#[derive(Clone, Debug)]
pub(crate) struct DottedEntry<V> {
    pub(crate) dots: Few<Dot>,
    pub(crate) value: V,
}

/// Entries by key with a context that covers every dot in them.
#[derive(Clone, Debug)]
pub(crate) struct Dotted<K, V> {
    pub(crate) context: CausalContext,
    pub(crate) entries: BTreeMap<K, DottedEntry<V>>,
}

impl<K, V> Default for Dotted<K, V> {
    fn default() -> Self {
        Self {
            context: CausalContext::default(),
            entries: BTreeMap::new(),
        }
    }
}

/// What operations changed: the entries they wrote, the keys they removed, and in the context what they added
/// and superseded.
#[derive(Clone, Debug)]
pub(crate) struct DottedDelta<K, V> {
    pub(crate) part: Dotted<K, V>,
    /// Keys that lost dots and have none here.
    pub(crate) removed: OrderedSet<K>,
    /// Whether the context speaks about all keys (a clear) or only about those named, which spares the others
    /// a visit.
    pub(crate) whole: bool,
}

/// The two sides of a join while one of them changes.
struct JoinSides<'a> {
    mine: &'a CausalContext,
    theirs: &'a CausalContext,
    to: PositionMap,
    /// A delta says of a key it names all that its sender has made of what it has seen.
    is_delta: bool,
}

impl JoinSides<'_> {
    /// Joins one key; whether anything changed. The entry may be left without dots, and is then dead.
    fn join<V: DottedValue>(&self, held: &mut DottedEntry<V>, theirs: Option<&DottedEntry<V>>) -> bool {
        let their_dots = theirs.map_or(&[][..], |entry| entry.dots.as_slice());
        let mut changed = held.dots.retain(|mine| match self.to.theirs(*mine) {
            Some(dot) => their_dots.contains(&dot) || !self.theirs.covers(dot),
            None => true,
        });
        let Some(theirs) = theirs else {
            return changed;
        };
        let is_superseded = held.dots.is_empty();
        for dot in theirs.dots.iter().map(|dot| self.to.mine(*dot)) {
            if !self.mine.covers(dot) {
                held.dots.push(dot);
                changed = true;
            }
        }
        if self.is_delta && is_superseded {
            changed |= held.value != theirs.value;
            held.value.clone_from(&theirs.value);
        } else {
            changed |= held.value.join(&theirs.value);
        }
        changed
    }

    /// What a key that is not here becomes.
    fn adopt<V: DottedValue>(&self, theirs: &DottedEntry<V>) -> Option<DottedEntry<V>> {
        let mut dots = Few::none();
        for dot in theirs.dots.iter().map(|dot| self.to.mine(*dot)) {
            if !self.mine.covers(dot) {
                dots.push(dot);
            }
        }
        let value = &theirs.value;
        (!dots.is_empty()).then(|| DottedEntry {
            dots,
            value: value.clone(),
        })
    }
}

impl<K: Ord + Clone, V: DottedValue> Dotted<K, V> {
    /// Joins a whole state; whether anything changed.
    pub(super) fn merge(&mut self, other: &Self) -> Result<bool, MergeError> {
        self.check_nodes(other)?;
        let to = self.context.translate(&other.context);
        let sides = JoinSides {
            mine: &self.context,
            theirs: &other.context,
            to,
            is_delta: false,
        };
        let mut changed = false;
        let mut theirs = other.entries.iter().peekable();
        self.entries.retain(|key, held| {
            while theirs.next_if(|(their, _)| *their < key).is_some() {}
            let their = theirs.next_if(|(their, _)| *their == key);
            changed |= sides.join(held, their.map(|(_, entry)| entry));
            !held.dots.is_empty()
        });
        for (key, theirs) in &other.entries {
            if !self.entries.contains_key(key)
                && let Some(entry) = sides.adopt(theirs)
            {
                self.entries.insert(key.clone(), entry);
                changed = true;
            }
        }
        Ok(self.context.merge(&other.context) || changed)
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
    pub(super) fn merge_delta(&mut self, delta: &DottedDelta<K, V>) -> Result<bool, MergeError> {
        self.check_nodes(&delta.part)?;
        let theirs = &delta.part.context;
        if self.context.cloud() + theirs.cloud() + theirs.len() > CLOUD_MAX {
            let mut after = self.context.clone();
            after.merge(theirs);
            if after.cloud() > CLOUD_MAX.max(self.context.cloud()) {
                return Err(MergeError::CloudFull);
            }
        }
        Ok(self.absorb(delta, |_| {}))
    }

    /// Joins a delta and names the keys that it leaves dead or finds absent.
    fn absorb(&mut self, delta: &DottedDelta<K, V>, mut on_dead: impl FnMut(&K)) -> bool {
        let to = self.context.translate(&delta.part.context);
        let sides = JoinSides {
            mine: &self.context,
            theirs: &delta.part.context,
            to,
            is_delta: true,
        };
        let entries = &mut self.entries;
        let mut changed = false;
        if delta.whole {
            entries.retain(|key, held| {
                if delta.part.entries.contains_key(key) {
                    return true;
                }
                changed |= sides.join(held, None);
                if held.dots.is_empty() {
                    on_dead(key);
                }
                !held.dots.is_empty()
            });
        }
        let written = delta.part.entries.iter().map(|(key, entry)| (key, Some(entry)));
        for (key, theirs) in written.chain(delta.removed.iter().map(|key| (key, None))) {
            let is_alive = if let Some(held) = entries.get_mut(key) {
                changed |= sides.join(held, theirs);
                !held.dots.is_empty()
            } else if let Some(entry) = theirs.and_then(|theirs| sides.adopt(theirs)) {
                entries.insert(key.clone(), entry);
                changed = true;
                true
            } else {
                false
            };
            if !is_alive {
                entries.remove(key);
                on_dead(key);
            }
        }
        self.context.merge(&delta.part.context) || changed
    }

    pub(super) fn mentions(&self, node: &UniqueAddress) -> bool {
        self.context.index(node).is_some() || self.entries.values().any(|entry| entry.value.mentions(node))
    }

    pub(super) fn nodes(&self, all: &mut OrderedSet<UniqueAddress>) {
        all.extend(self.context.sorted().map(|(_, seen)| seen.node.clone()));
        for entry in self.entries.values() {
            entry.value.nodes(all);
        }
    }

    pub(super) fn newest_stamp(&self) -> Option<i64> {
        let stamps = self.entries.values().map(|entry| entry.value.newest_stamp());
        stamps.max().flatten()
    }

    /// Takes a node out of the table; no entry has a dot of it.
    fn forget(&mut self, removed: &UniqueAddress) {
        if let Some(shift) = self.context.forget(removed) {
            let dots = self
                .entries
                .values_mut()
                .flat_map(|entry| entry.dots.as_mut_slice());
            dots.for_each(|dot| shift.shift(&mut dot.node));
        }
    }

    /// Gives the dots of a node to nobody: behind those that nobody has already, in their order. Replicas
    /// that know the same of the node come to the same, each on its own, so that a removal that one of them
    /// has seen and another one has not stays a removal.
    pub(super) fn settle(&mut self, removed: &UniqueAddress) -> Result<(), OpError> {
        for entry in self.entries.values_mut() {
            entry.value.settle(removed)?;
        }
        let Some(index) = self.context.index(removed) else {
            return Ok(());
        };
        let versions = self.context.highest(removed);
        let nobody = nobody_with_room(versions, |name| self.context.highest(name));
        let before = self.context.highest(&nobody);
        // What was not seen of the node by now never will be: nothing is left above a gap.
        let all = VersionRange {
            from: before + 1,
            to: before + versions,
        };
        let node = self.context.add(&nobody, all).node;
        let dots = self
            .entries
            .values_mut()
            .flat_map(|entry| entry.dots.as_mut_slice());
        for dot in dots.filter(|dot| dot.node == index) {
            let version = before + dot.version;
            *dot = Dot { node, version };
        }
        self.forget(removed);
        Ok(())
    }
}

impl<K: Ord + Clone, V: DottedValue> PartialEq for Dotted<K, V> {
    fn eq(&self, other: &Self) -> bool {
        let same_dots = |left: &Few<Dot>, right: &Few<Dot>| {
            left.len() == right.len()
                && left.iter().all(|dot| {
                    let node = self.context.node(dot.node);
                    right
                        .iter()
                        .any(|their| their.version == dot.version && other.context.node(their.node) == node)
                })
        };
        let mut pairs = self.entries.iter().zip(&other.entries);
        self.context == other.context
            && self.entries.len() == other.entries.len()
            && pairs.all(|((left, mine), (right, theirs))| {
                left == right && mine.value == theirs.value && same_dots(&mine.dots, &theirs.dots)
            })
    }
}

impl<K: Ord + Clone, V: DottedValue> Eq for Dotted<K, V> {}

impl<K: Ord + Clone, V: DottedValue> PartialEq for DottedDelta<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.whole == other.whole && self.removed == other.removed && self.part == other.part
    }
}

impl<K: Ord + Clone, V: DottedValue> Eq for DottedDelta<K, V> {}

impl<K: Ord + Clone, V: DottedValue> DottedDelta<K, V> {
    /// How many entries it changes.
    pub(super) fn size(&self) -> usize {
        (self.part.entries.len() + self.removed.len()).max(1)
    }

    /// Appends the next delta of the same sender.
    pub(super) fn join(&mut self, later: &Self) -> Result<(), MergeError> {
        self.part.check_nodes(&later.part)?;
        let Self { part, removed, whole } = self;
        part.absorb(later, |key| {
            removed.insert(key.clone());
        });
        *whole |= later.whole;
        removed.retain(|key| !part.entries.contains_key(key));
        Ok(())
    }
}

/// One operation on a [`Dotted`] under way: changes the state and writes down the delta.
pub(super) struct DottedChange<'a, K, V> {
    state: &'a mut Dotted<K, V>,
    delta: DottedDelta<K, V>,
}

impl<'a, K: Ord + Clone, V: DottedValue> DottedChange<'a, K, V> {
    /// An operation that only removes.
    pub(super) fn of(state: &'a mut Dotted<K, V>) -> Self {
        Self {
            state,
            delta: DottedDelta {
                part: Dotted::default(),
                removed: OrderedSet::new(),
                whole: false,
            },
        }
    }

    /// An operation that writes; refused before anything is changed.
    pub(super) fn writing(state: &'a mut Dotted<K, V>, minting: &Minting) -> Result<Self, OpError> {
        minting.check(state.context.highest(minting.me()))?;
        Ok(Self::of(state))
    }

    /// Removes a key, if it is there.
    pub(super) fn remove(&mut self, key: &K) {
        if self.supersede(key).is_some() {
            self.delta.removed.insert(key.clone());
        }
    }

    /// Takes the entry out and notes its dots as seen and gone.
    fn supersede(&mut self, key: &K) -> Option<DottedEntry<V>> {
        let entry = self.state.entries.remove(key)?;
        for dot in entry.dots.iter() {
            let single = VersionRange {
                from: dot.version,
                to: dot.version,
            };
            self.delta
                .part
                .context
                .add(self.state.context.node(dot.node), single);
        }
        Some(entry)
    }

    /// Writes a key under a new dot, which supersedes those that it has.
    pub(super) fn write(&mut self, key: &K, value: V, minting: &mut Minting) {
        self.supersede(key);
        let version = minting.next();
        let (dot, range) = self.state.context.mint(minting.me(), version);
        let dots = Few::One(self.delta.part.context.add(minting.me(), range));
        let entry = DottedEntry {
            dots,
            value: value.clone(),
        };
        self.delta.removed.remove(key);
        self.delta.part.entries.insert(key.clone(), entry);
        let dots = Few::One(dot);
        self.state
            .entries
            .insert(key.clone(), DottedEntry { dots, value });
    }

    /// Removes everything that was seen.
    pub(super) fn clear(&mut self) {
        self.state.entries.clear();
        self.delta.part.context = self.state.context.clone();
        self.delta.whole = true;
    }

    /// The delta; `None` if nothing was touched.
    pub(super) fn finish(self) -> Option<DottedDelta<K, V>> {
        let delta = self.delta;
        (delta.whole || !delta.removed.is_empty() || !delta.part.entries.is_empty()).then_some(delta)
    }
}
