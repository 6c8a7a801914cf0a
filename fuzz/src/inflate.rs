//! Compressed states: whatever a stream says, it costs at most what it claims, what it claims is bounded, and
//! only a stream of exactly that many bytes is accepted.

use miniz_oxide::deflate::compress_to_vec;
use quorate_core::message::{GossipBody, Lane, MembershipMsg, Message};
use quorate_core::wire::decode_message;

use crate::LIMITS;
use crate::counting::allocated;

/// The inflater's own tables.
const INFLATER_BYTES: usize = 16 << 10;
/// A state may be so many times as large as its stream.
const RATIO_MAX: usize = 200;

/// The first byte picks how the rest is used: as a stream with a claim of its own, or as contents that are
/// compressed here and then cut, extended, or claimed wrongly.
pub fn inflate_bound(data: &[u8]) {
    let Some((pick, rest)) = data.split_first() else {
        return;
    };
    let level = 1 + pick / 8 % 9;
    let honest = rest.len();
    match pick % 8 {
        0 => {
            let (claim, stream) = rest
                .split_first_chunk::<4>()
                .map_or((0, rest), |(claim, stream)| {
                    (u32::from_le_bytes(*claim) as usize, stream)
                });
            check(claim, stream);
        }
        1 => {
            let mut stream = compress_to_vec(rest, level);
            stream.pop();
            assert!(!check(honest, &stream), "half a stream is refused");
        }
        2 => {
            let stream = [&compress_to_vec(rest, level)[..], &[0]].concat();
            assert!(!check(honest, &stream), "bytes behind a stream are refused");
        }
        3 => assert!(
            !check(honest + 1, &compress_to_vec(rest, level)),
            "too large a claim is refused"
        ),
        4 if honest > 0 => {
            assert!(
                !check(honest - 1, &compress_to_vec(rest, level)),
                "too small a claim is refused"
            );
        }
        5 => {
            // A bomb: the same bytes over and over.
            let bomb = rest
                .iter()
                .copied()
                .cycle()
                .take(rest.len() * 64)
                .collect::<Vec<u8>>();
            check(bomb.len(), &compress_to_vec(&bomb, level));
        }
        _ => {
            check(honest, &compress_to_vec(rest, level));
        }
    }
}

/// Whether the state is accepted.
fn check(claim: usize, stream: &[u8]) -> bool {
    let mut body = vec![1, b'r', 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 1];
    body.extend(u32::try_from(claim).unwrap_or(u32::MAX).to_le_bytes());
    body.extend(stream);
    let (bytes, calls, decoded) =
        allocated(|| decode_message(MembershipMsg::GOSSIP.kind, Lane::Gossip, &body, &LIMITS));
    let bound = LIMITS
        .decompressed_bytes_max
        .min(stream.len().saturating_mul(RATIO_MAX));
    let believed = if claim > bound { 0 } else { claim };
    assert!(
        bytes <= 2 * believed + INFLATER_BYTES,
        "{bytes} bytes for a claim of {claim}"
    );
    assert!(calls <= 16, "{calls} allocations");
    match decoded {
        Ok(Message::Membership(MembershipMsg::Gossip(envelope))) => {
            let GossipBody::Packed(packed) = envelope.gossip else {
                panic!("what is read stays packed");
            };
            assert!(claim <= bound && packed.as_bytes().len() == claim);
            true
        }
        Ok(other) => panic!("a gossip frame became {other:?}"),
        Err(_) => false,
    }
}
