//! Samples of what nodes say about buckets.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::node;
use crate::ddata::state::key::{Key, Pattern};
use crate::ident::{Role, UniqueAddress};
use crate::journal::state::StoreId;
use crate::kv::protocol::hints::{HintAnswer, HintAsk, HintStatement, HintWanted};
use crate::kv::protocol::listing::{ListAnswer, ListAsk, OwnerListed};
use crate::kv::protocol::trees::{TreeAnswer, TreeAsk, TreeStatement};
use crate::kv::protocol::watching::{KeyWatchStatement, NoticeStatement};
use crate::kv::protocol::{
    AdoptedRange, BucketBody, OwnerAnswer, OwnerAsk, RangeContent, RangeStatement, StoreAt,
};
use crate::kv::state::bucket::BucketName;
use crate::kv::state::call::{Ballot, CallId, RequestId};
use crate::kv::state::clock::{Actor, VersionClock, VersionDot};
use crate::kv::state::configuration::{Configuration, Owners};
use crate::kv::state::entry::{AcceptedDecision, DecidedVersion, KeyDecision, KvEntry};
use crate::kv::state::exchange::{KvAnswer, KvAsk, KvChange, KvRefusal, Mint, SettleStep};
use crate::kv::state::level::Level;
use crate::kv::state::listed::{KeysWanted, ListedKey, ListedPart};
use crate::kv::state::logged::{LogChange, LogRecord, LogWrite};
use crate::kv::state::node::MerkleNode;
use crate::kv::state::part::{RangeItem, RangePart};
use crate::kv::state::settings::BucketSettings;
use crate::kv::state::siblings::{PutError, Siblings, Version, VersionContent};
use crate::kv::state::table::{RangeEntry, RangeId, RangeLevels, TableChange, replaced};
use crate::message::{KvMsg, Message};
use crate::store::Bytes;
use crate::token::Token;

const TERM: Token = Token::new(3, 1);
const STORE: StoreId = StoreId(0x0102_0304_0506);
const RANGE: RangeId = RangeId(255);

fn bytes(text: &str) -> Bytes {
    Arc::from(text.as_bytes())
}

fn stable() -> Configuration {
    let owners = Owners::Stable([9, 2, 5].map(StoreId).to_vec());
    Configuration { epoch: 7, owners }
}

fn joint() -> Configuration {
    let owners = replaced(&[9, 2, 5].map(StoreId), StoreId(2), StoreId(4)).unwrap();
    Configuration { epoch: 8, owners }
}

fn actor() -> Actor {
    Actor {
        store: STORE,
        boot: 2,
        since: 7,
    }
}

fn call() -> CallId {
    CallId {
        origin: 77,
        number: 12,
    }
}

fn ballot() -> Ballot {
    Ballot {
        round: 4,
        call: call(),
        step: 2,
    }
}

fn siblings() -> Siblings {
    let mut siblings = Siblings::new();
    let contents = [
        VersionContent::Tombstone,
        VersionContent::Value {
            bytes: bytes("a value"),
            expires_ms: Some(1_700_000_000_500),
        },
        VersionContent::Value {
            bytes: bytes(""),
            expires_ms: None,
        },
    ];
    for (count, content) in (1..).zip(contents) {
        let dot = VersionDot {
            actor: actor(),
            count,
        };
        let version = Version {
            dot,
            at_ms: 1_700_000_000_000,
            content,
        };
        siblings.put(version, &VersionClock::new()).unwrap();
    }
    siblings
}

fn accepted(decision: KeyDecision) -> AcceptedDecision {
    AcceptedDecision {
        ballot: ballot(),
        decision,
    }
}

fn value() -> KeyDecision {
    KeyDecision::Value(DecidedVersion {
        version: call(),
        before: Some(call()),
        at_ms: 1_700_000_000_001,
        content: VersionContent::Value {
            bytes: bytes("decided"),
            expires_ms: None,
        },
    })
}

