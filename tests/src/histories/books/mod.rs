//! The books of a workload about the keyed store: what was called of which key, what became of it, and when a
//! key may be called so that its history can be judged. Who calls what, where, is the workload's.

mod ending;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use quorate_core::kv::state::clock::VersionClock;

use super::dominance::{self, Broken, GetCall, KeyHistory, PutCall, PutOutcome, Sibling, TimeToLive};
use super::register::{self, RegisterAnswer, RegisterAsk, RegisterCall, Written};

/// Calls of a register that may follow each other without a moment in which none is open: the tester tries
/// their orders one by one.
const UNBROKEN_MAX: usize = 10;
/// Calls about a register that are open at once.
const OPEN_MAX: usize = 4;
/// After so many calls another key takes the place of a register.
const CALLS_MAX: usize = 200;

/// How a key is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyUse {
    /// By everybody at once.
    Shared,
    /// By one writer, which waits for each of its puts.
    OneWriter,
    /// By conditional puts.
    Conditional,
}

/// What was asked for.
#[derive(Clone, Debug)]
pub enum Asked {
    /// A get.
    Get {
        /// Whether at a level that promises something.
        is_judged: bool,
    },
    /// A put or a delete.
    Put {
        /// Which.
        written: Written,
        /// What it overwrites.
        context: VersionClock,
        /// Whether at a level that promises something.
        is_judged: bool,
        /// How long its value lives; `None`: until it is overwritten.
        lives: Option<TimeToLive>,
    },
    /// A conditional one.
    Conditional {
        /// Which.
        written: Written,
        /// The number of the one that it expects.
        expected: Option<u64>,
        /// How long its value lives; `None`: until it is overwritten.
        lives: Option<TimeToLive>,
    },
}

/// The name of a version that was decided.
pub type VersionName = u128;

/// What was answered.
#[derive(Clone, Debug)]
pub enum Told {
    /// To a get.
    Found {
        /// What was seen of the key.
        clock: VersionClock,
        /// Its values.
        siblings: Vec<Sibling>,
        /// What was decided, and whose value that is; a deletion has none.
        decided: Option<(VersionName, Option<u64>)>,
    },
    /// A put was acknowledged; with the clock of the key, if the caller is told that.
    Written(Option<VersionClock>),
    /// A conditional put took effect.
    Decided(VersionName),
    /// It met another version.
    Conflict(Option<VersionName>),
    /// It failed, and nothing was written.
    Nothing,
    /// It failed, and nobody knows.
    Unknown,
}

#[derive(Clone, Debug)]
struct CallRecord {
    asked: u64,
    what: Asked,
    /// When and what; nothing while it is open.
    told: Option<(u64, Told)>,
}

/// One key.
#[derive(Clone, Debug)]
pub struct KeyBook {
    /// Its name.
    pub key: String,
    /// How it is written.
    pub use_of: KeyUse,
    /// What a put needs to overwrite all that was seen.
    pub context: VersionClock,
    /// The last version of a register that was seen, and whose it is.
    pub version: Option<(VersionName, u64)>,
    calls: Vec<CallRecord>,
    open: usize,
    unbroken: usize,
    open_writes: usize,
    /// When the last put was acknowledged that the context may not know.
    unseen_since: Option<u64>,
    /// Nobody writes it any more.
    is_over: bool,
    /// What is answered later is not judged.
    judged_until: u64,
    acknowledged: Vec<VersionClock>,
    has_mortals: bool,
    /// Of a key in a sloppy bucket: gets that were asked before are not judged, and its puts need not have
    /// seen each other, whoever writes it.
    pub gets_from: Option<u64>,
}

impl KeyBook {
    fn new(key: String, use_of: KeyUse) -> Self {
        Self {
            key,
            use_of,
            context: VersionClock::new(),
            version: None,
            calls: Vec::new(),
            open: 0,
            unbroken: 0,
            open_writes: 0,
            unseen_since: None,
            is_over: false,
            judged_until: u64::MAX,
            acknowledged: Vec::new(),
            has_mortals: false,
            gets_from: None,
        }
    }

