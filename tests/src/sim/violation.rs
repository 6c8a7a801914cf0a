//! What is said of a broken invariant: which one, when, and what does not hold. A value, and where it is
//! kept.

use super::engine::Sim;
use super::history::ProcessId;

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its id in the specification, or the machine that checks itself.
    pub invariant: String,
    /// When, in microseconds of virtual time.
    pub at: u64,
    /// Where, and what does not hold.
    pub what: String,
}

impl core::fmt::Display for Violation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (seconds, micros) = (self.at / 1_000_000, self.at % 1_000_000);
        write!(f, "{} at {seconds}.{micros:06}s: {}", self.invariant, self.what)
    }
}

impl Sim {
    /// An invariant is broken at a process; the first one counts.
    pub(crate) fn violated(&mut self, invariant: &str, process: ProcessId, what: String) {
        if self.liars.excuses(invariant, process) {
            return self.fact(process, format_args!("{invariant}, because of a liar: {what}"));
        }
        let me = &self.processes[process as usize].me;
        self.violation.get_or_insert(Violation {
            invariant: invariant.to_owned(),
            at: self.now,
            what: format!("{me}: {what}"),
        });
    }
}
