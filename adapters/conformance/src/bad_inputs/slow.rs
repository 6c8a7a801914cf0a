//! The rows that take time, many links, or a node of their own.

use std::time::Duration;

use quorate_core::agreement::{Differences, SettingDifference};
use quorate_core::config::DowningStrategy;
use quorate_core::effect::HaltReason;
use quorate_core::event::{Event, JoinFailure, SeedCause};
use quorate_core::message::MembershipMsg;
use quorate_core::reject::{MembershipRejection, Rejection};
use quorate_core::wire::handshake::{HelloAnswer, RejectReason};
use quorate_driver::spi::Adapter;
use quorate_driver::{ClusterError, ClusterEvent, Security, Termination, security::Method};

use super::craft::{CONTROL, GOSSIP, addressed, frame, hello};
use super::state::StateColumns;
use super::{Attacker, LinkWriter, RowSpeaker, join_as, picture, quiet, refusal_of, rest, rows, say, stats};
use crate::strangers::{LinkStranger, goes_on, impatient};
use crate::support::{all_up, cluster, eventually, first, node, sleep, within};

/// Far from what any honest peer does.
const GOSSIPS_PER_SECOND: u32 = 10;

/// Links that one source opens at once.
const CONNECTIONS: usize = 200;

/// B-11, B-12, B-16: a hello or a frame whose end does not come, at once or ever, is given up.
pub async fn half_a_frame_and_bytes_that_dribble_are_cut_off<A: Adapter>(security: &Security) {
    let target = impatient::<A>(security).await;
    let to = target.address().clone();
    let mut attacker = Attacker::new::<A>(&to, security).await;

    // B-12: a byte now and then is not enough for a handshake.
    let whole = hello((1, 1), b"127.0.0.1", 9, &to, "conformance");
    let (mut reader, mut writer) = attacker.stranger.dial(to.address()).await;
    for byte in whole.iter().take(12) {
        say(&mut writer, &[*byte]).await;
        sleep::<A>(Duration::from_millis(200)).await;
    }
    assert_eq!(within::<A, _>("the node hangs up", rest(&mut reader)).await, b"");
    assert_eq!(stats(&target).await.links.refused_timeout, 1);

    // B-11: half a frame, then silence.
    let mut scene = attacker.somebody(RowSpeaker::Stranger);
    let (mut reader, mut writer) = attacker.open::<A>(&mut scene, false).await;
    // Who asks to join may stay: no settings.
    let ask = frame(CONTROL, MembershipMsg::INIT_JOIN.kind, scene.epoch, &[0; 1]);
    say(&mut writer, &ask).await;
    eventually::<A>("it is heard", async || {
        stats(&target).await.core.node.frames_received > 0
    })
    .await;
    let bytes = rows::probe(&scene, false);
    say(&mut writer, &bytes[..bytes.len() - 1]).await;
    within::<A, _>("the node hangs up", rest(&mut reader)).await;
    assert_eq!(stats(&target).await.links.links_closed_for_stalled_frame, 1);

    // B-16: the end in the middle of a frame is an end, and nothing else.
    let mut scene = attacker.somebody(RowSpeaker::Stranger);
    let (_reader, mut writer) = attacker.open::<A>(&mut scene, false).await;
    say(&mut writer, &bytes[..bytes.len() / 2]).await;
    let _ = writer.close().await;
    eventually::<A>("the link is gone", async || {
        stats(&target).await.links.stranger_links == 0
    })
    .await;
    goes_on::<A>(&target, security).await;
}

