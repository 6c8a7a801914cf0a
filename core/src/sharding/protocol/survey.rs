//! What a node asks the others about a kind for people to read, and what they answer. Types only. Spec:
//! sharding 1.3 (queries).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::bytes::{address_bytes, node_bytes};
use crate::ident::{Address, UniqueAddress};
use crate::ordered::OrderedMap;
use crate::sharding::state::ids::{EntityId, KindId, ShardId};
use crate::sharding::state::wish::{Wish, WishObstacle};

/// Between who wants to know and who may host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SurveyMsg {
    /// What do you host of this kind?
    Query {
        /// The question's number; answers carry it.
        id: u64,
        /// The kind.
        kind: KindId,
    },
    /// This.
    Counts {
        /// The question's number.
        id: u64,
        /// What is hosted; `None` if the kind is not registered here, or is not accepted.
        region: Option<RegionCounts>,
        /// Whether further shards follow in another answer.
        more: bool,
    },
    /// Where is this shard, and why? Asked of the coordinator.
    Where {
        /// The question's number; the answer carries it.
        id: u64,
        /// The kind.
        kind: KindId,
        /// The shard.
        shard: ShardId,
    },
    /// There.
    There {
        /// The question's number.
        id: u64,
        /// What is known; `None` if the kind is not registered here, or its coordinator is not here.
        placement: Option<Placement>,
    },
    /// Which entities of this kind run at your node?
    List {
        /// The question's number; the answer carries it.
        id: u64,
        /// The kind.
        kind: KindId,
        /// Only those behind this.
        after: Option<EntityPosition>,
        /// As many as so many bytes hold.
        bytes: u32,
    },
    /// These.
    Entities {
        /// The question's number.
        id: u64,
        /// What runs; `None` if the kind is not registered here, or is not accepted.
        listed: Option<EntityListing>,
    },
}

/// Where shards live, by node.
pub type ShardHomes = Vec<(UniqueAddress, Vec<ShardId>)>;

/// What one node says of the entities that it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntityListing {
    /// Shards, by number, with the ids of those that run in each, in their order. An entity that is being
    /// passivated runs.
    pub shards: Vec<(ShardId, Vec<EntityId>)>,
    /// Whether there are more behind the last one of these.
    pub more: bool,
    /// Where shards behind the position live, from the coordinator; empty from anybody else.
    pub homes: ShardHomes,
    /// The last shard whose home is named, if there are more.
    pub homes_up_to: Option<ShardId>,
}

/// A place among all entities of a kind: behind one of a shard, or behind all of it. Entities are ordered by
/// shard, and then by the bytes of their ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityPosition {
    /// The shard.
    pub shard: ShardId,
    /// The entity; `None`: behind the whole shard.
    pub entity: Option<EntityId>,
}

impl EntityPosition {
    /// Behind a whole shard.
    #[must_use]
    pub const fn behind(shard: ShardId) -> Self {
        Self { shard, entity: None }
    }

    /// Whether anything of a shard may be behind it.
    pub(crate) fn leaves(&self, shard: ShardId) -> bool {
        shard > self.shard || (shard == self.shard && self.entity.is_some())
    }

    /// Whether an entity of a shard is behind it.
    pub(crate) fn is_before(&self, shard: ShardId, entity: &EntityId) -> bool {
        let in_shard = || self.entity.as_ref().is_some_and(|own| own < entity);
        shard > self.shard || (shard == self.shard && in_shard())
    }
}

impl Ord for EntityPosition {
    fn cmp(&self, other: &Self) -> Ordering {
        let entities = || match (&self.entity, &other.entity) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            (Some(own), Some(other)) => own.cmp(other),
        };
        self.shard.cmp(&other.shard).then_with(entities)
    }
}

impl PartialOrd for EntityPosition {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Entities of a shard that run on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardEntities {
    /// The shard.
    pub shard: ShardId,
    /// The node.
    pub node: UniqueAddress,
    /// Their ids, in their order. None, if the shard runs and nobody in it does, or nobody more.
    pub entities: Vec<EntityId>,
}

/// A page of the running entities of a kind, ordered by shard and id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntityPage {
    /// The shards, by number and then by node: one that moves may be said by two nodes, or by none. What was
    /// cut off comes with the next page.
    pub shards: Vec<ShardEntities>,
    /// Shards of this part that have a home, as far as the coordinator and this node know, and of which
    /// nobody has said anything in time.
    pub unanswered: Vec<ShardId>,
    /// Nodes that have not answered in time: they may run anything.
    pub silent: Vec<UniqueAddress>,
    /// Where the next page begins; `None` behind the last one.
    pub next: Option<EntityPosition>,
}

/// Decisions that a coordinator remembers of a shard: two moves with what was wanted are enough to see where
/// it came from and why, and the most shards that a kind can have cost 25 MB when each has that many.
pub const DECISIONS_MAX: usize = 8;

