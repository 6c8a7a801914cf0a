//! The split-brain resolver: waits until the picture has been stable long enough, and then lets the leader
//! act on what the strategy decides. Every node keeps the same watch; only the leader speaks, except when the
//! picture does not come to rest at all. Never changes a status itself: it signals to membership who has to
//! go. Spec: membership 3.1, 3.8, 8.5, 8.7.

mod clocks;
mod evidence;
mod lease;
mod out_of_sight;
mod patience;
mod picture;
mod silences;
mod waiting;
mod watch;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::config::ValidConfig;
use crate::downing::Cx;
use crate::downing::resolver::clocks::Unrest;
use crate::downing::resolver::evidence::Evidence;
use crate::downing::resolver::lease::{PendingDecision, ResolverLease};
use crate::downing::resolver::out_of_sight::OutOfSight;
use crate::downing::resolver::patience::AfterPatience;
use crate::downing::resolver::picture::is_responsible;
use crate::downing::resolver::waiting::DecisionWait;
use crate::downing::state::decision::{DowningDecision, can_be_downed, is_counted};
use crate::downing::state::strategy::{Strategy, StrategyVerdict, counted, judge};
use crate::downing::state::view::{DowningView, IndirectRule, Observation};
use crate::event::{DowningEvent, DowningReport, DowningWait};
use crate::ident::UniqueAddress;
use crate::lease::protocol::LeaseReport;
use crate::membership::state::member::Member;
use crate::ordered::OrderedSet;
use crate::time::Instant;
use crate::timer::DowningTimer;
use crate::view::{MembershipPhase, View};

/// How often the question is asked again once the picture is stable, because leadership may come to this node
/// late.
const TICK: Duration = Duration::from_secs(1);

/// Why a side that saw no rest goes.
const TOO_LONG: &str = "members became unreachable and reachable for too long";

/// The resolver of one node.
#[derive(Clone, Debug)]
pub(crate) struct Resolver {
    /// `None`: an operator downs.
    strategy: Option<Arc<dyn Strategy>>,
    /// How far the wait for a stable picture has come; under auto-down, for each silent member's time to be
    /// over.
    wait: DecisionWait,
    /// Whether members come and go without anybody acting on it.
    unrest: Unrest,
    /// Since when the others may have missed this side.
    out_of_sight: OutOfSight,
    /// Who complains about whom within this data center.
    rows: Vec<Observation>,
    /// Members known to have seen a state with exactly these rows at any time. Unlike `seen`, which every
    /// change of anything empties, it does not make a living member look dead for a moment. Empty without
    /// rows.
    heard: OrderedSet<UniqueAddress>,
    /// What the rule of the fewest nodes goes by besides. Empty under the others.
    evidence: Evidence,
    /// Whether it was already told that the strategy wants nobody to go because of these rows.
    nobody_told: bool,
    /// The lease that some decisions need.
    lease: ResolverLease,
}

impl Resolver {
    pub(crate) fn new(config: &ValidConfig) -> Self {
        Self {
            strategy: config.downing.strategy.build(),
            wait: DecisionWait::new(config),
            unrest: Unrest::Quiet,
            out_of_sight: OutOfSight::default(),
            rows: Vec::new(),
            heard: OrderedSet::new(),
            evidence: Evidence::default(),
            nobody_told: false,
            lease: ResolverLease::new(config),
        }
    }

    pub(crate) fn on_view_changed(&mut self, cx: &mut Cx<'_>, before: &View, after: &View) {
        if self.strategy.is_none() {
            return;
        }
        if after.phase() != MembershipPhase::Member || after.self_member().is_none() {
            self.rows.clear();
            self.heard.clear();
            self.evidence.forget();
            self.wait.forget();
            self.unrest = Unrest::Quiet;
            self.out_of_sight = OutOfSight::default();
            self.lease.forget();
            cx.cancel(DowningTimer::Tick);
            return;
        }
        self.lease.on_view(cx.mono(), after);
        self.warn_of_members(cx, before, after);
        let is_anybody_new = self.watch_pairs(cx, before, after);
        self.watch_rows(cx, after);
        self.wait.on_view(cx.mono(), before, after);
        if is_anybody_new {
            self.wait.restart(cx.mono());
        }
        let is_anybody_lost = watch::is_anybody_lost(after);
        self.out_of_sight.on_view(cx.mono(), is_anybody_lost);
        if !is_anybody_lost {
            self.unrest = Unrest::Quiet;
            self.evidence.calm(cx.mono());
        } else if watch::is_unstable(before, after) {
            self.unrest
                .on_change(cx.mono(), watch::is_anybody_back(before, after));
        }
        self.arm(cx, after);
    }

