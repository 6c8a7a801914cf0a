//! What a get gives, and what users hand back with the next put: contexts and versions. Values only. Spec:
//! sharding 5.6, 10.19 c, d.

use quorate_core::kv::state::clock::VersionClock;
use serde::de::DeserializeOwned;

use super::bucket::Merge;
use super::errors::KvGetError;
use super::version::KvVersion;
use crate::codec;

/// What a key holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvFound<V> {
    /// Its values: none, one, or siblings, of which none was put by somebody who had seen another one. A
    /// bucket with a merge function gives at most one.
    pub values: Vec<V>,
    /// What a put needs that overwrites all of them.
    pub context: KvContext,
    /// Of a key that is written by conditional puts: its present version, also when that is a deletion.
    pub version: Option<KvVersion>,
}

impl<V> KvFound<V> {
    /// The value, of a bucket with a merge function. Of several siblings it gives one: where there can be
    /// some, look at `values`.
    #[must_use]
    pub fn into_value(self) -> Option<V> {
        self.values.into_iter().next()
    }
}

impl<V: DeserializeOwned> KvFound<V> {
    /// Reads values, and merges them if the bucket has a function for that.
    pub(super) fn read<'b>(
        values: impl Iterator<Item = &'b [u8]>,
        merge: Option<&Merge<V>>,
    ) -> Result<Vec<V>, KvGetError> {
        let mut all = Vec::new();
        for bytes in values {
            let value = codec::decode(bytes).ok_or(KvGetError::Decode)?;
            match (merge, all.pop()) {
                (Some(merge), Some(before)) => all.push(merge(before, value)),
                (None, Some(before)) => all.extend([before, value]),
                (_, None) => all.push(value),
            }
        }
        Ok(all)
    }
}

/// What somebody has seen of a key: whoever puts with it overwrites exactly that. The default has seen
/// nothing, so that a put with it overwrites nothing and adds a sibling.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KvContext(pub(super) VersionClock);

/// Bytes that are no context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are no context of the keyed store")]
pub struct BadContext;

impl KvContext {
    /// Its bytes, for a caller elsewhere who is to hand them back: 48 for each store that has written the
    /// key, and two.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        // A get gives none that names more than can be written.
        self.0.encode().unwrap_or_default()
    }

    /// From [`Self::to_bytes`]'s bytes.
    ///
    /// # Errors
    /// [`BadContext`] if they are none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BadContext> {
        let clock = VersionClock::decode(bytes);
        clock.map(Self).map_err(|_| BadContext)
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::kv::state::call::CallId;

    use super::*;

    fn bytes_of(values: &[u32]) -> Vec<Vec<u8>> {
        let encode = |value: &u32| codec::encode(value).unwrap().to_vec();
        values.iter().map(encode).collect()
    }

    fn read(values: &[u32], merge: Option<&Merge<u32>>) -> Result<Vec<u32>, KvGetError> {
        let bytes = bytes_of(values);
        KvFound::read(bytes.iter().map(|bytes| &bytes[..]), merge)
    }

    #[test]
    fn siblings_are_all_given_or_merged_into_one() {
        let sum: Merge<u32> = std::sync::Arc::new(|one, other| one + other);
        for (values, merged) in [(&[][..], &[][..]), (&[7], &[7]), (&[1, 2, 700], &[703])] {
            assert_eq!(read(values, None).unwrap(), values);
            assert_eq!(read(values, Some(&sum)).unwrap(), merged);
        }
        let no_number = [&[0xff_u8][..]];
        let refused = KvFound::<u32>::read(no_number.into_iter(), None);
        assert_eq!(refused, Err(KvGetError::Decode));
    }

    #[test]
    fn contexts_and_versions_come_back_from_their_bytes() {
        let context = KvContext::default();
        assert_eq!(KvContext::from_bytes(&context.to_bytes()), Ok(context));
        assert_eq!(KvContext::from_bytes(&[1, 0, 7]), Err(BadContext));
        let version = KvVersion(CallId {
            origin: u64::MAX - 1,
            number: 0x0102_0304_0506_0708,
        });
        assert_eq!(KvVersion::from_bytes(version.to_bytes()), version);
    }
}
