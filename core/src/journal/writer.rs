//! The owner of one quorum log: takes a token, opens, appends, keeps snapshots. One entry is in flight, and is repeated until a
//! majority of the stores has it durably or one of them refuses; then the owner has ended. Never serves before the log that it
//! found is written back. Spec: sharding 10.7, 10.15.
//!
//! `opening` finds out what the log is. A writer has no clock: whoever holds it calls [`Writer::repeat`] while
//! [`Writer::is_waiting`], and [`Writer::take_again`] some time after it was told [`WriterOutput::TakeAgain`].

mod opening;
mod stages;
mod words;

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use self::opening::{Opening, WriteBack};
pub use self::words::{WriterBounds, WriterOutput, WriterSettings};
use super::protocol::{Ask, ENTRIES_MAX, NUMBER_MAX, PARTS_MAX, Reply, Request, SNAPSHOT_BYTES_MAX, Said};
use super::state::{Entry, Position, SnapshotHead, StoreId, WriterEnd, WriterError};
use crate::store::{Bytes, Sequence};
use crate::token::Token;

/// A question to all stores, and who has answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Flight {
    id: u64,
    answered: BTreeSet<StoreId>,
}

#[derive(Clone, Debug)]
enum Stage {
    Opening(Opening),
    WritingBack(WriteBack),
    Serving,
    /// Its token was refused; it takes another one when it is told to.
    Resting,
    Ended,
}

/// What of the log a majority has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Extent {
    /// The last entry.
    position: Position,
    /// The last record.
    last: Sequence,
    /// The last entry that the newest snapshot covers.
    covered: Position,
    /// Bytes of the entries behind that.
    bytes: usize,
    /// Of those the last one's.
    last_bytes: usize,
    /// The records of the last entry.
    last_records: u64,
}

/// A snapshot on its way.
#[derive(Clone, Debug)]
struct Keeping {
    flight: Flight,
    snapshot: SnapshotHead,
    parts: Vec<Bytes>,
    /// Bytes of the entries that it covers.
    frees: usize,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Writer {
    settings: WriterSettings,
    token: Token,
    /// The highest token that any replica has named.
    highest: Token,
    attempt: u32,
    last_id: u64,
    stage: Stage,
    /// What a majority has.
    extent: Extent,
    appending: Option<(Flight, Entry)>,
    keeping: Option<Keeping>,
}

impl Writer {
    /// Begins to open a log.
    #[must_use]
    pub fn open(settings: WriterSettings, out: &mut Vec<WriterOutput>) -> Self {
        let token = settings.claim.first();
        let mut writer = Self {
            settings,
            token,
            highest: Token::NONE,
            attempt: 0,
            last_id: 0,
            stage: Stage::Resting,
            extent: Extent::default(),
            appending: None,
            keeping: None,
        };
        writer.begin(out);
        writer
    }

    /// Takes a token above every one it has heard of, after it was refused; nothing happens otherwise.
    pub fn take_again(&mut self, out: &mut Vec<WriterOutput>) {
        match self.stage {
            Stage::Resting => {}
            Stage::Opening(_) | Stage::WritingBack(_) | Stage::Serving | Stage::Ended => return,
        }
        // A claim that had none would have ended when it was refused.
        if let Some(token) = self.settings.claim.above(self.highest.max(self.token)) {
            self.token = token;
            self.begin(out);
        }
    }

    /// Adds records behind `expected`, as one: all of them will be in the log or none.
    ///
    /// # Errors
    /// [`WriterError`]; nothing was done.
    pub fn append(
        &mut self,
        expected: Sequence,
        records: Vec<Bytes>,
        out: &mut Vec<WriterOutput>,
    ) -> Result<(), WriterError> {
        self.ensure_open()?;
        if self.appending.is_some() {
            return Err(WriterError::InFlight);
        }
        if expected != self.extent.last {
            return Err(WriterError::SequenceConflict {
                last: self.extent.last,
            });
        }
        let entry = Entry {
            position: self.extent.position.saturating_add(1),
            origin: self.token,
            first: self.extent.last.saturating_add(1),
            records,
        };
        let bounds = self.settings.bounds;
        let fits = (1..=ENTRIES_MAX).contains(&entry.records.len())
            && entry.bytes() <= bounds.append_bytes_max
            && entry.next() <= NUMBER_MAX;
        if !fits {
            return Err(WriterError::TooLarge);
        }
        if self.extent.bytes.saturating_add(entry.bytes()) > bounds.log_bytes_max {
            return Err(WriterError::Full);
        }
        let flight = self.flight();
        self.appending = Some((flight, entry));
        self.repeat_append(out);
        Ok(())
    }

