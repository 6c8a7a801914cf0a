//! What replicas hold and exchange: a value with what is known about its pruning and about the deltas in it. Pure; the
//! rule of every merge is here and nowhere else. Never sends, never reads a clock. Spec: sharding 1.12, 2.3, 10.8.

use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::ddata::crdt::{Data, MergeError, Minting, OpError, Pruned};
use crate::ident::UniqueAddress;

/// A value as replicas hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The value; `None`: the key was deleted, for good.
    pub data: Option<Arc<Data>>,
    /// What became of the contributions of removed nodes.
    pub pruning: BTreeMap<UniqueAddress, Pruning>,
    /// The last delta of each node that is in `data`. Not part of the digest.
    pub deltas: BTreeMap<UniqueAddress, u64>,
}

/// How far the pruning of one removed node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pruning {
    /// `owner` will take over the contributions once every member has said that it knows.
    Initialized {
        /// Who takes them over.
        owner: UniqueAddress,
        /// Who knows, without the owner.
        seen: BTreeSet<UniqueAddress>,
    },
    /// They are the owner's.
    Performed {
        /// Who took them over, and takes over what turns up later.
        owner: UniqueAddress,
        /// The marker may go at this time, milliseconds since the Unix epoch.
        obsolete_at_ms: u64,
        /// What was taken over, in the order in which it was: late data is told from what is in the owner's own part by
        /// these. A value beside this marker holds only what none of them covers.
        folds: Vec<Pruned>,
    },
}

/// What is compared instead of a value: equal digests mean equal values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub u128);

impl Digest {
    /// Deleted keys all look alike.
    pub const DELETED: Self = Self(0);

    /// The sender holds the key, and its changes are on their way as deltas: not to be compared.
    pub const IN_FLUX: Self = Self(1);
}

impl Envelope {
    /// A value nobody has pruned.
    #[must_use]
    pub fn new(data: Data) -> Self {
        Self {
            data: Some(Arc::new(data)),
            pruning: BTreeMap::new(),
            deltas: BTreeMap::new(),
        }
    }

    /// The tombstone of a key.
    #[must_use]
    pub const fn deleted() -> Self {
        Self {
            data: None,
            pruning: BTreeMap::new(),
            deltas: BTreeMap::new(),
        }
    }

    /// Whether the key was deleted.
    #[must_use]
    pub const fn is_deleted(&self) -> bool {
        self.data.is_none()
    }

    /// The value with what another replica holds; whether anything changed. Late data of a pruned node is reduced to what
    /// its owner has not taken over yet, on both sides, before values meet.
    ///
    /// # Errors
    /// The values are of different types; nothing changed then.
    pub fn merge(&mut self, mut other: Self) -> Result<bool, MergeError> {
        let (Some(mine), Some(theirs)) = (&mut self.data, &mut other.data) else {
            let is_news = self.data.is_some() && other.data.is_none();
            if is_news {
                *self = Self::deleted();
            }
            return Ok(is_news);
        };
        let mut changed = false;
        for (node, marker) in join_markers(&self.pruning, &other.pruning) {
            if let Pruning::Performed { folds, .. } = &marker {
                clean(mine, &node, folds, folds_of(self.pruning.get(&node)));
                clean(theirs, &node, folds, folds_of(other.pruning.get(&node)));
                self.deltas.remove(&node);
                other.deltas.remove(&node);
            }
            changed |= self.pruning.get(&node) != Some(&marker);
            self.pruning.insert(node, marker);
        }
        if !Arc::ptr_eq(mine, theirs) && mine != theirs {
            changed |= Arc::make_mut(mine).merge(theirs)?.changed;
        }
        for (node, upto) in other.deltas {
            let held = self.deltas.entry(node).or_default();
            *held = upto.max(*held);
        }
        Ok(changed)
    }

    /// Says in every marker of others that this node knows of it; whether anything changed.
    pub fn add_seen(&mut self, me: &UniqueAddress) -> bool {
        let mut changed = false;
        for marker in self.pruning.values_mut() {
            match marker {
                Pruning::Initialized { owner, seen } if owner != me => changed |= seen.insert(me.clone()),
                Pruning::Initialized { .. } | Pruning::Performed { .. } => {}
            }
        }
        changed
    }

