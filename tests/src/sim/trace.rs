//! The trace of a run: a hash over every input and effect in order, and on request a readable line for each.
//! Two runs of one seed must give one hash, on every platform and in every build profile (I-97).

use core::fmt::{self, Write};
use core::hash::Hasher;

use siphasher::sip::SipHasher13;

/// How much of the trace is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Show {
    /// Nothing.
    #[default]
    Nothing,
    /// Faults, membership changes, sharding, halts.
    Facts,
    /// Every input and effect.
    Everything,
}

/// Hashes everything, prints what is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    hasher: SipHasher13,
    show: Show,
}

impl Trace {
    /// An empty trace.
    #[must_use]
    pub(crate) fn new(show: Show) -> Self {
        Self {
            hasher: SipHasher13::new_with_keys(0, 0),
            show,
        }
    }

    /// The hash of everything so far.
    #[must_use]
    pub(crate) fn hash(&self) -> u64 {
        self.hasher.finish()
    }

    /// Begins an entry: when, at which process, what.
    pub(crate) fn begin(&mut self, at: u64, process: u32, what: u8) {
        self.number(at);
        self.number(u64::from(process) << 8 | u64::from(what));
    }

    /// Adds a number to the entry.
    pub(crate) fn number(&mut self, number: u64) {
        self.hasher.write(&number.to_le_bytes());
    }

    /// Adds bytes to the entry.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.hasher.write(bytes);
    }

    /// Adds a value's debug form to the entry.
    pub(crate) fn debug(&mut self, value: &dyn fmt::Debug) {
        let written = write!(Sink(&mut self.hasher), "{value:?}");
        debug_assert!(written.is_ok(), "hashing cannot fail");
        self.hasher.write(&[0xFF]);
    }

    /// Whether entries of this weight are shown: callers build the line only then.
    pub(crate) const fn shows(&self, weight: Show) -> bool {
        match (self.show, weight) {
            (Show::Everything, _) | (Show::Facts, Show::Facts) => true,
            (Show::Nothing, _) | (Show::Facts, Show::Everything | Show::Nothing) => false,
        }
    }

    /// Prints a line.
    pub(crate) fn line(&self, at: u64, who: &str, what: fmt::Arguments<'_>) {
        println!("{:>4}.{:06} {who:<10} {what}", at / 1_000_000, at % 1_000_000);
    }
}

struct Sink<'a>(&'a mut SipHasher13);

impl Write for Sink<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}
