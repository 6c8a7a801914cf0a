//! What a log is, found by who opens it: from the answers to the promise, and from no other read, per place
//! the entry that was accepted with the highest token, up to the first gap; then all of it again, with the
//! new token, and an entry without records that says where the owner begins. Spec: sharding 10.7 (a) to (c).

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::QuorumQuestion;
use super::extent::EntryExtent;
use crate::journal::protocol::{ENTRIES_MAX, ReplicaAsk, ReplicaPage};
use crate::journal::state::{LogEntry, LogItem, LogPlace, OpenedLog, Position, SnapshotHead, StoreId};
use crate::ordered::OrderedMap;
use crate::store::{Bytes, Record, Sequence, Snapshot};
use crate::token::Token;

/// What the replicas have said so far.
#[derive(Clone, Debug)]
pub(super) struct LogOpening {
    /// The question for the promise.
    id: u64,
    readings: OrderedMap<StoreId, ReplicaReading>,
    /// Per place the entry with the highest token.
    entries: OrderedMap<Position, (Token, LogEntry)>,
    bytes: usize,
    /// The snapshot that covers most, of those that have come completely.
    base: Option<(SnapshotHead, Vec<Bytes>)>,
}

/// How far one replica's answers have come.
#[derive(Clone, Debug)]
struct ReplicaReading {
    /// The open question.
    id: u64,
    /// What it asks for; `None` once all has come.
    from: Option<LogPlace>,
    snapshot: Option<SnapshotHead>,
    parts: Vec<Bytes>,
    /// It said what makes no sense, or too much.
    is_void: bool,
}

/// What follows from a page.
pub(super) enum PageStep {
    /// It is none that was asked for.
    Nothing,
    /// It cannot be.
    Nonsense,
    /// The next question to this replica.
    ReadOn(ReplicaAsk),
    /// This replica has said everything.
    Done,
}

impl LogOpening {
    pub(super) const fn new(id: u64) -> Self {
        Self {
            id,
            readings: OrderedMap::new(),
            entries: OrderedMap::new(),
            bytes: 0,
            base: None,
        }
    }

    /// The number of the question that is open at a store.
    pub(super) fn awaits(&self, store: StoreId) -> u64 {
        self.readings.get(&store).map_or(self.id, |reading| reading.id)
    }

    /// The question that is open at a store.
    pub(super) fn question(&self, store: StoreId) -> Option<(u64, ReplicaAsk)> {
        match self.readings.get(&store) {
            None => Some((self.id, ReplicaAsk::Promise)),
            Some(reading) if reading.is_void => None,
            Some(reading) => reading.from.map(|from| (reading.id, ReplicaAsk::Read { from })),
        }
    }

    /// How many replicas have said everything.
    pub(super) fn done(&self) -> usize {
        let done = |reading: &&ReplicaReading| reading.from.is_none() && !reading.is_void;
        self.readings.values().filter(done).count()
    }

    pub(super) fn on_page(
        &mut self,
        store: StoreId,
        id: u64,
        page: ReplicaPage,
        next_id: u64,
        bytes_max: usize,
    ) -> PageStep {
        if self.question(store).is_none_or(|(open, _)| open != id) {
            return PageStep::Nothing;
        }
        let reading = self.readings.entry(store).or_insert_with(|| ReplicaReading {
            id,
            from: Some(LogPlace::START),
            snapshot: page.snapshot,
            parts: Vec::new(),
            is_void: false,
        });
        let Some(from) = reading.from else {
            return PageStep::Nothing;
        };
        let taken = reading.take(from, page);
        let Some((entries, next)) = taken else {
            reading.is_void = true;
            return PageStep::Nonsense;
        };
        reading.id = next_id;
        reading.from = next;
        let complete = reading.complete();
        for (accepted, entry) in entries {
            self.merge(accepted, entry);
        }
        if let Some((snapshot, parts)) = complete {
            self.build_on(snapshot, parts);
        }
        if self.bytes > bytes_max {
            // Without bounds a replica could fill this node's memory. The others are a majority, or this is
            // tried again.
            if let Some(reading) = self.readings.get_mut(&store) {
                reading.is_void = true;
            }
            return PageStep::Nonsense;
        }
        match next {
            Some(from) => PageStep::ReadOn(ReplicaAsk::Read { from }),
            None => PageStep::Done,
        }
    }

