//! The five node processes, what happens to them, and what their clients send and are told. Dropping it ends them all.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::ACCOUNTS;
use super::entity::{Flow, Told, Transfer};
use super::ledger::{Ledger, Readings, Settling, Verdict};
use super::node::parsed;
use crate::nodes::{Fleet as _, Nodes};
use crate::processes::Listens;
use crate::program::{NODES, NodeOptions};
use crate::stores::Stores;
use quorate_demo::screen::Screen;
use quorate_demo::trust::Authority;

/// How long anything may take that is waited for: several times what the fast timings need for a fail-over.
const PATIENCE: Duration = Duration::from_secs(90);
/// How long nodes may take to explain themselves when something was waited for in vain.
const EXPLAINED_WITHIN: Duration = Duration::from_secs(5);
/// How long a process that stood still is looked at until it ends.
const AFTER_STILL: Duration = Duration::from_secs(3);

/// What a node shows of itself: entities that ended as stale owners, resent, recovered.
type Shown = [u64; 3];

/// One node.
#[derive(Clone, Debug, Default)]
struct Place {
    shown: Shown,
    note: &'static str,
    /// Its end was brought about.
    is_expected: bool,
}

/// All nodes of a run.
pub(super) struct Fleet {
    nodes: Nodes,
    places: Vec<Place>,
    pub(super) ledger: Ledger,
    readings: Readings,
    /// Where each account was when it answered last.
    homes: BTreeMap<u64, String>,
    /// What processes that ended had shown.
    gone: Shown,
    verdict: Verdict,
    is_going: bool,
    pub(super) screen: Screen,
}

impl Fleet {
    pub(super) fn new(
        (options, stores): (NodeOptions, Stores),
        authority: Authority,
        screen: Screen,
    ) -> Self {
        Self {
            nodes: Nodes::new(options, stores, authority),
            places: vec![Place::default(); NODES],
            ledger: Ledger::default(),
            readings: Readings::new(),
            homes: BTreeMap::new(),
            gone: Shown::default(),
            verdict: Verdict::default(),
            is_going: false,
            screen,
        }
    }

    /// Starts every node that does not run; the first forms the cluster, the others join through it.
    pub(super) fn start_all(&mut self) -> Result<(), String> {
        for index in 0..NODES {
            if !self.nodes.runs(index) {
                self.start(index)?;
            }
        }
        Ok(())
    }

    /// Starts a node's next process and waits until it is Up; its clients transfer if those of others do.
    fn start(&mut self, index: usize) -> Result<(), String> {
        if self.nodes.address(index).is_some() && !self.places[index].is_expected {
            self.verdict.fallen += 1;
        }
        self.start_node(index)?;
        for (gone, shown) in self.gone.iter_mut().zip(self.places[index].shown) {
            *gone += shown;
        }
        self.places[index] = Place::default();
        if self.is_going {
            self.nodes.tell(index, "go");
        }
        Ok(())
    }

    /// Lets the clients transfer, and waits for the first acknowledgement.
    pub(super) fn begin(&mut self) -> Result<(), String> {
        self.is_going = true;
        self.nodes.tell_all("go");
        self.until_more_is_acknowledged()
    }

    /// Lets the clients finish, and sends again what those had sent that were killed: then everything is acknowledged.
    pub(super) fn end(&mut self) -> Result<(), String> {
        self.start_all()?;
        self.is_going = false;
        self.halt(PATIENCE)?;
        let open: Vec<Transfer> = self.ledger.open().copied().collect();
        self.verdict.resolved = open.len() as u64;
        let teller = self.one_that_runs()?;
        for Transfer {
            client,
            number,
            from,
            to,
            amount,
        } in open
        {
            let order = format!("settle {client} {number} {from} {to} {amount}");
            self.nodes.tell(teller, &order);
        }
        if self.ledger.open().len() == 0 {
            return Ok(());
        }
        self.wait_until(PATIENCE, "what was left open", |fleet, _, _| {
            (fleet.ledger.open().len() == 0).then_some(())
        })
    }

    fn one_that_runs(&self) -> Result<usize, String> {
        let one = (0..NODES).find(|index| self.nodes.runs(*index));
        one.ok_or_else(|| "no node runs".to_owned())
    }

