//! Watches of entities and nodes: opened and given up at random, and judged by what really became of what
//! they watch. I-53: a watch ends once, with an end that was one; a move, a passivation and a restart are
//! none; at rest none is open whose entity or node has ended. Spec: sharding 1.17; reliability I-53.

use std::collections::BTreeMap;

use quorate_core::effect::{Answer, HaltReason, ShardingAnswer, ShardingCommandError};
use quorate_core::ident::UniqueAddress;
use quorate_core::input::{Command, ShardingCommand};
use quorate_core::sharding::ids::{EntityId, KindId, ShardId, Slot};
use quorate_core::sharding::protocol::watch::{TerminationReason, WatchTarget};

use super::chance::{Chance, Purpose};
use super::engine::Sim;
use super::history::{Life, ProcessId};
use super::plan::SECOND;
use super::process::Open;
use super::work::{ENTITIES, KIND, SHARDS};

/// With so many of a thousand messages of the workload somebody begins to watch an entity, or a node, or
/// watches something no more.
const ENTITIES_PER_MILLE: u64 = 120;
const NODES_PER_MILLE: u64 = 20;
const GIVEN_UP_PER_MILLE: u64 = 30;
/// At rest what is unheard is said again five times a second, and a node that nobody knows is waited for for
/// 30 s.
const REST_MAX: u64 = 40 * SECOND;

/// How an entity ended that nobody had told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Stopped,
    Failed,
}

/// One watch.
#[derive(Clone, Debug)]
struct Watched {
    watcher: ProcessId,
    target: WatchTarget,
    opened_at: u64,
    is_open: bool,
    /// Its watcher has given it up.
    is_given_up: bool,
}

/// What is known of an entity: ends, what runs of it and since when, and whether its last incarnation ended
/// for good.
#[derive(Clone, Debug, Default)]
struct Known {
    ends: Vec<(u64, End)>,
    running: BTreeMap<(ProcessId, Slot), u64>,
    /// Its last incarnation ended, or died with this process, and none has begun since.
    gone: Option<Gone>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gone {
    Ended,
    With(ProcessId),
}

/// How often what happened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WatchCounts {
    pub(crate) opened: u64,
    pub(crate) stopped: u64,
    pub(crate) failed: u64,
    pub(crate) not_running: u64,
    pub(crate) removed: u64,
    pub(crate) open_at_rest: u64,
}

/// All watches of a run.
#[derive(Debug)]
pub(crate) struct Watches {
    chance: Chance,
    pub(crate) enabled: bool,
    all: Vec<Watched>,
    known: BTreeMap<EntityId, Known>,
    /// Until when each process hosted a shard; `u64::MAX` while it does.
    hosted: BTreeMap<(ProcessId, ShardId), u64>,
    pub(crate) counts: WatchCounts,
}

impl Watches {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            chance: Chance::new(seed, Purpose::Watches),
            enabled: false,
            all: Vec::new(),
            known: BTreeMap::new(),
            hosted: BTreeMap::new(),
            counts: WatchCounts::default(),
        }
    }

    /// An entity runs.
    pub(crate) fn started(&mut self, now: u64, process: ProcessId, slot: Slot, entity: &EntityId) {
        let known = self.known.entry(entity.clone()).or_default();
        known.running.insert((process, slot), now);
        known.gone = None;
    }

    /// An entity runs no more; without an end of its own if it was told to.
    pub(crate) fn stopped(&mut self, process: ProcessId, slot: Slot, entity: &EntityId, end: Option<End>) {
        if let Some(known) = self.known.get_mut(entity) {
            known.running.remove(&(process, slot));
            known.gone = end.map(|_| Gone::Ended).filter(|_| known.running.is_empty());
        }
    }

    /// An entity says that it ends, or has ended.
    pub(crate) fn ends(&mut self, now: u64, entity: &EntityId, end: End) {
        let known = self.known.entry(entity.clone()).or_default();
        known.ends.push((now, end));
    }

    /// An entity takes all of its shard with it, and what had only messages waiting there as well.
    pub(crate) fn shard_fails(&mut self, now: u64, over: &EntityId) {
        let shard = ShardId::of(over, SHARDS);
        let all = (0..ENTITIES).map(|number| EntityId::from(format!("e{number}").as_str()));
        for entity in all.filter(|entity| ShardId::of(entity, SHARDS) == shard) {
            self.ends(now, &entity, End::Failed);
        }
    }

    /// A process hosts a shard from now on, or does not any more.
    pub(crate) fn hosts(&mut self, process: ProcessId, shard: ShardId, until: u64) {
        self.hosted.insert((process, shard), until);
    }

    /// A process has ended with all that it had.
    pub(crate) fn died(&mut self, now: u64, process: ProcessId) {
        for known in self.known.values_mut() {
            let before = known.running.len();
            known.running.retain(|(host, _), _| *host != process);
            if known.running.len() < before && known.running.is_empty() {
                known.gone = Some(Gone::With(process));
            }
        }
        for ((host, _), until) in &mut self.hosted {
            if *host == process {
                *until = now.min(*until);
            }
        }
        for watched in self.all.iter_mut().filter(|watched| watched.watcher == process) {
            watched.is_open = false;
        }
    }

    /// Whether an entity really ended this way while it was watched.
    fn has_ended(&self, entity: &EntityId, since: u64, end: End) -> bool {
        let known = self.known.get(entity);
        known.is_some_and(|known| known.ends.contains_since(since, end))
    }

    /// Whether one incarnation of an entity has run all the time since then.
    fn has_run_since(&self, entity: &EntityId, since: u64) -> bool {
        let known = self.known.get(entity);
        known.is_some_and(|known| known.running.values().any(|started| *started <= since))
    }
}

