//! Largest legal states, inflate bombs and the forms of a compressed state. Spec: reliability 3b, B-20 to
//! B-25.

use alloc::sync::Arc;
use std::format;
use std::vec;
use std::vec::Vec;

use super::states::decode_state;
use super::{frame_of, message_of, node, roles};
use crate::config::Limits;
use crate::ident::{HOST_BYTES_MAX, Role, Roles, UniqueAddress};
use crate::membership::state::app_version::AppVersion;
use crate::membership::state::gossip::{Gossip, GossipParts};
use crate::membership::state::member::{Member, Status, UpNumber};
use crate::membership::state::reachability::{Reachability, ReachabilityStatus};
use crate::membership::state::vector_clock::VectorClock;
use crate::message::{GossipDelta, GossipEnvelope, Lane, MembershipMsg, Message, ShardingMsg, StateSteps};
use crate::ordered::OrderedSet;
use crate::paths::state::tests::large_table;
use crate::paths::state::written::table_bytes_max;
use crate::sharding::state::ids::{KindId, ShardId};
use crate::wire::{HEADER_BYTES, WireError, encode_message, has_room};

/// A name as long as a name may be, different for each number.
fn long_name(prefix: &str, number: usize) -> std::string::String {
    let mut name = format!("{prefix}{number:05}");
    // Digits that deflate cannot guess.
    let mut state = number as u64 + 1;
    while name.len() < HOST_BYTES_MAX {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        name.push_str(&format!("{:016x}", state));
    }
    name.truncate(HOST_BYTES_MAX);
    name
}

fn uid(number: usize) -> i64 {
    (number as i64).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64.cast_signed())
}

/// Members with the longest names, tombstones with the longest names, a clock entry and an observer per
/// member.
pub(super) fn wide_gossip(members: usize, tombstones: usize) -> Gossip {
    let shared = [roles(&["worker", "io"], "west"), roles(&["io"], "east")];
    let member = |at: usize| Member {
        node: node(&long_name("m", at), 2551, uid(at)),
        status: Status::Up,
        up_number: UpNumber::new(u32::try_from(at).unwrap()),
        roles: shared[at % 2].clone(),
        app_version: AppVersion::default(),
    };
    let members: Vec<Member> = (0..members).map(member).collect();
    let nodes: Vec<UniqueAddress> = members.iter().map(|member| member.node.clone()).collect();
    let clock = nodes.iter().map(|node| (node.clone(), 1 << 40)).collect();
    let mut reachability = Reachability::new();
    for pair in nodes.chunks(2).filter(|pair| pair.len() == 2).take(1_000) {
        reachability.change(&pair[0], &pair[1], ReachabilityStatus::Unreachable);
    }
    let seen = (0..members.len()).collect();
    let tombstones: OrderedSet<_> = (0..tombstones)
        .map(|at| node(&long_name("t", at), 1, uid(at)))
        .collect();
    let version = VectorClock::from_entries(clock).unwrap();
    Gossip::from_parts(GossipParts {
        members,
        reachability,
        version,
        seen,
        tombstones,
        paths: large_table(),
    })
    .unwrap()
}

fn gossip(state: Gossip) -> Message {
    Message::Membership(MembershipMsg::Gossip(GossipEnvelope {
        to: node(&long_name("r", 0), 1, 1),
        gossip: Arc::new(state).into(),
    }))
}

