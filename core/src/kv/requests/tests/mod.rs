//! Stores and calls together: examples, rules, and random schedules.

mod examples;
mod model;
mod rules;
mod world;
