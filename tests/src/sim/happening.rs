//! What will happen in a simulated cluster, one by one. Decides nothing.

use quorate_core::input::{HostReport, LinkEvent};
use quorate_core::lease::protocol::LeaseName;
use quorate_core::sharding::ids::Slot;

use super::durable::DurableHappening;
use super::history::ProcessId;
use super::leases::LeaseAnswer;
use super::links::Flight;
use super::paths::PathHappening;
use super::singletons::InstanceHappening;
use super::store::Storing;

/// Something that will happen.
#[derive(Debug)]
pub(crate) enum Happening {
    /// A process's deadline.
    Wake(ProcessId),
    /// A frame arrives.
    Frame(Box<Flight>),
    /// A slow process gets round to a frame that arrived before.
    Read(Box<Flight>),
    /// A dial comes to its end.
    Dialled { from: ProcessId, to: usize },
    /// A host notices that an established link is dead.
    Noticed { from: ProcessId, to: usize, epoch: u32 },
    /// A host tells its node something about a link.
    Told { to: ProcessId, event: Box<LinkEvent> },
    /// The margin after a removal is nearly over.
    Margin(ProcessId),
    /// The handlers of a process whose node has ended end at last.
    HandlersEnded(ProcessId),
    /// An entity has time for its next message.
    Turn { process: ProcessId, slot: Slot },
    /// A process's entities report something to its node.
    Reported {
        process: ProcessId,
        report: Box<HostReport>,
    },
    /// The keeper of a lease answers a process.
    LeaseAnswered {
        process: ProcessId,
        answer: Box<LeaseAnswer>,
    },
    /// A process renews a lease.
    LeaseRenewal {
        process: ProcessId,
        name: LeaseName,
        number: u64,
    },
    /// Something happens to an instance of a singleton.
    Instance(Box<InstanceHappening>),
    /// A disk has come to a process's request.
    Stored {
        process: ProcessId,
        storing: Box<Storing>,
    },
    /// Something happens to an instance of a path.
    Path(Box<PathHappening>),
    /// Something happens to a durable entity.
    Durable(Box<DurableHappening>),
}
