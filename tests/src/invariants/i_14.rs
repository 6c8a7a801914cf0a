//! I-14: two clusters never merge: every member of a node's table came into the same cluster as the node
//! itself. A cluster begins where a node finds itself alone in its first table.

use std::collections::BTreeMap;

use super::{Cause, Step};
use crate::sim::{History, ProcessId};

/// The cluster each process belongs to, named by the process that formed it.
#[derive(Debug, Default)]
pub(super) struct OneCluster {
    of: BTreeMap<ProcessId, ProcessId>,
}

impl OneCluster {
    /// The cluster of a process; itself if it belongs to none.
    pub(super) fn cluster_of(&self, process: ProcessId) -> ProcessId {
        self.of.get(&process).copied().unwrap_or(process)
    }

    pub(super) fn check(&mut self, step: &Step<'_>, history: &History) -> Result<(), String> {
        if step.before.gossip().members().is_empty() {
            let cluster = match step.cause {
                Cause::Message {
                    name: "Welcome",
                    from,
                } => self.cluster_of(*from),
                Cause::Message { .. } | Cause::Tick | Cause::Link | Cause::Command | Cause::Entity => {
                    step.process
                }
            };
            self.of.insert(step.process, cluster);
        }
        let mine = self.cluster_of(step.process);
        for member in step.after.members() {
            let cluster = history
                .process_of(&member.node)
                .and_then(|process| self.of.get(&process));
            if let Some(cluster) = cluster.filter(|cluster| **cluster != mine) {
                let node = &member.node;
                return Err(format!(
                    "{node} of the cluster of p{cluster} is a member of that of p{mine}"
                ));
            }
        }
        Ok(())
    }
}