trait Since {
    fn contains_since(&self, since: u64, end: End) -> bool;
}

impl Since for Vec<(u64, End)> {
    fn contains_since(&self, since: u64, end: End) -> bool {
        self.iter().any(|(at, how)| *at >= since && *how == end)
    }
}

impl Sim {
    /// Somebody may begin to watch something, or give a watch up.
    pub(crate) fn random_watch(&mut self, nodes: usize) {
        if !self.watches.enabled {
            return;
        }
        let chance = &mut self.watches.chance;
        let (what, index, other) = (chance.below(1_000), chance.index(nodes), chance.index(nodes));
        let entity = EntityId::from(format!("e{}", chance.below(ENTITIES)).as_str());
        let picked = chance.number();
        if what < ENTITIES_PER_MILLE {
            let kind = KindId::of(KIND);
            self.watch(index, WatchTarget::Entity { kind, entity });
        } else if what < ENTITIES_PER_MILLE + NODES_PER_MILLE {
            if let Some(node) = self.running_at(other) {
                let node = self.processes[node as usize].me.clone();
                self.watch(index, WatchTarget::Node(node));
            }
        } else if what < ENTITIES_PER_MILLE + NODES_PER_MILLE + GIVEN_UP_PER_MILLE {
            self.give_a_watch_up(picked);
        }
    }

    fn watch(&mut self, index: usize, target: WatchTarget) {
        let Some(process) = self.running_at(index) else {
            return;
        };
        if self.now < self.processes[process as usize].paused_until {
            return;
        }
        let at = self.watches.all.len();
        self.watches.all.push(Watched {
            watcher: process,
            target: target.clone(),
            opened_at: self.now,
            is_open: true,
            is_given_up: false,
        });
        self.watches.counts.opened += 1;
        let watch = at as u64;
        let command = ShardingCommand::Watch { watch, target };
        self.command(process, Open::Watch(at), Command::Sharding(command));
    }

    fn give_a_watch_up(&mut self, picked: u64) {
        let open = |(_, watched): &(usize, &Watched)| watched.is_open && !watched.is_given_up;
        let all: Vec<usize> = self
            .watches
            .all
            .iter()
            .enumerate()
            .filter(open)
            .map(|(at, _)| at)
            .collect();
        let Some(&at) = all.get(usize::try_from(picked % all.len().max(1) as u64).unwrap_or(0)) else {
            return;
        };
        let process = self.watches.all[at].watcher;
        if self.now < self.processes[process as usize].paused_until {
            return;
        }
        self.watches.all[at].is_given_up = true;
        let command = ShardingCommand::Unwatch { watch: at as u64 };
        self.command(process, Open::Command("unwatch"), Command::Sharding(command));
    }

    /// A watch is answered. That it is so once only follows from its token.
    pub(crate) fn on_watch_answer(&mut self, process: ProcessId, at: usize, answer: &Answer) {
        let watched = &mut self.watches.all[at];
        watched.is_open = false;
        let watched = watched.clone();
        let why = match answer {
            Answer::Sharding(ShardingAnswer::Terminated(why)) => *why,
            Answer::Done if watched.is_given_up => return,
            Answer::Refused(_) => return self.on_watch_refused(process, at, answer),
            Answer::Done
            | Answer::Asked(_)
            | Answer::Sharding(
                ShardingAnswer::Surveyed(_)
                | ShardingAnswer::Entities(_)
                | ShardingAnswer::ShardsStopped(_)
                | ShardingAnswer::Explained(_)
                | ShardingAnswer::ShutDown(_),
            )
            | Answer::Ddata(_)
            | Answer::Singleton(_)
            | Answer::Journal(_)
            | Answer::Kv(_) => {
                return self.violated("I-53", process, format!("watch {at} is answered with {answer:?}"));
            }
        };
        let counts = &mut self.watches.counts;
        match why {
            TerminationReason::Stopped => counts.stopped += 1,
            TerminationReason::Failed => counts.failed += 1,
            TerminationReason::NotRunning => counts.not_running += 1,
            TerminationReason::NodeRemoved => counts.removed += 1,
            // Judged below.
            TerminationReason::NeverSeen | _ => {}
        }
        let is_true = match &watched.target {
            WatchTarget::Entity { entity, .. } => self.is_true_of_entity(&watched, entity, why),
            WatchTarget::Node(node) => self.is_true_of_node(process, node, why),
        };
        if !is_true {
            let what = format!("watch {at} ends with {why:?}, which did not happen: {watched:?}");
            self.violated("I-53", process, what);
        }
    }

