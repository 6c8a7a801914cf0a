//! Moving shards. Every region forgets the home and says so when everything that it sent there has arrived,
//! then the owner stops the shard and says so, and only then is it allocated again. On a timeout the owner
//! takes the shard back. Spec: sharding 1.2, 1.7, 10.14 e to g.

use alloc::vec::Vec;

use super::Coordinator;
use crate::event::ShardingEvent;
use crate::handoff::Barrier;
use crate::ident::UniqueAddress;
use crate::message::ShardingBody;
use crate::ordered::OrderedSet;
use crate::sharding::Cx;
use crate::sharding::protocol::survey::ShardDecision;
use crate::sharding::state::ids::{ShardId, Term};
use crate::timer::CoordinatorTimer;
use crate::token::Token;

/// Hand-offs under way at once before another one of a draining region begins. Each is one message to every
/// region.
pub(super) const DRAINING_MAX: usize = 256;

/// Regions that an event names of each sort: enough to see what they have in common.
const NAMES_MAX: usize = 16;

/// A shard on the move.
#[derive(Clone, Debug)]
pub(super) struct HandOff {
    /// Who has to stop it: its home, and in a conflict every other region that claims it.
    pub(super) owners: OrderedSet<UniqueAddress>,
    pub(super) stage: HandOffStage,
    pub(super) claims: HomeClaims,
    /// Who has not forgotten the home yet.
    pub(super) barrier: Barrier<UniqueAddress>,
}

/// How far a hand-off has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HandOffStage {
    /// Every region is told to forget the home; not all have said that they did.
    Forgetting,
    /// Everybody has forgotten; the owners were told to stop.
    Stopping,
}

/// Who claims a shard that is on the move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HomeClaims {
    /// Its home alone.
    One,
    /// Several, none of which came later than all others: no home may be told until all of them have stopped
    /// it.
    Equal,
    /// Its home, which is none of the owners and goes on, and the owners, which had it before.
    Outdone,
}

impl HomeClaims {
    /// Whether several claim the shard.
    pub(super) const fn is_conflict(self) -> bool {
        match self {
            Self::One => false,
            Self::Equal | Self::Outdone => true,
        }
    }

    /// What it is once one more claims the shard.
    const fn contested(self) -> Self {
        match self {
            Self::One | Self::Equal => Self::Equal,
            Self::Outdone => Self::Outdone,
        }
    }
}

impl Coordinator {
    /// A region wants to be emptied.
    pub(crate) fn on_graceful_shutdown(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress) {
        if self.term().is_none() {
            return;
        }
        let Some(region) = self.regions.get_mut(from) else {
            return;
        };
        region.draining = true;
        if self.is_active() {
            self.empty_if_draining(cx, from);
        }
    }

    /// A region has forgotten a shard's home. Only the present hand-off's answer counts: since an earlier one
    /// was cancelled the region may have used the home.
    pub(crate) fn on_begin_hand_off_ack(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        term: &Term,
        (shard, number): (ShardId, u64),
    ) {
        if self.term() == Some(term)
            && let Some(hand_off) = self.hand_offs.get_mut(&shard)
            && hand_off.barrier.marked(from, number)
        {
            self.advance(cx, shard);
        }
    }

    /// An owner has stopped a shard. Believed only after it was told to: an earlier attempt's answer comes
    /// before.
    pub(crate) fn on_shard_stopped(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        term: &Term,
        shard: ShardId,
    ) {
        if self.term() != Some(term) {
            return;
        }
        let Some(hand_off) = self.hand_offs.get_mut(&shard) else {
            // Its hand-off was cancelled meanwhile, or was an earlier coordinator's: it is to go on there.
            if self.places.home(shard) == Some(from) {
                self.give_unless_known(cx, shard);
                self.host(cx, shard, from);
            }
            return;
        };
        if hand_off.stage == HandOffStage::Stopping && hand_off.owners.remove(from) {
            self.advance(cx, shard);
        }
    }

    /// Repeats what was not answered; gives up when the hand-off has taken too long.
    pub(super) fn on_hand_off_timer(&mut self, cx: &mut Cx<'_>, shard: ShardId) {
        let Some(hand_off) = self.hand_offs.get(&shard) else {
            return;
        };
        if cx.mono() < hand_off.barrier.deadline() {
            self.repeat(cx, shard);
            return;
        }
        cx.counters().hand_offs_timed_out += 1;
        let named = |nodes: Vec<&UniqueAddress>| nodes.into_iter().take(NAMES_MAX).cloned().collect();
        let event = ShardingEvent::HandOffTimeout {
            shard,
            unmarked: named(hand_off.barrier.waiting().collect()),
            running: match hand_off.stage {
                HandOffStage::Forgetting => Vec::new(),
                HandOffStage::Stopping => named(hand_off.owners.iter().collect()),
            },
        };
        self.notify(cx, event);
        if hand_off.claims.is_conflict() {
            // Two homes are worse than none: try until both have stopped.
            cx.counters().conflicts_timed_out += 1;
            let (owners, claims) = (hand_off.owners.clone(), hand_off.claims);
            return self.start_hand_off(cx, shard, owners, claims);
        }
        self.cancel(cx, shard);
    }

