//! The load of this node: smooths what the host measures. Never sends. Spec: sharding 5.5.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::load::protocol::{LoadMeasure, PartMeasure};
use crate::load::state::ewma::{Ewma, alpha};
use crate::load::state::sample::{LoadPartId, LoadSample, PARTS_MAX, PartLoad};
use crate::load::state::share::LoadShare;
use crate::ordered::OrderedMap;
use crate::time::Instant;

/// Averages of everything that is measured.
#[derive(Clone, Debug, Default)]
pub(super) struct Smoothing {
    measured_at: Option<Instant>,
    cpu: Ewma,
    machine: Ewma,
    memory: Ewma,
    stall: Ewma,
    mailboxes: Ewma,
    /// At most [`PARTS_MAX`]: those of the last measure.
    parts: OrderedMap<LoadPartId, PartAverages>,
}

#[derive(Clone, Copy, Debug, Default)]
struct PartAverages {
    mailboxes: Ewma,
    messages_per_second: Ewma,
    units: u32,
}

impl Smoothing {
    /// Takes a measure. One that comes late counts more, one that comes early less, so that a host that
    /// measures often is not smoothed less.
    pub(super) fn add(&mut self, now: Instant, half_life: Duration, measure: &LoadMeasure) {
        let since = self.measured_at.map_or(Duration::ZERO, |last| now.since(last));
        self.measured_at = Some(now);
        let alpha = alpha(since, half_life);
        let free = |capacity: Option<f64>| capacity.map(|free| 1.0 - free);
        let cpu = measure.cpu.and_then(|cpu| cpu.capacity());
        let machine = measure.machine.and_then(|machine| machine.capacity());
        let memory = measure.memory.and_then(|memory| memory.capacity());
        for (average, used) in [
            (&mut self.cpu, free(cpu)),
            (&mut self.machine, free(machine)),
            (&mut self.memory, free(memory)),
            (&mut self.stall, measure.stall),
            (&mut self.mailboxes, measure.mailboxes),
        ] {
            follow(average, used, alpha);
        }
        let was = core::mem::take(&mut self.parts);
        for part in measure.parts.iter().take(PARTS_MAX) {
            let averages = was.get(&part.part).copied().unwrap_or_default();
            self.parts.insert(part.part, averages.with(part, alpha));
        }
    }

    /// All together.
    pub(super) fn sample(&self) -> LoadSample {
        let share = |average: &Ewma| average.value().and_then(LoadShare::nearest);
        LoadSample {
            cpu: share(&self.cpu),
            machine: share(&self.machine),
            memory: share(&self.memory),
            stall: share(&self.stall),
            mailboxes: share(&self.mailboxes),
        }
    }

    /// By parts.
    pub(super) fn parts(&self) -> Arc<[PartLoad]> {
        let of = |(part, averages): (&LoadPartId, &PartAverages)| PartLoad {
            part: *part,
            mailboxes: averages
                .mailboxes
                .value()
                .and_then(LoadShare::nearest)
                .unwrap_or_default(),
            // What does not fit is as much as can be said.
            messages_per_second: (averages.messages_per_second.value().unwrap_or(0.0) + 0.5) as u32,
            units: averages.units,
        };
        self.parts.iter().map(of).collect::<Vec<_>>().into()
    }
}

impl PartAverages {
    fn with(mut self, measure: &PartMeasure, alpha: f64) -> Self {
        follow(&mut self.mailboxes, Some(measure.mailboxes), alpha);
        follow(
            &mut self.messages_per_second,
            Some(measure.messages_per_second),
            alpha,
        );
        self.units = measure.units;
        self
    }
}

/// Takes a measure into its average; what cannot be measured any more is forgotten.
fn follow(average: &mut Ewma, measured: Option<f64>, alpha: f64) {
    match measured.filter(|measured| !measured.is_nan()) {
        Some(measured) => {
            average.add(measured, alpha);
        }
        None => *average = Ewma::default(),
    }
}
