//! Which files each word is in: what one thread finds, and what nodes put for the files they are given. Words
//! are the demo's, as keys. Knows no cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use quorate_demo::files::Files;
use quorate_demo::words;
use quorate_driver::kv::KEY_BYTES_MAX;

/// Where the sources of this workspace are.
const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// The folder with the sources of a package.
const SOURCES: &str = "src";

/// Numbers of files, in the order in which they were found.
pub(super) type FileSet = BTreeSet<u32>;

/// The words of some files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    pub(super) entries: BTreeMap<String, FileSet>,
    /// All words, those that are there before counted again.
    pub(super) words: u64,
}

impl Index {
    /// Takes in the words of one file.
    pub(super) fn add(&mut self, file: u32, bytes: &[u8]) {
        for word in words::words_of(bytes) {
            self.words += 1;
            self.entries.entry(key_of(word)).or_default().insert(file);
        }
    }

    /// Of files with their numbers. One that cannot be read has no words, wherever it is read.
    pub(super) fn of<'p>(files: impl IntoIterator<Item = (u32, &'p Path)>) -> Self {
        let mut index = Self::default();
        for (number, path) in files {
            if let Ok(bytes) = words::read_file(path) {
                index.add(number, &bytes);
            }
        }
        index
    }
}

/// A word as a key: as text, and cut where keys end.
pub(super) fn key_of(word: &[u8]) -> String {
    let mut key = String::from_utf8_lossy(word).into_owned();
    let mut end = key.len().min(KEY_BYTES_MAX);
    while !key.is_char_boundary(end) {
        end -= 1;
    }
    key.truncate(end);
    key
}

/// The regular files below this path, or the sources of all packages of this workspace; and what to call
/// them.
pub(super) fn files(input: Option<&Path>) -> Result<(Vec<PathBuf>, String), String> {
    let (files, what) = match input {
        Some(path) => (Files::below(path), path.display().to_string()),
        None => (sources(Path::new(WORKSPACE)), "this workspace".to_owned()),
    };
    let files = files.map_err(|error| format!("cannot read {what}: {error}"))?;
    let paths = files.found.iter().filter_map(|found| files.path_of(found));
    let paths: Vec<PathBuf> = paths.collect();
    if paths.is_empty() {
        return Err(format!("no regular file below {what}"));
    }
    Ok((paths, what))
}

/// What packages have, one or two folders below this one.
fn sources(root: &Path) -> io::Result<Files> {
    let root = root.canonicalize()?;
    let mut packages = folders(&root)?;
    for folder in packages.clone() {
        packages.extend(folders(&folder)?);
    }
    let sources = packages.iter().map(|package| package.join(SOURCES));
    let sources = sources.filter(|sources| sources.is_dir()).collect();
    Ok(Files::of(root, sources))
}

fn folders(of: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in of.read_dir()? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_names_every_file_of_a_word_once() {
        let mut index = Index::default();
        index.add(7, b"one two\none");
        index.add(3, b"two \xff");
        let entries: Vec<(&str, Vec<u32>)> = index
            .entries
            .iter()
            .map(|(word, files)| (word.as_str(), files.iter().copied().collect()))
            .collect();
        let expected = [("one", vec![7]), ("two", vec![3, 7]), ("\u{fffd}", vec![3])];
        assert_eq!((entries.as_slice(), index.words), (&expected[..], 5));
    }

    #[test]
    fn a_long_word_is_cut_between_characters() {
        let cut = |word: &str| key_of(word.as_bytes());
        assert_eq!(cut(&"a".repeat(255)).len(), 255);
        assert_eq!(cut(&"a".repeat(300)), "a".repeat(255));
        // Two bytes each: the 255th byte is the first half of one.
        assert_eq!(cut(&"ä".repeat(200)), "ä".repeat(127));
    }

    #[test]
    fn the_default_are_the_sources_of_this_workspace() {
        let (files, _) = files(None).unwrap();
        let has = |name: &str| files.iter().any(|path| path.ends_with(name));
        assert!(has("core/src/lib.rs") && has("tests/soak/src/word_index/words.rs"));
        assert!(!files.iter().any(|path| path.ends_with("Cargo.toml")));
        assert!(super::files(Some(Path::new("/no/such/folder"))).is_err());
    }
}
