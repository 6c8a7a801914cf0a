//! What tests, simulators and operators may see of sharding on this node, and what must hold for it. Changes
//! nothing.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;

use crate::buffered::{BufferedLoad, BufferingMachine};
use crate::config::ShardingConfig;
use crate::ident::UniqueAddress;
use crate::sharding::Sharding;
use crate::sharding::coordinator::CoordinatorState;
use crate::sharding::region::{RegionState, ShardRegion};
use crate::sharding::state::ids::KindId;

impl Sharding {
    /// Whether the regions of all kinds together buffer as much as one of them may. Linear in the kinds.
    pub(super) fn is_crowded(&self, limits: &ShardingConfig) -> bool {
        // One alone has its own bound.
        let all = if self.kinds.len() > 1 {
            self.buffered()
        } else {
            BufferedLoad::NOTHING
        };
        all.messages >= limits.buffer_messages_max || all.bytes >= limits.buffer_bytes_max
    }

    /// Registered kinds with their names, by id.
    pub fn kinds(&self) -> impl Iterator<Item = (KindId, &str)> {
        self.kinds
            .iter()
            .map(|(id, machines)| (*id, &*machines.region.kind().settings.name))
    }

    /// Names of the kinds whose entities both sides of a partition may run, and the downing strategy that
    /// lets them.
    pub(crate) fn may_run_twice(&self) -> impl Iterator<Item = (&'static str, &Arc<str>)> {
        let kinds = self.kinds.values().map(|machines| machines.region.kind());
        kinds.filter_map(|kind| Some((kind.may_run_twice?, &kind.settings.name)))
    }

    /// A kind's region on this node; `None` if the kind is not registered. Linear in the homes it knows.
    #[must_use]
    pub fn region(&self, kind: KindId) -> Option<RegionState> {
        self.kinds.get(&kind).map(|machines| machines.region.state())
    }

    /// How many shards of each kind run on this node, stopping ones included. Linear in them.
    pub fn hosted_shards(&self) -> impl Iterator<Item = (KindId, u32)> {
        self.kinds
            .iter()
            .map(|(id, machines)| (*id, machines.region.hosted_shards()))
    }

    /// A kind's coordinator on this node; `None` if it is elsewhere. Linear in the shards.
    #[must_use]
    pub fn coordinator(&self, kind: KindId) -> Option<CoordinatorState> {
        self.kinds.get(&kind)?.coordinator.state()
    }

    /// Asks of this node without an answer.
    #[must_use]
    pub fn open_asks(&self) -> usize {
        self.asks.len()
    }

    /// Watches of this node that are open, and those of other nodes that it keeps.
    #[must_use]
    pub fn open_watches(&self) -> (usize, usize) {
        self.watches.count()
    }

    /// What must hold between the calls, on this node.
    ///
    /// # Errors
    /// The first broken invariant, in words.
    pub(crate) fn check_invariants(&self, me: &UniqueAddress) -> Result<(), String> {
        self.asks.check_invariants()?;
        self.watches.check_invariants()?;
        let mut buffered_asks = 0;
        let mut entities = 0;
        for machines in self.kinds.values() {
            machines.region.check_invariants(me)?;
            machines.coordinator.check_invariants()?;
            buffered_asks += machines.region.buffered_asks_of(me);
            entities += machines.region.entities();
        }
        if buffered_asks != self.asks.buffered() {
            let open = self.asks.buffered();
            return Err(format!(
                "sharding: {open} asks are buffered, their messages are {buffered_asks}"
            ));
        }
        if entities != self.slots.in_use() {
            let slots = self.slots.in_use();
            return Err(format!("sharding: {entities} entities run in {slots} slots"));
        }
        if self.drained && !self.is_drained() {
            return Err(String::from("sharding: said that it is drained, and is not"));
        }
        Ok(())
    }
}

impl BufferingMachine for Sharding {
    fn buffered(&self) -> BufferedLoad {
        let regions = self.kinds.values().map(|machines| &machines.region);
        regions.map(ShardRegion::buffered).sum()
    }
}