    /// Moves everything away from a region that wants to be emptied; says again what has not been answered.
    pub(super) fn empty_if_draining(&mut self, cx: &mut Cx<'_>, node: &UniqueAddress) {
        let Some(region) = self.regions.get(node).filter(|region| region.draining) else {
            return;
        };
        let moving = |shard: &ShardId| self.hand_offs.contains_key(shard);
        let again: Vec<ShardId> = region.shards.iter().copied().filter(moving).collect();
        for shard in again {
            self.repeat(cx, shard);
        }
        self.empty_draining(cx);
    }

    /// Begins the next hand-offs of regions that want to be emptied, as long as not too many are under way.
    pub(super) fn empty_draining(&mut self, cx: &mut Cx<'_>) {
        // A region that stops in a cluster that prepares to stop has its shards stop with it (10.12).
        if !self.is_active() || self.paused || cx.view().is_shutting_down() || !self.unheard.is_empty() {
            return;
        }
        let room = DRAINING_MAX.saturating_sub(self.hand_offs.len());
        let draining = self
            .regions
            .values()
            .filter(|region| region.draining && !region.lost);
        let next: Vec<ShardId> = draining
            .flat_map(|region| &region.shards)
            .filter(|shard| !self.hand_offs.contains_key(shard))
            .take(room)
            .copied()
            .collect();
        for shard in next {
            self.begin_hand_off(cx, shard);
        }
    }

    /// Two regions host one shard. The one that was given it later goes on, and the other has to stop; if
    /// that cannot be said, both have to before it gets a home again (10.16).
    pub(super) fn resolve_conflict(
        &mut self,
        cx: &mut Cx<'_>,
        shard: ShardId,
        (second, token): (&UniqueAddress, Token),
    ) {
        let first = self.places.home(shard).cloned();
        if let Some(hand_off) = self.hand_offs.get_mut(&shard) {
            let new = hand_off.owners.insert(second.clone());
            if new {
                hand_off.claims = hand_off.claims.contested();
            }
            if new && hand_off.stage == HandOffStage::Stopping {
                self.repeat(cx, shard);
            }
            if let Some(hand_off) = self.hand_offs.get_mut(&shard)
                && hand_off.claims == HomeClaims::Outdone
                && self.places.token(shard) <= token
            {
                // Neither is above the other, or a third is above both: all stop.
                hand_off.owners.extend(first);
                hand_off.claims = HomeClaims::Equal;
                self.repeat(cx, shard);
            }
            return;
        }
        self.notify(cx, ShardingEvent::ShardConflict { shard });
        let held = self.places.token(shard);
        if held == token {
            let owners = first.into_iter().chain([second.clone()]).collect();
            return self.start_hand_off(cx, shard, owners, HomeClaims::Equal);
        }
        cx.counters().claims_outdone += 1;
        let mut outdone = second.clone();
        if token > held {
            self.move_home(cx, shard, second, token);
            outdone = first.unwrap_or(outdone);
        }
        self.start_hand_off(cx, shard, OrderedSet::from([outdone]), HomeClaims::Outdone);
    }

    /// A region will not answer any more: nobody waits for what it has forgotten.
    pub(super) fn stop_waiting_for(&mut self, cx: &mut Cx<'_>, node: &UniqueAddress) {
        self.advance_where(cx, |hand_off| hand_off.barrier.sender_gone(node));
    }

    /// Somebody has become unreachable, or reachable. Who cannot be reached is not waited for: what it sends
    /// to the old home after all comes back to it, and goes nowhere else before it has marked there (10.14 b
    /// and c).
    pub(crate) fn on_reachability_changed(&mut self, cx: &mut Cx<'_>) {
        let view = alloc::sync::Arc::clone(cx.view());
        self.advance_where(cx, |hand_off| {
            let mut is_freed = false;
            for node in view
                .unreachable()
                .iter()
                .filter(|node| !hand_off.owners.contains(*node))
            {
                is_freed |= hand_off.barrier.sender_gone(node);
            }
            is_freed
        });
    }

    /// A region certainly runs nothing any more: what it had to stop has stopped.
    pub(super) fn owner_is_gone(&mut self, cx: &mut Cx<'_>, node: &UniqueAddress) {
        self.advance_where(cx, |hand_off| hand_off.owners.remove(node));
    }

    /// Takes the next step of all hand-offs that wait for one less.
    fn advance_where(&mut self, cx: &mut Cx<'_>, is_freed: impl Fn(&mut HandOff) -> bool) {
        let freed = self.hand_offs.iter_mut();
        let freed: Vec<ShardId> = freed
            .filter_map(|(shard, hand_off)| is_freed(hand_off).then_some(*shard))
            .collect();
        for shard in freed {
            self.advance(cx, shard);
        }
    }

