//! Whether the history of one key is that of a register: of a key with one writer, or of one that is written
//! by conditional puts. Judged by the linearizability tester of the crate `stateright`; this module cuts a
//! history where nobody waits, because the tester tries orders one by one, and it carries what the register
//! may hold from one part to the next.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use stateright::semantics::{ConsistencyTester, LinearizabilityTester, SequentialSpec};

/// What the register holds: what was written last, if anything was.
pub type Held = Option<HeldValue>;

/// When a value ends by itself: at the latest, and at the earliest, by the clock of all callers.
pub type Ends = (u64, u64);

/// What was written last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeldValue {
    /// Which.
    pub written: Written,
    /// When it ends; `None`: once it is overwritten.
    pub ends: Option<Ends>,
}

/// Something that is written. No two of a key have one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Written {
    /// Tells it from all others.
    pub number: u64,
    /// Whether there is no value then.
    pub is_delete: bool,
}

/// What somebody asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterAsk {
    /// What is held.
    Read,
    /// To hold this.
    Write(Written),
    /// To hold this if something is held that was named.
    CompareAndSet {
        /// What has to be held, by its number; `None`: no value.
        expected: Option<u64>,
        /// What is held then.
        then: Written,
    },
}

/// What was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterAnswer {
    /// To a read: this, by its number; `None`: no value.
    Holds(Option<u64>),
    /// It is written.
    Done,
    /// Something else was held, by its number or `None` for no value, and nothing is written.
    Conflict(Option<u64>),
}

/// One call. Leave out calls that certainly did nothing, and reads without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterCall {
    /// When it was asked, by the clock of all callers.
    pub asked: u64,
    /// What.
    pub ask: RegisterAsk,
    /// When what it writes ends by itself.
    pub ends: Option<Ends>,
    /// When it was answered, and how; `None`: what became of it is not known.
    pub answered: Option<(u64, RegisterAnswer)>,
}

/// A part of a history that no register can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotLinearizable {
    /// What it may have held before.
    pub before: BTreeSet<Held>,
    /// The calls of this part.
    pub calls: Vec<RegisterCall>,
}

#[derive(Clone, Copy, Debug)]
struct Register(Held);

/// What the tester's register is asked: as callers do, and at the end of a part what exactly it holds.
#[derive(Clone, Copy, Debug)]
enum Step {
    Asked {
        ask: RegisterAsk,
        ends: Option<Ends>,
        /// From when to when.
        during: (u64, u64),
    },
    HoldsLast(Held),
}

impl Register {
    /// Whether this is what was written last, ended or not.
    fn names(self, number: u64) -> bool {
        self.0.is_some_and(|held| held.written.number == number)
    }

    /// Whether who asks then may be told that this is held: each owner ends it by its own clock, so who is
    /// told that it has ended may read it once more within their difference.
    fn may_show(self, number: u64, (asked, _): (u64, u64)) -> bool {
        let is_there = |held: HeldValue| held.ends.is_none_or(|(latest, _)| asked <= latest);
        self.names(number) && self.0.is_some_and(is_there)
    }

    /// Whether who asks then may be told that there is no value.
    fn shows_none(self, (_, answered): (u64, u64)) -> bool {
        self.0.is_none_or(|held| {
            held.written.is_delete || held.ends.is_some_and(|(_, earliest)| earliest <= answered)
        })
    }

    const fn hold(&mut self, written: Written, ends: Option<Ends>) -> bool {
        self.0 = Some(HeldValue { written, ends });
        true
    }
}

impl SequentialSpec for Register {
    type Op = Step;
    type Ret = Option<RegisterAnswer>;

    /// What becomes of a call whose answer nobody has heard, if it has taken effect.
    fn invoke(&mut self, step: &Step) -> Option<RegisterAnswer> {
        let done = Some(RegisterAnswer::Done);
        self.is_valid_step(step, &done).then_some(RegisterAnswer::Done)
    }

