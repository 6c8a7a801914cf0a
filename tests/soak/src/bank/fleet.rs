//! What happens to the five nodes, and what their clients send and are told.

use std::time::{Duration, Instant};

use super::ACCOUNTS;
use super::entity::{Flow, Told, Transfer};
use super::ledger::{Ledger, Readings, Settling, Verdict};
use super::node::parsed;
use crate::fleet::{self, Column, Place, Proof};
use crate::processes::Listens;

/// How long nodes may take to explain themselves when something was waited for in vain.
const EXPLAINED_WITHIN: Duration = Duration::from_secs(5);
/// How long a process that stood still is looked at until it ends.
const AFTER_STILL: Duration = Duration::from_secs(3);
/// Words of what a node shows: entities that ended as stale owners, messages sent again, entities recovered.
const FENCED: usize = 0;
const RESENT: usize = 1;
const RECOVERED: usize = 2;

/// What is proved of them.
#[derive(Default)]
pub(super) struct Transfers {
    pub(super) ledger: Ledger,
    readings: Readings,
    resolved: u64,
    cuts: u64,
    stops: u64,
    refused: u64,
}

/// All nodes of a run.
pub(super) type Fleet = fleet::Fleet<Transfers>;

impl Proof for Transfers {
    const PATIENCE: Duration = Duration::from_secs(90);
    const MAY_FALL: bool = true;
    const COLUMNS: &'static [Column] = &[
        ("stale owners", FENCED),
        ("sent again", RESENT),
        ("recovered", RECOVERED),
    ];

    fn hear(fleet: &mut Fleet, _: usize, what: &str, rest: &str) {
        let proof = &mut fleet.proof;
        match what {
            "sent" => {
                if let Some(transfer) = parsed(rest) {
                    proof.ledger.sent(transfer);
                }
            }
            "done" => {
                let words: Vec<&str> = rest.split(' ').collect();
                if let [client, number, account, home] = words[..]
                    && let (Ok(client), Ok(number), Ok(account)) =
                        (client.parse(), number.parse(), account.parse())
                {
                    proof.ledger.acknowledged(Instant::now(), client, number);
                    fleet.homes.insert(account, home.to_owned());
                }
            }
            "value" => proof.readings.extend(value(rest)),
            _ => {}
        }
    }

    fn acknowledged(&self) -> u64 {
        self.ledger.counts.acknowledged
    }

    fn line(&self, _: &[Place]) -> String {
        format!(
            "{} transfers between {ACCOUNTS} accounts are acknowledged, {} are open",
            self.acknowledged(),
            self.ledger.open().len()
        )
    }
}

impl Fleet {
    /// Lets the clients finish, and sends again what those had sent that were killed: then everything is
    /// acknowledged.
    pub(super) fn end(&mut self) -> Result<(), String> {
        self.start_all()?;
        self.halt()?;
        let open: Vec<Transfer> = self.proof.ledger.open().copied().collect();
        self.proof.resolved = open.len() as u64;
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
            self.tell(teller, &order);
        }
        self.until(Transfers::PATIENCE, "what was left open", |fleet| {
            fleet.proof.ledger.open().len() == 0
        })
    }

    /// What every account says, once no transfer is on its way.
    pub(super) fn read(&mut self) -> Result<Readings, String> {
        let end = Instant::now() + Transfers::PATIENCE;
        let mut settling = Settling::default();
        loop {
            let reader = self.one_that_runs()?;
            self.proof.readings.clear();
            self.order(reader, "read", "read")?;
            match settling.look(&self.proof.readings) {
                Ok(true) => return Ok(std::mem::take(&mut self.proof.readings)),
                Ok(false) => {}
                Err(open) if Instant::now() > end => {
                    return Err(format!("{open} transfers are still on their way"));
                }
                Err(_) => {}
            }
        }
    }

    pub(super) fn judge(&self, found: &Readings) -> Verdict {
        let Transfers {
            resolved,
            cuts,
            stops,
            refused,
            ..
        } = self.proof;
        Verdict {
            resolved,
            kills: self.kills,
            cuts,
            stops,
            fallen: self.fallen,
            refused,
            fenced: self.shown(FENCED),
            resent: self.shown(RESENT),
            recovered: self.shown(RECOVERED),
            ..self.proof.ledger.judge(found)
        }
    }

    /// Cuts a node off from the others until it ends by itself.
    pub(super) fn cut_off_until_it_ends(&mut self, index: usize) -> Result<(), String> {
        self.proof.cuts += 1;
        self.cut_off(index);
        self.until_it_ended(index)
    }

    /// Has a process stand still until the others have what it had, then go on (SIGSTOP, SIGCONT). What it
    /// was at, it is still at: with a server a write of it is on its way, and comes there when the account
    /// has a new owner.
    pub(super) fn stands_still(&mut self, index: usize) -> Result<(), String> {
        self.note(index, "stands still");
        self.proof.stops += 1;
        let held = self.has_server().then(|| self.hold_a_write(index)).transpose()?;
        self.stand_still(index, true)?;
        let went = match held {
            Some(account) => self
                .until_one_answers_elsewhere(index, &[account].into())
                .map(drop),
            None => self.until_all_answer_elsewhere(index),
        };
        if went.is_err() {
            self.explain();
        }
        // Whatever came of it, it goes on, and can be ended.
        self.stand_still(index, false)?;
        if held.is_some() {
            self.tell(index, "release");
        }
        went?;
        if held.is_some() {
            self.proof.refused += self.number_of(index, "released ", "what became of a stale write")?;
        }
        // It ends by itself if the others have removed it; if not, that is no fault.
        self.run_for(AFTER_STILL)
    }

    /// Holds a write of this node up; of which account.
    fn hold_a_write(&mut self, index: usize) -> Result<u64, String> {
        self.tell(index, "hold");
        let held = self.number_of(index, "held ", "a write to be held up");
        if held.is_err() {
            self.tell(index, "release");
        }
        held
    }

    /// The number that a node says behind a word.
    fn number_of(&mut self, index: usize, word: &str, what: &str) -> Result<u64, String> {
        self.wait_until(Transfers::PATIENCE, what, |_, who, line| {
            let number = line.filter(|_| who == index)?.strip_prefix(word)?;
            number.parse().ok()
        })
    }

    /// Waits until one of the accounts that were on this node has answered from another one.
    pub(super) fn until_all_answer_elsewhere(&mut self, index: usize) -> Result<(), String> {
        let there = self.living_on(index);
        if there.is_empty() {
            return Ok(());
        }
        self.until_one_answers_elsewhere(index, &there).map(drop)
    }

    /// Has every node say what it knows of an account whose transfer is open.
    pub(super) fn explain(&mut self) {
        let Some(account) = self.proof.ledger.open().next().map(|transfer| transfer.from) else {
            return;
        };
        self.tell_all(&format!("explain {account}"));
        // The error that made somebody ask is the one that counts.
        let _ = self.run_for(EXPLAINED_WITHIN);
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
