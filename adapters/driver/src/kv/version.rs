//! The names of values that conditional puts write. Values only. Spec: sharding 10.7.

use quorate_core::kv::state::call::CallId;

/// The name of a value that a conditional put has written. No other put of the cluster has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KvVersion(pub(super) CallId);

impl KvVersion {
    /// Its bytes, for a caller elsewhere.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        let number = u128::from(self.0.origin) << 64 | u128::from(self.0.number);
        number.to_be_bytes()
    }

    /// From [`Self::to_bytes`]'s bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        let word = |half: &[u8]| half.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let [origin, number] = [word(&bytes[..8]), word(&bytes[8..])];
        Self(CallId { origin, number })
    }
}
