//! Lists of settings: what is refused, what differs, and how it is said.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::*;

fn list(all: &[(&str, &str)]) -> Settings {
    Settings::new(all.iter().map(|(key, value)| Setting::new(*key, value))).unwrap()
}

fn differ(own: &Settings, other: &Settings) -> String {
    let found = own.differences(other, &JoinCheckers::default());
    if found.is_empty() {
        return String::new();
    }
    found.to_string()
}

/// Content with values of the same length.
#[derive(Debug)]
struct Lengths;

impl JoinChecker for Lengths {
    fn settings(&self) -> Vec<Setting> {
        alloc::vec![
            Setting::new("app.a", "xx"),
            Setting::new("app.b", "yy").if_known()
        ]
    }

    fn agrees(&self, key: &str, own: &str, other: &str) -> bool {
        assert!(key == "app.a" || key == "app.b", "its own keys only: {key}");
        assert_ne!(own, other, "equal values are not asked about");
        own.len() == other.len()
    }
}

#[test]
fn m_184_a_key_that_one_side_misses_is_named() {
    let (all, one) = (list(&[("a", "1"), ("b", "2"), ("c", "3")]), list(&[("b", "2")]));
    assert_eq!(
        differ(&one, &all),
        r#"a is here missing and there "1"; c is here missing and there "3""#
    );
    assert_eq!(
        differ(&all, &one),
        r#"a is here "1" and there missing; c is here "3" and there missing"#
    );
}

#[test]
fn m_185_values_that_differ_are_named_with_both() {
    let (own, other) = (list(&[("a", "1"), ("b", "2")]), list(&[("a", "3"), ("b", "4")]));
    assert_eq!(
        differ(&own, &other),
        r#"a is here "1" and there "3"; b is here "2" and there "4""#
    );
    assert_eq!(differ(&own, &own), "");
}

#[test]
fn m_186_one_is_missing_and_one_differs() {
    let (own, other) = (list(&[("a", "1"), ("b", "2")]), list(&[("a", "3"), ("c", "2")]));
    assert_eq!(
        differ(&own, &other),
        r#"a is here "1" and there "3"; b is here "2" and there missing; c is here missing and there "2""#
    );
}

#[test]
fn a_setting_that_need_not_exist_is_compared_where_both_have_it() {
    let optional = |value| Settings::new([Setting::new("a", value).if_known()]).unwrap();
    assert_eq!(differ(&optional("1"), &Settings::default()), "");
    assert_eq!(differ(&Settings::default(), &optional("1")), "");
    assert_eq!(
        differ(&optional("1"), &optional("2")),
        r#"a is here "1" and there "2""#
    );
    // Who says that it must exist is heard, whichever side it is.
    assert_eq!(differ(&optional("1"), &list(&[("a", "1")])), "");
    assert_eq!(
        differ(&Settings::default(), &list(&[("a", "1")])),
        r#"a is here missing and there "1""#
    );
}

#[test]
fn what_belongs_to_a_strategy_says_nothing_about_another_one() {
    let own = list(&[(STRATEGY, "quorum"), ("downing.strategy.quorum", "3"), ("z", "")]);
    let other = list(&[
        (STRATEGY, "oldest"),
        ("downing.strategy.alone", "true"),
        ("z", ""),
    ]);
    assert_eq!(
        differ(&own, &other),
        r#"downing.strategy is here "quorum" and there "oldest""#
    );
    let same = list(&[(STRATEGY, "quorum"), ("z", "")]);
    assert_eq!(
        differ(&own, &same),
        r#"downing.strategy.quorum is here "3" and there missing"#
    );
}

#[test]
fn a_checker_decides_about_its_own_keys_and_no_others() {
    let mut checkers = JoinCheckers::default();
    checkers.add(Arc::new(Lengths)).unwrap();
    let own = list(&[("app.a", "xx"), ("app.b", "yy"), ("c", "1")]);
    let found = |other: &Settings| {
        let found = own.differences(other, &checkers);
        found.iter().map(|d| d.key.clone()).collect::<Vec<_>>()
    };
    let none: [&str; 0] = [];
    assert_eq!(found(&own), none);
    assert_eq!(
        found(&list(&[("app.a", "zz"), ("app.b", "zz"), ("c", "1")])),
        none
    );
    assert_eq!(
        found(&list(&[("app.a", "zzz"), ("app.b", "zz"), ("c", "2")])),
        ["app.a", "c"]
    );
}

#[test]
fn what_a_stranger_calls_itself_is_quoted_on_one_line() {
    let (own, other) = (list(&[("a", "1")]), list(&[("a", "x\nERROR \"all\" \u{1b}[2J")]));
    assert_eq!(
        differ(&own, &other),
        r#"a is here "1" and there "x\nERROR \"all\" \u{1b}[2J""#
    );
}

