//! What a downing strategy looks at: one data center as one node sees it, and which members are connected for
//! a part of it only. Values only: no time, no chance, no effects. Spec: membership 3.2, 3.7, 3.9,
//! 3.10, 8.7.

use alloc::vec::Vec;
use core::fmt;

use crate::downing::state::decision::{DowningDecision, can_be_downed, is_counted};
use crate::downing::state::sides::Sides;
pub use crate::downing::state::standpoint::{Observation, Standpoint, Watches};
use crate::ident::{Role, UniqueAddress};
use crate::membership::state::member::{Member, Status};
use crate::ordered::OrderedSet;

/// One data center as one node sees it at the moment of a decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DowningView {
    members: Vec<Member>,
    unreachable: OrderedSet<UniqueAddress>,
    observations: Vec<Observation>,
    alive: OrderedSet<UniqueAddress>,
    rule: IndirectRule,
    /// Of the unreachable, those on this side that go for the links that are broken on it.
    cover: OrderedSet<UniqueAddress>,
    /// Members that are Down, and count still.
    lately_down: OrderedSet<UniqueAddress>,
    /// See [`Self::exiting_in_the_way`].
    in_the_way: OrderedSet<UniqueAddress>,
}

/// Which complaints tell that a split is not clean. Mirrors no setting of Akka, which knows `Classic` only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IndirectRule {
    /// All of them. A member that had complained about a dead one and then dies itself looks like a broken
    /// link, so a cascade of crashes may end in downing everybody.
    #[default]
    Classic,
    /// Not those of a member that is complained about and not known to be alive, if everybody it complained
    /// about is not known to be alive either: such a member has most likely crashed.
    CascadeSafe,
    /// Those of members on this side about each other. The fewest members that hold an end of each such link
    /// go, and nobody else does because of them: one sick node does not take healthy ones along.
    Fewest,
}

/// The members on broken links, by the way they were found.
struct IndirectMembers<'a> {
    /// They complain and are complained about.
    cycle: OrderedSet<&'a UniqueAddress>,
    /// Both ends of complaints about somebody who is alive.
    alive: OrderedSet<&'a UniqueAddress>,
}

impl DowningView {
    /// A view of `members`, all of one data center, judged by the classic rule. `unreachable` are those that
    /// somebody of this data center calls unreachable or terminated, and those that are Down; `observations`
    /// are the rows behind that; `alive` are members known to be alive although they may be complained about:
    /// for the classic rule those that have seen exactly this state, for the cascade-safe one those heard of
    /// since the rows changed last.
    #[must_use]
    pub fn new(
        members: impl IntoIterator<Item = Member>,
        unreachable: impl IntoIterator<Item = UniqueAddress>,
        observations: impl IntoIterator<Item = Observation>,
        alive: impl IntoIterator<Item = UniqueAddress>,
    ) -> Self {
        let mut members: Vec<Member> = members.into_iter().collect();
        members.sort_by(|a, b| a.node.cmp(&b.node));
        members.dedup_by(|a, b| a.node == b.node);
        Self {
            members,
            unreachable: unreachable.into_iter().collect(),
            observations: observations.into_iter().collect(),
            alive: alive.into_iter().collect(),
            rule: IndirectRule::Classic,
            cover: OrderedSet::new(),
            lately_down: OrderedSet::new(),
            in_the_way: OrderedSet::new(),
        }
    }

    /// The same view judged by another rule; by that of the fewest nodes it is
    /// [`DowningView::by_the_fewest`].
    #[must_use]
    pub fn judged_by(mut self, rule: IndirectRule) -> Self {
        self.rule = rule;
        self
    }

    /// The same members and rows judged by [`IndirectRule::Fewest`]. Who is far becomes unreachable, whatever
    /// was said of it before, and so do the fewest members that hold an end of each broken link among those
    /// near: what is left is a clean split for every strategy, in which those few count on neither side.
    #[must_use]
    pub fn by_the_fewest(mut self, at: Standpoint<'_>) -> Self {
        self.rule = IndirectRule::Fewest;
        self.lately_down = at.lately_down.clone();
        let counts = |member: &Member| self.is_counted(member, at.role, is_counted);
        let sides = Sides::seen(at, &self.members, &self.observations, counts);
        self.unreachable = sides.far.union(&sides.cover).cloned().collect();
        self.cover = sides.cover;
        self.in_the_way = self.exiting_in_the_way().collect();
        self
    }

