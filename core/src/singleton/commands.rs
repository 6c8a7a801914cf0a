//! What this node's user wants of singletons: to host or reach one, to send it a message, to host it no more. Checks the caller's
//! arguments once; decides nothing else. Spec: sharding 1.11.

use core::time::Duration;

use super::asks::{TIMEOUT_MAX, TIMEOUT_MIN};
use super::manager::Manager;
use super::protocol::{Answer, Command, CommandError, Event, Msg, Settings};
use super::proxy::{Proxy, Waiting, fail};
use super::state::SingletonId;
use super::voter::TERM_MAX;
use super::{Cx, Entry, SINGLETONS_MAX, Singletons};
use crate::effect::{Answer as AnyAnswer, CommandError as AnyError};
use crate::input::Token;
use crate::membership::state::member::Status;
use crate::sharding::protocol::AskReply;
use crate::sharding::state::chain::AskChain;
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::ids::{AskRef, Payload};
use crate::token::Token as Fence;

/// Bytes of a singleton's name; as of an entity kind's.
const NAME_BYTES_MAX: usize = 255;

impl Singletons {
    /// A caller wants something.
    pub(crate) fn on_command(&mut self, cx: &mut Cx<'_>, token: Token, command: Command) {
        match command {
            Command::Register(settings) => {
                let answer = match self.register(cx, settings) {
                    Ok(()) => AnyAnswer::Done,
                    Err(error) => AnyAnswer::Refused(error),
                };
                cx.reply(token, answer);
            }
            Command::Tell { singleton, payload } => {
                let message = Waiting {
                    payload,
                    ask: None,
                    chain: AskChain::default(),
                };
                let answer = match self.send(cx, singleton, message) {
                    Ok(()) => AnyAnswer::Done,
                    Err(reason) => AnyAnswer::Refused(AnyError::Singleton(CommandError::NotAccepted(reason))),
                };
                cx.reply(token, answer);
            }
            Command::Ask {
                singleton,
                payload,
                timeout,
                chain,
            } => {
                let message = Waiting {
                    payload,
                    ask: None,
                    chain,
                };
                self.ask(cx, token, singleton, message, timeout);
            }
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
        let entry = self.entries.get_mut(&singleton);
        let manager = entry.and_then(|entry| entry.manager.as_mut());
        let refused = |error| Err(AnyError::Singleton(error));
        let Some(manager) = manager else {
            return refused(CommandError::NotHosted);
        };
        if manager.is_stopping() {
            return refused(CommandError::Stopping);
        }
        if manager.is_retired() {
            return refused(CommandError::NotHosted);
        }
        manager.retire(cx, token, timeout.clamp(TIMEOUT_MIN, TIMEOUT_MAX));
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
            return Err(AnyError::Singleton(CommandError::TokenOutOfRange));
        }
        let hosts = self
            .entries
            .get(&singleton)
            .is_some_and(|entry| entry.manager.is_some());
        if !hosts {
            return Err(AnyError::Singleton(CommandError::NotHosted));
        }
        self.with_instance(cx, singleton, |manager, cx, held_up| {
            manager.instance.on_token_refused(cx, held, held_up);
        });
        Ok(())
    }

    fn register(&mut self, cx: &mut Cx<'_>, settings: Settings) -> Result<(), AnyError> {
        if self.halted {
            return Err(AnyError::Stopped);
        }
        let id = SingletonId::of(&settings.name);
        self.check(cx, id, &settings).map_err(AnyError::Singleton)?;
        let paused = self.paused;
        let downing = &cx.config().downing.strategy;
        let is_risky = settings.hosts && !settings.lease && downing.lets_both_sides_go_on();
        let risk = is_risky.then(|| downing.name());
        let entry = self.entries.entry(id).or_insert_with(|| Entry {
            settings: settings.clone(),
            proxy: Proxy::new(id, settings.role.clone()),
            manager: None,
            may_run_twice: risk,
        });
        if settings.hosts {
            let begins = entry.manager.as_ref().is_none_or(Manager::is_retired);
            if begins {
                entry.may_run_twice = risk;
                if let Some(strategy) = risk {
                    cx.notify((id, Event::MayRunTwice { strategy }));
                }
            }
            match &mut entry.manager {
                Some(manager) if manager.is_retired() => {
                    entry.settings = settings.clone();
                    manager.begin_again(cx, settings);
                }
                Some(_) => {}
                manager => {
                    let index = self.next_index;
                    self.next_index += 1;
                    entry.settings = settings.clone();
                    manager.insert(Manager::new(id, index, settings, paused)).look(cx);
                }
            }
        }
        entry.proxy.on_ages_changed(cx);
        Ok(())
    }

