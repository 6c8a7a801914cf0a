//! The five node processes, and what they say of jobs. Dropping it ends them all.

use std::time::Duration;

use super::ledger::{Ledger, Verdict};
use crate::nodes::{Fleet as _, Nodes};
use crate::processes::Listens;
use crate::program::{NODES, NodeOptions};
use crate::stores::Stores;
use quorate_demo::screen::Screen;
use quorate_demo::trust::Authority;

/// How long anything may take that is waited for: several times what the fast timings need for a fail-over, and a queue of large messages
/// that is read and written back by slow disks.
const PATIENCE: Duration = Duration::from_secs(90);

/// All nodes of a run.
pub(super) struct Fleet {
    nodes: Nodes,
    ledger: Ledger,
    /// What each of them says that its producer and its worker have done.
    shown: [[u64; 2]; NODES],
    kills: u64,
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
            ledger: Ledger::default(),
            shown: [[0; 2]; NODES],
            kills: 0,
            is_going: false,
            screen,
        }
    }

    /// Starts every node that does not run; the first forms the cluster, the others join through it.
    pub(super) fn start_all(&mut self) -> Result<(), String> {
        for index in 0..NODES {
            if !self.nodes.runs(index) {
                self.start_node(index)?;
                self.shown[index] = [0; 2];
                if self.is_going {
                    self.nodes.tell(index, "go");
                }
            }
        }
        Ok(())
    }

    /// Lets the clients hand jobs in.
    pub(super) fn begin(&mut self) -> Result<(), String> {
        self.is_going = true;
        self.nodes.tell_all("go");
        self.until_more_is_acknowledged()
    }

    pub(super) fn kill(&mut self, index: usize) -> Result<(), String> {
        self.screen.say(format_args!("node {} is killed", index + 1));
        self.kills += 1;
        self.kill_node(index)
    }

    /// Waits until a job is acknowledged.
    pub(super) fn until_more_is_acknowledged(&mut self) -> Result<(), String> {
        let told = self.ledger.acknowledged;
        self.wait_until(PATIENCE, "the next acknowledgement", |fleet, _, _| {
            (fleet.ledger.acknowledged > told).then_some(())
        })
    }

    /// Lets the clients finish, and waits until everything that was acknowledged is handled.
    pub(super) fn end(&mut self) -> Result<(), String> {
        self.start_all()?;
        self.is_going = false;
        self.halt(PATIENCE)?;
        let mut last = self.ledger.open;
        while last > 0 {
            // As long as it goes on.
            self.wait_until(PATIENCE, "what was acknowledged to be handled", |fleet, _, _| {
                (fleet.ledger.open < last).then_some(())
            })?;
            last = self.ledger.open;
        }
        Ok(())
    }

    pub(super) fn judge(&self) -> Verdict {
        Verdict {
            kills: self.kills,
            ..self.ledger.judge()
        }
    }

    fn show(&mut self) {
        let shown = &self.shown;
        let rows = || {
            let mut table = String::from("  node  messages  jobs\n");
            for (index, [messages, jobs]) in shown.iter().enumerate() {
                table += &format!("  {:<4} {messages:>9} {jobs:>5}\n", index + 1);
            }
            table
        };
        let (acknowledged, open) = (self.ledger.acknowledged, self.ledger.open);
        let line = || format!("{acknowledged} jobs are acknowledged, {open} of them not handled yet");
        self.screen.show(rows, line);
    }
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
        match line.as_deref().and_then(|line| line.split_once(' ')) {
            Some(("sent", job)) => self.ledger.sent(job),
            Some(("took", job)) => self.ledger.acknowledged(job),
            Some(("did", job)) => self.ledger.handled(job),
            Some(("show", rest)) => {
                let mut words = rest.split(' ').map(|word| word.parse().unwrap_or(0));
                self.shown[who] = std::array::from_fn(|_| words.next().unwrap_or(0));
                self.show();
            }
            Some(("note", rest)) => self.screen.say(format_args!("node {}: {rest}", who + 1)),
            Some((_, _)) | None => {}
        }
        Ok(Some((who, line)))
    }
}
