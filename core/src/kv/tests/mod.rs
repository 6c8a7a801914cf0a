//! The machine among others of its kind.

mod appends;
mod calls;
mod comparing;
mod durable;
mod expiring;
mod full;
mod hints;
mod kept;
mod listing;
mod logs;
mod machine;
mod settings;
mod watching;
mod world;
