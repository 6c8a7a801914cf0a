//! Spec: membership M-456 to M-460.

use crate::membership::state::app_version::{AppVersion, AppVersionError};
use alloc::string::ToString;

fn v(text: &str) -> AppVersion {
    text.parse().unwrap()
}

fn refused(text: &str) -> AppVersionError {
    AppVersion::new(text).unwrap_err()
}

#[test]
fn m_456_three_numbers_compare_as_numbers() {
    assert_eq!(v("1.2.3"), v("1.2.3"));
    assert!(v("1.2.4") > v("1.2.3") && v("3.2.1") < v("3.3.1") && v("1.10.0") > v("1.9.0"));
    assert_eq!(refused("1.2.3.4"), AppVersionError::TooManyParts);
}

#[test]
fn m_457_missing_parts_count_as_zero() {
    assert_eq!(v("1.2"), v("1.2.0"));
    assert!(v("1.2.1") > v("1.2"));
    assert_eq!(v("1"), v("1.0"));
    assert_eq!(v("1.0"), v("1.0.0"));
    assert_eq!(
        (v("1.0").as_str(), AppVersion::default().to_string()),
        ("1.0", "0.0.0".to_string())
    );
    assert_eq!(AppVersion::default(), v("0.0.0"));
}

#[test]
fn m_458_a_pre_release_is_earlier_than_its_release() {
    assert!(v("1.2.0-M1") < v("1.2.0") && v("1.2.3-M2") > v("1.2.3-M1"));
    assert_eq!(v("1.2-M1"), v("1.2.0-M1"));
}

#[test]
fn m_459_commits_since_a_tag_compare_as_numbers() {
    assert!(v("1.0.10+3-x") < v("1.0.10+10-x") && v("1.0.10+3-x") < v("1.0.11"));
    assert!(v("0.0.0+3-2234abcd") < v("0.0.0+4-1234abcd"));
}

#[test]
fn m_460_words_are_versions_and_mixtures_are_errors() {
    assert!(v("foo") < v("1.2.3") && v("foo") > v("bar"));
    assert_ne!(v("1-foo"), v("01-foo"));
    assert_eq!(refused("1.x.3"), AppVersionError::NotANumber { part: 1 });
    assert_eq!(refused("x.1"), AppVersionError::NotANumber { part: 0 });
    assert_eq!(refused("1..3"), AppVersionError::NotANumber { part: 1 });
    assert_eq!(refused("1.2147483648"), AppVersionError::NotANumber { part: 1 });
}

#[test]
fn hostile_texts_are_refused_with_the_reason() {
    assert_eq!(refused(""), AppVersionError::Empty);
    assert_eq!(refused(&"1".repeat(65)), AppVersionError::TooLong { len: 65 });
    assert_eq!(refused("1.0\u{1b}[2J"), AppVersionError::BadCharacter { at: 3 });
    assert_eq!(refused("1.0.\u{661}"), AppVersionError::BadCharacter { at: 4 });
    assert!(AppVersion::new(&"9".repeat(64)).is_ok(), "a long word is a word");
}
