//! Lists that are too long for one frame. Types only. Spec: sharding 2.1.

/// Which part of a list this is. Parts are sent one after the other, on a lane that keeps order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListPart {
    /// Tells the lists of one sender apart: a later one has a higher number. 0 for a list that is whole.
    pub list: u64,
    /// The part's place, from 0.
    pub index: u16,
    /// How many parts the list has; 1 if it is whole.
    pub count: u16,
}

impl ListPart {
    /// All of a list.
    pub const WHOLE: Self = Self {
        list: 0,
        index: 0,
        count: 1,
    };

    /// Whether this is all of a list.
    #[must_use]
    pub const fn is_whole(self) -> bool {
        self.count == 1
    }

    /// Whether nothing of the list follows.
    #[must_use]
    pub const fn is_last(self) -> bool {
        self.index + 1 == self.count
    }

    /// Whether a list can have such a part: one that is not whole has a number, and its parts are counted.
    #[must_use]
    pub const fn is_legal(self) -> bool {
        match self.count {
            0 => false,
            1 => self.list == 0 && self.index == 0,
            _ => self.list != 0 && self.index < self.count,
        }
    }
}
