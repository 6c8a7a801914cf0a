//! The machine among others of its kind.

mod machine;
mod world;
