//! Optional fields that a later version may add before a message or after a handshake: tagged, sized, skipped
//! by whoever does not know the tag. Never interprets one. Spec: `docs/WIRE.md` 6.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use crate::bytes::BodyReader;
use crate::bytes::WireError;

/// Skips the block at the start of a body: its length, then its fields. What follows is the message.
pub(super) fn skip(body: &[u8]) -> Result<&[u8], WireError> {
    let mut reader = BodyReader::new(body);
    let len = reader.u16()?;
    check(reader.take(usize::from(len))?)?;
    if reader.rest().is_empty() {
        return Err(WireError::Malformed { what: "empty frame" });
    }
    Ok(reader.rest())
}

/// Checks fields of the form tag, length, bytes; tags must rise, so that no field is there twice.
pub(super) fn check(fields: &[u8]) -> Result<(), WireError> {
    let mut reader = BodyReader::new(fields);
    let mut last = None;
    while !reader.rest().is_empty() {
        let tag = reader.u16()?;
        if last.is_some_and(|last| last >= tag) {
            return Err(WireError::NonCanonical { what: "extension" });
        }
        last = Some(tag);
        let len = reader.u16()?;
        reader.take(usize::from(len))?;
    }
    Ok(())
}
