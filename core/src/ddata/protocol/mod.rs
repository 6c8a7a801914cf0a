//! What replicators say to each other, and what this machine's timers, commands, answers, events and
//! rejections are. Names and values only. Spec: sharding 1.12, 2.3.

pub mod counters;
mod rejection;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::crdt::{DataDelta, DataOp, DataType, DataValue};
use super::state::consistency::Consistency;
use super::state::key::{Key, Pattern};
use super::state::{DataEnvelope, Digest};
use crate::lane::{MessageTag, tags};
use crate::store::StoreError;

pub use rejection::Rejection;

/// Changes of one key in a message: a sender gathers fewer than its `ddata.max_delta_size`, whose largest
/// value this is.
pub(crate) const DELTAS_PER_ENTRY_MAX: usize = 10_000;

/// Bytes of values in one message, but for a single larger value: a frame of this size is on its way in a few
/// milliseconds.
pub(crate) const MESSAGE_BYTES: usize = 64 << 10;

/// One message between replicators.
#[derive(Clone, Debug)]
pub struct Msg {
    /// The receiver's incarnation; another one of its address ignores the message (S-230).
    pub to_uid: u64,
    /// What is said.
    pub body: DdataBody,
    /// About how many bytes it takes. Not sent.
    pub weight: usize,
}

impl PartialEq for Msg {
    fn eq(&self, other: &Self) -> bool {
        (self.to_uid, &self.body) == (other.to_uid, &other.body)
    }
}

impl Msg {
    tags! {
        /// Everything that replicators say.
        DDATA = 0x0200 on Bulk;
    }

    /// About how many bytes it takes.
    #[must_use]
    pub const fn payload_bytes(&self) -> usize {
        self.weight
    }

    /// The message's tag.
    #[must_use]
    pub const fn tag(&self) -> MessageTag {
        Self::DDATA
    }
}

/// What replicators say.
#[derive(Clone, Debug, PartialEq)]
pub enum DdataBody {
    /// What do you hold?
    Read {
        /// The asker's number of the operation.
        operation: u64,
        /// Of this key.
        key: Key,
    },
    /// This.
    ReadResult {
        /// The asker's number.
        operation: u64,
        /// `None`: nothing.
        envelope: Option<DataEnvelope>,
    },
    /// Merge this into what you hold and say so.
    Write {
        /// The asker's number of the operation.
        operation: u64,
        /// The key.
        key: Key,
        /// The whole value.
        envelope: DataEnvelope,
    },
    /// It is merged (and stored, where the key is durable).
    WriteAck {
        /// The asker's number.
        operation: u64,
    },
    /// It is not.
    WriteNack {
        /// The asker's number.
        operation: u64,
        /// Why.
        reason: Nack,
    },
    /// A value that a read found to be newer than yours.
    Repair {
        /// The key.
        key: Key,
        /// The whole value.
        envelope: DataEnvelope,
    },
    /// Digests of one chunk of the keys.
    Status {
        /// Which chunk.
        chunk: u32,
        /// Of how many, at least 1.
        total: u32,
        /// Every key of the chunk that the sender holds.
        digests: Vec<KeyDigest>,
    },
    /// Values I lack: send them.
    Request {
        /// Their keys.
        keys: Vec<Key>,
    },
    /// Values.
    Gossip {
        /// Whether the sender wants to have the receiver's.
        send_back: bool,
        /// The values.
        entries: Vec<CarriedValue>,
    },
    /// What the sender changed.
    Deltas {
        /// Answer with `WriteAck` or `WriteNack`, if set; there is one entry then, or none: who was away for
        /// long asks whether it is still a member.
        operation: Option<u64>,
        /// Changes per key.
        entries: Vec<DeltaEntry>,
    },
}

impl DdataBody {
    /// The number of the operation for which the sender waits for `WriteAck` or `WriteNack`; `None` if it
    /// waits for neither.
    pub(crate) const fn awaited_write(&self) -> Option<u64> {
        match self {
            Self::Write { operation, .. } => Some(*operation),
            Self::Deltas { operation, .. } => *operation,
            Self::Read { .. }
            | Self::ReadResult { .. }
            | Self::WriteAck { .. }
            | Self::WriteNack { .. }
            | Self::Repair { .. }
            | Self::Status { .. }
            | Self::Request { .. }
            | Self::Gossip { .. } => None,
        }
    }
}

/// Why a write was not accepted by a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nack {
    /// A delta before it is missing: send the whole value.
    Gap,
    /// The key holds a value of another type.
    WrongType {
        /// This one.
        held: DataType,
    },
    /// The replica's store failed.
    Store,
    /// The replica has no room for it, or the value breaks a limit.
    Limit,
    /// The replica does not serve yet, or the sender is no member for it.
    NotServing,
}

