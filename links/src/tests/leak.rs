//! What nothing else holds: that a link which ends gives back what it drew, and that what was counted on it
//! is forgotten in its time. Spec: reliability 3b, 3c (B-14), I-91, I-93.

use core::net::Ipv4Addr;

use quorate_core::wire::handshake::LinkKind;

use super::{Bench, aborts, entity, frame, gossip_header, heartbeat, me, peer};
use crate::order::{LinkInput, ReadChunk};

const HOME: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

#[test]
fn i_91_a_link_that_ends_in_the_middle_of_a_frame_gives_back_all_that_it_drew() {
    let mut bench = Bench::new();
    for _ in 0..1_000 {
        let link = bench.member(peer(), HOME).unwrap();
        // A buffer that grew, and a frame that has begun.
        let mut begun = gossip_header(4 << 20, 1);
        begun.resize(4 << 10, 0);
        let len = begun.len();
        bench.link(LinkInput::Received(
            link,
            ReadChunk {
                buffer: begun,
                len,
                read_at: None,
            },
        ));
        assert!(bench.links.stats().inbound_bytes_held > 4 << 20);
        bench.link(LinkInput::Broken(link));
        bench.actions();
        assert_eq!(bench.links.stats().inbound_bytes_held, 0);
    }
}

#[test]
fn b_14_wrong_checksums_are_forgotten_after_ten_seconds() {
    let mut bench = Bench::new();
    let link = bench.member(peer(), HOME).unwrap();
    let mut bad = frame(&heartbeat(me()), 1);
    *bad.last_mut().unwrap() ^= 1;
    for _ in 0..20 {
        bench.receive(link, &bad);
        assert!(!aborts(&bench.actions(), link));
        bench.pass(5_500);
    }
}

#[test]
fn a_datagram_on_a_user_link_ends_it_and_reaches_nobody() {
    let mut bench = Bench::new();
    let link = bench.greeted(peer(), HOME, LinkKind::User).unwrap();
    let buffer = frame(&heartbeat(me()), 1);
    let len = buffer.len();
    bench.link(LinkInput::Datagram(
        link,
        ReadChunk {
            buffer,
            len,
            read_at: None,
        },
    ));
    assert!(aborts(&bench.actions(), link));
    assert!(bench.heard().is_empty());
}

#[test]
fn i_93_a_second_link_of_the_same_epoch_is_refused_and_the_first_goes_on() {
    let mut bench = Bench::bound();
    let first = bench.greeted(peer(), HOME, LinkKind::User).unwrap();
    assert!(bench.greeted(peer(), HOME, LinkKind::User).is_none());
    assert_eq!(bench.links.stats().refused_other, 1);
    bench.receive(first, &frame(&entity(1), 1));
    bench.read_users(1);
    assert_eq!(bench.heard().len(), 1);
}
