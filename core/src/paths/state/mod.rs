//! The values of paths that other rooms read: the table, which membership gossips and everybody who routes
//! reads, how many instances a path has, and when that changes. Knows no machine. Spec: sharding 5.1, 5.2.

pub mod below;
pub mod entry;
pub mod instances;
pub mod name;
pub mod options;
pub mod scale;
pub mod settings;
pub mod table;
pub(crate) mod written;

#[cfg(test)]
pub(crate) mod tests;
