//! Plays one plan with real nodes and says what is left. Nodes have the fast profile, the stable period, the
//! patience and the removal margin are a tenth of the defaults. Decides nothing about decisions.

use std::collections::BTreeSet;
use std::time::Duration;

use quorate_core::config::DownAllWhenUnstable;
use quorate_core::downing::view::IndirectRule;
use quorate_core::effect::HaltReason;
use quorate_core::ident::UniqueAddress;
use quorate_core::membership::member::Status;
use quorate_core::view::MembershipPhase;

use super::cascade;
use super::plan::{Event, Plan, SECOND, SETTLED_AFTER};
use super::safe::a_safe;
use super::{sick, strategy};
use crate::invariants::{i_19, i_21, i_22};
use crate::sim::{Life, Show, Sim, Violation, all_up};

/// How long nothing may change before a cluster counts as at rest: longer than anything that waits in it.
const REST: u64 = 6 * SECOND;
/// After so long it counts as never coming to rest.
const REST_MAX: u64 = 60 * SECOND;
/// The stable period, a tenth of the default.
pub const STABLE_AFTER: Duration = Duration::from_secs(2);

/// What all nodes of a run are set to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// The strategy's name.
    pub strategy: &'static str,
    /// How broken links are told.
    pub rule: IndirectRule,
    /// From which share of the members on everybody goes.
    pub share: Option<f64>,
    /// For how many stable periods who is Down counts, by [`IndirectRule::Fewest`]; `None` for the usual
    /// number.
    pub held: Option<u32>,
    /// The stable period and the removal margin.
    pub stable: Duration,
}

/// What became of a plan.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Why the plan is outside of the safe assumptions; `None` if it is inside.
    pub outside: Option<&'static str>,
    /// Parts that go on, each without the others.
    pub parts: usize,
    /// Nodes that are left, and those that lived after the last event but for downing.
    pub survivors: usize,
    /// Nodes that no event ended.
    pub living: usize,
    /// Whether more than half of all nodes lived and could reach each other to the end.
    pub majority_lived: bool,
    /// Whether the plan was a cascade of crashes.
    pub cascade: bool,
    /// A single sick node, and how many others were downed (I-19).
    pub healthy_downed: Option<usize>,
    /// Of the healthy nodes the end of the one link that was in dispute alone was downed.
    pub undecidable: bool,
    /// It did not come to rest.
    pub stuck: bool,
    /// It began with a clean split that the strategy has a promise about, which was checked (I-22).
    pub kept_promise: bool,
    /// A broken invariant.
    pub violation: Option<Violation>,
}

impl Outcome {
    /// Nobody is left, although a majority lived and was connected.
    #[must_use]
    pub const fn is_needless(&self) -> bool {
        self.parts == 0 && self.majority_lived
    }
}

/// Plays the plan of a seed.
#[must_use]
pub fn play(seed: u64, plan: &Plan, setting: Setting, show: Show) -> Outcome {
    let mut sim = Sim::showing(seed, show).config(|config| {
        config.downing.strategy = strategy(setting.strategy, plan.nodes);
        config.downing.rule = setting.rule;
        config.downing.down_all_when_indirectly_connected = setting.share;
        config.downing.stable_after = Some(setting.stable);
        config.downing.down_all_when_unstable = DownAllWhenUnstable::After(setting.stable * 3 / 4);
        config.downing.down_removal_margin = Some(setting.stable);
    });
    sim.has_workload = false;
    sim.held_periods = setting.held;
    sim = sim.nodes(plan.nodes);
    sim.run_until_or(30 * SECOND, &all_up);
    let begun = sim.now;
    let split = i_22::first_split(plan, SETTLED_AFTER);
    let mut promise = Ok(false);
    for (position, (at, event)) in plan.events.iter().enumerate() {
        sim.advance(begun + at);
        if let Some((groups, _)) = split.filter(|(_, next)| *next == position) {
            promise = i_22::at_rest(groups, plan.nodes, setting.strategy, &sim.running());
        }
        bring_about(&mut sim, event);
    }
    let stuck = !rest(&mut sim);
    if let Some((groups, _)) = split.filter(|(_, next)| *next == plan.events.len()) {
        promise = i_22::at_rest(groups, plan.nodes, setting.strategy, &sim.running());
    }
    let margin = u64::try_from(setting.stable.as_micros()).unwrap_or(u64::MAX);
    let mut outcome = classify(&sim, plan);
    let healthy = downed(&sim).into_iter().filter(|node| plan.sick != Some(*node));
    outcome.undecidable = sick::disputed(&sim, plan).is_some_and(|other| healthy.eq([other]));
    outcome.outside = a_safe(plan, margin).err();
    outcome.stuck = stuck;
    outcome.kept_promise = promise == Ok(true);
    outcome.violation = sim.violation.clone();
    let is_safe = outcome.outside.is_none();
    let broken = [
        (
            "I-21",
            i_21::at_rest(outcome.parts, setting.strategy, is_safe).err(),
        ),
        ("I-22", promise.err()),
        ("I-22", cascade::at_rest(plan, setting, &outcome).err()),
    ];
    for (invariant, what) in broken {
        if let (None, Some(what)) = (&outcome.violation, what) {
            outcome.violation = Some(Violation {
                invariant: invariant.to_owned(),
                at: sim.now,
                what: sim.report(&what),
            });
        }
    }
    outcome
}

