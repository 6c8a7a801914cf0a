//! Spec: membership §6 F.

use super::{aged, g, in_dc, n, names, of, reach, with_roles};
use crate::ident::Role;
use crate::membership::state::gossip::Gossip;
use crate::membership::state::leader::{acting_leader, age_sorted, leader, role_leader, youngest_up_number};
use crate::membership::state::member::{Member, UpNumber};
use alloc::string::String;
use alloc::vec::Vec;

fn led(gossip: &Gossip, me: &str) -> String {
    names(&leader(gossip, &n(me)))
}

#[test]
fn m_099_to_m_103_the_first_full_member_leads_and_then_the_better_rank() {
    for (codes, expected) in [
        ("c e", "c"),
        ("cX e", "e"),
        ("cX", "c"),
        ("aJ bW", "b"),
        ("aD", ""),
        ("aD b", "b"),
        ("aX bJ cW", "c"),
        ("aX bJ", "b"),
        ("aL b", "a"),
        ("aP b", "a"),
        ("aJ bR", "b"),
    ] {
        assert_eq!(led(&g(codes), "a"), expected, "{codes}");
    }
}

#[test]
fn an_unreachable_member_leads_only_itself() {
    let gossip = reach(g("a b c"), "b>a:U");
    assert_eq!(
        (led(&gossip, "a"), led(&gossip, "b"), led(&gossip, "c")),
        ("a".into(), "b".into(), "b".into())
    );
    assert_eq!(led(&reach(g("a b"), "b>a:T"), "b"), "b");
}

#[test]
fn i_09_what_a_downed_member_saw_makes_no_second_leader_act() {
    // d was cut off from all others, was declared Down, and is heard again before it has stopped.
    let gossip = reach(g("a b c dD"), "d>a:U d>b:U d>c:U");
    let named = (led(&gossip, "a"), led(&gossip, "b"), led(&gossip, "c"));
    assert_eq!(named, ("a".into(), "b".into(), "c".into()));
    for me in ["a", "b", "c"] {
        assert_eq!(names(&acting_leader(&gossip, &n(me))), "a");
    }
    let seen_by_the_living = reach(g("a b dD"), "b>a:U");
    assert_eq!(names(&acting_leader(&seen_by_the_living, &n("b"))), "b");
}

#[test]
fn m_104_and_m_105_every_data_center_has_its_leader_and_its_own_observers() {
    let all = [
        in_dc("a", "dc1"),
        in_dc("b", "dc1"),
        in_dc("c", "dc2"),
        in_dc("d", "dc2"),
    ];
    let gossip = reach(of(all), "a>d:U d>a:U");
    for (me, expected) in [("a", "a"), ("b", "a"), ("c", "c"), ("d", "c")] {
        assert_eq!(led(&gossip, me), expected);
    }
    assert_eq!(led(&reach(gossip, "c>a:U c>b:U a>c:U"), "b"), "a");
}

#[test]
fn m_106_every_role_has_the_first_of_its_holders() {
    let gossip = of([
        with_roles("a", "AA,AB"),
        with_roles("b", "AB,BB"),
        with_roles("c", ""),
        with_roles("dL", "DD,DE"),
        with_roles("eJ", "EE,DE"),
    ]);
    for (role, expected) in [
        ("AA", "a"),
        ("AB", "a"),
        ("BB", "b"),
        ("DD", "d"),
        ("DE", "d"),
        ("EE", "e"),
        ("dc-default", "a"),
        ("x", ""),
    ] {
        let role = Role::from_wire(role).unwrap();
        assert_eq!(names(&role_leader(&gossip, &n("a"), &role)), expected, "{role}");
    }
}

#[test]
fn m_108_the_youngest_is_the_largest_number_given() {
    let joining = |code: &str| Member {
        up_number: UpNumber::NONE,
        ..aged(code, 1)
    };
    let one = of([joining("aJ"), aged("b", 3), joining("eJ")]);
    assert_eq!(youngest_up_number(&one, "default").get(), 3);
    assert_eq!(youngest_up_number(&reach(one, "a>b:U"), "default").get(), 3);
    let two = of([joining("aJ"), aged("b", 3), aged("e", 4)]);
    assert_eq!(youngest_up_number(&two, "default").next().get(), 5);
    assert_eq!(youngest_up_number(&two, "elsewhere").next(), UpNumber::FIRST);
    assert_eq!(
        youngest_up_number(&of([joining("aJ")]), "default").next(),
        UpNumber::FIRST
    );
}

#[test]
fn m_109_the_oldest_come_first() {
    let dc = |code: &str, name: &str, number| Member {
        up_number: UpNumber::new(number),
        ..in_dc(code, name)
    };
    let gossip = of([
        dc("a4", "dc-a", 1),
        dc("a3", "dc-a", 2),
        dc("a2", "dc-a", 3),
        dc("a1", "dc-a", 4),
        dc("b3", "dc-b", 0),
        dc("b2", "dc-b", 1),
        dc("b1", "dc-b", 2),
    ]);
    let oldest = |name: &str| {
        let role = Role::from_wire(name).unwrap();
        let sorted: Vec<_> = age_sorted(gossip.members(), Some(&role))
            .into_iter()
            .take(2)
            .collect();
        names(sorted.iter().map(|member| &member.node))
    };
    assert_eq!(
        (oldest("dc-dc-a"), oldest("dc-dc-b")),
        ("a4 a3".into(), "b3 b2".into())
    );
}

#[test]
fn only_who_has_been_up_has_an_age() {
    let never_up = Member {
        up_number: UpNumber::NONE,
        ..aged("eL", 1)
    };
    let gossip = of([
        aged("aX", 2),
        aged("b", 1),
        aged("cD", 2),
        aged("dJ", 9),
        never_up,
    ]);
    assert_eq!(
        names(age_sorted(gossip.members(), None).iter().map(|m| &m.node)),
        "b a c"
    );
}
