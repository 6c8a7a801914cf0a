//! What tests, simulators and operators may see of a region, and what must hold for it. Changes nothing.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::ShardRegion;
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
    /// The downing strategy, if it lets both sides of a partition run the kind's entities that this node
    /// hosts; `None` of a proxy.
    pub may_run_twice: Option<&'static str>,
}

impl ShardRegion {
    /// How many shards run here.
    pub(crate) fn hosted_shards(&self) -> u32 {
        u32::try_from(self.shards.all_hosted().count()).unwrap_or(u32::MAX)
    }

    /// This region, now.
    pub(crate) fn state(&self) -> RegionState {
        let stopping = self.shards.all_hosted().filter(|(_, here)| here.is_stopping());
        RegionState {
            registered: self.contact.registered.clone(),
            hosted: self
                .shards
                .all_hosted()
                .map(|(id, here)| (id, here.entities()))
                .collect(),
            stopping: stopping.map(|(id, _)| id).collect(),
            passivating: self.shards.all_hosted().map(|(_, here)| here.passivating()).sum(),
            homes: self.known_homes().map(|(id, node)| (id, node.clone())).collect(),
            buffered: self.buffers.len(),
            waiting: self.admissions.waiting(),
            settling: self.shards.marks(),
            proxy: !self.hosts,
            draining: self.lifecycle != super::RegionLifecycle::Working,
            may_run_twice: self.kind.may_run_twice,
        }
    }

    /// The shards that it hosts: [`state`](Self::state) copies all that it knows.
    #[cfg(test)]
    pub(in crate::sharding) fn hosted(&self) -> impl Iterator<Item = ShardId> {
        self.shards.all_hosted().map(|(shard, _)| shard)
    }

    /// The node of the coordinator that it is registered with.
    pub(crate) fn coordinator(&self) -> Option<&UniqueAddress> {
        self.contact.registered.as_ref().map(|term| &term.node)
    }

    /// What it hosts.
    pub(crate) fn counts(&self) -> RegionCounts {
        let shards = self.shards.all_hosted();
        let running = |shard: &Shard| u32::try_from(shard.entities()).unwrap_or(u32::MAX);
        RegionCounts {
            shards: shards.map(|(id, here)| (id, running(here))).collect(),
            shards_total: u32::try_from(self.shards.hosted_len()).unwrap_or(u32::MAX),
            entities_total: self.entities() as u64,
        }
    }

    /// Shards whose home it knows.
    pub(crate) fn known_homes(&self) -> impl Iterator<Item = (ShardId, &UniqueAddress)> {
        self.shards
            .iter()
            .filter_map(|(shard, entry)| Some((shard, entry.home.node()?)))
    }

    /// Its shards that are not wholly before a position, each with those that run in it behind that, in their
    /// order.
    pub(crate) fn running_behind<'a>(
        &'a self,
        after: Option<&'a EntityPosition>,
    ) -> impl Iterator<Item = (ShardId, impl Iterator<Item = &'a EntityId>)> {
        let first = after.map_or(ShardId(0), |after| after.shard);
        let left = self.shards.hosted_from(first);
        let left = left.filter(move |(shard, _)| after.is_none_or(|after| after.leaves(*shard)));
        left.map(move |(shard, here)| {
            let own = after.filter(|after| after.shard == shard);
            (
                shard,
                here.running_behind(own.and_then(|after| after.entity.as_ref())),
            )
        })
    }

    /// Entities that run here.
    pub(crate) fn entities(&self) -> usize {
        self.shards.all_hosted().map(|(_, here)| here.entities()).sum()
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
        self.shards.check_invariants(me)?;
        for (id, shard) in self.shards.all_hosted() {
            if id != shard.id || !self.kind.has(id) {
                return Err(format!("region: shard {id} is kept under another number"));
            }
            if !shard.is_consistent() {
                return Err(format!("region: shard {id} counts its entities wrongly"));
            }
            if shard.has_stopped() {
                return Err(format!("region: shard {id} has stopped and is still here"));
            }
        }
        if let Some(id) = self.flushing.iter().find(|id| !self.shards.has_home(**id)) {
            return Err(format!("region: shard {id} is flushed to nowhere"));
        }
        for (id, entity) in self.buffers.waiting_entities() {
            let here = self.shards.running(*id);
            let waits = here.is_some_and(|here| here.holds_back(entity));
            let resumes = here.is_some() && self.resuming.contains(&(*id, entity.clone()));
            if !waits && !resumes {
                return Err(format!(
                    "region: messages for {entity} of shard {id} wait for nothing"
                ));
            }
        }
        match (&self.contact.registered, &self.contact.seen) {
            (Some(known), Some(seen)) if known != seen => Err(String::from(
                "region: registered under a term that is not the highest",
            )),
            (Some(_), None) => Err(String::from("region: registered under an unknown term")),
            (Some(_) | None, _) => Ok(()),
        }
    }
}
