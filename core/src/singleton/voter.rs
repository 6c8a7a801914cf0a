//! This node's voice in who may give out tokens: per singleton the highest term that it promised, kept durably where it has a
//! store. A node that promised a term refuses every lower one, and the same one to somebody else, for ever. Decides nothing about
//! instances. Spec: sharding 10.7.
//!
//! A term that a majority promised is above every term of which a majority ever knew; a store makes that outlive a restart of the
//! whole cluster. A node without a store promises for as long as it lives.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;

use super::protocol::{Body, Rejection};
use super::state::SingletonId;
use super::{Cx, say};
use crate::ident::UniqueAddress;
use crate::reject::Rejection as AnyRejection;
use crate::store::{Bytes, Change, Outcome, StoreAnswer, StoreError, StoreOrder, StoreReport, StoreRequest};

/// Singletons of the whole cluster whose terms a node keeps: four times what one node may have, some tens of kilobytes.
const PROMISES_MAX: usize = 1_024;

/// No cluster takes so many terms: one above it is nonsense, and would leave none for anybody else.
pub(super) const TERM_MAX: u64 = u64::MAX >> 16;

/// A node that wants a term.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Claimant {
    node: UniqueAddress,
    epoch: u64,
    term: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// What the store holds is being read.
    Reading,
    /// Everything promised is kept.
    Kept,
    /// This promise is being kept; it is given once it is.
    Writing(Claimant),
}

#[derive(Clone, Debug)]
struct Promise {
    term: u64,
    /// To whom; `None` if it was read from the store, or never given.
    to: Option<UniqueAddress>,
    stage: Stage,
    /// The request to the store that is open.
    request: u64,
    /// The highest claim that came meanwhile; the others are repeated.
    waiting: Option<Claimant>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Voter {
    promises: BTreeMap<SingletonId, Promise>,
    requests: BTreeMap<u64, SingletonId>,
    last_request: u64,
}

/// A promise was given: every lower term is void.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) singleton: SingletonId,
    pub(super) term: u64,
    pub(super) to: UniqueAddress,
}

impl Voter {
    /// The highest term that was promised; 0 if none is known.
    pub(super) fn promised(&self, singleton: SingletonId) -> u64 {
        self.promises.get(&singleton).map_or(0, |promise| promise.term)
    }

    /// A node wants a term.
    pub(super) fn on_claim(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        singleton: SingletonId,
        epoch: u64,
        term: u64,
    ) -> Option<Given> {
        if term == 0 || term > TERM_MAX {
            cx.reject(from, AnyRejection::Singleton(Rejection::TermOutOfRange));
            return None;
        }
        let claimant = Claimant {
            node: from.clone(),
            epoch,
            term,
        };
        if !self.promises.contains_key(&singleton) {
            if self.promises.len() >= PROMISES_MAX {
                cx.counters().terms_not_kept += 1;
                return None;
            }
            let request = self.ask_store(cx, singleton, StoreOrder::Read { key: key(singleton) });
            let promise = Promise {
                term: 0,
                to: None,
                stage: Stage::Reading,
                request,
                waiting: Some(claimant),
            };
            self.promises.insert(singleton, promise);
            return None;
        }
        let promise = self.promises.get_mut(&singleton)?;
        if promise.stage != Stage::Kept {
            if promise.waiting.as_ref().is_none_or(|other| other.term <= term) {
                promise.waiting = Some(claimant);
            }
            return None;
        }
        self.decide(cx, singleton, claimant)
    }

    /// The store answers.
    pub(super) fn on_stored(&mut self, cx: &mut Cx<'_>, report: StoreReport) -> Option<Given> {
        let singleton = self.requests.remove(&report.id)?;
        let promise = self.promises.get_mut(&singleton)?;
        if promise.request != report.id {
            return None;
        }
        let given = match core::mem::replace(&mut promise.stage, Stage::Kept) {
            Stage::Kept => None,
            Stage::Reading => match read_term(&report.outcome) {
                Some(term) => {
                    promise.term = term;
                    None
                }
                // Nothing is promised by a node that does not know what it promised: the claim is repeated, and read again.
                None => {
                    cx.counters().terms_not_kept += 1;
                    self.promises.remove(&singleton);
                    return None;
                }
            },
            Stage::Writing(claimant) => match report.outcome {
                Ok(_) | Err(StoreError::NoStore) => Some(self.give(cx, singleton, claimant)),
                Err(_) => {
                    cx.counters().terms_not_kept += 1;
                    None
                }
            },
        };
        let waiting = self.promises.get_mut(&singleton).and_then(|it| it.waiting.take());
        let next = waiting.and_then(|claimant| self.decide(cx, singleton, claimant));
        given.or(next)
    }

    fn decide(&mut self, cx: &mut Cx<'_>, singleton: SingletonId, claimant: Claimant) -> Option<Given> {
        let promise = self.promises.get_mut(&singleton)?;
        let again = claimant.term == promise.term && promise.to.as_ref() == Some(&claimant.node);
        if again {
            return Some(self.give(cx, singleton, claimant));
        }
        if claimant.term <= promise.term {
            cx.counters().terms_refused += 1;
            let held = promise.term;
            say(
                cx,
                &claimant.node,
                singleton,
                claimant.epoch,
                Body::Refused { held },
            );
            return None;
        }
        let change = Change::Put {
            key: key(singleton),
            value: Arc::from(claimant.term.to_be_bytes().as_slice()),
        };
        promise.stage = Stage::Writing(claimant);
        let request = self.ask_store(cx, singleton, StoreOrder::Write { batch: vec![change] });
        if let Some(promise) = self.promises.get_mut(&singleton) {
            promise.request = request;
        }
        None
    }

    fn give(&mut self, cx: &mut Cx<'_>, singleton: SingletonId, claimant: Claimant) -> Given {
        let Claimant { node, epoch, term } = claimant;
        if let Some(promise) = self.promises.get_mut(&singleton) {
            promise.term = term;
            promise.to = Some(node.clone());
        }
        say(cx, &node, singleton, epoch, Body::Promised { term });
        Given {
            singleton,
            term,
            to: node,
        }
    }

    fn ask_store(&mut self, cx: &mut Cx<'_>, singleton: SingletonId, order: StoreOrder) -> u64 {
        self.last_request += 1;
        let id = self.last_request;
        self.requests.insert(id, singleton);
        cx.order_store(StoreRequest { id, order });
        id
    }
}

/// Where a singleton's term is kept.
fn key(singleton: SingletonId) -> Bytes {
    Arc::from(singleton.raw().to_be_bytes().as_slice())
}

/// The term that the store holds; `None` if it could not say.
fn read_term(outcome: &Outcome) -> Option<u64> {
    match outcome {
        Ok(StoreAnswer::Value(Some(bytes))) => <[u8; 8]>::try_from(&**bytes).ok().map(u64::from_be_bytes),
        Ok(StoreAnswer::Value(None)) | Err(StoreError::NoStore) => Some(0),
        Ok(_) | Err(_) => None,
    }
}
