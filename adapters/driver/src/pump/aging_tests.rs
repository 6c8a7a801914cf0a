//! Links that could not be renewed: both ends keep them while what the peer proved holds, and end them when
//! it does not. Spec: reliability 3a (rotation), ADR 9, issue 12 "Strangers" 5.
#![cfg(feature = "psk")]

use std::sync::Arc;
use std::time::Duration;

use quorate_core::admission::Admission;
use quorate_core::config::Config;
use quorate_core::event::SeedCause;
use quorate_core::ident::ClusterName;
use quorate_core::wire::handshake::{HandshakeDecoded, RejectReason, decode_hello};

use super::policy::{Joiner, Policy};
use super::tests::{Bench, aborts, answer_bytes, heartbeat, me, peer};
use crate::proved::Proved;
use crate::psk::Psk;
use crate::security::Authentication;
use quorate_links::{LinkId, LinkInput, LinkLimits, LinkOrder, PeerIdentity};

const AGE: Duration = Duration::from_secs(8);
const KEY: &str = "a key of thirty-two random bytes";
const OTHER: &str = "another key of the same length!!";

/// Two nodes with an open control link between them, whose links live so long.
struct Pair {
    dialer: Bench,
    acceptor: Bench,
    /// The link, at each end.
    dialed: LinkId,
    accepted: LinkId,
}

fn settings() -> Config {
    Config::lan(ClusterName::new("c").unwrap())
}

/// The acceptor has these settings.
fn pair(dialer: Authentication, acceptor: Authentication, config: Config) -> Pair {
    let ages = |limits: &mut LinkLimits| limits.max_link_age = AGE;
    let mut dialer = Bench::with(peer(), dialer, ages);
    let mut acceptor = Bench::configured(1, me(), config, acceptor, ages);
    dialer.send(&me(), heartbeat(me()));
    let (dialed, accepted) = (dialer.dial(), acceptor.knock().unwrap());
    Pair {
        dialer,
        acceptor,
        dialed,
        accepted,
    }
}

impl Pair {
    fn of_keys() -> (Self, [Psk; 2]) {
        Self::of_keys_with(settings())
    }

    fn of_keys_with(config: Config) -> (Self, [Psk; 2]) {
        let keys = [(), ()].map(|()| Psk::new(KEY).unwrap());
        let [ours, theirs] = keys.clone().map(Authentication::Psk);
        let mut pair = pair(ours, theirs, config);
        pair.proves_key();
        pair.shake_hands();
        (pair, keys)
    }

    /// What a transport with keys has to tell of the link.
    fn proves_key(&mut self) {
        self.dialer.pump.link(LinkInput::Dialed(self.dialed));
        has_key(&mut self.dialer, self.dialed);
        has_key(&mut self.acceptor, self.accepted);
    }

    /// The words on a link beside an open one: the acceptor asks the dialer whether it is its own.
    fn pass_words_and_a_question(&mut self) {
        for bytes in said(&mut self.dialer, self.dialed) {
            self.acceptor.receive(self.accepted, &bytes);
        }
        let (question, asked) = (self.acceptor.dial(), self.dialer.knock().unwrap());
        self.acceptor.pump.link(LinkInput::Dialed(question));
        has_key(&mut self.acceptor, question);
        has_key(&mut self.dialer, asked);
        for bytes in said(&mut self.acceptor, question) {
            self.dialer.receive(asked, &bytes);
        }
        for bytes in said(&mut self.dialer, asked) {
            self.acceptor.receive(question, &bytes);
        }
        for bytes in said(&mut self.acceptor, self.accepted) {
            self.dialer.receive(self.dialed, &bytes);
        }
    }

    fn shake_hands(&mut self) {
        self.pass_words();
        let shaken = |bench: &Bench| bench.pump.stats().links.handshakes_completed;
        assert_eq!((shaken(&self.dialer), shaken(&self.acceptor)), (1, 1));
    }

