//! Gossip: what is sent in a round, what is pushed at once, and what is done with what arrives. Merging never
//! counts my clock entry up. Spec: membership 2.5, 2.6, 8.1, 8.9.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::ident::UniqueAddress;
use crate::membership::Cx;
use crate::membership::doubts::CLOCK_JUMP_MAX;
use crate::membership::machine::{ExitStage, Membership};
use crate::membership::state::gossip::Gossip;
use crate::membership::state::leader;
use crate::membership::state::reachability::ReachabilityStatus;
use crate::membership::state::vector_clock::ClockOrder;
use crate::membership::state::{merge, relation};
use crate::membership::targets;
use crate::membership::told::Telling;
use crate::message::{GossipBody, GossipEnvelope, GossipStatus, MembershipMsg};
use crate::ordered::OrderedSet;
use crate::reject::{MembershipRejection, Rejection};
use crate::rng;
use crate::timer::MembershipTimer;

/// How many members hear at once that this node goes (a constant of Akka).
pub(super) const FAREWELL_TARGETS: usize = 5;

impl Membership {
    /// A gossip round; two more within the interval while news has to spread fast.
    pub(super) fn on_gossip_tick(&mut self, cx: &mut Cx<'_>) {
        let interval = cx.config().membership.gossip_interval;
        let now = cx.mono();
        cx.wake(MembershipTimer::Gossip, now + interval);
        if !self.is_member() {
            return;
        }
        self.settle_claims(cx);
        self.gossip_round(cx);
        if self.speed_up_needed(cx.me()) {
            cx.wake(MembershipTimer::GossipExtraFirst, now + interval / 3);
            cx.wake(MembershipTimer::GossipExtraSecond, now + interval * 2 / 3);
        }
    }

    /// An extra round, if it is still needed.
    pub(super) fn on_extra_gossip(&mut self, cx: &mut Cx<'_>) {
        if self.is_member() && self.speed_up_needed(cx.me()) {
            self.gossip_round(cx);
        }
    }

    /// See [`targets::speed_up_needed`]: all members are read once for a state.
    fn speed_up_needed(&mut self, me: &UniqueAddress) -> bool {
        if let Some((of, needed)) = &self.haste
            && Arc::ptr_eq(of, &self.gossip)
        {
            return *needed;
        }
        let needed = targets::speed_up_needed(&self.gossip, me);
        self.haste = Some((Arc::clone(&self.gossip), needed));
        needed
    }

    /// Gossips with one member: the state if it may lack it, else only the state's version.
    pub(super) fn gossip_round(&mut self, cx: &mut Cx<'_>) {
        let members = self.gossip.members().len();
        if members <= 1 {
            return;
        }
        let m = &cx.config().membership;
        let p = targets::different_view_probability(
            m.gossip_different_view_probability,
            m.reduce_gossip_different_view_probability,
            members,
        );
        let prefer_unseen = rng::chance(cx.rng(), p);
        let gossip = Arc::clone(&self.gossip);
        let me = cx.me().clone();
        let draw = |of: usize| rng::below(cx.rng(), of);
        let Some(target) = targets::choose_target(&gossip, &me, prefer_unseen, &self.cut, draw) else {
            return;
        };
        let own_dc = cx.config().node_roles().data_center();
        let far = self
            .gossip
            .member(target)
            .is_some_and(|m| m.data_center() != own_dc);
        // A state is large and a link to another data center slow: it gets one only if the versions turn out
        // to differ.
        if far || self.gossip.has_seen(target) {
            self.send_status(cx, target, false);
        } else {
            self.send_gossip(cx, target);
        }
    }

    /// So many members at random, at most: not those to whom no link gets through, or rounds would be lost on
    /// them. With `unseen_only` such as have not seen the state.
    pub(super) fn some_targets(
        &self,
        cx: &mut Cx<'_>,
        count: usize,
        unseen_only: bool,
    ) -> Vec<UniqueAddress> {
        let found = targets::gossip_targets(&self.gossip, cx.me(), unseen_only);
        let mut found: Vec<&UniqueAddress> = found.filter(|node| !self.cut.contains(node)).collect();
        rng::choose_front(cx.rng(), &mut found, count);
        found.into_iter().take(count).cloned().collect()
    }

    /// The detector says to whom no link gets through.
    pub(crate) fn on_links_cut(&mut self, cut: OrderedSet<UniqueAddress>) {
        self.cut = cut;
    }

    /// Sends the whole state to a few members at once, chosen at random: it may be the last that this node
    /// says, and nobody could ask it again.
    pub(super) fn push_to_random(&mut self, cx: &mut Cx<'_>, count: usize) {
        self.push_to_random_and(cx, count, &[]);
    }

