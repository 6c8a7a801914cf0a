//! What a node remembers of what it told of its states: which they were, what others have still to hear, how
//! much it pushed. Values only. Spec: membership 2.6.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::ident::UniqueAddress;
use crate::membership::state::gossip::Gossip;
use crate::membership::state::merge;
use crate::message::{GossipDelta, StateDigest};
use crate::ordered::OrderedMap;
use crate::time::Instant;

/// So many whole states may the pushes of a second cost, whatever changes.
const STATES_PER_SECOND: usize = 3;
/// The time in which that counts.
pub(super) const LIMITED_FOR: Duration = Duration::from_secs(1);
/// States before this one from which a difference may lead: those of which this node told others.
const KNOWN_MAX: usize = 8;

/// What a member takes at least in the written form of a state. Steps of a peer are passed on only if they
/// are certain to be within half of it, which is the limit for steps of one's own: a peer may say them at any
/// length.
const MEMBER_BYTES: usize = 21;

/// A state with its name.
#[derive(Clone, Debug)]
pub(super) struct NamedState {
    pub(super) name: StateDigest,
    pub(super) state: Arc<Gossip>,
}

/// From which state, and how; `None` if the whole state is cheaper.
pub(super) type StepsFrom = (StateDigest, Option<Arc<Vec<u8>>>);

/// How a state was told.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Telling {
    /// At once because it is new: then the sender does not hear who has seen it.
    pub(super) is_push: bool,
    /// The name of what the sender holds, where it gave one.
    pub(super) name: Option<StateDigest>,
}

/// What this node has told of its states, and what is still to be told.
#[derive(Clone, Debug, Default)]
pub(super) struct News {
    /// The name of the state that is held, once somebody asked for it.
    pub(super) name: Option<StateDigest>,
    /// How many bytes a frame with it takes.
    pub(super) frame_bytes: Option<usize>,
    /// Those before it, the latest last.
    pub(super) known: VecDeque<NamedState>,
    pub(super) steps: Vec<StepsFrom>,
    /// How often it was pushed, and how often it will be at most.
    pub(super) pushes: u8,
    /// Whether the leader has still to hear that this node has seen it.
    pub(super) is_ack_due: bool,
    pub(super) last_push: Option<Instant>,
    /// When how many bytes were pushed, within the last second.
    pub(super) pushed: VecDeque<(Instant, usize)>,
    /// The last state that each member said it has seen: of one that the leader does not hold yet, too.
    pub(super) acks: OrderedMap<UniqueAddress, StateDigest>,
    /// All of them that name the state that is held are counted: only what comes is still to be.
    pub(super) are_counted: bool,
}

impl News {
    /// Another state is held from now on.
    pub(super) fn on_installed(&mut self, before: &Arc<Gossip>, now_held: &Gossip) -> bool {
        if is_same_state(before, now_held) {
            // A merge that comes to the same leaves nobody who has seen it.
            self.are_counted &= before.seen_set().is_subset(now_held.seen_set());
            return false;
        }
        if let Some(name) = self.name.take() {
            if self.known.len() >= KNOWN_MAX {
                self.known.pop_front();
            }
            let state = Arc::clone(before);
            self.known.push_back(NamedState { name, state });
        }
        self.frame_bytes = None;
        self.steps.clear();
        self.pushes = 0;
        self.is_ack_due = true;
        self.are_counted = false;
        self.acks.retain(|node, _| now_held.contains(node));
        true
    }

    /// What a difference led to has been handled. If that is held now, it has a name, and others may go the
    /// same steps.
    pub(super) fn on_adopted(&mut self, held: &Gossip, state: &Gossip, delta: &GossipDelta) {
        if self.name.is_none() && is_same_state(held, state) {
            self.name = Some(delta.result);
            let steps = delta.steps.bytes();
            let are_worth_it = steps.len() <= held.members().len() * MEMBER_BYTES / 2;
            if delta.base != delta.result && are_worth_it {
                self.steps.insert(0, (delta.base, Some(Arc::clone(steps))));
            }
        }
    }

    /// The state that is held is not pushed from here.
    pub(super) const fn leave_to_others(&mut self) {
        self.pushes = u8::MAX;
    }

    pub(super) fn known(&self, name: StateDigest) -> Option<&Arc<Gossip>> {
        let mut known = self.known.iter();
        known.find(|known| known.name == name).map(|known| &known.state)
    }

    /// Whether so many bytes more stay within what three whole states take in any second.
    pub(super) fn is_within(&mut self, now: Instant, bytes: usize, state_bytes: usize) -> bool {
        while self
            .pushed
            .front()
            .is_some_and(|(at, _)| now.since(*at) >= LIMITED_FOR)
        {
            self.pushed.pop_front();
        }
        let spent: usize = self.pushed.iter().map(|(_, bytes)| bytes).sum();
        spent + bytes <= state_bytes.saturating_mul(STATES_PER_SECOND)
    }

    /// Whether so many bytes may be pushed now, which are then counted: those within that, and in any case
    /// one push.
    pub(super) fn may_push(&mut self, now: Instant, bytes: usize, state_bytes: usize) -> bool {
        let may = self.is_within(now, bytes, state_bytes) || self.pushed.is_empty();
        if may {
            self.pushed.push_back((now, bytes));
        }
        may
    }
}

/// Whether two states differ in nothing but who has seen them.
fn is_same_state(a: &Gossip, b: &Gossip) -> bool {
    a.version() == b.version() && a.gone_arc() == b.gone_arc() && merge::same_content(a, b)
}
