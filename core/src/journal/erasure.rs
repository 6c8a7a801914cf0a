//! How a log is emptied in one node's store while nothing runs: what to ask the store. Never touches other logs, and keeps what was
//! promised, so that a voter whose log was emptied still refuses what it has refused. Spec: sharding 1.9, 10.7.
//!
//! A log is empty once it is so in the stores of a majority of the voters, and stays so once it is in all: of stores that disagree the
//! next opener takes what one of them holds.

use alloc::vec;

use super::layout::{Head, end_key, head_key, item_key};
use super::state::Place;
use crate::store::{Change, Outcome, StoreAnswer, StoreError, StoreOrder};

/// The first thing to ask, in the space of [`crate::owner::Owner::Journal`].
#[must_use]
pub fn ask(log: &str) -> StoreOrder {
    StoreOrder::Read { key: head_key(log) }
}

/// What to ask next: removes all that the store holds of the log. What cannot be read is removed too, and then the store has promised
/// nothing for this log any more. `None`: it holds nothing.
///
/// # Errors
/// The store has failed.
pub fn erase(log: &str, answer: &Outcome) -> Result<Option<StoreOrder>, StoreError> {
    let head = match answer {
        Ok(StoreAnswer::Value(None)) => return Ok(None),
        Ok(StoreAnswer::Value(Some(value))) => Head::parse(value).ok(),
        Err(StoreError::Corrupt) => None,
        Ok(_) => return Err(StoreError::Corrupt),
        Err(error) => return Err(*error),
    };
    let key = head_key(log);
    let change = match head {
        Some(head) => Change::Put {
            key,
            value: Head {
                snapshot: None,
                ..head
            }
            .to_bytes(),
        },
        None => Change::Delete { key },
    };
    let entries = Change::DeleteRange {
        from: item_key(log, Place::START),
        to: Some(end_key(log)),
    };
    Ok(Some(StoreOrder::Write {
        batch: vec![entries, change],
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::Owner;
    use crate::store::Bytes;
    use crate::store::memory::MemoryMap;
    use crate::token::Token;

    fn put(map: &mut MemoryMap, key: Bytes, value: Bytes) {
        let batch = vec![Change::Put { key, value }];
        map.obey(Owner::Journal.space(), &StoreOrder::Write { batch })
            .unwrap();
    }

    fn read(map: &mut MemoryMap, key: Bytes) -> Option<Bytes> {
        match map.obey(Owner::Journal.space(), &StoreOrder::Read { key }) {
            Ok(StoreAnswer::Value(value)) => value,
            other => panic!("{other:?}"),
        }
    }

    fn erase_all(map: &mut MemoryMap, log: &str) -> bool {
        let answer = map.obey(Owner::Journal.space(), &ask(log));
        let order = erase(log, &answer).unwrap();
        order.is_some_and(|order| map.obey(Owner::Journal.space(), &order).is_ok())
    }

    /// A log `a`, and one whose name begins with its name.
    fn two_logs(head_of_a: Bytes) -> MemoryMap {
        let mut map = MemoryMap::new();
        put(&mut map, head_key("a"), head_of_a);
        for log in ["a", "ab"] {
            put(
                &mut map,
                item_key(log, Place::Part(0)),
                Bytes::from([1].as_slice()),
            );
            put(
                &mut map,
                item_key(log, Place::Entry(7)),
                Bytes::from([2].as_slice()),
            );
        }
        map
    }

    #[test]
    fn an_emptied_log_holds_its_promise_and_other_logs_hold_everything() {
        let head = Head {
            promise: Token::new(9, 1),
            opener: 5,
            snapshot: None,
        };
        let mut map = two_logs(head.to_bytes());
        assert!(erase_all(&mut map, "a"));
        assert_eq!(read(&mut map, head_key("a")), Some(head.to_bytes()));
        for place in [Place::Part(0), Place::Entry(7)] {
            assert_eq!(read(&mut map, item_key("a", place)), None);
            assert!(read(&mut map, item_key("ab", place)).is_some());
        }
        assert!(!erase_all(&mut map, "ab"), "no owner ever came");
    }

    #[test]
    fn a_promise_that_cannot_be_read_goes_too() {
        let mut map = two_logs(Bytes::from([1, 2, 3].as_slice()));
        assert!(erase_all(&mut map, "a"));
        assert_eq!(read(&mut map, head_key("a")), None);
        assert_eq!(read(&mut map, item_key("a", Place::Entry(7))), None);
        let damaged = Err(StoreError::Corrupt);
        assert!(matches!(erase("a", &damaged), Ok(Some(StoreOrder::Write { .. }))));
        let failed = Err(StoreError::Unavailable);
        assert_eq!(erase("a", &failed), Err(StoreError::Unavailable));
    }
}
