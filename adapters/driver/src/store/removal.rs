//! Removes what coordinators have stored, from a store that no node uses. Spec: sharding 1.9.

use quorate_core::journal::erasure;
use quorate_core::owner::Owner;
use quorate_core::sharding::coordinator_log;
use quorate_core::store::{Outcome, StoreError, StoreOrder};

use super::{Store, StoreFault};

/// Why [`remove_coordinator_state`] has stopped. Kinds before the one that it names are done.
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
/// does which entities are remembered. Says which of the kinds the store knew anything of. Then shards get new homes, as in a new
/// cluster.
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
        let log = coordinator_log(kind);
        let head = one(store, kind, &erasure::ask(&log))?;
        let refused = |error| RemovalError::Refused {
            kind: (*kind).to_owned(),
            error,
        };
        if let Some(order) = erasure::erase(&log, &head).map_err(refused)? {
            one(store, kind, &order)?.map_err(refused)?;
            removed.push((*kind).to_owned());
        }
    }
    Ok(removed)
}

fn one(store: &mut impl Store, kind: &str, order: &StoreOrder) -> Result<Outcome, RemovalError> {
    let fault = |fault| RemovalError::Fault {
        kind: kind.to_owned(),
        fault,
    };
    let outcomes = store.commit(&[(Owner::Journal.space(), order)]).map_err(fault)?;
    let outcome = outcomes.into_iter().next();
    Ok(outcome.unwrap_or(Err(StoreError::Unavailable)))
}
