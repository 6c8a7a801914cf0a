//! Calls of users, at the node where they are called: which owners are asked, in which order, and when
//! enough of them have answered. A call counts only answers of the epoch at which it asks now, and begins its
//! present step again when the range has other owners. Knows stores, never nodes or time: the host sends what
//! it is told to, calls [`Call::repeat`] while a call is open, and ends it by [`Call::on_timeout`]. Spec:
//! sharding 5.6, 10.7, 10.19; reliability I-70 to I-73.

mod deciding;
pub mod listing;
mod logging;
mod minting;
mod reading;
mod settling;
mod spreading;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use self::deciding::Turn;
use self::logging::Extending;
use self::minting::MintingStep;
use self::reading::ReadingStep;
pub use self::settling::{Settling, SettlingAnswer};
use self::spreading::Spreading;
use super::state::call::{Ballot, CallId};
use super::state::clock::Actor;
use super::state::configuration::Configuration;
use super::state::entry::KvEntry;
use super::state::exchange::{KvAnswer, KvAsk, KvRefusal};
pub use super::state::outcome::{CallAnswer, CallError, CallGoal};
use super::state::table::RangeLevels;
use crate::journal::state::StoreId;

/// How often a put is begun anew, with another owner or after what was in its way is gone.
const ATTEMPTS_MAX: u32 = 16;

/// What surrounds a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallPlace {
    /// Its name: no other call has it.
    pub id: CallId,
    /// The lowest call of this node that is still open.
    pub open_from: u64,
    /// The numbers of the bucket.
    pub levels: RangeLevels,
    /// The range's owners as far as is known.
    pub configuration: Configuration,
    /// Who may make a version, those to be asked first in front; with the actors that they were last.
    pub minters: Vec<(StoreId, Option<Actor>)>,
    /// Turns about the key have higher rounds than this: the wall clock in milliseconds. Owners forget what
    /// was deleted one after the other; one that has not yet holds a turn that is below all that come after
    /// the grace.
    pub rounds_from: u64,
    /// The last turn about the key that is known.
    pub last_turn: Ballot,
}

/// What a call wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallOutput {
    /// Ask an owner, under [`Call::configuration`].
    Ask {
        /// Whom.
        to: StoreId,
        /// Comes back with the answer.
        step: u32,
        /// What.
        ask: KvAsk,
    },
    /// The user is answered. What is asked afterwards is repair.
    Answer(Result<CallAnswer, CallError>),
    /// Nothing is left to be done.
    Over,
}

/// A call. See the module.
#[derive(Clone, Debug)]
pub struct Call {
    place: CallPlace,
    goal: CallGoal,
    /// R or W, as a number.
    need: usize,
    step: u32,
    stage: CallStage,
    is_answered: bool,
    /// Versions asked for so far.
    attempt: u32,
    /// What this call has written, as far as it knows.
    written: Option<KvEntry>,
    /// Owners have seen all of the context, although the one that is to make the version has not.
    is_proven: bool,
    /// The version that was there when the decision of this call was first sent to somebody.
    proposed_on: Option<Option<CallId>>,
}

#[derive(Clone, Debug)]
enum CallStage {
    Reading(ReadingStep),
    Minting(MintingStep),
    Deciding(Turn),
    Extending(Extending),
    Spreading(Spreading),
    Over,
}

type Out = Vec<CallOutput>;

impl Call {
    /// Begins.
    #[must_use]
    pub fn begin(place: CallPlace, goal: CallGoal, out: &mut Vec<CallOutput>) -> Self {
        let copies = place.levels.copies();
        let need = match &goal {
            CallGoal::Get { level } | CallGoal::Write { level, .. } => level.of(copies),
            CallGoal::Conditional { .. } | CallGoal::Resolve | CallGoal::Log { .. } => {
                Ok(place.levels.decisive())
            }
        };
        let mut call = Self {
            place,
            goal,
            need: need.unwrap_or_default(),
            step: 0,
            stage: CallStage::Over,
            is_answered: false,
            attempt: 0,
            written: None,
            is_proven: false,
            proposed_on: None,
        };
        match (need, &call.goal) {
            (Err(error), _) => call.fail(error.into(), out),
            (Ok(_), CallGoal::Get { .. }) => call.read(out),
            (Ok(_), CallGoal::Write { .. }) => call.mint(out),
            (Ok(_), CallGoal::Conditional { .. } | CallGoal::Resolve) => {
                call.take_turn(call.place.last_turn, out)
            }
            (Ok(_), CallGoal::Log { .. }) => call.begin_log(out),
        }
        call
    }

    /// The configuration under which it asks.
    #[must_use]
    pub const fn configuration(&self) -> &Configuration {
        &self.place.configuration
    }