    /// The Exiting members not of this side that report somebody of it who is to stay: nothing converges, and
    /// they are not removed themselves, while what they said last counts.
    fn exiting_in_the_way(&self) -> impl Iterator<Item = UniqueAddress> {
        let stays = |node: &UniqueAddress| {
            let status = self.member(node).map(|member| member.status);
            status.is_some_and(can_be_downed) && !self.is_unreachable(node)
        };
        let reports = move |observer: &UniqueAddress| {
            let mut rows = self.observations.iter();
            rows.any(|row| row.observer == *observer && stays(&row.subject))
        };
        let exiting = self
            .members
            .iter()
            .filter(|member| member.status == Status::Exiting && self.is_unreachable(&member.node));
        exiting
            .map(|member| member.node.clone())
            .filter(move |node| reports(node))
    }

    /// Whether a decision can down this member: one that is not about to go, or stands in the way of those
    /// that stay while it goes.
    pub(super) fn can_go(&self, member: &Member) -> bool {
        can_be_downed(member.status) || self.in_the_way.contains(&member.node)
    }

    /// By which rule it is judged.
    #[must_use]
    pub const fn rule(&self) -> IndirectRule {
        self.rule
    }

    /// All members, in node order.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// One member.
    #[must_use]
    pub fn member(&self, node: &UniqueAddress) -> Option<&Member> {
        let at = self
            .members
            .binary_search_by(|member| member.node.cmp(node))
            .ok()?;
        self.members.get(at)
    }

    /// Whether `node` is on the other side, or goes for a broken link of this one.
    #[must_use]
    pub fn is_unreachable(&self, node: &UniqueAddress) -> bool {
        self.unreachable.contains(node)
    }

    /// Whether `node` is on the other side.
    #[must_use]
    pub fn is_far(&self, node: &UniqueAddress) -> bool {
        self.unreachable.contains(node) && !self.cover.contains(node)
    }

    /// Those of this side that go for its broken links, by [`IndirectRule::Fewest`].
    #[must_use]
    pub const fn cover(&self) -> &OrderedSet<UniqueAddress> {
        &self.cover
    }

    /// Who decides for this side, by [`IndirectRule::Fewest`]: the lowest address that is Up and stays; if
    /// nobody is, who is WeaklyUp; if nobody is either, who is Leaving. All of a side that know the same name
    /// the same.
    #[must_use]
    pub fn speaker(&self) -> Option<&UniqueAddress> {
        let stays = |member: &&Member| !self.is_unreachable(&member.node);
        let in_status = |is_in: fn(Status) -> bool| {
            let mut members = self.members.iter().filter(stays);
            members.find(|member| is_in(member.status))
        };
        let speaks = |status: Status| status == Status::Up || status.is_preparing();
        let speaker = in_status(speaks)
            .or_else(|| in_status(|status| status == Status::WeaklyUp))
            .or_else(|| in_status(|status| status == Status::Leaving));
        speaker.map(|member| &member.node)
    }

    /// What a side answers that cannot know whether it is the one to stay: it goes. By the other rules, under
    /// which both sides look at the same broken links, everybody does.
    #[must_use]
    pub const fn undecided(&self) -> DowningDecision {
        match self.rule {
            IndirectRule::Classic | IndirectRule::CascadeSafe => DowningDecision::DownAll,
            IndirectRule::Fewest => DowningDecision::DownReachable,
        }
    }

    /// Whether a member that could still be downed is unreachable: without one there is nothing to decide.
    #[must_use]
    pub fn has_unreachable(&self) -> bool {
        self.members
            .iter()
            .any(|member| self.can_go(member) && self.is_unreachable(&member.node))
    }

