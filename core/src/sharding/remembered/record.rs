//! Remembered names as they are written down: what becomes a record or a snapshot of their log, and back. The
//! bytes are `wire`'s business. Spec: sharding 1.5 (event sourced stores).

use alloc::vec::Vec;

use super::names::RememberedNames;
use crate::bytes::WireError;
use crate::ddata::crdt::Element;
use crate::sharding::state::kept::{NamesChange, NamesRecord};
use crate::store::Bytes;
use crate::wire::StoredForm;

/// All names.
pub(super) fn whole(names: &RememberedNames) -> Result<Bytes, WireError> {
    encode(NamesChange::Whole, names.iter().cloned().collect())
}

/// Names that were added, ascending.
pub(super) fn added(names: &[Element]) -> Result<Bytes, WireError> {
    encode(NamesChange::Added, names.to_vec())
}

/// Names that were removed, ascending.
pub(super) fn removed(names: &[Element]) -> Result<Bytes, WireError> {
    encode(NamesChange::Removed, names.to_vec())
}

fn encode(what: NamesChange, names: Vec<Element>) -> Result<Bytes, WireError> {
    NamesRecord { what, names }.to_bytes()
}

/// Applies what was written down to what is known so far.
///
/// # Errors
/// It was not written here, or there are more names than one log may have; `names` may hold a part of it.
pub(super) fn apply(bytes: &[u8], names: &mut RememberedNames) -> Result<(), WireError> {
    let record = NamesRecord::from_bytes(bytes)?;
    match record.what {
        NamesChange::Whole => *names = RememberedNames::default(),
        NamesChange::Added => {}
        NamesChange::Removed => {
            record.names.iter().for_each(|name| names.remove(name));
            return Ok(());
        }
    }
    match record.names.into_iter().all(|name| names.insert(name)) {
        true => Ok(()),
        false => Err(WireError::LimitExceeded { what: "names" }),
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn names(texts: &[&str]) -> RememberedNames {
        let mut names = RememberedNames::default();
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
        assert_eq!(
            &whole(&RememberedNames::default()).unwrap()[..],
            b"\x01\0\0\0\0\0"
        );
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
                apply(&good[..cut], &mut RememberedNames::default()).is_err(),
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
            assert!(
                apply(bytes, &mut RememberedNames::default()).is_err(),
                "{bytes:?}"
            );
        }
        assert!(added(&elements(&[""])).is_err());
    }
}
