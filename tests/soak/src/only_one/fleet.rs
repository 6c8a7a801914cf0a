//! The five node processes, the book that their instances write into, and what clients were told. The way from an instance to the book
//! leads through here, so that a write can be held up on it, as a slow network would. Dropping it ends them all.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::book::{Book, Reply, Request};
use super::ledger::{Ledger, Verdict};
use crate::processes::{Listens, Processes};
use crate::program::{NODES, NodeOptions, READY, START_TIMEOUT};
use crate::stores;
use quorate_demo::screen::Screen;
use quorate_demo::trust::Authority;

/// How long anything may take that is waited for: several times what the fast timings need for a fail-over.
const PATIENCE: Duration = Duration::from_secs(60);

/// One node.
#[derive(Clone, Debug, Default)]
struct Place {
    address: Option<String>,
    /// As it shows itself: acknowledged, repeated, the token of what runs there.
    shown: [String; 3],
    note: &'static str,
}

/// All nodes of a run.
pub(super) struct Fleet {
    options: NodeOptions,
    stores: Option<PathBuf>,
    processes: Processes,
    places: Vec<Place>,
    book: Book,
    ledger: Ledger,
    /// A node whose requests to the book are on their way for as long as it takes, and those requests.
    held: Option<(usize, Vec<(String, Request)>)>,
    pub(super) screen: Screen,
}

impl Fleet {
    pub(super) fn new(
        (options, stores): (NodeOptions, Option<PathBuf>),
        authority: Authority,
        mut book: Book,
        mut screen: Screen,
    ) -> Result<Self, String> {
        let before = book.invoices()?;
        if let Some(last) = before.last() {
            let (number, token) = (last.number, last.token);
            screen.say(format_args!(
                "the book has {number} invoices, the last by {token}"
            ));
        }
        Ok(Self {
            options,
            stores,
            processes: Processes::new(NODES, authority),
            places: vec![Place::default(); NODES],
            book,
            ledger: Ledger::default(),
            held: None,
            screen,
        })
    }

    /// Starts every node; the first forms the cluster, the others join through it, and are younger.
    pub(super) fn start_all(&mut self) -> Result<(), String> {
        (0..NODES).try_for_each(|index| self.start(index))
    }

    /// Starts a node's next process and waits until it is Up; its clients ask if those of others do.
    pub(super) fn start(&mut self, index: usize) -> Result<(), String> {
        let others = (0..NODES).filter(|other| *other != index && self.processes.runs(*other));
        let seed = others
            .filter_map(|other| self.places[other].address.clone())
            .next();
        let bind = self.places[index].address.clone();
        let options = NodeOptions {
            index,
            life: self.options.life * 1_000 + self.processes.next_life(index),
            bind: bind.unwrap_or_else(|| self.options.bind.clone()),
            seed,
            store: self
                .stores
                .as_deref()
                .map(|folder| stores::file_of(folder, index)),
            ..self.options.clone()
        };
        self.processes.start(index, options.arguments())?;
        let address = self.wait_until(START_TIMEOUT, "a node to be Up", |_, who, line| {
            let address = line.filter(|_| who == index)?.strip_prefix(READY)?;
            Some(address.trim().to_owned())
        })?;
        self.places[index] = Place {
            address: Some(address),
            ..Place::default()
        };
        if self.ledger.acknowledged > 0 {
            self.processes.tell(index, "go");
        }
        Ok(())
    }

    /// Lets the clients ask, and waits for the first number.
    pub(super) fn begin(&mut self) -> Result<(), String> {
        self.tell_all("go");
        self.wait_until(PATIENCE, "the first invoice", |fleet, _, _| {
            (fleet.ledger.acknowledged > 0).then_some(())
        })
    }

    /// Lets the clients finish.
    pub(super) fn end(&mut self) -> Result<(), String> {
        self.tell_all("halt");
        let mut idle = [false; NODES];
        self.wait_until(PATIENCE, "the last orders", |fleet, who, line| {
            idle[who] |= line == Some("idle");
            let all = (0..NODES).all(|node| idle[node] || !fleet.processes.runs(node));
            all.then_some(())
        })
    }

    /// Holds what was said against the book. `went`: whether the work went on, and if not what was waited for.
    pub(super) fn judge(&mut self, went: Result<(), String>) -> Result<Verdict, String> {
        let invoices = self.book.invoices()?;
        let verdict = self.ledger.judge(&invoices, went.err());
        self.screen.say(format_args!(
            "{} instances wrote {} invoices; {} writes of stale instances were refused",
            self.ledger.instances.len(),
            invoices.len(),
            self.ledger.refused
        ));
        Ok(verdict)
    }

    fn tell_all(&mut self, order: &str) {
        (0..NODES).for_each(|index| self.processes.tell(index, order));
    }

