//! What the driver needs of a network: a place to be reached at, and one-way streams of bytes to peers.
//! Decides nothing: framing, handshakes, retries and limits are the pump's. Spec: `ARCHITECTURE.md`.
//!
//! A link is a pair of byte streams between two nodes, dialed by one of them; TCP maps it to a connection,
//! QUIC to a bidirectional stream of one connection per peer. The kind of a link is told to the transport so
//! that it can give the control link precedence.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use quorate_core::ident::Address;
pub use quorate_core::wire::handshake::LinkKind;

use crate::proved::Proved;

/// A peer that did not prove who it is, or that did not believe this node: what a transport with certificates
/// puts into its errors, so that the driver can count it and say why. The reason is a library's or ours,
/// never a peer's bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unproved(String);

impl Unproved {
    /// An error that says so.
    pub fn error(reason: impl ToString) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, Self(reason.to_string()))
    }

    /// Whether that is what an error says.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

/// A network.
pub trait Transport: Clone + Send + Sync + 'static {
    /// Where peers reach this node.
    type Listener: Listener<Reader = Self::Reader, Writer = Self::Writer>;
    /// The receiving half of a link.
    type Reader: LinkReader;
    /// The sending half of a link.
    type Writer: LinkWriter;

    /// Listens at `address`, a `host:port` in which port 0 lets the system choose.
    ///
    /// # Errors
    /// Whatever the system says, a port in use for instance.
    ///
    /// # Cancel safety
    /// Dropping it listens nowhere.
    fn bind(&self, address: &str) -> impl Future<Output = io::Result<Self::Listener>> + Send;

    /// Opens a link to a peer. The driver limits the time this may take.
    ///
    /// # Errors
    /// Whatever the system says, a refused connection for instance.
    ///
    /// # Cancel safety
    /// Dropping it gives up; a connection that was under way is closed.
    fn dial(
        &self,
        to: &Address,
        kind: LinkKind,
    ) -> impl Future<Output = io::Result<(Self::Reader, Self::Writer)>> + Send;

    /// Whether the node's loop should drive the links itself, instead of a task for each. That saves two
    /// changes of task for every batch of messages, and is right where reading and writing take about as long
    /// as copying the bytes or encrypting them. What takes longer, handshakes above all, which strangers may
    /// ask for, happens in tasks of their own in any case: dialing and [`LinkReader::establish`]. False
    /// unless an adapter says otherwise.
    fn links_run_in_loop(&self) -> bool {
        false
    }

    /// What became of handshakes that this transport does itself, before there is a link. It is added to what
    /// the driver counts of links that shake hands. All zero unless an adapter says otherwise.
    fn handshakes(&self) -> HandshakeStats {
        HandshakeStats::default()
    }
}

/// Handshakes below links: see [`Transport::handshakes`]. Counted since the transport was made; gauges say
/// so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandshakeStats {
    /// Gauge: handshakes that peers began and that are not finished.
    pub pending: u64,
    /// Peers without a link that had to go for others.
    pub displaced: u64,
    /// Handshakes that were not finished in time.
    pub timed_out: u64,
}

/// A link that a peer opened.
#[derive(Debug)]
pub struct Accepted<R, W> {
    /// Where it came from: only for limits per source and for logs, never for identity.
    pub remote: SocketAddr,
    /// The receiving half.
    pub reader: R,
    /// The sending half.
    pub writer: W,
}

/// Where peers reach this node.
pub trait Listener: Send + 'static {
    /// The receiving half of a link.
    type Reader: LinkReader;
    /// The sending half of a link.
    type Writer: LinkWriter;

    /// The port in use.
    ///
    /// # Errors
    /// Whatever the system says.
    fn local_address(&self) -> io::Result<SocketAddr>;

    /// The next link that a peer opens.
    ///
    /// # Errors
    /// [`Unproved`] for a peer that was turned away before it had a link: the driver counts it. Else whatever
    /// the system says; the driver waits a little and goes on.
    ///
    /// # Cancel safety
    /// Dropping it loses no link that was not yet accepted.
    fn accept(&mut self) -> impl Future<Output = io::Result<Accepted<Self::Reader, Self::Writer>>> + Send;
}

