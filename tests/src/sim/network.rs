//! The simulated network: links, lanes, latency, loss and cuts. Decides when a frame arrives or that it never
//! does; never looks into one. Every ordered pair of process and address has one link, dialled when first
//! used, as a TCP host does it: frames of one lane and one epoch arrive in order, a broken link loses what
//! was on the way.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::input::SendTarget;
use quorate_core::message::{Lane, Message, ShardingMsg};

use super::chance::{Chance, Purpose};
use super::history::ProcessId;
use super::room::{Crowd, Room};

/// Messages that may wait for a link to be established. A real host bounds this too; the simulated one is
/// small so that the bound is met.
pub(crate) const DIAL_QUEUE_MAX: usize = 512;
/// How long a dial waits for an answer that does not come, in microseconds.
pub(crate) const DIAL_TIMEOUT: u64 = 400_000;
/// Longest time by which a datagram is overtaken, in microseconds (F-16).
const LATE_MAX: u64 = 400_000;
/// Longest time after which a copy of a datagram comes, in microseconds (F-17).
const COPY_LATE_MAX: u64 = 10_000_000;
/// How long a link rests after a failed dial, in microseconds.
pub(crate) const DIAL_BACKOFF: u64 = 200_000;

/// The way from a process to an address.
#[derive(Debug, Default)]
pub(crate) struct Link {
    pub(crate) state: LinkState,
    /// Counts the established links; frames of an older one are not delivered.
    pub(crate) epoch: u32,
    pub(crate) crowd: Crowd,
    /// When the last frame of each lane arrives.
    last: [u64; Lane::ALL.len()],
}

/// Whether the link is there.
#[derive(Debug)]
pub(crate) enum LinkState {
    /// Nobody has dialled, or the last dial failed and may be repeated at the given time.
    Idle { again_at: u64 },
    /// Dialling; these messages wait.
    Dialling(Vec<(SendTarget, Message)>),
    /// Established with this process.
    Up(ProcessId),
}

impl Default for LinkState {
    fn default() -> Self {
        Self::Idle { again_at: 0 }
    }
}

/// What the network does to frames at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weather {
    /// Shortest time on the way, in microseconds.
    pub latency_min: u64,
    /// Longest time on the way, in microseconds.
    pub latency_max: u64,
    /// Frames lost in a thousand.
    pub loss_per_mille: u64,
    /// Heartbeats and gossip in a thousand that come later than they should, and so out of order.
    pub reorder_per_mille: u64,
    /// Heartbeats and gossip in a thousand that come a second time.
    pub duplicate_per_mille: u64,
}

impl Weather {
    /// A local network: 0.1 to 2 ms, nothing lost.
    pub const FINE: Self = Self {
        latency_min: 100,
        latency_max: 2_000,
        loss_per_mille: 0,
        reorder_per_mille: 0,
        duplicate_per_mille: 0,
    };
}

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It arrives at this time, unless the link breaks or is cut.
    Arrives(u64),
    /// It is lost by chance.
    Lost,
    /// There is no way at the moment.
    Cut,
}

/// The network.
#[derive(Debug)]
pub(crate) struct Network {
    chance: Chance,
    pub(crate) weather: Weather,
    cuts: BTreeSet<(usize, usize)>,
    links: BTreeMap<(ProcessId, usize), Link>,
    /// Whether queues of links have a bound, and which.
    pub(crate) room: Room,
    /// Frames that chance or a cut took, for the report.
    pub(crate) frames_lost: u64,
    pub(crate) frames_cut: u64,
}

