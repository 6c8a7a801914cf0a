//! The rows of the catalogue about bodies that no reader takes. Spec: reliability 3c.

use quorate_core::message::MembershipMsg;
use quorate_core::message::ShardingMsg;

use super::craft::{CONTROL, deflated, frame, in_small_blocks, node};
use super::rows::{NONSENSE, NONSENSE_OF_A_JOINER, WIRE, gossip, join, row, spoiled};
use super::state::{Row, StateColumns};
use super::{BadInput, ExpectedReaction, RowSpeaker};

/// Bodies that no reader takes.
pub(super) const BODIES: &[BadInput] = &[
    row("B-18", "hosts that do not rise", NONSENSE, |scene| {
        spoiled(scene, |state| {
            state.hosts = vec!["b".into(), "a".into()];
            state.members[1].host = 1;
        })
    }),
    row("B-18", "a role set that is there twice", NONSENSE, |scene| {
        spoiled(scene, |state| state.role_sets.push(Vec::new()))
    }),
    row("B-19", "a bool of 2", NONSENSE_OF_A_JOINER, |scene| {
        frame(CONTROL, MembershipMsg::INIT_JOIN_ACK.kind, scene.epoch, &[2])
    }),
    row("B-19", "tag 200", NONSENSE, |scene| {
        frame(
            CONTROL,
            ShardingMsg::SHARDING.kind,
            scene.epoch,
            &[&[0; 8][..], &[200]].concat(),
        )
    }),
    row("B-19", "a role that is no UTF-8", NONSENSE_OF_A_JOINER, |scene| {
        join(scene, &[vec![0xff, 0xfe]])
    }),
    row("B-20", "a bomb that says how large it is", NONSENSE, |scene| {
        let stream = miniz_oxide::deflate::compress_to_vec(&vec![0; 8 << 20], 6);
        gossip(scene, &deflated(256 << 20, &stream))
    }),
    row("B-20", "a bomb that says it is small", NONSENSE, |scene| {
        let stream = miniz_oxide::deflate::compress_to_vec(&vec![0; 8 << 20], 6);
        gossip(scene, &deflated(1 << 20, &stream))
    }),
    row("B-21", "a bomb of many small blocks", NONSENSE, |scene| {
        gossip(scene, &deflated(4_096, &in_small_blocks(&[0; 100_000])))
    }),
    row(
        "B-22",
        "a compressed state inside a compressed state",
        NONSENSE,
        |scene| {
            let state = StateColumns::of(&[&scene.to, &scene.me]).bytes();
            let inner = deflated(
                state.len() as u32,
                &miniz_oxide::deflate::compress_to_vec(&state, 6),
            );
            let outer = miniz_oxide::deflate::compress_to_vec(&inner, 6);
            gossip(scene, &deflated(inner.len() as u32, &outer))
        },
    ),
    row(
        "B-23",
        "a stream that is no deflate",
        (RowSpeaker::Newcomer, ExpectedReaction::Dropped, WIRE),
        |scene| gossip(scene, &deflated(1_000, &[0xff; 100])),
    ),
    row("B-24", "bytes behind the stream", NONSENSE, |scene| {
        let state = StateColumns::of(&[&scene.to, &scene.me]).bytes();
        let mut stream = miniz_oxide::deflate::compress_to_vec(&state, 6);
        stream.push(0);
        gossip(scene, &deflated(state.len() as u32, &stream))
    }),
    row("B-25", "a length that is one too small", NONSENSE, |scene| {
        let state = StateColumns::of(&[&scene.to, &scene.me]).bytes();
        let stream = miniz_oxide::deflate::compress_to_vec(&state, 6);
        gossip(scene, &deflated(state.len() as u32 - 1, &stream))
    }),
    row("B-25", "a length that is one too large", NONSENSE, |scene| {
        let state = StateColumns::of(&[&scene.to, &scene.me]).bytes();
        let stream = miniz_oxide::deflate::compress_to_vec(&state, 6);
        gossip(scene, &deflated(state.len() as u32 + 1, &stream))
    }),
    row("B-26", "2^32 - 1 records and no byte left", NONSENSE, |scene| {
        spoiled(scene, |state| state.records_claimed = Some(u32::MAX))
    }),
    row(
        "B-26",
        "2^32 - 1 shard homes and no byte left",
        NONSENSE,
        |scene| {
            let mut body = vec![0; 8];
            body.push(7);
            body.extend(1_u32.to_le_bytes());
            node(&mut body, &scene.me);
            body.extend(u32::MAX.to_le_bytes());
            frame(CONTROL, ShardingMsg::SHARDING.kind, scene.epoch, &body)
        },
    ),
    row(
        "B-28",
        "a text of 255 bytes and 2 bytes left",
        NONSENSE,
        |scene| {
            let mut body = vec![255];
            body.extend(b"hh");
            frame(CONTROL, MembershipMsg::LEAVE.kind, scene.epoch, &body)
        },
    ),
    row("B-29", "10,001 members", NONSENSE, |scene| {
        spoiled(scene, |state| state.members_claimed = Some(10_001))
    }),
    row("B-30", "a member that is there twice", NONSENSE, |scene| {
        spoiled(scene, |state| {
            let Row { host, port, uid, .. } = state.members[0];
            (state.members[1].host, state.members[1].port, state.members[1].uid) = (host, port, uid);
        })
    }),
    row(
        "B-32",
        "a clock entry of a member that is not there",
        NONSENSE,
        |scene| spoiled(scene, |state| state.clock.push((7, 1))),
    ),
    row("B-32", "a host that is not there", NONSENSE, |scene| {
        spoiled(scene, |state| state.members[1].host = 7)
    }),
    row("B-33", "a seen bit of nobody", NONSENSE, |scene| {
        spoiled(scene, |state| state.seen[0] = 0b1000_0000)
    }),
    row("B-34", "a member with status Removed", NONSENSE, |scene| {
        spoiled(scene, |state| state.members[0].status = 5)
    }),
    row(
        "B-35",
        "a member that is a tombstone as well",
        NONSENSE,
        |scene| {
            spoiled(scene, |state| {
                let Row { host, port, uid, .. } = state.members[0];
                state.tombstones.push((host, port, uid));
            })
        },
    ),
    row("B-36", "a clock entry of 2^64 - 1", NONSENSE, |scene| {
        spoiled(scene, |state| state.clock.push((0, u64::MAX)))
    }),
    row("B-46", "33 roles", NONSENSE_OF_A_JOINER, |scene| {
        let roles: Vec<Vec<u8>> = (10..43).map(|n| format!("r{n}").into_bytes()).collect();
        join(scene, &roles)
    }),
    row("B-46", "a role of 65 bytes", NONSENSE_OF_A_JOINER, |scene| {
        join(scene, &[vec![b'r'; 65]])
    }),
    row("B-46", "two data centers", NONSENSE_OF_A_JOINER, |scene| {
        join(scene, &[b"dc-a".to_vec(), b"dc-b".to_vec()])
    }),
    row(
        "B-46",
        "the data center that is never written",
        NONSENSE_OF_A_JOINER,
        |scene| join(scene, &[b"dc-default".to_vec()]),
    ),
];
