//! Durable mailboxes on five nodes whose slots move while their hosts are killed; `--help` says more. What it
//! does is in the library.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    quorate_soak::mailboxes::main()
}
