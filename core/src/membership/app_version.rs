//! An application's version as a member announces it: `major[.minor[.patch]][-|+suffix]`, for rolling updates.
//! Spec: membership 1.2, M-456 to M-460.

use alloc::sync::Arc;

/// A version; cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppVersion(Arc<str>);

impl Default for AppVersion {
    fn default() -> Self {
        Self(Arc::from("0.0.0"))
    }
}
