//! The random workload about the keyed store: which key, what is called, where, and which ranges are moved.

use core::time::Duration;
use std::sync::Arc;

use quorate_core::ddata::state::key::Key;
use quorate_core::input::Command;
use quorate_core::kv::protocol::ranges::RangeCommand;
use quorate_core::kv::protocol::{Answer as KvAnswer, Command as KvCommand};
use quorate_core::kv::state::call::CallId;
use quorate_core::kv::state::clock::VersionClock;
use quorate_core::kv::state::entry::KeyDecision;
use quorate_core::kv::state::exchange::KvChange;
use quorate_core::kv::state::level::Level;
use quorate_core::kv::state::outcome::{CallAnswer, CallError, CallGoal};
use quorate_core::kv::state::siblings::{Version, VersionContent};
use quorate_core::kv::state::table::RangeId;

use super::{BUCKETS, CallPlace, ending};
use crate::histories::books::{Asked, KeyUse, Told, VersionName};
use crate::histories::dominance::Sibling;
use crate::histories::register::Written;
use crate::sim::engine::Sim;
use crate::sim::history::ProcessId;
use crate::sim::plan::SECOND;
use crate::sim::process::Open;

/// Keys of a bucket that are called at a time.
pub(super) const USES: [KeyUse; 8] = [
    KeyUse::Shared,
    KeyUse::Shared,
    KeyUse::Shared,
    KeyUse::OneWriter,
    KeyUse::OneWriter,
    KeyUse::Conditional,
    KeyUse::Conditional,
    KeyUse::Conditional,
];

/// Time between two moves that somebody commands, in microseconds.
const BETWEEN_MOVES: (u64, u64) = (SECOND / 2, 3 * SECOND);
/// Where what was deleted is to be forgotten while somebody is away: no move comes in between for long.
const BETWEEN_RARE_MOVES: (u64, u64) = (20 * SECOND, 60 * SECOND);

/// How something is written.
#[derive(Clone, Copy, Debug)]
struct PutWay {
    /// As if nothing was known of the key.
    is_blind: bool,
    is_delete: bool,
    /// As if nothing was known of its version.
    is_stale: bool,
    /// How long the value lives, in milliseconds.
    ttl_ms: Option<u64>,
}

impl Sim {
    /// A key that nobody has used.
    pub(super) fn new_key(&mut self, bucket: usize, use_of: KeyUse) -> usize {
        let (letter, number) = (letter(use_of), self.keyed.books.keys.len());
        let at = self.keyed.books.add_key(format!("{letter}{number}"), use_of);
        self.keyed.buckets.push(bucket);
        // Nothing is sure before all is at rest.
        self.keyed.books.keys[at].gets_from = self.is_sloppy(bucket).then_some(u64::MAX);
        at
    }

    pub(super) fn key_of(&self, at: usize) -> Key {
        Key::new(&self.keyed.books.keys[at].key).expect("invariant: a short key is legal")
    }

    /// One call of the random workload, at a random node.
    pub(crate) fn random_call(&mut self, nodes: usize) {
        let index = self.workload.index(nodes);
        let place = self.workload.index(self.keyed.current.len());
        let (kind, level) = (self.workload.below(10), self.workload.below(20));
        let way = PutWay {
            is_blind: self.workload.per_mille(200),
            is_delete: self
                .workload
                .per_mille(if self.keyed.is_long { 600 } else { 150 }),
            is_stale: self.workload.per_mille(150),
            ttl_ms: self
                .workload
                .per_mille(250)
                .then(|| self.workload.between(200, 4_000)),
        };
        let timeout = Duration::from_millis(self.workload.between(300, 4_000));
        let at = self.keyed.current[place];
        if self.keyed.books.keys[at].is_done() {
            let (bucket, use_of) = (self.keyed.buckets[at], self.keyed.books.keys[at].use_of);
            self.keyed.current[place] = self.new_key(bucket, use_of);
        }
        let at = self.keyed.current[place];
        let is_write = kind >= 5;
        let Some(process) = self.running_at(index) else {
            return;
        };
        let is_paused = self.now < self.processes[process as usize].paused_until;
        if is_paused || !self.keyed.books.keys[at].may_call(is_write) {
            return;
        }
        let (level, is_judged) = match level {
            0 => (Level::One, false),
            1 => (Level::All, true),
            2 => (Level::Replicas(2), true),
            _ => (Level::Quorum, true),
        };
        let use_of = self.keyed.books.keys[at].use_of;
        // A register is written as it promises something.
        let (level, is_judged) = match use_of {
            KeyUse::OneWriter if is_write && !is_judged => (Level::Quorum, true),
            KeyUse::Shared | KeyUse::OneWriter | KeyUse::Conditional => (level, is_judged),
        };
        let (asked, goal) = if is_write {
            self.write_of(at, (level, is_judged), way)
        } else {
            (Asked::Get { is_judged }, CallGoal::Get { level })
        };
        self.call(process, at, asked, goal, timeout);
    }

