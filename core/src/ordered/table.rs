//! The values of a map: each keeps its place until it is taken.

use alloc::vec::Vec;

/// So few places are never given back: moving values would cost more than they do.
const FEW: usize = 64;

/// One place.
#[derive(Clone)]
enum TableSlot<V> {
    Held(V),
    /// Free, and the free place after it; [`NONE`] behind the last.
    Free(u32),
}

/// No place: there are never as many values, their keys alone would not fit into memory.
const NONE: u32 = u32::MAX;

/// Values by place. A place that was given up is used again, the last one first.
#[derive(Clone)]
pub(super) struct ValueTable<V> {
    places: Vec<TableSlot<V>>,
    /// The first free place.
    free: u32,
    held: u32,
}

impl<V> ValueTable<V> {
    pub(super) const fn new() -> Self {
        Self {
            places: Vec::new(),
            free: NONE,
            held: 0,
        }
    }

    /// Puts a value into a free place and says which.
    pub(super) fn put(&mut self, value: V) -> u32 {
        self.held += 1;
        if let Some(slot) = self.places.get_mut(self.free as usize)
            && let TableSlot::Free(next) = *slot
        {
            *slot = TableSlot::Held(value);
            return core::mem::replace(&mut self.free, next);
        }
        self.places.push(TableSlot::Held(value));
        (self.places.len() - 1) as u32
    }

    pub(super) fn get(&self, place: u32) -> Option<&V> {
        match self.places.get(place as usize)? {
            TableSlot::Held(value) => Some(value),
            TableSlot::Free(_) => None,
        }
    }

    pub(super) fn get_mut(&mut self, place: u32) -> Option<&mut V> {
        self.places.get_mut(place as usize)?.held_mut()
    }

    pub(super) fn take(&mut self, place: u32) -> Option<V> {
        let slot = self.places.get_mut(place as usize)?;
        slot.held_mut()?;
        let taken = core::mem::replace(slot, TableSlot::Free(self.free));
        self.free = place;
        self.held -= 1;
        taken.into_held()
    }

    /// All values, by place; `None` where none is.
    pub(super) fn all_mut(&mut self) -> Vec<Option<&mut V>> {
        self.places.iter_mut().map(TableSlot::held_mut).collect()
    }

    #[cfg(test)]
    pub(super) const fn places(&self) -> usize {
        self.places.len()
    }

    /// Whether three places of four are free, and they are many.
    pub(super) const fn is_sparse(&self) -> bool {
        self.places.len() > FEW && self.places.len() / 4 > self.held as usize
    }

    /// Moves the values to the beginning, in the order in which `places` names them, and gives back the
    /// memory of the rest.
    pub(super) fn compact<'a>(&mut self, places: impl ExactSizeIterator<Item = &'a mut u32>) {
        let mut kept = Vec::with_capacity(places.len());
        for place in places {
            if let Some(slot) = self.places.get_mut(*place as usize) {
                *place = kept.len() as u32;
                kept.push(core::mem::replace(slot, TableSlot::Free(NONE)));
            }
        }
        (self.places, self.free) = (kept, NONE);
    }
}

impl<V> TableSlot<V> {
    const fn held_mut(&mut self) -> Option<&mut V> {
        match self {
            Self::Held(value) => Some(value),
            Self::Free(_) => None,
        }
    }

    fn into_held(self) -> Option<V> {
        match self {
            Self::Held(value) => Some(value),
            Self::Free(_) => None,
        }
    }
}