    /// Whether the value or the deltas still name a node.
    #[must_use]
    pub fn mentions(&self, node: &UniqueAddress) -> bool {
        let in_data = self.data.as_ref().is_some_and(|data| data.mentions(node));
        in_data || self.deltas.contains_key(node)
    }

    /// Starts the pruning of a removed node, to be done by `owner` once all know.
    pub fn start_pruning(&mut self, removed: &UniqueAddress, owner: &UniqueAddress) {
        self.deltas.remove(removed);
        let marker = Pruning::Initialized {
            owner: owner.clone(),
            seen: BTreeSet::new(),
        };
        self.pruning.insert(removed.clone(), marker);
    }

    /// Forgets that the pruning of some nodes by an owner was announced; what was done already stays.
    pub fn abandon_pruning(&mut self, which: impl Fn(&UniqueAddress, &UniqueAddress) -> bool) {
        self.pruning.retain(|node, marker| match marker {
            Pruning::Initialized { owner, .. } => !which(node, owner),
            Pruning::Performed { .. } => true,
        });
    }

    /// Another node takes over what turns up late, because the owner was removed itself.
    pub fn adopt(&mut self, removed: &UniqueAddress, by: &UniqueAddress) {
        match self.pruning.get_mut(removed) {
            Some(Pruning::Performed { owner, .. }) => *owner = by.clone(),
            Some(Pruning::Initialized { .. }) | None => {}
        }
    }

    /// Where both know of the same taking over and name two owners, one of which has gone, the other one is the owner on
    /// both sides; whether that changed anything here. Otherwise the lower of the two would win ([`Self::merge`]), and who
    /// adopted a marker would lose it again to everybody who has not heard of that (I-66).
    pub fn hand_over(&mut self, other: &mut Self, has_gone: impl Fn(&UniqueAddress) -> bool) -> bool {
        let mut changed = false;
        for (node, marker) in &mut self.pruning {
            let (
                Pruning::Performed {
                    owner: mine,
                    folds: my_folds,
                    ..
                },
                Some(Pruning::Performed {
                    owner: theirs,
                    folds: their_folds,
                    ..
                }),
            ) = (marker, other.pruning.get_mut(node))
            else {
                continue;
            };
            if mine == theirs || my_folds != their_folds {
                continue;
            }
            match (has_gone(mine), has_gone(theirs)) {
                (true, false) => {
                    mine.clone_from(theirs);
                    changed = true;
                }
                (false, true) => theirs.clone_from(mine),
                (true, true) | (false, false) => {}
            }
        }
        changed
    }

    /// Where two owners took over the share of the same node without hearing of each other, the one that has gone gives it
    /// back; whether that changed anything here. One of them was cut off and removed, and a store kept what it had done:
    /// nothing in its total would tell that it holds what the other one holds as well (I-64). Who adopted a marker has late
    /// data beside it, which tells the two cases apart. For counters, whose markers say what was added.
    pub fn undo_double(&mut self, other: &mut Self, has_gone: impl Fn(&UniqueAddress) -> bool) -> bool {
        let mut doubles = Vec::new();
        for node in self.pruning.keys() {
            if let (Some(mine), Some(theirs)) = (self.taken_over_by(node), other.taken_over_by(node))
                && mine != theirs
            {
                match (has_gone(mine), has_gone(theirs)) {
                    (true, false) => doubles.push((node.clone(), true)),
                    (false, true) => doubles.push((node.clone(), false)),
                    (true, true) | (false, false) => {}
                }
            }
        }
        let mut changed = false;
        for (node, is_mine) in doubles {
            let side = if is_mine { &mut *self } else { &mut *other };
            changed |= side.give_back(&node) && is_mine;
        }
        changed
    }

    /// Who took over the share of a node in one step, with nothing of it left beside.
    fn taken_over_by(&self, node: &UniqueAddress) -> Option<&UniqueAddress> {
        match self.pruning.get(node)? {
            Pruning::Performed { owner, folds, .. } if folds.len() == 1 && !self.mentions(node) => {
                Some(owner)
            }
            Pruning::Performed { .. } | Pruning::Initialized { .. } => None,
        }
    }

    fn give_back(&mut self, node: &UniqueAddress) -> bool {
        let (Some(Pruning::Performed { owner, folds, .. }), Some(data)) =
            (self.pruning.get(node), &mut self.data)
        else {
            return false;
        };
        let is_back = folds
            .first()
            .is_some_and(|fold| Arc::make_mut(data).unprune(node, owner, fold));
        if is_back {
            self.pruning.remove(node);
        }
        is_back
    }

