//! Links that are replaced before they are too old: nothing is lost, nothing overtakes, and a successor that
//! fails costs nothing. Spec: reliability 3a (rotation).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use quorate_core::effect::Effect;
use quorate_core::input::{LinkEvent, SendTarget};
use quorate_core::message::{Lane, Message};
use quorate_core::wire::handshake::{Hello, HelloAnswer, HelloReject, RejectReason};

use super::{
    Bench, Heard, aborts, accepted_control, answer_bytes, entity, frame, heartbeat, hello, hello_with_epoch,
    me, node, peer, plain_hello,
};
use crate::order::{LinkId, LinkInput, LinkOrder};

const AGE: Duration = Duration::from_secs(8);

/// A node with an open control link to its peer, whose links live so long; the link.
fn opened() -> (Bench, LinkId) {
    opened_by(heartbeat(peer()))
}

/// The same with the link on which this message travels.
fn opened_by(message: Message) -> (Bench, LinkId) {
    let mut bench = Bench::new();
    bench.links.base.max_link_age = Some(AGE);
    bench.send(&peer(), message);
    let link = bench.dial();
    bench.answer(link, &peer());
    let first = bench.writes();
    assert_eq!(first.len(), 1);
    written(&mut bench, first);
    (bench, link)
}

fn written(bench: &mut Bench, writes: Vec<(LinkId, Vec<u8>)>) {
    for (link, buffer) in writes {
        bench.link(LinkInput::Written(link, buffer));
    }
}

/// Lets the link become old; the successor that is dialed.
fn successor(bench: &mut Bench) -> LinkId {
    bench.pass(4_900);
    assert!(bench.actions().is_empty(), "not yet");
    bench.pass(2_100);
    bench.dial()
}

fn drains(actions: &[LinkOrder], wanted: LinkId) -> bool {
    actions
        .iter()
        .any(|action| matches!(action, LinkOrder::Drain(link) if *link == wanted))
}

#[test]
fn a_link_is_replaced_make_before_break_and_nothing_overtakes() {
    let (mut bench, old) = opened();
    let new = successor(&mut bench);
    bench.send(&peer(), heartbeat(peer()));
    let during = bench.writes();
    assert_eq!(during.len(), 1, "the old link goes on: {during:?}");
    assert_eq!(during[0].0, old);

    bench.answer(new, &peer());
    let actions = bench.actions();
    assert!(drains(&actions, old) && !aborts(&actions, old));
    bench.send(&peer(), heartbeat(peer()));
    written(&mut bench, during);
    assert!(
        bench.writes().is_empty(),
        "the new link is silent until the old one was read"
    );

    bench.link(LinkInput::Closed(old));
    let after = bench.writes();
    assert_eq!(after.len(), 1);
    assert_eq!(after[0].0, new);
    let stats = bench.links.stats();
    assert_eq!(
        (stats.links_renewed, stats.dials, stats.handshakes_completed),
        (1, 2, 2)
    );
    let links = bench.links.outbound.links();
    assert_eq!((links.len(), links[0].handshakes, links[0].is_open), (1, 2, true));
    assert!(
        !bench
            .heard()
            .contains(&Heard::Link(LinkEvent::Down { peer: peer() }))
    );
    written(&mut bench, after);
    successor(&mut bench);
}

#[test]
fn what_was_encoded_for_the_old_link_goes_over_it_before_it_ends() {
    let (mut bench, old) = opened();
    let new = successor(&mut bench);
    bench.send(&peer(), heartbeat(peer()));
    let in_flight = bench.writes();
    bench.send(&peer(), heartbeat(peer()));
    bench.flush();
    bench.answer(new, &peer());
    let actions = bench.actions();
    let write = actions
        .iter()
        .position(|action| matches!(action, LinkOrder::Write { link, .. } if *link == old));
    let drain = actions
        .iter()
        .position(|action| matches!(action, LinkOrder::Drain(link) if *link == old));
    assert!(write.unwrap() < drain.unwrap(), "written, then ended");
    written(&mut bench, in_flight);
    bench.link(LinkInput::Closed(old));
    assert!(bench.writes().is_empty(), "nothing is left for the new one");
}

#[test]
fn the_successors_handshake_is_no_progress_of_the_link() {
    let (mut bench, old) = opened();
    let new = successor(&mut bench);
    bench.send(&peer(), heartbeat(peer()));
    let in_flight = bench.writes();
    assert_eq!(in_flight[0].0, old);
    bench.link(LinkInput::Dialed(new));
    let hello = bench.writes();
    assert_eq!(hello[0].0, new);
    bench.send(&peer(), heartbeat(peer()));
    written(&mut bench, hello);
    assert!(
        bench.writes().is_empty(),
        "one write at a time, and none before the handshake is over"
    );
    written(&mut bench, in_flight);
    let next = bench.writes();
    assert_eq!((next.len(), next[0].0), (1, old));
}

