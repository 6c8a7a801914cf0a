//! Short names for states: a 64-bit digest of a clock, and of everything in a gossip state that equal clocks
//! must make equal. Uids name incarnations; they are drawn from 64 bits and never repeat within a run.

use quorate_core::membership::gossip::Gossip;
use quorate_core::membership::vector_clock::VectorClock;

/// Mixes numbers into one.
#[derive(Clone, Copy, Debug)]
struct Digest(u64);

impl Digest {
    const fn new() -> Self {
        Self(0x9E37_79B9_7F4A_7C15)
    }

    const fn add(mut self, number: u64) -> Self {
        let mut mixed = (self.0 ^ number).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed ^= mixed >> 27;
        mixed = mixed.wrapping_mul(0x94D0_49BB_1331_11EB);
        self.0 = (mixed ^ (mixed >> 31)).rotate_left(23);
        self
    }
}

/// The digest of a clock.
#[must_use]
pub fn clock(clock: &VectorClock) -> u64 {
    let entries = clock.entries().iter();
    let digest = entries.fold(Digest::new(), |digest, (node, counter)| {
        digest.add(node.uid()).add(*counter)
    });
    digest.0
}

/// The digest of the tombstones.
#[must_use]
pub fn tombstones(gossip: &Gossip) -> u64 {
    let tombstones = gossip.tombstones().iter();
    tombstones
        .fold(Digest::new(), |digest, node| digest.add(node.uid()))
        .0
}

/// The digest of members and reachability: the state without its clock, its seen set and its tombstones.
#[must_use]
pub fn content(gossip: &Gossip) -> u64 {
    let mut digest = Digest::new();
    for member in gossip.members() {
        let status = u64::from(member.status as u8) << 32 | u64::from(member.up_number.get());
        digest = digest.add(member.node.uid()).add(status);
    }
    for record in gossip.reachability().records() {
        digest = digest
            .add(record.observer.uid())
            .add(record.subject.uid())
            .add(record.status as u64)
            .add(record.version);
    }
    for (node, version) in gossip.reachability().versions() {
        digest = digest.add(node.uid()).add(*version);
    }
    digest.0
}
