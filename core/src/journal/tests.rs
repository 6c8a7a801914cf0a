//! Quorum logs: rules one by one, and many random schedules.

mod model;
mod rules;
mod world;
