//! The reference's split scenarios, seen from each part.

use alloc::vec::Vec;

use super::*;
use crate::downing::decision::Observation;
use crate::ident::{Address, Roles};
use crate::membership::app_version::AppVersion;
use crate::membership::member::{Member, UpNumber};

fn node(name: char) -> UniqueAddress {
    UniqueAddress::new(
        Address::new(&std::format!("{name}"), 7355).unwrap(),
        u64::from(name as u32),
    )
}

/// The member `A` to `G` of the table; a suffix is a status: `Aj` Joining, `Aw` WeaklyUp, `Al` Leaving, `Ax` Exiting,
/// `Ad` Down.
fn member(text: &str) -> Member {
    let name = text.chars().next().unwrap();
    let roles: &[&str] = match name {
        'A' => &["role3"],
        'B' => &["role1", "role3"],
        'C' => &["role2"],
        'D' => &["role1", "role2", "role3"],
        _ => &[],
    };
    let up_number = match name {
        'A' | 'F' => 5,
        'B' => 4,
        'C' => 3,
        'D' => 2,
        'E' => 1,
        _ => 6,
    };
    let status = match &text[1..] {
        "" => Status::Up,
        "j" => Status::Joining,
        "w" => Status::WeaklyUp,
        "l" => Status::Leaving,
        "x" => Status::Exiting,
        "d" => Status::Down,
        other => panic!("no status {other}"),
    };
    let roles = Roles::new(roles.iter().map(|role| Role::new(role).unwrap()), "default").unwrap();
    let mut member = Member::joining(node(name), roles, AppVersion::default());
    member.status = status;
    if !matches!(status, Status::Joining | Status::WeaklyUp) {
        member.up_number = UpNumber::new(up_number);
    }
    member
}

fn members(text: &str) -> Vec<Member> {
    text.split_whitespace().map(member).collect()
}

/// A clean split seen from `here`: its lowest node observed everybody else.
fn split(here: &str, there: &str) -> DowningView {
    let (near, far) = (members(here), members(there));
    let observer = near.iter().map(|member| member.node.clone()).min().unwrap();
    let rows: Vec<Observation> = far
        .iter()
        .map(|member| Observation {
            observer: observer.clone(),
            subject: member.node.clone(),
        })
        .collect();
    let unreachable: Vec<UniqueAddress> = far.iter().map(|member| member.node.clone()).collect();
    let seen: Vec<UniqueAddress> = near.iter().map(|member| member.node.clone()).collect();
    DowningView::new(near.into_iter().chain(far), unreachable, rows, seen)
}

fn connected(all: &str, rows: &[&str], seen: &str) -> DowningView {
    let rows: Vec<Observation> = rows
        .iter()
        .map(|row| {
            let mut ends = row.chars().map(node);
            Observation {
                observer: ends.next().unwrap(),
                subject: ends.next().unwrap(),
            }
        })
        .collect();
    let unreachable: Vec<UniqueAddress> = rows.iter().map(|row| row.subject.clone()).collect();
    DowningView::new(members(all), unreachable, rows, seen.chars().map(node))
}

fn majority(role: &str) -> KeepMajority {
    KeepMajority::new((!role.is_empty()).then(|| Role::new(role).unwrap()))
}

/// Whom the part `here` downs, as a string of names.
fn downed(role: &str, here: &str, there: &str) -> std::string::String {
    let view = split(here, there);
    let nodes = view.nodes_to_down(majority(role).decide(&view));
    nodes.iter().map(|node| node.address().host()).collect()
}

#[test]
fn m_295_to_m_297_the_larger_side_stays() {
    assert_eq!(
        (downed("", "A C E", "B D"), downed("", "B D", "A C E")),
        ("BD".into(), "BD".into())
    );
    assert_eq!(
        (downed("", "A B", "C D E"), downed("", "C D E", "A B")),
        ("AB".into(), "AB".into())
    );
    assert_eq!(
        (downed("", "B", "A C"), downed("", "A C", "B")),
        ("B".into(), "B".into())
    );
}

