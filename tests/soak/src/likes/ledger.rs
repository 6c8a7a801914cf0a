//! What the nodes said that they did, held against what the replicas hold at the end. Knows no process and no
//! network.

use std::collections::{BTreeMap, BTreeSet};

use super::node::POSTS;

/// What became of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Acknowledged by a majority.
    Done,
    /// Not acknowledged; it took place on a node that still lives, so it stays and spreads.
    Open,
    /// Under way, or not acknowledged, when its process was killed: it may be anywhere or nowhere.
    Unknown,
}

/// Updates of a process that have begun, and the ones that nobody acknowledged.
#[derive(Debug, Default)]
struct Loose {
    begun: Vec<String>,
    open: Vec<String>,
}

/// Everything that was said.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    loose: BTreeMap<usize, Loose>,
    /// Likes per post: acknowledged, open, unknown.
    likes: BTreeMap<usize, [u128; 3]>,
    /// Followers: how they came, and how they went.
    fans: BTreeMap<(usize, String), (Fate, Option<Fate>)>,
    /// What the replicas held before.
    base: Dump,
    pub(super) updates: u64,
    pub(super) acknowledged: u64,
}

/// What a replica holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Dump {
    pub(super) likes: BTreeMap<usize, u128>,
    pub(super) fans: BTreeSet<(usize, String)>,
}

impl Dump {
    /// Takes in a line of a dump.
    pub(super) fn read(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["likes", post, count] => {
                if let (Ok(post), Ok(count)) = (post.parse(), count.parse()) {
                    self.likes.insert(post, count);
                }
            }
            ["fan", post, name] => {
                self.fans
                    .extend(post.parse().ok().map(|post| (post, (*name).to_owned())));
            }
            _ => {}
        }
    }
}

/// What is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Acknowledged updates that are nowhere.
    pub(super) missing: u64,
    /// What is there although nobody did it.
    pub(super) surplus: u64,
}

impl Ledger {
    /// A ledger that begins with what the replicas hold already.
    pub(super) fn after(base: Dump) -> Self {
        Self {
            base,
            ..Self::default()
        }
    }

    /// A process said something about an update.
    pub(super) fn heard(&mut self, process: usize, word: &str, update: &str) {
        let loose = self.loose.entry(process).or_default();
        match word {
            "begin" => {
                self.updates += 1;
                loose.begun.push(update.to_owned());
                return;
            }
            "done" | "open" | "void" => {
                // One of them: two writers may do the same at a time.
                if let Some(at) = loose.begun.iter().position(|begun| begun == update) {
                    loose.begun.swap_remove(at);
                }
            }
            _ => return,
        }
        match word {
            "done" => {
                self.acknowledged += 1;
                self.book(update, Fate::Done);
            }
            "open" => loose.open.push(update.to_owned()),
            _ => {}
        }
    }

    /// A process was killed: what it had not acknowledged may be lost.
    pub(super) fn killed(&mut self, process: usize) {
        let loose = self.loose.remove(&process).unwrap_or_default();
        for update in loose.begun.iter().chain(&loose.open) {
            self.book(update, Fate::Unknown);
        }
    }

    fn book(&mut self, update: &str, fate: Fate) {
        let words: Vec<&str> = update.split(' ').collect();
        let post = words
            .get(1)
            .and_then(|post| post.parse().ok())
            .unwrap_or_default();
        match words.as_slice() {
            ["like", _] => self.likes.entry(post).or_default()[fate as usize] += 1,
            ["follow", _, fan] => {
                self.fans.insert((post, (*fan).to_owned()), (fate, None));
            }
            ["leave", _, fan] => {
                if let Some((_, left)) = self.fans.get_mut(&(post, (*fan).to_owned())) {
                    *left = Some(fate);
                }
            }
            _ => {}
        }
    }

