//! What links and the hands that hold the sockets say to each other. Plain values: a test plays the hands.

use alloc::string::String;
use alloc::vec::Vec;

use quorate_core::event::SeedCause;
use quorate_core::ident::Address;
use quorate_core::time::Instant;
use quorate_core::wire::handshake::LinkKind;

use crate::authentication::PeerIdentity;

/// One link, dialed or accepted. Never used again.
pub type LinkId = u64;

/// Bytes that were read, in a buffer that goes back to the reader: holding it is what keeps a reader from
/// reading on.
#[derive(Debug, Default)]
pub struct ReadChunk {
    /// The reader's buffer.
    pub buffer: Vec<u8>,
    /// How much of it was read.
    pub len: usize,
    /// When it was read: gossip that has waited for longer than [`MembershipConfig::gossip_time_to_live`]
    /// since then is dropped. `None`: just now.
    ///
    /// [`MembershipConfig::gossip_time_to_live`]: quorate_core::config::MembershipConfig::gossip_time_to_live
    pub read_at: Option<Instant>,
}

impl ReadChunk {
    /// What was read.
    #[must_use]
    pub fn filled(&self) -> &[u8] {
        self.buffer.get(..self.len).unwrap_or(&self.buffer)
    }
}

impl From<&[u8]> for ReadChunk {
    fn from(bytes: &[u8]) -> Self {
        Self {
            buffer: bytes.into(),
            len: bytes.len(),
            read_at: None,
        }
    }
}

/// What happened to a link.
#[derive(Debug)]
pub enum LinkInput {
    /// The link that [`LinkOrder::Dial`] asked for is open.
    Dialed(LinkId),
    /// The link that is being dialed can carry datagrams of so many bytes; 0 if this transport can and the
    /// peer takes none. Comes before `Dialed`. Never, on transports without datagrams.
    Datagrams(LinkId, usize),
    /// It could not be opened. [`SeedCause::Security`]: one end did not believe the other.
    DialFailed(LinkId, SeedCause),
    /// Bytes arrived. No more may before [`LinkOrder::Resume`].
    Received(LinkId, ReadChunk),
    /// A datagram arrived. No more may, and no bytes, before [`LinkOrder::Resume`].
    Datagram(LinkId, ReadChunk),
    /// What [`LinkOrder::Write`] handed over is written; the buffer comes back.
    Written(LinkId, Vec<u8>),
    /// The transport has seen what the peer proves itself with. Comes before the first bytes.
    Identified(LinkId, PeerIdentity),
    /// The peer closed it. Nothing follows.
    Closed(LinkId),
    /// It broke. Nothing follows.
    Broken(LinkId),
    /// The peer did not prove who it is, or did not believe this node; why. Nothing follows.
    Unproved(LinkId, String),
}

impl LinkInput {
    /// Which link.
    #[must_use]
    pub const fn link(&self) -> LinkId {
        match self {
            Self::Dialed(link)
            | Self::DialFailed(link, _)
            | Self::Datagrams(link, _)
            | Self::Received(link, _)
            | Self::Datagram(link, _)
            | Self::Written(link, _)
            | Self::Identified(link, _)
            | Self::Unproved(link, _)
            | Self::Broken(link)
            | Self::Closed(link) => *link,
        }
    }
}

/// What the hands have to do, in this order.
#[derive(Debug)]
pub enum LinkOrder {
    /// Open a link; then [`LinkInput::Dialed`] or [`LinkInput::DialFailed`].
    Dial {
        /// Its number from now on.
        link: LinkId,
        /// Where to.
        to: Address,
        /// What it is for: a transport may give the control link precedence.
        kind: LinkKind,
    },
    /// Write these bytes behind what was handed over before; then [`LinkInput::Written`], with the buffer.
    Write {
        /// Where.
        link: LinkId,
        /// What.
        bytes: Vec<u8>,
    },
    /// Send this beside the stream. Only where there was [`LinkInput::Datagrams`].
    Datagram {
        /// Where.
        link: LinkId,
        /// What.
        bytes: Vec<u8>,
    },
    /// Read on, into this buffer.
    Resume {
        /// Where.
        link: LinkId,
        /// The buffer; all of it may be filled.
        chunk: ReadChunk,
    },
    /// Write what was handed over, then end the stream and read until the peer does.
    Drain(LinkId),
    /// Write what was handed over, then close. Nothing more is wanted of it.
    Finish(LinkId),
    /// Close now. Nothing more is wanted of it.
    Abort(LinkId),
}
