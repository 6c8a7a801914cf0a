//! Makes a state of checked columns. Shares with the receiver's own state what is equal, so that a state with
//! little news costs little. What could fail was checked before; a column that is not there after all reads
//! as empty. Spec: membership 1.4, performance B2.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::columns::{reach_of, status_of};
use super::sections::Sections;
use super::{same_clock, same_members, same_reachability, same_seen, same_tombstones, seen_positions};
use crate::bytes::Column;
use crate::ident::{Address, Role, Roles, UniqueAddress};
use crate::membership::state::app_version::AppVersion;
use crate::membership::state::gossip::{Gossip, SharedGossipParts};
use crate::membership::state::member::{Member, UpNumber};
use crate::membership::state::reachability::{Reachability, ReachabilityRecord};
use crate::membership::state::vector_clock::VectorClock;
use crate::ordered::OrderedSet;
use crate::paths::state::table::PathTable;

pub(super) fn state(state: &Sections<'_>, base: &Gossip) -> Gossip {
    let same_members = same_members(state, base.members());
    let same_tombstones = same_tombstones(state, base);
    let hosts = if same_members && same_tombstones {
        Vec::new()
    } else {
        hosts(state, base)
    };
    let members = if same_members {
        Arc::clone(base.members_arc())
    } else {
        Arc::new(members(state, &hosts))
    };
    let tombstones = if same_tombstones {
        Arc::clone(base.tombstones_arc())
    } else {
        Arc::new(tombstones(state, &hosts))
    };
    let reachability = if same_reachability(state, base) {
        Arc::clone(base.reachability_arc())
    } else {
        Arc::new(reachability(state, &members))
    };
    let version = if same_clock(state, base.version()) {
        base.version().clone()
    } else {
        let entries = positions(state.clock, state.counters, &members);
        VectorClock::from_entries(entries).unwrap_or_default()
    };
    let seen = if same_seen(state, base.seen_set()) {
        base.seen_set().clone()
    } else {
        seen_positions(state.seen).collect()
    };
    let paths = if state.paths == &**base.paths().bytes() {
        Arc::clone(base.paths())
    } else {
        Arc::new(PathTable::from_checked(state.paths))
    };
    let gone = gone(state, base, &members, &tombstones);
    Gossip::assemble(SharedGossipParts {
        members,
        reachability,
        version,
        tombstones,
        gone,
        paths,
    })
    .with_seen(seen)
}

/// Members first, then the removed.
fn gone(
    state: &Sections<'_>,
    base: &Gossip,
    members: &[Member],
    tombstones: &OrderedSet<UniqueAddress>,
) -> Arc<OrderedSet<UniqueAddress>> {
    if state.counts.gone == 0 && base.gone().is_empty() {
        return Arc::clone(base.gone_arc());
    }
    let mut positions = state.gone.u16s().map(usize::from).peekable();
    let nodes = members.iter().map(|member| &member.node).chain(tombstones);
    let said = nodes
        .enumerate()
        .filter(|(at, _)| positions.next_if_eq(at).is_some());
    Arc::new(said.map(|(_, node)| node.clone()).collect())
}

/// Every host once, at a port that rows replace; shared with the members of `base`, which are in the same
/// order.
fn hosts(state: &Sections<'_>, base: &Gossip) -> Vec<Address> {
    let mut hosts = Vec::with_capacity(state.counts.hosts);
    let mut known = base.members();
    for host in state.hosts.iter() {
        while let Some((first, rest)) = known.split_first() {
            if first.node.address().host().as_bytes() >= host {
                break;
            }
            known = rest;
        }
        let same = known
            .first()
            .filter(|member| member.node.address().host().as_bytes() == host);
        let made = match same {
            Some(member) => Ok(member.node.address().clone()),
            None => Address::new(core::str::from_utf8(host).unwrap_or_default(), 1),
        };
        hosts.extend(made);
    }
    hosts
}

