//! How loaded this node is: asks the thread that reads it, adds what the driver knows itself, and hands it to
//! the node. Decides nothing. Spec: sharding 5.5.

use std::sync::Arc;

use quorate_core::input::{Input, LoadMeasure, PartMeasure};
use quorate_core::time::Instant;

use super::Pump;
use super::machine::Machine;
use super::slots::KindLoad;
use crate::load::{LoadSampler, SystemLoad};
use crate::sync::Notify;

/// When load is measured, and by whom.
#[derive(Debug, Default)]
pub(super) struct LoadMeasuring {
    pub(super) sampler: LoadSampler,
    /// When it is asked next; never without one.
    pub(super) ask_at: Option<Instant>,
    measured_at: Option<Instant>,
}

impl<M: Machine> Pump<M> {
    /// The same pump with somebody who reads how loaded the process is, and wakes the loop for it. Without a
    /// thread for that nothing is measured, and the node does its work all the same.
    pub(crate) fn with_measured_load(mut self, wake: &Arc<Notify>) -> Self {
        match LoadSampler::start(Arc::clone(wake)) {
            Ok(sampler) => {
                self.load.sampler = sampler;
                self.load.ask_at = Some(self.base.now.mono);
            }
            Err(error) => tracing::warn!(
                target: "cluster::membership", event = "load_not_measured", me = %self.base.me, %error,
                "no thread for reading how loaded the process is"
            ),
        }
        self
    }

    /// Asks how loaded the process is, if it is time to.
    pub(super) fn ask_for_load(&mut self) {
        let now = self.base.now.mono;
        if self.load.ask_at.is_some_and(|at| at <= now) {
            self.load.ask_at = Some(now + self.base.config.load.interval);
            self.load.sampler.ask();
        }
    }

    /// Hands what was read to the node.
    pub(crate) fn take_load(&mut self) {
        let Some(system) = self.load.sampler.next_answer() else {
            return;
        };
        let measure = self.measure(system);
        self.linked.handle(Input::Load(measure));
        self.drive_node();
    }

    fn measure(&mut self, system: SystemLoad) -> LoadMeasure {
        let now = self.base.now.mono;
        let since = self.load.measured_at.replace(now);
        let seconds = since.map_or(0.0, |last| now.since(last).as_secs_f64());
        let shards = self.linked.node.hosted_shards();
        let mut kinds = self.hosted.load_of_kinds();
        // The busiest first: what is beyond the core's bound is left out.
        kinds.sort_by_key(|kind| std::cmp::Reverse(kind.delivered));
        let part = |kind: &KindLoad| {
            let found = shards.iter().find(|(of, _)| of.raw() == kind.part.0);
            PartMeasure {
                part: kind.part,
                mailboxes: kind.mailboxes,
                messages_per_second: if seconds > 0.0 {
                    kind.delivered as f64 / seconds
                } else {
                    0.0
                },
                units: found.map_or_else(|| self.hosted.instances_of(kind.part), |(_, shards)| *shards),
            }
        };
        let parts = kinds.iter().map(part).collect();
        LoadMeasure {
            cpu: system.cpu,
            machine: system.machine,
            memory: system.memory,
            stall: self.executor.take_stall(),
            mailboxes: Some(self.hosted.mailboxes_used()),
            parts,
        }
    }
}
