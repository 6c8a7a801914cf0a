//! F-30: a member with a bug gives a shard a second home. A region is told to host a shard that runs
//! elsewhere, in the name of the coordinator; one of the two then has handlers that do not end, and the
//! coordinator crashes. Its successor hears two claims, has both stopped, and finds that one of them takes
//! longer than a hand-off may. Drawn from a stream of its own, so that the other faults of a seed stay what
//! they are. Brings the fault about; judges nothing.

use core::time::Duration;

use quorate_core::ident::UniqueAddress;
use quorate_core::message::{Message, ShardingBody, ShardingMessage, ShardingMsg};
use quorate_core::sharding::CoordinatorPhase;
use quorate_core::sharding::ids::{KindId, ShardId, Term};
use quorate_core::token::Token;

use super::chance::{Chance, Purpose};
use super::engine::Sim;
use super::faults::FaultKind;
use super::history::ProcessId;
use super::network::Weather;
use super::plan::{Plan, Profile, SECOND};
use super::script::all_up;
use super::work::KIND;

/// Seeds of a thousand that have one. Few, because the run is outside of the safe shapes from then on.
const PER_MILLE: u64 = 80;
/// How long handlers run on: longer than the crash takes to be noticed and a hand-off may last (10 s),
/// shorter than two.
const STUCK: u64 = 22 * SECOND;
/// From the second home to the crash, so that both are known to run.
const CRASH_AFTER: u64 = SECOND;

/// The conflict of a run.
#[derive(Clone, Debug)]
pub(super) struct Conflict {
    chance: Chance,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// This seed has none, or it is over.
    Over,
    /// From this time on, as soon as the cluster is calm.
    Due(u64),
    /// The coordinator is to crash.
    Crash {
        at: u64,
        coordinator: ProcessId,
        stuck: ProcessId,
    },
    /// Handlers run on.
    Stuck { until: u64, process: ProcessId },
}

/// Who hosts a shard, who is to host it as well, and who says so.
struct Cast {
    coordinator: ProcessId,
    term: Term,
    shard: ShardId,
    owners: [ProcessId; 2],
}

impl Conflict {
    pub(super) fn draw(seed: u64, plan: &Plan) -> Self {
        let mut chance = Chance::new(seed, Purpose::Conflicts);
        let is_alone = plan.faults.iter().all(|kind| !kind.is_mixed());
        let wanted = chance.per_mille(PER_MILLE) || is_alone;
        let at = chance.between(10 * SECOND, plan.chaos_seconds.saturating_mul(SECOND / 2));
        let may_happen = plan.faults.contains(&FaultKind::Conflict) && plan.profile == Profile::Sharding;
        let stage = if wanted && may_happen && plan.nodes >= 3 {
            Stage::Due(at)
        } else {
            Stage::Over
        };
        Self { chance, stage }
    }

    /// Goes on with the conflict if it is time.
    pub(super) fn go_on(&mut self, sim: &mut Sim) {
        match self.stage {
            Stage::Over => {}
            Stage::Due(at) => {
                let calm = sim.network.is_whole() && sim.network.weather == Weather::FINE && all_up(sim);
                if sim.now >= at
                    && calm
                    && let Some(cast) = self.cast(sim)
                {
                    self.begin(sim, &cast);
                }
            }
            Stage::Crash {
                at,
                coordinator,
                stuck,
            } => {
                if sim.now >= at {
                    if sim.processes[coordinator as usize].runs() {
                        sim.kill(coordinator);
                    }
                    let until = sim.now + STUCK;
                    self.stage = Stage::Stuck {
                        until,
                        process: stuck,
                    };
                }
            }
            Stage::Stuck { until, process } => {
                if sim.now >= until {
                    self.end(sim, process);
                }
            }
        }
    }

    /// Whoever runs on ends: the quiet phase begins.
    pub(super) fn finish(&mut self, sim: &mut Sim) {
        match self.stage {
            Stage::Over | Stage::Due(_) => self.stage = Stage::Over,
            Stage::Crash { stuck: process, .. } | Stage::Stuck { process, .. } => self.end(sim, process),
        }
    }

    fn end(&mut self, sim: &mut Sim, process: ProcessId) {
        sim.processes[process as usize].is_stuck = false;
        self.stage = Stage::Over;
    }

    /// A coordinator, a shard on another node, and a third one.
    fn cast(&mut self, sim: &Sim) -> Option<Cast> {
        let running: Vec<ProcessId> = (0..sim.last_at.len())
            .filter_map(|index| sim.running_at(index))
            .collect();
        let state = |process: ProcessId| {
            sim.processes[process as usize]
                .node
                .sharding()
                .coordinator(KindId::of(KIND))
        };
        let (coordinator, state) = running.iter().find_map(|process| {
            let state = state(*process).filter(|state| state.phase == CoordinatorPhase::Active)?;
            Some((*process, state))
        })?;
        let live = |node: &UniqueAddress| sim.lives(node).filter(|process| *process != coordinator);
        let settled = |shard: &ShardId| !state.moving.contains(shard);
        let homes = state.homes.iter().filter(|(shard, _)| settled(shard));
        let homes: Vec<(ShardId, ProcessId)> = homes
            .filter_map(|(shard, home)| Some((*shard, live(home)?)))
            .collect();
        let (shard, home) = *homes.get(self.chance.index(homes.len()))?;
        let others = running
            .iter()
            .filter(|process| **process != coordinator && **process != home);
        let others: Vec<ProcessId> = others.copied().collect();
        let second = *others.get(self.chance.index(others.len()))?;
        Some(Cast {
            coordinator,
            term: state.term.clone()?,
            shard,
            owners: [home, second],
        })
    }

    fn begin(&mut self, sim: &mut Sim, cast: &Cast) {
        let [home, second] = cast.owners;
        sim.assumptions.breaks(sim.now, "a shard was given a second home");
        sim.faults.add(FaultKind::Conflict);
        sim.fact(second, format_args!("is told to host {:?} as well", cast.shard));
        let from = sim.processes[cast.coordinator as usize].me.clone();
        // Below the home's, or above every one that was given, as far as a coordinator believes: whoever has
        // the lower one has to stop, and takes its time for that.
        let (token, stuck) = if self.chance.per_mille(500) {
            (Token::new(0, 1), second)
        } else {
            (Token::new(u64::from(cast.term.up_number.get()), 1 << 12), home)
        };
        let body = ShardingBody::HostShard {
            term: cast.term.clone(),
            shard: cast.shard,
            token,
        };
        let kind = KindId::of(KIND);
        sim.checks.plant_home(kind, cast.term.clone(), cast.shard, second);
        let message = Message::Sharding(ShardingMsg::Kind(ShardingMessage { kind, body }));
        sim.hear(second, &from, message);
        // Something that has to be stopped runs on both.
        for process in cast.owners {
            let index = sim.processes[process as usize].index;
            for entity in super::work::entities_in(cast.shard) {
                sim.ask(index, &entity, Duration::from_secs(1));
            }
        }
        sim.advance(sim.now + SECOND / 10);
        sim.processes[stuck as usize].is_stuck = true;
        self.stage = Stage::Crash {
            at: sim.now + CRASH_AFTER,
            coordinator: cast.coordinator,
            stuck,
        };
    }
}
