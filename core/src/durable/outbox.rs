//! What a durable entity has to deliver: numbers for its messages, what is unconfirmed, and when it has to be
//! awake for that. The rules of sending again are [`AtLeastOnce`]'s. Sends nothing itself. Spec: sharding
//! 1.15, S-247, S-248.

use alloc::vec::Vec;
use core::iter;
use core::time::Duration;

use super::failure::DurableFailure;
use super::letter::{Letter, LetterRecipient};
use super::note::DurableNote;
use super::noted::EntityNotes;
use crate::delivery::{AtLeastOnce, AtLeastOnceSettings, BadSetting, Redelivery};
use crate::ordered::{OrderedMap, OrderedSet};
use crate::time::Instant;

/// The shortest time after which an entity with unconfirmed messages is woken: each is a write of its clock.
const AWAKE_MIN: Duration = Duration::from_millis(100);

/// The number of a message, before it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LetterNumber {
    /// Given once, ever.
    pub number: u64,
    /// Everything of this sender to this recipient below it is confirmed.
    pub oldest: u64,
}

/// See the module.
#[derive(Debug)]
pub struct LetterOutbox {
    rules: AtLeastOnce<Letter>,
    /// The numbers of what is unconfirmed.
    open: OrderedMap<LetterRecipient, OrderedSet<u64>>,
}

impl LetterOutbox {
    /// What an entity has to deliver when it has recovered.
    ///
    /// # Errors
    /// A setting is out of its range.
    pub fn recovered(settings: AtLeastOnceSettings, noted: EntityNotes) -> Result<Self, BadSetting> {
        let mut open = OrderedMap::<LetterRecipient, OrderedSet<u64>>::new();
        for (number, letter) in &noted.unconfirmed {
            open.entry(letter.to.clone()).or_default().insert(*number);
        }
        let rules = AtLeastOnce::recover(settings, noted.given, noted.unconfirmed)?;
        Ok(Self { rules, open })
    }

    /// What is to be sent now that it has recovered.
    pub fn begin(&mut self, now: Instant) -> Redelivery {
        self.rules.on_recovered(now)
    }

    /// The numbers of messages to these. Nothing is taken before [`Self::take`].
    ///
    /// # Errors
    /// Why the command that sends them fails; no number is used up.
    pub fn number<'a>(
        &self,
        to: impl ExactSizeIterator<Item = &'a LetterRecipient>,
    ) -> Result<Vec<LetterNumber>, DurableFailure> {
        if !self.rules.has_room_for(to.len()) {
            return Err(DurableFailure::TooManyUnconfirmed);
        }
        let mut firsts = OrderedMap::<&LetterRecipient, u64>::new();
        let numbered = |(number, to)| {
            let open = self.open.get(to).and_then(OrderedSet::first);
            let oldest = open
                .copied()
                .unwrap_or_else(|| *firsts.entry(to).or_insert(number));
            LetterNumber { number, oldest }
        };
        Ok((self.rules.counter() + 1..).zip(to).map(numbered).collect())
    }

    /// Messages that [`Self::number`] gave numbers to are durable: they are to be sent now.
    pub fn take(&mut self, now: Instant, letters: Vec<(u64, Letter)>) -> Vec<u64> {
        let mut numbers = Vec::with_capacity(letters.len());
        for (number, letter) in letters {
            let to = letter.to.clone();
            // There is room: it was looked for when they got their numbers, and nothing was taken since.
            if let Ok(given) = self.rules.deliver(now, letter) {
                assert_eq!(given, number, "invariant: numbers are given in order");
                self.open.entry(to).or_default().insert(number);
                numbers.push(number);
            }
        }
        numbers
    }

    /// A confirmation is durable.
    pub fn confirm(&mut self, number: u64) {
        let Some(sent) = self.rules.get(number) else {
            return;
        };
        let to = sent.message.to.clone();
        self.rules.confirm(number);
        if let Some(open) = self.open.get_mut(&to) {
            open.remove(&number);
            if open.is_empty() {
                self.open.remove(&to);
            }
        }
    }

    /// What is to be sent again now.
    pub fn redeliver(&mut self, now: Instant) -> Redelivery {
        self.rules.redeliver(now)
    }

    /// The rules, to be read.
    #[must_use]
    pub const fn rules(&self) -> &AtLeastOnce<Letter> {
        &self.rules
    }

    /// When its entity has to be awake because of what is unconfirmed, in milliseconds since 1970.
    #[must_use]
    pub fn awake_ms(&self, now_ms: u64) -> Option<u64> {
        let wait = self.rules.longest_wait()?;
        Some(in_ms(now_ms, wait))
    }

    /// When it has to be awake for what is about to be sent.
    #[must_use]
    pub fn first_awake_ms(&self, now_ms: u64) -> u64 {
        in_ms(now_ms, self.rules.redeliver_interval())
    }

    /// What a snapshot has to say of it; nothing if no message was ever sent.
    #[must_use]
    pub fn notes(&self) -> Vec<DurableNote> {
        self.notes_with(&[], &[])
    }

    /// The same once these messages are taken, and these notes learned.
    #[must_use]
    pub fn notes_with(&self, letters: &[(u64, Letter)], notes: &[DurableNote]) -> Vec<DurableNote> {
        let number = letters.last().map_or(self.rules.counter(), |(number, _)| *number);
        if number == 0 {
            return Vec::new();
        }
        let is_open = |number: u64| {
            let confirms =
                |note: &DurableNote| matches!(note, DurableNote::Confirmed { number: of } if *of == number);
            !notes.iter().any(confirms)
        };
        let new = letters.iter().map(|(number, letter)| (*number, letter));
        let unconfirmed = self.rules.unconfirmed().chain(new);
        let unconfirmed = unconfirmed.filter(|(number, _)| is_open(*number));
        let unconfirmed = unconfirmed.map(|(number, letter)| DurableNote::Sent {
            number,
            letter: letter.clone(),
        });
        iter::once(DurableNote::Given { number })
            .chain(unconfirmed)
            .collect()
    }
}

