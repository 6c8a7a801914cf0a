//! The lies of `quorate_tests::liar` are legal, and they are of every kind and tag that `docs/WIRE.md` 4
//! states, but for those with which members trust each other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quorate_core::config::Limits;
use quorate_core::ident::{Address, DEFAULT_DATA_CENTER, Roles, UniqueAddress};
use quorate_core::journal::state::StoreId;
use quorate_core::membership::app_version::AppVersion;
use quorate_core::membership::gossip::Gossip;
use quorate_core::membership::member::Member;
use quorate_core::message::Message;
use quorate_core::sharding::fields::KindFields;
use quorate_core::sharding::ids::EntityId;
use quorate_core::wire::{self, DecodedFrame};
use quorate_tests::liar::{Heard, Kind, Known, lie, table};
use quorate_tests::sim::campaign;
use quorate_tests::sim::plan::{Plan, Profile};
use quorate_tests::sim::{Chance, FaultKind, Purpose, Show};

/// Leave, Down and Removed: whom members trust with them is in SECURITY.md.
const TRUSTED: [u16; 3] = [6, 7, 16];

fn node(number: u16) -> UniqueAddress {
    let address = Address::new("n", 1_000 + number).expect("a short name is legal");
    UniqueAddress::new(address, u64::from(number))
}

fn known() -> Known {
    let mut gossip = Gossip::new();
    for number in 1..=3 {
        let roles = Roles::new([], DEFAULT_DATA_CENTER).expect("no roles are legal");
        let version = AppVersion::new("1").expect("a short version is legal");
        gossip.upsert_member(Member::joining(node(number), roles, version));
        gossip.stamp(&node(number), true, u64::from(number));
    }
    Known {
        me: node(1),
        roles: Vec::new(),
        gossip: Arc::new(gossip),
        kinds: vec![KindFields {
            name: "orders".into(),
            role: None,
            shards: 16,
            extractor: "quorate".into(),
            keeping: None,
        }],
        entities: vec![EntityId::from("e1")],
        singletons: vec!["billing".into()],
        keys: vec!["count".to_owned()],
        logs: vec!["log".into()],
        stores: vec![StoreId(7)],
    }
}

/// So many lies of a kind, with their bodies.
fn lies(kind: Kind, count: usize, chance: &mut Chance) -> Vec<(Message, u16, Vec<u8>)> {
    let (known, mut heard, limits) = (known(), Heard::default(), Limits::default());
    let mut lies = Vec::new();
    for _ in 0..count {
        let message = lie(kind, &node(2), &known, &heard, chance);
        heard.hear(&message);
        let mut bytes = Vec::new();
        wire::encode_message(&message, 1, &limits, &mut bytes)
            .unwrap_or_else(|error| panic!("{message:?}: {error}"));
        let DecodedFrame::Frame { frame, .. } = wire::decode_frame(&bytes, &limits) else {
            panic!("{message:?} is no frame");
        };
        let read = wire::decode_message(frame.kind, frame.lane, frame.body, &limits);
        read.unwrap_or_else(|error| panic!("{message:?}: {error}"));
        lies.push((message, frame.kind, frame.body.to_vec()));
    }
    lies
}

#[test]
fn i_100_every_lie_is_legal_and_of_its_kind() {
    let mut chance = Chance::new(1, Purpose::Lies);
    for kind in Kind::all() {
        for (message, ..) in lies(kind, 400, &mut chance) {
            assert_eq!(Kind::of(&message), Some(kind), "{message:?}");
        }
    }
    assert!(table().iter().all(|number| number.low < number.high));
}

/// The lines of a section of `docs/WIRE.md`.
fn section<'t>(text: &'t str, section: &str) -> Vec<&'t str> {
    let lines = text
        .lines()
        .skip_while(|line| *line != section && !line.starts_with(&format!("{section} ")))
        .skip(1);
    lines.take_while(|line| !line.starts_with('#')).collect()
}

/// The tags of each list in a section: `* 1 Register: ...`.
fn lists(text: &str, name: &str) -> Vec<BTreeSet<u16>> {
    let tag = |line: &&str| number(line.strip_prefix("* ")?.split_once(' ')?.0);
    let lines = section(text, name);
    let paragraphs = lines.split(|line| line.is_empty());
    let lists = paragraphs.map(|lines| lines.iter().filter_map(tag).collect::<BTreeSet<u16>>());
    lists.filter(|tags| !tags.is_empty()).collect()
}

fn number(text: &str) -> Option<u16> {
    match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[test]
fn i_100_every_kind_and_tag_on_the_wire_is_lied_about() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/WIRE.md");
    let text = std::fs::read_to_string(path).expect("readable page");
    let mut chance = Chance::new(2, Purpose::Lies);
    let said = Kind::all()
        .into_iter()
        .flat_map(|kind| lies(kind, 200, &mut chance));
    let mut bodies: BTreeMap<u16, Vec<Vec<u8>>> = BTreeMap::new();
    for (_, kind, body) in said {
        bodies.entry(kind).or_default().push(body);
    }
    let rows = section(&text, "## 4. Messages");
    let kind = |row: &str| number(row.strip_prefix("| ")?.split_once(' ')?.0);
    let stated: BTreeSet<u16> = rows.into_iter().filter_map(kind).collect();
    let lied: BTreeSet<u16> = bodies.keys().copied().collect();
    let expected: BTreeSet<u16> = stated
        .into_iter()
        .filter(|kind| !TRUSTED.contains(kind))
        .collect();
    assert_eq!(
        lied, expected,
        "write what the liar says of them, in tests/src/liar"
    );
    // Sections with lists of tags, and where the tag stands in the body: behind fixed fields and names.
    let name = 1 + node(2).address().host().len() + 2 + 8;
    let request = |body: &[u8]| 2 + usize::from(u16::from_le_bytes([body[0], body[1]])) + 16 + 8 + 8;
    for (section, list, kind, at) in [
        ("### 4.2", 1, 0x0100, Some(8)),
        ("### 4.6", 1, 0x0200, Some(8)),
        ("### 4.7", 1, 0x0103, Some(0)),
        ("### 4.9", 1, 0x0110, Some(16 + name)),
        ("### 4.10", 1, 0x0120, Some(name)),
        ("### 4.10", 2, 0x0121, None),
        ("### 4.10", 3, 0x0122, None),
        ("### 4.11", 1, 0x0105, Some(0)),
        ("### 4.12", 1, 0x0108, Some(0)),
        ("### 4.16", 1, 0x0150, Some(name)),
    ] {
        let tags = lists(&text, section).into_iter().nth(list - 1);
        let tags = tags.expect("a list of tags");
        let told = bodies[&kind].iter().map(|body| {
            let at = at.unwrap_or_else(|| {
                let token = if kind == 0x0121 { 16 } else { 0 };
                request(body) + token
            });
            u16::from(body[at])
        });
        let told: BTreeSet<u16> = told.collect();
        assert_eq!(told, tags, "{section} of docs/WIRE.md, kind {kind:#06x}");
    }
}

#[test]
fn i_100_a_seed_with_a_liar_has_one_and_counts_what_it_tells() {
    let plan = Plan::of(Profile::Membership, 4, &[FaultKind::Liar]);
    let outcome = campaign::run_seed(0, &plan, Show::Nothing);
    assert_eq!(outcome.totals.faults.of(FaultKind::Liar), 1);
    assert!(outcome.totals.branches.0["lies told"] > 0);
}
