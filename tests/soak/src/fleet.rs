//! The five nodes of a fault program as their parent sees them: started, told, heard, killed, cut off, asked
//! to leave, started again. What is proved of what they say is each program's: its [`Proof`]. Dropping it
//! ends them all. Spec: none; for programs alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use quorate_demo::screen::Screen;
use quorate_demo::trust::Authority;

use crate::processes::{Listens, Processes};
use crate::program::{NODES, NodeOptions, Options, START_TIMEOUT, Stage};
use crate::stores::Stores;

/// Without a terminal, how things stand is a line at most this often.
const LINE_EVERY: Duration = Duration::from_secs(2);
/// How wide a column of the table is at least.
const CELL_CHARS_MIN: usize = 8;

/// A column of the table: its heading, and which word of a node's `show` it has.
pub(crate) type Column = (&'static str, usize);

/// What a program makes of what its nodes say.
pub(crate) trait Proof: Sized {
    /// How long anything may take that is waited for: several times what the fast timings need for a
    /// fail-over.
    const PATIENCE: Duration;
    /// Nodes may end by themselves at any time, and are started again.
    const MAY_FALL: bool = false;
    /// The table on a terminal.
    const COLUMNS: &'static [Column];

    /// Takes down what a client was told, or anything else that this program's nodes say: a word, and the
    /// rest of the line.
    fn hear(fleet: &mut Fleet<Self>, who: usize, what: &str, rest: &str);

    /// What clients were told so far that counts.
    fn acknowledged(&self) -> u64;

    /// How things stand, where there is no terminal.
    fn line(&self, places: &[Place]) -> String;
}

/// One node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    address: Option<String>,
    /// The words of what it showed of itself last.
    pub(crate) shown: Vec<String>,
    /// What happens to it.
    pub(crate) note: &'static str,
    listens: bool,
    is_ready: bool,
}

impl Place {
    /// A number that it showed.
    pub(crate) fn number(&self, what: usize) -> u64 {
        let word = self.shown.get(what);
        word.and_then(|word| word.parse().ok()).unwrap_or(0)
    }
}

/// See the module.
pub(crate) struct Fleet<P> {
    options: NodeOptions,
    stores: Option<Stores>,
    processes: Processes,
    places: Vec<Place>,
    is_going: bool,
    /// What processes that ended had shown.
    gone: Vec<u64>,
    /// Where each entity was when it answered last.
    pub(crate) homes: BTreeMap<u64, String>,
    /// Nodes that were killed, and processes that were started again because they had ended by themselves.
    pub(crate) kills: u64,
    pub(crate) fallen: u64,
    pub(crate) screen: Screen,
    pub(crate) proof: P,
}

impl<P: Proof> Fleet<P> {
    /// None of them runs.
    pub(crate) fn new(
        options: &Options,
        stage: &Stage,
        node: NodeOptions,
        stores: Option<Stores>,
        proof: P,
    ) -> Result<Self, String> {
        let authority = Authority::new(stage.has_certificates).map_err(|error| error.to_string())?;
        Ok(Self {
            options: node,
            stores,
            processes: Processes::new(NODES, authority),
            places: vec![Place::default(); NODES],
            is_going: false,
            gone: Vec::new(),
            homes: BTreeMap::new(),
            kills: 0,
            fallen: 0,
            screen: Screen::new(options.json, Instant::now(), LINE_EVERY),
            proof,
        })
    }

    /// Starts every node that does not run, and waits until they are Up, which the first may be only together
    /// with the others. The first forms the cluster, the others join through it.
    pub(crate) fn start_all(&mut self) -> Result<(), String> {
        let missing: Vec<usize> = (0..NODES).filter(|index| !self.runs(*index)).collect();
        missing.iter().try_for_each(|index| self.launch(*index))?;
        missing.iter().try_for_each(|index| self.until_up(*index))
    }

    /// Starts a node's next process, where the one before was, and waits until it is Up; its clients go on if
    /// those of others do.
    pub(crate) fn start(&mut self, index: usize) -> Result<(), String> {
        self.launch(index)?;
        self.until_up(index)
    }

