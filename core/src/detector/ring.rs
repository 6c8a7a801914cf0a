//! The heartbeat ring: who monitors whom. Every node computes the same ring from the same members, so each
//! member is monitored by a fixed number of others and nobody by everybody. Decides nothing about silence.
//! Spec: membership 2.13.

use alloc::vec::Vec;

use crate::ident::UniqueAddress;
use crate::ordered::OrderedSet;

/// Members in ring order, and where those of them stand whom nobody finds unreachable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeartbeatRing {
    me: UniqueAddress,
    /// Sorted by ring hash, then by node.
    nodes: Vec<UniqueAddress>,
    /// Places of the reachable ones among them, ascending.
    reachable: Vec<usize>,
    monitored_by: usize,
}

impl HeartbeatRing {
    /// The ring of `nodes` and `me`, where each member is monitored by `monitored_by` reachable others.
    /// Members in `unreachable` are monitored too, on top. O(n log n).
    #[must_use]
    pub fn new(
        me: UniqueAddress,
        nodes: impl IntoIterator<Item = UniqueAddress>,
        unreachable: impl IntoIterator<Item = UniqueAddress>,
        monitored_by: usize,
    ) -> Self {
        let mut nodes: Vec<UniqueAddress> = nodes.into_iter().collect();
        nodes.push(me.clone());
        nodes.sort_by(|a, b| a.ring_hash().cmp(&b.ring_hash()).then_with(|| a.cmp(b)));
        nodes.dedup();
        let unreachable: OrderedSet<UniqueAddress> = unreachable.into_iter().collect();
        let reachable = (0..nodes.len()).filter(|at| !unreachable.contains(&nodes[*at]));
        Self {
            me,
            reachable: reachable.collect(),
            nodes,
            monitored_by,
        }
    }

    /// Members on the ring, this node included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Never true: this node is always on its ring.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Whom this node sends heartbeats to, in node order.
    #[must_use]
    pub fn my_receivers(&self) -> Vec<UniqueAddress> {
        self.receivers_of(&self.me)
    }

    /// Whom `sender` sends heartbeats to, in node order; nobody if it is not on the ring. Walks clockwise
    /// from its successor until enough reachable members are taken; unreachable ones on the way are taken as
    /// well while fewer than that number were taken in all, so that somebody notices their return. O(n).
    #[must_use]
    pub fn receivers_of(&self, sender: &UniqueAddress) -> Vec<UniqueAddress> {
        let at = self.nodes.iter().position(|node| node == sender);
        at.map_or_else(Vec::new, |at| self.receivers_at(at))
    }

    /// Everybody on the ring, with [`Self::receivers_of`] each.
    pub(crate) fn all_receivers(&self) -> impl Iterator<Item = (UniqueAddress, Vec<UniqueAddress>)> {
        let nodes = self.nodes.iter().enumerate();
        nodes.map(|(at, node)| (node.clone(), self.receivers_at(at)))
    }

    /// However many of them are unreachable, it looks only at those that it takes: O(log n).
    fn receivers_at(&self, at: usize) -> Vec<UniqueAddress> {
        let next = (at + 1..self.nodes.len()).chain(0..at).take(self.monitored_by);
        let (before, after) = self
            .reachable
            .split_at(self.reachable.partition_point(|place| *place <= at));
        let reachable = after.iter().chain(before).copied().filter(|place| *place != at);
        let places = next.chain(reachable.take(self.monitored_by));
        let mut taken: Vec<UniqueAddress> = places.map(|place| self.nodes[place].clone()).collect();
        taken.sort();
        taken.dedup();
        taken
    }
}

/// [`HeartbeatRing::my_receivers`], where only they are wanted: nobody is put in order who is not among the
/// nearest. O(n).
pub(crate) fn receivers_of<'a>(
    me: &UniqueAddress,
    nodes: impl Iterator<Item = &'a UniqueAddress>,
    is_unreachable: impl Fn(&UniqueAddress) -> bool,
    monitored_by: usize,
) -> OrderedSet<UniqueAddress> {
    let mine = (me.ring_hash(), me);
    let mut next = Nearest::of(monitored_by);
    let mut reachable = Nearest::of(monitored_by);
    for node in nodes.filter(|node| *node != me) {
        let hash = node.ring_hash();
        let place = ((hash, node) < mine, hash, node);
        if next.may_take(&place) {
            next.take(place);
        }
        if reachable.may_take(&place) && !is_unreachable(node) {
            reachable.take(place);
        }
    }
    let taken = next.places.iter().chain(&reachable.places);
    taken.map(|(_, _, node)| (*node).clone()).collect()
}

