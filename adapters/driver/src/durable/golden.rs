//! Golden files: the bytes of every version that ever was, kept beside the sources of a program, so that a
//! change that could not read them fails a test and not a node. For tests; panics are its answers.

use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};

use quorate_core::ordered::OrderedSet;

use super::{Versioned, schema};

/// Writes the files of new samples instead of failing.
const BLESS: &str = "QUORATE_BLESS";

/// Checks a type that is kept against the bytes in a folder: `v2-added.bin` is the sample `added` as version
/// 2 wrote it.
///
/// * Every sample of the present version has a file with exactly the bytes that are written today. A test run
///   with `QUORATE_BLESS=1` writes those that are missing. A file that is there is never written again: what
///   a version wrote is history.
/// * Every file of an earlier version is named by a [`Golden::earlier`] and becomes what that says.
/// * Every version from 1 to the present one has a file.
///
/// ```no_run
/// # use quorate_driver::durable::{Golden, Versioned};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Debug, PartialEq, Serialize, Deserialize)]
/// # enum Event { Added { number: u64, by: String } }
/// # impl Versioned for Event { const VERSION: u32 = 2; }
/// #[test]
/// fn every_version_of_an_event_can_be_read() {
///     Golden::<Event>::within(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/event"))
///         .earlier(1, "added", &Event::Added { number: 7, by: String::new() })
///         .sample("added", &Event::Added { number: 7, by: "ada".to_owned() })
///         .check();
/// }
/// ```
#[derive(Debug)]
#[must_use = "nothing is checked before `check`"]
pub struct Golden<T> {
    folder: PathBuf,
    named: OrderedSet<String>,
    versions: OrderedSet<u32>,
    wrong: Vec<String>,
    types: std::marker::PhantomData<fn(T)>,
}

impl<T: Versioned + PartialEq + Debug> Golden<T> {
    /// The folder of one type.
    pub fn within(folder: impl AsRef<Path>) -> Self {
        Self {
            folder: folder.as_ref().to_owned(),
            named: OrderedSet::new(),
            versions: OrderedSet::new(),
            wrong: Vec::new(),
            types: std::marker::PhantomData,
        }
    }

    /// A value of the present version. Have one for each variant.
    pub fn sample(mut self, name: &str, value: &T) -> Self {
        let file = self.name(T::VERSION, name);
        let Some(bytes) = schema::to_bytes(value) else {
            return self.complain(format!("{file}: the value cannot be encoded"));
        };
        let path = self.folder.join(&file);
        match fs::read(&path) {
            Ok(golden) if *golden == *bytes => self.reads(&file, &golden, value),
            Ok(golden) => self.complain(format!(
                "{file}: version {} wrote {golden:02x?} and writes {bytes:02x?} now: raise `VERSION`, and upcast",
                T::VERSION
            )),
            Err(_) if std::env::var_os(BLESS).is_some() => {
                let written = fs::create_dir_all(&self.folder).and_then(|()| fs::write(&path, &bytes));
                match written {
                    Ok(()) => self,
                    Err(error) => self.complain(format!("{file}: {error}")),
                }
            }
            Err(error) => self.complain(format!("{file}: {error}; {BLESS}=1 writes it")),
        }
    }

    /// What a sample of an earlier version is today.
    pub fn earlier(mut self, version: u32, name: &str, expected: &T) -> Self {
        let file = self.name(version, name);
        if version >= T::VERSION {
            return self.complain(format!("{file}: version {} is the present one", T::VERSION));
        }
        match fs::read(self.folder.join(&file)) {
            Ok(golden) => self.reads(&file, &golden, expected),
            Err(error) => self.complain(format!("{file}: {error}")),
        }
    }

    /// Checks all of it.
    ///
    /// # Panics
    /// Something is not as it has to be; the text says what.
    pub fn check(mut self) {
        let files = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for file in files {
            let file = file.file_name().to_string_lossy().into_owned();
            if !self.named.contains(&file) {
                self.wrong.push(format!("{file}: no sample names it"));
            }
        }
        for version in (1..=T::VERSION).filter(|version| !self.versions.contains(version)) {
            self.wrong.push(format!("version {version} has no sample"));
        }
        let (folder, wrong) = (self.folder.display(), self.wrong.join("\n  "));
        assert!(wrong.is_empty(), "golden files in {folder}:\n  {wrong}");
    }

    fn name(&mut self, version: u32, name: &str) -> String {
        let file = format!("v{version}-{name}.bin");
        self.versions.insert(version);
        self.named.insert(file.clone());
        file
    }

    fn reads(self, file: &str, golden: &[u8], expected: &T) -> Self {
        match schema::from_bytes::<T>(golden) {
            Ok(found) if found == *expected => self,
            Ok(found) => self.complain(format!("{file}: is read as {found:?}, not as {expected:?}")),
            Err(error) => self.complain(format!("{file}: {error}")),
        }
    }

    fn complain(mut self, what: String) -> Self {
        self.wrong.push(what);
        self
    }
}
