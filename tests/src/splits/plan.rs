//! What goes wrong in one run, drawn from a seed: a list of events in virtual time. Some plans are drawn to
//! stay within the safe assumptions, with several incidents one after the other; the others mix everything.
//! Which ones really do stay within is for `safe` to say. Spec: reliability 1a.

use std::fmt;

use crate::sim::{Chance, Purpose, Swallowed, Weather};

/// Microseconds of a second.
pub const SECOND: u64 = 1_000_000;
/// After this long an incident is over, whatever it was: detection (1.5 s), twice the stable period (2 s), a
/// tick of the resolver, the lease's delays, removal.
pub const SETTLED_AFTER: u64 = 10 * SECOND;

/// Frames that are this late at most, and not lost, still spread what is known long before anybody decides: a
/// round of gossip.
pub const LAG_MAX: u64 = SECOND / 10;

/// Something that goes wrong, or right again. Nodes are positions of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// F-01: a process ends without a word.
    Crash(usize),
    /// F-09: no frame passes between these groups any more.
    Split(Vec<Vec<usize>>),
    /// F-10: one direction is cut.
    OneWay(usize, usize),
    /// F-11: both directions of a pair are cut.
    Pair(usize, usize),
    /// F-11: the groups are cut off from each other, but for one node that still reaches everybody.
    Bridge(usize, Vec<Vec<usize>>),
    /// F-11: directions between one node and others are cut: `(from, to)`.
    BadNode(usize, Vec<(usize, usize)>),
    /// F-13: a direction that was cut is open again.
    Open(usize, usize),
    /// Everything is open again.
    Heal,
    /// F-05: a process stands still for so many microseconds.
    Pause(usize, u64),
    /// F-06: a process handles everything so late, for so long, in microseconds.
    Slow(usize, u64, u64),
    /// F-30: what one node sends does not come through to another: `(from, to, what)`.
    Swallow(usize, usize, Swallowed),
    /// All frames come through again.
    SwallowNothing,
    /// A member leaves in good order.
    Leave(usize),
    /// F-14, F-15, F-16, F-17: from now on frames are late, lost, out of order or doubled.
    Weather(Weather),
    /// F-32: the lease keeper answers nobody.
    LeaseDown,
    /// F-32: the keeper answers so many microseconds later.
    LeaseSlow(u64),
    /// F-32: these nodes do not reach the keeper.
    LeaseCut(Vec<usize>),
    /// F-32: the keeper is well again.
    LeaseBack,
}

/// A run: so many nodes, and what happens to them, by time since all were up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How many nodes.
    pub nodes: usize,
    /// What happens when, in order.
    pub events: Vec<(u64, Event)>,
    /// Nodes crash one after the other, each soon after the one before, and nothing else happens.
    pub cascade: bool,
    /// Everything that happens concerns this node alone (I-19).
    pub sick: Option<usize>,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} nodes", self.nodes)?;
        for (at, event) in &self.events {
            write!(f, "; {}.{:01} s {event:?}", at / SECOND, at % SECOND / 100_000)?;
        }
        Ok(())
    }
}

/// Draws plans.
struct Draw {
    chance: Chance,
    nodes: usize,
    now: u64,
    events: Vec<(u64, Event)>,
}

impl Plan {
    /// The plan of a seed.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let mut chance = Chance::new(seed, Purpose::Faults);
        let nodes = 3 + chance.index(5);
        let kind = chance.below(100);
        let mut draw = Draw {
            chance,
            nodes,
            now: 0,
            events: Vec::new(),
        };
        let mut sick = None;
        match kind {
            0..45 => draw.incidents(),
            45..60 => draw.cascade(),
            60..68 => sick = Some(draw.sick_node()),
            _ => draw.anything(),
        }
        Self {
            nodes,
            events: draw.events,
            cascade: (45..60).contains(&kind),
            sick,
        }
    }
}

impl Draw {
    fn add(&mut self, event: Event) {
        self.events.push((self.now, event));
    }

    fn node(&mut self) -> usize {
        self.chance.index(self.nodes)
    }

    fn pair(&mut self) -> (usize, usize) {
        let one = self.node();
        let other = (one + 1 + self.chance.index(self.nodes - 1)) % self.nodes;
        (one, other)
    }

    /// Two groups, now and then three or each node on its own.
    fn groups(&mut self) -> Vec<Vec<usize>> {
        let mut order: Vec<usize> = (0..self.nodes).collect();
        self.chance.shuffle(&mut order);
        let shape = self.chance.below(10);
        let first = 1 + self.chance.index(self.nodes - 1);
        let second = 1 + self.chance.index(self.nodes - 1);
        let cuts = match shape {
            0 => (1..self.nodes).collect(),
            1 | 2 => vec![first.min(second), first.max(second)],
            _ => vec![first],
        };
        let mut groups = Vec::new();
        let mut from = 0;
        for cut in cuts.into_iter().chain([self.nodes]) {
            groups.push(order[from..cut].to_vec());
            from = cut;
        }
        groups.retain(|group| !group.is_empty());
        groups
    }

