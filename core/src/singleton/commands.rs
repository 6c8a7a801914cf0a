//! What this node's user wants of singletons: to send one a message, to host it no more (to host or reach it:
//! `registration`). Checks the caller's arguments once; decides nothing else. Spec: sharding 1.11.

use core::time::Duration;

use super::protocol::{Answer, Command, SingletonCommandError, StopOutcome};
use super::proxy::{ProxyMessage, dead_letter};
use super::state::SingletonId;
use super::voter::TERM_MAX;
use super::{Cx, Singletons};
use crate::effect::{Answer as AnyAnswer, CommandError as AnyError};
use crate::input::Token;
use crate::messaging::protocol::AskTicket;
use crate::messaging::{AskWait, TIMEOUT_MAX, TIMEOUT_MIN};
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::ids::Payload;
use crate::token::Token as Fence;

impl Singletons {
    /// A caller wants something.
    pub(crate) fn on_command(&mut self, cx: &mut Cx<'_>, token: Token, command: Command) {
        match command {
            Command::Register(settings) => self.register(cx, token, settings),
            Command::Stop { singleton, timeout } => {
                if let Err(error) = self.stop(cx, token, singleton, timeout) {
                    cx.reply(token, AnyAnswer::Refused(error));
                }
            }
            Command::TokenRefused { singleton, held } => {
                let answer = match self.token_refused(cx, singleton, held) {
                    Ok(()) => AnyAnswer::Done,
                    Err(error) => AnyAnswer::Refused(error),
                };
                cx.reply(token, answer);
            }
        }
    }

    /// This node hosts a singleton no more. Answered when its instance has ended.
    fn stop(
        &mut self,
        cx: &mut Cx<'_>,
        token: Token,
        singleton: SingletonId,
        timeout: Duration,
    ) -> Result<(), AnyError> {
        if self.halted {
            return Err(AnyError::Stopped);
        }
        let refused = |error| Err(AnyError::Singleton(error));
        let Some(entry) = self.entries.get_mut(&singleton) else {
            return refused(SingletonCommandError::NotHosted);
        };
        let was_to_host = core::mem::replace(&mut entry.registration.hosting, false);
        match &mut entry.manager {
            Some(manager) if manager.is_stopping() => return refused(SingletonCommandError::Stopping),
            Some(manager) if !manager.is_retired() => {
                manager.retire(cx, Some(token), timeout.clamp(TIMEOUT_MIN, TIMEOUT_MAX));
            }
            // It has not begun, and will not.
            Some(_) | None if was_to_host => {
                let answer = Answer::Stopped(StopOutcome::NothingRan);
                cx.reply(token, AnyAnswer::Singleton(answer));
            }
            Some(_) | None => return refused(SingletonCommandError::NotHosted),
        }
        self.say_if_drained(cx);
        Ok(())
    }

    /// Something that an instance writes to knows of a higher token.
    fn token_refused(
        &mut self,
        cx: &mut Cx<'_>,
        singleton: SingletonId,
        held: Fence,
    ) -> Result<(), AnyError> {
        if self.halted {
            return Err(AnyError::Stopped);
        }
        if held.term > TERM_MAX {
            return Err(AnyError::Singleton(SingletonCommandError::TokenOutOfRange));
        }
        let hosts = self
            .entries
            .get(&singleton)
            .is_some_and(|entry| entry.manager.is_some());
        if !hosts {
            return Err(AnyError::Singleton(SingletonCommandError::NotHosted));
        }
        let mut is_within_reach = false;
        self.with_instance(cx, singleton, |manager, cx, held_up| {
            is_within_reach = manager.instance.on_token_refused(cx, held, held_up);
        });
        if is_within_reach {
            Ok(())
        } else {
            Err(AnyError::Singleton(SingletonCommandError::TokenOutOfRange))
        }
    }

    /// A user's message that expects no answer.
    pub(crate) fn tell(&mut self, cx: &mut Cx<'_>, singleton: SingletonId, payload: Payload) {
        if let Err(reason) = self.send(cx, singleton, ProxyMessage { payload, ask: None }) {
            dead_letter(cx, singleton, reason);
        }
    }

    /// The same, of a caller who waits to hear that it was taken.
    pub(crate) fn tell_and_wait(
        &mut self,
        cx: &mut Cx<'_>,
        token: Token,
        singleton: SingletonId,
        payload: Payload,
    ) {
        let answer = match self.send(cx, singleton, ProxyMessage { payload, ask: None }) {
            Ok(()) => AnyAnswer::Done,
            Err(reason) => {
                AnyAnswer::Refused(AnyError::Singleton(SingletonCommandError::NotAccepted(reason)))
            }
        };
        cx.reply(token, answer);
    }

    /// A user's message that expects an answer.
    pub(crate) fn ask(
        &mut self,
        cx: &mut Cx<'_>,
        token: Token,
        singleton: SingletonId,
        payload: Payload,
        AskWait { timeout, chain }: AskWait,
    ) {
        let opened = self.acceptable(cx, singleton, &payload);
        let opened = opened.and_then(|()| self.asks.open(cx, token, singleton, timeout));
        match opened {
            Ok((id, deadline)) => {
                let ticket = AskTicket::of(cx.me(), id, chain);
                let ask = Some((ticket.clone(), deadline));
                if let Err(reason) = self.send(cx, singleton, ProxyMessage { payload, ask }) {
                    self.asks.end(cx, ticket, reason);
                }
            }
            Err(reason) => {
                cx.counters().asks_failed += 1;
                cx.reply(token, AnyAnswer::Asked(Err(reason)));
            }
        }
    }

    fn send(
        &mut self,
        cx: &mut Cx<'_>,
        singleton: SingletonId,
        message: ProxyMessage,
    ) -> Result<(), AskFailure> {
        self.acceptable(cx, singleton, &message.payload)?;
        cx.counters().messages_accepted += 1;
        match self.entries.get_mut(&singleton) {
            Some(entry) => entry.proxy.send(cx, &mut self.asks, message),
            None => Err(AskFailure::UnknownKind),
        }
    }

    fn acceptable(&self, cx: &Cx<'_>, singleton: SingletonId, payload: &Payload) -> Result<(), AskFailure> {
        if self.halted {
            Err(AskFailure::NodeStoppedUnsent)
        } else if !self.entries.contains_key(&singleton) {
            Err(AskFailure::UnknownKind)
        } else if self.is_refused(singleton) {
            Err(AskFailure::KindRefused)
        } else if payload.len() > cx.config().limits.payload_bytes_max() {
            Err(AskFailure::TooLarge)
        } else {
            Ok(())
        }
    }
}
