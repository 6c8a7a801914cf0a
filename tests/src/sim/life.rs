//! What entities go through in the profile `life`: they panic, are made anew, fail, stop, take a whole shard
//! with them, are slow, answer late, are moved by a strategy of the seed's own, and one node of some seeds
//! hosts none of them. Decides only what happens to whom; the invariants judge. Spec: sharding 1.4, 1.7;
//! reliability I-40 to I-53.

use std::collections::BTreeMap;

use quorate_core::effect::HostOrder;
use quorate_core::event::ShardingEvent;
use quorate_core::ident::{Role, UniqueAddress};
use quorate_core::input::{Command, HostReport, ShardingCommand};
use quorate_core::sharding::allocation::{AllocationSettings, HashingLimits, SimultaneousLimits};
use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::{AskRef, EntityId, KindId, Payload, ShardId, Slot};
use quorate_core::sharding::wish::Wish;
use quorate_core::view::MembershipPhase;

use super::chance::{Chance, Purpose};
use super::engine::{Happening, Sim};
use super::entities::Obeyed;
use super::history::{ProcessId, Whereabouts};
use super::plan::{Plan, SECOND};
use super::process::Open;
use super::shard_leases::ShardLeases;
use super::watches::End;
use super::work::{KIND, SHARDS};
use crate::invariants::{Cause, Holds, i_46, i_49};

/// Time between two changes of where shards are wanted, where somebody outside says so.
const WISHES: (u64, u64) = (SECOND, 4 * SECOND);
/// The longest a slow handler takes: several of them outlast no hand-off (10 s), a full mailbox of them does.
const SLOW_MAX: u64 = 1_200_000;
/// The latest answer; some come after their asker has stopped waiting (0.5 to 5 s).
const LATE_MAX: u64 = 4 * SECOND;
/// At rest nothing moves for this long: thirty looks at the balance.
const STILL: u64 = 15 * SECOND;
/// And it comes to that within this time.
const REST_MAX: u64 = 90 * SECOND;

/// What becomes of the entity that handles a message, and of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It answers at once and goes on.
    Plain,
    /// It answers after this time, whatever has become of it by then.
    AnswersLate(u64),
    /// It panics, and is made anew without its node's knowing.
    Restarts,
    /// It panics, and is not made anew.
    Fails,
    /// It answers, and ends because it wants to.
    Stops,
    /// It answers, ends, and is not to be remembered any more.
    Forgets,
    /// It panics, and that concerns its whole shard.
    Escalates,
}

/// How often each of them happens, of a thousand messages.
#[derive(Clone, Copy, Debug, Default)]
struct Temper {
    late: u64,
    restarts: u64,
    fails: u64,
    stops: u64,
    forgets: u64,
    escalates: u64,
    slow: u64,
}

/// How shards are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Spread {
    #[default]
    Default,
    OneByOne,
    Hashing,
    Outside,
}

/// How often what happened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LifeCounts {
    pub(crate) late: u64,
    pub(crate) restarted: u64,
    pub(crate) failed: u64,
    pub(crate) stopped: u64,
    pub(crate) escalated: u64,
    pub(crate) slow: u64,
    pub(crate) wishes: u64,
    pub(crate) full: u64,
    pub(crate) at_rest: u64,
}

/// The life of a run's entities.
#[derive(Debug)]
pub(crate) struct Lives {
    chance: Chance,
    pub(crate) enabled: bool,
    temper: Temper,
    spread: Spread,
    /// The address whose node hosts nothing.
    proxy: Option<usize>,
    /// When somebody wants shards elsewhere.
    next_wish: u64,
    /// An entity takes its shard with it just now: who is killed has failed.
    pub(crate) escalates: bool,
    /// Those whose end has not been reported.
    pub(crate) failing: BTreeMap<(ProcessId, Slot), EntityId>,
    pub(crate) leases: ShardLeases,
    pub(crate) counts: LifeCounts,
}

