//! Reads a state: counts first, each against its limit, then columns borrowed from the body, then one pass that checks
//! every index and demands the one legal form. Nothing is allocated before its bytes are there. Spec: reliability 3c
//! B-18 to B-36, `docs/WIRE.md` 5.2.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::COUNTER_MAX;
use super::columns::{Counts, STATE_VERSION, reach_of, status_of};
use crate::config::Limits;
use crate::ident::{Address, Role, Roles, UniqueAddress};
use crate::membership::app_version::AppVersion;
use crate::membership::gossip::Gossip;
use crate::membership::member::Member;
use crate::membership::member_set::MemberSet;
use crate::membership::reachability::{Reachability, Record};
use crate::membership::vector_clock::VectorClock;
use crate::wire::WireError;
use crate::wire::bytes::{Column, Reader};
use crate::wire::membership::{read_app_version, read_role, read_roles};
use crate::wire::nodes::{NodeColumns, Texts, check_host_use, read_hosts};
use crate::wire::sharding::read_up_number;

pub(super) fn read_state(body: &[u8], limits: &Limits) -> Result<Gossip, WireError> {
    let mut reader = Reader::new(body);
    let (counts, epoch) = read_counts(&mut reader, limits)?;
    let hosts = Texts::read(&mut reader, counts.hosts, "hosts")?;
    let role_sets = read_role_sets(&mut reader, counts)?;
    let app_versions = read_app_versions(&mut reader, counts)?;
    let nodes = NodeColumns::read(&mut reader, counts.members)?;
    let fields = MemberFields::read(&mut reader, counts.members)?;
    let seen = read_seen(&mut reader, counts.members)?;
    let removed = NodeColumns::read(&mut reader, counts.tombstones)?;
    nodes.check_rising("member")?;
    removed.check_rising("tombstone")?;
    check_host_use(nodes, removed, counts.hosts)?;
    let hosts = read_hosts(hosts)?;
    let members = fields.members(nodes, &hosts, &role_sets, &app_versions)?;
    let tombstones = read_tombstones(removed, counts.tombstones, &hosts)?;
    let reachability = read_reachability(&mut reader, counts, &members)?;
    let version = read_clock(&mut reader, counts.clock, &members)?;
    let meta = Arc::from(reader.take(counts.meta)?);
    reader.finish()?;
    Gossip::from_parts(members, reachability, version, seen, tombstones, epoch, meta)
        .map_err(|_| WireError::Malformed { what: "state" })
}

fn read_counts(reader: &mut Reader<'_>, limits: &Limits) -> Result<(Counts, u64), WireError> {
    if reader.u8()? != STATE_VERSION || reader.u8()? != 0 {
        return Err(WireError::Malformed {
            what: "state version",
        });
    }
    let mut next = || reader.u16().map(usize::from);
    let counts = Counts {
        hosts: next()?,
        roles: next()?,
        role_sets: next()?,
        app_versions: next()?,
        members: next()?,
        tombstones: next()?,
        observers: next()?,
        clock: next()?,
        meta: next()?,
        records: usize::try_from(reader.u32()?).unwrap_or(usize::MAX),
    };
    counts.check(limits)?;
    Ok((counts, reader.u64()?))
}

