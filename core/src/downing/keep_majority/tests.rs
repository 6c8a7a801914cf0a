//! Akka's split scenarios, seen from each part.

use alloc::string::String;
use alloc::vec::Vec;

use super::*;
use crate::downing::state::strategy::{counted, judge};
use crate::downing::table::{connected, downed_by, downed_in, node, role, split};
use crate::membership::state::member::Status;

fn majority(name: &str) -> KeepMajority {
    KeepMajority::new(role(name))
}

/// Whom the part `here` downs, as a string of names.
fn downed(role: &str, here: &str, there: &str) -> String {
    downed_by(&majority(role), here, there)
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
    assert_eq!(
        majority("role3").decide(&split("C", "E")),
        DowningDecision::DownAll
    );
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
    assert_eq!(
        majority("").decide(&split("A Bl", "C Dj")),
        DowningDecision::DownAll
    );
    // Without the one Joining it stays 1 against 1, with the lowest address here.
    assert_eq!(
        majority("").decide(&split("A Bl", "C")),
        DowningDecision::DownUnreachable
    );
    // Nobody is left to count here but those who leave.
    assert_eq!(
        majority("").decide(&split("Al Bl", "Cj")),
        DowningDecision::DownAll
    );
    // A minority does not become a majority by hoping.
    assert_eq!(
        majority("").decide(&split("A Bj Cj", "D E")),
        DowningDecision::DownReachable
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
    let stays = |view: &DowningView| majority("").decide(view) == DowningDecision::DownUnreachable;
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
        // A joining member may have become Up and one Leaving may be Exiting; each side knows of any part of
        // it.
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
    let (members, lost) = counted(&majority(""), &split("A Bl", "C Dj Ex"));
    assert_eq!(members, [node('A'), node('B'), node('C')]);
    assert_eq!(lost, [node('C')]);
}

#[test]
fn s_3_2_members_that_are_down_or_exiting_are_neither_counted_nor_downed_again() {
    assert_eq!(downed("", "A B", "C Dx Ed"), "C");
    assert_eq!(downed("", "A Bx Cx", "D E"), "A");
    let dead = split("A B", "Cd");
    assert!(!dead.has_unreachable());
    assert_eq!(downed_in(&majority(""), &dead), "");
}

#[test]
fn m_310_to_m_317_members_on_broken_links_go_and_nobody_else() {
    for (all, rows, seen, gone) in [
        ("A B", &["AB", "BA"][..], "AB", "AB"),
        ("A B C", &["AB", "BA"], "ABC", "AB"),
        ("A B C", &["AB", "BC", "CA"], "ABC", "ABC"),
        ("A B C D", &["AD", "DA", "BC", "CB"], "ABCD", "ABCD"),
        ("A B C D E", &["AB", "BC", "CA"], "ABCDE", "ABC"),
        ("A B C D E F G", &["BC", "CB", "EF", "FE"], "ABCDEFG", "BCEF"),
        ("A B C", &["AB", "AC"], "ABC", "ABC"),
        ("A B C D E", &["BC", "CB", "AD"], "ABCDE", "ABCD"),
    ] {
        let view = connected(all, rows, seen);
        assert_eq!(
            majority("").decide(&view),
            DowningDecision::DownIndirectlyConnected,
            "{all} {rows:?}"
        );
        assert_eq!(downed_in(&majority(""), &view), gone, "{all} {rows:?}");
    }
}

#[test]
fn m_318_a_split_behind_a_broken_link_is_decided_on_its_own() {
    let left = connected("A B C D E", &["AB", "BA", "AC"], "ABDE");
    assert_eq!(downed_in(&majority(""), &left), "ABC");
    // Two of five are lost behind the link of A and B; the rest of three is the majority.
    let left = connected("A B C D E", &["AB", "BA", "AD", "AE"], "ABC");
    assert_eq!(downed_in(&majority(""), &left), "ABDE");
    // Three of five are lost behind it: this side goes altogether, the other one stays.
    let left = connected("A B C D E", &["AB", "BA", "AC", "AD", "AE"], "AB");
    assert_eq!(downed_in(&majority(""), &left), "AB");
}

#[test]
fn s_3_7_too_large_a_share_on_broken_links_downs_everybody() {
    let view = connected("A B C D E", &["AB", "BA"], "ABCDE");
    let downs = |share| judge(&majority(""), &view, share).down.len();
    assert_eq!((downs(None), downs(Some(0.41)), downs(Some(0.4))), (2, 2, 5));
    let verdict = judge(&majority(""), &view, Some(0.4));
    assert!(verdict.escalated);
    assert_eq!(
        verdict.reason,
        "too large a part of the cluster is on broken links"
    );
    // A clean split is no matter of shares.
    let clean = split("A B C", "D E");
    assert_eq!(judge(&majority(""), &clean, Some(0.1)).down.len(), 2);
}

#[test]
fn f_41_rows_of_members_that_are_gone_do_not_take_the_living_along() {
    // B complained about C, which is Down by now, and then crashed itself.
    assert_eq!(
        downed_in(&majority(""), &connected("A B Cd D E", &["BC", "AB"], "A")),
        "B"
    );
    // The mutual complaint of a live member and one that is Down.
    assert_eq!(
        downed_in(&majority(""), &connected("A B Cd", &["CB", "BC"], "A")),
        "B"
    );
    // A row about a stranger is one of nobody here.
    assert_eq!(
        downed_in(&majority(""), &connected("A B", &["BZ", "AB"], "A")),
        "B"
    );
}

#[test]
fn s_3_9_a_second_crash_is_no_broken_link_under_the_cascade_safe_rule() {
    use crate::downing::state::view::IndirectRule;
    // E noticed the crash of C, then crashed too.
    let rows = ["AC", "BC", "DC", "EC", "AE", "BE", "DE"];
    let view = connected("A B C D E", &rows, "ABD");
    // E is on a broken link for the classic rule, and what is left without it is no clean split either.
    let classic = judge(&majority(""), &view, None);
    assert_eq!(classic.decision, DowningDecision::DownIndirectlyConnected);
    assert!(classic.escalated);
    assert_eq!(downed_in(&majority(""), &view), "ABCDE");
    let safe = view.clone().judged_by(IndirectRule::CascadeSafe);
    assert_eq!(majority("").decide(&safe), DowningDecision::DownUnreachable);
    assert_eq!(downed_in(&majority(""), &safe), "CE");
    // A member that complains about somebody alive is on a broken link, even if it is silent now.
    let view = connected("A B C D E", &["EC", "AE", "BE"], "ABCD").judged_by(IndirectRule::CascadeSafe);
    assert_eq!(downed_in(&majority(""), &view), "CE");
    assert_eq!(
        majority("").decide(&view),
        DowningDecision::DownIndirectlyConnected
    );
}

#[test]
fn members_that_are_down_are_counted_on_neither_side() {
    let majority = KeepMajority::new(None);
    assert_eq!(downed_by(&majority, "A B", "Cd D E"), "DE");
    assert_eq!(downed_by(&majority, "D E", "A B Cd"), "DE");
    assert_eq!(downed_by(&majority, "B Cd D", "A E"), "BD");
}