impl Lives {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            chance: Chance::new(seed, Purpose::Lives),
            enabled: false,
            temper: Temper::default(),
            spread: Spread::Default,
            proxy: None,
            next_wish: 0,
            escalates: false,
            failing: BTreeMap::new(),
            leases: ShardLeases::new(seed),
            counts: LifeCounts::default(),
        }
    }

    /// Draws how the entities of this run are.
    fn enable(&mut self, nodes: usize) {
        self.enabled = true;
        let mut often = |most: u64| {
            let wanted = self.chance.per_mille(700);
            let count = self.chance.between(1, most);
            if wanted { count } else { 0 }
        };
        self.temper = Temper {
            late: often(200),
            restarts: often(60),
            fails: often(40),
            stops: often(40),
            forgets: often(40),
            escalates: often(8),
            slow: often(60),
        };
        self.spread = match self.chance.below(8) {
            0 => Spread::OneByOne,
            1 => Spread::Hashing,
            2 | 3 => Spread::Outside,
            _ => Spread::Default,
        };
        self.proxy = (self.chance.per_mille(350) && nodes >= 3).then_some(nodes - 1);
    }

    /// What becomes of the entity that has just handled a message.
    pub(crate) fn fate(&mut self) -> Fate {
        if !self.enabled {
            return Fate::Plain;
        }
        let (mut at, late) = (self.chance.below(1_000), self.chance.between(1_000, LATE_MAX));
        let temper = self.temper;
        let fates = [
            (temper.late, Fate::AnswersLate(late)),
            (temper.restarts, Fate::Restarts),
            (temper.fails, Fate::Fails),
            (temper.stops, Fate::Stops),
            (temper.forgets, Fate::Forgets),
            (temper.escalates, Fate::Escalates),
        ];
        for (share, fate) in fates {
            if at < share {
                return fate;
            }
            at -= share;
        }
        Fate::Plain
    }

    /// How much longer than others the next handler takes.
    pub(crate) fn slowness(&mut self) -> u64 {
        if !self.enabled || !self.chance.per_mille(self.temper.slow) {
            return 0;
        }
        self.counts.slow += 1;
        self.chance.between(100_000, SLOW_MAX)
    }

    /// Whether the node at an address hosts entities.
    pub(crate) fn hosts(&self, index: usize) -> bool {
        self.proxy != Some(index)
    }

    /// The role of those that host, where not all do.
    pub(crate) fn role(&self) -> Option<Role> {
        let worker = || Role::new("worker").expect("invariant: a short name is legal");
        self.proxy.map(|_| worker())
    }

    /// The kind's strategy, where it has one of its own.
    pub(crate) fn allocation(&self) -> Option<AllocationSettings> {
        match self.spread {
            Spread::Default => None,
            Spread::OneByOne => Some(AllocationSettings::LeastShardsOneByOne(
                SimultaneousLimits::default(),
            )),
            Spread::Hashing => Some(AllocationSettings::ConsistentHashing(HashingLimits::default())),
            Spread::Outside => Some(AllocationSettings::External),
        }
    }

    /// How many shards may move at once, and whether all hosts have equally many at rest.
    pub(crate) fn limits(&self, relative: f64, shards: usize) -> (usize, bool) {
        match self.spread {
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a few shards"
            )]
            Spread::Default => (((shards as f64 * relative) as usize).max(1), true),
            Spread::OneByOne => (SimultaneousLimits::default().simultaneous, true),
            Spread::Hashing | Spread::Outside => (usize::MAX, false),
        }
    }
}

impl Sim {
    /// Settings and work of a run in which entities go through everything.
    pub(super) fn configure_life(&mut self, plan: &Plan) {
        self.lives.enable(plan.nodes);
        self.watches.enabled = true;
        self.passivations.configure(&mut self.config.sharding);
        self.lives.leases.configure(&mut self.config.sharding);
        if self.lives.chance.per_mille(300) {
            // Small, so that it is full at times.
            self.config.sharding.buffer_messages_max = 8;
            self.config.sharding.buffer_waiting_max = 4;
        }
        self.network.room.bound_some();
        if self.lives.chance.per_mille(250) {
            self.remembered.configure(&mut self.config, plan.nodes);
        }
    }

    /// Somebody outside wants shards elsewhere, and says so to every node.
    pub(crate) fn wish_homes(&mut self, nodes: usize) {
        if self.lives.spread != Spread::Outside || self.now < self.lives.next_wish {
            return;
        }
        self.lives.next_wish = self.now + self.lives.chance.between(WISHES.0, WISHES.1);
        self.lives.counts.wishes += 1;
        let shards = 0..SHARDS;
        let homes: Vec<_> = shards
            .filter_map(|shard| {
                let (wanted, index) = (self.lives.chance.per_mille(500), self.lives.chance.index(nodes));
                (wanted && self.lives.hosts(index)).then(|| (ShardId(shard), Wish::at(self.address(index))))
            })
            .collect();
        for index in 0..nodes {
            let Some(process) = self.running_at(index) else {
                continue;
            };
            let (kind, homes) = (KindId::of(KIND), homes.clone());
            let command = ShardingCommand::SetDesiredHomes { kind, homes };
            self.command(process, Open::Command("wish"), Command::Sharding(command));
        }
    }

