//! Writes the first inputs of every target from the golden vectors of the core: `cargo run --example seeds`.

use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use quorate_core::config::Limits;
use quorate_core::ident::{Address, Roles, UniqueAddress};
use quorate_core::membership::app_version::AppVersion;
use quorate_core::membership::gossip::{Gossip, GossipParts};
use quorate_core::membership::member::Member;
use quorate_core::membership::reachability::Reachability;
use quorate_core::membership::vector_clock::VectorClock;
use quorate_core::message::{GossipEnvelope, JournalMsg, MembershipMsg, Message, ShardingMsg};
use quorate_core::ordered::OrderedSet;
use quorate_core::wire::{HEADER_BYTES, encode_message};
use quorate_fuzz::KINDS;

fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.chars().filter(char::is_ascii_hexdigit).collect();
    let byte = |pair: &[char]| {
        pair.iter()
            .fold(0, |byte, digit| byte << 4 | digit.to_digit(16).unwrap_or(0))
    };
    digits.chunks(2).map(|pair| byte(pair) as u8).collect()
}

/// A state that is sent compressed.
fn large_gossip() -> Vec<u8> {
    let node = |at: u64| {
        let host = format!("host-{at:04}.example");
        UniqueAddress::new(
            Address::new(&host, 2551).expect("a legal host"),
            at.wrapping_mul(0x9E37_79B9_7F4A_7C15),
        )
    };
    let member = |at| Member::joining(node(at), Roles::default(), AppVersion::default());
    let clock = VectorClock::from_entries(vec![(node(0), 5)]).expect("one entry");
    let gossip = Gossip::from_parts(GossipParts {
        members: (0..150).map(member).collect(),
        reachability: Reachability::new(),
        version: clock,
        seen: (0..75).collect(),
        tombstones: OrderedSet::new(),
        paths: Arc::default(),
    });
    let gossip = Arc::new(gossip.expect("a legal state"));
    let mut out = Vec::new();
    let message = Message::Membership(MembershipMsg::Gossip(GossipEnvelope {
        to: node(1),
        gossip: gossip.into(),
    }));
    encode_message(&message, 0, &Limits::default(), &mut out).expect("it fits");
    out
}

fn write(target: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(name), bytes)
}

fn main() -> io::Result<()> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/tests/golden");
    let mut frames = vec![("gossip_large".to_owned(), large_gossip())];
    for entry in fs::read_dir(golden)? {
        let path = entry?.path();
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let bytes = from_hex(&fs::read_to_string(&path)?);
        if name.starts_with("hello") {
            let kind = bytes[4];
            let input = [&[kind - 1], &bytes[12..]].concat();
            write("handshake", &name, &input)?;
        } else {
            frames.push((name, bytes));
        }
    }
    for (name, frame) in &frames {
        write("frame_header", name, frame)?;
        let (number, body) = (u16::from_le_bytes([frame[4], frame[5]]), &frame[HEADER_BYTES..]);
        let pick = KINDS.iter().position(|known| *known == number).unwrap_or(0);
        write("message_decode", name, &[&[pick as u8], body].concat())?;
        if let Some(pick) = [
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
        ]
        .iter()
        .position(|known| *known == number)
        {
            write("sharding", name, &[&[pick as u8], body].concat())?;
        }
        if let Some(pick) = JournalMsg::TAGS.iter().position(|tag| tag.kind == number) {
            write("journal", name, &[&[pick as u8], body].concat())?;
        }
        if name.starts_with("gossip") && !name.contains("status") {
            write("gossip_decode", name, body)?;
            let len = u16::try_from(body.len()).unwrap_or(u16::MAX).to_le_bytes();
            write("gossip_merge", name, &[&[0], &len[..], body, body].concat())?;
            // The receiver and the form stand in front of the state.
            let state = &body[body.len().min(13)..];
            for pick in 0..8 {
                write(
                    "inflate_bound",
                    &format!("{name}_{pick}"),
                    &[&[pick], state].concat(),
                )?;
            }
        }
    }
    // Structured inputs need no particular bytes, only many.
    for seed in 0..8_u64 {
        let mut state = seed;
        let noise: Vec<u8> = (0..400)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (state >> 56) as u8
            })
            .collect();
        write(
            "gossip_merge",
            &format!("history_{seed}"),
            &[&[1], &noise[..]].concat(),
        )?;
        write("node", &format!("run_{seed}"), &noise)?;
    }
    Ok(())
}
