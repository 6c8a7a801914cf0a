//! Every question the demo asks, each until it is answered: a bounded window of open asks, a share of it for
//! each shard, a pause before a question is asked again, and a count of how often that happened. Nothing here
//! decides when to stop: the caller watches for progress.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

use async_channel::{Receiver, Sender};
use quorate_driver::spi::Runtime;
use quorate_driver::{AskError, Region};
use quorate_driver::{AskFailure, EntityId, sharding::ShardId};

use super::kind::{Question, SHARDS, Told};
use crate::files::Found;

/// Open asks at most. Enough to keep every node's disk and cores busy; a node that dies takes no more than
/// these with it.
const WINDOW_MAX: usize = 256;
/// Open asks of one shard at most: what waits for a lost shard leaves room to ask the others.
const OF_ONE_SHARD_MAX: usize = 4;
/// Bytes of the files that are asked at the same time, so that a queue of large files does not outlast its
/// deadlines.
const WINDOW_BYTES_MAX: u64 = 64 << 20;
/// A small file's deadline. A lost node is known long before; this is for answers that vanish.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How slowly a file may be read before its deadline passes.
const BYTES_PER_SECOND_MIN: u64 = 4 << 20;
/// The first pause before a question is asked again; doubled up to the longest.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_millis(800);
/// Doublings of deadlines and pauses at most.
const DOUBLINGS_MAX: u32 = 5;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Job {
    /// The words of the file with this index.
    File(u32),
    /// Who hosts this shard.
    Shard(u32),
}

/// An answer, or a failure that asking again does not mend.
pub(crate) type Answer = (Job, Result<Told, AskError>);

type Attempted = (Job, u32, Result<Told, AskError>);

/// The questions to one shard.
#[derive(Clone, Debug, Default)]
struct Lane {
    open: usize,
    probes: VecDeque<(Job, u32)>,
    files: VecDeque<(Job, u32)>,
}

/// All open and waiting questions.
pub(crate) struct Asks<R> {
    runtime: R,
    region: Region<Question, Told>,
    /// The id of an entity in each shard that is no file's.
    probes: Vec<EntityId>,
    open: usize,
    /// Every open ask says one thing here, in a task of its own.
    answers: (Sender<Attempted>, Receiver<Attempted>),
    open_bytes: u64,
    /// Questions that may be asked now, per shard.
    ready: Vec<Lane>,
    /// The shard whose turn it is.
    turn: usize,
    /// Questions that were asked and wait for their pause to end.
    paused: BinaryHeap<Reverse<(Instant, Job, u32)>>,
    window: usize,
    /// File asks that were repeated.
    pub(crate) retried: u64,
}

impl<R: Runtime> Asks<R> {
    /// Nothing is asked yet. The window stays small beside the input, so that what is lost at a third of the
    /// way is found and asked again even if there are few files.
    pub(crate) fn new(runtime: R, region: Region<Question, Told>, files: &[Found]) -> Self {
        let mut asks = Self {
            runtime,
            region,
            probes: probes(),
            open: 0,
            answers: async_channel::unbounded(),
            open_bytes: 0,
            ready: vec![Lane::default(); SHARDS as usize],
            turn: 0,
            paused: BinaryHeap::new(),
            window: (files.len() / 6).clamp(1, WINDOW_MAX),
            retried: 0,
        };
        for (index, _) in (0..).zip(files) {
            asks.enqueue(files, Job::File(index), 0);
        }
        asks
    }

    /// Asks where a shard is, as soon as the window allows.
    pub(crate) fn locate(&mut self, files: &[Found], shard: u32) {
        self.enqueue(files, Job::Shard(shard), 0);
    }

    /// Nothing is open and nothing waits (files that were never asked aside).
    pub(crate) fn is_idle(&self) -> bool {
        self.open == 0 && self.paused.is_empty() && self.ready.iter().all(|lane| lane.probes.is_empty())
    }

    /// Whether an answer is waited for.
    pub(crate) fn has_open(&self) -> bool {
        self.open > 0
    }

    /// Asks what is due and fits into the window, shard by shard; files only if `with_files`.
    pub(crate) fn fill(&mut self, files: &[Found], with_files: bool) {
        let now = Instant::now();
        while let Some(Reverse((due, job, attempt))) = self.paused.peek().copied()
            && due <= now
        {
            self.paused.pop();
            self.enqueue(files, job, attempt);
        }
        let mut passed = 0;
        while passed < self.ready.len() && self.open < self.window && self.open_bytes < WINDOW_BYTES_MAX {
            self.turn = (self.turn + 1) % self.ready.len();
            let lane = &mut self.ready[self.turn];
            let next = match lane.probes.pop_front() {
                None if with_files && lane.open < OF_ONE_SHARD_MAX => lane.files.pop_front(),
                next => next,
            };
            match next {
                Some((job, attempt)) => {
                    lane.open += 1;
                    passed = 0;
                    self.ask(files, job, attempt);
                }
                None => passed += 1,
            }
        }
    }

