//! Nodes with certificates that must not let them in, over real links, as dialers and as those who are dialed: refused, counted
//! as that, and the cluster goes on. Which words say why is tested in `tls`. Spec: reliability 3a, issue 6 "must show" 3.

use rcgen::{CertificateParams, date_time_ymd};

use super::strangers::{goes_on, links};
use super::support::{eventually, first, node};
use crate::adapter::Adapter;
use crate::builder::ClusterBuilder;
use crate::security::Security;
use crate::tls::{DevCa, Mtls};

const NAME: &str = "tests.cluster.internal";

/// Who must not get in, and whether a good node that dials him has to notice too.
struct Stranger {
    what: &'static str,
    mtls: Mtls,
    /// Where he says he is, if that is the point.
    at: &'static str,
    is_refused_as_acceptor: bool,
}

fn strangers(ours: &DevCa) -> Vec<Stranger> {
    let theirs = DevCa::new(NAME).expect("another authority");
    let trusting = |mut credentials: crate::tls::Credentials| {
        credentials.trust(ours.root());
        Mtls::new(NAME, credentials).expect("they can be used")
    };
    let changed =
        |change: &dyn Fn(&mut CertificateParams)| trusting(ours.issue_changed(change).expect("it is signed"));
    let nameless = ours.mtls().expect("a certificate");
    nameless.dial_without_certificate(ours.root());
    let elsewhere = ours.issue_at(["127.0.0.1"]).expect("it is signed");
    let stranger = |what, mtls| Stranger {
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
            "another cluster's name",
            trusting(ours.issue_for("billing.internal").expect("it is signed")),
        ),
        Stranger {
            is_refused_as_acceptor: false,
            ..stranger("no certificate", nameless)
        },
        Stranger {
            at: "localhost:0",
            ..stranger("the certificate of another address", trusting(elsewhere))
        },
    ]
}

fn at<A: Adapter>(stranger: &Stranger) -> ClusterBuilder<A, Security> {
    node(&Security::mtls(stranger.mtls.clone())).bind(stranger.at)
}

/// Wrong authority, expired, not yet valid, wrong name, no certificate, A's certificate for B's address: none of them gets a
/// link, whoever dials, and both what was refused and why is counted. For adapters whose links are TLS.
pub async fn nodes_with_wrong_certificates_are_refused_and_counted<A: Adapter>() {
    let ours = DevCa::new(NAME).expect("an authority");
    let security = Security::mtls(ours.mtls().expect("a certificate"));
    let member = first(node::<A>(&security)).await;
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
    goes_on(&member, &security).await;
}

/// With [`Mtls::any_address`] a certificate need not carry the host.
pub async fn a_certificate_need_not_name_the_host_if_it_is_told_so<A: Adapter>() {
    let ours = DevCa::new(NAME).expect("an authority");
    let anywhere = || {
        let credentials = ours.issue_at(["elsewhere.internal"]).expect("it is signed");
        let mtls = Mtls::new(NAME, credentials).expect("they can be used");
        Security::mtls(mtls.any_address())
    };
    let member = first(node::<A>(&anywhere())).await;
    goes_on(&member, &anywhere()).await;
}
