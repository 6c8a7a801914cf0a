//! Runs conformance vectors against the public API of the core: `vectors FILE`. Exit code 0 if every case
//! passed, 1 if one failed, 2 if the file cannot be read or is ill-formed.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use lexopt::prelude::*;
use quorate_tests::vectors;

const USAGE: &str = "usage: vectors FILE   (a file of the form of tests/vectors/membership-vectors.json)";

fn main() -> ExitCode {
    let path = match parse() {
        Ok(Some(path)) => path,
        Ok(None) => {
            say(USAGE);
            return ExitCode::SUCCESS;
        }
        Err(error) => return refuse(&format!("vectors: {error}; {USAGE}")),
    };
    let shown = path.to_string_lossy().into_owned();
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => return refuse(&format!("{shown}: cannot be read: {error}")),
    };
    match vectors::run(&text) {
        Ok(reports) => {
            for report in &reports {
                say(&report.to_string());
            }
            if reports.iter().any(vectors::KeyReport::has_failed) {
                ExitCode::FAILURE
            } else {
                ExitCode::SUCCESS
            }
        }
        Err(error) => refuse(&format!("{shown}: {error}")),
    }
}

/// The file; nothing if help is wanted.
fn parse() -> Result<Option<OsString>, lexopt::Error> {
    let mut path = None;
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(None),
            Value(file) if path.is_none() => path = Some(file),
            Short(_) | Long(_) | Value(_) => return Err(argument.unexpected()),
        }
    }
    path.map(Some).ok_or_else(|| "no file is named".into())
}

/// Writes a line; a reader that has gone away is no reason to fail.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

fn refuse(line: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
    ExitCode::from(2)
}
