//! Quorum logs: rules one by one, and many random schedules.

mod machine;
mod model;
mod room;
mod rules;
mod world;
