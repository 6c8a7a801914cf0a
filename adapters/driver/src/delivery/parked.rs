//! Messages that wait for room, in the order in which they came. One whose entity has no room holds up those
//! behind it for the same entity and no others, and is not looked at again before its entity has room. Pure.
//! Spec: sharding 1.14.

use std::collections::VecDeque;

use quorate_core::ordered::OrderedMap;
use quorate_core::sharding::ids::EntityId;

use super::orders::Offer;

/// See the module. Every call costs the logarithm of what waits, but [`Self::drain`].
#[derive(Default)]
pub(super) struct Parked {
    last: u64,
    /// What waits for each entity, the oldest in front, with its number; never empty.
    queues: OrderedMap<EntityId, VecDeque<(u64, Offer)>>,
    /// The oldest of each entity that may have room, by number.
    may_go: OrderedMap<u64, EntityId>,
    len: usize,
}

impl Parked {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether something waits for this entity.
    pub(super) fn waits_for(&self, entity: &EntityId) -> bool {
        self.queues.contains_key(entity)
    }

    /// Comes behind all others.
    pub(super) fn push(&mut self, offer: Offer) {
        self.last += 1;
        self.len += 1;
        let entity = offer.entity.clone();
        let queue = self.queues.entry(entity.clone()).or_default();
        if queue.is_empty() {
            self.may_go.insert(self.last, entity);
        }
        queue.push_back((self.last, offer));
    }

    /// The oldest of those whose entity may have room.
    pub(super) fn first(&self) -> Option<&Offer> {
        let (_, entity) = self.may_go.first_key_value()?;
        self.queues.get(entity)?.front().map(|(_, offer)| offer)
    }

    /// That one's entity has no room.
    pub(super) fn hold_first(&mut self) {
        self.may_go.pop_first();
    }

    /// Takes that one.
    pub(super) fn take_first(&mut self) -> Option<Offer> {
        let (_, entity) = self.may_go.pop_first()?;
        let queue = self.queues.get_mut(&entity)?;
        let (_, offer) = queue.pop_front()?;
        self.len -= 1;
        match queue.front() {
            Some((number, _)) => drop(self.may_go.insert(*number, entity)),
            None => drop(self.queues.remove(&entity)),
        }
        Some(offer)
    }

    /// An entity has room again.
    pub(super) fn has_room(&mut self, entity: &EntityId) {
        if let Some((number, _)) = self.queues.get(entity).and_then(VecDeque::front) {
            self.may_go.insert(*number, entity.clone());
        }
    }

    /// Takes all of them, entity by entity.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Offer> {
        let all = std::mem::take(self);
        all.queues.into_values().flatten().map(|(_, offer)| offer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync;

    fn offer(entity: &str, text: &str) -> Offer {
        Offer {
            entity: EntityId::from(entity),
            payload: text.as_bytes().into(),
            taken: sync::oneshot().0,
            confirmed: sync::oneshot().0,
        }
    }

    fn parked(all: &[(&str, &str)]) -> Parked {
        let mut parked = Parked::default();
        for (entity, text) in all {
            parked.push(offer(entity, text));
        }
        parked
    }

    fn text(offer: &Offer) -> String {
        String::from_utf8_lossy(&offer.payload).into_owned()
    }

    fn rest(parked: &mut Parked) -> Vec<String> {
        std::iter::from_fn(|| parked.take_first())
            .map(|offer| text(&offer))
            .collect()
    }

    #[test]
    fn they_go_in_the_order_in_which_they_came() {
        let mut parked = parked(&[("a", "1"), ("b", "2"), ("a", "3"), ("c", "4"), ("b", "5")]);
        assert_eq!(parked.len(), 5);
        assert_eq!(rest(&mut parked), ["1", "2", "3", "4", "5"]);
        assert!(parked.is_empty() && !parked.waits_for(&EntityId::from("a")));
    }

    #[test]
    fn who_has_no_room_holds_up_its_own_and_nobody_else_until_it_has() {
        let a = EntityId::from("a");
        let mut parked = parked(&[("a", "1"), ("b", "2"), ("a", "3"), ("c", "4")]);
        parked.hold_first();
        parked.push(offer("a", "5"));
        parked.push(offer("b", "6"));
        assert_eq!(rest(&mut parked), ["2", "4", "6"]);
        assert!(parked.first().is_none() && parked.waits_for(&a) && parked.len() == 3);
        // TaskReport twice, it is not looked at twice.
        parked.has_room(&a);
        parked.has_room(&a);
        parked.push(offer("b", "7"));
        assert_eq!(rest(&mut parked), ["1", "3", "5", "7"]);
        parked.has_room(&a);
        assert!(parked.first().is_none());
    }

    #[test]
    fn draining_leaves_nothing() {
        let mut parked = parked(&[("a", "1"), ("b", "2"), ("a", "3")]);
        parked.hold_first();
        assert_eq!(parked.drain().count(), 3);
        assert!(parked.is_empty() && parked.first().is_none());
    }
}
