//! The one written form of a table of paths, read and written with every length, index and order checked.
//! Checking allocates one mark per member named. Spec: `docs/WIRE.md` 5.4, reliability 3b.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use crate::bytes::{BodyReader, WireError, count_u16, put_node, put_text};
use crate::ident::{Role, UniqueAddress};
use crate::paths::state::entry::{MoveStatus, PathEntry, PathEpoch, PathRecord, SlotMove};
use crate::paths::state::instances::{FaultTolerance, TABLE_ENTRIES_MAX};
use crate::paths::state::name::{PathName, check_path};
use crate::paths::state::options::HandoffOptions;
use crate::paths::state::settings::{INSTANCES_MAX, PATHS_MAX, PathRouter, PathSettings, SLOTS_MAX};

/// Largest written table: 10,000 members fit the frame beside it.
pub(crate) const TABLE_BYTES_MAX: usize = 256 << 10;

/// The same where frames of the gossip are small: a quarter of one.
pub(crate) fn table_bytes_max(gossip_frame_bytes_max: usize) -> usize {
    TABLE_BYTES_MAX.min(gossip_frame_bytes_max / 4)
}

/// Largest counter of an epoch: as of every counter in a gossip (B-36).
pub(crate) const COUNTER_MAX: u64 = 1 << 48;
/// No member.
const NOBODY: u16 = u16::MAX;

/// Writes a table.
pub(super) fn write(
    (counter, forgotten): (u64, u64),
    placed: Option<&(PathEpoch, UniqueAddress)>,
    entries: &[Arc<PathEntry>],
) -> Result<Vec<u8>, WireError> {
    let mut out = Vec::new();
    if counter == 0 && placed.is_none() && entries.is_empty() {
        return Ok(out);
    }
    let nodes = nodes_of(placed, entries);
    put_counter(counter, &mut out)?;
    put_counter(forgotten, &mut out)?;
    out.extend_from_slice(&count_u16(nodes.len(), "nodes of paths")?.to_le_bytes());
    for node in &nodes {
        put_node(&mut out, node)?;
    }
    let out = &mut Writer { nodes, out };
    match placed {
        None => out.out.push(0),
        Some((epoch, node)) => {
            out.out.push(1);
            out.put_epoch(epoch)?;
            out.put_node(Some(node))?;
        }
    }
    check_sizes(entries)?;
    out.put_u16(count_u16(entries.len(), "paths")?);
    for entry in entries {
        out.put_entry(entry)?;
    }
    if out.out.len() > TABLE_BYTES_MAX {
        return Err(WireError::LimitExceeded { what: "path bytes" });
    }
    Ok(core::mem::take(&mut out.out))
}

fn check_sizes(entries: &[Arc<PathEntry>]) -> Result<(), WireError> {
    let slots: usize = entries.iter().map(|entry| entry.slots()).sum();
    if entries.len() > PATHS_MAX {
        Err(WireError::LimitExceeded { what: "paths" })
    } else if slots > SLOTS_MAX {
        Err(WireError::LimitExceeded { what: "path slots" })
    } else {
        Ok(())
    }
}

/// Everybody named, sorted, each once.
fn nodes_of<'a>(
    placed: Option<&'a (PathEpoch, UniqueAddress)>,
    entries: &'a [Arc<PathEntry>],
) -> Vec<&'a UniqueAddress> {
    let mut nodes = Vec::new();
    if let Some((epoch, node)) = placed {
        nodes.extend([&epoch.leader, node]);
    }
    for entry in entries {
        nodes.push(&entry.record.epoch.leader);
        nodes.extend(entry.record.hosts.iter().flatten());
        for change in entry.moves.iter().flatten() {
            nodes.push(&change.id.leader);
            nodes.extend(change.from.iter().chain(&change.to));
        }
        // Most are named many times.
        if nodes.len() > 4 * PATHS_MAX {
            nodes.sort_unstable();
            nodes.dedup();
        }
    }
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

struct Writer<'a> {
    nodes: Vec<&'a UniqueAddress>,
    out: Vec<u8>,
}

