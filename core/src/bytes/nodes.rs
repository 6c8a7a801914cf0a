//! Tables of nodes in columns: host names once, in rising order, then host index, port and uid per node. A
//! table has one written form, so that every reader can refuse another. Spec: membership 5, `docs/WIRE.md`
//! 5.1.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::vec::Vec;
use core::cmp::Ordering;

use super::WireError;
use super::{BodyReader, Column, count_u16, text};
use crate::ident::{Address, HOST_BYTES_MAX, UniqueAddress, is_name_byte};

/// A list of byte strings: one length byte each, then all bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Texts<'a> {
    lengths: &'a [u8],
    bytes: &'a [u8],
    what: &'static str,
}

impl<'a> Texts<'a> {
    pub(crate) fn read(
        reader: &mut BodyReader<'a>,
        count: usize,
        what: &'static str,
    ) -> Result<Self, WireError> {
        let lengths = reader.take(count)?;
        let total = lengths.iter().map(|len| usize::from(*len)).sum();
        Ok(Self {
            lengths,
            bytes: reader.take(total)?,
            what,
        })
    }

    /// The texts; each must be greater than the one before.
    pub(crate) fn rising(self) -> impl Iterator<Item = Result<&'a str, WireError>> {
        let mut rest = BodyReader::new(self.bytes);
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

    /// Demands that each text is greater than the one before.
    pub(crate) fn check_rising(self) -> Result<(), WireError> {
        let mut rest = self.bytes;
        let mut last: Option<(u128, &[u8])> = None;
        for len in self.lengths {
            let start = head(rest, *len);
            let (text, tail) = rest
                .split_at_checked(usize::from(*len))
                .ok_or(WireError::Incomplete)?;
            // Mostly the first bytes decide.
            let order = last.map(|last| last.0.cmp(&start).then_with(|| last.1.cmp(text)));
            match order {
                None | Some(Ordering::Less) => {}
                Some(Ordering::Equal) => return Err(WireError::Duplicate { what: self.what }),
                Some(Ordering::Greater) => return Err(WireError::NonCanonical { what: self.what }),
            }
            (last, rest) = (Some((start, text)), tail);
        }
        Ok(())
    }

    /// The texts as bytes.
    pub(crate) fn iter(self) -> impl ExactSizeIterator<Item = &'a [u8]> {
        let mut rest = self.bytes;
        self.lengths.iter().map(move |len| {
            let (text, tail) = rest.split_at_checked(usize::from(*len)).unwrap_or_default();
            rest = tail;
            text
        })
    }

    /// Where this text is. Linear.
    pub(crate) fn position(self, text: &[u8]) -> Option<u16> {
        let mut offset = 0_usize;
        for (at, len) in self.lengths.iter().enumerate() {
            let end = offset.saturating_add(usize::from(*len));
            if usize::from(*len) == text.len() && equal(self.bytes.get(offset..end).unwrap_or_default(), text)
            {
                return u16::try_from(at).ok();
            }
            offset = end;
        }
        None
    }
}

/// By the length of a text: which bits of the first 16 bytes are its own.
const HEAD_BITS: [u128; 16] = {
    let mut bits = [0; 16];
    let mut rest: &mut [u128] = &mut bits;
    let mut head = 0_u128;
    while let Some((first, others)) = rest.split_first_mut() {
        *first = head;
        head = (head >> 8) | (0xFF << 120);
        rest = others;
    }
    bits
};

/// The first 16 bytes of a text of `len` bytes at the start of `bytes` as one number that sorts like them; a
/// shorter text counts as if zeros followed it.
fn head(bytes: &[u8], len: u8) -> u128 {
    let number = match bytes.first_chunk() {
        Some(chunk) => u128::from_be_bytes(*chunk),
        None => {
            let mut padded = [0; 16];
            padded.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            u128::from_be_bytes(padded)
        }
    };
    number & HEAD_BITS.get(usize::from(len)).unwrap_or(&u128::MAX)
}

