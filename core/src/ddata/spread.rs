//! Telling others what this node changed, and applying what they changed: in order per sender, nothing across
//! a gap. What is lost on the way is brought by gossip. Spec: sharding 1.12 (delta propagation), 10.6, 10.21.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::admission::{merged_bytes_max, skew_ms};
use super::crdt::{Custom, DataDelta, DataValue, MergeError};
use super::gossip::split;
use super::measure::{delta_len, envelope_len, version_len};
use super::protocol::{DELTAS_PER_ENTRY_MAX, DdataBody, DeltaEntry, Nack, Rejection};
use super::replicas::Replicas;
use super::state::{DataEnvelope, Pruning};
use super::{Replicator, send, send_weighed, wall_ms};
use crate::ddata::Cx;
use crate::ident::UniqueAddress;
use crate::ordered::OrderedSet;

/// Every so many ticks what everybody was sent is dropped.
const CLEAN_UP_EVERY: u64 = 5;

/// What became of a change from another node.
enum ChangeOutcome {
    Applied,
    Known,
    Gap,
}

impl Replicator {
    pub(super) fn on_delta_tick(&mut self, cx: &mut Cx<'_>) {
        self.delta_ticks += 1;
        let view = Arc::clone(cx.view());
        let replicas = Replicas::new(&view, &cx.config().ddata);
        for node in self.turns.next(&replicas.reachable()) {
            self.send_deltas(cx, &node);
        }
        if self.delta_ticks.is_multiple_of(CLEAN_UP_EVERY) {
            let told: OrderedSet<UniqueAddress> = replicas.told().cloned().collect();
            self.log.clean_up(&told);
        }
    }

    /// This node is about to end: everybody hears at once what would have been told in turns. Nothing is
    /// waited for; what is lost on the way, and what is not told by deltas, others have of the writes that
    /// were acknowledged.
    pub(crate) fn on_drain_requested(&mut self, cx: &mut Cx<'_>) {
        self.notice_absence_now(cx);
        let view = Arc::clone(cx.view());
        if self.takes_part() {
            for node in Replicas::new(&view, &cx.config().ddata).reachable() {
                self.send_deltas(cx, &node);
            }
        }
        cx.say_drained();
    }

    fn send_deltas(&mut self, cx: &mut Cx<'_>, node: &UniqueAddress) {
        let entries = self.log.take_for(node);
        for entries in split(entries, weight) {
            cx.counters().deltas_sent += 1;
            let operation = None;
            let weight = entries.iter().map(weight).sum();
            send_weighed(cx, node, DdataBody::Deltas { operation, entries }, weight);
        }
    }

    pub(super) fn on_deltas(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        operation: Option<u64>,
        entries: Vec<DeltaEntry>,
    ) {
        for entry in entries {
            let outcome = self.apply_deltas(cx, from, &entry);
            let reason = match outcome {
                Ok(ChangeOutcome::Applied | ChangeOutcome::Known) => None,
                Ok(ChangeOutcome::Gap) => {
                    cx.counters().delta_gaps += 1;
                    Some(Nack::Gap)
                }
                Err(rejection) => {
                    let reason = rejection.as_nack();
                    Self::reject(cx, from, rejection);
                    Some(reason)
                }
            };
            match (operation, reason) {
                (Some(operation), None) => self.confirm(cx, from, operation, &entry.key),
                (Some(operation), Some(reason)) => send(cx, from, DdataBody::WriteNack { operation, reason }),
                (None, _) => {}
            }
        }
    }

