//! What all notes of a log amount to: which messages are unconfirmed, and what the entity wants to be
//! reminded of. Spec: sharding 1.15.

use super::letter::Letter;
use super::note::DurableNote;
use super::reminders::Reminders;
use crate::ordered::OrderedMap;

/// See the module.
#[derive(Debug, Default)]
pub struct EntityNotes {
    /// The last number that was given to a message.
    pub(super) given: u64,
    pub(super) unconfirmed: OrderedMap<u64, Letter>,
    /// What it wants to be reminded of.
    pub reminders: Reminders,
}

impl EntityNotes {
    /// One more, in the order of the log.
    pub fn learn(&mut self, note: DurableNote) {
        if self.reminders.learn(&note) {
            return;
        }
        match note {
            DurableNote::Sent { number, letter } => {
                self.given = self.given.max(number);
                self.unconfirmed.insert(number, letter);
            }
            DurableNote::Confirmed { number } => {
                self.unconfirmed.remove(&number);
            }
            DurableNote::Given { number } => self.given = self.given.max(number),
            DurableNote::Reminded { .. } | DurableNote::Again { .. } | DurableNote::Forgotten { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::letter::LetterRecipient;
    use super::*;
    use crate::sharding::state::ids::{EntityId, KindId, Payload};

    fn sent() -> DurableNote {
        let to = LetterRecipient {
            kind: KindId::of("account"),
            id: EntityId::new(b"bob"),
        };
        let payload = Payload::from([9, 8]);
        let letter = Letter { to, payload };
        DurableNote::Sent { number: 7, letter }
    }

    #[test]
    fn what_was_confirmed_is_forgotten_and_its_number_is_not() {
        let mut noted = EntityNotes::default();
        noted.learn(sent());
        noted.learn(DurableNote::Given { number: 3 });
        assert_eq!((noted.given, noted.unconfirmed.len()), (7, 1));
        noted.learn(DurableNote::Confirmed { number: 7 });
        assert_eq!((noted.given, noted.unconfirmed.len()), (7, 0));
    }
}
