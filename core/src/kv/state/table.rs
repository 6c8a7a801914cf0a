//! The table of a bucket: who owns which range, and by which levels moves of it count. Values only. Spec:
//! sharding 10.19 a and b.

use alloc::vec::Vec;

use super::configuration::{Configuration, OWNERS_MAX, Owners, OwnersError};
use crate::journal::state::{NUMBER_MAX, StoreId};
use crate::ordered::{OrderedMap, OrderedSet};

/// The most ranges of a bucket: its whole table stays below the bytes of a gossip frame.
pub const RANGES_MAX: u16 = 4_096;

/// The highest epoch of a range: what claims to be above it is nonsense, and would leave none for anybody
/// else.
pub const EPOCH_MAX: u64 = NUMBER_MAX;

/// A range of a bucket, by its place on the ring of hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RangeId(pub u16);

/// How many copies there are, and the least levels that promise anything: what moves count by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeLevels {
    copies: u8,
    reads: u8,
    writes: u8,
}

/// Why levels are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RangeLevelsError {
    /// No copy, or too many.
    #[error("a bucket has 1 to {OWNERS_MAX} copies, not {found}")]
    Copies {
        /// How many.
        found: u8,
    },
    /// A level of none, or of more copies than there are.
    #[error("a level of {found} of {copies} copies")]
    Level {
        /// The level.
        found: u8,
        /// Of how many.
        copies: u8,
    },
}

impl RangeLevels {
    /// So many copies, of which each read and each write meets at least so many.
    ///
    /// # Errors
    /// [`RangeLevelsError`] if there cannot be as many.
    pub fn new(copies: u8, reads: u8, writes: u8) -> Result<Self, RangeLevelsError> {
        if copies == 0 || usize::from(copies) > OWNERS_MAX {
            return Err(RangeLevelsError::Copies { found: copies });
        }
        if let Some(found) = [reads, writes]
            .into_iter()
            .find(|level| *level == 0 || *level > copies)
        {
            return Err(RangeLevelsError::Level { found, copies });
        }
        Ok(Self {
            copies,
            reads,
            writes,
        })
    }

    /// Copies of each value: N.
    #[must_use]
    pub const fn copies(self) -> usize {
        self.copies as usize
    }

    /// The least level of a read: R.
    #[must_use]
    pub const fn reads(self) -> usize {
        self.reads as usize
    }

    /// The least level of a write: W.
    #[must_use]
    pub const fn writes(self) -> usize {
        self.writes as usize
    }

    /// How many owners have at least one copy of every acknowledged write among them: N − W + 1.
    #[must_use]
    pub const fn merges(self) -> usize {
        self.copies() - self.writes() + 1
    }

    /// How many owners leave too few for any read or write if they refuse it: N − min(W, R) + 1.
    #[must_use]
    pub const fn refusals(self) -> usize {
        let (reads, writes) = (self.reads(), self.writes());
        let least = if reads < writes { reads } else { writes };
        self.copies() - least + 1
    }

    pub(super) const fn to_bytes(self) -> [u8; 3] {
        [self.copies, self.reads, self.writes]
    }
}

/// A range: its owners, and by what moves of it count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeEntry {
    /// Who owns it.
    pub configuration: Configuration,
    /// The levels that requests of this configuration have at least.
    pub levels: RangeLevels,
}

impl RangeEntry {
    /// Whether a range can have this entry.
    ///
    /// # Errors
    /// [`OwnersError`] if its owners are none, or not as many as there are copies.
    pub fn check(&self) -> Result<(), OwnersError> {
        let owners = &self.configuration.owners;
        owners.check()?;
        let found = owners.sets().0.len();
        if found == self.levels.copies() {
            Ok(())
        } else {
            Err(OwnersError::Count { found })
        }
    }
}

/// What is decided about the ranges of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeTable {
    entries: OrderedMap<RangeId, RangeEntry>,
    lost: OrderedSet<StoreId>,
}

impl RangeTable {
    /// No range has owners.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            entries: OrderedMap::new(),
            lost: OrderedSet::new(),
        }
    }

    /// The entry of a range; `None` as long as it was never given to anybody.
    #[must_use]
    pub fn get(&self, range: RangeId) -> Option<&RangeEntry> {
        self.entries.get(&range)
    }

    /// All ranges that have owners.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (RangeId, &RangeEntry)> {
        self.entries.iter().map(|(range, entry)| (*range, entry))
    }

    /// Stores that an operator has given up and that a range still names: they hold nothing any more.
    pub fn lost(&self) -> impl ExactSizeIterator<Item = StoreId> {
        self.lost.iter().copied()
    }

    /// Whether an operator has given the store up.
    #[must_use]
    pub fn is_lost(&self, store: StoreId) -> bool {
        self.lost.contains(&store)
    }

    /// Whether a range names the store: until none does, it does not go.
    #[must_use]
    pub fn names(&self, store: StoreId) -> bool {
        let mut entries = self.entries.values();
        entries.any(|entry| entry.configuration.owners.contains(store))
    }

    /// Stores that a range names, each once.
    #[must_use]
    pub fn stores(&self) -> OrderedSet<StoreId> {
        let entries = self.entries.values();
        entries
            .flat_map(|entry| entry.configuration.owners.all())
            .collect()
    }

    /// Replaces what was decided about some ranges, and who is lost; stores that no range names any more are
    /// forgotten among the lost ones.
    pub fn apply(&mut self, change: TableChange) {
        self.entries.extend(change.entries);
        self.lost = change.lost;
        if !self.lost.is_empty() {
            let named = self.stores();
            self.lost.retain(|store| named.contains(store));
        }
    }

    /// All of it, as one change of nothing.
    #[must_use]
    pub fn whole(&self) -> TableChange {
        TableChange {
            entries: self
                .entries()
                .map(|(range, entry)| (range, entry.clone()))
                .collect(),
            lost: self.lost.clone(),
        }
    }
}

