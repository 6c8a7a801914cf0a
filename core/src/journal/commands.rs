//! What this node's user wants of quorum logs. Checks the caller's arguments once; decides nothing else.
//! Spec: sharding 10.7.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::logs::LocalLog;
use super::protocol::{Command, JournalCommandError, LOG_NAME_BYTES_MAX};
use super::state::{TokenClaim, WriterError};
use super::writer::{LogWriter, WriterOutput};
use super::{Cx, Journals};
use crate::effect::{Answer as AnyAnswer, CommandError as AnyError};
use crate::input::Caller;
use crate::store::LogName;

impl Journals {
    /// A caller wants something.
    pub(crate) fn on_command(&mut self, cx: &mut Cx<'_>, caller: impl Into<Caller>, command: Command) {
        let caller = caller.into();
        match command {
            Command::Open { log, opener, claim } => self.on_open(cx, caller, log, (opener, claim)),
            Command::Append {
                log,
                opener,
                expected,
                records,
                upkeep,
            } => {
                let call = |writer: &mut LogWriter, out: &mut Vec<WriterOutput>| {
                    writer.append(expected, records, upkeep, out)
                };
                let appended = self.with_writer(cx, &log, opener, call, |log| log.appending = Some(caller));
                if let Err(error) = appended {
                    cx.counters().appends_refused +=
                        u64::from(error == JournalCommandError::Refused(WriterError::Full));
                    refuse(cx, caller, error);
                }
            }
            Command::Keep {
                log,
                opener,
                covers,
                state,
            } => {
                let call =
                    |writer: &mut LogWriter, out: &mut Vec<WriterOutput>| writer.keep(covers, &state, out);
                self.with_writer(cx, &log, opener, call, |log| log.keeping = Some(caller))
                    .unwrap_or_else(|error| refuse(cx, caller, error));
            }
            Command::Forget { log, opener, through } => {
                let call = |writer: &mut LogWriter, out: &mut Vec<WriterOutput>| writer.forget(through, out);
                self.with_writer(cx, &log, opener, call, |log| log.keeping = Some(caller))
                    .unwrap_or_else(|error| refuse(cx, caller, error));
            }
            Command::Close { log, opener } => {
                if self.logs.get(&log).is_some_and(|log| log.opener == opener) {
                    self.forget(cx, &log, AnyError::Journal(JournalCommandError::Closed));
                }
                cx.reply(caller, AnyAnswer::Done);
            }
        }
    }

    fn on_open(
        &mut self,
        cx: &mut Cx<'_>,
        caller: Caller,
        name: LogName,
        (opener, claim): (u64, TokenClaim),
    ) {
        let journal = &cx.config().journal;
        if journal.voters == 0 {
            return refuse(cx, caller, JournalCommandError::NotConfigured);
        }
        if !(1..=LOG_NAME_BYTES_MAX).contains(&name.len()) {
            return refuse(cx, caller, JournalCommandError::BadName);
        }
        if self.logs.contains_key(&name) {
            self.forget(cx, &name, AnyError::Journal(JournalCommandError::Closed));
        }
        if self.logs.len() >= journal.open_logs_max {
            cx.counters().logs_refused += 1;
            return refuse(cx, caller, JournalCommandError::TooMany);
        }
        self.logs
            .insert(Arc::clone(&name), LocalLog::new(opener, claim, caller));
        self.open(cx, &name);
    }

    /// Calls the writer of a log that this opener has, notes who waits, and does what the writer wants.
    fn with_writer(
        &mut self,
        cx: &mut Cx<'_>,
        name: &LogName,
        opener: u64,
        call: impl FnOnce(&mut LogWriter, &mut Vec<WriterOutput>) -> Result<(), WriterError>,
        note: impl FnOnce(&mut LocalLog),
    ) -> Result<(), JournalCommandError> {
        let log = self.logs.get_mut(name).filter(|log| log.opener == opener);
        let log = log.ok_or(JournalCommandError::NotOpen)?;
        let writer = log.writer.as_mut().ok_or(JournalCommandError::NotOpen)?;
        let mut out = Vec::new();
        call(writer, &mut out).map_err(JournalCommandError::Refused)?;
        note(log);
        self.perform(cx, name, out);
        Ok(())
    }
}

fn refuse(cx: &mut Cx<'_>, caller: Caller, error: JournalCommandError) {
    cx.reply(caller, AnyAnswer::Refused(AnyError::Journal(error)));
}
