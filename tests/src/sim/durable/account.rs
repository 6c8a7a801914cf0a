//! One durable entity as a host drives it: the core's value, what its log amounts to, and what it is doing.
//! Knows nothing of the database and of messages. Spec: sharding 10.7.

use std::collections::BTreeSet;

use quorate_core::durable::{
    DurableFailure, DurableMachine, DurableNote, DurableStep, EntityNotes, Letter, LetterOutbox,
    LogRetention, RetentionKeeps, in_front, split,
};
use quorate_core::log::{LogRequest, ReplayedPart, UnreadableLog};
use quorate_core::sharding::ids::{AskRef, EntityId};
use quorate_core::store::{Bytes, LogName, Outcome, StoreAnswer, StoreError, StoreOrder};
use quorate_core::supervision::RestartHistory;
use quorate_core::time::Instant;
use quorate_core::token::Token;
use quorate_core::wakeups::{KnownWakeup, WakeUp, WakeUps, WakeupChange, WakeupSchedule, index_of};

use super::outbox;
use super::records::{Event, bytes_of, bytes_of_change, bytes_of_clock, change_of, clock_of, events_of};
use super::truth::{Amounts, Owner, Pending};
use super::waking::Call;

/// A log is taken over with the token that is held plus one, so often at once: more waits.
const OPENINGS_MAX: u32 = 16;
/// The first token of a log whose entity was placed with none.
const FIRST: Token = Token::new(0, 1);

/// What a log amounts to, as its entity has it.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) events: Vec<Event>,
    pub(crate) noted: EntityNotes,
    /// What it has to deliver, once it has read its log.
    pub(super) outbox: Option<LetterOutbox>,
    /// What a clock keeps; `None` of all others.
    pub(super) clock: Option<WakeUps>,
}

impl Kept {
    pub(super) fn new(is_clock: bool) -> Self {
        Self {
            clock: is_clock.then(WakeUps::default),
            ..Self::default()
        }
    }

    /// What another one of its kind has before its first record.
    fn begin(&mut self) {
        *self = Self::new(self.clock.is_some());
    }

    /// The same, as the truth has it.
    pub(crate) fn amounts(&self) -> Amounts {
        let reminders = self.noted.reminders.iter().map(|(name, reminder)| {
            let serial = serial_of(&reminder.message);
            let pending = Pending {
                at_ms: reminder.at_ms,
                every_ms: reminder.every_ms,
                serial,
            };
            (name.to_owned(), pending)
        });
        let rules = self.outbox.as_ref().map(LetterOutbox::rules);
        Amounts {
            events: self.events.clone(),
            reminders: reminders.collect(),
            open: rules
                .into_iter()
                .flat_map(|rules| rules.unconfirmed().map(|(number, _)| number))
                .collect(),
            given: match &self.clock {
                Some(clock) => clock.version(),
                None => rules.map_or(0, |rules| rules.counter()),
            },
            wake_ups: self.clock.iter().flat_map(WakeUps::iter).map(owned).collect(),
        }
    }

    /// The log is read: what it has to deliver goes by the outbox from now on.
    pub(super) fn is_read(&mut self) {
        let noted = core::mem::take(&mut self.noted);
        self.noted.reminders = noted.reminders.clone();
        self.outbox = LetterOutbox::recovered(outbox::settings(), noted).ok();
    }

    /// The state, with what the library keeps in front.
    fn state(&self) -> Option<Bytes> {
        if let Some(clock) = &self.clock {
            return Some(bytes_of_clock(clock).into());
        }
        let mut notes: Vec<DurableNote> = self.noted.reminders.notes().collect();
        notes.extend(self.outbox.iter().flat_map(LetterOutbox::notes));
        whole(&notes, &self.events)
    }