/// Whether two texts are equal; short ones, as host names are, without a call of `memcmp`.
#[inline]
pub(crate) fn equal(left: &[u8], right: &[u8]) -> bool {
    let ends = |bytes: &[u8]| -> Option<(u64, u64)> {
        let (first, last) = (bytes.first_chunk()?, bytes.last_chunk()?);
        Some((u64::from_le_bytes(*first), u64::from_le_bytes(*last)))
    };
    left.len() == right.len()
        && match (ends(left), ends(right)) {
            (Some(left_ends), Some(right_ends)) => {
                left_ends == right_ends && (left.len() <= 16 || left == right)
            }
            _ => left == right,
        }
}

/// Writes texts that are in rising order without duplicates.
pub(crate) fn put_texts<'a>(
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeRow {
    pub(crate) host: u16,
    port: u16,
    uid: u64,
}

impl NodeRow {
    pub(crate) const fn port(self) -> u16 {
        self.port
    }

    pub(crate) const fn uid(self) -> u64 {
        self.uid
    }

    /// The order of the nodes themselves, provided the host table rises.
    pub(crate) fn order(self, other: Self) -> Ordering {
        let key = |row: Self| (row.host, row.port, row.uid.cast_signed());
        key(self).cmp(&key(other))
    }

    /// The order of this row's node and another node, given the row's host name.
    pub(crate) fn order_to(self, host: &[u8], node: &UniqueAddress) -> Ordering {
        let address = node.address();
        host.cmp(address.host().as_bytes())
            .then_with(|| self.port.cmp(&address.port()))
            .then_with(|| self.uid.cast_signed().cmp(&node.uid().cast_signed()))
    }

    /// Whether this row, whose host has this name, is that node.
    pub(crate) fn is(self, host: &[u8], node: &UniqueAddress) -> bool {
        self.uid == node.uid()
            && self.port == node.address().port()
            && equal(host, node.address().host().as_bytes())
    }

    pub(crate) fn resolve(self, hosts: &[Address]) -> Result<UniqueAddress, WireError> {
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
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NodeColumns<'a> {
    hosts: Column<'a, 2>,
    ports: Column<'a, 2>,
    uids: Column<'a, 8>,
}

impl<'a> NodeColumns<'a> {
    pub(crate) fn read(reader: &mut BodyReader<'a>, count: usize) -> Result<Self, WireError> {
        Ok(Self {
            hosts: reader.column(count)?,
            ports: reader.column(count)?,
            uids: reader.column(count)?,
        })
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.hosts.is_empty()
    }

    pub(crate) fn rows(self) -> impl Iterator<Item = NodeRow> + 'a {
        let keys = self.hosts.u16s().zip(self.ports.u16s());
        keys.zip(self.uids.u64s())
            .map(|((host, port), uid)| NodeRow { host, port, uid })
    }

    /// Position of the first row with a host from `host` on; rows must rise.
    pub(crate) fn first_of(self, host: u16) -> usize {
        self.hosts.u16s().take_while(|at| *at < host).count()
    }

    pub(crate) fn row(self, at: usize) -> Option<NodeRow> {
        Some(NodeRow {
            host: u16::from_le_bytes(self.hosts.get(at)?),
            port: u16::from_le_bytes(self.ports.get(at)?),
            uid: u64::from_le_bytes(self.uids.get(at)?),
        })
    }

    /// Whether no port is 0. Looks at all of them, so that the compiler can take many at a time.
    pub(crate) fn all_ports_legal(self) -> bool {
        self.ports.u16s().fold(true, |ok, port| ok & (port != 0))
    }

