//! Nodes with certificates that must not let them in, over real links, as dialers and as those who are
//! dialed: refused, counted as that, and the cluster goes on. Which words say why is tested in `tls`. Spec:
//! reliability 3a.

use std::time::Duration;

use quorate_driver::spi::Adapter;
use quorate_driver::{
    Cluster, ClusterBuilder, Security,
    security::{Credentials, DevCa, Mtls},
    stats::LinkState,
};
use rcgen::{CertificateParams, date_time_ymd};

use super::strangers::{goes_on, links};
use super::support::{all_up, eventually, first, joined_as, node, suspected, until};

const NAME: &str = "tests.cluster.internal";

/// Who must not get in, and whether a good node that dials him has to notice too.
struct BadCertificate {
    what: &'static str,
    mtls: Mtls,
    /// Where he says he is, if that is the point.
    at: &'static str,
    is_refused_as_acceptor: bool,
}

fn strangers(ours: &DevCa) -> Vec<BadCertificate> {
    let theirs = DevCa::new(NAME).expect("another authority");
    let trusting = |mut credentials: Credentials| {
        credentials.trust(ours.root());
        Mtls::new(NAME, credentials).expect("they can be used")
    };
    let changed =
        |change: &dyn Fn(&mut CertificateParams)| trusting(ours.issue_changed(change).expect("it is signed"));
    let nameless = ours.mtls().expect("a certificate");
    nameless.dial_without_certificate(ours.root());
    let elsewhere = ours.issue_at(["127.0.0.1"]).expect("it is signed");
    let stranger = |what, mtls| BadCertificate {
        what,
        mtls,
        at: "127.0.0.1:0",
        is_refused_as_acceptor: true,
    };
    vec![
        stranger(
            "another authority",
            trusting(theirs.issue().expect("it is signed")),
        ),
        stranger(
            "an expired certificate",
            changed(&|params| {
                params.not_before = date_time_ymd(2001, 1, 1);
                params.not_after = date_time_ymd(2001, 2, 1);
            }),
        ),
        stranger(
            "a certificate that is not valid yet",
            changed(&|params| params.not_before = date_time_ymd(3000, 1, 1)),
        ),
        stranger(
            "the peer is in another cluster",
            trusting(ours.issue_for("billing.internal").expect("it is signed")),
        ),
        BadCertificate {
            is_refused_as_acceptor: false,
            ..stranger("no certificate", nameless)
        },
        BadCertificate {
            at: "localhost:0",
            ..stranger("the certificate of another address", trusting(elsewhere))
        },
    ]
}

fn at<A: Adapter>(stranger: &BadCertificate) -> ClusterBuilder<Security> {
    node::<A>(&Security::mtls(stranger.mtls.clone())).bind(stranger.at)
}

/// Wrong authority, expired, not yet valid, wrong name, no certificate, A's certificate for B's address: none
/// of them gets a link, whoever dials, and both what was refused and why is counted. For adapters whose links
/// are TLS.
pub async fn nodes_with_wrong_certificates_are_refused_and_counted<A: Adapter>() {
    let ours = DevCa::new(NAME).expect("an authority");
    let security = Security::mtls(ours.mtls().expect("a certificate"));
    let member = first::<A>(node::<A>(&security)).await;
    for stranger in strangers(&ours) {
        let what = stranger.what;
        let before = links(&member).await;
        let dialing = at::<A>(&stranger)
            .seeds([member.address().address()])
            .start()
            .await;
        let dialing = dialing.expect("the stranger starts");
        eventually::<A>(what, async || {
            let (here, there) = (links(&member).await, links(&dialing).await);
            here.refused_unauthenticated > before.refused_unauthenticated && there.dials_refused > 0
        })
        .await;
        let (here, there) = (links(&member).await, links(&dialing).await);
        assert_eq!(
            here.handshakes_completed, before.handshakes_completed,
            "{what}: {here:?}"
        );
        assert_eq!(there.handshakes_completed, 0, "{what}: {there:?}");
        dialing.stop().await;
        if stranger.is_refused_as_acceptor {
            let dialed = at::<A>(&stranger).start().await.expect("the stranger starts");
            let dialer = node::<A>(&security)
                .seeds([dialed.address().address()])
                .start()
                .await;
            let dialer = dialer.expect("an honest node starts");
            eventually::<A>(what, async || links(&dialer).await.dials_refused > 0).await;
            assert_eq!(links(&dialer).await.handshakes_completed, 0, "{what}");
            dialer.stop().await;
            dialed.stop().await;
        }
    }
    goes_on::<A>(&member, &security).await;
}

