//! What of a log a majority has, and where it may be cut: behind every entry, or of a long log behind every
//! few. Counts bytes; never asks anybody. Spec: sharding 10.7.

use alloc::collections::VecDeque;

use crate::journal::state::{LogEntry, Position};
use crate::store::Sequence;

/// Places at which a log may be cut: it can be forgotten to within two in a hundred of its bytes, and an
/// owner needs a few kilobytes for it at most. The last entry always has one of its own.
pub(super) const CUTS_MAX: usize = 128;

/// A place at which the log may be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LogCut {
    /// The last entry before it.
    position: Position,
    /// The last record before it.
    last: Sequence,
    /// Bytes of the entries between the one before and this.
    bytes: usize,
}

/// What there would be no more of a log behind a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CutPrefix {
    pub(super) through: Position,
    pub(super) covers: Sequence,
    pub(super) bytes: usize,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct EntryExtent {
    /// The last entry.
    position: Position,
    /// The last record.
    last: Sequence,
    /// The last entry that the newest snapshot covers.
    covered: Position,
    /// Of the entries behind that, ascending.
    cuts: VecDeque<LogCut>,
    /// Their bytes.
    bytes: usize,
}

impl EntryExtent {
    /// A log of which a snapshot covers everything so far.
    pub(super) const fn behind(covered: Position, last: Sequence) -> Self {
        Self {
            position: covered,
            last,
            covered,
            cuts: VecDeque::new(),
            bytes: 0,
        }
    }

    pub(super) const fn position(&self) -> Position {
        self.position
    }

    pub(super) const fn last(&self) -> Sequence {
        self.last
    }

    /// Bytes of the entries behind the newest snapshot.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// One more entry. Linear in [`CUTS_MAX`] for a long log.
    pub(super) fn append(&mut self, entry: &LogEntry) {
        let bytes = entry.bytes();
        self.position = entry.position;
        self.last = entry.next().saturating_sub(1);
        self.bytes = self.bytes.saturating_add(bytes);
        self.cuts.push_back(LogCut {
            position: self.position,
            last: self.last,
            bytes,
        });
        if self.cuts.len() > CUTS_MAX {
            self.join_smallest();
        }
    }

    /// Gives up the cut after which there is least to the next one; the last two stay.
    fn join_smallest(&mut self) {
        let before_last = self.cuts.len().saturating_sub(2);
        let pairs = self.cuts.iter().zip(self.cuts.iter().skip(1)).take(before_last);
        let sums = pairs.map(|(one, next)| one.bytes.saturating_add(next.bytes));
        let smallest = sums.enumerate().min_by_key(|(_, bytes)| *bytes);
        let Some((at, _)) = smallest else { return };
        if let Some(given_up) = self.cuts.remove(at)
            && let Some(next) = self.cuts.get_mut(at)
        {
            next.bytes = next.bytes.saturating_add(given_up.bytes);
        }
    }

    /// Everything.
    pub(super) const fn all(&self) -> CutPrefix {
        CutPrefix {
            through: self.position,
            covers: self.last,
            bytes: self.bytes,
        }
    }

    /// The most that has no record behind this one; `None` if that is nothing.
    pub(super) fn through(&self, through: Sequence) -> Option<CutPrefix> {
        if through >= self.last {
            return (self.position > self.covered).then(|| self.all());
        }
        let mut found = None;
        let mut bytes = 0_usize;
        for cut in self.cuts.iter().take_while(|cut| cut.last <= through) {
            bytes = bytes.saturating_add(cut.bytes);
            found = Some(CutPrefix {
                through: cut.position,
                covers: cut.last,
                bytes,
            });
        }
        found
    }

    /// There is no more of the log before this. Cuts may have been given up since the prefix was taken.
    pub(super) fn cut(&mut self, prefix: CutPrefix) {
        self.covered = self.covered.max(prefix.through);
        self.bytes = self.bytes.saturating_sub(prefix.bytes);
        let mut rest = prefix.bytes;
        while let Some(first) = self.cuts.front().filter(|cut| cut.position <= prefix.through) {
            rest = rest.saturating_sub(first.bytes);
            self.cuts.pop_front();
        }
        if let Some(first) = self.cuts.front_mut() {
            first.bytes = first.bytes.saturating_sub(rest);
        }
    }
}
