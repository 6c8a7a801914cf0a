//! The rule of the fewest nodes: near, far, broken links, the cover, and which side stands. Members are `a`,
//! `b`, and so on, by place. Spec: membership 3.10.

use alloc::vec::Vec;
use core::time::Duration;

use crate::downing::keep_majority::KeepMajority;
use crate::downing::keep_oldest::KeepOldest;
use crate::downing::lease_majority::LeaseMajority;
use crate::downing::state::decision::DowningDecision;
use crate::downing::state::strategy::{Strategy, judge};
use crate::downing::state::view::{DowningView, IndirectRule, Observation, Standpoint, Watches};
use crate::downing::static_quorum::StaticQuorum;
use crate::ident::{Address, Role, Roles, UniqueAddress};
use crate::membership::state::app_version::AppVersion;
use crate::membership::state::member::{Member, Status, UpNumber};
use crate::ordered::{OrderedMap, OrderedSet};

fn node(at: usize) -> UniqueAddress {
    let name = char::from(b'a' + u8::try_from(at).unwrap());
    UniqueAddress::new(Address::new(&std::format!("{name}"), 7355).unwrap(), 1)
}

fn place(node: &UniqueAddress) -> usize {
    usize::from(node.address().host().as_bytes()[0] - b'a')
}

/// The first is the oldest.
fn member(at: usize, status: Status, roles: &[&str]) -> Member {
    let roles = Roles::new(roles.iter().map(|role| Role::new(role).unwrap()), "default").unwrap();
    let mut member = Member::joining(node(at), roles, AppVersion::default());
    member.status = status;
    if !matches!(status, Status::Joining | Status::WeaklyUp) {
        member.up_number = UpNumber::new(u32::try_from(at).unwrap() + 1);
    }
    member
}

fn up(count: usize) -> Vec<Member> {
    (0..count).map(|at| member(at, Status::Up, &[])).collect()
}

fn row(observer: usize, subject: usize) -> Observation {
    Observation {
        observer: node(observer),
        subject: node(subject),
    }
}

/// What `from` sees of these members and rows, where everybody watches everybody and `role` counts.
fn seen(from: usize, members: Vec<Member>, rows: &[(usize, usize)], role: Option<&Role>) -> DowningView {
    let rows = rows.iter().map(|(observer, subject)| row(*observer, *subject));
    DowningView::new(members, [], rows, []).by_the_fewest(Standpoint {
        from: &node(from),
        role,
        watches: &Watches::Everybody,
        lately_down: &OrderedSet::new(),
        withdrawn: &OrderedSet::new(),
    })
}

/// Both ends of a link report each other.
fn both_ways(links: &[(usize, usize)]) -> Vec<(usize, usize)> {
    links.iter().flat_map(|(a, b)| [(*a, *b), (*b, *a)]).collect()
}

fn down(strategy: &dyn Strategy, view: &DowningView) -> Vec<usize> {
    judge(strategy, view, Some(0.5)).down.iter().map(place).collect()
}

fn majority() -> KeepMajority {
    KeepMajority::new(None)
}

#[test]
fn who_is_exiting_and_reports_somebody_that_stays_goes_with_the_far_ones() {
    let members = |status| {
        let mut members = up(4);
        members[3].status = status;
        members
    };
    // `d` said that `c` is unreachable, and is gone: until it is Down its word keeps all from converging.
    let rows = [(3, 2), (0, 3), (1, 3), (2, 3)];
    let view = seen(0, members(Status::Exiting), &rows, None);
    assert!(view.has_unreachable());
    assert_eq!(down(&majority(), &view), [3]);
    // One that says nothing of those who stay goes by itself.
    let view = seen(0, members(Status::Exiting), &rows[1..], None);
    assert!(!view.has_unreachable());
    assert_eq!(down(&majority(), &view), [] as [usize; 0]);
    // So does one that is Down already.
    let view = seen(0, members(Status::Down), &rows, None);
    assert!(!view.has_unreachable());
}

/// Working links between members, as bits.
#[derive(Clone, Copy)]
struct Graph {
    count: usize,
    bits: u32,
}

