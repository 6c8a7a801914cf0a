//! Random states and random bytes: what is written is read back the same; whatever is read has one form.

use alloc::sync::Arc;
use std::format;
use std::vec::Vec;

use crate::paths::state::tests::any_table;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::{frame_of, message_of, node, roles};
use crate::config::Limits;
use crate::ident::UniqueAddress;
use crate::membership::state::app_version::AppVersion;
use crate::membership::state::gossip::{Gossip, GossipParts};
use crate::membership::state::member::{Member, Status, UpNumber};
use crate::membership::state::reachability::{Reachability, ReachabilityStatus};
use crate::membership::state::vector_clock::VectorClock;
use crate::message::{GossipEnvelope, Lane, MembershipMsg, Message};
use crate::ordered::OrderedSet;
use crate::wire::{COUNTER_MAX, HEADER_BYTES, decode_frame, decode_message, kind};

const ROLES: [&str; 4] = ["a", "io", "worker", "zone-1"];
const CENTERS: [&str; 3] = ["default", "east", "west"];
const VERSIONS: [&str; 4] = ["0.0.0", "1", "1.0.0", "foo"];

type Seed = (u8, u32, u8, u8, u8, Option<u64>, bool);

fn any_node() -> impl Strategy<Value = UniqueAddress> {
    (0..40_u16, 1..4_u16, prop_oneof![any::<i64>(), -2..2_i64])
        .prop_map(|(host, port, uid)| node(&format!("host-{host}"), port, uid))
}

fn member(node: UniqueAddress, seed: Seed) -> Member {
    let (status, up, role_bits, center, version, ..) = seed;
    let names: Vec<&str> = (0..4)
        .filter(|bit| role_bits & (1 << bit) != 0)
        .map(|bit| ROLES[bit])
        .collect();
    Member {
        node,
        status: Status::ALL[usize::from(status % 8)],
        up_number: UpNumber::new(up),
        roles: roles(&names, CENTERS[usize::from(center % 3)]),
        app_version: AppVersion::new(VERSIONS[usize::from(version % 4)]).unwrap(),
    }
}

fn any_gossip() -> impl Strategy<Value = Gossip> {
    (
        btree_map(any_node(), any::<Seed>(), 0..80),
        vec((any::<u16>(), any::<u16>(), 0..3_u8), 0..60),
        vec(any_node(), 0..20),
        any_table(),
    )
        .prop_map(|(seeds, changes, removed, paths)| {
            let nodes: Vec<UniqueAddress> = seeds.keys().cloned().collect();
            let mut reachability = Reachability::new();
            for (observer, subject, status) in changes.into_iter().filter(|_| !nodes.is_empty()) {
                let pick = |at: u16| &nodes[usize::from(at) % nodes.len()];
                let status = [
                    ReachabilityStatus::Reachable,
                    ReachabilityStatus::Unreachable,
                    ReachabilityStatus::Terminated,
                ][usize::from(status)];
                reachability.change(pick(observer), pick(subject), status);
            }
            let entries = seeds
                .iter()
                .filter_map(|(node, seed)| Some((node.clone(), seed.5? % (COUNTER_MAX + 1))));
            let version = VectorClock::from_entries(entries.collect()).unwrap();
            let seen = seeds
                .values()
                .enumerate()
                .filter(|(_, seed)| seed.6)
                .map(|(at, _)| at)
                .collect();
            let tombstones: OrderedSet<_> = removed
                .into_iter()
                .filter(|node| !seeds.contains_key(node))
                .collect();
            let members = seeds.into_iter().map(|(node, seed)| member(node, seed)).collect();
            Gossip::from_parts(GossipParts {
                members,
                reachability,
                version,
                seen,
                tombstones,
                paths,
            })
            .unwrap()
        })
}

fn has_one_form(kind: u16, lane: Lane, body: &[u8]) {
    if let Ok(message) = decode_message(kind, lane, body, &Limits::default()) {
        assert_eq!(&frame_of(&message, 0)[HEADER_BYTES..], body, "{message:?}");
    }
}

proptest! {
    #[test]
    fn m_447_random_states_survive_the_round_trip(state in any_gossip()) {
        let message = Message::Membership(MembershipMsg::Gossip(GossipEnvelope { to: node("r", 1, 1), gossip: Arc::new(state).into() }));
        let bytes = frame_of(&message, 3);
        let again = message_of(&bytes);
        prop_assert_eq!(again.as_ref(), Ok(&message));
        prop_assert_eq!(frame_of(&again.unwrap(), 3), bytes);
    }

    #[test]
    fn random_changes_of_a_state_never_panic_and_never_give_a_second_form(
        state in any_gossip(),
        changes in vec((any::<usize>(), any::<u8>()), 1..4),
    ) {
        let message = Message::Membership(MembershipMsg::Gossip(GossipEnvelope { to: node("r", 1, 1), gossip: Arc::new(state).into() }));
        let mut body = frame_of(&message, 3)[HEADER_BYTES..].to_vec();
        // Behind the form byte, so that the state stays uncompressed or is a broken stream.
        let start = 14.min(body.len() - 1);
        let len = body.len() - start;
        for (at, value) in changes {
            body[start + at % len] = value;
        }
        if body[13] == 0 {
            has_one_form(MembershipMsg::GOSSIP.kind, Lane::Gossip, &body);
        } else {
            let _ = decode_message(MembershipMsg::GOSSIP.kind, Lane::Gossip, &body, &Limits::default());
        }
    }

    #[test]
    fn random_bytes_never_panic(kind in 0..16_u16, high in any::<bool>(), body in vec(any::<u8>(), 0..200)) {
        let kind = if high { kind | 0x100 } else { kind };
        if let Some(lane) = kind::lane_of(kind) {
            let compressed = [MembershipMsg::GOSSIP, MembershipMsg::WELCOME].iter().any(|tag| tag.kind == kind);
            if compressed {
                let _ = decode_message(kind, lane, &body, &Limits::default());
            } else {
                has_one_form(kind, lane, &body);
            }
        }
        let _ = decode_frame(&body, &Limits::default());
    }
}
