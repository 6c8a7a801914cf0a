//! The machine among others of its kind.

mod calls;
mod comparing;
mod durable;
mod listing;
mod machine;
mod watching;
mod world;
