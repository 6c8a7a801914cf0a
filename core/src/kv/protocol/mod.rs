//! What nodes say to each other about buckets of the keyed store, what callers want of them, what users hear.
//! Types only. Spec: sharding 2.5, 5.6, 10.19.

mod content;
pub mod counters;
pub mod hints;
pub mod listing;
pub mod ranges;
pub mod trees;
pub mod watching;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use crate::ddata::state::key::{Key, Pattern};
use crate::ident::UniqueAddress;
use crate::journal::protocol::JournalCommandError;
use crate::journal::state::StoreId;
use crate::kv::state::bucket::BucketName;
use crate::kv::state::configuration::Configuration;
use crate::kv::state::exchange::{KvAnswer, KvAsk};
use crate::kv::state::listed::{KeyPage, PageWanted};
use crate::kv::state::outcome::{CallAnswer, CallError, CallGoal};
use crate::kv::state::part::PartError;
use crate::kv::state::settings::{BucketSettings, BucketSettingsError};
use crate::kv::state::table::RangeId;
use crate::lane::{MessageTag, tags};
use crate::sharding::state::fields::FieldDifferences;
use crate::token::Token;

pub use content::{RangeContent, StoreAt};
use hints::HintStatement;
use listing::{ListAnswer, ListAsk};
use ranges::{RangeCommand, RangeCommandError, RangeEvent};
use trees::TreeStatement;
use watching::{KeyWatchStatement, NoticeStatement, WatchNews};

/// Buckets of a node at most: a table and a timer's work for each.
pub const BUCKETS_MAX: usize = 64;

/// Ranges that one message speaks of at most: a few tens of kilobytes, which every link takes at once.
pub const RANGES_PER_MESSAGE_MAX: usize = 256;

/// Stores that a table names at most: those of the members of one role.
pub const STORES_MAX: usize = 16_384;

/// What a message costs beside the bytes of users.
const MESSAGE_BYTES: usize = 160;

/// One message about a bucket between two nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Msg {
    /// The receiver's incarnation; another one of its address ignores the message.
    pub to_uid: u64,
    /// Which bucket.
    pub bucket: BucketName,
    /// What is said.
    pub body: BucketBody,
}

/// What is said about a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BucketBody {
    /// Who owns what.
    Ranges(RangeStatement),
    /// To an owner, about a key.
    Ask(Box<OwnerAsk>),
    /// An owner's answer.
    Answer(Box<OwnerAnswer>),
    /// The table, or what an owner holds.
    Content(RangeContent),
    /// Between two owners, about what they hold.
    Trees(Box<TreeStatement>),
    /// To an owner, about which keys there are.
    List(Box<ListAsk>),
    /// An owner's answer.
    Listed(Box<ListAnswer>),
    /// To an owner, about changes of keys.
    Watch(KeyWatchStatement),
    /// An owner tells of changes.
    Notice(NoticeStatement),
    /// About what is kept for an owner that is away.
    Hint(Box<HintStatement>),
}

impl Msg {
    tags! {
        /// `BucketRanges`; unstable.
        KV_RANGES = 0x0160 on Control;
        /// `BucketAsk`; unstable.
        KV_ASK = 0x0161 on Bulk;
        /// `BucketAnswer`; unstable.
        KV_ANSWER = 0x0162 on Bulk;
        /// `BucketContent`; unstable.
        KV_CONTENT = 0x0163 on Bulk;
        /// `BucketTrees`; unstable.
        KV_TREES = 0x0164 on Bulk;
        /// `BucketList`; unstable.
        KV_LIST = 0x0168 on Bulk;
        /// `BucketListed`; unstable.
        KV_LISTED = 0x0169 on Bulk;
        /// `BucketWatch`; unstable.
        KV_WATCH = 0x016a on Bulk;
        /// `BucketNotice`; unstable.
        KV_NOTICE = 0x016b on Bulk;
        /// `BucketHint`; unstable.
        KV_HINT = 0x016c on Bulk;
    }

    /// The message's tag.
    #[must_use]
    pub const fn tag(&self) -> MessageTag {
        match &self.body {
            BucketBody::Ranges(_) => Self::KV_RANGES,
            BucketBody::Ask(_) => Self::KV_ASK,
            BucketBody::Answer(_) => Self::KV_ANSWER,
            BucketBody::Content(_) => Self::KV_CONTENT,
            BucketBody::Trees(_) => Self::KV_TREES,
            BucketBody::List(_) => Self::KV_LIST,
            BucketBody::Listed(_) => Self::KV_LISTED,
            BucketBody::Watch(_) => Self::KV_WATCH,
            BucketBody::Notice(_) => Self::KV_NOTICE,
            BucketBody::Hint(_) => Self::KV_HINT,
        }
    }

    /// About how many bytes it takes. Linear in its parts.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        MESSAGE_BYTES + self.body.bytes()
    }
}