    /// Only a node that ends, and one without the kind, refuses.
    fn on_watch_refused(&mut self, process: ProcessId, at: usize, answer: &Answer) {
        use quorate_core::effect::CommandError;
        let expected = [
            Answer::Refused(CommandError::Stopped),
            Answer::Refused(CommandError::Sharding(ShardingCommandError::NotRegistered)),
        ];
        if !expected.contains(answer) {
            self.violated("I-53", process, format!("watch {at} is answered with {answer:?}"));
        }
    }

    fn is_true_of_entity(&self, watched: &Watched, entity: &EntityId, why: TerminationReason) -> bool {
        let since = watched.opened_at;
        match why {
            TerminationReason::Stopped => self.watches.has_ended(entity, since, End::Stopped),
            TerminationReason::Failed => self.watches.has_ended(entity, since, End::Failed),
            // Outside of the safe shapes its home may be one that has just taken it over.
            TerminationReason::NotRunning => {
                !self.assumptions.safe() || !self.watches.has_run_since(entity, since)
            }
            TerminationReason::NodeRemoved => self.has_lost_a_home(watched, ShardId::of(entity, SHARDS)),
            // Said of nodes, or by a later version.
            TerminationReason::NeverSeen | _ => false,
        }
    }

    /// Whether a node that hosted a shard while it was watched is no member to the watcher, and had not
    /// handed the shard over in good order before it left.
    fn has_lost_a_home(&self, watched: &Watched, shard: ShardId) -> bool {
        let view = self.processes[watched.watcher as usize].node.view();
        let hosted = self.watches.hosted.iter();
        let mut hosted = hosted.filter(|((_, of), until)| *of == shard && **until >= watched.opened_at);
        hosted.any(|((home, _), until)| {
            let host = &self.processes[*home as usize];
            let has_left = host.life == Life::Halted(HaltReason::Left);
            let in_good_order = has_left && *until < self.history.processes[*home as usize].ended_at;
            view.member(&host.me).is_none() && !(self.assumptions.safe() && in_good_order)
        })
    }

    fn is_true_of_node(&self, process: ProcessId, node: &UniqueAddress, why: TerminationReason) -> bool {
        let view = self.processes[process as usize].node.view();
        match why {
            TerminationReason::NodeRemoved | TerminationReason::NeverSeen => view.member(node).is_none(),
            TerminationReason::Stopped | TerminationReason::Failed | TerminationReason::NotRunning => false,
            // A later version's.
            _ => false,
        }
    }

    /// Everything is at rest: no watch is open whose entity has ended, or whose node is none of the members.
    pub(crate) fn rest_of_watches(&mut self) {
        if !self.watches.enabled {
            return;
        }
        let limit = self.now + REST_MAX;
        while self.violation.is_none() {
            let Some((process, what)) = self.missed_end() else {
                let open = self.watches.all.iter().filter(|watched| watched.is_open);
                self.watches.counts.open_at_rest += open.count() as u64;
                return;
            };
            if self.now >= limit {
                return self.violated("I-53", process, what);
            }
            self.advance(self.now + SECOND / 10);
        }
    }

    fn missed_end(&self) -> Option<(ProcessId, String)> {
        let open = self.watches.all.iter().enumerate();
        let mut open = open.filter(|(_, watched)| watched.is_open);
        open.find_map(|(at, watched)| {
            let is_missed = match &watched.target {
                WatchTarget::Node(node) => {
                    let view = self.processes[watched.watcher as usize].node.view();
                    view.member(node).is_none()
                }
                WatchTarget::Entity { entity, .. } => {
                    let known = self.watches.known.get(entity);
                    known.is_none_or(|known| known.gone.is_some())
                }
            };
            let what = || {
                let known = match &watched.target {
                    WatchTarget::Entity { entity, .. } => self.watches.known.get(entity),
                    WatchTarget::Node(_) => None,
                };
                format!("watch {at} is open, and what it watches is no more: {watched:?}, {known:?}")
            };
            is_missed.then(|| (watched.watcher, what()))
        })
    }
}
