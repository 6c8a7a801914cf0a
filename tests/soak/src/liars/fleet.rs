//! The node processes: three to which is lied, the liar, and five that join afterwards; what they say, and
//! what memory the three take. Dropping it ends them all.

use std::time::{Duration, Instant};

use super::node::LIAR;
use crate::processes::{Listens, Processes};
use crate::program::{NodeOptions, READY, START_TIMEOUT};
use crate::stores::Stores;
use quorate_demo::screen::Screen;
use quorate_demo::trust::Authority;

/// To how many is lied.
pub(super) const HONEST: usize = 3;
/// All, with those that join afterwards.
pub(super) const ALL: usize = 9;
/// Between two looks at their memory.
const WEIGH_EVERY: Duration = Duration::from_millis(100);
/// What a node says of itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shown {
    pub(super) up: u64,
    pub(super) members: u64,
    answered: u64,
    failed: u64,
    pub(super) frames: u64,
    pub(super) dropped: u64,
}

/// One node.
#[derive(Clone, Debug, Default)]
struct Place {
    address: Option<String>,
    shown: Shown,
    has_ended: bool,
    /// Resident memory before the lies, and the most of it since.
    before: u64,
    most: u64,
}

/// See the module.
pub(super) struct Fleet {
    options: NodeOptions,
    stores: Stores,
    processes: Processes,
    places: Vec<Place>,
    weighed: Instant,
    /// What the liar has told: how many, and how many of the kind of which the fewest were.
    pub(super) told: (u64, u64),
    pub(super) screen: Screen,
}

impl Fleet {
    pub(super) fn new(
        (options, stores): (NodeOptions, Stores),
        authority: Authority,
        screen: Screen,
    ) -> Self {
        Self {
            options,
            stores,
            processes: Processes::new(ALL, authority),
            places: vec![Place::default(); ALL],
            weighed: Instant::now(),
            told: (0, 0),
            screen,
        }
    }

    /// Starts nodes and waits until each is Up: the first of all forms the cluster, the others join through
    /// it.
    pub(super) fn start(&mut self, nodes: &[usize]) -> Result<(), String> {
        for index in nodes {
            let options = NodeOptions {
                index: *index,
                seed: self.places[0].address.clone(),
                store: Some(self.stores.of(*index)),
                ..self.options.clone()
            };
            self.processes.start(*index, options.arguments())?;
        }
        let mut open = nodes.to_vec();
        self.wait_until(START_TIMEOUT * 2, "nodes to be Up", |_, who, line| {
            if line.is_some_and(|line| line.starts_with(READY)) {
                open.retain(|node| *node != who);
            }
            open.is_empty().then_some(())
        })
    }

    /// Tells these nodes something, and waits until each has said that it is done.
    pub(super) fn order(
        &mut self,
        nodes: &[usize],
        order: &str,
        done: &str,
        patience: Duration,
    ) -> Result<(), String> {
        for node in nodes {
            self.processes.tell(*node, order);
        }
        let mut open = nodes.to_vec();
        self.wait_until(patience, done, |_, who, line| {
            if line == Some(done) {
                open.retain(|node| *node != who);
            }
            open.is_empty().then_some(())
        })
    }

    /// Waits until each of these nodes sees so many members, all of them Up.
    pub(super) fn wait_for(
        &mut self,
        nodes: &[usize],
        members: u64,
        patience: Duration,
    ) -> Result<(), String> {
        let what = format!("{members} members that are Up");
        self.wait_until(patience, &what, |fleet, _, _| {
            let mut shown = nodes.iter().map(|node| fleet.places[*node].shown);
            let all = shown.all(|shown| (shown.up, shown.members) == (members, members));
            all.then_some(())
        })
    }

    /// Has an operator declare the liar Down, and ends its process at the same time.
    pub(super) fn end_the_liar(&mut self, by: usize) {
        let liar = self.places[LIAR].address.clone().unwrap_or_default();
        self.processes.tell(by, &format!("down {liar}"));
        self.processes.let_end(LIAR);
    }

    pub(super) fn kill(&mut self, index: usize) {
        self.processes.kill(index);
    }

    /// From now on what their memory grows by counts.
    pub(super) fn weigh_from_now(&mut self) {
        for index in 0..HONEST {
            let resident = self.resident(index).unwrap_or(0);
            let place = &mut self.places[index];
            (place.before, place.most) = (resident, resident);
        }
    }

    /// What the memory of each has grown by, at most.
    pub(super) fn growth(&self) -> Vec<u64> {
        let honest = self.places.iter().take(HONEST);
        honest
            .map(|place| place.most.saturating_sub(place.before))
            .collect()
    }

    /// How many have ended that should not have.
    pub(super) fn ended(&self) -> usize {
        let others = self.places.iter().enumerate().filter(|(index, _)| *index != LIAR);
        others.filter(|(_, place)| place.has_ended).count()
    }

    pub(super) fn shown(&self, index: usize) -> Shown {
        self.places[index].shown
    }

    fn resident(&self, index: usize) -> Option<u64> {
        let process = self.processes.id(index)?;
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kib << 10)
    }

    fn weigh(&mut self) {
        if self.weighed.elapsed() < WEIGH_EVERY {
            return;
        }
        self.weighed = Instant::now();
        for index in 0..HONEST {
            if let Some(resident) = self.resident(index) {
                let place = &mut self.places[index];
                place.most = place.most.max(resident);
            }
        }
    }

    fn show(&mut self) {
        let places = &self.places;
        let rows = || {
            let mut table = String::from("  node  Up  answered  failed     frames  MiB more\n");
            for (index, place) in places
                .iter()
                .enumerate()
                .filter(|(_, place)| place.address.is_some())
            {
                let (shown, grown) = (place.shown, place.most.saturating_sub(place.before) >> 20);
                table += &format!(
                    "  {:<4} {:>3} {:>9} {:>7} {:>10} {grown:>9}\n",
                    index + 1,
                    shown.up,
                    shown.answered,
                    shown.failed,
                    shown.frames
                );
            }
            table
        };
        let grown = self.growth().into_iter().max().unwrap_or(0) >> 20;
        let (sent, least) = self.told;
        let line =
            || format!("{sent} lies, at least {least} of each kind; memory grew by {grown} MiB at most");
        self.screen.show(rows, line);
    }
}

impl Listens for Fleet {
    fn listen(&mut self, limit: Duration) -> Result<Option<(usize, Option<String>)>, String> {
        self.weigh();
        let Some((who, line)) = self.processes.listen(limit.min(WEIGH_EVERY))? else {
            return Ok(None);
        };
        match line.as_deref().and_then(|line| line.split_once(' ')) {
            Some(("show", rest)) => {
                let mut words = rest.split(' ').map(|word| word.parse().unwrap_or(0));
                let mut number = || words.next().unwrap_or(0);
                self.places[who].shown = Shown {
                    up: number(),
                    members: number(),
                    answered: number(),
                    failed: number(),
                    frames: number(),
                    dropped: number(),
                };
                self.show();
            }
            Some(("told", rest)) => {
                let mut words = rest.split(' ').map(|word| word.parse().unwrap_or(0));
                self.told = (words.next().unwrap_or(0), words.next().unwrap_or(0));
            }
            Some(("ready", address)) => self.places[who].address = Some(address.trim().to_owned()),
            Some(("note" | "failed:", rest)) => {
                self.screen.say(format_args!("node {}: {rest}", who + 1));
            }
            Some((_, _)) | None => {}
        }
        if line.is_none() {
            self.places[who].has_ended = true;
        }
        Ok(Some((who, line)))
    }
}