    fn is_valid_step(&mut self, step: &Step, answer: &Option<RegisterAnswer>) -> bool {
        let (ask, ends, during) = match *step {
            Step::HoldsLast(last) => return last == self.0,
            Step::Asked { ask, ends, during } => (ask, ends, during),
        };
        let Some(answer) = *answer else { return false };
        match (ask, answer) {
            (RegisterAsk::Read, RegisterAnswer::Holds(Some(number))) => self.may_show(number, during),
            (RegisterAsk::Read, RegisterAnswer::Holds(None)) => self.shows_none(during),
            (RegisterAsk::Write(then), RegisterAnswer::Done) => self.hold(then, ends),
            (RegisterAsk::CompareAndSet { expected, then }, RegisterAnswer::Done) => {
                let is_expected = match expected {
                    Some(number) => self.names(number),
                    None => self.shows_none(during),
                };
                is_expected && self.hold(then, ends)
            }
            (RegisterAsk::CompareAndSet { expected, .. }, RegisterAnswer::Conflict(Some(number))) => {
                match expected {
                    Some(expected) => self.names(number) && expected != number,
                    None => {
                        self.may_show(number, during) && self.0.is_some_and(|held| !held.written.is_delete)
                    }
                }
            }
            // What has ended may be forgotten, and then nobody knows its version any more.
            (RegisterAsk::CompareAndSet { expected, .. }, RegisterAnswer::Conflict(None)) => {
                expected.is_some() && self.shows_none(during)
            }
            (RegisterAsk::Read, RegisterAnswer::Done | RegisterAnswer::Conflict(_))
            | (
                RegisterAsk::Write(_) | RegisterAsk::CompareAndSet { .. },
                RegisterAnswer::Holds(_) | RegisterAnswer::Conflict(_),
            ) => false,
        }
    }
}

/// Whether a register that held nothing can have answered so.
///
/// # Errors
/// The first part that it cannot have answered.
pub fn judge(calls: &[RegisterCall]) -> Result<(), NotLinearizable> {
    let mut calls = calls.to_vec();
    calls.sort_by_key(|call| call.asked);
    let mut before: BTreeSet<Held> = [None].into();
    let mut begin = 0;
    let mut latest = 0;
    for at in 0..calls.len() {
        // Who asks in the moment of an answer may have asked before it.
        if calls[at].asked > latest && at > begin {
            before = after(before, &calls[begin..at])?;
            begin = at;
        }
        latest = latest.max(calls[at].answered.map_or(u64::MAX, |(time, _)| time));
    }
    after(before, &calls[begin..]).map(|_| ())
}

/// What may be held after a part.
fn after(before: BTreeSet<Held>, calls: &[RegisterCall]) -> Result<BTreeSet<Held>, NotLinearizable> {
    let is_open = calls.iter().any(|call| call.answered.is_none());
    let written = calls.iter().filter_map(|call| match call.ask {
        RegisterAsk::Read => None,
        RegisterAsk::Write(written) | RegisterAsk::CompareAndSet { then: written, .. } => {
            let ends = call.ends;
            Some(Some(HeldValue { written, ends }))
        }
    });
    let written: BTreeSet<Held> = written.collect();
    let mut held = BTreeSet::new();
    for first in &before {
        if is_open {
            // Nothing comes behind what is open for ever.
            if tester(*first, calls, None).is_consistent() {
                return Ok(written);
            }
            continue;
        }
        let ends: BTreeSet<Held> = written.iter().copied().chain([*first]).collect();
        let possible = |last: &Held| tester(*first, calls, Some(*last)).is_consistent();
        held.extend(ends.into_iter().filter(possible));
    }
    if held.is_empty() {
        let calls = calls.to_vec();
        return Err(NotLinearizable { before, calls });
    }
    Ok(held)
}

/// The tester after these calls, and a read that finds this last.
fn tester(first: Held, calls: &[RegisterCall], last: Option<Held>) -> LinearizabilityTester<usize, Register> {
    let mut moments: Vec<(u64, bool, usize)> = Vec::new();
    for (at, call) in calls.iter().enumerate() {
        moments.push((call.asked, false, at));
        moments.extend(call.answered.map(|(time, _)| (time, true, at)));
    }
    moments.sort_unstable();
    let mut tester = LinearizabilityTester::new(Register(first));
    // Each caller waits for one call at a time.
    let mut callers: Vec<Option<usize>> = Vec::new();
    for (_, is_answer, at) in moments {
        let wanted = if is_answer { Some(at) } else { None };
        let caller = callers
            .iter()
            .position(|open| *open == wanted)
            .unwrap_or(callers.len());
        if caller == callers.len() {
            callers.push(None);
        }
        let result = match calls[at].answered {
            Some((_, answer)) if is_answer => {
                callers[caller] = None;
                tester.on_return(caller, Some(answer))
            }
            Some(_) | None => {
                callers[caller] = Some(at);
                let RegisterCall { ask, ends, .. } = calls[at];
                let until = calls[at].answered.map_or(u64::MAX, |(time, _)| time);
                let during = (calls[at].asked, until);
                tester.on_invoke(caller, Step::Asked { ask, ends, during })
            }
        };
        result.expect("invariant: a caller waits for one call at a time");
    }
    if let Some(last) = last {
        let reader = callers.len();
        let result = tester.on_invret(reader, Step::HoldsLast(last), None);
        result.expect("invariant: nobody else has this number");
    }
    tester
}
