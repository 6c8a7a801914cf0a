//! Calls about the log of a durable entity. It is taken over in a turn about its key, as any decision is;
//! who has it goes on within that turn, one step for each write, which owners make of what they accepted in
//! the step before. Where too few of them can, or the range has other owners, the whole log is decided about
//! in a turn again. Spec: sharding 10.7, 10.19 h.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::deciding::TurnOutcome;
use super::{Call, CallAnswer, CallError, CallGoal, CallStage, Out, ask_all};
use crate::journal::state::StoreId;
use crate::kv::state::call::Ballot;
use crate::kv::state::configuration::OwnersTally;
use crate::kv::state::entry::{DecidedVersion, KeyDecision};
use crate::kv::state::exchange::{KvAnswer, KvAsk, KvRefusal};
use crate::kv::state::logged::{LogChange, LogDenial, LogRecord};
use crate::kv::state::outcome::LogHold;
use crate::kv::state::siblings::VersionContent;

#[derive(Clone, Debug)]
pub(super) struct Extending {
    ballot: Ballot,
    tally: OwnersTally,
    /// Who cannot: they lack the step before.
    lacking: Vec<StoreId>,
}

impl Extending {
    pub(super) fn answered(&self) -> usize {
        self.tally.answered()
    }

    pub(super) const fn ballot(&self) -> Ballot {
        self.ballot
    }

    /// Whether so many may yet have it.
    fn can_meet(&self, level: usize) -> bool {
        let mut best = self.tally.clone();
        let epoch = best.configuration().epoch;
        let others: Vec<StoreId> = best.missing().collect();
        for store in others.into_iter().filter(|store| !self.lacking.contains(store)) {
            best.count(store, epoch);
        }
        best.meets(level)
    }
}

impl Call {
    pub(super) fn begin_log(&mut self, out: &mut Out) {
        let CallGoal::Log { change, hold } = &self.goal else {
            return;
        };
        let Some(hold) = *hold else {
            return self.take_turn(self.place.last_turn, out);
        };
        let is_write = matches!(change, LogChange::Write(_));
        let is_same = hold.epoch == self.place.configuration.epoch;
        match hold.ballot.stepped().filter(|_| is_write && is_same) {
            Some(ballot) => {
                self.next_step();
                self.proposed_on = Some(None);
                self.stage = CallStage::Extending(Extending {
                    ballot,
                    tally: OwnersTally::new(self.place.configuration.clone()),
                    lacking: Vec::new(),
                });
                self.ask_extension(out);
            }
            None => self.take_turn(hold.ballot, out),
        }
    }

    fn ask_extension(&self, out: &mut Out) {
        if let (CallStage::Extending(extending), CallGoal::Log { change, .. }) = (&self.stage, &self.goal)
            && let LogChange::Write(write) = change
        {
            let ask = KvAsk::Extend {
                ballot: extending.ballot,
                write: write.clone(),
            };
            ask_all(extending.tally.missing(), self.step, &ask, out);
        }
    }

    pub(super) fn repeat_extending(&mut self, out: &mut Out) {
        if let CallStage::Extending(extending) = &self.stage
            && !extending.lacking.is_empty()
        {
            let last = extending.ballot;
            return self.take_turn(last, out);
        }
        self.ask_extension(out);
    }

    pub(super) fn on_extended(&mut self, (from, epoch): (StoreId, u64), answer: KvAnswer, out: &mut Out) {
        let decisive = self.place.levels.decisive();
        let CallStage::Extending(extending) = &mut self.stage else {
            return;
        };
        let ballot = extending.ballot;
        match answer {
            KvAnswer::Done => {
                extending.tally.count(from, epoch);
                if extending.tally.meets(decisive) {
                    let hold = self.hold(ballot);
                    self.end(Ok(CallAnswer::Logged { log: Ok(None), hold }), out);
                }
            }
            KvAnswer::Refused(KvRefusal::Blocked(held)) => self.take_turn(held.max(ballot), out),
            KvAnswer::Refused(_) => {
                extending.lacking.push(from);
                if !extending.can_meet(decisive) {
                    self.take_turn(ballot, out);
                }
            }
            KvAnswer::Held(_) | KvAnswer::Minted { .. } => {}
        }
    }

    fn hold(&self, ballot: Ballot) -> LogHold {
        let epoch = self.place.configuration.epoch;
        LogHold { ballot, epoch }
    }

    /// What a call about a log decides for, of what it found.
    pub(super) fn decide_log(
        &self,
        change: &LogChange,
        found: KeyDecision,
        is_alive: bool,
        now_ms: u64,
    ) -> (KeyDecision, TurnOutcome) {
        let nothing = LogRecord::default();
        let (held, present) = match &found {
            KeyDecision::Ordinary { .. } if is_alive => return (found, TurnOutcome::Ordinary),
            KeyDecision::Ordinary { .. } => (&nothing, None),
            KeyDecision::Value(decided) => match &decided.content {
                VersionContent::Value { .. } => return (found, TurnOutcome::OtherKind),
                VersionContent::Tombstone => (&nothing, Some(decided.version)),
                VersionContent::Log(log) => (&**log, Some(decided.version)),
            },
        };
        let is_own = present == Some(self.place.id);
        if is_own && matches!(change, LogChange::Claim { .. }) {
            return (found, TurnOutcome::Logged(None));
        }
        match change.applied(held) {
            Ok(log) => {
                let decided = DecidedVersion {
                    version: self.place.id,
                    before: present,
                    at_ms: now_ms,
                    content: VersionContent::Log(Arc::new(log)),
                };
                (KeyDecision::Value(decided), TurnOutcome::Logged(None))
            }
            Err(denial) => (found, TurnOutcome::Logged(Some(denial))),
        }
    }

    /// What a call about a log is answered once this is decided.
    pub(super) fn logged(
        &self,
        decision: &KeyDecision,
        denied: Option<LogDenial>,
        ballot: Ballot,
    ) -> Result<CallAnswer, CallError> {
        let is_claim = matches!(
            &self.goal,
            CallGoal::Log {
                change: LogChange::Claim { .. },
                ..
            }
        );
        let log = match (denied, decision) {
            // What was sent before may have been done first, and taken over with the rest.
            (Some(LogDenial::Fenced { .. }), _) if self.proposed_on.is_some() => {
                return Err(CallError::Timeout { acknowledged: 0 });
            }
            (Some(denial), _) => Err(denial),
            (None, KeyDecision::Value(decided)) if is_claim => Ok(decided.content.log().cloned()),
            (None, _) => Ok(None),
        };
        let hold = self.hold(ballot);
        Ok(CallAnswer::Logged { log, hold })
    }
}
