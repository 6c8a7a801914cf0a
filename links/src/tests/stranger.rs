//! Floods of those who have proved nothing, and of those who are no members: whom they keep out, what they
//! hold, when they go. Spec: reliability 3b, F-29, B-52, issue 12 "Strangers".

use alloc::vec::Vec;
use core::net::Ipv4Addr;

use quorate_core::config::Config;
use quorate_core::ident::{ClusterName, Roles, UniqueAddress};
use quorate_core::membership::app_version::AppVersion;
use quorate_core::message::{Join, Lane, MembershipMsg, Message};
use quorate_core::node::Node;
use quorate_core::time::Now;
use quorate_core::wire::handshake::LinkKind;
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use super::bulk::frame_on;
use super::{Bench, Heard, aborts, entity, frame, gossip_header, heartbeat, me, node, peer};
use crate::budget::LINK_BYTES;
use crate::order::{LinkId, LinkOrder};
use crate::recipient::LinkRecipient;

/// The defaults.
const PENDING_MAX: u64 = 512;
const STRANGERS_MAX: u64 = 256;
const STRANGERS_PER_SOURCE_MAX: u64 = 8;

const HOME: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

fn elsewhere(number: usize) -> Ipv4Addr {
    let [.., c, d] = u32::try_from(number).unwrap().to_be_bytes();
    Ipv4Addr::new(127, 9, c, d)
}

/// A node that is no member.
fn stranger(uid: u64) -> UniqueAddress {
    node(9, uid)
}

fn with_strangers(bench: &mut Bench, uids: core::ops::Range<u64>) {
    bench.node.strangers.extend(uids.map(stranger));
}

fn gone(bench: &mut Bench) -> usize {
    let actions = bench.actions();
    let ended = |action: &&LinkOrder| matches!(action, LinkOrder::Abort(_) | LinkOrder::Finish(_));
    actions.iter().filter(ended).count()
}

fn join() -> Message {
    Message::Membership(MembershipMsg::Join(Join {
        to: me(),
        roles: Roles::default(),
        app_version: AppVersion::default(),
    }))
}

#[test]
fn idle_handshakes_use_up_no_link_and_keep_no_member_out() {
    for sources in [1, 290] {
        let mut bench = Bench::new();
        for number in 0..4_500 {
            assert!(bench.knock_from(elsewhere(number % sources)).is_some());
        }
        let stats = bench.links.stats();
        assert!(stats.handshakes_pending <= PENDING_MAX, "{stats:?}");
        assert_eq!(
            stats.inbound_bytes_held, 0,
            "they have no part in the members' bytes"
        );
        for uid in 0..1_000 {
            let link = bench.member(node(2, uid), HOME);
            assert!(link.is_some(), "{sources} sources, member {uid}");
        }
    }
}

#[test]
fn a_fast_flood_from_many_sources_evicts_an_honest_handshake_rarely() {
    let mut bench = Bench::new();
    let mut knocks = 0;
    let mut flood = |bench: &mut Bench, count: usize| {
        for _ in 0..count {
            knocks += 1;
            bench.knock_from(elsewhere(knocks % 4_096));
        }
    };
    flood(&mut bench, 5_000);
    let mut opened = 0;
    for uid in 0..200 {
        // A hundred knocks of others within this one's handshake.
        let link = bench
            .knock_from(elsewhere(10_000 + usize::try_from(uid).unwrap()))
            .unwrap();
        flood(&mut bench, 100);
        opened += u64::from(bench.greet(link, node(2, uid), LinkKind::Control));
    }
    assert!(opened >= 140, "{opened} of 200 at the first try");
}

#[test]
fn no_flood_from_elsewhere_displaces_the_handshake_of_a_member_that_comes_back() {
    let mut bench = Bench::new();
    bench.member(peer(), HOME).unwrap();
    for uid in 100..120 {
        let link = bench.knock_from(HOME).unwrap();
        // All places change hands twice within its handshake.
        for number in 0..1_024 {
            bench.knock_from(elsewhere(number));
        }
        assert!(bench.greet(link, node(2, uid), LinkKind::Control), "{uid}");
    }
}

