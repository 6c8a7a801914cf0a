//! Telling subscribers what became of their keys: once per interval and key, and only if it differs from what they heard.
//! Spec: sharding 1.12 (subscriptions).

use super::Replicator;
use super::protocol::{Change, Event};
use super::state::key::{Key, Pattern};
use super::subscriptions::Told;
use crate::ddata::Cx;

impl Replicator {
    /// Tells what is news since the last time.
    pub(super) fn tell_subscribers(&mut self, cx: &mut Cx<'_>) {
        if !self.subscriptions.has_news() {
            return;
        }
        for (subscriber, pattern) in self.subscriptions.take_new() {
            self.tell_what_there_is(cx, subscriber, &pattern);
        }
        for key in self.subscriptions.take_changed() {
            let (told, change) = match self.entries.get_mut(&key) {
                Some(entry) => {
                    let told = Told::Value(entry.digest());
                    let change = match &entry.envelope.data {
                        Some(data) => Change::Value(data.clone()),
                        None => Change::Deleted,
                    };
                    (told, change)
                }
                None => (Told::Nothing, Change::Expired),
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

    /// A new subscriber hears of every key of its pattern, whatever the others know.
    fn tell_what_there_is(&mut self, cx: &mut Cx<'_>, subscriber: u64, pattern: &Pattern) {
        let mut tell = |key: &Key, entry: &mut super::entries::Entry| {
            let change = match &entry.envelope.data {
                Some(data) => Change::Value(data.clone()),
                None => Change::Deleted,
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
            Pattern::Prefix(_) => {
                let matching = self.entries.iter_mut().filter(|(key, _)| pattern.matches(key));
                for (key, entry) in matching {
                    tell(key, entry);
                }
            }
        }
    }
}
