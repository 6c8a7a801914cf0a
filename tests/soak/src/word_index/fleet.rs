//! What the five nodes are told to put and to look up, and what they say.

use std::path::PathBuf;
use std::time::Duration;

use super::words::{FileSet, Index};
use super::work::{Found, Work};
use super::{COPIES, RANGES};
use crate::fleet::{self, Column, Place, Proof};
use crate::program::NODES;

/// Words of what a node shows.
const PUT: usize = 0;
const REPEATED: usize = 1;
const QUERIES: usize = 2;
const OWNED: usize = 3;
/// Words that a node is told to look up at once.
const WORDS_PER_ORDER: usize = 256;

/// What is proved of the nodes.
#[derive(Debug, Default)]
pub(super) struct Indexing {
    files: Vec<PathBuf>,
    pub(super) work: Work,
    pub(super) found: Found,
    put: u64,
    /// Queries without an answer, of nodes that nothing had happened to.
    pub(super) failed: u64,
    /// Queries whose answer lacks what their own node had put.
    pub(super) stale: u64,
}

/// All nodes of a run.
pub(super) type Fleet = fleet::Fleet<Indexing>;

impl Indexing {
    pub(super) fn new(files: Vec<PathBuf>, parts: usize) -> Self {
        Self {
            work: Work::new(files.len(), parts),
            files,
            ..Self::default()
        }
    }

    /// What one thread finds.
    pub(super) fn alone(&self) -> Index {
        Index::of((0..).zip(self.files.iter().map(PathBuf::as_path)))
    }

    /// The order for the next part of a node.
    fn order(&mut self, node: usize) -> Option<String> {
        let (part, files) = self.work.give(node)?;
        let mut order = format!("take {part}");
        for number in files {
            order += &format!(
                " {number}:{}",
                hex(self.files[number].as_os_str().as_encoded_bytes())
            );
        }
        Some(order)
    }
}

impl Proof for Indexing {
    const PATIENCE: Duration = Duration::from_secs(60);
    const COLUMNS: &'static [Column] = &[
        ("words put", PUT),
        ("put again", REPEATED),
        ("queries", QUERIES),
        ("ranges", OWNED),
    ];

    fn hear(fleet: &mut Fleet, who: usize, what: &str, rest: &str) {
        let is_whole = fleet.is_untouched(who);
        let proof = &mut fleet.proof;
        match what {
            "put" => proof.put += rest.parse().unwrap_or(0),
            "done" => {
                proof.work.done(who, rest.parse().unwrap_or(usize::MAX));
                if is_whole {
                    fleet.give(who);
                }
            }
            "failed" => proof.failed += u64::from(is_whole),
            "stale" => proof.stale += 1,
            "entry" => {
                if let Some((word, files)) = entry(rest) {
                    proof.found.heard(word, files);
                }
            }
            _ => {}
        }
        if is_whole && matches!(what, "failed" | "stale") {
            fleet
                .screen
                .say(format_args!("node {}: a query {what}: {rest}", who + 1));
        }
    }

    /// A part of files without words is put as well.
    fn acknowledged(&self) -> u64 {
        self.put + self.work.done as u64
    }

    fn line(&self, places: &[Place]) -> String {
        let queries: u64 = places.iter().map(|place| place.number(QUERIES)).sum();
        format!(
            "{} of {} parts and {} words put; {queries} queries, {} failed",
            self.work.done,
            self.work.parts(),
            self.put,
            self.failed
        )
    }
}

impl Fleet {
    /// Gives a node its next part, if there is one for it.
    fn give(&mut self, node: usize) {
        if let Some(order) = self.proof.order(node) {
            self.tell(node, &order);
        }
    }

    /// Lets queries begin, and so many parts be put.
    pub(super) fn begin_with(&mut self, parts: usize) -> Result<(), String> {
        self.release(parts);
        self.begin()
    }

    /// So many parts may be put by now.
    pub(super) fn release(&mut self, parts: usize) {
        self.proof.work.released = parts;
        self.give_all();
    }

    fn give_all(&mut self) {
        for node in 0..NODES {
            if self.runs(node) && self.is_untouched(node) {
                self.give(node);
            }
        }
    }

