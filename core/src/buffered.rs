//! What a machine holds for others because it cannot pass it on yet. A value: who reads it decides what is
//! too much. Spec: sharding 1.3, reliability I-45.

use core::iter::Sum;
use core::ops::Add;

/// Messages that wait, and the bytes of their payloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferedLoad {
    /// How many.
    pub messages: usize,
    /// Their bytes, as the limit on them counts.
    pub bytes: usize,
}

impl BufferedLoad {
    /// Of a machine that keeps no messages.
    pub(crate) const NOTHING: Self = Self {
        messages: 0,
        bytes: 0,
    };

    /// Whether less than three quarters of either bound are taken: who was refused may come again.
    pub(crate) const fn leaves_room(self, messages_max: usize, bytes_max: usize) -> bool {
        self.messages < messages_max - messages_max / 4 && self.bytes < bytes_max - bytes_max / 4
    }
}

/// A machine, asked what it holds of messages to entities and singletons.
pub(crate) trait BufferingMachine {
    /// What waits in it.
    fn buffered(&self) -> BufferedLoad;
}

impl Add for BufferedLoad {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            messages: self.messages.saturating_add(other.messages),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

impl Sum for BufferedLoad {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::NOTHING, Add::add)
    }
}
