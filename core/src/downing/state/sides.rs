//! Near and far, as one node sees it, and the fewest nodes that explain the links that are broken among those
//! near. Values only: no time, no chance, no effects. Spec: membership 3.10.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::downing::state::cover;
use crate::downing::state::standpoint::{Observation, Standpoint, Watches};
use crate::ident::UniqueAddress;
use crate::membership::state::member::{Member, Status};
use crate::ordered::OrderedSet;

/// What the members of one data center come to, seen from one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sides {
    /// Everybody who is not near.
    pub(super) far: OrderedSet<UniqueAddress>,
    /// Of those near, an end of each link among them that is broken: the fewest that count.
    pub(super) cover: OrderedSet<UniqueAddress>,
}

impl Sides {
    /// `members` are in node order. Near is where it is seen from, and whoever a near member watches and does
    /// not report, unless it is Down. What those far say of others, or of those near, counts for nothing; and
    /// that one who is not Up yet does not report somebody means nothing, as it may never have heard of it.
    pub(super) fn seen(
        at: Standpoint<'_>,
        members: &[Member],
        rows: &[Observation],
        counts: impl Fn(&Member) -> bool,
    ) -> Self {
        let place = |node: &UniqueAddress| members.binary_search_by(|member| member.node.cmp(node)).ok();
        let mut reports: Vec<Vec<usize>> = vec![Vec::new(); members.len()];
        for row in rows.iter() {
            if let (Some(observer), Some(subject)) = (place(&row.observer), place(&row.subject)) {
                reports[observer].push(subject);
            }
        }
        let watched_by = |one: usize| -> Vec<usize> {
            match at.watches {
                Watches::Everybody => (0..members.len()).collect(),
                Watches::These(each) => {
                    let watched = each.get(&members[one].node);
                    watched.into_iter().flatten().filter_map(place).collect()
                }
            }
        };
        let mut is_near = vec![false; members.len()];
        let mut fresh = VecDeque::new();
        if let Some(here) = place(at.from) {
            is_near[here] = true;
            fresh.push_back(here);
        }
        while let Some(one) = fresh.pop_front() {
            for other in watched_by(one) {
                let is_heard = !reports[one].contains(&other) && members[other].status != Status::Down;
                if is_heard && !is_near[other] {
                    is_near[other] = true;
                    if !matches!(members[other].status, Status::Joining | Status::WeaklyUp) {
                        fresh.push_back(other);
                    }
                }
            }
        }
        let mut broken = Vec::new();
        // How much speaks against each: links of it that came and went lately, and then whether it reports
        // somebody who hears it.
        let mut doubts = vec![(0_usize, false); members.len()];
        for (one, reported) in reports.iter().enumerate().filter(|(one, _)| is_near[*one]) {
            for other in reported.iter().copied().filter(|other| is_near[*other]) {
                broken.push((one.min(other), one.max(other)));
                let is_heard = !reports[other].contains(&one) && watched_by(other).contains(&one);
                doubts[one].1 |= is_heard;
            }
        }
        broken.sort_unstable();
        broken.dedup();
        for row in at.withdrawn.iter() {
            for end in [&row.observer, &row.subject].into_iter().filter_map(place) {
                doubts[end].0 += 1;
            }
        }
        let far = members.iter().zip(&is_near).filter(|(_, is_near)| !**is_near);
        Self {
            far: far.map(|(member, _)| member.node.clone()).collect(),
            cover: covering(members, &broken, &doubts, counts),
        }
    }
}

/// The fewest counted members, and then the fewest, that hold an end of each link; among equals the one with
/// the more doubtful where they differ, and of those the highest address, because the lowest decides between
/// equal sides. All ends if that is too hard to find.
fn covering(
    members: &[Member],
    broken: &[(usize, usize)],
    doubts: &[(usize, bool)],
    counts: impl Fn(&Member) -> bool,
) -> OrderedSet<UniqueAddress> {
    let mut ends: Vec<usize> = broken.iter().flat_map(|(one, other)| [*one, *other]).collect();
    ends.sort_unstable_by_key(|end| Reverse((doubts[*end], *end)));
    ends.dedup();
    let heavy = ends.len() as u64 + 1;
    let weight = |at: &usize| if counts(&members[*at]) { heavy + 1 } else { 1 };
    let weights: Vec<u64> = ends.iter().map(weight).collect();
    let place = |at: usize| ends.iter().position(|end| *end == at).unwrap_or_default();
    let links: Vec<(usize, usize)> = broken
        .iter()
        .map(|(one, other)| (place(*one), place(*other)))
        .collect();
    let chosen = cover::lightest(&weights, &links, cover::LOOKS_MAX);
    let chosen = chosen.unwrap_or_else(|| (0..ends.len()).collect());
    chosen
        .into_iter()
        .map(|at| members[ends[at]].node.clone())
        .collect()
}
