//! What nodes say about buckets of the keyed store, as bytes. Unstable: these layouts may change with any
//! version until they are declared stable. Spec: sharding 2.5, `docs/WIRE.md` 4.17.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::boxed::Box;
#[cfg(test)]
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

#[cfg(test)]
use super::declare::message_row;
use super::declare::{
    Boxed, FieldSink, FieldSource, Form, List, Maybe, Text, by_hand, choice, codes, number_as, record,
    text_as,
};
use crate::bytes::WireError;
use crate::ddata::state::key::{KEY_BYTES_MAX, Key, Pattern};
use crate::ident::UniqueAddress;
use crate::journal::state::{NUMBER_MAX, StoreId};
use crate::kv::protocol::hints::{HintAnswer, HintAsk, HintStatement, HintWanted};
use crate::kv::protocol::listing::{ListAnswer, ListAsk, OwnerListed};
use crate::kv::protocol::trees::{LEAVES_ASKED_MAX, TreeAnswer, TreeAsk, TreeStatement};
use crate::kv::protocol::watching::{KeyWatchStatement, NOTICE_KEYS_MAX, NoticeStatement};
use crate::kv::protocol::{
    AdoptedRange, BucketBody, OwnerAnswer, OwnerAsk, RANGES_PER_MESSAGE_MAX, RangeContent, RangeStatement,
    STORES_MAX, StoreAt,
};
use crate::kv::state::bucket::BucketName;
use crate::kv::state::call::{Ballot, CallId, RequestId};
use crate::kv::state::clock::{ACTORS_MAX, Actor, VersionClock, VersionDot};
use crate::kv::state::configuration::{Configuration, OWNERS_MAX, Owners};
use crate::kv::state::entry::{AcceptedDecision, KvEntry};
use crate::kv::state::exchange::{KvAnswer, KvAsk, KvChange, KvRefusal, Mint, SettleStep};
use crate::kv::state::listed::{KeysWanted, LISTED_KEYS_MAX, ListedKey, ListedPart};
use crate::kv::state::logged::{LOG_RECORDS_MAX, LogWrite};
use crate::kv::state::node::{FAN_OUT, MerkleNode, NODES_ASKED_MAX};
use crate::kv::state::part::{ITEMS_MAX, RangeItem, RangePart};
use crate::kv::state::settings::BucketSettings;
use crate::kv::state::siblings::{PutError, VALUES_BYTES_MAX};
use crate::kv::state::table::{EPOCH_MAX, RangeId, TableChange};
use crate::lane::MessageTag;
use crate::message::KvMsg as Msg;
use crate::store::Bytes;
use crate::token::Token;

/// Owners of a range, each once, in their order.
type OwnerList = List<u8, StoreId, OWNERS_MAX, 1>;

/// Ranges, and who owns each.
type RangeList = List<u16, (RangeId, Configuration), RANGES_PER_MESSAGE_MAX>;

/// Sums of an answer about a tree.
const SUMS_MAX: usize = FAN_OUT * NODES_ASKED_MAX;

/// A value that is put.
struct PutValue;

number_as! {
    RangeId: u16, "u16", |range: RangeId| range.0, RangeId;
}

text_as! {
    BucketName: BucketName, "text", BucketName::as_str, |text| BucketName::new(text).ok();
}

choice! {
    RangeStatement as "range statement" {
        1 Look { settings: BucketSettings, store: Maybe<StoreId> },
        2 Differs { settings: BucketSettings },
        3 Seek { term: Token },
        4 NotOpen { term: Token },
        5 Recall { term: Token, store: StoreId },
        6 Found { term: Token, store: StoreId, known: RangeList, is_last: bool },
        7 Tell { term: Token, store: StoreId, ranges: RangeList },
        8 Adopted { term: Token, store: StoreId, ranges: List<u16, AdoptedRange, RANGES_PER_MESSAGE_MAX> },
        9 Refuse { store: StoreId, range: RangeId, configuration: Configuration },
        10 Refuses { store: StoreId, range: RangeId, epoch: u64 },
        11 Repair { term: Token, store: StoreId, range: RangeId },
    }
}

record! {
    Configuration as "configuration" { epoch: u64, owners: Owners }
    if |it| (1..=EPOCH_MAX).contains(&it.epoch) && it.owners.check().is_ok()
}

