//! Every program of this package: a mistake in its arguments ends it with exit code 2 and one line before
//! anything is started, `--help` with 0.

use quorate_programs::command_lines::{self, Row};
use quorate_programs::rows;

static ROWS: [Row; 2] = rows! {
    "demo": [&["--transport", "pigeon"]],
    "node": [&["--seed", "nowhere"]],
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
