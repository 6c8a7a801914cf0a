//! How a new coordinator learns every home: from the regions, which say what they host. Until every member of
//! the role has spoken or is gone, known homes are told and none is given. Spec: sharding 10.1, 1.1
//! (registration).

use alloc::vec::Vec;

use super::parts::PartOutcome;
use super::record::PlacedHome;
use super::{Coordinator, CoordinatorTenure, RegionEntry};
use crate::event::ShardingEvent;
use crate::ident::UniqueAddress;
use crate::membership::state::member::{Member, Status};
use crate::message::ShardingBody;
use crate::oldest::state::departures::Departure;
use crate::oldest::state::may_act;
use crate::ordered::OrderedSet;
use crate::reject::{Rejection, ShardingRejection};
use crate::sharding::Cx;
use crate::sharding::protocol::ListPart;
use crate::sharding::protocol::survey::ShardDecision;
use crate::sharding::state::fields::KindFields;
use crate::sharding::state::ids::{ShardId, Term};
use crate::timer::CoordinatorTimer;
use crate::token::Token;

/// What a region says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RegionRegistration {
    pub(crate) fields: KindFields,
    pub(crate) hosted: Vec<ShardId>,
    pub(crate) draining: bool,
}

impl Coordinator {
    /// A region says that it exists, perhaps in several parts. All of them together count as one
    /// registration; before the last one has come nothing of it does.
    pub(crate) fn on_register_part(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        part: ListPart,
        said: RegionRegistration,
    ) {
        if !part.is_whole() && (self.term().is_none() || cx.view().member(from).is_none()) {
            return;
        }
        let shards = self.kind.settings.shards as usize;
        match self.unfinished.take(from, part, said, shards) {
            PartOutcome::Whole(said) if self.asks_for_tokens(cx, from, &said.hosted) => {}
            PartOutcome::Whole(said) => self.on_register(cx, from, said),
            PartOutcome::Waits => {}
            PartOutcome::Dropped => cx.counters().registration_parts_dropped += 1,
        }
    }

    /// A region exists.
    pub(super) fn on_register(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, said: RegionRegistration) {
        let Some(term) = self.term().cloned() else {
            return;
        };
        self.heard(cx, from);
        let role = self.kind.settings.role.as_ref();
        // One that registers is Up in its own picture; here it may not be yet. It may ask for homes, and gets
        // nothing to host before it is Up here as well.
        let is_known = |m: &&Member| m.status != Status::Down;
        let Some(member) = cx.view().member(from).filter(is_known) else {
            return;
        };
        let ours = KindFields::of(&self.kind.settings);
        if !said.fields.agrees_with(&ours) {
            self.refuse(cx, from, &said, ours);
            return;
        }
        let proxy = said.fields.keeping.is_none();
        if !proxy && role.is_some_and(|role| !member.roles.contains(role)) {
            cx.reject(from, ShardingRejection::WrongSender);
            return;
        }
        if said.hosted.iter().any(|shard| !self.kind.has(*shard)) {
            cx.reject(from, ShardingRejection::NO_SHARD);
            return;
        }
        if proxy && !said.hosted.is_empty() {
            let what = "shards of a proxy region";
            cx.reject(from, Rejection::Unexpected { what });
            return;
        }
        self.without_region.remove(from);
        let entry = self.regions.entry(from.clone()).or_default();
        entry.proxy = proxy;
        entry.draining = said.draining || (entry.draining && !proxy);
        self.say(cx, from, ShardingBody::RegisterAck { term });
        if proxy {
            self.release_shards_of(cx, from);
        }
        let mut announced = self.tokens.take_announced(from);
        for shard in said.hosted {
            let claimed = announced.remove(&shard).unwrap_or_default();
            let token = self.tokens.believed(claimed);
            self.claim(cx, from, shard, token);
            if token != claimed && self.places.home(shard) == Some(from) {
                self.tokens.note_void(shard);
            }
        }
        self.stop_void(cx);
        self.push_homes(cx, from);
        if self.is_active() {
            self.welcome_back(from);
            self.empty_if_draining(cx, from);
            self.allocate_requested(cx);
        }
        self.try_activate(cx);
        self.store(cx);
    }

    /// A member has no region of this kind.
    pub(crate) fn on_no_region(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, term: &Term) {
        if self.term() == Some(term) {
            self.heard(cx, from);
        }
        if self.term() == Some(term) && !self.regions.contains_key(from) && cx.view().member(from).is_some() {
            self.without_region.insert(from.clone());
            self.try_activate(cx);
        }
    }