#[test]
fn the_largest_legal_gossip_fits_its_lane_and_one_member_more_is_refused() {
    let limits = Limits::default();
    let members = limits.members_max;
    let message = gossip(wide_gossip(members, limits.tombstones_max));
    let bytes = frame_of(&message, 1);
    assert!(bytes.len() - HEADER_BYTES <= limits.gossip_frame_bytes_max);
    assert_eq!(message_of(&bytes), Ok(message));
    // The same state must fit as it is, because a compressed state may not inflate beyond the lane's limit
    // either.
    let uncompressed = 32
        + members * (1 + HOST_BYTES_MAX + 21 + 10 + 12)
        + members / 8
        + limits.tombstones_max * (1 + HOST_BYTES_MAX + 12)
        + 1_000 * 11
        + table_bytes_max(limits.gossip_frame_bytes_max)
        + 200;
    assert!(uncompressed <= limits.decompressed_bytes_max, "{uncompressed}");
    let result = encode_message(&gossip(wide_gossip(members + 1, 0)), 1, &limits, &mut Vec::new());
    assert_eq!(result, Err(WireError::LimitExceeded { what: "members" }));
    let small = Limits {
        members_max: 9,
        ..limits
    };
    let bytes = frame_of(&gossip(wide_gossip(10, 0)), 1);
    let decoded = crate::wire::decode_message(12, Lane::Gossip, &bytes[HEADER_BYTES..], &small);
    assert_eq!(decoded, Err(WireError::LimitExceeded { what: "members" }));
}

#[test]
fn a_delta_of_the_largest_cluster_fits_its_lane() {
    let state = wide_gossip(10_000, 0);
    let mut next = state.clone();
    for member in state.members().iter().step_by(2) {
        next.add_seen(&member.node);
        next.stamp(&member.node, true, 0);
    }
    let limits = Limits::default();
    let delta = GossipDelta {
        to: node("a", 1, 1),
        is_push: true,
        base: crate::wire::digest(&state, &limits).unwrap(),
        result: crate::wire::digest(&next, &limits).unwrap(),
        seen: next.seen_set().clone(),
        steps: StateSteps::new(crate::wire::steps_between(&state, &next, &limits).unwrap_or_default()),
    };
    let message = Message::Membership(MembershipMsg::GossipDelta(delta));
    assert_eq!(message_of(&frame_of(&message, 1)), Ok(message));
}

#[test]
fn a_registration_of_every_shard_fits_the_control_lane() {
    use crate::message::{ShardingBody, ShardingMessage};
    use crate::sharding::protocol::ListPart;
    let hosted = (0..65_536).map(ShardId).collect();
    let body = ShardingBody::Register {
        fields: super::kind_fields(true),
        hosted,
        draining: false,
        part: ListPart::WHOLE,
    };
    let message = Message::Sharding(ShardingMsg::Kind(ShardingMessage {
        kind: KindId::of("files"),
        body,
    }));
    assert_eq!(message_of(&frame_of(&message, 1)), Ok(message));
}

#[test]
fn a_body_beyond_its_lane_is_not_written() {
    let limits = Limits {
        user_frame_bytes_max: 1 << 10,
        ..Limits::default()
    };
    let mut entity = super::every_message()
        .into_iter()
        .find(|(name, _)| *name == "entity_tell")
        .unwrap()
        .1;
    if let Message::Sharding(ShardingMsg::Entity(envelope)) = &mut entity {
        envelope.payload = vec![0; 1 << 10].into();
    }
    let mut out = Vec::new();
    let result = encode_message(&entity, 1, &limits, &mut out);
    assert!(
        matches!(result, Err(WireError::TooLarge { max: 1024, .. })),
        "{result:?}"
    );
    assert!(out.is_empty());
}

/// A compressed state as it travels: its claimed length, then the stream.
fn packed(claimed: usize, stream: &[u8]) -> Vec<u8> {
    let mut out = u32::try_from(claimed).unwrap().to_le_bytes().to_vec();
    out.extend_from_slice(stream);
    out
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    miniz_oxide::deflate::compress_to_vec(bytes, 9)
}

#[test]
fn b_20_b_21_m_453_bombs_are_refused_before_they_are_inflated() {
    let bomb = deflate(&vec![0; 8 << 20]);
    let exceeded = Err(WireError::LimitExceeded {
        what: "inflated bytes",
    });
    // Honest about its length: more than the limit, or more than 200 times its size.
    assert_eq!(decode_state(1, &packed(8 << 20, &bomb)), exceeded);
    assert_eq!(decode_state(1, &packed(4 << 20, &bomb)), exceeded);
    // A length within bounds, and a stream that goes on.
    assert_eq!(decode_state(1, &packed(bomb.len() * 200, &bomb)), exceeded);
    assert_eq!(decode_state(1, &packed(u32::MAX as usize, b"x")), exceeded);
}