fn writes() -> [(&'static str, LogWrite); 3] {
    let token = Token::new(0, 1);
    let append = LogWrite::Append {
        token,
        expected: 0,
        records: ["one", "two"].map(bytes).into(),
    };
    let keep = LogWrite::Keep {
        token,
        through: 1,
        state: bytes("a state"),
    };
    let forget = LogWrite::Forget { token, through: 2 };
    [
        ("kv_log_append", append),
        ("kv_log_keep", keep),
        ("kv_log_forget", forget),
    ]
}

fn log() -> KeyDecision {
    let claim = LogChange::Claim { placement: None };
    let mut log = claim.applied(&LogRecord::default()).unwrap();
    for (_, write) in writes().into_iter().take(2) {
        log = write.applied(&log).unwrap();
    }
    KeyDecision::Value(DecidedVersion {
        version: call(),
        before: None,
        at_ms: 1_700_000_000_003,
        content: VersionContent::Log(Arc::new(log)),
    })
}

fn decided() -> KvEntry {
    let mut entry = KvEntry::of(siblings());
    entry.accept(&accepted(value())).unwrap();
    entry
}

fn asks() -> Vec<(&'static str, KvAsk)> {
    let mint = |change, context| {
        KvAsk::Mint(Mint {
            request: RequestId {
                call: call(),
                attempt: 1,
            },
            open_from: 9,
            actor: actor(),
            context,
            is_proven: true,
            change,
        })
    };
    let put = |ttl_ms| KvChange::Put {
        bytes: bytes("a value"),
        ttl_ms,
    };
    let settle = |step| KvAsk::Settle {
        digest: 0x1122_3344,
        step,
    };
    let ordinary = KeyDecision::Ordinary {
        at_ms: 1_700_000_000_002,
    };
    let extends = writes().map(|(name, write)| {
        let ballot = ballot();
        (name, KvAsk::Extend { ballot, write })
    });
    let asks = [
        ("kv_get", KvAsk::Get),
        ("kv_put", mint(put(None), VersionClock::new())),
        ("kv_put_ttl", mint(put(Some(60_000)), siblings().clock().clone())),
        ("kv_delete", mint(KvChange::Delete, siblings().clock().clone())),
        ("kv_merge", KvAsk::Merge(KvEntry::of(siblings()))),
        ("kv_merge_decided", KvAsk::Merge(decided())),
        ("kv_promise", KvAsk::Promise(ballot())),
        ("kv_accept", KvAsk::Accept(accepted(value()))),
        ("kv_accept_ordinary", KvAsk::Accept(accepted(ordinary))),
        ("kv_settle_compare", settle(SettleStep::Compare)),
        ("kv_settle_reap", settle(SettleStep::Reap)),
        ("kv_settle_prune", settle(SettleStep::Prune([actor()].into()))),
        ("kv_accept_log", KvAsk::Accept(accepted(log()))),
    ];
    asks.into_iter().chain(extends).collect()
}

fn answers() -> Vec<(&'static str, KvAnswer)> {
    let dot = VersionDot {
        actor: actor(),
        count: 3,
    };
    let mut promised = KvEntry::default();
    promised.promise_to(ballot()).unwrap();
    let entry = KvEntry::of(siblings());
    let refused = KvAnswer::Refused;
    [
        ("kv_held_nothing", KvAnswer::Held(KvEntry::default())),
        ("kv_held_promise", KvAnswer::Held(promised)),
        ("kv_held", KvAnswer::Held(decided())),
        ("kv_minted", KvAnswer::Minted { dot, entry }),
        ("kv_done", KvAnswer::Done),
        ("kv_other_owners", refused(KvRefusal::OtherConfiguration(joint()))),
        ("kv_no_owner", refused(KvRefusal::NoOwner)),
        ("kv_behind", refused(KvRefusal::Behind)),
        ("kv_other_actor", refused(KvRefusal::OtherActor(actor()))),
        ("kv_over", refused(KvRefusal::Over)),
        ("kv_busy", refused(KvRefusal::Busy)),
        ("kv_too_far_ahead", refused(KvRefusal::TooFarAhead)),
        ("kv_blocked", refused(KvRefusal::Blocked(ballot()))),
        ("kv_conditional", refused(KvRefusal::Conditional)),
        ("kv_too_many_siblings", refused(PutError::Siblings.into())),
        ("kv_too_many_bytes", refused(PutError::Bytes.into())),
        ("kv_too_many_actors", refused(PutError::Actors.into())),
        ("kv_full", refused(PutError::Full.into())),
        ("kv_ttl", refused(KvRefusal::Ttl)),
        ("kv_not_alike", refused(KvRefusal::NotAlike)),
        ("kv_no_hint", refused(KvRefusal::NoHint)),
    ]
    .into()
}

fn statements() -> Vec<(&'static str, RangeStatement)> {
    let least = BucketSettings::default();
    let other = BucketSettings {
        copies: 5,
        read_least: Level::One,
        write_least: Level::All,
        ranges: 4_096,
        merge: Some("union".into()),
        is_durable: false,
        is_sloppy: false,
        role: Some(Role::new("keeper").unwrap()),
    };
    let [in_memory, durable] = [false, true].map(|is_durable| BucketSettings {
        is_durable,
        is_sloppy: true,
        ..BucketSettings::default()
    });
    let counted = BucketSettings {
        read_least: Level::Replicas(3),
        ..other.clone()
    };
    let (term, store, range) = (TERM, STORE, RANGE);
    let ranges = || [(RangeId(0), stable()), (RANGE, joint())].to_vec();
    let look = |settings, store| RangeStatement::Look { settings, store };
    let found = |known, is_last| RangeStatement::Found {
        term,
        store,
        known,
        is_last,
    };
    let adopted = AdoptedRange {
        range,
        epoch: 8,
        merged: [9, 2].map(StoreId).to_vec(),
    };
    [
        ("kv_look", look(least, None)),
        ("kv_look_store", look(other, Some(STORE))),
        ("kv_look_sloppy", look(in_memory, None)),
        ("kv_look_sloppy_durable", look(durable, None)),
        ("kv_differs", RangeStatement::Differs { settings: counted }),
        ("kv_seek", RangeStatement::Seek { term }),
        ("kv_not_open", RangeStatement::NotOpen { term }),
        ("kv_recall", RangeStatement::Recall { term, store }),
        ("kv_found", found(ranges(), false)),
        ("kv_found_nothing", found(Vec::new(), true)),
        (
            "kv_tell",
            RangeStatement::Tell {
                term,
                store,
                ranges: ranges(),
            },
        ),
        (
            "kv_adopted",
            RangeStatement::Adopted {
                term,
                store,
                ranges: [adopted].into(),
            },
        ),
        ("kv_repair", RangeStatement::Repair { term, store, range }),
        (
            "kv_refuse",
            RangeStatement::Refuse {
                store,
                range,
                configuration: joint(),
            },
        ),
        (
            "kv_refuses",
            RangeStatement::Refuses {
                store,
                range,
                epoch: 8,
            },
        ),
    ]
    .into()
}

fn trees() -> Vec<(&'static str, TreeStatement)> {
    let asked = || TreeAsk {
        store: STORE,
        range: RANGE,
        configuration: stable(),
        comparison: 4,
    };
    let said = TreeAnswer {
        store: STORE,
        comparison: 4,
    };
    let item = RangeItem {
        key: bytes("b"),
        content: Arc::from(decided().encode().unwrap()),
        promised: Token::NONE,
    };
    let nodes = [MerkleNode::ROOT, MerkleNode::of(2, 255).unwrap()];
    let leaves = [MerkleNode::of(3, 4).unwrap(), MerkleNode::of(3, 4_095).unwrap()];
    let sums = (1..=16).collect();
    [
        (
            "kv_compare",
            TreeStatement::Compare {
                asked: asked(),
                nodes: nodes.into(),
            },
        ),
        ("kv_sums", TreeStatement::Sums { said, sums }),
        (
            "kv_fetch",
            TreeStatement::Fetch {
                asked: asked(),
                leaves: leaves.into(),
                after: Some(bytes("a")),
            },
        ),
        (
            "kv_tree_held",
            TreeStatement::Held {
                said,
                items: [item].into(),
                next: Some(bytes("b")),
            },
        ),
    ]
    .into()
}

fn contents(to: &UniqueAddress) -> Vec<(&'static str, RangeContent)> {
    let levels = RangeLevels::new(3, 2, 2).unwrap();
    let entry = |configuration| RangeEntry {
        configuration,
        levels,
    };
    let table = TableChange {
        entries: [(RangeId(0), entry(stable())), (RANGE, entry(joint()))].into(),
        lost: [StoreId(2)].into(),
    };
    let stores = [
        StoreAt {
            store: StoreId(9),
            node: to.clone(),
        },
        StoreAt {
            store: StoreId(5),
            node: node("other", 1, 7),
        },
    ];
    let pull = |after| RangeContent::Pull {
        store: STORE,
        range: RANGE,
        configuration: joint(),
        after,
    };
    let part = |after, items, is_last| RangeContent::Part {
        store: STORE,
        range: RANGE,
        epoch: 8,
        after,
        part: RangePart { items, is_last },
    };
    let item = RangeItem {
        key: bytes("b"),
        content: Arc::from(decided().encode().unwrap()),
        promised: Token::NONE,
    };
    [
        (
            "kv_table",
            RangeContent::Table {
                term: TERM,
                stores: stores.into(),
                table,
            },
        ),
        ("kv_pull", pull(None)),
        ("kv_pull_behind", pull(Some(bytes("a")))),
        ("kv_part", part(Some(bytes("a")), [item].into(), false)),
        ("kv_part_last", part(None, Vec::new(), true)),
    ]
    .into()
}

fn listings() -> Vec<(&'static str, BucketBody)> {
    let key = |name| Key::new(name).unwrap();
    let list = |prefix: &str, after| {
        BucketBody::List(Box::new(ListAsk {
            store: STORE,
            range: RANGE,
            configuration: stable(),
            listing: 12,
            wanted: KeysWanted {
                prefix: prefix.into(),
                after,
                keys_max: 300,
            },
        }))
    };
    let listed = |said| {
        BucketBody::Listed(Box::new(ListAnswer {
            store: STORE,
            listing: 12,
            range: RANGE,
            epoch: 7,
            said,
        }))
    };
    let listed_key = |name, is_alive| ListedKey {
        key: key(name),
        digest: 0x1122_3344,
        is_alive,
        is_decided: !is_alive,
    };
    let part = ListedPart {
        keys: [listed_key("a", true), listed_key("b", false)].into(),
        is_last: false,
    };
    [
        ("kv_list", list("", None)),
        ("kv_list_behind", list("a", Some(key("a key")))),
        ("kv_listed", listed(OwnerListed::Part(part))),
        (
            "kv_listed_refused",
            listed(OwnerListed::Refused(KvRefusal::Behind)),
        ),
    ]
    .into()
}

fn watches() -> Vec<(&'static str, BucketBody)> {
    let (store, watch) = (STORE, 12);
    let key = |name| Key::new(name).unwrap();
    let of = |pattern| {
        BucketBody::Watch(KeyWatchStatement::Watch {
            store,
            watch,
            pattern,
        })
    };
    let notice = |number, keys| {
        BucketBody::Notice(NoticeStatement::Changed {
            store,
            watch,
            session: 3,
            number,
            keys,
        })
    };
    let refused = NoticeStatement::Refused { store, watch };
    [
        ("kv_watch_key", of(Pattern::Key(key("a key")))),
        ("kv_watch_prefix", of(Pattern::Prefix("a ".into()))),
        (
            "kv_unwatch",
            BucketBody::Watch(KeyWatchStatement::Unwatch { store, watch }),
        ),
        ("kv_notice", notice(7, [key("a"), key("b")].into())),
        ("kv_notice_answer", notice(0, Vec::new())),
        ("kv_notice_refused", BucketBody::Notice(refused)),
    ]
    .into()
}

fn hints() -> Vec<(&'static str, BucketBody)> {
    let ask = |wanted| {
        let asked = HintAsk {
            store: STORE,
            owner: StoreId(9),
            range: RANGE,
            configuration: stable(),
            key: Key::new("a key").unwrap(),
            call: 12,
            step: 2,
            wanted,
        };
        BucketBody::Hint(Box::new(HintStatement::Ask(asked)))
    };
    let answer = HintAnswer {
        store: STORE,
        owner: StoreId(9),
        call: 12,
        step: 2,
        epoch: 7,
        age_ms: 1_500,
        answer: KvAnswer::Done,
    };
    let (entry, age_ms) = (KvEntry::of(siblings()), 1_000);
    [
        ("kv_hint_held", ask(HintWanted::Held)),
        ("kv_hint_keep", ask(HintWanted::Keep { entry, age_ms })),
        (
            "kv_hint_answer",
            BucketBody::Hint(Box::new(HintStatement::Answer(answer))),
        ),
    ]
    .into()
}

pub(super) fn kv_messages(to: &UniqueAddress) -> Vec<(&'static str, Message)> {
    let asked = |ask| OwnerAsk {
        store: STORE,
        range: RANGE,
        configuration: stable(),
        key: Key::new("a key").unwrap(),
        call: 12,
        step: 2,
        ask,
    };
    let answered = |answer| OwnerAnswer {
        store: STORE,
        call: 12,
        step: 2,
        epoch: 7,
        answer,
    };
    let asks = asks().into_iter();
    let asks = asks.map(|(name, ask)| (name, BucketBody::Ask(Box::new(asked(ask)))));
    let answers = answers().into_iter();
    let answers = answers.map(|(name, answer)| (name, BucketBody::Answer(Box::new(answered(answer)))));
    let statements = statements().into_iter();
    let statements = statements.map(|(name, statement)| (name, BucketBody::Ranges(statement)));
    let contents = contents(to).into_iter();
    let contents = contents.map(|(name, content)| (name, BucketBody::Content(content)));
    let trees = trees().into_iter();
    let trees = trees.map(|(name, statement)| (name, BucketBody::Trees(Box::new(statement))));
    let bodies = statements.chain(asks).chain(answers).chain(contents).chain(trees);
    let bodies = bodies.chain(listings()).chain(watches()).chain(hints());
    let messages = bodies.map(|(name, body)| {
        let msg = KvMsg {
            to_uid: to.uid(),
            bucket: BucketName::new("carts").unwrap(),
            body,
        };
        (name, Message::Kv(msg))
    });
    messages.collect()
}