fn in_ms(now_ms: u64, time: Duration) -> u64 {
    let millis = u64::try_from(time.max(AWAKE_MIN).as_millis()).unwrap_or(u64::MAX);
    now_ms.saturating_add(millis)
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;
    use crate::sharding::state::ids::{EntityId, KindId, Payload};

    fn outbox(noted: EntityNotes) -> LetterOutbox {
        let settings = AtLeastOnceSettings {
            unconfirmed_max: 3,
            ..AtLeastOnceSettings::default()
        };
        LetterOutbox::recovered(settings, noted).unwrap()
    }

    fn to(name: &str) -> LetterRecipient {
        LetterRecipient {
            kind: KindId::of("account"),
            id: EntityId::new(name.as_bytes()),
        }
    }

    fn send(outbox: &mut LetterOutbox, names: &[&str]) -> Vec<(u64, u64)> {
        let to: Vec<LetterRecipient> = names.iter().map(|name| to(name)).collect();
        let numbered = outbox.number(to.iter()).unwrap();
        let letters = numbered.iter().zip(to).map(|(numbered, to)| {
            let payload = Payload::from([7]);
            (numbered.number, Letter { to, payload })
        });
        outbox.take(Instant::default(), letters.collect());
        numbered
            .iter()
            .map(|numbered| (numbered.number, numbered.oldest))
            .collect()
    }

    #[test]
    fn s_248_numbers_go_on_where_they_were_and_what_is_unconfirmed_is_sent_again() {
        let mut sender = outbox(EntityNotes::default());
        assert_eq!(sender.begin(Instant::default()).send, []);
        assert!(sender.notes().is_empty() && sender.awake_ms(0).is_none());
        assert_eq!(
            send(&mut sender, &["bob", "eve", "bob"]),
            [(1, 1), (2, 2), (3, 1)]
        );
        assert_eq!(
            (sender.awake_ms(7), sender.first_awake_ms(7)),
            (Some(5_007), 5_007)
        );
        assert_eq!(
            sender.number([to("bob")].iter()),
            Err(DurableFailure::TooManyUnconfirmed)
        );
        let after = sender.notes_with(&[], &[DurableNote::Confirmed { number: 1 }]);
        sender.confirm(1);
        sender.confirm(1);
        assert_eq!(format!("{after:?}"), format!("{:?}", sender.notes()));
        let mut noted = EntityNotes::default();
        sender.notes().into_iter().for_each(|note| noted.learn(note));
        let mut sender = outbox(noted);
        assert_eq!(sender.begin(Instant::default()).send, [2, 3]);
        assert_eq!(send(&mut sender, &["bob"]), [(4, 3)]);
        for number in 2..=4 {
            sender.confirm(number);
        }
        assert!(sender.open.is_empty());
        let notes = sender.notes();
        assert!(matches!(notes[..], [DurableNote::Given { number: 4 }]));
    }
}
