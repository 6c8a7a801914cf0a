//! What is new is pushed, as what differs, and the leader hears who has seen it. Spec: membership 2.5, 2.6.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::{MOMENT, Rig, n, secs, state};
use crate::config::Limits;
use crate::effect::Effect;
use crate::ident::UniqueAddress;
use crate::input::SendTarget;
use crate::membership::state::gossip::Gossip;
use crate::message::{
    GossipBody, GossipDelta, GossipEnvelope, GossipSeen, MembershipMsg, Message, StateSteps,
};
use crate::wire::{digest, encode_message, steps_between};

/// As many as make a difference worth it.
const ALL: &str = "a b c d e f g h i j k l";
const MORE: &str = "a b c d e f g h i j k l mJ";
const PUSHED: Duration = Duration::from_millis(20);

/// A member of a converged cluster that has named its state, as a round of gossip does.
fn member(me: &str) -> Rig {
    let mut rig = Rig::member(me, before());
    rig.status(if me == "b" { "c" } else { "b" }, &before());
    rig
}

/// What everybody has seen.
fn before() -> Gossip {
    state(ALL, ALL, "a")
}

/// What `b` made of it.
fn after(seen_by: &str) -> Gossip {
    state(MORE, seen_by, "a b")
}

fn delta(to: &str, base: &Gossip, result: &Gossip) -> GossipDelta {
    let limits = Limits::default();
    GossipDelta {
        to: n(to),
        is_push: true,
        base: digest(base, &limits).unwrap(),
        result: digest(result, &limits).unwrap(),
        seen: result.seen_set().clone(),
        steps: StateSteps::new(steps_between(base, result, &limits).unwrap()),
    }
}

fn hears(rig: &mut Rig, from: &str, delta: &GossipDelta) {
    rig.call(|m, cx| m.on_gossip_delta(cx, &n(from), delta));
}

#[test]
fn who_went_the_steps_has_their_name_and_passes_them_on_unless_they_are_too_many() {
    let good = delta("c", &before(), &after("b"));
    let mut rig = member("c");
    hears(&mut rig, "b", &good);
    assert_eq!(rig.m.news.name, Some(good.result), "without a look at the state");
    let passed_on = rig.m.news.steps.first().cloned();
    let (base, steps) = passed_on.expect("for whom it tells next");
    assert!(base == good.base && Arc::ptr_eq(&steps.unwrap(), good.steps.bytes()));

    // Steps that do nothing are as good, at any length.
    let mut padded = alloc::vec![0; 6 * 40];
    padded.extend_from_slice(good.steps.bytes());
    let padded = GossipDelta {
        steps: StateSteps::new(padded),
        ..good
    };
    let mut rig = member("c");
    hears(&mut rig, "b", &padded);
    assert_eq!(
        (rig.members().as_str(), rig.m.news.name),
        (MORE, Some(padded.result))
    );
    assert!(rig.m.news.steps.is_empty());
}

fn acks(rig: &mut Rig, from: &str, of: &Gossip) {
    let to = rig.f.me.clone();
    let state = digest(of, &Limits::default()).unwrap();
    rig.call(|m, cx| m.on_gossip_seen(cx, &n(from), &GossipSeen { to, state }));
}

/// The messages that were sent, with whom they are for.
fn messages(rig: &mut Rig) -> Vec<(UniqueAddress, Message)> {
    let effects = rig.f.effects();
    let sent = effects.into_iter().filter_map(|effect| match effect {
        Effect::Send {
            to: SendTarget::Node(to),
            message,
        } => Some((to, message)),
        _ => None,
    });
    sent.collect()
}

fn is_pushed(message: &Message) -> bool {
    matches!(
        message,
        Message::Membership(MembershipMsg::GossipDelta(GossipDelta { is_push: true, .. }))
    )
}

fn bytes(message: &Message) -> usize {
    let mut out = Vec::new();
    encode_message(message, 1, &Limits::default(), &mut out).unwrap();
    out.len()
}

/// Lets time pass in which this node does nothing but push.
fn pushes(rig: &mut Rig, time: Duration) -> Vec<UniqueAddress> {
    rig.run(time);
    let sent = messages(rig).into_iter();
    sent.filter(|(_, message)| is_pushed(message))
        .map(|(to, _)| to)
        .collect()
}

