//! Whether the users' executor does what it is given: it gets a task that does nothing, and has until the
//! next looks of the loop to run it. Counts looks, not time, so that a pause of the whole process is nobody's
//! fault. Decides when a node gives its place up; never waits. Spec: `ARCHITECTURE.md`.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quorate_core::input::{Command, Input, MembershipCommand};
use quorate_core::membership::member::Status;

use super::machine::Machine;
use super::replies::ReplyWaiter;
use super::{LoopAction, Pump};

/// How often the loop looks at its executor: half of what a handler may hold a thread before it is named.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Looks after which a handler that holds a thread is named: it has held it for a second at least, a look
/// more at most.
pub(crate) const HELD_LOOKS: u64 = 3;

/// Looks after which an executor that has not run an empty task stands still: a second at least. A handler
/// that takes so long is named by then.
const STALLED_LOOKS: u32 = 3;

/// What a look has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExecutorFinding {
    /// Nothing to say.
    Nothing,
    /// It stands still; said once.
    StandsStill,
    /// It has stood still for longer than it may: said at every look.
    TooLong,
    /// It goes on.
    GoesOn,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Executor {
    /// The task that waits, and whether it has run.
    has_run: Option<Arc<AtomicBool>>,
    /// Looks since it was given.
    looks: u32,
    stalled: bool,
    /// Looks since somebody asked for the share of stalls, and those at which the task had not run.
    seen: (u32, u32),
    /// The node was told to leave for it.
    gave_up: bool,
}

impl Executor {
    /// Whether it stands still.
    pub(crate) const fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// For how long its task has waited, about.
    pub(crate) fn waited(&self) -> Duration {
        LOOK_INTERVAL * self.looks
    }

    /// The share of looks since the last call at which the task that waits had not run for half a second at
    /// least; `None` if there was no look.
    pub(super) fn take_stall(&mut self) -> Option<f64> {
        let (looks, stalled) = std::mem::take(&mut self.seen);
        (looks > 0).then(|| f64::from(stalled) / f64::from(looks))
    }

    /// Looks once; gives the next task for the executor if it has run the last one.
    pub(crate) fn look(
        &mut self,
        limit: Option<Duration>,
    ) -> (ExecutorFinding, Option<impl Future<Output = ()> + use<>>) {
        self.seen.0 = self.seen.0.saturating_add(1);
        if self
            .has_run
            .as_ref()
            .is_none_or(|has_run| has_run.load(Ordering::Acquire))
        {
            let found = if std::mem::take(&mut self.stalled) {
                ExecutorFinding::GoesOn
            } else {
                ExecutorFinding::Nothing
            };
            let has_run = Arc::new(AtomicBool::new(false));
            self.has_run = Some(Arc::clone(&has_run));
            self.looks = 0;
            return (found, Some(async move { has_run.store(true, Ordering::Release) }));
        }
        self.looks = self.looks.saturating_add(1);
        self.seen.1 = self.seen.1.saturating_add(1);
        if limit.is_some_and(|limit| self.waited() >= limit) {
            self.stalled = true;
            return (ExecutorFinding::TooLong, None);
        }
        if self.looks >= STALLED_LOOKS && !self.stalled {
            self.stalled = true;
            return (ExecutorFinding::StandsStill, None);
        }
        (ExecutorFinding::Nothing, None)
    }
}

impl<M: Machine> Pump<M> {
    /// The same pump with an eye on the users' executor.
    pub(crate) fn with_watched_executor(mut self) -> Self {
        self.base.look_at = Some(self.base.now.mono + LOOK_INTERVAL);
        self
    }

