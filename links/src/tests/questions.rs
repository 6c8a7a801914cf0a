//! A second link in a peer's name, where links prove no more than a key or nothing: the peer is asked at its
//! own address whose it is. Spec: reliability 3a, `docs/WIRE.md` 3.1.

use alloc::vec::Vec;

use quorate_core::message::Lane;
use quorate_core::wire::handshake::{
    FEATURE_QUESTION, HandshakeDecoded, Hello, HelloAnswer, HelloReject, RejectReason, decode_answer,
    decode_hello,
};

use super::{Bench, Heard, aborts, accepted_control, answer_bytes, frame, heartbeat, hello, me, node, peer};
use super::{pair, plain_hello};
use crate::order::{LinkId, LinkInput};

/// Somebody says that it is the peer, on a link with this epoch and nonce.
fn claim(bench: &mut Bench, epoch: u32, nonce: u8) -> LinkId {
    let link = bench.knock().unwrap();
    let said = Hello {
        epoch,
        nonce: [nonce; 16],
        ..plain_hello()
    };
    bench.receive(link, &hello(said));
    link
}

/// The dialed peer's no.
fn deny(bench: &mut Bench, question: LinkId) {
    bench.link(LinkInput::Dialed(question));
    bench.actions();
    let reject = HelloReject {
        reason: RejectReason::NotOpening,
        versions: (1, 1),
    };
    bench.receive(question, &answer_bytes(&HelloAnswer::Reject(reject)));
}

/// What this node answers on accepted links.
fn answers(bench: &mut Bench) -> Vec<(LinkId, Result<(), RejectReason>)> {
    let word = |(link, bytes): (LinkId, Vec<u8>)| match decode_answer(&bytes) {
        HandshakeDecoded::Done {
            value: HelloAnswer::Ack(_),
            ..
        } => Some((link, Ok(()))),
        HandshakeDecoded::Done {
            value: HelloAnswer::Reject(reject),
            ..
        } => Some((link, Err(reject.reason))),
        HandshakeDecoded::NeedMore(_) | HandshakeDecoded::Bad(_) => None,
    };
    bench.writes().into_iter().filter_map(word).collect()
}

#[test]
fn i_100_a_second_link_in_a_peers_name_waits_for_that_peers_word_and_is_refused_without_it() {
    let mut bench = Bench::new();
    let first = accepted_control(&mut bench);
    let second = claim(&mut bench, u32::MAX, 7);
    let question = bench.dial();
    bench.link(LinkInput::Dialed(question));
    let asked = bench.writes();
    let HandshakeDecoded::Done { value: asked, .. } = decode_hello(&asked[0].1) else {
        panic!("no hello");
    };
    assert_eq!(
        (
            &asked.from,
            &asked.to,
            asked.expected_uid,
            asked.features,
            asked.nonce
        ),
        (&me(), peer().address(), Some(2), FEATURE_QUESTION, [7; 16])
    );
    // Meanwhile, and afterwards, the first one is heard.
    bench.receive(first, &frame(&heartbeat(me()), 1));
    deny(&mut bench, question);
    assert_eq!(answers(&mut bench), [(second, Err(RejectReason::TooManyLinks))]);
    bench.receive(first, &frame(&heartbeat(me()), 1));
    let frame = || Heard::Frame(peer(), Lane::Control);
    assert_eq!(bench.heard(), [frame(), frame()]);
    let stats = bench.links.stats();
    assert_eq!((stats.refused_unconfirmed, stats.links_open), (1, 1));
}

#[test]
fn i_100_a_second_link_that_its_peer_confirms_takes_the_first_ones_place() {
    let mut bench = Bench::new();
    // The first one is somebody else's, however new it says that it is.
    let fake = claim(&mut bench, u32::MAX, 1);
    assert_eq!(answers(&mut bench), [(fake, Ok(()))]);
    let real = claim(&mut bench, 3, 2);
    let question = bench.dial();
    bench.answer(question, &peer());
    let actions = bench.actions();
    assert!(aborts(&actions, fake) && aborts(&actions, question));
    bench.receive(real, &frame(&heartbeat(me()), 3));
    assert!(bench.heard().contains(&Heard::Frame(peer(), Lane::Control)));
    // The next one is newer: the last one is read to its end before.
    let next = claim(&mut bench, 4, 3);
    let question = bench.dial();
    bench.answer(question, &peer());
    assert!(!aborts(&bench.actions(), real));
    bench.receive(next, &frame(&heartbeat(me()), 4));
    assert!(aborts(&bench.actions(), real));
    assert_eq!(bench.links.stats().links_confirmed, 2);
}

