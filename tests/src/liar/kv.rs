//! What nodes say about buckets of the keyed store. What an owner holds is its own to say, so nothing is said
//! of what keys hold: epochs, terms, turns and stores are drawn. Spec: sharding 2.5, 10.19, `docs/WIRE.md` 4.

use quorate_core::ddata::state::key::{Key, Pattern};
use quorate_core::journal::state::StoreId;
use quorate_core::kv::protocol::hints::{HintAnswer, HintAsk, HintStatement, HintWanted};
use quorate_core::kv::protocol::listing::{ListAnswer, ListAsk, OwnerListed};
use quorate_core::kv::protocol::trees::{TreeAnswer, TreeAsk, TreeStatement};
use quorate_core::kv::protocol::watching::{KeyWatchStatement, NoticeStatement};
use quorate_core::kv::protocol::{
    AdoptedRange, BucketBody, Msg, OwnerAnswer, OwnerAsk, RangeContent, RangeStatement, StoreAt,
};
use quorate_core::kv::state::bucket::BucketName;
use quorate_core::kv::state::call::{Ballot, CallId};
use quorate_core::kv::state::configuration::{Configuration, Owners};
use quorate_core::kv::state::entry::KvEntry;
use quorate_core::kv::state::exchange::{KvAnswer, KvAsk, KvRefusal};
use quorate_core::kv::state::listed::{KeysWanted, ListedPart};
use quorate_core::kv::state::logged::LogWrite;
use quorate_core::kv::state::node::{FAN_OUT, MerkleNode};
use quorate_core::kv::state::part::RangePart;
use quorate_core::kv::state::settings::BucketSettings;
use quorate_core::kv::state::table::{RangeId, TableChange};
use quorate_core::message::Message;

use super::Lie;
use super::numbers::{BALLOT, CALL, COUNT, HASH, RANGE, RANGE_EPOCH};

/// Buckets of which it speaks: those that the simulator opens, and one that nobody does.
const BUCKETS: [&str; 3] = ["carts", "kept", "lie"];

/// See [`super::Kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names of the messages")]
pub enum Kind {
    Ranges,
    Ask,
    Answer,
    Content,
    List,
    Listed,
    Watch,
    Notice,
    Trees,
    Hint,
}

impl Kind {
    pub(super) const ALL: [Self; 10] = [
        Self::Ranges,
        Self::Ask,
        Self::Answer,
        Self::Content,
        Self::List,
        Self::Listed,
        Self::Watch,
        Self::Notice,
        Self::Trees,
        Self::Hint,
    ];

    pub(super) const fn of(msg: &Msg) -> Self {
        match &msg.body {
            BucketBody::Ranges(_) => Self::Ranges,
            BucketBody::Ask(_) => Self::Ask,
            BucketBody::Answer(_) => Self::Answer,
            BucketBody::Content(_) => Self::Content,
            BucketBody::Trees(_) => Self::Trees,
            BucketBody::List(_) => Self::List,
            BucketBody::Listed(_) => Self::Listed,
            BucketBody::Watch(_) => Self::Watch,
            BucketBody::Notice(_) => Self::Notice,
            BucketBody::Hint(_) => Self::Hint,
        }
    }
}

