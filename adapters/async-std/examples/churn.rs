//! Nodes that come and go on async-std for so many minutes (default 10), beside three that stay:
//! `cargo run --release -p quorate-async-std --example churn -- 10`. Exit code 0 if the process holds no more
//! than a tenth more at the end than after a tenth of the time.

use std::process::ExitCode;
use std::time::Duration;

use lexopt::prelude::*;
use quorate_async_std::{AsyncStd, Security};
use quorate_conformance::{again_with_one_arena, churn};

const HELP: &str = "usage: churn [MINUTES]   (default 10; at least one round)";

fn main() -> ExitCode {
    let length = match parse() {
        Ok(Some(length)) => length,
        Ok(None) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("churn: {error}; {HELP}");
            return ExitCode::from(2);
        }
    };
    match again_with_one_arena() {
        Ok(None) => {}
        Ok(Some(ended)) if ended.success() => return ExitCode::SUCCESS,
        Ok(Some(_)) | Err(_) => return ExitCode::FAILURE,
    }
    let security = Security::insecure_plaintext();
    let churned = async_std::task::block_on(churn::<AsyncStd>(&security, length, || 0));
    println!(
        "async-std: {} changes; base {}; end {}",
        churned.changes, churned.base, churned.end
    );
    if churned.is_back {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// How long; nothing if help is wanted.
fn parse() -> Result<Option<Duration>, lexopt::Error> {
    let mut minutes = None;
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(None),
            Value(number) if minutes.is_none() => minutes = Some(number.parse::<f64>()?),
            Short(_) | Long(_) | Value(_) => return Err(argument.unexpected()),
        }
    }
    let length = Duration::try_from_secs_f64(minutes.unwrap_or(10.0) * 60.0);
    Ok(Some(length.map_err(|error| error.to_string())?))
}
