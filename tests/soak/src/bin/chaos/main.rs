//! Real processes under real faults: five nodes whose entities, or singleton, are asked all the time by every
//! one of them, while links are cut, processes stopped, killed or told to leave. Every answer is kept and
//! judged. Spec: membership 3, reliability F-01, F-05, F-09, F-10, F-12. `tests/chaos/` has the scripts that
//! start it.
#![forbid(unsafe_code)]

mod audit;
mod book;
mod kills;
mod ledger;
mod net;
mod node;
mod nodes;
mod options;
mod splits;
mod tokens;
mod work;

use std::io::Write;
use std::process::ExitCode;

use options::Command;

fn main() -> ExitCode {
    let result = match options::parse() {
        Ok(Command::Help) => {
            print!("{}", options::HELP);
            return ExitCode::SUCCESS;
        }
        Ok(Command::Node(node)) => node::run(node),
        Ok(Command::Splits(splits)) => splits::run(&splits),
        Ok(Command::Kills(kills)) => kills::run(&kills),
        Ok(Command::Tokens(splits)) => tokens::run(&splits),
        Err(error) => {
            eprintln!("chaos: {error}; try --help");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("chaos: {error}");
            ExitCode::from(2)
        }
    }
}

/// A line of the result, at once: a run takes minutes.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

fn seconds(time: std::time::Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