    fn check(&self, cx: &Cx<'_>, id: SingletonId, settings: &Settings) -> Result<(), CommandError> {
        if settings.name.is_empty() || settings.name.len() > NAME_BYTES_MAX {
            return Err(CommandError::BadName);
        }
        match self.entries.get(&id) {
            Some(entry) => {
                let known = &entry.settings;
                let manager = entry.manager.as_ref();
                if settings.hosts && manager.is_some_and(Manager::is_stopping) {
                    return Err(CommandError::Stopping);
                }
                let hosts = manager.is_some_and(|manager| !manager.is_retired());
                let same_lease = !settings.hosts || !hosts || known.lease == settings.lease;
                if known.name != settings.name || known.role != settings.role || !same_lease {
                    return Err(CommandError::Conflict);
                }
            }
            None if self.entries.len() >= SINGLETONS_MAX => return Err(CommandError::TooMany),
            None => {}
        }
        if !settings.hosts {
            return Ok(());
        }
        let own = cx.config().node_roles();
        if settings.role.as_ref().is_some_and(|role| !own.contains(role)) {
            return Err(CommandError::RoleMissing);
        }
        // What ran here may have been handed over already by the time this node knows.
        if self.draining
            || matches!(
                cx.view().self_status(),
                Status::Leaving | Status::Exiting | Status::Down
            )
        {
            return Err(CommandError::Leaving);
        }
        Ok(())
    }

    fn ask(
        &mut self,
        cx: &mut Cx<'_>,
        token: Token,
        singleton: SingletonId,
        message: Waiting,
        timeout: Duration,
    ) {
        let opened = self.acceptable(cx, singleton, &message.payload);
        let opened = opened.and_then(|()| self.asks.open(cx, token, singleton, timeout));
        match opened {
            Ok(id) => {
                let message = Waiting {
                    ask: Some(id),
                    ..message
                };
                if let Err(reason) = self.send(cx, singleton, message) {
                    fail(cx, &mut self.asks, singleton, Some(id), reason);
                }
            }
            Err(reason) => {
                cx.counters().asks_failed += 1;
                cx.reply(token, AnyAnswer::Singleton(Answer::Asked(Err(reason))));
            }
        }
    }

    fn send(&mut self, cx: &mut Cx<'_>, singleton: SingletonId, message: Waiting) -> Result<(), AskFailure> {
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
        } else if payload.len() > cx.config().limits.payload_bytes_max() {
            Err(AskFailure::TooLarge)
        } else {
            Ok(())
        }
    }
}

/// Sends an instance's answer straight to who asked. One that would not fit into a frame is too large for an asker on this node as
/// well: it must not depend on where an instance lives whether it works.
pub(super) fn answer(cx: &mut Cx<'_>, ask: AskRef, result: Result<Payload, AskFailure>) {
    let AskRef { asker: to, id } = ask;
    let result = match result {
        Ok(payload) if payload.len() > cx.config().limits.payload_bytes_max() => {
            Err(AskFailure::ReplyTooLarge)
        }
        Ok(_) | Err(_) => result,
    };
    let reply = AskReply {
        id,
        to: to.clone(),
        result,
    };
    cx.send(&to, Msg::Reply(reply));
}
