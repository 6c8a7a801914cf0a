//! Questions about what nodes host, and their answers, as bytes. Unstable as all of sharding. Spec: sharding
//! 1.3, `docs/WIRE.md` 4.11.

use super::declare::{ANY, Boxed, List, Maybe, Rising, choice, codes, record};
use super::sharding::{SHARDS, ShardNumbers};
use crate::ident::{Address, UniqueAddress};
use crate::sharding::protocol::survey::{
    DECISIONS_MAX, Decided, EntityListing, EntityPosition, Placement, RegionCounts, ShardDecision, SurveyMsg,
};
use crate::sharding::state::ids::{EntityId, KindId, SHARDS_MAX, ShardId};
use crate::sharding::state::wish::{Wish, WishObstacle};

choice! {
    SurveyMsg as "survey" {
        1 Query { id: u64, kind: KindId },
        2 Counts { id: u64, region: Maybe<RegionCounts>, more: bool },
        3 Where { id: u64, kind: KindId, shard: ShardId },
        4 There { id: u64, placement: Maybe<Placement> },
        5 List { id: u64, kind: KindId, bytes: u32, after: Maybe<EntityPosition> },
        6 Entities { id: u64, listed: Maybe<EntityListing> },
    }
}

record! {
    RegionCounts as "counts" {
        shards_total: u32,
        entities_total: u64,
        shards: Rising<List<u32, (ShardId, u32), SHARDS>>,
    } if |counts| counts.shards_total <= SHARDS_MAX && counts.shards.len() <= counts.shards_total as usize
}

record! { EntityPosition as "position" { shard: ShardId, entity: Maybe<EntityId> } }

// Who says that there are more has said something: the last of that is where the next page begins.
record! {
    EntityListing as "listed" {
        more: bool,
        shards: Rising<List<u32, (ShardId, Rising<List<u32, EntityId, ANY>>), SHARDS>>,
        homes: List<u32, (UniqueAddress, ShardNumbers), SHARDS>,
        homes_up_to: Maybe<ShardId>,
    } if |listed| !listed.more || !listed.shards.is_empty()
}

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
        7 NotFollowed { wanted: Address, why: WishObstacle },
        8 Unanswered,
        9 MovesByLoad { from: UniqueAddress },
    }
}

codes! {
    WishObstacle as "obstacle" {
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
