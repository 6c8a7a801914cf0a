//! What a decoder may allocate, measured by a counting allocator. A claim in a body never costs memory by
//! itself; a legal body costs a bounded multiple of its bytes. Spec: reliability 3b.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use quorate_core::config::Limits;
use quorate_core::ddata::crdt::{
    DataOp, DataType, DataValue, Element, GSetOp, LwwClock, LwwMapOp, Minting, OrMapOp, ValueType,
};
use quorate_core::ddata::protocol::{CarriedValue, DdataBody, DeltaEntry, Msg};
use quorate_core::ddata::state::key::Key;
use quorate_core::ddata::state::{DataEnvelope, Pruning};
use quorate_core::ident::{Address, Role, Roles, UniqueAddress};
use quorate_core::membership::app_version::AppVersion;
use quorate_core::membership::gossip::{Gossip, GossipParts};
use quorate_core::membership::member::Member;
use quorate_core::membership::merge::merge;
use quorate_core::membership::reachability::Reachability;
use quorate_core::membership::vector_clock::{ClockOrder, VectorClock};
use quorate_core::message::{DdataMsg, GossipEnvelope, Lane, MembershipMsg, Message, ShardingMsg};
use quorate_core::ordered::OrderedSet;
use quorate_core::wire::{HEADER_BYTES, decode_message, encode_message, kind};
use quorate_fuzz::counting::allocated;

fn state_body(claims: [u16; 9], paths: u32, records: u32) -> Vec<u8> {
    let mut body = vec![1, b'r', 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];
    claims.iter().for_each(|claim| body.extend(claim.to_le_bytes()));
    body.extend(paths.to_le_bytes());
    body.extend(records.to_le_bytes());
    body
}

/// A state of nothing but a table of paths, which claims so many nodes.
fn state_with_table(nodes: u16) -> Vec<u8> {
    let mut table = [&1_u64.to_le_bytes()[..], &[0; 8], &nodes.to_le_bytes()].concat();
    table.resize(64, 0);
    let paths = u32::try_from(table.len()).expect("short");
    [state_body([0; 9], paths, 0), table].concat()
}

#[test]
fn claims_without_bytes_allocate_next_to_nothing() {
    let limits = Limits::default();
    let bodies = [
        (
            MembershipMsg::GOSSIP.kind,
            Lane::Gossip,
            state_body([10_000; 9], 256 << 10, 160_000),
        ),
        (
            MembershipMsg::GOSSIP.kind,
            Lane::Gossip,
            state_body([0, 0, 0, 0, 10_000, 0, 10_000, 10_000, 4096], 0, 160_000),
        ),
        (
            MembershipMsg::GOSSIP.kind,
            Lane::Gossip,
            state_with_table(u16::MAX),
        ),
        (MembershipMsg::GOSSIP.kind, Lane::Gossip, state_with_table(0)),
        (
            MembershipMsg::GOSSIP_STATUS.kind,
            Lane::Gossip,
            [
                &state_body([0; 9], 0, 0)[..12],
                &[0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0x27, 0x10, 0x27],
            ]
            .concat(),
        ),
        (
            ShardingMsg::SHARDING.kind,
            Lane::Control,
            [&[0; 8][..], &[1, 0, 64, 0, 0, 0, 0xFF, 0xFF, 0, 0]].concat(),
        ),
        (
            MembershipMsg::JOIN.kind,
            Lane::Control,
            [&state_body([0; 9], 0, 0)[..12], &[1, b'1', 32]].concat(),
        ),
    ];
    for (kind, lane, body) in bodies {
        let (bytes, _, decoded) = allocated(|| decode_message(kind, lane, &body, &limits));
        assert!(decoded.is_err());
        assert!(
            bytes <= 1_024,
            "{bytes} bytes for a body of {} of kind {kind}: {decoded:?}",
            body.len()
        );
    }
}

