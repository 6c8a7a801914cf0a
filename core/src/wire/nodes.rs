//! Tables of nodes in columns: host names once, in rising order, then host index, port and uid per node. A table has one
//! written form, so that every reader can refuse another. Spec: membership 5, `docs/WIRE.md` 5.1.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::vec::Vec;
use core::cmp::Ordering;

use super::WireError;
use super::bytes::{Column, Reader, count_u16, text};
use crate::ident::{Address, UniqueAddress};

/// A list of byte strings: one length byte each, then all bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Texts<'a> {
    lengths: &'a [u8],
    bytes: &'a [u8],
    what: &'static str,
}

impl<'a> Texts<'a> {
    pub(super) fn read(reader: &mut Reader<'a>, count: usize, what: &'static str) -> Result<Self, WireError> {
        let lengths = reader.take(count)?;
        let total = lengths.iter().map(|len| usize::from(*len)).sum();
        Ok(Self {
            lengths,
            bytes: reader.take(total)?,
            what,
        })
    }

    /// The texts; each must be greater than the one before.
    pub(super) fn rising(self) -> impl Iterator<Item = Result<&'a str, WireError>> {
        let mut rest = Reader::new(self.bytes);
        let mut last: Option<&[u8]> = None;
        self.lengths.iter().map(move |len| {
            let bytes = rest.take(usize::from(*len))?;
            match last.replace(bytes).map(|last| last.cmp(bytes)) {
                None | Some(Ordering::Less) => text(bytes, self.what),
                Some(Ordering::Equal) => Err(WireError::Duplicate { what: self.what }),
                Some(Ordering::Greater) => Err(WireError::NonCanonical { what: self.what }),
            }
        })
    }

    pub(super) const fn len(&self) -> usize {
        self.lengths.len()
    }
}

/// Writes texts that are in rising order without duplicates.
pub(super) fn put_texts<'a>(
    out: &mut Vec<u8>,
    texts: impl Iterator<Item = &'a str> + Clone,
    what: &'static str,
) -> Result<(), WireError> {
    for text in texts.clone() {
        out.push(u8::try_from(text.len()).map_err(|_| WireError::Unencodable { what })?);
    }
    texts.for_each(|text| out.extend_from_slice(text.as_bytes()));
    Ok(())
}

/// One row of a node table. The derived order is no use: uids compare as signed numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeRow {
    pub(super) host: u16,
    port: u16,
    uid: u64,
}

impl NodeRow {
    /// The order of the nodes themselves, provided the host table rises.
    pub(super) fn order(self, other: Self) -> Ordering {
        let key = |row: Self| (row.host, row.port, row.uid.cast_signed());
        key(self).cmp(&key(other))
    }

    pub(super) fn resolve(self, hosts: &[Address]) -> Result<UniqueAddress, WireError> {
        let host = hosts
            .get(usize::from(self.host))
            .ok_or(WireError::DanglingIndex { what: "hosts" })?;
        let address = host
            .with_port(self.port)
            .map_err(|_| WireError::Malformed { what: "address" })?;
        Ok(UniqueAddress::new(address, self.uid))
    }
}

/// The three columns of a node table.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeColumns<'a> {
    hosts: Column<'a, 2>,
    ports: Column<'a, 2>,
    uids: Column<'a, 8>,
}

impl<'a> NodeColumns<'a> {
    pub(super) fn read(reader: &mut Reader<'a>, count: usize) -> Result<Self, WireError> {
        Ok(Self {
            hosts: reader.column(count)?,
            ports: reader.column(count)?,
            uids: reader.column(count)?,
        })
    }

    pub(super) fn rows(self) -> impl Iterator<Item = NodeRow> + 'a {
        let keys = self.hosts.u16s().zip(self.ports.u16s());
        keys.zip(self.uids.u64s())
            .map(|((host, port), uid)| NodeRow { host, port, uid })
    }

    /// Demands strictly rising rows.
    pub(super) fn check_rising(self, what: &'static str) -> Result<(), WireError> {
        let mut last = None::<NodeRow>;
        for row in self.rows() {
            match last.replace(row).map(|last| last.order(row)) {
                None | Some(Ordering::Less) => {}
                Some(Ordering::Equal) => return Err(WireError::Duplicate { what }),
                Some(Ordering::Greater) => return Err(WireError::NonCanonical { what }),
            }
        }
        Ok(())
    }
}

/// Demands that every host is named by `left` or `right`, whose hosts rise, and that no node is in both.
pub(super) fn check_host_use(
    left: NodeColumns<'_>,
    right: NodeColumns<'_>,
    hosts: usize,
) -> Result<(), WireError> {
    let (mut left, mut right) = (left.rows().peekable(), right.rows().peekable());
    let mut used = 0_usize;
    loop {
        let row = match (left.peek(), right.peek()) {
            (None, None) => break,
            (Some(a), Some(b)) => match a.order(*b) {
                Ordering::Less => left.next(),
                Ordering::Greater => right.next(),
                Ordering::Equal => {
                    return Err(WireError::Malformed {
                        what: "member with a tombstone",
                    });
                }
            },
            (Some(_), None) => left.next(),
            (None, Some(_)) => right.next(),
        };
        let host = row.map_or(0, |row| usize::from(row.host));
        if host >= hosts {
            return Err(WireError::DanglingIndex { what: "hosts" });
        }
        // The next host in turn, or the same again.
        if host == used {
            used = used.saturating_add(1);
        } else if host.saturating_add(1) != used {
            return Err(WireError::NonCanonical { what: "hosts" });
        }
    }
    if used == hosts {
        Ok(())
    } else {
        Err(WireError::NonCanonical { what: "hosts" })
    }
}

/// Makes every host once, at a port that [`NodeRow::resolve`] replaces.
pub(super) fn read_hosts(texts: Texts<'_>) -> Result<Vec<Address>, WireError> {
    let mut hosts = Vec::with_capacity(texts.len());
    for host in texts.rising() {
        hosts.push(Address::new(host?, 1).map_err(|_| WireError::Malformed { what: "address" })?);
    }
    Ok(hosts)
}

/// The host names of these nodes, in rising order, each once.
pub(super) fn host_table<'a>(nodes: impl Iterator<Item = &'a UniqueAddress>) -> Vec<&'a str> {
    let mut hosts: Vec<&str> = Vec::with_capacity(nodes.size_hint().0);
    for node in nodes {
        let host = node.address().host();
        if hosts.last() != Some(&host) {
            hosts.push(host);
        }
    }
    hosts.sort_unstable();
    hosts.dedup();
    hosts
}

/// Writes the columns of nodes in rising order.
pub(super) fn put_nodes<'a>(
    out: &mut Vec<u8>,
    hosts: &[&str],
    nodes: impl Iterator<Item = &'a UniqueAddress> + Clone,
) -> Result<(), WireError> {
    let mut at = 0;
    for node in nodes.clone() {
        let rest = hosts.get(at..).unwrap_or_default();
        let step = rest.iter().position(|host| *host == node.address().host());
        at = step
            .map(|step| at.saturating_add(step))
            .ok_or(WireError::Unencodable { what: "node order" })?;
        out.extend_from_slice(&count_u16(at, "hosts")?.to_le_bytes());
    }
    for node in nodes.clone() {
        out.extend_from_slice(&node.address().port().to_le_bytes());
    }
    for node in nodes {
        out.extend_from_slice(&node.uid().to_le_bytes());
    }
    Ok(())
}
