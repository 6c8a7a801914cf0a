//! A strategy's shape, and what follows from its answer: who exactly is downed. Pure: the same view gives the
//! same verdict. Spec: membership 3.2, 3.7.

use alloc::vec::Vec;
use core::fmt::Debug;

use crate::agreement::Setting;
use crate::downing::state::decision::{DowningDecision, is_counted};
use crate::downing::state::view::DowningView;
use crate::ident::{Role, UniqueAddress};
use crate::membership::state::member::Member;
use crate::ordered::OrderedSet;

/// A downing strategy: a pure function from what one node sees to what has to go. All nodes must run the same
/// one with the same settings, and each decides for its own side alone, so it must answer "this side stays"
/// on at most one side of any split. No time, no chance, no state: what it needs to know is in the view.
///
/// ```
/// use quorate_core::downing::decision::DowningDecision;
/// use quorate_core::downing::strategy::Strategy;
/// use quorate_core::downing::view::DowningView;
///
/// /// The side that holds the member on host `referee` stays.
/// #[derive(Debug)]
/// struct KeepReferee;
///
/// impl Strategy for KeepReferee {
///     fn name(&self) -> &'static str {
///         "keep-referee"
///     }
///
///     fn decide(&self, view: &DowningView) -> DowningDecision {
///         if view.has_indirectly_connected() {
///             return DowningDecision::DownIndirectlyConnected;
///         }
///         let referee = view.members().iter().find(|m| m.node.address().host() == "referee");
///         match referee {
///             Some(member) if view.is_unreachable(&member.node) => DowningDecision::DownReachable,
///             Some(_) => DowningDecision::DownUnreachable,
///             None => DowningDecision::DownAll,
///         }
///     }
/// }
/// ```
pub trait Strategy: Debug + Send + Sync {
    /// Its name for operators. Members with strategies of different names refuse each other, and so do those
    /// whose [`Strategy::settings`] differ.
    fn name(&self) -> &'static str;

    /// Decides for the side this view was taken on.
    fn decide(&self, view: &DowningView) -> DowningDecision;

    /// The decision and what made it, in words for the operator.
    fn explain(&self, view: &DowningView) -> (DowningDecision, &'static str) {
        (self.decide(view), "the strategy says so")
    }

    /// Only members with this role are counted; all without one. Shown to operators, not used to decide.
    fn role(&self) -> Option<&Role> {
        None
    }

    /// Its settings that all members have to agree on (default none), with keys below `downing.strategy.`:
    /// two members of which one decides by others refuse each other. Read once, when the configuration is
    /// checked; at most 32, the application's checkers included.
    fn settings(&self) -> Vec<Setting> {
        Vec::new()
    }

    /// Whether both sides of a clean split may stay (default `false`, which is what a strategy promises).
    /// Operators are warned then of every entity kind that each side would run.
    fn lets_both_sides_go_on(&self) -> bool {
        false
    }

    /// How many members it can decide about; operators are warned when more are counted. `None` for any
    /// number.
    fn members_max(&self) -> Option<usize> {
        None
    }
}

/// Why a strategy decides about indirectly connected members.
pub(crate) const BROKEN_LINKS: &str = "no clean split: some members are unreachable for a part of us only";

/// What a strategy's answer comes down to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrategyVerdict {
    /// The answer.
    pub decision: DowningDecision,
    /// What made it, in words.
    pub reason: &'static str,
    /// The members on broken links; by the rule of the fewest nodes, those of them that go.
    pub indirectly_connected: OrderedSet<UniqueAddress>,
    /// The incarnations to down, in node order. Members that are Down never are, and of those that are
    /// Exiting, by the rule of the fewest nodes, only whoever reports somebody that stays.
    pub down: Vec<UniqueAddress>,
    /// Who is downed instead if the lease is held by somebody else; equal to `down` for decisions without a
    /// lease.
    pub down_if_denied: Vec<UniqueAddress>,
    /// Whether everybody is downed although the decision does not say so: what is left beyond the broken
    /// links is no clean split either, or they are too large a part of the cluster.
    pub escalated: bool,
}

