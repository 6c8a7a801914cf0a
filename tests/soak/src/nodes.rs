//! The nodes of a fault program as its fleet sees them: where each one is, what its next process is told, and that one was killed. Does not
//! know what they say beyond that they are Up. Spec: none; for programs alone.

use std::time::Duration;

use crate::processes::{Listens, Processes};
use crate::program::{NODES, NodeOptions, READY, START_TIMEOUT};
use crate::stores::Stores;
use quorate_demo::trust::Authority;

/// How long the end of a process that was killed may take.
const END_TIMEOUT: Duration = Duration::from_secs(30);

/// See the module.
pub(crate) struct Nodes {
    options: NodeOptions,
    stores: Stores,
    pub(crate) processes: Processes,
    addresses: Vec<Option<String>>,
}

impl Nodes {
    /// None of them runs.
    pub(crate) fn new(options: NodeOptions, stores: Stores, authority: Authority) -> Self {
        Self {
            options,
            stores,
            processes: Processes::new(NODES, authority),
            addresses: vec![None; NODES],
        }
    }

    /// Where a node is, or was last; `None` if it never ran.
    pub(crate) fn address(&self, index: usize) -> Option<&String> {
        self.addresses[index].as_ref()
    }

    /// Whether writes go to a server.
    pub(crate) const fn has_server(&self) -> bool {
        self.stores.is_server()
    }

    pub(crate) fn runs(&self, index: usize) -> bool {
        self.processes.runs(index)
    }

    pub(crate) fn tell(&mut self, index: usize, order: &str) {
        self.processes.tell(index, order);
    }

    pub(crate) fn tell_all(&mut self, order: &str) {
        (0..NODES).for_each(|index| self.tell(index, order));
    }

    /// Starts a node's next process, where the one before was; it joins through one that runs, or forms the cluster.
    fn launch(&mut self, index: usize) -> Result<(), String> {
        let others = (0..NODES).filter(|other| *other != index && self.runs(*other));
        let seed = others.filter_map(|other| self.addresses[other].clone()).next();
        let bind = self.addresses[index].clone();
        let life = self.options.life * 1_000 + self.processes.next_life(index);
        let options = NodeOptions {
            index,
            life: life * NODES as u64 + index as u64,
            bind: bind.unwrap_or_else(|| self.options.bind.clone()),
            seed,
            store: Some(self.stores.of(index)),
            ..self.options.clone()
        };
        self.processes.start(index, options.arguments())
    }
}

/// Who has nodes.
pub(crate) trait Fleet: Listens + Sized {
    fn nodes(&mut self) -> &mut Nodes;

    /// Starts a node's next process and waits until it is Up. From then on it may end by itself: whoever has the fleet starts it again.
    fn start_node(&mut self, index: usize) -> Result<(), String> {
        self.nodes().launch(index)?;
        let address = self.wait_until(START_TIMEOUT, "a node to be Up", |_, who, line| {
            let address = line.filter(|_| who == index)?.strip_prefix(READY)?;
            Some(address.trim().to_owned())
        })?;
        let nodes = self.nodes();
        nodes.processes.let_end(index);
        nodes.addresses[index] = Some(address);
        Ok(())
    }

    /// Kills a node (SIGKILL); what it had said until then still counts.
    fn kill_node(&mut self, index: usize) -> Result<(), String> {
        if self.nodes().processes.kill(index) {
            self.wait_until(END_TIMEOUT, "the end of a process", |_, who, line| {
                (who == index && line.is_none()).then_some(())
            })?;
        }
        Ok(())
    }

    /// Lets the clients finish, and waits until they have.
    fn halt(&mut self, patience: Duration) -> Result<(), String> {
        self.nodes().tell_all("halt");
        let mut idle: Vec<bool> = (0..NODES).map(|index| !self.nodes().runs(index)).collect();
        self.wait_until(patience, "the clients to finish", |_, who, line| {
            idle[who] |= line == Some("idle") || line.is_none();
            idle.iter().all(|idle| *idle).then_some(())
        })
    }
}
