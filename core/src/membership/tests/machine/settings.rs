//! Settings that all members have to agree on: who hears of a difference, what is said, and what comes of it.
//! Two rigs speak with each other. Spec: membership §2.2, §6 I.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;

use super::{Rig, n, secs, state};
use crate::agreement::{JoinChecker, STRATEGY, Setting, Settings};
use crate::config::{Config, CustomStrategy, DowningStrategy, LeaseMajorityConfig};
use crate::ddata::crdt::{CustomChange, CustomError, CustomType, Minting};
use crate::ddata::state::key::Pattern;
use crate::downing::state::decision::DowningDecision;
use crate::downing::state::strategy::Strategy;
use crate::downing::state::view::{DowningView, IndirectRule};
use crate::effect::{Effect, HaltReason};
use crate::event::{Event, JoinFailure, MembershipEvent};
use crate::ident::Role;
use crate::message::{InitJoin, InitJoinAck, MembershipMsg, Message};
use crate::reject::{MembershipRejection, Rejection};
use crate::wire::{decode_message, encode_message};

type Change = fn(&mut Config);

fn no_change(_: &mut Config) {}

/// A member with these settings, alone.
fn member(change: impl FnOnce(&mut Config)) -> Rig {
    Rig::configured("a", change).with_state(state("a", "a", "a"))
}

fn question(rig: &Rig) -> InitJoin {
    InitJoin {
        settings: rig.f.config.shared_settings().clone(),
    }
}

/// The member's answer to a question, by way of the wire.
fn asked(member: &mut Rig, joiner: &str, ask: &InitJoin) -> InitJoinAck {
    let ask = match through_wire(Message::Membership(MembershipMsg::InitJoin(ask.clone()))) {
        Message::Membership(MembershipMsg::InitJoin(ask)) => ask,
        other => panic!("{other:?}"),
    };
    member.call(|m, cx| m.on_init_join(cx, &n(joiner), &ask));
    let sent = member.f.outbox.effects.back().cloned();
    let Some(Effect::Send { message, .. }) = sent else {
        panic!("no answer: {sent:?}")
    };
    match through_wire(message) {
        Message::Membership(MembershipMsg::InitJoinAck(ack)) => ack,
        other => panic!("{other:?}"),
    }
}

fn through_wire(message: Message) -> Message {
    let limits = crate::config::Limits::default();
    let mut bytes = Vec::new();
    encode_message(&message, 0, &limits, &mut bytes).unwrap();
    assert!(bytes.len() <= 4096, "what is read of a stranger: {}", bytes.len());
    decode_message(message.tag().kind, message.tag().lane, &bytes[20..], &limits).unwrap()
}

/// What users hear of differences: `key here|there`, of a rejection or of a failed join.
fn heard(rig: &mut Rig) -> String {
    let mut out = String::new();
    for effect in rig.f.effects() {
        let differences = match effect {
            Effect::Notify(Event::Rejected {
                rejection: Rejection::Membership(MembershipRejection::SettingsDiffer(all)),
                ..
            }) => all,
            Effect::Notify(Event::Membership(MembershipEvent::JoinFailed {
                reason: JoinFailure::IncompatibleConfig { differences, .. },
            })) => differences,
            _ => continue,
        };
        for found in differences.iter() {
            let side = |value: &Option<String>| value.clone().unwrap_or("-".to_string());
            let between = if out.is_empty() { "" } else { ", " };
            let (key, own, other) = (&found.key, side(&found.own), side(&found.other));
            write!(out, "{between}{key} {own}|{other}").unwrap();
        }
    }
    out
}

