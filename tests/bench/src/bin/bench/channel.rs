//! What the machine can do within one process: a task that gets messages over a channel and answers each over
//! a channel of its own, and nothing else.

use quorate_driver::spi::Runtime;
use tokio::sync::{mpsc, oneshot};

use crate::Failure;
use crate::measure::{Asked, IN_FLIGHT, System};

/// A message, and where its answer goes, if there is to be one.
type Sent = (Vec<u8>, Option<oneshot::Sender<Vec<u8>>>);

/// The asking end: a task for each lane, as there is an entity for each.
pub(crate) struct Channels(Vec<mpsc::Sender<Sent>>);

/// Messages that may wait in each lane: as many as in a mailbox.
const QUEUE_MESSAGES: usize = 1_000;

impl Channels {
    pub(crate) fn new(runtime: &impl Runtime) -> Self {
        Self((0..IN_FLIGHT).map(|_| echo(runtime)).collect())
    }

    async fn exchange(&self, lane: usize, payload: Vec<u8>) -> Result<Vec<u8>, Failure> {
        let (answer, answered) = oneshot::channel();
        self.0[lane].send((payload, Some(answer))).await?;
        Ok(answered.await?)
    }
}

/// A task that answers with what it is asked; to nothing, with how many messages it had.
fn echo(runtime: &impl Runtime) -> mpsc::Sender<Sent> {
    let (queue, mut queued) = mpsc::channel::<Sent>(QUEUE_MESSAGES);
    runtime.spawn(async move {
        let mut received: u64 = 0;
        while let Some((payload, answer)) = queued.recv().await {
            let says = if payload.is_empty() {
                received.to_le_bytes().to_vec()
            } else {
                received += 1;
                payload
            };
            if let Some(answer) = answer {
                // Nobody waits any more only if the program ends.
                let _ = answer.send(says);
            }
        }
    });
    queue
}

impl Asked for Channels {
    async fn ask(&self, lane: usize, payload: Vec<u8>) -> Result<usize, Failure> {
        Ok(self.exchange(lane, payload).await?.len())
    }
}

impl System for Channels {
    async fn tell(&self, lane: usize, payload: &[u8]) -> Result<(), Failure> {
        Ok(self.0[lane].send((payload.to_vec(), None)).await?)
    }

    async fn received(&self) -> Result<u64, Failure> {
        let mut sum = 0;
        for lane in 0..self.0.len() {
            let answer = self.exchange(lane, Vec::new()).await?;
            sum += answer.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        }
        Ok(sum)
    }
}
