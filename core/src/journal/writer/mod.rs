//! The owner of one quorum log: takes a token, opens, appends, keeps snapshots. One entry is in flight, and
//! is repeated until a majority of the stores has it durably or one of them refuses; then the owner has
//! ended. Never serves before the log that it found is written back. Spec: sharding 10.7, 10.15.
//!
//! `opening` finds out what the log is. A writer has no clock: whoever holds it calls [`LogWriter::repeat`]
//! while [`LogWriter::is_waiting`], and [`LogWriter::take_again`] some time after it was told
//! [`WriterOutput::TakeAgain`].

mod extent;
mod opening;
mod refusals;
mod stages;
mod words;

use alloc::sync::Arc;
use alloc::vec::Vec;

use self::extent::{CutPrefix, EntryExtent};
use self::opening::{LogOpening, WriteBack};
pub use self::words::{WriterBounds, WriterOutput, WriterSettings};
use super::protocol::{
    ENTRIES_MAX, NUMBER_MAX, PARTS_MAX, ReplicaAnswer, ReplicaAsk, ReplicaReply, ReplicaRequest,
    SNAPSHOT_BYTES_MAX,
};
use super::state::{LogEntry, SnapshotHead, StoreId, WriterEnd, WriterError};
use crate::ordered::{OrderedMap, OrderedSet};
use crate::store::{Bytes, Sequence};
use crate::token::Token;

/// A log is nearly full when so many parts of so many of what it may have are there: time for people to see
/// why it does not become shorter before an append is refused.
const NEARLY_FULL: (usize, usize) = (4, 5);

/// A question to all stores, and who has answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct QuorumQuestion {
    id: u64,
    answered: OrderedSet<StoreId>,
}

#[derive(Clone, Debug)]
enum WriterStage {
    Opening(LogOpening),
    WritingBack(WriteBack),
    Serving,
    /// Its token was refused; it takes another one when it is told to.
    Resting,
    Ended,
}

