//! One link: a bidirectional stream. Decides nothing.

use std::io;
use std::time::Duration;

use quinn::rustls::pki_types::CertificateDer;
use quinn::{Connection, ConnectionError, ReadError, RecvStream, SendStream, VarInt};
use quorate_driver::{LinkReader, LinkWriter, PeerCertificate, Unproved};

/// How long the good end of a link waits for the peer to have received everything. The kernel goes on delivering for a TCP
/// connection that was closed; here nobody would.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// The receiving half.
#[derive(Debug)]
pub struct QuicReader {
    stream: RecvStream,
    /// The connection, until the first answer on a link that this node dialed.
    unanswered: Option<Connection>,
    certificate: Option<PeerCertificate>,
}

/// What the peer of a connection has proved with.
fn certificate_of(connection: &Connection) -> Option<PeerCertificate> {
    let chain = connection
        .peer_identity()?
        .downcast::<Vec<CertificateDer<'static>>>();
    chain
        .ok()?
        .first()
        .map(|certificate| PeerCertificate::new(certificate))
}

/// The sending half.
#[derive(Debug)]
pub struct QuicWriter(SendStream);

/// QUIC's error codes for what went wrong in the TLS handshake: 0x100 and the alert (RFC 9001, 4.8).
const TLS_ALERTS: std::ops::Range<u64> = 0x100..0x200;

/// Why a connection is lost, with those cases told apart in which a certificate was not believed.
pub(crate) fn lost(error: ConnectionError) -> io::Error {
    let code = match &error {
        ConnectionError::TransportError(error) => Some(u64::from(error.code)),
        ConnectionError::ConnectionClosed(close) => Some(u64::from(close.error_code)),
        _ => None,
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
            unanswered: Some(connection),
        }
    }

    pub(crate) fn accepted(stream: RecvStream, connection: &Connection) -> Self {
        Self {
            stream,
            certificate: certificate_of(connection),
            unanswered: None,
        }
    }
}

impl Drop for QuicReader {
    /// A link given up without any answer casts doubt on its connection: the peer may have been restarted and know nothing of
    /// it. Closed, so that the next dial opens a new one rather than waiting for the silence to be long enough.
    fn drop(&mut self) {
        if let Some(connection) = self.unanswered.take() {
            connection.close(VarInt::from_u32(0), b"no answer");
        }
    }
}

impl LinkReader for QuicReader {
    async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(buffer).await.map_err(|error| match error {
            ReadError::ConnectionLost(error) => lost(error),
            error => error.into(),
        })?;
        self.unanswered = None;
        Ok(count.unwrap_or(0))
    }

    fn peer_certificate(&self) -> Option<PeerCertificate> {
        self.certificate.clone()
    }
}

impl QuicWriter {
    pub(crate) const fn new(stream: SendStream) -> Self {
        Self(stream)
    }
}

impl LinkWriter for QuicWriter {
    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        Ok(self.0.write_all(bytes).await?)
    }

    async fn close(&mut self) -> io::Result<()> {
        self.0.finish().map_err(io::Error::other)?;
        let received = tokio::time::timeout(CLOSE_LIMIT, self.0.stopped());
        received.await?.map(drop).map_err(io::Error::other)
    }
}
