//! The five node processes, and what their clients send and are told. Dropping it ends them all.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::time::{Duration, Instant};

use super::ledger::{Ledger, Reading, Readings, Verdict};
use super::{ALARMS, COUNTERS};
use crate::processes::{Listens, Processes};
use crate::program::{NODES, NodeOptions, START_TIMEOUT};
use crate::stores::Stores;
use quorate_demo::screen::Screen;
use quorate_demo::trust::Authority;

/// How long anything may take that is waited for: several times what the fast timings need for a fail-over.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks at how many alarms run.
const AGAIN: Duration = Duration::from_millis(200);
/// So long nobody has moved when shards are at rest: several looks at the balance.
const AT_REST: Duration = Duration::from_secs(2);

/// What a node shows of itself: acknowledged, repeated, counters here, passivated, recovered, fenced.
type Shown = [u64; 6];
const PASSIVATED: usize = 3;
const FENCED: usize = 5;

/// One node.
#[derive(Clone, Debug, Default)]
struct Place {
    address: Option<String>,
    shown: Shown,
    note: &'static str,
    listens: bool,
    is_ready: bool,
}

/// Where counters and alarms live.
pub(super) type Homes = (BTreeMap<u64, String>, BTreeMap<String, String>);

/// What became of them.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    homes: u64,
    moved: u64,
    alarms: u64,
}

