//! Frames that must not get through, row by row of the catalogue. Spec: reliability 3c, B-01 to B-14, B-58.

use std::vec;
use std::vec::Vec;

use super::{every_message, frame_of, node};
use crate::config::Limits;
use crate::message::{Lane, MembershipMsg, Message, PathMsg, ShardingMsg, SingletonMsg};
use crate::sharding::state::chain::AskChain;
use crate::wire::{DecodedFrame, Reaction, WireError, decode_frame, decode_message, kind};

fn frame(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = frame_of(&Message::Membership(MembershipMsg::Leave(node("a", 1, 1))), 7);
    change(&mut bytes);
    bytes
}

/// As [`frame`], with a checksum that fits again.
fn repaired(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = frame(change);
    let len = u32::try_from(bytes.len() - 20).unwrap();
    bytes[8..12].copy_from_slice(&len.to_le_bytes());
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..16]);
    hasher.update(&bytes[20..]);
    bytes[16..20].copy_from_slice(&hasher.finalize().to_le_bytes());
    bytes
}

#[test]
fn b_01_to_b_10_bad_headers_close_the_link_with_a_reason() {
    let max = Limits::default().control_frame_bytes_max as u64;
    let malformed = |what| WireError::Malformed { what };
    let length = |len: u32| move |bytes: &mut Vec<u8>| bytes[8..12].copy_from_slice(&len.to_le_bytes());
    let cases = [
        (
            "B-01",
            frame(length(0)),
            malformed("empty frame"),
            Reaction::CloseAndCount,
        ),
        (
            "B-03",
            frame(|b| b[1] = b'R'),
            WireError::BadMagic,
            Reaction::Close,
        ),
        (
            "B-04",
            b"GET / HTTP/1.1\r\n".to_vec(),
            WireError::BadMagic,
            Reaction::Close,
        ),
        (
            "B-04 tls",
            vec![0x16, 0x03, 0x01],
            WireError::BadMagic,
            Reaction::Close,
        ),
        (
            "B-06",
            frame(|b| b[2] = 0),
            WireError::UnsupportedVersion { found: 0 },
            Reaction::Close,
        ),
        (
            "B-06",
            frame(|b| b[2] = 255),
            WireError::UnsupportedVersion { found: 255 },
            Reaction::Close,
        ),
        (
            "lane",
            frame(|b| b[3] = 5),
            malformed("lane"),
            Reaction::CloseAndCount,
        ),
        (
            "B-08",
            frame(|b| b[6] = 2),
            malformed("flags"),
            Reaction::CloseAndCount,
        ),
        (
            "B-08",
            frame(|b| b[7] = 128),
            malformed("flags"),
            Reaction::CloseAndCount,
        ),
        (
            "B-09",
            frame(length(262_145)),
            WireError::TooLarge { bytes: 262_145, max },
            Reaction::Close,
        ),
        (
            "B-10",
            frame(length(u32::MAX)),
            WireError::TooLarge {
                bytes: u32::MAX.into(),
                max,
            },
            Reaction::Close,
        ),
    ];
    for (id, bytes, error, reaction) in cases {
        assert_eq!(error.reaction(), reaction, "{id}");
        // The header alone is enough: nobody waits for the body.
        let head = &bytes[..bytes.len().min(20)];
        assert_eq!(
            decode_frame(head, &Limits::default()),
            DecodedFrame::Bad {
                error,
                consumed: None
            },
            "{id}"
        );
    }
}

#[test]
fn b_02_half_a_header_waits_for_the_rest() {
    let bytes = frame(|_| ());
    assert_eq!(decode_frame(&[], &Limits::default()), DecodedFrame::NeedMore(20));
    assert_eq!(
        decode_frame(&bytes[..7], &Limits::default()),
        DecodedFrame::NeedMore(20)
    );
    assert_eq!(
        decode_frame(&bytes[..20], &Limits::default()),
        DecodedFrame::NeedMore(bytes.len())
    );
}

#[test]
fn b_14_a_wrong_checksum_costs_one_frame() {
    let mut bytes = frame(|bytes| bytes[22] ^= 1);
    let consumed = bytes.len();
    bytes.extend(frame(|_| ()));
    let bad = DecodedFrame::Bad {
        error: WireError::Checksum,
        consumed: Some(consumed),
    };
    assert_eq!(decode_frame(&bytes, &Limits::default()), bad);
    assert!(matches!(
        decode_frame(&bytes[consumed..], &Limits::default()),
        DecodedFrame::Frame { .. }
    ));
    assert_eq!(WireError::Checksum.reaction(), Reaction::Drop);
}

