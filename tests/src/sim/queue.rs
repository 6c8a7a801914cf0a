//! What happens when: events ordered by virtual time, and by the order in which they were scheduled within
//! one instant.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Events waiting for their time.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    sequence: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: u64,
    sequence: u64,
    item: T,
}

impl<T> Queue<T> {
    pub(crate) const fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            sequence: 0,
        }
    }

    /// Schedules an event at a time in microseconds.
    pub(crate) fn push(&mut self, at: u64, item: T) {
        self.sequence += 1;
        self.heap.push(Reverse(Entry {
            at,
            sequence: self.sequence,
            item,
        }));
    }

    /// Takes the next event if it is due at or before `until`.
    pub(crate) fn pop_until(&mut self, until: u64) -> Option<(u64, T)> {
        if self.heap.peek()?.0.at > until {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.item))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Entry<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_in_the_order_they_were_scheduled() {
        let mut queue = Queue::new();
        queue.push(5, "late");
        queue.push(3, "first");
        queue.push(3, "second");
        assert_eq!(queue.pop_until(2), None);
        assert_eq!(queue.pop_until(9), Some((3, "first")));
        assert_eq!(queue.pop_until(9), Some((3, "second")));
        assert_eq!(queue.pop_until(4), None);
        assert_eq!(queue.pop_until(9), Some((5, "late")));
    }
}