impl Network {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            chance: Chance::new(seed, Purpose::Network),
            weather: Weather::FINE,
            cuts: BTreeSet::new(),
            links: BTreeMap::new(),
            room: Room::new(seed),
            frames_lost: 0,
            frames_cut: 0,
        }
    }

    /// Cuts every way between nodes of different groups; nodes in no group keep their ways.
    pub(crate) fn partition(&mut self, groups: &[Vec<usize>]) {
        for (at, group) in groups.iter().enumerate() {
            for other in groups.iter().skip(at + 1) {
                for (&a, &b) in group.iter().flat_map(|a| other.iter().map(move |b| (a, b))) {
                    self.cuts.insert((a, b));
                    self.cuts.insert((b, a));
                }
            }
        }
    }

    /// Cuts one direction between two nodes.
    pub(crate) fn cut(&mut self, from: usize, to: usize) {
        self.cuts.insert((from, to));
    }

    /// Opens one direction between two nodes.
    pub(crate) fn open(&mut self, from: usize, to: usize) {
        self.cuts.remove(&(from, to));
    }

    /// By how much a heartbeat or a gossip comes too late, and how much after it a copy of it comes; only a
    /// transport that sends them as datagrams does either.
    pub(crate) fn datagram_oddities(&mut self) -> (u64, Option<u64>) {
        let weather = self.weather;
        let mut late = 0;
        if weather.reorder_per_mille > 0 && self.chance.per_mille(weather.reorder_per_mille) {
            late = self.chance.between(1_000, LATE_MAX);
        }
        let mut copy = None;
        if weather.duplicate_per_mille > 0 && self.chance.per_mille(weather.duplicate_per_mille) {
            copy = Some(self.chance.between(100, COPY_LATE_MAX));
        }
        (late, copy)
    }

    pub(crate) fn heal(&mut self) {
        self.cuts.clear();
    }

    pub(crate) fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cuts.contains(&(from, to))
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.cuts.is_empty()
    }

    pub(crate) fn link(&mut self, from: ProcessId, to: usize) -> &mut Link {
        self.links.entry((from, to)).or_default()
    }

    /// Established links that `wanted` accepts: dialler, address, epoch and peer.
    pub(crate) fn links_up(
        &self,
        wanted: impl Fn(ProcessId, usize, ProcessId) -> bool,
    ) -> Vec<(ProcessId, usize, u32)> {
        let up = self
            .links
            .iter()
            .filter_map(|((from, to), link)| match link.state {
                LinkState::Up(peer) if wanted(*from, *to, peer) => Some((*from, *to, link.epoch)),
                LinkState::Up(_) | LinkState::Idle { .. } | LinkState::Dialling(_) => None,
            });
        up.collect()
    }

    /// A process is gone: what waited for its dials is too, and is returned. Frames on the way still arrive:
    /// they had left it.
    pub(crate) fn forget_dialler(&mut self, process: ProcessId) -> Vec<Message> {
        let mut lost = Vec::new();
        for ((from, _), link) in &mut self.links {
            if let (true, LinkState::Dialling(waiting)) = (*from == process, &mut link.state) {
                lost.extend(waiting.drain(..).map(|(_, message)| message));
            }
        }
        lost
    }

    /// Takes the asks that wait for a dial of a process.
    pub(crate) fn take_waiting_asks(&mut self, process: ProcessId) -> Vec<(SendTarget, Message)> {
        let is_ask = |(_, message): &(SendTarget, Message)| matches!(message, Message::Sharding(ShardingMsg::Entity(envelope)) if envelope.ask.is_some());
        let mut taken = Vec::new();
        for ((from, _), link) in &mut self.links {
            if let (true, LinkState::Dialling(waiting)) = (*from == process, &mut link.state) {
                let (asks, others) = waiting.drain(..).partition(is_ask);
                *waiting = others;
                taken.extend::<Vec<_>>(asks);
            }
        }
        taken
    }

    /// How long something small is on the way.
    pub(crate) fn latency(&mut self) -> u64 {
        self.chance
            .between(self.weather.latency_min, self.weather.latency_max)
    }

    /// Chance for what is not a frame: when a host notices that a link is dead.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        self.chance.between(low, high)
    }

    /// Decides about one frame. Draws the same numbers whatever is cut, so that a cut shifts nothing else.
    pub(crate) fn carry(&mut self, now: u64, from: (ProcessId, usize), to: usize, lane: Lane) -> Fate {
        let latency = self.latency();
        let lost = self.chance.per_mille(self.weather.loss_per_mille);
        if self.is_cut(from.1, to) {
            self.frames_cut += 1;
            return Fate::Cut;
        }
        if lost {
            self.frames_lost += 1;
            return Fate::Lost;
        }
        let last = &mut self.link(from.0, to).last[lane as usize];
        *last = (now + latency).max(*last + 1);
        Fate::Arrives(*last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_one_lane_arrive_in_order_and_lanes_are_independent() {
        let mut network = Network::new(1);
        let mut last = 0;
        for now in 0..200 {
            let Fate::Arrives(at) = network.carry(now, (0, 0), 1, Lane::User) else {
                panic!("nothing is lost in fine weather");
            };
            assert!(at > last);
            last = at;
        }
        let overtook = (0..50).any(|_| {
            let fate = network.carry(200, (0, 0), 1, Lane::Control);
            matches!(fate, Fate::Arrives(at) if at < last)
        });
        assert!(overtook, "a quiet lane does not wait for a busy one");
    }

    #[test]
    fn a_partition_cuts_both_ways_between_groups_only() {
        let mut network = Network::new(1);
        network.partition(&[vec![0, 1], vec![2]]);
        assert!(network.is_cut(0, 2) && network.is_cut(2, 1));
        assert!(!network.is_cut(0, 1));
        network.heal();
        assert!(network.is_whole());
    }
}
