//! Who waits for the answer to which command. One answer per token; a caller that is gone is simply not told.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::Waker;

use quorate_core::effect::{Answer, CommandError, DdataAnswer};
use quorate_core::input::Token;
use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::Payload;

use super::hosted::RegistrationUndo;
use crate::error::DataReadError;
use crate::notices::NoticeInbox;
use crate::subscriptions::ChangeInbox;
use crate::sync::Sender;

/// Who waits.
pub(crate) enum ReplyWaiter {
    /// An ask.
    Ask(Sender<Result<Payload, AskFailure>>),
    /// An operation on replicated data.
    Data(Sender<DdataAnswer>),
    /// An owner of a log, or of a watch, or a caller of the keyed store or who waits for room.
    Owner(Sender<Answer>),
    /// A subscription.
    Subscription(Arc<ChangeInbox>),
    /// A subscription to changes in a bucket.
    Follower(Arc<NoticeInbox>),
    /// Nobody: the driver gave the command itself.
    Nobody,
    /// A command.
    Command(Sender<Answer>),
    /// A registration, which is undone if it is refused.
    Register {
        reply: Sender<Answer>,
        undo: Option<RegistrationUndo>,
    },
}

/// What the pump has to do after an answer.
pub(crate) enum AfterReply {
    /// Its caller has an answer to look at.
    Wake(Waker),
    /// Its caller is answered.
    Answer(Sender<Answer>, Answer),
    /// A registration was refused.
    Undo(RegistrationUndo),
}

/// The table. Bounded by the core: it refuses asks beyond its own limit, and callers who wait for room, and
/// answers every other command at once, but those of a log's owner, who has one open.
#[derive(Default)]
pub(crate) struct Replies {
    next: Token,
    waiting: HashMap<Token, ReplyWaiter>,
    /// How many of those are asks.
    asks: usize,
}

impl Replies {
    /// Keeps a waiter under a token that was never used.
    pub(crate) fn insert(&mut self, waiting: ReplyWaiter) -> Token {
        self.next = self.next.wrapping_add(1);
        self.asks += usize::from(matches!(waiting, ReplyWaiter::Ask(_)));
        self.waiting.insert(self.next, waiting);
        self.next
    }

    /// Answers; says what follows.
    pub(crate) fn answer(&mut self, token: Token, answer: Answer) -> Option<AfterReply> {
        match self.waiting.remove(&token)? {
            ReplyWaiter::Ask(reply) => {
                self.asks -= 1;
                let waker = reply.put(match answer {
                    Answer::Asked(result) => result,
                    Answer::Done
                    | Answer::Refused(_)
                    | Answer::Sharding(_)
                    | Answer::Ddata(_)
                    | Answer::Singleton(_)
                    | Answer::Journal(_)
                    | Answer::Kv(_) => Err(AskFailure::NodeStopped),
                });
                waker.map(AfterReply::Wake)
            }
            ReplyWaiter::Data(reply) => {
                match answer {
                    Answer::Ddata(answer) => reply.send(answer),
                    // The node has stopped: so says the closed end.
                    Answer::Done
                    | Answer::Refused(_)
                    | Answer::Asked(_)
                    | Answer::Sharding(_)
                    | Answer::Singleton(_)
                    | Answer::Journal(_)
                    | Answer::Kv(_) => drop(reply),
                }
                None
            }
            ReplyWaiter::Subscription(inbox) => {
                if matches!(answer, Answer::Ddata(DdataAnswer::Subscribed(Err(_)))) {
                    inbox.refuse(DataReadError::TooManySubscribers);
                } else if !matches!(answer, Answer::Ddata(DdataAnswer::Subscribed(Ok(())))) {
                    inbox.refuse(DataReadError::Stopped);
                }
                None
            }
            ReplyWaiter::Follower(inbox) => {
                match answer {
                    Answer::Refused(CommandError::Stopped) => inbox.end(),
                    Answer::Refused(error) => inbox.refuse(error.into()),
                    Answer::Done
                    | Answer::Asked(_)
                    | Answer::Sharding(_)
                    | Answer::Ddata(_)
                    | Answer::Singleton(_)
                    | Answer::Journal(_)
                    | Answer::Kv(_) => {}
                }
                None
            }
            ReplyWaiter::Nobody => None,
            ReplyWaiter::Owner(reply) => {
                reply.send(answer);
                None
            }
            ReplyWaiter::Command(reply) => Some(AfterReply::Answer(reply, answer)),
            ReplyWaiter::Register { reply, undo } => {
                let refused = matches!(answer, Answer::Refused(_));
                reply.send(answer);
                undo.filter(|_| refused).map(AfterReply::Undo)
            }
        }
    }

    /// Whether no ask is open.
    pub(crate) const fn has_no_asks(&self) -> bool {
        self.asks == 0
    }

    /// Lets go of everybody; they learn that the node has stopped.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
        self.asks = 0;
    }
}

impl std::fmt::Debug for Replies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replies")
            .field("waiting", &self.waiting.len())
            .finish_non_exhaustive()
    }
}