impl Writer<'_> {
    fn put_u16(&mut self, value: u16) {
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    fn put_node(&mut self, node: Option<&UniqueAddress>) -> Result<(), WireError> {
        let what = "node of a path";
        let at = match node {
            None => NOBODY,
            Some(node) => {
                let at = self.nodes.binary_search(&node);
                count_u16(at.map_err(|_| WireError::Unencodable { what })?, what)?
            }
        };
        self.put_u16(at);
        Ok(())
    }

    fn put_epoch(&mut self, epoch: &PathEpoch) -> Result<(), WireError> {
        put_counter(epoch.counter, &mut self.out)?;
        self.put_node(Some(&epoch.leader))
    }

    fn put_entry(&mut self, entry: &PathEntry) -> Result<(), WireError> {
        put_text(&mut self.out, entry.name.as_str(), "path")?;
        let PathRecord {
            epoch,
            settings,
            scale,
            hosts,
        } = &entry.record;
        self.put_epoch(epoch)?;
        match settings {
            None => self.out.push(0),
            Some(settings) => {
                self.out.push(1);
                put_settings(settings, &mut self.out)?;
            }
        }
        self.put_u16(*scale);
        self.put_u16(count_u16(hosts.len(), "path slots")?);
        for host in hosts {
            self.put_node(host.as_ref())?;
        }
        self.put_u16(count_u16(entry.moves.len(), "path slots")?);
        for change in &entry.moves {
            match change {
                None => self.out.push(u8::MAX),
                Some(change) => self.put_move(change)?,
            }
        }
        Ok(())
    }

    fn put_move(&mut self, change: &SlotMove) -> Result<(), WireError> {
        self.out.push(match change.status {
            MoveStatus::Awaiting => 0,
            MoveStatus::Complete => 1,
            MoveStatus::Settled => 2,
            MoveStatus::Aborted => 3,
            MoveStatus::Applied => 4,
        });
        self.put_epoch(&change.id)?;
        self.put_node(change.from.as_ref())?;
        self.put_node(change.to.as_ref())?;
        self.out.push(change.options.to_byte());
        Ok(())
    }
}

fn put_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Writes settings, but for the name.
pub(crate) fn put_settings(settings: &PathSettings, out: &mut Vec<u8>) -> Result<(), WireError> {
    put_text(out, settings.role.as_ref().map_or("", Role::as_str), "role")?;
    match &settings.fault_tolerance {
        FaultTolerance::Constant(hosts) => {
            out.push(0);
            put_u16(out, *hosts);
        }
        FaultTolerance::Share(share) => {
            out.push(1);
            put_u16(out, share.part());
            put_u16(out, share.whole());
        }
        FaultTolerance::Table(table) => {
            out.push(2);
            let rows = count_u16(table.entries().len(), "rows of a fault tolerance")?;
            put_u16(out, rows);
            for (members, hosts) in table.entries() {
                put_u16(out, *members);
                put_u16(out, *hosts);
            }
        }
    }
    put_u16(out, settings.instances_min);
    put_u16(out, settings.instances_max);
    put_u16(out, settings.expected_load);
    out.push(settings.handoff.to_byte());
    let router = match settings.router {
        PathRouter::RoundRobin => 0,
        PathRouter::LeastLoaded => 1,
        PathRouter::Weighted => 2,
    };
    out.push(router | u8::from(settings.subtree) << 2 | u8::from(settings.mailbox) << 3);
    Ok(())
}

fn put_counter(counter: u64, out: &mut Vec<u8>) -> Result<(), WireError> {
    if counter > COUNTER_MAX {
        return Err(WireError::Unencodable { what: "path epoch" });
    }
    out.extend_from_slice(&counter.to_le_bytes());
    Ok(())
}

/// Checks a written table: that it is a table in its one form, and within all limits.
pub(crate) fn check(bytes: &[u8]) -> Result<(), WireError> {
    if bytes.len() > TABLE_BYTES_MAX {
        return Err(WireError::LimitExceeded { what: "path bytes" });
    }
    // An equal table is not read at all; one with news is read twice, which is cheap beside the rest.
    read(bytes).map(drop)
}

/// The counter of a written table that was checked.
pub(crate) fn counter_of(bytes: &[u8]) -> u64 {
    BodyReader::new(bytes).u64().unwrap_or_default()
}

