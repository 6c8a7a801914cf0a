//! The split-brain resolver: waits until the picture has been stable long enough, and then lets the leader act on what
//! the strategy decides. Every node keeps the same watch; only the leader speaks. Never changes a status itself: it
//! signals to membership who has to go. Spec: membership 3.1, 3.8, 8.5, 8.7.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::config::{DowningStrategy, ValidConfig};
use crate::cx::Cx;
use crate::downing::decision::{Decision, DowningView, Observation, can_be_downed};
use crate::downing::keep_majority::KeepMajority;
use crate::event::{DowningEvent, Event};
use crate::ident::UniqueAddress;
use crate::membership::member::{Member, Status};
use crate::membership::reachability::Reach;
use crate::time::Instant;
use crate::timers::Timer;
use crate::view::{Phase, View};

/// How often the question is asked again once the picture is stable, because leadership may come to this node late.
const TICK: Duration = Duration::from_secs(1);

/// The resolver of one node.
#[derive(Clone, Debug)]
pub(crate) struct Resolver {
    /// `None`: an operator downs.
    strategy: Option<KeepMajority>,
    /// When the picture will have been stable long enough.
    stable_at: Instant,
    /// Who complains about whom within this data center.
    rows: Vec<Observation>,
    /// Members known to have seen a state with exactly these rows at any time. Unlike `seen`, which every change of
    /// anything empties, it does not make a living member look dead for a moment. Empty without rows.
    heard: BTreeSet<UniqueAddress>,
    /// Whether it was already told that there is no decision about these rows.
    undecided_told: bool,
}

impl Resolver {
    pub(crate) fn new(config: &ValidConfig) -> Self {
        let strategy = match &config.downing.strategy {
            DowningStrategy::Off => None,
            DowningStrategy::KeepMajority { role } => Some(KeepMajority::new(role.clone())),
        };
        Self {
            strategy,
            stable_at: Instant::ZERO,
            rows: Vec::new(),
            heard: BTreeSet::new(),
            undecided_told: false,
        }
    }

    pub(crate) fn on_view_changed(&mut self, cx: &mut Cx<'_>, before: &View, after: &View) {
        if self.strategy.is_none() {
            return;
        }
        if after.phase() != Phase::Member || after.self_member().is_none() {
            self.rows.clear();
            self.heard.clear();
            cx.timers.cancel(&Timer::Downing);
            return;
        }
        self.watch_rows(cx, after);
        if is_unsettled(before, after) {
            self.restart(cx);
        }
        self.arm(cx, after);
    }

    /// This process stood still: what it knows is old, so the wait for a stable picture begins again.
    pub(crate) fn on_paused(&mut self, cx: &mut Cx<'_>) {
        if self.strategy.is_none() {
            return;
        }
        self.restart(cx);
        let view = Arc::clone(cx.view());
        self.arm(cx, &view);
    }

    pub(crate) fn on_timer(&mut self, cx: &mut Cx<'_>) {
        let view = Arc::clone(cx.view());
        let responsible = view.is_leader() && matches!(view.self_status(), Status::Up | Status::WeaklyUp);
        if responsible && self.stable_at <= cx.mono() && somebody_could_go(&view) {
            self.decide(cx, &view);
        }
        self.arm(cx, &view);
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
        for row in &self.rows {
            assert!(row.observer != row.subject, "nobody complains about itself");
            assert!(
                view.member(&row.subject).is_some(),
                "only members are complained about"
            );
        }
    }

    /// Follows who complains about whom. If that was no clean split, a new set of complaints must prove itself for a
    /// whole stable period: who has heard of them is not known yet, so it may look cleaner than it is.
    fn watch_rows(&mut self, cx: &Cx<'_>, after: &View) {
        let rows = observations(after);
        if rows != self.rows {
            if self.picture(after).has_indirectly_connected() {
                self.restart(cx);
            }
            self.rows = rows;
            self.heard.clear();
            self.undecided_told = false;
        }
        if !self.rows.is_empty() {
            self.heard.extend(after.gossip().seen().cloned());
        }
    }

    fn restart(&mut self, cx: &Cx<'_>) {
        self.stable_at = cx.mono() + cx.config.downing.stable_after;
    }