#[test]
fn a_bomb_allocates_nothing_and_a_stream_that_goes_on_only_what_it_may() {
    let limits = Limits::default();
    let mut body = state_body([0; 9], 0, 0)[..12].to_vec();
    body.push(1);
    body.extend(u32::MAX.to_le_bytes());
    body.resize(300_000, 0);
    let (bytes, _, decoded) =
        allocated(|| decode_message(MembershipMsg::GOSSIP.kind, Lane::Gossip, &body, &limits));
    assert!(decoded.is_err() && bytes < 1_024, "{bytes}");
    body[13..17].copy_from_slice(&(4_u32 << 20).to_le_bytes());
    let (bytes, _, decoded) =
        allocated(|| decode_message(MembershipMsg::GOSSIP.kind, Lane::Gossip, &body, &limits));
    assert!(
        decoded.is_err() && bytes < limits.decompressed_bytes_max + (64 << 10),
        "{bytes}"
    );
}

/// What the records of a short message cost beyond the multiple: a joiner with many roles of one letter each,
/// a few kinds with a role.
const FEW_RECORDS: usize = 128;

#[test]
fn every_message_of_the_corpus_costs_a_bounded_multiple_of_its_bytes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/frame_header");
    let mut decoded = 0;
    for entry in fs::read_dir(corpus).expect("a corpus") {
        let path = entry.expect("an entry").path();
        let frame = fs::read(path).expect("a readable input");
        let Some((head, body)) = frame.split_first_chunk::<HEADER_BYTES>() else {
            continue;
        };
        let kind = u16::from_le_bytes([head[4], head[5]]);
        let Some(lane) = kind::lane_of(kind) else { continue };
        let (bytes, calls, message) = allocated(|| decode_message(kind, lane, body, &Limits::default()));
        let Ok(message) = message else { continue };
        decoded += 1;
        if let Message::Sharding(ShardingMsg::Entity(envelope)) = &message {
            // The id and the payload once each, the asker's host, and whose handlers wait.
            let chain = envelope.ask.as_ref().map(|ask| &ask.chain);
            let names = chain.map_or(0, |chain| chain.names().len());
            let of_a_clock = chain.is_some_and(|chain| chain.is_of_a_clock());
            let allowed = 3 + usize::from(names > 0 || of_a_clock);
            assert!(calls <= allowed, "{calls} allocations for an entity's message");
            let words = envelope.payload.len() + envelope.entity.as_bytes().len() + 8 * names;
            assert!(bytes <= 128 + words);
        }
        let mut again = Vec::new();
        encode_message(&message, 0, &Limits::default(), &mut again).expect("it was decoded");
        println!(
            "kind {kind}: {} body bytes, {bytes} held in {calls} calls",
            body.len()
        );
        // A compressed state pays for its inflater, its inflated bytes (here at most 4 times) and the state
        // itself.
        let state = matches!(message, Message::Membership(MembershipMsg::Gossip(_))) && body.len() > 1_000;
        let bound = if state {
            4 * 8 * body.len() + (16 << 10)
        } else {
            8 * body.len() + FEW_RECORDS
        };
        assert!(bytes <= bound, "kind {kind}: {bytes} for {}", body.len());
    }
    assert!(decoded >= 15, "{decoded}");
}

/// Bytes held while a body of a message between replicators is read, and what came of it.
fn read_ddata(body: &[u8]) -> (usize, Option<Message>) {
    let (kind, lane) = (DdataMsg::DDATA.kind, DdataMsg::DDATA.lane);
    let (bytes, _, message) = allocated(|| decode_message(kind, lane, body, &Limits::default()));
    (bytes, message.ok())
}

/// A tree's node has room for eleven entries, however few there are: a value of one short element with one
/// marker takes this many times what it is written as.
const DDATA_TIMES: usize = 32;

#[test]
fn every_message_of_replicators_costs_a_bounded_multiple_of_its_bytes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/ddata");
    let mut decoded = 0;
    for entry in fs::read_dir(corpus).expect("a corpus") {
        let body = fs::read(entry.expect("an entry").path()).expect("a readable input");
        let (bytes, message) = read_ddata(&body);
        decoded += usize::from(message.is_some());
        assert!(
            bytes <= DDATA_TIMES * body.len() + 1_024,
            "{bytes} for {}",
            body.len()
        );
    }
    assert!(decoded >= 50, "{decoded}");
}

