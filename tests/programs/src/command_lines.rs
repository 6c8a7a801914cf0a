//! What every program makes of its arguments: a mistake ends it with exit code 2 and one line before anything
//! is started, `--help` with 0, and what it cannot begin with the cause in one line, within seconds.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::Program;

/// A program, with what else than an unknown argument it refuses.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// Where it is.
    pub path: &'static str,
    /// Arguments that are a mistake.
    pub mistakes: &'static [&'static [&'static str]],
}

/// The [`Row`]s of a package: its programs' names, each with the mistakes.
#[macro_export]
macro_rules! rows {
    ($($name:literal: $mistakes:expr,)*) => {
        [$($crate::command_lines::Row { name: $name, path: env!(concat!("CARGO_BIN_EXE_", $name)), mistakes: &$mistakes },)*]
    };
}

/// How long a program may take to say that it cannot begin.
pub const AT_ONCE: Duration = Duration::from_secs(15);

/// The exit code, the lines on standard error and the number of those on standard output, once it has ended
/// by itself, in time.
#[must_use]
pub fn ended(path: &str, arguments: &[&str]) -> (Option<i32>, Vec<String>, usize) {
    let begun = Instant::now();
    let ended = Program::start(path, arguments).end();
    let took = begun.elapsed();
    assert!(took < AT_ONCE, "{path} {arguments:?} took {took:?}");
    let lines = ended.stderr.lines().map(str::to_owned).collect();
    (ended.code, lines, ended.stdout.len())
}

/// Every program of the package in this folder has a row.
pub fn are_all(package: &str, rows: &[Row]) {
    let sources = Path::new(package).join("src/bin");
    let names = std::fs::read_dir(sources).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        path.file_stem().unwrap().to_str().unwrap().to_owned()
    });
    let rows: BTreeSet<String> = rows.iter().map(|row| row.name.to_owned()).collect();
    assert_eq!(names.collect::<BTreeSet<_>>(), rows);
}

/// A mistake in the arguments ends every program with 2 and one line before anything is started.
pub fn mistakes_are_refused(rows: &[Row]) {
    for row in rows {
        let unknown: [&[&str]; 2] = [&["--bogus"], &["-Z"]];
        for arguments in unknown.iter().chain(row.mistakes) {
            let (code, said, out) = ended(row.path, arguments);
            assert_eq!(
                (code, said.len(), out),
                (Some(2), 1, 0),
                "{} {arguments:?}: {said:?}",
                row.name
            );
            assert!(said[0].starts_with(row.name), "{said:?}");
        }
    }
}

/// Help is printed and is no mistake.
pub fn help_is_printed(rows: &[Row]) {
    for row in rows {
        for argument in ["--help", "-h"] {
            let (code, said, out) = ended(row.path, &[argument]);
            assert_eq!(
                (code, said.len()),
                (Some(0), 0),
                "{} {argument}: {said:?}",
                row.name
            );
            assert!(out > 1, "{} {argument}", row.name);
        }
    }
}

/// It ends with 1, and says why in one line that has this in it.
pub fn cannot_begin(row: &Row, arguments: &[&str], cause: &str) {
    let (code, said, _) = ended(row.path, arguments);
    assert_eq!(
        (code, said.len()),
        (Some(1), 1),
        "{} {arguments:?}: {said:?}",
        row.name
    );
    let cause_is_said = said[0].to_lowercase().contains(cause);
    assert!(
        said[0].starts_with(row.name) && cause_is_said,
        "{cause}? {said:?}"
    );
}
