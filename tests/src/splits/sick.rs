//! Plans in which one node alone is sick, by the kind of its sickness, and what becomes of the others: I-19.
//! While a single link is known to be in dispute it costs one of its ends, because nobody can tell which is
//! the sick one; it is counted apart.

use std::fmt;
use std::str::FromStr;

use super::plan::{Event, Plan, SECOND};
use super::play::{Outcome, Setting, play};
use super::tally::on_all_cores;
use crate::sim::{Chance, Purpose, Show, Sim, Swallowed, Violation};

/// What is wrong with the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sickness {
    /// It stands still, once or a few times.
    Paused,
    /// It handles everything late.
    Slow,
    /// Directions between it and others are cut.
    OneWay,
    /// Its records report others that it hears.
    Lying,
    /// What it sends to others does not decode.
    Undecodable,
    /// It does not read what others send.
    NotReading,
    /// It sends the first half of a frame, and the rest late or never.
    HalfFrames,
}

impl Sickness {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Paused,
        Self::Slow,
        Self::OneWay,
        Self::Lying,
        Self::Undecodable,
        Self::NotReading,
        Self::HalfFrames,
    ];
}

impl fmt::Display for Sickness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Paused => "paused",
            Self::Slow => "slow",
            Self::OneWay => "one-way",
            Self::Lying => "lying",
            Self::Undecodable => "undecodable",
            Self::NotReading => "not-reading",
            Self::HalfFrames => "half-frames",
        })
    }
}

impl FromStr for Sickness {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.to_string() == text);
        found.ok_or_else(|| {
            format!(
                "no sickness `{text}` among {}",
                Self::ALL.map(|kind| kind.to_string()).join(", ")
            )
        })
    }
}

/// A plan of so many nodes, of which one is sick.
#[must_use]
pub fn draw(seed: u64, nodes: usize, sickness: Sickness) -> Plan {
    let mut chance = Chance::new(seed, Purpose::Faults);
    let sick = chance.index(nodes);
    let mut others: Vec<usize> = (0..nodes).filter(|node| *node != sick).collect();
    chance.shuffle(&mut others);
    let is_alone = chance.per_mille(250);
    let hit = if is_alone { 1 } else { 1 + chance.index(nodes - 1) };
    let victims = &others[..hit];
    let mut plan = Plan {
        nodes,
        events: Vec::new(),
        cascade: false,
        sick: Some(sick),
    };
    let mut now = 0;
    match sickness {
        Sickness::Paused => {
            for _ in 0..=chance.below(3) {
                let time = chance.between(SECOND, 12 * SECOND);
                plan.events.push((now, Event::Pause(sick, time)));
                now += time + chance.between(SECOND / 2, 6 * SECOND);
            }
        }
        Sickness::Slow => {
            for _ in 0..=chance.below(3) {
                let (delay, time) = (
                    chance.between(SECOND / 10, 3 * SECOND),
                    chance.between(2 * SECOND, 12 * SECOND),
                );
                plan.events.push((now, Event::Slow(sick, delay, time)));
                now += time + chance.between(SECOND / 2, 6 * SECOND);
            }
        }
        Sickness::OneWay => {
            for round in 0..=chance.below(3) {
                let mut cuts = Vec::new();
                for victim in victims {
                    match chance.below(3) {
                        0 => cuts.push((sick, *victim)),
                        1 => cuts.push((*victim, sick)),
                        _ => cuts.extend([(sick, *victim), (*victim, sick)]),
                    }
                }
                if round > 0 {
                    plan.events.push((now, Event::Heal));
                    now += chance.between(SECOND / 5, 4 * SECOND);
                }
                plan.events.push((now, Event::BadNode(sick, cuts)));
                now += chance.between(SECOND, 8 * SECOND);
            }
        }
        Sickness::Lying | Sickness::Undecodable | Sickness::NotReading => {
            for victim in victims {
                let event = match sickness {
                    Sickness::Lying => Event::Swallow(*victim, sick, Swallowed::Answers),
                    Sickness::NotReading => Event::Swallow(*victim, sick, Swallowed::Everything),
                    Sickness::Undecodable
                    | Sickness::HalfFrames
                    | Sickness::OneWay
                    | Sickness::Paused
                    | Sickness::Slow => Event::Swallow(sick, *victim, Swallowed::Everything),
                };
                plan.events.push((now, event));
                now += chance.below(SECOND / 2);
            }
        }
        Sickness::HalfFrames => {
            for round in 0..2 + chance.below(5) {
                if round > 0 {
                    plan.events.push((now, Event::SwallowNothing));
                    now += chance.between(SECOND / 5, 2 * SECOND);
                }
                let stalls = |victim: &usize| (now, Event::Swallow(sick, *victim, Swallowed::Everything));
                plan.events.extend(victims.iter().map(stalls));
                now += chance.between(SECOND / 3, 3 * SECOND);
            }
            if chance.per_mille(500) {
                plan.events.push((now, Event::SwallowNothing));
            }
        }
    }
    plan
}

