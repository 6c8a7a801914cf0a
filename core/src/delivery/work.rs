//! Work pulling: jobs of one producer go to workers that ask for them, those of a worker that is gone to
//! others, in front of all that wait. No order among workers, and a job may be done twice. A value: who holds
//! it sends what it gives out. Spec: sharding 1.14.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::ordered::{OrderedMap, OrderedSet};
use crate::sharding::state::ids::Payload;

/// As many jobs wait for a worker as may. This one was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many jobs wait for a worker")]
pub struct TooManyJobs;

#[derive(Clone, Debug)]
struct QueuedJob<W> {
    payload: Payload,
    worker: Option<W>,
}

#[derive(Clone, Debug, Default)]
struct WorkerJobs {
    jobs: OrderedSet<u64>,
    /// The number of its last question.
    turn: u64,
}

/// What a worker says when it asks for jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerPull {
    /// The number of the question, which grows: an older one is passed over.
    pub turn: u64,
    /// Jobs that it has done.
    pub done: Vec<u64>,
    /// Jobs that it has and has not done. What it was given and does not name was lost on the way, or given
    /// back.
    pub holds: Vec<u64>,
}

/// See the module. `W` names a worker.
#[derive(Clone, Debug)]
pub struct WorkPulling<W> {
    waiting_max: usize,
    current: u64,
    jobs: OrderedMap<u64, QueuedJob<W>>,
    waiting: VecDeque<u64>,
    workers: OrderedMap<W, WorkerJobs>,
}

impl<W: Copy + Ord> WorkPulling<W> {
    /// Nothing to do. `waiting_max`: jobs that may wait for a worker, at least 1; of Akka's `buffer-size` the
    /// default is 1,000. `first`: the number of the first job, above all that were given before.
    #[must_use]
    pub const fn new(waiting_max: usize, first: u64) -> Self {
        Self {
            waiting_max,
            current: first,
            jobs: OrderedMap::new(),
            waiting: VecDeque::new(),
            workers: OrderedMap::new(),
        }
    }

    /// Gives back jobs that were stored and not done: they wait, in the order of their numbers, however many
    /// there are.
    pub fn recover(&mut self, stored: impl IntoIterator<Item = (u64, Payload)>) {
        let worker = None;
        for (id, payload) in stored {
            self.current = self.current.max(id.saturating_add(1));
            self.jobs.insert(id, QueuedJob { payload, worker });
        }
        self.waiting = self.jobs.keys().copied().collect();
    }

    /// A job; its number.
    ///
    /// # Errors
    /// [`TooManyJobs`]: not taken.
    pub fn on_job(&mut self, payload: Payload) -> Result<u64, TooManyJobs> {
        if !self.has_room() {
            return Err(TooManyJobs);
        }
        let id = self.current;
        self.current += 1;
        let worker = None;
        self.jobs.insert(id, QueuedJob { payload, worker });
        self.waiting.push_back(id);
        Ok(id)
    }

