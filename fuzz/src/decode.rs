//! Decoders: bytes of a frame or a handshake in; no panic, invariants after every success, one written form
//! per value.

use std::sync::{Arc, LazyLock};

use quorate_core::ident::{Address, ClusterName, UniqueAddress};
use quorate_core::membership::gossip::Gossip;
use quorate_core::membership::vector_clock::ClockOrder;
use quorate_core::message::{
    DdataMsg, GossipBody, GossipEnvelope, Lane, MembershipMsg, Message, ShardingMsg,
};
use quorate_core::wire::handshake::{
    AUTH_NONE, Acceptor, FEATURES, HANDSHAKE_BODY_BYTES_MAX, HandshakeDecoded, Hello, HelloAck, HelloAnswer,
    LinkKind, RejectReason, check_ack, decode_answer, decode_hello, encode_answer, encode_hello,
};
use quorate_core::wire::{
    DecodedFrame, HEADER_BYTES, MAGIC, PackedGossip, VERSION_MAX, WireError, decode_frame, decode_message,
    encode_message, kind,
};

use crate::{KINDS, LIMITS};

/// The body of a gossip frame: what is accepted keeps the invariants and has one form.
pub fn gossip_decode(data: &[u8]) {
    check_body(MembershipMsg::GOSSIP.kind, data);
}

/// A kind by the first byte, then a body of that kind.
pub fn message_decode(data: &[u8]) {
    let Some((pick, body)) = data.split_first() else {
        return;
    };
    check_body(KINDS[usize::from(*pick) % KINDS.len()], body);
}

/// A message between regions and coordinators, or to and from entities: the first byte picks which.
pub fn sharding(data: &[u8]) {
    let Some((pick, body)) = data.split_first() else {
        return;
    };
    let kinds = [
        ShardingMsg::SHARDING.kind,
        ShardingMsg::SHARDING.kind,
        ShardingMsg::ENTITY.kind,
        ShardingMsg::ASK_REPLY.kind,
        ShardingMsg::HAND_BACK.kind,
        ShardingMsg::MARK.kind,
        ShardingMsg::MARK_ACK.kind,
        ShardingMsg::WATCH.kind,
        ShardingMsg::START.kind,
        ShardingMsg::STARTED.kind,
        ShardingMsg::REGISTRY.kind,
        ShardingMsg::SURVEY.kind,
    ];
    check_body(kinds[usize::from(*pick) % kinds.len()], body);
}

/// A message between replicators of distributed data.
pub fn ddata(data: &[u8]) {
    check_body(DdataMsg::DDATA.kind, data);
}

/// A stream of frames: as it is, and as one frame whose magic, version, length and checksum a forger has
/// mended.
pub fn frame_header(data: &[u8]) {
    walk(data);
    if data.len() > HEADER_BYTES {
        let mut forged = data.to_vec();
        mend_frame(&mut forged);
        walk(&forged);
    }
}

/// The first byte picks hello or answer, the rest is tried as a stream and as a body with a mended header.
pub fn handshake(data: &[u8]) {
    let Some((pick, body)) = data.split_first() else {
        return;
    };
    check_handshake(body);
    if body.len() <= HANDSHAKE_BODY_BYTES_MAX {
        check_handshake(&mended_handshake(1 + pick % 4, body));
    }
}

/// Makes the header of a frame fit its body.
pub fn mend_frame(frame: &mut [u8]) {
    frame[..2].copy_from_slice(&MAGIC);
    frame[2] = VERSION_MAX;
    let len = u32::try_from(frame.len() - HEADER_BYTES).unwrap_or(u32::MAX);
    frame[8..12].copy_from_slice(&len.to_le_bytes());
    let sum = checksum(&frame[..16], &frame[HEADER_BYTES..]);
    frame[16..20].copy_from_slice(&sum.to_le_bytes());
}

/// A handshake message of this kind around a body.
#[must_use]
pub fn mended_handshake(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = b"Qrh1".to_vec();
    out.extend([kind, 0]);
    out.extend(u16::try_from(body.len()).unwrap_or(u16::MAX).to_le_bytes());
    let sum = checksum(&out, body);
    out.extend(sum.to_le_bytes());
    out.extend(body);
    out
}