#[test]
fn m_298_m_299_of_equal_sides_the_lowest_address_stays() {
    assert_eq!(
        (downed("", "A B", "C D"), downed("", "C D", "A B")),
        ("CD".into(), "CD".into())
    );
    assert_eq!(
        (downed("", "A", "B"), downed("", "B", "A")),
        ("B".into(), "B".into())
    );
}

#[test]
fn m_300_m_301_only_members_with_the_role_count() {
    assert_eq!(downed("role3", "A B", "C D E"), "CDE");
    assert_eq!(downed("role3", "C D E", "A B"), "CDE");
    assert_eq!(downed("role2", "A D E", "B C"), "ADE");
    assert_eq!(downed("role2", "B C", "A D E"), "ADE");
}

#[test]
fn m_302_without_a_member_of_the_role_everybody_goes() {
    assert_eq!(majority("role3").decide(&split("C", "E")), Decision::DownAll);
    assert_eq!(downed("role3", "C", "E"), "CE");
    assert_eq!(downed("role3", "E", "C"), "CE");
}

#[test]
fn m_303_m_304_a_joining_member_is_not_counted_but_downed() {
    assert_eq!(downed("", "B D", "Aj C"), "AC");
    assert_eq!(downed("", "Aj C", "B D"), "AC");
    assert_eq!(downed("", "A Bj", "C D E"), "AB");
    assert_eq!(downed("", "C D E", "A Bj"), "AB");
}

#[test]
fn m_305_of_three_parts_without_a_majority_none_stays() {
    assert_eq!(downed("", "A B", "C D E"), "AB");
    assert_eq!(downed("", "C D", "A B E"), "CD");
    assert_eq!(downed("", "E", "A B C D"), "E");
}

#[test]
fn s_3_4_a_majority_that_a_change_in_flight_could_turn_is_not_used() {
    // Here 2 against 1; but B may be gone and D may be Up over there: 1 against 2.
    assert_eq!(majority("").decide(&split("A Bl", "C Dj")), Decision::DownAll);
    // Without the one Joining it stays 1 against 1, with the lowest address here.
    assert_eq!(
        majority("").decide(&split("A Bl", "C")),
        Decision::DownUnreachable
    );
    // Nobody is left to count here but those who leave.
    assert_eq!(majority("").decide(&split("Al Bl", "Cj")), Decision::DownAll);
    // A minority does not become a majority by hoping.
    assert_eq!(
        majority("").decide(&split("A Bj Cj", "D E")),
        Decision::DownReachable
    );
}

/// One side of `names` as it sees the split: what the leader changed is known there as `knows` says.
fn seen_from(
    names: &[(char, Status, bool)],
    mine: bool,
    knows: impl Fn(usize) -> bool,
) -> Option<DowningView> {
    let (mut near, mut far) = (std::string::String::new(), std::string::String::new());
    for (index, (name, status, side)) in names.iter().enumerate() {
        let suffix = match (status, knows(index)) {
            (Status::Joining, false) => "j",
            (Status::WeaklyUp, false) => "w",
            (Status::Leaving, false) => "l",
            (Status::Exiting, _) | (Status::Leaving, true) => "x",
            _ => "",
        };
        let part = if *side == mine { &mut near } else { &mut far };
        part.push_str(&std::format!("{name}{suffix} "));
    }
    (!near.is_empty() && !far.is_empty()).then(|| split(&near, &far))
}

