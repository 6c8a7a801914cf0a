//! The book against what was said: no lower token was ever accepted, no token had two instances, and what was
//! acknowledged is there, once, as it was acknowledged. Spec: sharding 10.7.

use std::collections::{BTreeMap, BTreeSet};

use quorate_tokio::Token;
use quorate_tokio::store::Record;

use crate::ledger::Ledger;
use crate::node::name;

/// What was found. All but the first three must be 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Audit {
    pub(crate) instances: usize,
    pub(crate) acknowledged: usize,
    pub(crate) records: usize,
    /// Records, or openings, behind one of a higher token.
    pub(crate) lower_tokens: usize,
    /// Tokens of more than one instance.
    pub(crate) shared_tokens: usize,
    /// Acknowledged, and not there as it was acknowledged.
    pub(crate) missing: usize,
    /// There more than once.
    pub(crate) doubled: usize,
}

impl Audit {
    pub(crate) const fn is_clean(&self) -> bool {
        self.lower_tokens == 0 && self.shared_tokens == 0 && self.missing == 0 && self.doubled == 0
    }

    /// `addresses`: where each node that asked listens.
    pub(crate) fn of(ledger: &Ledger, book: &[Record], addresses: &[String]) -> Self {
        let mut found = Self {
            acknowledged: ledger.answers.len(),
            records: book.len(),
            ..Self::default()
        };
        // The highest token at or before each record.
        let mut highest: BTreeMap<u64, Token> = BTreeMap::new();
        let mut so_far = None;
        for record in book {
            found.lower_tokens += usize::from(so_far.is_some_and(|so_far| record.token < so_far));
            so_far = so_far.max(Some(record.token));
            highest.extend(so_far.map(|so_far| (record.sequence, so_far)));
        }
        let mut holders: BTreeMap<Token, BTreeSet<&str>> = BTreeMap::new();
        for (token, last, instance) in &ledger.opened {
            let before = highest.range(..=*last).next_back();
            found.lower_tokens += usize::from(before.is_some_and(|(_, before)| token < before));
            holders.entry(*token).or_default().insert(instance);
        }
        let at: BTreeMap<u64, &Record> = book.iter().map(|record| (record.sequence, record)).collect();
        for answer in &ledger.answers {
            let Some(token) = answer.token() else {
                found.missing += 1;
                continue;
            };
            holders.entry(token).or_default().insert(&answer.instance);
            let question = name(&addresses[answer.asker], answer.question);
            let is_there =
                |record: &&Record| record.token == token && record.bytes[..] == *question.as_bytes();
            found.missing += usize::from(!at.get(&answer.count).is_some_and(is_there));
        }
        found.instances = holders.values().map(BTreeSet::len).sum();
        found.shared_tokens = holders.values().filter(|instances| instances.len() > 1).count();
        let different: BTreeSet<&[u8]> = book.iter().map(|record| &record.bytes[..]).collect();
        found.doubled = book.len() - different.len();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Answer;

    fn record(sequence: u64, term: u64, question: u64) -> Record {
        Record {
            sequence,
            token: Token::new(term, 1),
            bytes: name("a", question).into_bytes().into(),
        }
    }

    fn ledger(answers: &[(u64, u64, &str)], opened: &[(u64, u64, &str)]) -> Ledger {
        let answer = |(question, count, instance): &(u64, u64, &str)| Answer {
            entity: 0,
            asker: 0,
            question: *question,
            asked: 0,
            handled: 0,
            came: 0,
            count: *count,
            instance: (*instance).to_owned(),
        };
        let open =
            |(term, last, instance): &(u64, u64, &str)| (Token::new(*term, 1), *last, (*instance).to_owned());
        Ledger {
            answers: answers.iter().map(answer).collect(),
            opened: opened.iter().map(open).collect(),
            ..Ledger::default()
        }
    }

    fn audit(ledger: &Ledger, book: &[Record]) -> [usize; 4] {
        let found = Audit::of(ledger, book, &["a".to_owned()]);
        let wrong = [
            found.lower_tokens,
            found.shared_tokens,
            found.missing,
            found.doubled,
        ];
        assert_eq!(found.is_clean(), wrong == [0; 4]);
        wrong
    }

    #[test]
    fn what_follows_in_order_and_is_there_is_right() {
        let book = [record(1, 1, 7), record(2, 1, 8), record(3, 2, 9)];
        let said = ledger(
            &[(7, 1, "x/0@1.1"), (9, 3, "y/0@2.1")],
            &[(1, 0, "x/0@1.1"), (2, 2, "y/0@2.1")],
        );
        assert_eq!(audit(&said, &book), [0; 4]);
        assert_eq!(Audit::of(&said, &book, &["a".to_owned()]).instances, 2);
    }

    #[test]
    fn each_thing_that_must_not_be_is_seen() {
        let none = ledger(&[], &[]);
        assert_eq!(audit(&none, &[record(1, 2, 7), record(2, 1, 8)]), [1, 0, 0, 0]);
        let late = ledger(&[], &[(1, 1, "x/0@1.1")]);
        assert_eq!(audit(&late, &[record(1, 2, 7)]), [1, 0, 0, 0]);
        let shared = ledger(&[], &[(1, 0, "x/0@1.1"), (1, 0, "y/0@1.1")]);
        assert_eq!(audit(&shared, &[]), [0, 1, 0, 0]);
        let beside = ledger(&[(7, 1, "y/0@1.1")], &[(1, 0, "x/0@1.1")]);
        assert_eq!(audit(&beside, &[record(1, 1, 7)]), [0, 1, 0, 0]);
        for (said, book) in [
            ((7, 1, "x/0@1.1"), record(2, 1, 7)),
            ((7, 1, "x/0@1.1"), record(1, 2, 7)),
            ((7, 1, "x/0@1.1"), record(1, 1, 8)),
            ((7, 1, "x/0"), record(1, 1, 7)),
        ] {
            assert_eq!(audit(&ledger(&[said], &[]), &[book]), [0, 0, 1, 0], "{said:?}");
        }
        assert_eq!(audit(&none, &[record(1, 1, 7), record(2, 1, 7)]), [0, 0, 0, 1]);
    }
}
