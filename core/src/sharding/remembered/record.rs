//! How remembered names are written down in a log: the bytes of its records and snapshots. They are on disks, so a version only ever
//! grows; numbers are little-endian. Spec: sharding 1.5 (event sourced stores).
//!
//! `version (1) | what (1) | names (4) | each: length (2), bytes`. What is 0 for all names there are (a snapshot), 1 for names that were
//! added (EntitiesStarted), 2 for names that were removed (EntitiesStopped). Names ascend; none is empty.
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic
    )
)]

use alloc::sync::Arc;

use super::names::{NAME_BYTES, Names};
use crate::bytes::{Reader, WireError};
use crate::ddata::crdt::Element;
use crate::store::Bytes;

const VERSION: u8 = 1;
const WHOLE: u8 = 0;
const ADDED: u8 = 1;
const REMOVED: u8 = 2;

/// All names.
pub(super) fn whole(names: &Names) -> Result<Bytes, WireError> {
    encode(WHOLE, names.iter(), names.len())
}

/// Names that were added, ascending.
pub(super) fn added(names: &[Element]) -> Result<Bytes, WireError> {
    encode(ADDED, names.iter(), names.len())
}

/// Names that were removed, ascending.
pub(super) fn removed(names: &[Element]) -> Result<Bytes, WireError> {
    encode(REMOVED, names.iter(), names.len())
}

fn encode<'a>(what: u8, names: impl Iterator<Item = &'a Element>, count: usize) -> Result<Bytes, WireError> {
    let too_many = WireError::LimitExceeded { what: "names" };
    let count = u32::try_from(count).map_err(|_| too_many)?;
    let mut out = alloc::vec![VERSION, what];
    out.extend_from_slice(&count.to_le_bytes());
    for name in names {
        let bytes = u16::try_from(name.len()).ok().filter(|bytes| *bytes > 0);
        let bytes = bytes.ok_or(WireError::Unencodable { what: "name" })?;
        out.extend_from_slice(&bytes.to_le_bytes());
        out.extend_from_slice(name);
    }
    Ok(Bytes::from(out))
}

/// Applies what was written down to what is known so far.
///
/// # Errors
/// It was not written here, or there are more names than one log may have; `names` may hold a part of it.
pub(super) fn apply(bytes: &[u8], names: &mut Names) -> Result<(), WireError> {
    let mut reader = Reader::new(bytes);
    if reader.u8()? != VERSION {
        return Err(WireError::Malformed { what: "version" });
    }
    let what = reader.u8()?;
    match what {
        WHOLE => *names = Names::default(),
        ADDED | REMOVED => {}
        _ => return Err(WireError::Malformed { what: "what" }),
    }
    let count = usize::try_from(reader.u32()?).unwrap_or(usize::MAX);
    if count > reader.rest().len() / (NAME_BYTES + 1) {
        return Err(WireError::LimitExceeded { what: "names" });
    }
    let mut before: &[u8] = &[];
    for _ in 0..count {
        let len = usize::from(reader.u16()?);
        let name = reader.take(len)?;
        // The first is above nothing, so none is empty.
        if name <= before {
            return Err(WireError::Malformed { what: "names" });
        }
        before = name;
        if what == REMOVED {
            names.remove(name);
        } else if !names.insert(Arc::from(name)) {
            return Err(WireError::LimitExceeded { what: "names" });
        }
    }
    reader.finish()
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn names(texts: &[&str]) -> Names {
        let mut names = Names::default();
        assert!(texts.iter().all(|text| names.insert(text.as_bytes().into())));
        names
    }

    fn elements(texts: &[&str]) -> Vec<Element> {
        texts.iter().map(|text| text.as_bytes().into()).collect()
    }

    #[test]
    fn what_is_written_is_read_and_the_bytes_never_change() {
        let mut read = names(&["gone"]);
        apply(&whole(&names(&["a", "b/%\0"])).unwrap(), &mut read).unwrap();
        assert_eq!(read, names(&["a", "b/%\0"]));
        apply(&added(&elements(&["c", "d"])).unwrap(), &mut read).unwrap();
        apply(&removed(&elements(&["a", "d", "unknown"])).unwrap(), &mut read).unwrap();
        assert_eq!(read, names(&["b/%\0", "c"]));
        let bytes = added(&elements(&["ab", "c"])).unwrap();
        assert_eq!(&bytes[..], b"\x01\x01\x02\0\0\0\x02\0ab\x01\0c");
        assert_eq!(&whole(&Names::default()).unwrap()[..], b"\x01\0\0\0\0\0");
        assert_eq!(
            &removed(&elements(&["x"])).unwrap()[..],
            b"\x01\x02\x01\0\0\0\x01\0x"
        );
    }

    #[test]
    fn what_nobody_wrote_is_refused_at_every_byte() {
        let good = added(&elements(&["ab", "c"])).unwrap();
        for cut in 0..good.len() {
            assert!(
                apply(&good[..cut], &mut Names::default()).is_err(),
                "cut at {cut}"
            );
        }
        let bad: [&[u8]; 7] = [
            b"\x02\x01\0\0\0\0",
            b"\x01\x03\0\0\0\0",
            b"\x01\x01\0\0\0\0more",
            b"\x01\x01\xff\xff\xff\xff\x01\0a",
            b"\x01\x01\x01\0\0\0\0\0",
            b"\x01\x01\x02\0\0\0\x01\0b\x01\0a",
            b"\x01\x01\x02\0\0\0\x01\0b\x01\0b",
        ];
        for bytes in bad {
            assert!(apply(bytes, &mut Names::default()).is_err(), "{bytes:?}");
        }
        assert!(added(&elements(&[""])).is_err());
    }
}
