//! What is said and heard of load: a host's measures, samples between nodes, and what is waited for. Types
//! only. Spec: sharding 5.5.

pub mod counters;

use alloc::vec::Vec;

use crate::ident::UniqueAddress;
use crate::lane::{MessageTag, tags};
use crate::load::state::capacity::{Cpu, Heap, MachineLoad};
use crate::load::state::sample::{LoadPartId, LoadSample, PartLoad};

pub use crate::config::NEIGHBORS_MAX;

/// Most samples in one answer: the member's own, and those of its neighbours.
pub const SAMPLES_MAX: usize = 2 * NEIGHBORS_MAX + 1;

/// One message about load between two nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Msg {
    /// How loaded the sender is.
    Sample(SampleTold),
    /// How loaded are you, and your neighbours?
    Probe(ChordProbe),
    /// The answer.
    Reply(ChordReply),
}

impl Msg {
    tags! {
        /// `LoadSample`.
        SAMPLE = 0x0300 on Gossip;
        /// `ChordProbe`.
        PROBE = 0x0301 on Gossip;
        /// `ChordReply`.
        REPLY = 0x0302 on Gossip;
    }

    /// The message's tag.
    #[must_use]
    pub const fn tag(&self) -> MessageTag {
        match self {
            Self::Sample(_) => Self::SAMPLE,
            Self::Probe(_) => Self::PROBE,
            Self::Reply(_) => Self::REPLY,
        }
    }
}

/// How loaded the sender is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleTold {
    /// All together.
    pub sample: LoadSample,
    /// By parts, for leaders and coordinators; empty for everybody else.
    pub parts: Vec<PartLoad>,
}

/// A question for the load of the receiver and of its neighbours on the ring of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChordProbe {
    /// The sender's number of it, from 1 on; echoed.
    pub id: u32,
    /// For how many neighbours on either side: 0 to [`NEIGHBORS_MAX`].
    pub radius: u8,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChordReply {
    /// The question's number.
    pub id: u32,
    /// What the sender knows of itself, and of neighbours that answered it in time.
    pub samples: Vec<(UniqueAddress, LoadSample)>,
    /// Of itself by parts.
    pub parts: Vec<PartLoad>,
}

/// What a host has measured of its own process and machine, at this moment. `None` is what it cannot measure;
/// what is no number counts as that.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadMeasure {
    /// Processor time of the process, of what it may use.
    pub cpu: Option<Cpu>,
    /// Load of the machine.
    pub machine: Option<MachineLoad>,
    /// Memory of the process.
    pub memory: Option<Heap>,
    /// The share of time, since the last measure, in which the executor did not run what was ready.
    pub stall: Option<f64>,
    /// Messages in all mailboxes, of the room in them.
    pub mailboxes: Option<f64>,
    /// By parts, the most important ones first: more than [`crate::load::state::sample::PARTS_MAX`] are left
    /// out.
    pub parts: Vec<PartMeasure>,
}

/// What a host has measured of a kind or a path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PartMeasure {
    /// Of what.
    pub part: LoadPartId,
    /// Messages in its mailboxes, of the room in them.
    pub mailboxes: f64,
    /// Messages that it handled in a second.
    pub messages_per_second: f64,
    /// Shards or slots of it that run here.
    pub units: u32,
}

/// What is waited for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The next round: what is known is published, and told or asked for anew.
    Round,
    /// Who has not answered by now is not waited for any longer.
    AnswersDue,
    /// The same of neighbours that were asked for a member. A place and no name: dropping any timer would
    /// cost more.
    NeighborsDue(u8),
}