choice! {
    Owners as "owners" {
        1 Stable(stores: OwnerList),
        2 Joint { from: OwnerList, to: OwnerList },
    }
}

record! {
    AdoptedRange as "adopted" { range: RangeId, epoch: u64, merged: List<u8, StoreId, OWNERS_MAX> }
}

record! {
    OwnerAsk as "asked" {
        store: StoreId,
        range: RangeId,
        configuration: Configuration,
        key: Key,
        call: u64,
        step: u32,
        ask: KvAsk,
    }
}

choice! {
    KvAsk as "owner ask" {
        1 Get,
        2 Mint(mint: Mint),
        3 Merge(entry: KvEntry),
        4 Promise(ballot: Ballot),
        5 Accept(accepted: AcceptedDecision),
        6 Settle { digest: u64, step: SettleStep },
        7 Extend { ballot: Ballot, write: LogWrite },
    }
}

choice! {
    LogWrite as "log write" {
        1 Append { token: Token, expected: u64, records: List<u16, Bytes, LOG_RECORDS_MAX, 1> },
        2 Keep { token: Token, through: u64, state: Bytes },
        3 Forget { token: Token, through: u64 },
    }
}

record! {
    Mint as "minted" {
        request: RequestId,
        open_from: u64,
        actor: Actor,
        context: VersionClock,
        is_proven: bool,
        change: KvChange,
    }
}

record! { RequestId as "request id" { call: CallId, attempt: u32 } }
record! { CallId as "call" { origin: u64, number: u64 } }
record! {
    Ballot as "ballot" { round: u64, call: CallId, step: u32 } if |it| it.round <= NUMBER_MAX
}
record! { Actor as "actor" { store: StoreId, boot: u64, since: u64 } if |it| it.since <= NUMBER_MAX }
record! {
    VersionDot as "dot" { actor: Actor, count: u64 } if |it| (1..=NUMBER_MAX).contains(&it.count)
}

choice! {
    KvChange as "change" {
        1 Put { bytes: PutValue, ttl_ms: Maybe<u64> },
        2 Delete,
    }
}

choice! {
    SettleStep as "settle step" {
        1 Compare,
        2 Reap,
        3 Prune(actors: List<u16, Actor, ACTORS_MAX>),
    }
}

record! { OwnerAnswer as "answered" { store: StoreId, call: u64, step: u32, epoch: u64, answer: KvAnswer } }

choice! {
    KvAnswer as "owner answer" {
        1 Held(entry: KvEntry),
        2 Minted { dot: VersionDot, entry: KvEntry },
        3 Done,
        4 Refused(refusal: KvRefusal),
    }
}

choice! {
    KvRefusal as "owner refusal" {
        1 OtherConfiguration(configuration: Configuration),
        2 NoOwner,
        3 Behind,
        4 OtherActor(actor: Actor),
        5 Over,
        6 Busy,
        7 TooFarAhead,
        8 Blocked(ballot: Ballot),
        9 Conditional,
        10 Put(error: PutError),
        11 Ttl,
        12 NotAlike,
        13 NoHint,
    }
}

codes! { PutError as "put error" { 1 Siblings, 2 Bytes, 3 Actors, 4 Full } }

choice! {
    RangeContent as "range content" {
        1 Table { term: Token, stores: List<u16, StoreAt, STORES_MAX>, table: TableChange },
        2 Pull { store: StoreId, range: RangeId, configuration: Configuration, after: Maybe<Bytes> },
        3 Part { store: StoreId, range: RangeId, epoch: u64, after: Maybe<Bytes>, part: RangePart },
    }
}

choice! {
    TreeStatement as "tree statement" {
        1 Compare { asked: TreeAsk, nodes: List<u8, MerkleNode, NODES_ASKED_MAX, 1> },
        2 Sums { said: TreeAnswer, sums: List<u16, u64, SUMS_MAX> },
        3 Fetch { asked: TreeAsk, leaves: List<u16, MerkleNode, LEAVES_ASKED_MAX, 1>, after: Maybe<Bytes> },
        4 Held { said: TreeAnswer, items: List<u16, RangeItem, ITEMS_MAX>, next: Maybe<Bytes> },
    }
}

