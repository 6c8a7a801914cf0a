//! Prints the rooms of the core floor by floor, highest first, each with the rooms it imports. Ends with an error if rooms import
//! each other in a circle or an arrow points up.

use std::path::Path;
use std::process::ExitCode;

use lexopt::prelude::*;
use quorate_tests::rooms::{FLOORS, Rooms};

const HELP: &str = "usage: rooms   (it takes no arguments)";

/// Whether it is to run, and not to say how.
fn parse() -> Result<bool, lexopt::Error> {
    let mut parser = lexopt::Parser::from_env();
    match parser.next()? {
        None => Ok(true),
        Some(Short('h') | Long("help")) => Ok(false),
        Some(argument) => Err(argument.unexpected()),
    }
}

fn main() -> ExitCode {
    match parse() {
        Ok(true) => {}
        Ok(false) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("rooms: {error}; {HELP}");
            return ExitCode::from(2);
        }
    }
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/src");
    let rooms = match Rooms::read(&src) {
        Ok(rooms) => rooms,
        Err(error) => {
            eprintln!("{}: {error}", src.display());
            return ExitCode::FAILURE;
        }
    };
    for (floor, names) in FLOORS.iter().enumerate().rev() {
        println!("floor {floor}");
        for name in *names {
            let arrows = rooms.arrows.get(*name).into_iter().flatten();
            let arrows: Vec<&str> = arrows.map(String::as_str).collect();
            println!("  {name:<22} -> {}", arrows.join(", "));
        }
    }
    let arrows: usize = rooms.arrows.values().map(|arrows| arrows.len()).sum();
    let (upward, cycles) = (rooms.upward(), rooms.cycles());
    println!(
        "{} rooms, {arrows} arrows, {} of them up, {} cycles",
        rooms.arrows.len(),
        upward.len(),
        cycles.len()
    );
    for (from, to) in &upward {
        println!("  up: {from} -> {to}");
    }
    for cycle in &cycles {
        println!(
            "  cycle: {}",
            cycle.iter().cloned().collect::<Vec<_>>().join(", ")
        );
    }
    if upward.is_empty() && cycles.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
