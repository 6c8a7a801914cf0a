//! A page of the keys of a range, at the node where it was asked for: which keys have a value by what owners
//! say. A key of which owners do not hold the same is read as a get reads it. Spec: sharding 5.6, 10.19 f.

use alloc::vec::Vec;

use crate::ddata::state::key::Key;
use crate::journal::state::StoreId;
use crate::kv::state::configuration::{Configuration, OwnersTally};
use crate::kv::state::level::{Level, LevelError};
use crate::kv::state::listed::{KeyPage, ListedKey, ListedPart};
use crate::kv::state::table::RangeLevels;
use crate::ordered::OrderedMap;

/// Keys of a page that are read at most: it ends before the next one.
pub const READ_MAX: usize = 64;

/// A page, before the keys are read of which owners did not say the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DraftPage {
    /// What it has.
    pub page: KeyPage,
    /// Keys of it that are to be read: they have a value, or not.
    pub unsure: Vec<Key>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Listing {
    levels: RangeLevels,
    /// How many owners have to be heard.
    need: usize,
    is_guaranteed: bool,
    tally: OwnersTally,
    heard: Vec<ListedPart>,
}

impl Listing {
    /// Nobody has been heard.
    ///
    /// # Errors
    /// The level is none of the bucket's.
    pub fn begin(
        levels: RangeLevels,
        configuration: Configuration,
        level: Level,
    ) -> Result<Self, LevelError> {
        let need = level.of(levels.copies())?;
        let is_guaranteed = need >= levels.reads();
        Ok(Self {
            levels,
            // What a get has found is on W owners before it is given.
            need: if is_guaranteed {
                need.max(levels.writes())
            } else {
                need
            },
            is_guaranteed,
            tally: OwnersTally::new(configuration),
            heard: Vec::new(),
        })
    }

    /// The configuration under which it asks.
    #[must_use]
    pub const fn configuration(&self) -> &Configuration {
        self.tally.configuration()
    }

    /// Owners that have not answered.
    pub fn missing(&self) -> impl Iterator<Item = StoreId> {
        self.tally.missing()
    }

    /// How many owners have been heard.
    #[must_use]
    pub fn answered(&self) -> usize {
        self.tally.answered()
    }

    /// The range has other owners: all are asked anew. Whether it has.
    pub fn on_configuration(&mut self, configuration: &Configuration) -> bool {
        let is_newer = self.tally.renew(configuration.clone());
        if is_newer {
            self.heard.clear();
        }
        is_newer
    }

    /// An owner says what it holds; the page, if enough have. Linear in what they said.
    pub fn on_part(
        &mut self,
        (from, epoch): (StoreId, u64),
        part: ListedPart,
        keys_max: usize,
    ) -> Option<DraftPage> {
        if !self.tally.count(from, epoch) {
            return None;
        }
        self.heard.push(part);
        self.tally.meets(self.need).then(|| self.draft(keys_max))
    }

    fn draft(&self, keys_max: usize) -> DraftPage {
        // Behind the last key of a part that is not the last one its owner may hold others.
        let ends = self.heard.iter().filter(|part| !part.is_last);
        let end = ends.filter_map(|part| Some(&part.keys.last()?.key)).min();
        let mut said: OrderedMap<&Key, Vec<&ListedKey>> = OrderedMap::new();
        for listed in self.heard.iter().flat_map(|part| &part.keys) {
            if end.is_none_or(|end| listed.key <= *end) {
                said.entry(&listed.key).or_default().push(listed);
            }
        }
        let mut draft = DraftPage::default();
        let mut last = None;
        for (key, said) in said.iter() {
            let is_alive = said.iter().any(|listed| listed.is_alive);
            let is_sure = self.is_sure(said);
            let is_full = draft.page.keys.len() >= keys_max || draft.unsure.len() >= READ_MAX;
            if is_alive && is_full {
                draft.page.next = last;
                return draft;
            }
            if is_alive {
                draft.page.keys.push((*key).clone());
            }
            if is_alive && !is_sure {
                draft.unsure.push((*key).clone());
            }
            last = Some((*key).clone());
        }
        draft.page.next = end.cloned();
        draft
    }

