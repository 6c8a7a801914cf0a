//! What travels with an ask, and its answer. Types and one rounding only. Spec: sharding 10.2.

use core::time::Duration;

use crate::ident::UniqueAddress;
use crate::sharding::state::chain::AskChain;
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::ids::{AskRef, Payload};

/// What travels with an ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskTicket {
    /// Who waits.
    pub ask: AskRef,
    /// Time left when the message was sent, in milliseconds; clocks of nodes are never compared.
    pub remaining_ms: u32,
    /// Whose handlers wait for the answer, beside the asker.
    pub chain: AskChain,
}

impl AskTicket {
    /// Of an ask of this node; the time left is written when its message is sent.
    pub(crate) fn of(me: &UniqueAddress, id: u64, chain: AskChain) -> Self {
        let asker = me.clone();
        Self {
            ask: AskRef { asker, id },
            remaining_ms: 0,
            chain,
        }
    }

    /// For how long somebody waits who waits for `left`: whole milliseconds, rounded up, so that a short wait
    /// does not become none, and that nobody gives a message up for which somebody waits.
    pub(crate) fn remaining_ms(left: Duration) -> u32 {
        u32::try_from(left.as_micros().div_ceil(1_000)).unwrap_or(u32::MAX)
    }

    /// For how long somebody waits, from the moment at which it arrives.
    pub(crate) fn remaining(&self) -> Duration {
        Duration::from_millis(u64::from(self.remaining_ms))
    }
}

/// The answer to an ask, sent straight to the asker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskReply {
    /// The asker's number of the ask.
    pub id: u64,
    /// The asker's incarnation.
    pub to: UniqueAddress,
    /// The entity's answer, or why there is none.
    pub result: Result<Payload, AskFailure>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_rounded_up_so_that_a_short_one_does_not_become_none() {
        for (micros, millis) in [(0, 0), (1, 1), (1_000, 1), (1_001, 2)] {
            assert_eq!(AskTicket::remaining_ms(Duration::from_micros(micros)), millis);
        }
        assert_eq!(AskTicket::remaining_ms(Duration::MAX), u32::MAX);
    }
}