#[test]
fn a_new_state_is_pushed_at_once_to_three_who_have_not_seen_it_and_the_leader_hears() {
    let mut rig = member("c");
    hears(&mut rig, "b", &delta("c", &before(), &after("b c d e f g h i")));
    assert_eq!(rig.sent(), "", "who pushes hears nothing");
    assert_eq!(rig.members(), MORE);
    rig.run(MOMENT);
    let sent = rig.sent_in_any_order();
    let words: Vec<&str> = sent.split(' ').collect();
    assert_eq!((words[0], words.len()), ("ack>a", 4), "{sent}");
    assert!(
        words[1..]
            .iter()
            .all(|word| "push>a push>j push>k push>l push>m".contains(word)),
        "{sent}"
    );
    // Twice more, within what may go in that second.
    assert_eq!(pushes(&mut rig, secs(2)).len(), 6);
    assert_eq!(pushes(&mut rig, secs(9)).len(), 0);
}

#[test]
fn changes_within_an_interval_go_together() {
    let mut rig = member("c");
    hears(&mut rig, "b", &delta("c", &before(), &after("b")));
    assert_eq!(pushes(&mut rig, MOMENT).len(), 3);
    for node in ["d", "e", "f"] {
        rig.call(|m, cx| m.leave(cx, &n(node)));
    }
    rig.f.effects();
    assert_eq!(pushes(&mut rig, PUSHED - MOMENT).len(), 0);
    assert_eq!(pushes(&mut rig, MOMENT).len(), 3);
}

#[test]
fn whatever_changes_the_pushes_of_a_second_take_no_more_than_three_whole_states() {
    let mut rig = member("c");
    let mut sent: Vec<(u64, bool, usize)> = Vec::new();
    for step in 0..300_u64 {
        let node = ["d", "e", "f", "g"][(step % 4) as usize];
        rig.call(|m, cx| {
            let mut verdicts = crate::signal::Verdicts::default();
            let found = if step % 8 < 4 {
                &mut verdicts.unreachable
            } else {
                &mut verdicts.reachable
            };
            found.insert(n(node));
            m.on_verdicts(cx, &verdicts);
        });
        rig.f.effects();
        rig.run(Duration::from_millis(10));
        let pushed = messages(&mut rig).into_iter().filter(|(_, message)| {
            is_pushed(message) || matches!(message, Message::Membership(MembershipMsg::Gossip(_)))
        });
        sent.extend(pushed.map(|(_, message)| (step * 10, is_pushed(&message), bytes(&message))));
    }
    let gossip = GossipBody::from(Arc::clone(&rig.m.gossip));
    let whole = bytes(&MembershipMsg::Gossip(GossipEnvelope { to: n("d"), gossip }).into());
    for (begin, ..) in &sent {
        let within = sent
            .iter()
            .filter(|(at, ..)| (*begin..*begin + 1_000).contains(at));
        let spent = |of: &dyn Fn(bool) -> bool| -> usize {
            let counted = within.clone().filter(|(_, is_pushed, _)| of(*is_pushed));
            counted.map(|(.., bytes)| bytes).sum()
        };
        let (pushed, all) = (spent(&|is_pushed| is_pushed), spent(&|_| true));
        assert!(
            pushed <= 3 * whole,
            "{pushed} pushed from {begin}, a state has {whole}"
        );
        // Rounds of gossip, three in a second, are no pushes.
        assert!(
            all <= 6 * whole,
            "{all} in the second from {begin}, a state has {whole}"
        );
    }
    assert!(rig.f.stats.membership.gossip_pushes_held_back > 0);
}

#[test]
fn a_joiner_and_that_it_is_up_are_pushed_to_three_each_within_a_moment() {
    let (joined, up) = (after("b"), state("a b c d e f g h i j k l m", "a", "a a b"));
    let mut rig = member("c");
    hears(&mut rig, "b", &delta("c", &before(), &joined));
    assert_eq!(pushes(&mut rig, MOMENT).len(), 3);
    hears(&mut rig, "a", &delta("c", &joined, &up));
    assert_eq!(pushes(&mut rig, PUSHED).len(), 3);
}

#[test]
fn who_is_welcomed_tells_the_leader_and_leaves_it_to_others_to_push() {
    let mut rig = Rig::idle("m");
    rig.seeds("b");
    rig.ack("b");
    rig.welcome("b", "m", &state("a b c d mJ", "b", "b"));
    rig.sent();
    rig.run(PUSHED);
    assert_eq!(rig.sent(), "ack>a");
    rig.call(|m, cx| m.leave(cx, &n("d")));
    assert!(
        pushes(&mut rig, PUSHED).len() > 1,
        "what changes after that is pushed"
    );
}

