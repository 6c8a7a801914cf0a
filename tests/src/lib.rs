//! Everything that tests the core from outside: conformance vectors, and what joins them later.
#![forbid(unsafe_code)]

pub mod vectors;
