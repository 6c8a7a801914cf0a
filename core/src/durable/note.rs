//! What the library keeps in an entity's log beside its events, and in its snapshot beside its state: which
//! messages it has to deliver, and what it wants to be reminded of. These bytes are on disks: forms never
//! change, and variants are only appended. Spec: sharding 1.15.

use alloc::string::String;
use alloc::vec::Vec;
use core::str;

use super::letter::{Letter, LetterRecipient};
use crate::sharding::state::ids::{EntityId, KindId, Payload};
use crate::store::Bytes;

/// The first byte of a record that is a note; its number and its fields follow, as postcard writes them. One
/// is an event's.
const NOTE_FORM: u8 = 2;

/// The first byte of a snapshot that has notes in front: their length (4 bytes, little-endian), the notes,
/// the state as without them.
const NOTED_FORM: u8 = 3;

/// Where their length ends.
const LENGTH_END: usize = 5;

/// One record of the library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DurableNote {
    /// A message has its number, and is to be delivered.
    Sent {
        /// Given once, ever.
        number: u64,
        /// The message, and to whom it goes.
        letter: Letter,
    },
    /// Somebody has confirmed it.
    Confirmed {
        /// Its number.
        number: u64,
    },
    /// Numbers up to this one were given. In snapshots: of messages that are confirmed nothing else is left.
    Given {
        /// The last of them.
        number: u64,
    },
    /// A reminder, in place of another one of this name.
    Reminded {
        /// How its entity calls it.
        name: String,
        /// When it is due, in milliseconds since 1970.
        at_ms: u64,
        /// After how many it is due again; 0: it comes once.
        every_ms: u64,
        /// What is handled then.
        message: Payload,
    },
    /// It was handled, and comes again.
    Again {
        /// Which.
        name: String,
        /// When it is due, in milliseconds since 1970.
        at_ms: u64,
    },
    /// It was handled, or is not wanted any more.
    Forgotten {
        /// Which.
        name: String,
    },
}

impl DurableNote {
    /// Its bytes in a log.
    #[must_use]
    pub fn record(&self) -> Bytes {
        let mut out = Vec::from([NOTE_FORM]);
        self.put(&mut out);
        out.into()
    }

    /// The note in a record, unless that is an event.
    ///
    /// # Errors
    /// It is a note that this version does not know.
    pub fn read(record: &[u8]) -> Result<Option<Self>, UnknownNote> {
        let Some(note) = record.strip_prefix(&[NOTE_FORM]) else {
            return Ok(None);
        };
        let mut rest = note;
        let note = Self::take(&mut rest).ok_or(UnknownNote)?;
        rest.is_empty().then_some(Some(note)).ok_or(UnknownNote)
    }

    /// When it has its entity woken, if it asks for that. One that comes again does so later than before.
    #[must_use]
    pub const fn wakes_at_ms(&self) -> Option<u64> {
        match self {
            Self::Reminded { at_ms, .. } => Some(*at_ms),
            Self::Sent { .. }
            | Self::Confirmed { .. }
            | Self::Given { .. }
            | Self::Again { .. }
            | Self::Forgotten { .. } => None,
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Sent { number, letter } => {
                out.push(0);
                put_number(out, *number);
                put_number(out, letter.to.kind.raw());
                put_bytes(out, letter.to.id.as_bytes());
                put_bytes(out, &letter.payload);
            }
            Self::Confirmed { number } => {
                out.push(1);
                put_number(out, *number);
            }
            Self::Given { number } => {
                out.push(2);
                put_number(out, *number);
            }
            Self::Reminded {
                name,
                at_ms,
                every_ms,
                message,
            } => {
                out.push(3);
                put_bytes(out, name.as_bytes());
                put_number(out, *at_ms);
                put_number(out, *every_ms);
                put_bytes(out, message);
            }
            Self::Again { name, at_ms } => {
                out.push(4);
                put_bytes(out, name.as_bytes());
                put_number(out, *at_ms);
            }
            Self::Forgotten { name } => {
                out.push(5);
                put_bytes(out, name.as_bytes());
            }
        }
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Some(match take_number(from)? {
            0 => {
                let number = take_number(from)?;
                let kind = KindId::from_raw(take_number(from)?);
                let id = EntityId::new(take_bytes(from)?);
                let payload = Payload::from(take_bytes(from)?);
                let to = LetterRecipient { kind, id };
                let letter = Letter { to, payload };
                Self::Sent { number, letter }
            }
            1 => Self::Confirmed {
                number: take_number(from)?,
            },
            2 => Self::Given {
                number: take_number(from)?,
            },
            3 => Self::Reminded {
                name: take_name(from)?,
                at_ms: take_number(from)?,
                every_ms: take_number(from)?,
                message: Payload::from(take_bytes(from)?),
            },
            4 => Self::Again {
                name: take_name(from)?,
                at_ms: take_number(from)?,
            },
            5 => Self::Forgotten {
                name: take_name(from)?,
            },
            _ => return None,
        })
    }
}

/// It is a note, of a later version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownNote;

