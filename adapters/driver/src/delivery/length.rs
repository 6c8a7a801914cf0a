//! How long the log of a durable producer or of a work queue is, how much of it is needed, and what makes it
//! shorter: deleting what stands before the oldest message that nobody has confirmed, and writing that one
//! anew behind the rest. Counts; never writes. Spec: sharding 1.14, 10.7.

use std::collections::VecDeque;

use quorate_core::journal::state::{ENTRY_BYTES, RECORD_BYTES};
use quorate_core::ordered::OrderedMap;
use quorate_core::store::Sequence;

use crate::queue_bounds::QueueBounds;

/// What a message takes beside itself and its entity's id: a number, two lengths and what an append of its
/// own costs.
const MESSAGE_OVERHEAD: usize = 32 + RECORD_BYTES + ENTRY_BYTES;

/// Records that are written together: a commit of every store takes as many.
pub(super) const BATCH_MAX: usize = 256;

/// So many records more than messages are unconfirmed, and the log is made shorter.
const NEEDLESS_MAX: usize = 1_000;

/// What a message takes.
pub(crate) const fn bytes_of(entity: usize, payload: usize) -> usize {
    entity.saturating_add(payload).saturating_add(MESSAGE_OVERHEAD)
}

/// An append that is in the log.
#[derive(Clone, Copy, Debug)]
struct Append {
    last: Sequence,
    bytes: usize,
}

/// A message that nobody has confirmed.
#[derive(Clone, Copy, Debug)]
struct Live {
    seq: u64,
    bytes: usize,
}

/// What makes the log shorter: these are written anew, together, and then everything through this record is
/// deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TrimPlan {
    pub(super) anew: Vec<u64>,
    pub(super) through: Sequence,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Length {
    bounds: QueueBounds,
    first: Sequence,
    last: Sequence,
    appends: VecDeque<Append>,
    bytes: usize,
    /// By place.
    live: OrderedMap<Sequence, Live>,
    /// Where each lies.
    places: OrderedMap<u64, Sequence>,
    live_bytes: usize,
}

impl Length {
    /// A log that begins there, without a record so far.
    pub(super) const fn new(bounds: QueueBounds, first: Sequence) -> Self {
        Self {
            bounds,
            first,
            last: first.saturating_sub(1),
            appends: VecDeque::new(),
            bytes: 0,
            live: OrderedMap::new(),
            places: OrderedMap::new(),
            live_bytes: 0,
        }
    }

    pub(super) const fn last(&self) -> Sequence {
        self.last
    }

    pub(super) const fn bounds(&self) -> QueueBounds {
        self.bounds
    }