/// `d`, made with the second change, asks `a`, made with the first: what each of the two hears, and whether
/// `d` goes on.
fn meet(of_member: impl FnOnce(&mut Config), of_joiner: impl FnOnce(&mut Config)) -> (String, String, bool) {
    let mut member = member(of_member);
    let mut joiner = Rig::configured("d", of_joiner);
    joiner.seeds("a");
    joiner.did();
    let ack = asked(&mut member, "d", &question(&joiner));
    joiner.call(|m, cx| m.on_init_join_ack(cx, &n("a"), &ack));
    let halted = joiner.halted();
    assert!(halted.is_none_or(|reason| reason == HaltReason::IncompatibleConfig));
    (heard(&mut member), heard(&mut joiner), halted.is_none())
}

fn role(name: &str) -> Option<Role> {
    Some(Role::new(name).unwrap())
}

fn oldest(config: &mut Config, down_if_alone: bool) {
    let role = None;
    config.downing.strategy = DowningStrategy::KeepOldest { down_if_alone, role };
}

fn quorum(config: &mut Config, quorum: usize) {
    let role = None;
    config.downing.strategy = DowningStrategy::StaticQuorum { quorum, role };
}

fn lease(config: &mut Config, change: impl FnOnce(&mut LeaseMajorityConfig)) {
    let mut lease = LeaseMajorityConfig::default();
    change(&mut lease);
    config.downing.strategy = DowningStrategy::LeaseMajority(lease);
}

/// A strategy of the application.
#[derive(Debug)]
struct KeepReferee(Vec<Setting>);

impl Strategy for KeepReferee {
    fn name(&self) -> &'static str {
        "keep-referee"
    }

    fn decide(&self, _: &DowningView) -> DowningDecision {
        DowningDecision::DownNobody
    }

    fn settings(&self) -> Vec<Setting> {
        self.0.clone()
    }
}

fn referee(config: &mut Config, settings: impl IntoIterator<Item = Setting>) {
    let strategy = KeepReferee(settings.into_iter().collect());
    config.downing.strategy = DowningStrategy::Custom(CustomStrategy(Arc::new(strategy)));
}

/// A type of the application.
#[derive(Debug)]
struct Highest;

impl CustomType for Highest {
    fn name(&self) -> &str {
        "highest"
    }

    fn initial(&self) -> Vec<u8> {
        Vec::new()
    }

    fn check(&self, _: &[u8]) -> Result<(), CustomError> {
        Ok(())
    }

    fn apply(&self, state: &[u8], _: &[u8], _: &mut Minting) -> Result<CustomChange, CustomError> {
        let (state, delta) = (state.to_vec(), None);
        Ok(CustomChange { state, delta })
    }

    fn merge(&self, left: &[u8], right: &[u8]) -> Result<Vec<u8>, CustomError> {
        Ok(left.max(right).to_vec())
    }
}

/// Every setting of this crate that must agree, changed alone: the member's settings, the joiner's, the key
/// and both values. `docs/configuration.md` has a row for each.
pub(crate) const TABLE: &[(&str, Change, Change, &str, &str)] = &[
    (
        "downing.strategy",
        no_change,
        |config| config.downing.strategy = DowningStrategy::DownAll,
        "keep-majority",
        "down-all",
    ),
    (
        "downing.strategy.role",
        no_change,
        |config| config.downing.strategy = DowningStrategy::KeepMajority { role: role("core") },
        "",
        "core",
    ),
    (
        "downing.strategy.quorum",
        |config| quorum(config, 2),
        |config| quorum(config, 3),
        "2",
        "3",
    ),
    (
        "downing.strategy.down_if_alone",
        |config| oldest(config, true),
        |config| oldest(config, false),
        "true",
        "false",
    ),
    (
        "downing.strategy.lease_name",
        |config| lease(config, |lease| lease.lease_name = Some("east".into())),
        |config| lease(config, |lease| lease.lease_name = Some("west".into())),
        "east",
        "west",
    ),
    (
        "downing.strategy.release_after",
        |config| lease(config, |_| {}),
        |config| lease(config, |lease| lease.release_after = secs(90)),
        "40s",
        "90s",
    ),
    (
        "downing.rule",
        no_change,
        |config| config.downing.rule = IndirectRule::Classic,
        "fewest",
        "classic",
    ),
    (
        "downing.down_all_when_indirectly_connected",
        no_change,
        |config| config.downing.down_all_when_indirectly_connected = Some(0.5),
        "none",
        "0.5",
    ),
    (
        "ddata.role",
        no_change,
        |config| config.ddata.role = role("replica"),
        "",
        "replica",
    ),
    (
        "ddata.durable_keys",
        |config| {
            config.ddata.durable_keys =
                alloc::vec![Pattern::parse("b").unwrap(), Pattern::parse("a-*").unwrap()]
        },
        |config| config.ddata.durable_keys = alloc::vec![Pattern::parse("b").unwrap()],
        "a-*, b",
        "b",
    ),
    (
        "ddata.custom_types",
        no_change,
        |config| {
            config.ddata.custom_types.register(Arc::new(Highest)).unwrap();
        },
        "",
        "highest",
    ),
    (
        "journal.voters",
        |config| config.journal.voters = 3,
        |config| config.journal.voters = 5,
        "3",
        "5",
    ),
];

