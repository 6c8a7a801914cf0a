//! What a kind is, as far as all nodes must agree on it, and how two of them are compared. Values only;
//! decides nothing. Singletons have theirs in `singleton/state`. Spec: sharding 10.11.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crate::ident::Role;
use crate::sharding::state::ids::{KindId, SHARDS_MAX};
use crate::sharding::state::remember::RememberStore;

/// Longest name of a kind in bytes: names appear in messages to operators.
pub(crate) const KIND_NAME_BYTES_MAX: usize = 255;

/// Longest name of an extractor in bytes.
pub(crate) const EXTRACTOR_BYTES_MAX: usize = 64;

/// Bytes that a kind's fields take in a message beside its texts, generously: lengths, shards, flags,
/// numbers.
const FIXED_BYTES: usize = 32;

/// Where a kind's coordinator keeps the homes of its shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum StoreMode {
    /// In its memory, and so in the regions: a new coordinator asks each member what it hosts. Survives the
    /// death of any nodes but not that of all; needs no store.
    Memory,
    /// As one value that a majority of the journal's voters keeps in their stores: each write replaces all of
    /// it. Survives the death of all nodes.
    DistributedData,
    /// As changes and snapshots of them in a log that a majority of the journal's voters keeps in their
    /// stores: a write costs what has changed. Survives the death of all nodes.
    Events,
    /// In a way that this version does not know.
    Other {
        /// Its number on the wire, 1 to 255.
        code: u8,
    },
}

impl fmt::Display for StoreMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::DistributedData => f.write_str("ddata"),
            Self::Events => f.write_str("events"),
            Self::Other { code } => write!(f, "number {code} of a later version"),
        }
    }
}

/// What only nodes that host a kind have to agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KindKeeping {
    /// Where the coordinator keeps which shard lives where.
    pub store: StoreMode,
    /// Where it is kept which entities there are, so that they are started again without a message; `None`:
    /// nowhere.
    pub remember_entities: Option<RememberStore>,
    /// Whether a shard runs only while its node holds a lease: a node that does without runs a shard that
    /// another one waits for.
    pub lease: bool,
}

/// The fields of a kind that must be the same on every node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KindFields {
    /// The kind's name.
    pub name: Arc<str>,
    /// The role of the members that host it; all members if `None`.
    pub role: Option<Role>,
    /// How many shards it has.
    pub shards: u32,
    /// The name of the function from entity to shard.
    pub extractor: Arc<str>,
    /// `None` for a proxy, which keeps nothing.
    pub keeping: Option<KindKeeping>,
}

impl KindFields {
    /// The kind's id.
    pub(crate) fn id(&self) -> KindId {
        KindId::of(&self.name)
    }

    /// Whether a node could have such a kind.
    pub(crate) fn is_legal(&self) -> bool {
        (1..=KIND_NAME_BYTES_MAX).contains(&self.name.len())
            && (1..=EXTRACTOR_BYTES_MAX).contains(&self.extractor.len())
            && (1..=SHARDS_MAX).contains(&self.shards)
    }

    /// At most so many bytes in a message.
    pub(crate) fn bytes_max(&self) -> usize {
        let role = self.role.as_ref().map_or(0, |role| role.as_str().len());
        FIXED_BYTES + self.name.len() + self.extractor.len() + role
    }

    /// What differs: mine first. A proxy does not differ in what it does not have.
    #[must_use]
    pub fn differences(&self, theirs: &Self) -> Vec<FieldDifference> {
        let mut found = Vec::new();
        if self.name != theirs.name {
            let (ours, theirs) = (Arc::clone(&self.name), Arc::clone(&theirs.name));
            found.push(FieldDifference::Name { ours, theirs });
        }
        if self.role != theirs.role {
            let (ours, theirs) = (self.role.clone(), theirs.role.clone());
            found.push(FieldDifference::Role { ours, theirs });
        }
        if self.shards != theirs.shards {
            let (ours, theirs) = (self.shards, theirs.shards);
            found.push(FieldDifference::Shards { ours, theirs });
        }
        if self.extractor != theirs.extractor {
            let (ours, theirs) = (Arc::clone(&self.extractor), Arc::clone(&theirs.extractor));
            found.push(FieldDifference::Extractor { ours, theirs });
        }
        if let (Some(ours), Some(theirs)) = (self.keeping, theirs.keeping) {
            if ours.store != theirs.store {
                let (ours, theirs) = (ours.store, theirs.store);
                found.push(FieldDifference::StoreMode { ours, theirs });
            }
            if ours.remember_entities != theirs.remember_entities {
                let (ours, theirs) = (ours.remember_entities, theirs.remember_entities);
                found.push(FieldDifference::RememberEntities { ours, theirs });
            }
            if ours.lease != theirs.lease {
                let (ours, theirs) = (ours.lease, theirs.lease);
                found.push(FieldDifference::Lease { ours, theirs });
            }
        }
        found
    }

    /// Whether both may be the same kind.
    pub(crate) fn agrees_with(&self, other: &Self) -> bool {
        self.differences(other).is_empty()
    }
}

