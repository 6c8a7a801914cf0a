//! The bodies of the fuzz targets as plain functions, so that a test can replay their corpora without
//! libFuzzer. Each one takes bytes from a peer and asserts what must hold for all bytes.

pub mod counting;
mod crdt;
mod decode;
mod inflate;
mod journal;
mod merge;
mod node;
mod paths;
mod stored;

use std::sync::LazyLock;

use quorate_core::config::Limits;
use quorate_core::message::{
    DdataMsg, DetectorMsg, JournalMsg, KvMsg, LoadMsg, MembershipMsg, PathMsg, ShardingMsg, SingletonMsg,
};

pub use crdt::crdt;
pub use decode::{
    ddata, frame_header, gossip_decode, handshake, mend_frame, mended_handshake, message_decode, sharding,
};
pub use inflate::inflate_bound;
pub use journal::journal;
pub use merge::gossip_merge;
pub use node::node;
pub use stored::{Restarted, restarted, stored};

/// A target by its name.
pub type Target = (&'static str, fn(&[u8]));

/// Every target, for whoever replays corpora.
pub const TARGETS: [Target; 12] = [
    ("gossip_decode", gossip_decode),
    ("message_decode", message_decode),
    ("frame_header", frame_header),
    ("handshake", handshake),
    ("sharding", sharding),
    ("gossip_merge", gossip_merge),
    ("inflate_bound", inflate_bound),
    ("node", node),
    ("crdt", crdt),
    ("ddata", ddata),
    ("journal", journal),
    ("stored", stored),
];

/// The kinds that [`message_decode`] picks from by its first byte: all that there are, and one that is none.
/// New ones come last, so that the first byte of an input goes on meaning the same.
pub const KINDS: [u16; 53] = [
    MembershipMsg::INIT_JOIN.kind,
    MembershipMsg::INIT_JOIN_ACK.kind,
    MembershipMsg::INIT_JOIN_NACK.kind,
    MembershipMsg::JOIN.kind,
    MembershipMsg::WELCOME.kind,
    MembershipMsg::LEAVE.kind,
    MembershipMsg::DOWN.kind,
    DetectorMsg::HEARTBEAT.kind,
    DetectorMsg::HEARTBEAT_RSP.kind,
    MembershipMsg::EXITING_CONFIRMED.kind,
    MembershipMsg::GOSSIP_STATUS.kind,
    MembershipMsg::GOSSIP.kind,
    ShardingMsg::SHARDING.kind,
    ShardingMsg::ENTITY.kind,
    ShardingMsg::ASK_REPLY.kind,
    u16::MAX,
    MembershipMsg::JOIN_REFUSED.kind,
    MembershipMsg::REMOVED.kind,
    ShardingMsg::HAND_BACK.kind,
    JournalMsg::VOTER.kind,
    JournalMsg::REQUEST.kind,
    JournalMsg::REPLY.kind,
    ShardingMsg::MARK.kind,
    ShardingMsg::MARK_ACK.kind,
    ShardingMsg::WATCH.kind,
    ShardingMsg::START.kind,
    ShardingMsg::STARTED.kind,
    ShardingMsg::REGISTRY.kind,
    ShardingMsg::SURVEY.kind,
    SingletonMsg::SINGLETON.kind,
    SingletonMsg::SINGLETON_MESSAGE.kind,
    SingletonMsg::SINGLETON_REPLY.kind,
    DdataMsg::DDATA.kind,
    LoadMsg::SAMPLE.kind,
    LoadMsg::PROBE.kind,
    LoadMsg::REPLY.kind,
    PathMsg::PATH.kind,
    PathMsg::PATH_MESSAGE.kind,
    PathMsg::PATH_MARK.kind,
    PathMsg::PATH_STATE.kind,
    PathMsg::PATH_REPLY.kind,
    KvMsg::KV_RANGES.kind,
    KvMsg::KV_ASK.kind,
    KvMsg::KV_ANSWER.kind,
    KvMsg::KV_CONTENT.kind,
    KvMsg::KV_LIST.kind,
    KvMsg::KV_LISTED.kind,
    KvMsg::KV_WATCH.kind,
    KvMsg::KV_NOTICE.kind,
    KvMsg::KV_TREES.kind,
    KvMsg::KV_HINT.kind,
    MembershipMsg::GOSSIP_DELTA.kind,
    MembershipMsg::GOSSIP_SEEN.kind,
];

static LIMITS: LazyLock<Limits> = LazyLock::new(Limits::default);
