//! What nodes say to each other about hints: what a store keeps, in a sloppy bucket, for an owner that is
//! away. Types only. Spec: sharding 2.5, 5.6.

use crate::ddata::state::key::Key;
use crate::journal::state::StoreId;
use crate::kv::state::configuration::Configuration;
use crate::kv::state::entry::KvEntry;
use crate::kv::state::exchange::{KvAnswer, KvAsk, KvRefusal};
use crate::kv::state::table::RangeId;

/// One statement about a hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HintStatement {
    /// To a store, in place of an owner.
    Ask(HintAsk),
    /// Its answer.
    Answer(HintAnswer),
}

/// A question to a store that stands in for an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HintAsk {
    /// Which store is meant.
    pub store: StoreId,
    /// For which owner.
    pub owner: StoreId,
    /// The key's range.
    pub range: RangeId,
    /// Its owners, as far as who asks knows.
    pub configuration: Configuration,
    /// The key.
    pub key: Key,
    /// The asking node's number of the call; the answer carries it.
    pub call: u64,
    /// Which step of the call; the answer carries it.
    pub step: u32,
    /// What is asked.
    pub wanted: HintWanted,
}

/// What a store is asked about hints of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HintWanted {
    /// What they hold, for whichever owner. Answered with [`KvAnswer::Held`].
    Held,
    /// To keep this until the owner has it. Answered with [`KvAnswer::Done`].
    Keep {
        /// What the owner is to merge.
        entry: KvEntry,
        /// For how long hints have held some of it already.
        age_ms: u64,
    },
}

/// What a store answers that stands in for an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HintAnswer {
    /// Which store answers.
    pub store: StoreId,
    /// For which owner.
    pub owner: StoreId,
    /// The asking node's number of the call.
    pub call: u64,
    /// Which step of it.
    pub step: u32,
    /// The epoch under which it was asked.
    pub epoch: u64,
    /// For how long its hints have held what is answered.
    pub age_ms: u64,
    /// What is answered.
    pub answer: KvAnswer,
}

impl HintWanted {
    /// What of a question to an owner a store can answer in its place: nothing about turns.
    #[must_use]
    pub fn of(ask: &KvAsk, age_ms: u64) -> Option<Self> {
        match ask {
            KvAsk::Get => Some(Self::Held),
            KvAsk::Merge(entry) if entry.register.is_none() => Some(Self::Keep {
                entry: entry.clone(),
                age_ms,
            }),
            KvAsk::Merge(_)
            | KvAsk::Mint(_)
            | KvAsk::Promise(_)
            | KvAsk::Accept(_)
            | KvAsk::Extend { .. }
            | KvAsk::Settle { .. } => None,
        }
    }
}

impl HintAnswer {
    /// Whether a store that stands in may say so: it makes no versions, and knows nothing of turns.
    #[must_use]
    pub const fn is_possible(&self) -> bool {
        match &self.answer {
            KvAnswer::Held(entry) => entry.register.is_none(),
            KvAnswer::Minted { .. } | KvAnswer::Refused(KvRefusal::OtherActor(_)) => false,
            KvAnswer::Done | KvAnswer::Refused(_) => true,
        }
    }
}

impl HintStatement {
    /// About how many bytes of users it carries.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Ask(asked) => match &asked.wanted {
                HintWanted::Held => 0,
                HintWanted::Keep { entry, .. } => entry.bytes(),
            },
            Self::Answer(answered) => answered.answer.bytes(),
        }
    }
}