impl BucketBody {
    /// About how many bytes of users it has.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Ranges(_) | Self::Watch(_) => 0,
            Self::Notice(notice) => notice.bytes(),
            Self::Hint(statement) => statement.bytes(),
            Self::Ask(asked) => asked.ask.bytes(),
            Self::Answer(answered) => answered.answer.bytes(),
            Self::Content(RangeContent::Part { part, .. }) => part.bytes(),
            Self::Listed(answered) => answered.bytes(),
            Self::Trees(statement) => statement.bytes(),
            Self::List(_) | Self::Content(RangeContent::Table { .. } | RangeContent::Pull { .. }) => 0,
        }
    }
}

/// What is said about who owns what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeStatement {
    /// A member to the oldest of the bucket's role: it has opened the bucket, and asks for the table.
    /// Repeated until there is one.
    Look {
        /// How it has opened it.
        settings: BucketSettings,
        /// Its store, if it has the bucket's role.
        store: Option<StoreId>,
    },
    /// The coordinator to a member: the bucket has other settings.
    Differs {
        /// These.
        settings: BucketSettings,
    },
    /// The coordinator to a member of the role: has it opened the bucket?
    Seek {
        /// Of this coordinator.
        term: Token,
    },
    /// A member to the coordinator: it has not.
    NotOpen {
        /// The coordinator's.
        term: Token,
    },
    /// The coordinator to a store: which configurations does it know?
    Recall {
        /// Of this coordinator.
        term: Token,
        /// Which store.
        store: StoreId,
    },
    /// A store to the coordinator: these.
    Found {
        /// The coordinator's.
        term: Token,
        /// Which store.
        store: StoreId,
        /// A part of them, by range.
        known: Vec<(RangeId, Configuration)>,
        /// Whether it is the last part.
        is_last: bool,
    },
    /// The coordinator to a store: these are the owners now.
    Tell {
        /// Of this coordinator.
        term: Token,
        /// Which store.
        store: StoreId,
        /// The ranges.
        ranges: Vec<(RangeId, Configuration)>,
    },
    /// A store to the coordinator: it has adopted that, or newer ones.
    Adopted {
        /// The coordinator's.
        term: Token,
        /// Which store.
        store: StoreId,
        /// The ranges.
        ranges: Vec<AdoptedRange>,
    },
    /// The coordinator to an owner: give the others what they lack of a range.
    Repair {
        /// Of this coordinator.
        term: Token,
        /// Which store.
        store: StoreId,
        /// Which range.
        range: RangeId,
    },
    /// A newcomer to an owner: adopt this, and say so.
    Refuse {
        /// Which store is meant.
        store: StoreId,
        /// Of which range.
        range: RangeId,
        /// The configuration.
        configuration: Configuration,
    },
    /// An owner to the newcomer: it refuses what was before.
    Refuses {
        /// Which store.
        store: StoreId,
        /// Of which range.
        range: RangeId,
        /// Its epoch now.
        epoch: u64,
    },
}

/// How far a store is with a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdoptedRange {
    /// Which range.
    pub range: RangeId,
    /// The epoch of the configuration that it has adopted.
    pub epoch: u64,
    /// Of a newcomer: whose content it has merged.
    pub merged: Vec<StoreId>,
}

/// A question to an owner of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerAsk {
    /// Which store is meant.
    pub store: StoreId,
    /// The key's range.
    pub range: RangeId,
    /// Its owners, as far as who asks knows.
    pub configuration: Configuration,
    /// The key.
    pub key: Key,
    /// The asking node's number of the call; the answer carries it.
    pub call: u64,
    /// Which step of the call; the answer carries it.
    pub step: u32,
    /// What is asked.
    pub ask: KvAsk,
}

/// An owner's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerAnswer {
    /// Which store answers.
    pub store: StoreId,
    /// The asking node's number of the call.
    pub call: u64,
    /// Which step of it.
    pub step: u32,
    /// The epoch under which it was asked.
    pub epoch: u64,
    /// What is answered.
    pub answer: KvAnswer,
}

/// What a caller wants of the keyed store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Open a bucket on this node, which can call it from then on and, if it has the bucket's role, owns
    /// ranges of it. Answered with `Done` once the cluster has accepted the settings and the coordinator has
    /// sent its table; a bucket stays open as long as the node lives.
    Open {
        /// Its name.
        bucket: BucketName,
        /// The same on every node.
        settings: BucketSettings,
    },
    /// Read or write a key. Answered with [`Answer::Called`].
    Call {
        /// In which bucket.
        bucket: BucketName,
        /// The key.
        key: Key,
        /// What is wanted.
        goal: CallGoal,
        /// How long to wait (1 ms to 1 h; clamped).
        timeout: Duration,
    },
    /// Which keys of a range have a value. Answered with [`Answer::Listed`].
    List {
        /// In which bucket.
        bucket: BucketName,
        /// What is wanted.
        wanted: PageWanted,
        /// How long to wait (1 ms to 1 h; clamped).
        timeout: Duration,
    },
    /// Hear of changes: [`Event::Watched`], which names the command's token. Answered with `Done`.
    Watch {
        /// In which bucket.
        bucket: BucketName,
        /// Of which keys.
        pattern: Pattern,
    },
    /// Hear no more of them. Answered with `Done`.
    Unwatch {
        /// The token of the command that began it.
        watch: u64,
    },
    /// Move, repair or replace; on the node that coordinates the bucket's ranges. Answered with `Done` when
    /// it has been taken up.
    Ranges {
        /// Of which bucket.
        bucket: BucketName,
        /// What is to be done.
        command: RangeCommand,
    },
}

