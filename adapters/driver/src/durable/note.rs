//! What the library keeps in an entity's log beside its events, and in its snapshot beside its state: which messages it has to deliver, and what it wants to be
//! reminded of.
//! These bytes are on disks: forms never change, and variants are only appended. Spec: sharding 1.15.

use quorate_core::store::Bytes as Record;
use serde::{Deserialize, Serialize};

use super::letter::Letter;
use crate::codec::{self, Bytes};

/// The first byte of a record that is a note; postcard follows. One is an event's.
const NOTE_FORM: u8 = 2;

/// The first byte of a snapshot that has notes in front: their length (4 bytes, little-endian), the notes, the state as without them.
const NOTED_FORM: u8 = 3;

/// One record of the library.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Note {
    /// A message has its number, and is to be delivered.
    Sent {
        number: u64,
        kind: u64,
        id: Vec<u8>,
        payload: Bytes,
    },
    /// Somebody has confirmed it.
    Confirmed { number: u64 },
    /// Numbers up to this one were given. In snapshots: of messages that are confirmed nothing else is left.
    Given { number: u64 },
    /// A reminder, in place of another one of this name.
    Reminded {
        name: String,
        /// Since 1970.
        at_ms: u64,
        /// 0: once.
        every_ms: u64,
        message: Bytes,
    },
    /// It was handled, and comes again.
    Again { name: String, at_ms: u64 },
    /// It was handled, or is not wanted any more.
    Forgotten { name: String },
}

impl Note {
    pub(super) fn sent(number: u64, letter: &Letter) -> Self {
        Self::Sent {
            number,
            kind: letter.to.kind.raw(),
            id: letter.to.id.as_bytes().to_vec(),
            payload: Bytes(letter.payload.clone()),
        }
    }

    /// Its bytes in a log; `None` if it cannot be encoded.
    pub(super) fn record(&self) -> Option<Record> {
        codec::encode_after(&[NOTE_FORM], self).map(Record::from)
    }

    /// The note in a record, unless that is an event.
    ///
    /// # Errors
    /// It is a note that this version does not know.
    pub(super) fn read(record: &[u8]) -> Result<Option<Self>, Unknown> {
        match record.strip_prefix(&[NOTE_FORM]) {
            Some(note) => codec::decode(note).map(Some).ok_or(Unknown),
            None => Ok(None),
        }
    }
}

/// It is a note, of a later version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unknown;

/// A state with notes in front; `None` if they cannot be encoded.
pub(super) fn in_front(notes: &[Note], state: &[u8]) -> Option<Record> {
    let notes = codec::encode(notes)?;
    let length = u32::try_from(notes.len()).ok()?.to_le_bytes();
    Some([&[NOTED_FORM], &length[..], &notes, state].concat().into())
}

/// The notes of a snapshot, and its state.
///
/// # Errors
/// They cannot be read by this version.
pub(super) fn split(snapshot: &[u8]) -> Result<(Vec<Note>, &[u8]), Unknown> {
    let Some(noted) = snapshot.strip_prefix(&[NOTED_FORM]) else {
        return Ok((Vec::new(), snapshot));
    };
    let (length, rest) = noted.split_first_chunk::<4>().ok_or(Unknown)?;
    let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| Unknown)?;
    let (notes, state) = rest.split_at_checked(length).ok_or(Unknown)?;
    Ok((codec::decode(notes).ok_or(Unknown)?, state))
}

#[cfg(test)]
mod tests {
    use quorate_core::sharding::ids::{EntityId, KindId, Payload};

    use super::super::letter::Recipient;
    use super::*;

    fn sent() -> Note {
        let letter = Letter {
            to: Recipient::new(KindId::from_raw(0x0102), EntityId::new(b"bob")),
            payload: Payload::from([9, 8]),
        };
        Note::sent(7, &letter)
    }

    #[test]
    fn the_bytes_of_notes_never_change() {
        let bytes = |note: Note| note.record().unwrap().to_vec();
        let sent_bytes = [2, 0, 7, 0x82, 2, 3, b'b', b'o', b'b', 2, 9, 8];
        assert_eq!(bytes(sent()), sent_bytes);
        assert_eq!(bytes(Note::Confirmed { number: 300 }), [2, 1, 0xac, 2]);
        assert_eq!(bytes(Note::Given { number: 1 }), [2, 2, 1]);
        let name = || "a".to_owned();
        let reminded = Note::Reminded {
            name: name(),
            at_ms: 300,
            every_ms: 5,
            message: Bytes(Payload::from([7])),
        };
        assert_eq!(bytes(reminded), [2, 3, 1, b'a', 0xac, 2, 5, 1, 7]);
        let again = Note::Again {
            name: name(),
            at_ms: 1,
        };
        assert_eq!(bytes(again), [2, 4, 1, b'a', 1]);
        assert_eq!(bytes(Note::Forgotten { name: name() }), [2, 5, 1, b'a']);
        assert!(matches!(
            Note::read(&sent_bytes),
            Ok(Some(Note::Sent { number: 7, .. }))
        ));
        assert!(matches!(Note::read(&[1, 1, 0, 0, 0, 5]), Ok(None)), "an event");
        assert!(Note::read(&[2, 200]).is_err(), "of a later version");
    }

    #[test]
    fn a_snapshot_has_its_notes_in_front_or_none() {
        let state = [1, 1, 0, 0, 0, 5];
        let noted = in_front(&[Note::Given { number: 3 }], &state).unwrap();
        assert_eq!(noted[..], [3, 3, 0, 0, 0, 1, 2, 3, 1, 1, 0, 0, 0, 5]);
        let (notes, rest) = split(&noted).unwrap();
        assert!(matches!(notes[..], [Note::Given { number: 3 }]));
        assert_eq!(rest, state);
        assert!(split(&state).is_ok_and(|(notes, rest)| notes.is_empty() && rest == state));
        for cut in 1..8 {
            assert!(split(&noted[..cut]).is_err(), "{cut}");
        }
    }
}
