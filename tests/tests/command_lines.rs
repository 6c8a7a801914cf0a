//! Every program of this package: a mistake in its arguments ends it with exit code 2 before it does
//! anything, `--help` with 0.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

/// A program, with what else than an unknown argument it refuses.
type Row = (&'static str, &'static str, &'static [&'static [&'static str]]);

const ROWS: [Row; 5] = [
    (
        "decisions",
        env!("CARGO_BIN_EXE_decisions"),
        &[&["many"], &["1", "2", "3"], &["-1"]],
    ),
    ("rooms", env!("CARGO_BIN_EXE_rooms"), &[&["core"]]),
    (
        "sim",
        env!("CARGO_BIN_EXE_sim"),
        &[&["--seeds", "many"], &["--profile", "pigeons"]],
    ),
    (
        "splits",
        env!("CARGO_BIN_EXE_splits"),
        &[&["--strategy", "pigeons"]],
    ),
    (
        "vectors",
        env!("CARGO_BIN_EXE_vectors"),
        &[&[], &["a", "b"], &["nowhere.json"]],
    ),
];

fn run(path: &str, arguments: &[&str]) -> Output {
    Command::new(path).args(arguments).output().unwrap()
}

#[test]
fn every_program_has_a_row() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bin");
    let names = std::fs::read_dir(sources).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        path.file_stem().unwrap().to_str().unwrap().to_owned()
    });
    let rows: BTreeSet<String> = ROWS.iter().map(|(name, ..)| (*name).to_owned()).collect();
    assert_eq!(names.collect::<BTreeSet<_>>(), rows);
}

#[test]
fn a_mistake_in_the_arguments_ends_every_program_with_2_before_it_does_anything() {
    for (name, path, mistakes) in ROWS {
        let unknown: [&[&str]; 2] = [&["--bogus"], &["-Z"]];
        for arguments in unknown.iter().chain(mistakes) {
            let output = run(path, arguments);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{name} {arguments:?}: {said}");
            assert!(
                output.stdout.is_empty() && !said.is_empty(),
                "{name} {arguments:?}"
            );
        }
    }
}

#[test]
fn help_is_printed_and_is_no_mistake() {
    for (name, path, _) in ROWS {
        for argument in ["--help", "-h"] {
            let output = run(path, &[argument]);
            assert_eq!(output.status.code(), Some(0), "{name} {argument}");
            assert!(
                !output.stdout.is_empty() && output.stderr.is_empty(),
                "{name} {argument}"
            );
        }
    }
}
