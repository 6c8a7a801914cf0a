//! The node processes as the demo sees them: started, found by address, killed.

use std::time::Duration;

use futures_lite::future;
use quorate_driver::spi::Runtime;
use quorate_driver::{Address, View};

use super::failure::Failure;
use super::kind::WORKER;
use super::options::{Kill, NodeOptions};
use super::worker::READY;
use crate::process::{self, ChildProcess};
use crate::trust::Authority;

/// How long a process may take until it listens; a loaded machine needs a second.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// One node process.
pub(crate) struct NodeProcess {
    process: ChildProcess,
    pub(crate) address: Address,
    pub(crate) state: State,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    /// The demo killed it.
    Killed,
    /// It ended and nobody asked it to.
    Ended,
}

impl State {
    /// What to write behind its name.
    pub(crate) const fn note(self) -> &'static str {
        match self {
            Self::Running => "",
            Self::Killed => " killed",
            Self::Ended => " ended",
        }
    }
}

/// All node processes. Dropping it ends them all.
pub(crate) struct Nodes {
    pub(crate) all: Vec<NodeProcess>,
}

impl Nodes {
    /// Starts `count` processes and waits until all listen. The first forms the cluster, the others join
    /// through it.
    pub(crate) async fn start(
        runtime: &impl Runtime,
        authority: &Authority,
        options: &NodeOptions,
        count: usize,
    ) -> Result<Self, Failure> {
        let mut nodes = Self { all: Vec::new() };
        let launch = |index, seed: Option<String>| {
            let options = NodeOptions {
                index,
                seed,
                ..options.clone()
            };
            launch(authority, &options)
        };
        let first = ready(runtime, launch(0, None)?).await?;
        let seed = first.address.to_string();
        nodes.all.push(first);
        let others: Result<Vec<_>, _> = (1..count)
            .map(|index| launch(index, Some(seed.clone())))
            .collect();
        for process in others? {
            nodes.all.push(ready(runtime, process).await?);
        }
        Ok(nodes)
    }

    /// What to call a member.
    pub(crate) fn name(&self, address: &Address) -> String {
        match self.all.iter().position(|node| node.address == *address) {
            Some(index) => format!("node {} ({address})", index + 1),
            None => format!("the reader ({address})"),
        }
    }

    /// Which node is to be killed, going by the ages in `view`.
    pub(crate) fn victim(&self, kill: Kill, view: &View) -> Option<usize> {
        let members = view.by_age(None);
        let mut workers = members
            .iter()
            .filter(|m| m.roles.as_slice().iter().any(|role| role.as_str() == WORKER));
        let victim = match kill {
            Kill::Nobody => None,
            Kill::Oldest => workers.next(),
            Kill::Youngest => workers.next_back(),
        }?;
        self.all
            .iter()
            .position(|node| node.address == *victim.node.address())
    }

    /// Kills a node with SIGKILL and waits until it is gone.
    pub(crate) fn kill(&mut self, index: usize) {
        if let Some(node) = self.all.get_mut(index) {
            node.process.kill();
            node.state = State::Killed;
        }
    }

    /// The next process that has ended by itself, said once each.
    pub(crate) fn next_ended(&mut self) -> Option<Address> {
        let mut running = self.all.iter_mut().filter(|node| node.state == State::Running);
        let node = running.find_map(|node| node.process.has_ended().then_some(node))?;
        node.state = State::Ended;
        Some(node.address.clone())
    }
}

fn launch(authority: &Authority, options: &NodeOptions) -> Result<ChildProcess, Failure> {
    let introduction = authority.introduction().map_err(Failure::certificates)?;
    ChildProcess::start_introduced(options.arguments(), &introduction)
        .map_err(|error| Failure::Usage(format!("cannot start a node process: {error}")))
}

async fn ready(runtime: &impl Runtime, mut process: ChildProcess) -> Result<NodeProcess, Failure> {
    let Some(mut output) = process.output() else {
        return Err(Failure::Run("a node process has no output".to_owned()));
    };
    // If nothing comes, the process is killed on return, which ends the reading.
    let line = blocking::unblock(move || process::first_line(&mut output));
    let too_late = runtime.sleep_until(runtime.now().mono + START_TIMEOUT);
    let line = future::or(async { Some(line.await) }, async {
        too_late.await;
        None
    });
    let line = match line.await {
        Some(Ok(line)) => line,
        Some(Err(error)) => return Err(Failure::Run(format!("a node process cannot be heard: {error}"))),
        None => {
            return Err(Failure::Run(format!(
                "a node process did not start in {START_TIMEOUT:?}"
            )));
        }
    };
    match line.strip_prefix(READY).map(str::parse) {
        Some(Ok(address)) => Ok(NodeProcess {
            process,
            address,
            state: State::Running,
        }),
        Some(Err(_)) | None => Err(Failure::Usage(format!("a node process did not start: {line}"))),
    }
}
