//! What is believed of a state's version: each entry counts the changes of one member, and only that member
//! knows how many it made. What others say of it is bounded; its own word stands, and takes back what others
//! said. So entries stay where their owners can count on, whatever a liar says and in whatever order. Never
//! drops what else a state says. Spec: membership 8.9; `SECURITY.md` ("Forged state").

use alloc::sync::Arc;

use crate::ident::UniqueAddress;
use crate::membership::Cx;
use crate::membership::doubts::CLOCK_JUMP_MAX;
use crate::membership::machine::Membership;
use crate::membership::state::gossip::Gossip;
use crate::membership::state::merge;
use crate::membership::state::vector_clock::{ClockOrder, VectorClock};
use crate::membership::targets;
use crate::membership::told::Telling;
use crate::reject::{MembershipRejection, Rejection};

impl Membership {
    /// Takes in a state whose version is not believed as it is. What else it says is kept; if that is news,
    /// by a change of mine, because nothing in the version would name it.
    pub(super) fn on_doubtful(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        mut remote: Gossip,
        are_paths_ahead: bool,
    ) {
        if are_paths_ahead {
            remote.set_paths(Arc::clone(self.gossip.paths()));
        }
        let mut mine = Gossip::clone(&self.gossip);
        let corrected = take_word(&mut mine, from, remote.version());
        let believed = self.believed(cx, from, remote.version(), Some(&remote));
        let is_cut = are_paths_ahead || believed != *remote.version();
        remote.set_version(believed);
        let is_outdated = remote.version().get(cx.me()) > mine.version().get(cx.me());
        if !corrected && !is_cut && !is_outdated {
            return self.take_in(cx, from, &remote, Telling::default());
        }
        cx.counters().gossip_merges += 1;
        let merged = merge::merge(&mine, &remote);
        let is_news = !merge::same_content(&merged, &self.gossip) || merged.gone() != self.gossip.gone();
        if corrected || is_outdated || is_news {
            return self.adopt_with_own_change(cx, from, merged);
        }
        // Answered only if the sender lacks something, or two nodes of whom each thinks that the other errs
        // would never be silent.
        match remote.version().compare(self.gossip.version()) {
            ClockOrder::Before | ClockOrder::Concurrent => self.send_gossip(cx, from),
            ClockOrder::Same | ClockOrder::After => {}
        }
    }

    /// Whether the table of paths of a state is so far ahead that it is not taken over. Nobody's word settles
    /// how many changes the leaders made: the table is believed once the time has passed that they need.
    pub(super) fn are_paths_ahead(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, claimed: u64) -> bool {
        // The first table counts from the wall clock on.
        let known = match self.gossip.paths().counter() {
            0 => cx.now().unix_ms,
            known => known,
        };
        if claimed <= known || self.claims.may_raise_paths(cx.mono(), claimed - known) {
            return false;
        }
        cx.counters().rejected_paths_ahead += 1;
        let rejection = MembershipRejection::PathsAhead { claimed, known };
        cx.reject(from, Rejection::Membership(rejection));
        true
    }

    /// Whether a claim to my changes may stand. If it is above my counter that goes on above it, as far as it
    /// may: a lie that somebody merged cannot hide what I change next. Further it does not, and whoever says
    /// more hears from me how many there are.
    pub(super) fn hear_claim(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, claimed: u64) -> bool {
        let own = self.own_clock;
        if claimed <= own {
            return true;
        }
        cx.counters().rejected_forged_clock += 1;
        cx.reject(
            from,
            Rejection::Membership(MembershipRejection::ForgedClock { claimed, own }),
        );
        let may_stand = self.claims.may_jump(cx.mono(), claimed - own);
        if may_stand {
            self.own_clock = claimed;
        } else {
            self.claims.doubt(from);
        }
        may_stand
    }

    /// Speaks with those with whom it is open who is right.
    pub(super) fn settle_claims(&mut self, cx: &mut Cx<'_>) {
        for node in core::mem::take(&mut self.claims.unsettled) {
            if self.gossip.contains(&node) && targets::is_valid_target(&self.gossip, cx.me(), &node) {
                self.send_whole(cx, &node);
            }
        }
    }

    /// The version without what is not believed: an entry far above the one held here stays as it is held.
    /// Not of the sender, whose word it is, and not of one that is on its way out: it counts no further, and
    /// has to be the same everywhere before it can be removed.
    fn believed(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        said: &VectorClock,
        remote: Option<&Gossip>,
    ) -> VectorClock {
        let held = Arc::clone(&self.gossip);
        let mut believed = said.clone();
        if !self.hear_claim(cx, from, said.get(cx.me())) {
            believed.set(cx.me(), held.version().get(cx.me()));
        }
        let is_over = |node: &UniqueAddress| {
            let mut states = [Some(&*held), remote].into_iter().flatten();
            held.tombstones().contains(node)
                || states.any(|state| state.member(node).is_some_and(|m| m.status.is_terminal()))
        };
        let mut first = true;
        for (node, claimed, known) in said.far_apart(held.version(), CLOCK_JUMP_MAX) {
            if node == *cx.me() || node == *from || is_over(&node) {
                continue;
            }
            self.claims.doubt(&node);
            if claimed < known {
                continue;
            }
            cx.counters().rejected_clock_ahead += 1;
            believed.set(&node, known);
            if core::mem::take(&mut first) {
                let rejection = MembershipRejection::ClockAhead { node, claimed, known };
                cx.reject(from, Rejection::Membership(rejection));
            }
        }
        believed
    }
}

/// Takes back what others said of a member if that is far above its own word.
fn take_word(mine: &mut Gossip, from: &UniqueAddress, said: &VectorClock) -> bool {
    let (word, held) = (said.get(from), mine.version().get(from));
    let was_forged = held.saturating_sub(word) > CLOCK_JUMP_MAX;
    if was_forged {
        let mut version = mine.version().clone();
        version.set(from, word);
        mine.set_version(version);
    }
    was_forged
}
