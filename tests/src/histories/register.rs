//! Whether the history of one key is that of a register: of a key with one writer, or of one that is written
//! by conditional puts. Judged by the linearizability tester of the crate `stateright`; this module cuts a
//! history where nobody waits, because the tester tries orders one by one, and it carries what the register
//! may hold from one part to the next.

use std::collections::BTreeSet;

use stateright::semantics::{ConsistencyTester, LinearizabilityTester, SequentialSpec};

/// What the register holds: the number of what was written last, and whether that was a delete.
pub type Held = Option<Written>;

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
    Asked(RegisterAsk),
    HoldsLast(Held),
}

impl Register {
    /// Whether somebody may be told that this is held.
    fn shows(self, number: Option<u64>) -> bool {
        match (number, self.0) {
            (None, held) => held.is_none_or(|held| held.is_delete),
            (Some(number), held) => held.is_some_and(|held| held.number == number),
        }
    }
}

impl SequentialSpec for Register {
    type Op = Step;
    type Ret = Option<RegisterAnswer>;

    /// What becomes of a call whose answer nobody has heard.
    fn invoke(&mut self, step: &Step) -> Option<RegisterAnswer> {
        let (held, shown) = (self.0, self.0.map(|held| held.number));
        let answer = match *step {
            Step::HoldsLast(_) => return None,
            Step::Asked(RegisterAsk::Read) => RegisterAnswer::Holds(shown),
            Step::Asked(RegisterAsk::Write(then)) => {
                self.0 = Some(then);
                RegisterAnswer::Done
            }
            Step::Asked(RegisterAsk::CompareAndSet { expected, then }) => {
                if !Self(held).shows(expected) {
                    return Some(RegisterAnswer::Conflict(shown));
                }
                self.0 = Some(then);
                RegisterAnswer::Done
            }
        };
        Some(answer)
    }

