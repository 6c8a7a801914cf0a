//! The term of an instance: asked of all members that vote, taken once a majority of them has promised it,
//! void as soon as somebody has a higher one. Starts nothing that is not promised. Spec: sharding 10.7.
//!
//! Those that have not promised are asked until they have, so that whoever comes later hears of the term.
//! What others say of terms leads this node on by one step for each claim, and a claim that was refused
//! rests: nobody's word takes all terms there are.

use alloc::vec::Vec;
use core::time::Duration;

use super::{InstanceStage, SingletonInstance};
use crate::ident::UniqueAddress;
use crate::membership::state::member::Status;
use crate::reject::Rejection as AnyRejection;
use crate::rng;
use crate::singleton::protocol::{Event, Rejection, SingletonBody, Timer};
use crate::singleton::voter::{TERM_MAX, TERM_STEP};
use crate::singleton::{Cx, say};
use crate::token::Token;

/// Claims that may follow refusals at once: those of some members that hold different terms.
const CLAIMS_AT_ONCE: u32 = 4;

/// How far above the terms that this node knows of a token may be that refused one: voters are led there in a
/// quarter of an hour, a step a second.
const FENCE_REACH: u64 = TERM_STEP << 10;

impl SingletonInstance {
    pub(in crate::singleton::manager) fn highest_term(&self) -> u64 {
        self.highest.max(self.told)
    }

    /// This node knows of a term: the next one is above it.
    fn note_term(&mut self, term: u64) {
        self.highest = self.highest.max(term.min(TERM_MAX));
    }

    /// Another node's word for a term, that of one which hands over. However often it is said, it leads no
    /// further than a step: what is missing to the truth a refusal will say.
    pub(in crate::singleton::manager) fn note_told(&mut self, term: u64) {
        let reach = self.highest.saturating_add(TERM_STEP).min(TERM_MAX);
        self.told = self.told.max(term.min(reach));
    }

    /// A further one of the term that is this node's: it counts again by those that are members now. Some may
    /// have come since the first, and know of a higher one.
    pub(super) fn go_on_with_term(&mut self, cx: &mut Cx<'_>) {
        self.life = InstanceStage::Claiming;
        self.run_if_promised(cx);
        if self.life == InstanceStage::Claiming {
            self.ask(cx);
        }
    }

    pub(super) fn claim(&mut self, cx: &mut Cx<'_>) {
        let above = self.highest_term();
        if above >= TERM_MAX {
            // Whoever went on would repeat itself for ever. Only an operator can say which terms were never
            // taken.
            self.life = InstanceStage::Resting;
            cx.counters().terms_used_up += 1;
            return cx.notify((self.id, Event::TermsUsedUp));
        }
        self.life = InstanceStage::Claiming;
        self.note_term(above + 1);
        self.term = self.highest;
        self.count = 0;
        self.epoch += 1;
        self.promised.clear();
        self.behind.clear();
        self.is_outreached = false;
        self.ask(cx);
    }

    /// Asks those who have not promised the term, now and until they have. Who is far behind is asked for a
    /// step on the way there.
    fn ask(&self, cx: &mut Cx<'_>) {
        let missing: Vec<UniqueAddress> = voters(cx)
            .into_iter()
            .filter(|node| !self.promised.contains(node))
            .collect();
        if missing.is_empty() {
            return;
        }
        for node in missing {
            let step = |held: &u64| self.term.min(held.saturating_add(TERM_STEP));
            let term = self.behind.get(&node).map_or(self.term, step);
            say(cx, &node, self.id, self.epoch, SingletonBody::Claim { term });
        }
        let at = cx.mono() + cx.config().singleton.hand_over_retry_interval;
        cx.wake(Timer::Claim(self.id), at);
    }