fn members(state: &Sections<'_>, hosts: &[Address]) -> Vec<Member> {
    let role_sets = role_sets(state);
    let app_versions: Vec<AppVersion> = texts(state.app_versions.iter(), AppVersion::new);
    let mut members = Vec::with_capacity(state.counts.members);
    let fields = state.statuses.iter().zip(state.up_numbers.u32s());
    let parts = state
        .member_role_sets
        .u16s()
        .zip(state.member_app_versions.u16s());
    for ((row, (status, up_number)), (set, version)) in state.members.rows().zip(fields).zip(parts) {
        let (Ok(node), Ok(status)) = (row.resolve(hosts), status_of(*status)) else {
            continue;
        };
        let (roles, version) = (
            role_sets.get(usize::from(set)),
            app_versions.get(usize::from(version)),
        );
        members.push(Member {
            node,
            status,
            up_number: UpNumber::new(up_number),
            roles: roles.cloned().unwrap_or_default(),
            app_version: version.cloned().unwrap_or_default(),
        });
    }
    members
}

fn role_sets(state: &Sections<'_>) -> Vec<Roles> {
    let roles: Vec<Role> = texts(state.roles.iter(), Role::from_wire);
    let mut sets = Vec::with_capacity(state.counts.role_sets);
    let mut rest = state.role_indexes;
    for len in state.role_set_lengths {
        let set = rest.split_front(usize::from(*len)).unwrap_or_default();
        // One more for the data center that is not written.
        let mut names = Vec::with_capacity(usize::from(*len).saturating_add(1));
        names.extend(set.u16s().filter_map(|at| roles.get(usize::from(at)).cloned()));
        sets.push(Roles::from_wire(names).unwrap_or_default());
    }
    sets
}

fn texts<'a, T, E>(
    texts: impl ExactSizeIterator<Item = &'a [u8]>,
    make: impl Fn(&str) -> Result<T, E>,
) -> Vec<T> {
    let mut all = Vec::with_capacity(texts.len());
    for text in texts {
        all.extend(make(core::str::from_utf8(text).unwrap_or_default()));
    }
    all
}

/// Through a list of the right size: collecting into a set by itself would grow one step by step.
fn tombstones(state: &Sections<'_>, hosts: &[Address]) -> OrderedSet<UniqueAddress> {
    let mut nodes = Vec::with_capacity(state.counts.tombstones);
    nodes.extend(state.tombstones.rows().filter_map(|row| row.resolve(hosts).ok()));
    nodes.into_iter().collect()
}

fn reachability(state: &Sections<'_>, members: &[Member]) -> Reachability {
    let versions = positions(state.observers, state.observer_versions, members);
    let mut rows = state
        .subjects
        .u16s()
        .zip(state.record_statuses)
        .zip(state.record_versions.u64s());
    let mut records = Vec::with_capacity(state.counts.records);
    for ((observer, _), count) in versions.iter().zip(state.observer_rows.u16s()) {
        for ((subject, status), version) in rows.by_ref().take(usize::from(count)) {
            let (Some(subject), Ok(status)) = (members.get(usize::from(subject)), reach_of(*status)) else {
                continue;
            };
            records.push(ReachabilityRecord {
                observer: observer.clone(),
                subject: subject.node.clone(),
                status,
                version,
            });
        }
    }
    Reachability::from_parts(records, versions).unwrap_or_default()
}

/// Members and their counters.
fn positions(at: Column<'_, 2>, counters: Column<'_, 8>, members: &[Member]) -> Vec<(UniqueAddress, u64)> {
    let pairs = at.u16s().zip(counters.u64s());
    let mut entries = Vec::with_capacity(pairs.size_hint().0);
    entries.extend(pairs.filter_map(|(at, counter)| {
        let member = members.get(usize::from(at))?;
        Some((member.node.clone(), counter))
    }));
    entries
}
