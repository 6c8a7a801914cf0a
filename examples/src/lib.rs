//! What the programs of this package share: runtimes, trust between processes, the files of a directory, the number of words in one, child processes that
//! never outlive their parent, and the demo for every runtime.
#![forbid(unsafe_code)]

pub mod demo;
pub mod files;
pub mod hosts;
pub mod likes;
pub mod log;
pub mod process;
pub mod trust;
pub mod words;
