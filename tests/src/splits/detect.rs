//! What nodes make of lost frames, of crashes and of pauses, with the timings that users have: false
//! suspicions, live nodes that are downed, and how long a crash takes to be known and acted on. Real nodes in
//! virtual time; nothing is checked on the way. Spec: membership 2.14, 3.8.

use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

use quorate_core::config::Config;
use quorate_core::downing::view::IndirectRule;
use quorate_core::ident::ClusterName;
use quorate_core::membership::member::Status;

use super::plan::SECOND;
use super::tally::on_all_cores;
use crate::sim::{Show, Sim, Weather, all_up};

/// What all nodes are set to.
#[derive(Clone, Debug)]
pub struct Timings {
    /// How it is shown.
    pub name: String,
    /// The whole configuration.
    pub config: Config,
}

impl Timings {
    /// The documented defaults, and the profile for one data center.
    #[must_use]
    pub fn presets() -> [Self; 2] {
        let cluster = || ClusterName::new("sim").expect("invariant: a short name is legal");
        let named = |name: &str, config| Self {
            name: name.to_owned(),
            config,
        };
        [
            named("lan", Config::lan(cluster())),
            named("one_data_center", Config::one_data_center(cluster())),
        ]
    }

    /// The same with another rule.
    #[must_use]
    pub fn judged_by(mut self, rule: IndirectRule) -> Self {
        self.config.downing.rule = rule;
        self
    }

    /// So many nodes that are Up, and have known each other for a while.
    fn cluster(&self, seed: u64, nodes: usize) -> Sim {
        let mut sim = Sim::showing(seed, Show::Nothing).config(|config| *config = self.config.clone());
        (sim.is_bare, sim.has_workload) = (true, false);
        sim = sim.nodes(nodes);
        sim.run_until_or(120 * SECOND, &all_up);
        sim.advance(sim.now + 60 * SECOND);
        // Looks and heartbeats of a run fall differently into each other.
        let offset = sim.process_chance.below(SECOND);
        sim.advance(sim.now + offset);
        sim
    }
}

impl FromStr for Timings {
    type Err = String;

    /// The defaults with an acceptable pause and a stable period, which is the margin too: `2/4.5`.
    fn from_str(text: &str) -> Result<Self, String> {
        let seconds = |text: &str| {
            text.parse()
                .ok()
                .and_then(|time| Duration::try_from_secs_f64(time).ok())
        };
        let both = text
            .split_once('/')
            .and_then(|(pause, stable)| Some((seconds(pause)?, seconds(stable)?)));
        let (pause, stable) = both.ok_or_else(|| format!("no seconds of a pause and a period `{text}`"))?;
        let [mut timings, _] = Self::presets();
        timings.name = format!("lan, pause {pause:?}, stable {stable:?}");
        timings.config.failure_detector.acceptable_heartbeat_pause = pause;
        timings.config.downing.stable_after = Some(stable);
        Ok(timings)
    }
}

/// What so much virtual time brought although nothing was wrong but lost frames.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lossy {
    /// Node hours.
    pub hours: f64,
    /// Verdicts of a detector about a node that lived.
    pub suspicions: u64,
    /// Nodes that lived and were downed.
    pub downed: u64,
}

impl Lossy {
    /// False suspicions, and live nodes downed, per node and 1,000 hours.
    #[must_use]
    pub fn per_1000_hours(&self) -> (f64, f64) {
        let per = |count: u64| count as f64 * 1000.0 / self.hours;
        (per(self.suspicions), per(self.downed))
    }
}

/// Runs one cluster for each seed, an hour each or until somebody is downed, while so many of a thousand
/// frames are lost.
#[must_use]
pub fn losses(timings: &Timings, nodes: usize, per_mille: u64, seeds: Range<u64>, threads: usize) -> Lossy {
    let hour = |seed| {
        let mut sim = timings.cluster(seed, nodes);
        lose(&mut sim, per_mille);
        let verdicts = |sim: &Sim| sim.sum(|stats| stats.detector.unreachable_verdicts);
        let (begun, before) = (sim.now, verdicts(&sim));
        while sim.now < begun + 3600 * SECOND && sim.running().len() == nodes {
            sim.advance(sim.now + 10 * SECOND);
        }
        Lossy {
            hours: (sim.now - begun) as f64 / SECOND as f64 / 3600.0 * nodes as f64,
            suspicions: verdicts(&sim) - before,
            downed: (nodes - sim.running().len()) as u64,
        }
    };
    on_all_cores(seeds, threads, hour, |sum: &mut Lossy, _, hour| {
        sum.hours += hour.hours;
        sum.suspicions += hour.suspicions;
        sum.downed += hour.downed;
    })
}

/// Virtual seconds from a crash on; `None` for what did not happen within two minutes.
#[derive(Clone, Debug, Default)]
pub struct Crashes {
    /// Until the first report.
    pub first: Vec<f64>,
    /// Until all others knew.
    pub known: Vec<f64>,
    /// Until somebody had removed the node.
    pub removed: Vec<f64>,
    /// Crashes after which a live node went too, or the dead one stayed.
    pub bad: u64,
}

