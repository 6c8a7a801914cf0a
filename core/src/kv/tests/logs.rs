//! The logs that voters keep, as one value that all nodes of a test share: who opened one last has it.

use alloc::vec::Vec;

use crate::effect::{Answer as AnyAnswer, CommandError};
use crate::journal::protocol::{Answer, Command, JournalCommandError};
use crate::journal::state::{OpenedLog, WriterEnd};
use crate::ordered::OrderedMap;
use crate::store::{LogName, Record, Snapshot};
use crate::token::Token;

#[derive(Default)]
struct SharedLog {
    opener: u64,
    token: Token,
    last: u64,
    snapshot: Option<Snapshot>,
    records: Vec<Record>,
}

/// See the module.
#[derive(Default)]
pub(super) struct Logs {
    logs: OrderedMap<LogName, SharedLog>,
    asked: Vec<(usize, u64, Command)>,
    /// No majority of the voters is there.
    pub(super) are_away: bool,
    /// Appends that were done.
    pub(super) appended: usize,
}

impl Logs {
    pub(super) fn ask(&mut self, index: usize, opener: u64, command: Command) {
        self.asked.push((index, opener, command));
    }

    /// What is to be answered to a node next.
    pub(super) fn answer(&mut self, index: usize) -> Option<(u64, AnyAnswer)> {
        if self.are_away {
            return None;
        }
        let at = self.asked.iter().position(|(asked, ..)| *asked == index)?;
        let (_, opener, command) = self.asked.remove(at);
        Some((opener, self.obey(command)))
    }

    /// Whether there are snapshots.
    pub(super) fn are_trimmed(&self) -> bool {
        self.logs.values().any(|log| log.snapshot.is_some())
    }

    /// What was kept is none of a table.
    pub(super) fn damage(&mut self) {
        for log in self.logs.values_mut() {
            for record in &mut log.records {
                record.bytes = [7].as_slice().into();
            }
        }
    }

    fn obey(&mut self, command: Command) -> AnyAnswer {
        let (name, by) = match &command {
            Command::Open { log, opener, .. }
            | Command::Append { log, opener, .. }
            | Command::Keep { log, opener, .. }
            | Command::Forget { log, opener, .. }
            | Command::Close { log, opener } => (log.clone(), *opener),
        };
        let log = self.logs.entry(name).or_default();
        let is_owner = log.opener == by;
        match command {
            Command::Open { .. } => {
                (log.opener, log.token) = (by, Token::new(log.token.term + 1, 1));
                AnyAnswer::Journal(Answer::Opened(OpenedLog {
                    token: log.token,
                    snapshot: log.snapshot.clone(),
                    records: log.records.clone(),
                    last: log.last,
                }))
            }
            Command::Close { .. } => AnyAnswer::Done,
            Command::Append { .. } | Command::Keep { .. } | Command::Forget { .. } if !is_owner => {
                let end = WriterEnd::Fenced { held: log.token };
                AnyAnswer::Refused(CommandError::Journal(JournalCommandError::Ended(end)))
            }
            Command::Append {
                expected, records, ..
            } => {
                assert_eq!(expected, log.last);
                for bytes in records {
                    log.last += 1;
                    let (sequence, token) = (log.last, log.token);
                    log.records.push(Record {
                        sequence,
                        token,
                        bytes,
                    });
                }
                self.appended += 1;
                AnyAnswer::Journal(Answer::Appended { last: log.last })
            }
            Command::Keep { covers, state, .. } => {
                log.records.retain(|record| record.sequence > covers);
                log.snapshot = Some(Snapshot {
                    through: covers,
                    token: log.token,
                    state,
                });
                AnyAnswer::Journal(Answer::Kept)
            }
            Command::Forget { .. } => panic!("nothing is forgotten here"),
        }
    }
}
