//! The handshake with a pre-shared key: two pumps whose hands are the test, and whoever stands between them. Every refusal has
//! a reason and is counted. Spec: `docs/WIRE.md` 3.4, reliability 3a.

use quorate_core::ident::UniqueAddress;
use quorate_core::wire::handshake::{
    AUTH_PSK, HandshakeDecoded, Hello, HelloAck, HelloAnswer, Proof, RejectReason, decode_answer,
    decode_hello, encode_answer, encode_hello, encode_proof,
};

use super::tests::{Bench, answer_bytes, me, peer, plain_hello};
use super::{LinkId, LinkInput};
use crate::psk::{self, Psk};
use crate::security::Authentication;

const KEY: &str = "a key of thirty-two random bytes";
const OTHER: &str = "another key of the same length!!";

fn psk(keys: &[&str]) -> Psk {
    Psk::with_keys(keys).unwrap()
}

fn bench(who: UniqueAddress, keys: &[&str]) -> Bench {
    Bench::of(who, Authentication::Psk(psk(keys)))
}

fn hello() -> Hello {
    Hello {
        auth_method: AUTH_PSK,
        ..plain_hello()
    }
}

fn bytes_of(hello: &Hello) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_hello(hello, &mut bytes).unwrap();
    bytes
}

fn proof_bytes(proof: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_proof(&Proof::from_slice(proof).unwrap(), &mut bytes).unwrap();
    bytes
}

impl Bench {
    /// What was written to a link.
    fn said(&mut self, link: LinkId) -> Vec<u8> {
        let writes = self.writes().into_iter().filter(|(to, _)| *to == link);
        writes.flat_map(|(_, bytes)| bytes).collect()
    }

    /// An accepted link on which this was said, and what the node answers.
    fn knocked(&mut self, hello: &Hello) -> (LinkId, Vec<u8>) {
        let link = self.knock().unwrap();
        self.receive(link, &bytes_of(hello));
        (link, self.said(link))
    }

    fn refused(&mut self, link: LinkId, why: RejectReason) {
        let said = self.said(link);
        let HandshakeDecoded::Done {
            value: HelloAnswer::Reject(reject),
            ..
        } = decode_answer(&said)
        else {
            panic!("no refusal: {said:?}");
        };
        assert_eq!(reject.reason, why);
        assert_eq!(self.pump.stats().links.refused_unauthenticated, 1);
        assert_eq!(self.pump.stats().links.handshakes_completed, 0);
    }
}

/// Carries one handshake between two nodes, as far as it goes. Says what was said, in turn.
fn meet(dialer: &mut Bench, acceptor: &mut Bench) -> Vec<Vec<u8>> {
    dialer.send(&me(), super::tests::heartbeat(me()));
    let dialed = dialer.dial();
    let accepted = acceptor.knock().unwrap();
    dialer.pump.link(LinkInput::Dialed(dialed));
    let mut said = Vec::new();
    for _ in 0..2 {
        let bytes = dialer.said(dialed);
        if bytes.is_empty() {
            break;
        }
        acceptor.receive(accepted, &bytes);
        said.push(bytes);
        let bytes = acceptor.said(accepted);
        if bytes.is_empty() {
            break;
        }
        dialer.receive(dialed, &bytes);
        said.push(bytes);
    }
    said
}

#[test]
fn two_nodes_with_the_same_key_meet_in_four_messages() {
    let (mut dialer, mut acceptor) = (bench(peer(), &[KEY]), bench(me(), &[KEY]));
    let said = meet(&mut dialer, &mut acceptor);
    let kinds: Vec<u8> = said.iter().map(|message| message[4]).collect();
    assert_eq!(kinds, [1, 4, 5, 2], "hello, challenge, proof, consent");
    assert!(said.iter().all(|message| message.len() <= 1_036));
    assert_eq!(dialer.pump.stats().links.handshakes_completed, 1);
    assert_eq!(acceptor.pump.stats().links.handshakes_completed, 1);
    assert!(!dialer.writes().is_empty(), "what waited is written");
}

#[test]
fn nodes_in_the_middle_of_a_change_of_keys_meet_both_ways() {
    for (dialing, accepting) in [(&[KEY, OTHER], &[OTHER, KEY]), (&[OTHER, KEY], &[KEY, OTHER])] {
        let (mut dialer, mut acceptor) = (bench(peer(), dialing), bench(me(), accepting));
        meet(&mut dialer, &mut acceptor);
        assert_eq!(dialer.pump.stats().links.handshakes_completed, 1);
    }
}

#[test]
fn another_key_is_refused_and_both_sides_hear_why() {
    let (mut dialer, mut acceptor) = (bench(peer(), &[OTHER]), bench(me(), &[KEY]));
    let said = meet(&mut dialer, &mut acceptor);
    assert_eq!(said.last().unwrap()[4], 3, "a refusal");
    assert_eq!(acceptor.pump.stats().links.refused_unauthenticated, 1);
    assert_eq!(dialer.pump.stats().links.dials_refused, 1);
    assert_eq!(dialer.pump.stats().links.handshakes_completed, 0);
}

#[test]
fn a_node_without_a_key_and_one_with_do_not_meet() {
    let (none, key) = (Authentication::None, Authentication::Psk(psk(&[KEY])));
    for (dialing, accepting) in [(&none, &key), (&key, &none)] {
        let mut dialer = Bench::of(peer(), dialing.clone());
        let mut acceptor = Bench::of(me(), accepting.clone());
        let said = meet(&mut dialer, &mut acceptor);
        assert_eq!(said.len(), 2, "a hello and a refusal");
        assert_eq!(acceptor.pump.stats().links.refused_auth_method, 1);
        assert_eq!(dialer.pump.stats().links.dials_refused, 1);
    }
}