    fn enqueue(&mut self, files: &[Found], job: Job, attempt: u32) {
        let lane = &mut self.ready[shard(job, files)];
        match job {
            Job::File(_) => lane.files.push_back((job, attempt)),
            Job::Shard(_) => lane.probes.push_back((job, attempt)),
        }
    }

    fn ask(&mut self, files: &[Found], job: Job, attempt: u32) {
        let (id, question, bytes) = match job {
            Job::File(index) => match files.get(index as usize) {
                Some(file) => (&file.id[..], Question::Words, file.bytes),
                None => return,
            },
            Job::Shard(shard) => match self.probes.get(shard as usize) {
                Some(id) => (id.as_bytes(), Question::Where, 0),
                None => return,
            },
        };
        self.open_bytes += bytes;
        let ask = self
            .region
            .entity(id)
            .ask(question)
            .timeout(timeout(bytes, attempt));
        self.open += 1;
        let answers = self.answers.0.clone();
        self.runtime.spawn(async move {
            // Fails only if the demo is over.
            let _ = answers.send((job, attempt, ask.await)).await;
        });
    }

    /// The next answer. Failures that may pass are put back; `None` if one was, or if nothing is open.
    ///
    /// # Cancel safety
    /// Safe: an answer is taken only when it is returned.
    pub(crate) async fn next(&mut self, files: &[Found]) -> Option<Answer> {
        let (job, attempt, result) = self.answers.1.recv().await.ok()?;
        self.open -= 1;
        self.ready[shard(job, files)].open -= 1;
        if let Job::File(index) = job {
            self.open_bytes -= files.get(index as usize).map_or(0, |file| file.bytes);
        }
        match result {
            Err(error) if may_pass(error) => {
                self.retried += u64::from(matches!(job, Job::File(_)));
                let due = Instant::now() + pause(attempt);
                self.paused.push(Reverse((due, job, attempt + 1)));
                None
            }
            Ok(_) | Err(_) => Some((job, result)),
        }
    }
}

/// The longest that reading a file of this size should take.
pub(crate) const fn reading_time_max(bytes: u64) -> Duration {
    Duration::from_secs(bytes / BYTES_PER_SECOND_MIN)
}

fn timeout(bytes: u64, attempt: u32) -> Duration {
    (TIMEOUT + reading_time_max(bytes)) * (1 << attempt.min(DOUBLINGS_MAX))
}

fn pause(attempt: u32) -> Duration {
    (PAUSE * (1 << attempt.min(DOUBLINGS_MAX))).min(PAUSE_MAX)
}

/// Whether the cluster may answer the same question later. Counting words twice does no harm, so that it may
/// have been handled does not matter.
const fn may_pass(error: AskError) -> bool {
    match error {
        AskError::Encode
        | AskError::Undecodable
        | AskError::Decode
        | AskError::OwnEntity
        | AskError::Cycle
        | AskError::Stopped => false,
        AskError::Failed(failure) => !matches!(
            failure,
            AskFailure::ShardCountMismatch
                | AskFailure::BadEntityId
                | AskFailure::TooLarge
                | AskFailure::NodeStopped
                | AskFailure::NodeStoppedUnsent
        ),
        // Words are counted by entities that keep nothing.
        AskError::NotDurable(_) => false,
        // An error of a later version.
        _ => true,
    }
}

/// One id per shard. They begin with a zero byte, which no path has.
fn probes() -> Vec<EntityId> {
    let mut probes: Vec<Option<EntityId>> = vec![None; SHARDS as usize];
    let mut missing = probes.len();
    for number in 0_u32.. {
        let id = EntityId::new(&[&[0], &number.to_le_bytes()[..]].concat());
        let place = &mut probes[shard_of(&id)];
        if place.is_none() {
            *place = Some(id);
            missing -= 1;
        }
        if missing == 0 {
            break;
        }
    }
    probes.into_iter().flatten().collect()
}

fn shard_of(id: &EntityId) -> usize {
    ShardId::of(id, SHARDS).0 as usize
}

/// The shard a job is about.
pub(crate) fn shard(job: Job, files: &[Found]) -> usize {
    match job {
        Job::Shard(shard) => shard as usize,
        Job::File(index) => files
            .get(index as usize)
            .map_or(0, |file| shard_of(&EntityId::new(&file.id))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shard_has_a_probe_of_its_own() {
        let probes = probes();
        assert_eq!(probes.len(), SHARDS as usize);
        for (shard, id) in probes.iter().enumerate() {
            assert_eq!(shard_of(id), shard);
            assert_eq!(id.as_bytes()[0], 0);
        }
    }

    #[test]
    fn deadlines_and_pauses_grow_and_stay_bounded() {
        assert_eq!(timeout(0, 0), TIMEOUT);
        assert_eq!(timeout(40 << 20, 1), (TIMEOUT + Duration::from_secs(10)) * 2);
        assert_eq!(timeout(0, u32::MAX), TIMEOUT * 32);
        assert_eq!((pause(0), pause(u32::MAX)), (PAUSE, PAUSE_MAX));
    }
}