#[test]
fn the_only_handshake_of_its_source_does_not_go_while_others_have_more() {
    let mut bench = Bench::new();
    let honest = bench.knock_from(HOME).unwrap();
    for number in 0..20_000 {
        bench.knock_from(elsewhere(number % 100));
    }
    assert!(bench.greet(honest, peer(), LinkKind::Control));
}

#[test]
fn whoever_is_behind_the_address_of_a_member_is_judged_by_proof_and_not_by_count() {
    let mut bench = Bench::new();
    bench.member(peer(), HOME).unwrap();
    bench.actions();
    let knocks: Vec<LinkId> = (0..200).map(|_| bench.knock_from(HOME).unwrap()).collect();
    assert_eq!(gone(&mut bench), 0);
    for (uid, link) in (100..).zip(knocks) {
        assert!(bench.greet(link, node(2, uid), LinkKind::Control));
    }
    // Once no member is behind it any more, it is a source like any other.
    bench.node.strangers = (100..300).map(|uid| node(2, uid)).chain([peer()]).collect();
    bench.pass(10_000);
    bench.actions();
    for _ in 0..17 {
        bench.knock_from(HOME);
    }
    assert_eq!(gone(&mut bench), 1);
}

#[test]
fn members_have_their_places_whatever_strangers_do() {
    let mut bench = Bench::limited(|_, limits| limits.links_max = 16);
    with_strangers(&mut bench, 0..10_000);
    for uid in 0..10_000 {
        let source = elsewhere(usize::try_from(uid).unwrap() / 2);
        assert!(bench.greeted(stranger(uid), source, LinkKind::Control).is_some());
    }
    assert_eq!(bench.links.stats().stranger_links, STRANGERS_MAX);
    for uid in 0..16 {
        assert!(bench.member(node(2, uid), HOME).is_some(), "{uid}");
    }
    assert!(bench.member(node(2, 16), HOME).is_none(), "these are all");
    assert_eq!(bench.links.stats().refused_too_many, 1);
}

#[test]
fn a_source_has_a_few_strangers_and_who_did_not_ask_to_join_goes_first() {
    let mut bench = Bench::new();
    with_strangers(&mut bench, 0..100);
    let joiner = bench.greeted(stranger(99), HOME, LinkKind::Control).unwrap();
    bench.receive(joiner, &frame(&join(), 1));
    for uid in 0..50 {
        bench.greeted(stranger(uid), HOME, LinkKind::Control).unwrap();
    }
    let stats = bench.links.stats();
    assert_eq!(stats.stranger_links, STRANGERS_PER_SOURCE_MAX);
    assert_eq!(stats.strangers_displaced, 51 - STRANGERS_PER_SOURCE_MAX);
    bench.actions();
    bench.pass(4_999);
    assert_eq!(gone(&mut bench), 0);
    bench.pass(1);
    assert_eq!(gone(&mut bench), 7, "they had the time of a handshake to ask");
    assert_eq!(bench.links.stats().strangers_closed_unasked, 7);
    bench.receive(joiner, &frame(&join(), 1));
    assert!(!aborts(&bench.actions(), joiner));
    bench.pass(60_000);
    assert!(aborts(&bench.actions(), joiner), "silence ends it");
}

#[test]
fn half_frames_of_strangers_take_no_room_from_a_member() {
    let mut bench = Bench::new();
    with_strangers(&mut bench, 0..300);
    let member = bench.member(peer(), HOME).unwrap();
    let idle = bench.links.stats().inbound_bytes_held;
    for uid in 0..300 {
        let source = elsewhere(usize::try_from(uid).unwrap());
        let link = bench.greeted(stranger(uid), source, LinkKind::Control).unwrap();
        // Half of the largest legal frame.
        let mut begun = gossip_header(4 << 20, 1);
        begun.resize(4 << 10, 0);
        bench.receive(link, &begun);
    }
    assert_eq!(bench.links.stats().inbound_bytes_held, idle);
    assert_eq!(bench.links.stats().stranger_frames_skipped, 300);
    let user = bench.greeted(peer(), HOME, LinkKind::User).unwrap();
    let large = frame(&entity(1_000_000), 1);
    for piece in large.chunks(60_000) {
        bench.receive(user, piece);
        bench.read_users(64);
    }
    bench.receive(member, &frame(&heartbeat(me()), 1));
    let frames = [Lane::User, Lane::Control].map(|lane| Heard::Frame(peer(), lane));
    let mut heard = bench.heard();
    heard.retain(|heard| matches!(heard, Heard::Frame(..)));
    assert_eq!(heard, frames);
    assert_eq!(bench.links.stats().inbound_waits, 0);
}