    /// This process stood still from `since` on: what it knows is old, so the wait for a stable picture
    /// begins again.
    pub(crate) fn on_paused(&mut self, cx: &mut Cx<'_>, since: Instant) {
        if self.strategy.is_none() {
            return;
        }
        self.out_of_sight.on_paused(since);
        self.wait.restart(cx.mono());
        self.unrest.restart(cx.mono());
        self.evidence.on_paused(cx.mono());
        self.lease.on_paused();
        let view = Arc::clone(cx.view());
        self.arm(cx, &view);
    }

    /// Somebody who was reached since this process stood still counts it in.
    pub(crate) fn on_still_member(&mut self, cx: &Cx<'_>) {
        let stable_after = cx.config().stable_after(cx.view().members().len());
        self.out_of_sight.on_still_member(cx.mono() + stable_after);
    }

    pub(crate) fn on_timer(&mut self, cx: &mut Cx<'_>, timer: &DowningTimer) {
        match timer {
            DowningTimer::Tick => self.on_tick(cx),
        }
    }

    fn on_tick(&mut self, cx: &mut Cx<'_>) {
        let view = Arc::clone(cx.view());
        if let Some(event) = self.lease.on_time(cx) {
            self.carry_out(cx, event);
        }
        if self.lease.waits_for().is_some() {
            return self.arm(cx, &view);
        }
        let is_over = self
            .unstable_until(cx.config(), &view)
            .is_some_and(|end| end < cx.mono());
        let is_due = match is_over.then(|| self.after_patience(cx, &view)) {
            Some(AfterPatience::DownAll) => {
                self.down_all(cx, &view);
                return self.arm(cx, &view);
            }
            Some(AfterPatience::Go) => {
                self.go(cx, &view);
                return self.arm(cx, &view);
            }
            Some(AfterPatience::Decide(picture)) => {
                self.unrest.restart(cx.mono());
                self.decide(cx, &view, &picture);
                return self.arm(cx, &view);
            }
            Some(AfterPatience::AskForLease) => true,
            Some(AfterPatience::WaitOn) | None => self
                .stable_at(cx.config(), &view)
                .is_some_and(|at| at <= cx.mono()),
        };
        if is_over {
            self.unrest.restart(cx.mono());
        }
        if is_due && somebody_could_go(&view) {
            let picture = self.picture(cx.config(), &view, cx.mono());
            if is_responsible(&view, &picture) {
                self.decide(cx, &view, &picture);
            }
        }
        self.arm(cx, &view);
    }

    /// The keeper of a lease reports.
    pub(crate) fn on_lease(&mut self, cx: &mut Cx<'_>, report: &LeaseReport) {
        let view = Arc::clone(cx.view());
        if self.strategy.is_none() || view.self_member().is_none() || !self.lease.is_named(&report.name) {
            return;
        }
        if let Some(event) = self.lease.on_outcome(cx, report.outcome) {
            self.carry_out(cx, event);
        }
        self.arm(cx, &view);
    }

    /// What would be decided now, and what it waits for; `None` without a strategy or if nobody could go.
    pub(crate) fn explain(&self, config: &ValidConfig, now: Instant, view: &View) -> Option<DowningReport> {
        if view.self_member().is_none() || !somebody_could_go(view) {
            return None;
        }
        let decided_at = self.stable_at(config, view).map_or(now, |at| at.max(now));
        let picture = self.picture(config, view, decided_at);
        let decided = self.decided(config, view, decided_at, &picture)?;
        let waits_for = if let Some(lease) = self.lease.waits_for() {
            Some(lease)
        } else if let Some(until) = self.stable_at(config, view).filter(|at| now < *at) {
            Some(DowningWait::Stable { until })
        } else if is_responsible(view, &picture) {
            None
        } else {
            Some(DowningWait::Leader)
        };
        Some(DowningReport {
            waits_for,
            ..decided.event
        })
    }