/// What one read has brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkRead {
    /// So many bytes of the stream; 0 at its end.
    Stream(usize),
    /// A datagram of so many bytes, whole.
    Datagram(usize),
}

/// The way of a link for single frames beside its stream, on a transport that has one: they may get lost, and
/// do not wait for what was lost of the stream. The driver sends heartbeats so.
pub trait Datagrams: fmt::Debug + Send + Sync {
    /// Most bytes that one may have now; 0 if the peer takes none. May change while the link lives.
    fn max_size(&self) -> usize;

    /// Hands one over, or says that it cannot be: it has become too long, or the peer takes none. Never
    /// waits; what has no room takes the place of older ones.
    fn send(&self, bytes: &[u8]) -> bool;
}

/// A way to write to a link from any thread and without waiting, beside its [`LinkWriter`]: what callers have
/// to say then needs no other thread. The driver never has both write at the same time.
pub trait DirectWriter: fmt::Debug + Send + Sync {
    /// Writes some bytes and says how many.
    ///
    /// # Errors
    /// `WouldBlock` if the system has no room for any; all else means that the link is broken.
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize>;
}

/// The receiving half of a link.
pub trait LinkReader: Send + 'static {
    /// Reads some bytes into `buffer` and says how many; 0 at the end of the stream.
    ///
    /// # Errors
    /// The link is broken.
    ///
    /// # Cancel safety
    /// The driver drops it only together with the reader.
    fn read(&mut self, buffer: &mut [u8]) -> impl Future<Output = io::Result<usize>> + Send;

    /// The same for transports whose links carry datagrams too, each of at most 2 KiB (`buffer` has more);
    /// longer ones are dropped.
    ///
    /// # Errors
    /// The link is broken.
    ///
    /// # Cancel safety
    /// As [`Self::read`].
    fn read_next(&mut self, buffer: &mut [u8]) -> impl Future<Output = io::Result<LinkRead>> + Send {
        let read = self.read(buffer);
        async { read.await.map(LinkRead::Stream) }
    }

    /// Whether [`Self::establish`] has nothing to do.
    fn is_established(&self) -> bool {
        true
    }

    /// Shakes hands, where a link that was accepted has to do that before it carries bytes. The driver limits
    /// the time this may take; whoever reads without it shakes hands within the first read.
    ///
    /// # Errors
    /// [`Unproved`] if one side does not believe the other; else the link is broken.
    ///
    /// # Cancel safety
    /// The driver drops it only together with the reader.
    fn establish(&mut self) -> impl Future<Output = io::Result<()>> + Send {
        async { Ok(()) }
    }

    /// What the peer has proved, on a transport that asks for something; known from the first read on.
    fn proved(&self) -> Proved {
        Proved::Nothing
    }
}

/// The sending half of a link.
pub trait LinkWriter: Send + 'static {
    /// Writes all bytes and flushes them.
    ///
    /// # Errors
    /// The link is broken.
    ///
    /// # Cancel safety
    /// The driver drops it only together with the writer.
    fn write_all(&mut self, bytes: &[u8]) -> impl Future<Output = io::Result<()>> + Send;

    /// The link's way for datagrams, if the transport has one: asked once, when the link was dialed.
    fn datagrams(&self) -> Option<Arc<dyn Datagrams>> {
        None
    }

    /// The link's way for bytes past its task, if the transport has one: asked once, when the link begins.
    /// The driver lets go of it before the writer.
    fn direct(&self) -> Option<Arc<dyn DirectWriter>> {
        None
    }

    /// Ends the stream in good order.
    ///
    /// # Errors
    /// The link is broken; nobody minds.
    ///
    /// # Cancel safety
    /// Dropping it ends the stream in bad order.
    fn close(&mut self) -> impl Future<Output = io::Result<()>> + Send;
}