    /// Whether one more job may wait.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.waiting.len() < self.waiting_max
    }

    /// A worker asks: what it has done is confirmed, what it should have and does not name waits again.
    /// Whether it may be given jobs now (an older question may not); and the jobs that are confirmed by this.
    pub fn on_pull(&mut self, worker: W, pull: &WorkerPull) -> (bool, Vec<u64>) {
        let known = self.workers.entry(worker).or_default();
        if pull.turn <= known.turn {
            return (false, Vec::new());
        }
        known.turn = pull.turn;
        let done = pull
            .done
            .iter()
            .filter(|id| self.on_done(**id))
            .copied()
            .collect();
        let holds: OrderedSet<u64> = pull.holds.iter().copied().collect();
        for id in &holds {
            self.adopt(worker, *id);
        }
        let has = self.workers.get(&worker).map(|known| &known.jobs);
        let lost: Vec<u64> = has.map_or_else(Vec::new, |has| has.difference(&holds).copied().collect());
        self.give_back(worker, lost);
        (true, done)
    }

    /// What is in a worker's hands already, in those of one before this queue's present holder for instance,
    /// need not go to another.
    fn adopt(&mut self, worker: W, id: u64) {
        if let Some(job) = self.jobs.get_mut(&id)
            && job.worker.is_none()
        {
            job.worker = Some(worker);
            self.waiting.retain(|waiting| *waiting != id);
            self.workers.entry(worker).or_default().jobs.insert(id);
        }
    }

    /// A job is done, whoever did it; whether that is news.
    pub fn on_done(&mut self, id: u64) -> bool {
        let Some(job) = self.jobs.remove(&id) else {
            return false;
        };
        match job.worker.and_then(|worker| self.workers.get_mut(&worker)) {
            Some(worker) => {
                worker.jobs.remove(&id);
            }
            None => self.waiting.retain(|waiting| *waiting != id),
        }
        true
    }

    /// A worker gives a job back.
    pub fn on_returned(&mut self, worker: W, id: u64) {
        self.give_back(worker, alloc::vec![id]);
    }

    /// A worker is gone: its jobs go to others, before all that wait.
    pub fn on_gone(&mut self, worker: W) {
        if let Some(known) = self.workers.get(&worker) {
            let jobs = known.jobs.iter().copied().collect();
            self.give_back(worker, jobs);
            self.workers.remove(&worker);
        }
    }

    fn give_back(&mut self, worker: W, ids: Vec<u64>) {
        for id in ids.into_iter().rev() {
            let known = self.workers.get_mut(&worker);
            let had = known.is_some_and(|known| known.jobs.remove(&id));
            if had && let Some(job) = self.jobs.get_mut(&id) {
                job.worker = None;
                self.waiting.push_front(id);
            }
        }
    }

    /// Gives a worker the first job that waits.
    pub fn give(&mut self, worker: W) -> Option<(u64, &Payload)> {
        let id = self.waiting.pop_front()?;
        self.workers.entry(worker).or_default().jobs.insert(id);
        let job = self.jobs.get_mut(&id)?;
        job.worker = Some(worker);
        Some((id, &job.payload))
    }

    /// Workers that have asked and are not gone.
    pub fn workers(&self) -> impl Iterator<Item = W> {
        self.workers.keys().copied()
    }

    /// Jobs that wait for a worker.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Jobs that are not done.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.jobs.len()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn pull(turn: u64, done: &[u64], holds: &[u64]) -> WorkerPull {
        WorkerPull {
            turn,
            done: done.to_vec(),
            holds: holds.to_vec(),
        }
    }

    fn with_jobs(count: u64) -> WorkPulling<char> {
        let mut work = WorkPulling::new(10, 1);
        for id in 1..=count {
            assert_eq!(work.on_job(Payload::from([0])), Ok(id));
        }
        work
    }

    fn given(work: &mut WorkPulling<char>, worker: char, room: usize) -> Vec<u64> {
        (0..room)
            .map_while(|_| work.give(worker).map(|(id, _)| id))
            .collect()
    }

    #[test]
    fn jobs_of_a_worker_that_is_gone_go_to_others_before_all_that_wait() {
        let mut work = with_jobs(6);
        assert_eq!(work.on_pull('a', &pull(1, &[], &[])), (true, vec![]));
        assert_eq!(given(&mut work, 'a', 2), [1, 2]);
        work.on_pull('b', &pull(1, &[], &[]));
        assert_eq!(given(&mut work, 'b', 1), [3]);
        work.on_gone('a');
        assert_eq!(work.workers().collect::<Vec<_>>(), ['b']);
        assert_eq!(work.on_pull('b', &pull(2, &[3], &[])), (true, vec![3]));
        assert_eq!(given(&mut work, 'b', 9), [1, 2, 4, 5, 6]);
        assert_eq!((work.waiting(), work.unfinished()), (0, 5));
        assert!(work.on_done(1) && !work.on_done(1), "whoever says so, once");
    }

    #[test]
    fn what_a_worker_was_given_and_does_not_name_waits_again() {
        let mut work = with_jobs(4);
        work.on_pull('a', &pull(1, &[], &[]));
        assert_eq!(given(&mut work, 'a', 3), [1, 2, 3]);
        // The answer was lost, or 2 was given back.
        assert_eq!(work.on_pull('a', &pull(2, &[1], &[3])), (true, vec![1]));
        assert_eq!(given(&mut work, 'b', 9), [2, 4]);
        // A question that was overtaken says nothing.
        assert_eq!(work.on_pull('a', &pull(1, &[3], &[])), (false, vec![]));
        work.on_returned('b', 4);
        work.on_returned('b', 3);
        assert_eq!(given(&mut work, 'a', 9), [4], "only what it had");
    }

    #[test]
    fn after_a_restart_a_job_in_a_workers_hands_is_not_given_to_another() {
        let mut work = WorkPulling::new(1, 1);
        work.recover([(7, Payload::from([7])), (5, Payload::from([5]))]);
        assert_eq!(work.waiting(), 2);
        assert_eq!(work.on_pull('a', &pull(9, &[], &[7])), (true, vec![]));
        assert_eq!(given(&mut work, 'b', 9), [5]);
        assert_eq!(
            work.on_job(Payload::from([8])),
            Ok(8),
            "above all that were given"
        );
        assert_eq!(work.on_job(Payload::from([9])), Err(TooManyJobs));
        work.on_gone('a');
        assert_eq!(given(&mut work, 'b', 9), [7, 8]);
    }

    #[test]
    fn a_job_that_is_done_while_it_waits_is_handed_out_to_nobody_and_holds_nobody_up() {
        let mut work = with_jobs(3);
        assert!(work.on_done(1));
        assert_eq!((work.waiting(), work.unfinished()), (2, 2));
        assert_eq!(given(&mut work, 'a', 9), [2, 3]);
    }

    #[test]
    fn a_question_that_comes_twice_counts_once() {
        let mut work = with_jobs(2);
        assert_eq!(work.on_pull('a', &pull(1, &[], &[])), (true, vec![]));
        assert_eq!(given(&mut work, 'a', 1), [1]);
        assert_eq!(work.on_pull('a', &pull(1, &[1], &[])), (false, vec![]));
        assert_eq!(given(&mut work, 'b', 9), [2], "the other is in hand");
    }
}