    /// What must hold between inputs.
    pub(crate) fn check_invariants(&self, view: &View) {
        assert!(
            self.strategy.is_some() || self.rows.is_empty(),
            "without a strategy nothing is watched"
        );
        assert!(
            !self.rows.is_empty() || self.heard.is_empty(),
            "nothing is kept about rows that are gone"
        );
        self.wait.check_invariants(view);
        for row in &self.rows {
            assert!(row.observer != row.subject, "nobody complains about itself");
            assert!(
                view.member(&row.subject).is_some(),
                "only members are complained about"
            );
        }
    }

    /// Follows who complains about whom. If some of the rows may tell of a broken link, a new set of them
    /// must prove itself: who has heard of them is not known yet, so it may look cleaner than it is. Rows
    /// alone cannot put a decision off for ever, as Akka does not let them put it off at all: by half the
    /// stable period at most.
    fn watch_rows(&mut self, cx: &Cx<'_>, after: &View) {
        let rows = watch::observations(after);
        if rows != self.rows {
            let was_broken = self
                .picture(cx.config(), after, cx.mono())
                .may_have_broken_links();
            let is_cleaner = watch::is_partly_withdrawn(&self.rows, &rows, after);
            let is_fewest = cx.config().downing.rule == IndirectRule::Fewest;
            if is_fewest {
                self.evidence.on_rows(cx.mono(), &self.rows, &rows);
            }
            self.rows = rows;
            self.heard.clear();
            self.nobody_told = false;
            let is_broken = self
                .picture(cx.config(), after, cx.mono())
                .may_have_broken_links();
            if is_broken || is_cleaner || (was_broken && !is_fewest) {
                self.wait.put_off(cx.mono());
            } else if was_broken {
                // Only now has everybody near reported who is silent: it was no broken link, but a crash.
                self.wait.put_off_no_more();
            }
        }
        if !self.rows.is_empty() {
            self.heard.extend(after.gossip().seen().cloned());
        }
    }

    /// Follows who watches whom and who is Down, as far as the rule looks at that.
    fn watch_pairs(&mut self, cx: &Cx<'_>, before: &View, after: &View) -> bool {
        let monitored_by = cx.config().failure_detector.monitored_by_nr_of_members;
        cx.config().downing.rule == IndirectRule::Fewest
            && self.evidence.on_view(cx.mono(), monitored_by, before, after)
    }

    /// When a decision is due: the picture counts as stable, or a silent member's time is over. `None` while
    /// nobody is unreachable.
    fn stable_at(&self, config: &ValidConfig, view: &View) -> Option<Instant> {
        self.wait.over_at(config.stable_after(view.members().len()))
    }

    /// When this node gives up waiting for the picture to come to rest.
    fn unstable_until(&self, config: &ValidConfig, view: &View) -> Option<Instant> {
        let members = view.members().len();
        let patience = config.unstable_after(members)?;
        Some(self.unrest.since()? + config.stable_after(members) + patience)
    }

    /// Whether the lease tells at that moment who stays. The other side may have won it as early as a stable
    /// period after it missed this one, and gives it back `release_after` after that: then it would be
    /// granted once more, and both would stay. A quarter of that time is left for the sides to miss each
    /// other at different times.
    fn is_in_time_for_the_lease(&self, cx: &Cx<'_>) -> bool {
        let stable_after = cx.config().stable_after(cx.view().members().len());
        let latest = stable_after + self.lease.release_after() / 4 * 3;
        self.lease.is_held() || self.out_of_sight.for_how_long(cx.mono()) <= latest
    }

    /// Asks to be woken when the picture is stable, or every second after that, while somebody could go.
    fn arm(&self, cx: &mut Cx<'_>, view: &View) {
        let is_watched = self.strategy.is_some() && somebody_could_go(view);
        let watched = is_watched.then(|| self.ask_again_at(cx, view)).flatten();
        let at = watched.into_iter().chain(self.lease.next_at()).min();
        match at {
            Some(at) => cx.wake(DowningTimer::Tick, at),
            None => {
                cx.cancel(DowningTimer::Tick);
            }
        }
    }

    fn ask_again_at(&self, cx: &Cx<'_>, view: &View) -> Option<Instant> {
        let now = cx.mono();
        let stable_after = cx.config().stable_after(view.members().len());
        let next = self.wait.next_over_at(now, stable_after);
        let is_due = self.wait.over_at(stable_after).is_none_or(|at| at <= now);
        let again = is_due.then(|| cx.due(DowningTimer::Tick).unwrap_or(now + TICK).min(now + TICK));
        let unstable = self.unstable_until(cx.config(), view);
        let unstable = unstable.map(|end| end + Duration::from_micros(1));
        next.into_iter().chain(again).chain(unstable).min()
    }