#[test]
fn m_195_a_secret_is_compared_by_a_hash_that_is_too_short_to_confirm_a_guess() {
    let secret = |value: &str| Setting::secret("app.token", value);
    assert_eq!(secret("hunter2"), secret("hunter2"));
    assert_ne!(secret("hunter2"), secret("hunter3"));
    assert_ne!(secret("x").value(), Setting::secret("app.other", "x").value());
    let shown = format!("{:?}", secret("hunter2"));
    assert!(!shown.contains("hunter2"), "{shown}");
    assert_eq!(secret("hunter2").value().len(), "#01234567".len());
}

#[test]
fn keys_values_and_lists_beyond_their_limits_are_refused_by_name() {
    let of = |key: &str, value: &str| Settings::new([Setting::new(key, value)]).map(|_| ());
    assert_eq!(
        (
            of(&"k".repeat(64), &"v".repeat(128)),
            of("a", ""),
            of("A.b_c:d-9", "ü")
        ),
        (Ok(()), Ok(()), Ok(()))
    );
    for key in ["", "a b", "a=b", "ü", "a\n", &"k".repeat(65)] {
        let error = of(key, "").unwrap_err();
        assert_eq!(error, SettingError::BadKey { key: key.into() });
        assert!(!error.to_string().contains('\n'));
    }
    assert_eq!(
        of("a", &"v".repeat(129)),
        Err(SettingError::ValueTooLong {
            key: "a".into(),
            bytes: 129
        })
    );
    let many =
        |count: usize| Settings::new((0..count).map(|n| Setting::new(format!("k{n}"), "v"))).map(|_| ());
    assert_eq!(many(SETTINGS_MAX), Ok(()));
    let (count, max) = (SETTINGS_MAX + 1, SETTINGS_MAX);
    assert_eq!(many(1_000_000), Err(SettingError::TooMany { count, max }));
    let twice = Settings::new([Setting::new("a", "1"), Setting::new("a", "1")]);
    assert_eq!(twice, Err(SettingError::Duplicate { key: "a".into() }));
    // 27 entries of 131 bytes and the count are 3,538 bytes; one more does not fit.
    let long = |count: usize| {
        let entry = |n: usize| Setting::new(format!("key-{n:04}"), "v".repeat(120));
        Settings::new((0..count).map(entry))
    };
    assert_eq!(long(27).unwrap().bytes(), 27 * 131 + 1);
    assert_eq!(
        long(28),
        Err(SettingError::TooLong {
            bytes: 28 * 131 + 1,
            max: LIST_BYTES_MAX
        })
    );
}

#[test]
fn a_checker_with_an_illegal_setting_is_not_added_at_all() {
    let mut checkers = JoinCheckers::default();
    let equal = |checkers: &mut JoinCheckers, key: &str| checkers.add_equal(Setting::new(key, "v"));
    for section in RESERVED {
        for key in [section.to_string(), format!("{section}.x")] {
            let refused = equal(&mut checkers, &key);
            assert_eq!(refused, Err(SettingError::Reserved { key, section }));
        }
    }
    assert_eq!(equal(&mut checkers, "downing-rules"), Ok(()), "another word");
    checkers.add(Arc::new(Lengths)).unwrap();
    let twice = SettingError::Duplicate { key: "app.a".into() };
    assert_eq!(checkers.add(Arc::new(Lengths)), Err(twice));
    assert_eq!(checkers.settings().count(), 3);
    for n in 3..OWN_SETTINGS_MAX {
        equal(&mut checkers, &format!("n{n}")).unwrap();
    }
    let (count, max) = (OWN_SETTINGS_MAX + 1, OWN_SETTINGS_MAX);
    let refused = equal(&mut checkers, "one.more");
    assert_eq!(refused, Err(SettingError::TooMany { count, max }));
    assert_eq!(checkers.settings().count(), OWN_SETTINGS_MAX);
}

#[test]
fn a_long_value_of_this_crate_is_cut_and_still_compared_whole() {
    let long = |last: &str| shortened("ü".repeat(100) + last);
    let (one, other) = (long("a"), long("b"));
    assert!(one.len() <= VALUE_BYTES_MAX && other.len() <= VALUE_BYTES_MAX);
    assert_ne!(one, other);
    assert!(one.starts_with("üü") && one.contains(" ... #"));
    assert_eq!(
        shortened("v".repeat(VALUE_BYTES_MAX)),
        "v".repeat(VALUE_BYTES_MAX)
    );
}

#[test]
fn the_other_side_is_shown_what_it_needs_and_no_more() {
    let own = Settings::new([
        Setting::new("must", "1"),
        Setting::new("both", "2").if_known(),
        Setting::new("mine", "3").if_known(),
    ])
    .unwrap();
    let shown = own.for_reader_of(&list(&[("both", ""), ("theirs", "")]));
    let keys: Vec<&str> = shown.iter().map(Setting::key).collect();
    assert_eq!(keys, ["both", "must"]);
}
