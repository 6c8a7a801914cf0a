//! Downing over real sockets: a strategy of the application decides, and the log tells with stable markers
//! what was decided and what cannot be meant. The tests share the process' log: each looks for what only it
//! can have caused. Spec: membership 3, `README.md`.

use crate::common;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use common::log::Log;
use common::{LIMIT, all_up, node, until, within};
use quorate_tokio::{
    Cluster, ClusterBuilder, ClusterEvent, Entity, EntityContext, Kind, Security, StartError, Termination,
};
use quorate_tokio::{
    Config, Event, HaltReason,
    config::{CustomStrategy, DowningStrategy, Setting, SettingError},
    downing::{DowningDecision, DowningView, Strategy},
    events::DowningEvent,
    membership::Role,
};

type Builder = ClusterBuilder<Security>;

static LOG: LazyLock<Log> = LazyLock::new(Log::of_the_process);

/// The side with the member that has the role `referee` stays, however small it is.
#[derive(Debug)]
struct KeepReferee(&'static str);

impl Strategy for KeepReferee {
    fn name(&self) -> &'static str {
        self.0
    }

    fn decide(&self, view: &DowningView) -> DowningDecision {
        let role = Role::new("referee").unwrap();
        let referee = view.members().iter().find(|m| m.roles.contains(&role));
        match referee {
            Some(member) if !view.is_unreachable(&member.node) => DowningDecision::DownUnreachable,
            Some(_) => DowningDecision::DownReachable,
            None => DowningDecision::DownAll,
        }
    }

    fn explain(&self, view: &DowningView) -> (DowningDecision, &'static str) {
        (self.decide(view), "the referee says who stays")
    }
}

/// The side with the member on this host stays.
#[derive(Debug)]
struct KeepHost(&'static str);

impl Strategy for KeepHost {
    fn name(&self) -> &'static str {
        "keep-host"
    }

    fn decide(&self, view: &DowningView) -> DowningDecision {
        let on_host = |host: &str| host == self.0;
        let member = view.members().iter().find(|m| on_host(m.node.address().host()));
        match member {
            Some(member) if view.is_unreachable(&member.node) => DowningDecision::DownReachable,
            Some(_) => DowningDecision::DownUnreachable,
            None => DowningDecision::DownAll,
        }
    }

    fn settings(&self) -> Vec<Setting> {
        vec![Setting::new("host", self.0)]
    }
}

struct Idle;

impl Entity for Idle {
    type Message = u64;
    type Reply = u64;

    async fn handle(&mut self, _: &EntityContext, message: u64) -> u64 {
        message
    }
}

fn downed_by(strategy: DowningStrategy) -> Builder {
    LazyLock::force(&LOG);
    node().config(move |config: &mut Config| config.downing.strategy = strategy)
}

fn refereed(name: &'static str) -> Builder {
    downed_by(DowningStrategy::Custom(CustomStrategy(Arc::new(KeepReferee(
        name,
    )))))
}

async fn first(builder: Builder) -> Cluster {
    let first = builder.start().await.unwrap();
    first.join([first.address().address()]).await.unwrap();
    within(first.up()).await.unwrap();
    first
}

