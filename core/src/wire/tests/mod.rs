//! Samples of every message, and their way to bytes and back.

mod declared;
mod frames;
mod golden;
mod handshakes;
mod kv;
mod limits;
mod paths;
mod placements;
mod random;
mod states;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::declare::{Form, Rises, Text, read_whole, written};
use super::*;
use crate::agreement::{Setting, Settings};
use crate::config::Limits;
use crate::ddata::crdt::CustomTypes;
use crate::ident::{Address, Role, Roles, UniqueAddress};
use crate::journal::protocol::{
    ReplicaAnswer, ReplicaAsk, ReplicaPage, ReplicaReply, ReplicaRequest, VoterBody, VoterMsg,
};
use crate::journal::state::{LogEntry, LogItem, LogPlace, SnapshotHead, StoreId, Voters};
use crate::kv::state::bucket::BucketName;
use crate::kv::state::settings::{BucketFields, BucketSettings};
use crate::load::protocol::{NEIGHBORS_MAX, SAMPLES_MAX};
use crate::load::state::sample::{LoadPartId, LoadSample, PARTS_MAX, PartLoad};
use crate::load::state::share::LoadShare;
use crate::membership::state::app_version::AppVersion;
use crate::membership::state::gossip::{Gossip, GossipParts};
use crate::membership::state::member::{Member, Status, UpNumber};
use crate::membership::state::reachability::{Reachability, ReachabilityStatus};
use crate::membership::state::vector_clock::VectorClock;
use crate::message::{
    AskReply, AskTicket, ChordProbe, ChordReply, DetectorMsg, EntityEnvelope, GossipBody, GossipDelta,
    GossipEnvelope, GossipSeen, GossipStatus, Heartbeat, InitJoin, InitJoinAck, Join, JoinRefused,
    JournalMsg, Lane, LoadMsg, MembershipMsg, Message, SampleTold, ShardMark, ShardingBody, ShardingMessage,
    ShardingMsg, SingletonMsg, StateDigest, StateSteps, Welcome,
};
use crate::ordered::OrderedSet;
use crate::paths::state::tests::sample_table;
use crate::reject::JoinRefusal;
use crate::sharding::protocol::EntityStarts;
use crate::sharding::protocol::ListPart;
use crate::sharding::protocol::registry::{
    Announcement, RegistrationFields, RegistrationId, RegistrationVerdict, RegistryMsg,
};
use crate::sharding::protocol::stop::{StopMsg, StopRefusal};
use crate::sharding::protocol::survey::{
    Decided, EntityListing, EntityPosition, Placement, RegionCounts, ShardDecision, SurveyMsg,
};
use crate::sharding::protocol::watch::{EntityEnd, WatchMsg, WatchStatement};
use crate::sharding::state::chain::AskChain;
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::fields::{KindFields, KindKeeping, StoreMode};
use crate::sharding::state::ids::{AskRef, EntityId, KindId, ShardId, Term};
use crate::sharding::state::remember::RememberStore;
use crate::sharding::state::wish::{Wish, WishObstacle};
use crate::singleton::protocol::{InstanceMessage, SingletonBody, SingletonStatement};
use crate::singleton::state::SingletonId;
use crate::singleton::state::fields::{SingletonFields, SingletonHosting};
use crate::token::Token;

pub(crate) fn node(host: &str, port: u16, uid: i64) -> UniqueAddress {
    UniqueAddress::new(Address::new(host, port).unwrap(), uid.cast_unsigned())
}

fn roles(names: &[&str], data_center: &str) -> Roles {
    Roles::new(names.iter().map(|name| Role::new(name).unwrap()), data_center).unwrap()
}

pub(crate) fn sample_gossip() -> Gossip {
    let stored = Status::ALL
        .into_iter()
        .filter(|status| *status != Status::Removed);
    let mut members: Vec<Member> = stored
        .enumerate()
        .map(|(at, status)| {
            let host = ["alpha", "beta.example", "10.0.0.7"][at % 3];
            let uid = [-3, i64::MAX, 7, i64::MIN][at % 4];
            Member {
                node: node(host, 2551 + u16::try_from(at / 4).unwrap(), uid),
                status,
                up_number: if at == 0 {
                    UpNumber::NONE
                } else {
                    UpNumber::new(u32::try_from(at).unwrap())
                },
                roles: [
                    roles(&[], "default"),
                    roles(&["worker", "io"], "west"),
                    roles(&["io"], "default"),
                ][at % 3]
                    .clone(),
                app_version: AppVersion::new(["0.0.0", "1.2", "1.2.0"][at % 3]).unwrap(),
            }
        })
        .collect();
    members.sort_by(|a, b| a.node.cmp(&b.node));
    let at = |index: usize| members[index].node.clone();
    let mut reachability = Reachability::new();
    reachability.change(&at(1), &at(0), ReachabilityStatus::Unreachable);
    reachability.change(&at(1), &at(2), ReachabilityStatus::Terminated);
    reachability.change(&at(3), &at(5), ReachabilityStatus::Unreachable);
    reachability.change(&at(3), &at(5), ReachabilityStatus::Reachable);
    let version = VectorClock::from_entries(vec![(at(0), 7), (at(4), COUNTER_MAX), (at(6), 1)]).unwrap();
    let tombstones = OrderedSet::from([node("beta.example", 9, -1), node("zeta", 1, 5)]);
    let seen = [0, 3, 7].into_iter().collect();
    Gossip::from_parts(GossipParts {
        members,
        reachability,
        version,
        seen,
        tombstones,
        paths: sample_table(),
    })
    .unwrap()
}

