//! News: how a change is known everywhere within a moment. Who has a new state says so at once to a few who
//! have not seen it, as what differs from a state that they know, and lets the leader know that it has seen
//! it; who lacks the state from which a difference leads asks. Rounds of gossip find whom that misses. Never
//! decides what a state means: what comes of a difference is handled as a state that came whole. Spec:
//! membership 2.6, `docs/WIRE.md` 5.3.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::bytes::node_bytes;
use crate::ident::UniqueAddress;
use crate::membership::Cx;
use crate::membership::machine::{ExitStage, Membership};
use crate::membership::state::gossip::Gossip;
use crate::membership::state::leader;
use crate::membership::state::member::Status;
use crate::membership::targets;
use crate::membership::told::{LIMITED_FOR, Telling};
use crate::message::{
    GossipBody, GossipDelta, GossipEnvelope, GossipSeen, MembershipMsg, StateDigest, StateSteps,
};
use crate::reject::{MembershipRejection, Rejection};
use crate::timer::MembershipTimer;
use crate::wire;

/// A node pushes at most so often: what changes meanwhile goes together.
const PUSH_INTERVAL: Duration = Duration::from_millis(20);
/// To so many others at once.
const PUSH_TARGETS: usize = 3;
/// How often a node pushes one state. Three times three leave one of 8,000 out; who that is the leader sees.
const PUSHES: u8 = 3;
/// And the leader, who hears from everybody, to those of whom it has not: over nearly 3 s.
const PUSHES_OF_LEADER: u8 = 10;
/// Pushes of one state after which each interval is twice the one before.
const PUSHES_IN_A_ROW: u8 = 3;
/// What a difference's frame has beside its header, its receiver, steps and a bit for each member: two names,
/// whether it is pushed, two lengths and a form.
const DELTA_FIXED_BYTES: usize = 40;
/// Steps that are kept while the state stays: it is told to many, of whom most know the same ones.
const STEPS_MAX: usize = 4;

impl Membership {
    /// The name of the state that is held; `None` if it cannot be written.
    pub(super) fn state_name(&mut self, cx: &Cx<'_>) -> Option<StateDigest> {
        if self.news.name.is_none() {
            self.news.name = wire::digest(&self.gossip, &cx.config().limits).ok();
        }
        self.news.name
    }

    /// The state is not the one of before: it is pushed, a moment after the last push at the earliest.
    pub(super) fn on_state_changed(&self, cx: &mut Cx<'_>) {
        if self.is_member() {
            let now = cx.mono();
            let at = self
                .news
                .last_push
                .map_or(now, |last| now.max(last + PUSH_INTERVAL));
            cx.wake(MembershipTimer::News, at);
        }
    }

    /// News is due: what was heard for the leader is counted, the leader hears, and a few others.
    pub(super) fn on_news(&mut self, cx: &mut Cx<'_>) {
        if !self.is_member() {
            return;
        }
        let Some(name) = self.state_name(cx) else { return };
        let leader = leader::acting_leader(&self.gossip, cx.me());
        let leads = leader.as_ref() == Some(cx.me());
        if leads {
            self.count_acks(cx, name);
        }
        if core::mem::take(&mut self.news.is_ack_due)
            && let Some(leader) = leader.filter(|_| !leads && self.exit != ExitStage::Draining)
            && targets::is_valid_target(&self.gossip, cx.me(), &leader)
        {
            let seen = GossipSeen {
                to: leader.clone(),
                state: name,
            };
            cx.send(&leader, MembershipMsg::GossipSeen(seen));
        }
        self.push_news(cx, if leads { PUSHES_OF_LEADER } else { PUSHES });
    }

    fn push_news(&mut self, cx: &mut Cx<'_>, most: u8) {
        if self.news.pushes >= most {
            return;
        }
        let targets = self.some_targets(cx, PUSH_TARGETS, true);
        if targets.is_empty() {
            return;
        }
        let now = cx.mono();
        let mut pushed = 0_usize;
        for target in &targets {
            if !self.push_within_limit(cx, target) {
                cx.counters().gossip_pushes_held_back += 1;
                break;
            }
            pushed += 1;
        }
        if pushed == 0 {
            // Once the first push of this second is no longer of the last one.
            let first = self.news.pushed.front().map_or(now, |(at, _)| *at);
            return cx.wake(MembershipTimer::News, first + LIMITED_FOR);
        }
        self.news.last_push = Some(now);
        self.news.pushes += 1;
        if self.news.pushes < most {
            let doubled = u32::from(self.news.pushes.saturating_sub(PUSHES_IN_A_ROW));
            cx.wake(MembershipTimer::News, now + PUSH_INTERVAL * (1 << doubled));
        }
    }

