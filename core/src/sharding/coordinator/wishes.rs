//! What somebody outside wants: kept for the strategy that heeds it, and for people who ask why a shard is
//! not there. Never moves anything itself. Spec: sharding 1.7 (external), 1.3 (queries).

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::Coordinator;
use crate::ident::Address;
use crate::membership::state::member::{Member, Status};
use crate::ordered::OrderedMap;
use crate::sharding::Cx;
use crate::sharding::allocation::AllocationSettings;
use crate::sharding::protocol::survey::ShardDecision;
use crate::sharding::state::ids::ShardId;
use crate::sharding::state::wish::{Wish, WishObstacle};

impl Coordinator {
    /// Somebody outside wants shards to be there, and says nothing of others. What it means for those that
    /// have a home is seen with the next look at the balance. Linear in the wishes.
    pub(crate) fn set_desired_homes(&mut self, cx: &Cx<'_>, homes: Vec<(ShardId, Wish)>) {
        let mut known = OrderedMap::new();
        for (shard, wish) in homes {
            if !self.kind.has(shard) {
                continue;
            }
            let before = self.desired.get(&shard);
            if self.term().is_some() && !before.is_some_and(|before| before.is(&wish)) {
                self.note(cx, shard, ShardDecision::Wished(Box::new(wish.clone())));
            }
            known.insert(shard, wish);
        }
        self.desired = known;
    }

    /// A home was chosen; takes down why it is not the one that is wanted.
    pub(super) fn compare_with_wish(&mut self, cx: &Cx<'_>, shard: ShardId, home: &Address) {
        let Some(wanted) = self.desired.get(&shard).map(|wish| &wish.at) else {
            return;
        };
        if wanted == home {
            return;
        }
        let mut members = cx.view().members().iter();
        let member = members.find(|member| member.node.address() == wanted);
        let why = self.foreign().or_else(|| self.obstacle_at(cx, member));
        if let Some(why) = why {
            let wanted = wanted.clone();
            self.note_not_followed(cx, shard, wanted, why);
        }
    }

    /// Takes down which wishes are not followed now, and why. Linear in the wishes and the members.
    pub(super) fn look_at_wishes(&mut self, cx: &Cx<'_>) {
        if self.desired.is_empty() {
            return;
        }
        let always = self.foreign();
        let not_now = self.not_now(cx);
        let members = cx.view().members().iter();
        let members: OrderedMap<&Address, &Member> =
            members.map(|member| (member.node.address(), member)).collect();
        let mut found = Vec::new();
        for (shard, Wish { at, .. }) in &self.desired {
            let why = match (self.places.home(*shard), self.places.is_chosen(*shard)) {
                // Nothing is late before it has been looked at once.
                (None, true) => (self.late > 0).then_some(WishObstacle::StoreSilent),
                // Nobody has asked for it, or for a region to be found.
                (None, false) => None,
                (Some(home), _) if home.address() == at || self.is_busy(cx, *shard) => None,
                (Some(_), _) => {
                    let there = members.get(at).copied();
                    always.or_else(|| self.obstacle_at(cx, there)).or(not_now)
                }
            };
            found.extend(why.map(|why| (*shard, at.clone(), why)));
        }
        for (shard, wanted, why) in found {
            self.note_not_followed(cx, shard, wanted, why);
        }
    }

    /// Why a member cannot be given shards, if it cannot.
    fn obstacle_at(&self, cx: &Cx<'_>, member: Option<&Member>) -> Option<WishObstacle> {
        let is_there = |member: &&Member| !matches!(member.status, Status::Down | Status::Removed);
        let Some(member) = member.filter(is_there) else {
            return Some(WishObstacle::NotAMember);
        };
        if !cx.view().is_reachable(&member.node) {
            return Some(WishObstacle::Unreachable);
        }
        match self.regions.get(&member.node) {
            None => Some(WishObstacle::NoRegion),
            Some(region) if region.proxy => Some(WishObstacle::NoRegion),
            Some(_) => (!self.may_host(cx, &member.node)).then_some(WishObstacle::TakesNone),
        }
    }

    /// Whether no wish is heeded here.
    fn foreign(&self) -> Option<WishObstacle> {
        let is_external = self.strategy() == AllocationSettings::External;
        (!is_external).then_some(WishObstacle::NotExternal)
    }

    /// Whether a shard is being moved, or rests because that was cancelled a while ago.
    pub(super) fn is_busy(&self, cx: &Cx<'_>, shard: ShardId) -> bool {
        let rests = self.resting.get(&shard).is_some_and(|until| *until > cx.mono());
        rests || self.hand_offs.contains_key(&shard)
    }
}
