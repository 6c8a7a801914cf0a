//! Who is silent: heartbeats along a ring, and an accrual detector per receiver. Reports silence, never downs
//! anybody. Spec: membership 2.11 to 2.14, 8.5, 8.6, 8.11.

mod deadline;
pub(crate) mod heartbeats;
pub mod history;
pub mod phi;
pub mod protocol;
mod refusals;
pub(crate) mod registry;
mod revalidation;
pub mod ring;

/// What the machine may touch outside itself.
pub(crate) type Cx<'a> = crate::cx::Cx<'a, crate::cx::OfDetector>;