#[test]
fn a_large_frame_of_a_stranger_is_thrown_away_however_it_is_cut_and_what_follows_is_heard() {
    let large = frame(&entity(9_000), 1);
    let mut gossip = gossip_header(9_000, 1);
    gossip.resize(20 + 9_000, 7);
    assert!(large.len() > 4 << 10);
    let whole = [gossip, frame(&heartbeat(me()), 1)].concat();
    for size in [1, 7, 19, 20, 21, 4_000] {
        let mut bench = Bench::new();
        with_strangers(&mut bench, 1..2);
        let link = bench.greeted(stranger(1), HOME, LinkKind::Control).unwrap();
        for piece in whole.chunks(size) {
            bench.receive(link, piece);
        }
        assert_eq!(
            bench.heard(),
            [Heard::Frame(stranger(1), Lane::Control)],
            "{size}"
        );
        assert_eq!(bench.links.stats().stranger_frames_skipped, 1, "{size}");
    }
}

#[test]
fn a_joiner_gathers_the_welcome_that_it_asked_for() {
    let mut welcome = gossip_header(100_000, 1);
    welcome[4..6].copy_from_slice(&MembershipMsg::WELCOME.kind.to_le_bytes());
    for (asked, held) in [(true, 100_020), (false, 0)] {
        let mut bench = Bench::new();
        with_strangers(&mut bench, 1..2);
        bench
            .node
            .hears
            .extend(asked.then_some(MembershipMsg::WELCOME.kind));
        let link = bench.greeted(stranger(1), HOME, LinkKind::Control).unwrap();
        bench.receive(link, &welcome);
        assert_eq!(bench.links.stats().inbound_bytes_held, held);
    }
}

#[test]
fn what_a_member_of_whom_this_node_has_not_heard_says_to_entities_waits_and_is_read() {
    for closes in [false, true] {
        let mut bench = Bench::new();
        with_strangers(&mut bench, 1..2);
        let link = bench.greeted(stranger(1), HOME, LinkKind::User).unwrap();
        bench.receive(link, &frame(&entity(100), 1));
        if closes {
            bench.link(super::LinkInput::Closed(link));
        }
        bench.read_users(64);
        bench.pass(4_000);
        bench.actions();
        assert!(bench.heard().is_empty());
        bench.node.strangers.clear();
        bench.node.revision += 1;
        bench.actions();
        bench.read_users(64);
        assert_eq!(bench.heard(), [Heard::Frame(stranger(1), Lane::User)]);
        bench.pass(10_000);
        let open = u64::from(!closes);
        let stats = bench.links.stats();
        assert_eq!((stats.links_open, stats.stranger_links), (open, 0));
        assert_eq!(stats.inbound_bytes_held, open * LINK_BYTES as u64);
    }
}

#[test]
fn what_a_stranger_says_to_entities_is_never_read_and_ends_with_its_link() {
    let mut bench = Bench::new();
    with_strangers(&mut bench, 1..2);
    let link = bench.greeted(stranger(1), HOME, LinkKind::User).unwrap();
    bench.actions();
    bench.receive(link, &frame(&entity(100), 1));
    bench.read_users(64);
    assert!(bench.actions().is_empty(), "nothing more is read of it");
    bench.pass(5_000);
    assert!(aborts(&bench.actions(), link));
    assert!(bench.heard().is_empty());
}

#[test]
fn whom_a_joiner_turned_to_may_stay_and_another_stranger_goes() {
    for turned_to in [true, false] {
        let mut bench = Bench::new();
        with_strangers(&mut bench, 1..2);
        if turned_to {
            bench.send(&stranger(1), heartbeat(stranger(1)));
            let link = bench.dial();
            bench.answer(link, &stranger(1));
        }
        let link = bench.greeted(stranger(1), HOME, LinkKind::User).unwrap();
        bench.actions();
        bench.pass(5_000);
        assert_eq!(aborts(&bench.actions(), link), !turned_to);
    }
}

