//! A list that mostly holds one item and then allocates nothing: nearly every element of a set has one dot.
//! Spec: sharding 1.13.

use alloc::vec::Vec;
use core::slice;

/// One item, or any other number of them.
#[derive(Clone, Debug)]
pub(crate) enum Few<T> {
    /// The usual case.
    One(T),
    /// None, or several.
    Many(Vec<T>),
}

impl<T> Few<T> {
    /// No item.
    pub(crate) const fn none() -> Self {
        Self::Many(Vec::new())
    }

    pub(crate) fn as_slice(&self) -> &[T] {
        match self {
            Self::One(item) => slice::from_ref(item),
            Self::Many(items) => items,
        }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        match self {
            Self::One(item) => slice::from_mut(item),
            Self::Many(items) => items,
        }
    }

    pub(crate) fn iter(&self) -> slice::Iter<'_, T> {
        self.as_slice().iter()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.as_slice().len()
    }

    pub(crate) fn push(&mut self, item: T) {
        *self = match core::mem::replace(self, Self::none()) {
            Self::One(first) => Self::Many(Vec::from([first, item])),
            Self::Many(items) if items.is_empty() => Self::One(item),
            Self::Many(mut items) => {
                items.push(item);
                Self::Many(items)
            }
        };
    }

    /// Keeps what `keep` accepts; whether anything went.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) -> bool {
        let before = self.len();
        match self {
            Self::One(item) => {
                if !keep(item) {
                    *self = Self::none();
                }
            }
            Self::Many(items) => {
                items.retain(keep);
                if items.len() == 1
                    && let Some(last) = items.pop()
                {
                    *self = Self::One(last);
                }
            }
        }
        self.len() != before
    }
}
