//! What members say about what they host, for people to read. Spec: sharding 1.3, `docs/WIRE.md` 4.11.

use quorate_core::message::{Message, ShardingMsg};
use quorate_core::sharding::protocol::survey::{
    Decided, EntityListing, EntityPosition, Placement, RegionCounts, ShardDecision, SurveyMsg,
};
use quorate_core::sharding::wish::Wish;

use super::Lie;
use super::numbers::{COUNT, LIST_BYTES, QUESTION, SHARDS, STAMP, TOTAL};

/// See [`super::Kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names of the messages")]
pub enum Kind {
    Query,
    Counts,
    Where,
    There,
    List,
    Entities,
}

impl Kind {
    pub(super) const ALL: [Self; 6] = [
        Self::Query,
        Self::Counts,
        Self::Where,
        Self::There,
        Self::List,
        Self::Entities,
    ];

    pub(super) const fn of(msg: &SurveyMsg) -> Self {
        match msg {
            SurveyMsg::Query { .. } => Self::Query,
            SurveyMsg::Counts { .. } => Self::Counts,
            SurveyMsg::Where { .. } => Self::Where,
            SurveyMsg::There { .. } => Self::There,
            SurveyMsg::List { .. } => Self::List,
            SurveyMsg::Entities { .. } => Self::Entities,
        }
    }
}

pub(super) fn say(kind: Kind, lie: &mut Lie<'_>) -> Message {
    let id = lie.number(QUESTION);
    let msg = match kind {
        Kind::Query => SurveyMsg::Query { id, kind: lie.kind() },
        Kind::Counts => {
            let region = lie.chance.per_mille(800).then(|| counts(lie));
            let more = region.is_some() && lie.flag();
            SurveyMsg::Counts { id, region, more }
        }
        Kind::Where => SurveyMsg::Where {
            id,
            kind: lie.kind(),
            shard: lie.shard(),
        },
        Kind::There => {
            let placement = lie.chance.per_mille(800).then(|| placement(lie));
            SurveyMsg::There { id, placement }
        }
        Kind::List => {
            let (kind, bytes) = (lie.kind(), lie.number_u32(LIST_BYTES));
            let after = lie.flag().then(|| position(lie));
            SurveyMsg::List {
                id,
                kind,
                after,
                bytes,
            }
        }
        Kind::Entities => {
            let listed = lie.chance.per_mille(800).then(|| listed(lie));
            SurveyMsg::Entities { id, listed }
        }
    };
    ShardingMsg::Survey(msg).into()
}

fn position(lie: &mut Lie<'_>) -> EntityPosition {
    EntityPosition {
        shard: lie.shard(),
        entity: lie.flag().then(|| lie.entity()),
    }
}

fn listed(lie: &mut Lie<'_>) -> EntityListing {
    let shards = lie.shards();
    let shards: Vec<_> = shards
        .into_iter()
        .map(|shard| {
            let mut entities = lie.few(Lie::entity);
            entities.sort_unstable();
            entities.dedup();
            (shard, entities)
        })
        .collect();
    EntityListing {
        more: !shards.is_empty() && lie.flag(),
        shards,
        homes: vec![(lie.node(), lie.shards())],
        homes_up_to: lie.flag().then(|| lie.shard()),
    }
}

fn counts(lie: &mut Lie<'_>) -> RegionCounts {
    let shards: Vec<_> = lie.shards();
    let shards: Vec<_> = shards
        .into_iter()
        .map(|shard| (shard, lie.number_u32(COUNT)))
        .collect();
    let listed = u32::try_from(shards.len()).unwrap_or(0);
    RegionCounts {
        shards,
        shards_total: lie.number_u32(SHARDS).max(listed),
        entities_total: lie.number(TOTAL),
    }
}

fn placement(lie: &mut Lie<'_>) -> Placement {
    let is_wished = lie.flag();
    let wish = is_wished.then(|| wish(lie));
    let mut decided = lie.few(decided);
    decided.truncate(4);
    Placement {
        home: lie.flag().then(|| lie.node()),
        is_moving: lie.flag(),
        may_run_twice: is_wished,
        wish,
        decided,
    }
}

fn wish(lie: &mut Lie<'_>) -> Wish {
    Wish {
        at: lie.node().address().clone(),
        by: lie.flag().then(|| lie.node()),
        since_ms: lie.number(STAMP),
    }
}

fn decided(lie: &mut Lie<'_>) -> Decided {
    let home = lie.node();
    let decision = match lie.chance.below(4) {
        0 => ShardDecision::Found { home },
        1 => ShardDecision::Moves { from: home },
        2 => ShardDecision::Freed { home },
        _ => ShardDecision::Allocated {
            home,
            is_desired: lie.flag(),
        },
    };
    Decided {
        at_ms: lie.number(STAMP),
        decision,
    }
}
