//! Many plans under one setting: run on all cores, counted, nothing decided.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::plan::Plan;
use super::play::{Outcome, Setting, play};
use crate::sim::{Show, Violation};

/// Outcomes of many plans.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Plans.
    pub plans: u64,
    /// Plans that left two sides.
    pub two_sided: u64,
    /// Plans that left nobody.
    pub outages: u64,
    /// Plans that left nobody although a majority lived and was connected.
    pub needless: u64,
    /// Plans that did not come to rest.
    pub stuck: u64,
    /// Sum of the shares of living nodes that survived.
    pub survived: f64,
}

/// Plans in which one node is sick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sick {
    /// All of them.
    pub plans: u64,
    /// Those in which a healthy node was downed.
    pub healthy_downed: u64,
    /// Those that left nobody.
    pub empty: u64,
}

/// What came of a setting.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Inside of the safe assumptions.
    pub inside: Tally,
    /// Outside.
    pub outside: Tally,
    /// Crashes in a row (they are outside, too).
    pub cascades: Tally,
    /// Plans with one sick node (I-19).
    pub sick: Sick,
    /// Plans that began with a clean split whose right side was left, as promised (I-22).
    pub kept_promises: u64,
    /// Seeds of plans that left two sides.
    pub two_sided: Vec<u64>,
    /// Seeds of crashes in a row that left nobody, although a majority lived.
    pub needless_cascades: Vec<u64>,
    /// Broken invariants, by seed.
    pub violations: Vec<(u64, Violation)>,
}

impl Tally {
    fn add(&mut self, outcome: &Outcome) {
        self.plans += 1;
        self.two_sided += u64::from(outcome.parts > 1);
        self.outages += u64::from(outcome.parts == 0);
        self.needless += u64::from(outcome.is_needless());
        self.stuck += u64::from(outcome.stuck);
        if outcome.living > 0 {
            let count = |nodes: usize| u32::try_from(nodes).map_or(f64::INFINITY, f64::from);
            self.survived += count(outcome.survivors) / count(outcome.living);
        }
    }
}

impl fmt::Display for Tally {
    #[allow(clippy::cast_precision_loss, reason = "counts of plans are far below 2^52")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plans = self.plans.max(1) as f64;
        let share = |count: u64| 100.0 * count as f64 / plans;
        write!(
            f,
            "{} | {:.2} % | {:.1} % | {:.1} % | {:.3}",
            self.plans,
            share(self.two_sided),
            share(self.outages),
            share(self.needless),
            self.survived / plans
        )
    }
}

impl Report {
    fn add(&mut self, seed: u64, outcome: Outcome) {
        let tally = if outcome.outside.is_none() {
            &mut self.inside
        } else {
            &mut self.outside
        };
        tally.add(&outcome);
        self.kept_promises += u64::from(outcome.kept_promise);
        if outcome.parts > 1 {
            self.two_sided.push(seed);
        }
        if outcome.cascade {
            self.cascades.add(&outcome);
            if outcome.is_needless() {
                self.needless_cascades.push(seed);
            }
        }
        if let Some(downed) = outcome.healthy_downed {
            self.sick.plans += 1;
            self.sick.healthy_downed += u64::from(downed > 0);
            self.sick.empty += u64::from(outcome.parts == 0);
        }
        self.violations
            .extend(outcome.violation.map(|violation| (seed, violation)));
    }
}

/// Runs the plans of these seeds.
#[must_use]
pub fn run(seeds: core::ops::Range<u64>, setting: Setting, threads: usize) -> Report {
    let outcome = |seed| play(seed, &Plan::draw(seed), setting, Show::Nothing);
    let mut report = on_all_cores(seeds, threads, outcome, Report::add);
    report.violations.sort_by_key(|(seed, _)| *seed);
    report.two_sided.sort_unstable();
    report.needless_cascades.sort_unstable();
    report
}

/// Works out the outcomes of these seeds on so many threads, and adds them up as they come.
pub(super) fn on_all_cores<T: Default + Send, O>(
    seeds: core::ops::Range<u64>,
    threads: usize,
    outcome: impl Fn(u64) -> O + Sync,
    add: impl Fn(&mut T, u64, O) + Sync,
) -> T {
    let next = AtomicU64::new(seeds.start);
    let sum = Mutex::new(T::default());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    let outcome = outcome(seed);
                    add(
                        &mut sum.lock().unwrap_or_else(PoisonError::into_inner),
                        seed,
                        outcome,
                    );
                }
            });
        }
    });
    sum.into_inner().unwrap_or_else(PoisonError::into_inner)
}
