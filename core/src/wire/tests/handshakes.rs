//! The handshake: codes, decisions, refusals.

use std::vec;
use std::vec::Vec;

use super::node;
use crate::ident::{ClusterName, UniqueAddress};
use crate::wire::handshake::{
    AUTH_NONE, Acceptor, FEATURE_QUESTION, HANDSHAKE_BODY_BYTES_MAX, HandshakeDecoded, Hello, HelloAck,
    HelloAnswer, HelloReject, LinkKind, RejectReason, check_ack, decode_answer, decode_hello, encode_answer,
    encode_hello,
};
use crate::wire::{VERSION_MAX, VERSION_MIN, WireError};

fn cluster() -> ClusterName {
    ClusterName::new("orders").unwrap()
}

fn me() -> UniqueAddress {
    node("acceptor", 2551, 5)
}

fn hello() -> Hello {
    Hello {
        versions: (VERSION_MIN, VERSION_MAX),
        cluster: cluster(),
        from: node("dialer", 2552, -3),
        to: me().address().clone(),
        expected_uid: Some(5),
        link: LinkKind::User,
        epoch: 4,
        features: 0,
        auth_method: AUTH_NONE,
        nonce: [7; 16],
    }
}

fn answer(hello: &Hello) -> Result<HelloAck, HelloReject> {
    let (me, cluster) = (me(), cluster());
    let nonce = [9; 16];
    let acceptor = Acceptor {
        me: &me,
        cluster: &cluster,
        features: 3,
        auth_method: 0,
        quarantined: false,
        nonce,
    };
    acceptor.answer(hello)
}

fn encoded(answer: &HelloAnswer) -> Vec<u8> {
    let mut out = Vec::new();
    encode_answer(answer, &mut out).unwrap();
    out
}

fn encoded_hello(hello: &Hello) -> Vec<u8> {
    let mut out = Vec::new();
    encode_hello(hello, &mut out).unwrap();
    out
}

fn all_answers() -> Vec<(&'static str, HelloAnswer)> {
    let reject = |reason| {
        HelloAnswer::Reject(HelloReject {
            reason,
            versions: (1, 1),
        })
    };
    vec![
        ("hello_ack", HelloAnswer::Ack(answer(&hello()).unwrap())),
        ("hello_reject_version", reject(RejectReason::Version)),
        ("hello_reject_cluster", reject(RejectReason::WrongCluster)),
        ("hello_reject_address", reject(RejectReason::WrongAddress)),
        (
            "hello_reject_incarnation",
            reject(RejectReason::WrongIncarnation { found: 6 }),
        ),
        ("hello_reject_quarantined", reject(RejectReason::Quarantined)),
        ("hello_reject_too_many", reject(RejectReason::TooManyLinks)),
        ("hello_reject_auth_method", reject(RejectReason::AuthMethod)),
        (
            "hello_reject_unauthenticated",
            reject(RejectReason::Unauthenticated),
        ),
        ("hello_reject_duplicate", reject(RejectReason::DuplicateUid)),
        ("hello_reject_shutting_down", reject(RejectReason::ShuttingDown)),
        ("hello_reject_identity", reject(RejectReason::WrongIdentity)),
        ("hello_reject_not_opening", reject(RejectReason::NotOpening)),
    ]
}

pub(super) fn every_handshake() -> Vec<(&'static str, Vec<u8>)> {
    let open = Hello {
        expected_uid: None,
        link: LinkKind::Control,
        ..hello()
    };
    let question = Hello {
        features: FEATURE_QUESTION,
        ..hello()
    };
    let mut all = vec![
        ("hello", encoded_hello(&hello())),
        ("hello_question", encoded_hello(&question)),
        ("hello_any_uid", encoded_hello(&open)),
    ];
    all.extend(
        all_answers()
            .into_iter()
            .map(|(name, answer)| (name, encoded(&answer))),
    );
    all
}

fn repair(bytes: &mut [u8]) {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..8]);
    hasher.update(&bytes[12..]);
    bytes[8..12].copy_from_slice(&hasher.finalize().to_le_bytes());
}

