//! Where this node is on its way into a cluster, and which joiners with other settings users have heard of.
//! Values only. Spec: membership 2.1, 2.2.

use alloc::vec::Vec;
use core::time::Duration;

use crate::event::{SeedCause, SeedFailure};
use crate::ident::{Address, UniqueAddress};
use crate::ordered::{OrderedMap, OrderedSet};
use crate::time::Instant;

/// Users hear of the same joiner with other settings this often: it may ask every second for days.
const TOLD_AGAIN: Duration = Duration::from_secs(60);
/// Joiners with other settings that are remembered for that: more are a flood, and told of again.
const TOLD_MAX: usize = 64;

/// Where this node is on its way into a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum JoinStage {
    /// Nobody has asked for it.
    Idle,
    /// Asking seeds.
    Seeding(SeedProcess),
    /// A member was asked; its Welcome has not come.
    Waiting {
        /// Who was asked.
        target: UniqueAddress,
        /// Whom to ask again if it does not come.
        contacts: Vec<Address>,
        /// Times the contacts were asked.
        attempt: u32,
        /// When all contacts are asked anew. Until then the target is asked again and again: an older
        /// incarnation of this address may have to go first, and nobody says when it has.
        until: Instant,
    },
    /// In a cluster.
    Done,
    /// Finished.
    Over,
}

/// The seed process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SeedProcess {
    /// The contacts as given; the first one may form a cluster.
    pub(super) contacts: Vec<Address>,
    /// What those contacts said that answered, other than that they take me in.
    pub(super) answers: OrderedMap<Address, SeedCause>,
    /// Whether I am the first contact.
    pub(super) first: bool,
    /// Times the contacts were asked.
    pub(super) attempt: u32,
    /// When the user is told that nobody answered. The first contact forms a cluster then.
    pub(super) until: Instant,
}

/// Joiners with other settings of whom users heard lately, and when; the oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct ToldDiffering(Vec<(UniqueAddress, Instant)>);

impl ToldDiffering {
    /// Whether users have to hear of it now.
    pub(super) fn is_due(&mut self, joiner: &UniqueAddress, now: Instant) -> bool {
        self.0.retain(|(_, at)| now.since(*at) < TOLD_AGAIN);
        if self.0.iter().any(|(told, _)| told == joiner) {
            return false;
        }
        if self.0.len() >= TOLD_MAX {
            self.0.remove(0);
        }
        self.0.push((joiner.clone(), now));
        true
    }
}

impl SeedProcess {
    /// The contacts besides this node, each once.
    pub(super) fn others(&self, me: &Address) -> OrderedSet<Address> {
        let other = |contact: &&Address| *contact != me;
        self.contacts.iter().filter(other).cloned().collect()
    }

    /// Whether no contact is left that has said nothing.
    pub(super) fn is_answered(&self, me: &Address) -> bool {
        let has_answered = |contact: &Address| contact == me || self.answers.contains_key(contact);
        self.contacts.iter().all(has_answered)
    }

    /// Whether a seed would not have this node as it is.
    pub(super) fn is_refused(&self) -> bool {
        let refuses = |cause: &SeedCause| matches!(cause, SeedCause::SettingsDiffer(_));
        self.answers.values().any(refuses)
    }

    /// What each contact had against this node, in the order in which they were given.
    pub(super) fn failures(&self, me: &Address) -> Vec<SeedFailure> {
        let others = self.contacts.iter().filter(|contact| *contact != me);
        let failure = |seed: &Address| SeedFailure {
            seed: seed.clone(),
            cause: self.answers.get(seed).cloned().unwrap_or(SeedCause::NoAnswer),
        };
        others.map(failure).collect()
    }
}
