//! Removes from a node's redb file where the shards of some kinds live, when a coordinator says that its stored state is damaged.
//! Stop all nodes, and do it to every node's file: `remove_homes FILE KIND...`. What entities have stored stays.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;

use quorate_store_redb::Redb;
use quorate_tokio::remove_coordinator_state;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((file, kinds)) = arguments.split_first().filter(|(_, kinds)| !kinds.is_empty()) else {
        eprintln!("remove_homes: say a file and the names of kinds: remove_homes FILE KIND...");
        return ExitCode::from(2);
    };
    if !Path::new(file).is_file() {
        eprintln!("remove_homes: {file} is no file");
        return ExitCode::from(2);
    }
    let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
    let store = Redb::open(file).map_err(|error| error.to_string());
    let removed = store.and_then(|mut store| {
        remove_coordinator_state(&mut store, &kinds).map_err(|error| error.to_string())
    });
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