    fn merge(&mut self, accepted: Token, entry: LogEntry) {
        let covered = self.base.as_ref().map_or(0, |(snapshot, _)| snapshot.through);
        let position = entry.position;
        let is_lower = self
            .entries
            .get(&position)
            .is_some_and(|(token, _)| *token >= accepted);
        if position <= covered || is_lower {
            return;
        }
        self.bytes = self.bytes.saturating_add(entry.bytes());
        if let Some((_, before)) = self.entries.insert(position, (accepted, entry)) {
            self.bytes = self.bytes.saturating_sub(before.bytes());
        }
    }

    /// What a snapshot covers was acknowledged before it was made: one replica that has it is enough.
    fn build_on(&mut self, snapshot: SnapshotHead, parts: Vec<Bytes>) {
        if self
            .base
            .as_ref()
            .is_some_and(|(base, _)| base.through >= snapshot.through)
        {
            return;
        }
        let behind = self.entries.split_off(&snapshot.through.saturating_add(1));
        let covered = core::mem::replace(&mut self.entries, behind);
        let freed = covered.values().map(|(_, entry)| entry.bytes()).sum();
        self.bytes = self.bytes.saturating_sub(freed);
        self.base = Some((snapshot, parts));
    }

    /// A majority has said everything: the log, to be written back. `None` if the numbers of its records do
    /// not follow.
    pub(super) fn end(self, token: Token, id: u64, page_bytes: usize) -> Option<WriteBack> {
        let base = self.base.as_ref().map(|(snapshot, _)| *snapshot);
        let mut position = base.map_or(0, |snapshot| snapshot.through);
        let mut next = base.map_or(0, |snapshot| snapshot.covers).saturating_add(1);
        let mut entries = Vec::new();
        for (_, entry) in self.entries.into_values() {
            if entry.position != position.saturating_add(1) {
                break;
            }
            if entry.first != next {
                return None;
            }
            position = entry.position;
            next = entry.next();
            entries.push(entry);
        }
        let begins = LogEntry {
            position: position.saturating_add(1),
            origin: token,
            first: next,
            records: Vec::new(),
        };
        let mut chunks = chunks(&entries, page_bytes);
        chunks.push_back(alloc::vec![begins.clone()]);
        entries.push(begins);
        Some(WriteBack {
            flight: QuorumQuestion {
                id,
                ..QuorumQuestion::default()
            },
            chunks,
            entries,
            base: self.base,
        })
    }
}

impl ReplicaReading {
    /// What is new in a page, and where to go on; `None` if it does not follow what was said before.
    #[allow(clippy::type_complexity, reason = "entries with their tokens, and a place")]
    fn take(
        &mut self,
        from: LogPlace,
        page: ReplicaPage,
    ) -> Option<(Vec<(Token, LogEntry)>, Option<LogPlace>)> {
        if page.snapshot != self.snapshot {
            return None;
        }
        let mut at = from;
        let mut entries = Vec::new();
        for item in page.items {
            let place = item.place();
            if place < at {
                return None;
            }
            match item {
                LogItem::Part { index, bytes } => {
                    if index as usize != self.parts.len() {
                        return None;
                    }
                    self.parts.push(bytes);
                }
                LogItem::Entry { accepted, entry } => entries.push((accepted, entry)),
            }
            at = place.next();
        }
        let goes_on = page.next.is_none_or(|next| next >= at && next > from);
        let parts = self.snapshot.map_or(0, |snapshot| snapshot.parts as usize);
        let fits = match page.next {
            Some(_) => self.parts.len() <= parts,
            None => self.parts.len() == parts,
        };
        (goes_on && fits).then_some((entries, page.next))
    }

