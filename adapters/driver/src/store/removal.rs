//! Removes what coordinators have stored, and which entities are remembered, from a store that no node uses. Spec: sharding 1.9.

use quorate_core::journal::erasure::Erasure;
use quorate_core::owner::Owner;
use quorate_core::sharding::{coordinator_log, remembered_logs};
use quorate_core::store::{LogName, Outcome, Space, StoreError, StoreOrder};

use super::{Store, StoreFault};

/// Logs that are emptied in one commit.
const LOGS_AT_ONCE: usize = 1_024;

/// Why [`remove_coordinator_state`] or [`remove_remembered_entities`] has stopped. Kinds before the one that it names are done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemovalError {
    /// The store cannot be opened: a node lives that uses it, or it is not there.
    #[error("the store cannot be opened; does a node use it? {0}")]
    NotOpened(#[source] StoreFault),
    /// The store has failed.
    #[error("kind {kind}: the store has failed: {fault}")]
    Fault {
        /// Which kind it was at.
        kind: String,
        /// Why.
        #[source]
        fault: StoreFault,
    },
    /// The store has refused.
    #[error("kind {kind}: {error}")]
    Refused {
        /// Which kind it was at.
        kind: String,
        /// Why.
        #[source]
        error: StoreError,
    },
}

/// Removes where the shards of these kinds live from the store of one node, damaged or not; what entities have stored stays, and so
/// does which entities are remembered ([`remove_remembered_entities`]). Says which of the kinds the store knew anything of. Then shards
/// get new homes, as in a new cluster.
///
/// **Stop all nodes first, and do it to the store of every node**: of stores that disagree the next coordinator takes what one of them
/// holds. A store refuses while its node lives ([`Store::open_unused`]): the file of `quorate-store-redb` is locked, and
/// `quorate-store-postgres` sees the node's connection. Blocks while the store works.
///
/// Mirrors `RemoveInternalClusterShardingData`.
///
/// ```
/// use quorate_driver::{MemoryStore, remove_coordinator_state};
///
/// let mut store = MemoryStore::new(); // in earnest: Redb::open("/var/lib/orders/node.redb")?
/// assert!(remove_coordinator_state(&mut store, &["cart"])?.is_empty());
/// # Ok::<(), quorate_driver::RemovalError>(())
/// ```
///
/// # Errors
/// [`RemovalError`]; it may be done again.
pub fn remove_coordinator_state(store: &mut impl Store, kinds: &[&str]) -> Result<Vec<String>, RemovalError> {
    store.open_unused().map_err(RemovalError::NotOpened)?;
    let mut removed = Vec::new();
    for kind in kinds {
        if erase(store, kind, [coordinator_log(kind)])? {
            removed.push((*kind).to_owned());
        }
    }
    Ok(removed)
}

/// Removes which entities these kinds remember as events (`RememberStore::Events`) from the store of one node, damaged or not, for all their
/// shards; what entities have stored stays, and so does where shards live. Says for which of the kinds the store knew anything. Then nobody
/// starts by himself: an entity is remembered again from its next message on.
///
/// Stop all nodes first, and do it to the store of every node, as with [`remove_coordinator_state`]. A store that holds nothing of a kind is
/// asked six questions for it, one that does some more, about 32 for each log whose head cannot be read.
///
/// ```
/// use quorate_driver::{MemoryStore, remove_remembered_entities};
///
/// let mut store = MemoryStore::new(); // in earnest: Redb::open("/var/lib/orders/node.redb")?
/// assert!(remove_remembered_entities(&mut store, &["alarm"])?.is_empty());
/// # Ok::<(), quorate_driver::RemovalError>(())
/// ```
///
/// # Errors
/// [`RemovalError`]; it may be done again.
pub fn remove_remembered_entities(
    store: &mut impl Store,
    kinds: &[&str],
) -> Result<Vec<String>, RemovalError> {
    store.open_unused().map_err(RemovalError::NotOpened)?;
    let mut removed = Vec::new();
    for kind in kinds {
        if erase(store, kind, remembered_logs(kind))? {
            removed.push((*kind).to_owned());
        }
    }
    Ok(removed)
}

/// Empties these logs; whether the store held anything of them.
fn erase(
    store: &mut impl Store,
    kind: &str,
    logs: impl IntoIterator<Item = LogName>,
) -> Result<bool, RemovalError> {
    let refused = |error| RemovalError::Refused {
        kind: kind.to_owned(),
        error,
    };
    let mut erasure = Erasure::of(logs);
    while let Some(question) = erasure.ask() {
        for answer in all(store, kind, &[question])? {
            erasure.on_answer(&answer).map_err(refused)?;
        }
    }
    for removals in erasure.removals().chunks(LOGS_AT_ONCE) {
        for outcome in all(store, kind, removals)? {
            outcome.map_err(refused)?;
        }
    }
    Ok(!erasure.removals().is_empty())
}

/// What the store says to each of these.
fn all(store: &mut impl Store, kind: &str, orders: &[StoreOrder]) -> Result<Vec<Outcome>, RemovalError> {
    let fault = |fault| RemovalError::Fault {
        kind: kind.to_owned(),
        fault,
    };
    let group: Vec<(Space, &StoreOrder)> = orders
        .iter()
        .map(|order| (Owner::Journal.space(), order))
        .collect();
    let mut outcomes = store.commit(&group).map_err(fault)?;
    // A store answers every order.
    outcomes.resize(orders.len(), Err(StoreError::Unavailable));
    Ok(outcomes)
}
