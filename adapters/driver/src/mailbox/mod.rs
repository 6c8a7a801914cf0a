//! What lies between the pump and the task of an entity: its name, its mailbox, its reports. The pump puts in
//! and orders, the task takes out and reports; neither knows the other. Spec: `ARCHITECTURE.md`.

mod budget;
mod gate;
mod holding;
mod occasion;
mod parting;
mod queue;
mod reports;
mod who;

pub(crate) use gate::MailboxGate;
pub(crate) use occasion::Occasion;
pub(crate) use parting::PartingStarter;
pub(crate) use queue::{MAILBOX_MESSAGES_MAX, Mailbox, MailboxMessage, MailboxRefusal};
pub(crate) use reports::{EntityStart, Reported, Reports, SleepUntil, Starter};
pub(crate) use who::Who;
