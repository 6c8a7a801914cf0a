//! A range with its coordinator, owners, newcomers and those who read and write, moved under faults.

mod broker;
mod driving;
mod schedules;
mod steps;
mod words;
mod world;
