//! Downing settings that cannot be meant are refused or told apart, each with its reason.

use super::*;
use crate::config::Config;
use crate::ident::ClusterName;

#[test]
fn a_strategy_is_found_by_the_name_it_has() {
    for name in [
        "off",
        "keep-majority",
        "keep-oldest",
        "down-all",
        "lease-majority",
        "auto-down",
    ] {
        let strategy: DowningStrategy = name.parse().unwrap();
        assert_eq!(strategy.name(), name);
    }
    let quorum = DowningStrategy::StaticQuorum {
        quorum: 3,
        role: None,
    };
    assert_eq!("static-quorum:3".parse(), Ok(quorum));
}

#[test]
fn an_unknown_strategy_and_a_quorum_of_none_are_refused_with_what_would_be_legal() {
    for (text, legal) in [
        ("keep-referee", "keep-majority"),
        ("Keep-Majority", "keep-majority"),
        ("keep-majority:3", "keep-majority"),
        ("", "keep-majority"),
        ("static-quorum", "at least 1"),
        ("static-quorum:0", "at least 1"),
        ("static-quorum:x", "at least 1"),
    ] {
        let error = text.parse::<DowningStrategy>().unwrap_err();
        assert_eq!((error.key, &*error.value), ("downing.strategy", text));
        assert!(error.legal.contains(legal), "{error}");
    }
    let mut config = Config::lan(ClusterName::new("test").unwrap());
    config.downing.strategy = DowningStrategy::StaticQuorum {
        quorum: 0,
        role: None,
    };
    let error = config.validate().unwrap_err();
    assert_eq!(error.key, "downing.strategy.quorum");
}

#[test]
fn a_wait_shorter_than_the_detector_needs_is_told() {
    let name = || ClusterName::new("test").unwrap();
    let check = |config: Config| config.validate().unwrap().stable_after_too_short_for_detector();
    assert_eq!(check(Config::lan(name())), None);
    assert_eq!(check(Config::fast(name())), None);
    let mut config = Config::lan(name());
    config.downing.stable_after = Some(Duration::from_millis(4_999));
    assert_eq!(check(config.clone()), Some(Duration::from_secs(5)));
    config.downing.strategy = DowningStrategy::Off;
    assert_eq!(check(config), None);
}
