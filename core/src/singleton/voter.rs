//! This node's voice in who may give out tokens: per singleton the highest term that it promised, kept
//! durably where it has a store. A node that promised a term refuses every lower one, and the same one to
//! somebody else, for ever. Decides nothing about instances. Spec: sharding 10.7.
//!
//! A term that a majority promised is above every term of which a majority ever knew; a store makes that
//! outlive a restart of the whole cluster. A node without a store promises for as long as it lives.
//!
//! A claim far above what was promised is refused with what was promised ([`TERM_STEP`]): one node could take
//! all terms there are.

use alloc::sync::Arc;
use alloc::vec;
use core::time::Duration;

use super::protocol::{Rejection, SingletonBody};
use super::state::{SingletonId, StoredPromise};
use super::{Cx, say};
use crate::ident::UniqueAddress;
use crate::ordered::OrderedMap;
use crate::reject::Rejection as AnyRejection;
use crate::store::{Bytes, Change, Outcome, StoreAnswer, StoreError, StoreOrder, StoreReport, StoreRequest};
use crate::time::Instant;
use crate::wire::StoredForm;

/// Singletons of the whole cluster whose terms a node keeps: four times what one node may have, some tens of
/// kilobytes.
const PROMISES_MAX: usize = 1_024;

/// Of those as many as one node may have: whoever claims terms of more leaves room for the others.
const PROMISES_PER_NODE_MAX: usize = super::SINGLETONS_MAX;

/// No cluster takes so many terms: one above it is nonsense, and would leave none for anybody else.
pub(super) const TERM_MAX: u64 = u64::MAX >> 16;

/// How far above what was promised a claim may be: more terms than a cluster takes in years. Who has missed
/// more is led there in steps of so many; who claims nonsense needs a century for the way to [`TERM_MAX`].
pub(super) const TERM_STEP: u64 = 1 << 16;

/// How often a promise may rise by more than one term: one that leads somebody on in steps repeats its claims
/// at about this pace.
const STEP_PAUSE: Duration = Duration::from_secs(1);

/// A node that wants a term.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TermClaimant {
    node: UniqueAddress,
    epoch: u64,
    term: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PromiseStage {
    /// What the store holds is being read.
    Reading,
    /// Everything promised is kept.
    Kept,
    /// This promise is being kept; it is given once it is.
    Writing(TermClaimant),
}

#[derive(Clone, Debug)]
struct TermPromise {
    term: u64,
    /// To whom; `None` if it was never given, or the store does not say.
    to: Option<UniqueAddress>,
    stage: PromiseStage,
    /// The request to the store that is open.
    request: u64,
    /// The highest claim that came meanwhile; the others are repeated.
    waiting: Option<TermClaimant>,
    /// When it last rose by more than one term.
    stepped: Option<Instant>,
}

impl TermPromise {
    /// Whether a claim is not further above the promise than it may be now.
    fn is_within_reach(&self, term: u64, now: Instant) -> bool {
        let above = term.saturating_sub(self.term);
        let rests = self.stepped.is_some_and(|at| now.since(at) < STEP_PAUSE);
        above <= 1 || (above <= TERM_STEP && !rests)
    }