#[test]
fn a_successor_that_cannot_be_opened_costs_nothing_and_is_tried_again() {
    let (mut bench, old) = opened();
    let new = successor(&mut bench);
    bench.fail_dial(new);
    bench.send(&peer(), heartbeat(peer()));
    let writes = bench.writes();
    assert_eq!(writes[0].0, old);
    let stats = bench.links.stats();
    assert_eq!((stats.renewals_failed, stats.dials_failed), (1, 1));
    bench.pass(1_001);
    let again = bench.dial();
    bench.link(LinkInput::Dialed(again));
    bench.pass(20_000);
    assert!(aborts(&bench.actions(), again), "no answer in time");
    assert_eq!(bench.links.stats().renewals_failed, 2);
    assert!(
        !bench
            .heard()
            .contains(&Heard::Link(LinkEvent::Down { peer: peer() }))
    );
}

#[test]
fn an_old_link_that_breaks_or_is_not_read_in_time_is_given_up_and_only_what_was_asked_on_it_is_lost() {
    let down = Heard::Link(LinkEvent::Down { peer: peer() });
    for (breaks, asks) in [(true, true), (true, false), (false, true), (false, false)] {
        let message = || if asks { entity(10) } else { heartbeat(peer()) };
        let (mut bench, old) = opened_by(message());
        let new = successor(&mut bench);
        bench.answer(new, &peer());
        bench.send(&peer(), message());
        assert!(bench.writes().is_empty());
        if breaks {
            bench.link(LinkInput::Broken(old));
        } else {
            // A user link may be paused for long.
            bench.pass(31_000);
        }
        let actions = bench.actions();
        assert!(aborts(&actions, old), "breaks: {breaks}");
        assert_eq!(bench.links.stats().renewals_cut_short, 1);
        // Asks travel on the user link; what else may be lost is said again.
        let heard = bench.heard();
        assert_eq!(heard.contains(&down), asks, "{heard:?}");
        let wrote = actions
            .iter()
            .any(|action| matches!(action, LinkOrder::Write { link, .. } if *link == new));
        assert!(wrote, "the new link speaks");
    }
}

#[test]
fn a_link_that_breaks_takes_its_successor_with_it() {
    let (mut bench, old) = opened();
    let new = successor(&mut bench);
    bench.link(LinkInput::Closed(old));
    let actions = bench.actions();
    assert!(aborts(&actions, old) && aborts(&actions, new));
    bench.send(&peer(), heartbeat(peer()));
    bench.pass(100);
    bench.dial();
}

#[test]
fn a_link_that_ends_in_the_turn_in_which_its_successor_opens_does_not_silence_it() {
    let (mut bench, old) = opened();
    let new = successor(&mut bench);
    bench.link(LinkInput::Dialed(new));
    // A heartbeat of this very turn stands in the list of links to write, as the old link.
    bench.send(&peer(), heartbeat(peer()));
    bench.consent(new, &peer());
    bench.link(LinkInput::Broken(old));
    bench.actions();
    bench.send(&peer(), heartbeat(peer()));
    let writes = bench.writes();
    assert_eq!(writes.len(), 1);
    assert_eq!(writes[0].0, new);
}

#[test]
fn a_link_that_cannot_be_renewed_is_cut_when_it_is_too_old() {
    let (mut bench, old) = opened();
    let mut cut_after = None;
    for second in 1..30 {
        bench.pass(1_000);
        let actions = bench.actions();
        for action in &actions {
            if let LinkOrder::Dial { link, .. } = action {
                bench.fail_dial(*link);
            }
        }
        if aborts(&actions, old) {
            cut_after = Some(second);
            break;
        }
    }
    // Eight seconds and the time for a handshake.
    assert!(matches!(cut_after, Some(13 | 14)), "{cut_after:?}");
    let stats = bench.links.stats();
    assert_eq!(stats.links_expired, 1);
    assert!(stats.renewals_failed >= 5, "{stats:?}");
    assert!(
        bench
            .heard()
            .contains(&Heard::Link(LinkEvent::Down { peer: peer() }))
    );
}

#[test]
fn the_accepting_side_cuts_a_link_that_its_dialer_does_not_renew() {
    let mut bench = Bench::new();
    bench.links.base.max_link_age = Some(AGE);
    let old = accepted_control(&mut bench);
    bench.receive(old, &frame(&heartbeat(me()), 1));
    bench.pass(12_900);
    assert!(!aborts(&bench.actions(), old));
    bench.pass(200);
    assert!(aborts(&bench.actions(), old));
    let stats = bench.links.stats();
    assert_eq!((stats.links_expired, stats.links_open), (1, 0));
    assert!(
        bench
            .heard()
            .contains(&Heard::Link(LinkEvent::Down { peer: peer() }))
    );
}

