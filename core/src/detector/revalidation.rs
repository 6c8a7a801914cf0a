//! Revalidation after an own pause: while this process stood still the cluster may have removed it and given
//! its work to others, so it must not go on as if nothing had happened. What was on its way before the pause
//! proves nothing; only who answers a heartbeat sent after it, and then still gossips with this node, counts
//! it in. Decides nothing about others. Spec: membership 8.5.

/// A pause that nobody has spoken to yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Revalidation {
    /// The heartbeat round before it ended.
    round: u64,
    /// Whether a member has answered a later round.
    answered: bool,
}

impl Revalidation {
    /// A pause ended after this heartbeat round and before the next. `answered`: there is nobody who could
    /// answer one.
    pub(super) const fn after(round: u64, answered: bool) -> Self {
        Self { round, answered }
    }

    /// Whether a heartbeat of this round was sent since then.
    pub(super) const fn is_later(self, round: u64) -> bool {
        round > self.round
    }

    /// Enough members answered such a heartbeat; says whether that is news.
    pub(super) const fn on_answer(&mut self) -> bool {
        !core::mem::replace(&mut self.answered, true)
    }

    /// Whether gossip of a member that arrives now ends it.
    pub(super) const fn is_over_with_gossip(self) -> bool {
        self.answered
    }
}
