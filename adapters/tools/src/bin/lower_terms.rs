//! Lowers the terms that a node's store has promised, when it holds one that no cluster can have taken, so
//! that none is left (`docs/limits.md`, "Numbers that only grow"). Stop all nodes, and do it to every node's
//! store. Decides nothing: which term really was the last, the logs of the nodes say. Spec: sharding 1.9;
//! reliability I-100.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lexopt::prelude::*;
use quorate_driver::store::{Store, lower_terms};
use quorate_store_postgres::{Postgres, Tls};
use quorate_store_redb::Redb;

const USAGE: &str = "lower_terms TERM (--store FILE | --postgres SERVER --node NODE [--ca FILE]) [--singleton NAME]... [--kind NAME]... [--log NAME]...

  TERM             the highest term that an instance or a coordinator really had: higher ones are lowered to it
  --store          the node's redb file
  --postgres       the server where the node keeps its state, and --node its name there
  --ca             the connection to the server is encrypted, and its certificate issued by one of these authorities (PEM);
                   without it the connection is neither encrypted nor authenticated
  --singleton      a singleton whose term is lowered
  --kind           a kind whose coordinator's term is lowered; where its shards live is forgotten by that
  --log            a log whose promised term is lowered; its entries stay. An entity's is called KIND/ENTITY";

/// What is asked for.
#[derive(Debug, Default)]
struct TermsOptions {
    term: Option<u64>,
    store: Option<PathBuf>,
    postgres: Option<String>,
    node: Option<String>,
    tls: Option<Tls>,
    singletons: Vec<String>,
    kinds: Vec<String>,
    logs: Vec<String>,
}

fn main() -> ExitCode {
    let options = match parse() {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("lower_terms: {error}; try --help");
            return ExitCode::from(2);
        }
    };
    match run(options) {
        Ok(lowered) => {
            println!("lowered: {lowered:?}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let lines: Vec<&str> = error.lines().collect();
            eprintln!("lower_terms: {}", lines.join(" "));
            ExitCode::FAILURE
        }
    }
}

/// `None`: only help was asked for.
fn parse() -> Result<Option<TermsOptions>, lexopt::Error> {
    let mut options = TermsOptions::default();
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("store") => options.store = Some(parser.value()?.into()),
            Long("postgres") => options.postgres = Some(parser.value()?.string()?),
            Long("ca") => options.tls = Some(trusting(&PathBuf::from(parser.value()?))?),
            Long("node") => options.node = Some(parser.value()?.string()?),
            Long("singleton") => options.singletons.push(parser.value()?.string()?),
            Long("kind") => options.kinds.push(parser.value()?.string()?),
            Long("log") => options.logs.push(parser.value()?.string()?),
            Long("help") | Short('h') => return Ok(None),
            Value(term) if options.term.is_none() => options.term = Some(term.parse()?),
            Short(_) | Long(_) | Value(_) => return Err(argument.unexpected()),
        }
    }
    let has_one_store = options.store.is_some() != options.postgres.is_some();
    let has_node = options.postgres.is_some() == options.node.is_some();
    if options.term.is_none() || !has_one_store || !has_node {
        return Err("say a term and one store".into());
    }
    if options.tls.is_some() && options.postgres.is_none() {
        return Err("--ca is for a server: say --postgres SERVER".into());
    }
    if options.singletons.is_empty() && options.kinds.is_empty() && options.logs.is_empty() {
        return Err("say a singleton, a kind or a log".into());
    }
    if options.store.as_ref().is_some_and(|file| !file.is_file()) {
        return Err("--store is no file".into());
    }
    Ok(Some(options))
}

/// A connection that trusts these authorities.
fn trusting(file: &Path) -> Result<Tls, String> {
    let read = std::fs::read(file).and_then(|authorities| Tls::trusting(&authorities));
    read.map_err(|error| format!("{}: {error}", file.display()))
}

fn run(mut options: TermsOptions) -> Result<Vec<String>, String> {
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    let tls = options.tls.take().unwrap_or_else(Tls::off);
    match (&options.store, &options.postgres, &options.node) {
        (Some(file), _, _) => lower(Redb::open(file).map_err(|error| failed(&error))?, &options),
        (None, Some(server), Some(node)) => {
            let store = Postgres::new(server, node, tls).map_err(|error| failed(&error))?;
            lower(store, &options)
        }
        (None, Some(_) | None, _) => Err(String::from("no store")),
    }
}

fn lower(mut store: impl Store, options: &TermsOptions) -> Result<Vec<String>, String> {
    let singletons: Vec<&str> = options.singletons.iter().map(String::as_str).collect();
    let kinds: Vec<&str> = options.kinds.iter().map(String::as_str).collect();
    let logs: Vec<&str> = options.logs.iter().map(String::as_str).collect();
    let term = options.term.unwrap_or_default();
    lower_terms(&mut store, term, &singletons, &kinds, &logs).map_err(|error| error.to_string())
}
