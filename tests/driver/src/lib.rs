//! What the driver and the core do over a real network, as functions of the adapter: behaviour that no
//! runtime, transport, store or keeper of leases can break is shown over one adapter, tokio over TCP, by
//! `tests/over_tokio.rs`; what depends on a store also on real ones. What an adapter can break is in
//! `quorate-conformance`. Spec: reliability 3c.
#![forbid(unsafe_code)]

mod asking;
mod daemons;
mod data;
mod deliveries;
mod durable;
mod envelopes;
mod kv;
mod kv_many;
mod kv_moves;
mod kv_sloppy;
mod life;
mod load;
mod minorities;
mod outside;
mod parting;
mod passivation;
mod paths;
mod placement;
mod regions;
mod remembered;
mod reminders;
mod shard_leases;
mod shutdown;
mod singletons;
mod stored_homes;
mod surveys;
mod transfers;

pub use asking::*;
pub use daemons::*;
pub use data::*;
pub use deliveries::*;
pub use durable::*;
pub use envelopes::*;
pub use kv::*;
pub use kv_many::*;
pub use kv_moves::*;
pub use kv_sloppy::*;
pub use life::*;
pub use load::*;
pub use minorities::*;
pub use outside::*;
pub use parting::*;
pub use passivation::*;
pub use paths::*;
pub use placement::*;
pub use regions::*;
pub use remembered::*;
pub use reminders::*;
pub use shard_leases::*;
pub use shutdown::*;
pub use singletons::*;
pub use stored_homes::*;
pub use surveys::*;
pub use transfers::*;
