//! A message whose sender may be of another version of the program than who handles it: its bytes say which.
//! Decides nothing: the versions are the type's own ([`Versioned`]). Spec: issue's "schema evolution";
//! docs/entities.md.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Visitor};
use serde::ser::{Error as _, Serialize, Serializer};

use super::Versioned;
use super::schema::{from_bytes, to_bytes};

/// A message, an answer or a job in the form of its version, with that version in front: what is read may
/// have been written by an earlier version of the program, and becomes a value of today as
/// [`Versioned::upcast`] says. For the types of a kind in a rolling upgrade, and for messages that are kept:
/// those that [`Persist::deliver`](super::Persist::deliver), [`Persist::remind`](super::Persist::remind),
/// durable producers and durable queues store wait for the next version of the program.
/// [`Golden`](super::Golden) tests that every version that ever was can be read.
///
/// What a *later* version wrote is refused as a message that cannot be read (`Undecodable`, not handled):
/// first roll out who reads a new version, then who writes it. Costs six bytes and a copy when it is written.
///
/// ```
/// use quorate_driver::Kind;
/// use quorate_driver::durable::{AnyVersion, SchemaError, Versioned, read};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Add { item: String, pieces: u32 }
///
/// /// As it was until version 2.
/// #[derive(Deserialize)]
/// struct AddV1 { item: String }
///
/// impl Versioned for Add {
///     const VERSION: u32 = 2;
///
///     fn upcast(version: u32, bytes: &[u8]) -> Result<Self, SchemaError> {
///         match version {
///             1 => read(bytes).map(|AddV1 { item }| Self { item, pieces: 1 }),
///             _ => Err(SchemaError::UnknownVersion { version }),
///         }
///     }
/// }
///
/// let carts = Kind::<AnyVersion<Add>, u32>::new("cart");
/// // carts.entity("ada").ask(&AnyVersion(Add { item: "tea".to_owned(), pieces: 2 })).await
/// # let _ = carts;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AnyVersion<T>(pub T);

impl<T> From<T> for AnyVersion<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

impl<T: Versioned> Serialize for AnyVersion<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = to_bytes(&self.0).ok_or_else(|| S::Error::custom("the value cannot be encoded"))?;
        serializer.serialize_bytes(&bytes)
    }
}

impl<'de, T: Versioned> Deserialize<'de> for AnyVersion<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(OfAnyVersion(PhantomData))
    }
}

struct OfAnyVersion<T>(PhantomData<fn() -> T>);

impl<T: Versioned> Visitor<'_> for OfAnyVersion<T> {
    type Value = AnyVersion<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value behind the number of its version")
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
        from_bytes(bytes).map(AnyVersion).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{SchemaError, read};
    use super::*;
    use crate::codec::{decode, encode};

    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    struct Old(String);
    impl Versioned for Old {}

    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    struct New(String, u32);
    impl Versioned for New {
        const VERSION: u32 = 2;

        fn upcast(version: u32, bytes: &[u8]) -> Result<Self, SchemaError> {
            match version {
                1 => read(bytes).map(|Old(text)| Self(text, 1)),
                _ => Err(SchemaError::UnknownVersion { version }),
            }
        }
    }

    #[test]
    fn what_an_earlier_version_wrote_is_read_and_what_a_later_one_wrote_is_refused() {
        let tea = || "tea".to_owned();
        let old = encode(&AnyVersion(Old(tea()))).unwrap();
        let new = encode(&AnyVersion(New(tea(), 2))).unwrap();
        assert_eq!(decode(&old), Some(AnyVersion(Old(tea()))));
        assert_eq!(decode(&old), Some(AnyVersion(New(tea(), 1))));
        assert_eq!(decode(&new), Some(AnyVersion(New(tea(), 2))));
        assert_eq!(decode::<AnyVersion<Old>>(&new), None);
        // Within something else, and not at its end.
        let both = encode(&(AnyVersion(Old(tea())), 7_u8, AnyVersion(New(tea(), 3)))).unwrap();
        let read = decode::<(AnyVersion<New>, u8, AnyVersion<New>)>(&both);
        assert_eq!(
            read,
            Some((AnyVersion(New(tea(), 1)), 7, AnyVersion(New(tea(), 3))))
        );
        // These bytes are in stores and under way: they never change.
        assert_eq!(*old, [9, 1, 1, 0, 0, 0, 3, b't', b'e', b'a']);
        assert_eq!(*new, [10, 1, 2, 0, 0, 0, 3, b't', b'e', b'a', 2]);
    }

    #[test]
    fn bytes_that_are_no_value_of_any_version_are_refused() {
        let good = encode(&AnyVersion(New("tea".to_owned(), 2))).unwrap();
        for length in 0..good.len() {
            assert_eq!(decode::<AnyVersion<New>>(&good[..length]), None, "{length}");
        }
        for at in [1, 2, 5] {
            let mut bad = good.to_vec();
            bad[at] = 99;
            assert_eq!(decode::<AnyVersion<New>>(&bad), None, "{at}");
        }
    }
}
