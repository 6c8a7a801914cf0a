//! Where the shards of a kind with external allocation are wanted: kept in replicated data, and told to this
//! node's core, which decides where they go. Decides nothing. Spec: sharding 1.7 (external), S-050.

use std::fmt;
use std::sync::Arc;

use quorate_core::ddata::crdt::{DataValue as CoreData, LwwMap, LwwWrite};
use quorate_core::ddata::protocol::ReadError;
use quorate_core::effect::{CommandError, ShardingCommandError};
use quorate_core::ident::Address;
use quorate_core::input::{Command, ShardingCommand};
use quorate_core::sharding::allocation::{PLACED_NAME_BYTES_MAX, PLACES_KEY_PREFIX};
use quorate_core::sharding::ids::{KindId, ShardId};
use quorate_core::sharding::wish::Wish;

use crate::codec;
use crate::data::{Data, DataKind, Read, RegisterMap, RegisterMapKind, ValueChange, Write};
use crate::error::{ClusterError, DataReadError, DataWriteError};
use crate::request::{Request, TIMEOUT_DEFAULT};
use crate::shared::Shared;

/// The wishes of one kind in replicated data: the number of a shard, and `host:port`.
type Wishes = RegisterMap<u32, String>;

/// Why placing a shard failed. [`Self::may_have_been_handled`] says whether the wish may count all the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// It cannot be placed, as far as this node knows the kind:
    /// [`NoSuchShard`](ShardingCommandError::NoSuchShard), [`NotPlaced`](ShardingCommandError::NotPlaced), or
    /// a name that no such kind has, [`BadKindName`](ShardingCommandError::BadKindName) and
    /// [`NameTooLongToPlace`](ShardingCommandError::NameTooLongToPlace). Nothing changed.
    #[error(transparent)]
    Refused(ShardingCommandError),
    /// Replicated data did not confirm it.
    #[error(transparent)]
    Write(#[from] DataWriteError),
}

impl PlaceError {
    /// Whether too few members confirmed the wish within the time limit.
    #[must_use]
    pub const fn is_timeout(&self) -> bool {
        match self {
            Self::Refused(_) => false,
            Self::Write(error) => error.is_timeout(),
        }
    }

    /// Whether the wish may count. `false`: nothing changed.
    #[must_use]
    pub const fn may_have_been_handled(&self) -> bool {
        match self {
            Self::Refused(_) => false,
            Self::Write(error) => error.may_have_been_handled(),
        }
    }
}

/// Places shards of one kind, from any node. Get it with [`crate::Cluster::shard_places`]. Applies to kinds
/// that were registered with [`AllocationSettings::External`](crate::sharding::AllocationSettings::External),
/// at their next look at the balance (`sharding.rebalance_interval`); a wish for a node that is not there
/// waits for it, and one through a node that does not have the kind for the kind. Of two wishes for one shard
/// the later one counts, by the clocks of the nodes. Each call waits for [`TIMEOUT_DEFAULT`] or what its
/// [`timeout`](Request::timeout) sets, 1 ms to 1 h (clamped), which mirrors
/// `external-shard-allocation-strategy.client-timeout`. Cheap to clone; does not keep the node alive.
#[derive(Clone)]
pub struct ShardPlaces {
    kind: Arc<str>,
    shared: Arc<Shared>,
    wishes: Wishes,
}

impl ShardPlaces {
    pub(crate) fn new(shared: Arc<Shared>, kind: &str) -> Result<Self, PlaceError> {
        if kind.is_empty() {
            return Err(PlaceError::Refused(ShardingCommandError::BadKindName));
        }
        if kind.len() > PLACED_NAME_BYTES_MAX {
            return Err(PlaceError::Refused(ShardingCommandError::NameTooLongToPlace));
        }
        Ok(Self {
            kind: Arc::from(kind),
            wishes: wishes(Arc::clone(&shared), kind),
            shared,
        })
    }

    /// Places a shard on a node. Completes when a majority of the members has confirmed the wish.
    ///
    /// # Errors
    /// [`PlaceError`]: a shard that the kind does not have, and a kind that is not placed from outside, are refused by a node that has
    /// the kind.
    ///
    /// # Cancel safety
    /// Dropping it before it was polled changes nothing; afterwards the wish may count.
    pub fn place(&self, shard: ShardId, node: &Address) -> Request<Result<(), PlaceError>> {
        self.place_all([(shard, node.clone())])
    }

    /// Places many shards: checks all of them first, then writes one after the other; the first error ends
    /// it. The time limit is that of each write.
    ///
    /// # Errors
    /// As [`Self::place`].
    ///
    /// # Cancel safety
    /// Dropping it ends it between two shards, or as [`Self::place`] does.
    pub fn place_all(
        &self,
        places: impl IntoIterator<Item = (ShardId, Address)>,
    ) -> Request<Result<(), PlaceError>> {
        let (this, places) = (self.clone(), places.into_iter().collect::<Vec<_>>());
        Request::new(TIMEOUT_DEFAULT, async move |timeout| {
            for (shard, _) in &places {
                this.check(*shard).await?;
            }
            for (shard, node) in places {
                let wish = this.wishes.put(shard.0, node.to_string(), Write::Majority);
                wish.timeout(timeout).await?;
            }
            Ok(())
        })
    }

