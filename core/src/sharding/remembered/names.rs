//! The names that a log amounts to, no more than one snapshot of them holds. Pure. Spec: sharding 1.5.

use crate::ddata::crdt::Element;
use crate::journal::protocol::SNAPSHOT_BYTES_MAX;
use crate::ordered::OrderedSet;

/// Bytes of a record or snapshot around its names.
const AROUND_BYTES: usize = 6;

/// Bytes of a name beside itself.
pub(super) const NAME_BYTES: usize = 2;

/// Bytes of all names of one log: with them a snapshot is as large as one may be.
const BYTES_MAX: usize = SNAPSHOT_BYTES_MAX - AROUND_BYTES;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RememberedNames {
    all: OrderedSet<Element>,
    bytes: usize,
}

impl RememberedNames {
    /// Whether there is room for this one.
    pub(super) fn insert(&mut self, name: Element) -> bool {
        let bytes = self.bytes + NAME_BYTES + name.len();
        if self.all.contains(&name) {
            return true;
        }
        if bytes > BYTES_MAX {
            return false;
        }
        self.bytes = bytes;
        self.all.insert(name)
    }

    pub(super) fn remove(&mut self, name: &[u8]) {
        if self.all.remove(name) {
            self.bytes -= NAME_BYTES + name.len();
        }
    }

    /// Whether these fit too.
    pub(super) fn has_room_for(&self, more: &[Element]) -> bool {
        let more = more.iter().filter(|name| !self.all.contains(*name));
        let more: usize = more.map(|name| NAME_BYTES + name.len()).sum();
        self.bytes + more <= BYTES_MAX
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Element> {
        self.all.iter()
    }

    /// All of them. Linear; their bytes are shared.
    pub(super) fn all(&self) -> OrderedSet<Element> {
        self.all.clone()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn as_many_names_as_a_snapshot_holds() {
        let mut names = RememberedNames::default();
        let long = |number: usize| -> Element {
            let mut bytes = alloc::vec![b'x'; 60_000];
            bytes.extend_from_slice(&number.to_be_bytes());
            bytes.into()
        };
        let most = BYTES_MAX / 60_010;
        assert!((0..most).all(|number| names.insert(long(number))));
        assert!(names.insert(long(0)), "it is there");
        assert!(!names.insert(long(most)));
        assert!(!names.has_room_for(&[long(most)]) && names.has_room_for(&[long(3)]));
        assert!(super::super::record::whole(&names).unwrap().len() <= SNAPSHOT_BYTES_MAX);
        names.remove(&long(7));
        names.remove(&long(7));
        assert!(names.insert(long(most)));
        let rest: Vec<_> = names.all().into_iter().collect();
        assert_eq!(rest.len(), names.all.len());
        rest.iter().for_each(|name| names.remove(name));
        assert_eq!(names, RememberedNames::default());
    }
}