    /// The node whose instance has opened the book last.
    pub(super) fn runs_at(&self) -> Result<usize, String> {
        let last = self.ledger.instances.last();
        last.map(|(_, node)| *node)
            .ok_or_else(|| "no instance has opened the book".to_owned())
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

    /// Cuts a node off from the others, but for the book; what it writes there from now on is held up. Returns once something is.
    pub(super) fn cut_off(&mut self, index: usize) -> Result<(), String> {
        self.places[index].note = "cut off";
        self.held = Some((index, Vec::new()));
        self.processes.let_end(index);
        self.processes.tell(index, "cut");
        self.wait_until(PATIENCE, "a write of the one that is cut off", |fleet, _, _| {
            let is_write = |(_, request): &(String, Request)| matches!(request, Request::Append { .. });
            let (_, held) = fleet.held.as_ref()?;
            held.iter().any(is_write).then_some(())
        })
    }

    /// What was held up arrives, late: it must be refused.
    pub(super) fn release(&mut self, index: usize) {
        let (_, held) = self.held.take().unwrap_or_default();
        for (id, request) in held {
            self.serve(index, &id, &request);
        }
    }

    /// Has a node leave in good order.
    pub(super) fn leave(&mut self, index: usize) -> Result<(), String> {
        self.places[index].note = "leaves";
        self.processes.let_end(index);
        self.processes.tell(index, "leave");
        Ok(())
    }

    /// Waits until another node's instance has opened the book, and a client was told a number after that. Says how long it took.
    pub(super) fn until_it_runs_elsewhere(&mut self, index: usize) -> Result<(), String> {
        let began = Instant::now();
        let elsewhere = self.wait_until(PATIENCE, "the next instance", |fleet, _, _| {
            let (_, node) = fleet.ledger.instances.last()?;
            (*node != index).then_some(*node)
        })?;
        let told = self.ledger.acknowledged;
        self.wait_until(PATIENCE, "the next invoice", |fleet, _, _| {
            (fleet.ledger.acknowledged > told).then_some(())
        })?;
        self.screen.say(format_args!(
            "node {} goes on with the work, {:.1} s later",
            elsewhere + 1,
            began.elapsed().as_secs_f64()
        ));
        Ok(())
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

    /// `id request` of an instance.
    fn on_request(&mut self, who: usize, line: &str) {
        let Some((id, Ok(request))) = line.split_once(' ').map(|(id, request)| (id, request.parse())) else {
            return;
        };
        match &mut self.held {
            Some((index, held)) if *index == who => held.push((id.to_owned(), request)),
            Some(_) | None => self.serve(who, id, &request),
        }
    }

    fn serve(&mut self, who: usize, id: &str, request: &Request) {
        let reply = self.book.obey(request);
        self.ledger.note(who, request, &reply);
        match (request, &reply) {
            (Request::Open { token, .. }, Reply::Opened { last }) => self.screen.say(format_args!(
                "the instance on node {} opens the book with token {token}, behind invoice {last}",
                who + 1
            )),
            (Request::Open { token, .. } | Request::Append { token, .. }, Reply::Fenced { held }) => {
                self.screen.say(format_args!(
                    "REFUSED: `{request}` of the stale instance on node {}: token {token} is below {held}",
                    who + 1
                ));
            }
            (_, _) => {}
        }
        self.processes.tell(who, &format!("book {id} {reply}"));
    }

    fn show(&mut self) {
        let places = &self.places;
        let rows = || {
            let mut table = String::from("  node  acknowledged  repeated  instance\n");
            for (index, place) in places.iter().enumerate() {
                let [acknowledged, repeated, token] = &place.shown;
                table += &format!(
                    "  {:<4} {acknowledged:>13} {repeated:>9}  {token:<8} {}\n",
                    index + 1,
                    place.note
                );
            }
            table
        };
        let ledger = &self.ledger;
        let line = || {
            let at = ledger.instances.last();
            let at = at.map_or_else(String::new, |(token, node)| {
                format!("; it is on node {}, token {token}", node + 1)
            });
            format!("{} invoices acknowledged{at}", ledger.acknowledged)
        };
        self.screen.show(rows, line);
    }
}

impl Listens for Fleet {
    fn listen(&mut self, limit: Duration) -> Result<Option<(usize, Option<String>)>, String> {
        let Some((who, line)) = self.processes.listen(limit)? else {
            return Ok(None);
        };
        match line.as_deref().and_then(|line| line.split_once(' ')) {
            Some(("book", rest)) => self.on_request(who, rest),
            Some(("done", rest)) => {
                if let Some((order, Ok(number))) = rest
                    .split_once(' ')
                    .map(|(order, number)| (order, number.parse()))
                {
                    self.ledger.acknowledged(Instant::now(), order, number);
                }
            }
            Some(("show", rest)) => {
                let mut words = rest.split(' ').map(str::to_owned);
                self.places[who].shown = std::array::from_fn(|_| words.next().unwrap_or_default());
                self.show();
            }
            Some((_, _)) | None => {}
        }
        Ok(Some((who, line)))
    }
}
