//! Histories of the keyed store on five nodes, under real faults; `--help` says more. What it does is in the
//! library.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    quorate_soak::store_history::main()
}
