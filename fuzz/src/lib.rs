//! The bodies of the fuzz targets as plain functions, so that a test can replay their corpora without libFuzzer. Each one
//! takes bytes from a peer and asserts what must hold for all bytes.

pub mod counting;
mod decode;
mod inflate;
mod merge;
mod node;

use std::sync::LazyLock;

use quorate_core::config::Limits;
use quorate_core::wire::kind;

pub use decode::{
    frame_header, gossip_decode, handshake, mend_frame, mended_handshake, message_decode, sharding,
};
pub use inflate::inflate_bound;
pub use merge::gossip_merge;
pub use node::node;

/// A target by its name.
pub type Target = (&'static str, fn(&[u8]));

/// Every target, for whoever replays corpora.
pub const TARGETS: [Target; 8] = [
    ("gossip_decode", gossip_decode),
    ("message_decode", message_decode),
    ("frame_header", frame_header),
    ("handshake", handshake),
    ("sharding", sharding),
    ("gossip_merge", gossip_merge),
    ("inflate_bound", inflate_bound),
    ("node", node),
];

/// The kinds that [`message_decode`] picks from by its first byte.
pub const KINDS: [u16; 18] = [
    kind::INIT_JOIN,
    kind::INIT_JOIN_ACK,
    kind::INIT_JOIN_NACK,
    kind::JOIN,
    kind::WELCOME,
    kind::LEAVE,
    kind::DOWN,
    kind::HEARTBEAT,
    kind::HEARTBEAT_RSP,
    kind::EXITING_CONFIRMED,
    kind::GOSSIP_STATUS,
    kind::GOSSIP,
    kind::SHARDING,
    kind::ENTITY,
    kind::ASK_REPLY,
    u16::MAX,
    kind::JOIN_REFUSED,
    kind::REMOVED,
];

static LIMITS: LazyLock<Limits> = LazyLock::new(Limits::default);