#[test]
fn every_setting_that_must_agree_is_named_with_both_values_on_both_sides_when_it_alone_differs() {
    for (key, of_member, of_joiner, theirs, mine) in TABLE {
        let (member, joiner, goes_on) = meet(of_member, of_joiner);
        assert_eq!(
            member,
            alloc::format!("{key} {theirs}|{mine}"),
            "{key}, at the member"
        );
        assert_eq!(
            joiner,
            alloc::format!("{key} {mine}|{theirs}"),
            "{key}, at the joiner"
        );
        assert!(!goes_on, "{key}");
        let same = meet(of_joiner, of_joiner);
        assert_eq!(
            same,
            (String::new(), String::new(), true),
            "{key}, the same on both"
        );
    }
}

#[test]
fn the_table_has_every_setting_that_a_node_compares() {
    let mut keys: Vec<String> = Vec::new();
    for (_, of_member, of_joiner, ..) in TABLE {
        for change in [of_member, of_joiner] {
            let rig = Rig::configured("a", change);
            keys.extend(rig.f.config.shared_settings().iter().map(|s| s.key().to_string()));
        }
    }
    keys.sort();
    keys.dedup();
    let mut listed: Vec<&str> = TABLE.iter().map(|(key, ..)| *key).collect();
    listed.sort_unstable();
    assert_eq!(keys, listed);
}

#[test]
fn what_one_node_alone_may_set_differently_keeps_nobody_out() {
    let met = meet(no_change, |config| {
        config.downing.stable_after = Some(secs(60));
        config.downing.down_removal_margin = Some(secs(60));
        config.membership.gossip_interval = secs(2);
        config.failure_detector.threshold = 12.0;
        config.roles = alloc::vec![Role::new("other").unwrap()];
        config.limits.members_max = 7;
    });
    assert_eq!(met, (String::new(), String::new(), true));
}

fn currency(config: &mut Config, value: &str) {
    let setting = Setting::new("billing.currency", value);
    config.membership.join_checkers.add_equal(setting).unwrap();
}

#[test]
fn m_187_and_m_188_the_applications_own_settings_are_compared_too() {
    let eur = |config: &mut Config| currency(config, "EUR");
    assert_eq!(meet(eur, eur), (String::new(), String::new(), true));
    let met = meet(eur, |config| currency(config, "USD"));
    let (member, joiner) = ("billing.currency EUR|USD", "billing.currency USD|EUR");
    assert_eq!(met, (member.into(), joiner.into(), false));
}

#[test]
fn m_189_a_key_that_only_the_joiner_has_is_named_as_missing_on_both_sides() {
    let met = meet(no_change, |config| currency(config, "EUR"));
    let (member, joiner) = ("billing.currency -|EUR", "billing.currency EUR|-");
    assert_eq!(met, (member.into(), joiner.into(), false));
}

