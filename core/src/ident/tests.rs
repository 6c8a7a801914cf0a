//! Names: what is legal, how they sort. Spec: membership 1.1.

use super::*;

fn address(host: &str, port: u16) -> Address {
    Address::new(host, port).unwrap()
}

#[test]
fn m_197_host_names_with_and_without_dots_are_legal() {
    for host in ["localhost", "is_valid.org", "fu.is_valid.org", "fu_.is_valid.org"] {
        assert!(Address::new(host, 1).is_ok(), "{host}");
    }
}

#[test]
fn m_019_to_m_021_addresses_sort_by_host_then_port() {
    let mut all = [
        address("darkstar2", 1110),
        address("darkstar0", 1111),
        address("darkstar2", 1111),
        address("darkstar0", 1110),
    ];
    all.sort();
    let shown: Vec<String> = all.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "darkstar0:1110",
            "darkstar0:1111",
            "darkstar2:1110",
            "darkstar2:1111"
        ]
    );
    assert!(address("host1", 9000) < address("host1", 10000));
    assert!(address("host1", 10000) < address("host2", 8000));
}

#[test]
fn m_023_uids_compare_as_signed_numbers() {
    let zero = UniqueAddress::new(address("a", 1), 0);
    let minus_three = UniqueAddress::new(address("a", 1), (-3_i64).cast_unsigned());
    assert!(zero > minus_three);
    assert!(minus_three < zero);
}

#[test]
fn ring_hash_folds_both_halves() {
    let hash = |uid: u64| UniqueAddress::new(address("a", 1), uid).ring_hash();
    assert_eq!(hash(1), 1);
    assert_eq!(hash(0x1_0000_0001), 0);
    assert_eq!(hash((-3_i64).cast_unsigned()), 2);
    assert_eq!(hash(0xFFFF_FFFF), -1);
    assert_eq!(hash(0x8000_0000), i32::MIN);
    assert_eq!(
        hash((-2_038_974_157_288_582_080_i64).cast_unsigned()),
        1_932_054_414
    );
}

#[test]
fn b_45_bad_addresses_are_refused_with_the_reason() {
    assert_eq!(Address::new("", 1), Err(NameError::Empty));
    assert_eq!(Address::new("a", 0), Err(NameError::BadPort));
    assert_eq!(
        Address::new("a\u{1b}[2J", 1),
        Err(NameError::BadCharacter { at: 1 })
    );
    let long = "x".repeat(129);
    assert_eq!(
        Address::new(&long, 1),
        Err(NameError::TooLong { len: 129, max: 128 })
    );
    assert_eq!("localhost".parse::<Address>(), Err(NameError::NoPort));
    assert_eq!("localhost:70000".parse::<Address>(), Err(NameError::BadPort));
    assert_eq!("localhost:70#2f".parse::<Address>(), Err(NameError::NoPort));
}

#[test]
fn ipv6_addresses_round_trip_through_text() {
    let parsed: Address = "[::1]:2551".parse().unwrap();
    assert_eq!(parsed.host(), "::1");
    assert_eq!(parsed.to_string(), "[::1]:2551");
}

#[test]
fn m_448_roles_without_a_data_center_get_the_default_one() {
    let roles = Roles::from_wire(alloc::vec![Role::new("backend").unwrap()]).unwrap();
    assert_eq!(roles.data_center(), "default");
    let kept = Roles::new([Role::new("backend").unwrap()], "foo").unwrap();
    assert_eq!(kept.data_center(), "foo");
    assert_eq!(Role::new("dc-foo"), Err(NameError::ReservedRole));
}
