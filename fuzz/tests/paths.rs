//! What a table of paths costs: the bytes of a path in it, what reading one may allocate, and that a table
//! without news allocates nothing. Spec: sharding 10.17, reliability 3b.

use std::sync::Arc;

use quorate_core::config::Limits;
use quorate_core::ident::{Address, UniqueAddress};
use quorate_core::membership::gossip::Gossip;
use quorate_core::membership::merge::merge;
use quorate_core::membership::vector_clock::ClockOrder;
use quorate_core::message::{GossipBody, GossipEnvelope, Lane, MembershipMsg, Message};
use quorate_core::paths::state::name::PathName;
use quorate_core::paths::state::options::HandoffOptions;
use quorate_core::paths::state::settings::PathSettings;
use quorate_core::paths::state::table::{MoveStatus, PathEntry, PathEpoch, PathRecord, PathTable, SlotMove};
use quorate_core::wire::{HEADER_BYTES, WireError, decode_message, encode_message};
use quorate_fuzz::counting::allocated;

fn node(at: u64) -> UniqueAddress {
    let host = format!("n{at}");
    UniqueAddress::new(Address::new(&host, 1).expect("a legal host"), at + 1)
}

/// So many paths of one slot each, on ten nodes, each moved once.
fn table(paths: u64) -> Arc<PathTable> {
    let epoch = PathEpoch {
        counter: 1,
        leader: node(0),
    };
    let entry = |at: u64| {
        let name = PathName::new(&format!("p{at:05}")).expect("a legal path");
        let host = Some(node(at % 10));
        Arc::new(PathEntry {
            record: PathRecord {
                epoch: epoch.clone(),
                settings: Some(Arc::new(PathSettings::new(name.clone()))),
                scale: 0,
                hosts: vec![host.clone()],
            },
            moves: vec![Some(SlotMove {
                id: epoch.clone(),
                status: MoveStatus::Applied,
                from: None,
                to: host,
                options: HandoffOptions::ORDERED,
            })],
            name,
        })
    };
    Arc::new(PathTable::new(1, None, (0..paths).map(entry).collect()).expect("well formed"))
}

fn with_table(table: &Arc<PathTable>) -> Gossip {
    let mut gossip = Gossip::new();
    gossip.set_paths(Arc::clone(table));
    gossip
}

/// The body of a message that says the state, not compressed.
fn body_of(gossip: &Gossip) -> Vec<u8> {
    let message = Message::Membership(MembershipMsg::Gossip(GossipEnvelope {
        to: node(0),
        gossip: Arc::new(gossip.clone()).into(),
    }));
    let limits = Limits {
        compress_from_bytes: usize::MAX,
        ..Limits::default()
    };
    let mut frame = Vec::new();
    encode_message(&message, 0, &limits, &mut frame).expect("it fits");
    frame.split_off(HEADER_BYTES)
}

fn read(body: &[u8]) -> Result<GossipBody, WireError> {
    match decode_message(MembershipMsg::GOSSIP.kind, Lane::Gossip, body, &Limits::default())? {
        Message::Membership(MembershipMsg::Gossip(envelope)) => Ok(envelope.gossip),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_path_of_one_slot_takes_at_most_64_bytes_beside_its_name() {
    let bytes = |paths| body_of(&with_table(&table(paths))).len();
    // The nodes of the table are there in both.
    let taken = (bytes(1_010) - bytes(10)) as f64 / 1_000.0 - "p00000".len() as f64;
    println!("{taken} bytes beside its name");
    assert!(taken <= 64.0, "{taken}");
}

#[test]
fn an_equal_table_allocates_nothing() {
    let (mine, theirs) = (table(1_000), table(1_000));
    let (bytes, calls, merged) = allocated(|| mine.merged(&theirs));
    assert_eq!((bytes, calls), (0, 0));
    assert!(Arc::ptr_eq(&merged, &mine));
    let held = with_table(&mine);
    let received = read(&body_of(&held)).expect("a legal state");
    let (bytes, calls, news) = allocated(|| received.without_news(&held));
    assert_eq!((bytes, calls, news), (0, 0, Some(ClockOrder::Same)));
    let open = received.open(&Gossip::new());
    let (bytes, calls, both) = allocated(|| merge(&held, &open));
    assert_eq!((bytes, calls), (0, 0), "of two open states");
    assert_eq!(both.paths(), held.paths());
}

/// What a path and a slot take in an open table, however few bytes they are: a slot that never moved is one
/// byte, and a place for a move with three nodes.
const PATH_BYTES: usize = 1_024;
const SLOT_BYTES: usize = 128;

/// The most vacant slots for the bytes, in so many paths.
fn vacant(paths: usize, slots: u16) -> Vec<u8> {
    let mut table = [&1_u64.to_le_bytes()[..], &[0; 8], &1_u16.to_le_bytes()].concat();
    table.extend_from_slice(b"\x01a\x01\x00");
    table.extend_from_slice(&1_u64.to_le_bytes());
    table.push(0);
    table.extend_from_slice(&u16::try_from(paths).expect("few").to_le_bytes());
    for at in 0..paths {
        table.extend_from_slice(format!("\x03{at:03}").as_bytes());
        table.extend_from_slice(&1_u64.to_le_bytes());
        table.extend_from_slice(&[0; 7]);
        table.extend_from_slice(&slots.to_le_bytes());
        table.resize(table.len() + usize::from(slots), u8::MAX);
    }
    let mut body = vec![1, b'r', 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];
    body.extend_from_slice(&[0; 18]);
    body.extend_from_slice(&u32::try_from(table.len()).expect("short").to_le_bytes());
    body.extend_from_slice(&[0; 4]);
    body.extend_from_slice(&table);
    body
}

#[test]
fn reading_a_table_costs_a_bounded_multiple_of_its_bytes() {
    let legal = [
        (1_000, 1_000, body_of(&with_table(&table(1_000)))),
        (8, 8_192, vacant(8, 1_024)),
    ];
    for (paths, slots, body) in legal {
        let (bytes, _, read) = allocated(|| read(&body));
        println!("{} bytes, {bytes} held", body.len());
        assert!(read.is_ok(), "{read:?}");
        let most = 2 * body.len() + paths * PATH_BYTES + slots * SLOT_BYTES;
        assert!(bytes <= most, "{bytes} for {}", body.len());
    }
    // As many slots as the bytes hold are refused before there is a place for each.
    let body = vacant(248, 1_024);
    let (bytes, _, read) = allocated(|| read(&body));
    println!("{} bytes, {bytes} held until they are refused", body.len());
    assert_eq!(
        read.map(drop),
        Err(WireError::LimitExceeded { what: "path slots" })
    );
    assert!(bytes <= 2 << 20, "{bytes} for {}", body.len());
}
