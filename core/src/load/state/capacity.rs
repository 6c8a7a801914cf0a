//! How much a node could still take on, from what is measured there: 1 is everything, 0 nothing. What cannot
//! be measured is left out. Spec: sharding 5.5.

use crate::config::CapacitySelector;

/// The memory of a process, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heap {
    /// In use.
    pub used: u64,
    /// What it has from the system.
    pub committed: u64,
    /// What it may have at most; `None` if there is no limit, and then `committed` stands for it.
    pub max: Option<u64>,
}

impl Heap {
    /// The part that is free; `None` without a limit and without anything committed.
    #[must_use]
    pub fn capacity(self) -> Option<f64> {
        let whole = self.max.unwrap_or(self.committed);
        (whole > 0).then(|| whole.saturating_sub(self.used) as f64 / whole as f64)
    }
}

/// Processor time, each a part of what there is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cpu {
    /// In use.
    pub combined: f64,
    /// Taken away by the host of this machine; it weighs more than what is used.
    pub stolen: f64,
}

impl Cpu {
    const STOLEN_WEIGHT: f64 = 1.3;

    /// The part that is free; `None` if a number is none.
    #[must_use]
    pub fn capacity(self) -> Option<f64> {
        number(1.0 - (self.combined + Self::STOLEN_WEIGHT * self.stolen).clamp(0.0, 1.0))
    }
}

/// How many threads of the machine run or wait for a processor, on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MachineLoad {
    /// Of the last minute.
    pub load: f64,
    /// Processors.
    pub cores: u32,
}

impl MachineLoad {
    /// The part that is free; `None` without a processor, or if the load is no number.
    #[must_use]
    pub fn capacity(self) -> Option<f64> {
        if self.cores == 0 {
            return None;
        }
        number(1.0 - (self.load / f64::from(self.cores)).clamp(0.0, 1.0))
    }
}

/// What a node could still take on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Capacities {
    /// Of memory.
    pub heap: Option<f64>,
    /// Of processor time.
    pub cpu: Option<f64>,
    /// Of the machine.
    pub load: Option<f64>,
}

impl Capacities {
    /// Those of what was measured.
    #[must_use]
    pub fn of(heap: Option<Heap>, cpu: Option<Cpu>, load: Option<MachineLoad>) -> Self {
        Self {
            heap: heap.and_then(Heap::capacity),
            cpu: cpu.and_then(Cpu::capacity),
            load: load.and_then(MachineLoad::capacity),
        }
    }

    /// The one that counts; `None` if it was not measured.
    #[must_use]
    pub fn select(&self, selector: CapacitySelector) -> Option<f64> {
        match selector {
            CapacitySelector::Cpu => self.cpu,
            CapacitySelector::Heap => self.heap,
            CapacitySelector::Load => self.load,
            CapacitySelector::Mix => self.mix(),
        }
    }

    /// The mean of those that there are.
    #[must_use]
    pub fn mix(&self) -> Option<f64> {
        let all = [self.heap, self.cpu, self.load];
        let available = all.iter().flatten();
        let count = u32::try_from(available.clone().count()).unwrap_or(u32::MAX);
        (count > 0).then(|| available.sum::<f64>() / f64::from(count))
    }
}

fn number(value: f64) -> Option<f64> {
    (!value.is_nan()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: Option<f64>, expected: f64) {
        let found = found.unwrap();
        assert!(
            (found - expected).abs() < 0.00005,
            "found {found}, expected {expected}"
        );
    }

    #[test]
    fn s_324_capacity_of_memory_processors_and_the_machine() {
        let heap = |used, max| Heap {
            used,
            committed: 256,
            max,
        };
        assert_eq!(heap(128, Some(512)).capacity(), Some(0.75));
        close(heap(511, Some(512)).capacity(), 0.00195);
        let cpu = Cpu {
            combined: 0.2,
            stolen: 0.1,
        };
        close(cpu.capacity(), 0.67);
        let load = MachineLoad { load: 0.5, cores: 8 };
        assert_eq!(load.capacity(), Some(0.9375));
        let all = Capacities::of(Some(heap(128, Some(512))), Some(cpu), Some(load));
        close(all.mix(), 0.7858);
        assert_eq!(heap(128, None).capacity(), Some(0.5), "of what is committed");
    }

    #[test]
    fn the_mean_is_that_of_the_available_ones() {
        let two = Capacities {
            heap: Some(0.75),
            cpu: None,
            load: Some(0.25),
        };
        assert_eq!(two.mix(), Some(0.5));
        assert_eq!(two.select(CapacitySelector::default()), Some(0.5));
        assert_eq!(two.select(CapacitySelector::Heap), Some(0.75));
        assert_eq!(two.select(CapacitySelector::Load), Some(0.25));
        assert_eq!(two.select(CapacitySelector::Cpu), None);
        assert_eq!(Capacities::default().mix(), None);
    }

    #[test]
    fn no_capacity_is_below_nothing_or_no_number() {
        let heap = Heap {
            used: 600,
            committed: 600,
            max: Some(512),
        };
        assert_eq!(heap.capacity(), Some(0.0));
        let none = Heap {
            used: 1,
            committed: 0,
            max: None,
        };
        assert_eq!(none.capacity(), None);
        let cpu = |combined, stolen| Cpu { combined, stolen }.capacity();
        assert_eq!(cpu(0.9, 0.9), Some(0.0));
        assert_eq!(cpu(-1.0, 0.0), Some(1.0));
        assert_eq!(cpu(f64::NAN, 0.0), None);
        let load = |load, cores| MachineLoad { load, cores }.capacity();
        assert_eq!(load(8.82, 2), Some(0.0));
        assert_eq!(load(1.0, 0), None);
        assert_eq!(load(f64::NAN, 1), None);
    }
}