/// B-51: gossip beyond the rate is dropped; beyond patience its link is closed; the others do not notice.
pub async fn a_flood_of_gossip_is_dropped_and_then_cut_off<A: Adapter>(security: &Security) {
    let limited = quiet::<A>(security).link_limits(|limits| {
        limits.gossip_frames_per_second_max = GOSSIPS_PER_SECOND;
        limits.rate_exceeded_patience = Duration::from_secs(1);
    });
    let limited = limited.config(|config| {
        // Two nodes need a few gossips per second while one joins.
        config.membership.gossip_interval = Duration::from_secs(1);
    });
    let target = first::<A>(limited).await;
    let to = target.address().clone();
    let other = quiet::<A>(security).config(|config| {
        config.membership.gossip_interval = Duration::from_secs(1);
    });
    let other = other.seeds([to.address()]).start().await;
    let other = other.expect("the other node starts");
    all_up::<A>(&target, 2).await;
    let honest = [to.clone(), other.address().clone()];
    let before = picture(&target, &honest);

    let mut attacker = Attacker::new::<A>(&to, security).await;
    let mut scene = attacker.somebody(RowSpeaker::Stranger);
    let (mut reader, mut writer) = attacker.open::<A>(&mut scene, false).await;
    let state = StateColumns::of(&[&scene.to, &scene.me]).bytes();
    let body = addressed(&scene.to, &[&[0], &state[..]].concat());
    let burst = frame(GOSSIP, MembershipMsg::GOSSIP.kind, scene.epoch, &body).repeat(500);
    let flood = async {
        loop {
            if writer.write_all(&burst).await.is_err() {
                return;
            }
            sleep::<A>(Duration::from_millis(50)).await;
        }
    };
    let listening = async {
        rest(&mut reader).await;
    };
    let ended = crate::support::race(flood, listening);
    within::<A, _>("the node hangs up", ended).await;
    eventually::<A>("the link is closed for its rate", async || {
        stats(&target).await.links.links_closed_for_rate == 1
    })
    .await;
    let counted = stats(&target).await;
    assert!(counted.links.gossip_frames_beyond_rate > 1_000, "{counted:?}");
    // What passed was from nobody: dropped as such.
    assert!((1..100).contains(&counted.core.node.rejected), "{counted:?}");
    assert_eq!(picture(&target, &honest), before);
}

/// B-52: one source may have a few handshakes open; for the next one, one of them goes. A source from which a
/// member has a link is not counted, so that a flood from there keeps no member out. For transports on which
/// every link is a connection.
pub async fn a_flood_of_connections_of_one_source_is_cut_off<A: Adapter>(security: &Security) {
    let target = first::<A>(node::<A>(security)).await;
    let to = target.address().address();
    let stranger = LinkStranger::new::<A>(security).await;
    let mut held = Vec::new();
    for _ in 0..CONNECTIONS {
        // A transport with a handshake of its own hears at once that it was cut off.
        held.extend(within::<A, _>("a dial", stranger.try_dial(to)).await);
    }
    let max = 16;
    eventually::<A>("all but a few are refused", async || {
        stats(&target).await.links.refused_too_many == (CONNECTIONS - max) as u64
    })
    .await;
    drop(held);
    goes_on::<A>(&target, security).await;

    let nodes = cluster::<A>(2, security).await;
    let to = nodes[0].address().address();
    let mut held = Vec::new();
    for _ in 0..CONNECTIONS {
        held.extend(within::<A, _>("a dial", stranger.try_dial(to)).await);
    }
    goes_on::<A>(&nodes[0], security).await;
    all_up::<A>(&nodes[1], 2).await;
    assert_eq!(stats(&nodes[0]).await.links.refused_too_many, 0);
}

/// B-05: a link without TLS to a port that wants it. For adapters that can do both.
pub async fn plain_bytes_on_a_protected_port_are_refused<A: Adapter>(security: &Security) {
    if security.method() == Method::InsecurePlaintext {
        return;
    }
    let target = impatient::<A>(security).await;
    let to = target.address().clone();
    let stranger = LinkStranger::new::<A>(&Security::insecure_plaintext()).await;
    let said = hello((1, 1), b"127.0.0.1", 9, &to, "conformance");
    let (mut reader, mut writer) = stranger.dial(to.address()).await;
    say(&mut writer, &said).await;
    let heard = within::<A, _>("the node hangs up", rest(&mut reader)).await;
    // An alert, a refusal of Noise, or nothing; no answer to the hello.
    let refusal = heard.is_empty() || heard[0] == 0x15 || heard == b"Qrn0";
    assert!(refusal, "{heard:?}");
    eventually::<A>("it is counted", async || {
        stats(&target).await.links.handshakes_refused == 1
    })
    .await;
    assert_eq!(stats(&target).await.links.handshakes_completed, 0);
    goes_on::<A>(&target, security).await;
}