    /// Removes the wish for a shard, which stays where it is. Also removes wishes for shards that the kind
    /// does not have.
    ///
    /// # Errors
    /// [`PlaceError::Write`].
    ///
    /// # Cancel safety
    /// As [`Self::place`].
    pub fn forget(&self, shard: ShardId) -> Request<Result<(), PlaceError>> {
        let this = self.clone();
        Request::new(TIMEOUT_DEFAULT, async move |timeout| {
            let forgotten = this.wishes.remove(shard.0, Write::Majority);
            Ok(forgotten.timeout(timeout).await?)
        })
    }

    /// All wishes that a majority of the members knows, by shard. What is no address is left out.
    ///
    /// # Errors
    /// [`DataReadError`]. That nobody has wished for anything is none.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub fn places(&self) -> Request<Result<Vec<(ShardId, Address)>, DataReadError>> {
        let this = self.clone();
        Request::new(TIMEOUT_DEFAULT, async move |timeout| {
            match this.wishes.read(Read::Majority).timeout(timeout).await {
                Ok(held) => Ok(legal(held)),
                Err(DataReadError::Failed(ReadError::NotFound)) => Ok(Vec::new()),
                Err(error) => Err(error),
            }
        })
    }

    async fn check(&self, shard: ShardId) -> Result<(), PlaceError> {
        let kind = KindId::of(&self.kind);
        let command = Command::Sharding(ShardingCommand::CheckPlace { kind, shard });
        if let Err(ClusterError::Refused(CommandError::Sharding(error))) = self.shared.core(command).await {
            return Err(PlaceError::Refused(error));
        }
        // A node that has stopped says so of the write.
        Ok(())
    }
}

impl fmt::Debug for ShardPlaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ShardPlaces").field(&self.kind).finish()
    }
}

fn wishes(shared: Arc<Shared>, kind: &str) -> Wishes {
    Data::new(shared).of::<RegisterMapKind<u32, String>>(key(kind))
}

fn key(kind: &str) -> String {
    format!("{PLACES_KEY_PREFIX}{kind}")
}

fn legal(held: Vec<(u32, String)>) -> Vec<(ShardId, Address)> {
    let place = |(shard, node): (u32, String)| Some((ShardId(shard), node.parse().ok()?));
    let mut places: Vec<_> = held.into_iter().filter_map(place).collect();
    places.sort_unstable_by_key(|(shard, _)| *shard);
    places
}

/// The wishes of one kind as the coordinator hears them: with who said each, and when.
struct WishesKind;

impl DataKind for WishesKind {
    type Value = Vec<(ShardId, Wish)>;

    fn empty() -> CoreData {
        CoreData::LwwMap(LwwMap::new())
    }

    fn value(data: &CoreData) -> Result<Self::Value, DataReadError> {
        let CoreData::LwwMap(held) = data else {
            return Err(DataReadError::WrongType);
        };
        let said = held.written().map(|(shard, written)| {
            let shard: u32 = codec::decode(shard).ok_or(DataReadError::Decode)?;
            Ok(wish(written)?.map(|wish| (ShardId(shard), wish)))
        });
        let said: Result<Vec<_>, DataReadError> = said.filter_map(Result::transpose).collect();
        let mut said = said?;
        said.sort_unstable_by_key(|(shard, _)| *shard);
        Ok(said)
    }
}

/// One wish; nothing if it is for no address.
fn wish(written: &LwwWrite) -> Result<Option<Wish>, DataReadError> {
    let node: String = codec::decode(&written.value).ok_or(DataReadError::Decode)?;
    let wish = |at| Wish {
        at,
        by: written.writer().cloned(),
        since_ms: u64::try_from(written.stamp).unwrap_or(0),
    };
    Ok(node.parse().ok().map(wish))
}

/// Tells this node's core of every change of the wishes for a kind, until the node ends.
pub(crate) async fn follow(shared: Arc<Shared>, kind: Arc<str>) {
    let wishes = Data::new(Arc::clone(&shared)).of::<WishesKind>(key(&kind));
    let mut changes = wishes.changes();
    let id = KindId::of(&kind);
    while let Some(change) = changes.next().await {
        let homes = match change {
            Ok(ValueChange::Value(said)) => said,
            Ok(ValueChange::Deleted | ValueChange::Expired) => Vec::new(),
            Err(error) => {
                tracing::warn!(
                    target: "cluster::sharding", event = "shard_places_unreadable", kind = &*kind, %error,
                    "cannot read where shards are wanted; they stay where they are"
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