impl Graph {
    fn pairs(count: usize) -> impl Iterator<Item = (usize, usize)> {
        (0..count).flat_map(move |a| (a + 1..count).map(move |b| (a, b)))
    }

    fn all(count: usize) -> impl Iterator<Item = Self> {
        let pairs = Self::pairs(count).count();
        (0..1_u32 << pairs).map(move |bits| Self { count, bits })
    }

    fn works(self, one: usize, other: usize) -> bool {
        let link = (one.min(other), one.max(other));
        let at = Self::pairs(self.count).position(|pair| pair == link).unwrap();
        self.bits >> at & 1 == 1
    }

    /// The part of each place, by its lowest place.
    fn parts(self) -> Vec<usize> {
        let mut parts: Vec<usize> = (0..self.count).collect();
        for _ in 0..self.count {
            for (a, b) in Self::pairs(self.count).filter(|(a, b)| self.works(*a, *b)) {
                let lowest = parts[a].min(parts[b]);
                (parts[a], parts[b]) = (lowest, lowest);
            }
        }
        parts
    }

    /// What everybody of a part reports of everybody.
    fn rows(self, part: usize) -> Vec<(usize, usize)> {
        let parts = self.parts();
        let inside = (0..self.count).filter(|at| parts[*at] == part);
        inside
            .flat_map(|at| (0..self.count).map(move |other| (at, other)))
            .filter(|(at, other)| at != other && !self.works(*at, *other))
            .collect()
    }

    /// Who goes on in each part, when each decides by what all of it know of `members(part)`.
    fn left(self, strategy: &dyn Strategy, members: impl Fn(usize) -> Vec<Member>) -> Vec<Vec<usize>> {
        let parts = self.parts();
        let firsts = (0..self.count).filter(|at| parts[*at] == *at);
        let sides = firsts.map(|part| {
            let view = seen(part, members(part), &self.rows(part), None);
            let gone = down(strategy, &view);
            let inside = (0..self.count).filter(|at| parts[*at] == part && !gone.contains(at));
            let counted = view.members().iter().filter(|member| member.status == Status::Up);
            let counted: Vec<usize> = counted.map(|member| place(&member.node)).collect();
            inside.filter(|at| counted.contains(at)).collect::<Vec<usize>>()
        });
        sides.filter(|side| !side.is_empty()).collect()
    }
}

#[test]
fn s_3_10_of_every_graph_of_working_links_one_side_stays_at_most() {
    // Graphs, those that leave nobody, and nodes that are left in all of them: `cover.py` of the
    // specification has the same numbers.
    for (count, expected) in [
        (2, (2, 0, 3)),
        (3, (8, 1, 15)),
        (4, (64, 4, 144)),
        (5, (1024, 50, 2651)),
    ] {
        let (mut graphs, mut nobody, mut survivors) = (0, 0, 0);
        for graph in Graph::all(count) {
            let left = graph.left(&majority(), |_| up(count));
            assert!(left.len() <= 1, "{:#b}: {left:?}", graph.bits);
            let links = left
                .iter()
                .flatten()
                .flat_map(|a| left[0].iter().map(move |b| (*a, *b)));
            assert!(links.filter(|(a, b)| a != b).all(|(a, b)| graph.works(a, b)));
            graphs += 1;
            nobody += usize::from(left.is_empty());
            survivors += left.iter().map(Vec::len).sum::<usize>();
        }
        assert_eq!((graphs, nobody, survivors), expected, "{count} nodes");
    }
}

#[test]
fn i_19_who_is_sick_towards_two_takes_no_healthy_one_and_of_one_broken_link_one_end_goes() {
    for count in 3..=6 {
        for (sick, hit) in (0..count).flat_map(|sick| (1..1_usize << count).map(move |hit| (sick, hit))) {
            let hit: Vec<usize> = (0..count).filter(|at| hit >> at & 1 == 1).collect();
            if hit.contains(&sick) {
                continue;
            }
            let rows = both_ways(&hit.iter().map(|other| (sick, *other)).collect::<Vec<_>>());
            // Everybody but the sick one, who may be alone, knows the same.
            let healthy = (0..count).filter(|at| *at != sick);
            for from in healthy {
                let gone = down(&majority(), &seen(from, up(count), &rows, None));
                let expected = if hit.len() == 1 { sick.max(hit[0]) } else { sick };
                assert_eq!(
                    gone,
                    [expected],
                    "{sick} towards {hit:?} of {count}, seen from {from}"
                );
            }
        }
    }
}

