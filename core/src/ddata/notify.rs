//! Telling subscribers what became of their keys: once per interval and key, and only if it differs from what
//! they heard. Spec: sharding 1.12 (subscriptions).

use core::ops::Bound;

use super::Replicator;
use super::protocol::{DataChange, Event};
use super::state::key::{Key, Pattern};
use super::subscriptions::ToldValue;
use crate::ddata::Cx;

/// Keys of which one round tells new subscribers what there is: as many as one exchange of gossip carries.
/// Whoever subscribes to more hears of the rest in the next rounds, so that no round takes as long as there
/// are keys.
const FIRST_PER_ROUND: usize = 500;

impl Replicator {
    /// Tells what is news since the last time.
    pub(super) fn tell_subscribers(&mut self, cx: &mut Cx<'_>) {
        if !self.subscriptions.has_news() {
            return;
        }
        let mut room = FIRST_PER_ROUND;
        while room > 0
            && let Some((subscriber, pattern, behind)) = self.subscriptions.take_new()
        {
            // A subscriber costs a look, though there be nothing to tell.
            room -= 1;
            if let Some(last) = self.tell_what_there_is(cx, subscriber, (&pattern, behind), &mut room) {
                self.subscriptions.told_up_to(subscriber, last);
            }
        }
        for key in self.subscriptions.take_changed() {
            let (told, change) = match self.entries.get_mut(&key) {
                Some(entry) => {
                    let told = ToldValue::Value(entry.digest());
                    let change = match &entry.envelope.data {
                        Some(data) => DataChange::Value(data.clone()),
                        None => DataChange::Deleted,
                    };
                    (told, change)
                }
                None => (ToldValue::Nothing, DataChange::Expired),
            };
            let subscribers = self.subscriptions.tell(&key, told);
            if !subscribers.is_empty() {
                let changed = Event::Changed {
                    subscribers,
                    key,
                    change,
                };
                cx.notify(changed);
            }
        }
    }

    /// A new subscriber hears of every key of its pattern, whatever the others know: in their order, behind a
    /// key. The last one that there was room for, if there are more.
    fn tell_what_there_is(
        &mut self,
        cx: &mut Cx<'_>,
        subscriber: u64,
        (pattern, behind): (&Pattern, Option<Key>),
        room: &mut usize,
    ) -> Option<Key> {
        let mut tell = |key: &Key, entry: &mut super::entries::KeyEntry| {
            let change = match &entry.envelope.data {
                Some(data) => DataChange::Value(data.clone()),
                None => DataChange::Deleted,
            };
            self.subscriptions.told_first(key, entry.digest());
            let changed = Event::Changed {
                subscribers: alloc::vec![subscriber],
                key: key.clone(),
                change,
            };
            cx.notify(changed);
        };
        match pattern {
            Pattern::Key(key) => {
                if let Some(entry) = self.entries.get_mut(key) {
                    tell(key, entry);
                }
            }
            Pattern::Prefix(prefix) => {
                let mut last = behind;
                let first = Key::new(prefix).ok();
                loop {
                    let from = match (&last, &first) {
                        (Some(last), _) => Bound::Excluded(last),
                        (None, Some(first)) => Bound::Included(first),
                        (None, None) => Bound::Unbounded,
                    };
                    let Some((key, entry)) = self
                        .entries
                        .next_mut(from)
                        .filter(|(key, _)| pattern.matches(key))
                    else {
                        break;
                    };
                    let Some(left) = room.checked_sub(1) else {
                        return last;
                    };
                    *room = left;
                    tell(key, entry);
                    last = Some(key.clone());
                }
            }
        }
        None
    }
}
