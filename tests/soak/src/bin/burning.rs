//! Five nodes of which one burns all processors, until it has given up a slot and a shard; `--help` says
//! more. What it does is in the library.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    quorate_soak::burning::main()
}