#[test]
fn s_3_10_changes_in_flight_do_not_let_two_sides_stay() {
    // One of four has another status, and some of the parts do not know it: there it is Up, or Joining.
    for status in [Status::Joining, Status::Leaving] {
        let known_as = if status == Status::Joining {
            Status::Up
        } else {
            Status::Exiting
        };
        for strategy in [&majority() as &dyn Strategy, &KeepOldest::new(true, None)] {
            for (graph, who) in Graph::all(4).flat_map(|graph| (0..4).map(move |who| (graph, who))) {
                for heard in 0..4 {
                    let members = |part: usize| {
                        let mut members = up(4);
                        let status = if part == heard { known_as } else { status };
                        members[who] = member(who, status, &[]);
                        if known_as == Status::Up && part == heard {
                            members[who].up_number = UpNumber::new(9);
                        }
                        members
                    };
                    let left = graph.left(strategy, members);
                    assert!(
                        left.len() <= 1,
                        "{:#b} {status} {who} {heard}: {left:?}",
                        graph.bits
                    );
                }
            }
        }
    }
}

#[test]
fn s_3_10_whoever_no_near_member_watches_is_far_and_what_those_far_say_counts_for_nothing() {
    let watches = |each: &[(usize, &[usize])]| {
        let pairs = each.iter().map(|(observer, subjects)| {
            let subjects = subjects.iter().map(|at| node(*at)).collect();
            (node(*observer), subjects)
        });
        Watches::These(pairs.collect::<OrderedMap<_, _>>())
    };
    let standing = |each: &[(usize, &[usize])], rows: &[(usize, usize)]| {
        let rows = rows.iter().map(|(observer, subject)| row(*observer, *subject));
        DowningView::new(up(4), [], rows, []).by_the_fewest(Standpoint {
            from: &node(0),
            role: None,
            watches: &watches(each),
            lately_down: &OrderedSet::new(),
            withdrawn: &OrderedSet::new(),
        })
    };
    let far = |view: &DowningView| {
        (0..4)
            .filter(|at| view.is_far(&node(*at)))
            .collect::<Vec<usize>>()
    };
    let ring: &[(usize, &[usize])] = &[(0, &[1]), (1, &[2]), (2, &[3]), (3, &[0])];
    assert_eq!(far(&standing(ring, &[])), []);
    assert_eq!(far(&standing(ring, &[(1, 2)])), [2, 3], "nobody near watches d");
    let view = standing(ring, &[(1, 2), (3, 0), (2, 3)]);
    assert_eq!((far(&view), view.cover().len()), (Vec::from([2, 3]), 0));
}

#[test]
fn s_3_10_a_newcomer_that_reports_nobody_makes_nobody_near() {
    for status in [Status::Joining, Status::WeaklyUp] {
        // It has joined through one that reports three others, of which it has not missed any yet.
        let mut members = up(5);
        members[1] = member(1, status, &[]);
        let rows = [(0, 2), (0, 3), (0, 4)];
        let view = seen(0, members, &rows, None);
        let far: Vec<usize> = (0..5).filter(|at| view.is_far(&node(*at))).collect();
        assert_eq!(far, [2, 3, 4], "{status}");
        assert_eq!(down(&majority(), &view), [0, 1], "they are more");
    }
}

#[test]
fn s_3_10_members_that_are_not_counted_weigh_nothing_in_the_cover() {
    // A broken link of a counted member to two that are not: they go, though they are two.
    let mut members = up(3);
    members.extend([member(3, Status::Joining, &[]), member(4, Status::WeaklyUp, &[])]);
    let rows = both_ways(&[(2, 3), (2, 4)]);
    assert_eq!(down(&majority(), &seen(0, members, &rows, None)), [3, 4]);
    // With a role only its members weigh.
    let role = Role::new("host").unwrap();
    let mut members = up(3);
    members.extend([member(3, Status::Up, &["host"]), member(4, Status::Up, &["host"])]);
    let strategy = KeepMajority::new(Some(role.clone()));
    let view = seen(0, members, &both_ways(&[(3, 0), (3, 1)]), Some(&role));
    assert_eq!(down(&strategy, &view), [0, 1]);
}

