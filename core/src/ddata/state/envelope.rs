//! What replicas hold and exchange: a value with what is known about its pruning and about the deltas in it.
//! Pure; the rule of every merge is here and nowhere else. Never sends, never reads a clock. Spec: sharding
//! 1.12, 2.3, 10.8; why nothing is taken over before a marker ends, `docs/adr/0012` says.

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::ddata::crdt::{DataValue, MergeError};
use crate::ident::UniqueAddress;
use crate::ordered::OrderedSet;

/// A value as replicas hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataEnvelope {
    /// The value; `None`: the key was deleted, for good.
    pub data: Option<Arc<DataValue>>,
    /// What becomes of the contributions of removed nodes. Until a marker ends they stay what they are, under
    /// the names of their nodes, so that late data is merged like any other and nothing can be taken over
    /// twice.
    pub pruning: BTreeMap<UniqueAddress, Pruning>,
    /// Markers that ended by this time, milliseconds since the Unix epoch, are gone, and what they stood for
    /// is nobody's (0: none yet). Two replicas that meet bring each other to the later one before their
    /// values are merged.
    pub settled_ms: u64,
    /// The last delta of each node that is in `data`. Not part of the digest.
    pub deltas: BTreeMap<UniqueAddress, u64>,
}

/// How far the pruning of one removed node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pruning {
    /// `owner` will say when it ends once every member has said that it knows.
    Initialized {
        /// Who says it.
        owner: UniqueAddress,
        /// Who knows, without the owner.
        seen: OrderedSet<UniqueAddress>,
    },
    /// Every member knows. What the node contributed becomes nobody's when the marker ends.
    Performed {
        /// When it ends, milliseconds since the Unix epoch: until then somebody may come with more of that
        /// node.
        obsolete_at_ms: u64,
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

impl DataEnvelope {
    /// A value nobody has pruned.
    #[must_use]
    pub fn new(data: DataValue) -> Self {
        Self {
            data: Some(Arc::new(data)),
            pruning: BTreeMap::new(),
            settled_ms: 0,
            deltas: BTreeMap::new(),
        }
    }

    /// The tombstone of a key.
    #[must_use]
    pub const fn deleted() -> Self {
        Self {
            data: None,
            pruning: BTreeMap::new(),
            settled_ms: 0,
            deltas: BTreeMap::new(),
        }
    }

    /// Whether the key was deleted.
    #[must_use]
    pub const fn is_deleted(&self) -> bool {
        self.data.is_none()
    }

    /// The value with what another replica holds; whether anything changed. What is settled on one side is
    /// settled on the other before values meet, so that nothing stands in two places.
    ///
    /// # Errors
    /// The values are of different types; nothing of the value changed then.
    pub fn merge(&mut self, mut other: Self) -> Result<bool, MergeError> {
        if self.is_deleted() || other.is_deleted() {
            let is_news = !self.is_deleted() && other.is_deleted();
            if is_news {
                *self = Self::deleted();
            }
            return Ok(is_news);
        }
        let settled_ms = self.settled_ms.max(other.settled_ms);
        let mut changed = self.settled_ms < settled_ms;
        self.settle(settled_ms);
        other.settle(settled_ms);
        for (node, marker) in other.pruning {
            match self.pruning.entry(node) {
                Entry::Vacant(place) => {
                    place.insert(marker);
                    changed = true;
                }
                Entry::Occupied(mut held) => {
                    let both = join(held.get(), &marker);
                    if *held.get() != both {
                        held.insert(both);
                        changed = true;
                    }
                }
            }
        }
        if let (Some(mine), Some(theirs)) = (&mut self.data, &other.data)
            && !Arc::ptr_eq(mine, theirs)
            && mine != theirs
        {
            changed |= Arc::make_mut(mine).merge(theirs)?.changed;
        }
        for (node, upto) in other.deltas {
            let held = self.deltas.entry(node).or_default();
            *held = upto.max(*held);
        }
        // Late changes of a removed node come with whole values only.
        for node in self.pruning.keys() {
            self.deltas.remove(node);
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
            seen: OrderedSet::new(),
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

    /// All know that the node was removed: what it contributed is settled at `until_ms`, or later, because a
    /// marker ends after all that are known. Otherwise one that was made by a clock ahead of others would end
    /// this one with it, also where nobody has heard yet that this one was performed.
    pub fn perform_pruning(&mut self, removed: &UniqueAddress, until_ms: u64) {
        self.deltas.remove(removed);
        let known = self.pruning.values().map(|marker| match marker {
            Pruning::Performed { obsolete_at_ms } => *obsolete_at_ms,
            Pruning::Initialized { .. } => 0,
        });
        let last = known.max().unwrap_or(0).max(self.settled_ms);
        let obsolete_at_ms = until_ms.max(last.saturating_add(1));
        self.pruning
            .insert(removed.clone(), Pruning::Performed { obsolete_at_ms });
    }

    /// Ends the markers up to a time: what their nodes contributed becomes nobody's. Says whose, in the order
    /// in which it was done, which is the same on every replica. Where a value refuses, its node is named on
    /// and pruned anew.
    pub fn settle(&mut self, settled_ms: u64) -> Vec<UniqueAddress> {
        let Some(data) = &mut self.data else {
            return Vec::new();
        };
        self.settled_ms = self.settled_ms.max(settled_ms);
        let ended = self.pruning.iter().filter_map(|(node, marker)| match marker {
            Pruning::Performed { obsolete_at_ms } if *obsolete_at_ms <= settled_ms => {
                Some((*obsolete_at_ms, node.clone()))
            }
            Pruning::Performed { .. } | Pruning::Initialized { .. } => None,
        });
        let ended: OrderedSet<(u64, UniqueAddress)> = ended.collect();
        let mut nodes = Vec::new();
        for (_, node) in ended {
            if data.mentions(&node) {
                let _ = Arc::make_mut(data).settle(&node);
            }
            self.pruning.remove(&node);
            self.deltas.remove(&node);
            nodes.push(node);
        }
        nodes
    }
}

/// Performed beats initialized; of two performed the later end; of two initialized by one owner both,
/// otherwise that of the lower owner.
fn join(left: &Pruning, right: &Pruning) -> Pruning {
    match (left, right) {
        (
            Pruning::Performed { obsolete_at_ms: left },
            Pruning::Performed {
                obsolete_at_ms: right,
            },
        ) => Pruning::Performed {
            obsolete_at_ms: *left.max(right),
        },
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
