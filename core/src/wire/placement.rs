//! Where a shard is and why, as bytes. Unstable as all of sharding. Spec: sharding 1.3, `docs/WIRE.md` 4.11.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::bytes::{Reader, WireError, put_address, put_node};
use crate::sharding::protocol::survey::{DECISIONS_MAX, Decided, Placement, ShardDecision};
use crate::sharding::state::wish::{Obstacle, Wish};

const ALLOCATED: u8 = 1;
const FOUND: u8 = 2;
const MOVES: u8 = 3;
const FREED: u8 = 4;
const STAYS: u8 = 5;
const WISHED: u8 = 6;
const NOT_FOLLOWED: u8 = 7;
const UNANSWERED: u8 = 8;

const NOT_A_MEMBER: u8 = 1;
const UNREACHABLE: u8 = 2;
const NO_REGION: u8 = 3;
const TAKES_NONE: u8 = 4;
const OTHER_UNREACHABLE: u8 = 5;
const UNSETTLED: u8 = 6;
const MIXED_VERSIONS: u8 = 7;
const UNHEARD: u8 = 8;
const SHUTTING_DOWN: u8 = 9;
const PAUSED: u8 = 10;
const STORE_SILENT: u8 = 11;
const NOT_EXTERNAL: u8 = 12;

pub(super) fn put(placement: &Placement, out: &mut Vec<u8>) -> Result<(), WireError> {
    out.push(u8::from(placement.home.is_some()));
    if let Some(home) = &placement.home {
        put_node(out, home)?;
    }
    out.push(u8::from(placement.is_moving));
    out.push(u8::from(placement.may_run_twice));
    out.push(u8::from(placement.wish.is_some()));
    if let Some(wish) = &placement.wish {
        put_wish(wish, out)?;
    }
    put_decided(&placement.decided, out)
}

pub(super) fn read(reader: &mut Reader<'_>) -> Result<Placement, WireError> {
    let home = match reader.bool("home")? {
        true => Some(reader.node()?),
        false => None,
    };
    let (is_moving, may_run_twice) = (reader.bool("is moving")?, reader.bool("may run twice")?);
    let wish = match reader.bool("wish")? {
        true => Some(read_wish(reader)?),
        false => None,
    };
    Ok(Placement {
        home,
        is_moving,
        may_run_twice,
        wish,
        decided: read_decided(reader)?,
    })
}

fn put_wish(wish: &Wish, out: &mut Vec<u8>) -> Result<(), WireError> {
    put_address(out, &wish.at)?;
    out.push(u8::from(wish.by.is_some()));
    if let Some(by) = &wish.by {
        put_node(out, by)?;
    }
    out.extend_from_slice(&wish.since_ms.to_le_bytes());
    Ok(())
}

fn read_wish(reader: &mut Reader<'_>) -> Result<Wish, WireError> {
    let at = reader.address()?;
    let by = match reader.bool("by")? {
        true => Some(reader.node()?),
        false => None,
    };
    let since_ms = reader.u64()?;
    Ok(Wish { at, by, since_ms })
}

fn put_decided(decided: &[Decided], out: &mut Vec<u8>) -> Result<(), WireError> {
    let count = u8::try_from(decided.len())
        .ok()
        .filter(|_| decided.len() <= DECISIONS_MAX);
    out.push(count.ok_or(WireError::Unencodable { what: "decisions" })?);
    for Decided { at_ms, decision } in decided {
        out.extend_from_slice(&at_ms.to_le_bytes());
        let (tag, node) = match decision {
            ShardDecision::Allocated { home, .. } => (ALLOCATED, Some(home)),
            ShardDecision::Found { home } => (FOUND, Some(home)),
            ShardDecision::Moves { from } => (MOVES, Some(from)),
            ShardDecision::Freed { home } => (FREED, Some(home)),
            ShardDecision::Stays { home } => (STAYS, Some(home)),
            ShardDecision::Wished(_) => (WISHED, None),
            ShardDecision::NotFollowed { .. } => (NOT_FOLLOWED, None),
            ShardDecision::Unanswered => (UNANSWERED, None),
        };
        out.push(tag);
        if let Some(node) = node {
            put_node(out, node)?;
        }
        match decision {
            ShardDecision::Allocated { is_desired, .. } => out.push(u8::from(*is_desired)),
            ShardDecision::Wished(wish) => put_wish(wish, out)?,
            ShardDecision::NotFollowed { wanted, why } => {
                put_address(out, wanted)?;
                out.push(put_obstacle(*why));
            }
            ShardDecision::Found { .. }
            | ShardDecision::Moves { .. }
            | ShardDecision::Freed { .. }
            | ShardDecision::Stays { .. }
            | ShardDecision::Unanswered => {}
        }
    }
    Ok(())
}