    /// An entity answers, or somebody does in its place.
    pub(crate) fn answer(&mut self, process: ProcessId, ask: AskRef, payload: Payload, fate: Fate) {
        let (wait, result) = match fate {
            Fate::Plain | Fate::Stops | Fate::Forgets => (None, Ok(payload)),
            Fate::AnswersLate(wait) => (Some(wait), Ok(payload)),
            Fate::Restarts | Fate::Fails | Fate::Escalates => (None, Err(AskFailure::EntityStopped)),
        };
        let report = HostReport::Answered { ask, result };
        match wait {
            None => self.report_now(process, report),
            Some(wait) => {
                self.lives.counts.late += 1;
                let report = Box::new(report);
                self.queue
                    .push(self.now + wait, Happening::Reported { process, report });
            }
        }
    }

    /// What a message has done to its entity; whether it is no more.
    pub(crate) fn suffer(&mut self, process: ProcessId, slot: Slot, fate: Fate) -> bool {
        let Some(name) = self.processes[process as usize]
            .entities
            .get(slot)
            .map(|entity| entity.id.clone())
        else {
            return true;
        };
        let counts = &mut self.lives.counts;
        let (end, report) = match fate {
            Fate::Plain | Fate::AnswersLate(_) => return false,
            Fate::Restarts => {
                counts.restarted += 1;
                return false;
            }
            Fate::Fails => {
                counts.failed += 1;
                (End::Failed, HostReport::Failed { slot })
            }
            Fate::Stops | Fate::Forgets => {
                let forget = fate == Fate::Forgets;
                counts.stopped += 1;
                if forget {
                    self.remembered.may_be_forgotten(process, slot, &name);
                }
                (End::Stopped, HostReport::Ending { slot, forget })
            }
            Fate::Escalates => {
                counts.escalated += 1;
                self.watches.shard_fails(self.now, &name);
                (End::Failed, HostReport::Escalated { slot })
            }
        };
        self.watches.ends(self.now, &name, end);
        self.lives.escalates = fate == Fate::Escalates;
        self.report_now(process, report);
        self.lives.escalates = false;
        self.crash_entity(process, slot, Some(end));
        true
    }

    /// An entity ends at once, with all that waits for it; without an end of its own if it was told to stop
    /// and says nothing else.
    pub(crate) fn crash_entity(&mut self, process: ProcessId, slot: Slot, end: Option<End>) {
        let entities = &mut self.processes[process as usize].entities;
        let Some(name) = entities.get(slot).map(|entity| (entity.kind, entity.id.clone())) else {
            return;
        };
        let Obeyed::Killed(letters) = entities.obey(HostOrder::Kill { slot }) else {
            return;
        };
        self.history.stopped(process, slot, &name);
        self.watches.stopped(process, slot, &name.1, end);
        for letter in letters {
            self.history.message_is(&letter.payload, Whereabouts::Destroyed);
            if let Some(ask) = letter.reply_to {
                let result = Err(AskFailure::EntityStoppedUnhandled);
                self.report_now(process, HostReport::Answered { ask, result });
            }
        }
        if let Some(end) = end {
            self.watches.ends(self.now, &name.1, end);
        }
        self.report_now(process, HostReport::Stopped { slot });
    }

    /// A process stands still for so many microseconds. Its node has to notice if that is long enough,
    /// wherever its rounds are.
    pub(crate) fn stand_still(&mut self, process: ProcessId, time: u64) {
        let until = self.now + time;
        let host = &mut self.processes[process as usize];
        host.paused_until = until;
        let interval = host.node.config().failure_detector.heartbeat_interval;
        let round = u64::try_from(interval.as_micros()).unwrap_or(u64::MAX / 2);
        if time > host.pause_min() + 2 * round && host.node.view().phase() == MembershipPhase::Member {
            self.checks.i52.stands_still(process, until);
        }
    }

    /// A message comes to the node of a process, from another one or a user of its own.
    pub(crate) fn arrives_for(&mut self, process: ProcessId, at: usize) {
        let message = &self.history.messages[at];
        let (entity, is_tell) = (message.entity.clone(), !message.ask);
        if !self.lives.enabled || !self.checks.i48.looks_at(process, &entity) {
            return;
        }
        let shard = ShardId::of(&entity, SHARDS);
        let host = &self.processes[process as usize];
        let region = host.node.sharding().region(KindId::of(KIND));
        let stays = region.is_some_and(|region| region.homes.contains(&(shard, host.me.clone())));
        if stays {
            self.checks.i48.on_arrival(process, &entity, at, is_tell);
        } else {
            self.checks.i48.forget(process, Some(shard));
        }
    }

