//! What a decoder may allocate, measured by a counting allocator. A claim in a body never costs memory by itself; a legal
//! body costs a bounded multiple of its bytes. Spec: reliability 3b.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs;
use std::path::Path;

use quorate_core::config::Limits;
use quorate_core::message::{Lane, Message};
use quorate_core::wire::{HEADER_BYTES, decode_message, encode_message, kind};

/// Counts what this thread allocates; other tests' threads do not disturb.
struct Counting;

thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches only thread-local cells without destructors.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.set(BYTES.get() + layout.size());
        CALLS.set(CALLS.get() + 1);
        // SAFETY: the caller's contract is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes and calls of everything allocated by `work`, freed or not.
fn allocated<T>(work: impl FnOnce() -> T) -> (usize, usize, T) {
    let before = (BYTES.get(), CALLS.get());
    let value = work();
    (BYTES.get() - before.0, CALLS.get() - before.1, value)
}

fn state_body(claims: [u16; 9], records: u32) -> Vec<u8> {
    let mut body = vec![1, b'r', 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];
    claims.iter().for_each(|claim| body.extend(claim.to_le_bytes()));
    body.extend(records.to_le_bytes());
    body.extend(0_u64.to_le_bytes());
    body
}

#[test]
fn claims_without_bytes_allocate_next_to_nothing() {
    let limits = Limits::default();
    let bodies = [
        (kind::GOSSIP, Lane::Gossip, state_body([10_000; 9], 160_000)),
        (
            kind::GOSSIP,
            Lane::Gossip,
            state_body([0, 0, 0, 0, 10_000, 0, 10_000, 10_000, 4096], 160_000),
        ),
        (
            kind::GOSSIP_STATUS,
            Lane::Gossip,
            [
                &state_body([0; 9], 0)[..12],
                &[0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0x27, 0x10, 0x27],
            ]
            .concat(),
        ),
        (
            kind::SHARDING,
            Lane::Control,
            [&[0; 8][..], &[1, 0, 64, 0, 0, 0, 0xFF, 0xFF, 0, 0]].concat(),
        ),
        (
            kind::JOIN,
            Lane::Control,
            [&state_body([0; 9], 0)[..12], &[1, b'1', 32]].concat(),
        ),
    ];
    for (kind, lane, body) in bodies {
        let (bytes, _, decoded) = allocated(|| decode_message(kind, lane, &body, &limits));
        assert!(decoded.is_err());
        assert!(
            bytes <= 1_024,
            "{bytes} bytes for a body of {} of kind {kind}: {decoded:?}",
            body.len()
        );
    }
}

#[test]
fn a_bomb_allocates_nothing_and_a_stream_that_goes_on_only_what_it_may() {
    let limits = Limits::default();
    let mut body = state_body([0; 9], 0)[..12].to_vec();
    body.push(1);
    body.extend(u32::MAX.to_le_bytes());
    body.resize(300_000, 0);
    let (bytes, _, decoded) = allocated(|| decode_message(kind::GOSSIP, Lane::Gossip, &body, &limits));
    assert!(decoded.is_err() && bytes < 1_024, "{bytes}");
    body[13..17].copy_from_slice(&(4_u32 << 20).to_le_bytes());
    let (bytes, _, decoded) = allocated(|| decode_message(kind::GOSSIP, Lane::Gossip, &body, &limits));
    assert!(
        decoded.is_err() && bytes < limits.decompressed_bytes_max + (64 << 10),
        "{bytes}"
    );
}

#[test]
fn every_golden_message_costs_a_bounded_multiple_of_its_bytes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/frame_header");
    let mut decoded = 0;
    for entry in fs::read_dir(corpus).expect("a corpus") {
        let frame = fs::read(entry.expect("an entry").path()).expect("a readable input");
        let Some((head, body)) = frame.split_first_chunk::<HEADER_BYTES>() else {
            continue;
        };
        let kind = u16::from_le_bytes([head[4], head[5]]);
        let Some(lane) = kind::lane_of(kind) else { continue };
        let (bytes, calls, message) = allocated(|| decode_message(kind, lane, body, &Limits::default()));
        let Ok(message) = message else { continue };
        decoded += 1;
        if let Message::Entity(envelope) = &message {
            // The id and the payload once each, and the asker's host.
            assert!(calls <= 3, "{calls} allocations for an entity's message");
            assert!(bytes <= 128 + envelope.payload.len() + envelope.entity.as_bytes().len());
        }
        let mut again = Vec::new();
        encode_message(&message, 0, &Limits::default(), &mut again).expect("it was decoded");
        println!(
            "kind {kind}: {} body bytes, {bytes} allocated in {calls} calls",
            body.len()
        );
        // A compressed state pays for its inflater, its inflated bytes (here at most 4 times) and the state itself.
        let state = matches!(message, Message::Gossip(_)) && body.len() > 1_000;
        let bound = if state {
            4 * 8 * body.len() + (16 << 10)
        } else {
            8 * body.len() + 64
        };
        assert!(bytes <= bound, "kind {kind}: {bytes} for {}", body.len());
    }
    assert!(decoded >= 15, "{decoded}");
}
