//! A member that lies about every number that it says, to three real nodes; `--help` says more. What it does
//! is in the library.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    quorate_soak::liars::main()
}
