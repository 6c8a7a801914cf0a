//! What clients were told and what the book accepted, held against what is in the book at the end. Trusts
//! neither the singleton nor the book's own rules. Knows no process and no network.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use quorate_core::token::Token;

use super::book::{Invoice, Reply, Request};
use crate::ending::Judged;
use crate::ledger::{Counts, line};

/// Everything that was said.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Where instances have opened the book, in order.
    pub(super) instances: Vec<(Token, usize)>,
    highest: Token,
    lower_tokens_accepted: u64,
    /// Writes of stale instances that the book refused.
    pub(super) refused: u64,
    /// Numbers as clients were told them.
    numbers: BTreeMap<String, BTreeSet<u64>>,
    pub(super) counts: Counts,
}

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    instances: usize,
    invoices: usize,
    acknowledged: u64,
    /// Acknowledged invoices that the book does not have under their number.
    missing: u64,
    /// Orders with two numbers, and numbers with two orders.
    doubled: u64,
    lower_tokens_accepted: u64,
    /// Writes of stale instances that were refused: one at least was on its way.
    refused: u64,
    longest_gap: Duration,
    /// Why the work did not go on.
    stuck: Option<String>,
}

impl Ledger {
    /// The book has answered an instance.
    pub(super) fn note(&mut self, node: usize, request: &Request, reply: &Reply) {
        match (request, reply) {
            (Request::Open { token, .. }, Reply::Opened { .. }) => {
                self.lower_tokens_accepted += u64::from(*token < self.highest);
                self.highest = self.highest.max(*token);
                self.instances.push((*token, node));
            }
            (Request::Append { token, .. }, Reply::Appended { .. }) => {
                self.lower_tokens_accepted += u64::from(*token < self.highest);
            }
            (_, Reply::Fenced { .. } | Reply::Conflict { .. }) => self.refused += 1,
            (_, _) => {}
        }
    }

    /// A client was told its order's number.
    pub(super) fn acknowledged(&mut self, now: Instant, order: &str, number: u64) {
        self.numbers.entry(order.to_owned()).or_default().insert(number);
        self.counts.acknowledged(now);
    }

    /// Holds everything against the book, in the order of its numbers.
    pub(super) fn judge(&self, invoices: &[Invoice], stuck: Option<String>) -> Verdict {
        let by_number: BTreeMap<u64, &str> = invoices
            .iter()
            .map(|invoice| (invoice.number, &*invoice.order))
            .collect();
        let is_missing =
            |(order, number): &(&String, &u64)| by_number.get(*number).is_none_or(|there| there != *order);
        let told = || {
            self.numbers
                .iter()
                .flat_map(|(order, numbers)| numbers.iter().map(move |number| (order, number)))
        };
        let orders: BTreeSet<&str> = invoices.iter().map(|invoice| &*invoice.order).collect();
        let told_numbers: BTreeSet<&u64> = told().map(|(_, number)| number).collect();
        let twice_in_the_book = invoices.len() - orders.len();
        let twice_told = told().count() - told_numbers.len().min(self.numbers.len());
        let lower = |pair: &&[Invoice]| matches!(pair, [before, after] if after.token < before.token);
        let lower_in_the_book = invoices.windows(2).filter(lower).count();
        Verdict {
            instances: self.instances.len(),
            invoices: invoices.len(),
            acknowledged: self.counts.acknowledged,
            missing: told().filter(is_missing).count() as u64,
            doubled: (twice_in_the_book + twice_told) as u64,
            lower_tokens_accepted: self.lower_tokens_accepted.max(lower_in_the_book as u64),
            refused: self.refused,
            longest_gap: self.counts.longest_gap,
            stuck,
        }
    }
}

impl Judged for Verdict {
    fn fault(&self) -> Option<String> {
        if self.missing > 0 || self.doubled > 0 || self.lower_tokens_accepted > 0 {
            return Some(format!(
                "{} invoices are missing, {} doubled, {} lower tokens accepted",
                self.missing, self.doubled, self.lower_tokens_accepted
            ));
        }
        if let Some(stuck) = &self.stuck {
            return Some(stuck.clone());
        }
        (self.refused == 0).then(|| "no write of a stale instance was refused".to_owned())
    }

    fn json(&self) -> String {
        line(&[
            ("instances", &self.instances),
            ("invoices", &self.invoices),
            ("acknowledged", &self.acknowledged),
            ("missing", &self.missing),
            ("doubled", &self.doubled),
            ("lower_tokens_accepted", &self.lower_tokens_accepted),
            ("longest_gap_ms", &self.longest_gap.as_millis()),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invoice(number: u64, term: u64, order: &str) -> Invoice {
        Invoice {
            number,
            token: Token::new(term, 1),
            order: order.to_owned(),
        }
    }

    fn told(orders: &[(&str, u64)]) -> Ledger {
        let mut ledger = Ledger::default();
        for (order, number) in orders {
            ledger.acknowledged(Instant::now(), order, *number);
        }
        ledger
    }

    fn found(ledger: &Ledger, invoices: &[Invoice]) -> (u64, u64, u64) {
        let verdict = ledger.judge(invoices, None);
        (verdict.missing, verdict.doubled, verdict.lower_tokens_accepted)
    }

    #[test]
    fn what_was_acknowledged_is_there_once_under_its_number() {
        let book = [invoice(1, 1, "a"), invoice(2, 1, "b"), invoice(3, 2, "c")];
        assert_eq!(found(&told(&[("a", 1), ("c", 3)]), &book), (0, 0, 0));
        assert_eq!(
            found(&told(&[("a", 1), ("a", 1)]), &book),
            (0, 0, 0),
            "told again"
        );
        assert_eq!(found(&told(&[("a", 2)]), &book), (1, 0, 0));
        assert_eq!(found(&told(&[("d", 4)]), &book), (1, 0, 0));
        assert_eq!(found(&told(&[("a", 1), ("a", 2)]), &book), (1, 1, 0));
        assert_eq!(found(&told(&[("a", 1), ("b", 1)]), &book), (1, 1, 0));
        let twice = [invoice(1, 1, "a"), invoice(2, 2, "a")];
        assert_eq!(found(&told(&[("a", 1)]), &twice), (0, 1, 0));
    }

    #[test]
    fn a_lower_token_after_a_higher_one_is_seen_whatever_the_book_thinks() {
        let book = [invoice(1, 2, "a"), invoice(2, 1, "b")];
        assert_eq!(found(&told(&[]), &book), (0, 0, 1));
        let mut ledger = told(&[]);
        let open = |term| Request::Open {
            token: Token::new(term, 1),
            opener: 1,
        };
        let append = Request::Append {
            token: Token::new(1, 1),
            expected: 0,
            order: "a".to_owned(),
        };
        ledger.note(0, &open(1), &Reply::Opened { last: 0 });
        ledger.note(1, &open(2), &Reply::Opened { last: 0 });
        let held = Token::new(2, 1);
        assert!(ledger.judge(&[], None).fault().is_some(), "none was refused");
        ledger.note(0, &append, &Reply::Fenced { held });
        assert_eq!(ledger.judge(&[], None).fault(), None);
        let stuck = Some("waited".to_owned());
        assert_eq!(ledger.judge(&[], stuck.clone()).fault(), stuck);
        ledger.note(0, &append, &Reply::Appended { number: 1 });
        assert_eq!(found(&ledger, &[]), (0, 0, 1));
        assert!(ledger.judge(&[], None).fault().is_some());
    }
}