    fn apply_deltas(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        entry: &DeltaEntry,
    ) -> Result<ChangeOutcome, Rejection> {
        let key = &entry.key;
        if entry.after >= entry.upto || entry.deltas.is_empty() || entry.deltas.len() > DELTAS_PER_ENTRY_MAX {
            return Err(Rejection::OutOfRange { what: "delta" });
        }
        let (now_ms, skew_ms) = (wall_ms(cx), skew_ms(cx));
        for delta in &entry.deltas {
            delta
                .check_stamps(now_ms, skew_ms)
                .map_err(|ahead| Rejection::stamp(key, ahead))?;
            self.check_versions(cx, from, delta.highest_versions())?;
            self.skip_to(cx, key, delta.highest_version_of(cx.me()))?;
        }
        let held = self.entries.get(key);
        let (current, settled_ms, bytes) = held.map_or((0, 0, 0), |held| {
            let current = held.envelope.deltas.get(from).copied().unwrap_or(0);
            (current, held.envelope.settled_ms, held.bytes)
        });
        if let Some(held) = held {
            let is_pruned = matches!(
                held.envelope.pruning.get(from),
                Some(Pruning::Initialized { .. } | Pruning::Performed { .. })
            );
            // What seems to be known is joined all the same, which changes nothing if it is: that it is,
            // others may have said falsely.
            if held.envelope.is_deleted() || is_pruned {
                return Ok(ChangeOutcome::Known);
            }
        }
        // A change of a value that is settled further, or less far, than the one here would bring what stands
        // here already, or no more, under another name (I-64).
        if entry.after > current || entry.settled_ms != settled_ms {
            self.note_gap(key);
            return Ok(ChangeOutcome::Gap);
        }
        let is_named = held.is_some_and(|held| held.envelope.deltas.contains_key(from));
        let version = if is_named { 0 } else { version_len(from) };
        let more = version + entry.deltas.iter().map(delta_len).sum::<usize>();
        let settings = &cx.config().ddata;
        if !self
            .entries
            .has_room(key, bytes + more, settings.keys_max, settings.bytes_max)
        {
            return Err(Rejection::Full { key: key.clone() });
        }
        self.merge_deltas(cx, from, entry, bytes + more)
    }

    /// All of an entry's changes, or none of them.
    fn merge_deltas(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        entry: &DeltaEntry,
        bytes: usize,
    ) -> Result<ChangeOutcome, Rejection> {
        let key = &entry.key;
        let held = self.entries.take(key);
        let is_new = held.is_none();
        let first = entry.deltas.first();
        let Some(mut envelope) = held.or_else(|| first.and_then(empty_for).map(DataEnvelope::new)) else {
            return Ok(ChangeOutcome::Known);
        };
        let keep = (entry.deltas.len() > 1 || bytes > merged_bytes_max(cx)).then(|| envelope.clone());
        let mut changed = is_new;
        let mut failed = None;
        if let Some(data) = &mut envelope.data {
            let data = Arc::make_mut(data);
            for delta in &entry.deltas {
                match data.merge_delta(delta) {
                    Ok(merged) => changed |= merged.changed,
                    Err(error) => {
                        failed = Some(error);
                        break;
                    }
                }
            }
        }
        let exact = if bytes > cx.config().ddata.value_bytes_max {
            envelope_len(&envelope)
        } else {
            bytes
        };
        let is_too_large = exact > merged_bytes_max(cx);
        if failed.is_some() || is_too_large {
            if !is_new {
                self.entries.put_back(key, keep.unwrap_or(envelope));
            }
            return match failed {
                // The whole value closes the gaps.
                Some(MergeError::CloudFull) => {
                    self.note_gap(key);
                    Ok(ChangeOutcome::Gap)
                }
                Some(error) => Err(Rejection::merge(key, error)),
                None => Err(Rejection::TooLarge { key: key.clone() }),
            };
        }
        let known = envelope.deltas.entry(from.clone()).or_default();
        *known = entry.upto.max(*known);
        if changed {
            self.changed(cx, key, envelope, exact, cx.mono());
            self.note_on_its_way(cx, key);
        } else {
            self.entries.put_back(key, envelope);
            self.touch(key, cx.mono());
        }
        Ok(ChangeOutcome::Applied)
    }
}

/// What a key holds before the first change that is heard of.
fn empty_for(delta: &DataDelta) -> Option<DataValue> {
    if let DataDelta::Custom(delta) = delta {
        return Some(DataValue::Custom(Custom::new(Arc::clone(&delta.kind))));
    }
    DataValue::empty(delta.data_type())
}

/// About how many bytes an entry takes in a message.
pub(super) fn weight(entry: &DeltaEntry) -> usize {
    let deltas = entry.deltas.iter().map(delta_len);
    entry.key.as_str().len() + 32 + deltas.sum::<usize>()
}
