//! By what a recipient knows a message again, and how the messages of a decision get their numbers and bytes:
//! which numbers these are the core says. Spec: sharding 1.15, S-247, S-248.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::durable::{Letter, LetterOutbox};
use serde::{Deserialize, Serialize};

use super::DurableFailure;
use super::letter::{DeliveryId, Draft};
use crate::entity::EntityContext;
use crate::journal::log_name;

/// Which messages of durable entities have been received: a part of the recipient's state, so that one that
/// comes twice counts once. Ask [`Self::is_new`] in `handle`, and [`Self::note`] in `apply` what the event
/// says was received. Answer a message that is not new as if it were: its answer confirms it.
///
/// It has an entry for each sender that ever sent something (its name and some bytes), and in it a number for
/// each message that is not confirmed yet.
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

    /// Forgets a sender of which nothing comes any more; says whether it was known. What still comes of it is
    /// new.
    pub fn forget(&mut self, sender: &str) -> bool {
        self.senders.remove(sender).is_some()
    }
}

/// Gives messages of this entity their numbers. Nothing is taken before [`LetterOutbox::take`].
///
/// # Errors
/// Why the command that sends them fails; no number is used up.
pub(super) fn number(
    outbox: &LetterOutbox,
    sender: &EntityContext,
    drafts: Vec<Draft>,
) -> Result<Vec<(u64, Letter)>, DurableFailure> {
    if drafts.is_empty() {
        return Ok(Vec::new());
    }
    // One whose log has no name was turned away before.
    let sender = log_name(sender.kind(), sender.id()).ok_or(DurableFailure::NameTooLong)?;
    numbered(outbox, &sender, drafts)
}

fn numbered(
    outbox: &LetterOutbox,
    sender: &str,
    drafts: Vec<Draft>,
) -> Result<Vec<(u64, Letter)>, DurableFailure> {
    let numbers = outbox.number(drafts.iter().map(|draft| &draft.to))?;
    let letters = numbers
        .into_iter()
        .zip(drafts)
        .map(|(numbered, Draft { to, make })| {
            let id = DeliveryId {
                sender: sender.to_owned(),
                number: numbered.number,
                oldest: numbered.oldest,
            };
            let payload = make(id).ok_or(DurableFailure::TooLarge)?;
            Ok((numbered.number, Letter { to, payload }))
        });
    letters.collect()
}

#[cfg(test)]
mod tests {
    use quorate_core::delivery::AtLeastOnceSettings;
    use quorate_core::durable::{EntityNotes, LetterRecipient};
    use quorate_core::sharding::ids::{EntityId, KindId};
    use quorate_core::time::Instant;

    use super::*;
    use crate::codec;

    fn draft(to: &str) -> Draft {
        Draft {
            to: LetterRecipient {
                kind: KindId::of("account"),
                id: EntityId::new(to.as_bytes()),
            },
            make: Box::new(|id| codec::encode(&id)),
        }
    }

    fn send(outbox: &mut LetterOutbox, to: &[&str]) -> Vec<DeliveryId> {
        let drafts = to.iter().map(|to| draft(to)).collect();
        let letters = numbered(outbox, "account/ann", drafts).unwrap();
        let ids = letters
            .iter()
            .map(|(_, letter)| codec::decode(&letter.payload).unwrap());
        let ids = ids.collect();
        outbox.take(Instant::default(), letters);
        ids
    }

    #[test]
    fn what_comes_twice_is_known_however_late_and_little_is_kept_of_it() {
        let mut sender =
            LetterOutbox::recovered(AtLeastOnceSettings::default(), EntityNotes::default()).unwrap();
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