#[test]
fn m_190_a_key_that_only_the_cluster_has_is_named_as_missing_on_both_sides() {
    let met = meet(|config| currency(config, "EUR"), no_change);
    let (member, joiner) = ("billing.currency EUR|-", "billing.currency -|EUR");
    assert_eq!(met, (member.into(), joiner.into(), false));
}

#[test]
fn a_key_that_is_introduced_node_by_node_is_ignored_where_it_is_missing() {
    let with = |value: &'static str| {
        move |config: &mut Config| {
            let setting = Setting::new("billing.currency", value).if_known();
            config.membership.join_checkers.add_equal(setting).unwrap();
        }
    };
    let none = (String::new(), String::new(), true);
    assert_eq!(meet(no_change, with("EUR")), none);
    assert_eq!(meet(with("EUR"), no_change), none);
    assert!(!meet(with("EUR"), with("USD")).2);
}

/// Content with any value that is not below its own.
#[derive(Debug)]
struct AtLeast(u32);

impl JoinChecker for AtLeast {
    fn settings(&self) -> Vec<Setting> {
        alloc::vec![Setting::new("orders.schema", self.0)]
    }

    fn agrees(&self, _: &str, own: &str, other: &str) -> bool {
        let number = |text: &str| text.parse::<u32>().unwrap_or(0);
        number(own) <= number(other)
    }
}

fn schema(config: &mut Config, checker: Arc<dyn JoinChecker>) {
    config.membership.join_checkers.add(checker).unwrap();
}

#[test]
fn both_sides_ask_their_own_checker_and_both_name_what_either_found() {
    let at_least = |number| move |config: &mut Config| schema(config, Arc::new(AtLeast(number)));
    // The member is content, the joiner is not: only the joiner can say so, and it stops.
    let (member, joiner, goes_on) = meet(at_least(1), at_least(2));
    assert_eq!((member.as_str(), goes_on), ("", false));
    assert_eq!(joiner, "orders.schema 2|1");
    // The joiner is content, the member is not: both name it.
    let met = meet(at_least(2), at_least(1));
    let (member, joiner) = ("orders.schema 2|1", "orders.schema 1|2");
    assert_eq!(met, (member.into(), joiner.into(), false));
}

#[test]
fn a_strategy_of_the_application_is_compared_with_its_settings() {
    let with = |settings: &'static [(&'static str, &'static str)]| {
        move |config: &mut Config| {
            referee(
                config,
                settings.iter().map(|(key, value)| Setting::new(*key, value)),
            )
        }
    };
    let met = meet(with(&[("host", "one")]), with(&[("host", "two")]));
    let (member, joiner) = ("downing.strategy.host one|two", "downing.strategy.host two|one");
    assert_eq!(met, (member.into(), joiner.into(), false));
    let met = meet(with(&[("host", "one")]), with(&[]));
    let (member, joiner) = ("downing.strategy.host one|-", "downing.strategy.host -|one");
    assert_eq!(met, (member.into(), joiner.into(), false));
    // Of another strategy the name says enough.
    let met = meet(no_change, with(&[("host", "one")]));
    let (member, joiner) = (
        "downing.strategy keep-majority|keep-referee",
        "downing.strategy keep-referee|keep-majority",
    );
    assert_eq!(met, (member.into(), joiner.into(), false));
}

#[test]
fn m_195_a_secret_is_never_said_and_still_compared() {
    let with = |value: &'static str| {
        move |config: &mut Config| {
            let setting = Setting::secret("billing.token", value);
            config.membership.join_checkers.add_equal(setting).unwrap();
        }
    };
    let (member, joiner, goes_on) = meet(with("hunter2"), with("hunter3"));
    assert!(!goes_on && member.starts_with("billing.token #") && joiner.starts_with("billing.token #"));
    assert!(
        !member.contains("hunter") && !joiner.contains("hunter"),
        "{member} {joiner}"
    );
    assert!(meet(with("hunter2"), with("hunter2")).2);
}

