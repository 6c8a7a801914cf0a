//! What nodes tell of their load, and what one of them knows of all. Spec: sharding 5.5.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::config::CapacitySelector;
use crate::ident::UniqueAddress;
use crate::load::state::capacity::Capacities;
use crate::load::state::moves::NodeSample;
use crate::load::state::share::LoadShare;
use crate::membership::state::member::{Member, Status};
use crate::ordered::OrderedMap;
use crate::view::View;

/// Most parts that one node tells of: what runs there beyond them does not move because of its load.
pub const PARTS_MAX: usize = 64;

/// How loaded one node is, smoothed. `None` is what it cannot measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadSample {
    /// Processor time of the process, of what it may use. What is stolen from the machine weighs more.
    pub cpu: Option<LoadShare>,
    /// Threads of the machine that run or wait, of its processors.
    pub machine: Option<LoadShare>,
    /// Memory of the process, of what it may use.
    pub memory: Option<LoadShare>,
    /// The share of time in which the executor of the application did not run what was ready
    /// (`gc_or_stall`).
    pub stall: Option<LoadShare>,
    /// Messages in all mailboxes, of the room in them.
    pub mailboxes: Option<LoadShare>,
}

impl LoadSample {
    /// What the node could still take on.
    #[must_use]
    pub(crate) fn capacities(&self) -> Capacities {
        let free = |used: Option<LoadShare>| {
            used.map(|used| {
                let free = LoadShare::from_thousandths(LoadShare::WHOLE - used.thousandths());
                free.unwrap_or_default().as_f64()
            })
        };
        Capacities {
            heap: free(self.memory),
            cpu: free(self.cpu),
            load: free(self.machine),
        }
    }
}

/// What is told of load by parts: an entity kind or a path, by the hash of its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LoadPartId(pub u64);

/// The load of what one node runs of a kind or a path, smoothed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartLoad {
    /// Of what.
    pub part: LoadPartId,
    /// Messages in its mailboxes, of the room in them.
    pub mailboxes: LoadShare,
    /// Messages that it handles in a second.
    pub messages_per_second: u32,
    /// Shards or slots of it there.
    pub units: u32,
}

/// What is known of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownLoad {
    /// Of all that runs there.
    pub sample: LoadSample,
    /// By parts; empty if it told nothing of that here: only leaders and coordinators are told.
    pub parts: Arc<[PartLoad]>,
    /// How many rounds ago this was heard: 0 is the last one.
    pub age_rounds: u64,
}

/// What a node knows of the load of all reachable members, itself included, as of its last round. Replaced as
/// a whole once a round; empty on a node that measures nothing and hears of nobody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loads {
    round: u64,
    known: OrderedMap<UniqueAddress, KnownLoad>,
}

impl Loads {
    pub(crate) const fn new(round: u64, known: OrderedMap<UniqueAddress, KnownLoad>) -> Self {
        Self { round, known }
    }

    /// Of which round this is. Rounds are the node's own; whoever counts them looks when this has changed.
    #[must_use]
    pub const fn round(&self) -> u64 {
        self.round
    }

    /// What is known of a node.
    #[must_use]
    pub fn get(&self, node: &UniqueAddress) -> Option<&KnownLoad> {
        self.known.get(node)
    }

    /// What is known of each, in the order of nodes.
    pub fn iter(&self) -> impl Iterator<Item = (&UniqueAddress, &KnownLoad)> {
        self.known.iter()
    }

    /// Of how many nodes anything is known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether nothing is known of anybody.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// This round as [`crate::load::state::moves`] wants it: the nodes whose capacity of this kind is known.
    /// Usable are members that are reachable and on no way out.
    #[must_use]
    pub fn capacities(&self, selector: CapacitySelector, view: &View) -> Vec<(UniqueAddress, NodeSample)> {
        let of = |(node, known): (&UniqueAddress, &KnownLoad)| {
            let capacity = known.sample.capacities().select(selector)?;
            let is_up = |member: &Member| member.status == Status::Up;
            let sample = NodeSample {
                capacity,
                age_rounds: known.age_rounds,
                usable: view.member(node).is_some_and(is_up) && view.is_reachable(node),
            };
            Some((node.clone(), sample))
        };
        self.known.iter().filter_map(of).collect()
    }
}