/// Role names, then sets of them; every name is in a set.
fn read_role_sets(reader: &mut Reader<'_>, counts: Counts) -> Result<Vec<Roles>, WireError> {
    let names = Texts::read(reader, counts.roles, "roles")?;
    let lengths = reader.take(counts.role_sets)?;
    let total = lengths.iter().map(|len| usize::from(*len)).sum();
    let mut indexes = reader.column::<2>(total)?.u16s();
    let mut roles: Vec<Role> = Vec::with_capacity(counts.roles);
    for name in names.rising() {
        roles.push(read_role(name?)?);
    }
    let mut used = UseCheck::new(roles.len());
    let mut sets: Vec<Roles> = Vec::with_capacity(lengths.len());
    let (mut set, mut last): (Vec<u16>, Vec<u16>) = (Vec::new(), Vec::new());
    for len in lengths {
        set.clear();
        set.extend(indexes.by_ref().take(usize::from(*len)));
        let rises = set.iter().zip(set.iter().skip(1)).all(|(a, b)| a < b);
        if !rises || (!sets.is_empty() && last >= set) {
            return Err(WireError::NonCanonical { what: "role sets" });
        }
        // One more for the data center that is not written.
        let mut members = Vec::with_capacity(set.len().saturating_add(1));
        for at in &set {
            members.push(pick(&roles, *at, "roles")?.clone());
            used.mark(*at);
        }
        sets.push(read_roles(members)?);
        core::mem::swap(&mut set, &mut last);
    }
    used.finish("roles")?;
    Ok(sets)
}

fn read_app_versions(reader: &mut Reader<'_>, counts: Counts) -> Result<Vec<AppVersion>, WireError> {
    let texts = Texts::read(reader, counts.app_versions, "app versions")?;
    let mut versions = Vec::with_capacity(texts.len());
    for text in texts.rising() {
        versions.push(read_app_version(text?)?);
    }
    Ok(versions)
}

/// The columns of the members besides their names.
struct MemberFields<'a> {
    statuses: &'a [u8],
    up_numbers: Column<'a, 4>,
    role_sets: Column<'a, 2>,
    app_versions: Column<'a, 2>,
}

impl<'a> MemberFields<'a> {
    fn read(reader: &mut Reader<'a>, members: usize) -> Result<Self, WireError> {
        Ok(Self {
            statuses: reader.take(members)?,
            up_numbers: reader.column(members)?,
            role_sets: reader.column(members)?,
            app_versions: reader.column(members)?,
        })
    }

    fn members(
        &self,
        nodes: NodeColumns<'_>,
        hosts: &[Address],
        role_sets: &[Roles],
        app_versions: &[AppVersion],
    ) -> Result<Vec<Member>, WireError> {
        let mut members = Vec::with_capacity(self.statuses.len());
        let mut sets_used = UseCheck::new(role_sets.len());
        let mut versions_used = UseCheck::new(app_versions.len());
        let states = self.statuses.iter().zip(self.up_numbers.u32s());
        let shared = self.role_sets.u16s().zip(self.app_versions.u16s());
        for ((row, (status, up_number)), (set, version)) in nodes.rows().zip(states).zip(shared) {
            sets_used.mark(set);
            versions_used.mark(version);
            members.push(Member {
                node: row.resolve(hosts)?,
                status: status_of(*status)?,
                up_number: read_up_number(up_number)?,
                roles: pick(role_sets, set, "role sets")?.clone(),
                app_version: pick(app_versions, version, "app versions")?.clone(),
            });
        }
        sets_used.finish("role sets")?;
        versions_used.finish("app versions")?;
        Ok(members)
    }
}

/// Through a list of the right size: collecting into a set by itself would grow one step by step.
fn read_tombstones(
    removed: NodeColumns<'_>,
    count: usize,
    hosts: &[Address],
) -> Result<BTreeSet<UniqueAddress>, WireError> {
    let mut nodes = Vec::with_capacity(count);
    for row in removed.rows() {
        nodes.push(row.resolve(hosts)?);
    }
    Ok(nodes.into_iter().collect())
}

fn read_seen(reader: &mut Reader<'_>, members: usize) -> Result<MemberSet, WireError> {
    let bytes = reader.take(members.div_ceil(8))?;
    let mut seen = MemberSet::new();
    for (at, byte) in bytes.iter().enumerate() {
        for bit in (0..8_usize).filter(|bit| byte & (1 << bit) != 0) {
            let position = at.saturating_mul(8).saturating_add(bit);
            if position >= members {
                return Err(WireError::DanglingIndex { what: "seen" });
            }
            seen.insert(position);
        }
    }
    Ok(seen)
}