    /// Demands strictly rising rows.
    pub(crate) fn check_rising(self, what: &'static str) -> Result<(), WireError> {
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
pub(crate) fn check_host_use(
    left: NodeColumns<'_>,
    right: NodeColumns<'_>,
    hosts: usize,
) -> Result<(), WireError> {
    let mut used = 0_usize;
    if right.is_empty() {
        for row in left.rows() {
            step_host(&mut used, row, hosts)?;
        }
        return all_used(used, hosts);
    }
    let (mut left, mut right) = (left.rows().peekable(), right.rows().peekable());
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
        if let Some(row) = row {
            step_host(&mut used, row, hosts)?;
        }
    }
    all_used(used, hosts)
}

/// A row names the next host in turn, or the same again.
const fn step_host(used: &mut usize, row: NodeRow, hosts: usize) -> Result<(), WireError> {
    let host = row.host as usize;
    if host >= hosts {
        return Err(WireError::DanglingIndex { what: "hosts" });
    }
    if host == *used {
        *used = used.saturating_add(1);
    } else if host.saturating_add(1) != *used {
        return Err(WireError::NonCanonical { what: "hosts" });
    }
    Ok(())
}

const fn all_used(used: usize, hosts: usize) -> Result<(), WireError> {
    if used == hosts {
        Ok(())
    } else {
        Err(WireError::NonCanonical { what: "hosts" })
    }
}

/// Demands host names that are legal and rise.
pub(crate) fn check_hosts(texts: Texts<'_>) -> Result<(), WireError> {
    // Both folds look at everything, so that the compiler can take many at a time.
    let lengths_legal = texts.lengths.iter().fold(true, |ok, len| {
        ok & (*len >= 1) & (usize::from(*len) <= HOST_BYTES_MAX)
    });
    let bytes_legal = texts.bytes.iter().fold(true, |ok, byte| ok & is_name_byte(*byte));
    texts.check_rising()?;
    if lengths_legal && bytes_legal {
        Ok(())
    } else {
        Err(WireError::Malformed { what: "address" })
    }
}

/// Finds texts by their position in a table, position after position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextCursor<'a> {
    texts: Texts<'a>,
    at: usize,
    /// The text at `at`, and what follows it.
    text: &'a [u8],
    rest: &'a [u8],
}

impl<'a> TextCursor<'a> {
    pub(crate) fn new(texts: Texts<'a>) -> Self {
        let mut cursor = Self {
            texts,
            at: 0,
            text: &[],
            rest: texts.bytes,
        };
        cursor.take();
        cursor
    }

    /// The text at this position. Costs the distance to the position asked before, or to the start if that
    /// was a later one.
    #[inline]
    pub(crate) fn seek(&mut self, position: u16) -> &'a [u8] {
        let position = usize::from(position);
        if position != self.at {
            self.go_to(position);
        }
        self.text
    }

    #[inline]
    fn go_to(&mut self, position: usize) {
        if position < self.at {
            *self = Self::new(self.texts);
        }
        let next = self.at.saturating_add(1);
        if position > next {
            let passed = self.texts.lengths.get(next..position).unwrap_or_default();
            let passed: usize = passed.iter().map(|len| usize::from(*len)).sum();
            self.rest = self.rest.get(passed..).unwrap_or_default();
        }
        if position != self.at {
            self.at = position;
            self.take();
        }
    }

    #[inline]
    fn take(&mut self) {
        let len = self.texts.lengths.get(self.at).copied().map_or(0, usize::from);
        (self.text, self.rest) = self.rest.split_at_checked(len).unwrap_or_default();
    }
}

/// The host names of these nodes, in rising order, each once.
pub(crate) fn host_table<'a>(nodes: impl Iterator<Item = &'a UniqueAddress>) -> Vec<&'a str> {
    let mut hosts: Vec<&str> = Vec::with_capacity(nodes.size_hint().0);
    let mut rise = true;
    for node in nodes {
        let host = node.address().host();
        match hosts.last().map(|last| (*last).cmp(host)) {
            Some(Ordering::Equal) => continue,
            Some(Ordering::Greater) => rise = false,
            None | Some(Ordering::Less) => {}
        }
        hosts.push(host);
    }
    // They rise where nobody was removed: members are in the order of their hosts.
    if !rise {
        hosts.sort_unstable();
        hosts.dedup();
    }
    hosts
}

/// Writes the columns of nodes in rising order.
pub(crate) fn put_nodes<'a>(
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
