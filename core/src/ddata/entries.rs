//! The table of keys: values, their digests, their use and what they weigh. Keeps the limits on keys and
//! bytes. Never sends and never decides who may write. Spec: sharding 1.12; limits: reliability 3b.

use alloc::vec::Vec;
use core::hash::Hasher;
use core::ops::Bound;

use siphasher::sip128::{Hasher128, SipHasher13};

use super::in_flux::KeyFlux;
use super::state::key::Key;
use super::state::{DataEnvelope, Digest, Pruning};
use crate::bytes;
use crate::ordered::{Entry as Place, OrderedMap};
use crate::time::Instant;
use crate::wire::encode_data;

/// What a key costs beside its value, at least: its nodes in the tables, its cached digest.
const ENTRY_BYTES: usize = 200;

/// One key.
#[derive(Clone, Debug)]
pub(super) struct KeyEntry {
    pub(super) envelope: DataEnvelope,
    /// When it was used anywhere, by this node's clock.
    pub(super) used: Instant,
    /// At least the length of the encoded value. Exact when it was last looked at; what was added since was
    /// added to it.
    pub(super) bytes: usize,
    hash: u64,
    digest: Option<Digest>,
    pub(super) flux: KeyFlux,
    /// From this size on it is reported as large.
    pub(super) report_from: usize,
}

impl KeyEntry {
    pub(super) fn new(key: &Key, envelope: DataEnvelope, bytes: usize, used: Instant) -> Self {
        Self {
            envelope,
            used,
            bytes,
            hash: key.hash(),
            digest: None,
            flux: KeyFlux::default(),
            report_from: 0,
        }
    }

    pub(super) const fn hash(&self) -> u64 {
        self.hash
    }

    /// The digest of value and markers, computed once per change.
    pub(super) fn digest(&mut self) -> Digest {
        let envelope = &self.envelope;
        *self.digest.get_or_insert_with(|| digest_of(envelope))
    }
}

/// The digest of an envelope, without its delta versions: equal for equal values, whatever way they came
/// about.
pub(super) fn digest_of(envelope: &DataEnvelope) -> Digest {
    let Some(data) = &envelope.data else {
        return Digest::DELETED;
    };
    let mut out = Vec::new();
    // A value that was decoded or grew here within its limits can be written.
    let _ = encode_data(data, &mut out);
    put_markers(envelope, &mut out);
    let mut hasher = SipHasher13::new_with_keys(0x0064_6461_7461, 2);
    hasher.write(&out);
    let digest = hasher.finish128().as_u128();
    // No value may look like a deleted key, or like one that is not to be compared.
    Digest(digest.max(Digest::IN_FLUX.0 + 1))
}

fn put_markers(envelope: &DataEnvelope, out: &mut Vec<u8>) {
    out.extend_from_slice(&envelope.settled_ms.to_le_bytes());
    for (node, marker) in &envelope.pruning {
        // A node in a marker was decoded or is a member: it can be written.
        let _ = bytes::put_node(out, node);
        match marker {
            Pruning::Initialized { owner, seen } => {
                out.push(1);
                let _ = bytes::put_node(out, owner);
                for node in seen {
                    let _ = bytes::put_node(out, node);
                }
            }
            Pruning::Performed { obsolete_at_ms } => {
                out.push(2);
                out.extend_from_slice(&obsolete_at_ms.to_le_bytes());
            }
        }
    }
}

/// All keys.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyEntries {
    map: OrderedMap<Key, KeyEntry>,
    bytes: usize,
}

impl KeyEntries {
    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    /// Bytes of all values, with what keys cost beside them.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn get(&self, key: &Key) -> Option<&KeyEntry> {
        self.map.get(key)
    }

    /// An entry to look at or to compute its digest; changes go through [`Self::replace`].
    pub(super) fn get_mut(&mut self, key: &Key) -> Option<&mut KeyEntry> {
        self.map.get_mut(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Key, &KeyEntry)> {
        self.map.iter()
    }

    /// The first one from a key on.
    pub(super) fn next_mut(&mut self, from: Bound<&Key>) -> Option<(&Key, &mut KeyEntry)> {
        self.map.next_mut(from)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&Key, &mut KeyEntry)> {
        self.map.iter_mut()
    }

    /// Whether a key of so many bytes, of which `known` are held already, fits.
    pub(super) fn has_room(&self, key: &Key, bytes: usize, keys_max: usize, bytes_max: usize) -> bool {
        let held = self.map.get(key).map(|entry| entry.bytes);
        let is_new = held.is_none();
        let total = self.bytes + bytes + if is_new { cost(key) } else { 0 };
        (!is_new || self.map.len() < keys_max) && total.saturating_sub(held.unwrap_or(0)) <= bytes_max
    }

    /// Takes a value out to change it without a copy; it must be put back with [`Self::put_back`] or
    /// [`Self::replace`].
    pub(super) fn take(&mut self, key: &Key) -> Option<DataEnvelope> {
        let entry = self.map.get_mut(key)?;
        Some(core::mem::replace(&mut entry.envelope, DataEnvelope::deleted()))
    }

    /// Puts a value back that did not change.
    pub(super) fn put_back(&mut self, key: &Key, envelope: DataEnvelope) {
        if let Some(entry) = self.map.get_mut(key) {
            entry.envelope = envelope;
        }
    }

    /// Puts a value that changed in place.
    pub(super) fn replace(&mut self, key: &Key, envelope: DataEnvelope, bytes: usize, used: Instant) {
        match self.map.entry(key.clone()) {
            Place::Occupied(mut held) => {
                let entry = held.get_mut();
                self.bytes = self.bytes + bytes - entry.bytes;
                entry.envelope = envelope;
                entry.bytes = bytes;
                entry.digest = None;
                entry.used = entry.used.max(used);
            }
            Place::Vacant(place) => {
                self.bytes += bytes + cost(key);
                place.insert(KeyEntry::new(key, envelope, bytes, used));
            }
        }
    }

    pub(super) fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.map.remove(key) {
            self.bytes -= entry.bytes + cost(key);
        }
    }

    /// Whether the sums are what the entries add up to. Linear.
    pub(super) fn is_consistent(&self) -> bool {
        let sum: usize = self.map.iter().map(|(key, entry)| entry.bytes + cost(key)).sum();
        sum == self.bytes
    }
}

fn cost(key: &Key) -> usize {
    ENTRY_BYTES + key.as_str().len()
}