fn checksum(head: &[u8], body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(body);
    hasher.finalize()
}

fn encode(message: &Message) -> Vec<u8> {
    let mut out = Vec::new();
    match encode_message(message, 0, &LIMITS, &mut out) {
        Ok(()) => out,
        // An inflated state may be legal and still not fit a frame by itself.
        Err(WireError::TooLarge { .. }) => Vec::new(),
        Err(error) => panic!("what was decoded must be encodable: {error} for {message:?}"),
    }
}

pub(crate) fn check_body(kind: u16, body: &[u8]) {
    let lane = kind::lane_of(kind).unwrap_or(Lane::Control);
    let Ok(message) = decode_message(kind, lane, body, &LIMITS) else {
        return;
    };
    let state = match &message {
        Message::Membership(MembershipMsg::Gossip(envelope)) => Some((&envelope.to, &envelope.gossip)),
        Message::Membership(MembershipMsg::Welcome(welcome)) => Some((&welcome.to, &welcome.gossip)),
        _ => None,
    };
    if let Some((_, GossipBody::Packed(packed))) = state {
        check_state(packed);
    }
    let frame = encode(&message);
    let Some(again) = frame.get(HEADER_BYTES..) else {
        return;
    };
    // A state may come compressed by another compressor; its form byte stands behind the receiver.
    let form = state.map(|(to, _)| 1 + to.address().host().len() + 10);
    let plain = |bytes: &[u8]| form.is_none_or(|at| bytes[at] == 0);
    if plain(body) && plain(again) {
        assert_eq!(again, body, "a message has one form");
    } else {
        assert_eq!(decode_message(kind, lane, again, &LIMITS).as_ref(), Ok(&message));
    }
}

/// What was accepted can be opened as a whole, opens to the same state beside any other, and is written as it
/// was read.
fn check_state(packed: &PackedGossip) {
    let gossip = packed.open(&Gossip::new());
    gossip
        .check_invariants()
        .expect("an accepted state keeps the invariants");
    assert_eq!(gossip.members().len(), packed.members(), "no member is lost");
    assert_eq!(packed.open(&gossip), gossip, "beside itself it is the same");
    let body = GossipBody::Packed(Arc::new(packed.clone()));
    assert_eq!(body.without_news(&gossip), Some(ClockOrder::Same));
    for member in gossip.members() {
        let about = packed.about(&member.node).expect("every member is found");
        assert_eq!(about.seen, gossip.has_seen(&member.node));
        assert_eq!(about.counter, gossip.version().get(&member.node));
    }
    let GossipBody::Packed(again) = self::packed(&gossip) else {
        // An inflated state may be legal and still not fit a frame by itself.
        return;
    };
    assert_eq!(again.as_bytes(), packed.as_bytes(), "a state has one form");
}

/// The state as a peer would read it; as it is, if it does not fit a frame.
pub(crate) fn packed(gossip: &Gossip) -> GossipBody {
    let held = GossipBody::Held(Arc::new(gossip.clone()));
    let message = Message::Membership(MembershipMsg::Gossip(GossipEnvelope {
        to: nobody(),
        gossip: held.clone(),
    }));
    let frame = encode(&message);
    let Some(body) = frame.get(HEADER_BYTES..) else {
        return held;
    };
    match decode_message(MembershipMsg::GOSSIP.kind, Lane::Gossip, body, &LIMITS) {
        Ok(Message::Membership(MembershipMsg::Gossip(again))) => again.gossip,
        other => panic!("what was written is read: {other:?}"),
    }
}

fn nobody() -> UniqueAddress {
    UniqueAddress::new(Address::new("nobody", 1).expect("a legal name"), 0)
}

