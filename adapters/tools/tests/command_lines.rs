//! Every program of this package: a mistake in its arguments ends it with exit code 2 and one line before
//! anything is started, `--help` with 0, and a store that cannot be had with the cause in one line, within
//! seconds.

use quorate_programs::command_lines::{self, Row};
use quorate_programs::{Directory, rows};

static ROWS: [Row; 2] = rows! {
    "lower_terms": [
        &[],
        &["--store", "nowhere", "--postgres", "host=nowhere"],
        &["5", "--store", "/dev/null", "--ca", "nowhere.pem", "--kind", "Kind"],
        &["5", "--store", "nowhere.redb", "--kind", "Kind"],
        &["many"],
    ],
    "remove_homes": [&[], &["nowhere.redb", "Kind"], &["--postgres"], &["--postgres", "host=nowhere", "node-1"], &[""]],
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

#[test]
fn a_server_that_cannot_be_reached_is_named_at_once() {
    // Nobody listens there.
    let server = "host=127.0.0.1 port=1 user=nobody";
    let node = ["--postgres", server, "node-1", "Kind"];
    command_lines::cannot_begin(&ROWS[1], &node, "connection refused");
    let node = ["7", "--postgres", server, "--node", "node-1", "--kind", "Kind"];
    command_lines::cannot_begin(&ROWS[0], &node, "connection refused");
}

#[test]
fn a_server_that_says_nothing_is_named_in_time() {
    let silent = quorate_programs::Silent::new();
    let server = silent.server();
    let node = ["--postgres", &server, "node-1", "Kind"];
    command_lines::cannot_begin(&ROWS[1], &node, "in time");
    let node = ["7", "--postgres", &server, "--node", "node-1", "--kind", "Kind"];
    command_lines::cannot_begin(&ROWS[0], &node, "in time");
}

#[test]
fn a_damaged_store_is_named_at_once() {
    let folder = Directory::new("damaged-file");
    let file = folder.path().to_owned() + "/node.redb";
    std::fs::write(&file, [7; 5_000]).unwrap();
    command_lines::cannot_begin(&ROWS[1], &[&file, "Kind"], "redb");
    command_lines::cannot_begin(&ROWS[0], &["7", "--store", &file, "--kind", "Kind"], "redb");
}