    /// What a node has not put, others put.
    pub(super) fn give_to_others(&mut self, lost: usize) {
        self.proof.work.lost(lost);
        self.give_all();
    }

    /// Waits until so many parts are put.
    pub(super) fn until_put(&mut self, parts: usize, limit: Duration) -> Result<(), String> {
        self.until(limit, "the words to be put", |fleet| {
            fleet.proof.work.done >= parts
        })
    }

    /// Waits until each range has as many copies as it is to have, on nodes that run, and each of them has
    /// its share.
    pub(super) fn until_whole(&mut self) -> Result<(), String> {
        self.until(Indexing::PATIENCE, "three copies of every range", |fleet| {
            let owned: Vec<u64> = fleet.running().map(|place| place.number(OWNED)).collect();
            is_whole(&owned)
        })
    }

    /// Has the nodes look every word up.
    pub(super) fn look_up(&mut self, index: &Index) -> Result<(), String> {
        let words: Vec<&String> = index.entries.keys().collect();
        let nodes: Vec<usize> = (0..NODES).filter(|node| self.runs(*node)).collect();
        for (words, node) in words.chunks(WORDS_PER_ORDER).zip(nodes.iter().cycle()) {
            let words: Vec<String> = words.iter().map(|word| hex(word.as_bytes())).collect();
            self.tell(*node, &format!("read {}", words.join(" ")));
        }
        self.until(Indexing::PATIENCE * 2, "every word to be looked up", |fleet| {
            fleet.proof.found.len() == index.entries.len()
        })
    }

    /// Queries of all processes, those that ended included.
    pub(super) fn queries(&self) -> u64 {
        self.shown(QUERIES)
    }
}

/// Whether nodes that own so many ranges have all copies together, and none much fewer than the others: a
/// node that is killed has to take some away.
fn is_whole(owned: &[u64]) -> bool {
    let wanted = u64::from(COPIES) * u64::from(RANGES);
    let share_least = wanted / (2 * owned.len().max(1) as u64);
    owned.iter().sum::<u64>() == wanted && owned.iter().all(|owned| *owned >= share_least)
}

/// Bytes as text without blanks.
fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // A text takes everything.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// What [`hex`] made of some bytes.
pub(super) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    let byte = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
    digits.map(byte).collect()
}

/// The line of a word and its files.
pub(super) fn entry_line(word: &str, files: &FileSet) -> String {
    let files: Vec<String> = files.iter().map(u32::to_string).collect();
    format!("entry {} {}", hex(word.as_bytes()), files.join(","))
}

fn entry(rest: &str) -> Option<(String, FileSet)> {
    let (word, files) = rest.split_once(' ')?;
    let word = String::from_utf8(unhex(word)?).ok()?;
    let numbers = files.split(',').filter(|number| !number.is_empty());
    let files = numbers.map(|number| number.parse().ok()).collect::<Option<_>>()?;
    Some((word, files))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_comes_back_from_its_line() {
        for (word, files) in [("a", vec![]), ("ä\u{7f}", vec![3, 70_000])] {
            let files: FileSet = files.into_iter().collect();
            let line = entry_line(word, &files);
            let rest = line.strip_prefix("entry ").unwrap();
            assert_eq!(entry(rest), Some((word.to_owned(), files)));
        }
        assert_eq!(entry("zz 1"), None);
        assert_eq!(entry("61 x"), None);
    }

    #[test]
    fn ranges_are_whole_when_no_copy_is_missing_and_every_node_has_some() {
        assert!(is_whole(&[256, 256, 256]) && is_whole(&[154, 154, 154, 153, 153]));
        assert!(!is_whole(&[256, 256, 256, 0, 0]), "nodes without ranges");
        assert!(!is_whole(&[154, 154, 154, 153]), "copies of a lost node");
        assert!(!is_whole(&[]));
    }

    #[test]
    fn an_order_names_the_files_of_a_part() {
        let files = ["/a b", "/c"].map(PathBuf::from).to_vec();
        let mut indexing = Indexing::new(files, 1);
        indexing.work.released = 1;
        assert_eq!(indexing.order(2), Some("take 0 0:2f612062 1:2f63".to_owned()));
        assert_eq!(indexing.order(2), None);
    }
}
