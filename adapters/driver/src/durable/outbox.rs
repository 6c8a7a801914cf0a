//! What a durable entity has to deliver: numbers for its messages, what is unconfirmed, and by what a recipient knows a message again. The
//! rules of sending again are the core's. Sends nothing itself. Spec: sharding 1.15, S-247, S-248.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::delivery::{AtLeastOnce, AtLeastOnceSettings, BadSetting, Redelivery};
use quorate_core::time::Instant;
use serde::{Deserialize, Serialize};

use super::DurableFailure;
use super::letter::{DeliveryId, Draft, Letter, Recipient};
use super::note::Note;
use super::noted::Noted;
use crate::entity::EntityContext;
use crate::journal::log_name;

/// Which messages of durable entities have been received: a part of the recipient's state, so that one that comes twice counts once.
/// Ask [`Self::is_new`] in `handle`, and [`Self::note`] in `apply` what the event says was received. Answer a message that is not new as if
/// it were: its answer confirms it.
///
/// It has an entry for each sender that ever sent something (its name and some bytes), and in it a number for each message that is not
/// confirmed yet.
///
/// ```
/// use quorate_driver::durable::{DeliveryId, Received};
/// # fn example(received: &mut Received, id: &DeliveryId) {
/// if received.is_new(id) {
///     received.note(id);
/// }
/// assert!(!received.is_new(id));
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Received {
    senders: BTreeMap<String, Seen>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Seen {
    /// What is below was received.
    below: u64,
    /// What was received besides.
    above: BTreeSet<u64>,
}

impl Received {
    /// Whether this message has not been received before.
    #[must_use]
    pub fn is_new(&self, id: &DeliveryId) -> bool {
        let seen = self.senders.get(&id.sender);
        seen.is_none_or(|seen| id.number >= seen.below && !seen.above.contains(&id.number))
    }

    /// This message has been received.
    pub fn note(&mut self, id: &DeliveryId) {
        let seen = self.senders.entry(id.sender.clone()).or_default();
        if id.number >= seen.below {
            seen.above.insert(id.number);
        }
        if id.oldest > seen.below {
            seen.below = id.oldest;
            seen.above = seen.above.split_off(&id.oldest);
        }
    }

    /// How many senders have sent something.
    #[must_use]
    pub fn senders(&self) -> usize {
        self.senders.len()
    }

    /// Forgets a sender of which nothing comes any more; says whether it was known. What still comes of it is new.
    pub fn forget(&mut self, sender: &str) -> bool {
        self.senders.remove(sender).is_some()
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Outbox {
    rules: AtLeastOnce<Letter>,
    /// The numbers of what is unconfirmed.
    open: BTreeMap<Recipient, BTreeSet<u64>>,
}

impl Outbox {
    /// What an entity has to deliver when it has recovered.
    ///
    /// # Errors
    /// A setting is out of its range.
    pub(super) fn recovered(settings: AtLeastOnceSettings, noted: Noted) -> Result<Self, BadSetting> {
        let mut open = BTreeMap::<Recipient, BTreeSet<u64>>::new();
        for (number, letter) in &noted.unconfirmed {
            open.entry(letter.to.clone()).or_default().insert(*number);
        }
        let rules = AtLeastOnce::recover(settings, noted.given, noted.unconfirmed)?;
        Ok(Self { rules, open })
    }

    /// What is to be sent now that it has recovered.
    pub(super) fn begin(&mut self, now: Instant) -> Redelivery {
        self.rules.on_recovered(now)
    }

    /// Gives messages of this entity their numbers. Nothing is taken before [`Self::take`].
    ///
    /// # Errors
    /// Why the command that sends them fails; no number is used up.
    pub(super) fn number(
        &self,
        sender: &EntityContext,
        drafts: Vec<Draft>,
    ) -> Result<Vec<(u64, Letter)>, DurableFailure> {
        if drafts.is_empty() {
            return Ok(Vec::new());
        }
        // One whose log has no name was turned away before.
        let sender = log_name(sender.kind(), sender.id()).ok_or(DurableFailure::NameTooLong)?;
        self.numbered(&sender, drafts)
    }

    fn numbered(&self, sender: &str, drafts: Vec<Draft>) -> Result<Vec<(u64, Letter)>, DurableFailure> {
        if !self.rules.has_room_for(drafts.len()) {
            return Err(DurableFailure::TooManyUnconfirmed);
        }
        let mut firsts = BTreeMap::<Recipient, u64>::new();
        let mut letters = Vec::with_capacity(drafts.len());
        for (number, Draft { to, make }) in (self.rules.counter() + 1..).zip(drafts) {
            let open = self.open.get(&to).and_then(BTreeSet::first);
            let oldest = open
                .copied()
                .unwrap_or_else(|| *firsts.entry(to.clone()).or_insert(number));
            let id = DeliveryId {
                sender: sender.to_owned(),
                number,
                oldest,
            };
            let payload = make(id).ok_or(DurableFailure::TooLarge)?;
            letters.push((number, Letter { to, payload }));
        }
        Ok(letters)
    }

    /// Messages that [`Self::number`] gave numbers to are durable: they are to be sent now.
    pub(super) fn take(&mut self, now: Instant, letters: Vec<(u64, Letter)>) -> Vec<u64> {
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
    pub(super) fn confirm(&mut self, number: u64) {
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
    pub(super) fn redeliver(&mut self, now: Instant) -> Redelivery {
        self.rules.redeliver(now)
    }

    /// The rules, to be read.
    pub(super) const fn rules(&self) -> &AtLeastOnce<Letter> {
        &self.rules
    }

    /// What a snapshot has to say of it; nothing if no message was ever sent.
    pub(super) fn notes(&self) -> Vec<Note> {
        self.notes_with(&[], &[])
    }

    /// The same once these messages are taken, and these notes learned.
    pub(super) fn notes_with(&self, letters: &[(u64, Letter)], notes: &[Note]) -> Vec<Note> {
        let number = letters.last().map_or(self.rules.counter(), |(number, _)| *number);
        if number == 0 {
            return Vec::new();
        }
        let is_open = |number: u64| {
            let confirms = |note: &Note| matches!(note, Note::Confirmed { number: of } if *of == number);
            !notes.iter().any(confirms)
        };
        let new = letters.iter().map(|(number, letter)| (*number, letter));
        let unconfirmed = self.rules.unconfirmed().chain(new);
        let unconfirmed = unconfirmed.filter(|(number, _)| is_open(*number));
        let unconfirmed = unconfirmed.map(|(number, letter)| Note::sent(number, letter));
        std::iter::once(Note::Given { number })
            .chain(unconfirmed)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::sharding::ids::{EntityId, KindId};

    use super::*;
    use crate::codec;

    fn outbox(noted: Noted) -> Outbox {
        let settings = AtLeastOnceSettings {
            unconfirmed_max: 3,
            ..AtLeastOnceSettings::default()
        };
        Outbox::recovered(settings, noted).unwrap()
    }

    fn draft(to: &str) -> Draft {
        Draft {
            to: Recipient::new(KindId::of("account"), EntityId::new(to.as_bytes())),
            make: Box::new(|id| codec::encode(&id)),
        }
    }

    fn send(outbox: &mut Outbox, to: &[&str]) -> Vec<DeliveryId> {
        let drafts = to.iter().map(|to| draft(to)).collect();
        let letters = outbox.numbered("account/ann", drafts).unwrap();
        let ids = letters
            .iter()
            .map(|(_, letter)| codec::decode(&letter.payload).unwrap());
        let ids = ids.collect();
        outbox.take(Instant::default(), letters);
        ids
    }

    fn numbers(ids: &[DeliveryId]) -> Vec<(u64, u64)> {
        ids.iter().map(|id| (id.number, id.oldest)).collect()
    }

    #[test]
    fn s_248_numbers_go_on_where_they_were_and_what_is_unconfirmed_is_sent_again() {
        let mut sender = outbox(Noted::default());
        assert_eq!(sender.begin(Instant::default()).send, []);
        assert!(sender.notes().is_empty());
        assert_eq!(
            numbers(&send(&mut sender, &["bob", "eve", "bob"])),
            [(1, 1), (2, 2), (3, 1)]
        );
        assert_eq!(
            sender.numbered("account/ann", vec![draft("bob")]).err(),
            Some(DurableFailure::TooManyUnconfirmed)
        );
        let after = sender.notes_with(&[], &[Note::Confirmed { number: 1 }]);
        sender.confirm(1);
        sender.confirm(1);
        assert_eq!(format!("{after:?}"), format!("{:?}", sender.notes()));
        let mut noted = Noted::default();
        sender.notes().into_iter().for_each(|note| noted.learn(note));
        let mut sender = outbox(noted);
        assert_eq!(sender.begin(Instant::default()).send, [2, 3]);
        assert_eq!(numbers(&send(&mut sender, &["bob"])), [(4, 3)]);
        for number in 2..=4 {
            sender.confirm(number);
        }
        assert!(sender.open.is_empty());
        let notes = sender.notes();
        assert!(matches!(notes[..], [Note::Given { number: 4 }]));
    }

    #[test]
    fn what_comes_twice_is_known_however_late_and_little_is_kept_of_it() {
        let mut sender = outbox(Noted::default());
        sender.begin(Instant::default());
        let mut received = Received::default();
        let mut all = Vec::new();
        for round in 0..50 {
            let ids = send(&mut sender, &["bob", "bob", "bob"]);
            // In any order.
            for id in ids.iter().rev() {
                assert!(received.is_new(id), "{round}: {id:?}");
                received.note(id);
                assert!(!received.is_new(id));
            }
            for id in &ids {
                sender.confirm(id.number);
            }
            all.extend(ids);
            assert!(all.iter().all(|id| !received.is_new(id)));
            let seen = &received.senders["account/ann"];
            assert!(seen.above.len() <= 3, "{seen:?}");
        }
        assert_eq!(received.senders(), 1);
        let bytes = codec::encode(&received).unwrap();
        assert_eq!(
            bytes[..],
            *b"\x01\x0baccount/ann\x94\x01\x03\x94\x01\x95\x01\x96\x01"
        );
        assert!(received.forget("account/ann") && received.is_new(&all[0]));
    }
}
