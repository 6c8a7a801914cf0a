//! Removes from a node's store where the shards of some kinds live, when a coordinator says that its stored state is damaged; with
//! `--remembered` in front which entities they remember as events, when that is said to be damaged. Stop all nodes, and do it to every
//! node's store: `remove_homes [--remembered] FILE KIND...` for a redb file, `remove_homes [--remembered] --postgres SERVER NODE KIND...` for
//! a node that keeps its state in PostgreSQL. What entities have stored stays.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;

use quorate_store_postgres::{Postgres, Tls};
use quorate_store_redb::Redb;
use quorate_tokio::{Store, remove_coordinator_state, remove_remembered_entities};

const USAGE: &str = "say a store and the names of kinds: remove_homes [--remembered] FILE KIND..., or \
     remove_homes [--remembered] --postgres SERVER NODE KIND...";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (what, arguments) = match arguments.as_slice() {
        ["--remembered", rest @ ..] => (What::Remembered, rest),
        all => (What::Homes, all),
    };
    let removed = match arguments {
        ["--postgres", server, node, kinds @ ..] if !kinds.is_empty() => {
            let store = Postgres::new(server, node, Tls::off());
            store
                .map_err(|error| error.to_string())
                .and_then(|store| remove(store, what, kinds))
        }
        [file, kinds @ ..] if !file.starts_with("--") && !kinds.is_empty() => {
            if !Path::new(file).is_file() {
                eprintln!("remove_homes: {file} is no file");
                return ExitCode::from(2);
            }
            let store = Redb::open(file).map_err(|error| error.to_string());
            store.and_then(|store| remove(store, what, kinds))
        }
        _ => {
            eprintln!("remove_homes: {USAGE}");
            return ExitCode::from(2);
        }
    };
    match removed {
        Ok(removed) => {
            println!("removed: {removed:?}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("remove_homes: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What is removed.
#[derive(Clone, Copy)]
enum What {
    Homes,
    Remembered,
}

fn remove(mut store: impl Store, what: What, kinds: &[&str]) -> Result<Vec<String>, String> {
    let removed = match what {
        What::Homes => remove_coordinator_state(&mut store, kinds),
        What::Remembered => remove_remembered_entities(&mut store, kinds),
    };
    removed.map_err(|error| error.to_string())
}
