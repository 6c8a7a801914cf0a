//! What of a key has ended or may have: deleted, overwritten, or past its time to live.

use quorate_core::kv::state::clock::{VersionClock, VersionDot};

use super::{Asked, KeyBook, Told};

impl KeyBook {
    /// Whether a put that had seen all of this clock may have ended by then, as a delete does at once: its
    /// owners may forget it after its grace, and what is written afterwards knows nothing of either.
    #[must_use]
    pub fn may_have_ended(&self, clock: &VersionClock, by: u64) -> bool {
        self.calls.iter().any(|call| match &call.what {
            Asked::Put {
                written,
                context,
                lives,
                ..
            } => {
                let end = lives.map(|lives| lives.ends(call.asked, None).1);
                if written
                    .is_delete
                    .then_some(call.asked)
                    .or(end)
                    .is_none_or(|end| end > by)
                {
                    return false;
                }
                let made = match &call.told {
                    Some((_, Told::Written(made))) => made.as_ref(),
                    _ => None,
                };
                context.dominates(clock) || made.is_some_and(|made| made.dominates(clock))
            }
            Asked::Get { .. } | Asked::Conditional { .. } => false,
        })
    }

    /// Whether a value was put that ends by itself.
    #[must_use]
    pub const fn has_mortals(&self) -> bool {
        self.has_mortals
    }

    /// Whether somebody has put something that overwrites this version.
    #[must_use]
    pub fn is_overwritten(&self, dot: VersionDot) -> bool {
        let mut calls = self.calls.iter();
        calls.any(|call| matches!(&call.what, Asked::Put { context, .. } if context.covers(dot)))
    }
}
