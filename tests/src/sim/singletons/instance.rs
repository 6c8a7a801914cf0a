//! One instance of a singleton, as a host would run it: it opens the database with its token before anything
//! else, handles one message at a time, each with one append, lets its mailbox run empty when it is told to
//! stop, and ends on the spot when it is killed, unless its handler holds its thread. Decides only what it
//! does next; time, chance and the database are elsewhere. Spec: sharding 1.10, 10.7.

use std::collections::VecDeque;

use quorate_core::sharding::ids::AskRef;
use quorate_core::sharding::ids::Payload;
use quorate_core::singleton::state::SingletonId;
use quorate_core::token::Token;

use super::ledger::{Answer, Call};
use crate::sim::message_number;

/// Messages that wait for one instance at most. Small, so that a slow one really refuses some.
pub(super) const MAILBOX_MAX: usize = 32;

/// A message in the mailbox, or in hand.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    pub(super) payload: Payload,
    pub(super) reply_to: Option<AskRef>,
}

impl Letter {
    /// The message's place in the history.
    pub(super) fn number(&self) -> usize {
        message_number(&self.payload).unwrap_or(usize::MAX)
    }
}

#[derive(Debug)]
enum Stage {
    /// Its user's code is being set up.
    Starting,
    /// The database was given its token, and has not answered.
    Opening,
    /// It may begin with a message.
    Open,
    /// This message's append has not been answered.
    Appending(Letter),
    /// It has handled everything and cleans up.
    Ending,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(super) singleton: SingletonId,
    /// Its position in the history.
    pub(crate) record: usize,
    stage: Stage,
    mailbox: VecDeque<Letter>,
    /// It was told to stop and takes nothing new.
    stopping: bool,
    /// It was told to end at once, and its handler holds its thread.
    runs_on: bool,
    /// Its present handler holds its thread until it is done.
    blocks: bool,
    /// Entries of the log that it knows of.
    known: usize,
    /// It waits for a turn, or for the database.
    busy: bool,
}

/// What an instance does in its turn.
#[derive(Debug)]
pub(super) enum Turn {
    /// It asks the database.
    Calls(Call),
    /// It begins with this message; then it is either [`Instance::append`]ed or the instance fails over it.
    Begins(Letter),
    /// Its mailbox is empty, it was told to stop, and begins to clean up.
    CleansUp,
    /// It has ended.
    Ended,
    /// There is nothing to do.
    Nothing,
}

/// What follows from an answer of the database.
#[derive(Debug)]
pub(super) enum Answered {
    /// It was opened; a turn follows.
    Opened,
    /// This message is handled; a turn follows.
    Handled(Letter),
    /// Nobody knows what became of it: the same is asked again, and nothing else is done.
    Repeat(Call),
    /// Its token is void, because this one is held: its node is told, and it ends, with what it had in hand.
    Refused(Token, Option<Letter>),
    /// Its handler has returned at last after it was killed.
    Ends(Option<Letter>),
}

impl Instance {
    pub(super) const fn new(singleton: SingletonId, record: usize) -> Self {
        Self {
            singleton,
            record,
            stage: Stage::Starting,
            mailbox: VecDeque::new(),
            stopping: false,
            runs_on: false,
            blocks: false,
            known: 0,
            busy: true,
        }
    }

    pub(super) const fn is_stopping(&self) -> bool {
        self.stopping || self.runs_on
    }

    /// Whether its handler holds its thread, so that nobody can end it.
    pub(super) const fn is_blocked(&self) -> bool {
        self.blocks && matches!(self.stage, Stage::Appending(_))
    }

    /// Whether it would begin something in its turn, which it must not while its process does not know
    /// whether it is a member.
    pub(super) fn begins_something(&self) -> bool {
        match self.stage {
            Stage::Starting => true,
            Stage::Open => !self.mailbox.is_empty(),
            Stage::Opening | Stage::Appending(_) | Stage::Ending => false,
        }
    }

    /// A message for it; gives it back if there is no room. Whether a turn has to be scheduled, otherwise.
    pub(super) fn deliver(&mut self, letter: Letter) -> Result<bool, Letter> {
        if self.mailbox.len() >= MAILBOX_MAX {
            return Err(letter);
        }
        self.mailbox.push_back(letter);
        Ok(self.becomes_busy())
    }

    /// It is to stop; whether a turn has to be scheduled.
    pub(super) const fn stop(&mut self) -> bool {
        self.stopping = true;
        self.becomes_busy()
    }

    /// It is to end at once: gives what nobody handles any more, and in which message it is if that can be
    /// ended. `false`: its handler runs on.
    pub(super) fn kill(&mut self) -> (Vec<Letter>, Option<Letter>, bool) {
        let waiting = self.mailbox.drain(..).collect();
        if self.is_blocked() {
            self.runs_on = true;
            return (waiting, None, false);
        }
        let in_hand = match core::mem::replace(&mut self.stage, Stage::Ending) {
            Stage::Appending(letter) => Some(letter),
            Stage::Starting | Stage::Opening | Stage::Open | Stage::Ending => None,
        };
        (waiting, in_hand, true)
    }

    const fn becomes_busy(&mut self) -> bool {
        !core::mem::replace(&mut self.busy, true)
    }

    pub(super) fn turn(&mut self) -> Turn {
        match self.stage {
            Stage::Starting => {
                self.stage = Stage::Opening;
                Turn::Calls(Call::Open)
            }
            Stage::Open => match self.mailbox.pop_front() {
                Some(letter) => Turn::Begins(letter),
                None if self.stopping => {
                    self.stage = Stage::Ending;
                    Turn::CleansUp
                }
                None => {
                    self.busy = false;
                    Turn::Nothing
                }
            },
            Stage::Ending => Turn::Ended,
            Stage::Opening | Stage::Appending(_) => Turn::Nothing,
        }
    }

    /// What it asks of the database for a message that it has begun with.
    pub(super) fn append(&mut self, letter: Letter, blocks: bool) -> Call {
        self.blocks = blocks;
        let call = self.call_for(&letter);
        self.stage = Stage::Appending(letter);
        call
    }

    fn call_for(&self, letter: &Letter) -> Call {
        Call::Append {
            expected: self.known,
            message: letter.number(),
        }
    }

    /// The database answers.
    pub(super) fn on_answer(&mut self, answer: Answer) -> Answered {
        let stage = core::mem::replace(&mut self.stage, Stage::Ending);
        let (letter, call) = match stage {
            Stage::Appending(letter) => {
                let call = self.call_for(&letter);
                (Some(letter), call)
            }
            Stage::Starting | Stage::Opening | Stage::Open | Stage::Ending => (None, Call::Open),
        };
        match answer {
            _ if self.runs_on => Answered::Ends(letter),
            Answer::Refused(held) => Answered::Refused(held, letter),
            Answer::Unknown => {
                self.stage = letter.map_or(Stage::Opening, Stage::Appending);
                Answered::Repeat(call)
            }
            Answer::Done(entries) => {
                self.known = entries;
                self.stage = Stage::Open;
                letter.map_or(Answered::Opened, Answered::Handled)
            }
        }
    }

    /// It ends: what nobody handles any more.
    pub(super) fn end(&mut self) -> Vec<Letter> {
        self.mailbox.drain(..).collect()
    }
}
