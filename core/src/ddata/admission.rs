//! What may become part of a value: the one door for everything that comes from a peer or from the store.
//! Refuses what is too much, of another type, forged or from the future; never changes anything then. Spec:
//! sharding 1.12; reliability I-65, I-68.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::durable::DurableWaiter;
use super::measure::envelope_len;
use super::protocol::{DdataBody, Event, Msg, Nack, Rejection};
use super::pruning::is_abandoned;
use super::state::key::Key;
use super::state::{DataEnvelope, Pruning};
use super::{Replicator, send, wall_ms};
use crate::ddata::Cx;
use crate::ddata::crdt::{DataType, MergeError};
use crate::ident::UniqueAddress;
use crate::reject;
use crate::time::Instant;

/// Nodes that one value may name: every member a cluster can have and as many that were removed and are not
/// pruned yet.
const CONTRIBUTORS_MAX: usize = 20_000;

/// Bytes that the markers of a value, its key and the message around it take at most in a frame.
const AROUND_VALUE_BYTES: usize = 64 << 10;

impl Rejection {
    /// What the sender of a write is told.
    pub(super) const fn as_nack(&self) -> Nack {
        match self {
            Self::WrongType {
                error: MergeError::TypeMismatch { held, .. },
                ..
            } => Nack::WrongType { held: *held },
            Self::WrongType { .. } => Nack::WrongType {
                held: DataType::Custom,
            },
            Self::Unmergeable { .. }
            | Self::TooLarge { .. }
            | Self::Full { .. }
            | Self::TooManyContributors { .. }
            | Self::StampAhead { .. }
            | Self::Forged { .. }
            | Self::TooManyStatuses
            | Self::OutOfRange { .. } => Nack::Limit,
        }
    }
}

impl Replicator {
    /// Merges what another replica holds, or, `from` nobody, the store. `Ok` says whether anything changed
    /// here.
    pub(super) fn merge_in(
        &mut self,
        cx: &mut Cx<'_>,
        from: Option<&UniqueAddress>,
        key: &Key,
        mut envelope: DataEnvelope,
        used: Instant,
    ) -> Result<bool, Rejection> {
        check_envelope(cx, key, &envelope)?;
        if let Some(from) = from {
            if let Some(data) = &envelope.data {
                self.check_versions(cx, from, data.highest_versions())?;
            }
            check_ends(cx, key, &envelope)?;
        }
        // How many changes this node has logged, nobody else knows better.
        if let Some(upto) = envelope.deltas.remove(cx.me())
            && self.log.last() > 0
        {
            envelope.deltas.insert(cx.me().clone(), upto.min(self.log.last()));
        }
        let view = Arc::clone(cx.view());
        let is_dead = |_: &UniqueAddress, owner: &UniqueAddress| is_abandoned(&view, owner);
        envelope.abandon_pruning(is_dead);
        let incoming = envelope_len(&envelope);
        let Some(entry) = self.entries.get(key) else {
            if !self.entries.has_room(
                key,
                incoming,
                cx.config().ddata.keys_max,
                cx.config().ddata.bytes_max,
            ) {
                return Err(Rejection::Full { key: key.clone() });
            }
            if incoming > merged_bytes_max(cx) {
                return Err(Rejection::TooLarge { key: key.clone() });
            }
            self.mint_above(cx, key, &envelope)?;
            envelope.add_seen(cx.me());
            self.changed(cx, key, envelope, incoming, used);
            return Ok(true);
        };
        let (bytes, held_used) = (entry.bytes, entry.used);
        if envelope.data.is_some() && entry.envelope.is_deleted() {
            return Ok(false);
        }
        self.mint_above(cx, key, &envelope)?;
        let mut held = self.entries.take(key).unwrap_or_else(DataEnvelope::deleted);
        // A value that may pass a limit is merged beside the one that is held, so that it can be left.
        let may_pass = bytes + incoming > merged_bytes_max(cx)
            || self.entries.bytes() + incoming > cx.config().ddata.bytes_max;
        let has_markers = !(held.pruning.is_empty() && envelope.pruning.is_empty())
            || held.settled_ms != envelope.settled_ms;
        let before = (may_pass || has_markers).then(|| held.clone());
        let marked = held.pruning.len();
        held.abandon_pruning(is_dead);
        let has_abandoned = held.pruning.len() < marked;
        let (settled_ms, markers) = (held.settled_ms, held.pruning.clone());
        let outcome = held.merge(envelope);
        let refuse = |replicator: &mut Self, held, rejection| {
            replicator.entries.put_back(key, held);
            Err(rejection)
        };
        let changed = match outcome {
            Ok(changed) => held.add_seen(cx.me()) || changed || has_abandoned,
            Err(error) => return refuse(self, before.unwrap_or(held), Rejection::merge(key, error)),
        };
        if let Some(entry) = self.entries.get_mut(key) {
            entry.flux.close_gap();
        }
        if !changed {
            self.entries.put_back(key, held);
            self.touch(key, used);
            return Ok(false);
        }
        let exact = envelope_len(&held);
        if let Some(before) = before {
            if exact > merged_bytes_max(cx) {
                return refuse(self, before, Rejection::TooLarge { key: key.clone() });
            }
            if self.entries.bytes() - bytes + exact > cx.config().ddata.bytes_max {
                return refuse(self, before, Rejection::Full { key: key.clone() });
            }
        }
        if held.settled_ms > settled_ms {
            let mut nodes: Vec<UniqueAddress> = markers.into_keys().collect();
            nodes.retain(|node| !held.pruning.contains_key(node));
            self.on_settled(cx, key, &mut held, nodes);
        }
        self.changed(cx, key, held, exact, used.max(held_used));
        Ok(true)
    }

