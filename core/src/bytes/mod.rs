//! Reading and writing little-endian fields. Every read is checked; a reader never allocates before it knows
//! that the bytes for it are there. Never decides what a field means. Spec: reliability 3b.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

mod error;
pub(crate) mod nodes;

pub use error::{Reaction, WireError};

use alloc::vec::Vec;
use core::str;

use crate::ident::{Address, UniqueAddress};

/// What is left of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyReader<'a> {
    rest: &'a [u8],
}

impl<'a> BodyReader<'a> {
    pub(crate) const fn new(body: &'a [u8]) -> Self {
        Self { rest: body }
    }

    pub(crate) fn take(&mut self, bytes: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.rest.split_at_checked(bytes).ok_or(WireError::Incomplete)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(WireError::Incomplete)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// A column of `count` values of `W` bytes each.
    pub(crate) fn column<const W: usize>(&mut self, count: usize) -> Result<Column<'a, W>, WireError> {
        let bytes = count.checked_mul(W).ok_or(WireError::Incomplete)?;
        self.take(bytes).map(Column)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, WireError> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, WireError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, WireError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn bool(&mut self, what: &'static str) -> Result<bool, WireError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(WireError::Malformed { what }),
        }
    }

    /// Text with one length byte in front.
    pub(crate) fn text(&mut self, what: &'static str) -> Result<&'a str, WireError> {
        let len = self.u8()?;
        text(self.take(usize::from(len))?, what)
    }

    pub(crate) fn address(&mut self) -> Result<Address, WireError> {
        let host = self.text("address")?;
        let port = self.u16()?;
        Address::new(host, port).map_err(|_| WireError::Malformed { what: "address" })
    }

    pub(crate) fn node(&mut self) -> Result<UniqueAddress, WireError> {
        let address = self.address()?;
        Ok(UniqueAddress::new(address, self.u64()?))
    }

    /// Everything that is left.
    pub(crate) const fn rest(self) -> &'a [u8] {
        self.rest
    }

    /// Demands that nothing is left.
    pub(crate) const fn finish(self) -> Result<(), WireError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(WireError::TrailingBytes)
        }
    }
}

/// Values of `W` bytes each, borrowed from the body.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Column<'a, const W: usize>(&'a [u8]);

impl<'a, const W: usize> Column<'a, W> {
    /// The first `count` values, which are then gone from here.
    pub(crate) fn split_front(&mut self, count: usize) -> Result<Self, WireError> {
        let bytes = count.saturating_mul(W);
        let (front, rest) = self.0.split_at_checked(bytes).ok_or(WireError::Incomplete)?;
        self.0 = rest;
        Ok(Self(front))
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The value at this position.
    pub(crate) fn get(self, at: usize) -> Option<[u8; W]> {
        let start = at.checked_mul(W)?;
        self.0.get(start..)?.first_chunk().copied()
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = [u8; W]> + 'a {
        // `chunks_exact` yields W bytes each, so the default is never taken; it costs no branch.
        self.0
            .chunks_exact(W)
            .map(|chunk| <[u8; W]>::try_from(chunk).unwrap_or([0; W]))
    }
}

impl<'a> Column<'a, 2> {
    pub(crate) fn u16s(self) -> impl Iterator<Item = u16> + 'a {
        self.iter().map(u16::from_le_bytes)
    }
}

impl<'a> Column<'a, 4> {
    pub(crate) fn u32s(self) -> impl Iterator<Item = u32> + 'a {
        self.iter().map(u32::from_le_bytes)
    }
}

impl<'a> Column<'a, 8> {
    pub(crate) fn u64s(self) -> impl Iterator<Item = u64> + 'a {
        self.iter().map(u64::from_le_bytes)
    }
}

pub(crate) fn text<'a>(bytes: &'a [u8], what: &'static str) -> Result<&'a str, WireError> {
    str::from_utf8(bytes).map_err(|_| WireError::Malformed { what })
}

/// A length or count as the two bytes it travels in.
pub(crate) fn count_u16(count: usize, what: &'static str) -> Result<u16, WireError> {
    u16::try_from(count).map_err(|_| WireError::LimitExceeded { what })
}

pub(crate) fn put_text(out: &mut Vec<u8>, text: &str, what: &'static str) -> Result<(), WireError> {
    let len = u8::try_from(text.len()).map_err(|_| WireError::Unencodable { what })?;
    out.push(len);
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

pub(crate) fn put_address(out: &mut Vec<u8>, address: &Address) -> Result<(), WireError> {
    put_text(out, address.host(), "address")?;
    out.extend_from_slice(&address.port().to_le_bytes());
    Ok(())
}

/// Bytes that [`put_address`] writes.
pub(crate) fn address_bytes(address: &Address) -> usize {
    1 + address.host().len() + 2
}

/// Bytes that [`put_node`] writes.
pub(crate) fn node_bytes(node: &UniqueAddress) -> usize {
    address_bytes(node.address()) + 8
}

pub(crate) fn put_node(out: &mut Vec<u8>, node: &UniqueAddress) -> Result<(), WireError> {
    put_address(out, node.address())?;
    out.extend_from_slice(&node.uid().to_le_bytes());
    Ok(())
}