    /// Members with `role` (all without one) whose status is in `statuses`, in node order.
    pub fn counted<'a>(
        &'a self,
        role: Option<&'a Role>,
        statuses: fn(Status) -> bool,
    ) -> impl Iterator<Item = &'a Member> {
        self.members
            .iter()
            .filter(move |member| self.is_counted(member, role, statuses))
    }

    fn is_counted(&self, member: &Member, role: Option<&Role>, statuses: fn(Status) -> bool) -> bool {
        let is_in = statuses(member.status) || self.lately_down.contains(&member.node);
        is_in && role.is_none_or(|role| member.roles.contains(role))
    }

    /// How many of [`DowningView::counted`] are on this side and how many on the other. Those that go for a
    /// broken link of this side are on neither.
    #[must_use]
    pub fn sides(&self, role: Option<&Role>, statuses: fn(Status) -> bool) -> (usize, usize) {
        let here = |member: &&Member| !self.is_unreachable(&member.node);
        let there = |member: &&Member| self.is_far(&member.node);
        let count = |side: &dyn Fn(&&Member) -> bool| self.counted(role, statuses).filter(side).count();
        (count(&here), count(&there))
    }

    /// Members counted whatever their roles.
    #[must_use]
    pub fn members_counted(&self) -> usize {
        self.counted(None, is_counted).count()
    }

    /// The members on broken links: those that both complain and are complained about, and both ends of a
    /// complaint about somebody who is alive. Empty for a clean split and for a crash. O(rows · log rows).
    #[must_use]
    pub fn indirectly_connected(&self) -> OrderedSet<UniqueAddress> {
        let IndirectMembers { cycle, alive } = self.indirect();
        cycle.union(&alive).map(|node| (*node).clone()).collect()
    }

    /// Whether this is anything but a clean split or a crash. Never by [`IndirectRule::Fewest`]: what it has
    /// to say of broken links is in who is unreachable.
    #[must_use]
    pub fn has_indirectly_connected(&self) -> bool {
        let IndirectMembers { cycle, alive } = self.indirect();
        !cycle.is_empty() || !alive.is_empty()
    }

    /// Whether some row might tell of a broken link, whatever the rule makes of it.
    fn may_have_indirectly_connected(&self) -> bool {
        let IndirectMembers { cycle, alive } = self.indirect_of(self.observations.iter().collect());
        !cycle.is_empty() || !alive.is_empty()
    }

    /// The split that is left once the broken links are taken out of the picture, to be decided on its own;
    /// `None` if nobody beyond them is unreachable.
    #[must_use]
    pub(crate) fn without_broken_links(&self) -> Option<Self> {
        let indirect = self.indirect();
        let beyond = |node: &&UniqueAddress| !indirect.cycle.contains(node) && !indirect.alive.contains(node);
        self.unreachable.iter().find(beyond)?;
        let can_go = |node: &UniqueAddress| self.member(node).is_some_and(|m| can_be_downed(m.status));
        let is_inside = |set: &OrderedSet<&UniqueAddress>, row: &Observation| {
            set.contains(&row.observer) && set.contains(&row.subject)
        };
        let rest: Vec<Observation> = self
            .observations
            .iter()
            .filter(|row| !is_inside(&indirect.cycle, row) && !is_inside(&indirect.alive, row))
            .filter(|row| can_go(&row.observer) && can_go(&row.subject))
            .cloned()
            .collect();
        Some(Self {
            members: self.members.clone(),
            unreachable: rest.iter().map(|row| row.subject.clone()).collect(),
            observations: rest,
            alive: self.alive.clone(),
            rule: self.rule,
            cover: OrderedSet::new(),
            lately_down: OrderedSet::new(),
            in_the_way: OrderedSet::new(),
        })
    }

    /// Whether links on this side are broken, by [`IndirectRule::Fewest`], or some row might tell of one.
    #[must_use]
    pub(crate) fn may_have_broken_links(&self) -> bool {
        match self.rule {
            IndirectRule::Classic | IndirectRule::CascadeSafe => self.may_have_indirectly_connected(),
            IndirectRule::Fewest => !self.cover.is_empty(),
        }
    }

    fn indirect(&self) -> IndirectMembers<'_> {
        self.indirect_of(self.telling_rows())
    }

    fn indirect_of<'a>(&'a self, rows: Vec<&'a Observation>) -> IndirectMembers<'a> {
        let subjects: OrderedSet<&UniqueAddress> = rows.iter().map(|row| &row.subject).collect();
        let observers = rows.iter().map(|row| &row.observer);
        let cycle = observers.filter(|node| subjects.contains(node)).collect();
        let about_living = rows.iter().filter(|row| self.alive.contains(&row.subject));
        let alive = about_living
            .flat_map(|row| [&row.observer, &row.subject])
            .collect();
        IndirectMembers { cycle, alive }
    }

    /// The rows that may tell of a broken link: all, or without those of members that have most likely
    /// crashed.
    fn telling_rows(&self) -> Vec<&Observation> {
        let all = self.observations.iter();
        match self.rule {
            IndirectRule::Fewest => Vec::new(),
            IndirectRule::Classic => all.collect(),
            IndirectRule::CascadeSafe => {
                let subjects: OrderedSet<&UniqueAddress> = all.clone().map(|row| &row.subject).collect();
                let knows_living: OrderedSet<&UniqueAddress> = all
                    .clone()
                    .filter(|row| self.alive.contains(&row.subject))
                    .map(|row| &row.observer)
                    .collect();
                let is_dead = |node: &UniqueAddress| {
                    subjects.contains(node) && !self.alive.contains(node) && !knows_living.contains(node)
                };
                all.filter(|row| !is_dead(&row.observer)).collect()
            }
        }
    }
}

impl fmt::Display for IndirectRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Classic => "classic",
            Self::CascadeSafe => "cascade-safe",
            Self::Fewest => "fewest",
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::downing::table::split;

    #[test]
    fn s_3_2_there_is_something_to_decide_while_somebody_who_is_unreachable_could_be_downed() {
        for (there, expected) in [
            ("Bj", true),
            ("Bl", true),
            ("Bx", false),
            ("Bd Cx", false),
            ("", false),
        ] {
            assert_eq!(split("A", there).has_unreachable(), expected, "{there}");
        }
    }
}
