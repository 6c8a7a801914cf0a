//! Cuts a state's bytes into its tables and columns without looking into them. Checks counts against the
//! bytes there are, never what a value means; allocates nothing. Spec: `docs/WIRE.md` 5.2.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::columns::{LAYOUT, StateCounts};
use crate::bytes::WireError;
use crate::bytes::nodes::{NodeColumns, Texts};
use crate::bytes::{BodyReader, Column};

/// The parts of one state, borrowed from its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sections<'a> {
    pub(crate) counts: StateCounts,
    pub(crate) hosts: Texts<'a>,
    pub(crate) roles: Texts<'a>,
    pub(crate) role_set_lengths: &'a [u8],
    pub(crate) role_indexes: Column<'a, 2>,
    pub(crate) app_versions: Texts<'a>,
    pub(crate) members: NodeColumns<'a>,
    pub(crate) statuses: &'a [u8],
    pub(crate) up_numbers: Column<'a, 4>,
    pub(crate) member_role_sets: Column<'a, 2>,
    pub(crate) member_app_versions: Column<'a, 2>,
    pub(crate) seen: &'a [u8],
    pub(crate) tombstones: NodeColumns<'a>,
    pub(crate) observers: Column<'a, 2>,
    pub(crate) observer_versions: Column<'a, 8>,
    pub(crate) observer_rows: Column<'a, 2>,
    pub(crate) subjects: Column<'a, 2>,
    pub(crate) record_statuses: &'a [u8],
    pub(crate) record_versions: Column<'a, 8>,
    pub(crate) clock: Column<'a, 2>,
    pub(crate) counters: Column<'a, 8>,
    pub(crate) gone: Column<'a, 2>,
    pub(crate) paths: &'a [u8],
}

impl<'a> Sections<'a> {
    /// Cuts `body`, all of it. `accept` looks at the counts before any of them is used.
    pub(crate) fn cut(
        body: &'a [u8],
        accept: impl FnOnce(&StateCounts) -> Result<(), WireError>,
    ) -> Result<Self, WireError> {
        let reader = &mut BodyReader::new(body);
        let counts = read_counts(reader)?;
        accept(&counts)?;
        let hosts = Texts::read(reader, counts.hosts, "hosts")?;
        let roles = Texts::read(reader, counts.roles, "roles")?;
        let role_set_lengths = reader.take(counts.role_sets)?;
        let role_indexes = role_set_lengths.iter().map(|len| usize::from(*len)).sum();
        let sections = Self {
            counts,
            hosts,
            roles,
            role_set_lengths,
            role_indexes: reader.column(role_indexes)?,
            app_versions: Texts::read(reader, counts.app_versions, "app versions")?,
            members: NodeColumns::read(reader, counts.members)?,
            statuses: reader.take(counts.members)?,
            up_numbers: reader.column(counts.members)?,
            member_role_sets: reader.column(counts.members)?,
            member_app_versions: reader.column(counts.members)?,
            seen: reader.take(counts.members.div_ceil(8))?,
            tombstones: NodeColumns::read(reader, counts.tombstones)?,
            observers: reader.column(counts.observers)?,
            observer_versions: reader.column(counts.observers)?,
            observer_rows: reader.column(counts.observers)?,
            subjects: reader.column(counts.records)?,
            record_statuses: reader.take(counts.records)?,
            record_versions: reader.column(counts.records)?,
            clock: reader.column(counts.clock)?,
            counters: reader.column(counts.clock)?,
            gone: reader.column(counts.gone)?,
            paths: reader.take(counts.paths)?,
        };
        reader.finish()?;
        Ok(sections)
    }
}

impl<'a> Sections<'a> {
    /// The role indexes of a set.
    pub(crate) fn role_set(&self, set: u16) -> Column<'a, 2> {
        let set = usize::from(set);
        let before = self.role_set_lengths.iter().take(set);
        let before = before.map(|len| usize::from(*len)).sum();
        let mut rest = self.role_indexes;
        let _ = rest.split_front(before);
        let len = self.role_set_lengths.get(set).copied().map_or(0, usize::from);
        rest.split_front(len).unwrap_or_default()
    }
}

fn read_counts(reader: &mut BodyReader<'_>) -> Result<StateCounts, WireError> {
    if (reader.u8()?, reader.u8()?) != (LAYOUT, 0) {
        return Err(WireError::Malformed {
            what: "state version",
        });
    }
    let mut next = || reader.u16().map(usize::from);
    let wide = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
    Ok(StateCounts {
        hosts: next()?,
        roles: next()?,
        role_sets: next()?,
        app_versions: next()?,
        members: next()?,
        tombstones: next()?,
        observers: next()?,
        clock: next()?,
        gone: next()?,
        paths: wide(reader.u32()?),
        records: wide(reader.u32()?),
    })
}
