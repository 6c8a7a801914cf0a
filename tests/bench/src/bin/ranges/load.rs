//! Puts that fill a bucket, and calls that go on while something else happens.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use quorate_bench::payload::Bytes;
use quorate_tokio::kv::{Kv, KvContext};

use super::Failure;

/// Tasks that put at once.
const FILLERS: usize = 64;

/// Tasks that call, each in turns a get and a put; and how long each rests between two calls, so that the
/// machine is not busy with calls alone.
const CALLERS: usize = 16;
const REST: Duration = Duration::from_millis(5);

pub(crate) fn key(number: usize) -> String {
    format!("key-{number:012}")
}

/// Puts a value of so many bytes for each of these keys, which have none.
pub(crate) async fn fill(bucket: &Kv<Bytes>, keys: Range<usize>, bytes: usize) -> Result<(), Failure> {
    let fillers = (0..FILLERS).map(|filler| {
        let (bucket, keys) = (bucket.clone(), keys.clone());
        tokio::spawn(async move {
            for number in keys.skip(filler).step_by(FILLERS) {
                let value = Bytes(vec![1; bytes]);
                bucket.put(key(number), &value, &KvContext::default()).await?;
            }
            Ok::<_, Failure>(())
        })
    });
    for filler in fillers.collect::<Vec<_>>() {
        filler.await??;
    }
    Ok(())
}

/// How calls went.
pub(crate) struct Served {
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    /// The longest time in which no call was answered.
    pub(crate) gap: Duration,
    pub(crate) calls: usize,
    pub(crate) failed: usize,
}

/// Calls of keys that are there, until it is ended.
pub(crate) struct Load {
    is_over: Arc<AtomicBool>,
    callers: Vec<tokio::task::JoinHandle<Vec<(Instant, Duration, bool)>>>,
    began: Instant,
}

impl Load {
    pub(crate) fn begin(bucket: &Kv<Bytes>, keys: usize, bytes: usize) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let callers = (0..CALLERS).map(|caller| {
            let (bucket, is_over) = (bucket.clone(), Arc::clone(&is_over));
            tokio::spawn(async move {
                let mut answered = Vec::new();
                let mut number = caller;
                while !is_over.load(Ordering::Relaxed) {
                    // A step that is prime to most sizes: neighbours lie in other ranges.
                    number = (number + 7_919) % keys;
                    let asked = Instant::now();
                    let is_put = answered.len() % 2 == 1;
                    let is_done = call(&bucket, number, is_put.then_some(bytes)).await;
                    answered.push((Instant::now(), asked.elapsed(), is_done));
                    tokio::time::sleep(REST).await;
                }
                answered
            })
        });
        Self {
            callers: callers.collect(),
            is_over,
            began: Instant::now(),
        }
    }

    pub(crate) async fn end(self) -> Result<Served, Failure> {
        self.is_over.store(true, Ordering::Relaxed);
        let mut answered = Vec::new();
        for caller in self.callers {
            answered.extend(caller.await?);
        }
        let failed = answered.iter().filter(|(_, _, is_done)| !is_done).count();
        answered.retain(|(_, _, is_done)| *is_done);
        answered.sort_unstable_by_key(|(at, _, _)| *at);
        let mut last = self.began;
        let mut gap = Duration::ZERO;
        for (at, _, _) in &answered {
            gap = gap.max(at.saturating_duration_since(last));
            last = *at;
        }
        let mut times: Vec<Duration> = answered.iter().map(|(_, took, _)| *took).collect();
        times.sort_unstable();
        let at = |share: usize| {
            let place = times.len().saturating_sub(1) * share / 100;
            times.get(place).map_or(f64::NAN, |time| time.as_secs_f64() * 1e6)
        };
        Ok(Served {
            p50_us: at(50),
            p99_us: at(99),
            gap,
            calls: times.len(),
            failed,
        })
    }
}

/// A get, or a put in place of what is there; says whether it was answered.
async fn call(bucket: &Kv<Bytes>, number: usize, put: Option<usize>) -> bool {
    let Ok(found) = bucket.get(key(number)).await else {
        return false;
    };
    let Some(bytes) = put else { return true };
    let put = bucket.put(key(number), &Bytes(vec![2; bytes]), &found.context);
    put.await.is_ok()
}