    /// Asks those who have not spoken yet once more.
    pub(super) fn on_recovery_tick(&mut self, cx: &mut Cx<'_>) {
        let Some(term) = self.term().cloned() else {
            return;
        };
        let hears = |node: &UniqueAddress| cx.view().member(node).is_some_and(|m| may_act(m.status));
        let mut asked: OrderedSet<UniqueAddress> = match self.tenure {
            CoordinatorTenure::Recovering(_) => self.missing(cx).into_iter().collect(),
            CoordinatorTenure::Idle
            | CoordinatorTenure::Waiting
            | CoordinatorTenure::Resting
            | CoordinatorTenure::Active(_) => OrderedSet::new(),
        };
        asked.extend(self.unheard.iter().cloned());
        asked.retain(hears);
        if self.is_active() && asked.is_empty() {
            return;
        }
        for node in asked {
            self.say(cx, &node, ShardingBody::RegionQuery { term: term.clone() });
        }
        self.wake(cx, CoordinatorTimer::Recovery, self.kind.config.retry_interval);
        self.try_activate(cx);
    }

    /// Begins to allocate once nobody can host a shard that is not known here.
    pub(super) fn try_activate(&mut self, cx: &mut Cx<'_>) {
        let CoordinatorTenure::Recovering(term) = self.tenure.clone() else {
            return;
        };
        if !self.ledger.is_ready() || !self.missing(cx).is_empty() {
            return;
        }
        // Whoever was removed without having spoken may still run shards, for a margin.
        let role = self.kind.settings.role.as_ref();
        let silent = |departure: &Departure| !self.regions.contains_key(&departure.node);
        let safe_at = cx.succession().departures().safe_at(role, silent);
        if safe_at > cx.mono() {
            cx.wake(self.timer(CoordinatorTimer::Recovery), safe_at);
            return;
        }
        if self.unheard.is_empty() {
            cx.cancel(self.timer(CoordinatorTimer::Recovery));
        }
        self.tokens.begin(&term, self.ledger.term(), &mut self.places);
        self.tenure = CoordinatorTenure::Active(term.clone());
        let shards = self.places.homes().count();
        self.notify(cx, ShardingEvent::CoordinatorRecovered { term, shards });
        let after = self.kind.config.rebalance_interval;
        self.wake(cx, CoordinatorTimer::Rebalance, after);
        self.rejections = 0;
        self.honour_stored(cx);
        self.renew_outdone();
        self.stop_void(cx);
        self.empty_draining(cx);
        self.allocate_requested(cx);
    }

    /// Members of the role that may host something and have not spoken.
    pub(super) fn missing(&self, cx: &Cx<'_>) -> Vec<UniqueAddress> {
        let members = cx.view().by_age(self.kind.settings.role.as_ref());
        let spoken =
            |node: &UniqueAddress| self.regions.contains_key(node) || self.without_region.contains(node);
        let silent = members.iter().filter(|member| !spoken(&member.node));
        silent.map(|member| member.node.clone()).collect()
    }

    /// Forgets what members said that are members no more.
    pub(super) fn forget_strangers(&mut self, cx: &Cx<'_>) {
        self.without_region
            .retain(|node| cx.view().member(node).is_some());
        self.unfinished.retain(|node| cx.view().member(node).is_some());
        self.tokens.forget_strangers(cx.view());
    }

    /// A member has said whether it has this kind, or will never say so. When all have, shards may move.
    pub(super) fn heard(&mut self, cx: &mut Cx<'_>, node: &UniqueAddress) {
        if self.unheard.remove(node) && self.unheard.is_empty() {
            self.empty_draining(cx);
        }
    }

    /// A region says that it hosts a shard. If another one does too, neither may go on.
    fn claim(&mut self, cx: &mut Cx<'_>, node: &UniqueAddress, shard: ShardId, token: Token) {
        match self.places.home(shard) {
            None => {
                self.drop_choice(shard);
                let (home, node) = (node.clone(), node.clone());
                self.set_home(shard, PlacedHome { node, token });
                self.renew_unless_stored(cx, shard);
                self.note(cx, shard, ShardDecision::Found { home });
                if !self.hand_offs.contains_key(&shard) {
                    self.answer_requesters(cx, shard);
                }
            }
            Some(home) if home == node => self.claim_again(cx, node, shard, token),
            Some(_) => self.resolve_conflict(cx, shard, (node, token)),
        }
    }

    /// A region whose kind has other fields can host nothing. Once it says that it does not, it is done with.
    fn refuse(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, said: &RegionRegistration, ours: KindFields) {
        let Some(term) = self.term().cloned() else {
            return;
        };
        let fields = ours;
        self.say(cx, from, ShardingBody::RegisterRefused { term, fields });
        if said.hosted.is_empty() && !self.regions.contains_key(from) {
            self.without_region.insert(from.clone());
            self.try_activate(cx);
        }
    }
}

impl RegionEntry {
    pub(super) fn drop_shard(&mut self, shard: ShardId) {
        self.shards.retain(|kept| *kept != shard);
    }
}
