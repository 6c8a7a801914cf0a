//! The tables of `docs/WIRE.md` are the declarations: what a message is made of is said once.

use std::fs;
use std::path::PathBuf;
use std::string::String;
use std::vec::Vec;

use crate::journal::protocol::{Ask, Page, Said, VoterBody};
use crate::journal::state::{Entry, Item, Place, SnapshotHead};
use crate::message::{Heartbeat, ShardMark, ShardingBody};
use crate::sharding::protocol::stop::StopMsg;
use crate::sharding::protocol::survey::{Decided, Placement, ShardDecision};
use crate::sharding::protocol::watch::{WatchMsg, WatchStatement};
use crate::sharding::protocol::{EntityStarts, Part};
use crate::sharding::state::wish::Wish;
use crate::singleton::protocol::Body;
use crate::wire::declare::Rows;

#[test]
fn the_document_has_what_is_declared() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/WIRE.md");
    let document = fs::read_to_string(path).unwrap();
    let tables: [fn() -> Vec<String>; 11] = [
        ShardingBody::rows,
        StopMsg::rows,
        WatchMsg::rows,
        WatchStatement::rows,
        ShardDecision::rows,
        Body::rows,
        VoterBody::rows,
        Ask::rows,
        Said::rows,
        Item::rows,
        Place::rows,
    ];
    let records: [fn() -> Vec<String>; 10] = [
        Part::rows,
        ShardMark::rows,
        EntityStarts::rows,
        Heartbeat::rows,
        Placement::rows,
        Wish::rows,
        Decided::rows,
        Page::rows,
        Entry::rows,
        SnapshotHead::rows,
    ];
    let rows: Vec<String> = tables.iter().chain(&records).flat_map(|rows| rows()).collect();
    // Lines are broken where they are long.
    let flat = document.replace('\n', " ");
    let missing: Vec<&String> = rows.iter().filter(|row| !flat.contains(row.as_str())).collect();
    assert!(missing.is_empty(), "not in docs/WIRE.md: {missing:#?}");
    assert!(rows.len() > 70, "{}", rows.len());
}