    /// Whether a message that takes so much may be added.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.live.is_empty() || self.live_bytes.saturating_add(bytes) <= self.bounds.live_bytes_max()
    }

    /// So many records were appended as one, of so many bytes; the place of the first of them.
    pub(super) fn appended(&mut self, records: u64, bytes: usize) -> Sequence {
        let first = self.last + 1;
        self.last += records;
        let bytes = bytes.saturating_add(ENTRY_BYTES + RECORD_BYTES * records as usize);
        self.bytes = self.bytes.saturating_add(bytes);
        let last = self.last;
        self.appends.push_back(Append { last, bytes });
        first
    }

    /// This message lies there now, and is needed.
    pub(super) fn lies(&mut self, seq: u64, at: Sequence, bytes: usize) {
        self.is_needless(seq);
        self.places.insert(seq, at);
        self.live.insert(at, Live { seq, bytes });
        self.live_bytes = self.live_bytes.saturating_add(bytes);
    }

    /// This message is confirmed.
    pub(super) fn is_needless(&mut self, seq: u64) {
        if let Some(live) = self.places.remove(&seq).and_then(|at| self.live.remove(&at)) {
            self.live_bytes = self.live_bytes.saturating_sub(live.bytes);
        }
    }

    /// Everything through this record is deleted.
    pub(super) fn deleted(&mut self, through: Sequence) {
        self.first = self.first.max(through + 1);
        while let Some(append) = self.appends.front().filter(|append| append.last <= through) {
            self.bytes = self.bytes.saturating_sub(append.bytes);
            self.appends.pop_front();
        }
    }

    /// Whether there is so much that nobody needs that the log is to be made shorter, until
    /// [`Self::is_short`].
    pub(super) fn is_long(&self) -> bool {
        self.exceeds(1)
    }

    /// Whether half of that is gone.
    pub(super) fn is_short(&self) -> bool {
        !self.exceeds(2)
    }

    fn exceeds(&self, part: usize) -> bool {
        let log = self.bounds.log_bytes_max;
        let needless = self.live_bytes.max(log / 16).min(log / 4) / part;
        let records = (self.last + 1).saturating_sub(self.first);
        let records = usize::try_from(records).unwrap_or(usize::MAX);
        let needless_records = self.live.len().saturating_add(NEEDLESS_MAX) / part;
        self.bytes > self.live_bytes.saturating_add(needless)
            || records > self.live.len().saturating_add(needless_records)
    }

    /// The next step. What is at the log's beginning and needless goes without being written anew.
    pub(super) fn plan(&self) -> TrimPlan {
        let mut anew = Vec::new();
        let mut room = self.bounds.batch_bytes();
        let mut through = self.last;
        let mut before = self.first;
        for (at, live) in &self.live {
            let is_free = *at > before;
            if (is_free && anew.is_empty())
                || anew.len() >= BATCH_MAX
                || (live.bytes > room && !anew.is_empty())
            {
                through = *at - 1;
                break;
            }
            room = room.saturating_sub(live.bytes);
            anew.push(live.seq);
            before = *at + 1;
        }
        TrimPlan { anew, through }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::journal::state::LogEntry;
    use quorate_core::token::Token;

    const BOUNDS: QueueBounds = QueueBounds {
        log_bytes_max: 64 << 10,
        append_bytes_max: 4 << 20,
    };

    /// Appends a message alone.
    fn sent(length: &mut Length, seq: u64, payload: usize) {
        let bytes = bytes_of(1, payload);
        let at = length.appended(1, bytes - MESSAGE_OVERHEAD);
        length.lies(seq, at, bytes);
    }

    #[test]
    fn s_1_14_each_record_of_an_append_counts_as_voters_count_it() {
        for records in [1, 2, BATCH_MAX] {
            let entry = LogEntry {
                position: 1,
                origin: Token::NONE,
                first: 1,
                records: vec![[7; 3].into(); records],
            };
            let mut length = Length::new(BOUNDS, 1);
            length.appended(records as u64, 3 * records);
            assert_eq!(length.bytes, entry.bytes());
        }
    }

    #[test]
    fn s_1_14_what_is_confirmed_at_the_beginning_is_deleted_and_nothing_is_written_anew_for_it() {
        let mut length = Length::new(BOUNDS, 1);
        (1..=8).for_each(|seq| sent(&mut length, seq, 3_000));
        assert!(!length.is_long());
        (1..=6).for_each(|seq| length.is_needless(seq));
        assert!(length.is_long());
        let plan = length.plan();
        assert_eq!((&plan.anew[..], plan.through), (&[][..], 6));
        length.deleted(plan.through);
        assert!(length.is_short());
    }

    #[test]
    fn s_1_14_one_that_nobody_confirms_is_written_anew_behind_the_rest() {
        let mut length = Length::new(BOUNDS, 1);
        (1..=8).for_each(|seq| sent(&mut length, seq, 3_000));
        (2..=8).for_each(|seq| length.is_needless(seq));
        assert!(length.is_long());
        let plan = length.plan();
        assert_eq!((&plan.anew[..], plan.through), (&[1][..], 8));
        sent(&mut length, 1, 3_000);
        length.deleted(plan.through);
        assert!(length.is_short());
    }

    /// As a queue does it; says how long the log was meanwhile.
    fn shorten(length: &mut Length, payload: usize) -> usize {
        let mut most = length.bytes;
        if length.is_long() {
            for _ in 0..1_000 {
                let plan = length.plan();
                plan.anew.iter().for_each(|seq| sent(length, *seq, payload));
                most = most.max(length.bytes);
                length.deleted(plan.through);
                if length.is_short() {
                    return most;
                }
            }
            panic!("it never becomes short");
        }
        most
    }

    #[test]
    fn s_1_14_however_much_is_unconfirmed_there_is_room_for_an_append_and_for_what_is_written_anew() {
        let mut length = Length::new(BOUNDS, 1);
        for (size, kept_back) in [(BOUNDS.message_bytes_max(), 3), (100, 100), (0, 1), (1_000, 11)] {
            let mut seq = 1_000_000 * size as u64;
            for round in 0..3_000_usize {
                while length.has_room(bytes_of(1, size)) {
                    seq += 1;
                    sent(&mut length, seq, size);
                    let most = shorten(&mut length, size);
                    assert!(most <= BOUNDS.log_bytes_max, "{most} bytes of messages of {size}");
                }
                // Some other one each time, the oldest seldom.
                let live: Vec<u64> = length.live.values().map(|live| live.seq).collect();
                let behind = kept_back.min(live.len() - 1);
                let pick = if round % 17 == 0 { 0 } else { behind };
                length.is_needless(live[pick]);
            }
            for seq in length.places.keys().copied().collect::<Vec<_>>() {
                length.is_needless(seq);
            }
            shorten(&mut length, size);
        }
    }
}
