//! The version of a state instead of the state: receiver, digest of the seen set, clock. Spec: membership 5,
//! `docs/WIRE.md` 5.3.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::vec::Vec;

use super::check::check_counter;
use super::write::put_counter;
use crate::bytes::WireError;
use crate::bytes::nodes::{NodeColumns, Texts, check_host_use, host_table, put_nodes, put_texts, read_hosts};
use crate::bytes::{BodyReader, count_u16, put_node};
use crate::membership::state::vector_clock::VectorClock;
use crate::message::GossipStatus;
use crate::wire::declare::{FieldSink, FieldSource};

pub(super) fn put_status(body: &GossipStatus, out: &mut FieldSink<'_>) -> Result<(), WireError> {
    if body.version.len() > out.limits.members_max {
        return Err(WireError::LimitExceeded {
            what: "clock entries",
        });
    }
    put_node(out, &body.to)?;
    out.extend_from_slice(&body.seen_digest.to_le_bytes());
    let entries = body.version.entries();
    let nodes = entries.iter().map(|entry| &entry.0);
    let hosts = host_table(nodes.clone());
    out.extend_from_slice(&count_u16(entries.len(), "clock entries")?.to_le_bytes());
    out.extend_from_slice(&count_u16(hosts.len(), "hosts")?.to_le_bytes());
    put_texts(out, hosts.iter().copied(), "address")?;
    put_nodes(out, &hosts, nodes)?;
    entries
        .iter()
        .try_for_each(|(_, counter)| put_counter(*counter, out))
}

pub(super) fn read_status(reader: &mut FieldSource<'_>) -> Result<GossipStatus, WireError> {
    let to = reader.node()?;
    let seen_digest = reader.u64()?;
    let (count, hosts) = (usize::from(reader.u16()?), usize::from(reader.u16()?));
    if count > reader.limits.members_max {
        return Err(WireError::LimitExceeded {
            what: "clock entries",
        });
    }
    if hosts > count {
        return Err(WireError::LimitExceeded { what: "hosts" });
    }
    let texts = Texts::read(reader, hosts, "hosts")?;
    let nodes = NodeColumns::read(reader, count)?;
    let counters = reader.column::<8>(count)?;
    nodes.check_rising("clock entry")?;
    check_host_use(nodes, NodeColumns::read(&mut BodyReader::new(&[]), 0)?, hosts)?;
    let hosts = read_hosts(texts)?;
    let mut entries = Vec::with_capacity(count);
    for (row, counter) in nodes.rows().zip(counters.u64s()) {
        check_counter(counter)?;
        entries.push((row.resolve(&hosts)?, counter));
    }
    let version = VectorClock::from_entries(entries).ok_or(WireError::Duplicate { what: "clock entry" })?;
    Ok(GossipStatus {
        to,
        version,
        seen_digest,
    })
}