/// Has `strategy` decide about `view` and works out who goes. `down_all_from` is the share of counted members
/// from which downing those on broken links becomes downing everybody; `None` never does.
#[must_use]
pub fn judge(strategy: &dyn Strategy, view: &DowningView, down_all_from: Option<f64>) -> StrategyVerdict {
    let (decision, reason) = strategy.explain(view);
    let mut verdict = StrategyVerdict {
        decision,
        reason,
        indirectly_connected: view.indirectly_connected().union(view.cover()).cloned().collect(),
        down: Vec::new(),
        down_if_denied: Vec::new(),
        escalated: false,
    };
    if decision.is_indirectly_connected() {
        down_indirectly_connected(strategy, view, down_all_from, &mut verdict);
    } else {
        verdict.down = nodes(view, |node| goes(decision, view, node));
    }
    verdict.down_if_denied = if decision.needs_lease() {
        let broken = |node: &UniqueAddress| {
            decision.is_indirectly_connected() && verdict.indirectly_connected.contains(node)
        };
        nodes(view, |node| broken(node) || !view.is_far(node))
    } else {
        verdict.down.clone()
    };
    verdict
}

fn down_indirectly_connected(
    strategy: &dyn Strategy,
    view: &DowningView,
    down_all_from: Option<f64>,
    verdict: &mut StrategyVerdict,
) {
    let rest = view.without_broken_links();
    let additional = rest.as_ref().map(|rest| (strategy.decide(rest), rest));
    let goes_too =
        |node: &UniqueAddress| additional.is_some_and(|(decision, rest)| goes(decision, rest, node));
    verdict.down = nodes(view, |node| {
        verdict.indirectly_connected.contains(node) || goes_too(node)
    });
    if additional.is_some_and(|(decision, _)| decision.is_indirectly_connected()) {
        verdict.reason = "no clean split even beyond the broken links";
        verdict.escalated = true;
    } else if is_share(verdict.down.len(), view.members_counted(), down_all_from) {
        verdict.reason = "too large a part of the cluster is on broken links";
        verdict.escalated = true;
    }
    if verdict.escalated {
        verdict.down = nodes(view, |_| true);
    }
}

/// Whether the answer to a clean split sends this node away.
fn goes(decision: DowningDecision, view: &DowningView, node: &UniqueAddress) -> bool {
    match decision {
        DowningDecision::DownUnreachable | DowningDecision::AcquireLeaseAndDownUnreachable { .. } => {
            view.is_unreachable(node)
        }
        DowningDecision::DownReachable => !view.is_far(node),
        DowningDecision::DownAll => true,
        DowningDecision::DownIndirectlyConnected
        | DowningDecision::AcquireLeaseAndDownIndirectlyConnected
        | DowningDecision::DownNobody => false,
    }
}

fn nodes(view: &DowningView, chosen: impl Fn(&UniqueAddress) -> bool) -> Vec<UniqueAddress> {
    let is_chosen = |member: &&Member| view.can_go(member) && chosen(&member.node);
    let members = view.members().iter().filter(is_chosen);
    members.map(|member| member.node.clone()).collect()
}

/// Whether `part` is at least `share` of `whole`. Members are few enough for a float to count them exactly.
fn is_share(part: usize, whole: usize, share: Option<f64>) -> bool {
    let as_float = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    part > 0 && share.is_some_and(|share| as_float(part) >= share * as_float(whole))
}

/// The members a strategy counts and those of them that are unreachable, in node order.
#[must_use]
pub fn counted(strategy: &dyn Strategy, view: &DowningView) -> (Vec<UniqueAddress>, Vec<UniqueAddress>) {
    let members = view.counted(strategy.role(), is_counted);
    let members: Vec<UniqueAddress> = members.map(|member| member.node.clone()).collect();
    let lost = members.iter().filter(|node| view.is_unreachable(node));
    let unreachable = lost.cloned().collect();
    (members, unreachable)
}
