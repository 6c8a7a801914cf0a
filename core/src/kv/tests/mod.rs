//! The machine among others of its kind.

mod calls;
mod durable;
mod machine;
mod world;