/// The largest message of a liar of each kind that is costly to hold: many small values, one value of small
/// values, markers and changes.
fn heavy_messages() -> Vec<(&'static str, DdataBody)> {
    let key = |number: usize| Key::new(&format!("{number:x}")).expect("a legal key");
    let carried = |number: usize, envelope| CarriedValue {
        key: key(number),
        envelope,
        idle_ms: None,
    };
    let gossip = |entries| DdataBody::Gossip {
        send_back: false,
        entries,
    };
    let element = |number: usize| -> Element { Arc::from(format!("{number:x}").as_bytes()) };
    let mut minting = Minting::new(node("a"));
    let mut with = |op: DataOp, data_type: DataType| {
        let mut data = DataValue::empty(data_type).expect("built in");
        let applied = data.apply(&op, &mut minting).expect("a legal operation");
        (data, applied.into_delta().expect("a delta"))
    };
    let marker = || Pruning::Initialized {
        owner: node("a"),
        seen: OrderedSet::from([node("a")]),
    };
    let mut small = DataEnvelope::new(with(DataOp::GSet(GSetOp::Add(element(0))), DataType::GSet).0);
    small.pruning = BTreeMap::from([(node("b"), marker())]);
    small.deltas = BTreeMap::from([(node("c"), 1)]);
    let mut marked = DataEnvelope::new(DataValue::empty(DataType::Flag).expect("built in"));
    marked.pruning = (0..60_000)
        .map(|at| (node(&format!("{at:x}")), marker()))
        .collect();
    let put = LwwMapOp::Put {
        key: element(0),
        value: element(0),
        clock: LwwClock::Forward,
    };
    let entry = DeltaEntry {
        key: key(0),
        after: 0,
        upto: 1,
        settled_ms: 0,
        deltas: vec![with(DataOp::LwwMap(put), DataType::LwwMap).1; 10_000],
    };
    let mut nested = DataValue::empty(DataType::OrMap(ValueType::GSet)).expect("built in");
    for number in 0..160_000 {
        let op = Box::new(DataOp::GSet(GSetOp::Add(element(0))));
        let update = DataOp::OrMap(OrMapOp::Update {
            key: element(number),
            op,
        });
        nested.apply(&update, &mut minting).expect("a legal operation");
    }
    vec![
        (
            "many values",
            gossip((0..2_500).map(|at| carried(at, small.clone())).collect()),
        ),
        ("markers", gossip(vec![carried(0, marked)])),
        (
            "changes",
            DdataBody::Deltas {
                operation: None,
                entries: vec![entry],
            },
        ),
        (
            "a map of sets",
            gossip(vec![carried(0, DataEnvelope::new(nested))]),
        ),
    ]
}

#[test]
fn the_heaviest_message_of_a_lying_replicator_takes_at_most_twenty_four_times_a_frame() {
    for (name, body) in heavy_messages() {
        let mut frame = Vec::new();
        let msg = Msg {
            to_uid: 7,
            body,
            weight: 0,
        };
        encode_message(&Message::Ddata(msg), 0, &Limits::default(), &mut frame).expect("it fits");
        let body = &frame[HEADER_BYTES..];
        let (bytes, message) = read_ddata(body);
        println!("{name}: {} bytes, {bytes} held", body.len());
        assert!(message.is_some(), "{name}: as much as is read at all");
        assert!(
            bytes <= DDATA_TIMES * body.len(),
            "{name}: {bytes} for {}",
            body.len()
        );
        assert!(
            bytes <= 24 * Limits::default().bulk_frame_bytes_max,
            "{name}: {bytes}"
        );
    }
}

fn node(host: &str) -> UniqueAddress {
    UniqueAddress::new(Address::new(host, 1).expect("a legal host"), 1)
}