#[test]
fn handshakes_survive_the_round_trip_and_leave_what_follows() {
    let mut bytes = encoded_hello(&hello());
    let consumed = bytes.len();
    bytes.extend_from_slice(b"next");
    assert_eq!(
        decode_hello(&bytes),
        HandshakeDecoded::Done {
            value: hello(),
            consumed
        }
    );
    for (name, value) in all_answers() {
        let bytes = encoded(&value);
        assert_eq!(
            decode_answer(&bytes),
            HandshakeDecoded::Done {
                value,
                consumed: bytes.len()
            },
            "{name}"
        );
        assert!(
            matches!(decode_hello(&bytes), HandshakeDecoded::Bad(_)),
            "{name} is no hello"
        );
    }
}

#[test]
fn a_proof_of_a_later_version_is_skipped_and_retired_kinds_are_no_handshake() {
    let ack = answer(&hello()).unwrap();
    let mut bytes = encoded(&HelloAnswer::Ack(ack.clone()));
    assert_eq!(bytes.pop(), Some(0), "no proof");
    for (proof, fits) in [(3, true), (64, true), (65, false)] {
        let mut bytes = bytes.clone();
        bytes.push(proof);
        bytes.extend(std::iter::repeat_n(9, usize::from(proof)));
        let len = u16::try_from(bytes.len() - 12).unwrap();
        bytes[6..8].copy_from_slice(&len.to_le_bytes());
        repair(&mut bytes);
        let expected = match fits {
            true => HandshakeDecoded::Done {
                value: HelloAnswer::Ack(ack.clone()),
                consumed: bytes.len(),
            },
            false => HandshakeDecoded::Bad(WireError::LimitExceeded { what: "proof bytes" }),
        };
        assert_eq!(decode_answer(&bytes), expected, "{proof}");
    }
    for kind in [4, 5] {
        let mut bytes = encoded(&HelloAnswer::Ack(ack.clone()));
        bytes[4] = kind;
        repair(&mut bytes);
        let unknown = WireError::Malformed {
            what: "handshake kind",
        };
        assert_eq!(decode_answer(&bytes), HandshakeDecoded::Bad(unknown.clone()));
        assert_eq!(decode_hello(&bytes), HandshakeDecoded::Bad(unknown));
    }
}