/// What became of a [`Command`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Of a call.
    Called(Result<CallAnswer, CallError>),
    /// Of a listing.
    Listed(Result<KeyPage, CallError>),
}

/// Why a command was refused. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KvCommandError {
    /// Settings that no bucket can have.
    #[error(transparent)]
    Settings(#[from] BucketSettingsError),
    /// The bucket has other settings on this node, in its store or in the cluster.
    #[error("the bucket has other settings: {difference}")]
    Differs {
        /// Which, each with both values.
        difference: FieldDifferences,
    },
    /// The bucket is durable, and the node has no store.
    #[error("the bucket is durable, and this node has no store")]
    NoStore,
    /// What the node's store holds of the bucket is damaged. Start the node with another store.
    #[error("what the store holds of the bucket is damaged")]
    StoreDamaged,
    /// This node has as many buckets as it may have, or the cluster as many registrations.
    #[error("a node opens at most {BUCKETS_MAX} buckets, and the cluster keeps no more of them")]
    TooManyBuckets,
    /// This node has not opened the bucket, or it was refused.
    #[error("the bucket is not open on this node")]
    NotOpen,
    /// Not every read of the bucket meets every write: it keeps no logs.
    #[error("a bucket keeps logs of durable entities only if its least R and W are more than N together")]
    NotStrict,
    /// As many calls are open as may be (`kv.open_calls_max`).
    #[error("too many calls are open; try again later")]
    TooManyCalls,
    /// About ranges.
    #[error(transparent)]
    Ranges(#[from] RangeCommandError),
}

/// What the machine waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The earliest deadline or repetition of an open call.
    Calls,
    /// What was not answered is said again: looks, steps of moves.
    Repeat,
    /// Owners of ranges compare what they hold.
    Compare,
}

/// What happened to a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// This node coordinates the bucket's ranges from now on.
    Coordinating {
        /// Under this term.
        term: Token,
        /// So many ranges were found with owners.
        ranges: usize,
    },
    /// A store has adopted what this node has not decided: its table was none, and is found again.
    CoordinatorOutdone,
    /// The voters that keep its table refuse this node: another one has it, or they have no room. It claims
    /// it anew after a while; meanwhile no range moves by its word.
    CoordinatorRefused {
        /// Why.
        error: JournalCommandError,
    },
    /// What voters keep of its table is damaged: nothing is decided by it.
    TableDamaged,
    /// Of a node that coordinates: something was decided about ranges.
    Ranges(RangeEvent),
    /// Of the oldest member: another node has opened the bucket with other settings, and takes no part.
    RefusedOn {
        /// Which node.
        node: UniqueAddress,
        /// In what it differs.
        difference: FieldDifferences,
    },
    /// This node has opened the bucket with other settings than the rest, and takes no part until those are
    /// gone.
    Refused {
        /// In what they differ.
        difference: FieldDifferences,
    },
    /// What the node's store holds of it is damaged: this node takes no part until it is started with another
    /// store.
    StoreDamaged,
    /// This node holds as much of the bucket as it may, and has refused a new value; it is said again once it
    /// had room.
    StoreFull {
        /// So many bytes.
        bytes: usize,
    },
    /// A subscriber hears something.
    Watched {
        /// The token of its command.
        watch: u64,
        /// What.
        news: WatchNews,
    },
    /// This node's store has become an owner of a range: it holds what the others held.
    OwnerOf {
        /// Which range.
        range: RangeId,
    },
    /// This node's store owns a range no more.
    OwnerNoMore {
        /// Which range.
        range: RangeId,
    },
}

/// What was wrong with a peer's message about a bucket; nothing was changed by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// The bucket has no such range.
    #[error("the bucket has no range {}", .0.0)]
    NoRange(RangeId),
    /// The key lies in another range.
    #[error("the key does not lie in range {}", .0.0)]
    KeyElsewhere(RangeId),
    /// It speaks for a store that is another member's.
    #[error("the store is another member's")]
    NotItsStore,
    /// In place of an owner that is none, by a store that is one, or in a bucket that is not sloppy.
    #[error("nobody stands in so for an owner")]
    NoStandIn,
    /// A coordinator speaks that is none.
    #[error("the node does not coordinate the bucket")]
    NotCoordinating,
    /// A configuration that no range can have.
    #[error("a range cannot have these owners")]
    Owners,
    /// A part that no owner sends.
    #[error(transparent)]
    Part(#[from] PartError),
    /// An entry of a part that no owner holds.
    #[error("the entry of a key cannot be read")]
    Entry,
    /// Sums or keys of a tree that nobody asked for.
    #[error("what was said of a tree is not what was asked for")]
    Tree,
    /// More buckets than there may be.
    #[error("the cluster has too many buckets")]
    TooManyBuckets,
}
