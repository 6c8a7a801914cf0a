//! Those who have proved nothing yet, counted by where they come from: who of them has to go when they are
//! too many. The newest going would let idle strangers keep honest nodes out, the oldest would let a fast
//! flood push them out; so it is one at random, of the source that has the most. Decides that and nothing
//! else: who calls it closes and counts. Spec: reliability 3b.

use alloc::vec::Vec;
use core::net::IpAddr;

use quorate_core::ordered::OrderedMap;

/// Where somebody came from: an IPv4 address, or the /64 of an IPv6 address, whose holder has all addresses
/// in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source(IpAddr);

impl Source {
    /// The source of an address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => IpAddr::V4(address),
            IpAddr::V6(address) => {
                let network = u128::from(address) & !u128::from(u64::MAX);
                IpAddr::V6(network.into())
            }
        })
    }
}

impl core::fmt::Display for Source {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.fmt(f)
    }
}

/// Those of one source, and where the source stands among the sources that have as many.
#[derive(Debug, Default)]
struct CrowdBand {
    members: Vec<u64>,
    position: usize,
}

/// See the module. All operations are logarithmic in the number of sources, or linear in those of one source.
#[derive(Debug, Default)]
pub struct Crowd {
    bands: OrderedMap<Source, CrowdBand>,
    /// The sources by how many they have, so that one of the largest is found at once.
    by_size: OrderedMap<usize, Vec<Source>>,
    len: usize,
}

impl Crowd {
    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is nobody.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many there are of a source.
    #[must_use]
    pub fn count(&self, source: Source) -> usize {
        self.bands.get(&source).map_or(0, |band| band.members.len())
    }

    /// Adds one.
    pub fn add(&mut self, id: u64, source: Source) {
        self.resize(source, |members| members.push(id));
        self.len += 1;
    }

    /// Forgets one; says whether it was there.
    pub fn remove(&mut self, id: u64, source: Source) -> bool {
        let found = self
            .bands
            .get(&source)
            .and_then(|band| band.members.iter().position(|member| *member == id));
        let Some(position) = found else {
            return false;
        };
        self.resize(source, |members| {
            members.swap_remove(position);
        });
        self.len -= 1;
        true
    }

    /// One of a source, by a random number.
    #[must_use]
    pub fn one_of(&self, source: Source, random: u64) -> Option<u64> {
        pick(&self.bands.get(&source)?.members, random)
    }

    /// One of the source that has the most, by a random number: half of it for the source, if several have as
    /// many, half for the one.
    #[must_use]
    pub fn one_of_the_most(&self, random: u64) -> Option<u64> {
        let (_, sources) = self.by_size.last_key_value()?;
        self.one_of(pick(sources, random >> 32)?, random & u64::from(u32::MAX))
    }

    /// Changes a band, and moves its source to those that have as many now.
    fn resize(&mut self, source: Source, change: impl FnOnce(&mut Vec<u64>)) {
        let band = self.bands.entry(source).or_default();
        let (before, position) = (band.members.len(), band.position);
        change(&mut band.members);
        let after = band.members.len();
        self.leave(before, position);
        if after == 0 {
            self.bands.remove(&source);
            return;
        }
        let sources = self.by_size.entry(after).or_default();
        let position = sources.len();
        sources.push(source);
        if let Some(band) = self.bands.get_mut(&source) {
            band.position = position;
        }
    }

    /// Takes a source out of those that have so many.
    fn leave(&mut self, size: usize, position: usize) {
        let Some(sources) = self.by_size.get_mut(&size).filter(|_| size > 0) else {
            return;
        };
        sources.swap_remove(position);
        let moved = sources.get(position).copied();
        if sources.is_empty() {
            self.by_size.remove(&size);
        }
        if let Some(band) = moved.and_then(|moved| self.bands.get_mut(&moved)) {
            band.position = position;
        }
    }
}

fn pick<T: Copy>(from: &[T], random: u64) -> Option<T> {
    let len = u64::try_from(from.len()).ok().filter(|len| *len > 0)?;
    from.get(usize::try_from(random % len).ok()?).copied()
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_core::{Rng, SeedableRng};

    use super::*;

    fn source(number: u8) -> Source {
        Source::of(IpAddr::from([10, 0, 0, number]))
    }

    #[test]
    fn an_ipv6_network_and_a_mapped_address_are_one_source() {
        let of = |text: &str| Source::of(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    }

    #[test]
    fn one_of_the_largest_source_goes_and_all_of_equals_have_the_same_chance() {
        let mut crowd = Crowd::default();
        for id in 0..3 {
            crowd.add(id, source(9));
        }
        crowd.add(100, source(200));
        for random in 0..1_000 {
            assert!(crowd.one_of_the_most(random << 32 | random).unwrap() < 3);
        }
        for id in 0..3 {
            assert!(crowd.remove(id, source(9)));
        }
        for number in 0..4 {
            crowd.add(number.into(), source(number));
        }
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut hits = OrderedMap::new();
        for _ in 0..5_000 {
            *hits
                .entry(crowd.one_of_the_most(rng.next_u64()).unwrap())
                .or_insert(0) += 1;
        }
        assert_eq!(hits.len(), 5);
        assert!(
            hits.values().all(|count| (850..1_150).contains(count)),
            "{hits:?}"
        );
    }

    #[test]
    fn what_is_added_is_found_and_what_is_removed_is_not_in_any_order() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let mut crowd = Crowd::default();
        let mut held: Vec<(u64, Source)> = Vec::new();
        for id in 0..20_000 {
            let random = rng.next_u64();
            if random.is_multiple_of(2) || held.is_empty() {
                let from = source(u8::try_from(random % 40).unwrap());
                crowd.add(id, from);
                held.push((id, from));
            } else {
                let at = usize::try_from(random % held.len() as u64).unwrap();
                let (id, from) = held.swap_remove(at);
                assert!(crowd.remove(id, from) && !crowd.remove(id, from));
            }
            assert_eq!(crowd.len(), held.len());
            let most = (0..40).map(|number| crowd.count(source(number))).max().unwrap();
            if let Some(victim) = crowd.one_of_the_most(random) {
                let (_, from) = held.iter().find(|(id, _)| *id == victim).unwrap();
                assert_eq!(crowd.count(*from), most);
            }
        }
    }
}