    /// Keeps what all records up to `covers` amount to, which must be the last acknowledged one, in place of them.
    ///
    /// # Errors
    /// [`WriterError`]; nothing was done.
    pub fn keep(
        &mut self,
        covers: Sequence,
        state: &[u8],
        out: &mut Vec<WriterOutput>,
    ) -> Result<(), WriterError> {
        self.ensure_open()?;
        if self.keeping.is_some() {
            return Err(WriterError::InFlight);
        }
        if covers != self.extent.last {
            return Err(WriterError::SequenceConflict {
                last: self.extent.last,
            });
        }
        let part_bytes = self.settings.bounds.page_bytes.max(1);
        let mut parts: Vec<Bytes> = state.chunks(part_bytes).map(Bytes::from).collect();
        if parts.is_empty() {
            parts.push(Bytes::from([].as_slice()));
        }
        let count = u32::try_from(parts.len())
            .ok()
            .filter(|count| *count <= PARTS_MAX);
        let Some(count) = count.filter(|_| state.len() <= SNAPSHOT_BYTES_MAX) else {
            return Err(WriterError::TooLarge);
        };
        let snapshot = SnapshotHead {
            through: self.extent.position,
            covers,
            token: self.token,
            parts: count,
        };
        self.send_snapshot(snapshot, parts, self.extent.bytes, out);
        Ok(())
    }

    /// Forgets the records up to `through`, and the snapshot with them: for a log whose last record says everything. It may keep
    /// more than that: what is appended as one is forgotten as one, and of earlier appends than the last only all together.
    ///
    /// # Errors
    /// [`WriterError`]; nothing was done.
    pub fn forget(&mut self, through: Sequence, out: &mut Vec<WriterOutput>) -> Result<(), WriterError> {
        self.ensure_open()?;
        if self.keeping.is_some() {
            return Err(WriterError::InFlight);
        }
        let extent = self.extent;
        let before = extent.last.saturating_sub(extent.last_records);
        let (position, covers, frees) = if through >= extent.last {
            (extent.position, extent.last, extent.bytes)
        } else if through >= before {
            let position = extent.position.saturating_sub(1);
            (position, before, extent.bytes.saturating_sub(extent.last_bytes))
        } else {
            (0, 0, 0)
        };
        if position <= extent.covered {
            out.push(WriterOutput::Kept { covers: through });
            return Ok(());
        }
        let nothing = alloc::vec![Bytes::from([].as_slice())];
        let snapshot = SnapshotHead {
            through: position,
            covers,
            token: self.token,
            parts: 0,
        };
        self.send_snapshot(snapshot, nothing, frees, out);
        Ok(())
    }

    fn send_snapshot(
        &mut self,
        snapshot: SnapshotHead,
        parts: Vec<Bytes>,
        frees: usize,
        out: &mut Vec<WriterOutput>,
    ) {
        self.keeping = Some(Keeping {
            flight: self.flight(),
            snapshot,
            parts,
            frees,
        });
        self.repeat_keep(out);
    }

    /// Asks everything again that is not answered: messages are lost, and replicas restart.
    pub fn repeat(&self, out: &mut Vec<WriterOutput>) {
        match &self.stage {
            Stage::Opening(_) => self.repeat_opening(out),
            Stage::WritingBack(_) => self.repeat_write_back(out),
            Stage::Serving => {
                self.repeat_append(out);
                self.repeat_keep(out);
            }
            Stage::Resting | Stage::Ended => {}
        }
    }

    /// A replica answers. What is no answer to an open question changes nothing, but a higher token ends the owner whenever it is
    /// named.
    pub fn on_reply(&mut self, reply: Reply, out: &mut Vec<WriterOutput>) {
        if reply.opener != self.settings.opener || !self.settings.stores.contains(&reply.store) {
            return;
        }
        match reply.said {
            Said::Refused { held } => self.on_refused(reply.store, reply.id, held, out),
            Said::Page(page) => self.on_page(reply.store, reply.id, page, out),
            Said::Accepted => self.on_accepted(reply.store, reply.id, out),
            Said::Kept => self.on_kept(reply.store, reply.id, out),
        }
    }

    /// The token that it has, or tries to get.
    #[must_use]
    pub const fn token(&self) -> Token {
        self.token
    }

    /// The last acknowledged record.
    #[must_use]
    pub const fn last(&self) -> Sequence {
        self.extent.last
    }

    /// Whether a question is open, so that it has to be repeated some time.
    #[must_use]
    pub const fn is_waiting(&self) -> bool {
        match self.stage {
            Stage::Opening(_) | Stage::WritingBack(_) => true,
            Stage::Serving => self.appending.is_some() || self.keeping.is_some(),
            Stage::Resting | Stage::Ended => false,
        }
    }