    /// A part of the log is read.
    pub(super) fn replay(
        &mut self,
        keeps: RetentionKeeps,
        found: ReplayedPart<'_>,
    ) -> Result<(), UnreadableLog> {
        match found {
            ReplayedPart::Beginning => self.begin(),
            ReplayedPart::Snapshot(snapshot) => self.be(&snapshot.state)?,
            ReplayedPart::Record(record) if keeps == RetentionKeeps::Last => {
                self.begin();
                self.be(&record.bytes)?;
            }
            ReplayedPart::Record(record) => {
                let note = DurableNote::read(&record.bytes).map_err(|_| UnreadableLog)?;
                match (note, &mut self.clock) {
                    (Some(note), _) => self.noted.learn(note),
                    (None, Some(clock)) => clock.apply(change_of(&record.bytes).ok_or(UnreadableLog)?),
                    (None, None) => self.events.extend(events_of(&record.bytes).ok_or(UnreadableLog)?),
                }
            }
        }
        Ok(())
    }

    fn be(&mut self, whole: &Bytes) -> Result<(), UnreadableLog> {
        let (notes, state) = split(whole).map_err(|_| UnreadableLog)?;
        if let Some(clock) = &mut self.clock {
            *clock = clock_of(state).ok_or(UnreadableLog)?;
            return Ok(());
        }
        self.events = events_of(state).ok_or(UnreadableLog)?;
        notes.into_iter().for_each(|note| self.noted.learn(note));
        Ok(())
    }
}

fn owned((entity, wake_up): (&EntityId, WakeUp)) -> (EntityId, WakeUp) {
    (entity.clone(), wake_up)
}

/// What a reminder is for.
pub(super) fn serial_of(message: &[u8]) -> u64 {
    message
        .first_chunk::<8>()
        .map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The messages among notes.
fn letters_of(notes: &[DurableNote]) -> Vec<(u64, Letter)> {
    let sent = |note: &DurableNote| match note {
        DurableNote::Sent { number, letter } => Some((*number, letter.clone())),
        DurableNote::Confirmed { .. }
        | DurableNote::Given { .. }
        | DurableNote::Reminded { .. }
        | DurableNote::Again { .. }
        | DurableNote::Forgotten { .. } => None,
    };
    notes.iter().filter_map(sent).collect()
}

fn whole(notes: &[DurableNote], events: &[Event]) -> Option<Bytes> {
    let state = bytes_of(events);
    if notes.is_empty() {
        Some(state.into())
    } else {
        in_front(notes, &state)
    }
}

/// Over what something is written.
#[derive(Clone, Debug)]
pub(super) enum Cause {
    Message {
        at: usize,
        ask: Option<AskRef>,
    },
    Reminder(DurableNote),
    /// The recipient of a message has kept it.
    Confirmation,
    /// It was woken, and has to be sure that the log is its own.
    Call,
    /// A clock was told something.
    Change {
        at: usize,
        ask: Option<AskRef>,
    },
}

/// What is written beside notes.
#[derive(Clone, Debug)]
pub(super) enum Written {
    Nothing,
    Event(Event),
    Change(WakeupChange),
}

impl Written {
    fn record(&self) -> Option<Bytes> {
        match self {
            Self::Nothing => None,
            Self::Event(event) => Some(bytes_of(&[*event]).into()),
            Self::Change(change) => Some(bytes_of_change(change).into()),
        }
    }
}

/// What is being written.
#[derive(Clone, Debug)]
pub(super) struct Doing {
    pub(super) cause: Cause,
    pub(super) written: Written,
    pub(super) notes: Vec<DurableNote>,
    pub(super) records: Vec<Bytes>,
}

impl Doing {
    /// Whether it confirms this message.
    pub(super) fn confirms(&self, message: u64) -> bool {
        let confirms =
            |note: &DurableNote| matches!(note, DurableNote::Confirmed { number } if *number == message);
        self.notes.iter().any(confirms)
    }
}

/// What is drawn for an entity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    pub(super) retention: LogRetention,
    pub(super) has_an_end: bool,
    /// Of records that are read at once.
    pub(super) page_bytes: usize,
}