    /// A shard stays where it is. Whether it has stopped there or not, its home is told to others when it is
    /// known to run.
    fn cancel(&mut self, cx: &mut Cx<'_>, shard: ShardId) {
        self.hand_offs.remove(&shard);
        // Who wants it stopped asks again.
        self.stop_waiters.remove(&shard);
        self.by_load.stays(&shard);
        let Some(home) = self.places.home(shard).cloned() else {
            return;
        };
        // Its messages waited for as long as that: they are served before it is tried again for balance
        // alone.
        let until = cx.mono() + self.kind.config.handoff_timeout;
        self.resting.insert(shard, until);
        self.note(cx, shard, ShardDecision::Stays { home: home.clone() });
        if let Some(region) = self.regions.get_mut(&home) {
            region.draining = false;
            if !region.lost {
                self.host(cx, shard, &home);
            }
        }
    }

    pub(super) fn begin_hand_off(&mut self, cx: &mut Cx<'_>, shard: ShardId) {
        if let Some(home) = self.places.home(shard).cloned() {
            let from = home.clone();
            let decision = match self.by_load.course(&shard) {
                Some((left, _)) if *left == home => ShardDecision::MovesByLoad { from },
                Some(_) | None => ShardDecision::Moves { from },
            };
            self.note(cx, shard, decision);
            let owners = OrderedSet::from([home]);
            self.start_hand_off(cx, shard, owners, HomeClaims::One);
        }
    }

    fn start_hand_off(
        &mut self,
        cx: &mut Cx<'_>,
        shard: ShardId,
        owners: OrderedSet<UniqueAddress>,
        claims: HomeClaims,
    ) {
        // Nobody is told again to begin what he may have stopped by then.
        self.confirm(cx, shard);
        let present = self.regions.iter().filter(|(_, region)| !region.lost);
        let present = present.map(|(node, _)| node);
        // An owner is waited for in any case: after its word nothing that it said of an earlier hand-off can
        // come.
        let waited_for = |node: &UniqueAddress| owners.contains(node) || cx.view().is_reachable(node);
        let senders: Vec<UniqueAddress> = present.filter(|node| waited_for(node)).cloned().collect();
        self.last_hand_off += 1;
        let deadline = cx.mono() + self.kind.config.handoff_timeout;
        let hand_off = HandOff {
            owners,
            stage: HandOffStage::Forgetting,
            claims,
            barrier: Barrier::new(self.last_hand_off, senders, deadline),
        };
        self.hand_offs.insert(shard, hand_off);
        self.repeat(cx, shard);
        self.advance(cx, shard);
    }

    /// Says what has not been answered, and will again after the retry interval, links being what they are.
    fn repeat(&mut self, cx: &mut Cx<'_>, shard: ShardId) {
        let (Some(hand_off), Some(term)) = (self.hand_offs.get(&shard), self.term()) else {
            return;
        };
        let number = hand_off.barrier.change();
        let to: Vec<&UniqueAddress> = match &hand_off.stage {
            HandOffStage::Forgetting => hand_off.barrier.waiting().collect(),
            HandOffStage::Stopping => hand_off.owners.iter().collect(),
        };
        let lost = |node: &UniqueAddress| self.regions.get(node).is_none_or(|region| region.lost);
        for node in to.into_iter().filter(|node| !lost(node)) {
            let term = term.clone();
            let body = match hand_off.stage {
                HandOffStage::Forgetting => ShardingBody::BeginHandOff { term, shard, number },
                HandOffStage::Stopping => ShardingBody::HandOff {
                    term,
                    shard,
                    by_force: hand_off.claims.is_conflict(),
                },
            };
            self.say(cx, node, body);
        }
        let again = cx.mono() + self.kind.config.retry_interval;
        let at = again.min(hand_off.barrier.deadline());
        cx.wake(self.timer(CoordinatorTimer::HandOff(shard)), at);
    }

    /// Takes the next step of a hand-off that waits for nobody.
    fn advance(&mut self, cx: &mut Cx<'_>, shard: ShardId) {
        let Some(hand_off) = self.hand_offs.get_mut(&shard) else {
            return;
        };
        if !hand_off.owners.is_empty() {
            match &hand_off.stage {
                HandOffStage::Forgetting if hand_off.barrier.is_open() => {
                    hand_off.stage = HandOffStage::Stopping;
                    self.repeat(cx, shard);
                }
                HandOffStage::Forgetting | HandOffStage::Stopping => {}
            }
            return;
        }
        let claims = hand_off.claims;
        self.hand_offs.remove(&shard);
        cx.cancel(self.timer(CoordinatorTimer::HandOff(shard)));
        cx.counters().hand_offs_completed += 1;
        if claims == HomeClaims::Outdone
            && let Some(home) = self.places.home(shard).cloned()
        {
            self.host(cx, shard, &home);
            return self.store(cx);
        }
        self.clear_home(cx, shard);
        if self.say_stopped(cx, shard) {
            self.allocate_soon(cx, shard);
        } else {
            self.store(cx);
        }
        self.empty_draining(cx);
        self.stop_some(cx);
    }
}
