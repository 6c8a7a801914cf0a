//! Replicated data: handles by name that read and change values with a consistency level, and streams of
//! their changes. Holds no value itself: the node does. Spec: sharding 1.12, 1.13; `README.md`.

mod changes;
mod handle;
mod kind;
mod kinds;
mod level;
mod maps;
mod own;

pub use crate::error::{DataReadError, DataWriteError};
pub use changes::{Changes, KeyChange, PrefixChanges, ValueChange};
pub use handle::Replicated;
pub use kind::DataKind;
pub use kinds::{
    Counter, CounterKind, CounterMap, CounterMapKind, Flag, FlagKind, GrowSet, GrowSetKind, MultiMap,
    MultiMapKind, ObservedSet, Register, RegisterKind, RegisterMap, RegisterMapKind, Set, UpDownCounter,
    UpDownCounterKind,
};
pub use level::{Read, Write};
pub use maps::{MapValue, MergeMap, MergeMapKind};
pub use own::{CustomChange, CustomError, CustomType, Minting, Own, OwnKind, OwnType, RegisterError};
pub use quorate_core::ddata::crdt;
pub use quorate_core::ddata::protocol::{ReadError, WriteError};
pub use quorate_core::ddata::state::consistency::{Consistency, OperationElectorate};
pub use quorate_core::ddata::state::key::{BadKey, Key, Pattern};

use std::fmt;
use std::sync::Arc;

use quorate_core::ddata::protocol::{Answer, Command};

use crate::error::ClusterError;
use crate::shared::Shared;

/// Access to replicated data: every name is a value of one type that each node holds and changes on its own,
/// and that becomes equal everywhere. Get it with [`crate::Cluster::data`]. Cheap to clone; does not keep the
/// node alive.
///
/// ```no_run
/// # async fn example(cluster: quorate_driver::Cluster) -> Result<(), Box<dyn std::error::Error>> {
/// use quorate_driver::data::{Read, Write};
///
/// let likes = cluster.data().counter("likes");
/// likes.increment(1, Write::Majority).await?;
/// println!("{} likes", likes.read(Read::Majority).await?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Data {
    shared: Arc<Shared>,
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Data").finish_non_exhaustive()
    }
}

impl Data {
    pub(crate) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// A counter that only grows.
    #[must_use]
    pub fn counter(&self, key: impl AsRef<str>) -> Counter {
        self.of(key)
    }

    /// A counter that goes up and down.
    #[must_use]
    pub fn up_down_counter(&self, key: impl AsRef<str>) -> UpDownCounter {
        self.of(key)
    }

    /// A set from which elements can be removed. An element that is added and removed at the same time stays.
    #[must_use]
    pub fn set<E>(&self, key: impl AsRef<str>) -> Set<E> {
        self.of(key)
    }

    /// A set that only grows; it takes less room than [`Self::set`].
    #[must_use]
    pub fn grow_set<E>(&self, key: impl AsRef<str>) -> GrowSet<E> {
        self.of(key)
    }

    /// A flag that is switched on once and for all.
    #[must_use]
    pub fn flag(&self, key: impl AsRef<str>) -> Flag {
        self.of(key)
    }

    /// A value whose last write wins, by the clocks of the nodes: of two writes at the same time one is lost.
    #[must_use]
    pub fn register<V>(&self, key: impl AsRef<str>) -> Register<V> {
        self.of(key)
    }

    /// A map of such values.
    #[must_use]
    pub fn register_map<K, V>(&self, key: impl AsRef<str>) -> RegisterMap<K, V> {
        self.of(key)
    }

    /// A map of counters that go up and down.
    #[must_use]
    pub fn counter_map<K>(&self, key: impl AsRef<str>) -> CounterMap<K> {
        self.of(key)
    }

    /// A map of sets.
    #[must_use]
    pub fn multi_map<K, V>(&self, key: impl AsRef<str>) -> MultiMap<K, V> {
        self.of(key)
    }

    /// A map of replicated values, which are merged key by key: `map::<String, ObservedSet<u64>>("baskets")`.
    /// A key that is removed while its value is changed elsewhere stays, with the value that the change saw.
    #[must_use]
    pub fn map<K, T>(&self, key: impl AsRef<str>) -> MergeMap<K, T> {
        self.of(key)
    }

    /// A value of a type of your own, which every node was told of with [`crate::ClusterBuilder::data_type`]:
    /// a write on one that was not is refused.
    #[must_use]
    pub fn own<T: OwnType>(&self, key: impl AsRef<str>) -> Own<T> {
        self.of(key)
    }

    /// A value of any kind: see [`DataKind`].
    #[must_use]
    pub fn of<T>(&self, key: impl AsRef<str>) -> Replicated<T> {
        Replicated::new(Arc::clone(&self.shared), key.as_ref())
    }

    /// Subscribes to changes of every value whose name begins so, beginning with those that exist:
    /// `changes_below::<CounterKind>("stock/")`. An empty prefix means every value. A new name is reported
    /// with its first write. What there is comes in the order of the names, up to 500 of them every
    /// `ddata.notify_subscribers_interval`; a reader that is slow gets the newest change of each name and not
    /// those between. It takes one of the node's `ddata.subscribers_max` places, and keeps at most one change
    /// per name.
    pub fn changes_below<T: DataKind>(&self, prefix: impl AsRef<str>) -> PrefixChanges<T> {
        PrefixChanges::new(Arc::clone(&self.shared), prefix.as_ref())
    }

    /// The names of all values that this node holds, sorted, without deleted ones.
    ///
    /// # Errors
    /// [`ClusterError::Stopped`].
    ///
    /// # Cancel safety
    /// Safe: nothing is changed.
    pub async fn keys(&self) -> Result<Vec<String>, ClusterError> {
        match self.shared.data(Command::Keys).await {
            Some(Answer::Keys(keys)) => Ok(keys.iter().map(ToString::to_string).collect()),
            Some(Answer::Value(_) | Answer::Written(_) | Answer::Subscribed(_) | Answer::Replicas(_))
            | None => Err(ClusterError::Stopped),
        }
    }

    /// How many replicas there are, this node included; 0 while this node holds none: it is no member, or
    /// still loads its store.
    ///
    /// # Errors
    /// [`ClusterError::Stopped`].
    ///
    /// # Cancel safety
    /// Safe: nothing is changed.
    pub async fn replicas(&self) -> Result<usize, ClusterError> {
        match self.shared.data(Command::Replicas).await {
            Some(Answer::Replicas(count)) => Ok(count),
            Some(Answer::Value(_) | Answer::Written(_) | Answer::Subscribed(_) | Answer::Keys(_)) | None => {
                Err(ClusterError::Stopped)
            }
        }
    }
}
