//! What is said of a broken invariant: which one, when, and what does not hold. A value only.

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