    /// Names handlers that hold threads, and leaves if the executor does nothing for too long: whoever can
    /// work has better use for this node's shards.
    pub(super) fn look_at_executor(&mut self) {
        self.base.look_at = Some(self.base.now.mono + LOOK_INTERVAL);
        for entity in self.hosted.holders(HELD_LOOKS) {
            self.base.stats.threads_held += 1;
            let entity = entity.as_deref().unwrap_or("one that is gone");
            tracing::warn!(
                target: "cluster::sharding", event = "thread_held", me = %self.base.me, entity,
                "a handler has blocked a thread of the executor for a second; move blocking work to another thread"
            );
        }
        let (found, task) = self.executor.look(self.base.config.executor.stall_timeout);
        if let Some(task) = task {
            self.base.act(LoopAction::Start(Box::pin(task)));
        }
        let waited = self.executor.waited();
        match found {
            ExecutorFinding::Nothing => {}
            ExecutorFinding::StandsStill => {
                self.base.stats.executor_stalls += 1;
                tracing::warn!(
                    target: "cluster::membership", event = "executor_stalled", me = %self.base.me, ?waited,
                    "the application's executor makes no progress; this node is not ready"
                );
            }
            ExecutorFinding::GoesOn => {
                tracing::info!(target: "cluster::membership", event = "executor_goes_on", me = %self.base.me);
            }
            ExecutorFinding::TooLong => self.give_up_place(waited),
        }
    }

    fn give_up_place(&mut self, waited: Duration) {
        match self.linked.node.view().self_status() {
            Status::Joining | Status::WeaklyUp | Status::Up | Status::PreparingForShutdown => {}
            Status::ReadyForShutdown | Status::Leaving | Status::Exiting | Status::Down | Status::Removed => {
                return;
            }
        }
        tracing::error!(
            target: "cluster::membership", event = "leaving_stalled", me = %self.base.me, ?waited,
            "the application's executor made no progress for `executor.stall_timeout`; this node leaves"
        );
        self.executor.gave_up = true;
        let token = self.replies.insert(ReplyWaiter::Nobody);
        let command = Command::Membership(MembershipCommand::Leave);
        self.linked.handle(Input::Command { token, command });
    }

    /// Whether this node leaves because its executor stood still for too long.
    pub(crate) const fn gave_up_place(&self) -> bool {
        self.executor.gave_up
    }

    /// Whether work can be done here: the executor runs, and the node's membership is confirmed.
    pub(crate) fn is_able(&self) -> bool {
        !self.executor.is_stalled() && !self.hosted.are_held_back()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    const LIMIT: Option<Duration> = Some(Duration::from_secs(3));

    #[test]
    fn an_executor_that_runs_nothing_is_said_to_stand_still_once_and_then_too_long_until_it_goes_on() {
        let mut executor = Executor::default();
        let (found, task) = executor.look(LIMIT);
        assert_eq!(found, ExecutorFinding::Nothing);
        let found: Vec<_> = (0..7).map(|_| executor.look(LIMIT).0).collect();
        let expected = [
            ExecutorFinding::Nothing,
            ExecutorFinding::Nothing,
            ExecutorFinding::StandsStill,
            ExecutorFinding::Nothing,
            ExecutorFinding::Nothing,
        ];
        assert_eq!(found[..5], expected);
        assert_eq!(found[5..], [ExecutorFinding::TooLong, ExecutorFinding::TooLong]);
        assert!(executor.is_stalled());
        assert_eq!(executor.take_stall(), Some(7.0 / 8.0));
        assert_eq!(executor.take_stall(), None);
        let mut task = pin!(task.unwrap());
        assert!(
            task.as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_ready()
        );
        let (found, task) = executor.look(LIMIT);
        assert_eq!((found, executor.is_stalled()), (ExecutorFinding::GoesOn, false));
        assert!(task.is_some());
    }

    #[test]
    fn without_a_limit_it_only_stands_still() {
        let mut executor = Executor::default();
        drop(executor.look(None));
        let said: Vec<_> = (0..100).map(|_| executor.look(None).0).collect();
        assert_eq!(
            said.iter()
                .filter(|found| **found == ExecutorFinding::StandsStill)
                .count(),
            1
        );
        assert!(!said.contains(&ExecutorFinding::TooLong));
    }

    #[test]
    fn an_executor_that_went_on_is_looked_at_as_often_before_it_stands_still_again() {
        let mut executor = Executor::default();
        for _ in 0..3 {
            let (_, task) = executor.look(LIMIT);
            let mut task = pin!(task.expect("the last one has run"));
            for _ in 0..2 {
                assert_eq!(executor.look(LIMIT).0, ExecutorFinding::Nothing);
            }
            let done = task.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(done.is_ready());
        }
    }
}
