//! Tasks that are woken once whoever wakes them is done: one that ran at once on another thread would find
//! held what it wants, and on the same core it would hold up the others. Decides nothing.

use std::task::Waker;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct WakeLater {
    /// Most of the time there is one.
    first: Option<Waker>,
    /// As many as a turn has messages, which is limited.
    others: Vec<Waker>,
}

impl WakeLater {
    /// One more.
    pub(crate) fn push(&mut self, waker: Waker) {
        if self.first.is_none() {
            self.first = Some(waker);
        } else {
            self.others.push(waker);
        }
    }

    /// Those of another one too.
    pub(crate) fn append(&mut self, mut other: Self) {
        let first = other.first.take();
        first
            .into_iter()
            .chain(other.others.drain(..))
            .for_each(|waker| self.push(waker));
    }

    /// Whether there are none.
    pub(crate) const fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Wakes all of them.
    pub(crate) fn wake(self) {
        drop(self);
    }
}

/// Whatever becomes of whoever holds them, nobody waits for ever.
impl Drop for WakeLater {
    fn drop(&mut self) {
        let others = self.others.drain(..);
        self.first.take().into_iter().chain(others).for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::sync::CountedWakes;

    #[test]
    fn all_are_woken_later_and_each_once() {
        let (task, mut later) = (Arc::<CountedWakes>::default(), WakeLater::default());
        assert!(later.is_empty());
        let mut others = WakeLater::default();
        later.push(task.waker());
        others.push(task.waker());
        others.push(task.waker());
        later.append(others);
        assert_eq!((later.is_empty(), task.count()), (false, 0));
        later.wake();
        assert_eq!(task.count(), 3);
    }
}