#[test]
fn s_3_10_who_is_lately_down_counts_on_the_other_side() {
    let mut members = up(4);
    members.push(member(4, Status::Down, &[]));
    let rows = both_ways(&[(0, 2), (0, 3), (1, 2), (1, 3)]);
    let with = |lately_down: OrderedSet<UniqueAddress>| {
        let rows = rows.iter().map(|(observer, subject)| row(*observer, *subject));
        let at = Standpoint {
            from: &node(0),
            role: None,
            watches: &Watches::Everybody,
            lately_down: &lately_down,
            withdrawn: &OrderedSet::new(),
        };
        down(
            &majority(),
            &DowningView::new(members.clone(), [], rows, []).by_the_fewest(at),
        )
    };
    assert_eq!(
        with(OrderedSet::new()),
        [2, 3],
        "of equal sides the one with the lowest address"
    );
    assert_eq!(with([node(4)].into_iter().collect()), [0, 1], "two against three");
}

#[test]
fn s_3_10_of_equal_sides_the_one_with_the_lowest_address_stays_unless_that_one_goes() {
    let split = both_ways(&[(0, 2), (0, 3), (1, 2), (1, 3)]);
    assert_eq!(down(&majority(), &seen(0, up(4), &split, None)), [2, 3]);
    assert_eq!(down(&majority(), &seen(2, up(4), &split, None)), [2, 3]);
    // Three against two, and the lowest is the sick one of the three: equal, and nobody can tell.
    let mut links = Vec::from([(0, 1), (0, 2)]);
    links.extend((0..4).flat_map(|near| [(near, 4), (near, 5), (near, 6)]));
    let rows = both_ways(&links);
    assert_eq!(down(&majority(), &seen(1, up(7), &rows, None)), [0, 1, 2, 3]);
}

#[test]
fn s_3_10_each_strategy_judges_what_is_left_without_the_cover() {
    // Of five, e is gone and c has broken links to a and b.
    let mut links = Vec::from([(0, 2), (1, 2)]);
    links.extend((0..4).map(|near| (near, 4)));
    let rows = both_ways(&links);
    let view = |from| seen(from, up(5), &rows, None);
    for quorum in [3, 4] {
        let expected: &[usize] = if quorum == 3 { &[2, 4] } else { &[0, 1, 2, 3] };
        assert_eq!(down(&StaticQuorum::new(quorum, None), &view(0)), expected);
    }
    assert_eq!(
        down(&StaticQuorum::new(2, None), &view(0)),
        [0, 1, 2, 3],
        "five are too many"
    );
    assert_eq!(down(&KeepOldest::new(true, None), &view(0)), [2, 4]);
    assert_eq!(down(&KeepOldest::new(true, None), &view(4)), [4]);
    let lease = LeaseMajority::new(Duration::from_secs(2), None);
    let verdict = judge(&lease, &view(0), None);
    let after = Duration::ZERO;
    assert_eq!(
        verdict.decision,
        DowningDecision::AcquireLeaseAndDownUnreachable { after }
    );
    let places = |nodes: &[UniqueAddress]| nodes.iter().map(place).collect::<Vec<usize>>();
    assert_eq!(places(&verdict.down), [2, 4]);
    assert_eq!(places(&verdict.down_if_denied), [0, 1, 2, 3]);
    // The oldest goes for its broken links, and the others stay.
    let sick = both_ways(&[(0, 2), (0, 3), (0, 4)]);
    let view = seen(1, up(5), &sick, None);
    assert_eq!(down(&KeepOldest::new(true, None), &view), [0]);
    assert_eq!(
        (view.speaker(), view.has_indirectly_connected()),
        (Some(&node(1)), false)
    );
    assert!(view.judged_by(IndirectRule::Classic).has_indirectly_connected());
}
