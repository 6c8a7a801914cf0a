//! Akka's split scenarios, seen from each part.

use super::*;
use crate::downing::state::strategy::judge;
use crate::downing::table::{connected, role, split};
use crate::ident::UniqueAddress;
use alloc::string::String;

const DELAY: Duration = Duration::from_secs(2);

fn lease(name: &str) -> LeaseMajority {
    LeaseMajority::new(DELAY, role(name))
}

fn names(nodes: &[UniqueAddress]) -> String {
    nodes.iter().map(|node| node.address().host()).collect()
}

/// The delay, who goes with the lease, and who goes without it.
fn decided(name: &str, view: &DowningView) -> (Duration, String, String) {
    let verdict = judge(&lease(name), view, None);
    let after = match verdict.decision {
        DowningDecision::AcquireLeaseAndDownUnreachable { after } => after,
        DowningDecision::AcquireLeaseAndDownIndirectlyConnected => Duration::ZERO,
        other => panic!("no lease wanted: {other}"),
    };
    (after, names(&verdict.down), names(&verdict.down_if_denied))
}

fn outcome(after: Duration, held: &str, denied: &str) -> (Duration, String, String) {
    (after, held.into(), denied.into())
}

#[test]
fn m_340_the_smaller_side_asks_last() {
    let (left, right) = (split("A C E", "B D"), split("B D", "A C E"));
    assert_eq!(decided("", &left), outcome(Duration::ZERO, "BD", "ACE"));
    assert_eq!(decided("", &right), outcome(DELAY, "ACE", "BD"));
    // Of equal sides the one without the lowest address.
    assert_eq!(decided("", &split("A B", "C D")).0, Duration::ZERO);
    assert_eq!(decided("", &split("C D", "A B")).0, DELAY);
}

#[test]
fn m_341_only_members_with_the_role_are_counted() {
    assert_eq!(decided("role2", &split("A D E", "B C")).0, DELAY);
    assert_eq!(decided("role2", &split("B C", "A D E")).0, Duration::ZERO);
}

#[test]
fn m_342_m_343_broken_links_go_and_with_them_this_side_if_the_lease_is_denied() {
    let view = connected("A B C", &["AB", "BA"], "ABC");
    assert_eq!(decided("", &view), outcome(Duration::ZERO, "AB", "ABC"));
    let left = connected("A B C D E", &["BC", "CB", "AD", "AE"], "ABC");
    assert_eq!(decided("", &left), outcome(Duration::ZERO, "BCDE", "ABC"));
    let right = connected("A B C D E", &["BC", "CB", "DA", "DB", "DC"], "DE");
    assert_eq!(decided("", &right), outcome(Duration::ZERO, "ABC", "BCDE"));
}

#[test]
fn m_345_without_a_member_of_the_role_nobody_waits() {
    assert_eq!(decided("role3", &split("C", "E")).0, Duration::ZERO);
    assert_eq!(decided("role3", &split("E", "C")).0, Duration::ZERO);
}
