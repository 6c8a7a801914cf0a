//! One link: a bidirectional stream of the one connection to a peer. Decides only that a connection on which
//! nobody acknowledges anything is closed, so that the next dial opens a new one; never what is on a link.
//! Spec: `docs/adr/0001`, `docs/WIRE.md` 3.6.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn::rustls::pki_types::CertificateDer;
use quinn::{Connection, ConnectionError, ReadError, RecvStream, SendStream, VarInt};
use quorate_driver::security::{PeerCertificate, Proved};
use quorate_driver::spi::{Datagrams, LinkRead, LinkReader, LinkWriter, Unproved};

use crate::datagrams::{DatagramReceiver, DatagramSender};
use crate::runtime::QuinnTimer;

/// How long the good end of a link waits for the peer to have received everything. The kernel goes on
/// delivering for a TCP connection that was closed; here nobody would.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// A peer that knows a connection acknowledges what is said on it within a fraction of this, on any network
/// that a cluster spans.
pub(crate) const ACK_WAIT: Duration = Duration::from_millis(500);

/// The receiving half.
#[derive(Debug)]
pub struct QuicReader {
    stream: RecvStream,
    /// Until the first answer on a link that this node dialed.
    unanswered: Option<UnansweredLink>,
    certificate: Option<PeerCertificate>,
    /// Datagrams of a link that the peer dialed.
    datagrams: Option<DatagramReceiver>,
}

/// A link that was dialed and not answered.
#[derive(Debug)]
struct UnansweredLink {
    connection: Connection,
    since: Instant,
    /// Acknowledgements that its connection had seen by then.
    acks: u64,
}

impl UnansweredLink {
    fn new(connection: Connection) -> Self {
        let (acks, since) = (connection.stats().frame_rx.acks, Instant::now());
        Self {
            connection,
            since,
            acks,
        }
    }

    /// Whether nobody seems to know the connection: who does acknowledges what is said on it, whatever it
    /// thinks of the link.
    fn is_dead(&self) -> bool {
        self.since.elapsed() >= ACK_WAIT && self.connection.stats().frame_rx.acks == self.acks
    }
}

/// What the peer of a connection has proved with.
fn certificate_of(connection: &Connection) -> Option<PeerCertificate> {
    let chain = connection
        .peer_identity()?
        .downcast::<Vec<CertificateDer<'static>>>();
    let chain = chain.ok()?;
    let (first, others) = chain.split_first()?;
    let others = others.iter().map(AsRef::as_ref);
    Some(PeerCertificate::with_intermediates(first, others))
}

/// The sending half.
#[derive(Debug)]
pub struct QuicWriter {
    stream: SendStream,
    datagrams: Option<Arc<DatagramSender>>,
    timer: QuinnTimer,
}

/// QUIC's error codes for what went wrong in the TLS handshake: 0x100 and the alert (RFC 9001, 4.8).
const TLS_ALERTS: std::ops::Range<u64> = 0x100..0x200;

/// Why a connection is lost, with those cases told apart in which a certificate was not believed.
pub(crate) fn lost(error: ConnectionError) -> io::Error {
    let code = match &error {
        ConnectionError::TransportError(error) => Some(u64::from(error.code)),
        ConnectionError::ConnectionClosed(close) => Some(u64::from(close.error_code)),
        ConnectionError::VersionMismatch
        | ConnectionError::ApplicationClosed(_)
        | ConnectionError::Reset
        | ConnectionError::TimedOut
        | ConnectionError::LocallyClosed
        | ConnectionError::CidsExhausted => None,
    };
    match code {
        Some(code) if TLS_ALERTS.contains(&code) => Unproved::error(error),
        Some(_) | None => error.into(),
    }
}

impl QuicReader {
    pub(crate) fn dialed(stream: RecvStream, connection: Connection) -> Self {
        Self {
            stream,
            certificate: certificate_of(&connection),
            unanswered: Some(UnansweredLink::new(connection)),
            datagrams: None,
        }
    }

    pub(crate) fn accepted(stream: RecvStream, connection: &Connection, datagrams: DatagramReceiver) -> Self {
        Self {
            stream,
            certificate: certificate_of(connection),
            unanswered: None,
            datagrams: Some(datagrams),
        }
    }
}

impl Drop for QuicReader {
    /// A link given up on whose connection nothing was acknowledged either: the peer may have been restarted
    /// and know nothing of it. Closed, so that the next dial opens a new one rather than waiting for the
    /// silence to be long enough. A peer that acknowledges and has not got to the link yet is alive, and
    /// other links share the connection.
    fn drop(&mut self) {
        if let Some(unanswered) = self.unanswered.take()
            && unanswered.is_dead()
        {
            unanswered.connection.close(VarInt::from_u32(0), b"no answer");
        }
    }
}

impl LinkReader for QuicReader {
    async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(buffer).await.map_err(|error| match error {
            ReadError::ConnectionLost(error) => lost(error),
            error @ (ReadError::Reset(_)
            | ReadError::ClosedStream
            | ReadError::IllegalOrderedRead
            | ReadError::ZeroRttRejected) => error.into(),
        })?;
        self.unanswered = None;
        Ok(count.unwrap_or(0))
    }

    async fn read_next(&mut self, buffer: &mut [u8]) -> io::Result<LinkRead> {
        let Some(mut datagrams) = self.datagrams.take() else {
            return self.read(buffer).await.map(LinkRead::Stream);
        };
        // Both wait without losing anything when they are dropped. Datagrams first: a busy stream is always
        // ready.
        let read = tokio::select! {
            biased;
            datagram = datagrams.next() => match buffer.get_mut(..datagram.len()) {
                Some(room) => {
                    room.copy_from_slice(&datagram);
                    Ok(LinkRead::Datagram(datagram.len()))
                }
                None => Ok(LinkRead::Datagram(0)),
            },
            read = self.read(buffer) => read.map(LinkRead::Stream),
        };
        self.datagrams = Some(datagrams);
        read
    }

    fn proved(&self) -> Proved {
        self.certificate
            .clone()
            .map_or(Proved::Nothing, Proved::Certificate)
    }
}

impl QuicWriter {
    /// Of a link that this node dialed: only who dials sends frames.
    pub(crate) fn dialed(stream: SendStream, connection: Connection, timer: QuinnTimer) -> Self {
        let datagrams = Some(Arc::new(DatagramSender::new(connection, &stream)));
        Self {
            stream,
            datagrams,
            timer,
        }
    }

    /// Of a link that carries no heartbeats.
    pub(crate) const fn only_stream(stream: SendStream, timer: QuinnTimer) -> Self {
        Self {
            stream,
            datagrams: None,
            timer,
        }
    }
}

impl LinkWriter for QuicWriter {
    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        Ok(self.stream.write_all(bytes).await?)
    }

    fn datagrams(&self) -> Option<Arc<dyn Datagrams>> {
        let datagrams = self.datagrams.clone()?;
        Some(datagrams)
    }

    async fn close(&mut self) -> io::Result<()> {
        self.stream.finish().map_err(io::Error::other)?;
        let received = self.timer.within(CLOSE_LIMIT, self.stream.stopped());
        received.await?.map(drop).map_err(io::Error::other)
    }
}