    /// Tells operators, when a member became Up, that the strategy cannot decide about such members: there
    /// are too many, or none that it counts.
    fn warn_of_members(&self, cx: &mut Cx<'_>, before: &View, after: &View) {
        let Some(strategy) = &self.strategy else {
            return;
        };
        if !watch::is_anybody_newly_up(before, after) {
            return;
        }
        let counts = |member: &&Member| {
            is_counted(member.status) && strategy.role().is_none_or(|role| member.roles.contains(role))
        };
        let members = watch::own_members(after).filter(counts).count();
        if let Some(members_max) = strategy.members_max().filter(|max| members > *max) {
            cx.notify(DowningEvent::TooManyMembersToDecide { members, members_max });
        }
        if let Some(role) = strategy.role().filter(|_| members == 0) {
            cx.notify(DowningEvent::NobodyHasDowningRole { role: role.clone() });
        }
    }

    fn decide(&mut self, cx: &mut Cx<'_>, view: &View, picture: &DowningView) {
        let Some(decided) = self.decided(cx.config(), view, cx.mono(), picture) else {
            return;
        };
        if decided.event.decision.needs_lease() && !decided.event.down.is_empty() {
            self.ask_for_lease(cx, decided);
        } else {
            self.carry_out(cx, decided.event);
        }
    }

    /// What is decided about `picture` at `at`; `None` without a strategy.
    fn decided(
        &self,
        config: &ValidConfig,
        view: &View,
        at: Instant,
        picture: &DowningView,
    ) -> Option<PendingDecision> {
        let strategy = self.strategy.as_deref()?;
        let share = config.downing.down_all_when_indirectly_connected;
        let mut verdict = judge(strategy, picture, share);
        let stable_after = config.stable_after(view.members().len());
        verdict
            .down
            .retain(|node| self.wait.may_go(node, at, stable_after));
        let down_if_denied = core::mem::take(&mut verdict.down_if_denied);
        Some(PendingDecision {
            event: event(strategy, config, picture, verdict),
            down_if_denied,
        })
    }

    fn ask_for_lease(&mut self, cx: &mut Cx<'_>, pending: PendingDecision) {
        if !self.is_in_time_for_the_lease(cx) {
            let event =
                pending.denied("too late for the lease: another side may have held it and given it back");
            return self.carry_out(cx, event);
        }
        let mut event = pending.event.clone();
        if let Some(event) = self.lease.want(cx, pending) {
            return self.carry_out(cx, event);
        }
        event.waits_for = self.lease.waits_for();
        cx.notify(DowningEvent::Decision(event));
    }

    fn carry_out(&mut self, cx: &mut Cx<'_>, event: DowningReport) {
        if event.down.is_empty() {
            let is_news = event.decision == DowningDecision::DownNobody && !self.nobody_told;
            if !is_news {
                return;
            }
            self.nobody_told = true;
        } else {
            cx.counters().decisions += 1;
            cx.say_down_decided(event.down.iter().cloned().collect());
            self.wait.on_decided(cx.mono(), &event.down);
            self.unrest = Unrest::Quiet;
            self.evidence.calm(cx.mono());
        }
        cx.notify(DowningEvent::Decision(event));
    }
}

/// Whether an unreachable member could still be downed: without one there is nothing to decide.
fn somebody_could_go(view: &View) -> bool {
    let unreachable = view.unreachable().iter().filter_map(|node| view.member(node));
    unreachable.into_iter().any(|member| can_be_downed(member.status))
}

fn event(
    strategy: &dyn Strategy,
    config: &ValidConfig,
    picture: &DowningView,
    verdict: StrategyVerdict,
) -> DowningReport {
    let (members, unreachable) = counted(strategy, picture);
    DowningReport {
        strategy: strategy.name(),
        rule: config.downing.rule,
        decision: verdict.decision,
        reason: verdict.reason,
        members,
        unreachable,
        indirectly_connected: verdict.indirectly_connected.into_iter().collect(),
        down: verdict.down,
        waits_for: None,
    }
}

#[cfg(test)]
mod tests;
