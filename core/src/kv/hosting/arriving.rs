//! What this store lacks of ranges that it is to own: asks the owners, merges what they send, and tells the
//! coordinator whose content it has. In which order is the arrival's to say. Spec: sharding 10.19 b.

use alloc::vec::Vec;

use super::range::PART_LIMITS;
use super::unkept::MergedPart;
use super::{BucketStore, Listener};
use crate::ddata::state::key::Key;
use crate::journal::state::StoreId;
use crate::kv::moving::{Arrival, ArrivalEffect};
use crate::kv::protocol::{AdoptedRange, BucketBody, RangeContent, RangeStatement, Rejection};
use crate::kv::state::part::{RangeItem, RangePart};
use crate::kv::state::settings::range_of;
use crate::kv::state::table::RangeId;
use crate::time::{Instant, Now};

impl BucketStore {
    /// Has a newcomer of the present configuration get what it lacks.
    pub(super) fn begin_arrival(&mut self, range: RangeId, now: Instant) {
        let (me, settings) = (self.id, self.settings);
        let Some(held) = self.ranges.get_mut(&range) else {
            return;
        };
        let timing = (now, settings.ask_again);
        let named = held
            .configuration()
            .filter(|named| named.owners.newcomer() == Some(me));
        held.arrival = named.and_then(|named| Arrival::new(named, settings.levels, PART_LIMITS, timing));
    }

    /// Parts of owners' contents are kept.
    pub(super) fn on_merged(&mut self, merged: &[MergedPart], now: Instant) {
        for MergedPart { range, epoch, owner } in merged {
            let held = self.ranges.get_mut(range);
            let arrival = held.and_then(|held| held.arrival.as_mut());
            if let Some(arrival) = arrival.filter(|arrival| arrival.epoch() == *epoch) {
                arrival.on_kept(*owner, now);
                self.arrive(*range);
            }
        }
    }

    /// An owner refuses what was before.
    pub(in crate::kv) fn on_refuses(&mut self, owner: StoreId, (range, epoch): (RangeId, u64), now: Instant) {
        let held = self.ranges.get_mut(&range);
        if let Some(arrival) = held.and_then(|held| held.arrival.as_mut()) {
            arrival.on_refusal(owner, epoch, now);
            self.arrive(range);
        }
    }

    /// An owner has sent a part of what it holds; whether it was merged.
    pub(in crate::kv) fn on_part(
        &mut self,
        owner: StoreId,
        (range, epoch): (RangeId, u64),
        (after, part): (Option<&[u8]>, RangePart),
    ) -> Result<bool, Rejection> {
        let held = self.ranges.get_mut(&range);
        let Some(arrival) = held.and_then(|held| held.arrival.as_mut()) else {
            return Ok(false);
        };
        arrival.on_part(owner, (epoch, after), part)?;
        let mut is_merged = false;
        for effect in arrival.take_effects() {
            match effect {
                ArrivalEffect::Merge { owner, items } => {
                    self.merge(range, &items)?;
                    is_merged = true;
                    self.unkept.merged.push(MergedPart { range, epoch, owner });
                }
                other @ (ArrivalEffect::AskRefusal { .. }
                | ArrivalEffect::AskPart { .. }
                | ArrivalEffect::Report) => self.pull(range, other),
            }
        }
        Ok(is_merged)
    }

    fn merge(&mut self, range: RangeId, items: &[RangeItem]) -> Result<(), Rejection> {
        for item in items {
            let key = item_key(item).ok_or(Rejection::Entry)?;
            if range_of(&key, self.settings.ranges) != range {
                return Err(Rejection::KeyElsewhere(range));
            }
            let taken = self.with_range(range, |held| {
                let epoch = held.epoch();
                held.take_over(epoch, &key, &item.content)
            });
            let Some(taken) = taken else { return Ok(()) };
            if taken.ok_or(Rejection::Entry)? && self.is_durable {
                self.unkept.keys.insert((range, key));
            }
        }
        Ok(())
    }

    /// Asks for what is lacking of a range.
    pub(super) fn arrive(&mut self, range: RangeId) {
        let held = self.ranges.get_mut(&range);
        let arrival = held.and_then(|held| held.arrival.as_mut());
        let effects = arrival.map(Arrival::take_effects).unwrap_or_default();
        for effect in effects {
            self.pull(range, effect);
        }
    }

    fn pull(&mut self, range: RangeId, effect: ArrivalEffect) {
        let Some(held) = self.ranges.get(&range) else {
            return;
        };
        let Some(configuration) = held.configuration().cloned() else {
            return;
        };
        match effect {
            ArrivalEffect::AskRefusal { owner } => {
                let refuse = RangeStatement::Refuse {
                    store: owner,
                    range,
                    configuration,
                };
                self.say(Listener::Store(owner), BucketBody::Ranges(refuse));
            }
            ArrivalEffect::AskPart { owner, after } => {
                let content = RangeContent::Pull {
                    store: owner,
                    range,
                    configuration,
                    after,
                };
                self.say(Listener::Store(owner), BucketBody::Content(content));
            }
            ArrivalEffect::Report => {
                let adopted = AdoptedRange {
                    range,
                    epoch: configuration.epoch,
                    merged: held.merged().collect(),
                };
                let (term, store) = (self.term, self.id);
                let ranges = [adopted].into();
                let statement = RangeStatement::Adopted { term, store, ranges };
                self.say(Listener::Coordinator, BucketBody::Ranges(statement));
            }
            // Merged where it came.
            ArrivalEffect::Merge { .. } => {}
        }
    }

    /// Asks again who has not answered.
    pub(in crate::kv) fn on_tick(&mut self, Now { mono: now, unix_ms }: Now) {
        self.expire_watchers(now);
        self.note_seen(unix_ms);
        let arriving = self.ranges.iter_mut();
        let arriving = arriving.filter_map(|(range, held)| {
            held.arrival.as_mut()?.on_tick(now);
            Some(*range)
        });
        let arriving: Vec<RangeId> = arriving.collect();
        for range in arriving {
            self.arrive(range);
        }
    }

    /// Whether it lacks something of a range.
    pub(in crate::kv) fn is_arriving(&self) -> bool {
        self.ranges.values().any(|held| held.arrival.is_some())
    }
}

fn item_key(item: &RangeItem) -> Option<Key> {
    Key::new(core::str::from_utf8(&item.key).ok()?).ok()
}
