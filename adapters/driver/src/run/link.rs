//! The task of one link: one half of it reads, the other writes. They move bytes between a socket and the
//! pump and decide nothing. A reader has one buffer and reads on only when it gets it back: that is all there
//! is to back-pressure. Spec: sharding 10.2, I-91.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;

use crate::proved::Proved;
use crate::runtime::Runtime;
use crate::sync::{Either, Notify, Pile, Rarely, both, lock, race};
use crate::transport::{Datagrams, DirectWriter, LinkRead, LinkReader, LinkWriter, Unproved};
use quorate_core::time::Instant;
use quorate_links::limits::READ_BYTES_MIN;
use quorate_links::{LinkId, LinkInput, PeerIdentity, ReadChunk};

/// What happens to links, on its way to the loop. Bounded: a link has at most one read, one dial result and
/// one end under way, and as many writes as the pump has handed over.
pub(crate) struct LinkInputs {
    queue: Pile<LinkInput>,
    /// The node's monotonic clock.
    clock: Box<dyn Fn() -> Instant + Send + Sync>,
    /// A count and the newest reason: strangers decide how many there are.
    turned_away: Rarely<(u64, String)>,
    accept_failed: AtomicBool,
    wake: Arc<Notify>,
}

impl LinkInputs {
    pub(crate) fn new(runtime: &impl Runtime, wake: Arc<Notify>) -> Self {
        let runtime = runtime.clone();
        Self {
            queue: Pile::default(),
            clock: Box::new(move || runtime.mono()),
            turned_away: Rarely::default(),
            accept_failed: AtomicBool::new(false),
            wake,
        }
    }

    pub(crate) fn push(&self, input: LinkInput) {
        self.queue.push(input);
        self.wake.notify();
    }

    /// Somebody was turned away by the transport before there was a link.
    pub(crate) fn turned_away(&self, error: &std::io::Error) {
        self.turned_away
            .renew(|before| (before.map_or(0, |(count, _)| count) + 1, error.to_string()));
        self.wake.notify();
    }

    /// The system has no socket for the next link.
    pub(crate) fn accept_failed(&self) {
        self.accept_failed.store(true, Ordering::Relaxed);
        self.wake.notify();
    }

    /// Whether that has happened since the last look.
    pub(crate) fn take_accept_failed(&self) -> bool {
        self.accept_failed.load(Ordering::Relaxed) && self.accept_failed.swap(false, Ordering::Relaxed)
    }

    /// How many were turned away since the last look, and why the last one was.
    pub(crate) fn take_turned_away(&self) -> Option<(u64, String)> {
        self.turned_away.take()
    }

    /// Moves what happened to an empty `into`.
    pub(crate) fn take(&self, into: &mut VecDeque<LinkInput>) {
        self.queue.take(into);
    }
}

#[derive(Debug, Default)]
struct WriterOrders {
    /// Each from where on it is to be written.
    write: VecDeque<(Vec<u8>, usize)>,
    /// Its task has taken something that is not written yet.
    is_writing: bool,
    /// The way past the task.
    direct: Option<Arc<dyn DirectWriter>>,
    read: Option<ReadChunk>,
    drain: bool,
    finish: bool,
    abort: bool,
}

/// What the loop wants of the tasks of each link.
#[derive(Debug, Default)]
pub(crate) struct LinkTable(Mutex<HashMap<LinkId, Arc<LinkControl>>>);

impl LinkTable {
    pub(crate) fn insert(&self, link: LinkId, control: Arc<LinkControl>) {
        lock(&self.0).insert(link, control);
    }

    pub(crate) fn get(&self, link: LinkId) -> Option<Arc<LinkControl>> {
        lock(&self.0).get(&link).cloned()
    }

    pub(crate) fn remove(&self, link: LinkId) -> Option<Arc<LinkControl>> {
        lock(&self.0).remove(&link)
    }
}

/// What the loop wants of a link's tasks.
#[derive(Debug, Default)]
pub(crate) struct LinkControl {
    orders: Mutex<WriterOrders>,
    reader: Notify,
    writer: Notify,
    datagrams: OnceLock<Arc<dyn Datagrams>>,
}

impl WriterOrders {
    /// How many of these bytes were written past the link's task: none if it has others to write, or if it
    /// has to see to something.
    fn try_write(&self, bytes: &[u8]) -> usize {
        let is_busy = self.is_writing || self.abort || self.finish || self.drain || !self.write.is_empty();
        match &self.direct {
            // An error is found again by the task.
            Some(direct) if !is_busy => direct.try_write(bytes).unwrap_or(0),
            Some(_) | None => 0,
        }
    }
}

/// What a writer does next.
enum WriterStep {
    Write(Vec<u8>, usize),
    Drain,
    Finish,
    Abort,
}

impl LinkControl {
    /// The link can be written to past its task.
    pub(crate) fn write_by(&self, direct: Option<Arc<dyn DirectWriter>>) {
        lock(&self.orders).direct = direct;
    }

    /// Has bytes written: `at_once` if that is wanted, nothing waits before them and the system takes them,
    /// and gives the buffer back then; else by the link's task.
    pub(crate) fn write(&self, bytes: Vec<u8>, at_once: bool) -> Option<Vec<u8>> {
        let mut orders = lock(&self.orders);
        let written = if at_once { orders.try_write(&bytes) } else { 0 };
        if at_once && written == bytes.len() {
            return Some(bytes);
        }
        orders.write.push_back((bytes, written));
        drop(orders);
        self.writer.notify();
        None
    }

    /// The link has a way for datagrams.
    pub(crate) fn send_datagrams_by(&self, datagrams: Arc<dyn Datagrams>) {
        // It is set once, before the pump hears that the link is there.
        let _ = self.datagrams.set(datagrams);
    }

