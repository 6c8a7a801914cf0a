//! One link: a bidirectional stream. Decides nothing.

use std::io;
use std::time::Duration;

use quinn::{Connection, RecvStream, SendStream, VarInt};
use quorate_driver::{LinkReader, LinkWriter};

/// How long the good end of a link waits for the peer to have received everything. The kernel goes on delivering for a TCP
/// connection that was closed; here nobody would.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// The receiving half.
#[derive(Debug)]
pub struct QuicReader {
    stream: RecvStream,
    /// The connection, until the first answer on a link that this node dialed.
    unanswered: Option<Connection>,
}

/// The sending half.
#[derive(Debug)]
pub struct QuicWriter(SendStream);

impl QuicReader {
    pub(crate) const fn dialed(stream: RecvStream, connection: Connection) -> Self {
        Self {
            stream,
            unanswered: Some(connection),
        }
    }

    pub(crate) const fn accepted(stream: RecvStream) -> Self {
        Self {
            stream,
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
        let count = self.stream.read(buffer).await?;
        self.unanswered = None;
        Ok(count.unwrap_or(0))
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
