//! What is asked: one call of the keyed store after the other in each lane, or all three bare links at once.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use quorate_driver::kv::{KvContext, KvVersion};
use quorate_driver::spi::{Adapter, Transport};

use super::{Bucket, OWNERS};
use crate::measure::{Asked, IN_FLIGHT};
use crate::payload::Bytes;
use crate::{Failure, floor};

/// Gets of one key in each lane.
pub(super) struct Gets {
    bucket: Bucket,
    bytes: usize,
}

impl Gets {
    pub(super) async fn new(bucket: &Bucket, bytes: usize) -> Result<Self, Failure> {
        let gets = Self {
            bucket: bucket.clone(),
            bytes,
        };
        for lane in 0..IN_FLIGHT {
            let value = Bytes(vec![1; bytes]);
            bucket.put(gets.key(lane), &value, &KvContext::default()).await?;
        }
        Ok(gets)
    }

    fn key(&self, lane: usize) -> String {
        format!("get-{}-{lane}", self.bytes)
    }
}

impl Asked for Gets {
    async fn ask(&self, lane: usize, _: Vec<u8>) -> Result<usize, Failure> {
        let found = self.bucket.get(self.key(lane)).await?.into_value();
        Ok(found.map_or(0, |value| value.0.len()))
    }
}

/// Puts of new keys.
pub(super) struct Puts {
    bucket: Bucket,
    bytes: usize,
    next: AtomicU64,
}

impl Puts {
    pub(super) fn new(bucket: &Bucket, bytes: usize) -> Self {
        Self {
            bucket: bucket.clone(),
            bytes,
            next: AtomicU64::new(0),
        }
    }
}

impl Asked for Puts {
    async fn ask(&self, _: usize, payload: Vec<u8>) -> Result<usize, Failure> {
        let (bytes, number) = (payload.len(), self.next.fetch_add(1, Ordering::Relaxed));
        let key = format!("put-{}-{number}", self.bytes);
        self.bucket
            .put(key, &Bytes(payload), &KvContext::default())
            .await?;
        Ok(bytes)
    }
}

/// Conditional puts of one key in each lane, each in place of the last one.
pub(super) struct PutsIf {
    bucket: Bucket,
    bytes: usize,
    versions: Vec<Mutex<Option<KvVersion>>>,
}

impl PutsIf {
    pub(super) fn new(bucket: &Bucket, bytes: usize) -> Self {
        Self {
            bucket: bucket.clone(),
            bytes,
            versions: (0..IN_FLIGHT).map(|_| Mutex::default()).collect(),
        }
    }
}

impl Asked for PutsIf {
    async fn ask(&self, lane: usize, payload: Vec<u8>) -> Result<usize, Failure> {
        let (bytes, key) = (payload.len(), format!("if-{}-{lane}", self.bytes));
        let expected = *self.versions[lane].lock().map_err(|_| "a lane has panicked")?;
        let version = self.bucket.put_if(key, expected, &Bytes(payload)).await?;
        *self.versions[lane].lock().map_err(|_| "a lane has panicked")? = Some(version);
        Ok(bytes)
    }
}

/// Asks all three at once, and waits for two.
pub(super) struct ThreePeers<A: Adapter>(pub(super) [floor::Client<A>; OWNERS]);

impl<A: Adapter> Asked for ThreePeers<A>
where
    <A::Transport as Transport>::Listener: Sync,
{
    async fn ask(&self, lane: usize, payload: Vec<u8>) -> Result<usize, Failure> {
        let [one, two, three] = &self.0;
        two_of([
            pin!(one.ask(lane, payload.clone())),
            pin!(two.ask(lane, payload.clone())),
            pin!(three.ask(lane, payload)),
        ])
        .await
    }
}

type Answer<'a> = Pin<&'a mut (dyn Future<Output = Result<usize, Failure>> + Send)>;

/// The second answer, or the first failure.
async fn two_of(asked: [Answer<'_>; OWNERS]) -> Result<usize, Failure> {
    let mut open: Vec<Answer<'_>> = asked.into();
    poll_fn(|context| {
        let mut at = 0;
        while let Some(answer) = open.get_mut(at) {
            match answer.as_mut().poll(context) {
                Poll::Ready(Err(failure)) => return Poll::Ready(Err(failure)),
                Poll::Ready(Ok(bytes)) if open.len() == OWNERS - 1 => return Poll::Ready(Ok(bytes)),
                Poll::Ready(Ok(_)) => drop(open.swap_remove(at)),
                Poll::Pending => at += 1,
            }
        }
        Poll::Pending
    })
    .await
}
