//! The application's work at the end of a node: what was registered, and what runs. A task runs on the users'
//! executor; whatever ends it, its end is told once. Decides nothing. Spec: `shutdown`.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use crate::sync::{Either, Notify, lock, race};

pub(crate) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What a user gave, not called yet.
pub(crate) type Make = Box<dyn FnOnce() -> Work + Send>;

/// Wraps what a user gave.
pub(crate) fn boxed<F, Fut>(make: F) -> Make
where
    F: FnOnce() -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    // Called where it runs: a panic of the call is one of the task.
    Box::new(move || Box::pin(async move { make().await }))
}

/// A task that waits for its phase.
pub(crate) struct RegisteredTask {
    pub(crate) name: Arc<str>,
    pub(crate) make: Make,
}

impl fmt::Debug for RegisteredTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registered").field(&self.name).finish()
    }
}

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskOutcome {
    Done,
    Panicked,
    /// Its executor has dropped it.
    Lost,
}

#[derive(Debug, Default)]
struct TaskInner {
    outcome: Mutex<Option<TaskOutcome>>,
    given_up: Notify,
}

/// A task that runs.
#[derive(Debug)]
pub(crate) struct RunningTask {
    pub(crate) name: Arc<str>,
    inside: Arc<TaskInner>,
}

/// Tells the end of a task, whatever it is.
struct TaskTicket {
    inside: Arc<TaskInner>,
    tell: Arc<Notify>,
}

impl TaskTicket {
    fn ended(&self, outcome: TaskOutcome) {
        lock(&self.inside.outcome).get_or_insert(outcome);
        self.tell.notify();
    }
}

impl Drop for TaskTicket {
    fn drop(&mut self) {
        self.ended(if std::thread::panicking() {
            TaskOutcome::Panicked
        } else {
            TaskOutcome::Lost
        });
    }
}

impl RunningTask {
    /// A task, and the future that runs it; `tell` is notified of its end.
    pub(crate) fn new(registered: RegisteredTask, tell: Arc<Notify>) -> (Self, Work) {
        let inside = Arc::new(TaskInner::default());
        let ticket = TaskTicket {
            inside: Arc::clone(&inside),
            tell,
        };
        let RegisteredTask { name, make } = registered;
        let work = async move {
            let given_up = Arc::clone(&ticket.inside);
            if let Either::Right(()) = race(given_up.given_up.notified(), async { make().await }).await {
                ticket.ended(TaskOutcome::Done);
            }
        };
        (Self { name, inside }, Box::pin(work))
    }

    /// How it ended, if it has.
    pub(crate) fn outcome(&self) -> Option<TaskOutcome> {
        *lock(&self.inside.outcome)
    }

    /// Nobody waits for it any more: it is dropped where it waits itself. One that holds its thread goes on.
    pub(crate) fn give_up(&self) {
        self.inside.given_up.notify();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn registered<Fut: Future<Output = ()> + Send + 'static>(
        make: impl FnOnce() -> Fut + Send + 'static,
    ) -> RegisteredTask {
        RegisteredTask {
            name: Arc::from("task"),
            make: boxed(make),
        }
    }

    fn poll(work: &mut Work) -> Poll<()> {
        work.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    fn is_told(tell: &Notify) -> bool {
        tell.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn a_task_that_ends_panics_or_is_dropped_is_told_once() {
        let tell = Arc::new(Notify::default());
        let (task, mut work) = RunningTask::new(registered(|| async {}), Arc::clone(&tell));
        assert_eq!((task.outcome(), is_told(&tell)), (None, false));
        assert!(poll(&mut work).is_ready());
        assert!(is_told(&tell));
        drop(work);
        assert_eq!(task.outcome(), Some(TaskOutcome::Done));

        let (task, mut work) = RunningTask::new(
            registered(|| async { panic!("as it was told to") }),
            Arc::clone(&tell),
        );
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| poll(&mut work)));
        assert!(caught.is_err());
        assert_eq!(
            (task.outcome(), is_told(&tell)),
            (Some(TaskOutcome::Panicked), true)
        );

        let (task, work) = RunningTask::new(registered(std::future::pending), Arc::clone(&tell));
        drop(work);
        assert_eq!((task.outcome(), is_told(&tell)), (Some(TaskOutcome::Lost), true));
    }

    #[test]
    fn a_task_that_panics_when_it_is_made_has_panicked() {
        let tell = Arc::new(Notify::default());
        let make = || -> std::future::Ready<()> { panic!("as it was told to") };
        let (task, mut work) = RunningTask::new(registered(make), tell);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| poll(&mut work)));
        assert!(caught.is_err());
        assert_eq!(task.outcome(), Some(TaskOutcome::Panicked));
    }

    #[test]
    fn a_task_that_is_given_up_is_dropped_where_it_waits() {
        struct Held(Arc<AtomicBool>);
        impl Drop for Held {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let dropped = Arc::new(AtomicBool::new(false));
        let held = Held(Arc::clone(&dropped));
        let make = move || async move {
            let _held = held;
            std::future::pending::<()>().await;
        };
        let (task, mut work) = RunningTask::new(registered(make), Arc::default());
        assert!(poll(&mut work).is_pending());
        task.give_up();
        assert!(poll(&mut work).is_ready());
        assert!(dropped.load(Ordering::SeqCst));
    }
}