record! {
    TreeAsk as "tree asked" { store: StoreId, range: RangeId, configuration: Configuration, comparison: u64 }
}
record! { TreeAnswer as "tree answered" { store: StoreId, comparison: u64 } }

record! { StoreAt as "store at" { store: StoreId, node: UniqueAddress } }
record! { RangePart as "part" { items: List<u16, RangeItem, ITEMS_MAX>, is_last: bool } }
record! { RangeItem as "item" { key: Bytes, content: Bytes, promised: Token } }

record! {
    ListAsk as "list" {
        store: StoreId,
        range: RangeId,
        configuration: Configuration,
        listing: u64,
        wanted: KeysWanted,
    }
}

record! { KeysWanted as "keys wanted" { prefix: Text<KEY_BYTES_MAX>, after: Maybe<Key>, keys_max: u16 } }
record! {
    ListAnswer as "listed" { store: StoreId, listing: u64, range: RangeId, epoch: u64, said: OwnerListed }
}

choice! {
    OwnerListed as "owner listed" {
        1 Part(part: ListedPart),
        2 Refused(refusal: KvRefusal),
    }
}

choice! {
    KeyWatchStatement as "watch statement" {
        1 Watch { store: StoreId, watch: u64, pattern: Pattern },
        2 Unwatch { store: StoreId, watch: u64 },
    }
}

choice! {
    Pattern as "pattern" {
        1 Key(key: Key),
        2 Prefix(prefix: Text<KEY_BYTES_MAX>),
    }
}

choice! {
    NoticeStatement as "notice" {
        1 Changed {
            store: StoreId,
            watch: u64,
            session: u64,
            number: u64,
            keys: List<u16, Key, NOTICE_KEYS_MAX>,
        },
        2 Refused { store: StoreId, watch: u64 },
    }
}

choice! {
    HintStatement as "hint statement" {
        1 Ask(asked: HintAsk),
        2 Answer(answered: HintAnswer),
    }
}

record! {
    HintAsk as "hint asked" {
        store: StoreId,
        owner: StoreId,
        range: RangeId,
        configuration: Configuration,
        key: Key,
        call: u64,
        step: u32,
        wanted: HintWanted,
    }
}

choice! {
    HintWanted as "hint wanted" {
        1 Held,
        2 Keep { entry: KvEntry, age_ms: u64 },
    }
}

record! {
    HintAnswer as "hint answered" {
        store: StoreId,
        owner: StoreId,
        call: u64,
        step: u32,
        epoch: u64,
        age_ms: u64,
        answer: KvAnswer,
    }
}

record! {
    ListedPart as "listed part" {
        keys: List<u16, ListedKey, { LISTED_KEYS_MAX as usize }>,
        is_last: bool,
    }
}

record! { ListedKey as "listed key" { key: Key, digest: u64, is_alive: bool, is_decided: bool } }

by_hand! {
    PutValue: Bytes, "bytes", 4, Bytes::put, |reader, what| match Bytes::read(reader, what)? {
        bytes if bytes.len() > VALUES_BYTES_MAX => Err(WireError::TooLarge {
            bytes: bytes.len() as u64,
            max: VALUES_BYTES_MAX as u64,
        }),
        bytes => Ok(bytes),
    };
    VersionClock: VersionClock, "clock", 4, |clock, what, out| put_sized(clock.encode(), what, out),
        |reader, what| VersionClock::decode(&sized(reader, what)?);
    KvEntry: KvEntry, "kept", 4, |entry, what, out| put_sized(entry.encode(), what, out),
        |reader, what| KvEntry::decode(&sized(reader, what)?);
    AcceptedDecision: AcceptedDecision, "decision", 4, |accepted, what, out| {
        put_sized(Ok(accepted.encode()), what, out)
    }, |reader, what| AcceptedDecision::decode(&sized(reader, what)?);
    MerkleNode: MerkleNode, "level, number of that level", 3, |node, what, out| {
        let (level, at) = node.numbers();
        u8::put(&level, what, out)?;
        u16::put(&at, what, out)
    }, |reader, what| {
        let (level, at) = (u8::read(reader, what)?, u16::read(reader, what)?);
        MerkleNode::of(level, at).ok_or(WireError::Malformed { what })
    };
    TableChange: TableChange, "table", 4, |table, what, out| put_sized(table.to_bytes(), what, out),
        |reader, what| TableChange::from_bytes(&sized(reader, what)?);
}