    /// What every account says, once no transfer is on its way.
    pub(super) fn read(&mut self) -> Result<Readings, String> {
        let end = Instant::now() + PATIENCE;
        let mut settling = Settling::default();
        loop {
            let reader = self.one_that_runs()?;
            self.readings.clear();
            self.nodes.tell(reader, "read");
            self.wait_until(PATIENCE, "what the accounts say", |_, who, line| {
                (who == reader && line == Some("read")).then_some(())
            })?;
            match settling.look(&self.readings) {
                Ok(true) => return Ok(std::mem::take(&mut self.readings)),
                Ok(false) => {}
                Err(open) if Instant::now() > end => {
                    return Err(format!("{open} transfers are still on their way"));
                }
                Err(_) => {}
            }
        }
    }

    pub(super) fn judge(&self, found: &Readings) -> Verdict {
        let shown =
            |what: usize| self.gone[what] + self.places.iter().map(|place| place.shown[what]).sum::<u64>();
        let Verdict {
            resolved,
            kills,
            cuts,
            stops,
            fallen,
            refused,
            ..
        } = self.verdict;
        Verdict {
            resolved,
            kills,
            cuts,
            stops,
            fallen,
            refused,
            fenced: shown(0),
            resent: shown(1),
            recovered: shown(2),
            ..self.ledger.judge(found)
        }
    }

    /// Kills a node (SIGKILL); what it had said until then still counts.
    pub(super) fn kill(&mut self, index: usize) -> Result<(), String> {
        self.note(index, "killed");
        self.verdict.kills += 1;
        self.kill_node(index)
    }

    fn note(&mut self, index: usize, note: &'static str) {
        self.places[index].note = note;
        self.places[index].is_expected = true;
    }

    /// Cuts a node off from the others until it ends by itself. It goes on reaching its store.
    pub(super) fn cut_off(&mut self, index: usize) -> Result<(), String> {
        self.note(index, "cut off");
        self.verdict.cuts += 1;
        self.nodes.tell(index, "cut");
        self.wait_until(PATIENCE, "the end of a node that is cut off", |fleet, _, _| {
            (!fleet.nodes.runs(index)).then_some(())
        })
    }

    /// Has a process stand still until the others have what it had, then go on (SIGSTOP, SIGCONT). What it was at, it is still at: with a
    /// server a write of it is on its way, and comes there when the account has a new owner.
    pub(super) fn stand_still(&mut self, index: usize) -> Result<(), String> {
        self.note(index, "stands still");
        self.verdict.stops += 1;
        let held = self
            .nodes
            .has_server()
            .then(|| self.hold_a_write(index))
            .transpose()?;
        self.nodes.processes.stand_still(index, true)?;
        let went = match held {
            Some(account) => self.until_they_answer_elsewhere(index, &[account]),
            None => self.until_all_answer_elsewhere(index),
        };
        if went.is_err() {
            self.explain();
        }
        // Whatever came of it, it goes on, and can be ended.
        self.nodes.processes.stand_still(index, false)?;
        if held.is_some() {
            self.nodes.tell(index, "release");
        }
        went?;
        if held.is_some() {
            let refused = self.wait_until(PATIENCE, "what became of a stale write", |_, who, line| {
                let refused = line.filter(|_| who == index)?.strip_prefix("released ")?;
                refused.parse::<u64>().ok()
            })?;
            self.verdict.refused += refused;
        }
        // It ends by itself if the others have removed it; if not, that is no fault.
        self.run_for(AFTER_STILL)
    }

    /// Holds a write of this node up; of which account.
    fn hold_a_write(&mut self, index: usize) -> Result<u64, String> {
        self.nodes.tell(index, "hold");
        let held = self.wait_until(PATIENCE, "a write to be held up", |_, who, line| {
            let account = line.filter(|_| who == index)?.strip_prefix("held ")?;
            account.parse().ok()
        });
        if held.is_err() {
            self.nodes.tell(index, "release");
        }
        held
    }

    /// Waits until one of the accounts that were on this node has answered from another one.
    pub(super) fn until_all_answer_elsewhere(&mut self, index: usize) -> Result<(), String> {
        let address = self.nodes.address(index);
        let there = self.homes.iter().filter(|(_, home)| Some(*home) == address);
        let there: Vec<u64> = there.map(|(account, _)| *account).collect();
        if there.is_empty() {
            return Ok(());
        }
        self.until_they_answer_elsewhere(index, &there)
    }

