//! The deterministic simulator: N cores in virtual time over a simulated network. The same seed gives the same run, byte
//! for byte. Hosts jump exactly to the deadline a node names; every message goes through the wire codec; the invariants
//! look at real public state after every step. Spec: reliability 1c, 2.

pub mod campaign;
mod chance;
pub mod conflicts;
mod data;
pub mod digest;
mod director;
mod effects;
mod engine;
mod entities;
mod expect;
mod faults;
pub mod figures;
mod history;
mod links;
mod network;
pub mod plan;
mod process;
mod queue;
mod safety;
mod script;
mod store;
mod trace;
mod work;

pub use chance::{Chance, Purpose};
pub(crate) use effects::LeaseKeeper;
pub use engine::{Sim, Violation};
pub use faults::{FaultCounts, FaultKind};
pub use history::{History, Life, MessageRecord, ProcessHistory, ProcessId, Whereabouts, message_number};
pub use network::Weather;
pub use safety::Assumptions;
pub use script::{all_up, calm, secs};
pub use store::{StoreCounts, StoreFault};
pub use trace::Show;
pub use work::{ENTITIES, KIND, SHARDS};
