//! Fencing tokens: which of two that believe to own the same thing came later. Names and order only; who
//! counts and who compares is elsewhere. Spec: sharding 10.7.

use core::fmt;

/// The most placements that are given in one term that was claimed: each leaves room for [`Token::opened`].
pub const PLACEMENTS_MAX: u64 = (1 << 20) - 1;

/// Bits of the number of an opening. With those of a placement they are as many as a token that voters
/// believe has.
const OPENING_BITS: u32 = 28;

/// Orders everybody who ever owned a thing: the term of who gave it away, then that one's own count. Whoever
/// has seen a higher one refuses a lower one. Terms and counts begin at one; [`Token::NONE`] is below every
/// token that was given out.
///
/// A token comes from a store, never from a clock, from memory or from a member's age: an owner takes the
/// highest that the store holds plus one, and takes again when it is refused.
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

    /// The least token above this one: the next count, or the next term where counts are used up.
    #[must_use]
    pub const fn next(self) -> Self {
        match self.count.checked_add(1) {
            Some(count) => Self::new(self.term, count),
            None => Self::new(self.term.saturating_add(1), 1),
        }
    }

    /// What the first to open something within this placement has. An entity that ends and begins again where
    /// it was placed opens its log again: [`Self::reopened`] is above that, and all of them are below those
    /// of the next placement.
    #[must_use]
    pub const fn opened(self) -> Self {
        Self::new(
            self.term,
            self.count.saturating_mul(1 << OPENING_BITS).saturating_add(1),
        )
    }

    /// What the next to open it within this placement has, where `held` was refused by; `None` if that is of
    /// a later placement, or no number is left.
    #[must_use]
    pub fn reopened(self, held: Self) -> Option<Self> {
        let end = Self::new(
            self.term,
            self.count.saturating_add(1).saturating_mul(1 << OPENING_BITS),
        );
        let next = held.next();
        (next < end).then(|| next.max(self.opened()))
    }

    /// As bytes that are ordered as tokens are: for a column or a key of a store that compares them.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        self.to_u128().to_be_bytes()
    }

    /// A token that was written with [`Self::to_bytes`].
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self::from_u128(u128::from_be_bytes(bytes))
    }

    /// As a number that is ordered as tokens are: the term above the count.
    #[must_use]
    pub fn to_u128(self) -> u128 {
        u128::from(self.term) << 64 | u128::from(self.count)
    }

    /// A token that was written with [`Self::to_u128`].
    #[must_use]
    pub const fn from_u128(number: u128) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = number.to_be_bytes();
        Self {
            term: u64::from_be_bytes([a, b, c, d, e, f, g, h]),
            count: u64::from_be_bytes([i, j, k, l, m, n, o, p]),
        }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.term, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openings_of_a_placement_are_above_each_other_and_below_the_next_placement() {
        let (placed, next) = (Token::new(3, 7), Token::new(3, 8));
        let first = placed.opened();
        let second = placed.reopened(first).unwrap();
        assert!(first > placed && second > first && next.opened() > second);
        assert_eq!(next.reopened(second), Some(next.opened()), "it came later");
        assert_eq!(placed.reopened(next.opened()), None, "it was replaced");
        assert_eq!(placed.reopened(Token::new(4, 1)), None, "by another coordinator");
        let last = Token::new(3, (8 << OPENING_BITS) - 1);
        assert_eq!(placed.reopened(last), None, "no number is left");
        let counted_by_the_store = Token::new(0, u64::MAX >> 1);
        assert_eq!(placed.reopened(counted_by_the_store), Some(first));
        let most = Token::new(1, PLACEMENTS_MAX)
            .reopened(Token::new(1, (1 << 48) - 3))
            .unwrap();
        assert!(most.count <= 1 << 48);
    }

    #[test]
    fn a_count_that_is_used_up_goes_on_in_the_next_term() {
        assert_eq!(Token::NONE.next(), Token::new(0, 1));
        assert_eq!(Token::new(3, 7).next(), Token::new(3, 8));
        assert_eq!(Token::new(3, u64::MAX).next(), Token::new(4, 1));
    }

    #[test]
    fn bytes_and_numbers_are_ordered_as_tokens_are() {
        let parts = [0, 1, 255, 256, u64::from(u32::MAX), u64::MAX];
        for term in parts {
            for count in parts {
                let token = Token::new(term, count);
                assert_eq!(Token::from_bytes(token.to_bytes()), token);
                assert_eq!(Token::from_u128(token.to_u128()), token);
                for other in parts.map(|other| Token::new(other, count)) {
                    assert_eq!(token.to_bytes().cmp(&other.to_bytes()), token.cmp(&other));
                    assert_eq!(token.to_u128().cmp(&other.to_u128()), token.cmp(&other));
                }
            }
        }
    }
}