    /// Waits until one of these accounts has answered from another node than this one, which is not heard any more.
    fn until_they_answer_elsewhere(&mut self, index: usize, accounts: &[u64]) -> Result<(), String> {
        let address = self.nodes.address(index).cloned();
        for account in accounts {
            self.homes.remove(account);
        }
        self.wait_until(PATIENCE, "an account at its new home", |fleet, _, _| {
            let mut homes = accounts.iter().filter_map(|account| fleet.homes.get(account));
            homes.find(|home| Some(*home) != address.as_ref()).map(drop)
        })
    }

    /// Has every node say what it knows of an account whose transfer is open.
    pub(super) fn explain(&mut self) {
        let Some(account) = self.ledger.open().next().map(|transfer| transfer.from) else {
            return;
        };
        self.nodes.tell_all(&format!("explain {account}"));
        // The error that made somebody ask is the one that counts.
        let _ = self.run_for(EXPLAINED_WITHIN);
    }

    /// Waits until a transfer is acknowledged.
    pub(super) fn until_more_is_acknowledged(&mut self) -> Result<(), String> {
        let told = self.ledger.acknowledged;
        self.wait_until(PATIENCE, "the next acknowledgement", |fleet, _, _| {
            (fleet.ledger.acknowledged > told).then_some(())
        })
    }

    /// Takes down what a client or a reader was told.
    fn hear(&mut self, who: usize, what: &str, rest: &str) {
        match what {
            "sent" => {
                if let Some(transfer) = parsed(rest) {
                    self.ledger.sent(transfer);
                }
            }
            "done" => {
                let words: Vec<&str> = rest.split(' ').collect();
                if let [client, number, account, home] = words[..]
                    && let (Ok(client), Ok(number), Ok(account)) =
                        (client.parse(), number.parse(), account.parse())
                {
                    self.ledger.acknowledged(Instant::now(), client, number);
                    self.homes.insert(account, home.to_owned());
                }
            }
            "value" => {
                if let Some((account, told)) = value(rest) {
                    self.readings.insert(account, told);
                }
            }
            "why" => self.screen.say(format_args!("node {}: {rest}", who + 1)),
            "show" => {
                let mut words = rest.split(' ').map(|word| word.parse().unwrap_or(0));
                self.places[who].shown = std::array::from_fn(|_| words.next().unwrap_or(0));
                self.show();
            }
            _ => {}
        }
    }

    fn show(&mut self) {
        let places = &self.places;
        let rows = || {
            let mut table = String::from("  node  stale owners  sent again  recovered\n");
            for (index, place) in places.iter().enumerate() {
                let [fenced, resent, recovered] = place.shown;
                table += &format!(
                    "  {:<4} {fenced:>13} {resent:>11} {recovered:>10}  {}\n",
                    index + 1,
                    place.note
                );
            }
            table
        };
        let (acknowledged, open) = (self.ledger.acknowledged, self.ledger.open().len());
        let line = || {
            format!("{acknowledged} transfers between {ACCOUNTS} accounts are acknowledged, {open} are open")
        };
        self.screen.show(rows, line);
    }
}

/// An account as a reader says it.
fn value(line: &str) -> Option<(u64, Told)> {
    let words: Vec<&str> = line.split(' ').collect();
    let unsigned = |place: usize| words.get(place)?.parse::<u64>().ok();
    let signed = |place: usize| words.get(place)?.parse::<i64>().ok();
    let flow = |place: usize| {
        Some(Flow {
            transfers: unsigned(place)?,
            amount: signed(place + 1)?,
            marks: unsigned(place + 2)?,
        })
    };
    let told = Told {
        balance: signed(1)?,
        out: flow(2)?,
        into: flow(5)?,
        open: unsigned(8)?,
        node: String::new(),
    };
    Some((unsigned(0)?, told))
}

impl crate::nodes::Fleet for Fleet {
    fn nodes(&mut self) -> &mut Nodes {
        &mut self.nodes
    }
}

impl Listens for Fleet {
    fn listen(&mut self, limit: Duration) -> Result<Option<(usize, Option<String>)>, String> {
        let Some((who, line)) = self.nodes.processes.listen(limit)? else {
            return Ok(None);
        };
        if let Some((what, rest)) = line.as_deref().and_then(|line| line.split_once(' ')) {
            self.hear(who, what, rest);
        }
        Ok(Some((who, line)))
    }
}
