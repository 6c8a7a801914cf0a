//! The tables and lists of `docs/WIRE.md` are the declarations: what a message is made of is said once.

use std::format;
use std::path::PathBuf;
use std::string::String;
use std::vec::Vec;
use std::{env, fs};

use crate::agreement::Setting;
use crate::ddata::protocol::{CarriedValue, DdataBody, DeltaEntry, KeyDigest, Nack};
use crate::ddata::state::key::Pattern;
use crate::ddata::state::{DataEnvelope, Pruning};
use crate::journal::protocol::{
    ReplicaAnswer, ReplicaAsk, ReplicaPage, ReplicaReply, ReplicaRequest, VoterBody,
};
use crate::journal::state::{LogEntry, LogItem, LogPlace, ReplicaHead, SnapshotHead, Voters};
use crate::kv::protocol::hints::{HintAnswer, HintAsk, HintStatement, HintWanted};
use crate::kv::protocol::listing::{ListAnswer, ListAsk, OwnerListed};
use crate::kv::protocol::watching::{KeyWatchStatement, NoticeStatement};
use crate::kv::protocol::{AdoptedRange, OwnerAnswer, OwnerAsk, RangeContent, RangeStatement, StoreAt};
use crate::kv::state::call::{Ballot, CallId, RequestId};
use crate::kv::state::clock::{Actor, VersionDot};
use crate::kv::state::configuration::{Configuration, Owners};
use crate::kv::state::exchange::{KvAnswer, KvAsk, KvChange, KvRefusal, Mint, SettleStep};
use crate::kv::state::level::Level;
use crate::kv::state::listed::{KeysWanted, ListedKey, ListedPart};
use crate::kv::state::logged::LogWrite;
use crate::kv::state::part::{RangeItem, RangePart};
use crate::load::state::sample::{LoadSample, PartLoad};
use crate::message::{
    ChordProbe, ChordReply, GossipDelta, GossipEnvelope, GossipSeen, GossipStatus, Heartbeat, InitJoin,
    InitJoinAck, Join, JoinRefused, Message, SampleTold, ShardMark, ShardingBody, ShardingMessage, Welcome,
};
use crate::ordered::OrderedSet;
use crate::paths::protocol::{MoveRef, PathBody, PathMark, PathRefusal, PathRequest, PathStatement};
use crate::paths::state::table::PathEpoch;
use crate::sharding::protocol::registry::{
    Announcement, RegistrationFields, RegistrationId, RegistrationVerdict, RegistryMsg,
};
use crate::sharding::protocol::stop::StopMsg;
use crate::sharding::protocol::survey::{
    Decided, EntityListing, EntityPosition, Placement, RegionCounts, ShardDecision, SurveyMsg,
};
use crate::sharding::protocol::watch::{WatchMsg, WatchStatement};
use crate::sharding::protocol::{EntityStarts, ListPart};
use crate::sharding::state::fields::{KindFields, KindKeeping};
use crate::sharding::state::ids::Term;
use crate::sharding::state::kept::{HomeRecord, HomesRecord, NamesRecord};
use crate::sharding::state::wish::Wish;
use crate::singleton::protocol::{SingletonBody, SingletonStatement};
use crate::singleton::state::StoredPromise;
use crate::singleton::state::fields::{SingletonFields, SingletonHosting};
use crate::token::Token;
use crate::wire::bucket::WrittenSettings;
use crate::wire::declare::Rows;
use crate::wire::handshake::{Hello, HelloAck, HelloReject, RejectReason};
use crate::wire::{ddata, detector, journal, kv, load, membership, paths, sharding, singleton};

fn rows_of(all: &[fn() -> Vec<String>]) -> Vec<String> {
    all.iter().flat_map(|rows| rows()).collect()
}

/// What an enum's declaration gives: its rows, and its words for fuzzers.
type Declared = (fn() -> Vec<String>, fn() -> Vec<Vec<u8>>);

const fn declared<T: Rows>() -> Declared {
    (T::rows, T::tokens)
}

const ENUMS: [Declared; 39] = [
    declared::<ShardingBody>(),
    declared::<StopMsg>(),
    declared::<RegistryMsg>(),
    declared::<RegistrationFields>(),
    declared::<RegistrationId>(),
    declared::<RegistrationVerdict>(),
    declared::<SurveyMsg>(),
    declared::<ShardDecision>(),
    declared::<WatchMsg>(),
    declared::<WatchStatement>(),
    declared::<SingletonBody>(),
    declared::<VoterBody>(),
    declared::<ReplicaAsk>(),
    declared::<ReplicaAnswer>(),
    declared::<LogItem>(),
    declared::<LogPlace>(),
    declared::<DdataBody>(),
    declared::<Nack>(),
    declared::<Pruning>(),
    declared::<PathBody>(),
    declared::<PathRequest>(),
    declared::<PathRefusal>(),
    declared::<RangeStatement>(),
    declared::<Level>(),
    declared::<Owners>(),
    declared::<KvAsk>(),
    declared::<LogWrite>(),
    declared::<KvChange>(),
    declared::<SettleStep>(),
    declared::<KvAnswer>(),
    declared::<KvRefusal>(),
    declared::<RangeContent>(),
    declared::<OwnerListed>(),
    declared::<KeyWatchStatement>(),
    declared::<Pattern>(),
    declared::<NoticeStatement>(),
    declared::<HintStatement>(),
    declared::<HintWanted>(),
    declared::<RejectReason>(),
];