    /// It joins through one that runs, or forms the cluster.
    fn launch(&mut self, index: usize) -> Result<(), String> {
        let mut others = (0..NODES).filter(|other| *other != index && self.runs(*other));
        let seed = others.find_map(|other| self.places[other].address.clone());
        let Place {
            address, shown, note, ..
        } = std::mem::take(&mut self.places[index]);
        self.fallen += u64::from(address.is_some() && note.is_empty());
        self.gone.resize(self.gone.len().max(shown.len()), 0);
        for (gone, word) in self.gone.iter_mut().zip(shown) {
            *gone += word.parse().unwrap_or(0);
        }
        let life = self.options.life * 1_000 + self.processes.next_life(index);
        let options = NodeOptions {
            index,
            life: life * NODES as u64 + index as u64,
            bind: address.clone().unwrap_or_else(|| self.options.bind.clone()),
            seed,
            store: self.stores.as_ref().map(|stores| stores.of(index)),
            ..self.options.clone()
        };
        self.places[index].address = address;
        self.processes.start(index, options.arguments())?;
        self.wait_until(START_TIMEOUT, "a node to listen", |fleet, _, _| {
            fleet.places[index].listens.then_some(())
        })
    }

    fn until_up(&mut self, index: usize) -> Result<(), String> {
        self.until(START_TIMEOUT, "a node to be Up", |fleet| {
            fleet.places[index].is_ready
        })?;
        if P::MAY_FALL {
            self.processes.let_end(index);
        }
        if self.is_going {
            self.tell(index, "go");
        }
        Ok(())
    }

    /// Lets the clients go on, and waits until something is acknowledged.
    pub(crate) fn begin(&mut self) -> Result<(), String> {
        self.is_going = true;
        self.tell_all("go");
        self.until_more_is_acknowledged()
    }

    /// Lets the clients finish, and waits until they have.
    pub(crate) fn halt(&mut self) -> Result<(), String> {
        self.is_going = false;
        self.tell_all("halt");
        let mut idle: Vec<bool> = (0..NODES).map(|index| !self.runs(index)).collect();
        self.wait_until(P::PATIENCE, "the clients to finish", |_, who, line| {
            idle[who] |= line == Some("idle") || line.is_none();
            idle.iter().all(|idle| *idle).then_some(())
        })
    }

    pub(crate) fn runs(&self, index: usize) -> bool {
        self.processes.runs(index)
    }

    /// The nodes that run.
    pub(crate) fn running(&self) -> impl Iterator<Item = &Place> {
        let places = self.places.iter().enumerate();
        places.filter_map(|(index, place)| self.runs(index).then_some(place))
    }

    /// Whether nothing happens to a node, or has happened to its process.
    pub(crate) fn is_untouched(&self, index: usize) -> bool {
        self.places[index].note.is_empty()
    }

    pub(crate) fn one_that_runs(&self) -> Result<usize, String> {
        let one = (0..NODES).find(|index| self.runs(*index));
        one.ok_or_else(|| "no node runs".to_owned())
    }

    pub(crate) fn tell(&mut self, index: usize, order: &str) {
        self.processes.tell(index, order);
    }

    pub(crate) fn tell_all(&mut self, order: &str) {
        (0..NODES).for_each(|index| self.tell(index, order));
    }

    /// Tells one node something, and waits until it has said that it is done, in a line of this word alone.
    pub(crate) fn order(&mut self, index: usize, order: &str, done: &str) -> Result<(), String> {
        self.tell(index, order);
        self.wait_until(P::PATIENCE * 2, done, |_, who, line| {
            (who == index && line == Some(done)).then_some(())
        })
    }

    /// Whether writes go to a server.
    pub(crate) fn has_server(&self) -> bool {
        self.stores.as_ref().is_some_and(Stores::is_server)
    }

    /// Something happens to a node: its end is no wonder.
    pub(crate) fn note(&mut self, index: usize, note: &'static str) {
        self.places[index].note = note;
    }

    /// Kills a node (SIGKILL); what it had said until then still counts.
    pub(crate) fn kill(&mut self, index: usize) -> Result<(), String> {
        self.note(index, "killed");
        self.kills += 1;
        if self.processes.kill(index) {
            self.wait_until(P::PATIENCE, "the end of a process", |_, who, line| {
                (who == index && line.is_none()).then_some(())
            })?;
        }
        Ok(())
    }

    /// Kills all nodes before any of them is started again.
    pub(crate) fn kill_all(&mut self) -> Result<(), String> {
        (0..NODES).try_for_each(|index| self.kill(index))
    }

    /// Cuts a node off from the others, until it ends by itself. It goes on reaching its store.
    pub(crate) fn cut_off(&mut self, index: usize) {
        self.goes_by_itself(index, "cut off", "cut");
    }

    /// Has a node leave in good order.
    pub(crate) fn leave(&mut self, index: usize) {
        self.goes_by_itself(index, "leaves", "leave");
    }

    fn goes_by_itself(&mut self, index: usize, note: &'static str, order: &str) {
        self.may_end(index, note);
        self.tell(index, order);
    }

