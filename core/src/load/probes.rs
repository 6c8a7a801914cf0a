//! Questions along a random chord: whom this node has asked, and for whom it asks its neighbours. Bounded by
//! the contacts of a round, and by the members that may ask at once. Spec: sharding 5.5.

use alloc::vec::Vec;

use crate::ident::UniqueAddress;
use crate::load::protocol::{ChordReply, SAMPLES_MAX};
use crate::load::state::sample::LoadSample;
use crate::ordered::{OrderedMap, OrderedSet};

/// Most members whose questions this node asks its neighbours about at once.
pub(super) const COLLECTIONS_MAX: u8 = 32;

/// Questions without an answer yet, of this node and of those it asks for.
#[derive(Clone, Debug, Default)]
pub(super) struct Probes {
    /// The number of the last question.
    last: u32,
    open: OrderedMap<u32, OpenProbe>,
    collections: OrderedMap<UniqueAddress, Collection>,
}

/// A question without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpenProbe {
    /// Who was asked.
    pub(super) of: UniqueAddress,
    /// For how many neighbours on either side.
    pub(super) radius: usize,
    /// For whom; `None` for this node itself.
    pub(super) asker: Option<UniqueAddress>,
}

/// The answer for a member, and the place that its question had.
pub(super) struct CollectedLoad {
    pub(super) place: u8,
    pub(super) reply: ChordReply,
}

/// What a member asked, as far as it is known.
#[derive(Clone, Debug)]
struct Collection {
    /// Its own among all: its timer's name.
    place: u8,
    id: u32,
    samples: Vec<(UniqueAddress, LoadSample)>,
    missing: OrderedSet<u32>,
}

impl Probes {
    /// Notes a question, and gives its number.
    pub(super) fn ask(&mut self, probe: OpenProbe) -> u32 {
        // From 1 on again after the last one: by then nobody answers the first ones any more.
        self.last = self.last.checked_add(1).unwrap_or(1);
        if let Some(collection) = probe
            .asker
            .as_ref()
            .and_then(|asker| self.collections.get_mut(asker))
        {
            collection.missing.insert(self.last);
        }
        self.open.insert(self.last, probe);
        self.last
    }

    /// Whether a question with this number was ever asked.
    pub(super) const fn has_asked(&self, id: u32) -> bool {
        id != 0 && id <= self.last
    }

    /// Takes the question that this member answers; `None` if it is not open any more.
    pub(super) fn answered(&mut self, from: &UniqueAddress, id: u32) -> Option<OpenProbe> {
        if self.open.get(&id).is_none_or(|probe| probe.of != *from) {
            return None;
        }
        self.open.remove(&id)
    }

    /// Begins to collect what a member asked for, and gives its place; `None` if there is no room, or if it
    /// is being collected for that member already.
    pub(super) fn begin(
        &mut self,
        asker: &UniqueAddress,
        id: u32,
        own: Vec<(UniqueAddress, LoadSample)>,
    ) -> Option<u8> {
        if self.collections.contains_key(asker) {
            return None;
        }
        let is_free = |place: &u8| self.collections.values().all(|other| other.place != *place);
        let place = (0..COLLECTIONS_MAX).find(is_free)?;
        let collection = Collection {
            place,
            id,
            samples: own,
            missing: OrderedSet::new(),
        };
        self.collections.insert(asker.clone(), collection);
        Some(place)
    }

    /// For whom is collected in this place.
    pub(super) fn asker_at(&self, place: u8) -> Option<&UniqueAddress> {
        let mut collections = self.collections.iter();
        collections.find_map(|(asker, collection)| (collection.place == place).then_some(asker))
    }

    /// Takes what a neighbour said of itself; gives the answer for the asker once nobody is missing.
    pub(super) fn add(
        &mut self,
        asker: &UniqueAddress,
        id: u32,
        sample: Option<(UniqueAddress, LoadSample)>,
    ) -> Option<CollectedLoad> {
        let collection = self.collections.get_mut(asker)?;
        collection.missing.remove(&id);
        let room = SAMPLES_MAX.saturating_sub(collection.samples.len());
        collection.samples.extend(sample.into_iter().take(room));
        if collection.missing.is_empty() {
            self.finish(asker)
        } else {
            None
        }
    }

    /// Waits for nobody else for this asker; gives the answer with what there is.
    pub(super) fn finish(&mut self, asker: &UniqueAddress) -> Option<CollectedLoad> {
        let collection = self.collections.remove(asker)?;
        for id in &collection.missing {
            self.open.remove(id);
        }
        let reply = ChordReply {
            id: collection.id,
            samples: collection.samples,
            parts: Vec::new(),
        };
        let place = collection.place;
        Some(CollectedLoad { place, reply })
    }

    /// Waits no longer for answers to this node's own questions; says how many were missing.
    pub(super) fn give_up(&mut self) -> u64 {
        let before = self.open.len();
        self.open.retain(|_, probe| probe.asker.is_some());
        u64::try_from(before - self.open.len()).unwrap_or(u64::MAX)
    }

    /// Forgets what concerns nodes that are no members any more; gives the places of askers who are gone.
    pub(super) fn retain(&mut self, is_member: impl Fn(&UniqueAddress) -> bool) -> Vec<u8> {
        let gone: Vec<UniqueAddress> = self
            .collections
            .iter()
            .map(|(asker, _)| asker)
            .filter(|asker| !is_member(asker))
            .cloned()
            .collect();
        let finished = gone.iter().filter_map(|asker| self.finish(asker));
        finished.map(|finished| finished.place).collect()
    }

    /// What must hold between inputs.
    pub(super) fn check_invariants(&self) -> Result<(), &'static str> {
        let places: OrderedSet<u8> = self.collections.values().map(|of| of.place).collect();
        if places.len() < self.collections.len() || places.last().is_some_and(|last| *last >= COLLECTIONS_MAX)
        {
            return Err("more is collected than there is room for");
        }
        for (id, probe) in &self.open {
            let Some(asker) = &probe.asker else { continue };
            let waits = self.collections.get(asker);
            if !waits.is_some_and(|collection| collection.missing.contains(id)) {
                return Err("a neighbour was asked for nobody");
            }
        }
        let missing = self.collections.values().flat_map(|of| of.missing.iter());
        for id in missing {
            if !self.open.contains_key(id) {
                return Err("a neighbour is missing that was not asked");
            }
        }
        Ok(())
    }
}
