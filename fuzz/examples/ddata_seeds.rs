//! Writes the first inputs of the target `ddata`: every message that replicators send, around the values and
//! deltas that the seeds of `crdt` are made of. Run `crdt_seeds` first.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use quorate_core::config::Limits;
use quorate_core::ddata::crdt::{CustomTypes, DataDelta, DataValue};
use quorate_core::ddata::protocol::{CarriedValue, DdataBody, DeltaEntry, KeyDigest, Msg, Nack};
use quorate_core::ddata::state::key::Key;
use quorate_core::ddata::state::{DataEnvelope, Digest, Pruning};
use quorate_core::ident::{Address, UniqueAddress};
use quorate_core::message::Message;
use quorate_core::ordered::OrderedSet;
use quorate_core::wire::{DataLimits, HEADER_BYTES, decode_data, decode_delta, encode_message};

fn key(name: &str) -> Key {
    Key::new(name).expect("a legal key")
}

fn node(uid: u64) -> UniqueAddress {
    UniqueAddress::new(Address::new("n", 2551).expect("a legal address"), uid)
}

fn marked(data: DataValue) -> DataEnvelope {
    let begun = Pruning::Initialized {
        owner: node(1),
        seen: OrderedSet::from([node(2), node(3)]),
    };
    let done = Pruning::Performed {
        obsolete_at_ms: 1_700_000_000_000,
    };
    DataEnvelope {
        data: Some(Arc::new(data)),
        pruning: BTreeMap::from([(node(8), begun), (node(9), done)]),
        settled_ms: 1_600_000_000_000,
        deltas: BTreeMap::from([(node(1), 7)]),
    }
}

fn small() -> Vec<DdataBody> {
    let digested = |digest, idle_ms| KeyDigest {
        key: key("k"),
        digest: Digest(digest),
        idle_ms,
    };
    vec![
        DdataBody::Read {
            operation: 1,
            key: key("k"),
        },
        DdataBody::ReadResult {
            operation: 1,
            envelope: None,
        },
        DdataBody::Write {
            operation: 2,
            key: key("k"),
            envelope: DataEnvelope::deleted(),
        },
        DdataBody::WriteAck { operation: 2 },
        DdataBody::WriteNack {
            operation: 3,
            reason: Nack::Gap,
        },
        DdataBody::Status {
            chunk: 1,
            total: 2,
            digests: vec![digested(1, None), digested(u128::MAX, Some(5))],
        },
        DdataBody::Request {
            keys: vec![key("a"), key("b")],
        },
    ]
}

fn around(data: DataValue) -> Vec<DdataBody> {
    let carried = |idle_ms| CarriedValue {
        key: key("k"),
        envelope: marked(data.clone()),
        idle_ms,
    };
    vec![
        DdataBody::Repair {
            key: key("k"),
            envelope: marked(data.clone()),
        },
        DdataBody::Gossip {
            send_back: true,
            entries: vec![carried(None), carried(Some(9))],
        },
    ]
}

fn changes(delta: DataDelta) -> DdataBody {
    let entry = DeltaEntry {
        key: key("k"),
        after: 1,
        upto: 3,
        settled_ms: 0,
        deltas: vec![delta.clone(), delta],
    };
    DdataBody::Deltas {
        operation: Some(4),
        entries: vec![entry],
    }
}

fn main() -> io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let limits = DataLimits::default();
    let types = CustomTypes::new();
    let mut bodies = small();
    for entry in fs::read_dir(corpus.join("crdt"))? {
        let input = fs::read(entry?.path())?;
        match input.split_first() {
            Some((0, rest)) => bodies.extend(
                decode_data(rest, &limits, &types)
                    .ok()
                    .into_iter()
                    .flat_map(around),
            ),
            Some((1, rest)) => bodies.extend(decode_delta(rest, &limits, &types).ok().map(changes)),
            Some(_) | None => {}
        }
    }
    let folder = corpus.join("ddata");
    fs::create_dir_all(&folder)?;
    for (number, body) in bodies.into_iter().enumerate() {
        let mut frame = Vec::new();
        let msg = Msg {
            to_uid: 7,
            body,
            weight: 0,
        };
        encode_message(&Message::Ddata(msg), 0, &Limits::default(), &mut frame).expect("it fits");
        fs::write(folder.join(format!("seed-{number:03}")), &frame[HEADER_BYTES..])?;
    }
    Ok(())
}
