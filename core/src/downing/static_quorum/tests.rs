//! Akka's split scenarios, seen from each part.

use super::*;
use crate::downing::table::{connected, downed_by, downed_in, role, split};

fn quorum(size: usize, name: &str) -> StaticQuorum {
    StaticQuorum::new(size, role(name))
}

/// What both parts answer, and whom each downs.
fn both(size: usize, name: &str, left: &str, right: &str) -> [(DowningDecision, alloc::string::String); 2] {
    let strategy = quorum(size, name);
    [(left, right), (right, left)].map(|(here, there)| {
        (
            strategy.decide(&split(here, there)),
            downed_by(&strategy, here, there),
        )
    })
}

#[test]
fn m_286_m_288_m_291_to_m_293_the_side_with_a_quorum_stays() {
    use DowningDecision::{DownReachable, DownUnreachable};
    for (size, role, left, right, gone) in [
        (3, "", "A C E", "B D", "BD"),
        (2, "role3", "A B C", "D E", "DE"),
        (3, "", "A B C", "D E Fj", "DEF"),
        (3, "", "A B Cl", "D E", "DE"),
    ] {
        let expected = [(DownUnreachable, gone.into()), (DownReachable, gone.into())];
        assert_eq!(both(size, role, left, right), expected, "{left}|{right}");
    }
    let expected = [(DownReachable, "ABC".into()), (DownUnreachable, "ABC".into())];
    assert_eq!(both(3, "", "A B Cj", "D E F"), expected);
}

#[test]
fn m_287_m_290_without_a_quorum_neither_side_stays() {
    use DowningDecision::DownReachable;
    let expected = [(DownReachable, "AB".into()), (DownReachable, "CD".into())];
    assert_eq!(both(3, "", "A B", "C D"), expected);
    let expected = [(DownReachable, "ABC".into()), (DownReachable, "DEF".into())];
    assert_eq!(both(3, "", "A B Cj", "D E Fj"), expected);
}

#[test]
fn m_294_exiting_members_are_neither_counted_nor_downed() {
    let expected = [
        (DowningDecision::DownReachable, "AB".into()),
        (DowningDecision::DownReachable, "DE".into()),
    ];
    assert_eq!(both(3, "", "A B Cx", "D E"), expected);
}

#[test]
fn m_289_m_360_so_many_members_that_both_sides_could_hold_a_quorum_all_go() {
    let all = || (DowningDecision::DownAll, "ABCDEF".into());
    assert_eq!(both(3, "", "A B C", "D E F"), [all(), all()]);
    assert_eq!(
        both(2, "", "A B", "C D"),
        [
            (DowningDecision::DownAll, "ABCD".into()),
            (DowningDecision::DownAll, "ABCD".into())
        ]
    );
    assert_eq!(quorum(2, "").members_max(), Some(3));
    assert_eq!(both(2, "", "A B", "C Dj")[0].0, DowningDecision::DownUnreachable);
}

#[test]
fn s_3_9_without_a_member_of_the_role_this_side_goes() {
    assert_eq!(
        both(1, "role3", "C", "E").map(|(decision, _)| decision),
        [DowningDecision::DownReachable; 2]
    );
}

#[test]
fn s_3_7_broken_links_are_taken_out_before_the_rest_is_counted() {
    let view = connected("A B C D E", &["AB", "BA"], "ABCDE");
    assert_eq!(
        quorum(3, "").decide(&view),
        DowningDecision::DownIndirectlyConnected
    );
    assert_eq!(downed_in(&quorum(3, ""), &view), "AB");
    let view = connected("A B C D E", &["AB", "BA", "AD", "AE"], "ABC");
    assert_eq!(downed_in(&quorum(3, ""), &view), "ABDE");
    assert_eq!(downed_in(&quorum(4, ""), &view), "ABC");
    // Nobody is lost beyond the broken link: nothing is left to be decided, though this is no quorum.
    let view = connected("A B C", &["AB", "BA"], "C");
    assert_eq!(downed_in(&quorum(3, ""), &view), "AB");
    assert_eq!(downed_in(&quorum(5, ""), &view), "AB");
    let view = connected("A B C", &["AB"], "ABC");
    assert_eq!(downed_in(&quorum(5, ""), &view), "AB");
}

#[test]
fn members_that_are_down_are_counted_on_neither_side() {
    let quorum = StaticQuorum::new(2, None);
    assert_eq!(downed_by(&quorum, "A Bd", "C D"), "A");
    assert_eq!(downed_by(&quorum, "C D", "A Bd"), "A");
}
