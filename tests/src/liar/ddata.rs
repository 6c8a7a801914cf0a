//! What replicators say. Of the keys that others count on it says no value: every member may write what it
//! likes into every key, so that its values stand under names of their own. Spec: sharding 2.3,
//! `docs/WIRE.md` 4.6.

use quorate_core::ddata::crdt::DataType;
use quorate_core::ddata::protocol::{CarriedValue, DdataBody, DeltaEntry, KeyDigest, Msg, Nack};
use quorate_core::ddata::state::key::Key;
use quorate_core::ddata::state::{DataEnvelope, Digest, Pruning};
use quorate_core::message::Message;

use super::numbers::{CHUNK, CHUNKS, DELTA, DIGEST, OPERATION, SETTLED, STAMP};
use super::{Lie, values};

/// Keys of its own values.
const KEYS: u64 = 32;

/// See [`super::Kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names of the messages")]
pub enum Kind {
    Read,
    ReadResult,
    Write,
    WriteAck,
    WriteNack,
    Repair,
    Status,
    Request,
    Gossip,
    Deltas,
}

impl Kind {
    pub(super) const ALL: [Self; 10] = [
        Self::Read,
        Self::ReadResult,
        Self::Write,
        Self::WriteAck,
        Self::WriteNack,
        Self::Repair,
        Self::Status,
        Self::Request,
        Self::Gossip,
        Self::Deltas,
    ];

    pub(super) const fn of(body: &DdataBody) -> Self {
        match body {
            DdataBody::Read { .. } => Self::Read,
            DdataBody::ReadResult { .. } => Self::ReadResult,
            DdataBody::Write { .. } => Self::Write,
            DdataBody::WriteAck { .. } => Self::WriteAck,
            DdataBody::WriteNack { .. } => Self::WriteNack,
            DdataBody::Repair { .. } => Self::Repair,
            DdataBody::Status { .. } => Self::Status,
            DdataBody::Request { .. } => Self::Request,
            DdataBody::Gossip { .. } => Self::Gossip,
            DdataBody::Deltas { .. } => Self::Deltas,
        }
    }
}

pub(super) fn say(kind: Kind, lie: &mut Lie<'_>) -> Message {
    let body = match kind {
        Kind::Read => DdataBody::Read {
            operation: lie.number(OPERATION),
            key: any_key(lie),
        },
        Kind::ReadResult => DdataBody::ReadResult {
            operation: lie.number(OPERATION),
            // A value would be one of a key that others count on.
            envelope: None,
        },
        Kind::Write => {
            let (key, envelope) = carried(lie);
            DdataBody::Write {
                operation: lie.number(OPERATION),
                key,
                envelope,
            }
        }
        Kind::WriteAck => DdataBody::WriteAck {
            operation: lie.number(OPERATION),
        },
        Kind::WriteNack => {
            let reasons = [
                Nack::Gap,
                Nack::WrongType {
                    held: DataType::OrSet,
                },
                Nack::Store,
                Nack::Limit,
                Nack::NotServing,
            ];
            DdataBody::WriteNack {
                operation: lie.number(OPERATION),
                reason: lie.one(&reasons).unwrap_or(Nack::Gap),
            }
        }
        Kind::Repair => {
            let (key, envelope) = carried(lie);
            DdataBody::Repair { key, envelope }
        }
        Kind::Status => DdataBody::Status {
            chunk: lie.number_u32(CHUNK),
            total: lie.number_u32(CHUNKS),
            digests: lie.few(digested),
        },
        Kind::Request => DdataBody::Request {
            keys: lie.few(any_key),
        },
        Kind::Gossip => DdataBody::Gossip {
            send_back: lie.flag(),
            entries: lie.few(|lie| {
                let (key, envelope) = carried(lie);
                let idle_ms = idle(lie);
                CarriedValue {
                    key,
                    envelope,
                    idle_ms,
                }
            }),
        },
        Kind::Deltas => {
            let operation = lie.flag().then(|| lie.number(OPERATION));
            let entries = lie.few(deltas);
            let most = if operation.is_some() { 1 } else { entries.len() };
            let entries = entries.into_iter().take(most).collect();
            DdataBody::Deltas { operation, entries }
        }
    };
    Message::Ddata(Msg {
        to_uid: lie.to.uid(),
        body,
        weight: 0,
    })
}

fn key(name: &str) -> Key {
    Key::new(name).expect("invariant: a short name is legal")
}

/// A key of its own, with the type of the values that stand there.
fn own_key(lie: &mut Lie<'_>) -> (Key, u64) {
    let number = lie.chance.below(KEYS);
    (key(&format!("lie-{number}")), number)
}

fn any_key(lie: &mut Lie<'_>) -> Key {
    match lie.one(&lie.known.keys) {
        Some(name) if lie.flag() => key(&name),
        _ => own_key(lie).0,
    }
}

fn idle(lie: &mut Lie<'_>) -> Option<u64> {
    lie.flag().then(|| lie.number(STAMP))
}

fn digested(lie: &mut Lie<'_>) -> KeyDigest {
    // Not that of a deleted key, which is a value.
    let digest = u128::from(lie.number(DIGEST)) << 64 | u128::from(lie.number(DIGEST));
    KeyDigest {
        key: any_key(lie),
        digest: Digest(digest.max(1)),
        idle_ms: idle(lie),
    }
}

fn carried(lie: &mut Lie<'_>) -> (Key, DataEnvelope) {
    let (key, number) = own_key(lie);
    let mut envelope = DataEnvelope::new(values::data(number, lie));
    envelope.settled_ms = lie.number(SETTLED);
    if lie.flag() {
        let node = lie.node();
        let upto = lie.number(DELTA);
        envelope.deltas.insert(node, upto);
    }
    if lie.chance.per_mille(200) {
        let node = lie.node();
        let obsolete_at_ms = lie.number(STAMP);
        envelope
            .pruning
            .insert(node, Pruning::Performed { obsolete_at_ms });
    }
    (key, envelope)
}

fn deltas(lie: &mut Lie<'_>) -> DeltaEntry {
    let (key, number) = own_key(lie);
    DeltaEntry {
        key,
        after: lie.number(DELTA),
        upto: lie.number(DELTA),
        settled_ms: lie.number(SETTLED),
        deltas: lie.few(|lie| values::delta(number, lie)),
    }
}
