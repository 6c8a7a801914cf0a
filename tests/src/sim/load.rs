//! Nodes with unequal loads: in a fifth of the seeds whose profile has shards or paths the hosts measure, and
//! one node at a time is busy. Decides nothing about what moves; the other rules judge what becomes of it.
//! Spec: sharding 5.5, 10.20.

use quorate_core::input::{Input, LoadMeasure};
use quorate_core::load::state::capacity::Cpu;

use super::chance::{Chance, Purpose};
use super::engine::Sim;
use super::plan::SECOND;
use crate::invariants::Cause;

/// Of a thousand seeds so many have unequal loads.
const SEEDS_PER_MILLE: u64 = 200;

/// See the module.
#[derive(Debug)]
pub(crate) struct UnequalLoads {
    chance: Chance,
    is_drawn: bool,
    pub(crate) enabled: bool,
    /// When hosts measure next.
    next: u64,
    /// The node that is busy, and until when.
    busy: (usize, u64),
}

impl UnequalLoads {
    pub(crate) fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed, Purpose::Load);
        Self {
            is_drawn: chance.per_mille(SEEDS_PER_MILLE),
            chance,
            enabled: false,
            next: 0,
            busy: (0, 0),
        }
    }

    /// This run's profile has something that load moves.
    pub(crate) const fn enable(&mut self) {
        self.enabled = self.is_drawn;
    }

    fn used(&mut self, index: usize) -> f64 {
        let (least, most) = if index == self.busy.0 {
            (700, 1_000)
        } else {
            (0, 250)
        };
        self.chance.between(least, most) as f64 / 1_000.0
    }
}

impl Sim {
    /// All hosts measure, if it is time to.
    pub(crate) fn measure_loads(&mut self, nodes: usize) {
        if !self.loads.enabled || self.now < self.loads.next {
            return;
        }
        let interval = self.config.load.interval.as_micros();
        self.loads.next = self.now + u64::try_from(interval).unwrap_or(SECOND);
        if self.now >= self.loads.busy.1 {
            let busy = self.loads.chance.index(nodes);
            let length = self.loads.chance.between(4 * SECOND, 40 * SECOND);
            self.loads.busy = (busy, self.now + length);
        }
        for index in 0..nodes {
            let combined = self.loads.used(index);
            let Some(process) = self.running_at(index) else {
                continue;
            };
            if self.now < self.processes[process as usize].paused_until {
                continue;
            }
            let measure = LoadMeasure {
                cpu: Some(Cpu {
                    combined,
                    stolen: 0.0,
                }),
                ..LoadMeasure::default()
            };
            self.trace.begin(self.now, process, b'L');
            self.trace.debug(&measure);
            self.feed(process, &Cause::Command, Input::Load(measure));
        }
    }
}
