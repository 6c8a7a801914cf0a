//! How events and states become bytes, with the version in front that says how to read them later. These
//! bytes are on disks: the form only ever grows. Spec: issue's "schema evolution"; docs/durable.md.

use quorate_core::store::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::codec;

/// The first byte: the form of what follows. Version (4 bytes, little-endian), then postcard. The forms of
/// what the library keeps itself are `note`'s.
const FORM: u8 = 1;

/// What stands in front of the value.
pub(crate) const HEADER_BYTES: usize = 5;

/// An event or a state that is kept, or a message ([`AnyVersion`](super::AnyVersion)), and the versions of it
/// that there ever were.
///
/// Postcard writes fields by position and variants by number, so a kept type may grow **variants at its end**
/// and change in no other way. For every other change: copy the type as it was under another name, raise
/// [`Versioned::VERSION`], and say in [`Versioned::upcast`] how the old one becomes the new one.
/// [`Golden`](super::Golden) tests that every version that ever was can still be read.
///
/// ```
/// use quorate_driver::durable::{SchemaError, Versioned, read};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// enum Event {
///     Added { number: u64, by: String },
/// }
///
/// /// As it was until version 2.
/// #[derive(Deserialize)]
/// enum EventV1 {
///     Added(u64),
/// }
///
/// impl Versioned for Event {
///     const VERSION: u32 = 2;
///
///     fn upcast(version: u32, bytes: &[u8]) -> Result<Self, SchemaError> {
///         match version {
///             1 => read(bytes).map(|EventV1::Added(number)| Self::Added { number, by: String::new() }),
///             _ => Err(SchemaError::UnknownVersion { version }),
///         }
///     }
/// }
/// ```
pub trait Versioned: Serialize + DeserializeOwned + Send + 'static {
    /// The version that is written (default 1). Raise it by one with each change that [`Versioned`] does not
    /// allow in place.
    const VERSION: u32 = 1;

    /// Reads what an earlier version wrote. By default none can be read.
    ///
    /// # Errors
    /// [`SchemaError::UnknownVersion`] or what [`read`] says: the entity is not recovered, and says so.
    fn upcast(version: u32, bytes: &[u8]) -> Result<Self, SchemaError> {
        let _ = bytes;
        Err(SchemaError::UnknownVersion { version })
    }
}

/// Why kept bytes cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// No upcaster knows this version.
    #[error("version {version} has no upcaster")]
    UnknownVersion {
        /// The version.
        version: u32,
    },
    /// It was written by a later version of the program.
    #[error("version {version} is newer than {known}, the newest that this program knows")]
    LaterVersion {
        /// The version.
        version: u32,
        /// [`Versioned::VERSION`].
        known: u32,
    },
    /// The bytes are not exactly one value of the type.
    #[error("the bytes are not a value of this type")]
    Malformed,
    /// The bytes begin with none of the forms that this library has written.
    #[error("the bytes do not begin with a version")]
    UnknownForm,
}

/// Reads a value of a type as it was: for upcasters.
///
/// # Errors
/// [`SchemaError::Malformed`].
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, SchemaError> {
    codec::decode(bytes).ok_or(SchemaError::Malformed)
}

/// The bytes of a value, or nothing if its `Serialize` fails.
pub(super) fn to_bytes<T: Versioned>(value: &T) -> Option<Bytes> {
    let [a, b, c, d] = T::VERSION.to_le_bytes();
    codec::encode_after(&[FORM, a, b, c, d], value).map(Bytes::from)
}

/// A value of any version.
pub(super) fn from_bytes<T: Versioned>(bytes: &[u8]) -> Result<T, SchemaError> {
    let Some(([FORM, version @ ..], value)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Err(SchemaError::UnknownForm);
    };
    let (version, known) = (u32::from_le_bytes(*version), T::VERSION);
    if version == known {
        read(value)
    } else if version > known {
        Err(SchemaError::LaterVersion { version, known })
    } else {
        T::upcast(version, value)
    }
}
