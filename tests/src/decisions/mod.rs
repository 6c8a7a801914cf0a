//! Random downing decisions from partial views: a few things go wrong, every part that is left decides for
//! itself, and the outcome is counted. No node runs here: the strategies are pure functions, and so is this.
//! Spec: membership 3.9, reliability I-21.

mod world;

use std::fmt;

use quorate_core::downing::auto_down::AutoDown;
use quorate_core::downing::down_all::DownAll;
use quorate_core::downing::keep_majority::KeepMajority;
use quorate_core::downing::keep_oldest::KeepOldest;
use quorate_core::downing::lease_majority::LeaseMajority;
use quorate_core::downing::static_quorum::StaticQuorum;
use quorate_core::downing::strategy::Strategy;
use quorate_core::downing::view::IndirectRule;

use crate::sim::{Chance, Purpose};
pub use world::Plan;
use world::World;

/// The strategies that are compared.
pub const STRATEGIES: [&str; 6] = [
    "static-quorum",
    "keep-majority",
    "keep-oldest",
    "lease-majority",
    "down-all",
    "auto-down",
];

/// How broken links are told, and from which share of the members on everybody goes.
pub const RULES: [(IndirectRule, Option<f64>); 5] = [
    (IndirectRule::Classic, None),
    (IndirectRule::Classic, Some(0.5)),
    (IndirectRule::CascadeSafe, None),
    (IndirectRule::CascadeSafe, Some(0.5)),
    (IndirectRule::Fewest, None),
];

/// The rules that make a difference to a strategy.
#[must_use]
pub fn rules_of(strategy: &str) -> &'static [(IndirectRule, Option<f64>)] {
    match strategy {
        "down-all" | "auto-down" => &RULES[..1],
        _ => &RULES,
    }
}

/// What became of one plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Parts that go on, each without the others. More than one is a split brain.
    pub parts: usize,
    /// Nodes that are left.
    pub survivors: usize,
    /// Nodes that lived when the decisions began.
    pub living: usize,
    /// Whether more than half of all members could still reach each other both ways.
    pub majority_lived: bool,
}

/// Outcomes of many plans.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Plans.
    pub plans: u64,
    /// Plans that left one part.
    pub one_sided: u64,
    /// Plans that left two parts or more.
    pub two_sided: u64,
    /// Plans that left nobody.
    pub outages: u64,
    /// Plans that left nobody although a majority was alive and connected.
    pub needless: u64,
    /// Sum of the shares of living nodes that survived.
    pub survived: f64,
}

impl Tally {
    fn add(&mut self, outcome: Outcome) {
        self.plans += 1;
        self.one_sided += u64::from(outcome.parts == 1);
        self.two_sided += u64::from(outcome.parts > 1);
        self.outages += u64::from(outcome.parts == 0);
        self.needless += u64::from(outcome.parts == 0 && outcome.majority_lived);
        if outcome.living > 0 {
            let count = |nodes: usize| u32::try_from(nodes).map_or(f64::INFINITY, f64::from);
            self.survived += count(outcome.survivors) / count(outcome.living);
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[allow(clippy::cast_precision_loss, reason = "counts of plans are far below 2^52")]
        let share = |count: u64| 100.0 * count as f64 / self.plans.max(1) as f64;
        #[allow(clippy::cast_precision_loss, reason = "counts of plans are far below 2^52")]
        let survived = self.survived / self.plans.max(1) as f64;
        write!(
            f,
            "{:.1} % | {:.3} % | {:.1} % | {:.1} % | {survived:.3}",
            share(self.one_sided),
            share(self.two_sided),
            share(self.outages),
            share(self.needless),
        )
    }
}

/// Tallies of one strategy under one rule, by the kind of plan.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Row {
    /// One clean split or one crash; everybody knows what its part knows.
    pub safe: Tally,
    /// Two to four things go wrong one after the other; everybody knows what its part knows when it decides.
    pub complete: Tally,
    /// The same, but the last news have not reached everybody.
    pub lagging: Tally,
}

/// Runs `plans` plans of each kind.
#[must_use]
pub fn run(strategy: &str, rule: (IndirectRule, Option<f64>), plans: u64, seed: u64) -> Row {
    let mut row = Row::default();
    for number in 0..plans {
        let chance = Chance::new(seed.wrapping_add(number), Purpose::Faults);
        row.safe.add(outcome(strategy, rule, Plan::Safe, chance.clone()));
        row.complete
            .add(outcome(strategy, rule, Plan::Complete, chance.clone()));
        row.lagging.add(outcome(strategy, rule, Plan::Lagging, chance));
    }
    row
}

/// What becomes of one plan.
#[must_use]
pub fn outcome(name: &str, rule: (IndirectRule, Option<f64>), plan: Plan, chance: Chance) -> Outcome {
    let mut world = World::new(chance);
    let strategy = strategy(name, &world);
    world.go_wrong(plan);
    let (living, majority_lived) = (world.living(), world.has_majority());
    world.decide_until_quiet(&*strategy, rule, plan);
    let (parts, survivors) = world.survivors();
    Outcome {
        parts,
        survivors,
        living,
        majority_lived,
    }
}

fn strategy(name: &str, world: &World) -> Box<dyn Strategy> {
    let role = world.role();
    match name {
        "static-quorum" => Box::new(StaticQuorum::new(world.countable() / 2 + 1, role)),
        "keep-oldest" => Box::new(KeepOldest::new(true, role)),
        "lease-majority" => Box::new(LeaseMajority::new(std::time::Duration::from_secs(2), role)),
        "down-all" => Box::new(DownAll),
        "auto-down" => Box::new(AutoDown),
        _ => Box::new(KeepMajority::new(role)),
    }
}
