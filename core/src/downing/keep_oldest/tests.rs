//! Akka's split scenarios, seen from each part. E is the oldest of the table, then D, C, B, A.

use super::*;
use crate::downing::table::{connected, downed_by, downed_in, role, split};

fn oldest(down_if_alone: bool, name: &str) -> KeepOldest {
    KeepOldest::new(down_if_alone, role(name))
}

/// Whom each part downs.
fn both(strategy: &KeepOldest, left: &str, right: &str) -> [alloc::string::String; 2] {
    [downed_by(strategy, left, right), downed_by(strategy, right, left)]
}

#[test]
fn m_325_the_side_of_the_oldest_stays() {
    assert_eq!(both(&oldest(true, ""), "A E", "B C D"), ["BCD", "BCD"]);
    assert_eq!(both(&oldest(false, ""), "A E", "B C D"), ["BCD", "BCD"]);
}

#[test]
fn m_326_only_members_with_the_role_count() {
    assert_eq!(both(&oldest(true, "role2"), "A E", "B C D"), ["AE", "AE"]);
    assert_eq!(both(&oldest(true, "role3"), "C", "E"), ["CE", "CE"]);
}

#[test]
fn m_327_an_oldest_that_is_alone_goes_if_so_set() {
    assert_eq!(both(&oldest(true, ""), "E", "A B C D"), ["E", "E"]);
    assert_eq!(both(&oldest(false, ""), "E", "A B C D"), ["ABCD", "ABCD"]);
}

#[test]
fn m_328_of_two_members_the_oldest_stays_though_alone() {
    assert_eq!(both(&oldest(true, ""), "B", "A"), ["A", "A"]);
    assert_eq!(both(&oldest(false, ""), "B", "A"), ["A", "A"]);
}

#[test]
fn m_338_broken_links_are_taken_out_before_the_rest_is_decided() {
    let strategy = oldest(true, "");
    let view = connected("A B C", &["AB", "BA"], "ABC");
    assert_eq!(strategy.decide(&view), DowningDecision::DownIndirectlyConnected);
    assert_eq!(downed_in(&strategy, &view), "AB");
    // D and E are lost behind the link of A and B: E is the oldest, and it is there.
    let view = connected("A B C D E", &["AB", "BA", "AD", "AE"], "ABC");
    assert_eq!(downed_in(&strategy, &view), "ABC");
    let view = connected("A B C D E", &["AB", "BA", "AC", "AD"], "ABE");
    assert_eq!(downed_in(&strategy, &view), "ABCD");
}

#[test]
fn s_3_5_an_answer_that_a_change_in_flight_could_turn_is_not_used() {
    // The oldest is Leaving: it may be gone, and then the oldest is over there.
    assert_eq!(
        oldest(true, "").decide(&split("A El", "B C D")),
        DowningDecision::DownAll
    );
    // It is here with a member that may be gone: it may be alone.
    assert_eq!(
        oldest(true, "").decide(&split("E Al", "B C")),
        DowningDecision::DownAll
    );
    assert_eq!(
        oldest(false, "").decide(&split("E Al", "B C")),
        DowningDecision::DownUnreachable
    );
    // A joining member keeps it company.
    assert_eq!(
        oldest(true, "").decide(&split("E Al Fj", "B C")),
        DowningDecision::DownUnreachable
    );
}

#[test]
fn s_3_5_without_down_if_alone_who_joins_is_not_counted_in_the_re_check() {
    // The only counted member is Leaving: if it is gone, nobody is left who is the oldest, and none that
    // joins stands in for it, on whatever side: there it may be Up already, and this side is not to stay
    // beside it.
    for there in ["Fj", "Fw", "Bl Fj"] {
        for here in ["El Aj", "El", "El Gw"] {
            assert_eq!(
                oldest(false, "").decide(&split(here, there)),
                DowningDecision::DownAll,
                "{here} | {there}"
            );
        }
    }
    assert_eq!(
        oldest(false, "").decide(&split("E", "Aj Bj Cj")),
        DowningDecision::DownUnreachable,
        "alone or not, beside however many that join"
    );
}

#[test]
fn f_43_f_44_joining_members_are_younger_than_all_and_nobody_is_no_panic() {
    assert_eq!(
        oldest(true, "").decide(&split("Ej", "Aj")),
        DowningDecision::DownAll
    );
    assert_eq!(
        oldest(true, "").decide(&split("A Ej", "B C")),
        DowningDecision::DownReachable
    );
}
