//! The log of a durable entity as the one value of a key: who has taken it over, the newest snapshot and the
//! records behind it. What a write makes of it is decided here alone, wherever it is done: a lower token is
//! never applied, and what was done already changes nothing. Pure. Spec: sharding 10.7, 10.15, 10.19 h.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::configuration::OWNERS_MAX;
use crate::bytes::{BodyReader, WireError};
use crate::journal::state::NUMBER_MAX;
use crate::store::{Bytes, Sequence, Snapshot, limits};
use crate::token::Token;

/// The most bytes of a log: its snapshot and the records behind it, as many as of a key's values. All of it
/// travels when the log is taken over, and when its range moves.
pub const LOG_BYTES_MAX: usize = limits::VALUE_BYTES_MAX / (OWNERS_MAX + 1);

/// The most records behind a snapshot.
pub const LOG_RECORDS_MAX: usize = 4_096;

/// What a record or a snapshot costs beside its bytes, and a log beside both.
const PART_BYTES: usize = 40;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogRecord {
    /// Of who has taken it over last.
    token: Token,
    /// The last record that was ever appended.
    last: Sequence,
    snapshot: Option<Snapshot>,
    /// The last ones.
    records: Vec<Bytes>,
}

/// What an owner of a log wants of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogChange {
    /// To take it over, above whoever has it.
    Claim {
        /// The token of the entity's place, if places have any: then not above that of a later one.
        placement: Option<Token>,
    },
    /// To write it.
    Write(LogWrite),
}

/// What who has taken a log over writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogWrite {
    /// Records behind `expected`.
    Append {
        /// Of who writes.
        token: Token,
        /// The last record before.
        expected: Sequence,
        /// At least one.
        records: Vec<Bytes>,
    },
    /// What the records up to `through` amount to, in their place.
    Keep {
        /// Of who writes.
        token: Token,
        /// The last record that it covers.
        through: Sequence,
        /// What they amount to.
        state: Bytes,
    },
    /// Records up to `through` are needed no more.
    Forget {
        /// Of who writes.
        token: Token,
        /// The last one of them.
        through: Sequence,
    },
}

/// Why a log is not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogDenial {
    /// Somebody has taken it over since.
    #[error("the log is owned with token {held}")]
    Fenced {
        /// With this token.
        held: Token,
    },
    /// It does not end where who writes believes.
    #[error("the log ends at {last}")]
    OtherEnd {
        /// Its last record.
        last: Sequence,
    },
    /// There is no room until a snapshot covers records.
    #[error("the log has no room")]
    Full,
    /// It alone is too much.
    #[error("a log has at most {LOG_BYTES_MAX} bytes")]
    TooLarge,
}

impl LogRecord {
    /// Of who has taken it over last.
    #[must_use]
    pub const fn token(&self) -> Token {
        self.token
    }

    /// The last record that was ever appended; 0 if none was.
    #[must_use]
    pub const fn last(&self) -> Sequence {
        self.last
    }

    /// The first record that is there; one more than [`Self::last`] if none is.
    #[must_use]
    pub const fn first(&self) -> Sequence {
        self.last - self.records.len() as u64 + 1
    }

    /// The newest snapshot.
    #[must_use]
    pub const fn snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref()
    }

    /// The records that are there, from [`Self::first`] on.
    #[must_use]
    pub fn records(&self) -> &[Bytes] {
        &self.records
    }

    /// About how many bytes it takes. Linear in its records.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let snapshot = self.snapshot.as_ref().map_or(0, |snapshot| snapshot.state.len());
        bytes_of(&self.records) + snapshot + 2 * PART_BYTES
    }

    fn forget(&mut self, through: Sequence) {
        let gone = through.min(self.last).saturating_sub(self.first() - 1);
        self.records.drain(..usize::try_from(gone).unwrap_or(usize::MAX));
    }

    fn check(self) -> Result<Self, LogDenial> {
        let fits = self.records.len() <= LOG_RECORDS_MAX && self.bytes() <= LOG_BYTES_MAX;
        if fits { Ok(self) } else { Err(LogDenial::Full) }
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_token(out, self.token);
        out.extend_from_slice(&self.last.to_le_bytes());
        out.push(u8::from(self.snapshot.is_some()));
        if let Some(snapshot) = &self.snapshot {
            out.extend_from_slice(&snapshot.through.to_le_bytes());
            put_token(out, snapshot.token);
            put_bytes(out, &snapshot.state);
        }
        // No more than there may be: else it was refused where it was written.
        let count = u16::try_from(self.records.len()).unwrap_or(u16::MAX);
        out.extend_from_slice(&count.to_le_bytes());
        for record in &self.records {
            put_bytes(out, record);
        }
    }

    pub(super) fn take(from: &mut BodyReader<'_>) -> Result<Self, WireError> {
        let token = take_token(from)?;
        let last = from.u64()?;
        let mut log = Self {
            token,
            last,
            ..Self::default()
        };
        if from.bool("snapshot")? {
            log.snapshot = Some(Snapshot {
                through: from.u64()?,
                token: take_token(from)?,
                state: take_bytes(from)?,
            });
        }
        let count = from.u16()?;
        let covered = log.snapshot.as_ref().map_or(0, |snapshot| snapshot.through);
        if last > NUMBER_MAX || covered > last || u64::from(count) > last {
            return Err(WireError::Malformed { what: "log" });
        }
        for _ in 0..count {
            log.records.push(take_bytes(from)?);
        }
        log.check().map_err(|_| WireError::LimitExceeded { what: "log" })
    }
}

