//! Kinds whose buffers on this node are full: their callers wait for room instead of having messages refused.
//! The loop notes them, handles ask. Decides nothing. Spec: sharding 10.14 b.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use quorate_core::ordered::OrderedSet;
use quorate_core::sharding::ids::KindId;

use crate::listeners::Buffer;
use crate::sync::lock;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct FullKinds {
    /// How many: nearly always none, and then nobody waits for the lock.
    count: AtomicUsize,
    kinds: Mutex<OrderedSet<KindId>>,
}

impl FullKinds {
    /// Whether a kind's buffer is full from now on.
    pub(crate) fn note(&self, kind: KindId, buffer: Buffer) {
        let mut kinds = lock(&self.kinds);
        match buffer {
            Buffer::Full => kinds.insert(kind),
            Buffer::HasRoom => kinds.remove(&kind),
        };
        self.count.store(kinds.len(), Ordering::Release);
    }

    /// Whether a kind's buffer is.
    #[inline]
    pub(crate) fn has(&self, kind: KindId) -> bool {
        self.count.load(Ordering::Acquire) > 0 && lock(&self.kinds).contains(&kind)
    }
}
