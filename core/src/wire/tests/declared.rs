//! The tables of `docs/WIRE.md` are the declarations: what a message is made of is said once.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::string::String;
use std::vec::Vec;

use crate::agreement::Setting;
use crate::ddata::protocol::{Body as DdataBody, Carried, DeltaEntry, Digested, Nack};
use crate::ddata::state::{Envelope, Pruning};
use crate::journal::protocol::{Ask, Page, Reply, Request, Said, VoterBody};
use crate::journal::state::{Entry, Head, Item, Place, SnapshotHead, Voters};
use crate::message::{
    GossipEnvelope, Heartbeat, InitJoin, InitJoinAck, Join, JoinRefused, Message, ShardMark, ShardingBody,
    ShardingMessage, Welcome,
};
use crate::sharding::protocol::registry::{Announced, Fields, RegistrationId, RegistryMsg, Verdict};
use crate::sharding::protocol::stop::StopMsg;
use crate::sharding::protocol::survey::{
    Decided, EntityPosition, Listed, Placement, RegionCounts, ShardDecision, SurveyMsg,
};
use crate::sharding::protocol::watch::{WatchMsg, WatchStatement};
use crate::sharding::protocol::{EntityStarts, Part};
use crate::sharding::state::fields::{Keeping, KindFields};
use crate::sharding::state::ids::Term;
use crate::sharding::state::kept::{HomeRecord, HomesRecord, NamesRecord};
use crate::sharding::state::wish::Wish;
use crate::singleton::protocol::{Body, Statement};
use crate::singleton::state::Promised;
use crate::singleton::state::fields::{Hosting, SingletonFields};
use crate::token::Token;
use crate::wire::declare::Rows;
use crate::wire::{ddata, detector, journal, membership, sharding, singleton};

/// All of these lines have to be there.
fn rows_of(all: &[fn() -> Vec<String>]) -> Vec<String> {
    all.iter().flat_map(|rows| rows()).collect()
}

/// The messages' kinds, and enums, line by line.
fn tables() -> Vec<String> {
    rows_of(&[
        membership::rows,
        detector::rows,
        sharding::rows,
        singleton::rows,
        journal::rows,
        ddata::rows,
        ShardingBody::rows,
        StopMsg::rows,
        RegistryMsg::rows,
        Fields::rows,
        RegistrationId::rows,
        Verdict::rows,
        SurveyMsg::rows,
        ShardDecision::rows,
        WatchMsg::rows,
        WatchStatement::rows,
        Body::rows,
        VoterBody::rows,
        Ask::rows,
        Said::rows,
        Item::rows,
        Place::rows,
        DdataBody::rows,
        Nack::rows,
        Pruning::rows,
    ])
}

fn records() -> Vec<String> {
    rows_of(&[
        InitJoin::rows,
        InitJoinAck::rows,
        Setting::rows,
        Join::rows,
        JoinRefused::rows,
        Welcome::rows,
        GossipEnvelope::rows,
        Heartbeat::rows,
        ShardingMessage::rows,
        Term::rows,
        Token::rows,
        Part::rows,
        ShardMark::rows,
        EntityStarts::rows,
        Announced::rows,
        KindFields::rows,
        Keeping::rows,
        SingletonFields::rows,
        Hosting::rows,
        RegionCounts::rows,
        EntityPosition::rows,
        Listed::rows,
        Placement::rows,
        Wish::rows,
        Decided::rows,
        Statement::rows,
        Voters::rows,
        Request::rows,
        Reply::rows,
        Page::rows,
        Entry::rows,
        SnapshotHead::rows,
        Digested::rows,
        Carried::rows,
        DeltaEntry::rows,
        Envelope::rows,
        HomesRecord::rows,
        HomeRecord::rows,
        NamesRecord::rows,
        Promised::rows,
        Head::rows,
    ])
}

#[test]
fn the_document_has_what_is_declared() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/WIRE.md");
    let document = fs::read_to_string(path).unwrap();
    // Lines are broken where they are long.
    let flat = document.replace('\n', " ");
    let (tables, records) = (tables(), records());
    let all = tables.iter().chain(&records);
    let missing: Vec<&String> = all.clone().filter(|row| !flat.contains(row.as_str())).collect();
    assert!(missing.is_empty(), "not in docs/WIRE.md: {missing:#?}");
    assert!(all.count() > 150);
}

#[test]
fn every_message_is_declared() {
    let rows = [
        membership::rows(),
        detector::rows(),
        sharding::rows(),
        singleton::rows(),
        journal::rows(),
        ddata::rows(),
    ];
    let declared = rows.iter().map(Vec::len).sum::<usize>();
    assert_eq!(declared, Message::TAGS.into_iter().flatten().count());
    let different: BTreeSet<&String> = rows.iter().flatten().collect();
    assert_eq!(different.len(), declared, "each once");
}
