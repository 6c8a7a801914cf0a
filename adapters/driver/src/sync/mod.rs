//! The few executor-neutral parts that no small crate offers in the shape the loop needs: one-waiter wake-up,
//! one-shot answer, a place and a pile that are empty nearly always, racing, joining, yielding, futures
//! driven by one task. Everything with several waiters is `async-channel`.

#[cfg(test)]
mod counted_wakes;
mod notify;
mod oneshot;
mod pile;
mod race;
mod rarely;
mod task_set;
mod wake_later;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[cfg(test)]
pub(crate) use counted_wakes::CountedWakes;
pub(crate) use notify::Notify;
pub(crate) use oneshot::{Receiver, Sender, oneshot};
pub(crate) use pile::Pile;
pub(crate) use race::{Either, both, race, yield_now};
pub(crate) use rarely::Rarely;
pub(crate) use task_set::TaskSet;
pub(crate) use wake_later::WakeLater;

/// A task, or a wait, without a result.
pub(crate) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Locks, whatever a panicking holder left behind: everything guarded in this crate is consistent between
/// statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
