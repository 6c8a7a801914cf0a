//! What the machine can do: a bare stream of length-delimited messages between the same two processes, with the same
//! runtime, and nothing else: no kinds, no entities, no deadlines, no membership. It is multiplexed like ours: many tasks
//! hand their messages to the one that writes.
//!
//! A message is its length (u32), a lane (u32), and the payload; lengths count the payload only.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::Failure;
use crate::measure::{IN_FLIGHT, System};

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

/// Calls `each` for every whole message and keeps the rest.
fn take(buffer: &mut Vec<u8>, mut each: impl FnMut(u32, &[u8])) {
    let mut rest = &buffer[..];
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
    let used = buffer.len() - rest.len();
    buffer.drain(..used);
}

/// Answers everybody who connects.
pub(crate) async fn serve(listener: TcpListener) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(echo(stream));
    }
}

async fn echo(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut buffer, mut out) = (Vec::with_capacity(BATCH_BYTES), Vec::new());
    let mut received: u64 = 0;
    while stream.read_buf(&mut buffer).await? > 0 {
        take(&mut buffer, |lane, payload| {
            if payload.is_empty() {
                return put(&mut out, lane, &received.to_le_bytes());
            }
            received += 1;
            if lane & ONE_WAY == 0 {
                put(&mut out, lane, payload);
            }
        });
        stream.write_all(&out).await?;
        out.clear();
        buffer.reserve(BATCH_BYTES);
    }
    Ok(())
}

/// The asking end. Each lane has one message in flight at most.
pub(crate) struct Client {
    queue: mpsc::Sender<(u32, Vec<u8>)>,
    answers: Vec<tokio::sync::Mutex<mpsc::Receiver<Vec<u8>>>>,
}

impl Client {
    pub(crate) async fn connect(to: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        let (reader, writer) = stream.into_split();
        let (queue, queued) = mpsc::channel(QUEUE_MESSAGES);
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..IN_FLIGHT).map(|_| mpsc::channel(1)).unzip();
        tokio::spawn(write(writer, queued));
        tokio::spawn(read(reader, senders));
        let answers = receivers.into_iter().map(tokio::sync::Mutex::new).collect();
        Ok(Self { queue, answers })
    }

    async fn exchange(&self, lane: usize, payload: Vec<u8>) -> Result<Vec<u8>, Failure> {
        self.queue.send((u32::try_from(lane)?, payload)).await?;
        Ok(self.answers[lane]
            .lock()
            .await
            .recv()
            .await
            .ok_or("the stream has ended")?)
    }
}

impl System for Client {
    async fn ask(&self, lane: usize, payload: Vec<u8>) -> Result<usize, Failure> {
        Ok(self.exchange(lane, payload).await?.len())
    }

    async fn tell(&self, lane: usize, payload: &[u8]) -> Result<(), Failure> {
        let lane = u32::try_from(lane)? | ONE_WAY;
        Ok(self.queue.send((lane, payload.to_vec())).await?)
    }

    async fn received(&self) -> Result<u64, Failure> {
        let answer = self.exchange(0, Vec::new()).await?;
        Ok(answer.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)))
    }
}

async fn write(mut writer: OwnedWriteHalf, mut queue: mpsc::Receiver<(u32, Vec<u8>)>) -> io::Result<()> {
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

async fn read(mut reader: OwnedReadHalf, answers: Vec<mpsc::Sender<Vec<u8>>>) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(BATCH_BYTES);
    while reader.read_buf(&mut buffer).await? > 0 {
        take(&mut buffer, |lane, payload| {
            if let Some(answer) = answers.get(lane as usize) {
                // Each lane waits for one answer, so its place is free.
                let _ = answer.try_send(payload.to_vec());
            }
        });
        buffer.reserve(BATCH_BYTES);
    }
    Ok(())
}
