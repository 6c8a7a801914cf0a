//! States by name and by what differs: the digest of a state, the steps between two, and a state of another
//! and steps, checked as one that came whole. Spec: membership 2.5, `docs/WIRE.md` 5.3.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::vec::Vec;

use siphasher::sip128::SipHasher13;

use super::check::check_counts;
use super::write::put_state;
use crate::bytes::{WireError, count_u16};
use crate::config::Limits;
use crate::ident::UniqueAddress;
use crate::membership::protocol::news::{GossipDelta, GossipSeen, GossipStatus, StateDigest, StateSteps};
use crate::membership::state::gossip::Gossip;
use crate::membership::state::member_set::MemberSet;
use crate::membership::state::packed::PackedGossip;
use crate::membership::state::packed::sections::Sections;
use crate::membership::state::steps;
use crate::wire::declare::{FieldSink, FieldSource, by_hand, number_as, record};

record! {
    GossipStatus as "status" { to_uid: u64, state: StateDigest, seen_digest: u64, is_answer: bool }
}
record! {
    GossipDelta as "gossip delta" {
        to: UniqueAddress,
        is_push: bool,
        base: StateDigest,
        result: StateDigest,
        seen: MemberSet,
        steps: Steps,
    }
}
record! { GossipSeen as "gossip seen" { to: UniqueAddress, state: StateDigest } }

number_as! {
    StateDigest: u128, "digest", |digest: StateDigest| digest.0, StateDigest;
}

/// Steps, with their length in front.
struct Steps;

by_hand! {
    MemberSet: MemberSet, "positions", 3, |set, _, out| put_positions(set, out), |reader, _| read_positions(reader);
    Steps: StateSteps, "u32 length, so many bytes of", 4, |steps, what, out| {
        let len = u32::try_from(steps.bytes().len()).map_err(|_| WireError::Unencodable { what })?;
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(steps.bytes());
        Ok(())
    }, |reader, _| {
        let len = usize::try_from(reader.u32()?).unwrap_or(usize::MAX);
        Ok(StateSteps::new(reader.take(len)?.to_vec()))
    };
}

const BITS: u8 = 0;
const POSITIONS: u8 = 1;

/// Which form is the shorter one.
fn form_of(set: &MemberSet) -> (u8, usize) {
    let bytes = set
        .last()
        .map_or(0, |last| last / 8)
        .saturating_add(usize::from(!set.is_empty()));
    let listed = set.len().saturating_mul(2);
    if listed < bytes {
        (POSITIONS, set.len())
    } else {
        (BITS, bytes)
    }
}

/// Bits up to the last that is set, or positions: what is shorter.
fn put_positions(set: &MemberSet, out: &mut FieldSink<'_>) -> Result<(), WireError> {
    let (form, count) = form_of(set);
    out.push(form);
    out.extend_from_slice(&count_u16(count, "positions")?.to_le_bytes());
    if form == POSITIONS {
        for at in set.iter() {
            out.extend_from_slice(&count_u16(at, "positions")?.to_le_bytes());
        }
        return Ok(());
    }
    let start = out.len();
    out.resize(start.saturating_add(count), 0);
    for at in set.iter() {
        if let Some(byte) = out.get_mut(start.saturating_add(at / 8)) {
            *byte |= 1 << (at % 8);
        }
    }
    Ok(())
}

fn read_positions(reader: &mut FieldSource<'_>) -> Result<MemberSet, WireError> {
    let what = "positions";
    let form = reader.u8()?;
    let count = usize::from(reader.u16()?);
    if count > reader.limits.members_max {
        return Err(WireError::LimitExceeded { what });
    }
    let set: MemberSet = match form {
        BITS => {
            let bytes = reader.take(count)?.iter().enumerate();
            let bits = bytes.flat_map(|(at, byte)| {
                (0..8)
                    .filter(move |bit| byte & (1 << bit) != 0)
                    .map(move |bit| at * 8 + bit)
            });
            bits.collect()
        }
        POSITIONS => reader.column::<2>(count)?.u16s().map(usize::from).collect(),
        _ => return Err(WireError::Malformed { what }),
    };
    // One form of each set: the shorter one, and nothing twice.
    if form_of(&set) != (form, count) {
        return Err(WireError::NonCanonical { what });
    }
    Ok(set)
}

/// A state's written form, as if nobody had seen it.
fn content_of(gossip: &Gossip, limits: &Limits) -> Result<Vec<u8>, WireError> {
    let mut out = Vec::new();
    put_state(&gossip.with_seen(MemberSet::new()), limits, &mut out)?;
    Ok(out)
}

fn digest_of(content: &[u8]) -> StateDigest {
    StateDigest(SipHasher13::new().hash(content).as_u128())
}

/// The name of a state. Linear: it is written for that.
pub(crate) fn digest(gossip: &Gossip, limits: &Limits) -> Result<StateDigest, WireError> {
    content_of(gossip, limits).map(|content| digest_of(&content))
}

/// What differs between the two, if that is worth to be said instead of the state. Linear.
pub(crate) fn steps_between(base: &Gossip, result: &Gossip, limits: &Limits) -> Option<Vec<u8>> {
    let (base, result) = (content_of(base, limits).ok()?, content_of(result, limits).ok()?);
    steps::between(&base, &result)
}

/// How many bytes a frame with the whole state takes, without its header. Linear: it is compressed for that.
pub(crate) fn state_bytes(gossip: &Gossip, limits: &Limits) -> Result<usize, WireError> {
    let mut packer = crate::wire::deflate::Packer::default();
    put_state(gossip, limits, &mut packer.state)?;
    let plain = packer.state.len();
    Ok(packer.pack(limits).map_or(plain, <[u8]>::len))
}

/// The state that a delta is about, where `base` is the one from which its steps lead. It is checked as one
/// that comes whole, shares with `base` what both have, and nobody has seen it yet.
///
/// # Errors
/// The first thing that is wrong with the steps or with the state. `Checksum` if they lead to another one.
pub(crate) fn open(delta: &GossipDelta, base: &Gossip, limits: &Limits) -> Result<Gossip, WireError> {
    if delta.base == delta.result {
        return Ok(base.with_seen(MemberSet::new()));
    }
    if let Some(state) = delta.steps.leads_to() {
        return Ok(state.with_seen(MemberSet::new()));
    }
    let content = steps::walk(
        &content_of(base, limits)?,
        delta.steps.bytes(),
        limits.decompressed_bytes_max,
    )?;
    if digest_of(&content) != delta.result {
        return Err(WireError::Checksum);
    }
    let sections = Sections::cut(&content, |counts| check_counts(counts, limits))?;
    sections.check()?;
    Ok(PackedGossip::from_checked(content).open(base))
}