fn read_reachability(
    reader: &mut Reader<'_>,
    counts: Counts,
    members: &[Member],
) -> Result<Reachability, WireError> {
    let observers = reader.column::<2>(counts.observers)?;
    let versions = reader.column::<8>(counts.observers)?;
    let rows = reader.column::<2>(counts.observers)?;
    let total: usize = rows.u16s().map(usize::from).sum();
    if total != counts.records {
        return Err(WireError::Malformed {
            what: "reachability records",
        });
    }
    let mut subjects = reader.column::<2>(total)?.u16s();
    let mut statuses = reader.take(total)?.iter();
    let mut row_versions = reader.column::<8>(total)?.u64s();
    let versions = read_positions(observers, versions, members, "observers")?;
    let mut records = Vec::with_capacity(total);
    for ((observer, version), count) in versions.iter().zip(rows.u16s()) {
        let mut last = None;
        let row = subjects
            .by_ref()
            .zip(statuses.by_ref())
            .zip(row_versions.by_ref());
        for ((subject, status), row_version) in row.take(usize::from(count)) {
            check_rise(&mut last, subject, "reachability subject")?;
            if row_version > *version {
                return Err(WireError::Malformed {
                    what: "reachability version",
                });
            }
            records.push(Record {
                observer: observer.clone(),
                subject: pick(members, subject, "reachability")?.node.clone(),
                status: reach_of(*status)?,
                version: row_version,
            });
        }
    }
    Reachability::from_parts(records, versions).ok_or(WireError::Malformed { what: "reachability" })
}

fn read_clock(reader: &mut Reader<'_>, count: usize, members: &[Member]) -> Result<VectorClock, WireError> {
    let (positions, counters) = (reader.column::<2>(count)?, reader.column::<8>(count)?);
    let entries = read_positions(positions, counters, members, "clock")?;
    VectorClock::from_entries(entries).ok_or(WireError::Duplicate { what: "clock" })
}

/// Pairs of a member's position and a counter, positions rising.
fn read_positions(
    positions: Column<'_, 2>,
    counters: Column<'_, 8>,
    members: &[Member],
    what: &'static str,
) -> Result<Vec<(UniqueAddress, u64)>, WireError> {
    let pairs = positions.u16s().zip(counters.u64s());
    let mut entries = Vec::with_capacity(pairs.size_hint().0);
    let mut last = None;
    for (position, counter) in pairs {
        check_rise(&mut last, position, what)?;
        entries.push((
            pick(members, position, what)?.node.clone(),
            read_counter(counter)?,
        ));
    }
    Ok(entries)
}

pub(super) const fn read_counter(counter: u64) -> Result<u64, WireError> {
    if counter > COUNTER_MAX {
        return Err(WireError::LimitExceeded { what: "clock counts" });
    }
    Ok(counter)
}

fn check_rise(last: &mut Option<u16>, next: u16, what: &'static str) -> Result<(), WireError> {
    match last.replace(next) {
        Some(before) if before == next => Err(WireError::Duplicate { what }),
        Some(before) if before > next => Err(WireError::NonCanonical { what }),
        Some(_) | None => Ok(()),
    }
}

fn pick<'a, T>(table: &'a [T], at: u16, what: &'static str) -> Result<&'a T, WireError> {
    table
        .get(usize::from(at))
        .ok_or(WireError::DanglingIndex { what })
}

/// Finds out whether every entry of a table is used: a table with spare entries has more than one form.
struct UseCheck(Vec<bool>);

impl UseCheck {
    fn new(entries: usize) -> Self {
        Self(vec![false; entries])
    }

    fn mark(&mut self, at: u16) {
        if let Some(used) = self.0.get_mut(usize::from(at)) {
            *used = true;
        }
    }

    fn finish(self, what: &'static str) -> Result<(), WireError> {
        if self.0.iter().all(|used| *used) {
            Ok(())
        } else {
            Err(WireError::NonCanonical { what })
        }
    }
}