    /// Sends the state to that many members, and to these if they are not among them.
    pub(super) fn push_to_random_and(&mut self, cx: &mut Cx<'_>, count: usize, others: &[UniqueAddress]) {
        let candidates = self.some_targets(cx, count, false);
        let valid = |target: &&UniqueAddress| targets::is_valid_target(&self.gossip, cx.me(), target);
        let others: Vec<&UniqueAddress> = others
            .iter()
            .filter(|target| !candidates.contains(target))
            .filter(valid)
            .collect();
        for target in candidates.iter().chain(others) {
            self.send_whole(cx, target);
        }
    }

    /// Sends the state to a member, unless this node itself finds it unreachable.
    pub(super) fn push_to(&mut self, cx: &mut Cx<'_>, target: &UniqueAddress) {
        if targets::is_valid_target(&self.gossip, cx.me(), target) {
            self.send_gossip(cx, target);
        }
    }

    /// Says which state this node holds.
    pub(super) fn send_status(&mut self, cx: &mut Cx<'_>, to: &UniqueAddress, is_answer: bool) {
        let Some(state) = self.state_name(cx) else { return };
        cx.counters().gossip_statuses_sent += 1;
        let status = GossipStatus {
            to_uid: to.uid(),
            state,
            seen_digest: self.gossip.seen_digest(),
            is_answer,
        };
        cx.send(to, MembershipMsg::GossipStatus(status));
    }

    /// A member says which state it holds.
    pub(crate) fn on_gossip_status(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, status: &GossipStatus) {
        let to = UniqueAddress::new(cx.me().address().clone(), status.to_uid);
        if !self.may_gossip(cx, from, &to) {
            return;
        }
        let Some(own) = self.state_name(cx) else { return };
        if status.state == own {
            if status.seen_digest != self.gossip.seen_digest() {
                self.send_from(cx, from, own);
            }
        } else if self.held_before(status.state) {
            self.send_from(cx, from, status.state);
        } else if status.is_answer {
            self.send_whole(cx, from);
        } else {
            self.send_status(cx, from, true);
        }
    }

    /// A member sends its state.
    pub(crate) fn on_gossip(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, envelope: &GossipEnvelope) {
        if self.may_gossip(cx, from, &envelope.to) {
            self.on_state(cx, from, &envelope.gossip, Telling::default());
        }
    }

    /// What a member holds, however it said it.
    pub(super) fn on_state(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        body: &GossipBody,
        telling: Telling,
    ) {
        let Some(about_me) = body.about(cx.me()) else {
            return cx.reject(from, Rejection::Membership(MembershipRejection::NotInGossip));
        };
        cx.counters().gossips_received += 1;
        let order = body.without_news(&self.gossip);
        let is_ahead = self.are_paths_ahead(cx, from, body.paths_counter());
        let is_doubtful = is_ahead
            || about_me.counter > self.own_clock
            || (order != Some(ClockOrder::Same) && body.is_far_from(&self.gossip, CLOCK_JUMP_MAX));
        if is_doubtful {
            return self.on_doubtful(cx, from, body.open(&self.gossip), is_ahead);
        }
        match order {
            Some(order) => {
                // Most states that arrive: nothing is opened, nothing is merged.
                let winner = Gossip::clone(&self.gossip);
                let unseen = !about_me.seen && !telling.is_push && self.exit != ExitStage::Draining;
                let answers = order == ClockOrder::Before || unseen;
                self.adopt_and_answer(cx, from, winner, answers.then_some(telling));
            }
            None => self.take_in(cx, from, &body.open(&self.gossip), telling),
        }
    }

    /// Takes in a state whose version is believed.
    pub(super) fn take_in(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        remote: &Gossip,
        telling: Telling,
    ) {
        if remote.version().get(cx.me()) > self.gossip.version().get(cx.me()) {
            return self.merge_and_outdate(cx, from, remote);
        }
        let unseen = !remote.has_seen(cx.me()) && !telling.is_push && self.exit != ExitStage::Draining;
        let (winner, talk_back) = match remote.version().compare(self.gossip.version()) {
            ClockOrder::Same => (merge::with_merged_seen(&self.gossip, remote), unseen),
            ClockOrder::Before if !relation::adds_member(remote, &self.gossip) => {
                (Gossip::clone(&self.gossip), true)
            }
            ClockOrder::After if !relation::adds_member(&*self.gossip, remote) => {
                if merge::turns_back(remote, &self.gossip) {
                    cx.counters().gossip_merges += 1;
                    return self.adopt_with_own_change(cx, from, merge::merge(&self.gossip, remote));
                }
                (Gossip::clone(remote), unseen)
            }
            // A newer clock that misses a member: whoever admitted it was removed before that spread, and its
            // clock entry with it. Nothing but a tombstone removes a member, so both states are kept.
            ClockOrder::Before | ClockOrder::After | ClockOrder::Concurrent => {
                cx.counters().gossip_merges += 1;
                let merged = merge::merge(&self.gossip, remote);
                if merge::is_unnamed(&merged, &self.gossip, remote) {
                    return self.adopt_with_own_change(cx, from, merged);
                }
                (merged, true)
            }
        };
        self.adopt_and_answer(cx, from, winner, talk_back.then_some(telling));
    }

