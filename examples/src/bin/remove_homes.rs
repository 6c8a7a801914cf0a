//! Removes from a node's store where the shards of some kinds live, when a coordinator says that its stored state is damaged.
//! Stop all nodes, and do it to every node's store: `remove_homes FILE KIND...` for a redb file,
//! `remove_homes --postgres SERVER NODE KIND...` for a node that keeps its state in PostgreSQL. What entities have stored stays.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;

use quorate_store_postgres::{Postgres, Tls};
use quorate_store_redb::Redb;
use quorate_tokio::{Store, remove_coordinator_state};

const USAGE: &str = "say a store and the names of kinds: remove_homes FILE KIND..., or remove_homes --postgres SERVER NODE KIND...";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let removed = match arguments.as_slice() {
        ["--postgres", server, node, kinds @ ..] if !kinds.is_empty() => {
            let store = Postgres::new(server, node, Tls::off());
            store
                .map_err(|error| error.to_string())
                .and_then(|store| remove(store, kinds))
        }
        [file, kinds @ ..] if !file.starts_with("--") && !kinds.is_empty() => {
            if !Path::new(file).is_file() {
                eprintln!("remove_homes: {file} is no file");
                return ExitCode::from(2);
            }
            let store = Redb::open(file).map_err(|error| error.to_string());
            store.and_then(|store| remove(store, kinds))
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

fn remove(mut store: impl Store, kinds: &[&str]) -> Result<Vec<String>, String> {
    remove_coordinator_state(&mut store, kinds).map_err(|error| error.to_string())
}