    /// Whether it may be called now.
    #[must_use]
    pub fn may_call(&self, is_write: bool) -> bool {
        let has_room = self.open < OPEN_MAX && (self.open == 0 || self.unbroken < UNBROKEN_MAX);
        let is_taken =
            self.use_of == KeyUse::OneWriter && (self.open_writes > 0 || self.unseen_since.is_some());
        let may_write = !(self.is_over || is_taken);
        (self.use_of == KeyUse::Shared || has_room) && (!is_write || may_write)
    }

    /// Whether another key is to take its place.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.is_over || (self.use_of != KeyUse::Shared && self.calls.len() >= CALLS_MAX)
    }

    /// Whether no call is open.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        self.open == 0
    }

    /// Whether what was acknowledged has to be there still.
    #[must_use]
    pub fn is_promised(&self, now: u64) -> bool {
        now <= self.judged_until && self.use_of != KeyUse::Conditional
    }

    /// The clocks of puts that were acknowledged, but for those that others dominate.
    #[must_use]
    pub fn acknowledged(&self) -> &[VersionClock] {
        &self.acknowledged
    }

    fn acknowledge(&mut self, clock: &VersionClock) {
        if !self.acknowledged.iter().any(|known| known.dominates(clock)) {
            self.acknowledged.retain(|known| !clock.dominates(known));
            self.acknowledged.push(clock.clone());
        }
    }

    /// What was answered up to a time, and only asked for until then.
    fn judged(&self, until: u64) -> impl Iterator<Item = (u64, &Asked, Option<(u64, &Told)>)> {
        let until = until.min(self.judged_until);
        let is_judged = move |call: &&CallRecord| {
            let is_get = matches!(call.what, Asked::Get { .. });
            call.asked <= until && (!is_get || self.gets_from.is_none_or(|from| from <= call.asked))
        };
        let calls = self.calls.iter().filter(is_judged);
        calls.map(move |call| {
            let told = call.told.as_ref().filter(|(at, _)| *at <= until);
            (call.asked, &call.what, told.map(|(at, told)| (*at, told)))
        })
    }
}

/// What happened, for a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Gets that were answered.
    pub found: u64,
    /// Of these those that showed siblings.
    pub siblings: u64,
    /// Puts that were acknowledged.
    pub written: u64,
    /// Conditional puts that took effect.
    pub decided: u64,
    /// Those that met another version.
    pub conflicts: u64,
    /// Calls of which nobody knows what became.
    pub unknown: u64,
    /// Calls that failed, and wrote nothing.
    pub refused: u64,
    /// Histories that were judged.
    pub judged: u64,
    /// Histories that end early.
    pub excused: u64,
}

/// Where a call stands: which key, and which of its calls.
pub type CallPlace = (usize, usize);

/// All keys of a run.
#[derive(Clone, Debug, Default)]
pub struct Books {
    /// The keys.
    pub keys: Vec<KeyBook>,
    /// What happened.
    pub counts: Counts,
    numbers: u64,
    open: usize,
    /// Which put a decided version is.
    decided: BTreeMap<VersionName, u64>,
}

impl Books {
    /// Another key; its place.
    pub fn add_key(&mut self, key: String, use_of: KeyUse) -> usize {
        self.keys.push(KeyBook::new(key, use_of));
        self.keys.len() - 1
    }

    /// The number of the next put.
    pub fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Calls that are not answered.
    #[must_use]
    pub const fn open(&self) -> usize {
        self.open
    }

    /// A call begins.
    pub fn begin(&mut self, key: usize, now: u64, what: Asked) -> CallPlace {
        self.open += 1;
        let book = &mut self.keys[key];
        book.unbroken = if book.open == 0 { 1 } else { book.unbroken + 1 };
        book.open += 1;
        book.open_writes += usize::from(!matches!(what, Asked::Get { .. }));
        book.has_mortals |= matches!(what, Asked::Put { lives: Some(_), .. });
        let told = None;
        book.calls.push(CallRecord {
            asked: now,
            what,
            told,
        });
        (key, book.calls.len() - 1)
    }