    /// That this node's process ends is no fault from now on.
    pub(crate) fn may_end(&mut self, index: usize, note: &'static str) {
        self.note(index, note);
        self.processes.let_end(index);
    }

    /// Has a process stand still, or go on (SIGSTOP, SIGCONT).
    pub(crate) fn stand_still(&self, index: usize, still: bool) -> Result<(), String> {
        self.processes.stand_still(index, still)
    }

    /// Waits until a node's process has ended by itself.
    pub(crate) fn until_it_ended(&mut self, index: usize) -> Result<(), String> {
        self.until(P::PATIENCE, "the end of a process", |fleet| !fleet.runs(index))?;
        self.note(index, "ended");
        Ok(())
    }

    /// Waits until something more is acknowledged.
    pub(crate) fn until_more_is_acknowledged(&mut self) -> Result<(), String> {
        let told = self.proof.acknowledged();
        self.until(P::PATIENCE, "the next acknowledgement", |fleet| {
            fleet.proof.acknowledged() > told
        })
    }

    /// The entities that were on this node when they answered last.
    pub(crate) fn living_on(&self, index: usize) -> BTreeSet<u64> {
        let address = self.places[index].address.as_ref();
        let there = self.homes.iter().filter(|(_, home)| Some(*home) == address);
        there.map(|(entity, _)| *entity).collect()
    }

    /// Waits until one of these entities has answered from another node than this one, which is not heard any
    /// more; which one, from which.
    pub(crate) fn until_one_answers_elsewhere(
        &mut self,
        index: usize,
        entities: &BTreeSet<u64>,
    ) -> Result<(u64, usize), String> {
        self.homes.retain(|entity, _| !entities.contains(entity));
        self.wait_until(P::PATIENCE, "an answer from a new home", |fleet, _, _| {
            let at = |home| {
                fleet
                    .places
                    .iter()
                    .position(|place| place.address.as_ref() == Some(home))
            };
            let mut homes = entities
                .iter()
                .filter_map(|entity| Some((*entity, at(fleet.homes.get(entity)?)?)));
            homes.find(|(_, node)| *node != index)
        })
    }

    /// The sum of a number that all processes have shown, those that ended included.
    pub(crate) fn shown(&self, what: usize) -> u64 {
        let now: u64 = self.places.iter().map(|place| place.number(what)).sum();
        self.gone.get(what).copied().unwrap_or(0) + now
    }

    /// Listens until it is so; at once if it is.
    pub(crate) fn until(
        &mut self,
        limit: Duration,
        what: &str,
        is_so: impl Fn(&Self) -> bool,
    ) -> Result<(), String> {
        if is_so(self) {
            return Ok(());
        }
        self.wait_until(limit, what, |fleet, _, _| is_so(fleet).then_some(()))
    }

    fn show(&mut self) {
        let (places, proof) = (&self.places, &self.proof);
        self.screen.show(|| table::<P>(places), || proof.line(places));
    }
}

fn table<P: Proof>(places: &[Place]) -> String {
    let width = |heading: &str| heading.len().max(CELL_CHARS_MIN);
    let mut table = String::from("  node");
    for (heading, _) in P::COLUMNS {
        table += &format!("  {heading:>width$}", width = width(heading));
    }
    for (index, place) in places.iter().enumerate() {
        table += &format!("\n  {:<4}", index + 1);
        for (heading, word) in P::COLUMNS {
            let cell = place.shown.get(*word).map_or("", String::as_str);
            table += &format!("  {cell:>width$.width$}", width = width(heading));
        }
        table += &format!("  {}", place.note);
    }
    table + "\n"
}

impl<P: Proof> Listens for Fleet<P> {
    fn listen(&mut self, limit: Duration) -> Result<Option<(usize, Option<String>)>, String> {
        let Some((who, line)) = self.processes.listen(limit)? else {
            return Ok(None);
        };
        match line.as_deref().and_then(|line| line.split_once(' ')) {
            Some(("listens", address)) => {
                self.places[who].address = Some(address.to_owned());
                self.places[who].listens = true;
            }
            Some(("ready", _)) => self.places[who].is_ready = true,
            Some(("show", rest)) => {
                self.places[who].shown = rest.split(' ').map(str::to_owned).collect();
                self.show();
            }
            Some(("note", rest)) => self.screen.say(format_args!("node {}: {rest}", who + 1)),
            Some((what, rest)) => P::hear(self, who, what, rest),
            None => {}
        }
        Ok(Some((who, line)))
    }
}
