//! An index of words in the keyed store under real faults; `--help` says more. What it does is in the library.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    quorate_soak::word_index::main()
}
