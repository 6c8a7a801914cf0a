//! Writes a state in its one form. Fails only on a state that breaks the invariants of a gossip or exceeds a
//! field. Spec: `docs/WIRE.md` 5.2.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::vec::Vec;

use super::check::check_counts;
use crate::bytes::WireError;
use crate::bytes::count_u16;
use crate::bytes::nodes::{host_table, put_nodes, put_texts};
use crate::config::Limits;
use crate::ident::{Role, Roles, UniqueAddress};
use crate::membership::state::app_version::AppVersion;
use crate::membership::state::gossip::Gossip;
use crate::membership::state::member::Member;
use crate::membership::state::packed::COUNTER_MAX;
use crate::membership::state::packed::columns::{LAYOUT, StateCounts, reach_code, status_code};
use crate::membership::state::packed::roles::wire_roles;
use crate::membership::state::reachability::ReachabilityRecord;

/// What the members share, each once, in rising order.
struct SharedTables<'a> {
    hosts: Vec<&'a str>,
    roles: Vec<&'a Role>,
    role_sets: Vec<&'a Roles>,
    app_versions: Vec<&'a str>,
}

/// Writes a state.
pub(super) fn put_state(gossip: &Gossip, limits: &Limits, out: &mut Vec<u8>) -> Result<(), WireError> {
    let tables = SharedTables::of(gossip);
    out.extend_from_slice(&[LAYOUT, 0]);
    put_counts(gossip, &tables, limits, out)?;
    put_texts(out, tables.hosts.iter().copied(), "address")?;
    put_texts(out, tables.roles.iter().map(|role| role.as_str()), "role")?;
    put_role_sets(&tables, out)?;
    put_texts(out, tables.app_versions.iter().copied(), "app version")?;
    put_members(gossip.members(), &tables, out)?;
    put_seen(gossip, out);
    put_nodes(out, &tables.hosts, gossip.tombstones().iter())?;
    put_reachability(gossip, out)?;
    put_clock(gossip, out)?;
    put_gone(gossip, out)?;
    out.extend_from_slice(gossip.paths().bytes());
    Ok(())
}

impl<'a> SharedTables<'a> {
    fn of(gossip: &'a Gossip) -> Self {
        let members = gossip.members();
        let nodes = members.iter().map(|member| &member.node);
        let mut role_sets: Vec<&Roles> = Vec::new();
        let mut app_versions: Vec<&str> = Vec::new();
        let mut last_version = None::<&AppVersion>;
        for member in members {
            // Neighbours mostly share these; the sort below finds the rest.
            if role_sets.last().is_none_or(|last| **last != member.roles) {
                role_sets.push(&member.roles);
            }
            let version = &member.app_version;
            if last_version.is_none_or(|last| !last.is_same(version) && last.as_str() != version.as_str()) {
                app_versions.push(version.as_str());
            }
            last_version = Some(version);
        }
        role_sets.sort_unstable_by(|a, b| wire_roles(a).cmp(wire_roles(b)));
        role_sets.dedup();
        app_versions.sort_unstable();
        app_versions.dedup();
        let mut roles: Vec<&Role> = role_sets.iter().flat_map(|set| wire_roles(set)).collect();
        roles.sort_unstable();
        roles.dedup();
        Self {
            hosts: host_table(nodes.chain(gossip.tombstones())),
            roles,
            role_sets,
            app_versions,
        }
    }
}

fn put_counts(
    gossip: &Gossip,
    tables: &SharedTables<'_>,
    limits: &Limits,
    out: &mut Vec<u8>,
) -> Result<(), WireError> {
    let counts = StateCounts {
        hosts: tables.hosts.len(),
        roles: tables.roles.len(),
        role_sets: tables.role_sets.len(),
        app_versions: tables.app_versions.len(),
        members: gossip.members().len(),
        tombstones: gossip.tombstones().len(),
        observers: gossip.reachability().versions().len(),
        clock: gossip.version().len(),
        gone: gossip.gone().len(),
        paths: gossip.paths().bytes().len(),
        records: gossip.reachability().records().len(),
    };
    check_counts(&counts, limits)?;
    let fields = [
        (counts.hosts, "hosts"),
        (counts.roles, "roles"),
        (counts.role_sets, "role sets"),
        (counts.app_versions, "app versions"),
        (counts.members, "members"),
        (counts.tombstones, "tombstones"),
        (counts.observers, "reachability versions"),
        (counts.clock, "clock entries"),
        (counts.gone, "gone"),
    ];
    for (count, what) in fields {
        out.extend_from_slice(&count_u16(count, what)?.to_le_bytes());
    }
    for (count, what) in [
        (counts.paths, "path bytes"),
        (counts.records, "reachability records"),
    ] {
        let count = u32::try_from(count).map_err(|_| WireError::LimitExceeded { what })?;
        out.extend_from_slice(&count.to_le_bytes());
    }
    Ok(())
}

fn put_role_sets(tables: &SharedTables<'_>, out: &mut Vec<u8>) -> Result<(), WireError> {
    for set in &tables.role_sets {
        let count =
            u8::try_from(wire_roles(set).count()).map_err(|_| WireError::Unencodable { what: "roles" })?;
        out.push(count);
    }
    for role in tables.role_sets.iter().flat_map(|set| wire_roles(set)) {
        put_index(tables.roles.binary_search(&role), "roles", out)?;
    }
    Ok(())
}