#[test]
fn an_empty_a_truncated_and_a_made_up_proof_are_refused() {
    let wrong: [&[u8]; 3] = [&[], &[0; 32], &[0; 64]];
    for proof in wrong {
        let mut acceptor = bench(me(), &[KEY]);
        let (link, _) = acceptor.knocked(&hello());
        acceptor.receive(link, &proof_bytes(proof));
        acceptor.refused(link, RejectReason::Unauthenticated);
    }
    let mut acceptor = bench(me(), &[KEY]);
    let (link, challenge) = acceptor.knocked(&hello());
    let right = psk(&[KEY]).prove(&psk::transcript(&bytes_of(&hello()), &challenge));
    acceptor.receive(link, &proof_bytes(&right[..31]));
    acceptor.refused(link, RejectReason::Unauthenticated);
}

#[test]
fn a_replayed_session_is_refused() {
    let (mut dialer, mut acceptor) = (bench(peer(), &[KEY]), bench(me(), &[KEY]));
    let recorded = meet(&mut dialer, &mut acceptor);
    let mut victim = bench(me(), &[KEY]);
    // Other nonces, as two runs of a node have; this bench would draw the same ones again.
    victim.pump.base.nonce();
    let link = victim.knock().unwrap();
    victim.receive(link, &recorded[0]);
    assert_ne!(victim.said(link), recorded[1], "a fresh nonce");
    victim.receive(link, &recorded[2]);
    victim.refused(link, RejectReason::Unauthenticated);
}

#[test]
fn a_recorded_acceptor_does_not_fool_a_dialer() {
    let (mut dialer, mut acceptor) = (bench(peer(), &[KEY]), bench(me(), &[KEY]));
    let recorded = meet(&mut dialer, &mut acceptor);
    let mut victim = bench(peer(), &[KEY]);
    victim.pump.base.nonce();
    victim.send(&me(), super::tests::heartbeat(me()));
    let link = victim.dial();
    victim.pump.link(LinkInput::Dialed(link));
    victim.receive(link, &recorded[1]);
    victim.receive(link, &recorded[3]);
    assert_eq!(victim.pump.stats().links.dials_refused, 1);
    assert_eq!(victim.pump.stats().links.handshakes_completed, 0);
}

/// Somebody without a key dials a node, and lets the node's own dial to him answer the challenge he was given.
#[test]
fn a_reflected_challenge_is_refused() {
    let mut victim = bench(me(), &[KEY]);
    let (accepted, challenge) = victim.knocked(&hello());
    victim.send(&peer(), super::tests::heartbeat(peer()));
    let dialed = victim.dial();
    victim.pump.link(LinkInput::Dialed(dialed));
    let HandshakeDecoded::Done { value: theirs, .. } = decode_hello(&victim.said(dialed)) else {
        panic!("no hello");
    };
    let HandshakeDecoded::Done {
        value: HelloAnswer::Challenge(ours),
        ..
    } = decode_answer(&challenge)
    else {
        panic!("no challenge");
    };
    // The nonce he was challenged with, in his name.
    let reflected = HelloAnswer::Challenge(HelloAck { from: peer(), ..ours });
    assert_ne!(theirs.nonce, hello().nonce);
    victim.receive(dialed, &answer_bytes(&reflected));
    let proof = victim.said(dialed);
    assert_eq!(
        proof[4], 5,
        "the victim proves itself to whoever answers at that address"
    );
    victim.receive(accepted, &proof);
    victim.refused(accepted, RejectReason::Unauthenticated);
}

#[test]
fn an_acceptor_that_challenges_twice_or_not_at_all_is_refused() {
    let ack = |from| HelloAck {
        version: 1,
        from,
        features: 0,
        auth_method: AUTH_PSK,
        nonce: [3; 16],
        proof: Proof::new(),
    };
    let (consent, challenge) = (HelloAnswer::Ack(ack(me())), HelloAnswer::Challenge(ack(me())));
    for answers in [
        [&consent, &consent],
        [&challenge, &challenge],
        [&challenge, &consent],
    ] {
        let mut dialer = bench(peer(), &[KEY]);
        dialer.send(&me(), super::tests::heartbeat(me()));
        let link = dialer.dial();
        dialer.pump.link(LinkInput::Dialed(link));
        for answer in answers {
            let mut bytes = Vec::new();
            encode_answer(answer, &mut bytes).unwrap();
            dialer.receive(link, &bytes);
        }
        assert_eq!(dialer.pump.stats().links.dials_refused, 1, "{answers:?}");
        assert_eq!(dialer.pump.stats().links.handshakes_completed, 0);
    }
}

#[test]
fn who_has_proved_nothing_replaces_no_link_and_says_nothing() {
    let (mut dialer, mut acceptor) = (bench(peer(), &[KEY]), bench(me(), &[KEY]));
    meet(&mut dialer, &mut acceptor);
    let newer = Hello {
        epoch: u32::MAX,
        ..hello()
    };
    let (link, _) = acceptor.knocked(&newer);
    assert_eq!(
        acceptor.pump.stats().links.links_open,
        2,
        "the honest link is still there"
    );
    let frame = super::tests::frame(&super::tests::heartbeat(me()), u32::MAX);
    acceptor.receive(link, &frame);
    assert_eq!(acceptor.pump.stats().links.links_open, 1);
    assert!(acceptor.heard().is_empty());
    // A hello and a proof at once is a guess at a nonce.
    let eager = [bytes_of(&newer), proof_bytes(&[0; 32])].concat();
    let link = acceptor.knock().unwrap();
    acceptor.receive(link, &eager);
    assert_eq!(acceptor.pump.stats().links.links_open, 1);
}