#[test]
fn b_07_an_unknown_kind_is_dropped_and_named() {
    for unknown in [0, 17, 18, u16::MAX] {
        let error = WireError::UnknownKind { kind: unknown };
        assert_eq!(
            decode_message(unknown, Lane::Control, b"x", &Limits::default()),
            Err(error.clone())
        );
        assert_eq!(error.reaction(), Reaction::Drop);
    }
}

#[test]
fn a_message_on_a_lane_that_is_not_its_own_is_refused() {
    for (name, message) in every_message() {
        let bytes = frame_of(&message, 7);
        for lane in Lane::ALL.into_iter().filter(|lane| *lane != message.lane()) {
            let decoded = decode_message(kind::of(&message), lane, &bytes[20..], &Limits::default());
            assert_eq!(decoded, Err(WireError::Malformed { what: "lane" }), "{name}");
        }
    }
}

#[test]
fn b_13_bytes_behind_the_last_field_are_refused() {
    for (name, message) in every_message() {
        let mut body = frame_of(&message, 7)[20..].to_vec();
        body.push(0);
        let decoded = decode_message(kind::of(&message), message.lane(), &body, &Limits::default());
        match (&message, decoded) {
            (Message::Sharding(ShardingMsg::Entity(_) | ShardingMsg::HandBack(_)), Ok(_)) => {}
            (Message::Sharding(ShardingMsg::AskReply(reply)), Ok(_)) if reply.result.is_ok() => {}
            (Message::Singleton(SingletonMsg::Delivery(_)), Ok(_)) => {}
            (Message::Singleton(SingletonMsg::Reply(reply)), Ok(_)) if reply.result.is_ok() => {}
            (Message::Path(PathMsg::Delivery(_) | PathMsg::State(_)), Ok(_)) => {}
            (Message::Path(PathMsg::Reply(reply)), Ok(_)) if reply.result.is_ok() => {}
            (_, decoded) => assert_eq!(decoded, Err(WireError::TrailingBytes), "{name}"),
        }
    }
}

#[test]
fn an_extension_block_of_a_later_version_is_skipped() {
    let limits = Limits::default();
    let plain = frame_of(&Message::Membership(MembershipMsg::Leave(node("a", 1, 1))), 7);
    let with_block = |block: &[u8], message: &[u8]| {
        repaired(|bytes| {
            bytes.truncate(20);
            bytes[6] = 1;
            bytes.extend_from_slice(block);
            bytes.extend_from_slice(message);
        })
    };
    let extended = with_block(&[7, 0, 9, 0, 3, 0, 1, 2, 3], &plain[20..]);
    let DecodedFrame::Frame { frame, consumed } = decode_frame(&extended, &limits) else {
        panic!("a frame")
    };
    assert_eq!((frame.body, consumed), (&plain[20..], extended.len()));
    // A field beyond the block, a block beyond the body, a block and no message.
    let cases: [(&[u8], &[u8], WireError); 3] = [
        (&[7, 0, 9, 0, 4, 0, 1, 2, 3], b"x", WireError::Incomplete),
        (&[200, 0, 9, 0, 3, 0, 1, 2, 3], b"x", WireError::Incomplete),
        (
            &[4, 0, 9, 0, 0, 0],
            b"",
            WireError::Malformed { what: "empty frame" },
        ),
    ];
    for (block, message, error) in cases {
        let bytes = with_block(block, message);
        assert_eq!(
            decode_frame(&bytes, &limits),
            DecodedFrame::Bad {
                error,
                consumed: None
            }
        );
    }
}

#[test]
fn b_19_fields_outside_their_range_are_refused() {
    let limits = Limits::default();
    let malformed = |what| Err(WireError::Malformed { what });
    let mut host = frame_of(&Message::Membership(MembershipMsg::Leave(node("ab", 1, 1))), 7)[20..].to_vec();
    host[1] = 0xFF;
    assert_eq!(
        decode_message(MembershipMsg::LEAVE.kind, Lane::Control, &host, &limits),
        malformed("address")
    );
    host[1] = 0x1B;
    assert_eq!(
        decode_message(MembershipMsg::LEAVE.kind, Lane::Control, &host, &limits),
        malformed("address")
    );
    assert_eq!(
        decode_message(MembershipMsg::INIT_JOIN_ACK.kind, Lane::Control, &[2], &limits),
        malformed("compatible")
    );
    assert_eq!(
        decode_message(MembershipMsg::INIT_JOIN_NACK.kind, Lane::Control, &[1], &limits),
        malformed("InitJoinNack")
    );
    let mut sharding = vec![0; 8];
    sharding.push(200);
    assert_eq!(
        decode_message(ShardingMsg::SHARDING.kind, Lane::Control, &sharding, &limits),
        malformed("sharding message")
    );
}