#[test]
fn b_22_to_b_25_streams_that_are_not_what_they_claim() {
    let bytes = frame_of(&gossip(wide_gossip(100, 0)), 1);
    let body = &bytes[HEADER_BYTES + 1 + HOST_BYTES_MAX + 10..];
    assert_eq!(body[0], 1, "compressed");
    let (claimed, stream) = (
        u32::from_le_bytes(body[1..5].try_into().unwrap()) as usize,
        &body[5..],
    );
    assert!(decode_state(1, &packed(claimed, stream)).is_ok());
    // B-22: a compressed state in a compressed state.
    let inner = packed(claimed, stream);
    let nested = decode_state(1, &packed(inner.len(), &deflate(&inner)));
    assert_eq!(
        nested,
        Err(WireError::Malformed {
            what: "state version"
        })
    );
    // B-23: a stream cut short, and one that is none.
    assert_eq!(
        decode_state(1, &packed(claimed, &stream[..stream.len() - 1])),
        Err(WireError::Compression)
    );
    assert_eq!(
        decode_state(1, &packed(4, &[0xFF; 8])),
        Err(WireError::Compression)
    );
    // B-24: bytes behind the stream.
    let mut longer = stream.to_vec();
    longer.push(0);
    assert_eq!(
        decode_state(1, &packed(claimed, &longer)),
        Err(WireError::TrailingBytes)
    );
    // B-25: another length than the real one.
    let length = Err(WireError::Malformed {
        what: "inflated length",
    });
    assert_eq!(decode_state(1, &packed(claimed + 1, stream)), length);
    let short = Err(WireError::LimitExceeded {
        what: "inflated bytes",
    });
    assert_eq!(decode_state(1, &packed(claimed - 1, stream)), short);
}

#[test]
fn a_small_state_is_not_compressed_and_a_large_one_is() {
    let form = |members| {
        let bytes = frame_of(&gossip(wide_gossip(members, 0)), 1);
        bytes[HEADER_BYTES + 1 + HOST_BYTES_MAX + 10]
    };
    assert_eq!((form(0), form(200)), (1, 1), "the table of paths counts too");
    let small = frame_of(&gossip(super::sample_gossip()), 1);
    assert_eq!(small[HEADER_BYTES + 1 + HOST_BYTES_MAX + 10], 0);
}

#[test]
fn where_there_is_room_for_one_more_the_state_with_one_more_fits() {
    let limits = Limits {
        gossip_frame_bytes_max: 1 << 20,
        ..Limits::default()
    };
    let heavy = |at: usize| {
        let own = (0..31).map(|role| Role::new(&format!("{at:030}-{role:033}")).unwrap());
        Member {
            node: node(&long_name("m", at), 2551, uid(at)),
            status: Status::Up,
            up_number: UpNumber::new(u32::try_from(at + 1).unwrap()),
            roles: Roles::new(own, "default").unwrap(),
            app_version: AppVersion::new(&format!("1.{at}+{}", "x".repeat(50))).unwrap(),
        }
    };
    let (mut state, mut admitted) = (Gossip::new(), 0);
    while has_room(&state, &limits) {
        state.upsert_member(heavy(admitted));
        admitted += 1;
        let mut everything = state.clone();
        everything.set_paths(large_table());
        let nodes: Vec<_> = state.members().iter().map(|member| member.node.clone()).collect();
        for pair in nodes.windows(2) {
            everything
                .reachability_mut()
                .change(&pair[0], &pair[1], ReachabilityStatus::Unreachable);
        }
        for node in &nodes {
            everything.stamp(node, true, 0);
        }
        let plain = Limits {
            compress_from_bytes: usize::MAX,
            ..limits.clone()
        };
        let mut frame = Vec::new();
        assert_eq!(
            encode_message(&gossip(everything), 0, &plain, &mut frame),
            Ok(()),
            "{admitted}"
        );
    }
    assert!((250..400).contains(&admitted), "{admitted} heavy members");
}