/// One crash for each seed, after ten minutes of such loss.
#[must_use]
pub fn crashes(
    timings: &Timings,
    nodes: usize,
    per_mille: u64,
    seeds: Range<u64>,
    threads: usize,
) -> Crashes {
    let crash = |seed| {
        let mut sim = timings.cluster(seed, nodes);
        lose(&mut sim, per_mille);
        sim.advance(sim.now + 600 * SECOND);
        let victim = sim.process_chance.index(nodes);
        let gone = sim.incarnation(victim)?;
        let begun = sim.now;
        sim.crash(victim);
        let mut times = [None; 3];
        while sim.now < begun + 120 * SECOND && times.contains(&None) {
            sim.advance(sim.now + 10_000);
            let running = sim.running();
            let misses = |index: &usize| !sim.view(*index).is_reachable(&gone);
            let removes = |index: &usize| {
                let member = sim.view(*index).member(&gone);
                member.is_none_or(|member| member.status == Status::Removed)
            };
            let holds = [
                running.iter().any(misses),
                running.iter().all(misses),
                running.iter().any(removes),
            ];
            for (time, holds) in times.iter_mut().zip(holds) {
                if holds && time.is_none() {
                    *time = Some((sim.now - begun) as f64 / SECOND as f64);
                }
            }
        }
        let [first, known, removed] = times;
        let stayed = sim.running().len() == nodes - 1;
        stayed.then_some((first?, known?, removed?))
    };
    let mut all = on_all_cores(seeds, threads, crash, |sum: &mut Crashes, _, times| {
        if let Some((first, known, removed)) = times {
            sum.first.push(first);
            sum.known.push(known);
            sum.removed.push(removed);
        } else {
            sum.bad += 1;
        }
    });
    for times in [&mut all.first, &mut all.known, &mut all.removed] {
        times.sort_by(f64::total_cmp);
    }
    all
}

/// How many of these clusters, one for each seed, down a live node because one of them stands still for so
/// long, in seconds.
#[must_use]
pub fn pauses(timings: &Timings, nodes: usize, pause: f64, seeds: Range<u64>, threads: usize) -> u64 {
    let stand_still = |seed| {
        let mut sim = timings.cluster(seed, nodes);
        let victim = sim.process_chance.index(nodes);
        sim.pause(victim, Duration::from_secs_f64(pause));
        sim.advance(sim.now + 60 * SECOND);
        sim.running().len() < nodes
    };
    on_all_cores(seeds, threads, stand_still, |sum: &mut u64, _, downed| {
        *sum += u64::from(downed);
    })
}

fn lose(sim: &mut Sim, per_mille: u64) {
    sim.weather(Weather {
        loss_per_mille: per_mille,
        ..Weather::FINE
    });
}

/// What is played while frames are lost.
#[derive(Clone, Copy, Debug)]
pub struct LossPlan<'a> {
    /// Nodes of each cluster.
    pub nodes: usize,
    /// The seeds; each is an hour.
    pub hours: &'a Range<u64>,
    /// How many frames of a hundred are lost.
    pub losses: &'a [u64],
    /// The rules.
    pub rules: &'a [IndirectRule],
}

/// Prints, by loss and rule: what so many hours of a cluster bring, and what a third as many crashes take.
pub fn say_losses(plan: LossPlan<'_>, threads: usize, say: &dyn Fn(&str)) {
    let LossPlan { nodes, hours, .. } = plan;
    say(
        "| nodes | lost % | rule | node hours | false suspicions per node and 1000 h | live nodes downed | crash: first report, median and worst s | known everywhere | removed | not cleanly |",
    );
    say("|---|---|---|---|---|---|---|---|---|---|");
    let crashed = hours.start..hours.start + (hours.end - hours.start).div_ceil(3);
    for percent in plan.losses {
        let per_mille = percent * 10;
        for rule in plan.rules.iter().copied() {
            let [timings, _] = Timings::presets();
            let timings = timings.judged_by(rule);
            let lossy = losses(&timings, nodes, per_mille, hours.clone(), threads);
            let crashes = crashes(&timings, nodes, per_mille, crashed.clone(), threads);
            let (suspicions, downed) = lossy.per_1000_hours();
            let all = [&crashes.first, &crashes.known, &crashes.removed];
            let [first, known, removed] = all.map(|times| shown(times));
            say(&format!(
                "| {nodes} | {percent} | {rule} | {:.0} | {suspicions:.1} | {downed:.2} | {first} | {known} | {removed} | {} |",
                lossy.hours, crashes.bad
            ));
        }
    }
}

/// Prints, by timings and the length of a pause: in how many plans a live node was downed.
pub fn say_pauses(timings: &[Timings], nodes: usize, plans: &Range<u64>, threads: usize, say: &dyn Fn(&str)) {
    say("| nodes | timings | pause s | plans | a live node was downed |");
    say("|---|---|---|---|---|");
    for timings in timings {
        for half_seconds in 2..=28_u32 {
            let pause = f64::from(half_seconds) / 2.0;
            let downed = pauses(timings, nodes, pause, plans.clone(), threads);
            let count = plans.end - plans.start;
            say(&format!(
                "| {nodes} | {} | {pause} | {count} | {downed} |",
                timings.name
            ));
            if downed == count {
                break;
            }
        }
    }
}

/// Median and worst, of times in their order.
fn shown(times: &[f64]) -> String {
    match (times.get(times.len() / 2), times.last()) {
        (Some(median), Some(worst)) => format!("{median:.1}, {worst:.1}"),
        _ => "-".to_owned(),
    }
}