/// What is decided at once: kept as one record, and applied when it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableChange {
    /// New entries, by range ascending, each once.
    pub entries: Vec<(RangeId, RangeEntry)>,
    /// Every store that is lost.
    pub lost: OrderedSet<StoreId>,
}

/// Owners with one replaced: who comes takes the place of who goes. `None` if the one is no owner or the
/// other is.
#[must_use]
pub fn replaced(owners: &[StoreId], goes: StoreId, comes: StoreId) -> Option<Owners> {
    let at = owners.iter().position(|store| *store == goes)?;
    if owners.contains(&comes) {
        return None;
    }
    let (from, mut to) = (owners.to_vec(), owners.to_vec());
    *to.get_mut(at)? = comes;
    Some(Owners::Joint { from, to })
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::bytes::WireError;

    #[test]
    fn levels_say_how_many_merge_and_refuse() {
        for ((copies, reads, writes), (merges, refusals)) in [
            ((3, 2, 2), (2, 2)),
            ((3, 1, 3), (1, 3)),
            ((3, 3, 1), (3, 3)),
            ((3, 3, 3), (1, 1)),
            ((1, 1, 1), (1, 1)),
            ((5, 2, 4), (2, 4)),
        ] {
            let levels = RangeLevels::new(copies, reads, writes).unwrap();
            assert_eq!((levels.merges(), levels.refusals()), (merges, refusals));
        }
        let level = |found, copies| Err(RangeLevelsError::Level { found, copies });
        assert_eq!(RangeLevels::new(3, 0, 2), level(0, 3));
        assert_eq!(RangeLevels::new(3, 2, 4), level(4, 3));
        for found in [0, OWNERS_MAX as u8 + 1] {
            assert_eq!(
                RangeLevels::new(found, 1, 1),
                Err(RangeLevelsError::Copies { found })
            );
        }
    }

    #[test]
    fn who_comes_takes_the_place_of_who_goes() {
        let owners = [1, 2, 3].map(StoreId);
        let joint = replaced(&owners, StoreId(2), StoreId(4)).unwrap();
        assert_eq!(joint.sets().1, Some(&[1, 4, 3].map(StoreId)[..]));
        assert_eq!(joint.check(), Ok(()));
        assert_eq!(replaced(&owners, StoreId(4), StoreId(5)), None);
        assert_eq!(replaced(&owners, StoreId(1), StoreId(3)), None);
    }

    fn change() -> TableChange {
        let levels = RangeLevels::new(3, 2, 2).unwrap();
        let of = |range, epoch, owners| {
            let configuration = Configuration { epoch, owners };
            let entry = RangeEntry {
                configuration,
                levels,
            };
            (RangeId(range), entry)
        };
        let owners = [9, 2, 5].map(StoreId);
        let joint = replaced(&owners, StoreId(2), StoreId(4)).unwrap();
        TableChange {
            entries: vec![of(0, 1, Owners::Stable(owners.to_vec())), of(255, 8, joint)],
            lost: [StoreId(2)].into(),
        }
    }

    #[test]
    fn the_bytes_are_these_for_ever() {
        let id = |id: u128| id.to_le_bytes();
        let expected = [
            &[4, 0][..],
            &[id(2), id(4), id(5), id(9)].concat(),
            &[1, 0, 0, 0, 2, 0],
            &[0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 3, 2, 2, 3, 0, 0, 0, 2, 0, 255],
            &[255, 0, 8, 0, 0, 0, 0, 0, 0, 0, 3, 2, 2, 3, 0, 0, 0, 2, 0, 1, 1, 0],
        ];
        assert_eq!(change().to_bytes().unwrap(), expected.concat());
    }

    #[test]
    fn a_change_is_read_as_it_was_written() {
        for change in [change(), TableChange::default()] {
            assert_eq!(TableChange::from_bytes(&change.to_bytes().unwrap()), Ok(change));
        }
    }

    #[test]
    fn every_cut_and_every_wrong_byte_is_noticed_or_still_a_table() {
        let bytes = change().to_bytes().unwrap();
        for end in 0..bytes.len() {
            assert!(TableChange::from_bytes(&bytes[..end]).is_err(), "cut at {end}");
        }
        for at in 0..bytes.len() {
            for wrong in [0, 1, 2, 0x7f, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] = wrong;
                if let Ok(read) = TableChange::from_bytes(&bytes) {
                    assert!(read.to_bytes().is_ok(), "byte {at} is {wrong}");
                }
            }
        }
    }

    #[test]
    fn what_no_range_can_have_is_not_written() {
        let mut wrong = change();
        wrong.entries.reverse();
        assert!(wrong.to_bytes().is_err(), "out of order");
        let mut wrong = change();
        wrong.entries[0].1.configuration.owners = Owners::Stable(vec![StoreId(1)]);
        assert!(wrong.to_bytes().is_err(), "fewer owners than copies");
        let mut wrong = change();
        wrong.entries[1].1.configuration.owners = Owners::Joint {
            from: [1, 2, 3].map(StoreId).to_vec(),
            to: [2, 3, 4].map(StoreId).to_vec(),
        };
        assert!(wrong.to_bytes().is_err(), "another order of owners");
        let mut far = change();
        far.entries[0].1.configuration.epoch = EPOCH_MAX + 1;
        let bytes = far.to_bytes().unwrap();
        let epoch = WireError::Malformed { what: "epoch" };
        assert_eq!(TableChange::from_bytes(&bytes), Err(epoch));
    }
}