/// A key and the digest of its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyDigest {
    /// The key.
    pub key: Key,
    /// The digest.
    pub digest: Digest,
    /// Milliseconds since it was used anywhere, where keys expire; clocks of nodes are never compared.
    pub idle_ms: Option<u64>,
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct CarriedValue {
    /// The key.
    pub key: Key,
    /// The value.
    pub envelope: DataEnvelope,
    /// As in [`KeyDigest`].
    pub idle_ms: Option<u64>,
}

/// Successive changes of one key by the sender.
#[derive(Clone, Debug, PartialEq)]
pub struct DeltaEntry {
    /// The key.
    pub key: Key,
    /// The sender's change of this key before these; 0 if there was none.
    pub after: u64,
    /// The last of these.
    pub upto: u64,
    /// Up to when the sender's value is settled: they cannot be joined with a value that is settled further
    /// or less far.
    pub settled_ms: u64,
    /// The changes, oldest first.
    pub deltas: Vec<DataDelta>,
}

/// What the replicator waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Compare with somebody.
    Gossip,
    /// Tell changes.
    Deltas,
    /// Tell subscribers.
    Notify,
    /// Look for contributions of removed nodes.
    Pruning,
    /// The earliest deadline of an open operation.
    Operations,
    /// Store what was gathered.
    WriteBehind,
    /// Ask the store again for what it could not give.
    Load,
}

/// What an application asks of the replicator.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// The value of a key. Answered with [`Answer::Value`].
    Get {
        /// The key.
        key: Key,
        /// How many replicas are asked.
        consistency: Consistency,
        /// How long to wait (1 ms to 1 h; clamped).
        timeout: Duration,
    },
    /// A change of a value. Answered with [`Answer::Written`].
    Update {
        /// The key.
        key: Key,
        /// What the value is before its first change: an empty value of the operation's type.
        initial: DataValue,
        /// The change.
        op: DataOp,
        /// How many replicas have to have it.
        consistency: Consistency,
        /// How long to wait (1 ms to 1 h; clamped).
        timeout: Duration,
    },
    /// The end of a key, for good. Answered with [`Answer::Written`].
    Delete {
        /// The key.
        key: Key,
        /// How many replicas have to know.
        consistency: Consistency,
        /// How long to wait (1 ms to 1 h; clamped).
        timeout: Duration,
    },
    /// Hear of changes; the command's token names the subscriber. Answered with [`Answer::Subscribed`], and
    /// the values there are follow as changes.
    Subscribe {
        /// Of which keys.
        pattern: Pattern,
    },
    /// No more of that. Answered with [`Answer::Subscribed`].
    Unsubscribe {
        /// The token of the subscription.
        subscriber: u64,
    },
    /// The keys there are, without deleted ones. Answered with [`Answer::Keys`].
    Keys,
    /// How many replicas there are, this one included; 0 while this one does not serve. Answered with
    /// [`Answer::Replicas`].
    Replicas,
    /// Tell subscribers now. Answered with [`Answer::Subscribed`].
    Flush,
}

/// What became of a [`Command`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Of a read.
    Value(Result<Arc<DataValue>, ReadError>),
    /// Of an update or a deletion.
    Written(Result<(), WriteError>),
    /// Of a subscription.
    Subscribed(Result<(), SubscribeError>),
    /// The keys.
    Keys(Vec<Key>),
    /// How many replicas there are.
    Replicas(usize),
}

/// Why there is no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// None of the replicas asked has one.
    #[error("the key has no value")]
    NotFound,
    /// The key was deleted and can never be used again.
    #[error("the key was deleted")]
    Deleted,
    /// Too few replicas answered in time.
    #[error("{answered} of {required} replicas answered in time")]
    Timeout {
        /// Answered, this node included.
        answered: usize,
        /// Needed.
        required: usize,
    },
    /// There are not as many replicas as the consistency asks for.
    #[error("{required} replicas are needed, but there are only {present}")]
    NotEnoughReplicas {
        /// There are.
        present: usize,
        /// Needed.
        required: usize,
    },
    /// This node takes no part: no member, without the role, or its store could not be read, or not in the
    /// time given; or it was away for long ([`Event::AwayForLong`]) and has not heard in the time given that
    /// it is still a member.
    #[error("this node holds no replicas: it is no member, lacks the role, or still loads its store")]
    NotServing,
    /// The replicas answered, but this node's store failed to keep what they said of a durable key.
    #[error("the value was found, but this node's store failed to keep it")]
    StoreFailed,
    /// As many operations wait as may (`ddata.open_operations_max`).
    #[error("too many reads and writes are in progress; try again later")]
    TooManyOperations,
}