/// One field of a kind, a singleton or a bucket that two nodes have with different values.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldDifference {
    /// Two names with one hash.
    Name {
        /// This node's.
        ours: Arc<str>,
        /// The cluster's.
        theirs: Arc<str>,
    },
    /// Who hosts it.
    Role {
        /// This node's.
        ours: Option<Role>,
        /// The cluster's.
        theirs: Option<Role>,
    },
    /// The number of shards.
    Shards {
        /// This node's.
        ours: u32,
        /// The cluster's.
        theirs: u32,
    },
    /// How an entity finds its shard.
    Extractor {
        /// This node's.
        ours: Arc<str>,
        /// The cluster's.
        theirs: Arc<str>,
    },
    /// Where state is kept.
    StoreMode {
        /// This node's.
        ours: StoreMode,
        /// The cluster's.
        theirs: StoreMode,
    },
    /// Where it is kept which entities there are; `None`: nowhere.
    RememberEntities {
        /// This node's.
        ours: Option<RememberStore>,
        /// The cluster's.
        theirs: Option<RememberStore>,
    },
    /// Whether a shard, or a singleton's instance, needs a lease.
    Lease {
        /// This node's.
        ours: bool,
        /// The cluster's.
        theirs: bool,
    },
    /// Whether a work queue keeps its jobs in the store, or a bucket its values.
    Durable {
        /// This node's.
        ours: bool,
        /// The cluster's.
        theirs: bool,
    },
    /// Whether members of a bucket stand in for owners that are away.
    SloppyQuorum {
        /// This node's.
        ours: bool,
        /// The cluster's.
        theirs: bool,
    },
    /// How many copies there are of each value of a bucket.
    Copies {
        /// This node's.
        ours: u8,
        /// The cluster's.
        theirs: u8,
    },
    /// How many owners the least level of a bucket's gets are.
    LeastReads {
        /// This node's.
        ours: u8,
        /// The cluster's.
        theirs: u8,
    },
    /// How many owners the least level of a bucket's puts are.
    LeastWrites {
        /// This node's.
        ours: u8,
        /// The cluster's.
        theirs: u8,
    },
    /// The number of ranges.
    Ranges {
        /// This node's.
        ours: u16,
        /// The cluster's.
        theirs: u16,
    },
    /// The function that merges siblings; `None`: none does.
    Merge {
        /// This node's.
        ours: Option<Arc<str>>,
        /// The cluster's.
        theirs: Option<Arc<str>>,
    },
}

impl fmt::Display for FieldDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = |role: &Option<Role>| role.as_ref().map_or("none", Role::as_str).into();
        let remembers = |store: &Option<RememberStore>| {
            let store = store.as_ref();
            store.map_or_else(|| String::from("off"), |store| alloc::format!("{store}"))
        };
        let on = |on: bool| String::from(if on { "on" } else { "off" });
        // Texts of a peer stay on their line.
        let text = |text: &str| alloc::format!("{}", text.escape_debug());
        let number = |number: u32| alloc::format!("{number}");
        let small = |small: u8| number(small.into());
        let merge = |name: &Option<Arc<str>>| text(name.as_deref().unwrap_or("none"));
        let (field, ours, theirs): (&str, String, String) = match self {
            Self::Name { ours, theirs } => ("name", text(ours), text(theirs)),
            Self::Role { ours, theirs } => ("role", role(ours), role(theirs)),
            Self::Shards { ours, theirs } => ("shards", number(*ours), number(*theirs)),
            Self::Extractor { ours, theirs } => ("extractor", text(ours), text(theirs)),
            Self::StoreMode { ours, theirs } => {
                ("store mode", alloc::format!("{ours}"), alloc::format!("{theirs}"))
            }
            Self::RememberEntities { ours, theirs } => {
                ("remember-entities", remembers(ours), remembers(theirs))
            }
            Self::Lease { ours, theirs } => ("lease", on(*ours), on(*theirs)),
            Self::Durable { ours, theirs } => ("durable", on(*ours), on(*theirs)),
            Self::SloppyQuorum { ours, theirs } => ("sloppy quorum", on(*ours), on(*theirs)),
            Self::Copies { ours, theirs } => ("copies", small(*ours), small(*theirs)),
            Self::LeastReads { ours, theirs } => ("least R", small(*ours), small(*theirs)),
            Self::LeastWrites { ours, theirs } => ("least W", small(*ours), small(*theirs)),
            Self::Ranges { ours, theirs } => ("ranges", number((*ours).into()), number((*theirs).into())),
            Self::Merge { ours, theirs } => ("merge", merge(ours), merge(theirs)),
        };
        write!(f, "{field} is {ours} here and {theirs} in the cluster")
    }
}

/// Everything in which a kind, a singleton or a bucket of this node differs from the cluster's; at least one
/// field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldDifferences(Vec<FieldDifference>);

impl FieldDifferences {
    /// What differs between a node's fields and the cluster's; `None` if nothing does.
    pub(crate) fn between(ours: &KindFields, theirs: &KindFields) -> Option<Self> {
        Self::of(ours.differences(theirs))
    }

    /// These fields; `None` if there is none.
    pub(crate) fn of(fields: Vec<FieldDifference>) -> Option<Self> {
        (!fields.is_empty()).then_some(Self(fields))
    }

    /// The fields, each once.
    #[must_use]
    pub fn fields(&self) -> &[FieldDifference] {
        &self.0
    }
}

impl fmt::Display for FieldDifferences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, field) in self.0.iter().enumerate() {
            let between = if at == 0 { "" } else { "; " };
            write!(f, "{between}{field}")?;
        }
        Ok(())
    }
}