/// Behind the end of the ring, ring hash, node: in the order in which they follow this node.
type Place<'a> = (bool, i32, &'a UniqueAddress);

/// The first few.
struct Nearest<'a> {
    most: usize,
    places: Vec<Place<'a>>,
}

impl<'a> Nearest<'a> {
    const fn of(most: usize) -> Self {
        Self {
            most,
            places: Vec::new(),
        }
    }

    fn may_take(&self, place: &Place<'a>) -> bool {
        self.places.len() < self.most || self.places.last().is_some_and(|last| place < last)
    }

    fn take(&mut self, place: Place<'a>) {
        let at = self.places.partition_point(|known| *known < place);
        self.places.insert(at, place);
        self.places.truncate(self.most);
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec;

    use super::*;
    use crate::ident::Address;

    fn node(uid: u64) -> UniqueAddress {
        const HOSTS: [&str; 6] = ["aa", "bb", "cc", "dd", "ee", "ff"];
        let index = usize::try_from(uid - 1).unwrap();
        UniqueAddress::new(Address::new(HOSTS[index], 7355).unwrap(), uid)
    }

    fn numbered(uid: u64) -> UniqueAddress {
        UniqueAddress::new(Address::new(&std::format!("h{uid:03}"), 7355).unwrap(), uid)
    }

    fn six(monitored_by: usize, unreachable: &[u64]) -> HeartbeatRing {
        HeartbeatRing::new(
            node(1),
            (1..=6).map(node),
            unreachable.iter().map(|uid| node(*uid)),
            monitored_by,
        )
    }

    fn uids(nodes: &[UniqueAddress]) -> Vec<u64> {
        nodes.iter().map(UniqueAddress::uid).collect()
    }

    #[test]
    fn m_223_each_of_six_nodes_has_three_receivers_and_never_itself() {
        let ring = six(3, &[]);
        assert_eq!(uids(&ring.receivers_of(&node(1))), [2, 3, 4]);
        assert_eq!(uids(&ring.receivers_of(&node(4))), [1, 5, 6]);
        assert_eq!(uids(&ring.receivers_of(&node(6))), [1, 2, 3]);
        for uid in 1..=6 {
            let receivers = ring.receivers_of(&node(uid));
            assert_eq!(receivers.len(), 3);
            assert!(!receivers.contains(&node(uid)));
        }
    }

    #[test]
    fn s_2_13_unreachable_members_are_taken_on_top_only_while_there_is_room() {
        // From 1, two unreachable ones come first: both taken without counting, then one reachable fills the
        // room, then two more reachable ones.
        assert_eq!(uids(&six(3, &[2, 3]).my_receivers()), [2, 3, 4, 5, 6]);
        // 5 is unreachable but three were taken before it: skipped.
        assert_eq!(uids(&six(3, &[2, 5]).my_receivers()), [2, 3, 4, 6]);
        // Everybody is unreachable: three are still heart-beaten, so that recovery is noticed.
        assert_eq!(uids(&six(3, &[2, 3, 4, 5, 6]).my_receivers()), [2, 3, 4]);
    }

    /// As the rule says it: step by step from the successor on.
    fn walked(ring: &[u64], from: u64, monitored_by: usize, unreachable: &[u64]) -> Vec<u64> {
        let at = ring.iter().position(|uid| *uid == from).unwrap();
        let others = ring[at + 1..].iter().chain(&ring[..at]);
        let (mut taken, mut reachable) = (Vec::new(), 0);
        for uid in others {
            if reachable < monitored_by && (!unreachable.contains(uid) || taken.len() < monitored_by) {
                reachable += usize::from(!unreachable.contains(uid));
                taken.push(*uid);
            }
        }
        taken.sort_unstable();
        taken
    }

    #[test]
    fn s_2_13_receivers_are_those_of_a_walk_whoever_is_unreachable() {
        let ring: Vec<u64> = (1..=6).collect();
        for set in 0..1_u64 << ring.len() {
            let unreachable: Vec<u64> = ring
                .iter()
                .copied()
                .filter(|uid| set >> (uid - 1) & 1 == 1)
                .collect();
            for monitored_by in 1..=6 {
                for from in 1..=6 {
                    let found = uids(&six(monitored_by, &unreachable).receivers_of(&node(from)));
                    let expected = walked(&ring, from, monitored_by, &unreachable);
                    assert_eq!(
                        found, expected,
                        "{from} of {monitored_by} without {unreachable:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn m_225_more_monitors_than_others_means_all_others() {
        for monitored_by in [5, 6, 7] {
            assert_eq!(uids(&six(monitored_by, &[4]).my_receivers()), [2, 3, 4, 5, 6]);
        }
    }

    #[test]
    fn m_226_a_node_alone_monitors_nobody_and_a_stranger_neither() {
        let alone = HeartbeatRing::new(node(1), vec![], vec![], 3);
        assert_eq!(alone.my_receivers(), vec![]);
        assert_eq!(alone.receivers_of(&node(2)), vec![]);
        assert_eq!((alone.len(), alone.is_empty()), (1, false));
    }

    #[test]
    fn m_227_in_a_ring_of_a_hundred_everybody_is_monitored_by_nine() {
        let ring = HeartbeatRing::new(numbered(1), (1..=100).map(numbered), vec![], 9);
        let expected: Vec<u64> = (51..=59).collect();
        assert_eq!(uids(&ring.receivers_of(&numbered(50))), expected);
        assert_eq!(
            uids(&ring.receivers_of(&numbered(97))),
            [1, 2, 3, 4, 5, 6, 98, 99, 100]
        );
        let mut monitors = vec![0; 101];
        for sender in 1..=100 {
            for receiver in ring.receivers_of(&numbered(sender)) {
                monitors[usize::try_from(receiver.uid()).unwrap()] += 1;
            }
        }
        assert!(monitors[1..].iter().all(|count| *count == 9), "{monitors:?}");
    }

    #[test]
    fn the_receivers_of_one_are_those_that_the_whole_ring_names() {
        // Some with one hash, some silent, whoever asks, also one that is not on it.
        let uid = |at: u64| {
            if at.is_multiple_of(4) {
                at << 32 | at
            } else {
                at.wrapping_mul(0x9E37_79B9_7F4A_7C15)
            }
        };
        let of = |at: u64| UniqueAddress::new(Address::new(&std::format!("h{at:02}"), 1).unwrap(), uid(at));
        for (members, silent) in [(1, 2), (5, 2), (30, 3), (30, 2), (30, 40)] {
            let nodes: Vec<UniqueAddress> = (0..members).map(of).collect();
            let unreachable = |node: &UniqueAddress| node.uid().is_multiple_of(silent);
            let gone: Vec<UniqueAddress> = nodes.iter().filter(|node| unreachable(node)).cloned().collect();
            for (me, monitored_by) in (0..=members).flat_map(|me| [(of(me), 1), (of(me), 3), (of(me), 9)]) {
                let ring = HeartbeatRing::new(me.clone(), nodes.clone(), gone.clone(), monitored_by);
                let found: Vec<_> = receivers_of(&me, nodes.iter(), unreachable, monitored_by)
                    .into_iter()
                    .collect();
                assert_eq!(
                    found,
                    ring.my_receivers(),
                    "{members} {silent} {me} {monitored_by}"
                );
            }
        }
    }

    #[test]
    fn s_1_1_the_ring_is_ordered_by_the_hash_as_a_signed_number() {
        // Uids whose hashes are -2^31, -1, 0 and 1. Taken as unsigned numbers they would come 0, 1, -2^31,
        // -1.
        let uids_in_order = [0x8000_0000, 0xFFFF_FFFF, 0x1_0000_0001, 1];
        let of = |uid: u64| UniqueAddress::new(Address::new("h", 1).unwrap(), uid);
        let ring = HeartbeatRing::new(of(1), uids_in_order.map(of), vec![], 1);
        for (at, uid) in uids_in_order.into_iter().enumerate() {
            let next = uids_in_order[(at + 1) % uids_in_order.len()];
            assert_eq!(uids(&ring.receivers_of(&of(uid))), [next], "after {uid:#x}");
        }
    }

    #[test]
    fn nodes_of_one_hash_are_ordered_by_address() {
        let of = |host: &str| UniqueAddress::new(Address::new(host, 1).unwrap(), 5);
        let ring = HeartbeatRing::new(of("b"), [of("c"), of("a"), of("b")], vec![], 1);
        let hosts = |nodes: Vec<UniqueAddress>| -> Vec<String> {
            nodes
                .iter()
                .map(|node| String::from(node.address().host()))
                .collect()
        };
        assert_eq!(hosts(ring.receivers_of(&of("a"))), ["b"]);
        assert_eq!(hosts(ring.receivers_of(&of("c"))), ["a"]);
    }
}