#[test]
fn b_28_b_46_names_and_role_lists_beyond_their_limits_are_refused() {
    let limits = Limits::default();
    let mut long = vec![129];
    long.extend_from_slice(&[b'x'; 129]);
    long.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let decoded = decode_message(MembershipMsg::LEAVE.kind, Lane::Control, &long, &limits);
    assert_eq!(decoded, Err(WireError::Malformed { what: "address" }));
    let mut join = vec![1, b'a', 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 1, b'1'];
    let at = join.len();
    join.push(33);
    (b'A'..b'A' + 33).for_each(|letter| join.extend_from_slice(&[1, letter]));
    let decoded = decode_message(MembershipMsg::JOIN.kind, Lane::Control, &join, &limits);
    assert_eq!(decoded, Err(WireError::LimitExceeded { what: "roles" }));
    // 32 of them and the data center that is not written are one too many as well.
    join[at] = 32;
    let decoded = decode_message(
        MembershipMsg::JOIN.kind,
        Lane::Control,
        &join[..join.len() - 2],
        &limits,
    );
    assert!(decoded.is_err());
}

#[test]
fn b_58_entity_ids_are_bounded() {
    let limits = Limits::default();
    for bytes in [0_u16, 1_025] {
        let mut body = vec![0; 12];
        body.extend_from_slice(&bytes.to_le_bytes());
        body.resize(body.len() + usize::from(bytes), b'x');
        let error = WireError::BadEntityId { bytes: bytes.into() };
        assert_eq!(
            decode_message(ShardingMsg::ENTITY.kind, Lane::User, &body, &limits),
            Err(error.clone())
        );
        assert_eq!(error.reaction(), Reaction::Drop);
    }
}

