//! A log that the node's own store keeps, or a database: taken over with a token before anything is read, and
//! written by who holds the token alone. Spec: sharding 10.7, 10.15.

use quorate_core::store::{
    Bytes, LogName, LogState, Record, Sequence, Snapshot, Space, StoreAnswer, StoreError, StoreOrder,
};
use quorate_core::token::Token;

use super::{AppendPurpose, Journal, RECOVERY_PAGE_BYTES};
use crate::store::StoreAccess;

/// The part of a store that logs of entities are in. On disks, so it never changes; the core's machines have
/// the numbers below 16.
pub(super) const SPACE: Space = Space(16);

/// A log is taken over with the token that is held plus one; somebody else may do so at the same moment, so
/// it is taken again, so often. More than that is no race but a fault, and waits.
const OPENINGS_MAX: u32 = 16;

/// The first token of a log that nobody has opened. Tokens that the store counts have no term, so whatever
/// comes with a placement is above all of them.
const FIRST: Token = Token::new(0, 1);

/// A log in a store that compares token and expected sequence in the step that writes: the node's own store,
/// or a database.
#[derive(Debug)]
pub(crate) struct AtomicJournal {
    access: StoreAccess,
    log: LogName,
    opener: u64,
    token: Token,
    /// The token of the entity's place: then those of its openings are within that.
    placement: Option<Token>,
}

impl AtomicJournal {
    /// The log of this name. Its token is the one that the store holds plus one, within the placement if
    /// there is one.
    pub(super) fn new(access: StoreAccess, log: LogName, placement: Option<Token>) -> Self {
        Self {
            opener: access.next_opener(),
            access,
            log,
            token: placement.map_or(FIRST, Token::opened),
            placement,
        }
    }

    /// The token above one that is held; `None` if that is of a later placement.
    fn above(&self, held: Token) -> Option<Token> {
        match self.placement {
            Some(placement) => placement.reopened(held),
            None => Some(held.next()),
        }
    }

    async fn order(&self, order: StoreOrder) -> Result<StoreAnswer, StoreError> {
        self.access.order(SPACE, order).await
    }
}

/// A store that answers something else than it was asked for is not to be relied on.
const UNEXPECTED: StoreError = StoreError::Corrupt;

impl Journal for AtomicJournal {
    async fn open(&mut self) -> Result<LogState, StoreError> {
        let mut refused = StoreError::Unavailable;
        for _ in 0..OPENINGS_MAX {
            let order = StoreOrder::Open {
                log: LogName::clone(&self.log),
                token: self.token,
                opener: self.opener,
            };
            match self.order(order).await {
                Ok(StoreAnswer::Opened(state)) => return Ok(state),
                Ok(_) => return Err(UNEXPECTED),
                Err(error @ StoreError::Fenced { held }) => {
                    refused = error;
                    self.token = self.above(held).ok_or(refused)?;
                }
                Err(error) => return Err(error),
            }
        }
        Err(refused)
    }

    async fn read(&mut self, from: Sequence) -> Result<Vec<Record>, StoreError> {
        let order = StoreOrder::ReadLog {
            log: LogName::clone(&self.log),
            from,
            bytes_max: RECOVERY_PAGE_BYTES,
        };
        let StoreAnswer::Records { records, .. } = self.order(order).await? else {
            return Err(UNEXPECTED);
        };
        Ok(records)
    }

    async fn read_snapshot(&mut self) -> Result<Option<Snapshot>, StoreError> {
        let log = LogName::clone(&self.log);
        let StoreAnswer::Snapshot(snapshot) = self.order(StoreOrder::ReadSnapshot { log }).await? else {
            return Err(UNEXPECTED);
        };
        Ok(snapshot)
    }

    async fn append(
        &mut self,
        expected: Sequence,
        records: Vec<Bytes>,
        _: AppendPurpose,
    ) -> Result<(), StoreError> {
        let order = StoreOrder::Append {
            log: LogName::clone(&self.log),
            token: self.token,
            expected,
            records,
        };
        let StoreAnswer::Appended { .. } = self.order(order).await? else {
            return Err(UNEXPECTED);
        };
        Ok(())
    }

    async fn keep(&mut self, through: Sequence, state: Bytes) -> Result<(), StoreError> {
        let order = StoreOrder::Snapshot {
            log: LogName::clone(&self.log),
            token: self.token,
            through,
            state,
        };
        let StoreAnswer::Kept = self.order(order).await? else {
            return Err(UNEXPECTED);
        };
        Ok(())
    }

    async fn delete(&mut self, through: Sequence) -> Result<(), StoreError> {
        let order = StoreOrder::DeleteRange {
            log: LogName::clone(&self.log),
            token: self.token,
            through,
        };
        let StoreAnswer::Deleted = self.order(order).await? else {
            return Err(UNEXPECTED);
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{SharedMemoryStore, Stores};
    use crate::testing::block_on;

    fn journal(stores: &Stores, placement: Option<Token>) -> AtomicJournal {
        AtomicJournal::new(stores.access().unwrap(), "counter/7".into(), placement)
    }

    #[test]
    fn s_10_7_a_counted_token_is_taken_above_the_one_held_and_a_placed_one_is_not_raised() {
        let stores = Stores::start(Box::new(SharedMemoryStore::new()), std::sync::Arc::default()).unwrap();
        let record = || vec![Bytes::from(&b"x"[..])];
        let mut first = journal(&stores, None);
        block_on(first.open()).unwrap();
        block_on(first.append(0, record(), AppendPurpose::Keep)).unwrap();
        let mut second = journal(&stores, None);
        assert_eq!(block_on(second.open()).unwrap().last, 1);
        assert!(block_on(first.append(1, record(), AppendPurpose::Keep)).is_err_and(StoreError::is_refusal));
        assert_eq!(first.token, FIRST);
        assert_eq!(second.token, Token::new(0, 2));
        assert!(
            block_on(second.open()).is_ok(),
            "the same incarnation repeats itself"
        );

        // Whoever was given its place has a token above all that the store has counted.
        let mut placed = journal(&stores, Some(Token::new(1, 1)));
        assert_eq!(block_on(placed.open()).unwrap().last, 1);
        assert!(block_on(second.append(1, record(), AppendPurpose::Keep)).is_err_and(StoreError::is_refusal));
        // The entity ends and begins again there.
        let mut again = journal(&stores, Some(Token::new(1, 1)));
        block_on(again.open()).unwrap();
        assert!(block_on(placed.append(1, record(), AppendPurpose::Keep)).is_err_and(StoreError::is_refusal));
        let mut newer = journal(&stores, Some(Token::new(1, 2)));
        block_on(newer.open()).unwrap();
        let held = Token::new(1, 2).opened();
        assert_eq!(
            block_on(again.open()),
            Err(StoreError::Fenced { held }),
            "it was replaced"
        );
        assert!(block_on(again.append(1, record(), AppendPurpose::Keep)).is_err_and(StoreError::is_refusal));
        block_on(newer.append(1, record(), AppendPurpose::Keep)).unwrap();
        // Where homes are stored no more, the store goes on counting above them.
        let mut unplaced = journal(&stores, None);
        assert_eq!(block_on(unplaced.open()).unwrap().last, 2);
        assert_eq!(unplaced.token, held.next());
        assert!(block_on(newer.append(2, record(), AppendPurpose::Keep)).is_err_and(StoreError::is_refusal));
        block_on(journal(&stores, Some(Token::new(2, 1))).open()).unwrap();
    }
}
