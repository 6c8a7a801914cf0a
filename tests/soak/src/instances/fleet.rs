//! What happens to the five nodes, and what they say of messages, instances and the table of paths.

use std::time::Duration;

use super::ledger::{Key, Ledger};
use super::{PATHS, SLOTS};
use crate::fleet::{self, Column, Place, Proof};
use crate::program::NODES;
use quorate_driver::Token;

/// What is proved of them, and what each node said last of the table.
#[derive(Default)]
pub(super) struct Messages {
    pub(super) ledger: Ledger,
    tables: [Table; NODES],
}

/// How a node sees the paths.
#[derive(Default)]
struct Table {
    /// Slots that have a host and do not move.
    settled: usize,
    address: String,
    leader: String,
}

/// All nodes of a run.
pub(super) type Fleet = fleet::Fleet<Messages>;

impl Proof for Messages {
    const PATIENCE: Duration = Duration::from_secs(60);
    const COLUMNS: &'static [Column] = &[("answered", 0), ("not answered", 1), ("instances", 2)];

    fn hear(fleet: &mut Fleet, who: usize, what: &str, rest: &str) {
        let messages = &mut fleet.proof;
        if what == "table" {
            messages.table(who, rest);
        } else if let Some(said) = messages.ledger_hears(who, what, rest) {
            fleet.screen.say(format_args!("node {}: {said}", who + 1));
        }
    }

    fn acknowledged(&self) -> u64 {
        self.ledger.handled()
    }

    fn line(&self, _: &[Place]) -> String {
        let (sent, handled) = (self.ledger.sent(), self.ledger.handled());
        format!("{sent} messages sent, {handled} handled")
    }
}

impl Messages {
    fn table(&mut self, who: usize, rest: &str) {
        let mut words = rest.split(' ');
        let settled = words.next().and_then(|word| word.parse().ok());
        let mut word = || words.next().unwrap_or_default().to_owned();
        self.tables[who] = Table {
            settled: settled.unwrap_or_default(),
            address: word(),
            leader: word(),
        };
    }

    /// What is worth a line of its own.
    fn ledger_hears(&mut self, who: usize, what: &str, rest: &str) -> Option<String> {
        let mut words = rest.split(' ').map(str::parse::<u64>);
        let mut next = || words.next()?.ok();
        let path = usize::try_from(next()?).ok().filter(|path| *path < PATHS.len())?;
        let ledger = &mut self.ledger;
        match what {
            "sent" => ledger.on_sent(who, key(path, &mut next)?, next()?),
            "refused" => ledger.on_refused(key(path, next)?),
            "failed" => ledger.on_failed(key(path, next)?),
            "did" | "start" | "end" => {
                let instance = (path, next()?, Token::new(next()?, next()?));
                let (at, (_, slot, token)) = (next()?, instance);
                match what {
                    "did" => {
                        ledger.on_handled(instance, at, key(path, next)?);
                        return None;
                    }
                    "start" => ledger.on_start(who, instance, at, next()?),
                    _ => ledger.on_end(instance, at, next()?),
                }
                return Some(format!("{}#{slot}@{token} {what}s", PATHS[path].name));
            }
            _ => {}
        }
        None
    }
}

/// Which message.
fn key(path: usize, mut next: impl FnMut() -> Option<u64>) -> Option<Key> {
    Some((path, next()?, next()?, next()?))
}

impl Fleet {
    /// Waits until every node that runs knows a host of every slot, no slot moves, and all their instances
    /// run.
    pub(super) fn until_settled(&mut self) -> Result<(), String> {
        for table in &mut self.proof.tables {
            table.settled = 0;
        }
        self.until(Messages::PATIENCE, "every slot to have its instance", |fleet| {
            let mut tables = fleet.proof.tables.iter().enumerate();
            let settled = tables.all(|(node, table)| !fleet.runs(node) || table.settled == SLOTS);
            settled && fleet.proof.ledger.running() == SLOTS
        })
    }

    pub(super) fn leader(&self) -> Result<usize, String> {
        let tables = &self.proof.tables;
        let leader = &tables[self.one_that_runs()?].leader;
        let found = tables.iter().position(|table| table.address == *leader);
        found.ok_or_else(|| "no leader".to_owned())
    }

    pub(super) fn busiest_but_the_leader(&self) -> Result<usize, String> {
        let leader = self.leader()?;
        let others = (0..NODES).filter(|node| *node != leader);
        let busiest = others.max_by_key(|node| self.proof.ledger.running_on(*node));
        busiest.ok_or_else(|| "no node runs".to_owned())
    }

    /// A node that hosts no instance of a path: the leader, if it is one.
    pub(super) fn place_for(&self, path: usize) -> Result<usize, String> {
        let leader = self.leader()?;
        let mut nodes = std::iter::once(leader).chain(0..NODES);
        let free = nodes.find(|node| !self.proof.ledger.runs_on(path, *node));
        free.ok_or_else(|| "every node hosts it".to_owned())
    }

    /// Has the first slot of a path moved, and waits until its instance has started there.
    pub(super) fn move_slot(&mut self, path: usize, to: usize) -> Result<(), String> {
        let address = self.proof.tables[to].address.clone();
        let teller = self.one_that_runs()?;
        self.order(teller, &format!("move {path} {address}"), "planned")?;
        self.until(Messages::PATIENCE, "the slot to be there", |fleet| {
            fleet.proof.ledger.runs_on(path, to)
        })
    }
}
