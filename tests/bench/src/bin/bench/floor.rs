//! What the machine can do: a bare link of the same transport between the same two processes, on the same
//! runtime, and nothing else: no kinds, no entities, no deadlines, no membership, no checksums. It is
//! multiplexed like ours: many tasks hand their messages to the one that writes. An adapter's link is the
//! runtime's socket, TLS session or QUIC stream and no more.
//!
//! A message is its length (u32), a lane (u32), and the payload; lengths count the payload only.

use std::io;
use std::sync::Arc;

use quorate_driver::Address;
use quorate_driver::Security;
use quorate_driver::spi::{Adapter, LinkKind, LinkReader, LinkWriter, Listener, Runtime, Transport};
use tokio::sync::mpsc;

use crate::Failure;
use crate::data::Disk;
use crate::measure::{Asked, IN_FLIGHT, System};

const HEADER_BYTES: usize = 8;
/// Set in the lane of a message that is not answered.
const ONE_WAY: u32 = 1 << 31;
/// Bytes that are gathered before they are written.
const BATCH_BYTES: usize = 64 << 10;
/// Messages between the tasks that ask and the task that writes.
const QUEUE_MESSAGES: usize = 4096;

fn put(out: &mut Vec<u8>, lane: u32, payload: &[u8]) {
    let len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&lane.to_le_bytes());
    out.extend_from_slice(payload);
}

/// Bytes on their way to whole messages.
struct Incoming {
    buffer: Vec<u8>,
    filled: usize,
}

impl Incoming {
    fn new() -> Self {
        Self {
            buffer: vec![0; BATCH_BYTES],
            filled: 0,
        }
    }

    /// Reads once, and calls `each` for every whole message; says whether the link goes on.
    async fn read(
        &mut self,
        reader: &mut impl LinkReader,
        mut each: impl FnMut(u32, &[u8]),
    ) -> io::Result<bool> {
        let space = self.buffer.get_mut(self.filled..).unwrap_or_default();
        let read = reader.read(space).await?;
        self.filled += read;
        let mut rest = &self.buffer[..self.filled];
        while let Some((header, behind)) = rest.split_first_chunk::<HEADER_BYTES>() {
            let [a, b, c, d, e, f, g, h] = *header;
            let (len, lane) = (
                u32::from_le_bytes([a, b, c, d]) as usize,
                u32::from_le_bytes([e, f, g, h]),
            );
            let Some(payload) = behind.get(..len) else { break };
            each(lane, payload);
            rest = &behind[len..];
        }
        let used = self.filled - rest.len();
        self.buffer.copy_within(used..self.filled, 0);
        self.filled -= used;
        Ok(read > 0)
    }
}

/// Where the asking end connects to: its address, and the task that answers everybody who does; with a disk
/// once what was read at once is there, in one commit.
pub(crate) async fn listen<A: Adapter>(
    security: &Security,
    disk: Option<Arc<Disk>>,
) -> io::Result<(String, impl Future<Output = ()> + Send + use<A>)> {
    let runtime = A::runtime()?;
    let transport = A::transport(&runtime, security)?;
    let mut listener = transport.bind("127.0.0.1:0").await?;
    let address = listener.local_address()?.to_string();
    let serve = async move {
        // A transport may keep what its listener needs.
        let _transport = transport;
        while let Ok(accepted) = listener.accept().await {
            let disk = disk.clone();
            runtime.spawn(async move {
                let _ = echo(accepted.reader, accepted.writer, disk).await;
            });
        }
    };
    Ok((address, serve))
}

async fn echo(
    mut reader: impl LinkReader,
    mut writer: impl LinkWriter,
    disk: Option<Arc<Disk>>,
) -> Result<(), Failure> {
    let (mut incoming, mut out, mut values) = (Incoming::new(), Vec::new(), Vec::new());
    let mut received: u64 = 0;
    loop {
        let more = incoming.read(&mut reader, |lane, payload| {
            if payload.is_empty() {
                return put(&mut out, lane, &received.to_le_bytes());
            }
            received += 1;
            if disk.is_some() {
                values.push(payload.to_vec());
            }
            if lane & ONE_WAY == 0 {
                put(&mut out, lane, payload);
            }
        });
        if !more.await? {
            return Ok(());
        }
        if let Some(disk) = disk.clone().filter(|_| !values.is_empty()) {
            let values = std::mem::take(&mut values);
            blocking::unblock(move || disk.commit(&values)).await?;
        }
        if !out.is_empty() {
            writer.write_all(&out).await?;
            out.clear();
        }
    }
}

