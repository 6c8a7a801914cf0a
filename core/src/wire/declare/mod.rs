//! How a message is declared: each of its fields once, in order and with its form. The encoder, the decoder,
//! the bounds of its lists and its row in `docs/WIRE.md` follow from that; a test compares the rows. Decides
//! nothing else. Spec: `docs/WIRE.md` 1, 4.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

mod forms;
mod macros;

#[cfg(test)]
use alloc::format;
#[cfg(test)]
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

use super::deflate::Packer;
use crate::bytes::{BodyReader, WireError};
use crate::config::Limits;
use crate::ddata::crdt::CustomTypes;

pub(in crate::wire) use forms::{ANY, Bare, Boxed, List, Maybe, Rises, Rising, Text};
pub(in crate::wire) use macros::{by_hand, choice, codes, messages, number_as, record, text_as};

/// Where values are written to: the bytes so far, and what bounds and packs them.
#[derive(Debug)]
pub(super) struct FieldSink<'a> {
    pub(super) bytes: &'a mut Vec<u8>,
    pub(super) limits: &'a Limits,
    pub(super) packer: &'a mut Packer,
}

impl Deref for FieldSink<'_> {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        self.bytes
    }
}

impl DerefMut for FieldSink<'_> {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        self.bytes
    }
}

/// Where values are read from: what is left, and what bounds them and knows the user's types.
#[derive(Debug)]
pub(super) struct FieldSource<'a> {
    pub(super) rest: BodyReader<'a>,
    pub(super) limits: &'a Limits,
    pub(super) types: &'a CustomTypes,
}

impl<'a> Deref for FieldSource<'a> {
    type Target = BodyReader<'a>;

    fn deref(&self) -> &BodyReader<'a> {
        &self.rest
    }
}

impl DerefMut for FieldSource<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.rest
    }
}

/// What can be said of a form without a value.
pub(super) trait Shape {
    /// The fewest bytes of a value: what is counted has to be there before anything is allocated for it.
    const BYTES_MIN: usize;

    /// A field of this form, as `docs/WIRE.md` has it; without a name, as one of many.
    #[cfg(test)]
    fn text(field: &str) -> String;
}

/// How values of `T` are written. A type that is written in one way only is its own form.
pub(super) trait Form<T>: Shape {
    /// Writes a value; `what` names it in errors.
    fn put(value: &T, what: &'static str, out: &mut FieldSink<'_>) -> Result<(), WireError>;

    /// Reads a value.
    fn read(reader: &mut FieldSource<'_>, what: &'static str) -> Result<T, WireError>;
}

/// What is written for itself and not into a frame: for a store.
pub(super) fn written(
    put: impl FnOnce(&mut FieldSink<'_>) -> Result<(), WireError>,
) -> Result<Vec<u8>, WireError> {
    let (mut bytes, limits, mut packer) = (Vec::new(), Limits::default(), Packer::default());
    put(&mut FieldSink {
        bytes: &mut bytes,
        limits: &limits,
        packer: &mut packer,
    })?;
    Ok(bytes)
}

/// What [`written`] wrote: all of it.
pub(super) fn read_whole<T>(
    bytes: &[u8],
    types: &CustomTypes,
    read: impl FnOnce(&mut FieldSource<'_>) -> Result<T, WireError>,
) -> Result<T, WireError> {
    let reader = &mut FieldSource {
        rest: BodyReader::new(bytes),
        limits: &Limits::default(),
        types,
    };
    let value = read(reader)?;
    reader.finish()?;
    Ok(value)
}

/// A field under the name of its type.
#[cfg(test)]
pub(super) fn named(of: &str, field: &str) -> String {
    if field.is_empty() || field == of {
        format!("`{of}`")
    } else {
        format!("`{of} {}`", field.replace('_', " "))
    }
}

/// A field of one byte, and what its values mean.
#[cfg(test)]
pub(super) fn code_list(field: &str, codes: &[(u8, &str)]) -> String {
    let codes: Vec<String> = codes
        .iter()
        .map(|(code, name)| format!("{code} {name}"))
        .collect();
    format!("{}: {}", named("u8", field), codes.join(", "))
}

/// Points of a list of `docs/WIRE.md`, and words for those who make up bytes: each variant's number before as
/// many zeros as it has bytes at least.
#[cfg(test)]
pub(super) trait Rows {
    fn rows() -> Vec<String>;

    fn tokens() -> Vec<Vec<u8>> {
        Vec::new()
    }
}

/// One point of a list: number, name, fields.
#[cfg(test)]
pub(super) fn row(tag: u8, name: &str, fields: &[String]) -> String {
    let fields = fields.join(", ");
    let between = if fields.is_empty() { "" } else { ": " };
    format!("* {tag} {name}{between}{fields}.")
}

/// The row of a message, up to its body.
#[cfg(test)]
pub(super) fn message_row(tag: crate::lane::MessageTag, name: &str) -> String {
    let (kind, lane) = (tag.kind, tag.lane);
    match kind {
        ..0x0100 => format!("| {kind} | {name} | {lane:?} | "),
        0x0100.. => format!("| {kind:#06x} | {name}, *unstable* | {lane:?} | "),
    }
}
