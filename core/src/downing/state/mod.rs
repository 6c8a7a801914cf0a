//! What a downing strategy looks at, what it may answer, and what follows from the answer: values and pure
//! functions. Spec: membership 3.2, 3.7.

pub mod decision;
pub mod strategy;
pub mod view;
