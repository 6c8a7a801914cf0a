//! Cluster membership, failure detection, split-brain resolution and sharded entities as one deterministic
//! state machine: events in, effects out. No I/O, clock, entropy, threads or async in here; `no_std` with
//! `alloc`.
//!
//! A host owns a [`node::Node`], hands it inputs (time, frames, link changes, commands, reports of entities)
//! with [`node::Node::handle`], does every effect that [`node::Node::poll`] yields, in its order, and sleeps
//! until the time it is given. Adapters for tokio, smol and QUIC are such hosts; `docs/embedding.md` writes
//! one step by step.
//!
//! ```
//! use quorate_core::config::Config;
//! use quorate_core::effect::{Effect, Output};
//! use quorate_core::event::{Event, MembershipEvent};
//! use quorate_core::ident::{Address, ClusterName, UniqueAddress};
//! use quorate_core::input::{Command, Input, MembershipCommand};
//! use quorate_core::node::Node;
//! use quorate_core::time::Now;
//! use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (mut now, me) = (Now::default(), UniqueAddress::new(Address::new("alone", 1)?, 1));
//! let config = Config::lan(ClusterName::new("example")?).validate()?;
//! let mut node = Node::new(config, me.clone(), ChaCha8Rng::seed_from_u64(1), now);
//! let command = Command::Membership(MembershipCommand::Join(me.address().clone()));
//! node.handle(now, Input::Command { token: 1, command });
//! loop {
//!     match node.poll() {
//!         Output::Effect(Effect::Notify(Event::Membership(MembershipEvent::SelfUp))) => break,
//!         Output::Effect(_) => {} // nobody to talk to: a real host sends, answers, runs entities
//!         Output::Sleep(wake) => {
//!             now.mono = wake.ok_or("nothing to wait for")?.at; // this clock is a number, so it jumps
//!             node.handle(now, Input::Tick);
//!         }
//!     }
//! }
//! assert!(node.view().is_leader());
//! # Ok(())
//! # }
//! ```
//!
//! # The modules
//!
//! | module | what it is |
//! |---|---|
//! | [`node`] | the facade: one input in, effects out |
//! | [`input`], [`effect`] | what a host says, what it has to do |
//! | [`event`], [`view`], [`explain`], [`stats`] | what users hear, the picture of the cluster, why it has not converged, counters by name |
//! | [`config`] | every setting with unit, range and default |
//! | [`admission`] | which senders are accepted, and who may join, remove or down members: a policy |
//! | [`agreement`] | what all members have to agree on, and the application's own checkers of it |
//! | [`membership`], [`detector`], [`downing`], [`oldest`], [`sharding`], [`singleton`], [`load`], [`paths`] | the machines; the `protocol` of each is what it says and hears |
//! | [`planner`], [`paths`] | which node gets which instance: a pure function; how many instances a path has: values |
//! | [`daemons`] | how many daemons of a name there are, and what is next when that changes: values, used by nobody else here |
//! | [`wakeups`] | when entities that may not run have to be woken, and by which clock: values, used by nobody else here |
//! | [`supervision`] | what becomes of an entity that fails: values, used by nobody else here |
//! | [`durable`] | what an entity does that keeps what it did: a value that a host drives for each |
//! | [`messaging`] | users' messages, whoever they are for: whom one is for, what travels with an ask |
//! | [`delivery`] | messages that are repeated until they are confirmed: pure state machines, used by nobody else here |
//! | [`log`] | who owns a log, what it holds, and what is written next: values, used by machines and hosts |
//! | [`kv`] | a keyed store with N copies, whose ranges have explicit owners: values, used by nobody else here |
//! | [`drain`] | in which order the parts of a leaving node hand over |
//! | [`lease`], [`store`], [`owner`], [`token`] | what a machine asks of the world outside, and who asked |
//! | [`message`], [`timer`], [`reject`] | one arm per machine around those protocols |
//! | [`wire`] | bytes: frames, handshake, limits |
//! | [`ident`], [`time`], [`math`], [`ordered`] | names, clocks, arithmetic, ordered maps and sets |
//!
//! # What is guaranteed
//!
//! * Same seed and same inputs give the same effects, byte for byte.
//! * Nothing that a peer sends makes it panic or grow without a bound: a typed [`reject::Rejection`] and a
//!   counter.
//! * An input runs to completion in bounded work; nothing blocks.
//! * A shard has at most one home among nodes that agree on the members. A message to an entity is delivered
//!   at most once, in the order of its sender.
//!
//! # What is not
//!
//! * That a message arrives: who needs to know asks, and an ask that failed says whether it may have been
//!   handled.
//! * One home per shard while a partition lasts, unless the downing strategy of both sides is the same and a
//!   host that was paused holds its entities until it has heard that it is still a member.
//! * Any secrecy: links are authenticated and encrypted by the host.
#![cfg_attr(
    test,
    expect(
        clippy::wildcard_enum_match_arm,
        reason = "a test that wants one arm fails on every other"
    )
)]
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod admission;
pub mod agreement;
pub mod config;
pub mod daemons;
pub mod ddata;
pub mod delivery;
pub mod detector;
pub mod downing;
pub mod drain;
pub mod durable;
pub mod effect;
pub mod event;
pub mod explain;
pub mod ident;
pub mod input;
pub mod journal;
pub mod kv;
pub mod lease;
pub mod load;
pub mod log;
pub mod math;
pub mod membership;
pub mod message;
pub mod messaging;
pub mod node;
pub mod oldest;
pub mod ordered;
pub mod owner;
pub mod paths;
pub mod planner;
pub mod reject;
pub mod sharding;
pub mod shutdown;
pub mod singleton;
pub mod stats;
pub mod store;
pub mod supervision;
pub mod time;
pub mod timer;
pub mod token;
pub mod view;
pub mod wakeups;
pub mod wire;

mod buffered;
mod bytes;
mod counters;
mod cx;
#[cfg(test)]
mod fixture;
mod handoff;
mod lane;
mod outbox;
mod rng;
mod router;
mod signal;
mod timers;
