//! How logs are emptied in one node's store while nothing runs: what to ask the store. Never touches other
//! logs, and keeps what was promised, so that a voter whose log was emptied still refuses what it has
//! refused. Spec: sharding 1.9, 10.7.
//!
//! A log is empty once it is so in the stores of a majority of the voters, and stays so once it is in all: of
//! stores that disagree the next opener takes what one of them holds.
//!
//! Of many logs most are in no store, so the store is asked for ranges of them. It cannot say whose a head is
//! that it cannot read: then the range is halved until one log is left.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::layout::{end_key, head_key, item_key, parse, value};
use super::protocol::NUMBER_MAX;
use super::state::{LogPlace, ReplicaHead};
use crate::store::limits::ANSWER_BYTES_MAX;
use crate::store::{Bytes, Change, LogName, Outcome, StoreAnswer, StoreError, StoreOrder};
use crate::token::Token;

/// Empties these logs: has the store asked first which of them it holds anything of, and then to remove that,
/// damaged or not. All orders are in the space of [`crate::owner::Requester::Journal`].
#[derive(Clone, Debug)]
pub struct Erasure {
    /// In the order of their keys.
    logs: Vec<(Bytes, LogName)>,
    /// Which of them are to be asked for, the next one first: never none in one range, and only logs whose
    /// names are equally long, so that the keys of a kind's shards stand together.
    unknown: VecDeque<Range<usize>>,
    removals: Vec<StoreOrder>,
    /// What was promised above this term is forgotten too.
    term_max: u64,
}

impl Erasure {
    /// Of these logs. Those whose names differ in their last bytes only are asked for together.
    #[must_use]
    pub fn of(logs: impl IntoIterator<Item = LogName>) -> Self {
        let with_key = |log: LogName| (head_key(&log), log);
        let mut logs: Vec<(Bytes, LogName)> = logs.into_iter().map(with_key).collect();
        logs.sort_unstable();
        let mut unknown = VecDeque::new();
        let mut start = 0;
        for alike in logs.chunk_by(|(_, one), (_, other)| one.len() == other.len()) {
            unknown.push_back(start..start + alike.len());
            start += alike.len();
        }
        Self {
            logs,
            unknown,
            removals: Vec::new(),
            term_max: u64::MAX,
        }
    }

    /// Lowers what was promised above this term to it as well: for terms that no owner of the logs can have
    /// taken.
    #[must_use]
    pub fn down_to(mut self, term: u64) -> Self {
        self.term_max = term;
        self
    }

    /// What to ask the store next; `None` once it is known what it holds.
    #[must_use]
    pub fn ask(&self) -> Option<StoreOrder> {
        let logs = self.logs.get(self.unknown.front()?.clone())?;
        let ((first, _), (last, _)) = (logs.first()?, logs.last()?);
        Some(if logs.len() == 1 {
            let key = Bytes::clone(first);
            StoreOrder::Read { key }
        } else {
            StoreOrder::Range {
                from: Bytes::clone(first),
                to: Some(behind(last)),
                bytes_max: ANSWER_BYTES_MAX,
            }
        })
    }

    /// What the store has answered to [`Erasure::ask`].
    ///
    /// # Errors
    /// The store has failed, or answers something else.
    pub fn on_answer(&mut self, answer: &Outcome) -> Result<(), StoreError> {
        let Some(asked) = self.unknown.pop_front() else {
            return Ok(());
        };
        if asked.len() == 1 {
            let log = self.logs.get(asked.start).map(|(_, log)| LogName::clone(log));
            let removal = log.map(|log| removal(&log, answer, self.term_max)).transpose()?;
            self.removals.extend(removal.flatten());
            return Ok(());
        }
        let (items, more) = match answer {
            Ok(StoreAnswer::Items { items, more }) => (items.as_slice(), *more),
            Err(StoreError::Corrupt) => (&[] as &[_], true),
            Ok(_) => return Err(StoreError::Corrupt),
            Err(error) => return Err(*error),
        };
        for (key, head) in items {
            let found = self.logs.binary_search_by(|(log, _)| log.cmp(key));
            if let Some((_, log)) = found.ok().and_then(|found| self.logs.get(found)) {
                let head = Ok(StoreAnswer::Value(Some(Bytes::clone(head))));
                self.removals.extend(removal(log, &head, self.term_max)?);
            }
        }
        if more {
            self.go_on(asked, items.last().map(|(key, _)| key));
        }
        Ok(())
    }

    /// Asks for the rest of a range; where nothing of it came, for either half.
    fn go_on(&mut self, asked: Range<usize>, last: Option<&Bytes>) {
        let rest = last.map_or(asked.start, |last| {
            self.logs.partition_point(|(key, _)| key <= last)
        });
        if rest > asked.start {
            if rest < asked.end {
                self.unknown.push_front(rest..asked.end);
            }
            return;
        }
        let middle = asked.start + asked.len() / 2;
        self.unknown.push_front(middle..asked.end);
        self.unknown.push_front(asked.start..middle);
    }