impl LogWrite {
    /// About how many bytes of users it carries.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Append { records, .. } => bytes_of(records),
            Self::Keep { state, .. } => state.len(),
            Self::Forget { .. } => 0,
        }
    }

    const fn token(&self) -> Token {
        match self {
            Self::Append { token, .. } | Self::Keep { token, .. } | Self::Forget { token, .. } => *token,
        }
    }

    /// What it makes of a log.
    ///
    /// # Errors
    /// [`LogDenial`] says why nothing.
    pub fn applied(&self, held: &LogRecord) -> Result<LogRecord, LogDenial> {
        let (own, held_by) = (self.token(), held.token);
        if own != held_by {
            return Err(LogDenial::Fenced { held: held_by });
        }
        let mut log = held.clone();
        match self {
            Self::Append {
                expected, records, ..
            } => {
                let count = records.len() as u64;
                // Who has the token has one append on its way: this one, if it ends so.
                if held.last == expected.saturating_add(count) {
                    return Ok(log);
                }
                if held.last != *expected || *expected > NUMBER_MAX.saturating_sub(count) {
                    return Err(LogDenial::OtherEnd { last: held.last });
                }
                if records.len() > LOG_RECORDS_MAX || bytes_of(records) + 2 * PART_BYTES > LOG_BYTES_MAX {
                    return Err(LogDenial::TooLarge);
                }
                log.records.extend(records.iter().cloned());
                log.last += count;
            }
            Self::Keep { through, state, .. } => {
                let covered = held.snapshot().map_or(0, |snapshot| snapshot.through);
                if covered >= *through {
                    return Ok(log);
                }
                if *through > held.last {
                    return Err(LogDenial::OtherEnd { last: held.last });
                }
                if state.len() + 2 * PART_BYTES > LOG_BYTES_MAX {
                    return Err(LogDenial::TooLarge);
                }
                log.snapshot = Some(Snapshot {
                    through: *through,
                    token: own,
                    state: Bytes::clone(state),
                });
                log.forget(*through);
            }
            Self::Forget { through, .. } => log.forget(*through),
        }
        log.check()
    }
}

impl LogChange {
    /// About how many bytes of users it carries.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Claim { .. } => 0,
            Self::Write(write) => write.bytes(),
        }
    }

    /// What it makes of what a key holds.
    ///
    /// # Errors
    /// As for [`LogWrite::applied`].
    pub fn applied(&self, held: &LogRecord) -> Result<LogRecord, LogDenial> {
        match self {
            Self::Claim { placement } => {
                let token = placement.map_or(Some(held.token.next()), |place| place.reopened(held.token));
                let token = token.ok_or(LogDenial::Fenced { held: held.token })?;
                Ok(LogRecord {
                    token,
                    ..held.clone()
                })
            }
            Self::Write(write) => write.applied(held),
        }
    }
}

fn bytes_of(records: &[Bytes]) -> usize {
    records.iter().map(|record| record.len() + PART_BYTES).sum()
}

fn put_token(out: &mut Vec<u8>, token: Token) {
    out.extend_from_slice(&token.term.to_le_bytes());
    out.extend_from_slice(&token.count.to_le_bytes());
}

fn take_token(from: &mut BodyReader<'_>) -> Result<Token, WireError> {
    Ok(Token::new(from.u64()?, from.u64()?))
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    // What is longer than four bytes can say is refused where it is written.
    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(bytes);
}

