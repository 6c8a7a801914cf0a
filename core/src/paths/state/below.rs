//! For what below a path a message is: in front of the user's bytes of every message that a host sends to an
//! instance, one byte with the length and then the name, of a length of 0 for the path itself. The core
//! passes it on as it is: it is an agreement of hosts. Spec: sharding 10.17.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::name::{PATH_BYTES_MAX, PathName, PathNameError, check_path, hash};
use super::table::{PathEntry, PathTable};

/// What is wrong with a message to an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BelowError {
    /// It ends before the name does, or has nothing at all.
    #[error("the message to the path ends too early")]
    TooShort,
    /// The name is longer than a path may be.
    #[error("the part below the path is longer than {PATH_BYTES_MAX} bytes")]
    TooLong,
    /// The name is none.
    #[error(transparent)]
    Name(#[from] PathNameError),
}

/// The path that messages to this name go to, and the part below it if that is the top of a subtree: the path
/// of this name, or the one above it. There is at most one, because no path is above another.
#[must_use]
pub fn find<'t, 'n>(
    table: &'t PathTable,
    name: &'n PathName,
) -> Option<(&'t Arc<PathEntry>, Option<&'n str>)> {
    if let Some(entry) = table.get(name).filter(|entry| entry.settings().is_some()) {
        return Some((entry, None));
    }
    let entries = table.entries();
    name.as_str().match_indices('/').find_map(|(end, _)| {
        let (above, below) = (name.as_str().get(..end)?, name.as_str().get(end + 1..)?);
        let at = entries.binary_search_by(|entry| entry.name.as_str().cmp(above));
        let entry = entries.get(at.ok()?)?;
        let is_top = entry.settings().is_some_and(|settings| settings.subtree);
        is_top.then_some((entry, Some(below)))
    })
}

/// The number of a key, the same on every node: keys of one number go to one instance.
#[must_use]
pub fn key_hash(key: &[u8]) -> u64 {
    hash(key)
}

/// What goes in front of the user's bytes: `None` for the path itself.
///
/// # Errors
/// [`BelowError::Name`] for a name that no path can have.
pub fn put(below: Option<&str>) -> Result<Vec<u8>, BelowError> {
    let name = below.unwrap_or_default();
    if below.is_some() {
        check_path(name)?;
    }
    let length = u8::try_from(name.len()).map_err(|_| BelowError::TooLong)?;
    let mut bytes = Vec::with_capacity(1 + name.len());
    bytes.push(length);
    bytes.extend_from_slice(name.as_bytes());
    Ok(bytes)
}

/// The part below the path, and the user's bytes.
///
/// # Errors
/// [`BelowError`] for bytes that [`put`] has not made.
pub fn take(message: &[u8]) -> Result<(Option<&str>, &[u8]), BelowError> {
    let (&length, rest) = message.split_first().ok_or(BelowError::TooShort)?;
    let length = usize::from(length);
    if length == 0 {
        return Ok((None, rest));
    }
    if length > PATH_BYTES_MAX {
        return Err(BelowError::TooLong);
    }
    let (name, rest) = rest.split_at_checked(length).ok_or(BelowError::TooShort)?;
    let name = core::str::from_utf8(name).map_err(|_| PathNameError::BadSegment)?;
    check_path(name)?;
    Ok((Some(name), rest))
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::ident::{Address, UniqueAddress};
    use crate::paths::state::settings::PathSettings;
    use crate::paths::state::table::{PathEpoch, PathRecord};

    #[test]
    fn what_is_put_in_front_is_taken_off_again() {
        for below in [None, Some("x"), Some("x/y"), Some(&*"a".repeat(PATH_BYTES_MAX))] {
            let mut message = put(below).unwrap();
            message.extend_from_slice(b"user");
            assert_eq!(take(&message), Ok((below, &b"user"[..])));
        }
        assert_eq!(put(Some("")), Err(BelowError::Name(PathNameError::BadSegment)));
        let long = "a".repeat(PATH_BYTES_MAX + 1);
        assert_eq!(put(Some(&long)), Err(BelowError::Name(PathNameError::TooLong)));
    }

    #[test]
    fn s_308_a_name_below_a_subtree_is_found_and_one_below_another_path_is_not() {
        let name = |name: &str| PathName::new(name).unwrap();
        let entry = |path: &str, subtree| {
            let settings = PathSettings {
                subtree,
                ..PathSettings::new(name(path))
            };
            let host = UniqueAddress::new(Address::new("a", 1).unwrap(), 1);
            Arc::new(PathEntry {
                name: name(path),
                record: PathRecord {
                    epoch: PathEpoch {
                        counter: 1,
                        leader: host.clone(),
                    },
                    settings: Some(Arc::new(settings)),
                    scale: 0,
                    hosts: vec![Some(host)],
                },
                moves: vec![None],
            })
        };
        let entries = vec![
            entry("plain", false),
            entry("top", true),
            entry("two/parts", true),
        ];
        let table = PathTable::new(1, None, entries).unwrap();
        for (asked, found) in [
            ("top", Some(("top", None))),
            ("top/x/y", Some(("top", Some("x/y")))),
            ("two/parts/x", Some(("two/parts", Some("x")))),
            ("two", None),
            ("topmost/x", None),
            ("plain/x", None),
        ] {
            let asked = name(asked);
            let is = find(&table, &asked).map(|(entry, below)| (entry.name.as_str(), below));
            assert_eq!(is, found, "{asked}");
        }
    }

    #[test]
    fn bytes_that_nobody_has_put_there_are_refused() {
        assert_eq!(take(&[]), Err(BelowError::TooShort));
        assert_eq!(take(&[2, b'x']), Err(BelowError::TooShort));
        assert_eq!(take(&[129; 200]), Err(BelowError::TooLong));
        for bad in [&b"\x03a//"[..], &[1, 0xff]] {
            assert_eq!(take(bad), Err(BelowError::Name(PathNameError::BadSegment)));
        }
    }
}
