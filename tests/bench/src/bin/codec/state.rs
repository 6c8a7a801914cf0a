//! The states that are measured.

use quorate_core::ident::{Address, Role, Roles, UniqueAddress};
use quorate_core::membership::app_version::AppVersion;
use quorate_core::membership::gossip::{Gossip, GossipParts};
use quorate_core::membership::member::{Member, Status, UpNumber};
use quorate_core::membership::reachability::Reachability;
use quorate_core::membership::vector_clock::VectorClock;

/// Which clock a state has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// 16 entries, the shape that the aims are stated for.
    Reference,
    /// An entry for every member.
    EveryClockEntry,
}

/// Clock entries of the reference shape.
const CLOCK_ENTRIES: usize = 16;
/// One reachability record for so many members.
const MEMBERS_PER_RECORD: usize = 100;

/// A state of `members` members: each its own host, port, uid, two roles, an age; all have seen it; a record
/// for each hundred members; each counter `ahead` higher than in the state with `ahead` 0.
pub(crate) fn gossip(members: usize, shape: Shape, ahead: u64) -> Gossip {
    let roles = Roles::new([role("backend"), role("ingest")], "default").expect("two roles");
    let version = AppVersion::new("1.4.2").expect("a version");
    let node = |at: usize| {
        let host = format!("10.{}.{}.{}", 10 + at / 62_500, at / 250 % 250, at % 250);
        let address = Address::new(&host, 2551).expect("a legal address");
        UniqueAddress::new(address, (at as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    };
    let mut all: Vec<Member> = (0..members)
        .map(|at| Member {
            node: node(at),
            status: Status::Up,
            up_number: UpNumber::new(at as u32 + 1),
            roles: roles.clone(),
            app_version: version.clone(),
        })
        .collect();
    all.sort_by(|left, right| left.node.cmp(&right.node));
    let entries = match shape {
        Shape::Reference => CLOCK_ENTRIES.min(members),
        Shape::EveryClockEntry => members,
    };
    let step = members / entries;
    let clock = (0..entries).map(|at| (all[at * step].node.clone(), 1000 + ahead));
    let clock = VectorClock::from_entries(clock.collect()).expect("each once");
    let mut reachability = Reachability::new();
    for at in 0..members / MEMBERS_PER_RECORD {
        let (observer, subject) = (at * MEMBERS_PER_RECORD, at * MEMBERS_PER_RECORD + 1);
        reachability.unreachable(&all[observer].node, &all[subject].node);
    }
    let seen = (0..members).collect();
    Gossip::from_parts(GossipParts {
        members: all,
        reachability,
        version: clock,
        seen,
        ..GossipParts::default()
    })
    .expect("legal")
}

fn role(name: &str) -> Role {
    Role::new(name).expect("a legal role")
}
