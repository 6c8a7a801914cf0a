//! A cluster without protocols: who lives, who can send to whom, who complains about whom and who knows of
//! it. Sets of nodes are bits of a number.

use std::time::Duration;

use quorate_core::downing::decision::DowningDecision;
use quorate_core::downing::strategy::{Strategy, judge};
use quorate_core::downing::view::{DowningView, IndirectRule, Observation, Standpoint, Watches};
use quorate_core::ident::{Address, DEFAULT_DATA_CENTER, Role, Roles, UniqueAddress};
use quorate_core::membership::app_version::AppVersion;
use quorate_core::membership::member::{Member, Status, UpNumber};
use quorate_core::ordered::OrderedSet;

use crate::sim::Chance;

/// Rounds of decisions after which the cluster must have come to rest.
const ROUNDS_MAX: usize = 8;
/// Members of the largest cluster.
const MEMBERS_MAX: usize = 10;

/// What kind of things go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// One clean split in two or one crash, inside the assumptions of every strategy.
    Safe,
    /// Two to four events: crashes (twice as likely), splits, cut links, nodes with bad links.
    Complete,
    /// The same, noticed and told in part only at the first decision.
    Lagging,
}

type Nodes = u16;

/// What an observer says, with a version that only the observer raises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Row {
    version: u32,
    subjects: Nodes,
}

/// What a node knows. Fixed in size: it is copied for every message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Knowledge {
    rows: [Row; MEMBERS_MAX],
    down: Nodes,
}

pub(super) struct World {
    chance: Chance,
    nodes: Vec<UniqueAddress>,
    members: Vec<Member>,
    alive: Nodes,
    /// To whom each can send.
    links: Vec<Nodes>,
    knows: Vec<Knowledge>,
    lease: Option<usize>,
    /// The role that the strategy counts, in one of five worlds; six of ten members have it.
    role: Option<Role>,
}

impl World {
    /// Three to ten members that all know each other; some have just joined or are about to leave.
    pub(super) fn new(mut chance: Chance) -> Self {
        let count = 3 + chance.index(MEMBERS_MAX - 2);
        let nodes: Vec<UniqueAddress> = (0..count)
            .map(|at| {
                let address = Address::new(&format!("n{at}"), 7355).expect("invariant: a plain host name");
                UniqueAddress::new(address, at as u64 + 1)
            })
            .collect();
        let mut ages: Vec<u32> = (1..).take(count).collect();
        for at in (1..count).rev() {
            ages.swap(at, chance.index(at + 1));
        }
        let mixed = chance.per_mille(300);
        let role = chance
            .per_mille(200)
            .then(|| Role::new("counted").expect("invariant: a plain word"));
        let roles = Roles::new(role.clone(), DEFAULT_DATA_CENTER).expect("invariant: one role");
        let members = nodes.iter().zip(ages).map(|(node, age)| {
            let roles = if role.is_some() && chance.per_mille(600) {
                roles.clone()
            } else {
                Roles::default()
            };
            let mut member = Member::joining(node.clone(), roles, AppVersion::default());
            member.status = match chance.below(8) {
                0 if mixed => Status::Joining,
                1 if mixed => Status::WeaklyUp,
                2 if mixed => Status::Leaving,
                _ => Status::Up,
            };
            if !matches!(member.status, Status::Joining | Status::WeaklyUp) {
                member.up_number = UpNumber::new(age);
            }
            member
        });
        let members = members.collect();
        let all = (1 << count) - 1;
        let knows = Knowledge {
            rows: [Row::default(); MEMBERS_MAX],
            down: 0,
        };
        Self {
            chance,
            members,
            alive: all,
            links: vec![all; count],
            knows: vec![knows; count],
            lease: None,
            nodes,
            role,
        }
    }

    /// The role that the strategy is to count.
    pub(super) fn role(&self) -> Option<Role> {
        self.role.clone()
    }

    /// How many members the strategy may come to count.
    pub(super) fn countable(&self) -> usize {
        let counts = |member: &&Member| self.role.as_ref().is_none_or(|role| member.roles.contains(role));
        self.members.iter().filter(counts).count()
    }

