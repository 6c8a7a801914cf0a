//! Where a set of names is kept: in replicated data, or in a log. Decides nothing. Spec: sharding 1.5.

use alloc::vec::Vec;

use super::log::StoredLog;
use super::set::{QuestionOutcome, StoredSet};
use crate::ddata::crdt::Element;
use crate::effect::Answer;
use crate::input::StoreAsk;
use crate::journal::state::TokenClaim;
use crate::sharding::Cx;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) enum NameStore {
    /// In replicated data.
    Data(StoredSet),
    /// In a log.
    Log(StoredLog),
}

impl NameStore {
    /// With which token it is opened from now on; replicated data has none.
    pub(crate) fn claim_with(&mut self, claim: TokenClaim) {
        match self {
            Self::Data(_) => {}
            Self::Log(log) => log.claim_with(claim),
        }
    }

    /// Asks what is there. `request` was not used before, by whoever has this name.
    pub(crate) fn read(&mut self, cx: &mut Cx<'_>, request: u64) {
        match self {
            Self::Data(set) => set.read(cx, request),
            Self::Log(log) => log.read(cx, request),
        }
    }

    /// Adds and removes names; at least one.
    pub(crate) fn write(&mut self, cx: &mut Cx<'_>, request: u64, add: Vec<Element>, remove: Vec<Element>) {
        match self {
            Self::Data(set) => set.write(cx, request, add, remove),
            Self::Log(log) => log.write(cx, request, add, remove),
        }
    }

    /// Waits for nothing any more, and owns nothing.
    pub(crate) fn give_up(&mut self, cx: &mut Cx<'_>) {
        match self {
            Self::Data(set) => set.give_up(),
            Self::Log(log) => log.close(cx),
        }
    }

    /// A part of the question is answered; `None` while it is open, or if the answer is of another one.
    pub(crate) fn on_answer(
        &mut self,
        cx: &mut Cx<'_>,
        ask: StoreAsk,
        answer: Answer,
    ) -> Option<QuestionOutcome> {
        match self {
            Self::Data(set) => set.on_answer(cx, ask, answer),
            Self::Log(log) => log.on_answer(cx, ask, answer),
        }
    }
}