#[test]
fn b_26_counts_that_the_body_cannot_hold_are_refused_before_anything_is_allocated() {
    let limits = Limits::default();
    // Register with 2^32-1 shards, then with a legal count and no bytes.
    for (count, error) in [
        (u32::MAX, WireError::LimitExceeded { what: "hosted" }),
        (65_536, WireError::Incomplete),
    ] {
        let mut body = vec![0; 8];
        body.extend_from_slice(&[1, 0, 1, b'f', 0, 64, 0, 0, 0, 1, b'e', 0]);
        body.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
        body.extend_from_slice(&count.to_le_bytes());
        assert_eq!(
            decode_message(ShardingMsg::SHARDING.kind, Lane::Control, &body, &limits),
            Err(error)
        );
    }
    // 2^32-1 homes.
    let mut body = vec![0; 8];
    body.extend_from_slice(&[7, 1, 0, 0, 0, 1, b'a', 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    body.extend_from_slice(&u32::MAX.to_le_bytes());
    let decoded = decode_message(ShardingMsg::SHARDING.kind, Lane::Control, &body, &limits);
    assert_eq!(decoded, Err(WireError::LimitExceeded { what: "homes" }));
}

#[test]
fn b_47_lists_of_settings_beyond_their_limits_or_out_of_order_are_refused() {
    let limits = Limits::default();
    let read =
        |list: &[u8]| decode_message(MembershipMsg::INIT_JOIN.kind, Lane::Control, list, &limits).map(|_| ());
    let entry = |key: &[u8], flags: u8, value: &[u8]| {
        let mut entry = vec![u8::try_from(key.len()).unwrap()];
        entry.extend_from_slice(key);
        entry.push(flags);
        entry.push(u8::try_from(value.len()).unwrap());
        entry.extend_from_slice(value);
        entry
    };
    let list = |entries: &[Vec<u8>]| {
        let mut list = vec![u8::try_from(entries.len()).unwrap()];
        entries.iter().for_each(|entry| list.extend_from_slice(entry));
        list
    };
    let one = |key: &[u8], flags, value: &[u8]| read(&list(&[entry(key, flags, value)]));
    let (a, b) = (entry(b"a", 0, b"1"), entry(b"b", 1, b""));
    assert_eq!(read(&[0]), Ok(()), "none");
    assert_eq!(read(&list(&[a.clone(), b.clone()])), Ok(()));
    let non_canonical = Err(WireError::NonCanonical { what: "settings" });
    assert_eq!(read(&list(&[b.clone(), a.clone()])), non_canonical);
    assert_eq!(read(&list(&[a.clone(), a.clone()])), non_canonical);
    let limit = |what| Err(WireError::LimitExceeded { what });
    assert_eq!(read(&[65]), limit("settings"), "before anything is awaited");
    assert_eq!(one(&[b'k'; 65], 0, b""), limit("key"));
    assert_eq!(one(b"k", 0, &[b'v'; 129]), limit("value"));
    assert_eq!(one(&[b'k'; 64], 1, &[b'v'; 128]), Ok(()));
    let long = |key: u8| entry(&[key; 64], 0, &[b'v'; 128]);
    let too_long: Vec<Vec<u8>> = (b'a'..=b's').map(long).collect();
    assert_eq!(read(&list(&too_long)), limit("settings"), "3,706 bytes in all");
    assert_eq!(read(&list(&too_long[..18])), Ok(()));
    let malformed = |what| Err(WireError::Malformed { what });
    for (key, what) in [
        (b"".as_slice(), "key"),
        (b"a b", "settings"),
        (b"\x1b[2J", "settings"),
        (&[0xff], "key"),
    ] {
        assert_eq!(one(key, 0, b"value"), malformed(what), "{key:?}");
    }
    assert_eq!(
        one(b"k", 2, b""),
        malformed("must_exist"),
        "a flag of a later version"
    );
    assert_eq!(one(b"k", 0, &[0xff]), malformed("value"));
    assert_eq!(
        read(&list(core::slice::from_ref(&a))[..3]),
        Err(WireError::Incomplete)
    );
    let mut behind = list(&[a]);
    behind.push(0);
    assert_eq!(read(&behind), Err(WireError::TrailingBytes));
}

#[test]
fn nobody_was_given_a_shard_without_a_token() {
    let (_, message) = every_message()
        .into_iter()
        .find(|(name, _)| *name == "shard_tokens")
        .unwrap();
    let bytes = frame_of(&message, 7);
    let DecodedFrame::Frame { frame, .. } = decode_frame(&bytes, &Limits::default()) else {
        panic!("a whole frame");
    };
    let mut none = frame.body.to_vec();
    let token = none.len() - 16;
    none[token..].fill(0);
    let read = decode_message(frame.kind, frame.lane, &none, &Limits::default());
    assert_eq!(read, Err(WireError::Malformed { what: "tokens" }));
}

#[test]
fn whose_handlers_wait_is_never_nobody() {
    let named = |wanted: &str| {
        let mut all = every_message().into_iter();
        frame_of(&all.find(|(name, _)| *name == wanted).unwrap().1, 7)
    };
    let (chain, plain) = (named("entity_ask_chain"), named("entity_ask"));
    // One byte says how many, and each name has eight.
    assert_eq!(chain.len(), plain.len() + 1 + 2 * 8);
    // None, or more than there may be, is not what a node writes.
    let DecodedFrame::Frame { frame, .. } = decode_frame(&chain, &Limits::default()) else {
        panic!("a whole frame");
    };
    let body = frame.body.to_vec();
    let at = body
        .windows(8)
        .position(|eight| eight == 7_u64.to_le_bytes())
        .unwrap()
        - 9;
    assert_eq!(body[at], 2);
    for count in [0, AskChain::NAMES_MAX as u8 + 1, 255] {
        let mut bad = body.clone();
        bad[at] = count;
        let read = decode_message(frame.kind, frame.lane, &bad, &Limits::default());
        assert_eq!(read, Err(WireError::Malformed { what: "chain" }), "{count}");
    }
}

#[test]
fn a_message_is_told_asked_or_a_wake_up_and_nothing_between() {
    let mut all = every_message().into_iter();
    let (_, wake_up) = all.find(|(name, _)| *name == "entity_wake_up").unwrap();
    let frame = frame_of(&wake_up, 7);
    let DecodedFrame::Frame { frame, .. } = decode_frame(&frame, &Limits::default()) else {
        panic!("a whole frame");
    };
    // Behind the kind, the shard and the hops.
    let at = 8 + 2 + 1;
    assert_eq!(frame.body[at], 1 | 4);
    for flags in [2, 4, 6, 7, 8, 9, 255] {
        let mut bad = frame.body.to_vec();
        bad[at] = flags;
        let read = decode_message(frame.kind, frame.lane, &bad, &Limits::default());
        assert_eq!(
            read,
            Err(WireError::Malformed { what: "entity flags" }),
            "{flags}"
        );
    }
}
