//! What the tasks of a node's users count, each room of them in its own struct: counted there, read by the
//! loop. Decides nothing.

mod delivery;
mod durable;
mod failures;

pub(crate) use delivery::DeliveryCounters;
pub(crate) use durable::DurableCounters;
pub(crate) use failures::FailureCounters;