#[test]
fn i_100_a_peer_that_cannot_be_asked_confirms_nothing() {
    let mut bench = Bench::new();
    accepted_control(&mut bench);
    let second = claim(&mut bench, 2, 7);
    let question = bench.dial();
    bench.fail_dial(question);
    assert_eq!(answers(&mut bench), [(second, Err(RejectReason::TooManyLinks))]);
    // Another incarnation lives there.
    let second = claim(&mut bench, 2, 7);
    let question = bench.dial();
    bench.answer(question, &node(2, 3));
    assert_eq!(answers(&mut bench), [(second, Err(RejectReason::TooManyLinks))]);
    // Nobody answers, and the dialer waits no longer than for any handshake.
    let second = claim(&mut bench, 2, 7);
    let question = bench.dial();
    bench.pass(5_000);
    let actions = bench.actions();
    assert!(aborts(&actions, second) && aborts(&actions, question));
    assert_eq!(bench.links.stats().links_open, 1);
}

#[test]
fn i_91_one_peer_is_asked_about_few_links_at_once_also_if_they_are_closed_meanwhile() {
    let mut bench = Bench::new();
    accepted_control(&mut bench);
    let mut questions = Vec::new();
    for nonce in 0..4 {
        let link = claim(&mut bench, 2, nonce);
        questions.push(bench.dial());
        bench.link(LinkInput::Closed(link));
    }
    let fifth = claim(&mut bench, 2, 4);
    assert_eq!(answers(&mut bench), [(fifth, Err(RejectReason::TooManyLinks))]);
    assert_eq!(bench.links.stats().refused_unconfirmed, 1);
    // One of them is over: there is room for the next.
    bench.fail_dial(questions[0]);
    claim(&mut bench, 2, 5);
    bench.dial();
}

#[test]
fn i_100_a_node_confirms_what_it_is_opening_there_and_nothing_else() {
    let mut bench = Bench::new();
    bench.send(&peer(), heartbeat(peer()));
    let dialed = bench.dial();
    bench.link(LinkInput::Dialed(dialed));
    let said = bench.writes();
    let HandshakeDecoded::Done { value: said, .. } = decode_hello(&said[0].1) else {
        panic!("no hello");
    };
    let ask = |from, nonce, bench: &mut Bench| {
        let link = bench.knock().unwrap();
        let question = Hello {
            from,
            features: FEATURE_QUESTION,
            nonce,
            ..plain_hello()
        };
        bench.receive(link, &hello(question));
        let word = answers(bench);
        assert_eq!(word[0].0, link);
        word[0].1
    };
    let no = Err(RejectReason::NotOpening);
    assert_eq!(ask(peer(), [0; 16], &mut bench), no);
    assert_eq!(
        ask(node(3, 3), said.nonce, &mut bench),
        no,
        "it goes to another node"
    );
    assert_eq!(ask(peer(), said.nonce, &mut bench), Ok(()));
    bench.consent(dialed, &peer());
    assert_eq!(
        ask(peer(), said.nonce, &mut bench),
        no,
        "it is open: nobody has to ask"
    );
    assert_eq!(bench.links.stats().links_open, 1, "a question opens no link");
}

#[test]
fn a_node_whose_links_are_gone_at_its_end_alone_gets_new_ones() {
    let mut world = pair::World::of_two(4_096);
    world.until("two members to be Up", pair::World::are_up);
    world.cut_at(1);
    let confirmed = |world: &pair::World| world.places[0].links.stats().links_confirmed > 0;
    world.until("a link in the place of one that nobody reads", confirmed);
    assert!(world.are_up());
}
