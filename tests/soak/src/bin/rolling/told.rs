//! What became of one-way messages: each sender numbers those to one entity, and whoever handles one says
//! when. All processes run on one machine and read one clock, so what two nodes handled can be put in order;
//! an entity moves in network round trips, a thousand times what their clocks could differ by.

use std::collections::{BTreeMap, BTreeSet};

/// One process, and one entity that it sends to.
pub(crate) type Course = (u64, u64);

/// Messages of one sender to one entity.
#[derive(Debug, Default)]
struct Messages {
    /// Those that the region took.
    sent: BTreeSet<u64>,
    /// When each was handled, in nanoseconds of the machine's clock.
    handled: Vec<(u64, u64)>,
}

/// All one-way messages of a run.
#[derive(Debug, Default)]
pub(crate) struct Told {
    courses: BTreeMap<Course, Messages>,
    /// Nothing sent from now on is judged.
    is_sealed: bool,
    /// Messages that a region refused: their senders know.
    pub(crate) refused: u64,
}

/// What is wrong with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) sent: u64,
    /// Taken and never handled.
    pub(crate) missing: u64,
    /// Handled more than once.
    pub(crate) doubled: u64,
    /// Handled after a later one of the same sender to the same entity.
    pub(crate) overtaken: u64,
}

impl Told {
    pub(crate) fn sent(&mut self, course: Course, number: u64) {
        if !self.is_sealed {
            self.courses.entry(course).or_default().sent.insert(number);
        }
    }

    /// What is sent later has no time to arrive before the end of the run.
    pub(crate) const fn seal(&mut self) {
        self.is_sealed = true;
    }

    pub(crate) fn handled(&mut self, course: Course, number: u64, at: u64) {
        self.courses.entry(course).or_default().handled.push((at, number));
    }

    /// What is wrong so far.
    pub(crate) fn judge(&mut self) -> Verdict {
        let mut verdict = Verdict::default();
        for messages in self.courses.values_mut() {
            messages.handled.sort_unstable();
            let mut seen = BTreeSet::new();
            let mut highest = None;
            for (_, number) in &messages.handled {
                if !seen.insert(*number) {
                    verdict.doubled += 1;
                } else if highest > Some(*number) {
                    verdict.overtaken += 1;
                }
                highest = highest.max(Some(*number));
            }
            verdict.sent += messages.sent.len() as u64;
            verdict.missing += messages.sent.difference(&seen).count() as u64;
        }
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(handled: &[(u64, u64)]) -> Verdict {
        let mut told = Told::default();
        for number in 0..3 {
            told.sent((1, 7), number);
        }
        // Another sender's messages are in no order with these.
        told.sent((2, 7), 0);
        told.handled((2, 7), 0, 99);
        for (at, number) in handled {
            told.handled((1, 7), *number, *at);
        }
        told.judge()
    }

    #[test]
    fn each_once_and_in_order_is_right_whoever_says_so_first() {
        let right = Verdict {
            sent: 4,
            ..Verdict::default()
        };
        assert_eq!(verdict(&[(10, 0), (20, 1), (30, 2)]), right);
        assert_eq!(verdict(&[(30, 2), (10, 0), (20, 1)]), right);
        // One whose taking was never heard of, because its sender was killed.
        assert_eq!(verdict(&[(10, 0), (20, 1), (30, 2), (40, 3)]), right);
    }

    #[test]
    fn what_is_missing_doubled_or_overtaken_is_counted() {
        assert_eq!(verdict(&[(10, 0), (30, 2)]).missing, 1);
        let doubled = verdict(&[(10, 0), (20, 1), (25, 1), (30, 2)]);
        assert_eq!((doubled.doubled, doubled.overtaken), (1, 0));
        let overtaken = verdict(&[(10, 0), (20, 2), (30, 1)]);
        assert_eq!(
            (overtaken.missing, overtaken.doubled, overtaken.overtaken),
            (0, 0, 1)
        );
    }
}
