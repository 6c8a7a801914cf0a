//! The database that the instances of singletons write to, outside of the cluster and its network: one log
//! per singleton, guarded by the instance's token as sharding 10.7 says of an atomic store. It is opened with
//! a token above every earlier one, before anything is read; an append names the token and how many entries
//! are expected; its exact repetition succeeds. Knows nothing of clusters.

use std::collections::BTreeMap;

use quorate_core::singleton::state::SingletonId;
use quorate_core::token::Token;

use crate::sim::ProcessId;

/// Who asks: an instance, by its place in the history. Two instances with one token are told apart by it.
pub(crate) type Writer = usize;

/// What an instance asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// From now on only this token counts; answered with the entries that there are.
    Open,
    /// One more entry, the one after `expected` others.
    Append {
        /// Entries that the writer knows of.
        expected: usize,
        /// What is written: a message's place in the history.
        message: usize,
    },
}

/// What an instance is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is done; there are so many entries now.
    Done(usize),
    /// It is not done, for this token is held.
    Refused(Token),
    /// Nobody knows.
    Unknown,
}

/// An entry of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) token: Token,
    pub(crate) message: usize,
    pub(crate) process: ProcessId,
}

/// One singleton's log.
#[derive(Clone, Debug, Default)]
struct Log {
    /// The token that counts, and whose.
    held: Option<(Token, Writer)>,
    entries: Vec<Entry>,
}

/// All logs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    logs: BTreeMap<SingletonId, Log>,
    /// Openings and appends that were refused, because a higher token counts, or an equal one of somebody
    /// else.
    pub(crate) refused: (u64, u64),
}

impl Ledger {
    /// Does what is asked in one step: the entries there are now, or the token that is held if it is refused.
    pub(crate) fn obey(
        &mut self,
        (process, writer): (ProcessId, Writer),
        (singleton, token): (SingletonId, Token),
        call: Call,
    ) -> Result<usize, Token> {
        let log = self.logs.entry(singleton).or_default();
        let is_holder = log.held == Some((token, writer));
        let held = log.held.map_or(Token::NONE, |(held, _)| held);
        match call {
            Call::Open => {
                if !is_holder && token <= held {
                    self.refused.0 += 1;
                    return Err(held);
                }
                log.held = Some((token, writer));
            }
            Call::Append { expected, message } => {
                let entry = Entry {
                    token,
                    message,
                    process,
                };
                let is_repeated = expected + 1 == log.entries.len() && log.entries.last() == Some(&entry);
                if !is_holder || (expected != log.entries.len() && !is_repeated) {
                    self.refused.1 += 1;
                    return Err(held);
                }
                if !is_repeated {
                    log.entries.push(entry);
                }
            }
        }
        Ok(log.entries.len())
    }

    /// What is written.
    pub(crate) fn entries(&self, singleton: SingletonId) -> &[Entry] {
        self.logs.get(&singleton).map_or(&[], |log| &log.entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn append(expected: usize, message: usize) -> Call {
        Call::Append { expected, message }
    }

    #[test]
    fn a_lower_token_an_equal_one_of_another_and_a_wrong_place_are_refused_and_a_repetition_is_not() {
        let id = SingletonId::of("ledger");
        let (low, high) = (Token::new(1, 1), Token::new(2, 1));
        let mut ledger = Ledger::default();
        let mut ask = |writer, token, call| ledger.obey((0, writer), (id, token), call);
        assert_eq!(ask(10, low, append(0, 1)), Err(Token::NONE), "not opened");
        assert_eq!(ask(10, low, Call::Open), Ok(0));
        assert_eq!(ask(10, low, Call::Open), Ok(0), "repeated");
        assert_eq!(ask(10, low, append(0, 1)), Ok(1));
        assert_eq!(ask(10, low, append(0, 1)), Ok(1), "repeated");
        assert_eq!(ask(10, low, append(0, 2)), Err(low), "the wrong place");
        assert_eq!(ask(11, low, Call::Open), Err(low), "another's");
        assert_eq!(ask(12, high, Call::Open), Ok(1));
        assert_eq!(ask(10, low, append(1, 3)), Err(high), "void");
        assert_eq!(ask(10, low, Call::Open), Err(high), "void for ever");
        assert_eq!(ask(12, high, append(1, 4)), Ok(2));
        assert_eq!(ledger.refused, (2, 3));
    }
}
