//! How many replicas an operation on replicated data needs, and how long it waits, in the words of the user's
//! API. Which members count and how many a majority is, the core decides. Spec: sharding 1.12 (consistency
//! arithmetic).

use quorate_core::ddata::state::consistency::Consistency;

/// How many replicas must store a write before it is confirmed. It spreads to all in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// This node; the others get it within a second or so. Lost if this node dies before that.
    Local,
    /// So many, this node included.
    To(u16),
    /// More than half of the members. What is read by [`Read::Majority`] afterwards has it.
    Majority,
    /// So many more than a majority.
    MajorityPlus(u16),
    /// Every member that is not about to leave. Fails while one cannot be reached.
    All,
}

/// How many replicas a read asks; their values are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// This node: no message, no waiting.
    Local,
    /// So many, this node included.
    From(u16),
    /// More than half of the members: sees everything that was confirmed by [`Write::Majority`].
    Majority,
    /// So many more than a majority.
    MajorityPlus(u16),
    /// Every member that is not about to leave. Fails while one cannot be reached.
    All,
}

impl From<Write> for Consistency {
    fn from(level: Write) -> Self {
        match level {
            Write::Local => Self::Local,
            Write::To(count) => Self::Replicas(count),
            Write::Majority => Self::Majority,
            Write::MajorityPlus(more) => Self::MajorityPlus(more),
            Write::All => Self::All,
        }
    }
}

impl From<Read> for Consistency {
    fn from(level: Read) -> Self {
        match level {
            Read::Local => Self::Local,
            Read::From(count) => Self::Replicas(count),
            Read::Majority => Self::Majority,
            Read::MajorityPlus(more) => Self::MajorityPlus(more),
            Read::All => Self::All,
        }
    }
}
