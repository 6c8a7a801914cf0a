//! The machine among others of its kind.

mod durable;
mod machine;
mod world;