    /// Clean incidents, two of them far apart or several things at one instant; in half of the plans gossip
    /// lags.
    fn incidents(&mut self) {
        if self.chance.per_mille(500) {
            let weather = Weather {
                latency_min: 100,
                latency_max: self.chance.between(2_000, LAG_MAX),
                loss_per_mille: 0,
                reorder_per_mille: self.chance.below(400),
                duplicate_per_mille: self.chance.below(150),
            };
            self.add(Event::Weather(weather));
        }
        let count = 2 + self.chance.index(2);
        let mut has_split = false;
        for _ in 0..count {
            if self.chance.per_mille(250) {
                self.lease_fault();
            }
            match self.chance.below(10) {
                0..3 => {
                    let node = self.node();
                    self.add(Event::Crash(node));
                }
                3 => {
                    for _ in 0..2 {
                        let node = self.node();
                        self.add(Event::Crash(node));
                    }
                }
                4..7 if !has_split => {
                    has_split = true;
                    let groups = self.groups();
                    self.add(Event::Split(groups));
                    if self.chance.per_mille(200) {
                        let node = self.node();
                        self.add(Event::Crash(node));
                    }
                }
                4..8 => {
                    let (one, other) = self.pair();
                    let event = if self.chance.per_mille(500) {
                        Event::Pair(one, other)
                    } else {
                        Event::OneWay(one, other)
                    };
                    self.add(event);
                }
                8 => {
                    let node = self.node();
                    self.add(Event::Leave(node));
                }
                _ => {
                    let (node, time) = (self.node(), self.chance.between(SECOND / 5, 2 * SECOND));
                    self.add(Event::Pause(node, time));
                }
            }
            self.now += SETTLED_AFTER + self.chance.below(3 * SECOND);
        }
    }

    /// Crashes in a row: each may have been reported by the next victim, and reported another.
    fn cascade(&mut self) {
        let count = 2 + self.chance.index(3.min(self.nodes - 2));
        let mut order: Vec<usize> = (0..self.nodes).collect();
        self.chance.shuffle(&mut order);
        for node in order.into_iter().take(count) {
            self.add(Event::Crash(node));
            self.now += self.chance.between(SECOND / 2, 5 * SECOND);
        }
    }

    /// One node stands still for long, or has bad links, or both.
    fn sick_node(&mut self) -> usize {
        let sick = self.node();
        let begin = self.chance.below(2);
        for at in begin..begin + 1 + self.chance.below(3) {
            if at % 2 == 0 {
                let time = self.chance.between(2 * SECOND, 12 * SECOND);
                self.add(Event::Pause(sick, time));
            } else {
                self.bad_node(sick);
            }
            self.now += self.chance.between(SECOND, 6 * SECOND);
        }
        sick
    }

    fn bad_node(&mut self, bad: usize) {
        let mut cut = Vec::new();
        for other in (0..self.nodes).filter(|other| *other != bad) {
            if self.chance.per_mille(500) {
                cut.push((bad, other));
            }
            if self.chance.per_mille(500) {
                cut.push((other, bad));
            }
        }
        self.add(Event::BadNode(bad, cut));
    }

    fn lease_fault(&mut self) {
        let event = match self.chance.below(3) {
            0 => Event::LeaseDown,
            1 => Event::LeaseSlow(self.chance.between(SECOND / 20, SECOND)),
            _ => {
                let count = 1 + self.chance.index(self.nodes - 1);
                Event::LeaseCut((0..count).map(|_| self.node()).collect())
            }
        };
        self.add(event);
    }

    fn anything(&mut self) {
        if self.chance.per_mille(400) {
            let weather = Weather {
                latency_min: 100,
                latency_max: self.chance.between(2_000, 300_000),
                loss_per_mille: self.chance.below(100),
                reorder_per_mille: self.chance.below(400),
                duplicate_per_mille: self.chance.below(100),
            };
            self.add(Event::Weather(weather));
        }
        let count = 2 + self.chance.below(4);
        for _ in 0..count {
            match self.chance.below(14) {
                0..4 => {
                    let node = self.node();
                    self.add(Event::Crash(node));
                }
                4 | 5 => {
                    let groups = self.groups();
                    self.add(Event::Split(groups));
                }
                6 => {
                    let (one, other) = self.pair();
                    self.add(Event::OneWay(one, other));
                }
                7 => {
                    let (one, other) = self.pair();
                    self.add(Event::Pair(one, other));
                }
                8 => {
                    let (bridge, groups) = (self.node(), self.groups());
                    self.add(Event::Bridge(bridge, groups));
                }
                9 => {
                    let bad = self.node();
                    self.bad_node(bad);
                }
                10 => self.flap(),
                11 => self.clog(),
                12 => {
                    let (node, time) = (self.node(), self.chance.between(SECOND, 12 * SECOND));
                    self.add(Event::Pause(node, time));
                }
                _ => self.minor(),
            }
            self.now += self.chance.below(5 * SECOND);
        }
    }

    /// What is no fault of the network, or the end of one.
    fn minor(&mut self) {
        match self.chance.below(3) {
            0 => self.add(Event::Heal),
            1 => {
                let node = self.node();
                self.add(Event::Leave(node));
            }
            _ => self.lease_fault(),
        }
    }

    /// F-12: a partition that comes and goes.
    fn flap(&mut self) {
        let groups = self.groups();
        let period = self.chance.between(SECOND / 2, 3 * SECOND);
        for _ in 0..2 + self.chance.below(4) {
            self.add(Event::Split(groups.clone()));
            self.now += period / 2;
            self.add(Event::Heal);
            self.now += period / 2;
        }
    }

    /// F-13: pairs are cut one by one and opened one by one in another order.
    fn clog(&mut self) {
        let mut pairs: Vec<(usize, usize)> = (0..self.nodes).map(|_| self.pair()).collect();
        let step = self.chance.between(SECOND / 10, SECOND);
        for (one, other) in pairs.clone() {
            self.add(Event::Pair(one, other));
            self.now += step;
        }
        self.chance.shuffle(&mut pairs);
        for (one, other) in pairs {
            self.add(Event::Open(one, other));
            self.add(Event::Open(other, one));
            self.now += step;
        }
    }
}
