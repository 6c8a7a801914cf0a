//! A part of what an owner holds of a range: the next keys in their order, as many as fit. Spec: sharding
//! 10.19 b.

use alloc::vec::Vec;

use crate::store::Bytes;
use crate::token::Token;

/// Keys of a part at most.
pub const ITEMS_MAX: usize = 1_024;

/// How much there may be in a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartLimits {
    /// Keys.
    pub items_max: usize,
    /// Bytes of keys and contents. One item that is longer goes alone.
    pub bytes_max: usize,
    /// Bytes of one item.
    pub item_bytes_max: usize,
}

/// What an owner holds of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeItem {
    /// The key.
    pub key: Bytes,
    /// All that is held of it, tombstones too. Empty: nothing but the promise.
    pub content: Bytes,
    /// The highest token that was promised for it: it travels with the key, so that the newcomer refuses
    /// what the owner refused.
    pub promised: Token,
}

impl RangeItem {
    /// Bytes of its key and content.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.key.len().saturating_add(self.content.len())
    }
}

/// A part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangePart {
    /// Keys ascending, each once.
    pub items: Vec<RangeItem>,
    /// Whether nothing is behind it.
    pub is_last: bool,
}

/// Why a part is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PartError {
    /// A key is not above the one before it, or above what was asked for.
    #[error("the keys of a part of a range are not in order")]
    Order,
    /// It has more keys or bytes than it may have.
    #[error("a part of a range is too large")]
    TooLarge,
    /// It has no key, and is not the last one: nobody would come to an end.
    #[error("a part of a range is empty and not the last one")]
    Empty,
}

impl RangePart {
    /// Bytes of its keys and contents. Linear in its items.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.items
            .iter()
            .map(RangeItem::bytes)
            .fold(0, usize::saturating_add)
    }

    /// As many of the items as fit, which come in the order of their keys and begin behind the key that was
    /// asked for. Reads one item more than it takes.
    pub fn cut(items: impl IntoIterator<Item = RangeItem>, limits: PartLimits) -> Self {
        let mut taken = Vec::new();
        let mut bytes = 0_usize;
        for item in items {
            bytes = bytes.saturating_add(item.bytes());
            let fits = bytes <= limits.bytes_max && taken.len() < limits.items_max;
            if !fits && !taken.is_empty() {
                return Self {
                    items: taken,
                    is_last: false,
                };
            }
            taken.push(item);
        }
        Self {
            items: taken,
            is_last: true,
        }
    }

    /// Whether an honest owner may have sent it, asked for what is behind `after`.
    ///
    /// # Errors
    /// [`PartError`] says why not.
    pub fn check(&self, after: Option<&[u8]>, limits: PartLimits) -> Result<(), PartError> {
        if self.items.is_empty() && !self.is_last {
            return Err(PartError::Empty);
        }
        let is_long = |item: &RangeItem| item.bytes() > limits.item_bytes_max;
        let is_large = self.items.len() > 1 && self.bytes() > limits.bytes_max;
        if self.items.len() > limits.items_max.max(1) || is_large || self.items.iter().any(is_long) {
            return Err(PartError::TooLarge);
        }
        let mut last = after;
        for item in &self.items {
            if last.is_some_and(|last| *last >= *item.key) {
                return Err(PartError::Order);
            }
            last = Some(&item.key);
        }
        Ok(())
    }
}
