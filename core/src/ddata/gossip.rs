//! Comparing with others by digests, and exchanging what differs. Decides what is sent; what becomes of it is
//! decided by the merge. Frames stay small, so that none holds up another. Spec: sharding 1.12 (full-state
//! gossip).

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::entries::KeyEntry;
use super::protocol::{CarriedValue, DdataBody, KeyDigest, MESSAGE_BYTES, Rejection};
use super::replicas::Replicas;
use super::slices::{CHUNKS_PER_TICK_MAX, Chunks, chunk_of};
use super::state::Digest;
use super::state::key::Key;
use super::{Replicator, send_weighed};
use crate::ddata::Cx;
use crate::ident::UniqueAddress;
use crate::ordered::OrderedSet;
use crate::rng;
use crate::time::Instant;

/// Bytes of a key and its digest beside the key's text.
const DIGESTED_BYTES: usize = 32;

/// A chunk holds about as many keys as it is meant to, and up to twice that while they become more; so much
/// is sent of what a peer lacks of one.
const KEYS_PER_CHUNK_FACTOR: usize = 2;

/// Statuses that a peer may send between two ticks of this node: a tick's chunks, twice, because ticks of two
/// nodes drift, and the chunks of a node with half the interval.
const STATUSES_PER_TICK_MAX: u32 = 4 * CHUNKS_PER_TICK_MAX as u32;

/// Chunks that a peer may divide its keys into: as many keys as one may hold, one by one.
const CHUNKS_MAX: u32 = 1_000_000;

impl Replicator {
    pub(super) fn on_gossip_tick(&mut self, cx: &mut Cx<'_>) {
        self.statuses.clear();
        self.durable.retry();
        self.expire(cx);
        let view = Arc::clone(cx.view());
        let peers = Replicas::new(&view, &cx.config().ddata).reachable();
        if peers.is_empty() {
            return;
        }
        let peer = &peers[rng::below(cx.rng(), peers.len())];
        self.send_statuses(cx, peer);
    }

    /// Sends the digests of the next chunks.
    fn send_statuses(&mut self, cx: &mut Cx<'_>, peer: &UniqueAddress) {
        let per_chunk = cx.config().ddata.max_delta_elements;
        let Chunks { first, count, total } = self.rounds.advance(self.entries.len(), per_chunk);
        let mut chunks: Vec<Vec<KeyDigest>> = alloc::vec![Vec::new(); count];
        let now = cx.mono();
        for (key, entry) in self.entries.iter_mut() {
            let place = (chunk_of(entry.hash(), total) + total - first) % total;
            if let Some(chunk) = chunks.get_mut(place) {
                chunk.push(KeyDigest {
                    key: key.clone(),
                    digest: if entry.flux.passes_over(now) {
                        Digest::IN_FLUX
                    } else {
                        entry.digest()
                    },
                    idle_ms: idle_ms(cx, key, entry, now),
                });
            }
        }
        for (place, digests) in chunks.into_iter().enumerate() {
            cx.counters().statuses_sent += 1;
            let keys = digests
                .iter()
                .map(|digested| digested.key.as_str().len() + DIGESTED_BYTES);
            let weight = keys.sum::<usize>() + DIGESTED_BYTES;
            let body = DdataBody::Status {
                chunk: u32::try_from((first + place) % total).unwrap_or(u32::MAX),
                total: u32::try_from(total).unwrap_or(u32::MAX),
                digests,
            };
            send_weighed(cx, peer, body, weight);
        }
    }

    /// Sends what differs and what the peer lacks, asks for what is lacking here.
    pub(super) fn on_status(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        chunk: u32,
        total: u32,
        digests: Vec<KeyDigest>,
    ) {
        if let Err(rejection) = self.check_status(cx, from, chunk, total, &digests) {
            return Self::reject(cx, from, rejection);
        }
        let (chunk, total) = (chunk as usize, total as usize);
        let now = cx.mono();
        let (mut differing, mut lacking) = (Vec::new(), Vec::new());
        for digested in &digests {
            let Some(entry) = self.entries.get_mut(&digested.key) else {
                let expired = expires_now(cx, &digested.key, digested.idle_ms);
                if !expired {
                    lacking.push(digested.key.clone());
                }
                continue;
            };
            if let Some(idle) = digested.idle_ms {
                entry.used = entry.used.max(now - Duration::from_millis(idle));
            }
            if digested.digest == Digest::IN_FLUX {
                // What it is about comes as deltas, unless those are of no use here.
                if entry.flux.has_gap() {
                    lacking.push(digested.key.clone());
                }
            } else if !entry.flux.passes_over(now) && entry.digest() != digested.digest {
                differing.push(digested.key.clone());
            }
        }
        let known: OrderedSet<&Key> = digests.iter().map(|digested| &digested.key).collect();
        let in_chunk = |entry: &KeyEntry| chunk_of(entry.hash(), total) == chunk;
        let unknown_there = self
            .entries
            .iter()
            .filter(|(key, entry)| in_chunk(entry) && !known.contains(key))
            .map(|(key, _)| key.clone());
        let keys_max = keys_per_chunk(cx);
        let news: Vec<Key> = unknown_there.take(keys_max).collect();
        self.send_values(cx, from, true, differing);
        self.send_values(cx, from, false, news);
        for keys in split(lacking, |key| key.as_str().len() + 1) {
            send_weighed(cx, from, DdataBody::Request { keys }, MESSAGE_BYTES);
        }
    }