fn bring_about(sim: &mut Sim, event: &Event) {
    match event {
        Event::Crash(node) => sim.crash(*node),
        Event::Split(groups) => sim.partition_into(groups),
        Event::OneWay(from, to) => sim.cut(*from, *to),
        Event::Pair(one, other) => sim.cut_pair(*one, *other),
        Event::Bridge(bridge, groups) => {
            for (at, group) in groups.iter().enumerate() {
                for (one, other) in group
                    .iter()
                    .flat_map(|one| groups[at + 1..].iter().flatten().map(move |other| (*one, *other)))
                {
                    if one != *bridge && other != *bridge {
                        sim.cut_pair(one, other);
                    }
                }
            }
        }
        Event::BadNode(_, cuts) => cuts.iter().for_each(|(from, to)| sim.cut(*from, *to)),
        Event::Open(from, to) => sim.open(*from, *to),
        Event::Heal => sim.heal(),
        Event::Pause(node, time) => sim.pause(*node, Duration::from_micros(*time)),
        Event::Slow(node, delay, time) => {
            sim.slow_down(*node, Duration::from_micros(*delay), Duration::from_micros(*time));
        }
        Event::Swallow(from, to, what) => sim.swallow(*from, *to, *what),
        Event::SwallowNothing => sim.swallow_nothing(),
        Event::Leave(node) => sim.leave(*node),
        Event::Weather(weather) => sim.weather(*weather),
        Event::LeaseDown => sim.lease_keeper.is_down = true,
        Event::LeaseSlow(late) => sim.lease_keeper.late = *late,
        Event::LeaseCut(nodes) => sim.lease_keeper.cut_off.extend(nodes),
        Event::LeaseBack => sim.lease_keeper = crate::sim::LeaseKeeper::default(),
    }
}

/// Lets time pass until no picture has changed for long enough, and nobody stands still; `false` if that
/// never comes.
fn rest(sim: &mut Sim) -> bool {
    let limit = sim.now + REST_MAX;
    let mut last = sim.now;
    let mut seen = tables(sim);
    while sim.now < limit && sim.violation.is_none() {
        sim.advance(sim.now + SECOND / 5);
        let stands_still = sim
            .processes
            .iter()
            .any(|host| host.runs() && sim.now < host.paused_until);
        let now = tables(sim);
        if now != seen || stands_still {
            seen = now;
            last = sim.now;
        }
        if sim.now - last >= REST {
            return true;
        }
    }
    sim.violation.is_some()
}

type Table = (usize, Vec<(UniqueAddress, Status, bool)>);

/// Who runs, and what members each of them sees: not who has seen what, which may never come to rest across a
/// cut.
fn tables(sim: &Sim) -> Vec<Table> {
    let table = |index: usize| {
        let view = sim.view(index);
        let members = view.members().iter();
        let row = members.map(|m| (m.node.clone(), m.status, view.is_reachable(&m.node)));
        (index, row.collect())
    };
    sim.running().into_iter().map(table).collect()
}

fn classify(sim: &Sim, plan: &Plan) -> Outcome {
    let left = survivors(sim);
    let ended_by_plan = |index: &usize| {
        let life = |event: &(u64, Event)| matches!(event.1, Event::Crash(node) | Event::Leave(node) if node == *index);
        plan.events.iter().any(life)
    };
    let living: BTreeSet<usize> = (0..plan.nodes).filter(|index| !ended_by_plan(index)).collect();
    let largest = parts(sim, &living).iter().map(BTreeSet::len).max().unwrap_or(0);
    Outcome {
        parts: sides(sim, &left),
        survivors: left.len(),
        living: living.len(),
        majority_lived: 2 * largest > plan.nodes,
        cascade: plan.cascade,
        healthy_downed: plan.sick.map(|sick| i_19::healthy_downed(sick, &downed(sim))),
        ..Outcome::default()
    }
}

/// Running members that do not know themselves to be Down.
fn survivors(sim: &Sim) -> BTreeSet<usize> {
    let stays = |index: &usize| {
        let view = sim.view(*index);
        view.phase() == MembershipPhase::Member && view.self_status() < Status::Down
    };
    sim.running().into_iter().filter(stays).collect()
}

fn downed(sim: &Sim) -> Vec<usize> {
    let halted = sim.history().processes.iter();
    halted
        .filter(|process| process.life == Life::Halted(HaltReason::Downed))
        .map(|process| process.index)
        .collect()
}

/// How many clusters there are: survivors in different parts of the network, or in one part with different
/// members.
fn sides(sim: &Sim, left: &BTreeSet<usize>) -> usize {
    let mut sides = BTreeSet::new();
    for part in parts(sim, left) {
        for index in &part {
            let members = sim.view(*index).members().iter();
            let members: Vec<&UniqueAddress> = members.map(|member| &member.node).collect();
            sides.insert((part.clone(), members));
        }
    }
    sides.len()
}

/// The parts of the network within `among` whose nodes can reach each other, both ways.
fn parts(sim: &Sim, among: &BTreeSet<usize>) -> Vec<BTreeSet<usize>> {
    let open = |one: usize, other: usize| !sim.network.is_cut(one, other) && !sim.network.is_cut(other, one);
    let mut rest = among.clone();
    let mut parts = Vec::new();
    while let Some(first) = rest.pop_first() {
        let mut part = BTreeSet::from([first]);
        let mut fresh = vec![first];
        while let Some(one) = fresh.pop() {
            for other in among.iter().copied().filter(|other| open(one, *other)) {
                if part.insert(other) {
                    fresh.push(other);
                }
            }
        }
        rest.retain(|index| !part.contains(index));
        parts.push(part);
    }
    parts
}
