//! Who waits for the answer to which command. One answer per token; a caller that is gone is simply not told.

use std::collections::HashMap;
use std::sync::Arc;

use quorate_core::effect::{Answer, DdataAnswer};
use quorate_core::input::Token;
use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::Payload;

use super::hosted::Undo;
use crate::error::DataReadError;
use crate::subscriptions::Inbox;
use crate::sync::Sender;

/// Who waits.
pub(crate) enum Waiting {
    /// An ask.
    Ask(Sender<Result<Payload, AskFailure>>),
    /// An operation on replicated data.
    Data(Sender<DdataAnswer>),
    /// An owner of a log, or of a watch, or a caller who waits for room.
    Owner(Sender<Answer>),
    /// A subscription.
    Subscription(Arc<Inbox>),
    /// Nobody: the driver gave the command itself.
    Nobody,
    /// A command.
    Command(Sender<Answer>),
    /// A registration, which is undone if it is refused.
    Register {
        reply: Sender<Answer>,
        undo: Option<Undo>,
    },
}

/// What the pump has to do after an answer.
pub(crate) enum Follows {
    /// Its caller is answered.
    Answer(Sender<Answer>, Answer),
    /// A registration was refused.
    Undo(Undo),
}

/// The table. Bounded by the core: it refuses asks beyond its own limit, and callers who wait for room, and
/// answers every other command at once, but those of a log's owner, who has one open.
#[derive(Default)]
pub(crate) struct Replies {
    next: Token,
    waiting: HashMap<Token, Waiting>,
}

impl Replies {
    /// Keeps a waiter under a token that was never used.
    pub(crate) fn insert(&mut self, waiting: Waiting) -> Token {
        self.next = self.next.wrapping_add(1);
        self.waiting.insert(self.next, waiting);
        self.next
    }

    /// Answers; says what follows.
    pub(crate) fn answer(&mut self, token: Token, answer: Answer) -> Option<Follows> {
        match self.waiting.remove(&token)? {
            Waiting::Ask(reply) => {
                reply.send(match answer {
                    Answer::Asked(result) => result,
                    Answer::Done
                    | Answer::Refused(_)
                    | Answer::Sharding(_)
                    | Answer::Ddata(_)
                    | Answer::Singleton(_)
                    | Answer::Journal(_) => Err(AskFailure::NodeStopped),
                });
                None
            }
            Waiting::Data(reply) => {
                match answer {
                    Answer::Ddata(answer) => reply.send(answer),
                    // The node has stopped: so says the closed end.
                    Answer::Done
                    | Answer::Refused(_)
                    | Answer::Asked(_)
                    | Answer::Sharding(_)
                    | Answer::Singleton(_)
                    | Answer::Journal(_) => drop(reply),
                }
                None
            }
            Waiting::Subscription(inbox) => {
                if matches!(answer, Answer::Ddata(DdataAnswer::Subscribed(Err(_)))) {
                    inbox.refuse(DataReadError::TooManySubscribers);
                } else if !matches!(answer, Answer::Ddata(DdataAnswer::Subscribed(Ok(())))) {
                    inbox.refuse(DataReadError::Stopped);
                }
                None
            }
            Waiting::Nobody => None,
            Waiting::Owner(reply) => {
                reply.send(answer);
                None
            }
            Waiting::Command(reply) => Some(Follows::Answer(reply, answer)),
            Waiting::Register { reply, undo } => {
                let refused = matches!(answer, Answer::Refused(_));
                reply.send(answer);
                undo.filter(|_| refused).map(Follows::Undo)
            }
        }
    }

    /// Lets go of everybody; they learn that the node has stopped.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }
}

impl std::fmt::Debug for Replies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replies")
            .field("waiting", &self.waiting.len())
            .finish_non_exhaustive()
    }
}