    /// A call has ended, or nobody will hear of it any more.
    pub fn end(&mut self, place: CallPlace, now: u64, told: Told) {
        let (key, at) = place;
        self.open -= 1;
        let (book, counts) = (&mut self.keys[key], &mut self.counts);
        book.open -= 1;
        let call = &mut book.calls[at];
        let is_write = !matches!(call.what, Asked::Get { .. });
        book.open_writes -= usize::from(is_write);
        match (&told, &call.what) {
            (
                Told::Found {
                    clock,
                    siblings,
                    decided,
                },
                _,
            ) => {
                counts.found += 1;
                counts.siblings += u64::from(siblings.len() > 1);
                if book.unseen_since.is_some_and(|since| since < call.asked) {
                    book.unseen_since = None;
                }
                book.context.merge(clock);
                if let Some((version, Some(number))) = decided {
                    self.decided.insert(*version, *number);
                    book.version = Some((*version, *number));
                }
            }
            (Told::Written(clock), Asked::Put { is_judged, .. }) => {
                counts.written += 1;
                match clock {
                    Some(clock) => book.context.merge(clock),
                    None => book.unseen_since = Some(now),
                }
                if let (Some(clock), true) = (clock, *is_judged) {
                    let clock = clock.clone();
                    book.acknowledge(&clock);
                }
            }
            (Told::Decided(version), Asked::Conditional { written, .. }) => {
                counts.decided += 1;
                self.decided.insert(*version, written.number);
                book.version = Some((*version, written.number));
            }
            (Told::Conflict(_), _) => counts.conflicts += 1,
            (Told::Nothing, _) => counts.refused += 1,
            (Told::Written(_) | Told::Decided(_) | Told::Unknown, _) => counts.unknown += 1,
        }
        book.is_over |= is_write && matches!(told, Told::Unknown) && book.use_of != KeyUse::Shared;
        book.calls[at].told = Some((now, told));
    }

    /// What these keys hold may be gone: what is answered from now on is not judged.
    pub fn excuse(&mut self, now: u64, is_meant: impl Fn(usize) -> bool) {
        for (_, book) in self.keys.iter_mut().enumerate().filter(|(at, _)| is_meant(*at)) {
            if book.judged_until > now {
                (book.judged_until, book.is_over) = (now, true);
                self.counts.excused += 1;
            }
        }
    }

    /// Judges all keys by what was answered up to the time of each; what was deleted is remembered for the
    /// grace.
    ///
    /// # Errors
    /// The first key that no correct store answers so: what is broken, and why.
    pub fn judge(&mut self, until: impl Fn(usize) -> u64, grace: Option<u64>) -> Result<(), Broken> {
        for at in 0..self.keys.len() {
            let judged = self.judge_key(at, until(at), grace);
            judged.map_err(|(invariant, what)| (invariant, format!("{}: {what}", self.keys[at].key)))?;
        }
        Ok(())
    }

    /// Judges one key by what was answered up to a time.
    ///
    /// # Errors
    /// What is broken, and why.
    pub fn judge_key(&mut self, at: usize, until: u64, grace: Option<u64>) -> Result<(), Broken> {
        self.counts.judged += 1;
        let book = &self.keys[at];
        match book.use_of {
            KeyUse::OneWriter if book.gets_from.is_none() => self.judge_register(book, until),
            KeyUse::Shared | KeyUse::OneWriter => {
                let mut history = siblings_of(book, until);
                history.grace = grace;
                dominance::judge(&history)
            }
            KeyUse::Conditional => self.judge_register(book, until),
        }
    }

    /// Forgets the calls of a key that nobody calls any more.
    pub fn close_key(&mut self, at: usize) {
        self.keys[at].calls = Vec::new();
    }