#[test]
fn the_accepting_side_lets_a_renewed_link_be_read_to_its_end_however_old_it_is() {
    let mut bench = Bench::bound();
    bench.links.base.max_link_age = Some(AGE);
    let old = accepted_control(&mut bench);
    bench.pass(7_000);
    let new = hello_with_epoch(&mut bench, 2);
    bench.actions();
    bench.pass(12_000);
    assert!(!aborts(&bench.actions(), old), "it was renewed in time");
    bench.pass(1_500);
    let actions = bench.actions();
    assert!(
        aborts(&actions, new) && aborts(&actions, old),
        "its successor was not"
    );
    assert_eq!(bench.links.stats().links_expired, 2);
}

#[test]
fn the_accepting_side_reads_the_old_link_to_its_end_and_ends_it_in_good_order() {
    let mut bench = Bench::bound();
    let old = accepted_control(&mut bench);
    let new = hello_with_epoch(&mut bench, 2);
    bench.receive(old, &frame(&heartbeat(me()), 1));
    bench.link(LinkInput::Closed(old));
    let finished = bench.actions();
    assert!(
        finished
            .iter()
            .any(|action| matches!(action, LinkOrder::Finish(link) if *link == old)),
        "the dialer waits for this"
    );
    bench.receive(new, &frame(&heartbeat(me()), 2));
    let frame = || Heard::Frame(peer(), Lane::Control);
    assert_eq!(
        bench.heard(),
        [frame(), frame()],
        "both, in order, and no loss is said"
    );
}

#[test]
fn silent_successors_do_not_pile_up() {
    let mut bench = Bench::bound();
    accepted_control(&mut bench);
    for epoch in 2..100 {
        hello_with_epoch(&mut bench, epoch);
    }
    assert_eq!(bench.links.stats().links_open, 2);
}

/// The peer's successor greets this node, whose link reaches the peer.
fn another_incarnation(bench: &mut Bench) {
    let link = bench.knock().unwrap();
    bench.actions();
    let from = node(2, 99);
    bench.receive(
        link,
        &hello(Hello {
            from,
            ..plain_hello()
        }),
    );
}

#[test]
fn a_link_to_an_incarnation_that_is_gone_ends_when_its_successor_greets() {
    let (mut bench, old) = opened();
    another_incarnation(&mut bench);
    let look = bench.dial();
    bench.link(LinkInput::Dialed(look));
    let reject = HelloReject {
        reason: RejectReason::WrongIncarnation { found: 99 },
        versions: (1, 1),
    };
    bench.receive(look, &answer_bytes(&HelloAnswer::Reject(reject)));
    assert!(aborts(&bench.actions(), old));
    let down = Heard::Link(LinkEvent::Down { peer: peer() });
    assert!(bench.heard().contains(&down));
    // What is meant for whoever lives there goes to the successor.
    bench.says(Effect::Send {
        to: SendTarget::Address(peer().address().clone()),
        message: heartbeat(node(2, 99)),
    });
    bench.pass(100);
    let new = bench.dial();
    let hello = bench.answer(new, &node(2, 99));
    assert_eq!(hello.expected_uid, None);
    assert_eq!(
        bench.writes(),
        [(new, frame(&heartbeat(node(2, 99)), hello.epoch))]
    );
}

#[test]
fn a_link_to_an_incarnation_that_is_still_there_loses_nothing_when_another_greets() {
    let (mut bench, old) = opened();
    bench.links.base.authentication = Box::new(super::Bound);
    another_incarnation(&mut bench);
    let new = bench.dial();
    assert_eq!(bench.answer(new, &peer()).expected_uid, Some(2));
    let actions = bench.actions();
    assert!(drains(&actions, old) && !aborts(&actions, old));
    another_incarnation(&mut bench);
    let dials = |action: &LinkOrder| matches!(action, LinkOrder::Dial { .. });
    assert!(!bench.actions().iter().any(dials), "one look at a time");
    assert_eq!(bench.heard().len(), 0);
}

#[test]
fn a_look_that_hears_nothing_is_given_up_within_a_second_and_the_link_goes_on() {
    let (mut bench, old) = opened();
    another_incarnation(&mut bench);
    let look = bench.dial();
    bench.link(LinkInput::Dialed(look));
    bench.pass(900);
    assert!(!aborts(&bench.actions(), look), "not yet");
    bench.pass(200);
    let actions = bench.actions();
    assert!(aborts(&actions, look) && !aborts(&actions, old));
    bench.send(&peer(), heartbeat(peer()));
    let writes = bench.writes();
    assert_eq!(writes.first().map(|(link, _)| *link), Some(old));
}
