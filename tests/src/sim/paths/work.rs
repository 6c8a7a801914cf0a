//! What users send to paths. A payload has the message's number in the history (none for a message to all
//! instances, of which there are several copies), who sent it, and its place in the order of all messages.

use core::time::Duration;

use quorate_core::input::{Command, MessageCommand, Recipient};
use quorate_core::paths::protocol::PathPick;
use quorate_core::sharding::chain::AskChain;
use quorate_core::sharding::ids::Payload;

use super::{PATHS, PathKind};
use crate::sim::engine::Sim;
use crate::sim::history::ProcessId;
use crate::sim::process::Open;

/// The number of a message that has several copies.
pub(crate) const COPIES: u64 = u64::MAX;

/// What a payload says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) message: Option<usize>,
    pub(super) sender: ProcessId,
    pub(super) order: u64,
}

impl Sent {
    pub(super) fn read(payload: &[u8]) -> Option<Self> {
        let number = |at: usize| {
            let bytes = payload.get(at..at + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        let first = number(0)?;
        Some(Self {
            message: (first != COPIES).then(|| usize::try_from(first).ok()).flatten(),
            sender: ProcessId::try_from(number(8)?).ok()?,
            order: number(16)?,
        })
    }
}

impl Sim {
    /// Asks a path from the node at an address, or tells it something (without a timeout); `None` if nothing
    /// runs there.
    pub(crate) fn ask_path(
        &mut self,
        index: usize,
        kind: &PathKind,
        pick: PathPick,
        timeout: Option<Duration>,
    ) -> Option<usize> {
        let (process, at, mut payload) = self.compose(index, kind.name, timeout.is_some())?;
        let to = Recipient::Path(kind.id(), pick);
        let padding = payload.split_off(8);
        let is_to_all = pick == PathPick::Every;
        if is_to_all {
            // Its copies are looked at one by one.
            self.history.messages.pop();
            self.history.copies += 64;
            self.paths.counts.to_all += 1;
            payload = COPIES.to_le_bytes().to_vec();
        }
        let len = payload.len() + 16 + padding.len();
        let payload = self.of_path(process, payload, len);
        let (open, command) = match timeout {
            Some(timeout) => {
                let micros = u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX / 2);
                self.history.messages[at].timeout = Some(micros);
                let ask = MessageCommand::Ask {
                    to,
                    payload,
                    timeout,
                    chain: AskChain::default(),
                };
                (Open::Ask(at), ask)
            }
            None if is_to_all => (Open::Command("tell all"), MessageCommand::Tell { to, payload }),
            None => (Open::Tell(at), MessageCommand::Tell { to, payload }),
        };
        self.command(process, open, Command::Message(command));
        Some(at)
    }

    /// A payload that instances can read: behind its number who sends it, and its place in the order of all.
    pub(crate) fn of_path(&mut self, sender: ProcessId, number: Vec<u8>, len: usize) -> Payload {
        self.paths.last_sent += 1;
        let mut payload = number;
        payload.extend(u64::from(sender).to_le_bytes());
        payload.extend(self.paths.last_sent.to_le_bytes());
        payload.resize(len.max(payload.len()), 0xA5);
        payload.into()
    }

    /// One message of the random workload.
    pub(crate) fn random_path_message(&mut self, nodes: usize) {
        let index = self.workload.index(nodes);
        let kind = PATHS[self.workload.index(PATHS.len())];
        let timeout = Duration::from_millis(self.workload.between(500, 5_000));
        let number = self.workload.below(4);
        let (pick, is_ask) = match self.workload.below(20) {
            0..11 => (PathPick::Slot(number as u16), self.workload.per_mille(750)),
            11..14 => (PathPick::Hash(number), self.workload.per_mille(750)),
            14..19 => (PathPick::Routed, self.workload.per_mille(750)),
            _ => (PathPick::Every, false),
        };
        // Several at once, so that their order can change.
        for _ in 0..=self.workload.below(4) {
            self.ask_path(index, &kind, pick, is_ask.then_some(timeout));
        }
    }
}