    fn pass_words(&mut self) {
        for bytes in said(&mut self.dialer, self.dialed) {
            self.acceptor.receive(self.accepted, &bytes);
        }
        for bytes in said(&mut self.acceptor, self.accepted) {
            self.dialer.receive(self.dialed, &bytes);
        }
    }

    /// Lets time pass, in which every try of the dialer to renew the link fails before anybody has proved
    /// anything. Says after how many seconds each end cut it.
    fn starve(&mut self, seconds: u64) -> [Option<u64>; 2] {
        let mut cut = [None; 2];
        for second in 1..=seconds {
            self.dialer.pass(1_000);
            self.acceptor.pass(1_000);
            let actions = self.dialer.actions();
            for action in &actions {
                if let LinkOrder::Dial { link, .. } = action {
                    self.dialer.fail_dial(*link);
                }
            }
            let ends = [(actions, self.dialed), (self.acceptor.actions(), self.accepted)];
            for (cut, (actions, link)) in cut.iter_mut().zip(ends) {
                if aborts(&actions, link) {
                    cut.get_or_insert(second);
                }
            }
        }
        cut
    }
}

/// The other end of the link has shown a key.
fn has_key(bench: &mut Bench, link: LinkId) {
    let key = Psk::new(KEY).unwrap().first();
    let identity = PeerIdentity::new(Proved::Key(key));
    bench.pump.link(LinkInput::Identified(link, identity));
}

fn said(bench: &mut Bench, link: LinkId) -> Vec<Vec<u8>> {
    let writes = bench.writes().into_iter();
    writes
        .filter(|(to, _)| *to == link)
        .map(|(_, bytes)| bytes)
        .collect()
}

#[test]
fn a_renewal_that_strangers_prevent_cuts_nobody_off() {
    let (mut pair, _) = Pair::of_keys();
    assert_eq!(pair.starve(50), [None, None]);
    let stats = [&pair.dialer, &pair.acceptor].map(|bench| bench.pump.stats().links);
    for stats in stats {
        assert_eq!(
            (stats.links_kept, stats.links_expired),
            (1, 0),
            "said once: {stats:?}"
        );
    }
    assert!(stats[0].renewals_failed > 35, "and tried again all the time");
}

#[test]
fn a_link_whose_key_is_replaced_ends_at_either_end() {
    for end in [0, 1] {
        let (mut pair, keys) = Pair::of_keys();
        assert_eq!(pair.starve(40), [None, None]);
        keys[end].replace([OTHER]).unwrap();
        let cut = pair.starve(3);
        assert!(cut[end].is_some(), "{end}");
        let bench = [&pair.dialer, &pair.acceptor][end];
        assert_eq!(bench.pump.stats().links.links_expired, 1);
    }
}

#[test]
fn a_key_that_is_still_listed_keeps_its_links() {
    let (mut pair, keys) = Pair::of_keys();
    for keys in &keys {
        keys.replace([OTHER, KEY]).unwrap();
    }
    assert_eq!(pair.starve(40), [None, None]);
}

#[test]
fn a_link_of_somebody_whom_the_join_policy_does_not_admit_any_more_ends() {
    let not_any_more = |joiner: &Joiner<'_>| {
        assert_eq!(joiner.node, &peer());
        Err("not any more".to_owned())
    };
    let policy = Policy {
        admits: Some(Arc::new(not_any_more)),
        ..Policy::default()
    };
    let mut config = settings();
    config.membership.admission = Admission(Arc::new(policy));
    let (mut pair, _) = Pair::of_keys_with(config);
    let cut = pair.starve(40);
    assert_eq!(
        cut,
        [None, Some(13)],
        "eight seconds and the time for a handshake"
    );
    assert_eq!(pair.acceptor.pump.stats().links.links_kept, 0);
}

