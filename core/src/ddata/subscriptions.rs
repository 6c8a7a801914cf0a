//! Who wants to hear of which keys, and what they heard last. Decides what is news: a digest that differs
//! from the last one told. Never looks at values. Spec: sharding 1.12 (subscriptions).

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::state::Digest;
use super::state::key::{Key, Pattern};
use crate::ordered::{OrderedMap, OrderedSet};

/// What subscribers know of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToldValue {
    /// Its value.
    Value(Digest),
    /// That it is gone, or nothing at all.
    Nothing,
}

/// Subscriptions and the keys that may be news to them.
#[derive(Clone, Debug, Default)]
pub(super) struct KeySubscriptions {
    patterns: OrderedMap<u64, Pattern>,
    /// By key, so that a change finds its subscribers without a search.
    by_key: OrderedMap<Key, OrderedSet<u64>>,
    /// By prefix, so that a change looks for the prefixes that its key has, however many subscribers there
    /// are.
    by_prefix: OrderedMap<Arc<str>, OrderedSet<u64>>,
    /// Subscribers that have not been told all that there is, with the last key of which they have been.
    new: OrderedMap<u64, Option<Key>>,
    changed: OrderedSet<Key>,
    told: OrderedMap<Key, ToldValue>,
}

impl KeySubscriptions {
    pub(super) fn len(&self) -> usize {
        self.patterns.len()
    }

    pub(super) fn add(&mut self, subscriber: u64, pattern: Pattern) {
        self.remove(subscriber);
        match &pattern {
            Pattern::Key(key) => {
                self.by_key.entry(key.clone()).or_default().insert(subscriber);
            }
            Pattern::Prefix(prefix) => {
                let prefix = Arc::clone(prefix);
                self.by_prefix.entry(prefix).or_default().insert(subscriber);
            }
        }
        self.new.insert(subscriber, None);
        self.patterns.insert(subscriber, pattern);
    }

    pub(super) fn remove(&mut self, subscriber: u64) {
        self.new.remove(&subscriber);
        match self.patterns.remove(&subscriber) {
            Some(Pattern::Key(key)) => {
                if let Some(subscribers) = self.by_key.get_mut(&key) {
                    subscribers.remove(&subscriber);
                    if subscribers.is_empty() {
                        self.by_key.remove(&key);
                    }
                }
            }
            Some(Pattern::Prefix(prefix)) => {
                if let Some(subscribers) = self.by_prefix.get_mut(&prefix) {
                    subscribers.remove(&subscriber);
                    if subscribers.is_empty() {
                        self.by_prefix.remove(&prefix);
                    }
                }
            }
            None => return,
        }
        let (by_key, by_prefix) = (&self.by_key, &self.by_prefix);
        let is_heard = |key: &Key| by_key.contains_key(key) || with_prefix(by_prefix, key).next().is_some();
        self.told.retain(|key, _| is_heard(key));
        self.changed.retain(is_heard);
    }

    /// A key may have changed.
    pub(super) fn note(&mut self, key: &Key) {
        if self.is_heard(key) {
            self.changed.insert(key.clone());
        }
    }

    /// Whether there is anything to look at in the next round.
    pub(super) fn has_news(&self) -> bool {
        !self.changed.is_empty() || !self.new.is_empty()
    }

    /// The keys that changed since the last round.
    pub(super) fn take_changed(&mut self) -> OrderedSet<Key> {
        core::mem::take(&mut self.changed)
    }

    /// The first new subscriber, what it wants, and behind which key it is to be told what there is.
    pub(super) fn take_new(&mut self) -> Option<(u64, Pattern, Option<Key>)> {
        let (subscriber, behind) = self.new.pop_first()?;
        let pattern = self.patterns.get(&subscriber)?.clone();
        Some((subscriber, pattern, behind))
    }

    /// A new subscriber has been told what there is up to this key, and is to be told the rest.
    pub(super) fn told_up_to(&mut self, subscriber: u64, key: Key) {
        self.new.insert(subscriber, Some(key));
    }

    /// Who is to be told that the key is `now`; nobody if they know.
    pub(super) fn tell(&mut self, key: &Key, now: ToldValue) -> Vec<u64> {
        let known = self.told.get(key).copied().unwrap_or(ToldValue::Nothing);
        if known == now {
            return Vec::new();
        }
        let subscribers = self.of(key);
        match now {
            ToldValue::Value(_) => {
                self.told.insert(key.clone(), now);
            }
            ToldValue::Nothing => {
                self.told.remove(key);
            }
        }
        subscribers
    }

