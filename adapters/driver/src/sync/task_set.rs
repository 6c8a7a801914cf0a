//! Futures that one task drives together: each is polled only when it was woken, in the order of the
//! wake-ups. What would be `FuturesUnordered` of `futures-util`, but for two things: a wake-up while the
//! owner runs costs no scheduling, and it adds no packages to every user's build.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

use super::{Notify, lock};

/// How often one call goes through those that were woken. One that wakes itself again and again, because it
/// has used up its executor's patience for instance, must not keep its owner from anything else.
const PASSES_MAX: usize = 4;

/// Who was woken. Holds each future at most once.
#[derive(Debug, Default)]
struct WokenTasks {
    keys: Mutex<Vec<u64>>,
    owner: Notify,
}

#[derive(Debug)]
struct TaskAlarm {
    key: u64,
    is_woken: AtomicBool,
    woken: Arc<WokenTasks>,
}

impl Wake for TaskAlarm {
    fn wake(self: Arc<Self>) {
        Self::wake_by_ref(&self);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_woken.swap(true, Ordering::SeqCst) {
            lock(&self.woken.keys).push(self.key);
            self.woken.owner.notify();
        }
    }
}

struct TaskMember {
    future: Pin<Box<dyn Future<Output = ()> + Send>>,
    alarm: Arc<TaskAlarm>,
    /// The alarm, in the form that futures want.
    waker: Waker,
}

/// See the module.
#[derive(Default)]
pub(crate) struct TaskSet {
    members: HashMap<u64, TaskMember>,
    next: u64,
    woken: Arc<WokenTasks>,
    /// Kept for its memory.
    batch: Vec<u64>,
}

impl TaskSet {
    /// Adds a future; the next [`Self::poll`] looks at it first.
    pub(crate) fn push(&mut self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let key = self.next;
        self.next += 1;
        let alarm = Arc::new(TaskAlarm {
            key,
            is_woken: AtomicBool::new(false),
            woken: Arc::clone(&self.woken),
        });
        let member = TaskMember {
            future,
            waker: Waker::from(Arc::clone(&alarm)),
            alarm,
        };
        member.waker.wake_by_ref();
        self.members.insert(key, member);
    }

    /// Drives those that were woken, as far as they get. With a `cx` its task is woken once there is more to
    /// do; without, the owner calls again anyway.
    pub(crate) fn poll(&mut self, cx: Option<&mut Context<'_>>) {
        self.woken.owner.disarm();
        self.drive();
        let Some(cx) = cx else {
            return;
        };
        for _ in 0..PASSES_MAX {
            if self.woken.owner.poll(cx).is_pending() {
                return;
            }
            self.drive();
        }
        cx.waker().wake_by_ref();
    }

    fn drive(&mut self) {
        std::mem::swap(&mut *lock(&self.woken.keys), &mut self.batch);
        for key in self.batch.drain(..) {
            let Some(member) = self.members.get_mut(&key) else {
                continue;
            };
            // Before the look: what wakes it from here on asks for another one.
            member.alarm.is_woken.store(false, Ordering::SeqCst);
            let poll = member
                .future
                .as_mut()
                .poll(&mut Context::from_waker(&member.waker));
            if poll.is_ready() {
                self.members.remove(&key);
            }
        }
    }
}

impl std::fmt::Debug for TaskSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskSet")
            .field("members", &self.members.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::CountedWakes;
    use std::future::poll_fn;
    use std::sync::atomic::AtomicUsize;
    use std::task::Poll;

    fn poll(set: &mut TaskSet, owner: &Arc<CountedWakes>) {
        let waker = owner.waker();
        set.poll(Some(&mut Context::from_waker(&waker)));
    }

    /// Waits for `gate`; counts how often it is looked at.
    fn through(gate: &Arc<Notify>, looks: &Arc<AtomicUsize>) -> impl Future<Output = ()> + use<> {
        let (gate, looks) = (Arc::clone(gate), Arc::clone(looks));
        poll_fn(move |cx| {
            looks.fetch_add(1, Ordering::SeqCst);
            gate.poll(cx)
        })
    }

    #[test]
    fn only_those_that_were_woken_are_polled_and_those_that_end_are_dropped() {
        let (mut set, owner) = (TaskSet::default(), Arc::<CountedWakes>::default());
        let gates: Vec<Arc<Notify>> = (0..3).map(|_| Arc::default()).collect();
        let looks: Vec<Arc<AtomicUsize>> = (0..3).map(|_| Arc::default()).collect();
        for (gate, looks) in gates.iter().zip(&looks) {
            set.push(Box::pin(through(gate, looks)));
        }
        poll(&mut set, &owner);
        gates[1].notify();
        assert_eq!(owner.count(), 1);
        poll(&mut set, &owner);
        let looks: Vec<usize> = looks.iter().map(|looks| looks.load(Ordering::SeqCst)).collect();
        assert_eq!((looks, set.members.len()), (vec![1, 2, 1], 2));
    }

    #[test]
    fn a_wake_up_while_the_owner_runs_schedules_nothing_and_is_not_lost() {
        let (mut set, owner) = (TaskSet::default(), Arc::<CountedWakes>::default());
        let (gate, looks) = (Arc::<Notify>::default(), Arc::<AtomicUsize>::default());
        set.push(Box::pin(through(&gate, &looks)));
        poll(&mut set, &owner);
        set.poll(None);
        gate.notify();
        assert_eq!(owner.count(), 0);
        poll(&mut set, &owner);
        assert_eq!((set.members.len(), owner.count()), (0, 0));
    }

    #[test]
    fn what_one_future_does_for_another_happens_in_the_same_call() {
        let (mut set, owner) = (TaskSet::default(), Arc::<CountedWakes>::default());
        let (gate, looks) = (Arc::<Notify>::default(), Arc::<AtomicUsize>::default());
        set.push(Box::pin(through(&gate, &looks)));
        set.push(Box::pin(async move { gate.notify() }));
        poll(&mut set, &owner);
        assert_eq!((set.members.len(), owner.count()), (0, 0));
    }

    #[test]
    fn one_that_wakes_itself_for_ever_leaves_the_owner_its_turn() {
        let (mut set, owner) = (TaskSet::default(), Arc::<CountedWakes>::default());
        set.push(Box::pin(poll_fn(|cx| {
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        })));
        poll(&mut set, &owner);
        assert_eq!((set.members.len(), owner.count()), (1, 1));
    }
}
