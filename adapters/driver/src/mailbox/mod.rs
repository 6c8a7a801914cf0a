//! What lies between the pump and the task of an entity: its name, its mailbox, its reports. The pump puts in
//! and orders, the task takes out and reports; neither knows the other. Spec: `ARCHITECTURE.md`.

mod gate;
mod holding;
mod occasion;
mod parting;
mod queue;
mod reports;
mod who;

pub(crate) use gate::Gate;
pub(crate) use occasion::Occasion;
pub(crate) use parting::Parting;
pub(crate) use queue::{Delivery, Mailbox, Refused};
pub(crate) use reports::{Reports, SleepUntil, Start, Starter};
pub(crate) use who::Who;
