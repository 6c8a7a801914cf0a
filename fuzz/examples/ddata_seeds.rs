//! Writes the first inputs of the target `ddata`: every message that replicators send, around the values and
//! deltas that the seeds of `crdt` are made of. Run `crdt_seeds` first.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use quorate_core::config::Limits;
use quorate_core::ddata::crdt::{CustomTypes, Data, Delta};
use quorate_core::ddata::protocol::{Body, Carried, DeltaEntry, Digested, Msg, Nack};
use quorate_core::ddata::state::key::Key;
use quorate_core::ddata::state::{Digest, Envelope, Pruning};
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

fn marked(data: Data) -> Envelope {
    let begun = Pruning::Initialized {
        owner: node(1),
        seen: OrderedSet::from([node(2), node(3)]),
    };
    let done = Pruning::Performed {
        obsolete_at_ms: 1_700_000_000_000,
    };
    Envelope {
        data: Some(Arc::new(data)),
        pruning: BTreeMap::from([(node(8), begun), (node(9), done)]),
        settled_ms: 1_600_000_000_000,
        deltas: BTreeMap::from([(node(1), 7)]),
    }
}

fn small() -> Vec<Body> {
    let digested = |digest, idle_ms| Digested {
        key: key("k"),
        digest: Digest(digest),
        idle_ms,
    };
    vec![
        Body::Read {
            operation: 1,
            key: key("k"),
        },
        Body::ReadResult {
            operation: 1,
            envelope: None,
        },
        Body::Write {
            operation: 2,
            key: key("k"),
            envelope: Envelope::deleted(),
        },
        Body::WriteAck { operation: 2 },
        Body::WriteNack {
            operation: 3,
            reason: Nack::Gap,
        },
        Body::Status {
            chunk: 1,
            total: 2,
            digests: vec![digested(1, None), digested(u128::MAX, Some(5))],
        },
        Body::Request {
            keys: vec![key("a"), key("b")],
        },
    ]
}

fn around(data: Data) -> Vec<Body> {
    let carried = |idle_ms| Carried {
        key: key("k"),
        envelope: marked(data.clone()),
        idle_ms,
    };
    vec![
        Body::Repair {
            key: key("k"),
            envelope: marked(data.clone()),
        },
        Body::Gossip {
            send_back: true,
            entries: vec![carried(None), carried(Some(9))],
        },
    ]
}

fn changes(delta: Delta) -> Body {
    let entry = DeltaEntry {
        key: key("k"),
        after: 1,
        upto: 3,
        settled_ms: 0,
        deltas: vec![delta.clone(), delta],
    };
    Body::Deltas {
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