fn walk(mut stream: &[u8]) {
    loop {
        match decode_frame(stream, &LIMITS) {
            DecodedFrame::NeedMore(total) => {
                assert!(total > stream.len(), "asks for bytes it has");
                return;
            }
            DecodedFrame::Frame { frame, consumed } => {
                assert!((HEADER_BYTES..=stream.len()).contains(&consumed));
                let _ = decode_message(frame.kind, frame.lane, frame.body, &LIMITS);
                stream = &stream[consumed..];
            }
            DecodedFrame::Bad {
                consumed: Some(consumed),
                ..
            } => {
                assert!((HEADER_BYTES..=stream.len()).contains(&consumed));
                stream = &stream[consumed..];
            }
            DecodedFrame::Bad { consumed: None, .. } => return,
        }
    }
}

static ACCEPTOR: LazyLock<UniqueAddress> = LazyLock::new(|| {
    let address = Address::new("acceptor", 2_551).expect("a legal host");
    UniqueAddress::new(address, 5)
});

/// Whatever a hello says, an acceptor whom it was not meant for refuses it, and the dialer takes every
/// consent as it was meant.
fn check_answers(hello: &Hello) {
    let strangers = ClusterName::new("strangers").expect("a legal name");
    let meant = UniqueAddress::new(hello.to.clone(), hello.expected_uid.unwrap_or(5));
    for (me, cluster, quarantined) in [
        (&meant, &hello.cluster, false),
        (&meant, &hello.cluster, true),
        (&meant, &strangers, false),
        (&*ACCEPTOR, &hello.cluster, false),
    ] {
        let acceptor = Acceptor {
            me,
            cluster,
            features: FEATURES,
            auth_method: AUTH_NONE,
            quarantined,
            nonce: [1; 16],
        };
        if let Ok(ack) = acceptor.answer(hello) {
            assert!(!quarantined && *cluster == hello.cluster && *me.address() == hello.to);
            assert_eq!(check_ack(hello, &ack), Ok(()), "{hello:?} {ack:?}");
        }
    }
}

/// Whatever a consent says, a dialer takes it only from whom it meant, for a version it speaks.
fn check_consent(ack: &HelloAck) {
    let dialer = Address::new("dialer", 2_552).expect("a legal host");
    for expected_uid in [None, Some(5)] {
        let hello = Hello {
            versions: (VERSION_MAX, VERSION_MAX),
            cluster: ClusterName::new("orders").expect("a legal name"),
            from: UniqueAddress::new(dialer.clone(), 9),
            to: ACCEPTOR.address().clone(),
            expected_uid,
            link: LinkKind::Control,
            epoch: 1,
            features: FEATURES,
            auth_method: AUTH_NONE,
            nonce: [2; 16],
        };
        if check_ack(&hello, ack).is_ok() {
            assert_eq!((&hello.to, ack.version), (ack.from.address(), VERSION_MAX));
            assert!(expected_uid.is_none_or(|uid| uid == ack.from.uid()));
        }
    }
}

fn check_handshake(bytes: &[u8]) {
    match decode_hello(bytes) {
        HandshakeDecoded::NeedMore(total) => assert!(total > bytes.len(), "asks for bytes it has"),
        HandshakeDecoded::Done { value, consumed } => {
            assert!(consumed <= bytes.len());
            check_answers(&value);
            let mut again = Vec::new();
            encode_hello(&value, &mut again).expect("what was decoded can be encoded");
            let consumed = again.len();
            assert_eq!(decode_hello(&again), HandshakeDecoded::Done { value, consumed });
        }
        HandshakeDecoded::Bad(_) => {}
    }
    match decode_answer(bytes) {
        HandshakeDecoded::NeedMore(total) => assert!(total > bytes.len(), "asks for bytes it has"),
        HandshakeDecoded::Done { value, consumed } => {
            assert!(consumed <= bytes.len());
            if let HelloAnswer::Ack(ack) = &value {
                check_consent(ack);
            }
            if matches!(&value, HelloAnswer::Reject(reject) if matches!(reject.reason, RejectReason::Other { .. }))
            {
                return;
            }
            let mut again = Vec::new();
            encode_answer(&value, &mut again).expect("what was decoded can be encoded");
            let consumed = again.len();
            assert_eq!(decode_answer(&again), HandshakeDecoded::Done { value, consumed });
        }
        HandshakeDecoded::Bad(_) => {}
    }
}
