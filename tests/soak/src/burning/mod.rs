//! Load under real processes: five nodes host paths and shards and have little to do. Then one of them burns
//! as many threads as there are cores. It has to give up a slot and a shard, and until the cool-down is over
//! it gets nothing of what it gave up back, nor anything in its place.

mod node;

use std::collections::BTreeMap;
use std::fmt;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use quorate_core::load::state::moves::COOL_DOWN;
use quorate_demo::hosts::Host;

use crate::ending::{self, Folder, Judged};
use crate::fleet::{self, Column, Place, Proof};
use crate::ledger::line;
use crate::node::SHARDS;
use crate::processes::Listens as _;
use crate::program::{self, NODES, NodeOptions, Options, Program, Stage};
use crate::stores::Stores;

/// Paths of one instance each, so that every node has a slot.
const PATHS: usize = NODES;
/// The burning node has to give something up within this time.
const MOVED_WITHIN: Duration = Duration::from_secs(120);
/// What went does not come for so long: the cool-down begins with the order to go, and a move takes time.
const NOT_BACK: Duration = Duration::from_secs(COOL_DOWN.as_secs() - 1);
/// Nothing has begun or ended for so long: everybody has what the numbers give it.
const STILL: Duration = Duration::from_secs(3);

struct Burning;

impl Program for Burning {
    const NAME: &'static str = "burning";
    const ABOUT: &'static str = "\
Five node processes host the instances of five paths and the thirty shards of a kind, and have little to do. Then one of them
burns as many threads as there are cores; load moves by the selector `cpu`, with the timings of one machine. Within two minutes it
has to give up a slot and a shard, and for the cool-down of 30 s nothing may come to it, neither that nor anything in its place.";
    const SECONDS: &'static str =
        "how long is watched whether anything comes to it, from when it gave up the last of the two";
    const STORE: Option<&'static str> =
        Some("keep the nodes' promises in this folder, in one file for each node");
    const EXIT: &'static str = "\
0 if a slot and a shard left the burning node in time, and nothing came to it, 1 if not";
    const RANGE: (u64, u64, u64) = (COOL_DOWN.as_secs(), 3_600, COOL_DOWN.as_secs());

    fn node<H: Host>(options: NodeOptions) -> ExitCode {
        node::run::<H>(options)
    }

    fn run(options: &Options, stage: &Stage) -> ExitCode {
        let folder = Folder::of::<Self>(options);
        let outcome = folder.and_then(|folder| run(options, stage, &folder));
        ending::finish::<Self>(options, outcome)
    }
}

/// The whole program, arguments and exit code included.
#[must_use]
pub fn main() -> ExitCode {
    program::main::<Burning>()
}

/// A slot or a shard, by its line.
type Unit = String;

fn is_slot(unit: &str) -> bool {
    unit.starts_with("slot ")
}

/// Where everything is, and what has moved since one node burns.
#[derive(Default)]
struct Whereabouts {
    at: BTreeMap<Unit, usize>,
    changed: Option<Instant>,
    burning: Option<(usize, Instant)>,
    /// What began elsewhere that the burning node had, and how long after it began to burn.
    given_up: BTreeMap<Unit, Duration>,
    /// What it got before the cool-down was over: back, and instead of what it gave up.
    back: usize,
    instead: usize,
}

impl Whereabouts {
    fn starts(&mut self, who: usize, unit: &str, now: Instant) {
        let before = self.at.insert(unit.to_owned(), who);
        self.changed = Some(now);
        let Some((burning, since)) = self.burning else {
            return;
        };
        if who == burning {
            let now = now - since;
            let is_recent = |went: &Duration| now < *went + NOT_BACK;
            let sort = is_slot(unit);
            if self.given_up.get(unit).is_some_and(is_recent) {
                self.back += 1;
            } else if self
                .given_up
                .iter()
                .any(|(other, went)| is_slot(other) == sort && is_recent(went))
            {
                self.instead += 1;
            }
        } else if before == Some(burning) {
            self.given_up.insert(unit.to_owned(), now - since);
        }
    }

    fn count(&self, who: usize, is_one: impl Fn(&str) -> bool) -> usize {
        let here = self.at.iter().filter(|(_, at)| **at == who);
        here.filter(|(unit, _)| is_one(unit)).count()
    }

    fn are_settled(&self) -> bool {
        let all = PATHS + SHARDS as usize;
        let is_still = |changed: Instant| changed.elapsed() >= STILL;
        self.at.len() == all && self.changed.is_some_and(is_still)
    }

    /// When the first slot, or the first shard, had begun elsewhere.
    fn first(&self, slots: bool) -> Option<Duration> {
        let moved = self.given_up.iter().filter(|(unit, _)| is_slot(unit) == slots);
        moved.map(|(_, after)| *after).min()
    }
}

type Fleet = fleet::Fleet<Whereabouts>;

impl Proof for Whereabouts {
    const PATIENCE: Duration = Duration::from_secs(60);
    const COLUMNS: &'static [Column] = &[("answered", 0), ("asked again", 1)];

    fn hear(fleet: &mut Fleet, who: usize, what: &str, rest: &str) {
        if what == "start" {
            fleet.proof.starts(who, rest, Instant::now());
            if fleet.proof.burning.is_some() {
                fleet.screen.say(format_args!("node {}: {rest} starts", who + 1));
            }
        }
    }

