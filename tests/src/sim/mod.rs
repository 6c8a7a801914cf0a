//! The deterministic simulator: N cores in virtual time over a simulated network. The same seed gives the
//! same run, byte for byte. Hosts jump exactly to the deadline a node names; every message goes through the
//! wire codec; the invariants look at real public state after every step. Spec: reliability 1c, 2.

pub mod campaign;
mod chance;
pub mod conflicts;
mod data;
pub mod digest;
mod director;
mod durable;
mod effects;
mod engine;
mod entities;
mod expect;
mod faults;
pub mod figures;
mod happening;
mod history;
pub mod keyed;
mod leases;
mod liars;
mod life;
mod links;
mod load;
pub mod measured;
mod names;
mod network;
mod operator;
mod passivation;
pub mod paths;
pub mod plan;
mod process;
mod profiles;
mod queue;
mod remembered;
mod room;
mod safety;
mod script;
mod shard_leases;
mod singletons;
pub mod starts;
mod stepwise;
mod store;
mod swallowed;
mod trace;
mod violation;
mod watches;
mod work;

pub use chance::{Chance, Purpose};
pub use engine::Sim;
pub use faults::{FaultCounts, FaultKind};
pub use history::{
    History, InstanceRecord, Keeper, Life, MessageRecord, ProcessHistory, ProcessId, Whereabouts,
    message_number,
};
pub(crate) use leases::LeaseKeeper;
pub use network::Weather;
pub use safety::Assumptions;
pub use script::{all_up, calm, secs};
pub(crate) use singletons::lease_of;
pub use store::{StoreCounts, StoreFault};
pub use swallowed::Swallowed;
pub use trace::Show;
pub use violation::Violation;
pub(crate) use work::shard_of;
pub use work::{ENTITIES, KIND, SHARDS};