fn settings() -> Settings {
    Settings::new([
        Setting::new("downing.strategy", "keep-oldest"),
        Setting::new("downing.strategy.role", "").if_known(),
        Setting::new("billing.currency", "\u{20ac} or \"EUR\""),
    ])
    .unwrap()
}

/// The same ask, for whose answer two handlers wait.
fn chained(ticket: AskTicket) -> AskTicket {
    let entity = AskChain::entity(KindId::of("files"), &EntityId::from("src/main.rs"));
    AskTicket {
        chain: AskChain::of(&[entity, 7]),
        ..ticket
    }
}

/// The same ask, for whose answer a clock waits.
fn of_a_clock(ticket: AskTicket) -> AskTicket {
    AskTicket {
        chain: AskChain::of_a_clock(),
        ..ticket
    }
}

pub(crate) fn every_message() -> Vec<(&'static str, Message)> {
    let to = node("receiver", 2552, -3);
    let gossip = Arc::new(sample_gossip());
    let beat = Heartbeat::new(&to, 3);
    let ask = Some(AskTicket {
        ask: AskRef {
            asker: to.clone(),
            id: 77,
        },
        remaining_ms: 5_000,
        chain: AskChain::default(),
    });
    let envelope = |payload: &[u8], ask| EntityEnvelope {
        kind: KindId::of("files"),
        shard: ShardId(65_535),
        entity: EntityId::from("src/lib.rs"),
        payload: payload.into(),
        ask,
        hops: 2,
    };
    let mark = ShardMark {
        kind: KindId::of("files"),
        shard: ShardId(65_535),
        number: 0x0102_0304_0506_0708,
    };
    let starts = EntityStarts {
        kind: KindId::of("files"),
        from: ShardId(7),
        shard: ShardId(65_535),
        entities: ["a file", "another"].map(EntityId::from).to_vec(),
    };
    let reply = |result| AskReply {
        id: 77,
        to: to.clone(),
        result,
    };
    let mut all = vec![
        (
            "init_join",
            Message::Membership(MembershipMsg::InitJoin(InitJoin {
                settings: Settings::default(),
            })),
        ),
        (
            "init_join_ack",
            Message::Membership(MembershipMsg::InitJoinAck(InitJoinAck {
                compatible: true,
                settings: Settings::default(),
            })),
        ),
        (
            "init_join_settings",
            Message::Membership(MembershipMsg::InitJoin(InitJoin { settings: settings() })),
        ),
        (
            "init_join_ack_settings",
            Message::Membership(MembershipMsg::InitJoinAck(InitJoinAck {
                compatible: false,
                settings: settings(),
            })),
        ),
        ("init_join_nack", Message::Membership(MembershipMsg::InitJoinNack)),
        (
            "join",
            Message::Membership(MembershipMsg::Join(Join {
                to: to.clone(),
                roles: roles(&["worker"], "west"),
                app_version: AppVersion::new("1.2.3").unwrap(),
            })),
        ),
        (
            "welcome",
            Message::Membership(MembershipMsg::Welcome(Welcome {
                to: to.clone(),
                gossip: Arc::clone(&gossip).into(),
            })),
        ),
        (
            "join_refused",
            Message::Membership(MembershipMsg::JoinRefused(JoinRefused {
                to: to.clone(),
                reason: JoinRefusal::UidRemoved,
            })),
        ),
        (
            "removed",
            Message::Membership(MembershipMsg::Removed { to: to.clone() }),
        ),
        ("leave", Message::Membership(MembershipMsg::Leave(to.clone()))),
        ("down", Message::Membership(MembershipMsg::Down(to.clone()))),
        ("heartbeat", Message::Detector(DetectorMsg::Heartbeat(beat))),
        (
            "heartbeat_rsp",
            Message::Detector(DetectorMsg::HeartbeatRsp(beat)),
        ),
        (
            "exiting_confirmed",
            Message::Membership(MembershipMsg::ExitingConfirmed { to: to.clone() }),
        ),
        (
            "gossip_status",
            Message::Membership(MembershipMsg::GossipStatus(GossipStatus {
                to_uid: to.uid(),
                state: StateDigest(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10),
                seen_digest: gossip.seen_digest(),
                is_answer: true,
            })),
        ),
        (
            "gossip_delta",
            Message::Membership(MembershipMsg::GossipDelta(GossipDelta {
                to: to.clone(),
                is_push: true,
                base: StateDigest(1),
                result: StateDigest(2),
                seen: gossip.seen_set().clone(),
                steps: StateSteps::new(vec![3, 0, 1, 0, 2, 0, 7, 8]),
            })),
        ),
        (
            "gossip_seen",
            Message::Membership(MembershipMsg::GossipSeen(GossipSeen {
                to: to.clone(),
                state: StateDigest(2),
            })),
        ),
        (
            "gossip",
            Message::Membership(MembershipMsg::Gossip(GossipEnvelope {
                to: to.clone(),
                gossip: gossip.into(),
            })),
        ),
        (
            "entity_tell",
            Message::Sharding(ShardingMsg::Entity(envelope(b"", None))),
        ),
        (
            "entity_ask",
            Message::Sharding(ShardingMsg::Entity(envelope(b"how many words?", ask.clone()))),
        ),
        (
            "entity_ask_chain",
            Message::Sharding(ShardingMsg::Entity(envelope(
                b"how many words?",
                ask.clone().map(chained),
            ))),
        ),
        (
            "entity_wake_up",
            Message::Sharding(ShardingMsg::Entity(envelope(
                &crate::wakeups::call(0x0102_0304_0506_0708),
                ask.clone().map(of_a_clock),
            ))),
        ),
        (
            "hand_back",
            Message::Sharding(ShardingMsg::HandBack(envelope(b"how many words?", ask))),
        ),
        ("mark", Message::Sharding(ShardingMsg::Mark(mark))),
        ("mark_ack", Message::Sharding(ShardingMsg::MarkAck(mark))),
        ("start", Message::Sharding(ShardingMsg::Start(starts.clone()))),
        ("started", Message::Sharding(ShardingMsg::Started(starts))),
        (
            "ask_reply",
            Message::Sharding(ShardingMsg::AskReply(reply(Ok(Box::from(*b"42"))))),
        ),
        (
            "ask_failure",
            Message::Sharding(ShardingMsg::AskReply(reply(Err(AskFailure::NodeStopped)))),
        ),
        (
            "ask_failure_unsent",
            Message::Sharding(ShardingMsg::AskReply(reply(Err(AskFailure::NodeStoppedUnsent)))),
        ),
    ];
    all.extend(singleton_messages(&to));
    all.extend(journal_messages(&to));
    all.extend(load_messages(&to));
    all.extend(paths::path_messages(&to));
    all.extend(kv::kv_messages(&to));
    let registry = registry_messages(&to).into_iter();
    all.extend(
        watch_messages().map(|(name, message)| (name, Message::Sharding(ShardingMsg::Watch(message)))),
    );
    all.extend(
        survey_messages().map(|(name, message)| (name, Message::Sharding(ShardingMsg::Survey(message)))),
    );
    all.extend(listings().map(|(name, message)| (name, Message::Sharding(ShardingMsg::Survey(message)))));
    all.extend(registry.map(|(name, message)| (name, Message::Sharding(ShardingMsg::Registry(message)))));
    all.extend(sharding_bodies(&to).into_iter().map(|(name, body)| {
        (
            name,
            Message::Sharding(ShardingMsg::Kind(ShardingMessage {
                kind: KindId::of("files"),
                body,
            })),
        )
    }));
    all
}