    /// The snapshot, once all of it has come.
    fn complete(&mut self) -> Option<(SnapshotHead, Vec<Bytes>)> {
        let snapshot = self.snapshot?;
        (self.from.is_none() && self.parts.len() == snapshot.parts as usize)
            .then(|| (snapshot, core::mem::take(&mut self.parts)))
    }
}

/// The log on its way back to the replicas, a chunk at a time.
#[derive(Clone, Debug)]
pub(super) struct WriteBack {
    flight: QuorumQuestion,
    /// What is still to be written; the first is in flight.
    chunks: VecDeque<Vec<LogEntry>>,
    /// The log.
    entries: Vec<LogEntry>,
    base: Option<(SnapshotHead, Vec<Bytes>)>,
}

impl WriteBack {
    pub(super) const fn id(&self) -> u64 {
        self.flight.id
    }

    pub(super) const fn flight(&self) -> &QuorumQuestion {
        &self.flight
    }

    /// What is in flight.
    pub(super) fn entries(&self) -> Vec<LogEntry> {
        self.chunks.front().cloned().unwrap_or_default()
    }

    /// A replica has what is in flight; says whether a majority has it by that.
    pub(super) fn on_accepted(&mut self, store: StoreId, id: u64, quorum: usize) -> bool {
        self.flight.id == id && self.flight.answered.insert(store) && self.flight.answered.len() >= quorum
    }

    /// Goes on to the next chunk; says whether there is one.
    pub(super) fn go_on(&mut self, id: u64) -> bool {
        self.chunks.pop_front();
        self.flight = QuorumQuestion {
            id,
            ..QuorumQuestion::default()
        };
        !self.chunks.is_empty()
    }

    /// All is written back: what the user is told, and where the log ends.
    pub(super) fn opened(self, token: Token) -> (OpenedLog, EntryExtent) {
        let covers = self.base.as_ref().map_or(0, |(snapshot, _)| snapshot.covers);
        let through = self.base.as_ref().map_or(0, |(snapshot, _)| snapshot.through);
        let mut extent = EntryExtent::behind(through, covers);
        self.entries.iter().for_each(|entry| extent.append(entry));
        let opened = OpenedLog {
            token,
            snapshot: self
                .base
                .filter(|(snapshot, _)| snapshot.parts > 0)
                .map(|(snapshot, parts)| Snapshot {
                    through: snapshot.covers,
                    token: snapshot.token,
                    state: Bytes::from(parts.concat()),
                }),
            records: self.entries.into_iter().flat_map(records).collect(),
            last: extent.last(),
        };
        (opened, extent)
    }
}

fn records(entry: LogEntry) -> impl Iterator<Item = Record> {
    let LogEntry {
        origin,
        first,
        records,
        ..
    } = entry;
    (first..)
        .zip(records)
        .map(move |(sequence, bytes): (Sequence, Bytes)| Record {
            sequence,
            token: origin,
            bytes,
        })
}

/// The entries in requests of about so many bytes.
fn chunks(entries: &[LogEntry], page_bytes: usize) -> VecDeque<Vec<LogEntry>> {
    let mut chunks: VecDeque<Vec<LogEntry>> = VecDeque::new();
    let mut room = 0;
    for entry in entries {
        let bytes = entry.bytes();
        match chunks.back_mut() {
            Some(chunk) if bytes <= room && chunk.len() < ENTRIES_MAX => {
                room -= bytes;
                chunk.push(entry.clone());
            }
            Some(_) | None => {
                room = page_bytes.saturating_sub(bytes);
                chunks.push_back(alloc::vec![entry.clone()]);
            }
        }
    }
    chunks
}