    /// Time to ask again, or to claim again after a refusal.
    pub(in crate::singleton) fn on_claim_timer(&mut self, cx: &mut Cx<'_>, held_up: bool) {
        match self.life {
            InstanceStage::Wanted => self.go_on(cx, held_up),
            // No majority has promised it, and somebody is so far above it that this takes more than one
            // claim.
            InstanceStage::Claiming if self.is_outreached => {
                self.note_term(self.term.saturating_add(TERM_STEP));
                self.claimed = false;
                self.life = InstanceStage::Wanted;
                self.go_on(cx, held_up);
            }
            InstanceStage::Claiming => self.ask(cx),
            InstanceStage::Absent
            | InstanceStage::Running(_)
            | InstanceStage::Stopping(_)
            | InstanceStage::Resting
                if self.claimed =>
            {
                self.ask(cx)
            }
            InstanceStage::Absent
            | InstanceStage::Running(_)
            | InstanceStage::Stopping(_)
            | InstanceStage::Resting => {}
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
        if epoch != self.epoch || term > self.term {
            return stale(cx, from);
        }
        if term < self.term {
            // A step on the way: the next one follows with the next question.
            self.behind.insert(from.clone(), term);
            return;
        }
        self.behind.remove(from);
        self.promised.insert(from.clone());
        self.go_on(cx, held_up);
    }

    /// A member has not promised the term, because it has promised a higher one, or far lower ones only.
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
        if held < self.term {
            // The claim is further above what it has promised than a claim may be now.
            self.behind.insert(from.clone(), held);
            return;
        }
        if from != cx.me() && held > self.term.saturating_add(TERM_STEP) {
            // One that holds nonsense, or lies, is outvoted; a majority that is so far ahead is caught up
            // with in steps.
            cx.counters().terms_out_of_reach += 1;
            self.is_outreached = true;
            return;
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

    /// Something that the user's code writes to has refused the token, because it holds this one; `false` if
    /// no instance can have had that.
    pub(in crate::singleton) fn on_token_refused(
        &mut self,
        cx: &mut Cx<'_>,
        held: Token,
        held_up: bool,
    ) -> bool {
        if held.term > self.highest_term().saturating_add(FENCE_REACH) {
            return false;
        }
        self.note_term(held.term);
        if self.token().is_some_and(|token| token <= held) {
            self.supersede(cx, held.term, held_up);
        }
        true
    }

    /// Somebody has a higher term: what runs here is told so and begins nothing more, and what waits for its
    /// term takes a higher one.
    fn supersede(&mut self, cx: &mut Cx<'_>, term: u64, held_up: bool) {
        self.claimed = false;
        match self.life {
            InstanceStage::Running(run) => {
                cx.counters().instances_superseded += 1;
                let token = run.token;
                cx.notify((self.id, Event::Superseded { token, term }));
                self.life = InstanceStage::Stopping(run);
                self.order_kill(cx, run);
                self.leave(cx, token);
            }
            InstanceStage::Claiming => {
                self.life = InstanceStage::Wanted;
                self.refusals = self.refusals.saturating_add(1);
                match self.rest_of_claims(cx) {
                    Some(rest) => cx.wake(Timer::Claim(self.id), cx.mono() + rest),
                    None => self.go_on(cx, held_up),
                }
            }
            InstanceStage::Absent
            | InstanceStage::Wanted
            | InstanceStage::Stopping(_)
            | InstanceStage::Resting => {}
        }
    }

    /// How long the next claim waits after so many refusals. Drawn, so that two who outdo each other do not
    /// go on in step.
    fn rest_of_claims(&self, cx: &mut Cx<'_>) -> Option<Duration> {
        let doublings = self.refusals.checked_sub(CLAIMS_AT_ONCE)?;
        let settings = &cx.config().singleton;
        let (least, most) = (settings.hand_over_retry_interval, settings.restart_backoff_max);
        let longest = least.saturating_mul(1 << doublings.min(20)).min(most.max(least));
        let micros = usize::try_from(longest.as_micros() / 2).unwrap_or(usize::MAX);
        Some(longest / 2 + Duration::from_micros(rng::below(cx.rng(), micros.max(1)) as u64))
    }

    /// The members changed: new ones are asked, and those that are gone are not waited for.
    pub(in crate::singleton::manager) fn on_members_changed(&mut self, cx: &mut Cx<'_>, held_up: bool) {
        let view = alloc::sync::Arc::clone(cx.view());
        self.watchers.retain(|node, _| view.member(node).is_some());
        self.promised.retain(|node| view.member(node).is_some());
        self.behind.retain(|node, _| view.member(node).is_some());
        self.go_on(cx, held_up);
        if !cx.is_set(Timer::Claim(self.id)) {
            self.on_claim_timer(cx, held_up);
        }
    }

    pub(super) fn run_if_promised(&mut self, cx: &mut Cx<'_>) {
        let voters = voters(cx);
        let promised = voters.iter().filter(|node| self.promised.contains(node)).count();
        if promised * 2 > voters.len() {
            if !core::mem::replace(&mut self.claimed, true) {
                cx.counters().terms_taken += 1;
            }
            self.refusals = 0;
            self.run(cx);
        }
    }
}

/// Members that vote about terms: all that were Up and neither are Down nor end. Who ends tells its successor
/// the term itself.
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
