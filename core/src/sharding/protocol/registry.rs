//! What nodes say to the oldest member of the cluster about the kinds, singletons and buckets they have, and
//! what it says to them. Types only. Spec: sharding 10.11.

use alloc::vec::Vec;

use crate::kv::state::bucket::{BUCKET_NAME_BYTES_MAX, BucketName};
use crate::kv::state::settings::BucketFields;
use crate::sharding::state::fields::{FieldDifference, FieldDifferences, KindFields};
use crate::sharding::state::ids::{KindId, Term};
use crate::singleton::state::SingletonId;
use crate::singleton::state::fields::SingletonFields;

/// Kinds that one node may have: more than a service has, few enough for one control frame of announcements.
pub const KINDS_PER_NODE_MAX: usize = 256;

/// Kinds, singletons and buckets that one node may announce: as many of each as it may have.
pub const REGISTRATIONS_PER_NODE_MAX: usize = 576;

/// What is the same on every node, or nowhere. Kinds, singletons and buckets have names of their own: one of
/// each may have the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RegistrationId {
    /// An entity kind.
    Kind(KindId),
    /// A singleton.
    Singleton(SingletonId),
    /// A bucket of the keyed store.
    Bucket(BucketName),
}

/// The fields in which all nodes have to agree on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistrationFields {
    /// Of an entity kind.
    Kind(KindFields),
    /// Of a singleton.
    Singleton(SingletonFields),
    /// Of a bucket.
    Bucket(BucketFields),
}

impl RegistrationFields {
    /// Whose.
    pub(crate) fn id(&self) -> RegistrationId {
        match self {
            Self::Kind(fields) => RegistrationId::Kind(fields.id()),
            Self::Singleton(fields) => RegistrationId::Singleton(fields.id()),
            Self::Bucket(fields) => RegistrationId::Bucket(fields.name.clone()),
        }
    }

    /// Whether a node could have such a one.
    pub(crate) fn is_legal(&self) -> bool {
        match self {
            Self::Kind(fields) => fields.is_legal(),
            Self::Singleton(fields) => fields.is_legal(),
            Self::Bucket(fields) => fields.settings.check().is_ok(),
        }
    }

    /// At most so many bytes in a message.
    pub(crate) fn bytes_max(&self) -> usize {
        match self {
            Self::Kind(fields) => fields.bytes_max(),
            Self::Singleton(fields) => fields.bytes_max(),
            Self::Bucket(fields) => BUCKET_NAME_BYTES_MAX + fields.settings.bytes_max(),
        }
    }

    /// What differs: mine first. One of another sort is never compared, because its id differs.
    #[must_use]
    pub fn differences(&self, theirs: &Self) -> Vec<FieldDifference> {
        match (self, theirs) {
            (Self::Kind(ours), Self::Kind(theirs)) => ours.differences(theirs),
            (Self::Singleton(ours), Self::Singleton(theirs)) => ours.differences(theirs),
            (Self::Bucket(ours), Self::Bucket(theirs)) => ours.settings.differences(&theirs.settings),
            (Self::Kind(_) | Self::Singleton(_) | Self::Bucket(_), _) => Vec::new(),
        }
    }

    /// Whether they are those of a node that hosts it.
    pub(crate) const fn hosts(&self) -> bool {
        match self {
            Self::Kind(fields) => fields.keeping.is_some(),
            Self::Singleton(fields) => fields.hosting.is_some(),
            Self::Bucket(_) => true,
        }
    }

    /// Leaves what a proxy knows.
    pub(crate) const fn forget_hosting(&mut self) {
        match self {
            Self::Kind(fields) => fields.keeping = None,
            Self::Singleton(fields) => fields.hosting = None,
            Self::Bucket(_) => {}
        }
    }

    /// Takes over what a proxy does not know and who hosts does.
    pub(crate) fn complete(&mut self, other: &Self) {
        match (self, other) {
            (Self::Kind(own), Self::Kind(other)) => own.keeping = own.keeping.or(other.keeping),
            (Self::Singleton(own), Self::Singleton(other)) => own.hosting = own.hosting.or(other.hosting),
            (Self::Kind(_) | Self::Singleton(_) | Self::Bucket(_), _) => {}
        }
    }
}

/// One message between a node and the oldest member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistryMsg {
    /// Member to the oldest: these are my kinds, singletons and buckets, and no others.
    Announce {
        /// Counts the changes of my list; the answer carries it.
        round: u32,
        /// At most [`REGISTRATIONS_PER_NODE_MAX`], each id once.
        all: Vec<Announcement>,
    },
    /// The oldest to a member: what I think of yours. One that is not named has not been decided about.
    Verdicts {
        /// The oldest member as a term.
        term: Term,
        /// The round of the list that this is about.
        round: u32,
        /// What was announced and verdicts, each id once.
        verdicts: Vec<(RegistrationId, RegistrationVerdict)>,
    },
    /// The oldest to a member that it has not heard: which have you?
    Query {
        /// The oldest member as a term.
        term: Term,
    },
}

/// One of a node's kinds, singletons or buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// What it is.
    pub fields: RegistrationFields,
    /// The number under which it was accepted, by this oldest member or an earlier one. A lower one is older.
    pub accepted: Option<u64>,
    /// Whether shards of it run there, its instance may, or its keys may be served.
    pub running: bool,
}

/// What becomes of what was announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistrationVerdict {
    /// The node may host it.
    Accepted {
        /// Counts acceptances.
        number: u64,
    },
    /// It stands with other fields.
    Refused {
        /// These.
        standing: RegistrationFields,
    },
    /// The cluster has as many as it may have.
    TooMany,
}

/// What a verdict means where it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It may begin.
    Accepted,
    /// It has to stop, or may not begin; what differs.
    Refused(FieldDifferences),
    /// The cluster, or a frame, has no room for it.
    TooMany,
}

/// Timers of the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RegistryTimer {
    /// Announce again what has not been accepted.
    Announce,
    /// The oldest: ask again who has not spoken, and see whether those removed have certainly stopped.
    Recovery,
}