/// The messages' kinds, and enums, line by line.
fn tables() -> Vec<String> {
    let enums = ENUMS.map(|(rows, _)| rows);
    let kinds = rows_of(&[
        membership::rows,
        detector::rows,
        sharding::rows,
        singleton::rows,
        journal::rows,
        ddata::rows,
        load::rows,
        paths::rows,
        kv::rows,
    ]);
    [kinds, rows_of(&enums)].concat()
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
        GossipStatus::rows,
        GossipDelta::rows,
        GossipSeen::rows,
        Heartbeat::rows,
        ShardingMessage::rows,
        Term::rows,
        Token::rows,
        ListPart::rows,
        ShardMark::rows,
        EntityStarts::rows,
        Announcement::rows,
        KindFields::rows,
        KindKeeping::rows,
        SingletonFields::rows,
        SingletonHosting::rows,
        RegionCounts::rows,
        EntityPosition::rows,
        EntityListing::rows,
        Placement::rows,
        Wish::rows,
        Decided::rows,
        SingletonStatement::rows,
        Voters::rows,
        ReplicaRequest::rows,
        ReplicaReply::rows,
        ReplicaPage::rows,
        LogEntry::rows,
        SnapshotHead::rows,
        LoadSample::rows,
        PartLoad::rows,
        SampleTold::rows,
        ChordProbe::rows,
        ChordReply::rows,
        PathEpoch::rows,
        MoveRef::rows,
        PathStatement::rows,
        PathMark::rows,
        WrittenSettings::rows,
        HintAsk::rows,
        HintAnswer::rows,
        Configuration::rows,
        AdoptedRange::rows,
        OwnerAsk::rows,
        Mint::rows,
        RequestId::rows,
        CallId::rows,
        Ballot::rows,
        Actor::rows,
        VersionDot::rows,
        OwnerAnswer::rows,
        StoreAt::rows,
        RangePart::rows,
        RangeItem::rows,
        ListAsk::rows,
        KeysWanted::rows,
        ListAnswer::rows,
        ListedPart::rows,
        ListedKey::rows,
        KeyDigest::rows,
        CarriedValue::rows,
        DeltaEntry::rows,
        DataEnvelope::rows,
        HomesRecord::rows,
        HomeRecord::rows,
        NamesRecord::rows,
        StoredPromise::rows,
        ReplicaHead::rows,
        Hello::rows,
        HelloAck::rows,
        HelloReject::rows,
    ])
}

#[test]
fn the_document_has_what_is_declared() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/WIRE.md");
    let document = fs::read_to_string(path).unwrap();
    // Lines are broken where they are long, those of a list begin with two blanks then.
    let flat = document.replace("\n  ", " ").replace('\n', " ");
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
        load::rows(),
        paths::rows(),
        kv::rows(),
    ];
    let declared = rows.iter().map(Vec::len).sum::<usize>();
    assert_eq!(declared, Message::TAGS.into_iter().flatten().count());
    let different: OrderedSet<&String> = rows.iter().flatten().collect();
    assert_eq!(different.len(), declared, "each once");
}

/// `fuzz/declared.dict`: what libFuzzer puts into inputs. `QUORATE_BLESS=1` writes it anew.
#[test]
fn the_fuzzers_words_are_those_that_are_declared() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fuzz/declared.dict");
    let kinds = Message::TAGS.into_iter().flatten();
    let kinds = kinds.map(|tag| tag.kind.to_le_bytes().to_vec());
    let words: OrderedSet<Vec<u8>> = ENUMS
        .iter()
        .flat_map(|(_, tokens)| tokens())
        .chain(kinds)
        .collect();
    let lines = words.iter().map(|word| {
        let bytes: String = word.iter().map(|byte| format!("\\x{byte:02x}")).collect();
        format!("\"{bytes}\"\n")
    });
    let head = "# Kinds of messages, and the shortest of each variant; written by the core's test of declarations.\n";
    let dictionary: String = [head.into()].into_iter().chain(lines).collect();
    if env::var_os("QUORATE_BLESS").is_some() {
        fs::write(&path, &dictionary).unwrap();
    }
    assert_eq!(fs::read_to_string(path).unwrap(), dictionary);
    assert!(words.len() > 80);
}