/// With [`Mtls::any_address`] a certificate need not carry the host.
pub async fn a_certificate_need_not_name_the_host_if_it_is_told_so<A: Adapter>() {
    let ours = DevCa::new(NAME).expect("an authority");
    let anywhere = || {
        let credentials = ours.issue_at(["elsewhere.internal"]).expect("it is signed");
        let mtls = Mtls::new(NAME, credentials).expect("they can be used");
        Security::mtls(mtls.any_address())
    };
    let member = first::<A>(node::<A>(&anywhere())).await;
    goes_on::<A>(&member, &anywhere()).await;
}

/// How old links become here: the least there is.
const LINK_AGE: Duration = Duration::from_secs(1);

/// Short enough to wait for, long enough for honest nodes on a busy machine.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(3);

fn short_lived<A: Adapter>(mtls: &Mtls) -> ClusterBuilder<Security> {
    node::<A>(&Security::mtls(mtls.clone())).link_limits(|limits| {
        limits.max_link_age = LINK_AGE;
        limits.handshake_timeout = HANDSHAKE_LIMIT;
    })
}

/// A certificate of the one authority, and trust in all.
fn issued(by: &DevCa, trusted: &[&DevCa]) -> Credentials {
    let mut credentials = by.issue().expect("it is signed");
    for authority in trusted {
        credentials.trust(authority.root());
    }
    credentials
}

/// Every link that is open now has been replaced.
async fn all_renewed<A: Adapter>(nodes: &[Cluster]) {
    for node in nodes {
        let before = node.links().await.expect("the node runs");
        eventually::<A>("every link is renewed", async || {
            let now = node.links().await.expect("the node runs");
            let renewed = |old: &LinkState| {
                let mut same = now
                    .iter()
                    .filter(|new| (&new.peer, new.kind) == (&old.peer, old.kind));
                same.all(|new| new.handshakes > old.handshakes)
            };
            before.iter().all(renewed)
        })
        .await;
    }
}

/// The authority is replaced while three nodes work: trust in both, then certificates of the new one, then
/// trust in the new one only. Nobody becomes unreachable, every link gets the new certificates within its
/// time, and a certificate of the old authority does not let anybody in any more.
pub async fn certificates_and_their_authority_are_replaced_at_run_time<A: Adapter>() {
    let (old, new) = (DevCa::new(NAME).expect("it"), DevCa::new(NAME).expect("it"));
    let mtls = || Mtls::new(NAME, issued(&old, &[])).expect("they can be used");
    let all = [mtls(), mtls(), mtls()];
    let mut nodes = vec![first::<A>(short_lived::<A>(&all[0])).await];
    let seed = nodes[0].address().address().clone();
    for mtls in &all[1..] {
        nodes.push(joined_as::<A>(short_lived::<A>(mtls), &seed).await);
    }
    let mut events = nodes[0].events();
    let steps: [(&DevCa, &[&DevCa]); 3] = [(&old, &[&new]), (&new, &[&old]), (&new, &[])];
    for (by, trusted) in steps {
        for mtls in &all {
            mtls.replace(issued(by, trusted)).expect("they can be used");
        }
        all_renewed::<A>(&nodes).await;
    }
    for node in &nodes {
        all_up::<A>(node, 3).await;
        let stats = links(node).await;
        let failed = stats.renewals_failed + stats.renewals_cut_short + stats.links_expired;
        assert_eq!(failed, 0, "{stats:?}");
    }
    let late = Security::mtls(Mtls::new(NAME, issued(&old, &[&new])).expect("they can be used"));
    let late = node::<A>(&late).seeds([&seed]).start().await.expect("it starts");
    eventually::<A>("it is refused", async || links(&late).await.dials_refused > 0).await;
    assert_eq!(links(&late).await.handshakes_completed, 0);
    late.stop().await;
    assert_eq!(suspected::<A>(&mut events).await, 0);

    // A certificate that nobody believes: the others say so inside of TLS, and its holder's links last no
    // longer than their time.
    let nobody = DevCa::new(NAME).expect("it");
    all[2]
        .replace(issued(&nobody, &[&new]))
        .expect("they can be used");
    let outcast = nodes[2].address();
    until::<A>(&nodes[0], "the outcast is unreachable", |view| {
        view.members()
            .iter()
            .all(|member| (member.node == *outcast) != view.is_reachable(&member.node))
    })
    .await;
    assert!(links(&nodes[2]).await.links_expired > 0);

    // The authority of all certificates that are in use is not trusted any more: what was proved does not
    // hold either.
    let before = links(&nodes[0]).await.links_expired;
    all[0]
        .replace(issued(&nobody, &[&nobody]))
        .expect("they can be used");
    eventually::<A>("links that were kept end", async || {
        links(&nodes[0]).await.links_expired > before
    })
    .await;
}