#[test]
fn m_191_and_m_192_where_they_are_not_enforced_the_joiner_says_what_differs_and_joins() {
    let met = meet(no_change, |config| {
        config.membership.enforce_config_on_join = false;
        currency(config, "EUR");
    });
    let (member, joiner) = ("billing.currency -|EUR", "billing.currency EUR|-");
    assert_eq!(met, (member.into(), joiner.into(), true));
}

#[test]
fn a_joiner_that_a_seed_refused_hears_the_others_for_a_second_and_then_says_what_each_had_against_it() {
    let mut joiner = Rig::configured("d", |config| currency(config, "EUR"));
    joiner.seeds("a b c e");
    joiner.did();
    let ask = question(&joiner);
    let refused = asked(&mut member(no_change), "d", &ask);
    joiner.call(|m, cx| m.on_init_join_ack(cx, &n("a"), &refused));
    assert_eq!(
        joiner.did(),
        r#"failed(the settings of a:7355 differ from this node's: billing.currency is here "EUR" and there missing)"#
    );
    // It never joins one that would have it beside one that would not.
    joiner.ack("b");
    joiner.nack("c");
    assert_eq!((joiner.did(), joiner.halted()), (String::new(), None));
    joiner.run(secs(1));
    assert_eq!(
        joiner.did(),
        r#"failed(no seed admitted this node in attempt 1: a:7355 (its settings differ: billing.currency is here "EUR" and there missing), b:7355 (would have admitted this node), c:7355 (not in a cluster yet), e:7355 (no answer))"#
    );
    assert_eq!(joiner.halted(), Some(HaltReason::IncompatibleConfig));
    assert_eq!(joiner.deadlines(), []);
}

