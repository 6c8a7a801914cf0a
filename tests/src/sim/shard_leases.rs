//! A lease per shard, in a share of the seeds of the profile `life`: their keeper is down, late, cut off or
//! refuses everybody at times, and at times somebody takes a lease away from who holds it. I-54: an entity of
//! such a kind starts, and is given a message, only while its node holds the lease of its shard; a lease that
//! is lost ends all of them in the same step, and it is given back only once nothing of the shard runs. Spec:
//! sharding 1.16; reliability I-54.

use core::time::Duration;
use std::collections::BTreeMap;

use quorate_core::config::ShardingConfig;
use quorate_core::effect::HostOrder;
use quorate_core::effect::HostedInstance;
use quorate_core::event::ShardingEvent;
use quorate_core::lease::protocol::{LeaseName, LeaseOutcome};
use quorate_core::sharding::ids::{KindId, ShardId};

use super::chance::{Chance, Purpose};
use super::engine::Sim;
use super::history::ProcessId;
use super::leases::LeaseKeeper;
use super::plan::SECOND;
use super::work::{KIND, SHARDS};

/// Of a thousand seeds so many have leases.
const SEEDS_PER_MILLE: u64 = 250;
/// A lease outlives its owner for so long: less than a hand-off may take.
const TIME_TO_LIVE: Duration = Duration::from_secs(4);
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// Time between two changes of how the keeper is: some troubles outlast what is held.
const TROUBLES: (u64, u64) = (SECOND / 2, 6 * SECOND);
/// The latest answer of a keeper that is late: half of the time to live.
const LATE: (u64, u64) = (20_000, 2 * SECOND);

/// How often what happened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ShardLeaseCounts {
    pub(crate) granted: u64,
    pub(crate) denied: u64,
    pub(crate) lost: u64,
    pub(crate) unanswered: u64,
    pub(crate) taken_away: u64,
    /// Entities that started with the lease of their shard.
    pub(crate) started: u64,
}

/// The leases of a run's shards.
#[derive(Debug)]
pub(crate) struct ShardLeases {
    chance: Chance,
    pub(crate) enabled: bool,
    /// Theirs alone: what decides who goes in a partition has its own.
    pub(super) keeper: LeaseKeeper,
    next_trouble: u64,
    /// Shards that stop because their leases were lost, and when they had stopped.
    lost: BTreeMap<(ProcessId, ShardId), Option<u64>>,
    pub(crate) counts: ShardLeaseCounts,
}

impl ShardLeases {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            chance: Chance::new(seed, Purpose::ShardLeases),
            enabled: false,
            keeper: LeaseKeeper::default(),
            next_trouble: 0,
            lost: BTreeMap::new(),
            counts: ShardLeaseCounts::default(),
        }
    }

    /// Draws whether this run has them.
    pub(super) fn configure(&mut self, config: &mut ShardingConfig) {
        self.enabled = self.chance.per_mille(SEEDS_PER_MILLE);
        if self.enabled {
            config.lease_time_to_live = TIME_TO_LIVE;
            config.lease_retry_interval = RETRY_INTERVAL;
        }
    }

    pub(super) fn count(&mut self, outcome: LeaseOutcome) {
        let counts = &mut self.counts;
        match outcome {
            LeaseOutcome::Granted { .. } => counts.granted += 1,
            LeaseOutcome::Denied => counts.denied += 1,
            LeaseOutcome::Lost => counts.lost += 1,
            LeaseOutcome::Released => {}
        }
    }

    /// A process says something of its shards. Whether one begins anew where it was, in the step in which it
    /// had stopped without its lease: nobody gives it a home again, and whoever did may be no more. Outside
    /// of the safe shapes the process may have stood still in between, and begins once it is told that it is
    /// a member.
    pub(super) fn begins_anew(
        &mut self,
        (now, safe): (u64, bool),
        process: ProcessId,
        event: &ShardingEvent,
    ) -> bool {
        if let ShardingEvent::ShardLeaseLost { shard } = event {
            self.lost.insert((process, *shard), None);
        } else if let ShardingEvent::ShardStopped { shard } = event {
            self.lost
                .entry((process, *shard))
                .and_modify(|stopped| *stopped = Some(now));
        } else if let ShardingEvent::ShardStarted { shard, .. } = event {
            let stopped = self.lost.remove(&(process, *shard)).flatten();
            return stopped.is_some_and(|stopped| stopped == now || !safe);
        }
        false
    }

    /// Nothing is wrong with the keeper any more.
    pub(super) fn repair(&mut self) {
        self.keeper = LeaseKeeper::default();
    }

    fn draw_keeper(&mut self, nodes: usize) -> LeaseKeeper {
        let (late, index) = (self.chance.between(LATE.0, LATE.1), self.chance.index(nodes));
        let healthy = LeaseKeeper::default();
        match self.chance.below(10) {
            0 => LeaseKeeper {
                is_down: true,
                ..healthy
            },
            1 | 2 => LeaseKeeper { late, ..healthy },
            3 => LeaseKeeper {
                cut_off: (0..nodes).filter(|at| at % 2 == index % 2).collect(),
                ..healthy
            },
            4 => LeaseKeeper {
                cut_off: [index].into(),
                ..healthy
            },
            5 => LeaseKeeper {
                refuses: true,
                ..healthy
            },
            _ => healthy,
        }
    }
}