/// Bytes that say themselves what they are, behind their length.
fn put_sized(
    bytes: Result<Vec<u8>, WireError>,
    what: &'static str,
    out: &mut FieldSink<'_>,
) -> Result<(), WireError> {
    Bytes::put(&Arc::from(bytes?), what, out)
}

fn sized(reader: &mut FieldSource<'_>, what: &'static str) -> Result<Bytes, WireError> {
    Bytes::read(reader, what)
}

pub(super) fn put(msg: &Msg, out: &mut FieldSink<'_>) -> Result<(), WireError> {
    u64::put(&msg.to_uid, "to uid", out)?;
    BucketName::put(&msg.bucket, "bucket", out)?;
    match &msg.body {
        BucketBody::Ranges(statement) => RangeStatement::put(statement, "", out),
        BucketBody::Ask(ask) => <Boxed<OwnerAsk> as Form<Box<OwnerAsk>>>::put(ask, "", out),
        BucketBody::Answer(answer) => <Boxed<OwnerAnswer> as Form<Box<OwnerAnswer>>>::put(answer, "", out),
        BucketBody::Content(content) => RangeContent::put(content, "", out),
        BucketBody::Trees(said) => <Boxed<TreeStatement> as Form<Box<TreeStatement>>>::put(said, "", out),
        BucketBody::Watch(statement) => KeyWatchStatement::put(statement, "", out),
        BucketBody::Notice(notice) => NoticeStatement::put(notice, "", out),
        BucketBody::Hint(said) => <Boxed<HintStatement> as Form<Box<HintStatement>>>::put(said, "", out),
        BucketBody::List(ask) => <Boxed<ListAsk> as Form<Box<ListAsk>>>::put(ask, "", out),
        BucketBody::Listed(answer) => <Boxed<ListAnswer> as Form<Box<ListAnswer>>>::put(answer, "", out),
    }
}

pub(super) fn read(tag: MessageTag, reader: &mut FieldSource<'_>) -> Result<Msg, WireError> {
    let to_uid = reader.u64()?;
    let bucket = BucketName::read(reader, "bucket")?;
    let body = match tag {
        Msg::KV_RANGES => BucketBody::Ranges(RangeStatement::read(reader, "")?),
        Msg::KV_ASK => BucketBody::Ask(<Boxed<OwnerAsk> as Form<_>>::read(reader, "")?),
        Msg::KV_ANSWER => BucketBody::Answer(<Boxed<OwnerAnswer> as Form<_>>::read(reader, "")?),
        Msg::KV_CONTENT => BucketBody::Content(RangeContent::read(reader, "")?),
        Msg::KV_TREES => BucketBody::Trees(<Boxed<TreeStatement> as Form<_>>::read(reader, "")?),
        Msg::KV_WATCH => BucketBody::Watch(KeyWatchStatement::read(reader, "")?),
        Msg::KV_NOTICE => BucketBody::Notice(NoticeStatement::read(reader, "")?),
        Msg::KV_HINT => BucketBody::Hint(<Boxed<HintStatement> as Form<_>>::read(reader, "")?),
        Msg::KV_LIST => BucketBody::List(<Boxed<ListAsk> as Form<_>>::read(reader, "")?),
        Msg::KV_LISTED => BucketBody::Listed(<Boxed<ListAnswer> as Form<_>>::read(reader, "")?),
        MessageTag { kind, .. } => return Err(WireError::UnknownKind { kind }),
    };
    Ok(Msg { to_uid, bucket, body })
}

#[cfg(test)]
pub(super) fn rows() -> Vec<String> {
    let names = [
        "BucketRanges",
        "BucketAsk",
        "BucketAnswer",
        "BucketContent",
        "BucketTrees",
        "BucketList",
        "BucketListed",
        "BucketWatch",
        "BucketNotice",
        "BucketHint",
    ];
    let tags = Msg::TAGS.iter().zip(names);
    tags.map(|(tag, name)| message_row(*tag, name)).collect()
}
