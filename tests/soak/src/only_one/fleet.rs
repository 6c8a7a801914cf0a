//! What happens to the five nodes, the book that their instances write into, and what clients were told. The
//! way from an instance to the book leads through here, so that a write can be held up on it, as a slow
//! network would.

use std::time::{Duration, Instant};

use super::book::{Book, Reply, Request};
use super::ledger::{Ledger, Verdict};
use crate::fleet::{self, Column, Place, Proof};

/// What is proved of them.
pub(super) struct Invoices {
    book: Book,
    ledger: Ledger,
    /// A node whose requests to the book are on their way for as long as it takes, and those requests.
    held: Option<(usize, Vec<(String, Request)>)>,
}

/// All nodes of a run.
pub(super) type Fleet = fleet::Fleet<Invoices>;

impl Proof for Invoices {
    const PATIENCE: Duration = Duration::from_secs(60);
    const COLUMNS: &'static [Column] = &[("acknowledged", 0), ("repeated", 1), ("instance", 2)];

    fn hear(fleet: &mut Fleet, who: usize, what: &str, rest: &str) {
        match (what, rest.split_once(' ')) {
            ("book", Some((id, request))) => fleet.on_request(who, id, request),
            ("done", Some((order, number))) => {
                if let Ok(number) = number.parse() {
                    fleet.proof.ledger.acknowledged(Instant::now(), order, number);
                }
            }
            (_, _) => {}
        }
    }

    fn acknowledged(&self) -> u64 {
        self.ledger.counts.acknowledged
    }

    fn line(&self, _: &[Place]) -> String {
        let at = self.ledger.instances.last();
        let at = at.map_or_else(String::new, |(token, node)| {
            format!("; it is on node {}, token {token}", node + 1)
        });
        format!("{} invoices acknowledged{at}", self.acknowledged())
    }
}

impl Invoices {
    pub(super) fn in_book(book: Book) -> Self {
        Self {
            book,
            ledger: Ledger::default(),
            held: None,
        }
    }
}

impl Fleet {
    /// Says what the book has from an earlier run.
    pub(super) fn look_into_the_book(&mut self) -> Result<(), String> {
        let before = self.proof.book.invoices()?;
        if let Some(last) = before.last() {
            let (number, token) = (last.number, last.token);
            self.screen.say(format_args!(
                "the book has {number} invoices, the last by {token}"
            ));
        }
        Ok(())
    }

    /// Holds what was said against the book. `went`: whether the work went on, and if not what was waited
    /// for.
    pub(super) fn judge(&mut self, went: Result<(), String>) -> Result<Verdict, String> {
        let invoices = self.proof.book.invoices()?;
        let ledger = &self.proof.ledger;
        let verdict = ledger.judge(&invoices, went.err());
        self.screen.say(format_args!(
            "{} instances wrote {} invoices; {} writes of stale instances were refused",
            ledger.instances.len(),
            invoices.len(),
            ledger.refused
        ));
        Ok(verdict)
    }

    /// The node whose instance has opened the book last.
    pub(super) fn runs_at(&self) -> Result<usize, String> {
        let last = self.proof.ledger.instances.last();
        last.map(|(_, node)| *node)
            .ok_or_else(|| "no instance has opened the book".to_owned())
    }

    /// Cuts a node off from the others, but for the book; what it writes there from now on is held up.
    /// Returns once something is.
    pub(super) fn cut_off_with_a_write(&mut self, index: usize) -> Result<(), String> {
        self.proof.held = Some((index, Vec::new()));
        self.cut_off(index);
        let is_write = |(_, request): &(String, Request)| matches!(request, Request::Append { .. });
        self.until(
            Invoices::PATIENCE,
            "a write of the one that is cut off",
            |fleet| {
                let held = fleet.proof.held.as_ref();
                held.is_some_and(|(_, held)| held.iter().any(is_write))
            },
        )
    }

    /// What was held up arrives, late: it must be refused.
    pub(super) fn release(&mut self, index: usize) {
        let (_, held) = self.proof.held.take().unwrap_or_default();
        for (id, request) in held {
            self.serve(index, &id, &request);
        }
    }

    /// Waits until another node's instance has opened the book, and a client was told a number after that.
    /// Says how long it took.
    pub(super) fn until_it_runs_elsewhere(&mut self, index: usize) -> Result<(), String> {
        let began = Instant::now();
        self.until(Invoices::PATIENCE, "the next instance", |fleet| {
            fleet.runs_at().is_ok_and(|node| node != index)
        })?;
        let elsewhere = self.runs_at()?;
        self.until_more_is_acknowledged()?;
        self.screen.say(format_args!(
            "node {} goes on with the work, {:.1} s later",
            elsewhere + 1,
            began.elapsed().as_secs_f64()
        ));
        Ok(())
    }

    /// An instance wants something of the book.
    fn on_request(&mut self, who: usize, id: &str, request: &str) {
        let Ok(request) = request.parse() else {
            return;
        };
        match &mut self.proof.held {
            Some((index, held)) if *index == who => held.push((id.to_owned(), request)),
            Some(_) | None => self.serve(who, id, &request),
        }
    }

    fn serve(&mut self, who: usize, id: &str, request: &Request) {
        let reply = self.proof.book.obey(request);
        self.proof.ledger.note(who, request, &reply);
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
        self.tell(who, &format!("book {id} {reply}"));
    }
}
