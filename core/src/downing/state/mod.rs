//! What a downing strategy looks at, what it may answer, and what follows from the answer: values and pure
//! functions. Spec: membership 3.2, 3.7, 3.10.

mod cover;
pub mod decision;
mod sides;
mod standpoint;
pub mod strategy;
#[cfg(test)]
mod tests;
pub mod view;