    /// Holds everything against what a replica has, once nobody writes any more.
    pub(super) fn judge(&mut self, found: &Dump) -> Verdict {
        for loose in std::mem::take(&mut self.loose).into_values() {
            for update in loose.begun.iter().chain(&loose.open) {
                self.book(update, Fate::Open);
            }
        }
        let mut verdict = Verdict::default();
        for post in 0..POSTS {
            let base = self.base.likes.get(&post).copied().unwrap_or_default();
            let [done, open, unknown] = self.likes.get(&post).copied().unwrap_or_default();
            let least = base + done + open;
            let found = found.likes.get(&post).copied().unwrap_or_default();
            verdict.missing += short(least, found);
            verdict.surplus += short(found, least + unknown);
        }
        for (fan, (came, left)) in &self.fans {
            let is_there = found.fans.contains(fan);
            match (came, left) {
                (Fate::Done | Fate::Open, None) => verdict.missing += u64::from(!is_there),
                // A removal that was acknowledged is an update too.
                (_, Some(Fate::Done | Fate::Open)) => verdict.missing += u64::from(is_there),
                (Fate::Unknown, None) | (_, Some(Fate::Unknown)) => {}
            }
        }
        let stayed = self.base.fans.iter().filter(|fan| !found.fans.contains(*fan));
        verdict.missing += stayed.count() as u64;
        let strangers = found
            .fans
            .iter()
            .filter(|fan| !self.fans.contains_key(*fan) && !self.base.fans.contains(*fan));
        verdict.surplus += strangers.count() as u64;
        verdict
    }
}

/// By how much `found` falls short of `least`.
fn short(least: u128, found: u128) -> u64 {
    u64::try_from(least.saturating_sub(found)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dump(lines: &[&str]) -> Dump {
        let mut dump = Dump::default();
        lines.iter().for_each(|line| dump.read(line));
        dump
    }

    fn heard(lines: &[(usize, &str)]) -> Ledger {
        let mut ledger = Ledger::after(dump(&["likes 0 10", "fan 0 old"]));
        lines
            .iter()
            .filter_map(|(process, line)| Some((*process, line.split_once(' ')?)))
            .for_each(|(process, (word, update))| ledger.heard(process, word, update));
        ledger
    }

    fn verdict(mut ledger: Ledger, found: &[&str]) -> (u64, u64) {
        let Verdict { missing, surplus } = ledger.judge(&dump(found));
        (missing, surplus)
    }

    #[test]
    fn acknowledged_updates_must_be_there_and_nothing_else_may_be() {
        let ledger = || {
            heard(&[
                (0, "begin like 0"),
                (0, "done like 0"),
                (1, "begin follow 0 a"),
                (1, "done follow 0 a"),
                (1, "begin follow 0 b"),
                (1, "open follow 0 b"),
            ])
        };
        assert_eq!(
            verdict(ledger(), &["likes 0 11", "fan 0 old", "fan 0 a", "fan 0 b"]),
            (0, 0)
        );
        assert_eq!(verdict(ledger(), &["likes 0 10", "fan 0 old", "fan 0 b"]), (2, 0));
        assert_eq!(
            verdict(ledger(), &["likes 0 11", "fan 0 a", "fan 0 b"]),
            (1, 0),
            "what was there before"
        );
        assert_eq!(
            verdict(
                ledger(),
                &["likes 0 13", "fan 0 old", "fan 0 a", "fan 0 b", "fan 0 x"]
            ),
            (0, 3)
        );
    }

    #[test]
    fn what_a_killed_process_had_not_acknowledged_may_be_anywhere() {
        let ledger = || {
            let mut ledger = heard(&[
                (0, "begin like 0"),
                (0, "open like 0"),
                (0, "begin follow 1 a"),
                (0, "done follow 1 a"),
                (0, "begin leave 1 a"),
            ]);
            ledger.killed(0);
            ledger
        };
        let rest = ["likes 0 10", "fan 0 old"];
        assert_eq!(verdict(ledger(), &rest), (0, 0));
        assert_eq!(verdict(ledger(), &["likes 0 11", "fan 0 old", "fan 1 a"]), (0, 0));
        assert_eq!(verdict(ledger(), &["likes 0 12", "fan 0 old"]), (0, 1));
    }

    #[test]
    fn a_removal_that_was_acknowledged_stays_one() {
        let ledger = heard(&[
            (0, "begin follow 1 a"),
            (0, "done follow 1 a"),
            (0, "begin leave 1 a"),
            (0, "done leave 1 a"),
        ]);
        assert_eq!(verdict(ledger, &["likes 0 10", "fan 0 old", "fan 1 a"]), (1, 0));
    }
}