/// Where a shard is, as its coordinator knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Its home; none until somebody asks for one of its entities, and while a home that was lost is
    /// replaced.
    pub home: Option<UniqueAddress>,
    /// Whether it is being handed off.
    pub is_moving: bool,
    /// Whether both sides of a partition would run it, as the coordinator's node hosts the kind. `false` from
    /// a coordinator on a proxy, which does not know.
    pub may_run_twice: bool,
    /// Where the application wants it to be (external placement); `None` if nobody does.
    pub wish: Option<Wish>,
    /// The last decisions about it, oldest first, [`DECISIONS_MAX`] at most. A coordinator that takes over
    /// begins with what it found.
    pub decided: Vec<Decided>,
}

impl Placement {
    /// Leaves out the oldest decisions that do not fit into so many bytes of a message.
    pub(crate) fn fit(&mut self, bytes: usize) {
        let home = self.home.as_ref().map_or(0, node_bytes);
        let wish = self.wish.as_ref().map_or(0, Wish::bytes);
        let mut room = bytes.saturating_sub(home + wish);
        let newest = self.decided.iter().rev().take_while(|decided| {
            let rest = room.checked_sub(DECIDED_BYTES + decided.decision.bytes());
            room = rest.unwrap_or(0);
            rest.is_some()
        });
        let kept = newest.count();
        self.decided.drain(..self.decided.len() - kept);
    }
}

/// Bytes of a decision in a message beside its nodes and addresses, at most: when, which, one of a flag and a
/// reason.
const DECIDED_BYTES: usize = 10;

/// One decision about a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// When, milliseconds since the Unix epoch by the coordinator's clock.
    pub at_ms: u64,
    /// What.
    pub decision: ShardDecision,
}

/// What a coordinator decides about a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardDecision {
    /// The kind's allocation strategy chose a home.
    Allocated {
        /// The home.
        home: UniqueAddress,
        /// Whether it is where somebody outside wants the shard to be (external placement).
        is_desired: bool,
    },
    /// A region that registered had it already: under the coordinator before, or before a network was healed.
    Found {
        /// The region's node.
        home: UniqueAddress,
    },
    /// It is to move, for balance, because its place is wanted elsewhere, or because its region is being
    /// emptied.
    Moves {
        /// Away from there.
        from: UniqueAddress,
    },
    /// It is to move because of load, to the node that could take on most.
    MovesByLoad {
        /// Away from there: the node that could take on least.
        from: UniqueAddress,
    },
    /// It has no home any more: it was handed off, or the node is lost.
    Freed {
        /// Where it was.
        home: UniqueAddress,
    },
    /// Its hand-off was cancelled, because its home or a node that sends to it took too long: it goes on
    /// where it was.
    Stays {
        /// Where it is.
        home: UniqueAddress,
    },
    /// Somebody outside wants it to be somewhere (external placement). Boxed, so that the others stay small.
    Wished(Box<Wish>),
    /// It does not go where the application wants it. It goes there when there is no reason any more.
    NotFollowed {
        /// Where it is wanted.
        wanted: Address,
        /// Why, with when this was found first. Of several reasons in a row the last one.
        why: WishObstacle,
    },
    /// The application's strategy was asked for a home, and failed or took too long: the shard goes to who
    /// asked for it.
    Unanswered,
}

impl ShardDecision {
    /// Bytes of its names in a message.
    fn bytes(&self) -> usize {
        match self {
            Self::Allocated { home: node, .. }
            | Self::Found { home: node }
            | Self::Moves { from: node }
            | Self::MovesByLoad { from: node }
            | Self::Freed { home: node }
            | Self::Stays { home: node } => node_bytes(node),
            Self::Wished(wish) => wish.bytes(),
            Self::NotFollowed { wanted, .. } => address_bytes(wanted),
            Self::Unanswered => 0,
        }
    }
}

/// Where an entity's shard is and why, and which node answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// The entity's shard.
    pub shard: ShardId,
    /// Who was asked: the kind's coordinator. `None`: this node's region has found none.
    pub coordinator: Option<UniqueAddress>,
    /// What it said; `None` if it said nothing in time, or coordinates no more.
    pub placement: Option<Placement>,
    /// The downing strategy, if it lets both sides of a partition go on: after one the entity may run on each
    /// side. A proxy, which does not know whether the kind has a lease per shard, says what the coordinator
    /// says, and `None` if that is on a proxy or silent.
    pub may_run_twice: Option<&'static str>,
}

impl Explained {
    /// The coordinator says so, in a cluster with this downing strategy.
    pub(crate) fn hear(&mut self, placement: Option<Placement>, downing: &'static str) {
        if placement
            .as_ref()
            .is_some_and(|placement| placement.may_run_twice)
        {
            self.may_run_twice = Some(downing);
        }
        self.placement = placement;
    }
}

/// What one node hosts of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionCounts {
    /// Shards with the entities that run in each, by number. What is lost on the way is missing.
    pub shards: Vec<(ShardId, u32)>,
    /// All shards, those that were left out included.
    pub shards_total: u32,
    /// All entities, those of shards that were left out included.
    pub entities_total: u64,
}

/// The answers of the nodes that may host a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// What each has said; `None` of a node where the kind is not registered, or not accepted.
    pub regions: OrderedMap<UniqueAddress, Option<RegionCounts>>,
    /// Who has not answered in time: it may host anything.
    pub silent: Vec<UniqueAddress>,
}
