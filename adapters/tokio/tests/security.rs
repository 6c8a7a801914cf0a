//! What a node says of its links' security, and what it must never say: reasons in the log at warn level,
//! audit lines with a stable marker, no secret at any level. One test: it owns the process' log. Spec:
//! reliability 3a.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::log::Log;
use common::{all_up, node_of, within};
use quorate_tokio::{
    Cluster, ClusterEvent, Security,
    security::{Credentials, DevCa, Mtls, Psk},
};
use quorate_tokio::{Event, events::MembershipEvent, membership::JoinFailure};

const NAME: &str = "tests.cluster.internal";
const KEY: &str = "the-key-that-nobody-may-ever-read";
const OTHER: &str = "the-other-key-nobody-may-ever-read";

fn secured(security: Security) -> quorate_tokio::ClusterBuilder<Security> {
    node_of("secrets").security(security)
}

/// Tries to join and is refused, then stops.
async fn refused(seed: &Cluster, security: Security) {
    let stranger = secured(security)
        .seeds([seed.address().address()])
        .start()
        .await
        .unwrap();
    within(async {
        while stranger.stats().await.unwrap().links.dials_refused < 2 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    })
    .await;
    stranger.stop().await;
}

async fn joined(seed: &Cluster, security: Security) -> Cluster {
    let node = secured(security)
        .seeds([seed.address().address()])
        .start()
        .await
        .unwrap();
    within(node.up()).await.unwrap();
    node
}

async fn first(security: Security) -> Cluster {
    let first = secured(security).start().await.unwrap();
    first.join([first.address().address()]).await.unwrap();
    within(first.up()).await.unwrap();
    first
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reasons_and_requests_are_in_the_log_and_secrets_are_not() {
    let log = Log::of_the_process();

    let psk = |keys: &[&str]| Security::psk(Psk::with_keys(keys).unwrap());
    let member = first(psk(&[KEY, OTHER])).await;
    let other = joined(&member, psk(&[OTHER, KEY])).await;
    all_up(&member, 2).await;
    refused(&member, psk(&["a-key-that-somebody-has-guessed!"])).await;
    log.line(&["WARN", "handshake_refused", "none of this node's keys"]);
    log.line(&["WARN", "link_refused", "it does not have this node's key"]);
    refused(&member, Security::insecure_plaintext()).await;
    log.line(&[
        "WARN",
        "handshake_refused",
        "it speaks plaintext, and this node asks for a pre-shared key",
    ]);
    log.line(&[
        "WARN",
        "link_refused",
        "it asks for a pre-shared key, and this node speaks plaintext",
    ]);
    other.leave().await.unwrap();
    log.line(&[
        "INFO",
        "cluster::audit",
        r#"event="audit""#,
        r#"what="leave""#,
        "this program",
    ]);
    member.leave().await.unwrap();

    let (ours, theirs) = (DevCa::new(NAME).unwrap(), DevCa::new(NAME).unwrap());
    let mut keys = Vec::new();
    let mut issue = |ca: &DevCa| {
        let [chain, key, roots] = ca.issue_pem().unwrap();
        let credentials = Credentials::from_pem(chain.as_bytes(), key.as_bytes(), roots.as_bytes());
        keys.push(key);
        Security::mtls(Mtls::new(NAME, credentials.unwrap()).unwrap())
    };
    let member = first(issue(&ours)).await;
    let other = joined(&member, issue(&ours)).await;
    refused(&member, issue(&theirs)).await;
    log.line(&["WARN", "link_refused", "invalid peer certificate"]);
    log.line(&["WARN", "handshake_refused", "received fatal alert"]);
    log.line(&["INFO", "cluster::audit", r#"what="join""#, "allowed=true"]);
    // Its plaintext comes to a port that asks for TLS: both name the mistake.
    refused(&member, Security::insecure_plaintext()).await;
    log.line(&[
        "WARN",
        "link_refused",
        "it asks for TLS, and this node speaks plaintext",
    ]);
    log.line(&[
        "WARN",
        "handshake_refused",
        "it speaks plaintext, and this node asks for TLS",
    ]);
    other.leave().await.unwrap();
    member.leave().await.unwrap();
    let member = first(Security::insecure_plaintext()).await;
    refused(&member, issue(&ours)).await;
    log.line(&[
        "WARN",
        "link_refused",
        "it speaks plaintext, and this node asks for TLS",
    ]);
    log.line(&["WARN", "handshake_refused", "(a TLS client)"]);
    member.leave().await.unwrap();

    let text = log.text();
    assert!(
        text.contains("TRACE") || text.contains("DEBUG"),
        "every level is written"
    );
    for key in [KEY, OTHER] {
        assert!(
            !text.contains(key) && !text.contains(&format!("{:?}", key.as_bytes())),
            "a key in the log"
        );
    }
    for pem in keys {
        let lines = pem.lines().filter(|line| !line.starts_with("-----"));
        for line in lines {
            assert!(!text.contains(line), "a part of a private key in the log");
        }
    }
    a_joiner_that_is_not_admitted_hears_so(&log).await;
}

/// Only gateways may join; the joiner hears the reason, the log has it.
async fn a_joiner_that_is_not_admitted_hears_so(log: &Log) {
    let member = secured(Security::insecure_plaintext())
        .join_policy(|joiner| {
            let gateway = joiner
                .roles
                .as_slice()
                .iter()
                .any(|role| role.as_str() == "gateway");
            gateway
                .then_some(())
                .ok_or_else(|| "only gateways join here".to_owned())
        })
        .start()
        .await
        .unwrap();
    member.join([member.address().address()]).await.unwrap();
    within(member.up()).await.unwrap();
    let stranger = secured(Security::insecure_plaintext()).start().await.unwrap();
    let mut events = stranger.events();
    stranger.join([member.address().address()]).await.unwrap();
    within(async {
        loop {
            if let Some(ClusterEvent::Event(Event::Membership(MembershipEvent::JoinFailed {
                reason: JoinFailure::Refused { reason },
            }))) = events.next().await
            {
                break assert_eq!(reason.to_string(), "the join policy does not admit this node");
            }
        }
    })
    .await;
    log.line(&[
        "WARN",
        "cluster::audit",
        r#"what="join""#,
        "allowed=false",
        "only gateways join here",
    ]);
    assert!(
        member
            .stats()
            .await
            .unwrap()
            .core
            .membership
            .requests_refused_by_policy
            > 0
    );
    assert_eq!(member.members().len(), 1);
    let gateway = secured(Security::insecure_plaintext())
        .role("gateway")
        .seeds([member.address().address()])
        .start()
        .await
        .unwrap();
    within(gateway.up()).await.unwrap();
}