    /// What removes all that the store holds of the logs: one order for each of which it holds anything.
    /// Complete once there is nothing to ask.
    #[must_use]
    pub fn removals(&self) -> &[StoreOrder] {
        &self.removals
    }
}

/// What asks a store what it has promised for a log, in the space of [`crate::owner::Requester::Journal`].
#[must_use]
pub fn ask_head(log: &str) -> StoreOrder {
    let key = head_key(log);
    StoreOrder::Read { key }
}

/// What lowers the promise that a store answered with to `term`; `None` if it promised no term above that.
/// The log's entries stay: of what was accepted with a higher token nothing is known by this.
///
/// # Errors
/// The store has failed, or what it holds cannot be read.
pub fn lower_head(log: &str, answer: &Outcome, term: u64) -> Result<Option<StoreOrder>, StoreError> {
    let head = match answer {
        Ok(StoreAnswer::Value(None)) => return Ok(None),
        Ok(StoreAnswer::Value(Some(value))) => {
            parse::<ReplicaHead>(value).map_err(|_| StoreError::Corrupt)?
        }
        Ok(_) => return Err(StoreError::Corrupt),
        Err(error) => return Err(*error),
    };
    let change = Change::Put {
        key: head_key(log),
        value: value(&lowered(head, term)),
    };
    let batch = vec![change];
    Ok((head.promise.term > term).then_some(StoreOrder::Write { batch }))
}

/// A head that has promised no term above this one.
fn lowered(head: ReplicaHead, term: u64) -> ReplicaHead {
    ReplicaHead {
        promise: head.promise.min(Token::new(term, NUMBER_MAX)),
        ..head
    }
}

/// The first key that stands behind this one.
fn behind(key: &[u8]) -> Bytes {
    let mut behind = key.to_vec();
    behind.push(0);
    Arc::from(behind)
}