fn take_bytes(from: &mut BodyReader<'_>) -> Result<Bytes, WireError> {
    let len = from.u32()? as usize;
    Ok(Arc::from(from.take(len)?))
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::journal::state::StoreId;
    use crate::kv::state::clock::{Actor, VersionClock, VersionDot};
    use crate::kv::state::entry::KvEntry;
    use crate::kv::state::siblings::{Siblings, Version, VersionContent};

    const NOTHING: &[u8] = &[];

    fn claimed(placement: Option<Token>, log: &LogRecord) -> Result<LogRecord, LogDenial> {
        LogChange::Claim { placement }.applied(log)
    }

    fn append(token: Token, expected: Sequence, records: &[&[u8]]) -> LogWrite {
        LogWrite::Append {
            token,
            expected,
            records: records.iter().map(|record| Bytes::from(*record)).collect(),
        }
    }

    #[test]
    fn s_10_7_a_lower_token_is_never_applied_and_a_repetition_changes_nothing() {
        let first = claimed(None, &LogRecord::default()).unwrap();
        let write = append(first.token(), 0, &[b"a", b"b"]);
        let written = write.applied(&first).unwrap();
        assert_eq!((written.first(), written.last()), (1, 2));
        assert_eq!(write.applied(&written), Ok(written.clone()), "again");
        let behind = append(first.token(), 0, &[b"c"]);
        assert_eq!(behind.applied(&written), Err(LogDenial::OtherEnd { last: 2 }));

        let placed = claimed(Some(Token::new(1, 2)), &written).unwrap();
        let held = placed.token();
        assert_eq!(
            append(first.token(), 2, &[b"c"]).applied(&placed),
            Err(LogDenial::Fenced { held })
        );
        assert_eq!(
            write.applied(&placed),
            Err(LogDenial::Fenced { held }),
            "not even what was done"
        );
        assert_eq!(
            claimed(Some(Token::new(1, 1)), &placed),
            Err(LogDenial::Fenced { held })
        );
        assert!(
            claimed(Some(Token::new(1, 2)), &placed).unwrap().token() > held,
            "it begins again"
        );
        assert_eq!(placed.records(), written.records());
    }

    #[test]
    fn a_snapshot_takes_the_place_of_records_and_a_log_has_an_end() {
        let log = claimed(None, &LogRecord::default()).unwrap();
        let token = log.token();
        let log = append(token, 0, &[b"a", b"b", b"c"]).applied(&log).unwrap();
        let keep = LogWrite::Keep {
            token,
            through: 2,
            state: Bytes::from(&b"ab"[..]),
        };
        let kept = keep.applied(&log).unwrap();
        assert_eq!((kept.first(), kept.last(), kept.records().len()), (3, 3, 1));
        assert_eq!(keep.applied(&kept), Ok(kept.clone()));
        let forgotten = LogWrite::Forget { token, through: 3 }.applied(&kept).unwrap();
        assert_eq!((forgotten.first(), forgotten.records()), (4, &[][..]));
        assert_eq!(forgotten.snapshot().unwrap().through, 2);

        let big = vec![0; LOG_BYTES_MAX / 2];
        let half = append(token, 3, &[&big]).applied(&forgotten).unwrap();
        assert_eq!(append(token, 4, &[&big]).applied(&half), Err(LogDenial::Full));
        let all = vec![0; LOG_BYTES_MAX];
        assert_eq!(append(token, 4, &[&all]).applied(&half), Err(LogDenial::TooLarge));
        let many = vec![NOTHING; LOG_RECORDS_MAX];
        let long = append(token, 3, &many).applied(&forgotten).unwrap();
        assert_eq!(
            append(token, long.last(), &[NOTHING]).applied(&long),
            Err(LogDenial::Full)
        );
    }

    #[test]
    fn its_bytes_are_read_as_they_were_written_and_nothing_else_is() {
        let log = claimed(None, &LogRecord::default()).unwrap();
        let token = log.token();
        let log = append(token, 0, &[b"a", b"b"]).applied(&log).unwrap();
        let keep = LogWrite::Keep {
            token,
            through: 1,
            state: Bytes::from(&b"a"[..]),
        };
        let log = keep.applied(&log).unwrap();
        let mut bytes = Vec::new();
        log.put(&mut bytes);
        let read = |bytes: &[u8]| {
            let mut reader = BodyReader::new(bytes);
            let log = LogRecord::take(&mut reader)?;
            reader.finish().map(|()| log)
        };
        assert_eq!(read(&bytes), Ok(log));
        for end in 0..bytes.len() {
            assert!(read(&bytes[..end]).is_err(), "cut at {end}");
        }
        // It ends before what it holds.
        bytes[16] = 0;
        assert!(read(&bytes).is_err());
    }

    #[test]
    fn a_log_among_siblings_is_refused() {
        let actor = Actor {
            store: StoreId(1),
            boot: 1,
            since: 1,
        };
        let version = Version {
            dot: VersionDot { actor, count: 1 },
            at_ms: 1,
            content: VersionContent::Log(Arc::default()),
        };
        let mut siblings = Siblings::new();
        siblings.put(version, &VersionClock::new()).unwrap();
        let bytes = KvEntry::of(siblings).encode().unwrap();
        let malformed = WireError::Malformed { what: "siblings" };
        assert_eq!(KvEntry::decode(&bytes), Err(malformed));
    }
}
