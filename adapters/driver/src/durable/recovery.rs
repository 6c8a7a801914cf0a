//! From a log to a state: takes the log over, then reads the newest snapshot and the events behind it, page by page. Nothing is
//! handled before it is done. Spec: sharding 10.7.

use quorate_core::store::{LogState, Record, Sequence};

use super::note::{self, Note};
use super::noted::Noted;
use super::obstacle::Obstacle;
use super::outbox::Outbox;
use super::reminders::Reminders;
use super::retention::Keeps;
use super::writing::Extent;
use super::{EventSourced, schema};
use crate::entity::Life;
use crate::journal::Journal;

/// What a recovery has found, so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// The last event that the snapshot covers; `None` without a snapshot.
    pub snapshot: Option<u64>,
    /// Events that were read and applied, and what the library keeps among them: messages to be delivered and their confirmations, reminders.
    pub replayed: u64,
    /// The last event applied, by its number in the log: 0 if there is none.
    pub sequence: u64,
    /// The last event of the log: 0 if nothing was ever kept. The recovery is done when `sequence` is this.
    pub last: u64,
}

impl Recovery {
    /// Whether there was nothing to recover: no command has ever changed this entity.
    #[must_use]
    pub const fn is_new(&self) -> bool {
        self.last == 0
    }
}

/// What a log amounts to.
pub(super) struct Recovered<E: EventSourced> {
    pub(super) state: E::State,
    pub(super) extent: Extent,
    pub(super) recovery: Recovery,
    pub(super) outbox: Outbox,
    pub(super) reminders: Reminders,
}

/// One try. What is missing may have been covered by a later owner's snapshot while it was read, so a log is damaged only if something is
/// missing again once it was opened anew.
pub(super) async fn recover<E: EventSourced, J: Journal>(
    entity: &mut E,
    life: &Life,
    journal: &mut J,
) -> Result<Recovered<E>, Obstacle> {
    match replay(entity, life, journal).await {
        Err(Obstacle::Missing { .. }) => replay(entity, life, journal).await,
        recovered => recovered,
    }
}

/// Whatever it reads comes from behind the token: `open` is first.
async fn replay<E: EventSourced, J: Journal>(
    entity: &mut E,
    life: &Life,
    journal: &mut J,
) -> Result<Recovered<E>, Obstacle> {
    let (retention, redelivery) = life.enter(|| (entity.retention(), entity.redelivery()));
    redelivery.check()?;
    let log = journal.open().await?;
    let (mut state, mut noted, mut so_far) = snapshot::<E, J>(journal, log).await?;
    let mut next = so_far.sequence + 1;
    if retention.keeps == Keeps::Last {
        next = next.max(log.last);
    }
    let mut bytes_behind = 0;
    while next <= log.last {
        let records = journal.read(next).await?;
        if records.is_empty() {
            return Err(Obstacle::Missing { sequence: next });
        }
        // What is behind the end that the opener found is somebody else's, who will refuse this one.
        for record in records
            .into_iter()
            .take_while(|record| record.sequence <= log.last)
        {
            bytes_behind += record.bytes.len();
            match recorded::<E>(&record, next)? {
                Recorded::Event(event) => life.enter(|| E::apply(&mut state, event)),
                Recorded::Note(note) => noted.learn(note),
                Recorded::Revision(notes, event) => {
                    noted = Noted::default();
                    notes.into_iter().for_each(|note| noted.learn(note));
                    life.enter(|| E::apply(&mut state, event));
                }
            }
            so_far.replayed += 1;
            so_far.sequence = next;
            next += 1;
        }
        life.enter(|| entity.on_recovering(life.context(), &so_far));
    }
    let extent = Extent {
        first: log.first,
        last: log.last,
        covered: so_far.snapshot.unwrap_or(0),
        bytes_behind,
    };
    let reminders = std::mem::take(&mut noted.reminders);
    Ok(Recovered {
        state,
        extent,
        recovery: so_far,
        reminders,
        outbox: Outbox::recovered(redelivery, noted)?,
    })
}

async fn snapshot<E: EventSourced, J: Journal>(
    journal: &mut J,
    log: LogState,
) -> Result<(E::State, Noted, Recovery), Obstacle> {
    let last = log.last;
    let nothing = Recovery {
        last,
        ..Recovery::default()
    };
    let mut noted = Noted::default();
    let Some(covered) = log.snapshot else {
        return Ok((E::State::default(), noted, nothing));
    };
    let Some(kept) = journal.read_snapshot().await? else {
        return Err(Obstacle::Missing { sequence: covered });
    };
    let through = kept.through;
    if through > last {
        return Err(Obstacle::Overtaken);
    }
    let (notes, state) = note::split(&kept.state).map_err(|_| Obstacle::Note { sequence: through })?;
    notes.into_iter().for_each(|note| noted.learn(note));
    let state = schema::from_bytes(state).map_err(|error| Obstacle::Snapshot { through, error })?;
    let found = Recovery {
        snapshot: Some(through),
        sequence: through,
        ..nothing
    };
    Ok((state, noted, found))
}

/// One record.
enum Recorded<E> {
    Event(E),
    Note(Note),
    /// The newest state, and all notes that there are.
    Revision(Vec<Note>, E),
}

fn recorded<E: EventSourced>(record: &Record, expected: Sequence) -> Result<Recorded<E::Event>, Obstacle> {
    let sequence = expected;
    if record.sequence != expected {
        return Err(Obstacle::Missing { sequence });
    }
    if let Some(note) = Note::read(&record.bytes).map_err(|_| Obstacle::Note { sequence })? {
        return Ok(Recorded::Note(note));
    }
    let (notes, event) = note::split(&record.bytes).map_err(|_| Obstacle::Note { sequence })?;
    let event = schema::from_bytes(event).map_err(|error| Obstacle::Event { sequence, error })?;
    Ok(if notes.is_empty() {
        Recorded::Event(event)
    } else {
        Recorded::Revision(notes, event)
    })
}