    /// The owner takes over what there is of a removed node, now or once more when late data came.
    ///
    /// # Errors
    /// The value was forged; see [`Data::prune`].
    pub fn prune(
        &mut self,
        removed: &UniqueAddress,
        minting: &mut Minting,
        until_ms: u64,
    ) -> Result<(), OpError> {
        let Some(data) = &mut self.data else {
            return Ok(());
        };
        let fold = Arc::make_mut(data).prune(removed, minting)?;
        let mut done = match self.pruning.remove(removed) {
            Some(Pruning::Performed { folds, .. }) => folds,
            Some(Pruning::Initialized { .. }) | None => Vec::new(),
        };
        done.push(fold);
        self.deltas.remove(removed);
        let marker = Pruning::Performed {
            owner: minting.me().clone(),
            obsolete_at_ms: until_ms,
            folds: done,
        };
        self.pruning.insert(removed.clone(), marker);
        Ok(())
    }

    /// Forgets markers whose time has passed and beside which nothing late has turned up; whether there were any.
    pub fn drop_obsolete(&mut self, now_ms: u64) -> bool {
        let before = self.pruning.len();
        let data = self.data.clone();
        self.pruning.retain(|node, marker| match marker {
            Pruning::Initialized { .. } => true,
            Pruning::Performed { obsolete_at_ms, .. } => {
                *obsolete_at_ms > now_ms || data.as_ref().is_some_and(|data| data.mentions(node))
            }
        });
        self.pruning.len() != before
    }
}

fn folds_of(marker: Option<&Pruning>) -> usize {
    match marker {
        Some(Pruning::Performed { folds, .. }) => folds.len(),
        Some(Pruning::Initialized { .. }) | None => 0,
    }
}

/// Takes out of `data` what the folds behind the first `known` cover.
fn clean(data: &mut Arc<Data>, node: &UniqueAddress, folds: &[Pruned], known: usize) {
    if known >= folds.len() || !data.mentions(node) {
        return;
    }
    let data = Arc::make_mut(data);
    for fold in folds.iter().skip(known) {
        data.clean(node, Some(fold));
    }
}

fn join_markers(
    mine: &BTreeMap<UniqueAddress, Pruning>,
    theirs: &BTreeMap<UniqueAddress, Pruning>,
) -> BTreeMap<UniqueAddress, Pruning> {
    let mut joined = mine.clone();
    for (node, marker) in theirs {
        match joined.entry(node.clone()) {
            Entry::Vacant(place) => {
                place.insert(marker.clone());
            }
            Entry::Occupied(mut held) => {
                let both = join(held.get(), marker);
                held.insert(both);
            }
        }
    }
    joined
}

/// Performed beats initialized; of two performed the one that took over more, with the later time; of two initialized by
/// one owner both, otherwise that of the lower owner.
fn join(left: &Pruning, right: &Pruning) -> Pruning {
    match (left, right) {
        (
            Pruning::Performed {
                owner: left_owner,
                obsolete_at_ms: left_until,
                folds: left_folds,
            },
            Pruning::Performed {
                owner: right_owner,
                obsolete_at_ms: right_until,
                folds: right_folds,
            },
        ) => {
            let left_rank = (left_folds.len(), core::cmp::Reverse(left_owner));
            let wins = left_rank >= (right_folds.len(), core::cmp::Reverse(right_owner));
            Pruning::Performed {
                owner: if wins { left_owner } else { right_owner }.clone(),
                obsolete_at_ms: *left_until.max(right_until),
                folds: if wins { left_folds } else { right_folds }.clone(),
            }
        }
        (Pruning::Performed { .. }, Pruning::Initialized { .. }) => left.clone(),
        (Pruning::Initialized { .. }, Pruning::Performed { .. }) => right.clone(),
        (
            Pruning::Initialized { owner, seen },
            Pruning::Initialized {
                owner: other,
                seen: also,
            },
        ) if owner == other => Pruning::Initialized {
            owner: owner.clone(),
            seen: seen.union(also).cloned().collect(),
        },
        (Pruning::Initialized { owner, .. }, Pruning::Initialized { owner: other, .. }) => {
            if owner < other { left } else { right }.clone()
        }
    }
}