/// Short names and many of them: the states that grow most in memory.
fn dense_states() -> [(&'static str, Gossip); 3] {
    let member = |at: usize, roles| Member::joining(node(&format!("{at:x}")), roles, AppVersion::default());
    let state = |mut members: Vec<Member>, removed: usize| {
        members.sort_by(|a, b| a.node.cmp(&b.node));
        let tombstones = (0..removed).map(|at| node(&format!("t{at:x}"))).collect();
        let (reach, clock) = (Reachability::new(), VectorClock::new());
        Gossip::from_parts(GossipParts {
            members,
            reachability: reach,
            version: clock,
            seen: [].into_iter().collect(),
            tombstones,
            paths: Arc::default(),
        })
        .expect("legal")
    };
    let roles = |at: usize| {
        let some = (0..20).map(|bit| Role::new(&format!("{}", (at + bit * 7) % 100)).expect("a legal role"));
        Roles::new(some, "default").expect("legal roles")
    };
    [
        (
            "members",
            state((0..5_000).map(|at| member(at, Roles::default())).collect(), 0),
        ),
        ("tombstones", state(Vec::new(), 5_000)),
        (
            "role sets",
            state((0..100).map(|at| member(at, roles(at))).collect(), 0),
        ),
    ]
}

/// What a decoder holds besides a state's bytes: the inflater's tables and windows.
const INFLATER_BYTES: usize = 16 << 10;

fn frame_of(gossip: Gossip) -> (Message, Vec<u8>) {
    let message = Message::Membership(MembershipMsg::Gossip(GossipEnvelope {
        to: node("r"),
        gossip: Arc::new(gossip).into(),
    }));
    let mut frame = Vec::new();
    encode_message(&message, 0, &Limits::default(), &mut frame).expect("it fits");
    (message, frame)
}

#[test]
fn a_state_costs_at_most_two_bytes_for_each_of_its_bytes_and_sixteen_allocations() {
    for (name, gossip) in dense_states() {
        let (message, frame) = frame_of(gossip);
        let body = &frame[HEADER_BYTES..];
        assert_eq!(body[12], 1, "{name} travels compressed");
        let inflated = u32::from_le_bytes(body[13..17].try_into().expect("four bytes")) as usize;
        let (bytes, calls, again) =
            allocated(|| decode_message(MembershipMsg::GOSSIP.kind, Lane::Gossip, body, &Limits::default()));
        println!("{name}: {inflated} inflated bytes, {bytes} held in {calls} calls");
        assert_eq!(again.as_ref(), Ok(&message));
        assert!(
            bytes <= 2 * inflated + INFLATER_BYTES,
            "{name}: {bytes} for {inflated}"
        );
        assert!(calls <= 16, "{name}: {calls} allocations");
    }
}

#[test]
fn a_state_without_news_allocates_nothing() {
    let (_, gossip) = dense_states().into_iter().next().expect("a state");
    let (_, frame) = frame_of(gossip.clone());
    let received = decode_message(
        MembershipMsg::GOSSIP.kind,
        Lane::Gossip,
        &frame[HEADER_BYTES..],
        &Limits::default(),
    );
    let Ok(Message::Membership(MembershipMsg::Gossip(received))) = received else {
        panic!("a gossip");
    };
    let mut newer = gossip.clone();
    let me = newer.members()[0].node.clone();
    newer.stamp(&me, true, 0);
    for (name, held, order) in [
        ("equal", &gossip, ClockOrder::Same),
        ("older", &newer, ClockOrder::Before),
    ] {
        let (bytes, calls, news) = allocated(|| received.gossip.without_news(held));
        assert_eq!((bytes, calls, news), (0, 0, Some(order)), "{name}");
        let open = received.gossip.open(&Gossip::new());
        let (bytes, calls, merged) = allocated(|| merge(held, &open));
        assert_eq!((bytes, calls), (0, 0), "two open states, the second one {name}");
        assert_eq!(merged.members(), held.members());
    }
}