    fn judge_register(&self, book: &KeyBook, until: u64) -> Result<(), Broken> {
        let mut calls = Vec::new();
        let mut named: BTreeMap<u64, u64> = BTreeMap::new();
        for (asked, what, told) in book.judged(until) {
            let ask = match what {
                Asked::Get { is_judged: true } => RegisterAsk::Read,
                Asked::Get { is_judged: false } => continue,
                Asked::Put { written, .. } => RegisterAsk::Write(*written),
                Asked::Conditional {
                    written, expected, ..
                } => RegisterAsk::CompareAndSet {
                    expected: *expected,
                    then: *written,
                },
            };
            let answered = match told {
                None | Some((_, Told::Unknown)) => None,
                Some((_, Told::Nothing)) => continue,
                Some((at, told)) => match self.register_answer(told)? {
                    Some(answer) => Some((at, answer)),
                    None => continue,
                },
            };
            if answered.is_none() && ask == RegisterAsk::Read {
                continue;
            }
            let is_done = matches!(answered, Some((_, RegisterAnswer::Done)));
            if let RegisterAsk::CompareAndSet {
                expected: Some(on),
                then,
            } = ask
                && is_done
                && let Some(other) = named.insert(on, then.number)
            {
                let what = format!("{other} and {} both took effect on {on}", then.number);
                return Err(("conditional", what));
            }
            let lives = match what {
                Asked::Conditional { lives, .. } => *lives,
                Asked::Get { .. } | Asked::Put { .. } => None,
            };
            let acknowledged =
                answered.and_then(|(at, answer)| (answer == RegisterAnswer::Done).then_some(at));
            calls.push(RegisterCall {
                asked,
                ask,
                ends: lives.map(|lives| lives.ends(asked, acknowledged)),
                answered,
            });
        }
        let judged = register::judge(&calls);
        judged.map_err(|why| ("linearizable", format!("no register answers so: {why:?}")))
    }

    /// What a register is said to be; `None`: a version of a put whose outcome nobody has heard.
    fn register_answer(&self, told: &Told) -> Result<Option<RegisterAnswer>, Broken> {
        Ok(match told {
            Told::Written(_) | Told::Decided(_) => Some(RegisterAnswer::Done),
            Told::Conflict(None) => Some(RegisterAnswer::Conflict(None)),
            Told::Conflict(Some(version)) => {
                let number = self.decided.get(version);
                number.map(|number| RegisterAnswer::Conflict(Some(*number)))
            }
            Told::Found {
                decided: Some((_, number)),
                ..
            } => Some(RegisterAnswer::Holds(*number)),
            Told::Found { siblings, .. } if siblings.len() > 1 => {
                return Err(("I-72", format!("a key with one writer has siblings: {told:?}")));
            }
            Told::Found { siblings, .. } => {
                let first = siblings.first().map(|sibling| sibling.number);
                Some(RegisterAnswer::Holds(first))
            }
            Told::Nothing | Told::Unknown => None,
        })
    }
}

/// The history of a key that everybody writes.
fn siblings_of(book: &KeyBook, until: u64) -> KeyHistory {
    let mut history = KeyHistory::default();
    for (asked, what, told) in book.judged(until) {
        match (what, told) {
            (Asked::Get { is_judged: true }, Some((answered, Told::Found { clock, siblings, .. }))) => {
                history.gets.push(GetCall {
                    asked,
                    answered,
                    clock: clock.clone(),
                    shown: siblings.clone(),
                });
            }
            (
                Asked::Put {
                    written,
                    context,
                    is_judged,
                    lives,
                },
                told,
            ) => {
                let acknowledged = told.and_then(|(at, told)| matches!(told, Told::Written(_)).then_some(at));
                let outcome = match told {
                    Some((at, Told::Written(clock))) if *is_judged => PutOutcome::Written(at, clock.clone()),
                    Some((_, Told::Nothing)) => PutOutcome::Nothing,
                    Some(_) | None => PutOutcome::Unknown,
                };
                history.puts.push(PutCall {
                    number: written.number,
                    is_delete: written.is_delete,
                    ends: lives.map(|lives| lives.ends(asked, acknowledged)),
                    context: context.clone(),
                    asked,
                    outcome,
                });
            }
            (Asked::Get { .. } | Asked::Conditional { .. }, _) => {}
        }
    }
    history
}
