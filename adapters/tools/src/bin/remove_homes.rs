//! Removes from a node's store where the shards of some kinds live, when a coordinator says that its stored
//! state is damaged; with `--remembered` which entities they remember, as events or in durable replicated
//! data. Stop all nodes, and do it to every node's store: `remove_homes [--remembered] FILE KIND...` for a
//! redb file, `remove_homes [--remembered] --postgres SERVER [--ca FILE] NODE KIND...` for a node that keeps
//! its state in PostgreSQL. What entities have stored stays.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lexopt::prelude::*;
use quorate_driver::store::{Store, remove_coordinator_state, remove_remembered_entities};
use quorate_store_postgres::{Postgres, Tls};
use quorate_store_redb::Redb;

const HELP: &str = "\
Removes from a node's store where the shards of some kinds live, or which entities they remember. Stop all nodes, and do it to
every node's store.

Usage: remove_homes [--remembered] FILE KIND...
       remove_homes [--remembered] --postgres SERVER [--ca FILE] NODE KIND...

Options:
      --remembered       which entities the kinds remember, as events or in replicated data, instead of where their shards live
      --postgres SERVER  the node keeps its state in this server, `host=… user=…`, as NODE
      --ca FILE          the connection to the server is encrypted, and its certificate issued by one of these authorities (PEM);
                         without it the connection is neither encrypted nor authenticated
  -h, --help             print this

Exit code: 0 if it is removed, 1 if the store cannot be reached or read, 2 for a mistake in the options.
";

/// What the user wants.
struct HomesOptions {
    what: RemovedState,
    place: HomesPlace,
    kinds: Vec<String>,
}

/// Where the state is.
enum HomesPlace {
    File(PathBuf),
    Server {
        server: String,
        node: String,
        tls: Box<Tls>,
    },
}

fn main() -> ExitCode {
    let options = match parse() {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("remove_homes: {error}; try --help");
            return ExitCode::from(2);
        }
    };
    match run(options) {
        Ok(removed) => {
            println!("removed: {removed:?}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let lines: Vec<&str> = error.lines().collect();
            eprintln!("remove_homes: {}", lines.join(" "));
            ExitCode::FAILURE
        }
    }
}

fn parse() -> Result<Option<HomesOptions>, lexopt::Error> {
    let (mut what, mut server, mut tls, mut words) = (RemovedState::Homes, None, None, Vec::new());
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(None),
            Long("remembered") => what = RemovedState::Remembered,
            Long("postgres") => server = Some(parser.value()?.string()?),
            Long("ca") => tls = Some(trusting(&PathBuf::from(parser.value()?))?),
            Value(word) => words.push(word),
            Short(_) | Long(_) => return Err(argument.unexpected()),
        }
    }
    let mut words = words.into_iter();
    let place = words.next().ok_or("say a store and the names of kinds")?;
    let place = match server {
        Some(server) => {
            let node = place.string()?;
            let tls = Box::new(tls.unwrap_or_else(Tls::off));
            HomesPlace::Server { server, node, tls }
        }
        None if tls.is_some() => return Err("--ca is for a server: say --postgres SERVER".into()),
        None if Path::new(&place).is_file() => HomesPlace::File(place.into()),
        None => return Err(format!("{} is no file", place.to_string_lossy()).into()),
    };
    let kinds = words.map(ValueExt::string).collect::<Result<Vec<String>, _>>()?;
    if kinds.is_empty() {
        return Err("say the names of kinds".into());
    }
    Ok(Some(HomesOptions { what, place, kinds }))
}

/// A connection that trusts these authorities.
fn trusting(file: &Path) -> Result<Tls, String> {
    let read = std::fs::read(file).and_then(|authorities| Tls::trusting(&authorities));
    read.map_err(|error| format!("{}: {error}", file.display()))
}

fn run(HomesOptions { what, place, kinds }: HomesOptions) -> Result<Vec<String>, String> {
    let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
    match place {
        HomesPlace::File(file) => {
            let store = Redb::open(file).map_err(|error| error.to_string())?;
            remove(store, what, &kinds)
        }
        HomesPlace::Server { server, node, tls } => {
            let store = Postgres::new(&server, &node, *tls).map_err(|error| error.to_string())?;
            remove(store, what, &kinds)
        }
    }
}

/// What is removed.
#[derive(Clone, Copy)]
enum RemovedState {
    Homes,
    Remembered,
}

fn remove(mut store: impl Store, what: RemovedState, kinds: &[&str]) -> Result<Vec<String>, String> {
    let removed = match what {
        RemovedState::Homes => remove_coordinator_state(&mut store, kinds),
        RemovedState::Remembered => remove_remembered_entities(&mut store, kinds),
    };
    removed.map_err(|error| error.to_string())
}
