//! The replicator, several of them in one process. One scenario per test, named by the rule it covers.

mod absence;
mod chaos;
mod durable;
mod gossip;
mod liars;
mod operations;
mod pruning;
mod world;
