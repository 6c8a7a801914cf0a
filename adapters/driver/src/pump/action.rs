//! What the pump and the hands that hold the sockets say to each other. Plain values: a test plays the hands.

use std::future::Future;
use std::pin::Pin;

use quorate_core::effect::HaltReason;
use quorate_core::event::Event;
use quorate_core::ident::Address;

use crate::proved::Proved;
use crate::transport::{LinkKind, Unproved};

/// One link, dialed or accepted. Never used again.
pub(crate) type LinkId = u64;

/// A task of a user's entity.
pub(crate) type EntityTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Bytes that were read, in a buffer that goes back to the reader: holding it is what keeps a reader from reading on.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    /// The reader's buffer.
    pub(crate) buffer: Vec<u8>,
    /// How much of it was read.
    pub(crate) len: usize,
}

impl Chunk {
    pub(crate) fn filled(&self) -> &[u8] {
        self.buffer.get(..self.len).unwrap_or(&self.buffer)
    }
}

/// What happened to a link.
#[derive(Debug)]
pub(crate) enum LinkInput {
    /// The link that `Action::Dial` asked for is open.
    Dialed(LinkId),
    /// The link that is being dialed can carry datagrams of so many bytes; 0 if this transport can and the peer takes none. Comes
    /// before `Dialed`.
    Datagrams(LinkId, usize),
    /// It could not be opened.
    DialFailed(LinkId, std::io::Error),
    /// Bytes arrived. No more will before `Action::Resume`.
    Received(LinkId, Chunk),
    /// A datagram arrived. No more will, and no bytes, before `Action::Resume`.
    Datagram(LinkId, Chunk),
    /// What `Action::Write` handed over is written; the buffer comes back.
    Written(LinkId, Vec<u8>),
    /// The transport has seen what the peer proves itself with. Comes before the first bytes.
    Identified(LinkId, Proved),
    /// The peer closed it. Nothing follows.
    Closed(LinkId),
    /// It broke. Nothing follows.
    Broken(LinkId),
    /// The peer did not prove who it is, or did not believe this node. Nothing follows.
    Unproved(LinkId, Unproved),
}

impl LinkInput {
    pub(crate) const fn link(&self) -> LinkId {
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

/// What the hands have to do.
pub(crate) enum Action {
    /// Open a link.
    Dial {
        link: LinkId,
        to: Address,
        kind: LinkKind,
    },
    /// Write these bytes behind what was handed over before.
    Write { link: LinkId, bytes: Vec<u8> },
    /// Send this beside the stream.
    Datagram { link: LinkId, bytes: Vec<u8> },
    /// Read on, into this buffer.
    Resume { link: LinkId, chunk: Chunk },
    /// Write what was handed over, then end the stream and read until the peer does.
    Drain(LinkId),
    /// Write what was handed over, then close.
    Finish(LinkId),
    /// Close now.
    Abort(LinkId),
    /// Run an entity.
    Start(EntityTask),
    /// Tell those who listen.
    Publish(Event),
    /// Everything was said: finish.
    Halt(HaltReason),
}
