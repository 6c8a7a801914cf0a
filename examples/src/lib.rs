//! What the programs of this package share: the files of a directory, the number of words in one, and child processes
//! that never outlive their parent.
#![forbid(unsafe_code)]

pub mod files;
pub mod log;
pub mod process;
pub mod words;