#[test]
fn s_3_4_never_do_both_sides_stay_whatever_either_has_not_heard() {
    use rand_core::{Rng, SeedableRng};
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let mut draw = |bound: u64| rng.next_u64() % bound;
    let stays = |view: &DowningView| majority("").decide(view) == Decision::DownUnreachable;
    let (mut splits, mut survived) = (0, 0);
    for _ in 0..50_000 {
        let statuses = [
            Status::Up,
            Status::Up,
            Status::Up,
            Status::Joining,
            Status::WeaklyUp,
            Status::Leaving,
        ];
        let count = 2 + usize::try_from(draw(6)).unwrap();
        let names: Vec<(char, Status, bool)> = ('A'..='G')
            .take(count)
            .map(|name| (name, statuses[usize::try_from(draw(6)).unwrap()], draw(2) == 0))
            .collect();
        // A joining member may have become Up and one Leaving may be Exiting; each side knows of any part of it.
        let (left, right) = (draw(128), draw(128));
        let views = (
            seen_from(&names, true, |index| left >> index & 1 == 1),
            seen_from(&names, false, |index| right >> index & 1 == 1),
        );
        let (Some(a), Some(b)) = views else { continue };
        let lowest = |joining: bool| {
            let is = |status: &Status| matches!(status, Status::Joining | Status::WeaklyUp) == joining;
            names
                .iter()
                .find(|(_, status, _)| is(status) && *status != Status::Leaving)
                .map(|(name, ..)| *name)
        };
        // The case that M-303 leaves open: somebody joining has the lowest address of all who stay.
        if lowest(true).is_some_and(|joining| lowest(false).is_none_or(|up| joining < up)) {
            continue;
        }
        splits += 1;
        assert!(!(stays(&a) && stays(&b)), "two clusters: {a:?} {b:?}");
        survived += u32::from(stays(&a) || stays(&b));
    }
    assert!(
        splits > 20_000 && survived > splits / 2,
        "{survived} of {splits} splits left a cluster"
    );
}

#[test]
fn the_rule_behind_a_decision_is_told_in_words() {
    let rule = |here: &str, there: &str| majority("").explain(&split(here, there)).1;
    assert_eq!(rule("A B", "C"), "this side has the majority");
    assert_eq!(rule("A", "B C"), "the other side has the majority");
    assert_eq!(rule("A", "B"), "equal sides: this one has the lowest address");
    assert_eq!(
        rule("B", "A"),
        "equal sides: the other one has the lowest address"
    );
    assert_eq!(rule("Aj", "Bj"), "nobody can be counted for a majority");
    assert_eq!(
        rule("A Bl", "C Dj"),
        "changes in flight could give the other side the majority too"
    );
    let counted = majority("").counted(&split("A Bl", "C Dj Ex"));
    assert_eq!(counted, [node('A'), node('B'), node('C')]);
}

#[test]
fn s_3_2_members_that_are_down_or_exiting_are_neither_counted_nor_downed_again() {
    assert_eq!(downed("", "A B", "C Dx Ed"), "C");
    assert_eq!(downed("", "A Bx Cx", "D E"), "A");
    let dead = split("A B", "Cd");
    assert!(!dead.has_unreachable());
    assert_eq!(dead.nodes_to_down(Decision::DownUnreachable), []);
}

#[test]
fn m_310_to_m_317_indirectly_connected_members_are_not_decided_about() {
    let undecided = Decision::Undecided(Undecided::IndirectlyConnected);
    for (all, rows, seen) in [
        ("A B", &["AB", "BA"][..], "AB"),
        ("A B C", &["AB", "BA"], "ABC"),
        ("A B C", &["AB", "BC", "CA"], "ABC"),
        ("A B C D", &["AD", "DA", "BC", "CB"], "ABCD"),
        ("A B C", &["AB", "AC"], "ABC"),
        ("A B C D E", &["BC", "CB", "AD"], "ABCDE"),
        ("A B C D", &["AB", "BC"], "A"),
    ] {
        let view = connected(all, rows, seen);
        assert_eq!(majority("").decide(&view), undecided, "{all} {rows:?}");
        assert_eq!(view.nodes_to_down(undecided), [], "{all} {rows:?}");
    }
}

#[test]
fn f_41_rows_of_members_that_are_gone_do_not_make_a_split_unclean() {
    // B complained about C, which is Down by now, and then crashed itself.
    assert_eq!(
        majority("").decide(&connected("A B Cd D E", &["BC", "AB"], "A")),
        Decision::DownUnreachable
    );
    // Nor does the mutual complaint of a live member and one that is Down.
    assert!(!connected("A B Cd", &["CB", "BC"], "A").has_indirectly_connected());
    // But a member that somebody Down complained about and that is alive here is no clean split.
    assert!(connected("A B Cd", &["CB"], "AB").has_indirectly_connected());
    // A row about a stranger is ignored.
    assert!(!connected("A B", &["BC", "AB"], "A").has_indirectly_connected());
}