    /// Whether nothing is left to be done.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.stage, CallStage::Over)
    }

    /// Whether it only reads: what it writes others have held before.
    #[must_use]
    pub const fn is_get(&self) -> bool {
        matches!(self.goal, CallGoal::Get { .. })
    }

    /// Whether somebody may stand in, in a sloppy bucket, for who is asked now: what makes a version and what
    /// decides is an owner's alone.
    #[must_use]
    pub const fn admits_stand_ins(&self) -> bool {
        matches!(self.goal, CallGoal::Get { .. } | CallGoal::Write { .. })
            && matches!(self.stage, CallStage::Reading(_) | CallStage::Spreading(_))
    }

    /// An owner answers what it was asked in this step, at this epoch.
    pub fn on_answer(
        &mut self,
        (from, epoch): (StoreId, u64),
        step: u32,
        answer: KvAnswer,
        now_ms: u64,
        out: &mut Vec<CallOutput>,
    ) {
        if let KvAnswer::Refused(KvRefusal::OtherConfiguration(configuration)) = &answer
            && configuration.epoch > self.place.configuration.epoch
        {
            let configuration = configuration.clone();
            self.on_configuration(&configuration, out);
        }
        let is_now = step == self.step;
        match &mut self.stage {
            CallStage::Reading(_) if is_now => self.on_read((from, epoch), answer, out),
            CallStage::Minting(_) if is_now => self.on_minted((from, epoch), answer, out),
            CallStage::Deciding(_) if is_now => self.on_turn((from, epoch), answer, now_ms, out),
            CallStage::Extending(_) if is_now => self.on_extended((from, epoch), answer, out),
            // Only of this step it is known what was done.
            CallStage::Spreading(_) if is_now || answer != KvAnswer::Done => {
                self.on_spread((from, epoch), answer, out);
            }
            CallStage::Reading(_)
            | CallStage::Minting(_)
            | CallStage::Deciding(_)
            | CallStage::Extending(_)
            | CallStage::Spreading(_)
            | CallStage::Over => {}
        }
    }

    /// The range has other owners, as somebody else has said.
    pub fn on_configuration(&mut self, configuration: &Configuration, out: &mut Vec<CallOutput>) {
        if configuration.epoch > self.place.configuration.epoch {
            self.place.configuration = configuration.clone();
            self.begin_again(out);
        }
    }

    /// Asks those again who have not answered.
    pub fn repeat(&mut self, out: &mut Vec<CallOutput>) {
        match &self.stage {
            CallStage::Reading(_) => self.repeat_reading(out),
            CallStage::Minting(_) => self.repeat_minting(out),
            CallStage::Deciding(_) => self.repeat_turn(out),
            CallStage::Extending(_) => self.repeat_extending(out),
            CallStage::Spreading(_) => self.repeat_spreading(out),
            CallStage::Over => {}
        }
    }

    /// Its time has passed.
    pub fn on_timeout(&mut self, out: &mut Vec<CallOutput>) {
        if let (CallStage::Reading(_), CallGoal::Write { .. }) = (&self.stage, &self.goal) {
            return self.fail(CallError::Context, out);
        }
        let acknowledged = match &self.stage {
            CallStage::Reading(reading) => reading.answered(),
            CallStage::Deciding(turn) => turn.acknowledged(),
            CallStage::Extending(extending) => extending.answered(),
            CallStage::Spreading(spreading) => spreading.answered(),
            CallStage::Minting(_) | CallStage::Over => 0,
        };
        self.fail(CallError::Timeout { acknowledged }, out);
    }

    /// The present step, under other owners. A version that was asked for of one of them is left to it.
    fn begin_again(&mut self, out: &mut Out) {
        match &self.stage {
            CallStage::Reading(_) => self.read(out),
            // What was answered is never decided about again.
            CallStage::Deciding(_) if self.is_answered => self.close(out),
            CallStage::Deciding(turn) => {
                let last = turn.ballot();
                self.take_turn(last, out);
            }
            // Who has promised the turn may own the range no more.
            CallStage::Extending(extending) => {
                let last = extending.ballot();
                self.take_turn(last, out);
            }
            CallStage::Spreading(spreading) => {
                let entry = spreading.entry().clone();
                self.spread(entry, &[], out);
            }
            CallStage::Minting(_) | CallStage::Over => {}
        }
    }

    fn next_step(&mut self) -> u32 {
        self.step += 1;
        self.step
    }

    fn answer(&mut self, answer: Result<CallAnswer, CallError>, out: &mut Out) {
        if !self.is_answered {
            self.is_answered = true;
            out.push(CallOutput::Answer(answer));
        }
    }

    /// Answers, and leaves nothing to be done.
    fn end(&mut self, answer: Result<CallAnswer, CallError>, out: &mut Out) {
        self.answer(answer, out);
        self.close(out);
    }

    fn close(&mut self, out: &mut Out) {
        self.stage = CallStage::Over;
        out.push(CallOutput::Over);
    }

    fn fail(&mut self, error: CallError, out: &mut Out) {
        self.end(Err(error), out);
    }

    /// Whether a get at its level guarantees anything, and writes back what it found.
    fn is_guaranteed(&self) -> bool {
        match &self.goal {
            CallGoal::Get { .. } => self.need >= self.place.levels.reads(),
            CallGoal::Write { .. }
            | CallGoal::Conditional { .. }
            | CallGoal::Resolve
            | CallGoal::Log { .. } => true,
        }
    }
}

fn ask_all(to: impl Iterator<Item = StoreId>, step: u32, ask: &KvAsk, out: &mut Out) {
    out.extend(to.map(|to| CallOutput::Ask {
        to,
        step,
        ask: ask.clone(),
    }));
}
