//! Where a shard is and why, as bytes. Unstable as all of sharding. Spec: sharding 1.3, `docs/WIRE.md` 4.11.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::declare::{Boxed, List, Maybe, choice, codes, record};
use crate::ident::{Address, UniqueAddress};
use crate::sharding::protocol::survey::{DECISIONS_MAX, Decided, Placement, ShardDecision};
use crate::sharding::state::wish::{Obstacle, Wish};

record! {
    Placement as "placement" {
        home: Maybe<UniqueAddress>,
        is_moving: bool,
        may_run_twice: bool,
        wish: Maybe<Wish>,
        decided: List<u8, Decided, DECISIONS_MAX>,
    }
}

record! { Wish as "wish" { at: Address, by: Maybe<UniqueAddress>, since_ms: u64 } }

record! { Decided as "decided" { at_ms: u64, decision: ShardDecision } }

choice! {
    ShardDecision as "decision" {
        1 Allocated { home: UniqueAddress, is_desired: bool },
        2 Found { home: UniqueAddress },
        3 Moves { from: UniqueAddress },
        4 Freed { home: UniqueAddress },
        5 Stays { home: UniqueAddress },
        6 Wished(wish: Boxed<Wish>),
        7 NotFollowed { wanted: Address, why: Obstacle },
        8 Unanswered,
    }
}

codes! {
    Obstacle as "obstacle" {
        1 NotAMember,
        2 Unreachable,
        3 NoRegion,
        4 TakesNone,
        5 OtherUnreachable,
        6 Unsettled,
        7 MixedVersions,
        8 Unheard,
        9 ShuttingDown,
        10 Paused,
        11 StoreSilent,
        12 NotExternal,
    }
}
