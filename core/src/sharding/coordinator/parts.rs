//! Registrations that come in parts, because one frame cannot hold all shards of a region. A registration
//! counts when its last part has come, and then as one that was whole; a region whose parts are lost
//! registers again. Pure. Spec: sharding 1.3 (registration), 2.1.

use super::RegionRegistration;
use crate::ident::UniqueAddress;
use crate::ordered::OrderedMap;
use crate::sharding::protocol::ListPart;

/// Shards in all unfinished registrations together, as a multiple of the kind's: each shard runs in one
/// region, or, in a conflict, in two.
const HELD_MAX: usize = 2;

/// What becomes of a part.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PartOutcome {
    /// Nothing is missing any more.
    Whole(RegionRegistration),
    /// Others are to follow.
    Waits,
    /// It is of no use.
    Dropped,
}

#[derive(Clone, Debug)]
struct PartialRegistration {
    number: u64,
    count: u16,
    next: u16,
    said: RegionRegistration,
}

/// Registrations of which a part is missing, at most one per node.
#[derive(Clone, Debug, Default)]
pub(super) struct PartialRegistrations {
    lists: OrderedMap<UniqueAddress, PartialRegistration>,
}

impl PartialRegistrations {
    /// A part has come; a kind has so many `shards`. The lane keeps order, so what is not the next part comes
    /// again or has lost the one before it. Linear in the nodes whose registration is unfinished.
    pub(super) fn take(
        &mut self,
        from: &UniqueAddress,
        part: ListPart,
        said: RegionRegistration,
        shards: usize,
    ) -> PartOutcome {
        if part.is_whole() {
            self.lists.remove(from);
            return PartOutcome::Whole(said);
        }
        if said.hosted.len() > shards || !part.is_legal() {
            self.lists.remove(from);
            return PartOutcome::Dropped;
        }
        if part.index == 0 {
            let (number, count) = (part.list, part.count);
            let list = PartialRegistration {
                number,
                count,
                next: 1,
                said,
            };
            self.lists.insert(from.clone(), list);
            self.make_room(shards);
            return PartOutcome::Waits;
        }
        let Some(list) = self.lists.get_mut(from) else {
            return PartOutcome::Dropped;
        };
        let is_late = part.list < list.number || (part.list == list.number && part.index < list.next);
        if is_late {
            return PartOutcome::Dropped;
        }
        if !list.goes_on_with(part, &said) || list.said.hosted.len() + said.hosted.len() > shards {
            self.lists.remove(from);
            return PartOutcome::Dropped;
        }
        list.said.hosted.extend(said.hosted);
        list.next += 1;
        if list.next < list.count {
            self.make_room(shards);
            return PartOutcome::Waits;
        }
        self.lists
            .remove(from)
            .map_or(PartOutcome::Dropped, |list| PartOutcome::Whole(list.said))
    }

    /// Forgets those of other nodes.
    pub(super) fn retain(&mut self, keep: impl Fn(&UniqueAddress) -> bool) {
        self.lists.retain(|node, _| keep(node));
    }

    /// Too much is held: the longest goes, whose node says more than it can host or will register again.
    fn make_room(&mut self, shards: usize) {
        while self.held() > HELD_MAX * shards {
            let longest = self.lists.iter().max_by_key(|(_, list)| list.said.hosted.len());
            let Some(node) = longest.map(|(node, _)| node.clone()) else {
                return;
            };
            self.lists.remove(&node);
        }
    }

    fn held(&self) -> usize {
        self.lists.values().map(|list| list.said.hosted.len()).sum()
    }
}

impl PartialRegistration {
    /// Whether this is the next part, and says the same of the region.
    fn goes_on_with(&self, part: ListPart, said: &RegionRegistration) -> bool {
        let is_next = (part.list, part.count, part.index) == (self.number, self.count, self.next);
        is_next && said.fields == self.said.fields && said.draining == self.said.draining
    }
}

#[cfg(test)]
mod tests {
    use crate::ordered::OrderedSet;
    use alloc::vec;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::fixture::node;
    use crate::sharding::protocol::KindSettings;
    use crate::sharding::state::fields::KindFields;
    use crate::sharding::state::ids::ShardId;

    const SHARDS: u32 = 100;

    fn said(hosted: impl IntoIterator<Item = u32>) -> RegionRegistration {
        RegionRegistration {
            fields: KindFields::of(&KindSettings::new("files", SHARDS, true)),
            hosted: hosted.into_iter().map(ShardId).collect(),
            draining: false,
        }
    }

    /// A registration of shards `10 * list..`, in three parts of two.
    fn parts(list: u64) -> Vec<(ListPart, RegionRegistration)> {
        let first = u32::try_from(list).unwrap() * 10;
        let part = |index: u16| {
            let at = first + u32::from(index) * 2;
            (
                ListPart {
                    list,
                    index,
                    count: 3,
                },
                said(at..at + 2),
            )
        };
        (0..3).map(part).collect()
    }

    fn hear(
        unfinished: &mut PartialRegistrations,
        parts: &[(ListPart, RegionRegistration)],
    ) -> Vec<PartOutcome> {
        let a = node("a", 1);
        let taken = parts
            .iter()
            .map(|(part, said)| unfinished.take(&a, *part, said.clone(), SHARDS as usize));
        taken.collect()
    }

    #[test]
    fn the_last_part_makes_it_whole() {
        let mut unfinished = PartialRegistrations::default();
        let taken = hear(&mut unfinished, &parts(1));
        assert_eq!(
            taken,
            [
                PartOutcome::Waits,
                PartOutcome::Waits,
                PartOutcome::Whole(said(10..16))
            ]
        );
        assert!(unfinished.lists.is_empty());
        let whole = [(ListPart::WHOLE, said(3..5))];
        assert_eq!(hear(&mut unfinished, &whole), [PartOutcome::Whole(said(3..5))]);
    }

