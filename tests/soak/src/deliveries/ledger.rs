//! What was handed in, acknowledged and handled, by what processes said of it. Trusts neither producers nor
//! queues. Knows no process.

use std::collections::BTreeMap;

use crate::ending::Judged;
use crate::ledger::line;

/// What became of a job.
#[derive(Clone, Copy, Debug, Default)]
struct Job {
    is_acknowledged: bool,
    handled: u64,
}

/// Everything that was said.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// By name: of a client that no other process has, with a number.
    jobs: BTreeMap<String, Job>,
    pub(super) acknowledged: u64,
    /// Acknowledged and not handled so far.
    pub(super) open: u64,
}

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) jobs: u64,
    pub(super) acknowledged: u64,
    pub(super) lost: u64,
    /// How often something was handled once more.
    pub(super) doubled: u64,
    pub(super) kills: u64,
    pub(super) store: &'static str,
    /// Why the work did not go on.
    pub(super) stuck: Option<String>,
}

impl Ledger {
    /// Somebody hands a job in.
    pub(super) fn sent(&mut self, name: &str) {
        self.jobs.entry(name.to_owned()).or_default();
    }

    /// It was taken.
    pub(super) fn took(&mut self, name: &str) {
        let job = self.jobs.entry(name.to_owned()).or_default();
        if !std::mem::replace(&mut job.is_acknowledged, true) {
            self.acknowledged += 1;
            self.open += u64::from(job.handled == 0);
        }
    }

    /// It was handled.
    pub(super) fn handled(&mut self, name: &str) {
        let job = self.jobs.entry(name.to_owned()).or_default();
        if job.handled == 0 && job.is_acknowledged {
            self.open -= 1;
        }
        job.handled += 1;
    }

    pub(super) fn judge(&self) -> Verdict {
        let count = |wanted: fn(&Job) -> u64| self.jobs.values().map(wanted).sum();
        Verdict {
            jobs: self.jobs.len() as u64,
            acknowledged: self.acknowledged,
            lost: count(|job| u64::from(job.is_acknowledged && job.handled == 0)),
            doubled: count(|job| job.handled.saturating_sub(1)),
            ..Verdict::default()
        }
    }
}

impl Judged for Verdict {
    fn fault(&self) -> Option<String> {
        match (self.lost, &self.stuck) {
            (0, None) => None,
            (0, Some(why)) => Some(format!("the work did not go on: {why}")),
            (lost, None) => Some(format!("{lost} acknowledged jobs were never handled")),
            (lost, Some(why)) => Some(format!(
                "{why}; {lost} acknowledged jobs were not handled until then"
            )),
        }
    }

    fn json(&self) -> String {
        line(&[
            ("jobs", &self.jobs),
            ("acknowledged", &self.acknowledged),
            ("lost", &self.lost),
            ("doubled", &self.doubled),
            ("kills", &self.kills),
            ("store", &format_args!("\"{}\"", self.store)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_acknowledged_and_never_handled_is_lost_and_what_was_not_acknowledged_is_nothing() {
        let mut ledger = Ledger::default();
        for name in ["a", "b", "c", "d"] {
            ledger.sent(name);
        }
        ledger.handled("a");
        for name in ["a", "b", "c"] {
            ledger.took(name);
        }
        assert_eq!((ledger.acknowledged, ledger.open), (3, 2));
        ledger.handled("b");
        ledger.handled("b");
        let verdict = ledger.judge();
        assert_eq!(
            (verdict.jobs, verdict.acknowledged, verdict.lost, verdict.doubled),
            (4, 3, 1, 1)
        );
        assert!(
            verdict
                .fault()
                .is_some_and(|fault| fault.starts_with("1 acknowledged"))
        );
        ledger.handled("c");
        assert_eq!(
            (ledger.judge().fault(), ledger.open),
            (None, 0),
            "twice is no fault"
        );
    }

    #[test]
    fn work_that_did_not_go_on_is_a_fault_and_the_line_has_the_names_that_are_promised() {
        let verdict = Verdict {
            store: "redb",
            stuck: Some("nobody answers".to_owned()),
            ..Verdict::default()
        };
        assert!(verdict.fault().is_some());
        assert_eq!(
            verdict.json(),
            r#"{"jobs":0,"acknowledged":0,"lost":0,"doubled":0,"kills":0,"store":"redb"}"#
        );
    }
}
