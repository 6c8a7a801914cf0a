//! Spec: membership §6 B.

use super::{aged, in_dc, m, n, names, of};
use crate::ident::{Role, Roles};
use crate::membership::state::app_version::AppVersion;
use crate::membership::state::leader::leader_rank;
use crate::membership::state::member::{Status, UpNumber};
use alloc::vec::Vec;
use core::cmp::Ordering;

#[test]
fn m_024_a_removed_incarnation_goes_whatever_its_status() {
    let mut joined = of([m("aJ")]);
    assert!(joined.remove(&m("a").node));
    assert!(joined.members().is_empty());
}

#[test]
fn m_025_and_m_026_leader_order_is_by_rank_then_address() {
    let mut all: Vec<_> = ["eJ", "gJ", "cX", "fX", "bD", "dD", "h", "i", "jW"].map(m).into();
    all.sort_by(|left, right| {
        leader_rank(left.status)
            .cmp(&leader_rank(right.status))
            .then_with(|| left.node.cmp(&right.node))
    });
    assert_eq!(names(all.iter().map(|member| &member.node)), "h i j e g c f b d");
}

#[test]
fn m_027_and_m_028_age_is_by_up_number_then_address_within_a_data_center() {
    assert_eq!(aged("b", 1).age_cmp(&aged("a", 2)), Some(Ordering::Less));
    assert_eq!(aged("b", 1).age_cmp(&aged("a", 1)), Some(Ordering::Greater));
    assert_eq!(in_dc("a", "x").age_cmp(&in_dc("b", "y")), None);
    assert_eq!(
        m("aJ").age_cmp(&aged("b", i32::MAX.cast_unsigned() - 1)),
        Some(Ordering::Greater)
    );
    assert_eq!(UpNumber::NONE.next(), UpNumber::FIRST);
}

#[test]
fn m_029_to_m_038_exactly_the_transitions_of_the_table_are_legal() {
    use Status::{Down, Exiting, Joining, Leaving, Removed, Up, WeaklyUp};
    use Status::{PreparingForShutdown as Preparing, ReadyForShutdown as Ready};
    let table: [(Status, &[Status]); 9] = [
        (Joining, &[WeaklyUp, Up, Leaving, Down, Removed]),
        (WeaklyUp, &[Up, Leaving, Down, Removed]),
        (Up, &[Leaving, Down, Removed, Preparing]),
        (Preparing, &[Ready, Leaving, Down, Removed]),
        (Ready, &[Leaving, Down, Removed]),
        (Leaving, &[Exiting, Down, Removed]),
        (Exiting, &[Removed, Down]),
        (Down, &[Removed]),
        (Removed, &[]),
    ];
    for (from, legal) in table {
        for to in Status::ALL {
            assert_eq!(
                from.allows(to),
                from == to || legal.contains(&to),
                "{from} to {to}"
            );
            assert!(
                !from.allows(to) || to >= from,
                "the merge order extends the table: {from} to {to}"
            );
        }
    }
}

#[test]
fn m_039_to_m_042_merge_takes_the_later_status_and_the_smaller_number() {
    for (left, right, expected) in [
        ("a", "aJ", "a"),
        ("aW", "aJ", "aW"),
        ("a", "aW", "a"),
        ("aL", "a", "aL"),
        ("aX", "aL", "aX"),
        ("aD", "aX", "aD"),
        ("aP", "a", "aP"),
        ("aL", "aP", "aL"),
        ("aL", "aR", "aL"),
        ("aD", "aR", "aD"),
    ] {
        assert_eq!(m(left).merged(&m(right)).status, m(expected).status);
    }
    assert_eq!(aged("a", 5).merged(&aged("a", 3)).up_number.get(), 3);
    for left in Status::ALL {
        for right in Status::ALL {
            let (mut a, mut b) = (m("a"), m("a"));
            (a.status, b.status) = (left, right);
            assert_eq!(a.merged(&b).status, b.merged(&a).status);
        }
    }
}

#[test]
fn a_leaving_member_that_never_was_up_keeps_the_number_the_other_side_knows() {
    let mut never_up = m("aL");
    never_up.up_number = UpNumber::NONE;
    let merged = never_up.merged(&aged("a", 1));
    assert_eq!(
        (merged.status, merged.up_number, merged.node),
        (Status::Leaving, UpNumber::FIRST, n("a"))
    );
}

#[test]
fn m_022_an_incarnation_is_its_address_and_uid_whatever_its_status() {
    let (joining, up) = (m("aJ"), m("a"));
    assert_eq!(joining.node, up.node);
    assert_ne!(joining, up, "the record as a whole differs");
    assert_ne!(m("a").node, m("a#2").node);
    assert_ne!(m("a").node, m("b").node);
    let mut both = of([joining]);
    both.upsert_member(up);
    assert_eq!(both.members().len(), 1, "one incarnation has one record");
}

#[test]
fn section_8_2_roles_and_versions_that_a_liar_changed_merge_to_the_same_on_both_sides() {
    let (honest, mut liar) = (m("a"), m("a"));
    liar.roles = Roles::new([Role::new("admin").unwrap()], "default").unwrap();
    liar.app_version = AppVersion::new("9.9").unwrap();
    let (left, right) = (honest.merged(&liar), liar.merged(&honest));
    assert_eq!(
        (&left.roles, &left.app_version),
        (&right.roles, &right.app_version)
    );
    assert!(left.covers(&honest) && left.covers(&liar));
    // Equal versions may be written differently; one text has to win.
    let mut short = m("a");
    (short.app_version, liar.app_version) =
        (AppVersion::new("1.2").unwrap(), AppVersion::new("1.2.0").unwrap());
    for merged in [short.merged(&liar), liar.merged(&short)] {
        assert_eq!(merged.app_version.as_str(), "1.2.0");
    }
}
