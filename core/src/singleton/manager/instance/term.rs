//! The term of an instance: asked of all members that vote, taken once a majority of them has promised it, void as soon as somebody
//! has a higher one. Starts nothing that is not promised. Spec: sharding 10.7.
//!
//! Those that have not promised are asked until they have, so that whoever comes later hears of the term.

use alloc::vec::Vec;

use super::{Instance, Life};
use crate::ident::UniqueAddress;
use crate::membership::state::member::Status;
use crate::reject::Rejection as AnyRejection;
use crate::singleton::protocol::{Body, Event, Rejection, Timer};
use crate::singleton::voter::TERM_MAX;
use crate::singleton::{Cx, say};
use crate::token::Token;

impl Instance {
    pub(in crate::singleton::manager) const fn highest_term(&self) -> u64 {
        self.highest
    }

    /// This node has heard of a term: the next one is above it.
    pub(in crate::singleton::manager) fn note_term(&mut self, term: u64) {
        self.highest = self.highest.max(term.min(TERM_MAX));
    }

    /// A further one of the term that is this node's: it counts again by those that are members now. Some may have come since the
    /// first, and know of a higher one.
    pub(super) fn go_on_with_term(&mut self, cx: &mut Cx<'_>) {
        self.life = Life::Claiming;
        self.run_if_promised(cx);
        if self.life == Life::Claiming {
            self.ask(cx);
        }
    }

    pub(super) fn claim(&mut self, cx: &mut Cx<'_>) {
        self.life = Life::Claiming;
        self.note_term(self.highest.saturating_add(1));
        self.term = self.highest;
        self.count = 0;
        self.epoch += 1;
        self.promised.clear();
        self.ask(cx);
    }

    /// Asks those who have not promised the term, now and until they have.
    fn ask(&self, cx: &mut Cx<'_>) {
        let missing: Vec<UniqueAddress> = voters(cx)
            .into_iter()
            .filter(|node| !self.promised.contains(node))
            .collect();
        if missing.is_empty() {
            return;
        }
        for node in missing {
            say(cx, &node, self.id, self.epoch, Body::Claim { term: self.term });
        }
        let at = cx.mono() + cx.config().singleton.hand_over_retry_interval;
        cx.wake(Timer::Claim(self.id), at);
    }

    /// Time to ask again.
    pub(in crate::singleton) fn on_claim_timer(&self, cx: &mut Cx<'_>) {
        if self.claimed || self.life == Life::Claiming {
            self.ask(cx);
        }
    }

    /// A member promised.
    pub(in crate::singleton) fn on_promised(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        epoch: u64,
        term: u64,
        held_up: bool,
    ) {
        if epoch != self.epoch || term != self.term {
            return stale(cx, from);
        }
        self.promised.insert(from.clone());
        self.go_on(cx, held_up);
    }

    /// A member has promised a higher term.
    pub(in crate::singleton) fn on_refused(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        epoch: u64,
        held: u64,
        held_up: bool,
    ) {
        if epoch != self.epoch || held > TERM_MAX {
            return stale(cx, from);
        }
        self.note_term(held);
        self.supersede(cx, held, held_up);
    }

    /// This node itself has promised a term to somebody.
    pub(in crate::singleton) fn on_given(
        &mut self,
        cx: &mut Cx<'_>,
        to: &UniqueAddress,
        term: u64,
        held_up: bool,
    ) {
        self.note_term(term);
        if to != cx.me() && term > self.term {
            self.supersede(cx, term, held_up);
        }
    }

    /// Something that the user's code writes to has refused the token, because it holds this one.
    pub(in crate::singleton) fn on_token_refused(&mut self, cx: &mut Cx<'_>, held: Token, held_up: bool) {
        self.note_term(held.term);
        if self.token().is_some_and(|token| token <= held) {
            self.supersede(cx, held.term, held_up);
        }
    }

    /// Somebody has a higher term: what runs here is told so and begins nothing more, and what waits for its term takes a higher
    /// one.
    fn supersede(&mut self, cx: &mut Cx<'_>, term: u64, held_up: bool) {
        self.claimed = false;
        match self.life {
            Life::Running(run) => {
                cx.counters().instances_superseded += 1;
                let token = run.token;
                cx.notify((self.id, Event::Superseded { token, term }));
                self.life = Life::Stopping(run);
                self.order_kill(cx, run);
                self.leave(cx, token);
            }
            Life::Claiming => {
                self.life = Life::Wanted;
                self.go_on(cx, held_up);
            }
            Life::Absent | Life::Wanted | Life::Stopping(_) | Life::Resting => {}
        }
    }

    /// The members changed: new ones are asked, and those that are gone are not waited for.
    pub(in crate::singleton::manager) fn on_members_changed(&mut self, cx: &mut Cx<'_>, held_up: bool) {
        let view = alloc::sync::Arc::clone(cx.view());
        self.watchers.retain(|node, _| view.member(node).is_some());
        self.promised.retain(|node| view.member(node).is_some());
        self.go_on(cx, held_up);
        if !cx.is_set(Timer::Claim(self.id)) {
            self.on_claim_timer(cx);
        }
    }

    pub(super) fn run_if_promised(&mut self, cx: &mut Cx<'_>) {
        let voters = voters(cx);
        let promised = voters.iter().filter(|node| self.promised.contains(node)).count();
        if promised * 2 > voters.len() {
            if !core::mem::replace(&mut self.claimed, true) {
                cx.counters().terms_taken += 1;
            }
            self.run(cx);
        }
    }
}

/// Members that vote about terms: all that were Up and neither are Down nor end. Who ends tells its successor the term itself.
fn voters(cx: &Cx<'_>) -> Vec<UniqueAddress> {
    let votes = |status| match status {
        Status::Up | Status::PreparingForShutdown | Status::ReadyForShutdown | Status::Leaving => true,
        Status::Joining | Status::WeaklyUp | Status::Exiting | Status::Down | Status::Removed => false,
    };
    let members = cx.view().by_age(None);
    let voting = members.iter().filter(|member| votes(member.status));
    voting.map(|member| member.node.clone()).collect()
}

fn stale(cx: &mut Cx<'_>, from: &UniqueAddress) {
    cx.counters().answers_stale += 1;
    cx.reject(from, AnyRejection::Singleton(Rejection::StaleEpoch));
}
