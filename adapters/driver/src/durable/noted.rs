//! What all notes of a log amount to: which messages are unconfirmed, and what the entity wants to be reminded of. Spec: sharding 1.15.

use std::collections::BTreeMap;

use quorate_core::sharding::ids::{EntityId, KindId};

use super::letter::{Letter, Recipient};
use super::note::Note;
use super::reminders::Reminders;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Noted {
    /// The last number that was given to a message.
    pub(super) given: u64,
    pub(super) unconfirmed: BTreeMap<u64, Letter>,
    pub(super) reminders: Reminders,
}

impl Noted {
    pub(super) fn learn(&mut self, note: Note) {
        if self.reminders.learn(&note) {
            return;
        }
        match note {
            Note::Sent {
                number,
                kind,
                id,
                payload,
            } => {
                let to = Recipient::new(KindId::from_raw(kind), EntityId::new(&id));
                let payload = payload.0;
                self.given = self.given.max(number);
                self.unconfirmed.insert(number, Letter { to, payload });
            }
            Note::Confirmed { number } => {
                self.unconfirmed.remove(&number);
            }
            Note::Given { number } => self.given = self.given.max(number),
            Note::Reminded { .. } | Note::Again { .. } | Note::Forgotten { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::sharding::ids::Payload;

    fn sent() -> Note {
        let letter = Letter {
            to: Recipient::new(KindId::of("account"), EntityId::new(b"bob")),
            payload: Payload::from([9, 8]),
        };
        Note::sent(7, &letter)
    }

    #[test]
    fn what_was_confirmed_is_forgotten_and_its_number_is_not() {
        let mut noted = Noted::default();
        noted.learn(sent());
        noted.learn(Note::Given { number: 3 });
        assert_eq!((noted.given, noted.unconfirmed.len()), (7, 1));
        noted.learn(Note::Confirmed { number: 7 });
        assert_eq!((noted.given, noted.unconfirmed.len()), (7, 0));
    }
}
