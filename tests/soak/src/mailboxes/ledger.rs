//! What was sent, kept and handled, by what processes said of it. Trusts neither the store nor numbers that
//! mailboxes give, but the one clock of the machine. Knows no process.

use std::collections::BTreeMap;
use std::fmt;

use crate::ending::Judged;
use crate::ledger::line;

/// A message: to which slot, by whom, and its number.
pub(super) type Key = (u64, u64, u64);

/// That an instance has begun with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handled {
    pub(super) at: u64,
    /// What the mailbox calls it.
    pub(super) number: u64,
    pub(super) is_repeated: bool,
}

/// What became of a message.
#[derive(Debug, Default)]
struct Message {
    is_kept: bool,
    is_refused: bool,
    handled: Vec<Handled>,
}

/// Everything that was said.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    messages: BTreeMap<Key, Message>,
    pub(super) kept: u64,
    /// Kept and not handled so far.
    pub(super) open: u64,
}

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) sent: u64,
    pub(super) kept: u64,
    /// Messages that were kept, as their senders heard, and never handled.
    pub(super) lost: u64,
    /// Messages that were kept, and handled before one with a lower number of their sender to their slot.
    pub(super) reordered: u64,
    /// How often one was handled again.
    pub(super) repeated: u64,
    /// How often that was not marked, or under another number.
    pub(super) unmarked: u64,
    /// How often it was not the one that was handled last in its slot.
    pub(super) stale: u64,
    /// Messages that were handled although they were refused.
    pub(super) denied: u64,
    pub(super) kills: u64,
    /// Why the work did not go on.
    pub(super) stuck: Option<String>,
}

impl Ledger {
    pub(super) fn on_sent(&mut self, key: Key) {
        self.messages.entry(key).or_default();
    }

    pub(super) fn on_kept(&mut self, key: Key) {
        let message = self.messages.entry(key).or_default();
        message.is_kept = true;
        self.kept += 1;
        self.open += u64::from(message.handled.is_empty());
    }

    pub(super) fn on_refused(&mut self, key: Key) {
        self.messages.entry(key).or_default().is_refused = true;
    }

    pub(super) fn on_handled(&mut self, key: Key, handled: Handled) {
        let message = self.messages.entry(key).or_default();
        self.open -= u64::from(message.is_kept && message.handled.is_empty());
        message.handled.push(handled);
    }

    /// Holds everything against what is promised.
    pub(super) fn judge(&self) -> Verdict {
        let mut verdict = Verdict {
            sent: self.messages.len() as u64,
            kept: self.kept,
            ..Verdict::default()
        };
        let mut by_slot = BTreeMap::<u64, Vec<(Handled, Key)>>::new();
        let mut last = None;
        for (key, message) in &self.messages {
            verdict.lost += u64::from(message.is_kept && message.handled.is_empty());
            verdict.denied += u64::from(message.is_refused && !message.handled.is_empty());
            let all = message.handled.iter().map(|handled| (*handled, *key));
            by_slot.entry(key.0).or_default().extend(all);
            let first = message.handled.iter().map(|handled| handled.at).min();
            if let Some(at) = first.filter(|_| message.is_kept) {
                let from = (key.0, key.1);
                let before = last.filter(|(same, _)| *same == from).map(|(_, at)| at);
                verdict.reordered += u64::from(before.is_some_and(|before| at < before));
                last = Some((from, before.map_or(at, |before| before.max(at))));
            }
        }
        for mut all in by_slot.into_values() {
            all.sort_by_key(|(handled, _)| handled.at);
            let mut numbers = BTreeMap::new();
            let mut before = None;
            for (handled, key) in all {
                if let Some(number) = numbers.insert(key, handled.number) {
                    verdict.repeated += 1;
                    verdict.unmarked += u64::from(!handled.is_repeated || number != handled.number);
                    verdict.stale += u64::from(before != Some(key));
                }
                before = Some(key);
            }
        }
        verdict
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sent, kept, lost, .. } = self;
        let (reordered, repeated, kills) = (self.reordered, self.repeated, self.kills);
        write!(f, "{sent} messages, {kept} kept; {lost} lost, {reordered} late, ")?;
        write!(f, "{repeated} repeated; {kills} kills")
    }
}

