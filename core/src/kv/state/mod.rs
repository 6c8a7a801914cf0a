//! What the keyed store consists of. Values only.

pub mod configuration;