/// A state with notes in front; `None` if they are larger than anything that can be kept.
#[must_use]
pub fn in_front(notes: &[DurableNote], state: &[u8]) -> Option<Bytes> {
    let mut out = Vec::from([NOTED_FORM, 0, 0, 0, 0]);
    put_number(&mut out, notes.len() as u64);
    for note in notes {
        note.put(&mut out);
    }
    let length = u32::try_from(out.len() - LENGTH_END).ok()?;
    out.get_mut(1..LENGTH_END)?.copy_from_slice(&length.to_le_bytes());
    out.extend_from_slice(state);
    Some(out.into())
}

/// The notes of a snapshot, and its state.
///
/// # Errors
/// They cannot be read by this version.
pub fn split(snapshot: &[u8]) -> Result<(Vec<DurableNote>, &[u8]), UnknownNote> {
    let Some(noted) = snapshot.strip_prefix(&[NOTED_FORM]) else {
        return Ok((Vec::new(), snapshot));
    };
    let (length, rest) = noted.split_first_chunk::<4>().ok_or(UnknownNote)?;
    let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| UnknownNote)?;
    let (mut written, state) = rest.split_at_checked(length).ok_or(UnknownNote)?;
    let count = take_number(&mut written).ok_or(UnknownNote)?;
    let mut notes = Vec::new();
    for _ in 0..count {
        // Each takes a byte at least, so this ends with what is there.
        notes.push(DurableNote::take(&mut written).ok_or(UnknownNote)?);
    }
    if written.is_empty() {
        Ok((notes, state))
    } else {
        Err(UnknownNote)
    }
}

/// Seven bits at a time, the lowest first; the highest bit says that more follow.
fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push((number & 0x7f) as u8);
}

fn take_number(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for place in 0..10 {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        let bits = u64::from(byte & 0x7f);
        let shifted = bits << (7 * place);
        if shifted >> (7 * place) != bits {
            return None;
        }
        number |= shifted;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Their number, then they.
fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn take_bytes<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take_number(from)?).ok()?;
    let (bytes, rest) = from.split_at_checked(length)?;
    *from = rest;
    Some(bytes)
}

fn take_name(from: &mut &[u8]) -> Option<String> {
    Some(String::from(str::from_utf8(take_bytes(from)?).ok()?))
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;

    use super::*;

    fn sent() -> DurableNote {
        let to = LetterRecipient {
            kind: KindId::from_raw(0x0102),
            id: EntityId::new(b"bob"),
        };
        let payload = Payload::from([9, 8]);
        let letter = Letter { to, payload };
        DurableNote::Sent { number: 7, letter }
    }

    #[test]
    fn the_bytes_of_notes_never_change() {
        let bytes = |note: DurableNote| note.record().to_vec();
        let sent_bytes = [2, 0, 7, 0x82, 2, 3, b'b', b'o', b'b', 2, 9, 8];
        assert_eq!(bytes(sent()), sent_bytes);
        assert_eq!(bytes(DurableNote::Confirmed { number: 300 }), [2, 1, 0xac, 2]);
        assert_eq!(bytes(DurableNote::Given { number: 1 }), [2, 2, 1]);
        let name = || "a".to_owned();
        let reminded = DurableNote::Reminded {
            name: name(),
            at_ms: 300,
            every_ms: 5,
            message: Payload::from([7]),
        };
        assert_eq!(bytes(reminded), [2, 3, 1, b'a', 0xac, 2, 5, 1, 7]);
        let again = DurableNote::Again {
            name: name(),
            at_ms: 1,
        };
        assert_eq!(bytes(again), [2, 4, 1, b'a', 1]);
        assert_eq!(bytes(DurableNote::Forgotten { name: name() }), [2, 5, 1, b'a']);
        let notes = [
            sent(),
            DurableNote::Confirmed { number: 300 },
            DurableNote::Given { number: 1 },
            DurableNote::Again {
                name: name(),
                at_ms: 1,
            },
            DurableNote::Forgotten { name: name() },
        ];
        for note in notes {
            let read = DurableNote::read(&note.record());
            assert_eq!(read, Ok(Some(note)));
        }
        assert!(matches!(
            DurableNote::read(&sent_bytes),
            Ok(Some(DurableNote::Sent { number: 7, .. }))
        ));
        assert!(
            matches!(DurableNote::read(&[1, 1, 0, 0, 0, 5]), Ok(None)),
            "an event"
        );
        assert!(DurableNote::read(&[2, 200]).is_err(), "of a later version");
    }

    #[test]
    fn a_snapshot_has_its_notes_in_front_or_none() {
        let state = [1, 1, 0, 0, 0, 5];
        let noted = in_front(&[DurableNote::Given { number: 3 }], &state).unwrap();
        assert_eq!(noted[..], [3, 3, 0, 0, 0, 1, 2, 3, 1, 1, 0, 0, 0, 5]);
        let (notes, rest) = split(&noted).unwrap();
        assert!(matches!(notes[..], [DurableNote::Given { number: 3 }]));
        assert_eq!(rest, state);
        assert!(split(&state).is_ok_and(|(notes, rest)| notes.is_empty() && rest == state));
        for cut in 1..8 {
            assert!(split(&noted[..cut]).is_err(), "{cut}");
        }
    }
}