/// What became of a write that was not confirmed as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// Too few replicas confirmed it in time. It is not undone: this node has it and it keeps spreading.
    #[error("{confirmed} of {required} replicas confirmed in time; the write stays and spreads")]
    Unconfirmed {
        /// Confirmed, this node included.
        confirmed: usize,
        /// Needed.
        required: usize,
    },
    /// There are not as many replicas as the consistency asks for. It is not undone: this node has it and it
    /// spreads.
    #[error("{required} replicas are needed, but there are only {present}; the write stays and spreads")]
    NotEnoughReplicas {
        /// There are.
        present: usize,
        /// Needed.
        required: usize,
    },
    /// Replicas hold a value of another type for this key, and without them there are too few. It is not
    /// undone: this node has it, and neither value spreads to where the other one is. Each such node hears of
    /// it too ([`Rejection::WrongType`]): one of the two programs has to take another key.
    #[error("the value is a {written:?} here and a {held:?} on other replicas; the write stays here")]
    OtherType {
        /// What was written here.
        written: DataType,
        /// What they hold.
        held: DataType,
    },
    /// The store of this node, or of too many others, failed. It is in memory here and spreads, but may not
    /// be on disk.
    #[error("a store failed; the write is in memory and spreads, but may not be durable")]
    StoreFailed,
    /// The key was deleted and can never be used again. Nothing changed.
    #[error("the key was deleted; nothing changed")]
    Deleted,
    /// The operation does not fit the value's type or breaks a rule of it. Nothing changed.
    #[error("the operation was refused: {0}; nothing changed")]
    Refused(super::crdt::OpError),
    /// The value would be larger than `ddata.value_bytes_max`. Nothing changed.
    #[error("the value would be larger than {bytes_max} bytes; nothing changed")]
    TooLarge {
        /// The limit.
        bytes_max: usize,
    },
    /// As many keys are held as may be (`ddata.keys_max`), or as many bytes (`ddata.bytes_max`). Nothing
    /// changed.
    #[error("the replicator is full; nothing changed")]
    Full,
    /// As many operations wait as may (`ddata.open_operations_max`). Nothing changed.
    #[error("too many reads and writes are in progress; nothing changed, try again later")]
    TooManyOperations,
    /// This node takes no part, or had not read its store in the time given, or had not heard that it is
    /// still a member after it was away for long. Nothing changed.
    #[error(
        "this node holds no replicas: it is no member, lacks the role, or still loads its store; nothing changed"
    )]
    NotServing,
}

impl WriteError {
    /// Whether the write took place here and spreads all the same.
    #[must_use]
    pub const fn may_have_been_handled(&self) -> bool {
        match self {
            Self::Unconfirmed { .. }
            | Self::NotEnoughReplicas { .. }
            | Self::OtherType { .. }
            | Self::StoreFailed => true,
            Self::Deleted
            | Self::Refused(_)
            | Self::TooLarge { .. }
            | Self::Full
            | Self::TooManyOperations
            | Self::NotServing => false,
        }
    }
}

/// Why a subscription was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubscribeError {
    /// There are as many as may be (`ddata.subscribers_max`).
    #[error("there are too many subscribers; drop some or raise `ddata.subscribers_max`")]
    TooMany,
}

/// Events for subscribers and operators.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A key's value is another one than when these subscribers last heard of it. Values in between are not
    /// told.
    Changed {
        /// Tokens of the subscriptions.
        subscribers: Vec<u64>,
        /// The key.
        key: Key,
        /// What became of it.
        change: DataChange,
    },
    /// A value is larger than `ddata.log_data_size_exceeding`; said once per key and doubling.
    LargeValue {
        /// The key.
        key: Key,
        /// About so many bytes.
        bytes: usize,
    },
    /// The contributions of a removed node to a key are nobody's here now.
    Pruned {
        /// The key.
        key: Key,
        /// Whose they were.
        node: crate::ident::UniqueAddress,
    },
    /// The store cannot be read for the time being. It is asked again, first after a tenth of a second, later
    /// every five; this node takes no part until then. Said once.
    StoreAwaited {
        /// What it says.
        error: StoreError,
    },
    /// The store that had to be waited for is read: this node takes part.
    StoreRead,
    /// The store could not be read, or holds what is no replica's: this node takes no part until it is
    /// started again.
    StoreLost,
    /// What the store holds is older than markers of pruned nodes live, so that it could count twice what
    /// others have settled. This node takes no part; start it with `ddata.load_outdated`, or without the old
    /// store.
    StoreOutdated {
        /// For so long the replica was not alive.
        away: Duration,
    },
    /// This node stood still for longer than a marker of a removed node lives. It keeps what it holds, tells
    /// and answers nothing, and has operations wait, until every replica from before has said that this node
    /// is still a member, or was removed.
    AwayForLong {
        /// For so long it did not run, by the clock that went further.
        away: Duration,
    },
    /// After [`Event::AwayForLong`]: it serves again.
    StillReplica,
}

/// What became of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum DataChange {
    /// It has this value.
    Value(Arc<DataValue>),
    /// It was deleted, for good.
    Deleted,
    /// It was not used for too long and is forgotten; it may be used again.
    Expired,
}