/// A snapshot on its way.
#[derive(Clone, Debug)]
struct SnapshotWrite {
    flight: QuorumQuestion,
    snapshot: SnapshotHead,
    parts: Vec<Bytes>,
    /// What it takes the place of.
    frees: CutPrefix,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct LogWriter {
    settings: WriterSettings,
    token: Token,
    /// The highest token that any replica has named.
    highest: Token,
    attempt: u32,
    last_id: u64,
    stage: WriterStage,
    /// What a majority has.
    extent: EntryExtent,
    appending: Option<(QuorumQuestion, LogEntry)>,
    keeping: Option<SnapshotWrite>,
    /// It was said that the log is nearly full.
    is_nearly_full: bool,
    /// Replicas that are led to the token in steps, with what they have promised.
    behind: OrderedMap<StoreId, Token>,
    /// A replica has promised a term that is out of this opening's reach.
    is_outreached: bool,
}

impl LogWriter {
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
            stage: WriterStage::Resting,
            extent: EntryExtent::default(),
            appending: None,
            keeping: None,
            is_nearly_full: false,
            behind: OrderedMap::new(),
            is_outreached: false,
        };
        writer.begin(out);
        writer
    }

    /// Takes a token above every one it has heard of, after it was refused; nothing happens otherwise.
    pub fn take_again(&mut self, out: &mut Vec<WriterOutput>) {
        match self.stage {
            WriterStage::Resting => {}
            WriterStage::Opening(_)
            | WriterStage::WritingBack(_)
            | WriterStage::Serving
            | WriterStage::Ended => return,
        }
        // A claim that had none would have ended when it was refused.
        if let Some(token) = self.settings.claim.above(self.highest.max(self.token)) {
            self.token = token;
            self.begin(out);
        }
    }

    /// Adds records behind `expected`, as one: all of them will be in the log or none. What is `upkeep` makes
    /// the log shorter once it is there, so that a full log has room for it: a quarter more.
    ///
    /// # Errors
    /// [`WriterError`]; nothing was done.
    pub fn append(
        &mut self,
        expected: Sequence,
        records: Vec<Bytes>,
        upkeep: bool,
        out: &mut Vec<WriterOutput>,
    ) -> Result<(), WriterError> {
        self.ensure_open()?;
        if self.appending.is_some() {
            return Err(WriterError::InFlight);
        }
        if expected != self.extent.last() {
            return Err(WriterError::SequenceConflict {
                last: self.extent.last(),
            });
        }
        let entry = LogEntry {
            position: self.extent.position().saturating_add(1),
            origin: self.token,
            first: self.extent.last().saturating_add(1),
            records,
        };
        let bounds = self.settings.bounds;
        let fits = (1..=ENTRIES_MAX).contains(&entry.records.len())
            && entry.bytes() <= bounds.append_bytes_max
            && entry.next() <= NUMBER_MAX;
        if !fits {
            return Err(WriterError::TooLarge);
        }
        let reserve = if upkeep { bounds.log_bytes_max / 4 } else { 0 };
        let most = bounds.log_bytes_max.saturating_add(reserve);
        if self.extent.bytes().saturating_add(entry.bytes()) > most {
            return Err(WriterError::Full);
        }
        let flight = self.flight();
        self.appending = Some((flight, entry));
        self.repeat_append(out);
        Ok(())
    }

    /// Keeps what all records up to `covers` amount to, which must be the last acknowledged one, in place of
    /// them.
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
        if covers != self.extent.last() {
            return Err(WriterError::SequenceConflict {
                last: self.extent.last(),
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
        self.send_snapshot((count, parts), self.extent.all(), out);
        Ok(())
    }

    /// Forgets the records up to `through`, and the snapshot with them: for a log in which later records say
    /// what earlier ones did. It may keep some more than that: what is appended as one is forgotten as one,
    /// and a long log is cut behind every few entries.
    ///
    /// # Errors
    /// [`WriterError`]; nothing was done.
    pub fn forget(&mut self, through: Sequence, out: &mut Vec<WriterOutput>) -> Result<(), WriterError> {
        self.ensure_open()?;
        if self.keeping.is_some() {
            return Err(WriterError::InFlight);
        }
        match self.extent.through(through) {
            Some(prefix) => {
                let nothing = alloc::vec![Bytes::from([].as_slice())];
                self.send_snapshot((0, nothing), prefix, out);
            }
            None => out.push(WriterOutput::Kept { covers: through }),
        }
        Ok(())
    }

    fn send_snapshot(
        &mut self,
        (count, parts): (u32, Vec<Bytes>),
        frees: CutPrefix,
        out: &mut Vec<WriterOutput>,
    ) {
        let snapshot = SnapshotHead {
            through: frees.through,
            covers: frees.covers,
            token: self.token,
            parts: count,
        };
        self.keeping = Some(SnapshotWrite {
            flight: self.flight(),
            snapshot,
            parts,
            frees,
        });
        self.repeat_keep(out);
    }

    /// Says once that the log is nearly full, and again after it was less than half full.
    fn look_at_room(&mut self, out: &mut Vec<WriterOutput>) {
        let (bytes, bytes_max) = (self.extent.bytes(), self.settings.bounds.log_bytes_max);
        if bytes >= bytes_max / NEARLY_FULL.1 * NEARLY_FULL.0 {
            if !core::mem::replace(&mut self.is_nearly_full, true) {
                out.push(WriterOutput::NearlyFull { bytes });
            }
        } else if bytes < bytes_max / 2 {
            self.is_nearly_full = false;
        }
    }

    /// Asks everything again that is not answered: messages are lost, and replicas restart.
    pub fn repeat(&mut self, out: &mut Vec<WriterOutput>) {
        self.lead_on(out);
        self.catch_up(out);
        match &self.stage {
            WriterStage::Opening(_) => self.repeat_opening(out),
            WriterStage::WritingBack(_) => self.repeat_write_back(out),
            WriterStage::Serving => {
                self.repeat_append(out);
                self.repeat_keep(out);
            }
            WriterStage::Resting | WriterStage::Ended => {}
        }
    }

    /// A replica answers. What is no answer to an open question changes nothing, but a higher token ends the
    /// owner whenever it is named.
    pub fn on_reply(&mut self, reply: ReplicaReply, out: &mut Vec<WriterOutput>) {
        if reply.opener != self.settings.opener || !self.settings.stores.contains(&reply.store) {
            return;
        }
        self.behind.remove(&reply.store);
        match reply.said {
            ReplicaAnswer::Refused { held } => self.on_refused(reply.store, reply.id, held, out),
            ReplicaAnswer::Page(page) => self.on_page(reply.store, reply.id, page, out),
            ReplicaAnswer::Accepted => self.on_accepted(reply.store, reply.id, out),
            ReplicaAnswer::Kept => self.on_kept(reply.store, reply.id, out),
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
        self.extent.last()
    }

    /// Whether a question is open, so that it has to be repeated some time.
    #[must_use]
    pub const fn is_waiting(&self) -> bool {
        match self.stage {
            WriterStage::Opening(_) | WriterStage::WritingBack(_) => true,
            WriterStage::Serving => self.appending.is_some() || self.keeping.is_some(),
            WriterStage::Resting | WriterStage::Ended => false,
        }
    }

    /// Whether it owns the log.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        match self.stage {
            WriterStage::Serving => true,
            WriterStage::Opening(_)
            | WriterStage::WritingBack(_)
            | WriterStage::Resting
            | WriterStage::Ended => false,
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

    fn flight(&mut self) -> QuorumQuestion {
        QuorumQuestion {
            id: self.next_id(),
            answered: OrderedSet::new(),
        }
    }

    fn request(&self, store: StoreId, id: u64, ask: ReplicaAsk) -> ReplicaRequest {
        ReplicaRequest {
            log: Arc::clone(&self.settings.log),
            store,
            opener: self.settings.opener,
            id,
            token: self.token,
            ask,
        }
    }

    fn ask(&self, store: StoreId, id: u64, ask: ReplicaAsk) -> WriterOutput {
        WriterOutput::Ask(self.request(store, id, ask))
    }

    /// Asks the stores that have not answered.
    fn ask_missing(&self, flight: &QuorumQuestion, ask: &ReplicaAsk, out: &mut Vec<WriterOutput>) {
        let missing = self
            .settings
            .stores
            .iter()
            .filter(|store| !flight.answered.contains(store));
        out.extend(missing.map(|store| self.ask(*store, flight.id, ask.clone())));
    }

    fn repeat_append(&self, out: &mut Vec<WriterOutput>) {
        if let Some((flight, entry)) = &self.appending {
            let entries = alloc::vec![entry.clone()];
            self.ask_missing(flight, &ReplicaAsk::Accept { entries }, out);
        }
    }

    fn repeat_keep(&self, out: &mut Vec<WriterOutput>) {
        let Some(keeping) = &self.keeping else { return };
        for (index, bytes) in (0..).zip(&keeping.parts) {
            let (snapshot, bytes) = (keeping.snapshot, Bytes::clone(bytes));
            self.ask_missing(
                &keeping.flight,
                &ReplicaAsk::Keep {
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
        if let WriterStage::WritingBack(_) = self.stage {
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
            self.extent.append(&entry);
            let last = self.extent.last();
            out.push(WriterOutput::Appended { last });
            self.look_at_room(out);
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
            self.extent.cut(keeping.frees);
            let covers = keeping.snapshot.covers;
            out.push(WriterOutput::Kept { covers });
            self.look_at_room(out);
        }
    }

    fn end(&mut self, end: WriterEnd, out: &mut Vec<WriterOutput>) {
        self.stage = WriterStage::Ended;
        self.appending = None;
        self.keeping = None;
        out.push(WriterOutput::Ended(end));
    }

    fn is_open_question(&self, store: StoreId, id: u64) -> bool {
        match &self.stage {
            WriterStage::Opening(opening) => opening.awaits(store) == id,
            WriterStage::WritingBack(back) => back.id() == id,
            WriterStage::Serving => {
                let appending = self.appending.as_ref().map(|(flight, _)| flight.id);
                let keeping = self.keeping.as_ref().map(|keeping| keeping.flight.id);
                appending == Some(id) || keeping == Some(id)
            }
            WriterStage::Resting | WriterStage::Ended => false,
        }
    }
}