/// Two members, and a third one that is the referee.
async fn three(name: &'static str) -> [Cluster; 3] {
    let first = first(refereed(name)).await;
    let seed = first.address().address().clone();
    let second = refereed(name).seeds([&seed]).start().await.unwrap();
    let referee = refereed(name)
        .role("referee")
        .seeds([&seed])
        .start()
        .await
        .unwrap();
    for node in [&first, &second, &referee] {
        all_up(node, 3).await;
    }
    [first, second, referee]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strategy_of_the_application_keeps_a_minority() {
    let [first, second, referee] = three("keep-referee").await;
    let mut events = referee.events();
    first.stop().await;
    second.stop().await;
    let decision = within(async {
        loop {
            match events.next().await {
                Some(ClusterEvent::Event(Event::Downing(DowningEvent::Decision(decision)))) => {
                    return decision;
                }
                Some(_) => {}
                None => panic!("the referee ended"),
            }
        }
    })
    .await;
    assert_eq!(
        (decision.strategy, decision.decision, decision.reason),
        (
            "keep-referee",
            DowningDecision::DownUnreachable,
            "the referee says who stays"
        )
    );
    all_up(&referee, 1).await;
    LOG.said(&[
        "WARN",
        "cluster::sbr",
        r#"event="sbr_downing""#,
        "strategy=keep-referee ",
        "reason=the referee says who stays ",
        "rule=",
        &referee.address().to_string(),
    ])
    .await;
    referee.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strategy_of_the_application_ends_a_majority() {
    let [first, second, referee] = three("keep-referee").await;
    referee.stop().await;
    for node in [first, second] {
        let ended = within(node.terminated()).await;
        assert_eq!(ended, Termination::Halted(HaltReason::Downed));
    }
}

/// What a node with the second strategy hears that joins one with the first, and its log lines and the
/// other's.
async fn refused(first_has: Builder, joiner_has: Builder, here: &str, there: &str) {
    let first = first(first_has).await;
    let joiner = joiner_has.start().await.unwrap();
    joiner.join([first.address().address()]).await.unwrap();
    let error = within(joiner.up()).await.unwrap_err();
    assert!(error.to_string().ends_with(here), "{error}");
    LOG.said(&[
        "WARN",
        r#"event="join_failed""#,
        &joiner.address().to_string(),
        here,
    ])
    .await;
    LOG.said(&[
        "WARN",
        "cluster::membership",
        r#"event="join_settings_differ""#,
        &first.address().to_string(),
        &joiner.address().to_string(),
        there,
    ])
    .await;
    first.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_a_strategy_of_another_name_is_refused_and_both_say_which() {
    refused(
        refereed("keep-referee"),
        refereed("keep-umpire"),
        r#"downing.strategy is here "keep-umpire" and there "keep-referee""#,
        r#"downing.strategy is here "keep-referee" and there "keep-umpire""#,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_strategy_has_other_settings_is_refused_and_both_say_which() {
    let host =
        |host: &'static str| downed_by(DowningStrategy::Custom(CustomStrategy(Arc::new(KeepHost(host)))));
    refused(
        host("one"),
        host("two"),
        r#"downing.strategy.host is here "two" and there "one""#,
        r#"downing.strategy.host is here "one" and there "two""#,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_setting_of_the_application_that_cannot_be_is_refused_before_anything_starts() {
    let error = async |builder: Builder| builder.start().await.unwrap_err();
    let found = error(node().check_on_join("downing.strategy", "mine")).await;
    let StartError::JoinCheck(SettingError::Reserved { section, .. }) = found else {
        panic!("{found:?}")
    };
    assert_eq!(section, "downing");
    let twice = node()
        .check_on_join("a", 1)
        .join_checker(Setting::secret("a", "x"));
    let found = error(twice).await;
    assert_eq!(found.to_string(), "checked on join: the key `a` is given twice");
    let found = error(node().check_on_join("a", "v".repeat(129))).await;
    assert!(matches!(
        found,
        StartError::JoinCheck(SettingError::ValueTooLong { bytes: 129, .. })
    ));
    let many = (0..33).fold(node(), |node, n| node.check_on_join(format!("k{n}"), n));
    let found = error(many).await;
    assert!(matches!(
        found,
        StartError::JoinCheck(SettingError::TooMany { count: 33, max: 32 })
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_warns_of_a_stable_period_that_the_detector_cannot_keep_up_with() {
    let of = |millis| {
        LazyLock::force(&LOG);
        node().config(move |config: &mut Config| {
            config.downing.stable_after = Some(Duration::from_millis(millis));
        })
    };
    let (short, long) = (of(123).start().await.unwrap(), of(60_007).start().await.unwrap());
    let marker = r#"event="sbr_stable_after_too_short""#;
    let line = LOG.line(&["WARN", "cluster::sbr", marker, "stable_after=123ms"]);
    assert!(line.contains("least="), "{line}");
    assert_eq!(LOG.find(&[marker, "60.007s"]), None);
    short.stop().await;
    long.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_and_explain_warn_of_kinds_and_singletons_that_both_sides_of_a_partition_would_run() {
    let marker = r#"event="may_run_twice""#;
    let kind = || Kind::<u64, u64>::new("ledger").shards(4);
    let careless = first(downed_by(DowningStrategy::AutoDown)).await;
    let ledger = careless.entities(kind()).start(|_| Idle).await.unwrap();
    let me = careless.address().to_string();
    let line = LOG
        .said(&["WARN", "cluster::sharding", marker, &me, "auto-down"])
        .await;
    assert!(
        line.contains("ledger") && line.contains("both sides of a partition go on"),
        "{line}"
    );
    assert_eq!(LOG.count(&[marker, &me]), 1, "once per kind");
    let explained = within(careless.explain()).await.unwrap().to_string();
    let warning = "Under auto-down both sides of a partition go on: each would run the entities of ledger.";
    assert!(explained.contains(warning), "{explained}");
    let explained = within(ledger.entity("a").explain().timeout(LIMIT)).await.unwrap();
    assert_eq!(explained.may_run_twice, Some("auto-down"));
    let kinds = within(careless.sharding_state()).await.unwrap();
    assert_eq!(kinds[0].region.may_run_twice, Some("auto-down"));
    let clerk = careless.singleton("clerk").start(|_| Idle).await.unwrap();
    let line = LOG
        .said(&["WARN", "cluster::singleton", marker, &me, "auto-down"])
        .await;
    assert!(
        line.contains("clerk") && line.contains("run an instance"),
        "{line}"
    );
    assert_eq!(
        within(clerk.state()).await.unwrap().may_run_twice,
        Some("auto-down")
    );
    let explained = within(careless.explain()).await.unwrap().to_string();
    let warning = "each would run the entities of ledger, and an instance of clerk.";
    assert!(explained.contains(warning), "{explained}");
    careless.stop().await;

    let careful = first(downed_by(DowningStrategy::KeepMajority { role: None })).await;
    careful.entities(kind()).start(|_| Idle).await.unwrap();
    let clerk = careful.singleton("clerk").start(|_| Idle).await.unwrap();
    assert_eq!(within(clerk.state()).await.unwrap().may_run_twice, None);
    let me = careful.address().to_string();
    assert_eq!(LOG.find(&[marker, &me]), None);
    let explained = within(careful.explain()).await.unwrap().to_string();
    assert!(!explained.contains("both sides"), "{explained}");
    careful.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_warns_of_a_role_that_no_member_has() {
    let role = |name| DowningStrategy::KeepMajority {
        role: Some(Role::new(name).unwrap()),
    };
    let marker = r#"event="sbr_role_without_members""#;
    let without = first(downed_by(role("nobody-has-it"))).await;
    let with = first(downed_by(role("somebody-has-it")).role("somebody-has-it")).await;
    LOG.said(&["WARN", "cluster::sbr", marker, "role=nobody-has-it"])
        .await;
    assert_eq!(LOG.find(&[marker, "somebody-has-it"]), None);
    without.stop().await;
    with.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_warns_of_more_members_than_a_quorum_decides_about() {
    let quorum = || DowningStrategy::StaticQuorum {
        quorum: 1,
        role: None,
    };
    let marker = r#"event="sbr_too_many_members""#;
    let first = first(downed_by(quorum())).await;
    let me = first.address().to_string();
    assert_eq!(LOG.find(&[marker, &me]), None);
    let second = downed_by(quorum())
        .seeds([first.address().address()])
        .start()
        .await
        .unwrap();
    until(&first, |view| view.members().len() == 2).await;
    all_up(&first, 2).await;
    let text = "2 members are more than 1, the most that the downing strategy can decide about";
    LOG.line(&["WARN", "cluster::sbr", marker, &me, text]);
    second.stop().await;
    first.stop().await;
}
