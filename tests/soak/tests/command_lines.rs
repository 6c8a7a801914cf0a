//! Every program of this package: a mistake in its arguments ends it with exit code 2 and one line before
//! anything is started, `--help` with 0, and a store that cannot be had with the cause in one line, within
//! seconds.

#[cfg(target_os = "linux")]
use std::time::{Duration, Instant};

use quorate_programs::command_lines::{self, Row};
use quorate_programs::{Directory, rows};
#[cfg(target_os = "linux")]
use quorate_programs::{Program, command_lines::AT_ONCE};

const TWO_STORES: &[&str] = &["--store", "nowhere", "--postgres", "host=nowhere"];
const NO_STORE: &[&str] = &["--store", ""];

static ROWS: [Row; 16] = rows! {
    "bank": [TWO_STORES, NO_STORE, &["--postgres", ""]],
    "burning": [NO_STORE, &["--transport", "pigeon"], &["--seconds", "29"]],
    "chaos": [&["pigeons"], &[]],
    "churn": [&["--transport", "pigeon"], &["--minutes", "many"], &["--minutes", "-1"]],
    "counter": [TWO_STORES, NO_STORE, &["--postgres", ""], &["--state", "solid"]],
    "deliveries": [TWO_STORES, NO_STORE, &["--postgres", ""], &["--bytes", "2000000"]],
    "flood": [&["--strangers", "udp"], &["--strangers"]],
    "instances": [NO_STORE, &["--transport", "pigeon"], &["--postgres", "host=nowhere"]],
    "liars": [NO_STORE, &["--messages", "0"], &["--transport", "pigeon"], &["--postgres", "host=nowhere"]],
    "likes": [NO_STORE, &["--postgres", "host=nowhere"]],
    "mailboxes": [TWO_STORES, NO_STORE, &["--postgres", ""], &["--transport", "pigeon"]],
    "only_one": [NO_STORE, &["--postgres", "host=nowhere"]],
    "rolling": [],
    "rotation": [&["--transport", "pigeon"]],
    "store_history": [&["--transport", "pigeon"], &["--store", "nowhere"]],
    "word_index": [&["--input", "/no/such/folder"], &["--store", "nowhere"], &["--transport", "pigeon"]],
};

#[test]
fn every_program_has_a_row() {
    command_lines::are_all(env!("CARGO_MANIFEST_DIR"), &ROWS);
}

#[test]
fn a_mistake_in_the_arguments_ends_every_program_with_2_and_one_line_before_anything_is_started() {
    command_lines::mistakes_are_refused(&ROWS);
}

#[test]
fn help_is_printed_and_is_no_mistake() {
    command_lines::help_is_printed(&ROWS);
}

fn row(name: &str) -> &'static Row {
    ROWS.iter().find(|row| row.name == name).unwrap()
}

/// It ends with 1, and says why in one line that has this in it.
fn cannot_begin(name: &str, arguments: &[&str], cause: &str) {
    command_lines::cannot_begin(row(name), arguments, cause);
}

#[test]
fn a_server_that_cannot_be_reached_is_named_at_once() {
    // Nobody listens there.
    let server = "host=127.0.0.1 port=1 user=nobody";
    for name in ["bank", "counter", "deliveries", "mailboxes"] {
        cannot_begin(name, &["--postgres", server], "connection refused");
        cannot_begin(
            name,
            &["--postgres", "host=/nowhere user=nobody", "--json"],
            "no such file",
        );
        cannot_begin(name, &["--postgres", "pigeons"], "server");
    }
}

#[test]
fn a_server_that_says_nothing_is_named_in_time() {
    let silent = quorate_programs::Silent::new();
    cannot_begin("counter", &["--postgres", &silent.server()], "in time");
}

#[test]
fn a_damaged_store_is_named_at_once() {
    for damaged in ["node-1.redb", "node-4.redb"] {
        for name in ["bank", "counter", "deliveries", "likes", "mailboxes", "only_one"] {
            let folder = Directory::new(&format!("damaged-{name}-{damaged}"));
            std::fs::write(folder.0.join(damaged), [7; 5_000]).unwrap();
            cannot_begin(name, &["--store", folder.path()], damaged);
        }
    }
}

#[test]
fn a_store_where_no_folder_can_be_made_is_named_at_once() {
    for name in ["bank", "counter", "deliveries", "likes", "mailboxes", "only_one"] {
        cannot_begin(name, &["--store", "/dev/null/store"], "directory");
    }
}

/// What a program with five nodes says that keeps its files on a disk of this size: where this process may
/// mount one.
#[cfg(target_os = "linux")]
fn on_a_disk_of(size: &str, name: &str) -> Option<(quorate_programs::Ended, Duration)> {
    let folder = Directory::new(&format!("{size}-{name}"));
    let run = |program: &str| {
        let mount = format!("mount -t tmpfs -o size={size} none {}", folder.path());
        let script = format!("{mount} && exec {program}");
        Program::start("unshare", &["-m", "sh", "-c", &script]).end()
    };
    if run("true").code != Some(0) {
        quorate_programs::skipped("no file system can be mounted here");
        return None;
    }
    let begun = Instant::now();
    let ended = run(&format!("{} --json --store {}", row(name).path, folder.path()));
    Some((ended, begun.elapsed()))
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_named_at_once() {
    for name in ["bank", "counter", "deliveries", "likes", "only_one"] {
        let Some((ended, took)) = on_a_disk_of("64k", name) else {
            return;
        };
        let said: Vec<&str> = ended.stderr.lines().collect();
        assert_eq!((ended.code, said.len()), (Some(1), 1), "{name}: {said:?}");
        assert!(said[0].contains("space") && took < AT_ONCE, "{name}: {said:?}");
    }
}

/// Five new files leave a few kilobytes: the nodes find out while they work.
#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_fills_up_ends_the_run_and_is_named_within_seconds() {
    let _turn = quorate_programs::turn();
    let Some((ended, took)) = on_a_disk_of("5300k", "deliveries") else {
        return;
    };
    let last = ended.stderr.lines().last().unwrap_or_default();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(last.starts_with("deliveries: "), "{}", ended.stderr);
    let cause_is_said = last.contains("its store has no room: No space left");
    assert!(cause_is_said && took < AT_ONCE, "after {took:?}: {last}");
}