    fn is_valid_step(&mut self, step: &Step, answer: &Option<RegisterAnswer>) -> bool {
        let before = *self;
        // A deletion may be forgotten, and then nobody knows its version any more.
        if let (
            Step::Asked(RegisterAsk::CompareAndSet {
                expected: Some(_), ..
            }),
            Some(RegisterAnswer::Conflict(None)),
        ) = (step, answer)
        {
            return before.shows(None);
        }
        match (self.invoke(step), answer) {
            (None, None) => matches!(step, Step::HoldsLast(last) if *last == before.0),
            (Some(RegisterAnswer::Holds(_)), Some(RegisterAnswer::Holds(number)))
            | (Some(RegisterAnswer::Conflict(_)), Some(RegisterAnswer::Conflict(number))) => {
                before.shows(*number)
            }
            (own, answer) => own == *answer,
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
        RegisterAsk::Write(then) | RegisterAsk::CompareAndSet { then, .. } => Some(Some(then)),
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
                tester.on_invoke(caller, Step::Asked(calls[at].ask))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn call(asked: u64, ask: RegisterAsk, answered: u64, answer: RegisterAnswer) -> RegisterCall {
        let answered = Some((answered, answer));
        RegisterCall { asked, ask, answered }
    }

    const fn value(number: u64) -> Written {
        let is_delete = false;
        Written { number, is_delete }
    }

    const fn delete(number: u64) -> Written {
        let is_delete = true;
        Written { number, is_delete }
    }

    fn read(asked: u64, answered: u64, held: Option<u64>) -> RegisterCall {
        call(asked, RegisterAsk::Read, answered, RegisterAnswer::Holds(held))
    }

    fn write(asked: u64, answered: u64, number: u64) -> RegisterCall {
        call(
            asked,
            RegisterAsk::Write(value(number)),
            answered,
            RegisterAnswer::Done,
        )
    }

    fn set(
        (asked, answered): (u64, u64),
        expected: Option<u64>,
        then: Written,
        answer: RegisterAnswer,
    ) -> RegisterCall {
        let ask = RegisterAsk::CompareAndSet { expected, then };
        call(asked, ask, answered, answer)
    }

    const fn unknown(asked: u64, ask: RegisterAsk) -> RegisterCall {
        let answered = None;
        RegisterCall { asked, ask, answered }
    }

    #[test]
    fn one_writer_and_readers_beside_it() {
        let good = [
            read(1, 2, None),
            write(3, 10, 1),
            read(4, 5, None),
            read(6, 9, Some(1)),
            read(11, 12, Some(1)),
            write(13, 20, 2),
            read(14, 15, Some(2)),
            read(16, 17, Some(2)),
            unknown(21, RegisterAsk::Write(value(3))),
            read(22, 23, Some(2)),
            read(24, 25, Some(3)),
            read(26, 27, Some(3)),
        ];
        assert_eq!(judge(&good), Ok(()));
        let backwards = |at: usize, held| {
            let mut bad = good;
            bad[at].answered = Some((bad[at].answered.unwrap().0, RegisterAnswer::Holds(held)));
            judge(&bad)
        };
        assert!(backwards(4, None).is_err(), "an acknowledged write is not found");
        assert!(
            backwards(7, Some(1)).is_err(),
            "two reads during one write go back"
        );
        assert!(
            backwards(11, Some(2)).is_err(),
            "two reads beside an unknown outcome go back"
        );
        assert!(backwards(11, Some(9)).is_err(), "what nobody wrote");
        assert!(backwards(3, None).is_ok(), "beside a write either is right");
    }

    #[test]
    fn of_two_that_name_one_version_one_takes_effect() {
        let first = set((1, 2), None, value(1), RegisterAnswer::Done);
        let other = |answer| set((3, 9), Some(1), value(2), answer);
        let third = |answer| set((4, 8), Some(1), value(3), answer);
        let (done, conflict) = (RegisterAnswer::Done, RegisterAnswer::Conflict);
        let judge = |calls: &[RegisterCall]| judge(calls).is_ok();
        assert!(judge(&[first, other(done), third(conflict(Some(2)))]));
        assert!(judge(&[first, other(conflict(Some(3))), third(done)]));
        assert!(!judge(&[first, other(done), third(done)]), "both");
        assert!(
            !judge(&[first, other(conflict(Some(3))), third(conflict(Some(2)))]),
            "none"
        );
        assert!(
            !judge(&[first, other(conflict(Some(1)))]),
            "a conflict with what it named"
        );
        let lost = [
            first,
            other(done),
            third(conflict(Some(2))),
            read(10, 11, Some(1)),
        ];
        assert!(!judge(&lost), "an effect that is not there");
    }

    #[test]
    fn what_is_deleted_has_a_version_and_no_value() {
        let (done, conflict) = (RegisterAnswer::Done, RegisterAnswer::Conflict);
        let first = [
            set((1, 2), None, value(1), done),
            set((3, 4), Some(1), delete(2), done),
        ];
        let then = |call: RegisterCall| judge(&[first[0], first[1], call]).is_ok();
        assert!(then(read(5, 6, None)) && then(read(5, 6, Some(2))));
        assert!(!then(read(5, 6, Some(1))), "what was deleted is back");
        assert!(then(set((5, 6), None, value(3), done)) && then(set((5, 6), Some(2), value(3), done)));
        assert!(then(set((5, 6), Some(1), value(3), conflict(Some(2)))));
        assert!(!then(set((5, 6), Some(1), value(3), done)), "of an older version");
    }

    #[test]
    fn what_became_of_a_call_is_open() {
        let first = set((1, 2), None, value(1), RegisterAnswer::Done);
        let ask = RegisterAsk::CompareAndSet {
            expected: Some(1),
            then: value(2),
        };
        let open = unknown(3, ask);
        assert!(judge(&[first, open, read(4, 5, Some(1)), read(6, 7, Some(2))]).is_ok());
        assert!(judge(&[first, open, read(4, 5, Some(2)), read(6, 7, Some(1))]).is_err());
        let later = set((8, 9), Some(1), value(3), RegisterAnswer::Done);
        assert!(
            judge(&[first, open, later, read(10, 11, Some(3))]).is_ok(),
            "it never came"
        );
        assert!(
            judge(&[first, open, later, read(10, 11, Some(2))]).is_err(),
            "it came behind another"
        );
    }

    #[test]
    fn two_hundred_calls_of_four_callers_take_no_time() {
        let mut calls = Vec::new();
        for round in 0..50 {
            let at = round * 10 + 1;
            calls.push(write(at, at + 5, round + 1));
            let found = |after| {
                if after {
                    Some(round + 1)
                } else {
                    round.checked_sub(1).map(|r| r + 1)
                }
            };
            calls.push(read(at + 1, at + 2, found(false)));
            calls.push(read(at + 1, at + 4, found(round % 2 == 0)));
            calls.push(read(at + 3, at + 5, found(true)));
        }
        assert_eq!(judge(&calls), Ok(()));
        calls[199].answered = Some((500, RegisterAnswer::Holds(Some(49))));
        calls[197].answered = Some((499, RegisterAnswer::Holds(Some(50))));
        calls[197].asked = 492;
        calls[199].asked = 500;
        assert!(judge(&calls).is_err());
    }
}