    /// Asks to be woken when the picture is stable, or every second after that, while somebody could go.
    fn arm(&self, cx: &mut Cx<'_>, view: &View) {
        if self.strategy.is_none() || !somebody_could_go(view) {
            cx.timers.cancel(&Timer::Downing);
        } else if cx.mono() < self.stable_at {
            cx.wake(Timer::Downing, self.stable_at);
        } else if !cx.timers.is_set(&Timer::Downing) {
            let at = cx.mono() + TICK;
            cx.wake(Timer::Downing, at);
        }
    }

    fn decide(&mut self, cx: &mut Cx<'_>, view: &View) {
        let Some(strategy) = &self.strategy else {
            return;
        };
        let picture = self.picture(view);
        let (decision, rule) = strategy.explain(&picture);
        let down = picture.nodes_to_down(decision);
        match decision {
            Decision::Undecided(_) if self.undecided_told => return,
            Decision::Undecided(_) => self.undecided_told = true,
            Decision::DownUnreachable | Decision::DownReachable | Decision::DownAll => {
                if down.is_empty() {
                    return;
                }
                cx.stats.downing_decisions += 1;
                cx.signals.down_decided(down.iter().cloned().collect());
                self.stable_at = cx.mono() + cx.config.downing.stable_after;
            }
        }
        let members = strategy.counted(&picture);
        let unreachable = members
            .iter()
            .filter(|node| picture.is_unreachable(node))
            .cloned()
            .collect();
        let event = DowningEvent {
            strategy: "keep-majority",
            rule,
            members,
            unreachable,
            down,
        };
        cx.notify(Event::Downing(event));
    }

    /// What the strategy looks at: this data center, where who is Down counts as unreachable.
    fn picture(&self, view: &View) -> DowningView {
        let members = || own_members(view);
        let dead = members()
            .filter(|member| member.status == Status::Down)
            .map(|member| &member.node);
        let unreachable = view.unreachable().iter().chain(dead).cloned();
        DowningView::new(
            members().cloned(),
            unreachable,
            self.rows.iter().cloned(),
            self.heard.iter().cloned(),
        )
    }
}

fn own_members(view: &View) -> impl Iterator<Item = &Member> {
    let own = view.self_member().map(Member::data_center);
    view.members()
        .iter()
        .filter(move |member| Some(member.data_center()) == own)
}

/// Rows in which a member of this data center calls another one unreachable or terminated.
fn observations(view: &View) -> Vec<Observation> {
    let own = view.self_member().map(Member::data_center);
    let is_own = |node: &UniqueAddress| own.is_some() && view.member(node).map(Member::data_center) == own;
    let bad = view
        .gossip()
        .reachability()
        .records()
        .iter()
        .filter(|record| match record.status {
            Reach::Reachable => false,
            Reach::Unreachable | Reach::Terminated => true,
        });
    // A row of a member about itself is nonsense that a peer may nevertheless send.
    bad.filter(|record| record.observer != record.subject)
        .filter(|record| is_own(&record.observer) && is_own(&record.subject))
        .map(|record| Observation {
            observer: record.observer.clone(),
            subject: record.subject.clone(),
        })
        .collect()
}

/// Whether an unreachable member could still be downed: without one there is nothing to decide.
fn somebody_could_go(view: &View) -> bool {
    let unreachable = view.unreachable().iter().filter_map(|node| view.member(node));
    unreachable.into_iter().any(|member| can_be_downed(member.status))
}

/// Whether the change makes the wait for a stable picture begin again: somebody became Up, Exiting or Down, became
/// unreachable, or is reachable again. Joining, leaving and being removed do not.
fn is_unsettled(before: &View, after: &View) -> bool {
    if before.phase() != Phase::Member {
        return true;
    }
    // What happened while nobody was unreachable does not matter: the first who is begins the wait anyway.
    if after.unreachable().is_empty() {
        return false;
    }
    let is_member = |node: &UniqueAddress| after.member(node).is_some();
    let lost = after.unreachable().iter().any(|node| before.is_reachable(node));
    let back = before
        .unreachable()
        .iter()
        .any(|node| after.is_reachable(node) && is_member(node));
    lost || back || own_members(after).any(|member| has_turned(before, member))
}

fn has_turned(before: &View, member: &Member) -> bool {
    let turned = match member.status {
        Status::Up | Status::Exiting | Status::Down => true,
        Status::Joining
        | Status::WeaklyUp
        | Status::PreparingForShutdown
        | Status::ReadyForShutdown
        | Status::Leaving
        | Status::Removed => false,
    };
    turned
        && before
            .member(&member.node)
            .is_none_or(|old| old.status != member.status)
}

#[cfg(test)]
mod tests;
