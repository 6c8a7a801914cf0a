//! Three paths with seven instances on five nodes, under real faults; `--help` says more. What it does is in
//! the library.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    quorate_soak::instances::main()
}
