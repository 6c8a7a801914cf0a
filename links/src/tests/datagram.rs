//! Heartbeats beside the stream: what goes there, what does not, and what a peer may not put there. Spec:
//! `docs/WIRE.md` 3.6.

use alloc::vec;
use alloc::vec::Vec;
use quorate_core::message::{Lane, MembershipMsg, Message};

use super::{Bench, Heard, aborts, accepted_control, frame, heartbeat, me, peer};
use crate::order::{LinkId, LinkInput, LinkOrder, ReadChunk};

/// A node with an open control link to its peer, which takes datagrams of so many bytes.
fn opened(max: usize) -> (Bench, LinkId) {
    let mut bench = Bench::new();
    // The first waits for the link, and goes over its stream.
    bench.send(&peer(), heartbeat(peer()));
    let link = bench.dial();
    bench.link(LinkInput::Datagrams(link, max));
    bench.answer(link, &peer());
    assert_eq!(bench.writes().len(), 1);
    (bench, link)
}

fn datagrams(bench: &mut Bench) -> Vec<(LinkId, Vec<u8>)> {
    let of = |action| match action {
        LinkOrder::Datagram { link, bytes } => Some((link, bytes)),
        _ => None,
    };
    bench.actions().into_iter().filter_map(of).collect()
}

fn receive(bench: &mut Bench, link: LinkId, bytes: &[u8]) {
    let mut buffer = vec![0; 4_096];
    buffer[..bytes.len()].copy_from_slice(bytes);
    let len = bytes.len();
    bench.link(LinkInput::Datagram(
        link,
        ReadChunk {
            buffer,
            len,
            read_at: None,
        },
    ));
}

#[test]
fn a_heartbeat_does_not_wait_for_the_stream() {
    let (mut bench, link) = opened(1_000);
    // The first write is still under way: nothing more would be written to the stream now.
    bench.send(&peer(), heartbeat(peer()));
    let sent = datagrams(&mut bench);
    assert_eq!(sent, [(link, frame(&heartbeat(peer()), 1))]);
    let stats = bench.links.stats();
    assert_eq!(
        (stats.heartbeats_in_datagrams, stats.heartbeats_over_stream),
        (1, 0)
    );
    bench.send(&peer(), Message::Membership(MembershipMsg::Leave(peer())));
    assert!(
        datagrams(&mut bench).is_empty(),
        "anything else goes over the stream"
    );
}

#[test]
fn what_does_not_fit_or_is_not_taken_goes_over_the_stream_and_is_counted() {
    for max in [0, 20] {
        let (mut bench, link) = opened(max);
        bench.send(&peer(), heartbeat(peer()));
        assert!(datagrams(&mut bench).is_empty());
        bench.link(LinkInput::Written(link, Vec::new()));
        assert_eq!(bench.writes().len(), 1, "{max}");
        let stats = bench.links.stats();
        assert_eq!(
            (stats.heartbeats_in_datagrams, stats.heartbeats_over_stream),
            (0, 1)
        );
    }
}

#[test]
fn what_the_transport_refuses_goes_over_the_stream_and_so_does_the_next() {
    let (mut bench, link) = opened(1_000);
    bench.link(LinkInput::Written(link, Vec::new()));
    bench.send(&peer(), heartbeat(peer()));
    let sent = datagrams(&mut bench);
    // Says that the same length would still be taken: it was not.
    bench.links.datagram_unsent(link, &sent[0].1, 1_000);
    let written = bench.writes();
    assert_eq!(written, [(link, sent[0].1.clone())]);
    bench.send(&peer(), heartbeat(peer()));
    assert!(datagrams(&mut bench).is_empty());
    let stats = bench.links.stats();
    assert_eq!(
        (stats.heartbeats_in_datagrams, stats.heartbeats_over_stream),
        (0, 2)
    );
}

#[test]
fn a_datagram_is_heard_if_its_link_is_open_and_its_epoch_right() {
    let mut bench = Bench::new();
    let early = bench.knock().unwrap();
    receive(&mut bench, early, &frame(&heartbeat(me()), 1));
    assert!(bench.heard().is_empty(), "no handshake, nothing heard");
    let link = accepted_control(&mut bench);
    receive(&mut bench, link, &frame(&heartbeat(me()), 1));
    assert_eq!(bench.heard(), [Heard::Frame(peer(), Lane::Control)]);
    let resumed = bench.actions();
    let resumes = |action: &LinkOrder| matches!(action, LinkOrder::Resume { link: to, .. } if *to == link);
    assert!(resumed.iter().any(resumes), "the reader goes on");
    receive(&mut bench, link, &frame(&heartbeat(me()), 7));
    assert!(bench.heard().is_empty());
    let stats = bench.links.stats();
    assert_eq!((stats.frames_of_old_epoch, stats.frames_skipped), (1, 1));
}

#[test]
fn anything_but_one_whole_heartbeat_ends_the_link() {
    let whole = frame(&heartbeat(me()), 1);
    let two = [whole.clone(), whole.clone()].concat();
    let cut = whole[..whole.len() - 1].to_vec();
    let other = frame(&Message::Membership(MembershipMsg::Leave(me())), 1);
    for wrong in [two, cut, other, Vec::new(), b"GET / HTTP/1.1".to_vec()] {
        let mut bench = Bench::new();
        let link = accepted_control(&mut bench);
        receive(&mut bench, link, &wrong);
        let heard = bench.heard();
        assert!(!heard.contains(&Heard::Frame(peer(), Lane::Control)), "{wrong:?}");
        assert!(aborts(&bench.actions(), link), "{wrong:?}");
        assert_eq!(bench.links.stats().links_closed_for_violation, 1);
    }
}

#[test]
fn too_many_datagrams_are_beyond_the_rate_like_other_frames() {
    let mut bench = Bench::new();
    let link = accepted_control(&mut bench);
    for _ in 0..30_000 {
        receive(&mut bench, link, &frame(&heartbeat(me()), 1));
        bench.heard();
        bench.actions();
    }
    let beyond = bench.links.stats().control_frames_beyond_rate;
    assert!(beyond > 5_000, "{beyond}");
}