    fn adopt_and_answer(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        winner: Gossip,
        answered: Option<Telling>,
    ) {
        let was_gone = self.gossip.is_gone(from);
        let is_news = self.adopt(cx, winner);
        if !was_gone && self.gossip.is_gone(from) {
            // Its last words: it does not pass on who has heard them, and the leader waits for that.
            return self.tell_leader(cx);
        }
        if let Some(telling) = answered.filter(|_| self.is_member()) {
            match telling.name {
                Some(held) => self.send_from(cx, from, held),
                None => self.send_gossip(cx, from),
            }
        }
        if is_news {
            self.wake_if_converged(cx);
        }
    }

    /// Lets the leader know at once what this node has seen or changed; or acts itself.
    pub(super) fn tell_leader(&mut self, cx: &mut Cx<'_>) {
        match leader::acting_leader(&self.gossip, cx.me()) {
            Some(leader) if leader != *cx.me() => self.push_to(cx, &leader),
            Some(_) | None => self.wake_if_converged(cx),
        }
    }

    /// Takes in a state that claims changes of mine which I did not make, once my counter is above the claim:
    /// by its clock it contains everything I did, in truth it may lack it. Merging keeps both, and a change
    /// of mine outdates the lie.
    fn merge_and_outdate(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, remote: &Gossip) {
        cx.counters().gossip_merges += 1;
        self.adopt_with_own_change(cx, from, merge::merge(&self.gossip, remote));
    }

    /// Takes in a state with a change whose author was removed: the author's clock entry goes with it, and
    /// nothing in the clock would tell this state from one without the change. A change of mine does (ADR 2).
    /// It happens once per such merge, because the result has no such entry left. The same for a newer state
    /// in which a member's life goes backwards, which only a liar's does: mine has to be newer still (8.9).
    pub(super) fn adopt_with_own_change(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        mut merged: Gossip,
    ) {
        self.overrule(cx, &mut merged);
        self.update(cx, merged);
        if self.is_member() {
            self.send_gossip(cx, from);
        }
    }

    /// Whether a state said of this node's own observations what it has not observed: then it says again what
    /// it has, by a change of its own.
    fn overrule(&self, cx: &mut Cx<'_>, winner: &mut Gossip) -> bool {
        let members = Arc::clone(winner.members_arc());
        let is_member = |node: &UniqueAddress| members.binary_search_by(|m| m.node.cmp(node)).is_ok();
        let own = self.gossip.reachability();
        if winner.reachability().agrees(cx.me(), own, is_member) {
            return false;
        }
        winner.reachability_mut().overrule(cx.me(), own, is_member);
        cx.counters().rejected_forged_rows += 1;
        true
    }

    /// Whether it was another state than the one held.
    fn adopt(&mut self, cx: &mut Cx<'_>, mut winner: Gossip) -> bool {
        if self.exit != ExitStage::Draining {
            winner.add_seen(cx.me());
        }
        let is_news = winner != *self.gossip;
        if is_news && self.overrule(cx, &mut winner) {
            self.update(cx, winner);
        } else if is_news {
            self.install(cx, winner);
        }
        is_news
    }

    /// Whether gossip from this sender counts: this very incarnation is meant, the sender is a member, and
    /// this node itself finds it reachable. What others say about the sender does not count (pitfall F-34).
    pub(super) fn may_gossip(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, to: &UniqueAddress) -> bool {
        if !self.is_member() || !Self::meant_for_me(cx, from, to) {
            return false;
        }
        if !self.gossip.contains(from) {
            cx.reject(from, Rejection::Membership(MembershipRejection::NotMember));
            self.disown(cx, from);
            return false;
        }
        if self.gossip.reachability().status(cx.me(), from) != ReachabilityStatus::Reachable {
            cx.reject(
                from,
                Rejection::Membership(MembershipRejection::SenderUnreachable),
            );
            return false;
        }
        true
    }
}
