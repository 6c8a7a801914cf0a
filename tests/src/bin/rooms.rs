//! Prints the rooms of the core, the links and the driver floor by floor, highest first, each with the rooms
//! it imports. Ends with an error if rooms, or the parts of one, import each other in a circle or an arrow
//! points up.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use lexopt::prelude::*;
use quorate_tests::rooms::{HOUSES, House, Rooms, cycles};

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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut is_good = true;
    for house in &HOUSES {
        match Rooms::read(house, &root) {
            Ok(rooms) => is_good &= show(house, &rooms),
            Err(error) => {
                eprintln!("{}: {error}", house.src);
                return ExitCode::FAILURE;
            }
        }
    }
    if is_good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Whether no arrow points up and nothing goes in a circle.
fn show(house: &House, rooms: &Rooms) -> bool {
    for (floor, names) in house.floors.iter().enumerate().rev() {
        println!("{} floor {floor}", house.name);
        for name in *names {
            let arrows = rooms.arrows.get(*name).into_iter().flatten();
            let arrows: Vec<&str> = arrows.map(String::as_str).collect();
            println!("  {name:<22} -> {}", arrows.join(", "));
        }
    }
    let arrows: usize = rooms.arrows.values().map(|arrows| arrows.len()).sum();
    let upward = rooms.upward(house);
    let mut circles = cycles(&rooms.arrows);
    circles.extend(cycles(&rooms.parts));
    println!(
        "{} rooms, {arrows} arrows, {} of them up, {} cycles",
        rooms.arrows.len(),
        upward.len(),
        circles.len()
    );
    for (from, to) in &upward {
        println!("  up: {from} -> {to}");
    }
    for cycle in &circles {
        println!(
            "  cycle: {}",
            cycle.iter().cloned().collect::<Vec<_>>().join(", ")
        );
    }
    let is_known = |cycle: &BTreeSet<String>| {
        let mut known = house.circles.iter();
        known.any(|known| known.iter().copied().eq(cycle.iter().map(String::as_str)))
    };
    upward.is_empty() && circles.iter().all(is_known)
}
