//! What the failure detector says and hears: heartbeats, its timers, and what users hear of pauses. Types
//! only. Spec: membership 2.4, 5.

pub mod counters;

use crate::ident::{Address, UniqueAddress};
use crate::lane::{MessageTag, tags};

/// One message of the failure detector between two nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Msg {
    /// Are you alive?
    Heartbeat(Heartbeat),
    /// Yes.
    HeartbeatRsp(Heartbeat),
}

impl Msg {
    tags! {
        /// `Heartbeat`.
        HEARTBEAT = 8 on Control;
        /// `HeartbeatRsp`.
        HEARTBEAT_RSP = 9 on Control;
    }

    /// The message's tag.
    #[must_use]
    pub const fn tag(&self) -> MessageTag {
        match self {
            Self::Heartbeat(_) => Self::HEARTBEAT,
            Self::HeartbeatRsp(_) => Self::HEARTBEAT_RSP,
        }
    }
}

/// A heartbeat or its echo. Nothing else is sent so often: eight bytes behind the header are enough, because
/// a link has told incarnations apart by all of their uid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// The low half of the uid of the receiver's incarnation; answered by no other.
    pub to: u32,
    /// The low half of the number of the asker's round, which counts from 1.
    pub sequence: u32,
}

impl Heartbeat {
    /// For `to`, in a round of the asker.
    #[must_use]
    pub const fn new(to: &UniqueAddress, round: u64) -> Self {
        Self {
            to: low_half(to.uid()),
            sequence: low_half(round),
        }
    }

    /// Whether this incarnation is meant.
    #[must_use]
    pub const fn is_for(&self, node: &UniqueAddress) -> bool {
        self.to == low_half(node.uid())
    }

    /// The round of the asker, which is in round `now`; `None` if it was never in that round.
    pub(crate) fn round_by(&self, now: u64) -> Option<u64> {
        let age = low_half(now).wrapping_sub(self.sequence);
        now.checked_sub(u64::from(age)).filter(|round| *round > 0)
    }
}

const fn low_half(number: u64) -> u32 {
    let [a, b, c, d, ..] = number.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// Timers of the failure detector.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Send heartbeats.
    Heartbeat,
    /// Look for silent and recovered members.
    Reaper,
    /// A receiver that never answered is taken to have started its silence.
    FirstHeartbeat(Address),
    /// A member refused this node, and nobody has counted it in since.
    Refused,
}

/// What users hear of the failure detector.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// This process stood still. Its work may be somebody else's by now: a host must not let an entity begin
    /// with a message before [`Event::StillMember`].
    Paused {
        /// For about this long beyond what was due.
        excess: core::time::Duration,
    },
    /// A member refuses this node for good, or says that it was removed. Most likely it was, unless that
    /// member is sick: a host does what it does after [`Event::Paused`].
    Refused {
        /// Which member.
        by: UniqueAddress,
        /// When this node ends if no other member counts it in.
        ends_in: core::time::Duration,
    },
    /// After [`Event::Paused`] or [`Event::Refused`]: a member that was reached since then counts this node
    /// in, or there is nobody who could have taken its work over. Entities may go on. Never said if the node
    /// turns out to be removed; it halts then.
    StillMember,
}
