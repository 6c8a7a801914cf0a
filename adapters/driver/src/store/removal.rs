//! Removes what coordinators have stored, and which entities are remembered, from a store that no node uses,
//! and lowers terms that no cluster can have taken. Spec: sharding 1.9; reliability I-100.

use quorate_core::journal::erasure::{Erasure, ask_head, lower_head};
use quorate_core::owner::Requester;
use quorate_core::sharding::{
    coordinator_log, is_remembered_key, remembered_keys, remembered_logs, remembered_range,
};
use quorate_core::singleton::{ask_promise, lower_promise};
use quorate_core::store::limits::{ANSWER_BYTES_MAX, CHANGES_PER_BATCH_MAX};
use quorate_core::store::{Bytes, Change, Outcome, Space, StoreAnswer, StoreError, StoreOrder};

use super::{Store, StoreFault};

/// Logs that are emptied in one commit.
const LOGS_AT_ONCE: usize = 1_024;

/// Why [`remove_coordinator_state`] or [`remove_remembered_entities`] failed. Kinds before the one that it
/// names are done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemovalError {
    /// The store cannot be opened: a node lives that uses it, or it is not there.
    #[error("cannot open the store (is a node using it?): {0}")]
    NotOpened(#[source] StoreFault),
    /// The store has failed.
    #[error("the store failed at the kind {kind}: {fault}")]
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

/// Removes the stored homes of the shards of these kinds from one node's store, damaged or not. What entities
/// have stored stays, and so do remembered entities ([`remove_remembered_entities`]). Says which of the kinds
/// the store knew anything of. Then shards get new homes, as in a new cluster.
///
/// **Stop all nodes first, and do it to the store of every node**: of stores that disagree the next
/// coordinator takes what one of them holds. A store refuses while its node lives ([`Store::open_unused`]):
/// the file of `quorate-store-redb` is locked, and `quorate-store-postgres` sees the node's connection.
/// Blocks while the store works.
///
/// Mirrors `RemoveInternalClusterShardingData`.
///
/// ```
/// use quorate_driver::store::{MemoryStore, remove_coordinator_state};
///
/// let mut store = MemoryStore::new(); // in earnest: Redb::open("/var/lib/orders/node.redb")?
/// assert!(remove_coordinator_state(&mut store, &["cart"])?.is_empty());
/// # Ok::<(), quorate_driver::store::RemovalError>(())
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

/// Removes which entities these kinds remember from the store of one node, as events
/// (`RememberStore::Events`) or in durable replicated data (`RememberStore::Data`), damaged or not, for all
/// their shards; what entities have stored stays, and so does where shards live. Says for which of the kinds
/// the store knew anything. Then nobody starts by himself: an entity is remembered again from its next
/// message on.
///
/// Stop all nodes first, and do it to the store of every node, as with [`remove_coordinator_state`]: a
/// replica that still has the ids gives them to the others. A store that holds nothing of a kind is asked
/// seven questions for it, one that does some more: about 32 for each log whose head cannot be read, and one
/// for each megabyte of ids that are remembered in replicated data; where those cannot be read, they are
/// removed unread, 327,684 keys for a kind.
///
/// ```
/// use quorate_driver::store::{MemoryStore, remove_remembered_entities};
///
/// let mut store = MemoryStore::new(); // in earnest: Redb::open("/var/lib/orders/node.redb")?
/// assert!(remove_remembered_entities(&mut store, &["alarm"])?.is_empty());
/// # Ok::<(), quorate_driver::store::RemovalError>(())
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
        let in_logs = erase(store, kind, Erasure::of(remembered_logs(kind)))?;
        if erase_keys(store, kind)? || in_logs {
            removed.push((*kind).to_owned());
        }
    }
    Ok(removed)
}