fn put_members(members: &[Member], tables: &SharedTables<'_>, out: &mut Vec<u8>) -> Result<(), WireError> {
    put_nodes(out, &tables.hosts, members.iter().map(|member| &member.node))?;
    for member in members {
        out.push(status_code(member.status)?);
    }
    for member in members {
        out.extend_from_slice(&member.up_number.get().to_le_bytes());
    }
    let mut last: Option<(&Roles, Result<usize, usize>)> = None;
    for member in members {
        let known = last.filter(|last| *last.0 == member.roles);
        let at = known.map_or_else(|| role_set_index(tables, &member.roles), |last| last.1);
        last = Some((&member.roles, at));
        put_index(at, "role sets", out)?;
    }
    let mut last: Option<(&AppVersion, Result<usize, usize>)> = None;
    for member in members {
        let text = member.app_version.as_str();
        let known = last.filter(|last| last.0.is_same(&member.app_version) || last.0.as_str() == text);
        let at = known.map_or_else(|| tables.app_versions.binary_search(&text), |last| last.1);
        last = Some((&member.app_version, at));
        put_index(at, "app versions", out)?;
    }
    Ok(())
}

fn role_set_index(tables: &SharedTables<'_>, roles: &Roles) -> Result<usize, usize> {
    tables
        .role_sets
        .binary_search_by(|set| wire_roles(set).cmp(wire_roles(roles)))
}

/// One bit per member, lowest bit first.
fn put_seen(gossip: &Gossip, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start.saturating_add(gossip.members().len().div_ceil(8)), 0);
    for at in gossip.seen_set().iter() {
        if let Some(byte) = out.get_mut(start.saturating_add(at / 8)) {
            *byte |= 1 << (at % 8);
        }
    }
}

fn put_reachability(gossip: &Gossip, out: &mut Vec<u8>) -> Result<(), WireError> {
    let table = gossip.reachability();
    put_positions(
        gossip,
        table.versions().iter().map(|entry| &entry.0),
        "observer",
        out,
    )?;
    for (_, version) in table.versions() {
        put_counter(*version, out)?;
    }
    let mut rest = table.records();
    for (observer, _) in table.versions() {
        let rows = rest
            .iter()
            .take_while(|record| record.observer == *observer)
            .count();
        rest = rest.get(rows..).unwrap_or_default();
        out.extend_from_slice(&count_u16(rows, "reachability records")?.to_le_bytes());
    }
    if !rest.is_empty() {
        return Err(WireError::Unencodable {
            what: "reachability without a version",
        });
    }
    for ReachabilityRecord { subject, .. } in table.records() {
        let at = gossip
            .position(subject)
            .ok_or(WireError::Unencodable { what: "subject" })?;
        out.extend_from_slice(&count_u16(at, "members")?.to_le_bytes());
    }
    for record in table.records() {
        out.push(reach_code(record.status));
    }
    table
        .records()
        .iter()
        .try_for_each(|record| put_counter(record.version, out))
}

fn put_clock(gossip: &Gossip, out: &mut Vec<u8>) -> Result<(), WireError> {
    let entries = gossip.version().entries();
    put_positions(gossip, entries.iter().map(|entry| &entry.0), "clock entry", out)?;
    entries
        .iter()
        .try_for_each(|(_, counter)| put_counter(*counter, out))
}

/// The positions of who is gone among the members, then the removed.
fn put_gone(gossip: &Gossip, out: &mut Vec<u8>) -> Result<(), WireError> {
    if gossip.gone().is_empty() {
        return Ok(());
    }
    let nodes = gossip.members().iter().map(|member| &member.node);
    for (at, node) in nodes.chain(gossip.tombstones()).enumerate() {
        if gossip.is_gone(node) {
            out.extend_from_slice(&count_u16(at, "gone")?.to_le_bytes());
        }
    }
    Ok(())
}

/// The positions of members that come in rising order.
fn put_positions<'a>(
    gossip: &Gossip,
    nodes: impl Iterator<Item = &'a UniqueAddress>,
    what: &'static str,
    out: &mut Vec<u8>,
) -> Result<(), WireError> {
    let members = gossip.members();
    let mut at = 0_usize;
    for node in nodes {
        let rest = members.get(at..).unwrap_or_default();
        let step = rest.iter().position(|member| member.node == *node);
        at = step
            .map(|step| at.saturating_add(step))
            .ok_or(WireError::Unencodable { what })?;
        out.extend_from_slice(&count_u16(at, "members")?.to_le_bytes());
    }
    Ok(())
}

pub(super) fn put_counter(counter: u64, out: &mut Vec<u8>) -> Result<(), WireError> {
    if counter > COUNTER_MAX {
        return Err(WireError::Unencodable { what: "counter" });
    }
    out.extend_from_slice(&counter.to_le_bytes());
    Ok(())
}

fn put_index(at: Result<usize, usize>, what: &'static str, out: &mut Vec<u8>) -> Result<(), WireError> {
    let at = at.map_err(|_| WireError::Unencodable { what })?;
    out.extend_from_slice(&count_u16(at, what)?.to_le_bytes());
    Ok(())
}