    #[test]
    fn a_lost_part_leaves_nothing_and_the_next_registration_is_heard() {
        let mut unfinished = PartialRegistrations::default();
        let [first, _, last] = <[_; 3]>::try_from(parts(1)).unwrap();
        assert_eq!(
            hear(&mut unfinished, &[first, last]),
            [PartOutcome::Waits, PartOutcome::Dropped]
        );
        let last = hear(&mut unfinished, &parts(2)).pop();
        assert_eq!(last, Some(PartOutcome::Whole(said(20..26))));
    }

    #[test]
    fn a_doubled_part_counts_once() {
        let mut unfinished = PartialRegistrations::default();
        let twice: Vec<_> = parts(1)
            .into_iter()
            .flat_map(|part| [part.clone(), part])
            .collect();
        let taken = hear(&mut unfinished, &twice);
        let (w, d) = (|| PartOutcome::Waits, || PartOutcome::Dropped);
        assert_eq!(taken, [w(), w(), w(), d(), PartOutcome::Whole(said(10..16)), d()]);
    }

    #[test]
    fn a_newer_registration_takes_the_place_of_an_unfinished_one() {
        let mut unfinished = PartialRegistrations::default();
        let (old, new) = (parts(1), parts(2));
        let mixed = [&old[0], &new[0], &old[1], &new[1], &old[2], &new[2]].map(Clone::clone);
        let taken = hear(&mut unfinished, &mixed);
        let (w, d) = (|| PartOutcome::Waits, || PartOutcome::Dropped);
        assert_eq!(taken, [w(), w(), d(), w(), d(), PartOutcome::Whole(said(20..26))]);
        // One that is whole does so too, and the rest of the old one is of no use.
        hear(&mut unfinished, &old[..2]);
        hear(&mut unfinished, &[(ListPart::WHOLE, said([7]))]);
        assert_eq!(hear(&mut unfinished, &old[2..]), [PartOutcome::Dropped]);
    }

    #[test]
    fn parts_that_say_different_things_are_no_registration() {
        let mut unfinished = PartialRegistrations::default();
        let mut differing = parts(1);
        differing[1].1.draining = true;
        assert_eq!(
            hear(&mut unfinished, &differing),
            [PartOutcome::Waits, PartOutcome::Dropped, PartOutcome::Dropped]
        );
    }

    #[test]
    fn nobody_is_held_for_more_than_the_kind_has_and_the_longest_goes_first() {
        let mut unfinished = PartialRegistrations::default();
        let shards = SHARDS as usize;
        let first = |list| ListPart {
            list,
            index: 0,
            count: 9,
        };
        let all = said(0..SHARDS);
        let more = said(0..=SHARDS);
        assert_eq!(
            unfinished.take(&node("a", 1), first(1), more, shards),
            PartOutcome::Dropped
        );
        for name in ["a", "b"] {
            let taken = unfinished.take(&node(name, 1), first(1), all.clone(), shards);
            assert_eq!(taken, PartOutcome::Waits);
        }
        let honest = node("c", 1);
        assert_eq!(
            unfinished.take(&honest, first(1), said([1, 2]), shards),
            PartOutcome::Waits
        );
        let left: Vec<_> = unfinished.lists.keys().cloned().collect();
        assert!(left.contains(&honest) && left.len() == 2, "{left:?}");
        let next = ListPart { index: 1, ..first(1) };
        let kept = left.into_iter().find(|node| *node != honest).unwrap();
        assert_eq!(
            unfinished.take(&kept, next, said([1]), shards),
            PartOutcome::Dropped,
            "more than the kind has"
        );
    }

    #[test]
    fn those_of_others_are_kept_when_a_node_goes() {
        let mut unfinished = PartialRegistrations::default();
        hear(&mut unfinished, &parts(1)[..1]);
        unfinished.retain(|other| *other != node("a", 1));
        assert!(unfinished.lists.is_empty());
    }

    proptest! {
        /// Registrations one after the other, as a link carries them that loses and doubles what it likes:
        /// whatever is taken as whole is one of them, exactly, and they are taken in their order.
        #[test]
        fn whatever_is_whole_was_said(fates in prop::collection::vec(0_u8..8, 30)) {
            let mut unfinished = PartialRegistrations::default();
            let sent: Vec<_> = (1..=10).flat_map(|list| {
                // Every third fits into one frame.
                if list % 3 == 0 { vec![(ListPart::WHOLE, said([u32::try_from(list).unwrap() * 10]))] } else { parts(list) }
            }).collect();
            let mut heard = Vec::new();
            for (at, part) in sent.into_iter().enumerate() {
                let copies = match fates[at] { 0 => 0, 1 => 2, _ => 1 };
                heard.extend(core::iter::repeat_n(part, copies));
            }
            let mut lists = Vec::new();
            for taken in hear(&mut unfinished, &heard) {
                if let PartOutcome::Whole(whole) = taken {
                    let list = whole.hosted[0].0 / 10;
                    let expected = if list % 3 == 0 { said([list * 10]) } else { said(list * 10..list * 10 + 6) };
                    prop_assert_eq!(&whole, &expected);
                    lists.push(list);
                }
            }
            prop_assert!(lists.is_sorted());
            let complete = fates.iter().all(|fate| *fate != 0);
            prop_assert!(!complete || lists.iter().collect::<OrderedSet<_>>().len() == 10);
        }
    }
}