/// Removes all that the store holds of a log, whose head it was asked for. What cannot be read is removed
/// too, and then the store has promised nothing for this log any more. `None`: it holds nothing.
fn removal(log: &str, head: &Outcome, term_max: u64) -> Result<Option<StoreOrder>, StoreError> {
    let head = match head {
        Ok(StoreAnswer::Value(None)) => return Ok(None),
        Ok(StoreAnswer::Value(Some(value))) => parse::<ReplicaHead>(value).ok(),
        Err(StoreError::Corrupt) => None,
        Ok(_) => return Err(StoreError::Corrupt),
        Err(error) => return Err(*error),
    };
    let key = head_key(log);
    let change = match head {
        Some(head) => Change::Put {
            key,
            value: value(&ReplicaHead {
                snapshot: None,
                ..lowered(head, term_max)
            }),
        },
        None => Change::Delete { key },
    };
    let entries = Change::DeleteRange {
        from: item_key(log, LogPlace::START),
        to: Some(end_key(log)),
    };
    Ok(Some(StoreOrder::Write {
        batch: vec![entries, change],
    }))
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;
    use alloc::format;

    use super::*;
    use crate::journal::state::SnapshotHead;
    use crate::owner::Requester;
    use crate::sharding::remembered_logs;
    use crate::store::memory::MemoryMap;

    fn put(map: &mut MemoryMap, key: Bytes, value: Bytes) {
        let batch = vec![Change::Put { key, value }];
        map.obey(Requester::Journal.space(), &StoreOrder::Write { batch })
            .unwrap();
    }

    fn read(map: &mut MemoryMap, key: Bytes) -> Option<Bytes> {
        match map.obey(Requester::Journal.space(), &StoreOrder::Read { key }) {
            Ok(StoreAnswer::Value(value)) => value,
            other => panic!("{other:?}"),
        }
    }

    /// Empties these logs: of how many the store held anything, and how many questions that took.
    fn erase(map: &mut MemoryMap, logs: impl IntoIterator<Item = LogName>) -> (usize, usize) {
        let mut erasure = Erasure::of(logs);
        let mut questions = 0;
        while let Some(question) = erasure.ask() {
            erasure
                .on_answer(&map.obey(Requester::Journal.space(), &question))
                .unwrap();
            questions += 1;
            assert!(questions < 200_000, "it comes to an end");
        }
        for order in erasure.removals() {
            map.obey(Requester::Journal.space(), order).unwrap();
        }
        (erasure.removals().len(), questions)
    }

    fn one(log: &str) -> [LogName; 1] {
        [LogName::from(log)]
    }

    /// A log `a`, and one whose name begins with its name.
    fn two_logs(head_of_a: Bytes) -> MemoryMap {
        let mut map = MemoryMap::new();
        put(&mut map, head_key("a"), head_of_a);
        for log in ["a", "ab"] {
            put(
                &mut map,
                item_key(log, LogPlace::Part(0)),
                Bytes::from([1].as_slice()),
            );
            put(
                &mut map,
                item_key(log, LogPlace::Entry(7)),
                Bytes::from([2].as_slice()),
            );
        }
        map
    }

    #[test]
    fn an_emptied_log_holds_its_promise_and_other_logs_hold_everything() {
        let head = ReplicaHead {
            promise: Token::new(9, 1),
            opener: 5,
            snapshot: None,
        };
        let mut map = two_logs(value(&head));
        assert_eq!(erase(&mut map, one("a")), (1, 1));
        assert_eq!(read(&mut map, head_key("a")), Some(value(&head)));
        for place in [LogPlace::Part(0), LogPlace::Entry(7)] {
            assert_eq!(read(&mut map, item_key("a", place)), None);
            assert!(read(&mut map, item_key("ab", place)).is_some());
        }
        assert_eq!(erase(&mut map, one("ab")), (0, 1), "no owner ever came");
    }

    #[test]
    fn a_promise_that_cannot_be_read_goes_too() {
        let mut map = two_logs(Bytes::from([1, 2, 3].as_slice()));
        assert_eq!(erase(&mut map, one("a")), (1, 1));
        assert_eq!(read(&mut map, head_key("a")), None);
        assert_eq!(read(&mut map, item_key("a", LogPlace::Entry(7))), None);
        for failed in [Err(StoreError::Unavailable), Ok(StoreAnswer::Written)] {
            for logs in [&["a"] as &[&str], &["a", "b"]] {
                let mut erasure = Erasure::of(logs.iter().copied().map(LogName::from));
                assert!(erasure.on_answer(&failed).is_err());
            }
        }
    }

    /// These have heads that cannot be read. One log has a head already.
    fn with_damaged_heads(map: &mut MemoryMap, logs: &[&str]) {
        let known = head_key("/sharding/alarm/shards");
        let mut keys = map.entries().map(|(key, _)| key);
        let full = keys.find(|key| key.ends_with(&known)).expect("it has a head");
        let space = full[..full.len() - known.len()].to_vec();
        drop(keys);
        for log in logs {
            let key = [&space[..], &head_key(log)].concat();
            map.damage(&key, vec![0xEE; 40]);
        }
    }

    const KINDS: [&str; 3] = ["alar", "alarm", "alarms"];

    /// Every log of three kinds with logs of some shards, and one that lies between those of a kind.
    fn three_kinds(up_to: u32) -> (MemoryMap, Vec<LogName>) {
        let head = ReplicaHead {
            promise: Token::new(9, 1),
            opener: 5,
            snapshot: Some(SnapshotHead {
                through: 3,
                covers: 3,
                token: Token::new(9, 1),
                parts: 1,
            }),
        };
        let many = (0..2_000).step_by(2).chain(20_000..up_to).chain([65_535]);
        let few = [0, 7, 11, 30_000];
        let of_kind = |kind| {
            let shards: Vec<u32> = if kind == "alarm" {
                many.clone().collect()
            } else {
                few.to_vec()
            };
            let shards = shards
                .into_iter()
                .map(move |shard| format!("/sharding/{kind}/shard/{shard}"));
            shards.chain([format!("/sharding/{kind}/shards")])
        };
        let between = ["/sharding/alarm/shard/3x1".to_owned()];
        let logs = KINDS.into_iter().flat_map(of_kind).chain(between);
        let logs: Vec<LogName> = logs.map(LogName::from).collect();
        let mut map = MemoryMap::new();
        for log in &logs {
            put(&mut map, head_key(log), value(&head));
            for place in [LogPlace::Part(0), LogPlace::Entry(7)] {
                put(&mut map, item_key(log, place), Bytes::from([1].as_slice()));
            }
        }
        (map, logs)
    }

    #[test]
    fn of_a_kind_all_logs_are_emptied_and_of_others_none() {
        // More heads than one answer has.
        let (mut map, logs) = three_kinds(34_000);
        let (emptied, questions) = erase(&mut map, remembered_logs("alarm"));
        assert_eq!(emptied, 15_002);
        assert!(questions < 20, "{questions}: not one for each of 65,537 logs");
        for log in &logs {
            let is_kept = !log.starts_with("/sharding/alarm/") || log.ends_with("3x1");
            for place in [LogPlace::Part(0), LogPlace::Entry(7)] {
                let item = read(&mut map, item_key(log, place));
                assert_eq!(item.is_some(), is_kept, "{log}");
            }
            let head = read(&mut map, head_key(log)).and_then(|head| parse::<ReplicaHead>(&head).ok());
            let head = head.expect("what was promised stays");
            assert_eq!((head.promise, head.opener), (Token::new(9, 1), 5), "{log}");
            assert_eq!(head.snapshot.is_some(), is_kept, "{log}");
        }
        assert_eq!(erase(&mut MemoryMap::new(), remembered_logs("alarm")), (0, 6));
    }

    #[test]
    fn heads_that_cannot_be_read_are_found_among_many_and_go() {
        let damaged = [
            "/sharding/alarm/shard/0",
            "/sharding/alarm/shard/10",
            "/sharding/alarm/shard/1000",
            "/sharding/alarm/shard/1001",
            "/sharding/alarm/shard/20444",
            "/sharding/alarm/shard/65535",
            "/sharding/alarm/shards",
        ];
        let (mut map, logs) = three_kinds(21_000);
        with_damaged_heads(&mut map, &damaged);
        // That of an odd shard was none before.
        let (emptied, questions) = erase(&mut map, remembered_logs("alarm"));
        assert_eq!(emptied, 2_003);
        assert!(questions < 300, "{questions}: about twice 16 for each of seven");
        for log in logs.iter().filter(|log| log.starts_with("/sharding/alarm/")) {
            let is_kept = log.ends_with("3x1");
            let items =
                [LogPlace::Part(0), LogPlace::Entry(7)].map(|place| read(&mut map, item_key(log, place)));
            assert_eq!(items.map(|item| item.is_some()), [is_kept; 2], "{log}");
            let has_head = read(&mut map, head_key(log)).is_some();
            assert_eq!(has_head, !damaged.contains(&&**log), "{log}");
        }
        assert_eq!(erase(&mut map, remembered_logs("alarm")).0, 1_996);
    }

    #[test]
    fn a_damaged_head_between_those_of_a_kind_keeps_none_of_them() {
        let (mut map, _) = three_kinds(21_000);
        with_damaged_heads(&mut map, &["/sharding/alarm/shard/3x1"]);
        assert_eq!(erase(&mut map, remembered_logs("alarm")).0, 2_002);
    }

    #[test]
    fn a_store_that_answers_beside_the_question_is_asked_for_each() {
        let logs = ["a", "b", "c"].map(LogName::from);
        let mut erasure = Erasure::of(logs);
        let outside = (head_key("A"), Bytes::from([1].as_slice()));
        let items = Ok(StoreAnswer::Items {
            items: vec![outside],
            more: true,
        });
        let mut single = 0;
        for _ in 0..20 {
            match erasure.ask() {
                Some(StoreOrder::Range { .. }) => erasure.on_answer(&items).unwrap(),
                Some(_) => {
                    single += 1;
                    erasure.on_answer(&Ok(StoreAnswer::Value(None))).unwrap();
                }
                None => break,
            }
        }
        assert_eq!((single, erasure.ask(), erasure.removals().len()), (3, None, 0));
    }

    #[test]
    fn i_100_a_log_that_is_emptied_down_to_a_term_has_promised_no_higher_one() {
        let absurd = ReplicaHead {
            promise: Token::new(u64::MAX >> 16, 1),
            opener: 9,
            snapshot: None,
        };
        for (term_max, promise) in [(7, Token::new(7, NUMBER_MAX)), (u64::MAX, absurd.promise)] {
            let mut map = two_logs(value(&absurd));
            let mut erasure = Erasure::of(one("a")).down_to(term_max);
            while let Some(question) = erasure.ask() {
                let answer = map.obey(Requester::Journal.space(), &question);
                erasure.on_answer(&answer).unwrap();
            }
            for order in erasure.removals() {
                map.obey(Requester::Journal.space(), order).unwrap();
            }
            let head = read(&mut map, head_key("a")).unwrap();
            assert_eq!(parse::<ReplicaHead>(&head).unwrap().promise, promise);
        }
    }

    #[test]
    fn i_100_the_promise_of_a_log_is_lowered_and_its_entries_stay() {
        let head = |term| ReplicaHead {
            promise: Token::new(term, 1),
            opener: 9,
            snapshot: None,
        };
        let mut map = two_logs(value(&head(u64::MAX >> 16)));
        for (log, term, lowers) in [("a", 7, true), ("a", 7, false), ("none", 7, false)] {
            let answer = map.obey(Requester::Journal.space(), &ask_head(log));
            let order = lower_head(log, &answer, term).unwrap();
            assert_eq!(order.is_some(), lowers, "{log}");
            if let Some(order) = order {
                map.obey(Requester::Journal.space(), &order).unwrap();
            }
        }
        let lowered = parse::<ReplicaHead>(&read(&mut map, head_key("a")).unwrap()).unwrap();
        assert_eq!(lowered.promise, Token::new(7, NUMBER_MAX));
        assert!(read(&mut map, item_key("a", LogPlace::Entry(7))).is_some());
    }
}
