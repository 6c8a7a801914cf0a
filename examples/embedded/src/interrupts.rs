//! What runs in interrupt handlers: bytes go into the queue or are counted as lost, the clock ticks. Never
//! waits, never allocates, never touches the node. Time does not go through the queue: a full queue would
//! stop the clock.

use core::sync::atomic::{AtomicU32, Ordering};

use heapless::Vec;
use heapless::spsc::{Producer, Queue};

/// Bytes that one entry of the queue holds: what a serial port gathers before it interrupts.
pub const CHUNK_BYTES: usize = 32;

/// Entries of the queue; it holds one less. At 115,200 baud these are 88 ms of one line: as long as the main
/// loop may take.
pub const QUEUE_ENTRIES: usize = 32;

/// What an interrupt of a serial port brings.
#[derive(Debug)]
pub struct Chunk {
    /// Which line.
    pub line: u8,
    /// What has come on it.
    pub bytes: Vec<u8, CHUNK_BYTES>,
}

/// The queue between the handlers and the main loop. A firmware has it in a `static` and splits it once.
pub type Chunks = Queue<Chunk, QUEUE_ENTRIES>;

/// What handlers and main loop share beside the queue. Works from a `static`.
#[derive(Debug, Default)]
pub struct Shared {
    millis: AtomicU32,
    bytes_lost: AtomicU32,
}

impl Shared {
    /// Nothing has happened.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            millis: AtomicU32::new(0),
            bytes_lost: AtomicU32::new(0),
        }
    }

    /// The handler of a timer that fires every millisecond. This handler alone adds to the counter.
    pub fn on_millisecond(&self) {
        let millis = self.millis.load(Ordering::Relaxed);
        self.millis.store(millis.wrapping_add(1), Ordering::Relaxed);
    }

    /// Milliseconds so far; wraps after 49 days, which [`crate::board::Board`] unrolls.
    #[must_use]
    pub fn millis(&self) -> u32 {
        self.millis.load(Ordering::Relaxed)
    }

    /// Bytes that came while the queue was full.
    #[must_use]
    pub fn bytes_lost(&self) -> u32 {
        self.bytes_lost.load(Ordering::Relaxed)
    }
}

/// The handlers' end of the queue: the serial ports of a board interrupt with one priority, so that it has
/// one producer.
#[allow(missing_debug_implementations, reason = "a queue's end has none")]
pub struct Ports<'a> {
    queue: Producer<'a, Chunk>,
    shared: &'a Shared,
}

impl<'a> Ports<'a> {
    /// The end of the queue that the main loop does not have.
    #[must_use]
    pub const fn new(queue: Producer<'a, Chunk>, shared: &'a Shared) -> Self {
        Self { queue, shared }
    }

    /// The handler of a serial port that has received. What finds no room is dropped and counted: the line
    /// finds its next packet, and the protocol repeats what matters.
    pub fn on_bytes(&mut self, line: u8, bytes: &[u8]) {
        for part in bytes.chunks(CHUNK_BYTES) {
            let chunk = Vec::from_slice(part).map(|bytes| Chunk { line, bytes });
            let queued = chunk.is_ok_and(|chunk| self.queue.enqueue(chunk).is_ok());
            if !queued {
                let lost = self.shared.bytes_lost.load(Ordering::Relaxed);
                let lost = lost.saturating_add(u32::try_from(part.len()).unwrap_or(u32::MAX));
                self.shared.bytes_lost.store(lost, Ordering::Relaxed);
            }
        }
    }
}
