//! One barrier: a change that goes on when everybody it concerns has marked. Says who is waited for and until
//! when; never sends, and knows neither what moves nor what a mark is. Spec: sharding 10.14 d and e, 10.18.
//!
//! Several changes of one thing follow each other; only marks of the present one count, because one of an
//! earlier change says nothing about what was sent since.
//!
//! A link that is reset changes nothing here. A mark says that its sender has sent all, and stays true; what
//! was lost behind it has an outcome of its own. A mark that was lost itself is repeated until it is
//! acknowledged, on a link that is read only when the one before it has been read to its end or dropped.

use crate::ordered::OrderedSet;
use crate::time::Instant;

/// Who has to mark a change before it goes on. Marking costs the logarithm of the number of senders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Barrier<S> {
    /// The number of the change.
    change: u64,
    /// Senders that have not marked.
    waiting: OrderedSet<S>,
    deadline: Instant,
}

impl<S: Ord> Barrier<S> {
    /// A change that all `expected` have to mark before `deadline`.
    pub(crate) fn new(change: u64, expected: impl IntoIterator<Item = S>, deadline: Instant) -> Self {
        Self {
            change,
            waiting: expected.into_iter().collect(),
            deadline,
        }
    }

    /// A sender has marked a change. Whether that was this one, and it was waited for.
    pub(crate) fn marked(&mut self, sender: &S, change: u64) -> bool {
        change == self.change && self.waiting.remove(sender)
    }

    /// A sender sends nothing more, ever. Whether it was waited for.
    pub(crate) fn sender_gone(&mut self, sender: &S) -> bool {
        self.waiting.remove(sender)
    }

    /// Whether everybody has marked.
    pub(crate) fn is_open(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Who has not marked.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &S> {
        self.waiting.iter()
    }

    /// The number of the change.
    pub(crate) const fn change(&self) -> u64 {
        self.change
    }

    /// When the change is given up.
    pub(crate) const fn deadline(&self) -> Instant {
        self.deadline
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const LATER: Instant = Instant::from_micros(9);

    #[test]
    fn a_barrier_opens_when_everybody_has_marked_or_is_gone() {
        let mut barrier = Barrier::new(7, ["a", "b"], LATER);
        assert!(!barrier.is_open());
        assert!(barrier.marked(&"a", 7));
        assert!(!barrier.marked(&"a", 7), "said twice");
        assert_eq!(barrier.waiting().collect::<Vec<_>>(), [&"b"]);
        assert!(barrier.sender_gone(&"b"));
        assert!(!barrier.sender_gone(&"c"), "not expected");
        assert!(barrier.is_open());
        assert_eq!((barrier.change(), barrier.deadline()), (7, LATER));
    }

    #[test]
    fn marks_of_another_change_do_not_count() {
        let mut barrier = Barrier::new(7, ["a"], LATER);
        assert!(!barrier.marked(&"a", 6) && !barrier.marked(&"a", 8));
        assert!(!barrier.is_open());
    }
}