fn read_decided(reader: &mut Reader<'_>) -> Result<Vec<Decided>, WireError> {
    let count = usize::from(reader.u8()?);
    if count > DECISIONS_MAX {
        return Err(WireError::Malformed {
            what: "count of decisions",
        });
    }
    let mut decided = Vec::with_capacity(count);
    for _ in 0..count {
        let at_ms = reader.u64()?;
        let decision = match reader.u8()? {
            ALLOCATED => ShardDecision::Allocated {
                home: reader.node()?,
                is_desired: reader.bool("is desired")?,
            },
            FOUND => ShardDecision::Found { home: reader.node()? },
            MOVES => ShardDecision::Moves { from: reader.node()? },
            FREED => ShardDecision::Freed { home: reader.node()? },
            STAYS => ShardDecision::Stays { home: reader.node()? },
            WISHED => ShardDecision::Wished(Box::new(read_wish(reader)?)),
            NOT_FOLLOWED => ShardDecision::NotFollowed {
                wanted: reader.address()?,
                why: read_obstacle(reader)?,
            },
            UNANSWERED => ShardDecision::Unanswered,
            _ => return Err(WireError::Malformed { what: "decision" }),
        };
        decided.push(Decided { at_ms, decision });
    }
    Ok(decided)
}

const fn put_obstacle(why: Obstacle) -> u8 {
    match why {
        Obstacle::NotAMember => NOT_A_MEMBER,
        Obstacle::Unreachable => UNREACHABLE,
        Obstacle::NoRegion => NO_REGION,
        Obstacle::TakesNone => TAKES_NONE,
        Obstacle::OtherUnreachable => OTHER_UNREACHABLE,
        Obstacle::Unsettled => UNSETTLED,
        Obstacle::MixedVersions => MIXED_VERSIONS,
        Obstacle::Unheard => UNHEARD,
        Obstacle::ShuttingDown => SHUTTING_DOWN,
        Obstacle::Paused => PAUSED,
        Obstacle::StoreSilent => STORE_SILENT,
        Obstacle::NotExternal => NOT_EXTERNAL,
    }
}

fn read_obstacle(reader: &mut Reader<'_>) -> Result<Obstacle, WireError> {
    match reader.u8()? {
        NOT_A_MEMBER => Ok(Obstacle::NotAMember),
        UNREACHABLE => Ok(Obstacle::Unreachable),
        NO_REGION => Ok(Obstacle::NoRegion),
        TAKES_NONE => Ok(Obstacle::TakesNone),
        OTHER_UNREACHABLE => Ok(Obstacle::OtherUnreachable),
        UNSETTLED => Ok(Obstacle::Unsettled),
        MIXED_VERSIONS => Ok(Obstacle::MixedVersions),
        UNHEARD => Ok(Obstacle::Unheard),
        SHUTTING_DOWN => Ok(Obstacle::ShuttingDown),
        PAUSED => Ok(Obstacle::Paused),
        STORE_SILENT => Ok(Obstacle::StoreSilent),
        NOT_EXTERNAL => Ok(Obstacle::NotExternal),
        _ => Err(WireError::Malformed { what: "obstacle" }),
    }
}
