//! Where the shards of a kind with external allocation are wanted: kept in replicated data, and told to this node's core, which
//! decides where they go. Decides nothing. Spec: sharding 1.7 (external), S-050.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::ddata::protocol::ReadError;
use quorate_core::ident::Address;
use quorate_core::input::{Command, ShardingCommand};
use quorate_core::sharding::ids::{KindId, ShardId};

use crate::data::{
    Data, DataReadError, DataWriteError, Read, RegisterMap, RegisterMapKind, ValueChange, Write,
};
use crate::error::ClusterError;
use crate::shared::Shared;

/// The wishes of one kind in replicated data: the number of a shard, and `host:port`.
type Wishes = RegisterMap<u32, String>;

/// Says where shards of one kind should be, from any node. Get it with [`crate::Cluster::shard_places`]. Heeded by kinds that were
/// registered with [`AllocationSettings::External`](crate::core::AllocationSettings::External), at their next look at the balance
/// (`sharding.rebalance_interval`); a wish for a node that is not there waits for it. Of two wishes for one shard the later one
/// counts, by the clocks of the nodes. Cheap to clone; does not keep the node alive.
#[derive(Clone)]
pub struct ShardPlaces {
    kind: Arc<str>,
    wishes: Wishes,
}

impl ShardPlaces {
    pub(crate) fn new(shared: Arc<Shared>, kind: &str) -> Self {
        Self {
            kind: Arc::from(kind),
            wishes: wishes(shared, kind),
        }
    }

    /// The same, with another time for each call. [`DATA_TIMEOUT_DEFAULT`](crate::data::DATA_TIMEOUT_DEFAULT) otherwise. Mirrors
    /// `external-shard-allocation-strategy.client-timeout`.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        let wishes = self.wishes.with_timeout(timeout);
        Self { wishes, ..self }
    }

    /// Wants a shard at a node. Completes when a majority of the members knows.
    ///
    /// # Errors
    /// [`DataWriteError`]; [`DataWriteError::is_applied`] says whether the wish counts all the same.
    ///
    /// # Cancel safety
    /// Dropping it before it was polled changes nothing; afterwards the wish may count.
    pub async fn place(&self, shard: ShardId, node: &Address) -> Result<(), DataWriteError> {
        self.wishes
            .put(&shard.0, &node.to_string(), Write::Majority)
            .await
    }

    /// Wants many shards at nodes, one after the other; the first error ends it.
    ///
    /// # Errors
    /// As [`Self::place`].
    ///
    /// # Cancel safety
    /// Dropping it ends it between two shards, or as [`Self::place`] does.
    pub async fn place_all(
        &self,
        places: impl IntoIterator<Item = (ShardId, Address)>,
    ) -> Result<(), DataWriteError> {
        for (shard, node) in places {
            self.place(shard, &node).await?;
        }
        Ok(())
    }

    /// A shard may be anywhere: it stays where it is.
    ///
    /// # Errors
    /// As [`Self::place`].
    ///
    /// # Cancel safety
    /// As [`Self::place`].
    pub async fn forget(&self, shard: ShardId) -> Result<(), DataWriteError> {
        self.wishes.remove(&shard.0, Write::Majority).await
    }

    /// All wishes that a majority of the members knows, by shard. What is no address is left out.
    ///
    /// # Errors
    /// [`DataReadError`]. That nobody has wished for anything is none.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn places(&self) -> Result<Vec<(ShardId, Address)>, DataReadError> {
        match self.wishes.read(Read::Majority).await {
            Ok(held) => Ok(legal(held)),
            Err(DataReadError::Failed(ReadError::NotFound)) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

impl fmt::Debug for ShardPlaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ShardPlaces").field(&self.kind).finish()
    }
}

fn wishes(shared: Arc<Shared>, kind: &str) -> Wishes {
    Data::new(shared).of::<RegisterMapKind<u32, String>>(format!("external-sharding-{kind}"))
}

fn legal(held: Vec<(u32, String)>) -> Vec<(ShardId, Address)> {
    let place = |(shard, node): (u32, String)| Some((ShardId(shard), node.parse().ok()?));
    let mut places: Vec<_> = held.into_iter().filter_map(place).collect();
    places.sort_unstable_by_key(|(shard, _)| *shard);
    places
}

/// Tells this node's core of every change of the wishes for a kind, until the node ends.
pub(crate) async fn follow(shared: Arc<Shared>, kind: Arc<str>) {
    let mut changes = wishes(Arc::clone(&shared), &kind).changes();
    let id = KindId::of(&kind);
    while let Some(change) = changes.next().await {
        let homes = match change {
            Ok(ValueChange::Value(held)) => legal(held),
            Ok(ValueChange::Deleted | ValueChange::Expired) => Vec::new(),
            Err(error) => {
                tracing::warn!(
                    target: "cluster::sharding", event = "shard_places_unreadable", kind = &*kind, %error,
                    "where shards are wanted cannot be read: they stay where they are"
                );
                continue;
            }
        };
        let command = Command::Sharding(ShardingCommand::SetDesiredHomes { kind: id, homes });
        if shared.core(command).await == Err(ClusterError::Stopped) {
            return;
        }
    }
}