#[test]
fn b_16_every_prefix_and_every_flipped_bit_of_a_handshake_is_noticed() {
    for (name, mut bytes) in every_handshake() {
        let done = |bytes: &[u8]| {
            matches!(decode_hello(bytes), HandshakeDecoded::Done { .. })
                || matches!(decode_answer(bytes), HandshakeDecoded::Done { .. })
        };
        for len in 0..bytes.len() {
            assert!(!done(&bytes[..len]), "{name} at {len}");
        }
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(!done(&bytes), "{name}, bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn b_03_to_b_10_what_no_handshake_starts_with_is_refused_before_it_is_complete() {
    for garbage in [&b"GET / HTTP/1.1\r\n"[..], b"\x16\x03\x01", b"Qr\x01", b"Qrh2"] {
        assert_eq!(decode_hello(garbage), HandshakeDecoded::Bad(WireError::BadMagic));
    }
    let claimed = u16::try_from(HANDSHAKE_BODY_BYTES_MAX + 1).unwrap();
    let mut head = b"Qrh1\x01\0".to_vec();
    head.extend_from_slice(&claimed.to_le_bytes());
    head.extend_from_slice(&[0; 4]);
    assert_eq!(
        decode_hello(&head),
        HandshakeDecoded::Bad(WireError::TooLarge {
            bytes: 1025,
            max: 1024
        })
    );
    assert_eq!(decode_hello(b"Qrh1"), HandshakeDecoded::NeedMore(12));
}

#[test]
fn optional_fields_of_a_later_version_are_skipped() {
    let mut bytes = encoded_hello(&hello());
    bytes.extend_from_slice(&[9, 0, 2, 0, 0xAA, 0xBB, 10, 0, 0, 0]);
    let len = u16::try_from(bytes.len() - 12).unwrap();
    bytes[6..8].copy_from_slice(&len.to_le_bytes());
    repair(&mut bytes);
    assert_eq!(
        decode_hello(&bytes),
        HandshakeDecoded::Done {
            value: hello(),
            consumed: bytes.len()
        }
    );
    // The same tag twice, and a field longer than the body.
    let tag = bytes.len() - 4;
    bytes[tag] = 9;
    repair(&mut bytes);
    assert_eq!(
        decode_hello(&bytes),
        HandshakeDecoded::Bad(WireError::NonCanonical { what: "extension" })
    );
    bytes[tag] = 10;
    bytes[tag + 2] = 1;
    repair(&mut bytes);
    assert_eq!(decode_hello(&bytes), HandshakeDecoded::Bad(WireError::Incomplete));
}

#[test]
fn an_unknown_reason_is_reported_by_its_number() {
    let mut bytes = encoded(&HelloAnswer::Reject(HelloReject {
        reason: RejectReason::Version,
        versions: (1, 1),
    }));
    bytes[14] = 200;
    repair(&mut bytes);
    let reject = HelloReject {
        reason: RejectReason::Other { code: 200 },
        versions: (1, 1),
    };
    let value = HelloAnswer::Reject(reject);
    assert_eq!(
        decode_answer(&bytes),
        HandshakeDecoded::Done {
            value,
            consumed: bytes.len()
        }
    );
}

#[test]
fn b_06_versions_are_negotiated_to_the_newest_common_one() {
    let with = |versions| answer(&Hello { versions, ..hello() });
    assert_eq!(with((0, 9)).unwrap().version, VERSION_MAX);
    for versions in [(0, 0), (2, 255)] {
        let reject = with(versions).unwrap_err();
        assert_eq!(
            reject,
            HelloReject {
                reason: RejectReason::Version,
                versions: (VERSION_MIN, VERSION_MAX)
            }
        );
    }
}

#[test]
fn b_39_the_acceptor_refuses_each_mistake_by_its_name() {
    let other = ClusterName::new("other").unwrap();
    let cases = [
        (
            Hello {
                cluster: other,
                ..hello()
            },
            RejectReason::WrongCluster,
        ),
        (
            Hello {
                to: node("acceptor", 9, 5).address().clone(),
                ..hello()
            },
            RejectReason::WrongAddress,
        ),
        (
            Hello {
                from: me(),
                ..hello()
            },
            RejectReason::DuplicateUid,
        ),
        (
            Hello {
                expected_uid: Some(6),
                ..hello()
            },
            RejectReason::WrongIncarnation { found: 5 },
        ),
        (
            Hello {
                auth_method: 1,
                ..hello()
            },
            RejectReason::AuthMethod,
        ),
    ];
    for (hello, reason) in cases {
        assert_eq!(answer(&hello).unwrap_err().reason, reason);
    }
    let (me, cluster) = (me(), cluster());
    let nonce = [0; 16];
    let acceptor = Acceptor {
        me: &me,
        cluster: &cluster,
        features: 0,
        auth_method: 0,
        quarantined: true,
        nonce,
    };
    assert_eq!(
        acceptor.answer(&hello()).unwrap_err().reason,
        RejectReason::Quarantined
    );
    let ack = answer(&Hello {
        features: 2 | 8,
        ..hello()
    })
    .unwrap();
    assert_eq!(ack.features, 2, "only what both sides understand");
}

#[test]
fn the_dialer_refuses_a_consent_that_does_not_answer_its_hello() {
    let ack = answer(&hello()).unwrap();
    assert_eq!(check_ack(&hello(), &ack), Ok(()));
    let cases = [
        (
            HelloAck {
                version: 2,
                ..ack.clone()
            },
            RejectReason::Version,
        ),
        (
            HelloAck {
                from: node("acceptor", 9, 5),
                ..ack.clone()
            },
            RejectReason::WrongAddress,
        ),
        (
            HelloAck {
                from: node("acceptor", 2551, 6),
                ..ack.clone()
            },
            RejectReason::WrongIncarnation { found: 6 },
        ),
        (
            HelloAck {
                auth_method: 1,
                ..ack.clone()
            },
            RejectReason::AuthMethod,
        ),
        (HelloAck { features: 1, ..ack }, RejectReason::Features),
    ];
    for (ack, reason) in cases {
        assert_eq!(check_ack(&hello(), &ack), Err(reason));
    }
}

#[test]
fn what_cannot_be_written_is_refused_and_leaves_nothing() {
    let mut out = Vec::new();
    let backwards = Hello {
        versions: (2, 1),
        ..hello()
    };
    assert_eq!(
        encode_hello(&backwards, &mut out),
        Err(WireError::Unencodable { what: "versions" })
    );
    assert!(out.is_empty());
}
