//! Who waits for the answer to which command. One answer per token; a caller that is gone is simply not told.

use std::collections::HashMap;
use std::sync::Arc;

use quorate_core::effect::{Answer, DdataAnswer, ShardingAnswer};
use quorate_core::input::Token;
use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::{KindId, Payload};

use crate::data::{DataReadError, Inbox};
use crate::sync::Sender;

/// Who waits.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// An ask.
    Ask(Sender<Result<Payload, AskFailure>>),
    /// An operation on replicated data.
    Data(Sender<DdataAnswer>),
    /// A subscription.
    Subscription(Arc<Inbox>),
    /// Nobody: the driver gave the command itself.
    Nobody,
    /// A command.
    Command(Sender<Answer>),
    /// A registration; the kind is forgotten again if it is refused and was new.
    Register {
        reply: Sender<Answer>,
        forget: Option<KindId>,
    },
}

/// The table. Bounded by the core: it refuses asks beyond its own limit and answers every other command at once.
#[derive(Debug, Default)]
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

    /// Answers; returns a kind that has to be forgotten.
    pub(crate) fn answer(&mut self, token: Token, answer: Answer) -> Option<KindId> {
        match self.waiting.remove(&token)? {
            Waiting::Ask(reply) => {
                reply.send(match answer {
                    Answer::Sharding(ShardingAnswer::Asked(result)) => result,
                    Answer::Done | Answer::Refused(_) | Answer::Ddata(_) | Answer::Singleton(_) => {
                        Err(AskFailure::NodeStopped)
                    }
                });
                None
            }
            Waiting::Data(reply) => {
                match answer {
                    Answer::Ddata(answer) => reply.send(answer),
                    // The node has stopped: so says the closed end.
                    Answer::Done | Answer::Refused(_) | Answer::Sharding(_) | Answer::Singleton(_) => {
                        drop(reply)
                    }
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
            Waiting::Command(reply) => {
                reply.send(answer);
                None
            }
            Waiting::Register { reply, forget } => {
                let refused = matches!(answer, Answer::Refused(_));
                reply.send(answer);
                forget.filter(|_| refused)
            }
        }
    }

    /// Lets go of everybody; they learn that the node has stopped.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }
}