fn lease_name(shard: ShardId) -> LeaseName {
    LeaseName::from(format!("sim-shard-{KIND}-{}", shard.0))
}

impl Sim {
    /// Something may happen to the keeper of the shards' leases, or to one of them.
    pub(crate) fn trouble_shard_leases(&mut self, nodes: usize) {
        let leases = &mut self.lives.leases;
        if !leases.enabled || self.now < leases.next_trouble {
            return;
        }
        leases.next_trouble = self.now + leases.chance.between(TROUBLES.0, TROUBLES.1);
        leases.keeper = leases.draw_keeper(nodes);
        let (takes, shard) = (
            leases.chance.per_mille(400),
            leases.chance.below(u64::from(SHARDS)),
        );
        let keeper = leases.keeper.clone();
        self.note(format_args!("leases of shards: {keeper:?}"));
        let name = lease_name(ShardId(u32::try_from(shard).unwrap_or(0)));
        if takes && self.leases.take_away(&name) {
            self.lives.leases.counts.taken_away += 1;
            self.note(format_args!("{name} is taken away"));
        }
    }

    /// A node orders something of its entities.
    pub(crate) fn judge_lease(&mut self, process: ProcessId, order: &HostOrder) -> Result<(), String> {
        if !self.lives.leases.enabled {
            return Ok(());
        }
        let host = &self.processes[process as usize];
        let (shard, does) = match order {
            HostOrder::Start {
                instance: HostedInstance::Entity { shard, .. },
                ..
            } => (*shard, "starts"),
            HostOrder::Deliver { slot, .. } => match host.entities.get(*slot) {
                Some(entity) => (ShardId::of(&entity.id, SHARDS), "is given a message"),
                None => return Ok(()),
            },
            HostOrder::Start {
                instance: HostedInstance::Singleton { .. } | HostedInstance::Path { .. },
                ..
            }
            | HostOrder::Stop { .. }
            | HostOrder::StopWithState { .. }
            | HostOrder::Kill { .. } => return Ok(()),
        };
        if !host.leases.contains_key(&lease_name(shard)) {
            return Err(format!(
                "an entity of {shard:?} {does} without the lease: {order:?}"
            ));
        }
        self.lives.leases.counts.started += u64::from(does == "starts");
        Ok(())
    }

    /// A node gives a lease back, or has heard that it has lost it: nothing of its shard runs there.
    pub(crate) fn judge_end_of_lease(&mut self, process: ProcessId, lease: &LeaseName, does: &str) {
        if !self.lives.leases.enabled || self.violation.is_some() {
            return;
        }
        let kind = KindId::of(KIND);
        let runs = self.history.active.iter().find(|((of, entity), instances)| {
            *of == kind
                && lease_name(ShardId::of(entity, SHARDS)) == *lease
                && instances.iter().any(|(at, _)| *at == process)
        });
        // A handler that blocks its thread cannot be ended, and the node was told so.
        let may_end = !self.processes[process as usize].is_stuck;
        if let Some(((_, entity), _)) = runs.filter(|_| may_end) {
            let what = format!("{does} {lease} while {entity} runs");
            self.violated("I-54", process, what);
        }
    }
}