/// B-47: settings that all nodes must share differ: the joiner hears from every seed which they are, with
/// both values, and stops; the seeds' users hear it too, and the cluster is as before.
pub async fn a_joiner_with_other_settings_is_told_and_stops<A: Adapter>(security: &Security) {
    let currency = |value| node::<A>(security).check_on_join("billing.currency", value);
    let first = first::<A>(currency("EUR")).await;
    let second = currency("EUR").seeds([first.address().address()]).start().await;
    let second = second.expect("the second starts");
    all_up::<A>(&first, 2).await;
    let mut events = first.events();
    let other = currency("USD")
        .config(|config| config.downing.strategy = DowningStrategy::DownAll)
        .seeds([first.address().address(), second.address().address()]);
    let joiner = other.start().await.expect("the joiner starts");
    let error = within::<A, _>("the joiner stops", joiner.up()).await;
    let Err(ClusterError::NotJoined { halted, cause }) = error else {
        panic!("{error:?}")
    };
    assert_eq!(halted, HaltReason::IncompatibleConfig);
    let both = |own: [&str; 2], other: [&str; 2]| {
        let pairs = ["billing.currency", "downing.strategy"]
            .iter()
            .zip(own)
            .zip(other);
        let difference = |((key, own), other): ((&&str, &str), &str)| SettingDifference {
            key: (*key).to_owned(),
            own: Some(own.to_owned()),
            other: Some(other.to_owned()),
        };
        Differences::from(pairs.map(difference).collect::<Vec<_>>())
    };
    let (cluster, joiners) = (["EUR", "keep-majority"], ["USD", "down-all"]);
    let seen = SeedCause::SettingsDiffer(both(joiners, cluster));
    let JoinFailure::NoSeedAnswered { seeds, .. } = *cause else {
        panic!("{cause:?}")
    };
    let causes: Vec<_> = seeds.iter().map(|failure| failure.cause.clone()).collect();
    assert_eq!(causes, [seen.clone(), seen]);
    let differences = within::<A, _>("the seed's users hear of it", async {
        loop {
            let event = events.next().await.expect("the node runs");
            if let ClusterEvent::Event(Event::Rejected {
                rejection: Rejection::Membership(MembershipRejection::SettingsDiffer(found)),
                peer,
            }) = event
                && peer == *joiner.address()
            {
                return found;
            }
        }
    })
    .await;
    assert_eq!(differences, both(cluster, joiners));
    for seed in [&first, &second] {
        assert_eq!(stats(seed).await.core.membership.joiners_with_other_settings, 1);
    }
    let fits = currency("EUR").seeds([first.address().address()]).start().await;
    all_up::<A>(&fits.expect("one that fits starts"), 3).await;
}

/// B-44: who was removed does not come back as the same incarnation.
pub async fn a_removed_incarnation_is_refused<A: Adapter>(security: &Security) {
    let nodes = cluster::<A>(3, security).await;
    let gone = nodes[2].address().clone();
    let left = within::<A, _>("the node has left", nodes[2].leave()).await;
    assert_eq!(left, Ok(Termination::Halted(HaltReason::Left)));
    all_up::<A>(&nodes[0], 2).await;
    let to = nodes[0].address().clone();
    let mut attacker = Attacker::new::<A>(&to, security).await;
    // Newer than whatever the node itself has used.
    attacker.epoch = 1_000_000;
    let mut ghost = attacker.somebody(RowSpeaker::Stranger);
    ghost.me = gone;
    let refused = async || {
        let stats = stats(&nodes[0]).await;
        stats.core.membership.joins_refused
            + stats.core.membership.removed_told
            + stats.links.refused_quarantined
    };
    let before = refused().await;
    let ((_reader, mut writer), answer) = attacker.greet::<A>(&mut ghost, false).await;
    match answer {
        // Soon after its removal it is told so; later its links are refused.
        HelloAnswer::Ack(_) => say(&mut writer, &rows::first_join(&ghost)).await,
        HelloAnswer::Reject(_) => {
            assert_eq!(refusal_of(&answer), Some(RejectReason::Quarantined))
        }
    }
    eventually::<A>("it is refused", async || refused().await > before).await;
    all_up::<A>(&nodes[0], 2).await;
    all_up::<A>(&nodes[1], 2).await;
}

/// B-38: a state of a member in which the receiver is Down is legal, and the receiver obeys.
pub async fn a_member_may_tell_a_node_that_it_is_down<A: Adapter>(security: &Security) {
    let target = first::<A>(quiet::<A>(security)).await;
    let mut attacker = Attacker::new::<A>(target.address(), security).await;
    let mut scene = attacker.somebody(RowSpeaker::Member);
    let (_reader, mut writer) = join_as::<A>(&mut attacker, &target, &mut scene).await;
    let mut state = StateColumns::of(&[&scene.to, &scene.me]);
    let place = |uid: u64| state.members.iter().position(|row| row.uid == uid).unwrap_or(0);
    let (mine, theirs) = (place(scene.me.uid()), place(scene.to.uid()));
    state.members[theirs].status = 4;
    state.clock = vec![(mine as u16, 1)];
    let body = addressed(&scene.to, &[&[0], &state.bytes()[..]].concat());
    say(
        &mut writer,
        &frame(GOSSIP, MembershipMsg::GOSSIP.kind, scene.epoch, &body),
    )
    .await;
    let ended = within::<A, _>("the node stops", target.terminated()).await;
    assert_eq!(ended, Termination::Halted(HaltReason::Downed));
}
