//! What is called of which key next, and where: the calls of a run as a deterministic sequence, as lines that
//! a node understands, and what a node's lines say. Keeps the books; decides nothing about faults.

use std::collections::BTreeMap;
use std::time::Instant;

use quorate_core::kv::state::clock::VersionClock;
use quorate_tests::histories::books::{Asked, Books, CallPlace, KeyUse, Told};
use quorate_tests::histories::dominance::Sibling;
use quorate_tests::histories::register::Written;

/// Keys that are called at a time, of each use.
const KEYS_PER_USE: usize = 12;
/// Calls that are open at a time.
const OPEN_MAX: usize = 32;
/// Calls of a key that many write before another takes its place.
const SHARED_MAX: u64 = 200;

/// See the module.
pub(super) struct Plan {
    books: Books,
    /// The keys that are called, and how often each was.
    current: Vec<(usize, u64)>,
    /// Open calls by token: where they stand, and which node has them.
    open: BTreeMap<u64, (CallPlace, usize)>,
    tokens: u64,
    chance: u64,
    began: Instant,
    is_halting: bool,
    pub(super) not_linearizable: u64,
    pub(super) not_dominated: u64,
    /// The first history that is wrong.
    pub(super) why: Option<String>,
}

impl Plan {
    pub(super) fn new() -> Self {
        let mut plan = Self {
            books: Books::default(),
            current: Vec::new(),
            open: BTreeMap::new(),
            tokens: 0,
            chance: 0x9e37_79b9_7f4a_7c15,
            began: Instant::now(),
            is_halting: false,
            not_linearizable: 0,
            not_dominated: 0,
            why: None,
        };
        for use_of in [KeyUse::Shared, KeyUse::OneWriter, KeyUse::Conditional] {
            for _ in 0..KEYS_PER_USE {
                let key = plan.new_key(use_of);
                plan.current.push((key, 0));
            }
        }
        plan
    }

    fn new_key(&mut self, use_of: KeyUse) -> usize {
        let name = format!("{use_of:?}-{}", self.books.keys.len());
        self.books.add_key(name, use_of)
    }

    /// Any number below this one.
    fn below(&mut self, bound: usize) -> usize {
        // xorshift: any spread will do.
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        (self.chance >> 32) as usize % bound
    }

    /// Microseconds since the run began, by this process's clock.
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    pub(super) fn books(&self) -> &Books {
        &self.books
    }

    /// No call begins any more.
    pub(super) fn halt(&mut self) {
        self.is_halting = true;
    }

    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// The next calls: which node is told what.
    pub(super) fn next_calls(&mut self, nodes: &[usize]) -> Vec<(usize, String)> {
        let mut calls = Vec::new();
        let mut tries = 0;
        while !self.is_halting && !nodes.is_empty() && self.open.len() < OPEN_MAX && tries < 2 * OPEN_MAX {
            tries += 1;
            calls.extend(self.next_call(nodes));
        }
        calls
    }

    fn next_call(&mut self, nodes: &[usize]) -> Option<(usize, String)> {
        let (at, node) = (self.below(self.current.len()), nodes[self.below(nodes.len())]);
        let (kind, delete, stale) = (self.below(10), self.below(8) == 0, self.below(8) == 0);
        let (key, calls) = self.current[at];
        let book = &self.books.keys[key];
        if book.is_done() || calls >= SHARED_MAX {
            if book.is_idle() {
                self.judge(key);
                let use_of = self.books.keys[key].use_of;
                self.current[at] = (self.new_key(use_of), 0);
            }
            return None;
        }
        let is_write = kind >= 5;
        if !book.may_call(is_write) {
            return None;
        }
        self.current[at].1 += 1;
        let (what, order) = if is_write {
            self.write(key, delete, stale)
        } else {
            let what = Asked::Get { is_judged: true };
            (what, format!("get {{token}} {}", self.books.keys[key].key))
        };
        self.tokens += 1;
        let place = self.books.begin(key, self.now(), what);
        self.open.insert(self.tokens, (place, node));
        Some((node, order.replace("{token}", &self.tokens.to_string())))
    }