/// Lowers the terms that one node's store has promised above `term` to it: of these singletons, of these
/// logs, whose entries stay, and of the coordinators of these kinds, whose homes are removed by that as
/// [`remove_coordinator_state`] does. Says of which of them the store had promised higher ones. For a store
/// that holds a term which no cluster can have taken, so that none is left (`TermsUsedUp`, `docs/limits.md`):
/// `term` is the highest that an instance or a coordinator really had, which the logs of the nodes say. Then
/// the next one has a higher one.
///
/// Stop all nodes first, and do it to the store of every node, as with [`remove_coordinator_state`]. What
/// instances write to may hold a token of the absurd term as well, and refuses all lower ones until that is
/// lowered there.
///
/// ```
/// use quorate_driver::store::{MemoryStore, lower_terms};
///
/// let mut store = MemoryStore::new(); // in earnest: Redb::open("/var/lib/orders/node.redb")?
/// assert!(lower_terms(&mut store, 17, &["billing"], &["cart"], &[])?.is_empty());
/// # Ok::<(), quorate_driver::store::RemovalError>(())
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
        let mut ask = |order| one(store, name, (Requester::Singleton.space(), order));
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
        let mut ask = |order| one(store, name, (Requester::Journal.space(), order));
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
        for answer in all(store, (kind, Requester::Journal), &[question])? {
            erasure.on_answer(&answer).map_err(refused)?;
        }
    }
    for removals in erasure.removals().chunks(LOGS_AT_ONCE) {
        for outcome in all(store, (kind, Requester::Journal), removals)? {
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

/// Removes what is remembered in durable replicated data; whether the store held anything of it.
fn erase_keys(store: &mut impl Store, kind: &str) -> Result<bool, RemovalError> {
    let keys = match found_keys(store, kind)? {
        Ok(keys) => keys,
        // One that cannot be read hides those behind it.
        Err(StoreError::Corrupt) => remembered_keys(kind).collect(),
        Err(error) => {
            let kind = kind.to_owned();
            return Err(RemovalError::Refused { kind, error });
        }
    };
    for keys in keys.chunks(CHANGES_PER_BATCH_MAX) {
        let delete = |key: &Bytes| Change::Delete { key: key.clone() };
        let batch = keys.iter().map(delete).collect();
        for outcome in all(store, (kind, Requester::Ddata), &[StoreOrder::Write { batch }])? {
            outcome.map_err(|error| RemovalError::Refused {
                kind: kind.to_owned(),
                error,
            })?;
        }
    }
    Ok(!keys.is_empty())
}

/// Where the store holds what the kind remembers; or why it does not say so.
fn found_keys(store: &mut impl Store, kind: &str) -> Result<Result<Vec<Bytes>, StoreError>, RemovalError> {
    let (mut from, to) = remembered_range();
    let mut found = Vec::new();
    loop {
        let question = StoreOrder::Range {
            from,
            to: Some(to.clone()),
            bytes_max: ANSWER_BYTES_MAX,
        };
        let answer = all(store, (kind, Requester::Ddata), &[question])?.pop();
        let (items, more) = match answer {
            Some(Ok(StoreAnswer::Items { items, more })) => (items, more),
            Some(Ok(_)) | None => return Ok(Err(StoreError::Unavailable)),
            Some(Err(error)) => return Ok(Err(error)),
        };
        let keys = items.iter().map(|(key, _)| key);
        found.extend(keys.filter(|key| is_remembered_key(kind, key)).cloned());
        match items.last() {
            Some((last, _)) if more => {
                let mut behind = last.to_vec();
                behind.push(0);
                from = Bytes::from(behind);
            }
            Some(_) | None => return Ok(Ok(found)),
        }
    }
}

/// What the store says to each of these.
fn all(
    store: &mut impl Store,
    (kind, owner): (&str, Requester),
    orders: &[StoreOrder],
) -> Result<Vec<Outcome>, RemovalError> {
    let fault = |fault| RemovalError::Fault {
        kind: kind.to_owned(),
        fault,
    };
    let group: Vec<(Space, &StoreOrder)> = orders.iter().map(|order| (owner.space(), order)).collect();
    let mut outcomes = store.commit(&group).map_err(fault)?;
    // A store answers every order.
    outcomes.resize(orders.len(), Err(StoreError::Unavailable));
    Ok(outcomes)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quorate_core::singleton::state::SingletonId;
    use quorate_core::store::StoreIdentity;

    use super::*;
    use crate::store::{MemoryStore, StoreScope};

    /// A promise to nobody, as WIRE.md 4.14 has it.
    fn kept(term: u64) -> Vec<u8> {
        [&[1][..], &term.to_le_bytes(), &[0]].concat()
    }

    fn promise(store: &mut MemoryStore, name: &str, term: u64) {
        let key: Bytes = Arc::from(SingletonId::of(name).raw().to_be_bytes().as_slice());
        let value: Bytes = Arc::from(kept(term));
        let batch = vec![Change::Put { key, value }];
        let order = StoreOrder::Write { batch };
        store.commit(&[(Requester::Singleton.space(), &order)]).unwrap();
    }

    fn promised(store: &mut MemoryStore, name: &str) -> Option<Bytes> {
        let outcomes = store
            .commit(&[(Requester::Singleton.space(), &ask_promise(name))])
            .unwrap();
        match outcomes.into_iter().next() {
            Some(Ok(StoreAnswer::Value(value))) => value,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn i_100_an_absurd_term_is_lowered_and_others_stay() {
        let mut store = MemoryStore::new();
        store.open().unwrap();
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
        assert_eq!(promised(&mut store, "billing").as_deref(), Some(&kept(17)[..]));
        assert_eq!(promised(&mut store, "mail").as_deref(), Some(&kept(5)[..]));
        assert_eq!(promised(&mut store, "none"), None);
    }

    /// A store that cannot read one of the values of replicated data.
    #[derive(Debug)]
    struct Damaged(MemoryStore);

    impl Store for Damaged {
        fn open(&mut self) -> Result<StoreIdentity, StoreFault> {
            self.0.open()
        }

        fn open_unused(&mut self) -> Result<StoreIdentity, StoreFault> {
            self.0.open_unused()
        }

        fn commit(&mut self, orders: &[(Space, &StoreOrder)]) -> Result<Vec<Outcome>, StoreFault> {
            let is_hidden = |(space, order): &(Space, &StoreOrder)| {
                *space == Requester::Ddata.space() && matches!(order, StoreOrder::Range { .. })
            };
            if orders.iter().any(is_hidden) {
                return Ok(orders.iter().map(|_| Err(StoreError::Corrupt)).collect());
            }
            self.0.commit(orders)
        }

        fn scope(&self) -> StoreScope {
            self.0.scope()
        }
    }

    /// Every key of a kind, one of another kind, and one of somebody's value.
    fn fill(store: &mut impl Store, kind: &str) -> Vec<Bytes> {
        store.open_unused().expect("it opens");
        let other = remembered_keys("other").next();
        let some = remembered_keys(kind).step_by(1_000).chain(other);
        let keys: Vec<Bytes> = some.chain([Bytes::from(&b"vshard-x"[..])]).collect();
        let put = |key: &Bytes| Change::Put {
            key: key.clone(),
            value: Bytes::from(&b"x"[..]),
        };
        let order = StoreOrder::Write {
            batch: keys.iter().map(put).collect(),
        };
        let outcomes = store
            .commit(&[(Requester::Ddata.space(), &order)])
            .expect("it works");
        assert_eq!(outcomes, [Ok(StoreAnswer::Written)]);
        keys
    }

    fn held(store: &mut impl Store, keys: &[Bytes]) -> Vec<Bytes> {
        let has = |key: &&Bytes| {
            let order = StoreOrder::Read { key: (*key).clone() };
            let mut outcomes = store
                .commit(&[(Requester::Ddata.space(), &order)])
                .expect("it works");
            matches!(outcomes.pop(), Some(Ok(StoreAnswer::Value(Some(_)))))
        };
        keys.iter().filter(has).cloned().collect()
    }

    #[test]
    fn ids_in_replicated_data_are_removed_of_the_kind_alone_also_where_they_cannot_be_read() {
        let mut plain = MemoryStore::new();
        let mut damaged = Damaged(MemoryStore::new());
        let (keys, same) = (fill(&mut plain, "alarm"), fill(&mut damaged, "alarm"));
        let left = &keys[keys.len() - 2..];
        let removed = remove_remembered_entities(&mut plain, &["alarm", "none"]);
        assert_eq!(removed.expect("it works"), ["alarm"]);
        assert_eq!(held(&mut plain, &keys), left);
        let removed = remove_remembered_entities(&mut damaged, &["alarm"]);
        assert_eq!(removed.expect("it works"), ["alarm"]);
        assert_eq!(held(&mut damaged, &same), left);
    }
}
