//! Golden vectors: files of hex under `core/tests/golden`, checked both ways. `QUORATE_BLESS=1` writes them
//! anew, which is a change of the protocol and has to be argued as one.

use std::format;
use std::path::PathBuf;
use std::string::String;
use std::vec::Vec;
use std::{env, fs};

use super::handshakes::every_handshake;
use super::{every_message, frame_of, message_of};
use crate::config::Limits;
use crate::wire::{DecodedFrame, HEADER_BYTES, WireError, decode_frame, decode_message};

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(format!("{name}.hex"))
}

fn to_hex(bytes: &[u8]) -> String {
    let line = |chunk: &[u8]| chunk.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n";
    bytes.chunks(32).map(line).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// The golden bytes of this name; `current` becomes golden when blessing.
pub(super) fn golden(name: &str, current: &[u8]) -> Vec<u8> {
    let path = path(name);
    if env::var_os("QUORATE_BLESS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, to_hex(current)).unwrap();
    }
    from_hex(&fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

#[test]
fn every_message_is_its_golden_frame_and_back() {
    for (name, message) in every_message() {
        let current = frame_of(&message, 7);
        let golden = golden(name, &current);
        assert_eq!(current, golden, "{name}: encoding changed");
        assert_eq!(message_of(&golden), Ok(message), "{name}: decoding changed");
    }
}

#[test]
fn b_16_every_prefix_of_a_frame_asks_for_the_bytes_that_are_missing() {
    let limits = Limits::default();
    for (name, message) in every_message() {
        let frame = frame_of(&message, 7);
        for len in 0..frame.len() {
            match decode_frame(&frame[..len], &limits) {
                DecodedFrame::NeedMore(total) => {
                    assert!(len < total && total <= frame.len(), "{name} at {len}")
                }
                other => panic!("{name} at {len}: {other:?}"),
            }
        }
    }
}

#[test]
fn b_15_every_flipped_bit_is_noticed() {
    let limits = Limits::default();
    for (name, message) in every_message() {
        let mut frame = frame_of(&message, 7);
        for bit in 0..frame.len() * 8 {
            frame[bit / 8] ^= 1 << (bit % 8);
            // A longer length waits for bytes that the link's idle limit ends; everything else is refused at
            // once.
            let decoded = decode_frame(&frame, &limits);
            assert!(
                !matches!(decoded, DecodedFrame::Frame { .. }),
                "{name}, bit {bit}: {decoded:?}"
            );
            if bit >= HEADER_BYTES * 8 {
                let skip = DecodedFrame::Bad {
                    error: WireError::Checksum,
                    consumed: Some(frame.len()),
                };
                assert_eq!(decoded, skip, "{name}, bit {bit}");
            }
            frame[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

/// A forger repairs the checksum: then a changed body is either refused or is the one form of another
/// message.
#[test]
fn b_18_a_changed_body_is_refused_or_is_another_message_in_its_only_form() {
    let limits = Limits::default();
    let mut refused = 0;
    for (name, message) in every_message() {
        let frame = frame_of(&message, 7);
        let DecodedFrame::Frame { frame: parsed, .. } = decode_frame(&frame, &limits) else {
            panic!("{name}")
        };
        let mut body = parsed.body.to_vec();
        for bit in 0..body.len() * 8 {
            body[bit / 8] ^= 1 << (bit % 8);
            match decode_message(parsed.kind, parsed.lane, &body, &limits) {
                Ok(other) => assert_eq!(frame_of(&other, 7)[HEADER_BYTES..], body, "{name}, bit {bit}"),
                Err(_) => refused += 1,
            }
            body[bit / 8] ^= 1 << (bit % 8);
        }
        for len in 0..body.len() {
            match decode_message(parsed.kind, parsed.lane, &body[..len], &limits) {
                Ok(other) => assert_eq!(
                    frame_of(&other, 7)[HEADER_BYTES..],
                    body[..len],
                    "{name} cut at {len}"
                ),
                Err(_) => refused += 1,
            }
        }
        body.push(0);
        if let Ok(other) = decode_message(parsed.kind, parsed.lane, &body, &limits) {
            // Only a payload may be longer.
            assert_eq!(
                frame_of(&other, 7)[HEADER_BYTES..],
                body,
                "{name} with one byte more"
            );
        }
    }
    assert!(refused > 1_000, "most changes are refused: {refused}");
}

#[test]
fn every_handshake_message_is_its_golden_form() {
    for (name, bytes) in every_handshake() {
        assert_eq!(bytes, golden(name, &bytes), "{name}");
    }
}
