//! Merging states that peers sent. Two decoded states, however forged: both orders give one legal state that
//! contains both. States of a history that honest nodes could have had: the merge is associative as well.

use arbitrary::{Arbitrary, Unstructured};
use quorate_core::ident::{Address, Roles, UniqueAddress};
use quorate_core::membership::app_version::AppVersion;
use quorate_core::membership::gossip::Gossip;
use quorate_core::membership::member::{Member, Status, UpNumber};
use quorate_core::membership::merge::{merge, with_merged_seen};
use quorate_core::membership::reachability::ReachabilityStatus;
use quorate_core::membership::vector_clock::ClockOrder;
use quorate_core::message::{GossipBody, Lane, MembershipMsg, Message};
use quorate_core::wire::decode_message;

use crate::LIMITS;
use crate::decode::packed;
use crate::paths;

/// The first byte picks: two bodies of gossip frames with the first one's length in front, or a history.
pub fn gossip_merge(data: &[u8]) {
    let Some((pick, rest)) = data.split_first() else {
        return;
    };
    if pick % 2 == 0 {
        let Some((len, rest)) = rest.split_first_chunk::<2>() else {
            return;
        };
        let len = usize::from(u16::from_le_bytes(*len)).min(rest.len());
        let (left, right) = rest.split_at(len);
        if let (Some(left), Some(right)) = (decoded(left), decoded(right)) {
            check_pair(&left, &right);
        }
    } else if let Ok(history) = <Vec<Step>>::arbitrary(&mut Unstructured::new(rest)) {
        check_history(&history);
    }
}

fn decoded(body: &[u8]) -> Option<GossipBody> {
    match decode_message(MembershipMsg::GOSSIP.kind, Lane::Gossip, body, &LIMITS) {
        Ok(Message::Membership(MembershipMsg::Gossip(envelope))) => Some(envelope.gossip),
        _ => None,
    }
}

/// What holds for any two states.
fn check_pair(left: &GossipBody, right: &GossipBody) {
    let a = left.open(&Gossip::new());
    let b = right.open(&a);
    assert_eq!(b, right.open(&Gossip::new()), "what is known changes nothing");
    let both = merge(&a, &b);
    assert_eq!(both, merge(&b, &a), "commutative");
    both.check_invariants().expect("legal");
    for side in [&a, &b] {
        let again = merge(&both, side);
        assert_eq!(without_seen(&again), without_seen(&both), "contains both");
        let twice = merge(side, side);
        assert_eq!(without_seen(&twice), without_seen(side), "idempotent");
    }
    for (remote, held) in [(right, &a), (left, &b)] {
        let open = remote.open(held);
        if remote.without_news(held) == Some(ClockOrder::Same) {
            assert_eq!(&with_merged_seen(held, &open), held, "no news is no change");
        }
        // Two versions of different text may count as equal where states are compared as values; columns say
        // no then.
        if let Some(order) = remote.without_news(held) {
            let as_value = GossipBody::Held(open.into()).without_news(held);
            assert_eq!(as_value, Some(order), "columns answer like the state itself");
        }
    }
}

fn without_seen(gossip: &Gossip) -> Gossip {
    let mut gossip = gossip.clone();
    gossip.clear_seen();
    gossip
}

const WRITERS: usize = 4;
const HOSTS: [(&str, u64); 6] = [("a", 1), ("b", 1), ("c", 1), ("d", 1), ("d", 2), ("e", 1)];

#[derive(Arbitrary, Debug)]
struct Step {
    writer: u8,
    act: Act,
}

#[derive(Arbitrary, Debug)]
enum Act {
    Join(u8),
    Status(u8, u8),
    Number(u8, u8),
    Observe(u8, u8),
    Remove(u8),
    Receive(u8),
    Paths(u8, u8, u8),
}

fn member(at: u8) -> UniqueAddress {
    let (host, uid) = HOSTS[usize::from(at) % HOSTS.len()];
    UniqueAddress::new(Address::new(host, 2551).expect("a legal name"), uid)
}

fn check_history(history: &[Step]) {
    let mut start = Gossip::new();
    for writer in 0..WRITERS as u8 {
        start.upsert_member(joining(writer));
    }
    start.stamp(&member(0), true, 0);
    let mut states = vec![start; WRITERS];
    for step in history.iter().take(60) {
        apply(&mut states, step);
    }
    let bodies: Vec<GossipBody> = states.iter().map(packed).collect();
    for left in &bodies {
        bodies.iter().for_each(|right| check_pair(left, right));
    }
    let [a, b, c, ..] = &states[..] else { return };
    let (left, right) = (merge(&merge(a, b), c), merge(a, &merge(b, c)));
    assert_eq!(left, right, "associative");
}

fn joining(at: u8) -> Member {
    Member::joining(member(at), Roles::default(), AppVersion::default())
}

fn apply(states: &mut [Gossip], step: &Step) {
    let at = usize::from(step.writer) % WRITERS;
    let me = member(at as u8);
    if let Act::Receive(from) = step.act {
        states[at] = merge(&states[at], &states[usize::from(from) % WRITERS]);
        return;
    }
    let gossip = &mut states[at];
    if !gossip.contains(&me) {
        return;
    }
    match step.act {
        Act::Join(who) => {
            if !gossip.contains(&member(who)) {
                gossip.upsert_member(joining(who));
            }
        }
        Act::Status(who, status) => {
            let status = Status::ALL[usize::from(status) % (Status::ALL.len() - 1)];
            let allowed = gossip
                .member(&member(who))
                .is_some_and(|known| known.status.allows(status));
            if allowed {
                gossip.set_status(&member(who), status);
            }
        }
        Act::Number(who, number) => {
            let open = gossip
                .member(&member(who))
                .is_some_and(|known| !known.up_number.is_assigned());
            if open {
                gossip.set_up_number(&member(who), UpNumber::new(1 + u32::from(number % 4)));
            }
        }
        Act::Observe(who, reach) => {
            let reach = [
                ReachabilityStatus::Reachable,
                ReachabilityStatus::Unreachable,
                ReachabilityStatus::Terminated,
            ][usize::from(reach) % 3];
            if gossip.contains(&member(who)) && member(who) != me {
                gossip.reachability_mut().change(&me, &member(who), reach);
            }
        }
        Act::Remove(who) => {
            if member(who) != me {
                gossip.remove(&member(who));
            }
        }
        Act::Paths(counter, host, status) => {
            let node = |at| member(at);
            gossip.set_paths(paths::table(
                counter,
                [node(host), node(host.wrapping_add(1))],
                status,
            ));
        }
        Act::Receive(_) => {}
    }
    gossip.stamp(&me, true, 0);
}
