//! Where the application wants a shard to be, through which node and when, and why it is not there. Values
//! only; decides nothing. Spec: sharding 1.7 (external).

use core::fmt;

use crate::bytes::{address_bytes, node_bytes};
use crate::ident::{Address, UniqueAddress};

/// Where the application wants a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The node's address; whoever listens there.
    pub at: Address,
    /// The node through which it was said; `None` if that is not known, or that node was removed since.
    pub by: Option<UniqueAddress>,
    /// When it was said, milliseconds since the Unix epoch by that node's clock (later than any wish for the
    /// shard that it knew); 0 if that is not known.
    pub since_ms: u64,
}

impl Wish {
    /// A wish for an address, without a time or a node that it came from.
    #[must_use]
    pub const fn at(at: Address) -> Self {
        Self {
            at,
            by: None,
            since_ms: 0,
        }
    }

    /// Bytes of it in a message.
    pub(crate) fn bytes(&self) -> usize {
        address_bytes(&self.at) + 1 + self.by.as_ref().map_or(0, node_bytes) + 8
    }

    /// Whether it is the same one: who said it is forgotten when that node is removed.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.since_ms == other.since_ms && self.at == other.at
    }
}

/// Why a shard is not where it is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum WishObstacle {
    /// No member has the address, or the one that has it is down.
    NotAMember,
    /// The member there is unreachable.
    Unreachable,
    /// The member there hosts nothing of the kind (yet), or is a proxy.
    NoRegion,
    /// The region there takes no shards: it is being emptied, or its member is not Up.
    TakesNone,
    /// Another member is unreachable: nothing moves for balance.
    OtherUnreachable,
    /// A member is on its way in or out: nothing moves for balance.
    Unsettled,
    /// The regions' members have several application versions: nothing moves for balance.
    MixedVersions,
    /// The coordinator is new, and some members have not reported yet what they host.
    Unheard,
    /// The cluster prepares to shut down.
    ShuttingDown,
    /// The coordinator's process was paused, and its membership is not confirmed yet.
    Paused,
    /// A home was chosen, and the coordinator's store has not answered in time that it is kept.
    StoreSilent,
    /// Where the coordinator is the kind has another allocation.
    NotExternal,
}

impl fmt::Display for WishObstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAMember => "no member has this address",
            Self::Unreachable => "the member there is unreachable",
            Self::NoRegion => "the member there hosts nothing of the kind",
            Self::TakesNone => "the region there takes no shards",
            Self::OtherUnreachable => "a member is unreachable",
            Self::Unsettled => "a member is on its way in or out",
            Self::MixedVersions => "the members have several application versions",
            Self::Unheard => "some members have not reported yet what they host",
            Self::ShuttingDown => "the cluster is preparing to shut down",
            Self::Paused => "the coordinator's process was paused, and its membership is not confirmed yet",
            Self::StoreSilent => "the coordinator's store did not answer in time",
            Self::NotExternal => "the coordinator has another allocation for the kind",
        })
    }
}
