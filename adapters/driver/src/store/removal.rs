//! Removes what coordinators have stored, and which entities are remembered, from a store that no node uses, and lowers terms that no cluster
//! can have taken. Spec: sharding 1.9; reliability I-100.

use quorate_core::journal::erasure::{Erasure, ask_head, lower_head};
use quorate_core::owner::Owner;
use quorate_core::sharding::{coordinator_log, remembered_logs};
use quorate_core::singleton::{ask_promise, lower_promise};
use quorate_core::store::{Outcome, Space, StoreError, StoreOrder};

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
        if erase(store, kind, Erasure::of([coordinator_log(kind)]))? {
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
        if erase(store, kind, Erasure::of(remembered_logs(kind)))? {
            removed.push((*kind).to_owned());
        }
    }
    Ok(removed)
}

/// Lowers the terms that one node's store has promised above `term` to it: of these singletons, of these logs, whose entries stay, and of the
/// coordinators of these kinds, whose homes are removed by that as [`remove_coordinator_state`] does. Says of which of them the store had promised higher ones. For a store that
/// holds a term which no cluster can have taken, so that none is left (`TermsUsedUp`, `docs/limits.md`): `term` is the highest that an
/// instance or a coordinator really had, which the logs of the nodes say. Then the next one has a higher one.
///
/// Stop all nodes first, and do it to the store of every node, as with [`remove_coordinator_state`]. What instances write to may hold a token of
/// the absurd term as well, and refuses all lower ones until that is lowered there.
///
/// ```
/// use quorate_driver::{MemoryStore, lower_terms};
///
/// let mut store = MemoryStore::new(); // in earnest: Redb::open("/var/lib/orders/node.redb")?
/// assert!(lower_terms(&mut store, 17, &["billing"], &["cart"], &[])?.is_empty());
/// # Ok::<(), quorate_driver::RemovalError>(())
/// ```
///
/// # Errors
/// [`RemovalError`]; it may be done again.
pub fn lower_terms(
    store: &mut impl Store,
    term: u64,
    singletons: &[&str],
    kinds: &[&str],
    logs: &[&str],
) -> Result<Vec<String>, RemovalError> {
    store.open_unused().map_err(RemovalError::NotOpened)?;
    let mut lowered = Vec::new();
    for name in singletons {
        let refused = |error| RemovalError::Refused {
            kind: (*name).to_owned(),
            error,
        };
        let mut ask = |order| one(store, name, (Owner::Singleton.space(), order));
        let held = ask(ask_promise(name))?;
        if let Some(order) = lower_promise(name, &held, term).map_err(refused)? {
            ask(order)?.map_err(refused)?;
            lowered.push((*name).to_owned());
        }
    }
    for name in logs {
        let refused = |error| RemovalError::Refused {
            kind: (*name).to_owned(),
            error,
        };
        let mut ask = |order| one(store, name, (Owner::Journal.space(), order));
        let held = ask(ask_head(name))?;
        if let Some(order) = lower_head(name, &held, term).map_err(refused)? {
            ask(order)?.map_err(refused)?;
            lowered.push((*name).to_owned());
        }
    }
    for kind in kinds {
        if erase(store, kind, Erasure::of([coordinator_log(kind)]).down_to(term))? {
            lowered.push((*kind).to_owned());
        }
    }
    Ok(lowered)
}

/// Empties these logs; whether the store held anything of them.
fn erase(store: &mut impl Store, kind: &str, mut erasure: Erasure) -> Result<bool, RemovalError> {
    let refused = |error| RemovalError::Refused {
        kind: kind.to_owned(),
        error,
    };
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

/// What the store says to this.
fn one(
    store: &mut impl Store,
    name: &str,
    (space, order): (Space, StoreOrder),
) -> Result<Outcome, RemovalError> {
    let fault = |fault| RemovalError::Fault {
        kind: name.to_owned(),
        fault,
    };
    let outcomes = store.commit(&[(space, &order)]).map_err(fault)?;
    // A store answers every order.
    Ok(outcomes
        .into_iter()
        .next()
        .unwrap_or(Err(StoreError::Unavailable)))
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quorate_core::singleton::state::SingletonId;
    use quorate_core::store::{Bytes, Change, StoreAnswer};

    use super::*;
    use crate::store::MemoryStore;

    fn promise(store: &mut MemoryStore, name: &str, term: u64) {
        let key: Bytes = Arc::from(SingletonId::of(name).raw().to_be_bytes().as_slice());
        let value: Bytes = Arc::from(term.to_be_bytes().as_slice());
        let batch = vec![Change::Put { key, value }];
        let order = StoreOrder::Write { batch };
        store.commit(&[(Owner::Singleton.space(), &order)]).unwrap();
    }

    fn promised(store: &mut MemoryStore, name: &str) -> Option<Bytes> {
        let outcomes = store
            .commit(&[(Owner::Singleton.space(), &ask_promise(name))])
            .unwrap();
        match outcomes.into_iter().next() {
            Some(Ok(StoreAnswer::Value(value))) => value,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn i_100_an_absurd_term_is_lowered_and_others_stay() {
        let mut store = MemoryStore::new();
        promise(&mut store, "billing", u64::MAX >> 16);
        promise(&mut store, "mail", 5);
        let lowered = lower_terms(
            &mut store,
            17,
            &["billing", "mail", "none"],
            &["cart"],
            &["cart/7"],
        )
        .unwrap();
        assert_eq!(lowered, ["billing"]);
        assert_eq!(
            promised(&mut store, "billing").as_deref(),
            Some(&17_u64.to_be_bytes()[..])
        );
        assert_eq!(
            promised(&mut store, "mail").as_deref(),
            Some(&5_u64.to_be_bytes()[..])
        );
        assert_eq!(promised(&mut store, "none"), None);
    }
}