fn journal_messages(to: &UniqueAddress) -> Vec<(&'static str, Message)> {
    let token = Token::new(4, 2);
    let stores: Arc<[StoreId]> = [3, 7, u128::MAX].map(StoreId).into();
    let introduction = |asks, store, voters| VoterBody::Introduction { asks, store, voters };
    let voters = |is_settled| {
        Some(Voters {
            stores: Arc::clone(&stores),
            is_settled,
        })
    };
    let voter = |body| JournalMsg::Voter(VoterMsg { to: to.clone(), body });
    let request = |ask| {
        JournalMsg::Request(ReplicaRequest {
            log: Arc::from("counter/7"),
            store: StoreId(7),
            opener: 11,
            id: 12,
            token,
            ask,
        })
    };
    let reply = |said| {
        JournalMsg::Reply(ReplicaReply {
            log: Arc::from("counter/7"),
            store: StoreId(7),
            opener: 11,
            id: 12,
            said,
        })
    };
    let entry = |position, first, records: &[&[u8]]| LogEntry {
        position,
        origin: Token::new(3, 1),
        first,
        records: records.iter().map(|record| Arc::from(*record)).collect(),
    };
    let snapshot = SnapshotHead {
        through: 40,
        covers: 39,
        token,
        parts: 2,
    };
    let part = |index: u32| (index, Arc::from(b"state".as_slice()));
    let keep = |(index, bytes)| ReplicaAsk::Keep {
        snapshot,
        index,
        bytes,
    };
    let full = ReplicaPage {
        snapshot: Some(snapshot),
        items: vec![
            LogItem::Part {
                index: 1,
                bytes: part(1).1,
            },
            LogItem::Entry {
                accepted: token,
                entry: entry(41, 40, &[b"added 3", b""]),
            },
            LogItem::Entry {
                accepted: token,
                entry: entry(42, 42, &[]),
            },
        ],
        next: Some(LogPlace::Entry(43)),
    };
    let empty = ReplicaPage {
        snapshot: None,
        items: vec![],
        next: None,
    };
    let entries = vec![entry(1, 1, &[b"one", b"two"]), entry(2, 3, &[])];
    [
        ("journal_who_are_you", voter(introduction(true, None, None))),
        (
            "journal_introduction_agreed",
            voter(introduction(false, Some(StoreId(7)), voters(false))),
        ),
        (
            "journal_introduction_settled",
            voter(introduction(false, Some(StoreId(7)), voters(true))),
        ),
        (
            "journal_elect",
            voter(VoterBody::Elect {
                stores: Arc::clone(&stores),
            }),
        ),
        ("journal_promise", request(ReplicaAsk::Promise)),
        (
            "journal_read",
            request(ReplicaAsk::Read {
                from: LogPlace::Part(1),
            }),
        ),
        ("journal_accept", request(ReplicaAsk::Accept { entries })),
        (
            "journal_accept_opening",
            request(ReplicaAsk::Accept {
                entries: vec![entry(1, 1, &[])],
            }),
        ),
        ("journal_keep", request(keep(part(1)))),
        ("journal_page", reply(ReplicaAnswer::Page(full))),
        ("journal_page_empty", reply(ReplicaAnswer::Page(empty))),
        ("journal_accepted", reply(ReplicaAnswer::Accepted)),
        ("journal_kept", reply(ReplicaAnswer::Kept)),
        ("journal_refused", reply(ReplicaAnswer::Refused { held: token })),
    ]
    .map(|(name, msg)| (name, msg.into()))
    .into()
}

