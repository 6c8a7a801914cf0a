//! Who waits for the answer to which command. One answer per token; a caller that is gone is simply not told.

use std::collections::HashMap;
use std::sync::Arc;

use quorate_core::effect::{
    Answer, CommandError, DdataAnswer, ShardingAnswer, SingletonAnswer, SingletonCommandError,
};
use quorate_core::input::Token;
use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::{KindId, Payload};
use quorate_core::singleton::state::SingletonId;

use super::instances::Undo;
use crate::commands::outcome;
use crate::error::{ClusterError, DataReadError};
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
    /// A registration; the kind is forgotten again if it is refused and was new.
    Register {
        reply: Sender<Answer>,
        forget: Option<KindId>,
    },
    /// The registration of a singleton, which is undone if it is refused.
    Singleton {
        reply: Sender<Result<(), ClusterError>>,
        undo: Option<Undo>,
    },
    /// Nobody, but that a message to this singleton that is not taken must not go without a word.
    Told(SingletonId),
}

/// What the pump has to do after an answer.
pub(crate) enum Follows {
    /// Its caller is answered.
    Answer(Sender<Answer>, Answer),
    /// A kind was refused.
    Forget(KindId),
    /// A singleton was refused.
    Undo(Undo),
    /// A message that nobody waits for was not taken.
    DeadLetter(SingletonId, AskFailure),
}

/// The table. Bounded by the core: it refuses asks beyond its own limit, and callers who wait for room, and answers every other command at once,
/// but those of a log's owner, who has one open.
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
                    Answer::Sharding(ShardingAnswer::Asked(result))
                    | Answer::Singleton(SingletonAnswer::Asked(result)) => result,
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
            Waiting::Register { reply, forget } => {
                let refused = matches!(answer, Answer::Refused(_));
                reply.send(answer);
                forget.filter(|_| refused).map(Follows::Forget)
            }
            Waiting::Singleton { reply, undo } => {
                let registered = outcome(Some(answer));
                let undo = undo.filter(|_| registered.is_err());
                reply.send(registered);
                undo.map(Follows::Undo)
            }
            Waiting::Told(singleton) => match answer {
                Answer::Refused(CommandError::Singleton(SingletonCommandError::NotAccepted(reason))) => {
                    Some(Follows::DeadLetter(singleton, reason))
                }
                Answer::Done
                | Answer::Refused(_)
                | Answer::Sharding(_)
                | Answer::Ddata(_)
                | Answer::Singleton(_)
                | Answer::Journal(_) => None,
            },
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync;

    fn registers(replies: &mut Replies) -> Token {
        replies.insert(Waiting::Register {
            reply: sync::oneshot().0,
            forget: Some(KindId::of("k")),
        })
    }

    #[test]
    fn a_new_kind_is_forgotten_if_it_is_refused_and_only_then() {
        let mut replies = Replies::default();
        let token = registers(&mut replies);
        assert!(replies.answer(token, Answer::Done).is_none());
        assert!(
            replies.answer(token, Answer::Done).is_none(),
            "nobody waits any more"
        );
        let token = registers(&mut replies);
        let follows = replies.answer(token, Answer::Refused(CommandError::Stopped));
        assert!(matches!(follows, Some(Follows::Forget(kind)) if kind == KindId::of("k")));
        let known = Waiting::Register {
            reply: sync::oneshot().0,
            forget: None,
        };
        let token = replies.insert(known);
        let follows = replies.answer(token, Answer::Refused(CommandError::Stopped));
        assert!(follows.is_none(), "it was there before");
    }
}
