//! What happens to the five nodes, and what they say of messages and of the table of paths.

use std::time::Duration;

use super::SLOTS;
use super::ledger::{Handled, Key, Ledger};
use crate::fleet::{self, Column, Place, Proof};
use crate::processes::Listens as _;
use crate::program::NODES;

/// What is proved of them, and what each node said last of the table.
#[derive(Default)]
pub(super) struct Messages {
    pub(super) ledger: Ledger,
    tables: [Table; NODES],
}

/// How a node sees the path.
#[derive(Default)]
struct Table {
    /// Slots that have a host and do not move.
    settled: usize,
    address: String,
    hosts: Vec<String>,
}

/// All nodes of a run.
pub(super) type Fleet = fleet::Fleet<Messages>;

impl Proof for Messages {
    const PATIENCE: Duration = Duration::from_secs(90);
    const COLUMNS: &'static [Column] = &[("kept", 0), ("not kept", 1), ("instances", 2)];

    fn hear(fleet: &mut Fleet, who: usize, what: &str, rest: &str) {
        let messages = &mut fleet.proof;
        if what == "table" {
            messages.tables[who] = Table::of(rest);
        } else if messages.message(what, rest).is_none() {
            fleet.screen.say(format_args!("node {}: {what} {rest}", who + 1));
        }
    }

    fn acknowledged(&self) -> u64 {
        self.ledger.kept
    }

    fn line(&self, _: &[Place]) -> String {
        format!(
            "{} messages are kept, {} of them not handled yet",
            self.ledger.kept, self.ledger.open
        )
    }
}

impl Table {
    fn of(said: &str) -> Self {
        let mut words = said.split(' ');
        let settled = words.next().and_then(|word| word.parse().ok());
        Self {
            settled: settled.unwrap_or_default(),
            address: words.next().unwrap_or_default().to_owned(),
            hosts: words.map(str::to_owned).collect(),
        }
    }
}

impl Messages {
    /// Takes down what is said of a message; `None` if that is nothing known.
    fn message(&mut self, what: &str, rest: &str) -> Option<()> {
        let mut words = rest.split(' ').map(str::parse::<u64>);
        let mut next = || words.next()?.ok();
        let key: Key = (next()?, next()?, next()?);
        match what {
            "sent" => self.ledger.on_sent(key),
            "kept" => self.ledger.on_kept(key),
            "refused" => self.ledger.on_refused(key),
            "did" => {
                let (at, number, repeated) = (next()?, next()?, next()?);
                let is_repeated = repeated == 1;
                self.ledger.on_handled(
                    key,
                    Handled {
                        at,
                        number,
                        is_repeated,
                    },
                );
            }
            _ => return None,
        }
        Some(())
    }
}

impl Fleet {
    /// Waits until every node that runs knows a host of every slot, and no slot moves.
    pub(super) fn until_settled(&mut self) -> Result<(), String> {
        for table in &mut self.proof.tables {
            table.settled = 0;
        }
        self.until(Messages::PATIENCE, "every slot to have its instance", |fleet| {
            let mut tables = fleet.proof.tables.iter().enumerate();
            tables.all(|(node, table)| !fleet.runs(node) || table.settled == SLOTS)
        })
    }

    /// Which node has a slot, and one that has none.
    pub(super) fn places_for(&self, slot: usize) -> Result<(usize, usize), String> {
        let tables = &self.proof.tables;
        let hosts = &tables[self.one_that_runs()?].hosts;
        let is = |node: &usize, host: Option<&String>| host == Some(&tables[*node].address);
        let from = (0..NODES).find(|node| is(node, hosts.get(slot)));
        let from = from.ok_or_else(|| format!("slot {slot} has no host"))?;
        let mut others = (1..NODES).map(|step| (from + step) % NODES);
        let to = others.find(|node| !hosts.iter().any(|host| is(node, Some(host))));
        Ok((from, to.ok_or("every node has a slot")?))
    }

    /// Has a slot moved, and waits until that is planned.
    pub(super) fn move_slot(&mut self, slot: usize, to: usize) -> Result<(), String> {
        let address = self.proof.tables[to].address.clone();
        self.order(to, &format!("move {slot} {address}"), "planned")
    }

    /// Waits until everything that was kept is handled, as long as that goes on.
    pub(super) fn until_all_is_handled(&mut self) -> Result<(), String> {
        let mut last = self.proof.ledger.open;
        while last > 0 {
            self.wait_until(
                Messages::PATIENCE,
                "what was kept to be handled",
                |fleet, _, _| (fleet.proof.ledger.open < last).then_some(()),
            )?;
            last = self.proof.ledger.open;
        }
        Ok(())
    }
}