fn load_messages(to: &UniqueAddress) -> [(&'static str, Message); 5] {
    let share = |thousandths| LoadShare::from_thousandths(thousandths).unwrap();
    let sample = LoadSample {
        cpu: Some(share(159)),
        machine: Some(LoadShare::ALL),
        memory: Some(LoadShare::NONE),
        stall: None,
        mailboxes: Some(share(7)),
    };
    let part = PartLoad {
        part: LoadPartId(0x184335bae0d7ba69),
        mailboxes: share(250),
        messages_per_second: u32::MAX,
        units: 12,
    };
    let told = |parts| LoadMsg::Sample(SampleTold { sample, parts });
    let radius = u8::try_from(NEIGHBORS_MAX).unwrap();
    let reply = |samples, parts| {
        LoadMsg::Reply(ChordReply {
            id: 7,
            samples,
            parts,
        })
    };
    [
        ("load_sample", told(vec![])),
        ("load_sample_with_parts", told(vec![part])),
        ("chord_probe", LoadMsg::Probe(ChordProbe { id: 7, radius })),
        (
            "chord_reply",
            reply(vec![(to.clone(), sample); SAMPLES_MAX], vec![part; PARTS_MAX]),
        ),
        (
            "chord_reply_unknown",
            reply(vec![(to.clone(), LoadSample::default())], vec![]),
        ),
    ]
    .map(|(name, msg)| (name, msg.into()))
}

fn singleton_messages(to: &UniqueAddress) -> Vec<(&'static str, Message)> {
    let singleton = SingletonId::of("billing");
    let token = Token::new(4, 2);
    let bodies = [
        ("singleton_hand_over_to_me", SingletonBody::HandOverToMe),
        (
            "singleton_hand_over_in_progress",
            SingletonBody::HandOverInProgress,
        ),
        (
            "singleton_hand_over_done",
            SingletonBody::HandOverDone { term: 4 },
        ),
        ("singleton_take_over_from_me", SingletonBody::TakeOverFromMe),
        ("singleton_identify", SingletonBody::Identify),
        ("singleton_identified", SingletonBody::Identified { token }),
        ("singleton_gone", SingletonBody::Gone { token }),
        ("singleton_claim", SingletonBody::Claim { term: 5 }),
        ("singleton_promised", SingletonBody::Promised { term: 5 }),
        ("singleton_refused", SingletonBody::Refused { held: 6 }),
    ];
    let statement = |body| SingletonStatement {
        singleton,
        to: to.clone(),
        epoch: 9,
        body,
    };
    let delivery = |ask, payload: &[u8]| InstanceMessage {
        singleton,
        token,
        ask,
        payload: Box::from(payload),
    };
    let ask = AskTicket {
        ask: AskRef {
            asker: to.clone(),
            id: 77,
        },
        remaining_ms: 5_000,
        chain: AskChain::default(),
    };
    let reply = AskReply {
        id: 77,
        to: to.clone(),
        result: Ok(Box::from(*b"42")),
    };
    let mut all: Vec<(&'static str, SingletonMsg)> = bodies
        .into_iter()
        .map(|(name, body)| (name, SingletonMsg::Statement(statement(body))))
        .collect();
    all.push(("singleton_tell", SingletonMsg::Delivery(delivery(None, b""))));
    all.push((
        "singleton_ask",
        SingletonMsg::Delivery(delivery(Some(ask), b"which number?")),
    ));
    all.push(("singleton_reply", SingletonMsg::Reply(reply)));
    all.into_iter()
        .map(|(name, msg)| (name, Message::Singleton(msg)))
        .collect()
}

fn kind_fields(hosts: bool) -> KindFields {
    KindFields {
        name: Arc::from("files"),
        role: hosts.then(|| Role::new("worker").unwrap()),
        shards: 64,
        extractor: Arc::from("siphash-1-3"),
        keeping: hosts.then_some(KindKeeping {
            store: StoreMode::Events,
            remember_entities: Some(RememberStore::Data),
            lease: false,
        }),
    }
}

fn watch_messages() -> [(&'static str, WatchMsg); 5] {
    let say = |statements| WatchMsg::Say { first: 7, statements };
    let watch = |id, known| WatchStatement::Watch {
        id,
        kind: KindId::of("files"),
        entity: EntityId::from("a file"),
        known,
    };
    let ends = [EntityEnd::Stopped, EntityEnd::Failed, EntityEnd::NotRunning];
    let ended = ends.map(|why| WatchStatement::Ended { id: 4, why });
    let answers = vec![
        WatchStatement::Watching { id: 4 },
        WatchStatement::Moved { id: 1 << 40 },
        WatchStatement::Full { id: 6 },
    ];
    [
        ("watch_say", say(vec![watch(4, false), watch(5, true)])),
        ("watch_unwatch", say(vec![WatchStatement::Unwatch { id: 4 }])),
        ("watch_answers", say(answers)),
        ("watch_ended", say(ended.to_vec())),
        ("watch_heard", WatchMsg::Heard { up_to: 9 }),
    ]
}

/// Each decision once.
fn placement() -> Placement {
    let [old, new] = ["a", "b"].map(|host| crate::fixture::node(host, 9));
    let decisions = [
        ShardDecision::Found { home: old.clone() },
        ShardDecision::Moves { from: old.clone() },
        ShardDecision::Freed { home: old },
        ShardDecision::Allocated {
            home: new.clone(),
            is_desired: true,
        },
    ];
    let decided = decisions.into_iter().zip(1_700_000_000_000..);
    Placement {
        home: Some(new),
        is_moving: true,
        may_run_twice: false,
        wish: None,
        decided: decided
            .map(|(decision, at_ms)| Decided { at_ms, decision })
            .collect(),
    }
}

/// Each decision that an earlier version does not know once, and a wish.
fn wished_placement() -> Placement {
    let [old, new] = ["a", "b"].map(|host| crate::fixture::node(host, 9));
    let wish = |by| Wish {
        at: new.address().clone(),
        by,
        since_ms: 1_700_000_000_001,
    };
    let decisions = [
        ShardDecision::Wished(Box::new(wish(None))),
        ShardDecision::NotFollowed {
            wanted: new.address().clone(),
            why: WishObstacle::NotExternal,
        },
        ShardDecision::Moves { from: old.clone() },
        ShardDecision::Stays { home: old.clone() },
        ShardDecision::Unanswered,
    ];
    let decided = decisions.into_iter().zip(1_700_000_000_000..);
    Placement {
        may_run_twice: true,
        wish: Some(wish(Some(old))),
        decided: decided
            .map(|(decision, at_ms)| Decided { at_ms, decision })
            .collect(),
        ..Placement::default()
    }
}

fn stopped() -> Vec<ShardId> {
    vec![ShardId(0), ShardId(65_535)]
}

/// Questions for entities, and their answers.
fn listings() -> [(&'static str, SurveyMsg); 6] {
    let (kind, shard) = (KindId::of("files"), ShardId(7));
    let list = |after| SurveyMsg::List {
        id: 5,
        kind,
        after,
        bytes: 4_096,
    };
    let entity = Some(EntityId::from("b"));
    let node = UniqueAddress::new(Address::new("host", 7_355).unwrap(), 9);
    let ids = ["a", "b"].map(EntityId::from).to_vec();
    let whole = EntityListing {
        shards: vec![(ShardId(0), Vec::new()), (shard, ids)],
        ..EntityListing::default()
    };
    let part = EntityListing {
        more: true,
        homes: vec![(node, vec![ShardId(0), shard])],
        homes_up_to: Some(shard),
        ..whole.clone()
    };
    let entities = |listed| SurveyMsg::Entities { id: 5, listed };
    [
        ("survey_list", list(None)),
        (
            "survey_list_behind_a_shard",
            list(Some(EntityPosition::behind(shard))),
        ),
        ("survey_list_behind", list(Some(EntityPosition { shard, entity }))),
        ("survey_entities", entities(Some(whole))),
        ("survey_some_entities", entities(Some(part))),
        ("survey_no_entities", entities(None)),
    ]
}

fn survey_messages() -> [(&'static str, SurveyMsg); 8] {
    let counts = |region, more| SurveyMsg::Counts { id: 3, region, more };
    let query = SurveyMsg::Query {
        id: 3,
        kind: KindId::of("files"),
    };
    let region = RegionCounts {
        shards: vec![(ShardId(0), 0), (ShardId(7), 65_537)],
        shards_total: 9,
        entities_total: 1 << 40,
    };
    [
        ("survey_query", query),
        ("survey_counts", counts(Some(region.clone()), false)),
        ("survey_some_counts", counts(Some(region), true)),
        ("survey_nothing", counts(None, false)),
        (
            "survey_where",
            SurveyMsg::Where {
                id: 4,
                kind: KindId::of("files"),
                shard: ShardId(7),
            },
        ),
        (
            "survey_there",
            SurveyMsg::There {
                id: 4,
                placement: Some(placement()),
            },
        ),
        (
            "survey_there_and_wished",
            SurveyMsg::There {
                id: 4,
                placement: Some(wished_placement()),
            },
        ),
        (
            "survey_not_there",
            SurveyMsg::There {
                id: 4,
                placement: None,
            },
        ),
    ]
}

fn registry_messages(node: &UniqueAddress) -> Vec<(&'static str, RegistryMsg)> {
    let term = Term {
        up_number: UpNumber::FIRST,
        node: node.clone(),
    };
    let (round, standing) = (3, kind_fields(false));
    let announced = |hosts, accepted| Announcement {
        fields: RegistrationFields::Kind(kind_fields(hosts)),
        accepted,
        running: hosts,
    };
    let all = vec![announced(true, Some(9)), announced(false, None)];
    let leases = Announcement {
        fields: RegistrationFields::Kind(KindFields {
            keeping: Some(KindKeeping {
                store: StoreMode::Memory,
                remember_entities: None,
                lease: true,
            }),
            ..kind_fields(true)
        }),
        accepted: None,
        running: true,
    };
    let billing = |hosting: Option<SingletonHosting>| {
        RegistrationFields::Singleton(SingletonFields {
            name: "billing".into(),
            role: Some(Role::new("worker").unwrap()),
            hosting,
        })
    };
    let hosted = |lease, durable| Announcement {
        fields: billing(Some(SingletonHosting { lease, durable })),
        accepted: Some(7),
        running: true,
    };
    let reached = Announcement {
        fields: billing(None),
        accepted: None,
        running: false,
    };
    let id = RegistrationId::Kind(KindId::of("files"));
    let singleton = RegistrationId::Singleton(SingletonId::of("billing"));
    let verdicts = vec![
        (id.clone(), RegistrationVerdict::Accepted { number: 9 }),
        (
            id.clone(),
            RegistrationVerdict::Refused {
                standing: RegistrationFields::Kind(standing),
            },
        ),
        (id, RegistrationVerdict::TooMany),
    ];
    let of_singleton = vec![
        (singleton.clone(), RegistrationVerdict::Accepted { number: 7 }),
        (
            singleton,
            RegistrationVerdict::Refused {
                standing: billing(None),
            },
        ),
    ];
    let carts = || BucketName::new("carts").unwrap();
    let bucket = |merge: Option<&str>| {
        RegistrationFields::Bucket(BucketFields {
            name: carts(),
            settings: BucketSettings {
                merge: merge.map(Into::into),
                role: merge.and_then(|_| Role::new("worker").ok()),
                ..BucketSettings::default()
            },
        })
    };
    let opened = |merge, accepted| Announcement {
        fields: bucket(merge),
        accepted,
        running: accepted.is_some(),
    };
    let of_bucket = vec![
        (
            RegistrationId::Bucket(carts()),
            RegistrationVerdict::Accepted { number: 7 },
        ),
        (
            RegistrationId::Bucket(carts()),
            RegistrationVerdict::Refused {
                standing: bucket(Some("union")),
            },
        ),
    ];
    vec![
        (
            "registry_announce_buckets",
            RegistryMsg::Announce {
                round,
                all: vec![opened(None, None), opened(Some("union"), Some(7))],
            },
        ),
        (
            "registry_verdicts_buckets",
            RegistryMsg::Verdicts {
                term: term.clone(),
                round,
                verdicts: of_bucket,
            },
        ),
        ("registry_announce", RegistryMsg::Announce { round, all }),
        (
            "registry_announce_leases",
            RegistryMsg::Announce {
                round,
                all: vec![leases],
            },
        ),
        (
            "registry_announce_singletons",
            RegistryMsg::Announce {
                round,
                all: vec![hosted(false, false), hosted(true, true), reached],
            },
        ),
        (
            "registry_verdicts_singletons",
            RegistryMsg::Verdicts {
                term: term.clone(),
                round,
                verdicts: of_singleton,
            },
        ),
        (
            "registry_verdicts",
            RegistryMsg::Verdicts {
                term: term.clone(),
                round,
                verdicts,
            },
        ),
        ("registry_query", RegistryMsg::Query { term }),
    ]
}

fn sharding_bodies(node: &UniqueAddress) -> Vec<(&'static str, ShardingBody)> {
    let term = Term {
        up_number: UpNumber::FIRST,
        node: node.clone(),
    };
    let t = || term.clone();
    let (begin, forgotten) = (
        |number| ShardingBody::BeginHandOff {
            term: t(),
            shard: ShardId(12),
            number,
        },
        |number| ShardingBody::BeginHandOffAck {
            term: t(),
            shard: ShardId(12),
            number,
        },
    );
    let shard = ShardId(12);
    let host = |token| ShardingBody::HostShard {
        term: t(),
        shard,
        token,
    };
    let stop = |by_force| ShardingBody::HandOff {
        term: t(),
        shard,
        by_force,
    };
    vec![
        (
            "register",
            ShardingBody::Register {
                fields: kind_fields(true),
                hosted: vec![ShardId(0), ShardId(63)],
                draining: true,
                part: ListPart::WHOLE,
            },
        ),
        (
            "register_part",
            ShardingBody::Register {
                fields: kind_fields(true),
                hosted: vec![ShardId(7), ShardId(9)],
                draining: false,
                part: ListPart {
                    list: 5,
                    index: 1,
                    count: 3,
                },
            },
        ),
        ("register_ack", ShardingBody::RegisterAck { term: t() }),
        (
            "register_refused",
            ShardingBody::RegisterRefused {
                term: t(),
                fields: kind_fields(false),
            },
        ),
        ("region_query", ShardingBody::RegionQuery { term: t() }),
        ("no_region", ShardingBody::NoRegion { term: t() }),
        ("get_shard_home", ShardingBody::GetShardHome { shard }),
        (
            "shard_homes",
            ShardingBody::ShardHomes {
                term: t(),
                homes: vec![(node.clone(), vec![shard]), (node.clone(), vec![])],
            },
        ),
        ("host_shard", host(Token::new(3, 9))),
        (
            "shard_tokens",
            ShardingBody::ShardTokens {
                tokens: vec![(ShardId(0), Token::new(3, 8)), (shard, Token::new(2, 1))],
            },
        ),
        ("shard_started", ShardingBody::ShardStarted { term: t(), shard }),
        ("begin_hand_off", begin(7)),
        ("begin_hand_off_ack", forgotten(7)),
        ("hand_off", stop(false)),
        ("forced_hand_off", stop(true)),
        ("shard_stopped", ShardingBody::ShardStopped { term: t(), shard }),
        ("graceful_shutdown_req", ShardingBody::GracefulShutdownReq),
        ("region_stopped", ShardingBody::RegionStopped),
        ("nobody_hosts", ShardingBody::NobodyHosts),
        (
            "stop_shards",
            ShardingBody::Stop(StopMsg::Stop { shards: stopped() }),
        ),
        (
            "shards_stopped",
            ShardingBody::Stop(StopMsg::Stopped { shards: stopped() }),
        ),
        (
            "stop_refused",
            ShardingBody::Stop(StopMsg::Refused {
                why: StopRefusal::Remembers,
            }),
        ),
        (
            "stop_refused_in_a_shutdown",
            ShardingBody::Stop(StopMsg::Refused {
                why: StopRefusal::ShuttingDown,
            }),
        ),
    ]
}

pub(crate) fn frame_of(message: &Message, epoch: u32) -> Vec<u8> {
    let mut out = Vec::new();
    encode_message(message, epoch, &Limits::default(), &mut out).unwrap();
    out
}

pub(crate) fn message_of(bytes: &[u8]) -> Result<Message, WireError> {
    let limits = Limits::default();
    match decode_frame(bytes, &limits) {
        DecodedFrame::Frame { frame, consumed } => {
            assert_eq!(consumed, bytes.len(), "one frame and nothing else");
            decode_message(frame.kind, frame.lane, frame.body, &limits)
        }
        DecodedFrame::NeedMore(_) => Err(WireError::Incomplete),
        DecodedFrame::Bad { error, .. } => Err(error),
    }
}

#[test]
fn m_447_every_message_survives_the_round_trip() {
    for (name, message) in every_message() {
        let bytes = frame_of(&message, 9);
        assert_eq!(message_of(&bytes).as_ref(), Ok(&message), "{name}");
        let again = message_of(&bytes).unwrap();
        assert_eq!(frame_of(&again, 9), bytes, "{name} has one form");
    }
}

#[test]
fn m_448_roles_without_a_data_center_get_the_default_one() {
    // A join with one role and no data center, written by hand.
    let mut body = std::vec![1, b'a', 1, 0, 5, 0, 0, 0, 0, 0, 0, 0];
    body.extend_from_slice(b"\x051.2.3\x01\x06worker");
    let Ok(Message::Membership(MembershipMsg::Join(join))) =
        decode_message(MembershipMsg::JOIN.kind, Lane::Control, &body, &Limits::default())
    else {
        panic!("a join");
    };
    assert_eq!(join.roles, roles(&["worker"], "default"));
    let kept = every_message()
        .into_iter()
        .find_map(|(_, message)| match message {
            Message::Membership(MembershipMsg::Join(join)) => Some(join.roles),
            _ => None,
        });
    assert_eq!(kept.unwrap().data_center(), "west");
}

#[test]
fn m_448_the_default_data_center_has_no_written_form() {
    let mut body = std::vec![1, b'a', 1, 0, 5, 0, 0, 0, 0, 0, 0, 0];
    body.extend_from_slice(b"\x051.2.3\x01\x0adc-default");
    assert_eq!(
        decode_message(MembershipMsg::JOIN.kind, Lane::Control, &body, &Limits::default()),
        Err(WireError::NonCanonical { what: "roles" })
    );
}

#[test]
fn a_text_that_is_too_short_or_too_long_is_not_written() {
    use alloc::string::String;
    let put = |text: &str| {
        let text = String::from(text);
        written(|out| <Text<3, 1> as Form<String>>::put(&text, "name", out))
    };
    assert!(put("a").is_ok() && put("abc").is_ok());
    for text in ["", "abcd"] {
        assert_eq!(put(text), Err(WireError::Unencodable { what: "name" }));
    }
}

#[test]
fn where_nodes_rise_none_is_there_twice() {
    let (first, second) = (crate::fixture::node("a", 1), crate::fixture::node("a", 2));
    assert!(first.is_below(&second));
    assert!(!second.is_below(&first) && !first.is_below(&first));
    assert!(
        !(first.clone(), 1).is_below(&(first, 2)),
        "whatever is said of it"
    );
}

#[test]
fn m_450_uids_of_all_64_bits_survive() {
    for uid in [-3, i64::MAX, i64::MIN, 0, 0x7FFF_FFFF, 0x8000_0000, -1] {
        let message = Message::Membership(MembershipMsg::Leave(node("a", 1, uid)));
        assert_eq!(message_of(&frame_of(&message, 0)), Ok(message));
    }
}

#[test]
fn an_encoder_gives_the_same_bytes_whatever_it_wrote_before() {
    let mut encoder = Encoder::new();
    let large = Message::Membership(MembershipMsg::Gossip(GossipEnvelope {
        to: node("a", 1, 1),
        gossip: Arc::new(limits::wide_gossip(300, 20)).into(),
    }));
    let mut messages = every_message();
    messages.push(("large", large));
    for (name, message) in messages.iter().chain(messages.iter().rev()) {
        let mut out = b"before".to_vec();
        encoder.encode(message, 3, &Limits::default(), &mut out).unwrap();
        assert_eq!(&out[..6], b"before");
        assert_eq!(out[6..], frame_of(message, 3), "{name}");
        assert_eq!(message_of(&out[6..]).as_ref(), Ok(message), "{name}");
    }
}

#[test]
fn a_failed_encoding_leaves_the_buffer_as_it_was() {
    let message = Message::Sharding(ShardingMsg::Entity(EntityEnvelope {
        kind: KindId::of("files"),
        shard: ShardId(70_000),
        entity: EntityId::from("a"),
        payload: Box::from(*b"x"),
        ask: None,
        hops: 0,
    }));
    let mut out = b"before".to_vec();
    let result = encode_message(&message, 0, &Limits::default(), &mut out);
    assert_eq!(result, Err(WireError::Unencodable { what: "shard" }));
    assert_eq!(out, b"before");
}

/// A state in which a member and a tombstone are gone.
fn state_with_gone() -> Gossip {
    let mut gossip = Gossip::new();
    let (stays, exits, left) = (node("a", 1, 1), node("b", 1, 2), node("c", 1, 3));
    for at in [&stays, &exits, &left] {
        gossip.upsert_member(Member::joining(
            at.clone(),
            Roles::default(),
            AppVersion::default(),
        ));
    }
    for at in [&exits, &left] {
        gossip.set_status(at, Status::Leaving);
        gossip.set_status(at, Status::Exiting);
        assert!(gossip.mark_gone(at));
    }
    gossip.remove(&left);
    gossip
}

#[test]
fn who_is_gone_travels_with_the_state() {
    let gossip = state_with_gone();
    let to = node("receiver", 2552, -3);
    let body = GossipBody::from(Arc::new(gossip.clone()));
    let message = Message::Membership(MembershipMsg::Gossip(GossipEnvelope { to, gossip: body }));
    let open = |message: &Message| match message {
        Message::Membership(MembershipMsg::Gossip(envelope)) => envelope.gossip.open(&Gossip::new()),
        other => unreachable!("{other:?}"),
    };
    let heard = message_of(&frame_of(&message, 0)).unwrap();
    assert_eq!(open(&heard), gossip);
    assert_eq!(heard, message, "packed or not, it is one state");
    let Message::Membership(MembershipMsg::Gossip(envelope)) = &heard else {
        unreachable!()
    };
    assert_eq!(envelope.gossip.open(&gossip), gossip, "shared with what is held");
    assert!(envelope.gossip.without_news(&gossip).is_some());
    let unaware = Gossip::clone(&gossip).with_gone(Arc::default());
    assert_eq!(envelope.gossip.without_news(&unaware), None, "it is news");
}

#[test]
fn where_entities_are_remembered_and_homes_are_kept_and_leases_are_read_as_they_were_written() {
    let stores = [None, Some(RememberStore::Data), Some(RememberStore::Events)];
    let cases = stores
        .into_iter()
        .flat_map(|store| [(store, false), (store, true)]);
    let modes = [
        StoreMode::Memory,
        StoreMode::DistributedData,
        StoreMode::Events,
        StoreMode::Other { code: 3 },
        StoreMode::Other { code: 0xff },
    ];
    let mut seen = crate::ordered::OrderedSet::new();
    for (remember_entities, lease) in cases {
        for store in modes {
            let fields = KindFields {
                keeping: Some(KindKeeping {
                    store,
                    remember_entities,
                    lease,
                }),
                ..kind_fields(true)
            };
            let bytes = written(|out| KindFields::put(&fields, "", out)).unwrap();
            let read = read_whole(&bytes, &CustomTypes::new(), |reader| KindFields::read(reader, ""));
            assert_eq!(read, Ok(fields));
            assert!(seen.insert(bytes));
        }
    }
}