/// All nodes of a run.
pub(super) struct Fleet {
    options: NodeOptions,
    stores: Stores,
    processes: Processes,
    places: Vec<Place>,
    pub(super) ledger: Ledger,
    readings: Readings,
    /// Where each counter was when it answered last.
    homes: BTreeMap<u64, String>,
    /// Counters of which an incarnation found something in the store.
    recovered: BTreeSet<u64>,
    /// Where each alarm is.
    alarms: BTreeMap<String, String>,
    /// What was found of homes and alarms after all nodes were killed.
    found: Found,
    /// What processes that ended had shown.
    gone: Shown,
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
            options,
            stores,
            processes: Processes::new(NODES, authority),
            places: vec![Place::default(); NODES],
            ledger: Ledger::default(),
            readings: Readings::new(),
            homes: BTreeMap::new(),
            alarms: BTreeMap::new(),
            found: Found::default(),
            recovered: BTreeSet::new(),
            gone: Shown::default(),
            is_going: false,
            screen,
        }
    }

    /// Starts every node that does not run, and waits until they are Up, which the first are only together with the others. The first forms
    /// the cluster, the others join through it.
    pub(super) fn start_all(&mut self) -> Result<(), String> {
        let missing: Vec<usize> = (0..NODES).filter(|index| !self.processes.runs(*index)).collect();
        for index in &missing {
            self.spawn(*index)?;
            self.wait_until(START_TIMEOUT, "a node to listen", |fleet, _, _| {
                fleet.places[*index].listens.then_some(())
            })?;
        }
        for index in missing {
            self.until_ready(index)?;
        }
        Ok(())
    }

    /// Starts a node's next process and waits until it is Up; its clients ask if those of others do.
    pub(super) fn start(&mut self, index: usize) -> Result<(), String> {
        self.spawn(index)?;
        self.until_ready(index)
    }

    fn spawn(&mut self, index: usize) -> Result<(), String> {
        let others = (0..NODES).filter(|other| *other != index && self.processes.runs(*other));
        let seed = others
            .filter_map(|other| self.places[other].address.clone())
            .next();
        let address = self.places[index].address.clone();
        let options = NodeOptions {
            index,
            life: self.options.life * 1_000 + self.processes.next_life(index),
            bind: address.clone().unwrap_or_else(|| self.options.bind.clone()),
            seed,
            store: Some(self.stores.of(index)),
            ..self.options.clone()
        };
        for (gone, shown) in self.gone.iter_mut().zip(self.places[index].shown) {
            *gone += shown;
        }
        self.places[index] = Place {
            address,
            ..Place::default()
        };
        let arguments: Vec<OsString> = options.arguments();
        self.processes.start(index, arguments)
    }

    fn until_ready(&mut self, index: usize) -> Result<(), String> {
        if !self.places[index].is_ready {
            self.wait_until(START_TIMEOUT, "a node to be Up", |fleet, _, _| {
                fleet.places[index].is_ready.then_some(())
            })?;
        }
        if self.is_going {
            self.processes.tell(index, "go");
        }
        Ok(())
    }

    /// Lets the clients ask, and waits for the first answer.
    pub(super) fn begin(&mut self) -> Result<(), String> {
        self.is_going = true;
        self.tell_all("go");
        self.until_more_is_acknowledged()
    }

    /// Lets the clients finish.
    pub(super) fn end(&mut self) -> Result<(), String> {
        self.is_going = false;
        self.tell_all("halt");
        let mut idle = [false; NODES];
        self.wait_until(PATIENCE, "the last commands", |fleet, who, line| {
            idle[who] |= line == Some("idle");
            let all = (0..NODES).all(|node| idle[node] || !fleet.processes.runs(node));
            all.then_some(())
        })
    }

    /// What every counter says.
    pub(super) fn read(&mut self) -> Result<Readings, String> {
        let reader = self.one_that_runs()?;
        self.readings.clear();
        self.processes.tell(reader, "read");
        self.wait_until(PATIENCE * 2, "what the counters say", |_, who, line| {
            (who == reader && line == Some("read")).then_some(())
        })?;
        Ok(std::mem::take(&mut self.readings))
    }

    fn one_that_runs(&self) -> Result<usize, String> {
        let one = (0..NODES).find(|index| self.processes.runs(*index));
        one.ok_or_else(|| "no node runs".to_owned())
    }

    /// Has every alarm run from now on.
    pub(super) fn begin_alarms(&mut self) -> Result<(), String> {
        let one = self.one_that_runs()?;
        self.processes.tell(one, "alarms");
        self.wait_until(PATIENCE * 2, "the alarms", |_, who, line| {
            (who == one && line == Some("alarms")).then_some(())
        })
    }

    /// Waits until all alarms run, asking none of them.
    pub(super) fn until_alarms_run(&mut self) -> Result<(), String> {
        let one = self.one_that_runs()?;
        let end = Instant::now() + PATIENCE;
        loop {
            self.processes.tell(one, "running");
            let running = self.wait_until(PATIENCE, "how many alarms run", |_, who, line| {
                let running = line.filter(|_| who == one)?.strip_prefix("running ")?;
                running.parse::<u64>().ok()
            })?;
            self.found.alarms = running;
            if running == ALARMS {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(format!("{running} of {ALARMS} alarms run by themselves"));
            }
            self.run_for(AGAIN)?;
        }
    }

    fn homes(&mut self) -> Result<Homes, String> {
        self.read()?;
        self.begin_alarms()?;
        Ok((self.homes.clone(), self.alarms.clone()))
    }

    /// Where everybody lives, once nobody moves any more.
    pub(super) fn homes_at_rest(&mut self) -> Result<Homes, String> {
        let end = Instant::now() + PATIENCE * 2;
        let mut homes = self.homes()?;
        while Instant::now() < end {
            self.run_for(AT_REST)?;
            let now = self.homes()?;
            if now == homes {
                return Ok(homes);
            }
            homes = now;
        }
        Err("shards do not come to rest".to_owned())
    }

    /// Holds where everybody lives against where they lived.
    pub(super) fn compare(&mut self, (counters, alarms): Homes) -> Result<(), String> {
        let now = self.homes()?;
        self.found.homes = (counters.len() + alarms.len()) as u64;
        let counters = counters
            .iter()
            .filter(|(counter, home)| now.0.get(counter) != Some(home));
        let alarms = alarms
            .iter()
            .filter(|(alarm, home)| now.1.get(*alarm) != Some(home));
        self.found.moved = (counters.count() + alarms.count()) as u64;
        Ok(())
    }

    pub(super) fn judge(&self, found: &Readings) -> Verdict {
        let shown =
            |what: usize| self.gone[what] + self.places.iter().map(|place| place.shown[what]).sum::<u64>();
        Verdict {
            passivated: shown(PASSIVATED),
            recovered: self.recovered.len() as u64,
            homes: self.found.homes,
            moved: self.found.moved,
            alarms: self.found.alarms,
            ..self.ledger.judge(found)
        }
    }

    /// Incarnations that stopped because a later one owned their log.
    pub(super) fn fenced(&self) -> u64 {
        self.gone[FENCED] + self.places.iter().map(|place| place.shown[FENCED]).sum::<u64>()
    }

    fn tell_all(&mut self, order: &str) {
        (0..NODES).for_each(|index| self.processes.tell(index, order));
    }

    /// Kills a node (SIGKILL); what it had said until then still counts.
    pub(super) fn kill(&mut self, index: usize) -> Result<(), String> {
        self.places[index].note = "killed";
        if self.processes.kill(index) {
            self.wait_until(PATIENCE, "the end of a process", |_, who, line| {
                (who == index && line.is_none()).then_some(())
            })?;
        }
        Ok(())
    }

    /// Cuts a node off from the others.
    pub(super) fn cut_off(&mut self, index: usize) {
        self.places[index].note = "cut off";
        self.processes.let_end(index);
        self.processes.tell(index, "cut");
    }

    /// Has a node leave in good order.
    pub(super) fn leave(&mut self, index: usize) {
        self.places[index].note = "leaves";
        self.processes.let_end(index);
        self.processes.tell(index, "leave");
    }

    /// The counters that were on this node when they answered last.
    pub(super) fn living_on(&self, index: usize) -> BTreeSet<u64> {
        let address = self.places[index].address.as_deref();
        let here = self
            .homes
            .iter()
            .filter(|(_, home)| Some(home.as_str()) == address);
        here.map(|(counter, _)| *counter).collect()
    }

    /// Waits until one of these counters has answered from another node. Says how long it took.
    pub(super) fn until_they_answer_elsewhere(
        &mut self,
        index: usize,
        counters: &BTreeSet<u64>,
    ) -> Result<(), String> {
        let began = Instant::now();
        let address = self.places[index].address.clone();
        let (counter, home) = self.wait_until(PATIENCE, "a counter at its new home", |fleet, _, _| {
            counters.iter().find_map(|counter| {
                let home = fleet.homes.get(counter)?;
                (Some(home) != address.as_ref()).then(|| (*counter, home.clone()))
            })
        })?;
        let node = self
            .places
            .iter()
            .position(|place| place.address.as_ref() == Some(&home));
        self.screen.say(format_args!(
            "counter {counter} goes on with its value on node {}, {:.1} s later; {} more were there",
            node.map_or(0, |node| node + 1),
            began.elapsed().as_secs_f64(),
            counters.len().saturating_sub(1)
        ));
        Ok(())
    }

    /// Waits until a command is acknowledged.
    pub(super) fn until_more_is_acknowledged(&mut self) -> Result<(), String> {
        let told = self.ledger.acknowledged;
        self.wait_until(PATIENCE, "the next answer", |fleet, _, _| {
            (fleet.ledger.acknowledged > told).then_some(())
        })
    }

    /// Waits until a node's process has ended by itself.
    pub(super) fn until_it_ended(&mut self, index: usize) -> Result<(), String> {
        let has_ended = |fleet: &Self| !fleet.processes.runs(index);
        if !has_ended(self) {
            self.wait_until(PATIENCE, "the end of a process", |fleet, _, _| {
                has_ended(fleet).then_some(())
            })?;
        }
        self.places[index].note = "ended";
        Ok(())
    }

    /// Takes down what a client or a reader was told.
    fn hear(&mut self, who: usize, what: &str, rest: &str) {
        let words: Vec<&str> = rest.split(' ').collect();
        let number = |place: usize| {
            words
                .get(place)
                .and_then(|word| word.parse::<u64>().ok())
                .unwrap_or(0)
        };
        let signed = |place: usize| {
            words
                .get(place)
                .and_then(|word| word.parse::<i64>().ok())
                .unwrap_or(0)
        };
        let counter = number(0);
        match what {
            "sent" => self.ledger.sent(counter, signed(1)),
            "done" => {
                self.ledger.acknowledged(Instant::now(), counter);
                if number(1) > 0 {
                    self.recovered.insert(counter);
                }
                let home = words.get(2).copied().unwrap_or_default();
                self.homes.insert(counter, home.to_owned());
            }
            "value" => {
                let reading = Reading {
                    value: signed(1),
                    changes: number(2),
                };
                if number(3) > 0 {
                    self.recovered.insert(counter);
                }
                self.readings.insert(counter, reading);
                let home = words.get(4).copied().unwrap_or_default();
                self.homes.insert(counter, home.to_owned());
            }
            "listens" => {
                self.places[who].address = Some(rest.to_owned());
                self.places[who].listens = true;
            }
            "ready" => self.places[who].is_ready = true,
            "alarm" => {
                if let [alarm, home] = words[..] {
                    self.alarms.insert(alarm.to_owned(), home.to_owned());
                }
            }
            "show" => {
                self.places[who].shown = std::array::from_fn(number);
                self.show();
            }
            _ => {}
        }
    }

    fn show(&mut self) {
        let places = &self.places;
        let rows = || {
            let mut table =
                String::from("  node  counters here  acknowledged  repeated  passivated  recovered\n");
            for (index, place) in places.iter().enumerate() {
                let [acknowledged, repeated, here, passivated, recovered, _] = place.shown;
                table += &format!(
                    "  {:<4} {here:>14} {acknowledged:>13} {repeated:>9} {passivated:>11} {recovered:>10}  {}\n",
                    index + 1,
                    place.note
                );
            }
            table
        };
        let (ledger, recovered) = (&self.ledger, self.recovered.len());
        let line = || {
            format!(
                "{} commands acknowledged; {recovered} of {COUNTERS} counters came back from the store at least once",
                ledger.acknowledged
            )
        };
        self.screen.show(rows, line);
    }
}

impl Listens for Fleet {
    fn listen(&mut self, limit: Duration) -> Result<Option<(usize, Option<String>)>, String> {
        let Some((who, line)) = self.processes.listen(limit)? else {
            return Ok(None);
        };
        if let Some((what, rest)) = line.as_deref().and_then(|line| line.split_once(' ')) {
            self.hear(who, what, rest);
        }
        Ok(Some((who, line)))
    }
}