impl Judged for Verdict {
    fn fault(&self) -> Option<String> {
        let faults = [
            ("lost", self.lost),
            ("late", self.reordered),
            ("repeated without a mark", self.unmarked),
            ("repeated, and not the last", self.stale),
            ("handled although they were refused", self.denied),
        ];
        let faults = faults.into_iter().filter(|(_, count)| *count > 0);
        let mut faults: Vec<String> = faults.map(|(what, count)| format!("{count} {what}")).collect();
        faults.extend(
            self.stuck
                .iter()
                .map(|why| format!("the work did not go on: {why}")),
        );
        (!faults.is_empty()).then(|| faults.join(", "))
    }

    fn json(&self) -> String {
        line(&[
            ("sent", &self.sent),
            ("kept", &self.kept),
            ("lost", &self.lost),
            ("reordered", &self.reordered),
            ("repeated", &self.repeated),
            ("unmarked", &self.unmarked),
            ("stale", &self.stale),
            ("denied", &self.denied),
            ("kills", &self.kills),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn handled(at: u64, number: u64, is_repeated: bool) -> Handled {
        Handled {
            at,
            number,
            is_repeated,
        }
    }

    /// Four messages of one sender to one slot, handled as it should be.
    fn ledger() -> Ledger {
        let mut ledger = Ledger::default();
        for number in 1..=4 {
            ledger.on_sent((0, 7, number));
            ledger.on_kept((0, 7, number));
            ledger.on_handled((0, 7, number), handled(number * 10, number, false));
        }
        ledger.on_sent((0, 7, 5));
        ledger
    }

    #[test]
    fn what_was_kept_has_to_be_handled_and_the_last_one_may_be_repeated_if_it_is_marked() {
        let mut ledger = ledger();
        ledger.on_handled((0, 7, 4), handled(45, 4, true));
        let verdict = ledger.judge();
        assert_eq!((verdict.fault(), verdict.repeated, ledger.open), (None, 1, 0));
        assert_eq!((verdict.sent, verdict.kept), (5, 4));
        ledger.on_kept((0, 7, 5));
        assert_eq!(
            (ledger.judge().fault(), ledger.open),
            (Some("1 lost".to_owned()), 1)
        );
    }

    #[test]
    fn every_way_to_break_a_promise_is_a_fault() {
        let fault = |change: fn(&mut Ledger)| {
            let mut ledger = ledger();
            change(&mut ledger);
            ledger.judge().fault().unwrap_or_default()
        };
        assert_eq!(
            fault(|ledger| ledger.on_handled((0, 7, 4), handled(45, 4, false))),
            "1 repeated without a mark"
        );
        assert_eq!(
            fault(|ledger| ledger.on_handled((0, 7, 4), handled(45, 9, true))),
            "1 repeated without a mark"
        );
        assert_eq!(
            fault(|ledger| ledger.on_handled((0, 7, 3), handled(45, 3, true))),
            "1 repeated, and not the last"
        );
        assert_eq!(
            fault(|ledger| {
                ledger.on_kept((0, 7, 5));
                ledger.on_handled((0, 7, 5), handled(35, 5, false));
            }),
            "1 late"
        );
        assert_eq!(
            fault(|ledger| {
                ledger.on_refused((0, 7, 5));
                ledger.on_handled((0, 7, 5), handled(55, 5, false));
            }),
            "1 handled although they were refused"
        );
    }

    #[test]
    fn the_line_has_the_names_that_are_promised() {
        let verdict = Verdict {
            stuck: Some("nobody answers".to_owned()),
            ..Verdict::default()
        };
        assert!(verdict.fault().is_some());
        let line =
            r#"{"sent":0,"kept":0,"lost":0,"reordered":0,"repeated":0,"unmarked":0,"stale":0,"denied":0,"#;
        assert_eq!(verdict.json(), format!(r#"{line}"kills":0}}"#));
    }
}