    pub(crate) fn datagrams(&self) -> Option<&dyn Datagrams> {
        self.datagrams.get().map(Arc::as_ref)
    }

    pub(crate) fn resume(&self, chunk: ReadChunk) {
        lock(&self.orders).read = Some(chunk);
        self.reader.notify();
    }

    pub(crate) fn drain(&self) {
        lock(&self.orders).drain = true;
        self.writer.notify();
    }

    pub(crate) fn finish(&self) {
        lock(&self.orders).finish = true;
        self.writer.notify();
    }

    pub(crate) fn abort(&self) {
        let mut orders = lock(&self.orders);
        orders.abort = true;
        orders.direct = None;
        drop(orders);
        self.writer.notify();
        self.reader.notify();
    }

    fn aborted(&self) -> bool {
        lock(&self.orders).abort
    }

    /// Completes when the link has to be closed now.
    async fn until_aborted(&self, of: &Notify) {
        while !self.aborted() {
            of.notified().await;
        }
    }

    /// Completes when the link has to be closed before anybody reads or writes it.
    pub(crate) async fn given_up(&self) {
        self.until_aborted(&self.reader).await;
    }

    async fn next_write(&self) -> WriterStep {
        poll_fn(|cx| {
            loop {
                let mut orders = lock(&self.orders);
                orders.is_writing = false;
                if orders.abort {
                    return Poll::Ready(WriterStep::Abort);
                }
                if let Some((bytes, from)) = orders.write.pop_front() {
                    orders.is_writing = true;
                    return Poll::Ready(WriterStep::Write(bytes, from));
                }
                if orders.finish || orders.drain {
                    // Nothing is written any more, and the stream ends with its writer.
                    orders.direct = None;
                    return Poll::Ready(if orders.finish {
                        WriterStep::Finish
                    } else {
                        WriterStep::Drain
                    });
                }
                drop(orders);
                if self.writer.poll(cx).is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// The buffer, once the pump is done with it; `None` if the link has to be closed.
    async fn next_read(&self) -> Option<ReadChunk> {
        poll_fn(|cx| {
            loop {
                let mut orders = lock(&self.orders);
                if orders.abort {
                    return Poll::Ready(None);
                }
                if let Some(chunk) = orders.read.take() {
                    return Poll::Ready(Some(chunk));
                }
                drop(orders);
                if self.reader.poll(cx).is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await
    }
}

/// What to say of a link that ended with this error.
pub(crate) fn broken(link: LinkId, error: &std::io::Error) -> LinkInput {
    match Unproved::of(error) {
        Some(why) => LinkInput::Unproved(link, why.to_string()),
        None => LinkInput::Broken(link),
    }
}

/// Reads and writes until the link ends or is closed: its task.
pub(crate) async fn serve(
    reader: impl LinkReader,
    writer: impl LinkWriter,
    link: LinkId,
    control: Arc<LinkControl>,
    inputs: Arc<LinkInputs>,
) {
    let reading = read(reader, link, Arc::clone(&control), Arc::clone(&inputs));
    both(reading, write(writer, link, control, inputs)).await;
}

/// Reads until the link ends or is closed.
async fn read(mut reader: impl LinkReader, link: LinkId, control: Arc<LinkControl>, inputs: Arc<LinkInputs>) {
    let mut chunk = ReadChunk {
        buffer: vec![0; READ_BYTES_MIN],
        len: 0,
        read_at: None,
    };
    let mut identified = false;
    loop {
        let read = race(
            control.until_aborted(&control.reader),
            reader.read_next(&mut chunk.buffer),
        );
        match read.await {
            Either::Left(()) => return,
            Either::Right(Ok(LinkRead::Stream(0))) => return inputs.push(LinkInput::Closed(link)),
            Either::Right(Err(error)) => {
                return inputs.push(broken(link, &error));
            }
            Either::Right(Ok(LinkRead::Datagram(len))) => {
                chunk.len = len;
                chunk.read_at = Some((inputs.clock)());
                inputs.push(LinkInput::Datagram(link, chunk));
            }
            Either::Right(Ok(LinkRead::Stream(len))) => {
                if !identified {
                    identified = true;
                    let proved = reader.proved();
                    if proved != Proved::Nothing {
                        inputs.push(LinkInput::Identified(link, PeerIdentity::new(proved)));
                    }
                }
                chunk.len = len;
                chunk.read_at = Some((inputs.clock)());
                inputs.push(LinkInput::Received(link, chunk));
            }
        }
        let Some(back) = control.next_read().await else {
            return;
        };
        chunk = back;
    }
}

/// Writes what it is given until the link ends or is closed.
async fn write(
    mut writer: impl LinkWriter,
    link: LinkId,
    control: Arc<LinkControl>,
    inputs: Arc<LinkInputs>,
) {
    loop {
        match control.next_write().await {
            WriterStep::Abort => break,
            WriterStep::Drain => {
                // The reader sees when the peer has read everything: it closes.
                let _ = race(control.until_aborted(&control.writer), writer.close()).await;
                return;
            }
            WriterStep::Finish => {
                let _ = race(control.until_aborted(&control.writer), writer.close()).await;
                break;
            }
            WriterStep::Write(bytes, from) => {
                let left = bytes.get(from..).unwrap_or_default();
                match race(control.until_aborted(&control.writer), writer.write_all(left)).await {
                    Either::Left(()) => break,
                    Either::Right(Ok(())) => inputs.push(LinkInput::Written(link, bytes)),
                    Either::Right(Err(_)) => {
                        inputs.push(LinkInput::Broken(link));
                        break;
                    }
                }
            }
        }
    }
    // The reader has the other half of the socket.
    control.abort();
}
