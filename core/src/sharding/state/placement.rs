//! With what a shard was placed on its home. A value. Spec: sharding 10.16.

use crate::token::Token;

/// The token of a shard's placement: above that of every earlier one, as far as `is_stored` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlacementToken {
    /// The token.
    pub token: Token,
    /// Whether it was stored before it was given, so that it is above all earlier ones for good. Otherwise
    /// tokens begin anew with the cluster, and nothing that outlives it may be fenced by them.
    pub is_stored: bool,
}

impl PlacementToken {
    /// The token, if durable writes may be fenced by it.
    #[must_use]
    pub fn stored(self) -> Option<Token> {
        self.is_stored.then_some(self.token)
    }
}
