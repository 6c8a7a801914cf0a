//! Which keys this store holds of a range, for who lists them. Changes nothing. Spec: sharding 5.6.

use alloc::boxed::Box;
use core::ops::Bound;

use super::{BucketStore, HostedRange, Listener};
use crate::ddata::state::key::Key;
use crate::ident::UniqueAddress;
use crate::kv::protocol::listing::{ListAnswer, ListAsk, OwnerListed};
use crate::kv::protocol::{BucketBody, Rejection};
use crate::kv::state::listed::{KeysWanted, LISTED_BYTES_MAX, ListedKey, ListedPart};
use crate::time::Now;

/// Bytes of entries that are looked at for one part: a few milliseconds.
const LOOKED_AT_BYTES_MAX: usize = 4 << 20;

impl BucketStore {
    /// A node asks which keys of a range it holds.
    pub(in crate::kv) fn on_list(
        &mut self,
        from: &UniqueAddress,
        asked: &ListAsk,
        now: Now,
    ) -> Result<(), Rejection> {
        if asked.range.0 >= self.settings.ranges {
            return Err(Rejection::NoRange(asked.range));
        }
        if !self.has_room() {
            return Ok(());
        }
        self.adopt(asked.range, &asked.configuration, now.mono)?;
        let Some(held) = self.ranges.get(&asked.range) else {
            return Ok(());
        };
        let epoch = asked.configuration.epoch;
        let said = match held.replica.check_reads(epoch) {
            Ok(()) => OwnerListed::Part(held.listed(&asked.wanted, now.unix_ms)),
            Err(refusal) => OwnerListed::Refused(refusal),
        };
        let answered = ListAnswer {
            store: self.id,
            listing: asked.listing,
            range: asked.range,
            epoch,
            said,
        };
        let body = BucketBody::Listed(Box::new(answered));
        self.say(Listener::Node(from.clone()), body);
        Ok(())
    }
}

impl HostedRange {
    /// The next keys that are asked for, as many as go at once.
    fn listed(&self, wanted: &KeysWanted, now_ms: u64) -> ListedPart {
        let prefix = Key::new(&wanted.prefix).ok();
        let from = match (wanted.after.as_ref(), prefix.as_ref()) {
            (Some(after), Some(prefix)) if after < prefix => Bound::Included(prefix),
            (Some(after), _) => Bound::Excluded(after),
            (None, Some(prefix)) => Bound::Included(prefix),
            (None, None) => Bound::Unbounded,
        };
        let mut part = ListedPart::default();
        let (mut bytes, mut looked_at) = (0, 0);
        for key in self.keys_behind(from) {
            if !key.as_str().starts_with(&*wanted.prefix) {
                break;
            }
            let is_full = part.keys.len() >= wanted.count()
                || bytes + key.as_str().len() > LISTED_BYTES_MAX
                || looked_at > LOOKED_AT_BYTES_MAX;
            if is_full {
                return part;
            }
            let Some(mut entry) = self.entry(key).cloned() else {
                continue;
            };
            entry.expire(now_ms);
            bytes += key.as_str().len();
            looked_at += entry.bytes();
            part.keys.push(ListedKey {
                digest: entry.digest(key),
                is_alive: entry.is_alive(),
                is_decided: entry.accepted().is_some(),
                key: key.clone(),
            });
        }
        part.is_last = true;
        part
    }
}