/// What a table is written from.
#[derive(Debug, Default)]
pub(super) struct TableParts {
    /// The largest counter of an epoch, and up to which one removed paths are forgotten.
    pub(super) counters: (u64, u64),
    /// Who was given a slot last, and when.
    pub(super) placed: Option<(PathEpoch, UniqueAddress)>,
    /// By name.
    pub(super) entries: Vec<Arc<PathEntry>>,
}

/// Reads a written table.
pub(super) fn read(bytes: &[u8]) -> Result<TableParts, WireError> {
    if bytes.is_empty() {
        return Ok(TableParts::default());
    }
    let mut reader = BodyReader::new(bytes);
    let reader = &mut reader;
    let (counter, forgotten) = (read_counter(reader)?, read_counter(reader)?);
    if forgotten > counter {
        return Err(malformed("path epoch"));
    }
    let count = usize::from(reader.u16()?);
    // A node takes at least twelve bytes.
    if count.saturating_mul(12) > bytes.len() {
        return Err(WireError::Incomplete);
    }
    let mut nodes: Vec<UniqueAddress> = Vec::with_capacity(count);
    for _ in 0..count {
        let node = reader.node()?;
        if nodes.last().is_some_and(|last| *last >= node) {
            return Err(non_canonical());
        }
        nodes.push(node);
    }
    let mut source = Reader {
        reader,
        used: vec![false; nodes.len()],
        nodes,
        counter,
        slots: 0,
    };
    let placed = if source.reader.bool("placed")? {
        Some((source.epoch()?, source.some_node()?))
    } else {
        None
    };
    let count = usize::from(source.reader.u16()?);
    if count > PATHS_MAX {
        return Err(WireError::LimitExceeded { what: "paths" });
    }
    let mut entries: Vec<Arc<PathEntry>> = Vec::new();
    for _ in 0..count {
        let entry = source.entry()?;
        if entries.last().is_some_and(|last| last.name >= entry.name) {
            return Err(non_canonical());
        }
        entries.push(Arc::new(entry));
    }
    if !source.used.iter().all(|used| *used) || (counter == 0 && placed.is_none() && entries.is_empty()) {
        return Err(non_canonical());
    }
    source.reader.finish()?;
    Ok(TableParts {
        counters: (counter, forgotten),
        placed,
        entries,
    })
}

const fn non_canonical() -> WireError {
    WireError::NonCanonical { what: "paths" }
}

const fn malformed(what: &'static str) -> WireError {
    WireError::Malformed { what }
}

fn read_counter(reader: &mut BodyReader<'_>) -> Result<u64, WireError> {
    let counter = reader.u64()?;
    if counter > COUNTER_MAX {
        return Err(WireError::LimitExceeded { what: "path epoch" });
    }
    Ok(counter)
}

struct Reader<'a, 'b> {
    reader: &'b mut BodyReader<'a>,
    nodes: Vec<UniqueAddress>,
    used: Vec<bool>,
    counter: u64,
    /// Of the paths read so far.
    slots: usize,
}

impl Reader<'_, '_> {
    fn node(&mut self) -> Result<Option<UniqueAddress>, WireError> {
        let at = self.reader.u16()?;
        if at == NOBODY {
            return Ok(None);
        }
        let what = "node of a path";
        let at = usize::from(at);
        let used = self.used.get_mut(at).ok_or(WireError::DanglingIndex { what })?;
        *used = true;
        Ok(self.nodes.get(at).cloned())
    }

    fn some_node(&mut self) -> Result<UniqueAddress, WireError> {
        self.node()?.ok_or(malformed("node of a path"))
    }

    /// No epoch is above the table's counter.
    fn epoch(&mut self) -> Result<PathEpoch, WireError> {
        let counter = read_counter(self.reader)?;
        if counter == 0 || counter > self.counter {
            return Err(malformed("path epoch"));
        }
        let leader = self.some_node()?;
        Ok(PathEpoch { counter, leader })
    }