pub(super) fn say(kind: Kind, lie: &mut Lie<'_>) -> Message {
    let body = match kind {
        Kind::Ranges => BucketBody::Ranges(statement(lie)),
        Kind::Ask => BucketBody::Ask(Box::new(OwnerAsk {
            store: store(lie),
            range: range(lie),
            configuration: configuration(lie),
            key: key(lie),
            call: lie.number(CALL),
            step: lie.number_u32(COUNT),
            ask: match lie.chance.below(3) {
                0 => KvAsk::Get,
                1 => KvAsk::Promise(ballot(lie)),
                _ => KvAsk::Extend {
                    ballot: ballot(lie),
                    write: LogWrite::Forget {
                        token: lie.token(),
                        through: lie.number(COUNT),
                    },
                },
            },
        })),
        Kind::Answer => BucketBody::Answer(Box::new(OwnerAnswer {
            store: store(lie),
            call: lie.number(CALL),
            step: lie.number_u32(COUNT),
            epoch: lie.number(RANGE_EPOCH),
            answer: answer(lie),
        })),
        Kind::Content => BucketBody::Content(content(lie)),
        Kind::Trees => BucketBody::Trees(Box::new(tree(lie))),
        Kind::Hint => BucketBody::Hint(Box::new(hint(lie))),
        Kind::List => BucketBody::List(Box::new(ListAsk {
            store: store(lie),
            range: range(lie),
            configuration: configuration(lie),
            listing: lie.number(CALL),
            wanted: KeysWanted {
                prefix: "".into(),
                after: lie.flag().then(|| key(lie)),
                keys_max: lie.number_u16(COUNT),
            },
        })),
        Kind::Watch => BucketBody::Watch(KeyWatchStatement::Watch {
            store: store(lie),
            watch: lie.number(CALL),
            pattern: Pattern::Key(key(lie)),
        }),
        Kind::Notice => BucketBody::Notice(NoticeStatement::Changed {
            store: store(lie),
            watch: lie.number(CALL),
            session: lie.number(COUNT),
            number: lie.number(COUNT),
            keys: vec![key(lie)],
        }),
        Kind::Listed => BucketBody::Listed(Box::new(ListAnswer {
            store: store(lie),
            listing: lie.number(CALL),
            range: range(lie),
            epoch: lie.number(RANGE_EPOCH),
            said: listed(lie),
        })),
    };
    Message::Kv(Msg {
        to_uid: lie.to.uid(),
        bucket: bucket(lie),
        body,
    })
}

/// One that there is, or none.
pub(super) fn bucket(lie: &mut Lie<'_>) -> BucketName {
    let name = lie.one(&BUCKETS).unwrap_or("lie");
    BucketName::new(name).expect("invariant: a short name is legal")
}

/// Nothing is said of what keys hold.
fn hint(lie: &mut Lie<'_>) -> HintStatement {
    let (call, step) = (lie.number(CALL), lie.number_u32(COUNT));
    let age_ms = lie.number(COUNT);
    if lie.flag() {
        return HintStatement::Answer(HintAnswer {
            store: store(lie),
            owner: store(lie),
            call,
            step,
            epoch: lie.number(RANGE_EPOCH),
            age_ms,
            answer: answer(lie),
        });
    }
    let entry = KvEntry::default();
    HintStatement::Ask(HintAsk {
        store: store(lie),
        owner: store(lie),
        range: range(lie),
        configuration: configuration(lie),
        key: key(lie),
        call,
        step,
        wanted: match lie.flag() {
            true => HintWanted::Held,
            false => HintWanted::Keep { entry, age_ms },
        },
    })
}

fn statement(lie: &mut Lie<'_>) -> RangeStatement {
    match lie.chance.below(11) {
        0 => RangeStatement::Look {
            settings: BucketSettings::default(),
            store: lie.flag().then(|| store(lie)),
        },
        1 => RangeStatement::Differs {
            settings: BucketSettings::default(),
        },
        2 => RangeStatement::Seek { term: lie.token() },
        3 => RangeStatement::NotOpen { term: lie.token() },
        4 => RangeStatement::Recall {
            term: lie.token(),
            store: store(lie),
        },
        5 => RangeStatement::Found {
            term: lie.token(),
            store: store(lie),
            known: configurations(lie),
            is_last: lie.flag(),
        },
        6 => RangeStatement::Tell {
            term: lie.token(),
            store: store(lie),
            ranges: configurations(lie),
        },
        7 => RangeStatement::Adopted {
            term: lie.token(),
            store: store(lie),
            ranges: ranges(lie)
                .into_iter()
                .map(|range| AdoptedRange {
                    range,
                    epoch: lie.number(RANGE_EPOCH),
                    merged: Vec::new(),
                })
                .collect(),
        },
        8 => RangeStatement::Repair {
            term: lie.token(),
            store: store(lie),
            range: range(lie),
        },
        9 => RangeStatement::Refuse {
            store: store(lie),
            range: range(lie),
            configuration: configuration(lie),
        },
        _ => RangeStatement::Refuses {
            store: store(lie),
            range: range(lie),
            epoch: lie.number(RANGE_EPOCH),
        },
    }
}

fn answer(lie: &mut Lie<'_>) -> KvAnswer {
    match lie.chance.below(4) {
        0 => KvAnswer::Done,
        1 => KvAnswer::Refused(KvRefusal::OtherConfiguration(configuration(lie))),
        2 => KvAnswer::Refused(KvRefusal::Blocked(ballot(lie))),
        _ => KvAnswer::Refused(KvRefusal::TooFarAhead),
    }
}

