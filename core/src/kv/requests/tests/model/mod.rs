//! Random schedules of gets, puts, deletes, conditional puts and reaping, with crashes, lost and late
//! messages and ranges that move. Checked: I-70 (what was acknowledged is dominated by every later get), I-71
//! (so is what a get has shown), I-73 (no put twice), I-74 (all are equal in the end), I-75 (nothing deleted
//! returns); of conditional puts that name one version at most one takes effect; logs ([`logs`]).

mod logs;

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use self::logs::{LOG, Logs};
use super::world::{Flight, GRACE_MS, World, key, put};
use crate::ddata::state::key::Key;
use crate::journal::state::StoreId;
use crate::kv::requests::{CallAnswer, CallError, CallGoal};
use crate::kv::state::call::CallId;
use crate::kv::state::clock::{Actor, VersionClock, VersionDot};
use crate::kv::state::configuration::{Configuration, Owners};
use crate::kv::state::entry::{KeyDecision, KvEntry};
use crate::kv::state::exchange::{KvAnswer, KvAsk, KvChange, SettleStep};
use crate::kv::state::level::Level;
use crate::kv::state::node::MerkleNode;
use crate::kv::state::pruning::ClockPruning;
use crate::ordered::{OrderedMap, OrderedSet};
use crate::rng::below;

/// Raise it for a longer search.
const SEEDS: u64 = 160;
const STEPS: usize = 900;

/// Calls and messages live so long; together less than the grace.
const LIFE_MS: u64 = 80;

/// N, least R, least W.
const SHAPES: [(u8, u8, u8); 6] = [(3, 2, 2), (3, 2, 2), (3, 1, 3), (3, 3, 1), (4, 2, 3), (5, 3, 3)];

/// Keys: of ordinary puts, of conditional ones, of both, and of conditional ones with deletes.
const KEYS: [&str; 5] = ["o1", "o2", "c", "x", "d"];

/// What is known of a call that was begun.
#[derive(Clone, Debug)]
struct Begun {
    key: Key,
    goal: CallGoal,
    at_ms: u64,
    /// Writes of its key that were acknowledged or shown before.
    before: OrderedSet<usize>,
    /// How many conditional puts had followed each other, as far as anybody was told.
    depth: usize,
    is_seen: bool,
}

/// What was read of an owner for a newcomer, at an epoch.
struct Page {
    from: StoreId,
    to: StoreId,
    epoch: u64,
    entries: Vec<(Key, KvEntry)>,
}

struct Model {
    seed: u64,
    chance: ChaCha8Rng,
    world: World,
    past: Vec<Configuration>,
    /// Messages that come when they are as old as may be.
    late: Vec<Flight>,
    merged: OrderedSet<StoreId>,
    /// Parts of a move take as long as they take.
    pages: Vec<Page>,
    begun: Vec<Begun>,
    /// Writes that were acknowledged or shown.
    shown: OrderedSet<usize>,
    contexts: OrderedMap<Key, (VersionClock, Option<CallId>)>,
    depths: OrderedMap<Key, usize>,
    /// Which conditional put took effect on which version.
    effective: OrderedMap<usize, Option<CallId>>,
    void: OrderedSet<usize>,
    reaped: OrderedSet<Key>,
    pruned: OrderedSet<Actor>,
    tried: [usize; 6],
    logs: Logs,
}