    fn write(&mut self, key: usize, is_delete: bool, stale: bool) -> (Asked, String) {
        let number = self.books.next_number();
        let written = Written { number, is_delete };
        let book = &self.books.keys[key];
        let value = if is_delete {
            "-".to_owned()
        } else {
            number.to_string()
        };
        if book.use_of == KeyUse::Conditional {
            let version = book.version.filter(|_| !stale);
            let named = version.map_or_else(|| "-".to_owned(), |(version, _)| format!("{version:032x}"));
            let expected = version.map(|(_, number)| number);
            let order = format!("put_if {{token}} {} {value} {named}", book.key);
            let asked = Asked::Conditional {
                written,
                expected,
                lives: None,
            };
            return (asked, order);
        }
        let is_blind = stale && book.use_of == KeyUse::Shared;
        let context = if is_blind {
            VersionClock::new()
        } else {
            book.context.clone()
        };
        let order = format!("put {{token}} {} {value} {}", book.key, hex(&context));
        let asked = Asked::Put {
            written,
            context,
            is_judged: true,
            lives: None,
        };
        (asked, order)
    }

    /// A node says what became of a call. What it says of one that is over already is passed over.
    pub(super) fn hear(&mut self, what: &str, rest: &str) {
        let mut words = rest.split(' ');
        let token = words.next().and_then(|token| token.parse().ok());
        let Some(told) = told(what, words) else { return };
        if let Some((place, _)) = token.and_then(|token: u64| self.open.remove(&token)) {
            self.books.end(place, self.now(), told);
        }
    }

    /// A node is gone, and its callers with it.
    pub(super) fn lose(&mut self, node: usize) {
        let now = self.now();
        let gone: Vec<u64> = self
            .open
            .iter()
            .filter(|(_, (_, at))| *at == node)
            .map(|(token, _)| *token)
            .collect();
        for (place, _) in gone.iter().filter_map(|token| self.open.remove(token)) {
            self.books.end(place, now, Told::Unknown);
        }
    }

    /// Judges a key that is called no more.
    fn judge(&mut self, key: usize) {
        let Err((invariant, what)) = self.books.judge_key(key, u64::MAX, None) else {
            return self.books.close_key(key);
        };
        match self.books.keys[key].use_of {
            KeyUse::Shared => self.not_dominated += 1,
            KeyUse::OneWriter | KeyUse::Conditional => self.not_linearizable += 1,
        }
        let name = &self.books.keys[key].key;
        self.why
            .get_or_insert_with(|| format!("{name}: {invariant}: {what}"));
    }

    /// Judges all keys that are called still.
    pub(super) fn judge_all(&mut self) {
        for (key, _) in std::mem::take(&mut self.current) {
            self.judge(key);
        }
    }
}

/// A context as a word.
fn hex(context: &VersionClock) -> String {
    let bytes = context.encode().unwrap_or_default();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// From [`hex`]'s words, and others.
pub(super) fn bytes_of(word: &str) -> Option<Vec<u8>> {
    let digits = word
        .as_bytes()
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).ok());
    digits.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

