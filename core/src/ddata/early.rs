//! What applications ask for while the store is still read, or while this node has to hear that it is still a
//! member: kept in order, and begun once this replica serves, so that the first write of a node that is up is
//! not refused. Looks at no value. Spec: sharding 1.12 (durable).

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use super::Replicator;
use super::commands::{TIMEOUT_MAX, TIMEOUT_MIN, reply};
use super::protocol::{Answer, Command, ReadError, WriteError};
use crate::ddata::Cx;
use crate::input::Caller;
use crate::time::Instant;

#[derive(Clone, Debug)]
struct EarlyCommand {
    caller: Caller,
    command: Command,
    until: Instant,
}

/// Commands that wait, oldest first. Bounded by `ddata.open_operations_max`.
#[derive(Clone, Debug, Default)]
pub(super) struct EarlyCommands {
    waiting: VecDeque<EarlyCommand>,
}

/// Why a command is not kept any longer.
#[derive(Clone, Copy)]
enum EarlyEnd {
    NotServing,
    TooMany,
}

impl EarlyCommands {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The next time one has waited long enough.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.waiting.iter().map(|waiting| waiting.until).min()
    }

    fn take_due(&mut self, now: Instant) -> Vec<EarlyCommand> {
        let all = core::mem::take(&mut self.waiting);
        let (due, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(|waiting| waiting.until <= now);
        self.waiting = rest.into();
        due
    }
}

impl Replicator {
    /// Keeps a command until this replica serves, or its time is over. Gives back those that are answered at
    /// any time.
    pub(super) fn keep_early(
        &mut self,
        cx: &mut Cx<'_>,
        caller: Caller,
        command: Command,
    ) -> Option<Command> {
        let Some(timeout) = time_of(&command) else {
            return Some(command);
        };
        if self.early.len() >= cx.config().ddata.open_operations_max {
            refuse(cx, caller, &command, EarlyEnd::TooMany);
            return None;
        }
        let until = cx.mono() + timeout.clamp(TIMEOUT_MIN, TIMEOUT_MAX);
        self.early.waiting.push_back(EarlyCommand {
            caller,
            command,
            until,
        });
        self.wake_operations(cx);
        None
    }

    /// This replica serves: begins what waited, with the time that is left of it.
    pub(super) fn begin_early(&mut self, cx: &mut Cx<'_>) {
        for waiting in core::mem::take(&mut self.early.waiting) {
            let left = waiting.until.since(cx.mono());
            let command = with_time(waiting.command, left);
            self.on_command(cx, waiting.caller, command);
        }
    }

    /// Tells those that waited too long.
    pub(super) fn end_early_due(&mut self, cx: &mut Cx<'_>) {
        for waiting in self.early.take_due(cx.mono()) {
            refuse(cx, waiting.caller, &waiting.command, EarlyEnd::NotServing);
        }
    }

    /// This replica will not serve: tells all that waited for it.
    pub(super) fn end_early(&mut self, cx: &mut Cx<'_>) {
        for waiting in core::mem::take(&mut self.early.waiting) {
            refuse(cx, waiting.caller, &waiting.command, EarlyEnd::NotServing);
        }
    }
}

/// How long a command may wait; `None` for one that needs no value.
const fn time_of(command: &Command) -> Option<Duration> {
    match command {
        Command::Get { timeout, .. } | Command::Update { timeout, .. } | Command::Delete { timeout, .. } => {
            Some(*timeout)
        }
        Command::Keys => Some(TIMEOUT_MAX),
        Command::Subscribe { .. } | Command::Unsubscribe { .. } | Command::Replicas | Command::Flush => None,
    }
}

fn with_time(mut command: Command, left: Duration) -> Command {
    match &mut command {
        Command::Get { timeout, .. } | Command::Update { timeout, .. } | Command::Delete { timeout, .. } => {
            *timeout = left;
        }
        Command::Keys
        | Command::Subscribe { .. }
        | Command::Unsubscribe { .. }
        | Command::Replicas
        | Command::Flush => {}
    }
    command
}

fn refuse(cx: &mut Cx<'_>, caller: Caller, command: &Command, reason: EarlyEnd) {
    let answer = match command {
        Command::Get { .. } => Answer::Value(Err(match reason {
            EarlyEnd::NotServing => ReadError::NotServing,
            EarlyEnd::TooMany => ReadError::TooManyOperations,
        })),
        Command::Update { .. } | Command::Delete { .. } => Answer::Written(Err(match reason {
            EarlyEnd::NotServing => WriteError::NotServing,
            EarlyEnd::TooMany => WriteError::TooManyOperations,
        })),
        Command::Keys => Answer::Keys(Vec::new()),
        Command::Replicas => Answer::Replicas(0),
        Command::Subscribe { .. } | Command::Unsubscribe { .. } | Command::Flush => {
            Answer::Subscribed(Ok(()))
        }
    };
    reply(cx, caller, answer);
}
