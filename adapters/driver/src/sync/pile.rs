//! What several put down and one takes away, all at once. Decides nothing.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::lock;

/// See the module. The loop looks at each turn: looking at an empty one costs no lock.
#[derive(Debug)]
pub(crate) struct Pile<T> {
    /// What another thread puts down at this moment may be missed: whoever puts something down wakes the
    /// taker afterwards.
    has_any: AtomicBool,
    things: Mutex<VecDeque<T>>,
}

impl<T> Default for Pile<T> {
    fn default() -> Self {
        Self {
            has_any: AtomicBool::new(false),
            things: Mutex::default(),
        }
    }
}

impl<T> Pile<T> {
    pub(crate) fn push(&self, thing: T) {
        let mut things = lock(&self.things);
        things.push_back(thing);
        self.has_any.store(true, Ordering::Release);
    }

    /// Several: nobody sees the first without the last.
    pub(crate) fn push_all(&self, all: impl IntoIterator<Item = T>) {
        let mut things = lock(&self.things);
        things.extend(all);
        self.has_any.store(!things.is_empty(), Ordering::Release);
    }

    /// Moves all of them to an empty `into`.
    pub(crate) fn take(&self, into: &mut VecDeque<T>) {
        if self.is_empty() {
            return;
        }
        let mut things = lock(&self.things);
        self.has_any.store(false, Ordering::Relaxed);
        std::mem::swap(&mut *things, into);
    }

    /// Takes the first.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn take_one(&self) -> Option<T> {
        let mut things = lock(&self.things);
        let first = things.pop_front();
        self.has_any.store(!things.is_empty(), Ordering::Release);
        first
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.has_any.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_was_put_down_is_taken_away_in_its_order() {
        let (pile, mut taken) = (Pile::default(), VecDeque::new());
        pile.take(&mut taken);
        assert!(taken.is_empty() && pile.is_empty());
        pile.push(1);
        pile.push_all([2, 3]);
        assert_eq!(pile.take_one(), Some(1));
        pile.push_all([]);
        pile.push(4);
        pile.take(&mut taken);
        assert_eq!(taken.drain(..).collect::<Vec<_>>(), [2, 3, 4]);
        assert_eq!(pile.take_one(), None);
        assert!(pile.is_empty());
        pile.push_all([5]);
        pile.take(&mut taken);
        assert_eq!(taken.drain(..).collect::<Vec<_>>(), [5]);
        pile.push(6);
        pile.take(&mut taken);
        assert_eq!(taken, [6]);
    }
}