    /// Whether it owns the log.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        match self.stage {
            Stage::Serving => true,
            Stage::Opening(_) | Stage::WritingBack(_) | Stage::Resting | Stage::Ended => false,
        }
    }

    fn ensure_open(&self) -> Result<(), WriterError> {
        if self.is_open() {
            Ok(())
        } else {
            Err(WriterError::NotOpen)
        }
    }

    fn quorum(&self) -> usize {
        self.settings.stores.len() / 2 + 1
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn flight(&mut self) -> Flight {
        Flight {
            id: self.next_id(),
            answered: BTreeSet::new(),
        }
    }

    fn request(&self, store: StoreId, id: u64, ask: Ask) -> WriterOutput {
        WriterOutput::Ask(Request {
            log: Arc::clone(&self.settings.log),
            store,
            opener: self.settings.opener,
            id,
            token: self.token,
            ask,
        })
    }

    /// Asks the stores that have not answered.
    fn ask_missing(&self, flight: &Flight, ask: &Ask, out: &mut Vec<WriterOutput>) {
        let missing = self
            .settings
            .stores
            .iter()
            .filter(|store| !flight.answered.contains(store));
        out.extend(missing.map(|store| self.request(*store, flight.id, ask.clone())));
    }

    fn repeat_append(&self, out: &mut Vec<WriterOutput>) {
        if let Some((flight, entry)) = &self.appending {
            let entries = alloc::vec![entry.clone()];
            self.ask_missing(flight, &Ask::Accept { entries }, out);
        }
    }

    fn repeat_keep(&self, out: &mut Vec<WriterOutput>) {
        let Some(keeping) = &self.keeping else { return };
        for (index, bytes) in (0..).zip(&keeping.parts) {
            let (snapshot, bytes) = (keeping.snapshot, Bytes::clone(bytes));
            self.ask_missing(
                &keeping.flight,
                &Ask::Keep {
                    snapshot,
                    index,
                    bytes,
                },
                out,
            );
        }
    }

    fn on_accepted(&mut self, store: StoreId, id: u64, out: &mut Vec<WriterOutput>) {
        let quorum = self.quorum();
        if let Stage::WritingBack(_) = self.stage {
            return self.on_written_back(store, id, out);
        }
        let Some((flight, _)) = self.appending.as_mut().filter(|(flight, _)| flight.id == id) else {
            return;
        };
        flight.answered.insert(store);
        if flight.answered.len() < quorum {
            return;
        }
        if let Some((_, entry)) = self.appending.take() {
            let last_bytes = entry.bytes();
            self.extent = Extent {
                position: entry.position,
                last: entry.next().saturating_sub(1),
                covered: self.extent.covered,
                bytes: self.extent.bytes.saturating_add(last_bytes),
                last_bytes,
                last_records: entry.records.len() as u64,
            };
            let last = self.extent.last;
            out.push(WriterOutput::Appended { last });
        }
    }

    fn on_kept(&mut self, store: StoreId, id: u64, out: &mut Vec<WriterOutput>) {
        let quorum = self.quorum();
        let Some(keeping) = self.keeping.as_mut().filter(|keeping| keeping.flight.id == id) else {
            return;
        };
        keeping.flight.answered.insert(store);
        if keeping.flight.answered.len() < quorum {
            return;
        }
        if let Some(keeping) = self.keeping.take() {
            self.extent.bytes = self.extent.bytes.saturating_sub(keeping.frees);
            self.extent.covered = keeping.snapshot.through;
            let covers = keeping.snapshot.covers;
            out.push(WriterOutput::Kept { covers });
        }
    }

    fn on_refused(&mut self, store: StoreId, id: u64, held: Token, out: &mut Vec<WriterOutput>) {
        if held.term > NUMBER_MAX || held.count > NUMBER_MAX {
            return out.push(WriterOutput::Nonsense(store));
        }
        self.highest = self.highest.max(held);
        // An earlier token of this writer is refused because of its own later one: that says nothing.
        let is_mine = held < self.token || (held == self.token && !self.is_open_question(store, id));
        if is_mine {
            return;
        }
        let may_take_again =
            self.settings.claim.above(held).is_some() && self.attempt < self.settings.bounds.attempts_max;
        match self.stage {
            Stage::Opening(_) | Stage::WritingBack(_) if may_take_again => {
                self.attempt += 1;
                self.stage = Stage::Resting;
                out.push(WriterOutput::TakeAgain {
                    attempt: self.attempt,
                });
            }
            Stage::Opening(_) | Stage::WritingBack(_) | Stage::Serving => {
                self.end(WriterEnd::Fenced { held }, out);
            }
            Stage::Resting | Stage::Ended => {}
        }
    }

    fn end(&mut self, end: WriterEnd, out: &mut Vec<WriterOutput>) {
        self.stage = Stage::Ended;
        self.appending = None;
        self.keeping = None;
        out.push(WriterOutput::Ended(end));
    }

    fn is_open_question(&self, store: StoreId, id: u64) -> bool {
        match &self.stage {
            Stage::Opening(opening) => opening.awaits(store) == id,
            Stage::WritingBack(back) => back.id() == id,
            Stage::Serving => {
                let appending = self.appending.as_ref().map(|(flight, _)| flight.id);
                let keeping = self.keeping.as_ref().map(|keeping| keeping.flight.id);
                appending == Some(id) || keeping == Some(id)
            }
            Stage::Resting | Stage::Ended => false,
        }
    }
}