    fn write_of(&mut self, at: usize, (level, is_judged): (Level, bool), way: PutWay) -> (Asked, CallGoal) {
        let number = self.keyed.books.next_number();
        let book = &self.keyed.books.keys[at];
        let is_delete = way.is_delete;
        let ttl_ms = way
            .ttl_ms
            .filter(|_| book.use_of != KeyUse::OneWriter && !is_delete);
        let lives = ttl_ms.map(ending::lives);
        let change = if is_delete {
            KvChange::Delete
        } else {
            let bytes = Arc::from(number.to_le_bytes().as_slice());
            KvChange::Put { bytes, ttl_ms }
        };
        match book.use_of {
            KeyUse::Conditional => {
                let written = Written { number, is_delete };
                let version = book.version.filter(|_| !way.is_stale);
                let expected = version.map(|(version, _)| call_of(version));
                let goal = CallGoal::Conditional { expected, change };
                let expected = version.map(|(_, number)| number);
                let asked = Asked::Conditional {
                    written,
                    expected,
                    lives,
                };
                (asked, goal)
            }
            KeyUse::Shared | KeyUse::OneWriter => {
                let is_blind = way.is_blind && book.use_of == KeyUse::Shared;
                let context = if is_blind {
                    VersionClock::new()
                } else {
                    book.context.clone()
                };
                let written = Written { number, is_delete };
                let asked = Asked::Put {
                    written,
                    context: context.clone(),
                    is_judged,
                    lives,
                };
                let goal = CallGoal::Write {
                    change,
                    context,
                    level,
                };
                (asked, goal)
            }
        }
    }

    pub(super) fn call(
        &mut self,
        process: ProcessId,
        at: usize,
        asked: Asked,
        goal: CallGoal,
        timeout: Duration,
    ) {
        let (bucket, key) = (BUCKETS[self.keyed.buckets[at]].bucket(), self.key_of(at));
        let place = self.keyed.books.begin(at, self.now, asked);
        let call = KvCommand::Call {
            bucket,
            key,
            goal,
            timeout,
        };
        self.command(process, Open::Keyed(place), Command::Kv(call));
    }

    /// A call is answered.
    pub(crate) fn on_keyed_answer(&mut self, place: CallPlace, answer: KvAnswer) {
        // Nothing else was asked.
        if let KvAnswer::Called(answer) = answer {
            self.keyed.books.end(place, self.now, told(answer));
        }
    }

    /// A range is moved now and then, from any owner to any other store.
    pub(crate) fn command_range_moves(&mut self) {
        if !self.keyed.enabled || self.keyed.calm || self.now < self.keyed.next_move {
            return;
        }
        let (least, most) = if self.keyed.is_long {
            BETWEEN_RARE_MOVES
        } else {
            BETWEEN_MOVES
        };
        self.keyed.next_move = self.now + self.keyed.chance.between(least, most);
        let (bucket, range) = (
            self.keyed.chance.index(BUCKETS.len()),
            RangeId(self.keyed.chance.index(usize::from(super::RANGES)) as u16),
        );
        let (from, to) = (self.keyed.chance.index(64), self.keyed.chance.index(64));
        if let Some((process, command)) = self.move_of_range(bucket, range, (from, to)) {
            let bucket = BUCKETS[bucket].bucket();
            let command = KvCommand::Ranges { bucket, command };
            self.command(process, Open::Command("move range"), Command::Kv(command));
        }
    }

    /// Who coordinates it, and the move that these two numbers stand for.
    fn move_of_range(
        &self,
        bucket: usize,
        range: RangeId,
        (from, to): (usize, usize),
    ) -> Option<(ProcessId, RangeCommand)> {
        let (process, configuration) = self.coordinated(bucket, range)?;
        let (owners, _) = configuration.owners.sets();
        let stores = self.stores_of(bucket);
        let others: Vec<_> = stores
            .into_iter()
            .filter(|store| !owners.contains(store))
            .collect();
        let to = *others.get(to.checked_rem(others.len())?)?;
        let from = owners[from % owners.len()];
        Some((process, RangeCommand::Move { range, from, to }))
    }
}

/// How keys of this use begin.
const fn letter(use_of: KeyUse) -> char {
    match use_of {
        KeyUse::Shared => 's',
        KeyUse::OneWriter => 'w',
        KeyUse::Conditional => 'c',
    }
}

/// The name of a decided version, as the books have it.
fn name_of(call: CallId) -> VersionName {
    u128::from(call.origin) << 64 | u128::from(call.number)
}

const fn call_of(name: VersionName) -> CallId {
    CallId {
        origin: (name >> 64) as u64,
        number: name as u64,
    }
}

/// Whose value a version is.
fn number_of(content: &VersionContent) -> Option<u64> {
    let bytes = content.value()?;
    Some(u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?))
}

/// An answer, as the books have it.
fn told(answer: Result<CallAnswer, CallError>) -> Told {
    match answer {
        Ok(CallAnswer::Found(entry)) => {
            let decided = match entry.accepted().map(|accepted| &accepted.decision) {
                Some(KeyDecision::Value(decided)) => {
                    Some((name_of(decided.version), number_of(&decided.content)))
                }
                Some(KeyDecision::Ordinary { .. }) | None => None,
            };
            let sibling = |version: &Version| {
                let dot = Some(version.dot);
                number_of(&version.content).map(|number| Sibling { number, dot })
            };
            Told::Found {
                clock: entry.siblings.clock().clone(),
                siblings: entry.siblings.versions().iter().filter_map(sibling).collect(),
                decided,
            }
        }
        Ok(CallAnswer::Written(clock)) => Told::Written(Some(clock)),
        Ok(CallAnswer::Decided(version)) => Told::Decided(name_of(version)),
        Ok(CallAnswer::Conflict { present }) => Told::Conflict(present.map(name_of)),
        Ok(CallAnswer::Resolved | CallAnswer::Logged { .. }) | Err(CallError::Timeout { .. }) => {
            Told::Unknown
        }
        Err(_) => Told::Nothing,
    }
}
