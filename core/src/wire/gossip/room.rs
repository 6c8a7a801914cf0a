//! Whether a state can still be written after one more member was admitted. Single limits do not add up to a
//! frame: members with many roles of their own would exceed it, and a state that cannot be sent would never
//! converge again. Asked at admission, where it can still be refused. Spec: reliability 3b, `docs/WIRE.md`
//! 5.2.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::vec::Vec;

use super::write::put_state;
use crate::config::Limits;
use crate::ident::{HOST_BYTES_MAX, ROLE_BYTES_MAX, ROLES_MAX, Roles, UniqueAddress};
use crate::membership::state::app_version::APP_VERSION_BYTES_MAX;
use crate::membership::state::gossip::Gossip;
use crate::paths::state::written::table_bytes_max;

/// Counts, and the receiver in front.
const HEAD_BYTES: usize = 34 + HOST_BYTES_MAX + 16;
/// A name's length, host, port, uid, status, age, indexes of roles and version, seen bit, clock entry; a
/// version of its own.
const MEMBER_BYTES: usize = 1 + 12 + 9 + 1 + 10 + 1 + APP_VERSION_BYTES_MAX;
const TOMBSTONE_BYTES: usize = 1 + 12 + GONE_BYTES;
const OBSERVER_BYTES: usize = 12;
const RECORD_BYTES: usize = 11;
const CLOCK_BYTES: usize = 10;
const GONE_BYTES: usize = 2;
/// A member with everything as long as it may be.
const NEWCOMER_BYTES: usize =
    MEMBER_BYTES + HOST_BYTES_MAX + ROLES_MAX * (ROLE_BYTES_MAX + 3) + TOMBSTONE_BYTES + HOST_BYTES_MAX;

/// Whether the state with any one more member, and with a change and one more observation by each member,
/// fits a frame. Linear; writes the state to be sure where a coarse sum does not tell.
pub(crate) fn has_room(gossip: &Gossip, limits: &Limits) -> bool {
    let limit = limits.gossip_frame_bytes_max.min(limits.decompressed_bytes_max);
    let members = gossip.members().len();
    let growth = NEWCOMER_BYTES
        .saturating_add(members.saturating_mul(OBSERVER_BYTES + RECORD_BYTES + CLOCK_BYTES + GONE_BYTES))
        .saturating_add(HEAD_BYTES)
        .saturating_add(table_bytes_max(limits.gossip_frame_bytes_max));
    let fits = |bytes: usize| bytes.saturating_add(growth) <= limit;
    if fits(at_most(gossip)) {
        return true;
    }
    let mut exact = Vec::new();
    put_state(gossip, limits, &mut exact).is_ok()
        && fits(exact.len().saturating_sub(gossip.paths().bytes().len()))
}

/// The state's size if nothing in it were shared.
fn at_most(gossip: &Gossip) -> usize {
    let host = |node: &UniqueAddress| node.address().host().len();
    let roles = |roles: &Roles| -> usize {
        let names = roles.as_slice().iter();
        names.map(|role| role.as_str().len().saturating_add(3)).sum()
    };
    let members = gossip.members().iter();
    let members: usize = members
        .map(|member| {
            MEMBER_BYTES
                .saturating_add(host(&member.node))
                .saturating_add(roles(&member.roles))
        })
        .sum();
    let tombstones = gossip.tombstones().iter();
    let tombstones: usize = tombstones
        .map(|node| TOMBSTONE_BYTES.saturating_add(host(node)))
        .sum();
    let table = gossip.reachability();
    members
        .saturating_add(tombstones)
        .saturating_add(table.versions().len().saturating_mul(OBSERVER_BYTES))
        .saturating_add(table.records().len().saturating_mul(RECORD_BYTES))
}