#[test]
fn who_does_not_know_the_base_asks_and_gets_what_it_lacks() {
    let mut lagging = Rig::member("d", state(ALL, "d", "b"));
    hears(&mut lagging, "c", &delta("d", &before(), &after("b c")));
    assert_eq!(lagging.did(), "status>c");
    assert_eq!(lagging.f.stats.membership.gossip_deltas_without_base, 1);
    assert_eq!(lagging.members(), ALL, "and nobody has seen anything");
    let mut rig = Rig::member("c", after("b c"));
    rig.answered_status("d", &state(ALL, "d", "b"));
    assert_eq!(rig.did(), "gossip>d");
}

#[test]
fn a_difference_that_leads_elsewhere_is_refused_and_changes_nothing() {
    let good = delta("c", &before(), &after("b"));
    let mut steps = Vec::clone(good.steps.bytes());
    *steps.last_mut().unwrap() ^= 1;
    let other = GossipDelta {
        steps: StateSteps::new(steps),
        ..good.clone()
    };
    let short = GossipDelta {
        steps: StateSteps::default(),
        ..good.clone()
    };
    let beyond = GossipDelta {
        seen: [13].into_iter().collect(),
        ..good.clone()
    };
    // A legal state, and not the one that is named.
    let named_wrongly = GossipDelta {
        steps: delta("c", &before(), &state("a b c d e f g h i j k l mD", "b", "a b")).steps,
        ..good.clone()
    };
    for wrong in [other, short, beyond, named_wrongly] {
        let mut rig = member("c");
        hears(&mut rig, "b", &wrong);
        let did = rig.did();
        assert!(
            did.starts_with("rejected(b: a delta does not lead to the state it names"),
            "{did}"
        );
        assert_eq!((rig.members().as_str(), rig.f.stats.node.rejected), (ALL, 1));
    }
    // One that names another incarnation, or comes from a stranger, as with a whole state.
    let mut rig = member("c");
    hears(&mut rig, "z", &good);
    assert!(rig.did().contains("the sender is not a member"));
}

#[test]
fn the_leader_counts_who_says_that_it_has_seen_the_state_also_before_it_holds_it() {
    let mut rig = member("a");
    for early in ["c", "d", "e", "f"] {
        acks(&mut rig, early, &after(""));
    }
    assert_eq!(rig.seen(), ALL, "of another state");
    hears(&mut rig, "b", &delta("a", &before(), &after("b")));
    rig.run(MOMENT);
    assert_eq!(rig.seen(), "a b c d e f");
    for late in ["g", "h", "i", "j", "k"] {
        acks(&mut rig, late, &after(""));
    }
    acks(&mut rig, "l", &before());
    rig.did();
    rig.run(MOMENT);
    assert_eq!(rig.members(), MORE, "one has not seen it");
    acks(&mut rig, "m", &after(""));
    assert_eq!(
        rig.seen(),
        "a b c d e f g h i j k m",
        "what it has seen is another state"
    );
    acks(&mut rig, "l", &after(""));
    rig.run(MOMENT);
    assert!(rig.did().contains("up(m:"), "it acts at once");
}

#[test]
fn a_down_member_counts_as_having_seen_nothing() {
    let mut rig = member("a");
    rig.call(|m, cx| m.down_others(cx, [&n("l")]));
    let held = (*rig.m.gossip).clone();
    acks(&mut rig, "l", &held);
    acks(&mut rig, "k", &held);
    assert_eq!(rig.seen(), "a k");
}

#[test]
fn the_leader_goes_on_with_whom_it_has_not_heard_of_ever_more_rarely() {
    let mut rig = member("a");
    rig.call(|m, cx| m.leave(cx, &n("b")));
    let held = (*rig.m.gossip).clone();
    for node in ["b", "c", "d", "e", "f", "g", "h", "i", "j", "k"] {
        acks(&mut rig, node, &held);
    }
    rig.f.effects();
    let to: Vec<String> = pushes(&mut rig, secs(10))
        .iter()
        .map(|to| String::from(to.address().host()))
        .collect();
    assert_eq!(to, ["l"; 10], "{:?}", rig.f.stats.membership);
}
