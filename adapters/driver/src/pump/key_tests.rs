//! What a node with a pre-shared key makes of what its transport has seen proved, and what nodes of different
//! methods say to each other. Sessions themselves: `psk`. Spec: `docs/WIRE.md` 3.4, reliability 3a.
#![cfg(feature = "psk")]

use quorate_core::wire::handshake::{
    HandshakeDecoded, HelloAck, HelloAnswer, RejectReason, decode_answer, encode_hello,
};

use super::tests::{Bench, answer_bytes, me, peer, plain_hello};
use crate::proved::Proved;
use crate::psk::Psk;
use crate::security::Authentication;
use quorate_links::{LinkId, LinkInput, LinkReport, PeerIdentity};

const KEY: &str = "a key of thirty-two random bytes";
const OTHER: &str = "another key of the same length!!";

fn bench() -> Bench {
    Bench::of(me(), Authentication::Psk(Psk::with_keys([KEY]).unwrap()))
}

fn has(key: &str) -> Proved {
    Proved::Key(Psk::new(key).unwrap().first())
}

impl Bench {
    fn hears_hello(&mut self, link: LinkId) -> HelloAnswer {
        let mut hello = Vec::new();
        encode_hello(&plain_hello(), &mut hello).unwrap();
        self.receive(link, &hello);
        self.answered(link)
    }

    fn answered(&mut self, link: LinkId) -> HelloAnswer {
        let writes = self.writes().into_iter().filter(|(to, _)| *to == link);
        let said: Vec<u8> = writes.flat_map(|(_, bytes)| bytes).collect();
        match decode_answer(&said) {
            HandshakeDecoded::Done { value, .. } => value,
            other => panic!("{other:?}"),
        }
    }

    /// A dial to the peer that has come as far as the greeting.
    fn greeting(&mut self) -> LinkId {
        self.send(&peer(), super::tests::heartbeat(peer()));
        let link = self.dial();
        self.pump.link(LinkInput::Dialed(link));
        self.actions();
        link
    }
}

fn consent() -> HelloAnswer {
    HelloAnswer::Ack(HelloAck {
        version: 1,
        from: peer(),
        features: 0,
        auth_method: 0,
        nonce: [3; 16],
    })
}

#[test]
fn only_who_has_a_listed_key_is_greeted() {
    let cases = [(None, false), (Some(has(OTHER)), false), (Some(has(KEY)), true)];
    for (proved, greeted) in cases {
        let mut node = bench();
        let link = node.knock().unwrap();
        if let Some(proved) = proved {
            node.pump
                .link(LinkInput::Identified(link, PeerIdentity::new(proved)));
        }
        match node.hears_hello(link) {
            HelloAnswer::Ack(_) => assert!(greeted),
            HelloAnswer::Reject(reject) => {
                assert_eq!((greeted, reject.reason), (false, RejectReason::Unauthenticated));
            }
        }
        let stats = node.pump.stats().links;
        assert_eq!(stats.handshakes_completed, u64::from(greeted));
        assert_eq!(stats.refused_unauthenticated, u64::from(!greeted));
    }
}

#[test]
fn only_an_acceptor_that_has_a_listed_key_is_believed() {
    for (proved, believed) in [(None, false), (Some(has(OTHER)), false), (Some(has(KEY)), true)] {
        let mut node = bench();
        let link = node.greeting();
        if let Some(proved) = proved {
            node.pump
                .link(LinkInput::Identified(link, PeerIdentity::new(proved)));
        }
        node.receive(link, &answer_bytes(&consent()));
        let stats = node.pump.stats().links;
        assert_eq!(
            (stats.handshakes_completed, stats.dials_refused),
            (u64::from(believed), u64::from(!believed))
        );
    }
}

#[test]
fn a_key_that_is_replaced_in_the_middle_of_a_handshake_is_not_believed() {
    let keys = Psk::new(KEY).unwrap();
    let mut node = Bench::of(me(), Authentication::Psk(keys.clone()));
    let link = node.knock().unwrap();
    node.pump
        .link(LinkInput::Identified(link, PeerIdentity::new(has(KEY))));
    keys.replace([OTHER]).unwrap();
    assert!(matches!(node.hears_hello(link), HelloAnswer::Reject(_)));
}

#[test]
fn who_proves_nothing_replaces_no_link_and_is_counted() {
    let mut node = bench();
    let honest = node.knock().unwrap();
    node.pump
        .link(LinkInput::Identified(honest, PeerIdentity::new(has(KEY))));
    assert!(matches!(node.hears_hello(honest), HelloAnswer::Ack(_)));
    let stranger = node.knock().unwrap();
    let why = "it has none of this node's keys".to_owned();
    node.pump.link(LinkInput::Unproved(stranger, why));
    let stats = node.pump.stats().links;
    assert_eq!((stats.links_open, stats.refused_unauthenticated), (1, 1));
}

#[test]
fn b_005_a_node_with_a_key_that_dials_plaintext_is_told_what_it_has_met() {
    for greeting in [&b"Qrn1"[..], &[&b"Qrn1"[..], &[7; 48]].concat()] {
        let mut node = Bench::new();
        let link = node.knock().unwrap();
        node.receive(link, greeting);
        let HelloAnswer::Reject(reject) = node.answered(link) else {
            panic!("no refusal");
        };
        assert_eq!(reject.reason, RejectReason::AuthMethod);
        let stats = node.pump.stats().links;
        assert_eq!((stats.refused_bad_magic, stats.links_open), (1, 0));
    }
}

#[test]
fn b_005_a_dialer_that_speaks_plaintext_hears_what_is_asked_for() {
    for (said, why) in [
        (&b"Qrn0"[..], "a pre-shared key"),
        (&[21, 3, 3, 0, 2, 2, 10], "TLS"),
    ] {
        let mut node = Bench::new();
        let link = node.greeting();
        node.receive(link, said);
        assert_eq!(node.pump.stats().links.dials_refused, 1);
        let mut reports = std::iter::from_fn(|| node.pump.linked.links.next_report());
        let refused = reports.find_map(|report| match report {
            LinkReport::DialRefused { why, .. } => Some(why),
            _ => None,
        });
        assert!(refused.unwrap().contains(why));
    }
}