    /// Whether nothing else is found by reading the key: all owners heard hold the same, and so many that no
    /// later get finds less.
    fn is_sure(&self, said: &[&ListedKey]) -> bool {
        let is_decided = said.iter().any(|listed| listed.is_decided);
        let digest = said.first().map(|listed| listed.digest);
        let are_alike = said.len() == self.heard.len()
            && said.iter().all(|listed| Some(listed.digest) == digest)
            && (!is_decided || self.tally.meets(self.levels.decisive()));
        are_alike || !self.is_guaranteed
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::kv::state::configuration::Owners;

    fn key(name: &str) -> Key {
        Key::new(name).unwrap()
    }

    fn configuration(epoch: u64) -> Configuration {
        let owners = Owners::Stable([1, 2, 3].map(StoreId).to_vec());
        Configuration { epoch, owners }
    }

    fn listing(level: Level) -> Listing {
        let levels = RangeLevels::new(3, 2, 2).unwrap();
        Listing::begin(levels, configuration(5), level).unwrap()
    }

    /// `a1` is a key `a` with a value and digest 1, `a-` one without.
    fn part(keys: &str, is_last: bool) -> ListedPart {
        let listed = |said: &str| ListedKey {
            key: key(&said[..1]),
            digest: u64::from(said.as_bytes()[1]),
            is_alive: !said.contains('-'),
            is_decided: said.contains('!'),
        };
        let keys = keys.split_whitespace().map(listed).collect();
        ListedPart { keys, is_last }
    }

    fn drafted(level: Level, parts: &[ListedPart], keys_max: usize) -> (Vec<Key>, Vec<Key>, Option<Key>) {
        let mut listing = listing(level);
        let mut draft = None;
        for (store, part) in (1..).zip(parts) {
            assert_eq!(draft, None, "it has enough already");
            draft = listing.on_part((StoreId(store), 5), part.clone(), keys_max);
        }
        let DraftPage { page, unsure } = draft.unwrap();
        (page.keys, unsure, page.next)
    }

    fn keys(names: &str) -> Vec<Key> {
        names.split_whitespace().map(key).collect()
    }

    #[test]
    fn keys_are_listed_that_owners_hold_alike_and_the_others_are_read() {
        let one = part("a1 b1 c- d1 e- f1!", true);
        let other = part("a1 b2 c- e2 f1!", true);
        let (all, unsure, next) = drafted(Level::Quorum, &[one.clone(), other], 9);
        assert_eq!((all, next), (keys("a b d e f"), None));
        assert_eq!(unsure, keys("b d e"), "another value, nothing, none any more");
        // Below the least level nothing is read.
        let (all, unsure, _) = drafted(Level::One, &[one], 9);
        assert_eq!((all, unsure), (keys("a b d f"), vec![]));
    }

    #[test]
    fn behind_the_end_of_a_part_nothing_is_said() {
        let (all, unsure, next) = drafted(
            Level::Quorum,
            &[part("a1 b1", false), part("a1 b1 c1 d1", true)],
            9,
        );
        assert_eq!((all, unsure, next), (keys("a b"), vec![], Some(key("b"))));
        let (all, _, next) = drafted(Level::Quorum, &[part("a- b-", false), part("a-", true)], 9);
        assert_eq!((all, next), (vec![], Some(key("b"))), "and it goes on");
    }

    #[test]
    fn a_page_ends_when_it_is_full_and_where_too_much_would_be_read() {
        let whole = part("a1 b- c1 d1", true);
        let (all, _, next) = drafted(Level::Quorum, &[whole.clone(), whole.clone()], 2);
        assert_eq!((all, next), (keys("a c"), Some(key("c"))));
        let (all, _, next) = drafted(Level::Quorum, &[whole.clone(), whole], 3);
        assert_eq!((all, next), (keys("a c d"), None));
        let many = |digest| ListedPart {
            keys: (0..200_u32)
                .map(|number| ListedKey {
                    key: key(&alloc::format!("k{number:03}")),
                    digest,
                    is_alive: true,
                    is_decided: false,
                })
                .collect(),
            is_last: true,
        };
        let (all, unsure, next) = drafted(Level::Quorum, &[many(1), many(2)], 1_000);
        assert_eq!(
            (all.len(), unsure.len(), next),
            (READ_MAX, READ_MAX, Some(key("k063")))
        );
    }

    #[test]
    fn answers_count_once_and_in_the_present_configuration_only() {
        let mut listing = listing(Level::Quorum);
        let nothing = || part("", true);
        assert_eq!(listing.on_part((StoreId(1), 5), nothing(), 9), None);
        assert_eq!(listing.on_part((StoreId(1), 5), nothing(), 9), None, "twice");
        assert_eq!(
            listing.on_part((StoreId(2), 4), nothing(), 9),
            None,
            "an older epoch"
        );
        assert!(!listing.on_configuration(&configuration(5)));
        assert!(listing.on_configuration(&configuration(6)));
        assert_eq!((listing.answered(), listing.missing().count()), (0, 3));
        assert_eq!(listing.on_part((StoreId(2), 6), part("a1", true), 9), None);
        let draft = listing.on_part((StoreId(3), 6), part("a1", true), 9);
        assert_eq!(draft.unwrap().page.keys, keys("a"));
    }

    #[test]
    fn a_decided_key_is_sure_on_as_many_owners_as_decide() {
        let levels = RangeLevels::new(3, 1, 1).unwrap();
        let mut listing = Listing::begin(levels, configuration(5), Level::One).unwrap();
        let draft = listing.on_part((StoreId(1), 5), part("a1 b1!", true), 9).unwrap();
        assert_eq!(draft.unsure, keys("b"));
        let too_many = Listing::begin(levels, configuration(5), Level::Replicas(4));
        assert!(too_many.is_err());
    }
}