#[test]
fn a_link_of_one_who_is_no_member_ends_when_it_is_too_old() {
    let (mut pair, _) = Pair::of_keys();
    pair.dialer.pump.linked.node.strangers.push(me());
    pair.acceptor.pump.linked.node.strangers.push(peer());
    let cut = pair.starve(40);
    assert!(cut[0].is_some() && cut[1].is_some(), "{cut:?}");
}

#[test]
fn a_link_that_was_kept_is_renewed_as_soon_as_that_works() {
    let (mut pair, _) = Pair::of_keys();
    pair.starve(20);
    pair.dialer.pass(1_000);
    let next = pair.dialer.dial();
    let accepted = pair.acceptor.knock().unwrap();
    let old = std::mem::replace(&mut pair.dialed, next);
    pair.accepted = accepted;
    pair.proves_key();
    pair.pass_words_and_a_question();
    assert_eq!(pair.dialer.pump.stats().links.links_renewed, 1);
    pair.dialer.pump.link(LinkInput::Closed(old));
    assert_eq!(pair.starve(20), [None, None]);
    assert_eq!(pair.dialer.pump.stats().links.links_kept, 2, "a second time");
}

#[test]
fn a_plain_refusal_is_nobodys_word() {
    // Before the session is there, whoever is on the way can say it.
    let (mut pair, _) = Pair::of_keys();
    pair.starve(12);
    for _ in 0..20 {
        pair.dialer.pass(1_000);
        let actions = pair.dialer.actions();
        assert!(!aborts(&actions, pair.dialed));
        for action in actions {
            if let LinkOrder::Dial { link, .. } = action {
                let refusal = SeedCause::Security("it does not have this node's key".to_owned());
                pair.dialer.pump.link(LinkInput::DialFailed(link, refusal));
            }
        }
    }
    assert!(pair.dialer.pump.stats().links.dials_refused > 3);
}

#[test]
fn an_acceptor_that_refuses_this_node_inside_its_session_is_believed() {
    let (mut pair, _) = Pair::of_keys();
    pair.dialer.pass(7_000);
    let link = pair.dialer.dial();
    refuse(&mut pair.dialer, link);
    let [cut, _] = pair.starve(30);
    assert!(cut.is_some());
}

/// Refuses a dial in the acceptor's name.
fn refuse(dialer: &mut Bench, link: LinkId) {
    dialer.pump.link(LinkInput::Dialed(link));
    let hello = said(dialer, link).concat();
    assert!(matches!(decode_hello(&hello), HandshakeDecoded::Done { .. }));
    let reject = quorate_core::wire::handshake::HelloReject {
        reason: RejectReason::Unauthenticated,
        versions: (1, 1),
    };
    let answer = quorate_core::wire::handshake::HelloAnswer::Reject(reject);
    dialer.receive(link, &answer_bytes(&answer));
}

#[cfg(feature = "dev-certs")]
mod certificates {
    use rcgen::date_time_ymd;

    use super::*;
    use crate::proved::PeerCertificate;
    use crate::tls::{DevCa, Mtls};
    use quorate_links::{LinkAuthentication as _, LinkEnd};

    const PAUSE: Duration = Duration::from_secs(56);
    /// The start of 2040, in milliseconds.
    const IN_2040: u64 = 2_208_988_800_000;

    fn believes(mtls: &Mtls, proved: &PeerIdentity, unix_ms: u64) -> [Result<Duration, String>; 2] {
        let authentication = Authentication::Certificates(mtls.clone());
        [LinkEnd::Dialer, LinkEnd::Acceptor]
            .map(|end| authentication.holds_for(Some(proved), end, me().address(), unix_ms, PAUSE))
    }

    fn of(authority: &DevCa, hosts: &[&str]) -> (Mtls, PeerCertificate) {
        let credentials = authority.issue_at(hosts.iter().copied()).unwrap();
        let certificate = PeerCertificate::new(credentials.own());
        (Mtls::new("c.internal", credentials).unwrap(), certificate)
    }