/// What a node's line says became of a call; nothing if it says something else.
fn told<'w>(what: &str, mut words: impl Iterator<Item = &'w str>) -> Option<Told> {
    let version = |word: &str| {
        (word != "-")
            .then(|| u128::from_str_radix(word, 16).ok())
            .flatten()
    };
    Some(match what {
        "found" => {
            let clock = VersionClock::decode(&bytes_of(words.next()?)?).ok()?;
            let version = version(words.next()?);
            let numbers = words
                .next()?
                .split(',')
                .filter_map(|number| number.parse::<u64>().ok());
            let siblings: Vec<Sibling> = numbers.map(|number| Sibling { number, dot: None }).collect();
            let decided = version.map(|version| (version, siblings.first().map(|sibling| sibling.number)));
            Told::Found {
                clock,
                siblings,
                decided,
            }
        }
        "written" => Told::Written(None),
        "decided" => Told::Decided(version(words.next()?)?),
        "conflict" => Told::Conflict(version(words.next()?)),
        "nothing" => Told::Nothing,
        "unknown" => Told::Unknown,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store that is right, but for what it does to some answers.
    fn run(spoil: impl Fn(u64, &mut BTreeMap<String, u64>)) -> Plan {
        let mut plan = Plan::new();
        let mut held: BTreeMap<String, u64> = BTreeMap::new();
        let mut versions: BTreeMap<String, u128> = BTreeMap::new();
        for round in 0..4_000 {
            spoil(round, &mut held);
            for (_, order) in plan.next_calls(&[0, 1]) {
                let words: Vec<&str> = order.split(' ').collect();
                let (token, key) = (words[1], words[2].to_owned());
                let clock = hex(&VersionClock::new());
                let version = versions
                    .get(&key)
                    .map_or_else(|| "-".to_owned(), |held| format!("{held:032x}"));
                let value = words.get(3).copied().unwrap_or_default();
                let write = |held: &mut BTreeMap<String, u64>, key: String| match value.parse() {
                    Ok(number) => drop(held.insert(key, number)),
                    Err(_) => drop(held.remove(&key)),
                };
                match words[0] {
                    "get" => {
                        let number = held.get(&key).map_or_else(|| "-".to_owned(), u64::to_string);
                        plan.hear("found", &format!("{token} {clock} {version} {number}"));
                    }
                    "put" => {
                        // Without clocks of its own this store cannot say what many writers overwrite.
                        if key.starts_with("Shared") {
                            plan.hear("nothing", token);
                            continue;
                        }
                        write(&mut held, key);
                        plan.hear("written", token);
                    }
                    _ if words[4] == version || (words[4] == "-" && !held.contains_key(&key)) => {
                        write(&mut held, key.clone());
                        let name: u128 = token.parse().unwrap();
                        versions.insert(key, name);
                        plan.hear("decided", &format!("{token} {name:032x}"));
                    }
                    _ => plan.hear("conflict", &format!("{token} {version}")),
                }
            }
        }
        plan.halt();
        assert!(plan.is_idle());
        plan.judge_all();
        plan
    }

    #[test]
    fn a_right_store_is_right_and_one_that_forgets_is_not() {
        let right = run(|_, _| {});
        assert_eq!(
            (right.not_linearizable, right.not_dominated),
            (0, 0),
            "{:?}",
            right.why
        );
        let counts = right.books().counts;
        assert!(counts.written > 1_000 && counts.decided > 1_000 && counts.found > 1_000);
        let forgetful = run(|round, held| {
            if round % 500 == 499 {
                held.clear();
            }
        });
        assert!(forgetful.not_linearizable > 0);
    }

    #[test]
    fn what_a_node_says_is_read_and_nonsense_is_passed_over() {
        let words = |line: &'static str| line.split(' ');
        let clock = hex(&VersionClock::new());
        let line: &'static str =
            Box::leak(format!("{clock} 0000000000000000000000000000002a 7,9").into_boxed_str());
        let Some(Told::Found {
            siblings, decided, ..
        }) = told("found", words(line))
        else {
            panic!("{line} is understood");
        };
        assert_eq!(
            siblings.iter().map(|sibling| sibling.number).collect::<Vec<_>>(),
            [7, 9]
        );
        assert_eq!(decided, Some((42, Some(7))));
        assert!(told("found", words("zz - -")).is_none());
        assert!(told("decided", words("-")).is_none());
        assert!(told("show", words("1 2")).is_none());
    }
}
