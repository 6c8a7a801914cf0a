//! What a coordinator has decided about each shard, the last few decisions, for people who ask why an entity
//! is where it is. Nothing is decided by it. It begins with the coordinator: what one before it decided shows
//! as found. Spec: sharding 1.3 (queries).

use alloc::collections::VecDeque;

use super::Coordinator;
use crate::ident::{Address, UniqueAddress};
use crate::ordered::OrderedMap;
use crate::sharding::Cx;
use crate::sharding::protocol::survey::{DECISIONS_MAX, Decided, Placement, ShardDecision};
use crate::sharding::state::ids::ShardId;
use crate::sharding::state::wish::WishObstacle;

/// The last decisions of each shard, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct DecisionHistory {
    shards: OrderedMap<ShardId, VecDeque<Decided>>,
}

impl Coordinator {
    /// Takes down what was decided about a shard.
    pub(in crate::sharding) fn note(&mut self, cx: &Cx<'_>, shard: ShardId, decision: ShardDecision) {
        let decided = self.history.shards.entry(shard).or_default();
        if decided.len() >= DECISIONS_MAX {
            decided.pop_front();
        }
        let at_ms = cx.now().unix_ms;
        decided.push_back(Decided { at_ms, decision });
    }

    /// A home was chosen, and whether it is where somebody outside wants the shard to be.
    pub(super) fn note_allocated(&mut self, cx: &Cx<'_>, shard: ShardId, home: &UniqueAddress) {
        self.compare_with_wish(cx, shard, home.address());
        let wish = self.desired.get(&shard);
        let is_desired = wish.is_some_and(|wish| wish.at == *home.address());
        let home = home.clone();
        self.note(cx, shard, ShardDecision::Allocated { home, is_desired });
    }

    /// A wish is not followed. Of several reasons in a row the last one is kept, with when it was found
    /// first: they come and go, and what was decided must not be lost for them.
    pub(super) fn note_not_followed(
        &mut self,
        cx: &Cx<'_>,
        shard: ShardId,
        wanted: Address,
        why: WishObstacle,
    ) {
        let decided = self.history.shards.entry(shard).or_default();
        if let Some(Decided {
            decision:
                ShardDecision::NotFollowed {
                    wanted: known,
                    why: known_why,
                },
            ..
        }) = decided.back()
            && *known == wanted
        {
            if *known_why == why {
                return;
            }
            decided.pop_back();
        }
        self.note(cx, shard, ShardDecision::NotFollowed { wanted, why });
    }

    /// Where a shard is and why; `None` while another member is the oldest.
    pub(crate) fn placement(&self, shard: ShardId) -> Option<Placement> {
        self.term()?;
        let decided = self.history.shards.get(&shard);
        Some(Placement {
            home: self.places.home(shard).cloned(),
            is_moving: self.hand_offs.contains_key(&shard),
            may_run_twice: self.kind.may_run_twice.is_some(),
            wish: self.desired.get(&shard).cloned(),
            decided: decided.into_iter().flatten().cloned().collect(),
        })
    }
}