    fn push_within_limit(&mut self, cx: &mut Cx<'_>, to: &UniqueAddress) -> bool {
        let delta = self.delta_for(cx, to, true);
        let members = self.gossip.members().len();
        let head = wire::HEADER_BYTES + node_bytes(to);
        let bytes = delta
            .as_ref()
            .map(|delta| head + DELTA_FIXED_BYTES + delta.steps.bytes().len() + members.div_ceil(8));
        // A state takes a byte for each member and more: what is within that is within the limit, and nothing
        // has to be compressed to know it.
        let is_little = bytes.is_some_and(|bytes| self.news.is_within(cx.mono(), bytes, members));
        let state_bytes = if is_little {
            members
        } else {
            head + self.state_bytes(cx)
        };
        if !self
            .news
            .may_push(cx.mono(), bytes.unwrap_or(state_bytes), state_bytes)
        {
            return false;
        }
        cx.counters().gossips_pushed += 1;
        match delta {
            Some(delta) => Self::send_delta(cx, delta),
            None => self.send_whole(cx, to),
        }
        true
    }

    /// How many bytes a frame with the whole state takes.
    fn state_bytes(&mut self, cx: &Cx<'_>) -> usize {
        let known = self.news.frame_bytes;
        let bytes =
            known.unwrap_or_else(|| wire::state_bytes(&self.gossip, &cx.config().limits).unwrap_or(0));
        self.news.frame_bytes = Some(bytes);
        bytes
    }

    /// Sends the state: as what differs, if it is known from which state that can lead.
    pub(super) fn send_gossip(&mut self, cx: &mut Cx<'_>, to: &UniqueAddress) {
        match self.delta_for(cx, to, false) {
            Some(delta) => Self::send_delta(cx, delta),
            None => self.send_whole(cx, to),
        }
    }

    /// Sends the whole state.
    pub(super) fn send_whole(&self, cx: &mut Cx<'_>, to: &UniqueAddress) {
        cx.counters().gossips_sent += 1;
        let gossip = GossipBody::from(Arc::clone(&self.gossip));
        let to = to.clone();
        cx.send(&to.clone(), MembershipMsg::Gossip(GossipEnvelope { to, gossip }));
    }

    fn send_delta(cx: &mut Cx<'_>, delta: GossipDelta) {
        cx.counters().gossips_sent += 1;
        cx.counters().gossip_deltas_sent += 1;
        cx.send(&delta.to.clone(), MembershipMsg::GossipDelta(delta));
    }

    /// What differs from the latest state that the receiver is known to have seen. Of one that is pushed it
    /// may be guessed: it is nothing that must arrive, and who lacks the state says so.
    fn delta_for(&mut self, cx: &Cx<'_>, to: &UniqueAddress, is_push: bool) -> Option<GossipDelta> {
        let own = self.state_name(cx)?;
        if self.gossip.has_seen(to) {
            return self.delta_from(cx, to, own, is_push);
        }
        let mut known = self.news.known.iter().rev();
        let seen = known.find(|known| known.state.has_seen(to));
        let base = seen.or_else(|| self.news.known.back().filter(|_| is_push))?.name;
        self.delta_from(cx, to, base, is_push)
    }

    /// What differs from that state, if it is known here and that is worth it.
    fn delta_from(
        &mut self,
        cx: &Cx<'_>,
        to: &UniqueAddress,
        base: StateDigest,
        is_push: bool,
    ) -> Option<GossipDelta> {
        if self.state_name(cx) == Some(base) {
            return Some(self.delta(to, is_push, (base, Arc::default())));
        }
        if !self.news.steps.iter().any(|(from, _)| *from == base) {
            let known = self.news.known(base)?;
            let steps = wire::steps_between(known, &self.gossip, &cx.config().limits).map(Arc::new);
            self.news.steps.truncate(STEPS_MAX - 1);
            self.news.steps.insert(0, (base, steps));
        }
        let (_, steps) = self.news.steps.iter().find(|(from, _)| *from == base)?;
        let steps = Arc::clone(steps.as_ref()?);
        Some(self.delta(to, is_push, (base, steps)))
    }