/// Answers of a lane that nobody has waited for, at most; beyond that the lane's messages are not sent.
const UNHEARD_MAX: usize = 64;

/// The asking end. In each lane one message at a time is waited for; who gives up waiting leaves the answer
/// to the next, which passes it over.
pub(crate) struct Client<A: Adapter> {
    queue: mpsc::Sender<(u32, Vec<u8>)>,
    lanes: Vec<tokio::sync::Mutex<FloorLane>>,
    /// What a transport dials from.
    _port: (A::Transport, <A::Transport as Transport>::Listener),
}

struct FloorLane {
    answers: mpsc::Receiver<Vec<u8>>,
    /// Messages that were sent and not answered.
    unheard: usize,
}

impl<A: Adapter> Client<A> {
    pub(crate) async fn connect(to: &str, security: &Security) -> Result<Self, Failure> {
        let runtime = A::runtime()?;
        let transport = A::transport(&runtime, security)?;
        let listener = transport.bind("127.0.0.1:0").await?;
        let to: std::net::SocketAddr = to.parse()?;
        let to = Address::new(&to.ip().to_string(), to.port())?;
        let (reader, writer) = transport.dial(&to, LinkKind::User).await?;
        let (queue, queued) = mpsc::channel(QUEUE_MESSAGES);
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..IN_FLIGHT).map(|_| mpsc::channel(UNHEARD_MAX)).unzip();
        runtime.spawn(async move {
            let _ = write(writer, queued).await;
        });
        runtime.spawn(async move {
            let _ = read(reader, senders).await;
        });
        let lane = |answers| FloorLane { answers, unheard: 0 };
        let lanes = receivers.into_iter().map(lane).map(tokio::sync::Mutex::new);
        Ok(Self {
            queue,
            lanes: lanes.collect(),
            _port: (transport, listener),
        })
    }

    async fn exchange(&self, lane: usize, payload: Vec<u8>) -> Result<Vec<u8>, Failure> {
        let mut waiting = self.lanes[lane].lock().await;
        if waiting.unheard < UNHEARD_MAX {
            let place = self.queue.reserve().await?;
            waiting.unheard += 1;
            place.send((u32::try_from(lane)?, payload));
        }
        loop {
            let answer = waiting.answers.recv().await.ok_or("the stream has ended")?;
            waiting.unheard -= 1;
            if waiting.unheard == 0 {
                return Ok(answer);
            }
        }
    }
}

impl<A: Adapter> Asked for Client<A>
where
    <A::Transport as Transport>::Listener: Sync,
{
    async fn ask(&self, lane: usize, payload: Vec<u8>) -> Result<usize, Failure> {
        Ok(self.exchange(lane, payload).await?.len())
    }
}

impl<A: Adapter> System for Client<A>
where
    <A::Transport as Transport>::Listener: Sync,
{
    async fn tell(&self, lane: usize, payload: &[u8]) -> Result<(), Failure> {
        let lane = u32::try_from(lane)? | ONE_WAY;
        Ok(self.queue.send((lane, payload.to_vec())).await?)
    }

    async fn received(&self) -> Result<u64, Failure> {
        let answer = self.exchange(0, Vec::new()).await?;
        Ok(answer.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)))
    }
}

async fn write(mut writer: impl LinkWriter, mut queue: mpsc::Receiver<(u32, Vec<u8>)>) -> io::Result<()> {
    let (mut messages, mut out) = (Vec::new(), Vec::with_capacity(BATCH_BYTES));
    while queue.recv_many(&mut messages, IN_FLIGHT).await > 0 {
        for (lane, payload) in messages.drain(..) {
            put(&mut out, lane, &payload);
        }
        writer.write_all(&out).await?;
        out.clear();
    }
    Ok(())
}

async fn read(mut reader: impl LinkReader, answers: Vec<mpsc::Sender<Vec<u8>>>) -> io::Result<()> {
    let mut incoming = Incoming::new();
    let each = |lane: u32, payload: &[u8]| {
        if let Some(answer) = answers.get(lane as usize) {
            // There is a place for each message that was sent.
            let _ = answer.try_send(payload.to_vec());
        }
    };
    while incoming.read(&mut reader, each).await? {}
    Ok(())
}
