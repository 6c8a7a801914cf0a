//! Frames beside a link's stream: QUIC datagrams that begin with the number of the stream they belong to
//! (eight bytes, big-endian), as HTTP/3 has it. Decides nothing about what is in them. Spec: `docs/WIRE.md`
//! 3.6.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quinn::{Connection, SendStream, StreamId, VarInt};
use quorate_driver::spi::Datagrams;
use tokio::sync::{Notify, mpsc};

/// Bytes of the stream's number.
const NUMBER_BYTES: usize = 8;

/// Most bytes of a datagram that is taken from a peer: more than a packet of the usual networks holds.
const BYTES_MAX: usize = 2_048;

/// Datagrams that wait for one link to be read. The newest is dropped: a link that is not read has older ones
/// to answer.
const WAITING_MAX: usize = 16;

fn number(stream: StreamId) -> u64 {
    VarInt::from(stream).into_inner()
}

/// The sending side of one link.
#[derive(Debug)]
pub(crate) struct DatagramSender {
    connection: Connection,
    stream: u64,
}

impl DatagramSender {
    pub(crate) fn new(connection: Connection, stream: &SendStream) -> Self {
        Self {
            connection,
            stream: number(stream.id()),
        }
    }
}

impl Datagrams for DatagramSender {
    fn max_size(&self) -> usize {
        let whole = self.connection.max_datagram_size().unwrap_or(0);
        whole.min(BYTES_MAX).saturating_sub(NUMBER_BYTES)
    }

    fn send(&self, bytes: &[u8]) -> bool {
        let datagram = [&self.stream.to_be_bytes()[..], bytes].concat();
        self.connection.send_datagram(datagram.into()).is_ok()
    }
}

/// The open links of one accepted connection.
#[derive(Debug, Default)]
struct ConnectionLinks {
    senders: Mutex<BTreeMap<u64, mpsc::Sender<Vec<u8>>>>,
    /// The last one has gone.
    none_left: Notify,
}

impl ConnectionLinks {
    fn senders(&self) -> MutexGuard<'_, BTreeMap<u64, mpsc::Sender<Vec<u8>>>> {
        self.senders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who gets the datagrams of one accepted connection.
#[derive(Debug, Default)]
pub(crate) struct DatagramReceivers(Arc<ConnectionLinks>);

/// The receiving side of one link; takes itself out of the list when it is dropped.
#[derive(Debug)]
pub(crate) struct DatagramReceiver {
    links: Arc<ConnectionLinks>,
    stream: u64,
    waiting: mpsc::Receiver<Vec<u8>>,
}

impl DatagramReceivers {
    /// The receiving side of the link on this stream.
    pub(crate) fn of(&self, stream: StreamId) -> DatagramReceiver {
        let (sender, waiting) = mpsc::channel(WAITING_MAX);
        let stream = number(stream);
        self.0.senders().insert(stream, sender);
        DatagramReceiver {
            links: Arc::clone(&self.0),
            stream,
            waiting,
        }
    }

    /// Whether no link is open.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.senders().is_empty()
    }

    /// Returns when that may have become so. Loses nothing when it is dropped.
    pub(crate) async fn emptied(&self) {
        self.0.none_left.notified().await;
    }

    /// Gives a datagram to its link. One without a link, too long or too short is dropped.
    pub(crate) fn hand_over(&self, datagram: &[u8]) {
        let Some((stream, bytes)) = datagram.split_first_chunk::<NUMBER_BYTES>() else {
            return;
        };
        if bytes.len() > BYTES_MAX {
            return;
        }
        if let Some(link) = self.0.senders().get(&u64::from_be_bytes(*stream)) {
            // Full: lost, as any datagram may be.
            let _ = link.try_send(bytes.to_vec());
        }
    }
}

impl DatagramReceiver {
    /// The next datagram. Never ends.
    pub(crate) async fn next(&mut self) -> Vec<u8> {
        match self.waiting.recv().await {
            Some(datagram) => datagram,
            None => std::future::pending().await,
        }
    }
}

impl Drop for DatagramReceiver {
    fn drop(&mut self) {
        let mut senders = self.links.senders();
        senders.remove(&self.stream);
        if senders.is_empty() {
            self.links.none_left.notify_one();
        }
    }
}
