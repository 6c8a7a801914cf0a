//! The demo for every runtime, and what programs of several processes share: runtimes, trust between
//! processes, child processes that never outlive their parent, what the user sees, log lines; the files of a
//! directory and the words in one.
#![forbid(unsafe_code)]

pub mod demo;
pub mod files;
pub mod hosts;
pub mod log;
pub mod process;
pub mod screen;
pub mod trust;
pub mod words;