    /// Whether this node has the promise, or waits for it.
    fn is_of(&self, node: &UniqueAddress) -> bool {
        let claims = match &self.stage {
            PromiseStage::Writing(claimant) => Some(claimant),
            PromiseStage::Reading | PromiseStage::Kept => self.waiting.as_ref(),
        };
        self.to.as_ref() == Some(node) || claims.is_some_and(|claimant| claimant.node == *node)
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct TermVoter {
    promises: OrderedMap<SingletonId, TermPromise>,
    requests: OrderedMap<u64, SingletonId>,
    last_request: u64,
}

/// A promise was given: every lower term is void.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PromiseGiven {
    pub(super) singleton: SingletonId,
    pub(super) term: u64,
    pub(super) to: UniqueAddress,
}

impl TermVoter {
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
    ) -> Option<PromiseGiven> {
        if term == 0 || term > TERM_MAX {
            cx.reject(from, AnyRejection::Singleton(Rejection::TermOutOfRange));
            return None;
        }
        let claimant = TermClaimant {
            node: from.clone(),
            epoch,
            term,
        };
        if !self.promises.contains_key(&singleton) {
            if !self.has_room(cx, from) {
                cx.counters().terms_not_kept += 1;
                return None;
            }
            let request = self.ask_store(cx, singleton, StoreOrder::Read { key: key(singleton) });
            let promise = TermPromise {
                term: 0,
                to: None,
                stage: PromiseStage::Reading,
                request,
                waiting: Some(claimant),
                stepped: None,
            };
            self.promises.insert(singleton, promise);
            return None;
        }
        let promise = self.promises.get_mut(&singleton)?;
        if promise.stage != PromiseStage::Kept {
            if promise.waiting.as_ref().is_none_or(|other| other.term <= term) {
                promise.waiting = Some(claimant);
            }
            return None;
        }
        self.decide(cx, singleton, claimant)
    }

    /// Whether one more singleton may be promised to this node. What was promised to one that is no member
    /// any more makes room: a store still says it.
    fn has_room(&mut self, cx: &Cx<'_>, from: &UniqueAddress) -> bool {
        let of_it = self
            .promises
            .values()
            .filter(|promise| promise.is_of(from))
            .count();
        if of_it >= PROMISES_PER_NODE_MAX || self.promises.len() < PROMISES_MAX {
            return of_it < PROMISES_PER_NODE_MAX;
        }
        let is_free = |promise: &TermPromise| {
            let to = promise.to.as_ref();
            promise.stage == PromiseStage::Kept && to.is_some_and(|node| cx.view().member(node).is_none())
        };
        let free = self.promises.iter().find(|(_, promise)| is_free(promise));
        let free = free.map(|(singleton, _)| *singleton);
        free.is_some_and(|singleton| self.promises.remove(&singleton).is_some())
    }

