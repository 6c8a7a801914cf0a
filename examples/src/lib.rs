//! What the programs of this package share: runtimes, trust between processes, the files of a directory, the number of words in one, child processes that
//! never outlive their parent, their command line, what the user sees, and the demo for every runtime.
#![forbid(unsafe_code)]

pub mod bank;
pub mod counter;
pub mod deliveries;
pub mod demo;
mod ending;
pub mod files;
mod gate;
pub mod hosts;
pub mod likes;
pub mod log;
mod nodes;
pub mod only_one;
pub mod process;
mod processes;
mod program;
mod screen;
mod stores;
pub mod trust;
pub mod words;