    fn delta(
        &self,
        to: &UniqueAddress,
        is_push: bool,
        (base, steps): (StateDigest, Arc<Vec<u8>>),
    ) -> GossipDelta {
        GossipDelta {
            to: to.clone(),
            is_push,
            base,
            result: self.news.name.unwrap_or_default(),
            seen: self.gossip.seen_set().clone(),
            steps: StateSteps::to_state(steps, &self.gossip),
        }
    }

    /// Sends the state to one that holds that one.
    pub(super) fn send_from(&mut self, cx: &mut Cx<'_>, to: &UniqueAddress, base: StateDigest) {
        match self.delta_from(cx, to, base, false) {
            Some(delta) => Self::send_delta(cx, delta),
            None => self.send_gossip(cx, to),
        }
    }

    /// Whether this node held that state before the one that it holds.
    pub(super) fn held_before(&self, name: StateDigest) -> bool {
        self.news.known(name).is_some()
    }

    /// A member says what differs in its state from one that this node may know.
    pub(crate) fn on_gossip_delta(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, delta: &GossipDelta) {
        if !self.may_gossip(cx, from, &delta.to) {
            return;
        }
        let Some(own) = self.state_name(cx) else { return };
        let held = Arc::clone(&self.gossip);
        let opened = if delta.result == own {
            Ok(Gossip::clone(&held))
        } else {
            let base = if delta.base == own {
                Some(&held)
            } else {
                self.news.known(delta.base)
            };
            let Some(base) = base else {
                cx.counters().gossip_deltas_without_base += 1;
                return self.send_status(cx, from, true);
            };
            wire::open(delta, base, &cx.config().limits)
        };
        let state = match opened {
            Ok(state) if delta.seen.last().is_none_or(|last| last < state.members().len()) => {
                state.with_seen(delta.seen.clone())
            }
            Ok(_) => {
                let what = "seen";
                let error = crate::bytes::WireError::DanglingIndex { what };
                return cx.reject(from, Rejection::Membership(MembershipRejection::BadDelta(error)));
            }
            Err(error) => {
                return cx.reject(from, Rejection::Membership(MembershipRejection::BadDelta(error)));
            }
        };
        let telling = Telling {
            is_push: delta.is_push,
            name: Some(delta.result),
        };
        let state = Arc::new(state);
        self.on_state(cx, from, &GossipBody::Held(Arc::clone(&state)), telling);
        self.news.on_adopted(&self.gossip, &state, delta);
    }

    /// A member has seen a state, and says so because this node leads.
    pub(crate) fn on_gossip_seen(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, seen: &GossipSeen) {
        if !self.may_gossip(cx, from, &seen.to) {
            return;
        }
        self.news.acks.insert(from.clone(), seen.state);
        if self.state_name(cx) != Some(seen.state) {
            return;
        }
        if self.news.are_counted {
            self.count_seen(cx, core::iter::once(from.clone()));
        } else {
            self.count_acks(cx, seen.state);
        }
    }

    /// Counts everybody who said so as having seen the state of this name, which is the one that is held.
    fn count_acks(&mut self, cx: &mut Cx<'_>, name: StateDigest) {
        self.news.are_counted = true;
        let acks = self.news.acks.iter().filter(|(_, seen)| **seen == name);
        let nodes: Vec<UniqueAddress> = acks.map(|(node, _)| node.clone()).collect();
        self.count_seen(cx, nodes.into_iter());
    }

    fn count_seen(&mut self, cx: &mut Cx<'_>, nodes: impl Iterator<Item = UniqueAddress>) {
        let counts = |node: &UniqueAddress| {
            let member = self.gossip.member(node);
            member.is_some_and(|member| member.status != Status::Down)
        };
        let mut next = Gossip::clone(&self.gossip);
        let mut is_news = false;
        for node in nodes.filter(counts) {
            is_news |= next.add_seen(&node);
        }
        if is_news {
            self.install(cx, next);
            self.wake_if_converged(cx);
        }
    }
}