    /// Puts a changed value in place and tells all that follow it.
    pub(super) fn changed(
        &mut self,
        cx: &mut Cx<'_>,
        key: &Key,
        envelope: DataEnvelope,
        bytes: usize,
        used: Instant,
    ) {
        if envelope.is_deleted() {
            self.log.forget(key);
            self.end_flux(key);
        }
        self.entries.replace(key, envelope, bytes, used);
        self.subscriptions.note(key);
        self.report_if_large(cx, key);
        if cx.config().ddata.is_durable(key) {
            self.durable.note(key, None);
        }
    }

    /// Later used elsewhere than was known.
    pub(super) fn touch(&mut self, key: &Key, used: Instant) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.used = entry.used.max(used);
        }
    }

    /// Whoever sent a write is answered once the store has it, at once if it need not.
    pub(super) fn confirm(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, operation: u64, key: &Key) {
        let waits = cx.config().ddata.is_durable(key) && cx.config().ddata.write_behind_interval.is_none();
        if waits {
            let waiter = DurableWaiter::Remote {
                node: from.clone(),
                operation,
            };
            self.durable.note(key, Some(waiter));
        } else {
            send(cx, from, DdataBody::WriteAck { operation });
        }
    }

    /// Counts and tells what a peer did wrong.
    pub(super) fn reject(cx: &mut Cx<'_>, from: &UniqueAddress, rejection: Rejection) {
        cx.counters().rejected += 1;
        cx.reject(from, reject::Rejection::Ddata(rejection));
    }

    /// Answers what waits for an answer although this node takes no part, so that the asker need not wait for
    /// nothing.
    pub(super) fn refuse(&self, cx: &mut Cx<'_>, from: &UniqueAddress, message: &Msg) {
        let is_member = cx.view().member(from).is_some();
        if let Some(operation) = message.body.awaited_write()
            && is_member
        {
            let reason = Nack::NotServing;
            send(cx, from, DdataBody::WriteNack { operation, reason });
        }
    }

    /// A value may name dots of this node that it never minted, as an earlier life of it or a liar made them.
    /// What it mints from here on is above them: others that hold them would take it for removed.
    fn mint_above(&mut self, cx: &mut Cx<'_>, key: &Key, envelope: &DataEnvelope) -> Result<(), Rejection> {
        let data = envelope.data.as_ref();
        let claimed = data.map_or(0, |data| data.highest_version_of(self.minting.me()));
        self.skip_to(cx, key, claimed)
    }

    /// The same of a version that a value or a change names.
    pub(super) fn skip_to(&mut self, cx: &mut Cx<'_>, key: &Key, claimed: u64) -> Result<(), Rejection> {
        let own = self.minting.minted();
        if claimed <= own {
            return Ok(());
        }
        if !self.minting.skip_to(claimed) {
            let key = key.clone();
            return Err(Rejection::Forged { key, claimed, own });
        }
        cx.counters().versions_skipped += 1;
        Ok(())
    }

    fn report_if_large(&mut self, cx: &mut Cx<'_>, key: &Key) {
        let from = cx.config().ddata.log_data_size_exceeding;
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        let bytes = entry.bytes;
        if bytes < entry.report_from.max(from) {
            return;
        }
        entry.report_from = bytes.saturating_mul(2);
        let key = key.clone();
        cx.notify(Event::LargeValue { key, bytes });
    }
}