    #[test]
    fn name_roots_and_host_of_a_certificate_are_checked_as_they_stand_now() {
        let (ours, theirs) = (
            DevCa::new("c.internal").unwrap(),
            DevCa::new("c.internal").unwrap(),
        );
        let (mtls, certificate) = of(&ours, &["h"]);
        let proved = PeerIdentity::new(Proved::Certificate(certificate));
        assert_eq!(believes(&mtls, &proved, IN_2040), [Ok(PAUSE), Ok(PAUSE)]);
        let (_, elsewhere) = of(&ours, &["other"]);
        for refused in believes(&mtls, &PeerIdentity::new(Proved::Certificate(elsewhere)), IN_2040) {
            assert!(refused.unwrap_err().contains("host"));
        }
        let unnamed = ours.issue_for("others.internal").unwrap();
        let unnamed = PeerIdentity::new(Proved::Certificate(PeerCertificate::new(unnamed.own())));
        let any = mtls.clone().any_address();
        assert!(believes(&any, &unnamed, IN_2040).iter().all(Result::is_err));
        // Another authority from now on.
        mtls.replace(theirs.issue_at(["h"]).unwrap()).unwrap();
        assert!(believes(&mtls, &proved, IN_2040).iter().all(Result::is_err));
    }

    #[test]
    fn a_link_ends_within_a_second_of_its_certificates_end() {
        let authority = DevCa::new("c.internal").unwrap();
        let (mtls, _) = of(&authority, &["h"]);
        let short = authority
            .issue_changed(|params| {
                params.not_after = date_time_ymd(2040, 1, 1);
                params
                    .subject_alt_names
                    .push(rcgen::SanType::DnsName("h".try_into().unwrap()));
            })
            .unwrap();
        let proved = PeerIdentity::new(Proved::Certificate(PeerCertificate::new(short.own())));
        let mut now = IN_2040 - 200_000;
        let mut looks = 0;
        while let [Ok(pause), Ok(_)] = believes(&mtls, &proved, now) {
            now += u64::try_from(pause.as_millis()).unwrap();
            looks += 1;
            assert!(looks < 20);
        }
        assert!((IN_2040..=IN_2040 + 2_000).contains(&now), "{now}");
    }

    #[test]
    fn an_acceptor_that_refuses_this_node_inside_its_tls_is_believed() {
        let authority = DevCa::new("c.internal").unwrap();
        let (ours, our_certificate) = of(&authority, &["h"]);
        let (theirs, their_certificate) = of(&authority, &["h"]);
        for refuses in [false, true] {
            let mut pair = pair(
                Authentication::Certificates(ours.clone()),
                Authentication::Certificates(theirs.clone()),
                settings(),
            );
            let (dialed, accepted) = (pair.dialed, pair.accepted);
            let unix_ms = IN_2040;
            for bench in [&mut pair.dialer, &mut pair.acceptor] {
                bench.unix_ms = unix_ms;
                bench.pass(0);
            }
            pair.acceptor.pump.link(LinkInput::Identified(
                accepted,
                PeerIdentity::new(Proved::Certificate(our_certificate.clone())),
            ));
            pair.dialer.pump.link(LinkInput::Dialed(dialed));
            let hello = said(&mut pair.dialer, dialed).concat();
            pair.acceptor.receive(accepted, &hello);
            pair.dialer.pump.link(LinkInput::Identified(
                dialed,
                PeerIdentity::new(Proved::Certificate(their_certificate.clone())),
            ));
            let answer = said(&mut pair.acceptor, accepted).concat();
            pair.dialer.receive(dialed, &answer);
            if refuses {
                pair.dialer.pass(7_000);
                let link = pair.dialer.dial();
                refuse(&mut pair.dialer, link);
            }
            let [cut, _] = pair.starve(30);
            assert_eq!(cut.is_some(), refuses, "{cut:?}");
        }
    }
}
