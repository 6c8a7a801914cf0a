//! Paths on a few whole nodes in virtual time: messages of each link keep their order, links differ in their
//! delays, nodes leave, crash and lose links by seed. After each run: nothing handled twice, each sender's
//! order where it is promised, never two that handle where that is promised, and every message accounted for.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cases;
mod laws;
mod lies;
mod parts;
mod scenes;
mod world;
