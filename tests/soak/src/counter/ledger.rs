//! What clients sent and were told, held against what the counters say at the end, and what an earlier run
//! left behind. Trusts neither the entities nor the store. Knows no process.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::ending::Judged;
use crate::ledger::{Counts, line};

/// What a counter says: its value, and the commands that have counted, ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) value: i64,
    pub(super) changes: u64,
}

/// All counters, by their number.
pub(super) type Readings = BTreeMap<u64, Reading>;

#[derive(Clone, Copy, Debug, Default)]
struct Line {
    sent: u64,
    acknowledged: u64,
    /// The sum of what was sent.
    sum: i64,
}

/// Everything that was said.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    base: Readings,
    lines: BTreeMap<u64, Line>,
    pub(super) counts: Counts,
    /// What an earlier run's counters lack, and have too much.
    before: (u64, u64),
}

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) counters: u64,
    pub(super) commands: u64,
    pub(super) acknowledged: u64,
    pub(super) lost: u64,
    pub(super) doubled: u64,
    pub(super) passivated: u64,
    /// Incarnations that were refused because a later one owned their log.
    pub(super) fenced: u64,
    pub(super) recovered: u64,
    /// Counters and alarms of which it was known where they lived when all nodes were killed, and how many
    /// lived elsewhere then.
    pub(super) homes: u64,
    pub(super) moved: u64,
    /// Alarms that ran by themselves after that.
    pub(super) alarms: u64,
    pub(super) longest_gap: Duration,
    /// Why the work did not go on.
    pub(super) stuck: Option<String>,
}

impl Ledger {
    /// Begins with what the counters say, and holds that against what an earlier run has left, if there was
    /// one.
    pub(super) fn begin(&mut self, found: Readings, left: Option<&Left>) {
        if let Some(left) = left {
            for (counter, before) in &left.readings {
                let now = found.get(counter).copied().unwrap_or_default();
                self.before.0 += before.changes.saturating_sub(now.changes);
                if left.is_closed {
                    self.before.1 += now.changes.saturating_sub(before.changes);
                    self.before.0 += u64::from(now.changes == before.changes && now.value != before.value);
                }
            }
        }
        self.base = found;
    }

    /// A client sends a command, for the first time.
    pub(super) fn sent(&mut self, counter: u64, by: i64) {
        let line = self.lines.entry(counter).or_default();
        line.sent += 1;
        line.sum += by;
        self.counts.sent += 1;
    }

    /// A client was told that it has counted.
    pub(super) fn acknowledged(&mut self, now: Instant, counter: u64) {
        self.lines.entry(counter).or_default().acknowledged += 1;
        self.counts.acknowledged(now);
    }

    /// Commands that were sent and of which nobody was told that they have counted.
    pub(super) const fn unanswered(&self) -> u64 {
        self.counts.sent.saturating_sub(self.counts.acknowledged)
    }

    /// Holds everything against what the counters say now. A command that was sent and not acknowledged,
    /// because its client was killed, may have counted or not.
    pub(super) fn judge(&self, found: &Readings) -> Verdict {
        let (mut lost, mut doubled) = self.before;
        for (counter, line) in &self.lines {
            let base = self.base.get(counter).copied().unwrap_or_default();
            let now = found.get(counter).copied().unwrap_or_default();
            let least = base.changes + line.acknowledged;
            let most = base.changes + line.sent;
            lost += least.saturating_sub(now.changes);
            doubled += now.changes.saturating_sub(most);
            let is_known = line.sent == line.acknowledged && now.changes == least;
            lost += u64::from(is_known && now.value != base.value + line.sum);
        }
        Verdict {
            counters: found.len() as u64,
            commands: self.counts.sent,
            acknowledged: self.counts.acknowledged,
            lost,
            doubled,
            longest_gap: self.counts.longest_gap,
            ..Verdict::default()
        }
    }
}

impl Judged for Verdict {
    fn fault(&self) -> Option<String> {
        if self.lost > 0 || self.doubled > 0 {
            return Some(format!(
                "{} acknowledged commands are lost, {} have counted twice",
                self.lost, self.doubled
            ));
        }
        if self.moved > 0 {
            return Some(format!(
                "{} of {} homes were not found again",
                self.moved, self.homes
            ));
        }
        self.stuck.clone()
    }

    fn json(&self) -> String {
        line(&[
            ("counters", &self.counters),
            ("commands", &self.commands),
            ("acknowledged", &self.acknowledged),
            ("lost", &self.lost),
            ("doubled", &self.doubled),
            ("passivated", &self.passivated),
            ("fenced", &self.fenced),
            ("recovered", &self.recovered),
            ("homes", &self.homes),
            ("moved", &self.moved),
            ("alarms", &self.alarms),
            ("longest_gap_ms", &self.longest_gap.as_millis()),
        ])
    }
}

