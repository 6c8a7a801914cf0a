//! What the keyed store consists of. Values only.

pub mod configuration;
pub mod table;
mod written;
