//! Reliable delivery: messages are numbered, resent until they are confirmed, and never sent faster than they
//! are handled. A [`Producer`] sends to entities whose kind is registered with
//! [`EntitiesBuilder::start_consumer`](crate::EntitiesBuilder::start_consumer); each gets its messages in the
//! order in which they were sent, none is left out, and none comes twice to the same incarnation. Page:
//! `docs/delivery.md`. Spec: sharding 1.14, 2.4, 4.4.
//!
//! | part | decides |
//! |---|---|
//! | `quorate_core::delivery` | everything about numbers, windows, repetitions and parts, on both sides |
//! | [`Consumer`], [`Delivery`] | nothing: what users write, and what they confirm |
//! | `receiving` | which of several producers is served next; what a delivery that nobody confirms comes to |
//! | [`Producer`], `sending` | who waits for room |
//! | `lines` | when an entity is asked what it has to say |
//! | `open_lines` | when everything unconfirmed goes to a new incarnation again |
//! | [`Mail`], `mail` | in which order an instance of a path handles what its durable mailbox keeps |
//! | `queue` | how a durable producer keeps what nobody has confirmed |
//! | `length` | how much of that there may be, and when its log is made shorter |
//!
//! A producer asks its entity each message, and the entity answers when it is confirmed: with how far it is,
//! and how far the producer may go. So a producer needs no address, no confirmation waits for a later one,
//! and the sender learns at once when the entity has stopped or moved.

mod consumer;
#[cfg(test)]
mod frozen_tests;
mod length;
mod lines;
mod mail;
mod message;
mod open_lines;
mod orders;
mod parked;
mod producer;
mod queue;
#[cfg(test)]
mod queue_tests;
mod receiving;
mod sending;
#[cfg(test)]
mod sending_tests;
mod work;

pub use consumer::{Confirm, Consumer, Delivery};
pub use mail::Mail;
pub(crate) use mail::MailboxStarter;
pub use producer::{Producer, ProducerBuilder, ProducerError, SendError, Sent};
pub(crate) use queue::{DurableQueue, Entry};
pub use quorate_core::delivery::{BadSetting, ConsumerSettings, ProducerSettings, ToEntitiesSettings};
pub(crate) use receiving::Receiving;

pub(crate) use work::NAME_BYTES;
pub use work::{JOBS_WAITING_MAX, Job, WorkError, WorkQueue, WorkQueueBuilder, WorkState, Worker};