/// The other end, if whoever downed somebody first knew of one link of the sick node alone: nobody could tell
/// which of the two is sick.
pub(super) fn disputed(sim: &Sim, plan: &Plan) -> Option<usize> {
    let sick = plan.sick?;
    let process = |node| sim.history().process_of(node);
    let index = |node| Some(sim.history().processes[process(node)? as usize].index);
    let mut links = sim.history().known_broken.iter().flatten();
    let (one, other) = links.next().filter(|_| links.next().is_none())?;
    match (index(one)?, index(other)?) {
        (one, other) if one == sick => Some(other),
        (one, other) if other == sick => Some(one),
        _ => None,
    }
}

/// What became of many plans.
#[derive(Clone, Debug, Default)]
pub struct SickTally {
    /// Plans.
    pub plans: u64,
    /// Healthy nodes that were downed, but for the next.
    pub healthy_downed: u64,
    /// Plans in which one link alone was in dispute, and its healthy end went instead of the sick one.
    pub undecidable: u64,
    /// Plans that left nobody.
    pub ended: u64,
    /// Plans that left two sides.
    pub two_sided: u64,
    /// Plans that did not come to rest.
    pub stuck: u64,
    /// Seeds that took a healthy node along, ended the cluster or left two sides.
    pub bad: Vec<u64>,
    /// Broken invariants, by seed.
    pub violations: Vec<(u64, Violation)>,
}

impl SickTally {
    fn add(&mut self, seed: u64, outcome: Outcome) {
        self.plans += 1;
        let healthy = outcome.healthy_downed.unwrap_or(0) as u64;
        if outcome.undecidable {
            self.undecidable += 1;
        } else {
            self.healthy_downed += healthy;
        }
        self.ended += u64::from(outcome.parts == 0);
        self.two_sided += u64::from(outcome.parts > 1);
        self.stuck += u64::from(outcome.stuck);
        if outcome.parts != 1 || (healthy > 0 && !outcome.undecidable) {
            self.bad.push(seed);
        }
        self.violations
            .extend(outcome.violation.map(|violation| (seed, violation)));
    }
}

impl fmt::Display for SickTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            plans,
            healthy_downed,
            undecidable,
            ended,
            two_sided,
            ..
        } = self;
        write!(
            f,
            "{plans} | {healthy_downed} | {undecidable} | {ended} | {two_sided}"
        )
    }
}

/// Plays the plans of these seeds.
#[must_use]
pub fn run(
    seeds: core::ops::Range<u64>,
    nodes: usize,
    sickness: Sickness,
    setting: Setting,
    threads: usize,
) -> SickTally {
    let outcome = |seed| play(seed, &draw(seed, nodes, sickness), setting, Show::Nothing);
    let mut tally = on_all_cores(seeds, threads, outcome, SickTally::add);
    tally.bad.sort_unstable();
    tally.violations.sort_by_key(|(seed, _)| *seed);
    tally
}
