//! Fencing tokens: which of two that believe to own the same thing came later. Names and order only; who counts and who
//! compares is elsewhere. Spec: sharding 10.7.

use core::fmt;

/// Orders everybody who ever owned a thing: the term of who gave it away, then that one's own count. Whoever has seen a
/// higher one refuses a lower one. Terms and counts begin at one; [`Token::NONE`] is below every token that was given out.
///
/// A token comes from a store, never from a clock, from memory or from a member's age: an owner takes the highest that the
/// store holds plus one, and takes again when it is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token {
    /// The term of who gave it out.
    pub term: u64,
    /// Counts what was given out within the term.
    pub count: u64,
}

impl Token {
    /// What nobody owned yet.
    pub const NONE: Self = Self { term: 0, count: 0 };

    /// A token.
    #[must_use]
    pub const fn new(term: u64, count: u64) -> Self {
        Self { term, count }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.term, self.count)
    }
}
