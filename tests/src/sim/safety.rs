//! Whether the run so far is one in which the cluster promises a single owner for everything ("A-SAFE"): clean partitions
//! of a settled cluster, one fault at a time around them, and no live member declared dead. Outside of it overlaps are
//! counted, not asserted. Spec: reliability 2 (A-SAFE), membership 3.9.

/// What holds so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assumptions {
    /// Why the run left the safe shapes, and when (microseconds); `None` while it has not.
    pub broken: Option<(u64, &'static str)>,
    /// A partition has begun and the cluster has not settled since it was healed.
    pub(crate) unsettled_partition: bool,
    /// Overlaps of owners outside the safe shapes: counted, not asserted.
    pub overlaps: u64,
}

impl Assumptions {
    /// Whether single ownership must hold.
    #[must_use]
    pub const fn safe(&self) -> bool {
        self.broken.is_none()
    }

    pub(crate) fn breaks(&mut self, at: u64, why: &'static str) {
        self.broken.get_or_insert((at, why));
    }

    /// A fault that is harmless on its own.
    pub(crate) fn fault(&mut self, at: u64, why: &'static str) {
        if self.unsettled_partition {
            self.breaks(at, why);
        }
    }
}
