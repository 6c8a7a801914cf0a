//! Which entities run, shard by shard, asked of every node that may host a kind: put together from as much as
//! each says at once, so that nothing is left out between the first entity of a page and the last. Shards
//! that have a home and of which nobody has spoken are named. Spec: sharding 1.3 (queries).

use alloc::vec::Vec;
use core::time::Duration;

use super::{OpenSurvey, SurveyFindings, TIMEOUT_MAX, TIMEOUT_MIN};
use crate::bytes::node_bytes;
use crate::effect::Answer;
use crate::ident::UniqueAddress;
use crate::input::Token;
use crate::message::ShardingMsg;
use crate::ordered::{OrderedMap, OrderedSet};
use crate::reject::ShardingRejection;
use crate::sharding::protocol::survey::{
    EntityListing, EntityPage, EntityPosition, ShardEntities, ShardHomes, SurveyMsg,
};
use crate::sharding::state::ids::{EntityId, KindId, ShardId};
use crate::sharding::{Cx, Sharding};

/// Bytes of entities' ids that all nodes together are asked for at once.
const PAGE_BYTES: usize = 256 * 1024;

/// What a node is asked for at least, however many are asked: room for the longest id.
const NODE_BYTES_MIN: usize = 2 * 1024;

/// Bytes of a shard in an answer, of an entity's id around its own, and of a home.
const SHARD_BYTES: usize = 6;
const ID_BYTES: usize = 2;
const HOME_BYTES: usize = 2;
const AROUND_NODE_BYTES: usize = 4;

/// What has been said so far.
#[derive(Clone, Debug)]
pub(super) struct OpenListing {
    after: Option<EntityPosition>,
    shards: OrderedMap<(ShardId, UniqueAddress), Vec<EntityId>>,
    /// Homes as this node's region and the coordinator know them.
    homes: OrderedMap<ShardId, UniqueAddress>,
    /// Up to where everybody who has answered has said everything; `None` if that is the end.
    up_to: Option<EntityPosition>,
    pub(super) silent: Vec<UniqueAddress>,
}

impl OpenListing {
    /// Nobody has said more than up to here.
    fn cut(&mut self, at: EntityPosition) {
        if self.up_to.as_ref().is_none_or(|up_to| at < *up_to) {
            self.up_to = Some(at);
        }
    }

    /// Whether a shard belongs to this page, in whole or in part.
    fn has(&self, shard: ShardId) -> bool {
        let is_behind = self.after.as_ref().is_none_or(|after| after.leaves(shard));
        is_behind && self.up_to.as_ref().is_none_or(|up_to| shard <= up_to.shard)
    }

    fn hear(&mut self, from: &UniqueAddress, listed: EntityListing) {
        if let Some(up_to) = listed.homes_up_to {
            self.cut(EntityPosition::behind(up_to));
        }
        for (node, shards) in listed.homes {
            self.homes
                .extend(shards.into_iter().map(|shard| (shard, node.clone())));
        }
        if let Some((shard, entities)) = listed.shards.last().filter(|_| listed.more) {
            let (shard, entity) = (*shard, entities.last().cloned());
            self.cut(EntityPosition { shard, entity });
        }
        let of = |(shard, entities)| ((shard, from.clone()), entities);
        self.shards.extend(listed.shards.into_iter().map(of));
    }

    pub(super) fn into_page(mut self) -> EntityPage {
        let spoken: OrderedSet<ShardId> = self.shards.keys().map(|(shard, _)| *shard).collect();
        let unanswered = self.homes.keys().copied();
        let unanswered = unanswered.filter(|shard| self.has(*shard) && !spoken.contains(shard));
        let unanswered = unanswered.collect();
        let mut shards = Vec::new();
        for ((shard, node), mut entities) in core::mem::take(&mut self.shards) {
            if !self.has(shard) {
                continue;
            }
            if let Some(last) = self.up_to.as_ref().filter(|up_to| up_to.shard == shard)
                && let Some(last) = &last.entity
            {
                entities.retain(|entity| entity <= last);
            }
            shards.push(ShardEntities {
                shard,
                node,
                entities,
            });
        }
        EntityPage {
            shards,
            unanswered,
            silent: self.silent,
            next: self.up_to,
        }
    }
}

impl Sharding {
    /// A user wants to know which entities of a kind run, behind a position. Answered when all have said so,
    /// or when the time is over.
    pub(in crate::sharding) fn list_entities(
        &mut self,
        cx: &mut Cx<'_>,
        token: Token,
        (kind, after): (KindId, Option<EntityPosition>),
        timeout: Duration,
    ) {
        let region = match self.may_survey(kind) {
            Ok(machines) => &machines.region,
            Err(error) => return cx.reply(token, Answer::Refused(error)),
        };
        let homes = region.known_homes().map(|(shard, node)| (shard, node.clone()));
        let mut listing = OpenListing {
            homes: homes.collect(),
            after: after.clone(),
            shards: OrderedMap::new(),
            up_to: None,
            silent: Vec::new(),
        };
        let waits_for = self.may_host(cx, kind);
        let limit = cx.config().limits.control_frame_bytes_max / 2;
        let bytes = (PAGE_BYTES / (waits_for.len() + 1))
            .max(NODE_BYTES_MIN)
            .min(limit);
        let id = self.surveys.next_id();
        for node in &waits_for {
            let (after, bytes) = (after.clone(), u32::try_from(bytes).unwrap_or(u32::MAX));
            let query = SurveyMsg::List {
                id,
                kind,
                after,
                bytes,
            };
            cx.send(node, ShardingMsg::Survey(query));
        }
        let me = cx.me().clone();
        if let Some(own) = self.listed(cx, kind, after.as_ref(), bytes) {
            listing.hear(&me, own);
        }
        let open = OpenSurvey {
            token,
            kind,
            deadline: cx.mono() + timeout.clamp(TIMEOUT_MIN, TIMEOUT_MAX),
            waits_for,
            found: SurveyFindings::Entities(listing),
        };
        self.surveys.open.insert(id, open);
        self.surveys.finish(cx);
    }