#[test]
fn a_node_hears_as_a_recipient_what_it_hears_otherwise() {
    let config = Config::lan(ClusterName::new("c").unwrap()).validate().unwrap();
    let node = Node::new(config, me(), ChaCha8Rng::seed_from_u64(1), Now::default());
    let kinds = [
        MembershipMsg::JOIN,
        MembershipMsg::INIT_JOIN,
        MembershipMsg::WELCOME,
    ];
    let heard = kinds.map(|tag| {
        let heard = node.hears(&peer(), tag.kind);
        assert_eq!(LinkRecipient::hears(&node, &peer(), tag.kind), heard, "{tag:?}");
        heard
    });
    assert!(heard.contains(&true), "{heard:?}");
}

#[test]
fn strangers_of_a_source_that_breaks_the_protocol_are_refused_and_members_there_are_not() {
    let mut bench = Bench::new();
    with_strangers(&mut bench, 0..100);
    let violate = |bench: &mut Bench, uid, source| {
        let link = bench.greeted(stranger(uid), source, LinkKind::Control).unwrap();
        // A lane of the other link.
        bench.receive(link, &frame(&entity(1), 1));
        assert!(aborts(&bench.actions(), link));
    };
    for uid in 0..3 {
        violate(&mut bench, uid, elsewhere(1));
    }
    assert!(bench.knock_from(elsewhere(1)).is_none());
    assert_eq!(bench.links.stats().refused_unruly, 1);
    assert!(bench.knock_from(elsewhere(2)).is_some());
    bench.pass(60_000);
    assert!(bench.knock_from(elsewhere(1)).is_some());

    bench.member(peer(), HOME).unwrap();
    for uid in 3..6 {
        violate(&mut bench, uid, HOME);
    }
    assert!(bench.member(node(2, 50), HOME).is_some());
    for uid in 10..20 {
        assert!(bench.greeted(stranger(uid), HOME, LinkKind::Control).is_some());
    }
    assert_eq!(bench.links.stats().stranger_links, 1, "one place for all of them");
}

#[test]
fn when_the_system_has_no_sockets_one_who_has_proved_nothing_goes() {
    let mut bench = Bench::new();
    bench.member(peer(), HOME).unwrap();
    bench.links.short_of_sockets();
    bench.actions();
    let pending = bench.knock_from(elsewhere(1)).unwrap();
    bench.links.short_of_sockets();
    assert!(aborts(&bench.actions(), pending));
    assert_eq!(bench.links.stats().links_open, 1);
}

#[test]
fn after_a_hundred_thousand_connections_nothing_is_left_of_them() {
    let mut bench = Bench::new();
    for number in 0..100_000 {
        bench.knock_from(elsewhere(number % 9_000));
        bench.links.next_order();
    }
    bench.pass(5_000);
    bench.actions();
    let stats = bench.links.stats();
    assert_eq!(
        (
            stats.links_open,
            stats.handshakes_pending,
            stats.inbound_bytes_held
        ),
        (0, 0, 0)
    );
    let sweep = bench.links.deadline().unwrap();
    bench.pass(5_000);
    assert!(
        bench.links.deadline().unwrap() > sweep,
        "no timer of theirs is left"
    );
}

#[test]
fn the_bulk_link_of_a_node_not_heard_of_yet_waits_within_its_bytes_and_is_read_then() {
    let mut bench = Bench::new();
    with_strangers(&mut bench, 0..1);
    let link = bench.greeted(stranger(0), HOME, LinkKind::Bulk).unwrap();
    bench.heard();
    bench.actions();
    bench.receive(link, &frame_on(Lane::Bulk, 1));
    assert_eq!(bench.heard(), [], "nothing of it is looked at");
    let resumes = |action: &LinkOrder| matches!(action, LinkOrder::Resume { link: of, .. } if *of == link);
    assert!(!bench.actions().iter().any(resumes), "nor is more read");
    bench.node.strangers.clear();
    bench.node.revision += 1;
    assert!(bench.actions().iter().any(resumes));
    assert_eq!(bench.heard(), [Heard::Frame(stranger(0), Lane::Bulk)]);
}
