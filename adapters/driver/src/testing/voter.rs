//! One voter that keeps logs, in a thread of its own: what a node's loop does with commands about a log,
//! without the node. Its store is in memory and answers at once.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use quorate_core::effect::{Answer, CommandError, JournalAnswer, JournalCommandError};
use quorate_core::input::JournalCommand;
use quorate_core::journal::replica::{LogReplica, ReplicaOutput};
use quorate_core::journal::state::{StoreId, WriterError};
use quorate_core::journal::writer::{LogWriter, WriterBounds, WriterOutput, WriterSettings};
use quorate_core::store::memory::MemoryMap;
use quorate_core::store::{Space, StoreReport};

use super::block_on;
use crate::commands::LogCommand;
use crate::shared::Commands;

const STORE: StoreId = StoreId(7);
const PAGE_BYTES: usize = 256 << 10;

/// Obeys what handles say of one log, which may have so many bytes, until they are gone. Its disk takes so
/// long to open it.
pub(crate) fn serve(commands: &Commands, log_bytes_max: usize, opens_in: Duration) {
    let logs = commands.logs.clone();
    let mut voter = Voter {
        log_bytes_max,
        replica: LogReplica::new(STORE, PAGE_BYTES),
        disk: MemoryMap::new(),
        owner: None,
    };
    thread::spawn(move || {
        while let Ok(LogCommand { command, reply }) = block_on(logs.recv()) {
            if let JournalCommand::Open { .. } = command {
                thread::sleep(opens_in);
            }
            reply.send(voter.obey(command));
        }
    });
}

/// One voter, which is a majority, and the owners of one log at it.
struct Voter {
    log_bytes_max: usize,
    replica: LogReplica<()>,
    disk: MemoryMap,
    owner: Option<(u64, LogWriter)>,
}

impl Voter {
    fn bounds(&self) -> WriterBounds {
        WriterBounds {
            page_bytes: PAGE_BYTES,
            append_bytes_max: 4 << 20,
            log_bytes_max: self.log_bytes_max,
            attempts_max: 24,
        }
    }

    fn obey(&mut self, command: JournalCommand) -> Answer {
        let mut out = Vec::new();
        let done = match command {
            JournalCommand::Open { log, opener, claim } => {
                let stores = Arc::from([STORE]);
                let bounds = self.bounds();
                let writer = LogWriter::open(
                    WriterSettings {
                        log,
                        stores,
                        opener,
                        claim,
                        bounds,
                    },
                    &mut out,
                );
                self.owner = Some((opener, writer));
                Ok(())
            }
            JournalCommand::Append {
                opener,
                expected,
                records,
                upkeep,
                ..
            } => self.owned(opener, |writer| {
                writer.append(expected, records, upkeep, &mut out)
            }),
            JournalCommand::Keep {
                opener,
                covers,
                state,
                ..
            } => self.owned(opener, |writer| writer.keep(covers, &state, &mut out)),
            JournalCommand::Forget { opener, through, .. } => {
                self.owned(opener, |writer| writer.forget(through, &mut out))
            }
            JournalCommand::Close { opener, .. } => {
                self.owner.take_if(|(owner, _)| *owner == opener);
                return Answer::Done;
            }
        };
        match done {
            Ok(()) => Answer::Journal(self.run(out)),
            Err(error) => Answer::Refused(CommandError::Journal(error)),
        }
    }

    fn owned(
        &mut self,
        opener: u64,
        call: impl FnOnce(&mut LogWriter) -> Result<(), WriterError>,
    ) -> Result<(), JournalCommandError> {
        match &mut self.owner {
            Some((owner, writer)) if *owner == opener => call(writer).map_err(JournalCommandError::Refused),
            Some(_) | None => Err(JournalCommandError::NotOpen),
        }
    }

    /// Until the owner has its answer.
    fn run(&mut self, mut out: Vec<WriterOutput>) -> JournalAnswer {
        let mut answer = None;
        while !out.is_empty() {
            let mut next = Vec::new();
            for output in out {
                match output {
                    WriterOutput::Ask(request) => {
                        let mut asked = Vec::new();
                        self.replica.on_request((), request, &mut asked);
                        self.serve(asked, &mut next);
                    }
                    WriterOutput::Opened(opened) => answer = Some(JournalAnswer::Opened(opened)),
                    WriterOutput::Appended { last } => answer = Some(JournalAnswer::Appended { last }),
                    WriterOutput::Kept { .. } => answer = Some(JournalAnswer::Kept),
                    WriterOutput::NearlyFull { .. } => {}
                    WriterOutput::TakeAgain { .. } => {
                        self.owner.as_mut().unwrap().1.take_again(&mut next);
                    }
                    other @ (WriterOutput::Nonsense(_) | WriterOutput::Ended(_)) => panic!("{other:?}"),
                }
            }
            out = next;
        }
        answer.unwrap()
    }

    fn serve(&mut self, mut asked: Vec<ReplicaOutput<()>>, out: &mut Vec<WriterOutput>) {
        while !asked.is_empty() {
            for output in std::mem::take(&mut asked) {
                match output {
                    ReplicaOutput::Store(request) => {
                        let outcome = self.disk.obey(Space(9), &request.order);
                        let id = request.id;
                        self.replica.on_stored(StoreReport { id, outcome }, &mut asked);
                    }
                    ReplicaOutput::Reply((), reply) => {
                        self.owner.as_mut().unwrap().1.on_reply(reply, out);
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}