    /// What a region and a coordinator hold is within its limits.
    pub(crate) fn look_at_limits(&mut self, process: ProcessId, cause: &Cause) {
        if self.paths.enabled {
            return self.look_at_kept(process);
        }
        if !self.lives.enabled || self.is_bare {
            return;
        }
        let node = &self.processes[process as usize].node;
        let kind = KindId::of(KIND);
        let Some(region) = node.sharding().region(kind) else {
            return;
        };
        let sharding = &node.config().sharding;
        let holds = Holds {
            messages: region.buffered,
            waiting: region.waiting,
            asks: node.sharding().open_asks(),
        };
        let limits = (sharding.buffer_messages_max, sharding.buffer_waiting_max);
        let result = self.checks.i45.on_step(process, cause, holds, limits);
        if let Err(what) = result {
            return self.violated("I-45", process, what);
        }
        let Some(state) = node
            .sharding()
            .coordinator(kind)
            .filter(|_| self.assumptions.safe())
        else {
            return;
        };
        let (most, _) = self
            .lives
            .limits(sharding.rebalance_relative_limit, state.homes.len());
        // A region that is being emptied says so to its coordinator before gossip does.
        let stays = |home: &UniqueAddress| {
            let process = self.lives(home);
            let region = process.and_then(|at| self.processes[at as usize].node.sharding().region(kind));
            region.is_some_and(|region| !region.draining)
        };
        let moving = state.homes.iter();
        let moving = moving.filter(|(shard, home)| state.moving.contains(shard) && stays(home));
        if let Err(what) = i_46::on_step(node.view(), moving.count(), most) {
            self.violated("I-46", process, what);
        }
    }

    /// A shard starts where it was when its coordinator took over, and stopped since: that one knows it as
    /// its home.
    pub(crate) fn note_known_home(&mut self, process: ProcessId, event: &ShardingEvent) {
        let moment = (self.now, self.assumptions.safe());
        let begins_anew = self.lives.leases.begins_anew(moment, process, event);
        let ShardingEvent::ShardStarted { shard, term } = event else {
            return;
        };
        let kind = KindId::of(KIND);
        if begins_anew {
            self.checks.plant_home(kind, term.clone(), *shard, process);
        }
        let coordinator = self.lives(&term.node);
        let state = coordinator.and_then(|at| self.processes[at as usize].node.sharding().coordinator(kind));
        let home = (*shard, self.processes[process as usize].me.clone());
        if state.is_some_and(|state| state.term.as_ref() == Some(term) && state.homes.contains(&home)) {
            self.checks.plant_home(kind, term.clone(), *shard, process);
        }
    }

    /// Whether shards are given to, and run on, members that host the kind.
    pub(crate) fn judge_home(
        &self,
        process: ProcessId,
        event: &ShardingEvent,
    ) -> Result<(), (&'static str, String)> {
        let view = self.processes[process as usize].node.view();
        let hosts = |node: &UniqueAddress| self.index_of_node(node).is_some_and(|at| self.lives.hosts(at));
        i_49::on_sharding(event, view, hosts).map_err(|what| ("I-49", what))
    }

    /// Everything is at rest: shards come to rest too, as evenly as their strategy spreads them.
    pub(crate) fn rest_of_shards(&mut self) {
        if !self.lives.enabled {
            return;
        }
        let limit = self.now + REST_MAX;
        let mut before = self.homes();
        let mut since = self.now;
        while self.violation.is_none() {
            self.advance(self.now + SECOND / 10);
            let homes = self.homes();
            if homes != before || !self.is_even(&homes) {
                (before, since) = (homes, self.now);
            } else if self.now >= since + STILL {
                self.lives.counts.at_rest += 1;
                return;
            }
            if self.now >= limit {
                let what = format!("shards come to no rest, or to none that is even: {before:?}");
                return self.violated("I-46", 0, what);
            }
        }
    }

    fn is_even(&self, homes: &BTreeMap<ShardId, usize>) -> bool {
        let (_, is_even) = self.lives.limits(1.0, SHARDS as usize);
        let hosts = self
            .running()
            .into_iter()
            .filter(|index| self.lives.hosts(*index));
        let count = |host: usize| homes.values().filter(|home| **home == host).count();
        let counts: Vec<usize> = hosts.map(count).collect();
        let most = counts.iter().max().copied().unwrap_or(0);
        let least = counts.iter().min().copied().unwrap_or(0);
        !is_even || most - least <= 1
    }
}