    /// A new subscriber was told a value, which the others may not have heard yet.
    pub(super) fn told_first(&mut self, key: &Key, digest: Digest) {
        self.told.entry(key.clone()).or_insert(ToldValue::Value(digest));
    }

    fn is_heard(&self, key: &Key) -> bool {
        self.by_key.contains_key(key) || self.prefixes(key).next().is_some()
    }

    fn prefixes(&self, key: &Key) -> impl Iterator<Item = u64> {
        with_prefix(&self.by_prefix, key).flatten().copied()
    }

    fn of(&self, key: &Key) -> Vec<u64> {
        let exact = self.by_key.get(key).into_iter().flatten().copied();
        let mut all: Vec<u64> = exact.chain(self.prefixes(key)).collect();
        all.sort_unstable();
        all
    }
}

/// The subscribers of each prefix that the key has: at most as many look-ups as the key has bytes, and one.
fn with_prefix<'a>(
    by_prefix: &'a OrderedMap<Arc<str>, OrderedSet<u64>>,
    key: &Key,
) -> impl Iterator<Item = &'a OrderedSet<u64>> {
    let name = key.as_str();
    let ends = if by_prefix.is_empty() { 0 } else { name.len() + 1 };
    (0..ends).filter_map(move |end| by_prefix.get(name.get(..end)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new(name).unwrap()
    }

    #[test]
    fn s_224_a_prefix_hears_of_new_keys_until_it_is_unsubscribed() {
        let mut subscriptions = KeySubscriptions::default();
        subscriptions.add(1, Pattern::parse("a-*").unwrap());
        subscriptions.add(2, Pattern::parse("a-1").unwrap());
        subscriptions.note(&key("a-1"));
        subscriptions.note(&key("b-1"));
        assert_eq!(subscriptions.take_changed(), OrderedSet::from([key("a-1")]));
        assert_eq!(
            subscriptions.tell(&key("a-1"), ToldValue::Value(Digest(7))),
            [1, 2]
        );
        subscriptions.remove(1);
        assert_eq!(subscriptions.tell(&key("a-1"), ToldValue::Value(Digest(8))), [2]);
        subscriptions.note(&key("a-2"));
        assert!(subscriptions.take_changed().is_empty());
    }

    #[test]
    fn s_224_of_many_prefixes_those_that_the_key_has_are_told_each_once() {
        let mut subscriptions = KeySubscriptions::default();
        for (subscriber, prefix) in [
            (1, "*"),
            (2, "\u{e4}*"),
            (3, "\u{e4}-*"),
            (4, "\u{e4}-1*"),
            (5, "b*"),
        ] {
            subscriptions.add(subscriber, Pattern::parse(prefix).unwrap());
        }
        let umlaut = key("\u{e4}-1");
        assert_eq!(
            subscriptions.tell(&umlaut, ToldValue::Value(Digest(7))),
            [1, 2, 3, 4]
        );
        subscriptions.remove(1);
        subscriptions.remove(3);
        assert_eq!(subscriptions.tell(&umlaut, ToldValue::Value(Digest(8))), [2, 4]);
        for subscriber in [2, 4, 5] {
            subscriptions.remove(subscriber);
        }
        assert!(subscriptions.told.is_empty() && subscriptions.by_prefix.is_empty());
    }

    #[test]
    fn s_254_the_same_digest_is_told_once() {
        let mut subscriptions = KeySubscriptions::default();
        subscriptions.add(1, Pattern::Key(key("a")));
        assert_eq!(subscriptions.tell(&key("a"), ToldValue::Value(Digest(7))), [1]);
        assert!(
            subscriptions
                .tell(&key("a"), ToldValue::Value(Digest(7)))
                .is_empty()
        );
        assert_eq!(subscriptions.tell(&key("a"), ToldValue::Nothing), [1]);
        assert!(subscriptions.tell(&key("a"), ToldValue::Nothing).is_empty());
        assert_eq!(subscriptions.tell(&key("a"), ToldValue::Value(Digest(7))), [1]);
    }

    #[test]
    fn who_subscribes_to_something_else_hears_of_that_alone() {
        let mut subscriptions = KeySubscriptions::default();
        for first in ["a-*", "a-1"] {
            subscriptions.add(1, Pattern::parse(first).unwrap());
            subscriptions.add(1, Pattern::parse("b").unwrap());
            subscriptions.note(&key("a-1"));
            subscriptions.note(&key("b"));
            assert_eq!(subscriptions.take_changed(), OrderedSet::from([key("b")]));
            assert_eq!(
                subscriptions.tell(&key("a-1"), ToldValue::Value(Digest(7))),
                [0; 0]
            );
            assert_eq!(subscriptions.len(), 1);
        }
    }
}
