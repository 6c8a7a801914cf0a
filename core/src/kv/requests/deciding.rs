//! A turn about a key: promises of enough owners, what they hold, a decision, and enough owners that accept
//! it. All of it within one epoch; else, or when somebody else has taken a later turn, another turn. What was
//! found is accepted again also where the call has no use for it, so that no turn is left open. Spec:
//! sharding 10.7, 10.16, 10.19.

use alloc::vec::Vec;

use super::reading::{entry_of, join};
use super::{Call, CallAnswer, CallError, CallGoal, CallStage, Out, ask_all};
use crate::journal::state::StoreId;
use crate::kv::state::call::{Ballot, CallId};
use crate::kv::state::configuration::OwnersTally;
use crate::kv::state::entry::{AcceptedDecision, DecidedVersion, KeyDecision, KvEntry};
use crate::kv::state::exchange::{KvAnswer, KvAsk, KvRefusal};
use crate::kv::state::logged::LogDenial;
use crate::kv::state::siblings::{PutError, Siblings, VersionContent};

#[derive(Clone, Debug)]
pub(super) struct Turn {
    ballot: Ballot,
    tally: OwnersTally,
    phase: TurnPhase,
    /// The highest turn that stands in the way.
    held: Ballot,
}

#[derive(Clone, Debug)]
enum TurnPhase {
    Promising(Vec<KvEntry>),
    Accepting {
        accepted: AcceptedDecision,
        siblings: Siblings,
        /// What the call is answered once that is decided.
        outcome: TurnOutcome,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TurnOutcome {
    /// The call's own put.
    Own,
    /// What was found.
    Found,
    /// What was found, which is not what was expected.
    Conflict(Option<CallId>),
    /// Values without conditions were found.
    Ordinary,
    /// What was found, which is no log, or no value that is put.
    OtherKind,
    /// The log with what the call makes of it, or as it was found and why.
    Logged(Option<LogDenial>),
    /// Whether an earlier decision of this call was overtaken, or overwritten, nobody knows.
    Unknown,
}

impl Turn {
    pub(super) fn ballot(&self) -> Ballot {
        self.ballot.max(self.held)
    }

    /// So many owners have accepted what the call wants.
    pub(super) fn acknowledged(&self) -> usize {
        match &self.phase {
            TurnPhase::Accepting {
                outcome: TurnOutcome::Own | TurnOutcome::Logged(None),
                ..
            } => self.tally.answered(),
            TurnPhase::Accepting { .. } | TurnPhase::Promising(_) => 0,
        }
    }
}

impl Call {
    /// Takes the next turn above this one.
    pub(super) fn take_turn(&mut self, last: Ballot, out: &mut Out) {
        self.next_step();
        let from = Ballot {
            round: self.place.rounds_from,
            ..Ballot::NONE
        };
        let ballot = last.max(self.place.last_turn).max(from).above(self.place.id);
        self.place.last_turn = ballot;
        self.stage = CallStage::Deciding(Turn {
            ballot,
            tally: OwnersTally::new(self.place.configuration.clone()),
            phase: TurnPhase::Promising(Vec::new()),
            held: Ballot::NONE,
        });
        self.ask_turn(out);
    }

    /// A turn that was overtaken is taken again; one that resolves also if only some owner was promised a
    /// later one, which nobody else would end.
    pub(super) fn repeat_turn(&mut self, out: &mut Out) {
        let CallStage::Deciding(turn) = &self.stage else {
            return;
        };
        let is_wanted = !self.is_answered || matches!(self.goal, CallGoal::Resolve);
        if turn.held > turn.ballot && is_wanted {
            let last = turn.held;
            return self.take_turn(last, out);
        }
        self.ask_turn(out);
    }

    fn ask_turn(&self, out: &mut Out) {
        let CallStage::Deciding(turn) = &self.stage else {
            return;
        };
        let ask = match &turn.phase {
            TurnPhase::Promising(_) => KvAsk::Promise(turn.ballot),
            TurnPhase::Accepting { accepted, .. } => KvAsk::Accept(accepted.clone()),
        };
        ask_all(turn.tally.missing(), self.step, &ask, out);
    }

    pub(super) fn on_turn(
        &mut self,
        (from, epoch): (StoreId, u64),
        answer: KvAnswer,
        now_ms: u64,
        out: &mut Out,
    ) {
        let decisive = self.place.levels.decisive();
        let CallStage::Deciding(turn) = &mut self.stage else {
            return;
        };
        match (answer, &mut turn.phase) {
            (KvAnswer::Held(entry), TurnPhase::Promising(held)) => {
                if turn.tally.count(from, epoch) {
                    held.push(entry);
                }
                if turn.tally.meets(decisive) {
                    self.decide(now_ms, out);
                }
            }
            (KvAnswer::Done, TurnPhase::Accepting { .. }) => {
                turn.tally.count(from, epoch);
                let is_whole = turn.tally.missing().next().is_none();
                if turn.tally.meets(decisive) && !self.is_answered {
                    self.on_decided(out);
                } else if is_whole && self.is_answered {
                    self.close(out);
                }
            }
            (KvAnswer::Refused(KvRefusal::Blocked(held)), phase) => {
                turn.held = turn.held.max(held);
                // The first turn is a guess.
                let is_guess = turn.ballot.round == self.place.rounds_from.saturating_add(1);
                if matches!(phase, TurnPhase::Promising(_)) && is_guess {
                    self.take_turn(held, out);
                }
            }
            // Nobody can have accepted anything of this call.
            (KvAnswer::Refused(KvRefusal::Put(PutError::Full)), TurnPhase::Promising(_))
                if matches!(self.goal, CallGoal::Conditional { .. } | CallGoal::Log { .. })
                    && self.proposed_on.is_none() =>
            {
                self.fail(PutError::Full.into(), out);
            }
            (
                KvAnswer::Held(_) | KvAnswer::Done | KvAnswer::Minted { .. } | KvAnswer::Refused(_),
                TurnPhase::Promising(_) | TurnPhase::Accepting { .. },
            ) => {}
        }
    }

    /// Enough have promised: what they hold together is all that was decided so far.
    fn decide(&mut self, now_ms: u64, out: &mut Out) {
        let CallStage::Deciding(turn) = &self.stage else {
            return;
        };
        let TurnPhase::Promising(held) = &turn.phase else {
            return;
        };
        let ballot = turn.ballot;
        let (all, latest) = join(held.iter());
        let found = match latest.map(|latest| latest.decision) {
            Some(found @ KeyDecision::Value(_)) => found,
            Some(KeyDecision::Ordinary { at_ms }) => KeyDecision::Ordinary { at_ms },
            None => KeyDecision::Ordinary { at_ms: now_ms },
        };
        let present = match &found {
            KeyDecision::Value(decided) => Some(decided.version),
            KeyDecision::Ordinary { .. } => None,
        };
        let (decision, outcome) = match &self.goal {
            CallGoal::Conditional { expected, change } => {
                let content = match change.content(now_ms) {
                    Ok(content) => content,
                    Err(KvRefusal::Put(error)) => return self.fail(error.into(), out),
                    Err(_) => return self.fail(CallError::Ttl, out),
                };
                let own = KeyDecision::Value(DecidedVersion {
                    version: self.place.id,
                    before: present,
                    at_ms: now_ms,
                    content,
                });
                self.compare(*expected, own, found, !all.siblings.is_dead())
            }
            CallGoal::Log { change, .. } => self.decide_log(change, found, !all.siblings.is_dead(), now_ms),
            CallGoal::Get { .. } | CallGoal::Write { .. } | CallGoal::Resolve => (found, TurnOutcome::Found),
        };
        if matches!(outcome, TurnOutcome::Own | TurnOutcome::Logged(None)) {
            self.proposed_on.get_or_insert(present);
        }
        self.next_step();
        self.stage = CallStage::Deciding(Turn {
            ballot,
            tally: OwnersTally::new(self.place.configuration.clone()),
            phase: TurnPhase::Accepting {
                accepted: AcceptedDecision { ballot, decision },
                siblings: all.siblings,
                outcome,
            },
            held: Ballot::NONE,
        });
        self.ask_turn(out);
    }

    /// What a conditional put decides for, of what it found.
    fn compare(
        &self,
        expected: Option<CallId>,
        own: KeyDecision,
        found: KeyDecision,
        is_alive: bool,
    ) -> (KeyDecision, TurnOutcome) {
        let (present, is_value) = match &found {
            KeyDecision::Value(decided) if decided.content.log().is_some() => {
                return (found, TurnOutcome::OtherKind);
            }
            KeyDecision::Value(decided) => (
                Some(decided.version),
                decided.content != VersionContent::Tombstone,
            ),
            KeyDecision::Ordinary { .. } if is_alive => return (found, TurnOutcome::Ordinary),
            KeyDecision::Ordinary { .. } => (None, false),
        };
        if present == Some(self.place.id) {
            return (found, TurnOutcome::Own);
        }
        let is_expected = match expected {
            Some(_) => present == expected,
            None => !is_value,
        };
        let replaced = match &found {
            KeyDecision::Value(decided) => Some(decided.before),
            KeyDecision::Ordinary { .. } => None,
        };
        if let Some(before) = self.proposed_on.filter(|before| *before != present) {
            // What was sent before may have been decided, and overwritten since; unless what is there
            // replaced the same version, so that nothing came between.
            let outcome = if replaced == Some(before) && !is_expected {
                TurnOutcome::Conflict(present)
            } else {
                TurnOutcome::Unknown
            };
            (found, outcome)
        } else if is_expected {
            (own, TurnOutcome::Own)
        } else {
            (found, TurnOutcome::Conflict(present))
        }
    }

    fn on_decided(&mut self, out: &mut Out) {
        let CallStage::Deciding(turn) = &self.stage else {
            return;
        };
        let TurnPhase::Accepting {
            accepted,
            siblings,
            outcome,
        } = &turn.phase
        else {
            return;
        };
        let is_value = accepted.is_value();
        let answer = match (outcome, &self.goal) {
            (TurnOutcome::Own, _) => Ok(CallAnswer::Decided(self.place.id)),
            (TurnOutcome::Conflict(present), _) => Ok(CallAnswer::Conflict { present: *present }),
            (TurnOutcome::Ordinary, _) => Err(CallError::Ordinary),
            (TurnOutcome::OtherKind, CallGoal::Log { .. }) => Err(CallError::Conditional),
            (TurnOutcome::OtherKind, _) => Err(CallError::Log),
            (TurnOutcome::Logged(denied), _) => self.logged(&accepted.decision, *denied, accepted.ballot),
            (TurnOutcome::Unknown, _) => Err(CallError::Timeout { acknowledged: 0 }),
            (TurnOutcome::Found, CallGoal::Write { .. }) if is_value => Err(CallError::Conditional),
            (TurnOutcome::Found, CallGoal::Get { .. }) if is_value => {
                let entry = entry_of(KvEntry::default(), Some(accepted.clone()));
                Ok(CallAnswer::Found(entry))
            }
            (TurnOutcome::Found, CallGoal::Get { .. }) => {
                let entry = entry_of(KvEntry::of(siblings.clone()), Some(accepted.clone()));
                return self.spread(entry, &[], out);
            }
            (TurnOutcome::Found, CallGoal::Write { .. }) => {
                let Some(mut written) = self.written.clone() else {
                    return self.mint(out);
                };
                written.siblings.join(siblings);
                return self.spread(entry_of(written, Some(accepted.clone())), &[], out);
            }
            (TurnOutcome::Found, CallGoal::Conditional { .. } | CallGoal::Resolve | CallGoal::Log { .. }) => {
                Ok(CallAnswer::Resolved)
            }
        };
        self.answer(answer, out);
        let CallStage::Deciding(turn) = &self.stage else {
            return;
        };
        if turn.tally.missing().next().is_none() {
            self.close(out);
        }
    }
}