#[test]
fn the_differences_with_each_seed_are_listed_as_soon_as_the_last_has_answered() {
    let mut joiner = Rig::configured("d", |config| currency(config, "EUR"));
    joiner.seeds("a b");
    joiner.did();
    let ask = question(&joiner);
    let first = asked(&mut member(no_change), "d", &ask);
    let second = asked(&mut member(|config| currency(config, "USD")), "d", &ask);
    joiner.call(|m, cx| m.on_init_join_ack(cx, &n("a"), &first));
    joiner.did();
    joiner.call(|m, cx| m.on_init_join_ack(cx, &n("b"), &second));
    let said = joiner.did();
    assert!(
        said.contains(r#"a:7355 (its settings differ: billing.currency is here "EUR" and there missing)"#),
        "{said}"
    );
    assert!(
        said.contains(r#"b:7355 (its settings differ: billing.currency is here "EUR" and there "USD")"#),
        "{said}"
    );
    assert_eq!(joiner.halted(), Some(HaltReason::IncompatibleConfig));
}

#[test]
fn the_first_seed_forms_no_cluster_beside_one_that_refused_it() {
    for last in [Rig::nack, |rig: &mut Rig, _: &str| rig.run(secs(600))] {
        let mut first = Rig::configured("a", |config| currency(config, "EUR"));
        first.seeds("a b c");
        let refused = asked(&mut member(no_change), "a#2", &question(&first));
        first.call(|m, cx| m.on_init_join_ack(cx, &n("b"), &refused));
        last(&mut first, "c");
        assert_eq!(first.halted(), Some(HaltReason::IncompatibleConfig));
        assert_eq!(first.members(), "");
    }
}

#[test]
fn a_joiner_without_settings_is_refused_and_told_which_it_must_have() {
    let mut member = member(|config| currency(config, "EUR"));
    let settings = Settings::default();
    let ack = asked(&mut member, "d", &InitJoin { settings });
    let named: Vec<&str> = ack.settings.iter().map(Setting::key).collect();
    assert_eq!(
        (ack.compatible, &named[..]),
        (false, &["billing.currency", STRATEGY][..])
    );
    let differences = heard(&mut member);
    assert_eq!(differences.matches('|').count(), 2, "{differences}");
    // With those it is taken in.
    let settings = ack.settings;
    assert!(asked(&mut member, "d", &InitJoin { settings }).compatible);
}

#[test]
fn users_hear_of_a_joiner_once_a_minute_and_every_question_is_counted() {
    let mut member = member(no_change);
    let other = question(&Rig::configured("d", |config| currency(config, "EUR")));
    let told = |member: &mut Rig, joiner: &str| {
        asked(member, joiner, &other);
        !heard(member).is_empty()
    };
    assert!(told(&mut member, "d"));
    for _ in 0..100 {
        assert!(!told(&mut member, "d"));
    }
    assert!(
        told(&mut member, "d#2") && told(&mut member, "e"),
        "others are others"
    );
    member.f.stand_still(secs(59));
    assert!(!told(&mut member, "d"));
    member.f.stand_still(secs(1));
    assert!(told(&mut member, "d"));
    assert_eq!(member.f.stats.membership.joiners_with_other_settings, 105);
    assert_eq!(member.f.stats.node.rejected, 4);
    // Who comes under ever new names is told of again, and takes no memory.
    for uid in 10..1_000 {
        assert!(told(&mut member, &alloc::format!("d#{uid}")));
    }
    assert!(told(&mut member, "d"), "forgotten by then");
}

#[test]
fn settings_that_are_not_legal_are_refused_when_the_configuration_is_checked() {
    let refused = |change: &dyn Fn(&mut Config)| {
        let mut config = Config::lan(crate::ident::ClusterName::new("test").unwrap());
        change(&mut config);
        let error = config.validate().unwrap_err();
        (error.key, error.value)
    };
    let (key, value) = refused(&|config| referee(config, [Setting::new("a b", "")]));
    assert_eq!(key, "downing.strategy");
    assert!(value.contains("`downing.strategy.a b`"), "{value}");
    let (key, value) = refused(&|config| referee(config, [Setting::new("a", ""), Setting::new("a", "")]));
    assert_eq!(
        (key, value.as_str()),
        ("downing.strategy", "the key `downing.strategy.a` is given twice")
    );
    let (key, value) = refused(&|config| {
        referee(config, (0..32).map(|n| Setting::new(alloc::format!("k{n}"), "")));
        currency(config, "EUR");
    });
    assert_eq!(
        (key, value.as_str()),
        ("membership.join_checkers", "33 settings, at most 32 are allowed")
    );
    let many = |config: &mut Config| {
        for number in 0..30 {
            let setting = Setting::new(alloc::format!("long.{number}"), "v".repeat(120));
            config.membership.join_checkers.add_equal(setting).unwrap();
        }
    };
    let (key, value) = refused(&many);
    assert!(
        key == "membership.join_checkers" && value.contains("bytes, at most 3584"),
        "{value}"
    );
    let (key, value) = refused(&|config| {
        config.limits.control_frame_bytes_max = 1 << 10;
        (0..8).for_each(|n| {
            let setting = Setting::new(alloc::format!("long.{n}"), "v".repeat(120));
            config.membership.join_checkers.add_equal(setting).unwrap();
        });
    });
    assert!(
        key == "limits.control_frame_bytes_max" && value.contains("at most 1024"),
        "{value}"
    );
}

#[test]
fn an_answer_of_nobody_who_was_asked_changes_nothing() {
    let mut joiner = Rig::idle("d");
    joiner.seeds("a");
    joiner.did();
    let refused = asked(
        &mut member(|config| currency(config, "EUR")),
        "d",
        &question(&joiner),
    );
    joiner.call(|m, cx| m.on_init_join_ack(cx, &n("x"), &refused));
    assert_eq!(joiner.did(), "rejected(x: unexpected InitJoinAck)");
    assert_eq!(joiner.halted(), None);
}
