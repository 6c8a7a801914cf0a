//! Every program of this package: a mistake in its arguments ends it with exit code 2 and one line before anything is started, `--help` with
//! 0, and a store that cannot be had with the cause in one line, within seconds.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{Directory, Program};

/// A program, with what else than an unknown argument it refuses.
struct Row {
    name: &'static str,
    path: &'static str,
    mistakes: &'static [&'static [&'static str]],
}

macro_rules! rows {
    ($($name:literal: $mistakes:expr,)*) => {
        [$(Row { name: $name, path: env!(concat!("CARGO_BIN_EXE_", $name)), mistakes: &$mistakes },)*]
    };
}

const TWO_STORES: &[&str] = &["--store", "nowhere", "--postgres", "host=nowhere"];
const NO_STORE: &[&str] = &["--store", ""];

const ROWS: [Row; 20] = rows! {
    "bank": [TWO_STORES, NO_STORE, &["--postgres", ""]],
    "bench": [&["--transport", "pigeon"], NO_STORE],
    "chaos": [&["pigeons"], &[]],
    "churn": [&["--transport", "pigeon"], &["--minutes", "many"], &["--minutes", "-1"]],
    "codec": [],
    "counter": [TWO_STORES, NO_STORE, &["--postgres", ""], &["--state", "solid"]],
    "deliveries": [TWO_STORES, NO_STORE, &["--postgres", ""], &["--bytes", "2000000"]],
    "demo": [],
    "entities": [&["--only", "pigeons"]],
    "events": [NO_STORE],
    "flood": [&["--strangers", "udp"], &["--strangers"]],
    "likes": [NO_STORE, &["--postgres", "host=nowhere"]],
    "lower_terms": [&[], TWO_STORES, &["5", "--store", "nowhere.redb", "--kind", "Kind"], &["many"]],
    "node": [&["--seed", "nowhere"]],
    "only_one": [NO_STORE, &["--postgres", "host=nowhere"]],
    "passivation": [],
    "rebalance": [],
    "remove_homes": [&[], &["nowhere.redb", "Kind"], &["--postgres"], &["--postgres", "host=nowhere", "node-1"], &[""]],
    "rolling": [],
    "rotation": [&["--transport", "pigeon"]],
};

/// How long a program may take to say that it cannot begin.
const AT_ONCE: Duration = Duration::from_secs(15);

/// The exit code and what it said on standard error, once it has ended by itself, in time.
fn ended(path: &str, arguments: &[&str]) -> (Option<i32>, Vec<String>, usize) {
    let begun = Instant::now();
    let ended = Program::start(path, arguments).end();
    let took = begun.elapsed();
    assert!(took < AT_ONCE, "{path} {arguments:?} took {took:?}");
    let lines = ended.stderr.lines().map(str::to_owned).collect();
    (ended.code, lines, ended.stdout.len())
}

#[test]
fn every_program_has_a_row() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bin");
    let names = std::fs::read_dir(sources).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        path.file_stem().unwrap().to_str().unwrap().to_owned()
    });
    let rows: BTreeSet<String> = ROWS.iter().map(|row| row.name.to_owned()).collect();
    assert_eq!(names.collect::<BTreeSet<_>>(), rows);
}

#[test]
fn a_mistake_in_the_arguments_ends_every_program_with_2_and_one_line_before_anything_is_started() {
    for row in ROWS {
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

#[test]
fn help_is_printed_and_is_no_mistake() {
    for row in ROWS {
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

fn path_of(name: &str) -> &'static str {
    ROWS.iter().find(|row| row.name == name).unwrap().path
}

/// It ends with 1, and says why in one line that has this in it.
fn cannot_begin(name: &str, arguments: &[&str], cause: &str) {
    let (code, said, _) = ended(path_of(name), arguments);
    assert_eq!((code, said.len()), (Some(1), 1), "{name} {arguments:?}: {said:?}");
    let cause_is_said = said[0].to_lowercase().contains(cause);
    assert!(said[0].starts_with(name) && cause_is_said, "{cause}? {said:?}");
}

#[test]
fn a_server_that_cannot_be_reached_is_named_at_once() {
    // Nobody listens there.
    let server = "host=127.0.0.1 port=1 user=nobody";
    for name in ["bank", "counter", "deliveries"] {
        cannot_begin(name, &["--postgres", server], "connect");
        cannot_begin(
            name,
            &["--postgres", "host=/nowhere user=nobody", "--json"],
            "connect",
        );
        cannot_begin(name, &["--postgres", "pigeons"], "server");
    }
    cannot_begin("remove_homes", &["--postgres", server, "node-1", "Kind"], "");
}

#[test]
fn a_damaged_store_is_named_at_once() {
    for damaged in ["node-1.redb", "node-4.redb"] {
        for name in ["bank", "counter", "deliveries", "likes", "only_one"] {
            let folder = Directory::new(&format!("damaged-{name}-{damaged}"));
            std::fs::write(folder.0.join(damaged), [7; 5_000]).unwrap();
            cannot_begin(name, &["--store", folder.path()], damaged);
        }
    }
    let folder = Directory::new("damaged-file");
    let file = folder.0.join("node.redb");
    std::fs::write(&file, [7; 5_000]).unwrap();
    cannot_begin("remove_homes", &[file.to_str().unwrap(), "Kind"], "");
}

#[test]
fn a_store_where_no_folder_can_be_made_is_named_at_once() {
    for name in ["bank", "counter", "deliveries", "likes", "only_one", "events"] {
        cannot_begin(name, &["--store", "/dev/null/store"], "directory");
    }
    cannot_begin("bench", &["--data", "--store", "/dev/null/store"], "directory");
}

/// In a file system of its own that is full: where this process may mount one.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_named_at_once() {
    let folder = Directory::new("full");
    let mounted = |program: &str| {
        format!(
            "mount -t tmpfs -o size=64k none {} && exec {program}",
            folder.path()
        )
    };
    let run = |script: &str| Program::start("unshare", &["-m", "sh", "-c", script]).end();
    if run(&mounted("true")).code != Some(0) {
        return eprintln!("skipped: no file system can be mounted here");
    }
    for name in ["bank", "counter", "deliveries", "likes", "only_one"] {
        let begun = Instant::now();
        let ended = run(&mounted(&format!("{} --store {}", path_of(name), folder.path())));
        let said: Vec<&str> = ended.stderr.lines().collect();
        assert_eq!((ended.code, said.len()), (Some(1), 1), "{name}: {said:?}");
        assert!(
            said[0].contains("space") && begun.elapsed() < AT_ONCE,
            "{name}: {said:?}"
        );
    }
}
