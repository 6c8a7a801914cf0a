//! Which files are given to which node, and what the nodes found. Knows no process.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use super::words::{FileSet, Index};

/// The files in parts, each of which one node puts; a part of a node that is lost is given to another one.
#[derive(Debug, Default)]
pub(super) struct Work {
    parts: Vec<Range<usize>>,
    open: VecDeque<usize>,
    /// By node.
    taken: BTreeMap<usize, usize>,
    pub(super) done: usize,
    /// So many parts may be given out: the others wait for what is to happen before.
    pub(super) released: usize,
}

impl Work {
    /// So many files in so many parts, or in one of each file if there are fewer.
    pub(super) fn new(files: usize, parts: usize) -> Self {
        let parts = parts.min(files);
        let parts: Vec<Range<usize>> = (0..parts)
            .map(|part| files * part / parts..files * (part + 1) / parts)
            .collect();
        Self {
            open: (0..parts.len()).collect(),
            parts,
            ..Self::default()
        }
    }

    pub(super) const fn parts(&self) -> usize {
        self.parts.len()
    }

    /// The next part for a node that has none.
    pub(super) fn give(&mut self, node: usize) -> Option<(usize, Range<usize>)> {
        if self.taken.contains_key(&node) || self.done + self.taken.len() >= self.released {
            return None;
        }
        let part = self.open.pop_front()?;
        self.taken.insert(node, part);
        Some((part, self.parts[part].clone()))
    }

    /// A node says that it has put its part.
    pub(super) fn done(&mut self, node: usize, part: usize) {
        if self.taken.get(&node) == Some(&part) {
            self.taken.remove(&node);
            self.done += 1;
        }
    }

    /// A node is lost, with what it had not put.
    pub(super) fn lost(&mut self, node: usize) {
        self.open.extend(self.taken.remove(&node));
    }
}

/// What the nodes found, held against what one thread finds.
#[derive(Debug, Default)]
pub(super) struct Found {
    entries: BTreeMap<String, FileSet>,
}

impl Found {
    pub(super) fn heard(&mut self, word: String, files: FileSet) {
        self.entries.insert(word, files);
    }

    /// How many words were looked up.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// How many words have other files than one thread finds, or were never looked up.
    pub(super) fn wrong(&self, index: &Index) -> usize {
        let is_wrong = |(word, files): &(&String, &FileSet)| self.entries.get(*word) != Some(*files);
        index.entries.iter().filter(is_wrong).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_in_one_part() {
        for (files, parts, expected) in [(10, 4, 4), (3, 8, 3), (1385, 15, 15)] {
            let work = Work::new(files, parts);
            assert_eq!(work.parts(), expected);
            let all: Vec<usize> = work.parts.iter().cloned().flatten().collect();
            assert_eq!(all, (0..files).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_part_of_a_lost_node_is_given_to_another_one() {
        let mut work = Work::new(4, 4);
        work.released = 3;
        assert_eq!(work.give(0), Some((0, 0..1)));
        assert_eq!(work.give(0), None, "it has one");
        assert_eq!(work.give(1), Some((1, 1..2)));
        work.lost(0);
        work.done(0, 0);
        assert_eq!(work.done, 0, "it is lost");
        work.done(1, 1);
        assert_eq!((work.give(1), work.give(2)), (Some((2, 2..3)), Some((3, 3..4))));
        assert_eq!(work.give(3), None, "as many as are released are out");
        work.done(1, 2);
        work.done(2, 3);
        assert_eq!((work.done, work.give(1)), (3, None));
        work.released = 4;
        assert_eq!(work.give(1), Some((0, 0..1)));
    }

    #[test]
    fn an_entry_that_differs_or_is_missing_is_wrong() {
        let mut index = Index::default();
        index.add(1, b"a b c");
        index.add(2, b"b");
        let mut found = Found::default();
        found.heard("a".to_owned(), [1].into());
        found.heard("b".to_owned(), [1].into());
        assert_eq!((found.wrong(&index), found.len()), (2, 2));
        found.heard("b".to_owned(), [1, 2].into());
        found.heard("c".to_owned(), [1].into());
        assert_eq!((found.wrong(&index), found.len()), (0, 3));
    }
}
