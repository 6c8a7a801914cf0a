//! Keys that nobody used for too long are forgotten, without a tombstone, by every node on its own. Spec:
//! sharding 1.12 (expiry).

use alloc::vec::Vec;

use super::Replicator;
use super::state::key::Key;
use crate::ddata::Cx;

impl Replicator {
    /// Forgets what was not used for too long.
    pub(super) fn expire(&mut self, cx: &mut Cx<'_>) {
        if cx.config().ddata.expire_keys_after_inactivity.is_empty() {
            return;
        }
        let now = cx.mono();
        let settings = &cx.config().ddata;
        let expired: Vec<Key> = self
            .entries
            .iter()
            .filter(|(key, entry)| {
                let after = settings.expires_after(key);
                after.is_some_and(|after| now.since(entry.used) >= after)
            })
            .map(|(key, _)| key.clone())
            .collect();
        for key in expired {
            cx.counters().keys_expired += 1;
            self.entries.remove(&key);
            self.log.forget(&key);
            self.subscriptions.note(&key);
            if cx.config().ddata.is_durable(&key) {
                self.durable.note(&key, None);
            }
        }
    }
}