    pub(super) fn size(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn living(&self) -> usize {
        self.alive.count_ones() as usize
    }

    /// Whether more than half of the members that are counted can reach each other both ways.
    pub(super) fn has_majority(&self) -> bool {
        let up = self.up();
        let parts = (0..self.size()).map(|at| (self.part_of(at, self.alive) & up).count_ones());
        parts.max().is_some_and(|most| 2 * most > up.count_ones())
    }

    pub(super) fn go_wrong(&mut self, plan: Plan) {
        match plan {
            Plan::Safe => {
                if self.chance.per_mille(300) {
                    self.crash();
                } else {
                    self.split();
                }
            }
            Plan::Complete | Plan::Lagging => {
                let events = 2 + self.chance.index(3);
                for _ in 0..events {
                    match self.chance.below(5) {
                        0 | 1 => self.crash(),
                        2 => self.split(),
                        3 => self.cut_link(),
                        _ => self.bad_node(),
                    }
                    self.notice(700);
                    self.gossip(Some(600));
                }
            }
        }
    }

    /// Has every part decide until nothing changes.
    pub(super) fn decide_until_quiet(
        &mut self,
        strategy: &dyn Strategy,
        rule: (IndirectRule, Option<f64>),
        plan: Plan,
    ) {
        for round in 0..ROUNDS_MAX {
            let lags = plan == Plan::Lagging && round == 0;
            self.notice(if lags { 700 } else { 1000 });
            self.gossip(lags.then_some(400));
            let decided = self.decide(strategy, rule, lags);
            self.gossip(None);
            for at in 0..self.size() {
                if self.knows[at].down & bit(at) != 0 {
                    self.alive &= !bit(at);
                }
            }
            if !decided && !lags {
                return;
            }
        }
    }

    /// How many parts go on, and how many nodes are left.
    pub(super) fn survivors(&self) -> (usize, usize) {
        let left = self.alive & self.up();
        let mut rest = left;
        let mut parts = 0;
        while rest != 0 {
            let first = rest.trailing_zeros() as usize;
            rest &= !self.part_of(first, left);
            parts += 1;
        }
        (parts, left.count_ones() as usize)
    }

    fn up(&self) -> Nodes {
        let up = |at: &usize| self.members[*at].status.is_up_like();
        (0..self.size()).filter(up).map(bit).sum()
    }

    fn crash(&mut self) {
        let at = self.chance.index(self.size());
        self.alive &= !bit(at);
    }

    fn split(&mut self) {
        let all = (1u64 << self.size()) - 1;
        // Neither side is empty.
        let side = Nodes::try_from(1 + self.chance.below(all - 1)).unwrap_or(1);
        for at in 0..self.size() {
            let mine = if side & bit(at) != 0 { side } else { !side };
            self.links[at] &= mine;
        }
    }

    fn cut_link(&mut self) {
        let (from, to) = (self.chance.index(self.size()), self.chance.index(self.size()));
        if from != to {
            self.links[from] &= !bit(to);
            if self.chance.per_mille(500) {
                self.links[to] &= !bit(from);
            }
        }
    }

    fn bad_node(&mut self) {
        let bad = self.chance.index(self.size());
        for other in (0..self.size()).filter(|at| *at != bad) {
            if self.chance.per_mille(500) {
                self.links[bad] &= !bit(other);
            }
            if self.chance.per_mille(500) {
                self.links[other] &= !bit(bad);
            }
        }
    }

    /// Everybody looks at everybody; each change is noticed so many times in a thousand.
    fn notice(&mut self, per_mille: u64) {
        for at in 0..self.size() {
            if self.alive & bit(at) == 0 {
                continue;
            }
            let mut subjects = self.knows[at].rows[at].subjects;
            for other in (0..self.size()).filter(|other| *other != at) {
                let answers = self.alive & bit(other) != 0
                    && self.links[at] & bit(other) != 0
                    && self.links[other] & bit(at) != 0;
                if (subjects & bit(other) == 0) != answers && self.chance.per_mille(per_mille) {
                    subjects ^= bit(other);
                }
            }
            let row = &mut self.knows[at].rows[at];
            if row.subjects != subjects {
                row.subjects = subjects;
                row.version += 1;
            }
        }
    }

    /// What is known spreads along the links: to the end, or in two passes with so many of a thousand
    /// messages.
    fn gossip(&mut self, per_mille: Option<u64>) {
        let passes = if per_mille.is_some() { 2 } else { self.size() };
        for _ in 0..passes {
            let mut is_news = false;
            for from in 0..self.size() {
                for to in 0..self.size() {
                    let open = from != to
                        && self.alive & bit(from) != 0
                        && self.alive & bit(to) != 0
                        && self.links[from] & bit(to) != 0;
                    if open && per_mille.is_none_or(|share| self.chance.per_mille(share)) {
                        let news = self.knows[from];
                        let mine = &mut self.knows[to];
                        let before = *mine;
                        mine.down |= news.down;
                        for (mine, new) in mine.rows.iter_mut().zip(news.rows) {
                            if new.version > mine.version {
                                *mine = new;
                            }
                        }
                        is_news |= before != *mine;
                    }
                }
            }
            if per_mille.is_none() && !is_news {
                return;
            }
        }
    }

    /// Everybody that takes itself for the leader decides once. Whether anybody was downed.
    fn decide(&mut self, strategy: &dyn Strategy, rule: (IndirectRule, Option<f64>), lags: bool) -> bool {
        let mut verdicts = Vec::new();
        for at in 0..self.size() {
            let is_fewest = rule.0 == IndirectRule::Fewest;
            if self.alive & bit(at) == 0 || (!is_fewest && self.leader_for(at) != Some(at)) {
                continue;
            }
            let view = self.view_of(at, rule.0, lags, strategy.role());
            let speaks = !is_fewest || view.speaker() == Some(&self.nodes[at]);
            if view.has_unreachable() && speaks {
                let verdict = judge(strategy, &view, rule.1);
                let after = match verdict.decision {
                    DowningDecision::AcquireLeaseAndDownUnreachable { after } => after,
                    DowningDecision::AcquireLeaseAndDownIndirectlyConnected
                    | DowningDecision::DownUnreachable
                    | DowningDecision::DownReachable
                    | DowningDecision::DownAll
                    | DowningDecision::DownIndirectlyConnected
                    | DowningDecision::DownNobody => Duration::ZERO,
                };
                verdicts.push((after, self.chance.number(), at, verdict));
            }
        }
        verdicts.sort_by_key(|(after, order, ..)| (*after, *order));
        let mut decided = false;
        for (_, _, at, verdict) in verdicts {
            let granted = !verdict.decision.needs_lease() || *self.lease.get_or_insert(at) == at;
            let down = if granted {
                verdict.down
            } else {
                verdict.down_if_denied
            };
            let before = self.knows[at].down;
            self.knows[at].down |= self.set(&down);
            decided |= self.knows[at].down != before;
        }
        decided
    }

    fn leader_for(&self, at: usize) -> Option<usize> {
        let unreachable = self.unreachable_for(at);
        (0..self.size()).find(|other| {
            let open = *other == at || unreachable & bit(*other) == 0;
            open && self.members[*other].status.is_up_like() && self.knows[at].down & bit(*other) == 0
        })
    }

    /// Whom anybody that is not Down complains about.
    fn unreachable_for(&self, at: usize) -> Nodes {
        let known = &self.knows[at];
        let rows = known.rows.iter().enumerate();
        let counted = rows.filter(|(observer, _)| known.down & bit(*observer) == 0);
        counted.fold(0, |all, (_, row)| all | row.subjects) & !bit(at)
    }

    fn view_of(&mut self, at: usize, rule: IndirectRule, lags: bool, role: Option<&Role>) -> DowningView {
        let part = self.part_of(at, self.alive);
        // Every change empties what is known of who has seen it; who was heard of since the last complaint is
        // kept.
        let per_mille = match (lags, rule) {
            (false, _) => 1000,
            (true, IndirectRule::Classic) => 500,
            (true, IndirectRule::CascadeSafe | IndirectRule::Fewest) => 950,
        };
        let known: Vec<bool> = (0..self.size())
            .map(|_| self.chance.per_mille(per_mille))
            .collect();
        let heard = part & (0..self.size()).filter(|at| known[*at]).map(bit).sum::<Nodes>() | bit(at);
        let this = &*self;
        let knowledge = &this.knows[at];
        let members = this.members.iter().enumerate().map(|(other, member)| {
            let mut member = member.clone();
            if knowledge.down & bit(other) != 0 {
                member.status = Status::Down;
            }
            member
        });
        let rows = knowledge.rows.iter().enumerate().flat_map(|(observer, row)| {
            let subjects = (0..this.size()).filter(move |subject| row.subjects & bit(*subject) != 0);
            subjects.map(move |subject| Observation {
                observer: this.nodes[observer].clone(),
                subject: this.nodes[subject].clone(),
            })
        });
        let unreachable = this.unreachable_for(at) | knowledge.down;
        let named = |set: Nodes| {
            let inside = (0..this.size()).filter(move |at| set & bit(*at) != 0);
            inside.map(|at| this.nodes[at].clone())
        };
        let view = DowningView::new(members, named(unreachable), rows, named(heard)).judged_by(rule);
        if rule != IndirectRule::Fewest {
            return view;
        }
        let was_up = |other: &usize| this.members[*other].status.is_up_like();
        let down = (0..this.size()).filter(|other| knowledge.down & bit(*other) != 0);
        let lately_down = down.filter(was_up).map(|other| this.nodes[other].clone());
        view.by_the_fewest(Standpoint {
            from: &this.nodes[at],
            role,
            watches: &Watches::Everybody,
            lately_down: &lately_down.collect(),
            withdrawn: &OrderedSet::new(),
        })
    }

    fn set(&self, nodes: &[UniqueAddress]) -> Nodes {
        let at = |node: &UniqueAddress| self.nodes.iter().position(|other| other == node);
        nodes.iter().filter_map(at).map(bit).sum()
    }

    /// Those within `among` that `at` can reach and that can reach `at`.
    fn part_of(&self, at: usize, among: Nodes) -> Nodes {
        if among & bit(at) == 0 {
            return 0;
        }
        let reach = |backwards: bool| {
            let mut found = bit(at);
            loop {
                let inside = |node: &usize| found & bit(*node) != 0;
                let next = if backwards {
                    let leads_in = |node: &usize| self.links[*node] & found != 0;
                    (0..self.size()).filter(leads_in).map(bit).sum::<Nodes>()
                } else {
                    (0..self.size())
                        .filter(inside)
                        .fold(0, |all, node| all | self.links[node])
                };
                let grown = found | next & among;
                if grown == found {
                    return found;
                }
                found = grown;
            }
        };
        reach(false) & reach(true)
    }
}

const fn bit(at: usize) -> Nodes {
    1 << at
}