    /// What runs here of a kind, and where its shards live if this node coordinates them: as much as so many
    /// bytes hold of each. `None` if the kind is not registered here, or not accepted.
    pub(super) fn listed(
        &self,
        cx: &Cx<'_>,
        kind: KindId,
        after: Option<&EntityPosition>,
        bytes: usize,
    ) -> Option<EntityListing> {
        let machines = self.kinds.get(&kind).filter(|_| self.is_accepted(kind))?;
        let mut listed = EntityListing::default();
        let mut room = bytes;
        let mut take = |bytes: usize| {
            let left = room.checked_sub(bytes);
            room = left.unwrap_or(0);
            left.is_some()
        };
        'all: for (shard, entities) in machines.region.running_behind(after) {
            if !take(SHARD_BYTES) {
                listed.more = true;
                break;
            }
            let mut ids = Vec::new();
            for entity in entities {
                if !take(ID_BYTES + entity.as_bytes().len()) {
                    listed.more = true;
                    if !ids.is_empty() {
                        listed.shards.push((shard, ids));
                    }
                    break 'all;
                }
                ids.push(entity.clone());
            }
            listed.shards.push((shard, ids));
        }
        let limit = cx.config().limits.control_frame_bytes_max / 4;
        let homes = machines.coordinator.known_homes();
        let homes = homes.filter(|(shard, _)| after.is_none_or(|after| after.leaves(*shard)));
        (listed.homes, listed.homes_up_to) = gathered(homes, limit);
        Some(listed)
    }

    /// Another node asks which entities run here.
    pub(super) fn answer_list(
        &self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        (id, kind): (u64, KindId),
        (after, bytes): (Option<&EntityPosition>, u32),
    ) {
        let limit = cx.config().limits.control_frame_bytes_max / 2;
        let bytes = usize::try_from(bytes)
            .unwrap_or(usize::MAX)
            .clamp(NODE_BYTES_MIN.min(limit), limit);
        let listed = self.listed(cx, kind, after, bytes);
        cx.send(from, ShardingMsg::Survey(SurveyMsg::Entities { id, listed }));
    }

    /// Another node has answered. What it cannot say is not believed, and it counts as silent.
    pub(super) fn on_listed(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        id: u64,
        listed: Option<EntityListing>,
    ) {
        let Some(open) = self.surveys.open.get_mut(&id) else {
            // Its time was over before.
            return;
        };
        let SurveyFindings::Entities(listing) = &mut open.found else {
            return;
        };
        let kind = self.kinds.get(&open.kind).map(|machines| machines.region.kind());
        let is_possible = |listed: &EntityListing| {
            let has = |shard: ShardId| kind.is_some_and(|kind| kind.has(shard));
            let is_behind = |(shard, entities): &(ShardId, Vec<EntityId>)| {
                let after = listing.after.as_ref();
                has(*shard)
                    && after.is_none_or(|after| match entities.first() {
                        Some(first) => after.is_before(*shard, first),
                        None => after.leaves(*shard),
                    })
            };
            let homes = listed.homes.iter().flat_map(|(_, shards)| shards);
            listed.shards.iter().all(is_behind) && homes.copied().all(has)
        };
        if listed.as_ref().is_some_and(|listed| !is_possible(listed)) {
            return cx.reject(from, ShardingRejection::NO_SHARD);
        }
        if open.waits_for.remove(from) {
            listing.hear(from, listed.unwrap_or_default());
            self.surveys.finish(cx);
        }
    }
}

/// Homes in the order of their shards, by node, as many as so many bytes hold; up to which, if there are
/// more.
fn gathered<'a>(
    homes: impl Iterator<Item = (ShardId, &'a UniqueAddress)>,
    bytes: usize,
) -> (ShardHomes, Option<ShardId>) {
    let mut by_node: OrderedMap<&UniqueAddress, Vec<ShardId>> = OrderedMap::new();
    let (mut room, mut last, mut up_to) = (bytes, None, None);
    for (shard, node) in homes {
        let head = if by_node.contains_key(node) {
            0
        } else {
            node_bytes(node) + AROUND_NODE_BYTES
        };
        let Some(left) = room.checked_sub(HOME_BYTES + head) else {
            up_to = last;
            break;
        };
        room = left;
        by_node.entry(node).or_default().push(shard);
        last = Some(shard);
    }
    let homes = by_node.into_iter().map(|(node, shards)| (node.clone(), shards));
    (homes.collect(), up_to)
}