    fn check_status(
        &mut self,
        cx: &Cx<'_>,
        from: &UniqueAddress,
        chunk: u32,
        total: u32,
        digests: &[KeyDigest],
    ) -> Result<(), Rejection> {
        let heard = self.statuses.entry(from.clone()).or_default();
        *heard = heard.saturating_add(1);
        if *heard > STATUSES_PER_TICK_MAX {
            return Err(Rejection::TooManyStatuses);
        }
        if chunk >= total || total > CHUNKS_MAX {
            return Err(Rejection::OutOfRange { what: "chunk" });
        }
        // Hashes do not fill chunks evenly; an honest chunk is never so far from the mean.
        if digests.len() > 2 * keys_per_chunk(cx) {
            return Err(Rejection::OutOfRange {
                what: "digests of a chunk",
            });
        }
        Ok(())
    }

    pub(super) fn on_request(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, keys: Vec<Key>) {
        if keys.len() > 2 * keys_per_chunk(cx) {
            return Self::reject(cx, from, Rejection::OutOfRange { what: "keys" });
        }
        self.send_values(cx, from, false, keys);
    }

    pub(super) fn on_gossip(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        send_back: bool,
        entries: Vec<CarriedValue>,
    ) {
        if entries.len() > 2 * keys_per_chunk(cx) {
            return Self::reject(cx, from, Rejection::OutOfRange { what: "values" });
        }
        cx.counters().gossips_received += 1;
        let mut answer = Vec::new();
        for CarriedValue {
            key,
            envelope,
            idle_ms,
        } in entries
        {
            let used = idle_ms.map_or(cx.mono(), |idle| cx.mono() - Duration::from_millis(idle));
            let was_held = self.entries.get(&key).is_some();
            if !was_held && expires_now(cx, &key, idle_ms) {
                // Forgotten here a moment ago; it would only come and go between nodes whose ticks differ.
                continue;
            }
            let theirs = send_back.then(|| super::entries::digest_of(&envelope));
            match self.merge_in(cx, Some(from), &key, envelope, used) {
                Ok(_) => {}
                Err(rejection) => Self::reject(cx, from, rejection),
            }
            let mine = self.entries.get_mut(&key).map(KeyEntry::digest);
            if send_back && was_held && mine != theirs {
                answer.push(key);
            }
        }
        self.send_values(cx, from, false, answer);
    }

    /// Sends values in messages of a bounded size.
    fn send_values(&mut self, cx: &mut Cx<'_>, to: &UniqueAddress, send_back: bool, keys: Vec<Key>) {
        let mut entries = Vec::new();
        let mut bytes = 0;
        for key in keys {
            let Some(entry) = self.entries.get(&key) else {
                continue;
            };
            let weight = entry.bytes + key.as_str().len() + DIGESTED_BYTES;
            if bytes + weight > MESSAGE_BYTES && !entries.is_empty() {
                cx.counters().gossips_sent += 1;
                let entries = core::mem::take(&mut entries);
                send_weighed(cx, to, DdataBody::Gossip { send_back, entries }, bytes);
                bytes = 0;
            }
            bytes += weight;
            let idle_ms = idle_ms(cx, &key, entry, cx.mono());
            let envelope = entry.envelope.clone();
            entries.push(CarriedValue {
                key,
                envelope,
                idle_ms,
            });
        }
        if !entries.is_empty() {
            cx.counters().gossips_sent += 1;
            send_weighed(cx, to, DdataBody::Gossip { send_back, entries }, bytes);
        }
    }
}

/// Parts of a list that are no heavier than a message, in order.
pub(super) fn split<T>(list: Vec<T>, weight: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let mut parts: Vec<Vec<T>> = Vec::new();
    let mut bytes = usize::MAX;
    for item in list {
        let more = weight(&item);
        match parts.last_mut() {
            Some(part) if bytes.saturating_add(more) <= MESSAGE_BYTES => {
                bytes += more;
                part.push(item);
            }
            Some(_) | None => {
                bytes = more;
                parts.push(alloc::vec![item]);
            }
        }
    }
    parts
}

fn keys_per_chunk(cx: &Cx<'_>) -> usize {
    KEYS_PER_CHUNK_FACTOR * cx.config().ddata.max_delta_elements
}

/// How long an expiring key has not been used.
fn idle_ms(cx: &Cx<'_>, key: &Key, entry: &KeyEntry, now: Instant) -> Option<u64> {
    cx.config().ddata.expires_after(key)?;
    let idle = now.since(entry.used);
    Some(u64::try_from(idle.as_millis()).unwrap_or(u64::MAX))
}

/// Whether a key that another replica still holds would be forgotten here at once.
fn expires_now(cx: &Cx<'_>, key: &Key, idle_ms: Option<u64>) -> bool {
    let after = cx.config().ddata.expires_after(key);
    match (after, idle_ms) {
        (Some(after), Some(idle)) => Duration::from_millis(idle) >= after,
        (Some(_), None) | (None, _) => false,
    }
}