impl Model {
    fn new(seed: u64) -> Self {
        let mut chance = ChaCha8Rng::seed_from_u64(seed);
        let (copies, read, write) = SHAPES[below(&mut chance, SHAPES.len())];
        let world = World::new((copies, read, write), 2);
        Self {
            seed,
            chance,
            past: [world.configuration.clone()].into(),
            world,
            late: Vec::new(),
            merged: OrderedSet::new(),
            pages: Vec::new(),
            begun: Vec::new(),
            shown: OrderedSet::new(),
            contexts: OrderedMap::new(),
            depths: OrderedMap::new(),
            effective: OrderedMap::new(),
            void: OrderedSet::new(),
            reaped: OrderedSet::new(),
            pruned: OrderedSet::new(),
            tried: [0; 6],
            logs: Logs::default(),
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        below(&mut self.chance, bound)
    }

    fn step(&mut self) {
        self.world.now_ms += 1;
        let now_ms = self.world.now_ms;
        self.world
            .flights
            .retain(|flight| flight.sent_ms + LIFE_MS > now_ms);
        let is_due = |flight: &Flight| flight.sent_ms + LIFE_MS * 3 / 4 < now_ms;
        while let Some(at) = self.late.iter().position(is_due) {
            let flight = self.late.swap_remove(at);
            self.world.deliver(flight);
        }
        for number in 0..self.begun.len() {
            if self.begun[number].at_ms + LIFE_MS < now_ms && self.world.calls[number].call.is_some() {
                self.world.time_out(number);
            }
        }
        self.world.end_settlings();
        if self.below(9) == 0 {
            self.write_log();
        }
        match self.below(100) {
            0..62 => (0..6).for_each(|_| self.deliver()),
            62..65 => {
                if !self.world.flights.is_empty() {
                    let at = self.below(self.world.flights.len());
                    self.world.flights.swap_remove(at);
                }
            }
            65..72 => self.begin(),
            72..81 => {
                let open: Vec<_> = (0..self.begun.len())
                    .filter(|number| self.world.calls[*number].call.is_some())
                    .collect();
                if !open.is_empty() {
                    let number = open[self.below(open.len())];
                    self.world.repeat(number);
                }
            }
            81..82 => {
                let at = self.below(self.world.nodes.len());
                self.world.nodes[at].is_up = false;
            }
            82..88 => {
                let at = self.below(self.world.nodes.len());
                if !self.world.nodes[at].is_up {
                    self.world.nodes[at].restart();
                }
            }
            // Some moves take longer than what is deleted is remembered.
            88..95 if self.seed.is_multiple_of(3) => {
                if self.below(6) == 0 {
                    self.move_range();
                }
            }
            88..95 => (0..3).for_each(|_| self.move_range()),
            95..97 => {
                let at = self.below(self.world.nodes.len());
                let configuration = self.world.configuration.clone();
                if self.world.nodes[at].is_up {
                    self.world.nodes[at].adopt(&configuration);
                }
            }
            _ => self.settle(),
        }
        self.look();
    }

    fn deliver(&mut self) {
        // Messages of one link do not always come in order here, which is more than links do.
        if self.world.flights.is_empty() {
            return;
        }
        let at = self.below(self.world.flights.len());
        let flight = self.world.flights.swap_remove(at);
        if self.below(10) == 0 {
            self.late.push(flight);
        } else {
            self.world.deliver(flight);
        }
    }

    fn begin(&mut self) {
        let key = key(KEYS[self.below(KEYS.len())]);
        let number = self.world.calls.len();
        let value = number.to_string();
        let (context, version) = self.contexts.get(&key).cloned().unwrap_or_default();
        let context = if self.below(4) == 0 {
            VersionClock::new()
        } else {
            context
        };
        let mut change = match self.below(3) {
            0 => KvChange::Delete,
            _ => put(&value),
        };
        if let (KvChange::Put { ttl_ms, .. }, 0) = (&mut change, self.below(8)) {
            *ttl_ms = Some(30);
        }
        let level = |least: usize| Level::Replicas(u16::try_from(least).unwrap());
        let (read, write) = (
            level(self.world.levels.reads()),
            level(self.world.levels.writes()),
        );
        let kind = match (self.below(10), key.as_str()) {
            (0..4, _) => 0,
            (_, "c" | "d") => 2,
            (_, "x") => 1 + self.below(2),
            _ => 1,
        };
        if kind == 2 && key.as_str() != "d" {
            change = put(&value);
        }
        let goal = match kind {
            0 => CallGoal::Get { level: read },
            1 => CallGoal::Write {
                change,
                context,
                level: if self.below(6) == 0 { Level::One } else { write },
            },
            _ => CallGoal::Conditional {
                expected: version.filter(|_| self.chance_of(4, 5)),
                change,
            },
        };
        self.tried[kind] += 1;
        let past = self.past.len();
        let at = if self.below(4) == 0 {
            self.below(past)
        } else {
            past - 1
        };
        let configuration = self.past[at].clone();
        let mut minters: Vec<_> = self.world.nodes.iter().map(|node| node.id).collect();
        let first = self.below(minters.len());
        minters.rotate_left(first);
        let begun = self.begun(key.as_str(), goal.clone());
        self.begun.push(begun);
        self.world.begin(&key, goal, configuration, &minters);
    }

    fn chance_of(&mut self, share: usize, of: usize) -> bool {
        self.below(of) < share
    }

    /// The coordinator's next step. Spec: sharding 10.19 b.
    fn move_range(&mut self) {
        let configuration = self.world.configuration.clone();
        let epoch = configuration.epoch;
        let levels = self.world.levels;
        let owners = match configuration.owners {
            Owners::Stable(from) => {
                let others: Vec<_> = self.world.nodes.iter().map(|node| node.id).collect();
                let others: Vec<_> = others.into_iter().filter(|id| !from.contains(id)).collect();
                let mut to = from.clone();
                let (comes, goes) = (self.below(others.len()), self.below(from.len()));
                to[goes] = others[comes];
                self.merged.clear();
                Owners::Joint { from, to }
            }
            Owners::Joint { from, .. } if self.below(12) == 0 => Owners::Stable(from),
            Owners::Joint { ref from, ref to } => {
                let newcomer = *to.iter().find(|id| !from.contains(id)).unwrap();
                let refusing: Vec<_> = from
                    .iter()
                    .copied()
                    .filter(|store| self.world.node(*store).epoch() >= epoch)
                    .collect();
                let is_done =
                    self.merged.len() > levels.merges() - 1 && refusing.len() > levels.refusals() - 1;
                if !is_done {
                    // Reads from one that refuses the epoch before; what was read comes later.
                    if !refusing.is_empty() {
                        let store = refusing[self.below(refusing.len())];
                        if self.world.is_reached(store) {
                            let entries = self.world.node(store).entries.clone().into_iter().collect();
                            self.pages.push(Page {
                                from: store,
                                to: newcomer,
                                epoch,
                                entries,
                            });
                        }
                    }
                    return self.turn_page(epoch);
                }
                self.tried[3] += 1;
                Owners::Stable(to.clone())
            }
        };
        self.world.configuration = Configuration {
            epoch: epoch + 1,
            owners,
        };
        self.past.push(self.world.configuration.clone());
    }

    /// What was read of an owner comes to the newcomer.
    fn turn_page(&mut self, epoch: u64) {
        if self.pages.is_empty() || self.below(2) == 0 {
            return;
        }
        let at = self.below(self.pages.len());
        let Page {
            from,
            to,
            epoch: read_at,
            entries,
        } = self.pages.swap_remove(at);
        if read_at != epoch || !self.world.is_reached(to) || self.world.node(to).epoch() != epoch {
            return;
        }
        for (key, theirs) in entries {
            let node = self.world.node(to);
            let mut entry = node.entry(&key);
            node.replica
                .take_over((&key, &mut entry), epoch, &theirs)
                .unwrap();
            node.keep(&key, entry);
        }
        self.merged.insert(from);
    }

    /// Some owner begins to forget something.
    fn settle(&mut self) {
        let at = self.below(self.world.nodes.len());
        let now_ms = self.world.now_ms;
        let node = &self.world.nodes[at];
        let id = node.id;
        let pruning = ClockPruning {
            small: 1,
            big: 2,
            young_ms: GRACE_MS,
            old_ms: 2 * GRACE_MS,
        };
        let mut found = Vec::new();
        for (key, entry) in &node.entries {
            let clock = entry.siblings.clock();
            let actors = pruning.of(clock, now_ms, |actor| node.replica.is_over(actor));
            if entry.is_dead_for(GRACE_MS, now_ms) {
                found.push((key.clone(), SettleStep::Reap));
            } else if !actors.is_empty() {
                found.push((key.clone(), SettleStep::Prune(actors)));
            }
        }
        for (key, step) in found {
            self.world.begin_settling(&key, id, step.clone());
            match step {
                SettleStep::Reap => {
                    self.tried[4] += 1;
                    self.reaped.insert(key);
                }
                SettleStep::Prune(actors) => {
                    self.tried[5] += 1;
                    self.pruned.extend(actors);
                }
                SettleStep::Compare => {}
            }
        }
    }

    /// Calls that were answered meanwhile.
    fn look(&mut self) {
        for number in 0..self.begun.len() {
            if self.begun[number].is_seen {
                continue;
            }
            if let Some(answer) = self.world.calls[number].answer.clone() {
                self.begun[number].is_seen = true;
                self.judge(number, answer);
            }
        }
    }

    fn judge(&mut self, number: usize, answer: Result<CallAnswer, CallError>) {
        let begun = self.begun[number].clone();
        let key = begun.key.clone();
        if let CallGoal::Log { .. } = begun.goal {
            return self.judge_log(number, answer);
        }
        match answer {
            Ok(CallAnswer::Found(entry)) => {
                self.judge_found(number, &entry);
                let mut version = None;
                if let Some(KeyDecision::Value(decided)) = entry.accepted().map(|own| &own.decision)
                    && decided.content.log().is_none()
                {
                    version = Some(decided.version);
                    self.took_effect(number, decided.version);
                }
                for held in entry.siblings.versions() {
                    self.shown.insert(*self.world.minted.get(&held.dot).unwrap());
                }
                self.contexts
                    .insert(key, (entry.siblings.clock().clone(), version));
            }
            Ok(CallAnswer::Written(_)) => {
                let is_strict = matches!(begun.goal, CallGoal::Write { level, .. } if level != Level::One);
                if is_strict || self.world.levels.writes() == 1 {
                    self.shown.insert(number);
                }
            }
            Ok(CallAnswer::Decided(version)) => {
                let context = self.contexts.get(&key).map(|(clock, _)| clock.clone());
                self.contexts
                    .insert(key, (context.unwrap_or_default(), Some(version)));
                self.took_effect(number, version);
            }
            Ok(CallAnswer::Conflict { present }) => {
                self.void.insert(number);
                if let Some(present) = present {
                    self.took_effect(number, present);
                }
            }
            Ok(CallAnswer::Resolved | CallAnswer::Logged { .. }) => {}
            Err(CallError::Timeout { .. } | CallError::NoOwner | CallError::Context) => {}
            Err(CallError::Ordinary) => assert_eq!(key.as_str(), "x"),
            Err(CallError::Conditional) => assert_eq!(key.as_str(), "x"),
            Err(error) => panic!("seed {}: {error}", self.seed),
        }
        for call in self.effective.keys() {
            assert!(
                !self.void.contains(call),
                "seed {}: {call} had a conflict",
                self.seed
            );
        }
    }

    /// A call was told of a version by a conditional put.
    fn took_effect(&mut self, teller: usize, version: CallId) {
        let number = usize::try_from(version.number).unwrap();
        let CallGoal::Conditional { expected, .. } = self.begun[number].goal.clone() else {
            panic!("a version of a conditional put");
        };
        let key = self.begun[number].key.clone();
        let is_counted = key.as_str() != "d";
        if is_counted || expected.is_some() {
            for (other, theirs) in &self.effective {
                let is_same = *theirs == expected && self.begun[*other].key == key;
                assert!(
                    *other == number || !is_same,
                    "seed {}: {other} and {number} both on {expected:?}",
                    self.seed
                );
            }
        }
        self.effective.insert(number, expected);
        if is_counted {
            let depth = self.depth(version);
            let before = self.begun[teller].depth;
            assert!(
                depth >= before,
                "seed {}: {teller} went back to {depth} from {before}",
                self.seed
            );
            let known = self.depths.entry(key).or_insert(0);
            *known = depth.max(*known);
        }
    }

    fn depth(&self, version: CallId) -> usize {
        let number = usize::try_from(version.number).unwrap();
        match &self.begun[number].goal {
            CallGoal::Conditional {
                expected: Some(before),
                ..
            } => 1 + self.depth(*before),
            _ => 1,
        }
    }

    fn dot_of(&self, write: usize) -> VersionDot {
        let minted = self.world.minted.iter().find(|(_, call)| **call == write);
        *minted.unwrap_or_else(|| panic!("{write} was made")).0
    }

    fn judge_found(&self, number: usize, found: &KvEntry) {
        let begun = &self.begun[number];
        let clock = found.siblings.clock();
        let of_key = || {
            self.begun
                .iter()
                .enumerate()
                .filter(|(_, other)| other.key == begun.key)
        };
        let overwrites = |other: &Begun, dot: VersionDot| match &other.goal {
            CallGoal::Write { context, .. } => context.covers(dot),
            CallGoal::Get { .. }
            | CallGoal::Conditional { .. }
            | CallGoal::Resolve
            | CallGoal::Log { .. } => false,
        };
        for write in begun.before.iter().copied() {
            let dot = self.dot_of(write);
            let is_held = found.siblings.versions().iter().any(|version| version.dot == dot);
            let may_be_gone = self.is_dead(write) || of_key().any(|(_, other)| overwrites(other, dot));
            let may_be_forgotten = self.reaped.contains(&begun.key)
                || self.pruned.contains(&dot.actor)
                || found.accepted().is_some();
            let what = format!("seed {}: {number} found {found:?}, {write} is {dot:?}", self.seed);
            assert!(is_held || may_be_gone, "lost: {what}");
            assert!(clock.covers(dot) || may_be_forgotten, "not dominated: {what}");
            for version in found.siblings.versions() {
                let is_older = overwrites(&self.begun[write], version.dot);
                assert!(!is_older, "came back: {what}");
            }
        }
        if begun.depth > 0 && begun.key.as_str() == "x" {
            assert!(
                found.accepted().is_some_and(|own| own.is_value()),
                "seed {}: undecided",
                self.seed
            );
        }
    }

    /// Whether what was written is no value, or may be none any more.
    fn is_dead(&self, write: usize) -> bool {
        match &self.begun[write].goal {
            CallGoal::Write { change, .. } => !matches!(change, KvChange::Put { ttl_ms: None, .. }),
            _ => false,
        }
    }

    /// Everything runs and is reached: all are alike in the end, and the same is found as before.
    fn heal(&mut self) {
        self.world.flights.clear();
        self.late.clear();
        self.pages.clear();
        for number in 0..self.begun.len() {
            self.world.time_out(number);
        }
        for node in &mut self.world.nodes {
            if !node.is_up {
                node.restart();
            }
        }
        if let Owners::Joint { from, .. } = self.world.configuration.owners.clone() {
            self.world.configuration = Configuration {
                epoch: self.world.configuration.epoch + 1,
                owners: Owners::Stable(from),
            };
        }
        let configuration = self.world.configuration.clone();
        for node in &mut self.world.nodes {
            node.adopt(&configuration);
        }
        self.look();
        self.end_log();
        for round in 0..2 {
            for name in KEYS.into_iter().chain([LOG]) {
                self.finish(name, CallGoal::Resolve);
                let level = Level::Replicas(u16::try_from(self.world.levels.reads()).unwrap());
                self.finish(name, CallGoal::Get { level });
            }
            if round == 0 {
                self.compare_all(&configuration);
            }
        }
        let owners: Vec<_> = configuration.owners.all().collect();
        for pair in owners.windows(2) {
            let [one, other] = [pair[0], pair[1]].map(|store| {
                let node = self.world.node(store);
                (node.entries.clone(), node.replica.tree().sum(MerkleNode::ROOT))
            });
            assert_eq!(
                one.1, other.1,
                "seed {}: {:?} and {:?}",
                self.seed, one.0, other.0
            );
        }
    }

    fn finish(&mut self, name: &str, goal: CallGoal) {
        let begun = self.begun(name, goal.clone());
        self.begun.push(begun);
        let answer = self.world.run(name, goal, &[]);
        assert!(answer.is_ok(), "seed {}: {answer:?}", self.seed);
        self.look();
    }

    /// Each owner is given what each other one holds.
    fn compare_all(&mut self, configuration: &Configuration) {
        let owners: Vec<_> = configuration.owners.all().collect();
        let now_ms = self.world.now_ms;
        for from in &owners {
            for to in &owners {
                for (key, entry) in self.world.node(*from).entries.clone() {
                    let ask = KvAsk::Merge(entry);
                    let answer = self
                        .world
                        .node(*to)
                        .answer(&key, configuration.epoch, &ask, now_ms);
                    assert_eq!(answer, KvAnswer::Done, "seed {}", self.seed);
                }
            }
        }
    }
}

#[test]
fn i_70_to_i_75_hold_in_random_schedules() {
    let mut tried = [0; 6];
    let mut answered = [0; 4];
    let mut logged = [0; 4];
    for seed in 0..SEEDS {
        let mut model = Model::new(seed);
        for _ in 0..STEPS {
            model.step();
        }
        model.heal();
        for (all, own) in tried.iter_mut().zip(model.tried) {
            *all += own;
        }
        for (all, own) in logged.iter_mut().zip(model.logs.tried) {
            *all += own;
        }
        for call in &model.world.calls {
            answered[match &call.answer {
                Some(Ok(CallAnswer::Decided(_))) => 1,
                Some(Ok(CallAnswer::Conflict { .. })) => 2,
                Some(Ok(_)) => 0,
                Some(Err(_)) | None => 3,
            }] += 1;
        }
    }
    assert!(logged.iter().all(|count| *count > 80), "{logged:?}");
    assert!(tried.iter().all(|count| *count > 30), "{tried:?}");
    assert!(answered.iter().all(|count| *count > 200), "{answered:?}");
}