    /// Slots and shards that have begun somewhere.
    fn acknowledged(&self) -> u64 {
        self.at.len() as u64
    }

    fn line(&self, places: &[Place]) -> String {
        let answered: u64 = places.iter().map(|place| place.number(0)).sum();
        format!(
            "{answered} answered, {} slots and shards moved",
            self.given_up.len()
        )
    }
}

fn run(options: &Options, stage: &Stage, folder: &Folder) -> Result<Verdict, String> {
    let node = NodeOptions::first("burning", stage);
    let stores = folder.stays().then(|| Stores::Files(folder.path().to_owned()));
    let mut fleet = Fleet::new(options, stage, node, stores, Whereabouts::default())?;
    fleet.start_all()?;
    fleet
        .screen
        .say(format_args!("{NODES} nodes are up, over {}", stage.name));
    fleet.begin()?;
    // Nodes say how things stand a few times a second, so that this is looked at again.
    fleet.until(
        Whereabouts::PATIENCE,
        "every slot and shard to have its place",
        |fleet| fleet.proof.are_settled(),
    )?;
    let burning = the_one_that_burns(&fleet.proof)?;
    fleet.screen.say(format_args!(
        "node {} burns, with {} slots and {} shards",
        burning + 1,
        fleet.proof.count(burning, is_slot),
        fleet.proof.count(burning, |unit| !is_slot(unit)),
    ));
    fleet.order(burning, "burn", "burning")?;
    fleet.proof.burning = Some((burning, Instant::now()));
    let moved = fleet.until(MOVED_WITHIN, "a slot and a shard to go", |fleet| {
        fleet.proof.first(true).is_some() && fleet.proof.first(false).is_some()
    });
    if moved.is_ok() {
        fleet.run_for(options.time)?;
    }
    let verdict = Verdict::of(&fleet.proof, moved.err());
    fleet.screen.say(format_args!("{verdict}"));
    Ok(verdict)
}

/// One that has both, and of those the one that decides least.
fn the_one_that_burns(places: &Whereabouts) -> Result<usize, String> {
    let has_both =
        |node: &usize| places.count(*node, is_slot) > 0 && places.count(*node, |unit| !is_slot(unit)) > 1;
    let found = (0..NODES).rev().find(has_both);
    found.ok_or_else(|| "no node has a slot and shards".to_owned())
}

/// What has come of it.
struct Verdict {
    slots: usize,
    shards: usize,
    first_slot: Duration,
    first_shard: Duration,
    back: usize,
    instead: usize,
    stuck: Option<String>,
}

impl Verdict {
    fn of(places: &Whereabouts, stuck: Option<String>) -> Self {
        let slots = places.given_up.keys().filter(|unit| is_slot(unit)).count();
        Self {
            slots,
            shards: places.given_up.len() - slots,
            first_slot: places.first(true).unwrap_or_default(),
            first_shard: places.first(false).unwrap_or_default(),
            back: places.back,
            instead: places.instead,
            stuck,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (slot, shard) = (self.first_slot.as_secs_f32(), self.first_shard.as_secs_f32());
        write!(
            f,
            "{} slots went, the first after {slot:.1} s, and {} shards, the first after {shard:.1} s; within the cool-down \
             {} came back, and {} instead",
            self.slots, self.shards, self.back, self.instead
        )
    }
}

impl Judged for Verdict {
    fn fault(&self) -> Option<String> {
        match &self.stuck {
            Some(why) => Some(format!("{why}; {self}")),
            None => (self.back + self.instead > 0).then(|| self.to_string()),
        }
    }

    fn json(&self) -> String {
        line(&[
            ("slots", &self.slots),
            ("shards", &self.shards),
            ("first_slot_ms", &self.first_slot.as_millis()),
            ("first_shard_ms", &self.first_shard.as_millis()),
            ("back", &self.back),
            ("instead", &self.instead),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_from_the_burning_node_and_what_comes_to_it_is_told_apart() {
        let now = Instant::now();
        let mut places = Whereabouts::default();
        for (who, unit) in [(4, "slot 1"), (4, "shard 7"), (4, "shard 8"), (0, "shard 9")] {
            places.starts(who, unit, now);
        }
        assert_eq!(the_one_that_burns(&places), Ok(4));
        places.burning = Some((4, now));
        assert!(Verdict::of(&places, None).fault().is_none());
        places.starts(1, "slot 1", now + Duration::from_secs(2));
        places.starts(2, "shard 7", now + Duration::from_secs(3));
        places.starts(2, "shard 9", now + Duration::from_secs(4));
        let found = |places: &Whereabouts| {
            let verdict = Verdict::of(places, None);
            (verdict.slots, verdict.shards, verdict.back, verdict.instead)
        };
        assert_eq!(found(&places), (1, 1, 0, 0));
        assert_eq!(Verdict::of(&places, None).first_shard, Duration::from_secs(3));
        assert_eq!(Verdict::of(&places, None).fault(), None);
        places.starts(4, "shard 9", now + Duration::from_secs(5));
        assert_eq!(found(&places), (1, 1, 0, 1));
        places.starts(4, "slot 1", now + Duration::from_secs(30));
        assert_eq!(found(&places), (1, 1, 1, 1));
        assert!(Verdict::of(&places, None).fault().is_some());
        // The cool-down is over.
        places.starts(4, "shard 7", now + Duration::from_secs(33));
        assert_eq!(found(&places), (1, 1, 1, 1));
    }
}
