//! What happens to the five nodes, and what their clients send and are told.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::ledger::{Ledger, Reading, Readings, Verdict};
use super::node::RANGES;
use super::{ALARMS, COUNTERS};
use crate::fleet::{self, Column, Place, Proof};
use crate::processes::Listens;

/// Between two looks at how many alarms run.
const AGAIN: Duration = Duration::from_millis(200);
/// So long nobody has moved when shards are at rest: several looks at the balance.
const AT_REST: Duration = Duration::from_secs(2);

/// Words of what a node shows: counters that left memory, and incarnations that stopped because a later one
/// owned their log.
const PASSIVATED: usize = 3;
const FENCED: usize = 5;

/// How many ranges of the bucket a node owns.
const OWNED: usize = 6;

/// Where counters and alarms live.
pub(super) type Homes = (BTreeMap<u64, String>, BTreeMap<String, String>);

/// What is proved of the nodes.
#[derive(Default)]
pub(super) struct Changes {
    pub(super) ledger: Ledger,
    readings: Readings,
    /// Counters of which an incarnation found something in the store.
    recovered: BTreeSet<u64>,
    /// Where each alarm is.
    alarms: BTreeMap<String, String>,
    /// Homes that were known when all nodes were killed, how many were others then, and how many alarms ran.
    homes: u64,
    moved: u64,
    running: u64,
}

/// All nodes of a run.
pub(super) type Fleet = fleet::Fleet<Changes>;

impl Proof for Changes {
    const PATIENCE: Duration = Duration::from_secs(60);
    const COLUMNS: &'static [Column] = &[
        ("counters here", 2),
        ("acknowledged", 0),
        ("repeated", 1),
        ("passivated", PASSIVATED),
        ("recovered", 4),
    ];

    fn hear(fleet: &mut Fleet, _: usize, what: &str, rest: &str) {
        let words: Vec<&str> = rest.split(' ').collect();
        let word = |place: usize| words.get(place).copied().unwrap_or_default();
        let number = |place: usize| word(place).parse::<u64>().unwrap_or(0);
        let signed = |place: usize| word(place).parse::<i64>().unwrap_or(0);
        let (counter, proof) = (number(0), &mut fleet.proof);
        match what {
            "sent" => proof.ledger.sent(counter, signed(1)),
            "done" => {
                proof.ledger.acknowledged(Instant::now(), counter);
                proof.recovered.extend((number(1) > 0).then_some(counter));
                fleet.homes.insert(counter, word(2).to_owned());
            }
            "value" => {
                let reading = Reading {
                    value: signed(1),
                    changes: number(2),
                };
                proof.readings.insert(counter, reading);
                proof.recovered.extend((number(3) > 0).then_some(counter));
                fleet.homes.insert(counter, word(4).to_owned());
            }
            "alarm" => {
                proof.alarms.insert(word(0).to_owned(), word(1).to_owned());
            }
            _ => {}
        }
    }

    fn acknowledged(&self) -> u64 {
        self.ledger.counts.acknowledged
    }

    fn line(&self, _: &[Place]) -> String {
        format!(
            "{} commands acknowledged; {} of {COUNTERS} counters came back from the store at least once",
            self.acknowledged(),
            self.recovered.len()
        )
    }
}

impl Fleet {
    /// What every counter says.
    pub(super) fn read(&mut self) -> Result<Readings, String> {
        let reader = self.one_that_runs()?;
        self.proof.readings.clear();
        self.order(reader, "read", "read")?;
        Ok(std::mem::take(&mut self.proof.readings))
    }

    /// Has every alarm run from now on.
    pub(super) fn begin_alarms(&mut self) -> Result<(), String> {
        let one = self.one_that_runs()?;
        self.order(one, "alarms", "alarms")
    }

    /// Waits until all alarms run, asking none of them.
    pub(super) fn until_alarms_run(&mut self) -> Result<(), String> {
        let one = self.one_that_runs()?;
        let end = Instant::now() + Changes::PATIENCE;
        loop {
            self.tell(one, "running");
            let running = self.wait_until(Changes::PATIENCE, "how many alarms run", |_, who, line| {
                let running = line.filter(|_| who == one)?.strip_prefix("running ")?;
                running.parse::<u64>().ok()
            })?;
            self.proof.running = running;
            if running == ALARMS {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(format!("{running} of {ALARMS} alarms run by themselves"));
            }
            self.run_for(AGAIN)?;
        }
    }

    fn find_homes(&mut self) -> Result<Homes, String> {
        self.read()?;
        self.begin_alarms()?;
        Ok((self.homes.clone(), self.proof.alarms.clone()))
    }

    /// Where everybody lives, once nobody moves any more.
    pub(super) fn homes_at_rest(&mut self) -> Result<Homes, String> {
        let end = Instant::now() + Changes::PATIENCE * 2;
        let mut homes = self.find_homes()?;
        while Instant::now() < end {
            self.run_for(AT_REST)?;
            let now = self.find_homes()?;
            if now == homes {
                return Ok(homes);
            }
            homes = now;
        }
        Err("shards do not come to rest".to_owned())
    }

    /// Holds where everybody lives against where they lived.
    pub(super) fn compare(&mut self, (counters, alarms): Homes) -> Result<(), String> {
        let now = self.find_homes()?;
        self.proof.homes = (counters.len() + alarms.len()) as u64;
        let counters = counters
            .iter()
            .filter(|(counter, home)| now.0.get(counter) != Some(home));
        let alarms = alarms
            .iter()
            .filter(|(alarm, home)| now.1.get(*alarm) != Some(home));
        self.proof.moved = (counters.count() + alarms.count()) as u64;
        Ok(())
    }

    pub(super) fn judge(&self, found: &Readings) -> Verdict {
        let proof = &self.proof;
        Verdict {
            fenced: self.fenced(),
            passivated: self.shown(PASSIVATED),
            recovered: proof.recovered.len() as u64,
            homes: proof.homes,
            moved: proof.moved,
            alarms: proof.running,
            ..proof.ledger.judge(found)
        }
    }

    /// Waits until every range of the bucket has three owners, and none moves.
    pub(super) fn until_ranges_are_whole(&mut self) -> Result<(), String> {
        let is_whole = |fleet: &Self| {
            let owned = fleet.running().map(|place| place.number(OWNED));
            owned.sum::<u64>() == 3 * u64::from(RANGES)
        };
        let began = Instant::now();
        loop {
            self.until(Changes::PATIENCE, "every range to have three copies", is_whole)?;
            self.run_for(AT_REST)?;
            if is_whole(self) {
                break;
            }
        }
        let after = began.elapsed().as_secs_f64();
        self.screen
            .say(format_args!("every range has three copies, {after:.1} s later"));
        Ok(())
    }

    /// Incarnations that stopped because a later one owned their log.
    pub(super) fn fenced(&self) -> u64 {
        self.shown(FENCED)
    }

    /// Waits until one of these counters has answered from another node. Says how long it took.
    pub(super) fn until_they_answer_elsewhere(
        &mut self,
        index: usize,
        counters: &BTreeSet<u64>,
    ) -> Result<(), String> {
        let began = Instant::now();
        let (counter, node) = self.until_one_answers_elsewhere(index, counters)?;
        self.screen.say(format_args!(
            "counter {counter} goes on with its value on node {}, {:.1} s later; {} more were there",
            node + 1,
            began.elapsed().as_secs_f64(),
            counters.len().saturating_sub(1)
        ));
        Ok(())
    }
}
