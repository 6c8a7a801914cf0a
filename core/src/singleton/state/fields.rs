//! What a singleton is, as far as all nodes must agree on it, and how two of them are compared. Values only;
//! decides nothing: the registry of kinds does. Spec: sharding 10.11.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::ident::Role;
use crate::sharding::state::fields::{FieldDifference, FieldDifferences};
use crate::singleton::state::SingletonId;

/// Longest name of a singleton in bytes; as of an entity kind's.
pub(crate) const SINGLETON_NAME_BYTES_MAX: usize = 255;

/// Bytes that a singleton's fields take in a message beside its texts, generously: lengths, flags, numbers.
const FIXED_BYTES: usize = 24;

/// What only nodes that host a singleton have to agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SingletonHosting {
    /// Whether an instance runs only while its node holds a lease: one that does without runs beside one that
    /// waits for it.
    pub lease: bool,
    /// Whether what it holds is kept in the store: the jobs of a durable work queue. Of any other singleton
    /// `false`.
    pub durable: bool,
}

/// The fields of a singleton that must be the same on every node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SingletonFields {
    /// Its name.
    pub name: Arc<str>,
    /// The role of the members that host it; all members if `None`.
    pub role: Option<Role>,
    /// `None` on a node that only reaches it.
    pub hosting: Option<SingletonHosting>,
}

impl SingletonFields {
    /// The singleton's id.
    pub(crate) fn id(&self) -> SingletonId {
        SingletonId::of(&self.name)
    }

    /// Whether a node could have such a singleton.
    pub(crate) fn is_legal(&self) -> bool {
        (1..=SINGLETON_NAME_BYTES_MAX).contains(&self.name.len())
    }

    /// At most so many bytes in a message.
    pub(crate) fn bytes_max(&self) -> usize {
        let role = self.role.as_ref().map_or(0, |role| role.as_str().len());
        FIXED_BYTES + self.name.len() + role
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
        if let (Some(ours), Some(theirs)) = (self.hosting, theirs.hosting) {
            if ours.lease != theirs.lease {
                let (ours, theirs) = (ours.lease, theirs.lease);
                found.push(FieldDifference::Lease { ours, theirs });
            }
            if ours.durable != theirs.durable {
                let (ours, theirs) = (ours.durable, theirs.durable);
                found.push(FieldDifference::Durable { ours, theirs });
            }
        }
        found
    }

    /// What differs between this node's fields and others; `None` if nothing does.
    pub(crate) fn differs_from(&self, theirs: &Self) -> Option<FieldDifferences> {
        FieldDifferences::of(self.differences(theirs))
    }
}
