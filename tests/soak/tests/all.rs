//! All tests of this package that need no process of their own, as one program: each program is linked with
//! everything below it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bank;
mod churn;
mod command_lines;
mod counter;
mod deliveries;
mod flood;
mod instances;
mod liars;
mod likes;
mod mailboxes;
mod only_one;
mod word_index;