/// Nothing is said of what keys hold.
fn listed(lie: &mut Lie<'_>) -> OwnerListed {
    match lie.chance.below(3) {
        0 => OwnerListed::Refused(KvRefusal::OtherConfiguration(configuration(lie))),
        1 => OwnerListed::Refused(KvRefusal::Behind),
        _ => OwnerListed::Part(ListedPart {
            keys: Vec::new(),
            is_last: false,
        }),
    }
}

fn content(lie: &mut Lie<'_>) -> RangeContent {
    match lie.chance.below(3) {
        0 => {
            let node = lie.node();
            RangeContent::Table {
                term: lie.token(),
                stores: vec![StoreAt {
                    store: store(lie),
                    node,
                }],
                table: TableChange::default(),
            }
        }
        1 => RangeContent::Pull {
            store: store(lie),
            range: range(lie),
            configuration: configuration(lie),
            after: None,
        },
        _ => RangeContent::Part {
            store: store(lie),
            range: range(lie),
            epoch: lie.number(RANGE_EPOCH),
            after: None,
            part: RangePart {
                items: Vec::new(),
                is_last: true,
            },
        },
    }
}

fn tree(lie: &mut Lie<'_>) -> TreeStatement {
    let node = |lie: &mut Lie<'_>| {
        let level = u8::try_from(lie.chance.below(4)).expect("invariant: below four");
        let last = FAN_OUT.pow(u32::from(level)) as u64 - 1;
        let at = u16::try_from(lie.chance.below(last + 1)).expect("invariant: few nodes");
        MerkleNode::of(level, at).unwrap_or(MerkleNode::ROOT)
    };
    let said = TreeAnswer {
        store: store(lie),
        comparison: lie.number(CALL),
    };
    let asked = TreeAsk {
        store: said.store,
        range: range(lie),
        configuration: configuration(lie),
        comparison: said.comparison,
    };
    match lie.chance.below(4) {
        0 => {
            let nodes = vec![node(lie)];
            TreeStatement::Compare { asked, nodes }
        }
        1 => {
            let sums = (0..FAN_OUT).map(|_| lie.number(HASH)).collect();
            TreeStatement::Sums { said, sums }
        }
        2 => {
            let leaves = vec![node(lie)];
            let after = None;
            TreeStatement::Fetch { asked, leaves, after }
        }
        _ => {
            let next = lie.flag().then(|| key(lie).as_str().as_bytes().into());
            let items = Vec::new();
            TreeStatement::Held { said, items, next }
        }
    }
}

fn store(lie: &mut Lie<'_>) -> StoreId {
    match lie.one(&lie.known.stores) {
        Some(store) if lie.flag() => store,
        _ => StoreId(u128::from(lie.number(HASH))),
    }
}

fn range(lie: &mut Lie<'_>) -> RangeId {
    RangeId(lie.number_u16(RANGE))
}

/// A few, ascending.
fn ranges(lie: &mut Lie<'_>) -> Vec<RangeId> {
    let mut ranges = lie.few(range);
    ranges.sort_unstable();
    ranges.dedup();
    ranges
}

fn configurations(lie: &mut Lie<'_>) -> Vec<(RangeId, Configuration)> {
    let ranges = ranges(lie);
    ranges
        .into_iter()
        .map(|range| (range, configuration(lie)))
        .collect()
}

/// Three owners, each once.
fn configuration(lie: &mut Lie<'_>) -> Configuration {
    let mut owners: Vec<StoreId> = Vec::new();
    let mut next = store(lie);
    while owners.len() < 3 {
        if !owners.contains(&next) {
            owners.push(next);
        }
        next = StoreId(next.0.wrapping_add(1));
    }
    Configuration {
        epoch: lie.number(RANGE_EPOCH),
        owners: Owners::Stable(owners),
    }
}

fn ballot(lie: &mut Lie<'_>) -> Ballot {
    Ballot {
        round: lie.number(BALLOT),
        call: CallId {
            origin: lie.number(HASH),
            number: lie.number(CALL),
        },
        step: lie.number_u32(COUNT),
    }
}

fn key(lie: &mut Lie<'_>) -> Key {
    let name = format!("lie-{}", lie.chance.below(64));
    Key::new(&name).expect("invariant: a short name is legal")
}
