//! Every program of this package: a mistake in its arguments ends it with exit code 2 and one line before
//! anything is started, `--help` with 0, and a store that cannot be had with the cause in one line, within
//! seconds.

use quorate_programs::command_lines::{self, Row};
use quorate_programs::rows;

const NO_STORE: &[&str] = &["--store", ""];

static ROWS: [Row; 8] = rows! {
    "bench": [&["--transport", "pigeon"], NO_STORE],
    "codec": [],
    "entities": [&["--only", "pigeons"]],
    "events": [NO_STORE],
    "passivation": [],
    "ranges": [&["--only", "pigeons"], &["--moved-mib", "0"], &["--keys", "1"]],
    "paths": [&["--only", "pigeons"], &["--state-mib", "0"]],
    "rebalance": [],
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
fn a_store_where_no_folder_can_be_made_is_named_at_once() {
    for row in &ROWS {
        let arguments: &[&str] = match row.name {
            "bench" => &["--data", "--store", "/dev/null/store"],
            "events" => &["--store", "/dev/null/store"],
            _ => continue,
        };
        command_lines::cannot_begin(row, arguments, "directory");
    }
}