    /// The store answers.
    pub(super) fn on_stored(&mut self, cx: &mut Cx<'_>, report: StoreReport) -> Option<PromiseGiven> {
        let singleton = self.requests.remove(&report.id)?;
        let promise = self.promises.get_mut(&singleton)?;
        if promise.request != report.id {
            return None;
        }
        let given = match core::mem::replace(&mut promise.stage, PromiseStage::Kept) {
            PromiseStage::Kept => None,
            PromiseStage::Reading => match read_promise(&report.outcome) {
                Some(StoredPromise { term, to }) => {
                    promise.term = term;
                    promise.to = to;
                    None
                }
                // Nothing is promised by a node that does not know what it promised: the claim is repeated,
                // and read again.
                None => {
                    cx.counters().terms_not_kept += 1;
                    self.promises.remove(&singleton);
                    return None;
                }
            },
            PromiseStage::Writing(claimant) => match report.outcome {
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

    fn decide(
        &mut self,
        cx: &mut Cx<'_>,
        singleton: SingletonId,
        claimant: TermClaimant,
    ) -> Option<PromiseGiven> {
        let promise = self.promises.get_mut(&singleton)?;
        let again = claimant.term == promise.term && promise.to.as_ref() == Some(&claimant.node);
        if again {
            return Some(self.give(cx, singleton, claimant));
        }
        let now = cx.mono();
        if claimant.term <= promise.term || !promise.is_within_reach(claimant.term, now) {
            cx.counters().terms_refused += 1;
            let held = promise.term;
            say(
                cx,
                &claimant.node,
                singleton,
                claimant.epoch,
                SingletonBody::Refused { held },
            );
            return None;
        }
        let change = Change::Put {
            key: key(singleton),
            value: promised_bytes(claimant.term, Some(claimant.node.clone())),
        };
        promise.stage = PromiseStage::Writing(claimant);
        let request = self.ask_store(cx, singleton, StoreOrder::Write { batch: vec![change] });
        if let Some(promise) = self.promises.get_mut(&singleton) {
            promise.request = request;
        }
        None
    }

    fn give(&mut self, cx: &mut Cx<'_>, singleton: SingletonId, claimant: TermClaimant) -> PromiseGiven {
        let TermClaimant { node, epoch, term } = claimant;
        if let Some(promise) = self.promises.get_mut(&singleton) {
            if term > promise.term.saturating_add(1) {
                promise.stepped = Some(cx.mono());
            }
            promise.term = term;
            promise.to = Some(node.clone());
        }
        say(cx, &node, singleton, epoch, SingletonBody::Promised { term });
        PromiseGiven {
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

/// A promise as it is kept.
fn promised_bytes(term: u64, to: Option<UniqueAddress>) -> Bytes {
    let bytes = StoredPromise { term, to }.to_bytes();
    bytes.expect("invariant: every node can be written")
}

/// The promise that the store holds, term 0 for none; `None` if it could not say.
fn read_promise(outcome: &Outcome) -> Option<StoredPromise> {
    match outcome {
        Ok(StoreAnswer::Value(Some(bytes))) => StoredPromise::from_bytes(bytes).ok(),
        Ok(StoreAnswer::Value(None)) | Err(StoreError::NoStore) => Some(StoredPromise { term: 0, to: None }),
        Ok(_) | Err(_) => None,
    }
}

/// How a promise is lowered in one node's store while no node runs: what to ask the store of the singleton of
/// this name.
#[must_use]
pub fn ask_promise(singleton: &str) -> StoreOrder {
    let key = key(SingletonId::of(singleton));
    StoreOrder::Read { key }
}

/// What lowers the promise that the store answered with to `term`, so that the next instance has one above
/// that; `None` if it promised none above. To whom it was promised is forgotten.
///
/// # Errors
/// The store has failed, or what it holds is no promise.
pub fn lower_promise(singleton: &str, answer: &Outcome, term: u64) -> Result<Option<StoreOrder>, StoreError> {
    let held = match answer {
        Ok(StoreAnswer::Value(None)) => 0,
        Ok(_) => read_promise(answer).ok_or(StoreError::Corrupt)?.term,
        Err(error) => return Err(*error),
    };
    let change = Change::Put {
        key: key(SingletonId::of(singleton)),
        value: promised_bytes(term, None),
    };
    Ok((held > term).then(|| StoreOrder::Write { batch: vec![change] }))
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::effect::Effect;
    use crate::fixture::{Fixture, node};
    use crate::input::SendTarget;
    use crate::message::{Message, SingletonMsg};

    #[test]
    fn a_promise_is_read_as_it_was_kept_and_what_is_damaged_says_nothing() {
        let read = |bytes: &[u8]| read_promise(&Ok(StoreAnswer::Value(Some(Arc::from(bytes)))));
        for to in [
            None,
            Some(node("host", 7)),
            Some(node("::1", 0xab_cdef)),
            Some(node("10.0.0.1", u64::MAX)),
        ] {
            let kept = promised_bytes(7, to.clone());
            assert_eq!(read(&kept), Some(StoredPromise { term: 7, to }));
            let damaged = |cut: usize| read(&kept[..cut]);
            assert!((0..kept.len()).all(|cut| damaged(cut).is_none()));
            assert_eq!(read(&[&kept[..], b"1"].concat()), None);
        }
        let none = StoredPromise { term: 0, to: None };
        assert_eq!(read_promise(&Ok(StoreAnswer::Value(None))), Some(none));
        assert_eq!(read_promise(&Err(StoreError::Unavailable)), None);
    }

    fn billing() -> SingletonId {
        SingletonId::of("billing")
    }

    /// A voter on node `a` that others claim terms of.
    struct Rig {
        fixture: Fixture,
        voter: TermVoter,
    }

    impl Rig {
        fn new() -> Self {
            Self {
                fixture: Fixture::new(node("a", 1)),
                voter: TermVoter::default(),
            }
        }

        fn claims(&mut self, from: &UniqueAddress, term: u64) -> Option<PromiseGiven> {
            self.voter
                .on_claim(&mut self.fixture.cx(), from, billing(), 1, term)
        }

        /// What was said, and what the store was asked for.
        fn did(&mut self) -> (Vec<(UniqueAddress, SingletonBody)>, Vec<StoreRequest>) {
            let (mut said, mut asked) = (Vec::new(), Vec::new());
            for effect in self.fixture.effects() {
                match effect {
                    Effect::Send {
                        to: SendTarget::Node(to),
                        message: Message::Singleton(SingletonMsg::Statement(statement)),
                    } => said.push((to, statement.body)),
                    Effect::Store(_, request) => asked.push(request),
                    other => panic!("{other:?}"),
                }
            }
            (said, asked)
        }

        /// The store answers what it was asked last.
        fn stored(&mut self, outcome: Outcome) -> Option<PromiseGiven> {
            let (said, asked) = self.did();
            assert_eq!((said.len(), asked.len()), (0, 1), "{said:?}");
            let id = asked[0].id;
            self.voter
                .on_stored(&mut self.fixture.cx(), StoreReport { id, outcome })
        }

        fn reads_nothing(&mut self) -> Option<PromiseGiven> {
            self.stored(Ok(StoreAnswer::Value(None)))
        }
    }

    fn given(term: u64, to: &UniqueAddress) -> Option<PromiseGiven> {
        let (singleton, to) = (billing(), to.clone());
        Some(PromiseGiven { singleton, term, to })
    }

    #[test]
    fn of_claims_that_come_while_the_store_is_read_the_highest_is_decided() {
        let (b, c) = (node("b", 2), node("c", 3));
        for terms in [[5, 7], [7, 5]] {
            let mut rig = Rig::new();
            for (from, term) in [&b, &c].into_iter().zip(terms) {
                assert_eq!(rig.claims(from, term), None);
            }
            assert_eq!(rig.reads_nothing(), None);
            let highest = if terms[0] == 7 { &b } else { &c };
            assert_eq!(rig.stored(Ok(StoreAnswer::Written)), given(7, highest));
            assert_eq!(
                rig.did().0,
                [(highest.clone(), SingletonBody::Promised { term: 7 })]
            );
        }
    }

    #[test]
    fn a_promise_that_the_store_did_not_keep_is_not_given_and_may_be_asked_for_again() {
        let b = node("b", 2);
        let mut rig = Rig::new();
        rig.claims(&b, 5);
        assert_eq!(rig.reads_nothing(), None);
        assert_eq!(rig.stored(Err(StoreError::OutcomeUnknown)), None);
        assert_eq!(rig.did().0, []);
        assert_eq!(rig.voter.promised(billing()), 0);
        assert_eq!(rig.claims(&b, 5), None);
        assert_eq!(rig.stored(Ok(StoreAnswer::Written)), given(5, &b));
    }

    #[test]
    fn who_could_not_read_what_it_promised_reads_it_before_it_promises_anything() {
        let (b, c) = (node("b", 2), node("c", 3));
        let mut rig = Rig::new();
        rig.claims(&b, 5);
        assert_eq!(rig.stored(Err(StoreError::Unavailable)), None);
        assert_eq!(rig.did(), (Vec::new(), Vec::new()), "it is claimed again");
        rig.claims(&b, 5);
        let kept = promised_bytes(9, Some(c));
        assert_eq!(rig.stored(Ok(StoreAnswer::Value(Some(kept)))), None);
        assert_eq!(rig.did().0, [(b, SingletonBody::Refused { held: 9 })]);
    }

    #[test]
    fn a_term_is_promised_to_one_node_again_and_again_and_to_no_other() {
        let (b, c) = (node("b", 2), node("c", 3));
        let mut rig = Rig::new();
        rig.claims(&b, 5);
        rig.reads_nothing();
        rig.stored(Ok(StoreAnswer::Written));
        rig.did();
        assert_eq!(rig.claims(&b, 5), given(5, &b));
        assert_eq!(rig.claims(&c, 5), None);
        let said = [
            (b, SingletonBody::Promised { term: 5 }),
            (c, SingletonBody::Refused { held: 5 }),
        ];
        assert_eq!(rig.did(), (said.to_vec(), Vec::new()));
    }
}