/// What a run leaves for the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Left {
    readings: Readings,
    /// It ended in good order: nobody has changed anything since.
    is_closed: bool,
}

impl Left {
    pub(super) const fn new(readings: Readings, is_closed: bool) -> Self {
        Self { readings, is_closed }
    }

    pub(super) fn counters(&self) -> usize {
        self.readings.len()
    }

    /// What stands in the file; `None` without one.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, String> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        let unreadable = || format!("{}: not what a run leaves", path.display());
        let mut lines = text.lines();
        let is_closed = match lines.next() {
            Some("closed") => true,
            Some("open") => false,
            Some(_) | None => return Err(unreadable()),
        };
        let reading = |line: &str| {
            let mut words = line.split(' ');
            let counter = words.next()?.parse().ok()?;
            let (value, changes) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            Some((counter, Reading { value, changes }))
        };
        let readings: Option<Readings> = lines.map(reading).collect();
        let readings = readings.ok_or_else(unreadable)?;
        Ok(Some(Self { readings, is_closed }))
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), String> {
        let mut text = String::from(if self.is_closed { "closed\n" } else { "open\n" });
        for (counter, Reading { value, changes }) in &self.readings {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{counter} {value} {changes}");
        }
        let failed = |error| format!("{}: {error}", path.display());
        // In place at once or not at all.
        let beside = path.with_extension("new");
        fs::write(&beside, text).map_err(failed)?;
        fs::rename(&beside, path).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(all: &[(u64, i64, u64)]) -> Readings {
        let reading = |(counter, value, changes): &(u64, i64, u64)| {
            let (value, changes) = (*value, *changes);
            (*counter, Reading { value, changes })
        };
        all.iter().map(reading).collect()
    }

    fn found(ledger: &Ledger, now: &[(u64, i64, u64)]) -> (u64, u64) {
        let verdict = ledger.judge(&readings(now));
        (verdict.lost, verdict.doubled)
    }

    #[test]
    fn what_was_acknowledged_counts_and_what_was_only_sent_may() {
        let mut ledger = Ledger::default();
        ledger.begin(readings(&[(7, 10, 4)]), None);
        for by in [1, -1, 1] {
            ledger.sent(7, by);
        }
        ledger.acknowledged(Instant::now(), 7);
        ledger.acknowledged(Instant::now(), 7);
        assert_eq!(found(&ledger, &[(7, 10, 6)]), (0, 0));
        assert_eq!(found(&ledger, &[(7, 11, 7)]), (0, 0));
        assert_eq!(found(&ledger, &[(7, 11, 5)]), (1, 0));
        assert_eq!(found(&ledger, &[(7, 12, 9)]), (0, 2));
        assert_eq!(found(&ledger, &[]), (6, 0));
        ledger.acknowledged(Instant::now(), 7);
        assert_eq!(found(&ledger, &[(7, 11, 7)]), (0, 0));
        assert_eq!(found(&ledger, &[(7, 12, 7)]), (1, 0), "another value");
        assert!(ledger.judge(&readings(&[(7, 12, 7)])).fault().is_some());
    }

    #[test]
    fn a_further_run_finds_what_the_last_one_left() {
        let path = std::env::temp_dir().join(format!("quorate-counter-left-{}", std::process::id()));
        assert_eq!(Left::read(&path), Ok(None));
        let closed = Left::new(readings(&[(1, -5, 9), (2, 3, 3)]), true);
        closed.write(&path).unwrap();
        assert_eq!(Left::read(&path).unwrap().as_ref(), Some(&closed));
        let open = Left::new(readings(&[(1, -5, 9)]), false);
        open.write(&path).unwrap();
        assert_eq!(Left::read(&path).unwrap().as_ref(), Some(&open));
        fs::write(&path, "closed\n1 x 2").unwrap();
        assert!(Left::read(&path).is_err());
        fs::remove_file(&path).unwrap();
        let before = |left: &Left, now: &[(u64, i64, u64)]| {
            let mut ledger = Ledger::default();
            ledger.begin(readings(now), Some(left));
            found(&ledger, now)
        };
        assert_eq!(before(&closed, &[(1, -5, 9), (2, 3, 3)]), (0, 0));
        assert_eq!(before(&closed, &[(1, -4, 8), (2, 4, 4)]), (1, 1));
        assert_eq!(before(&closed, &[(1, -4, 9), (2, 3, 3)]), (1, 0));
        assert_eq!(
            before(&open, &[(1, -1, 13)]),
            (0, 0),
            "nobody knows how far it came"
        );
        assert_eq!(before(&open, &[(1, -5, 7)]), (2, 0));
    }
}