/// The log of an entity or of a clock.
pub(super) fn log_of(id: &EntityId) -> LogName {
    let what = if index_of(id).is_some() {
        "clock"
    } else {
        "account"
    };
    LogName::from(format!("{what}/{id}"))
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Account {
    /// No other incarnation has the number, on no node.
    pub(super) life: u64,
    pub(super) id: EntityId,
    pub(super) log: LogName,
    pub(super) manner: Manner,
    pub(super) entity: DurableMachine,
    token: Token,
    placement: Option<Token>,
    openings: u32,
    /// What its store was asked last is to take the log over.
    is_claiming: bool,
    pub(super) kept: Kept,
    pub(super) doing: Option<Doing>,
    /// It waits, and whoever sends something meanwhile is told this.
    pub(super) told: Option<DurableFailure>,
    /// It has read its log.
    pub(super) has_recovered: bool,
    /// A turn waits until it has time.
    pub(super) has_turn: bool,
    /// When somebody looks at its reminders.
    pub(super) looks_at: Option<u64>,
    pub(super) restarts: RestartHistory,
    /// Messages whose recipients have kept them, which it has not.
    pub(super) answered: BTreeSet<u64>,
    /// What it knows of its clock.
    pub(super) known: KnownWakeup,
    /// What it writes once its clock has answered.
    pub(super) asking: Option<Doing>,
    /// It was woken, and has not said yet what is next.
    pub(super) call: Option<Call>,
    /// Whom it wakes, if it is a clock.
    pub(super) alarm: WakeupSchedule,
}

impl Account {
    pub(super) fn new(life: u64, id: &EntityId, placement: Option<Token>, manner: Manner) -> Self {
        Self {
            life,
            id: id.clone(),
            log: log_of(id),
            entity: DurableMachine::new(manner.retention, manner.has_an_end),
            manner,
            token: placement.map_or(FIRST, Token::opened),
            placement,
            openings: 0,
            is_claiming: false,
            kept: Kept::new(index_of(id).is_some()),
            doing: None,
            told: None,
            has_recovered: false,
            has_turn: false,
            looks_at: None,
            restarts: RestartHistory::default(),
            answered: BTreeSet::new(),
            known: KnownWakeup::default(),
            asking: None,
            call: None,
            alarm: WakeupSchedule::default(),
        }
    }

    /// The next incarnation at the same place: what this one had in memory is gone.
    pub(super) fn made_anew(&self, life: u64) -> Self {
        Self {
            has_turn: self.has_turn,
            restarts: self.restarts.clone(),
            ..Self::new(life, &self.id, self.placement, self.manner)
        }
    }

    /// Who it is to the database.
    pub(super) const fn owner(&self) -> Owner {
        Owner {
            life: self.life,
            token: self.token,
        }
    }

    /// What its store is asked.
    pub(super) fn order(&mut self, request: LogRequest) -> Option<StoreOrder> {
        self.is_claiming = request == LogRequest::Claim;
        let (log, token) = (self.log.clone(), self.token);
        Some(match request {
            LogRequest::Claim => StoreOrder::Open {
                log,
                token,
                opener: self.life,
            },
            LogRequest::ReadSnapshot => StoreOrder::ReadSnapshot { log },
            LogRequest::Read { from } => StoreOrder::ReadLog {
                log,
                from,
                bytes_max: self.manner.page_bytes,
            },
            LogRequest::Append {
                expected, records, ..
            } => StoreOrder::Append {
                log,
                token,
                expected,
                records,
            },
            LogRequest::Keep { covers, state } => StoreOrder::Snapshot {
                log,
                token,
                through: covers,
                state,
            },
            LogRequest::Forget { through } => StoreOrder::DeleteRange { log, token, through },
            LogRequest::Close => return None,
        })
    }

    /// Its store has answered.
    pub(super) fn hear(&mut self, outcome: &Outcome) -> Heard {
        if let Err(StoreError::Fenced { held }) = *outcome
            && self.is_claiming
            && let Some(token) = self.above(held)
            && self.openings < OPENINGS_MAX
        {
            self.openings += 1;
            self.token = token;
            return Heard::OpenAgain;
        }
        let keeps = self.manner.retention.keeps;
        let Self { entity, kept, .. } = self;
        let mut replay = |found: ReplayedPart<'_>| kept.replay(keeps, found);
        Heard::Step(match outcome {
            Ok(StoreAnswer::Opened(found)) => entity.on_claimed(*found, &mut replay),
            Ok(StoreAnswer::Snapshot(snapshot)) => entity.on_snapshot(snapshot.as_ref(), &mut replay),
            Ok(StoreAnswer::Records { records, .. }) => entity.on_records(records, &mut replay),
            Ok(StoreAnswer::Appended { .. }) => entity.on_appended(),
            Ok(StoreAnswer::Kept | StoreAnswer::Deleted) => entity.on_kept(),
            Ok(
                StoreAnswer::Identity(_)
                | StoreAnswer::Value(_)
                | StoreAnswer::Items { .. }
                | StoreAnswer::Written,
            ) => entity.on_failed(StoreError::Corrupt),
            Err(error) => entity.on_failed(*error),
        })
    }

    /// The event of somebody who takes the log over with this token, and the record that it is; none where a
    /// record is a whole state.
    pub(super) fn usurped(&self, life: u64, held: Token) -> Option<(Owner, Option<Bytes>)> {
        let token = self.above(held)?;
        let record = Bytes::from(bytes_of(&[Event::of_usurper(life)]));
        let is_of_events = self.manner.retention.keeps != RetentionKeeps::Last && self.kept.clock.is_none();
        let writes = is_of_events && life.is_multiple_of(2);
        Some((Owner { life, token }, writes.then_some(record)))
    }

    /// The token above one that is held; `None` if that is of a later placement.
    fn above(&self, held: Token) -> Option<Token> {
        match self.placement {
            Some(placement) => placement.reopened(held),
            None => Some(held.next()),
        }
    }

    /// Begins to write what came of a message or a reminder.
    pub(super) fn write(&mut self, cause: Cause, written: Written, notes: Vec<DurableNote>) -> DurableStep {
        let records = match self.manner.retention.keeps {
            RetentionKeeps::Everything | RetentionKeeps::BehindSnapshot => {
                let notes = notes.iter().map(DurableNote::record);
                written.record().into_iter().chain(notes).collect()
            }
            RetentionKeeps::Last => {
                let mut reminders = self.kept.noted.reminders.clone();
                for note in &notes {
                    reminders.learn(note);
                }
                let mut events = self.kept.events.clone();
                if let Written::Event(event) = written {
                    events.push(event);
                }
                let mut all: Vec<DurableNote> = reminders.notes().collect();
                let letters = letters_of(&notes);
                all.extend(
                    self.kept
                        .outbox
                        .iter()
                        .flat_map(|it| it.notes_with(&letters, &notes)),
                );
                whole(&all, &events).into_iter().collect::<Vec<Bytes>>()
            }
        };
        self.doing = Some(Doing {
            cause,
            written,
            notes,
            records: records.clone(),
        });
        self.openings = 0;
        self.entity.write(records)
    }

    /// What was written is durable, and applies from now on.
    pub(super) fn apply(&mut self, now: Instant) -> Option<(Doing, Vec<u64>)> {
        let doing = self.doing.take()?;
        match (&doing.written, &mut self.kept.clock) {
            (Written::Event(event), _) => self.kept.events.push(*event),
            (Written::Change(change), Some(clock)) => clock.apply(change.clone()),
            (Written::Nothing | Written::Change(_), _) => {}
        }
        let outbox = self.kept.outbox.as_mut()?;
        for note in &doing.notes {
            if !self.kept.noted.reminders.learn(note)
                && let DurableNote::Confirmed { number } = note
            {
                outbox.confirm(*number);
            }
        }
        let numbers = outbox.take(now, letters_of(&doing.notes));
        Some((doing, numbers))
    }

    pub(super) fn retain(&mut self) -> DurableStep {
        let state = self.kept.state();
        self.entity.retain(|| state)
    }

    /// Whether it may write something now.
    pub(super) const fn is_free(&self) -> bool {
        self.entity.is_running() && self.doing.is_none() && self.asking.is_none()
    }

    /// Whether it may handle a message now.
    pub(super) const fn is_idle(&self) -> bool {
        self.is_free() && self.call.is_none()
    }

    /// The pause is over.
    pub(super) fn waited(&mut self) -> DurableStep {
        self.told = None;
        self.openings = 0;
        self.entity.on_waited()
    }
}

/// What an answer of the store leads to.
#[derive(Debug)]
pub(super) enum Heard {
    /// Somebody holds the log with a higher token, and a higher one still is this entity's to take.
    OpenAgain,
    Step(DurableStep),
}
