//! What the rule of the fewest nodes has to remember between two pictures: which pairs are watched only now,
//! since when members are Down, and which reports were withdrawn while the picture did not come to rest.
//! Values only; what follows is decided elsewhere. Spec: membership 3.10.

use alloc::vec::Vec;
use core::time::Duration;

use crate::detector::ring::HeartbeatRing;
use crate::downing::resolver::watch;
use crate::downing::state::view::{Observation, Watches};
use crate::ident::UniqueAddress;
use crate::membership::state::member::{Status, UpNumber};
use crate::ordered::{OrderedMap, OrderedSet};
use crate::time::Instant;
use crate::view::{MembershipPhase, View};

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Evidence {
    /// Whom each member watches; empty where everybody watches everybody.
    watched: OrderedMap<UniqueAddress, Vec<UniqueAddress>>,
    /// Pairs that are watched only since then: that the first says nothing of the second means nothing yet.
    fresh: OrderedMap<(UniqueAddress, UniqueAddress), Instant>,
    /// Since when members that have been Up are known to be Down.
    down: OrderedMap<UniqueAddress, Instant>,
    /// Reports that were withdrawn, and when for the last time: links that come and go. One for each pair of
    /// members at most.
    withdrawn: OrderedMap<Observation, Instant>,
    /// When the picture came to rest last, or was acted on.
    calm_since: Option<Instant>,
}

impl Evidence {
    /// Takes a change of the picture; each member is watched by `monitored_by` others. Says whether somebody
    /// is watched by somebody anew.
    pub(super) fn on_view(&mut self, now: Instant, monitored_by: usize, before: &View, after: &View) -> bool {
        let fallen = watch::own_members(after)
            .filter(|member| member.status == Status::Down && member.up_number != UpNumber::NONE);
        self.down = fallen
            .map(|member| {
                let since = self.down.get(&member.node).copied().unwrap_or(now);
                (member.node.clone(), since)
            })
            .collect();
        self.withdrawn
            .retain(|row, _| after.member(&row.observer).is_some() && after.member(&row.subject).is_some());
        let nodes = |view| watch::own_members(view).map(|member| &member.node);
        let is_same = before.phase() == after.phase() && before.unreachable() == after.unreachable();
        if is_same && nodes(before).eq(nodes(after)) {
            return false;
        }
        let is_first = before.phase() != MembershipPhase::Member;
        self.follow_ring(now, monitored_by, after, is_first)
    }

    fn follow_ring(&mut self, now: Instant, monitored_by: usize, view: &View, is_first: bool) -> bool {
        let nodes: Vec<&UniqueAddress> = watch::own_members(view).map(|member| &member.node).collect();
        if nodes.len() <= monitored_by + 1 {
            self.watched.clear();
            self.fresh.clear();
            return false;
        }
        let ring = HeartbeatRing::new(
            view.me().clone(),
            nodes.iter().copied().cloned(),
            view.unreachable().iter().cloned(),
            monitored_by,
        );
        let watched: OrderedMap<UniqueAddress, Vec<UniqueAddress>> = ring.all_receivers().collect();
        let mut is_anybody_new = false;
        let mut fresh = OrderedMap::new();
        for (observer, subjects) in &watched {
            let before = self.watched.get(observer);
            // Who has just joined knows nothing itself, but the others have watched each other for long; and
            // so they did when they were fewer, each all of them.
            let is_old = |subject: &UniqueAddress| match before {
                Some(before) => before.binary_search(subject).is_ok(),
                None => self.watched.is_empty() && !(is_first && observer == view.me()),
            };
            for subject in subjects {
                let pair = (observer.clone(), subject.clone());
                if let Some(since) = self.fresh.get(&pair) {
                    fresh.insert(pair, *since);
                } else if !is_old(subject) {
                    is_anybody_new = true;
                    fresh.insert(pair, now);
                }
            }
        }
        self.watched = watched;
        self.fresh = fresh;
        is_anybody_new
    }

    /// Takes a change of the reports, both in their order.
    pub(super) fn on_rows(&mut self, now: Instant, before: &[Observation], after: &[Observation]) {
        for row in before.iter().filter(|row| after.binary_search(row).is_err()) {
            self.withdrawn.insert(row.clone(), now);
        }
    }

    /// The picture has come to rest, or was acted on.
    pub(super) fn calm(&mut self, now: Instant) {
        self.calm_since = Some(now);
    }

    /// This process stood still: it has heard nothing of those who are watched anew.
    pub(super) fn on_paused(&mut self, now: Instant) {
        self.fresh.values_mut().for_each(|since| *since = now);
    }

    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Who watches whom, and has for as long as a first silence takes to be noticed.
    pub(super) fn watches(&self, now: Instant, first_silence: Duration) -> Watches {
        if self.watched.is_empty() {
            return Watches::Everybody;
        }
        let mut watched = self.watched.clone();
        let fresh = self
            .fresh
            .iter()
            .filter(|(_, since)| now < **since + first_silence);
        for ((observer, subject), _) in fresh {
            if let Some(subjects) = watched.get_mut(observer) {
                subjects.retain(|other| other != subject);
            }
        }
        Watches::These(watched)
    }

    /// Who is Down for less than `hold`.
    pub(super) fn lately_down(&self, now: Instant, hold: Duration) -> OrderedSet<UniqueAddress> {
        let lately = self.down.iter().filter(|(_, since)| now < **since + hold);
        lately.map(|(node, _)| node.clone()).collect()
    }

    /// The reports that were withdrawn since unrest began.
    pub(super) fn withdrawn_since_calm(&self) -> impl Iterator<Item = &Observation> {
        let lately = self.withdrawn.iter();
        let rows = lately.filter(|(_, at)| self.calm_since.is_none_or(|calm| calm < **at));
        rows.map(|(row, _)| row)
    }

    /// The reports that were withdrawn less than `hold` ago.
    pub(super) fn lately_withdrawn(&self, now: Instant, hold: Duration) -> OrderedSet<Observation> {
        let lately = self.withdrawn.iter().filter(|(_, at)| now < **at + hold);
        lately.map(|(row, _)| row.clone()).collect()
    }
}