/// Bytes that a value may reach by merging: what fits a frame. Two replicas that are both at the limit for
/// updates fit.
pub(super) fn merged_bytes_max(cx: &Cx<'_>) -> usize {
    let frame = cx.config().ddata_frame_bytes_max();
    frame
        .saturating_sub(AROUND_VALUE_BYTES)
        .max(cx.config().ddata.value_bytes_max)
}

fn check_envelope(cx: &Cx<'_>, key: &Key, envelope: &DataEnvelope) -> Result<(), Rejection> {
    let Some(data) = &envelope.data else {
        return Ok(());
    };
    let unmarked = data.nodes();
    let unmarked = unmarked
        .iter()
        .filter(|node| !envelope.pruning.contains_key(*node));
    let nodes = unmarked.count() + envelope.pruning.len() + envelope.deltas.len();
    if nodes > CONTRIBUTORS_MAX {
        let key = key.clone();
        return Err(Rejection::TooManyContributors { key, nodes });
    }
    let seen = |marker: &Pruning| match marker {
        Pruning::Initialized { seen, .. } => seen.len(),
        Pruning::Performed { .. } => 0,
    };
    let marked: usize = envelope.pruning.values().map(seen).sum();
    if marked > CONTRIBUTORS_MAX {
        let key = key.clone();
        return Err(Rejection::TooManyContributors { key, nodes: marked });
    }
    // A stamp from the future would win over every write to come (I-68).
    data.check_stamps(wall_ms(cx), skew_ms(cx))
        .map_err(|ahead| Rejection::stamp(key, ahead))
}

/// Ends of markers far ahead, in a value that a peer holds, would end those of all nodes that are removed
/// later.
fn check_ends(cx: &Cx<'_>, key: &Key, envelope: &DataEnvelope) -> Result<(), Rejection> {
    let settings = &cx.config().ddata;
    let life = settings
        .pruning_marker_time_to_live
        .max(settings.durable_pruning_marker_time_to_live);
    let life_ms = u64::try_from(life.as_millis()).unwrap_or(u64::MAX);
    let now = cx.now().unix_ms.saturating_add(skew_ms(cx).unsigned_abs());
    let ends = envelope.pruning.values().map(|marker| match marker {
        Pruning::Performed { obsolete_at_ms } => *obsolete_at_ms,
        Pruning::Initialized { .. } => 0,
    });
    let last = ends.max().unwrap_or(0).max(envelope.settled_ms);
    // Others may have markers live longer, and clocks that jumped.
    let ahead_ms = last.saturating_sub(now.saturating_add(life_ms.saturating_mul(2)));
    if ahead_ms > 0 {
        let key = key.clone();
        return Err(Rejection::StampAhead { key, ahead_ms });
    }
    Ok(())
}

/// How far ahead stamps may be.
pub(super) fn skew_ms(cx: &Cx<'_>) -> i64 {
    i64::try_from(cx.config().ddata.clock_skew_max.as_millis()).unwrap_or(i64::MAX)
}