    fn entry(&mut self) -> Result<PathEntry, WireError> {
        let name = self.reader.text("path")?;
        check_path(name).map_err(|_| malformed("path"))?;
        let name = PathName::new(name).map_err(|_| malformed("path"))?;
        let epoch = self.epoch()?;
        let settings = if self.reader.bool("path settings")? {
            Some(Arc::new(read_settings(self.reader, &name)?))
        } else {
            None
        };
        let scale = self.reader.u16()?;
        let count = self.slots()?;
        let mut hosts = Vec::new();
        for _ in 0..count {
            hosts.push(self.node()?);
        }
        let count = self.slots()?;
        // Before there is a place for each: a byte may be a slot.
        self.slots = self.slots.saturating_add(hosts.len().max(usize::from(count)));
        if self.slots > SLOTS_MAX {
            return Err(WireError::LimitExceeded { what: "path slots" });
        }
        let mut moves = Vec::new();
        for _ in 0..count {
            moves.push(self.slot_move()?);
        }
        Ok(PathEntry {
            name,
            record: PathRecord {
                epoch,
                settings,
                scale,
                hosts,
            },
            moves,
        })
    }

    fn slots(&mut self) -> Result<u16, WireError> {
        let count = self.reader.u16()?;
        if count > INSTANCES_MAX {
            return Err(WireError::LimitExceeded { what: "path slots" });
        }
        Ok(count)
    }

    fn slot_move(&mut self) -> Result<Option<SlotMove>, WireError> {
        let status = match self.reader.u8()? {
            0 => MoveStatus::Awaiting,
            1 => MoveStatus::Complete,
            2 => MoveStatus::Settled,
            3 => MoveStatus::Aborted,
            4 => MoveStatus::Applied,
            u8::MAX => return Ok(None),
            _ => return Err(malformed("status of a move")),
        };
        let id = self.epoch()?;
        let (from, to) = (self.node()?, self.node()?);
        if from.is_none() && to.is_none() {
            return Err(malformed("move"));
        }
        let options = HandoffOptions::from_byte(self.reader.u8()?).ok_or(malformed("hand-off options"))?;
        Ok(Some(SlotMove {
            id,
            status,
            from,
            to,
            options,
        }))
    }
}

fn read_fault_tolerance(reader: &mut BodyReader<'_>) -> Result<FaultTolerance, WireError> {
    let illegal = |_| malformed("fault tolerance");
    match reader.u8()? {
        0 => reader.u16().map(FaultTolerance::Constant),
        1 => {
            let (part, whole) = (reader.u16()?, reader.u16()?);
            let read = FaultTolerance::share(part, whole).map_err(illegal)?;
            let is_lowest = matches!(&read, FaultTolerance::Share(share) if share.whole() == whole);
            if is_lowest { Ok(read) } else { Err(non_canonical()) }
        }
        2 => {
            let rows = usize::from(reader.u16()?);
            if rows > TABLE_ENTRIES_MAX {
                let what = "rows of a fault tolerance";
                return Err(WireError::LimitExceeded { what });
            }
            let mut table = Vec::with_capacity(rows);
            for _ in 0..rows {
                table.push((reader.u16()?, reader.u16()?));
            }
            FaultTolerance::table(table).map_err(illegal)
        }
        _ => Err(malformed("fault tolerance")),
    }
}

/// Reads settings of a path of this name.
pub(crate) fn read_settings(reader: &mut BodyReader<'_>, name: &PathName) -> Result<PathSettings, WireError> {
    let role = match reader.text("role")? {
        "" => None,
        role => Some(Role::from_wire(role).map_err(|_| malformed("role"))?),
    };
    let fault_tolerance = read_fault_tolerance(reader)?;
    let (instances_min, instances_max, expected_load) = (reader.u16()?, reader.u16()?, reader.u16()?);
    let handoff = HandoffOptions::from_byte(reader.u8()?).ok_or(malformed("hand-off options"))?;
    let router = reader.u8()?;
    let settings = PathSettings {
        name: name.clone(),
        role,
        fault_tolerance,
        instances_min,
        instances_max,
        expected_load,
        handoff,
        router: match router & 3 {
            0 => PathRouter::RoundRobin,
            1 => PathRouter::LeastLoaded,
            2 => PathRouter::Weighted,
            _ => return Err(malformed("router")),
        },
        subtree: router & 4 != 0,
        mailbox: router & 8 != 0,
    };
    if router > 15 || settings.check().is_err() {
        return Err(malformed("path settings"));
    }
    Ok(settings)
}
