//! What tests, simulators and operators may see of a region, and what must hold for it. Changes nothing.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::Region;
use crate::ident::UniqueAddress;
use crate::sharding::protocol::survey::{EntityPosition, RegionCounts};
use crate::sharding::shard::Shard;
use crate::sharding::state::ids::{EntityId, ShardId, Term};

/// A region at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegionState {
    /// The coordinator it is registered with.
    pub registered: Option<Term>,
    /// Shards on this node, stopping ones included, with their running entities.
    pub hosted: Vec<(ShardId, usize)>,
    /// Shards on this node that are stopping.
    pub stopping: Vec<ShardId>,
    /// Entities on this node that are being passivated.
    pub passivating: usize,
    /// Shards whose home it knows, itself included.
    pub homes: Vec<(ShardId, UniqueAddress)>,
    /// Messages in its buffer.
    pub buffered: usize,
    /// Those among them that are beyond its bounds because their callers wait, asks not counted.
    pub waiting: usize,
    /// Shards whose earlier home has not acknowledged yet that everything sent there has arrived.
    pub settling: usize,
    /// Whether it hosts nothing: it never does, or it has been shut down.
    pub proxy: bool,
    /// Whether it is being emptied, or is empty for good.
    pub draining: bool,
    /// The downing strategy, if it lets both sides of a partition run the kind's entities that this node hosts; `None` of a proxy.
    pub may_run_twice: Option<&'static str>,
}

impl Region {
    /// This region, now.
    pub(crate) fn state(&self) -> RegionState {
        let stopping = self.shards.iter().filter(|(_, shard)| shard.is_stopping());
        RegionState {
            registered: self.registered.clone(),
            hosted: self.shards.iter().map(|(id, s)| (*id, s.entities())).collect(),
            stopping: stopping.map(|(id, _)| *id).collect(),
            passivating: self.shards.values().map(Shard::passivating).sum(),
            homes: self
                .homes
                .iter()
                .map(|(id, home)| (*id, home.node.clone()))
                .collect(),
            buffered: self.buffers.len(),
            waiting: self.admissions.waiting(),
            settling: self.marks.len(),
            proxy: !self.hosts,
            draining: self.lifecycle != super::RegionLifecycle::Working,
            may_run_twice: self.kind.may_run_twice,
        }
    }

    /// The node of the coordinator that it is registered with.
    pub(crate) fn coordinator(&self) -> Option<&UniqueAddress> {
        self.registered.as_ref().map(|term| &term.node)
    }

    /// What it hosts.
    pub(crate) fn counts(&self) -> RegionCounts {
        let shards = self.shards.iter();
        let running = |shard: &Shard| u32::try_from(shard.entities()).unwrap_or(u32::MAX);
        RegionCounts {
            shards: shards.map(|(id, shard)| (*id, running(shard))).collect(),
            shards_total: u32::try_from(self.shards.len()).unwrap_or(u32::MAX),
            entities_total: self.entities() as u64,
        }
    }

    /// Shards whose home it knows.
    pub(crate) fn known_homes(&self) -> impl Iterator<Item = (ShardId, &UniqueAddress)> {
        self.homes.iter().map(|(shard, home)| (*shard, &home.node))
    }

    /// Its shards that are not wholly before a position, each with those that run in it behind that, in their order.
    pub(crate) fn running_behind<'a>(
        &'a self,
        after: Option<&'a EntityPosition>,
    ) -> impl Iterator<Item = (ShardId, impl Iterator<Item = &'a EntityId>)> {
        let first = after.map_or(ShardId(0), |after| after.shard);
        let left = self.shards.range(first..);
        let left = left.filter(move |(shard, _)| after.is_none_or(|after| after.leaves(**shard)));
        left.map(move |(shard, here)| {
            let own = after.filter(|after| after.shard == *shard);
            (
                *shard,
                here.running_behind(own.and_then(|after| after.entity.as_ref())),
            )
        })
    }

    /// Entities that run here.
    pub(crate) fn entities(&self) -> usize {
        self.shards.values().map(Shard::entities).sum()
    }

    /// Messages of this node's own asks in the buffer, those that were sent away and came back included.
    pub(crate) fn buffered_asks_of(&self, me: &UniqueAddress) -> usize {
        let own = self.buffers.iter().filter(|pending| {
            let ask = pending.envelope.ask.as_ref();
            ask.is_some_and(|ticket| ticket.ask.asker == *me)
        });
        own.count()
    }

    /// What must hold between the calls.
    pub(crate) fn check_invariants(&self, me: &UniqueAddress) -> Result<(), String> {
        self.buffers.check_invariants()?;
        for (id, shard) in &self.shards {
            if *id != shard.id || !self.kind.has(*id) {
                return Err(format!("region: shard {id} is kept under another number"));
            }
            if !shard.is_consistent() {
                return Err(format!("region: shard {id} counts its entities wrongly"));
            }
            if shard.has_stopped() {
                return Err(format!("region: shard {id} has stopped and is still here"));
            }
            let elsewhere = self.homes.get(id).is_some_and(|home| home.node != *me);
            if !shard.is_stopping() && elsewhere {
                return Err(format!("region: shard {id} runs here and lives elsewhere"));
            }
        }
        let mut own = self.homes.iter().filter(|(_, home)| home.node == *me);
        if let Some((id, _)) = own.find(|(id, _)| !self.shards.contains_key(id)) {
            return Err(format!("region: shard {id} lives here and does not run"));
        }
        if let Some(id) = self.flushing.iter().find(|id| !self.homes.contains_key(id)) {
            return Err(format!("region: shard {id} is flushed to nowhere"));
        }
        if let Some((id, _)) = self
            .homes
            .iter()
            .find(|(id, home)| home.used && self.is_settling(**id))
        {
            return Err(format!("region: two homes of shard {id} are used at once"));
        }
        for (id, entity) in self.buffers.waiting_entities() {
            let here = self.shards.get(id).filter(|here| here.is_running());
            let waits = here.is_some_and(|here| here.holds_back(entity));
            let resumes = here.is_some() && self.resuming.contains(&(*id, entity.clone()));
            if !waits && !resumes {
                return Err(format!(
                    "region: messages for {entity} of shard {id} wait for nothing"
                ));
            }
        }
        match (&self.registered, &self.seen) {
            (Some(known), Some(seen)) if known != seen => Err(String::from(
                "region: registered under a term that is not the highest",
            )),
            (Some(_), None) => Err(String::from("region: registered under an unknown term")),
            (Some(_) | None, _) => Ok(()),
        }
    }
}
