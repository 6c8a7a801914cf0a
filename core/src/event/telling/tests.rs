//! Every event is one line without Rust in it.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use super::*;
use crate::agreement::{Differences, SettingDifference};
use crate::downing::state::decision::DowningDecision;
use crate::downing::state::view::IndirectRule;
use crate::effect::JournalCommandError;
use crate::event::{Audit, JoinFailure, SeedCause, SeedFailure, ShutdownProgress};
use crate::fixture::{member, node};
use crate::ident::Role;
use crate::journal::state::StoreId;
use crate::kv::protocol::ranges::{RangeEvent, UndoReason};
use crate::kv::protocol::watching::WatchNews;
use crate::kv::state::bucket::BucketName;
use crate::kv::state::settings::BucketSettings;
use crate::kv::state::table::RangeId;
use crate::membership::state::member::{Status, UpNumber};
use crate::paths::protocol::AbortReason;
use crate::paths::state::name::PathId;
use crate::planner::{ChangeReason, MoveError};
use crate::reject::{JoinRefusal, Rejection};
use crate::sharding::errors::AskFailure;
use crate::sharding::state::fields::{FieldDifferences, KindFields};
use crate::sharding::state::ids::{EntityId, KindId, ShardId, Term};
use crate::singleton::state::SingletonId;
use crate::token::Token;
use crate::view::View;

fn differences() -> Differences {
    let difference = SettingDifference {
        key: "a".into(),
        own: Some("two\nlines".into()),
        other: None,
    };
    vec![difference].into()
}

fn audits() -> [Event; 2] {
    [None, Some(String::from("not\ntoday"))].map(|refused| {
        Event::Membership(MembershipEvent::Asked(Audit {
            what: "down",
            by: node("a", 1),
            whom: node("b", 2),
            refused,
        }))
    })
}

fn changes() -> Vec<MembershipChange> {
    let (a, role) = (node("a", 1), Role::new("front").unwrap());
    let m = |status| member(&a, status);
    vec![
        MembershipChange::TombstonesChanged,
        MembershipChange::Removed {
            member: m(Status::Removed),
            previous: Status::Down,
        },
        MembershipChange::Joined(m(Status::Joining)),
        MembershipChange::WeaklyUp(m(Status::WeaklyUp)),
        MembershipChange::Up(m(Status::Up)),
        MembershipChange::Left(m(Status::Leaving)),
        MembershipChange::Exited(m(Status::Exiting)),
        MembershipChange::Downed(m(Status::Down)),
        MembershipChange::PreparingForShutdown(m(Status::PreparingForShutdown)),
        MembershipChange::ReadyForShutdown(m(Status::ReadyForShutdown)),
        MembershipChange::Unreachable(m(Status::Up)),
        MembershipChange::Reachable(m(Status::Up)),
        MembershipChange::LeaderChanged(Some(a.clone())),
        MembershipChange::LeaderChanged(None),
        MembershipChange::RoleLeaderChanged {
            role: role.clone(),
            leader: Some(a.clone()),
        },
        MembershipChange::RoleLeaderChanged { role, leader: None },
        MembershipChange::SeenChanged {
            converged: false,
            seen: 1,
        },
        MembershipChange::ReachabilityChanged,
    ]
}

fn failures() -> Vec<JoinFailure> {
    let because = |cause| SeedFailure {
        seed: node("seed", 1).address().clone(),
        cause,
    };
    let causes = [
        SeedCause::NoAnswer,
        SeedCause::InNoCluster,
        SeedCause::SettingsDiffer(differences()),
        SeedCause::Agrees,
        SeedCause::Refused,
        SeedCause::Unresolvable,
        SeedCause::Security(String::from("two\nlines")),
        SeedCause::OtherCluster,
        SeedCause::Other(String::from("else")),
    ];
    vec![
        JoinFailure::NoSeedAnswered {
            attempt: 3,
            seeds: causes.into_iter().map(because).collect(),
        },
        JoinFailure::IncompatibleConfig {
            seed: crate::fixture::node("a", 1).address().clone(),
            differences: differences(),
        },
        JoinFailure::NoWelcome,
        JoinFailure::Refused {
            reason: JoinRefusal::ShuttingDown,
        },
        JoinFailure::Aborted,
    ]
}

fn otherwise() -> FieldDifferences {
    let other = BucketSettings {
        merge: Some("of a\npeer".into()),
        ..BucketSettings::default()
    };
    BucketSettings::default().differs_from(&other).unwrap()
}

fn sharding() -> Vec<ShardingEvent> {
    let (shard, home) = (ShardId(7), node("a", 1));
    let term = Term {
        up_number: UpNumber::FIRST,
        node: home.clone(),
    };
    let fields = |name: &str, shards| KindFields {
        name: Arc::from(name),
        role: None,
        shards,
        extractor: Arc::from("hash"),
        keeping: None,
    };
    let difference = FieldDifferences::between(&fields("carts", 4), &fields("of a\npeer", 8)).unwrap();
    vec![
        ShardingEvent::RegionRegistered { term: term.clone() },
        ShardingEvent::KindRefused {
            difference: difference.clone(),
        },
        ShardingEvent::KindRefusedOn {
            node: home.clone(),
            difference,
        },
        ShardingEvent::MayRunTwice {
            strategy: "auto-down",
        },
        ShardingEvent::CoordinatorStarted { term: term.clone() },
        ShardingEvent::CoordinatorRecovered {
            term: term.clone(),
            shards: 4,
        },
        ShardingEvent::CoordinatorStateLate {
            writing: true,
            times: 4,
        },
        ShardingEvent::CoordinatorRefused {
            term: term.clone(),
            error: JournalCommandError::NotOpen,
        },
        ShardingEvent::CoordinatorStateDamaged,
        ShardingEvent::ShardAllocated {
            shard,
            home: home.clone(),
        },
        ShardingEvent::AllocationUnanswered { shards: 0 },
        ShardingEvent::AllocationUnanswered { shards: 3 },
        ShardingEvent::ShardStarted { shard, term },
        ShardingEvent::ShardStopped { shard },
        ShardingEvent::ShardFailed { shard },
        ShardingEvent::RememberedDamaged { shard: Some(shard) },
        ShardingEvent::RememberedDamaged { shard: None },
        ShardingEvent::ShardLeaseLost { shard },
        ShardingEvent::ShardStopTimeout { shard },
        ShardingEvent::HandOffTimeout {
            shard,
            unmarked: vec![home.clone()],
            running: vec![home.clone()],
        },
        ShardingEvent::HandOffCancelled {
            shard,
            running: vec![EntityId::from("a"), EntityId::from("b")],
            more: 3,
        },
        ShardingEvent::ShardConflict { shard },
        ShardingEvent::ShardMovesByLoad {
            shard,
            from: home.clone(),
            to: home.clone(),
        },
        ShardingEvent::DeadLetter {
            shard,
            reason: AskFailure::BufferFull,
        },
        ShardingEvent::EnvelopeUnmatched,
        ShardingEvent::BufferFull { messages: 9 },
        ShardingEvent::Drained,
    ]
}

fn all() -> Vec<Event> {
    let a = node("a", 1);
    let view = Arc::new(View::idle(a.clone()));
    let changed = |change| MembershipEvent::Changed {
        change,
        view: Arc::clone(&view),
    };
    let mut membership: Vec<_> = changes().into_iter().map(changed).collect();
    membership.extend(
        failures()
            .into_iter()
            .map(|reason| MembershipEvent::JoinFailed { reason }),
    );
    membership.extend([
        MembershipEvent::SelfUp,
        MembershipEvent::SelfRemoved,
        MembershipEvent::LeaderIncapacitated { ticks: 20 },
        MembershipEvent::HandedOver {
            phase: ShutdownProgress::Singletons,
        },
        MembershipEvent::PathsNotHandedOver { node: node("b", 2) },
        MembershipEvent::ShutdownPhaseTimedOut {
            phase: ShutdownProgress::Sharding,
        },
        MembershipEvent::ShutdownPhaseTimedOut {
            phase: ShutdownProgress::Singletons,
        },
        MembershipEvent::ShutdownPhaseTimedOut {
            phase: ShutdownProgress::Ddata,
        },
        MembershipEvent::ShutdownPhaseTimedOut {
            phase: ShutdownProgress::Exiting,
        },
        MembershipEvent::ShutdownPhaseTimedOut {
            phase: ShutdownProgress::Paths,
        },
        MembershipEvent::ShutdownPhaseTimedOut {
            phase: ShutdownProgress::Kv,
        },
    ]);
    let report = DowningReport {
        strategy: "keep-majority",
        rule: IndirectRule::CascadeSafe,
        decision: DowningDecision::DownUnreachable,
        reason: "a majority is reachable",
        members: vec![a.clone(), node("b", 2)],
        unreachable: vec![node("b", 2)],
        indirectly_connected: vec![],
        down: vec![node("b", 2)],
        waits_for: None,
    };
    let downing = [
        DowningEvent::Decision(report),
        DowningEvent::TooManyMembersToDecide {
            members: 9,
            members_max: 5,
        },
        DowningEvent::NobodyHasDowningRole {
            role: Role::new("back").unwrap(),
        },
    ];
    let detector = [
        DetectorEvent::Paused {
            excess: Duration::from_secs(3),
        },
        DetectorEvent::Refused {
            by: a.clone(),
            ends_in: Duration::from_secs(3),
        },
        DetectorEvent::StillMember,
    ];
    let kind = KindId::of("carts");
    let sharding = sharding()
        .into_iter()
        .map(|event| Event::Sharding { kind, event });
    let token = Token::new(4, 2);
    let reason = AskFailure::BufferFull;
    let singleton = SingletonId::of("billing");
    let singletons = [
        SingletonEvent::Started { token },
        SingletonEvent::MayRunTwice {
            strategy: "auto-down",
        },
        SingletonEvent::Stopped { token },
        SingletonEvent::Failed {
            token,
            restart_after: Duration::from_secs(2),
        },
        SingletonEvent::StopTimeout { token },
        SingletonEvent::Superseded { token, term: 7 },
        SingletonEvent::HandedOver { to: a.clone() },
        SingletonEvent::LeaseLost,
        SingletonEvent::HandOverStuck,
        SingletonEvent::TermsUsedUp,
        SingletonEvent::DeadLetter { reason },
    ]
    .map(|event| Event::Singleton { singleton, event });
    let rejected = Event::Rejected {
        peer: a,
        rejection: Rejection::Unexpected { what: "Welcome" },
    };
    membership
        .into_iter()
        .map(Event::Membership)
        .chain(downing.map(Event::Downing))
        .chain(detector.map(Event::Detector))
        .chain([
            Event::Ddata(DdataEvent::StoreLost),
            Event::Ddata(DdataEvent::StoreAwaited {
                error: crate::store::StoreError::Unavailable,
            }),
            Event::Ddata(DdataEvent::StoreRead),
            Event::Ddata(DdataEvent::StoreOutdated {
                away: Duration::from_secs(3),
            }),
            Event::Ddata(DdataEvent::AwayForLong {
                away: Duration::from_secs(3),
            }),
            Event::Ddata(DdataEvent::StillReplica),
        ])
        .chain(sharding)
        .chain(singletons)
        .chain(paths())
        .chain(buckets())
        .chain([rejected])
        .chain(audits())
        .collect()
}

fn paths() -> impl Iterator<Item = Event> {
    let (a, b, token) = (node("a", 1), node("b", 2), Token::new(4, 2));
    let events = [
        PathEvent::Started { slot: 7, token },
        PathEvent::Stopped { slot: 7, token },
        PathEvent::Failed {
            slot: 7,
            token,
            restart_after: Duration::from_secs(2),
        },
        PathEvent::MoveBegun {
            slot: 7,
            from: Some(a),
            to: Some(b.clone()),
        },
        PathEvent::MovedAway { slot: 7, to: Some(b) },
        PathEvent::MovedAway { slot: 7, to: None },
        PathEvent::MarksMissing { slot: 7, members: 3 },
        PathEvent::CodeMissing { slot: 7 },
        PathEvent::ToleranceClamped { members: 2 },
        PathEvent::DeadLetter {
            reason: AskFailure::NoInstance,
        },
    ];
    let aborts = [
        AbortReason::NotReady,
        AbortReason::NewHostGone,
        AbortReason::CodeMissing,
        AbortReason::StateTooLarge,
        AbortReason::ByLeader,
    ]
    .map(|reason| PathEvent::MoveAborted { slot: 7, reason });
    let path = PathId::of("shop/prices");
    let events = events.into_iter().chain(aborts);
    events.map(move |event| Event::Path { path, event })
}

fn buckets() -> impl Iterator<Item = Event> {
    let (range, from, to) = (RangeId(7), StoreId(0xa1), StoreId(0xb2));
    let ranges = [
        RangeEvent::Given { ranges: 256 },
        RangeEvent::MoveBegun {
            range,
            from,
            to,
            reason: ChangeReason::Repair,
        },
        RangeEvent::MoveEnded { range },
        RangeEvent::MoveUndone {
            range,
            reason: UndoReason::NewcomerGone,
        },
        RangeEvent::MoveUndone {
            range,
            reason: UndoReason::TooLong,
        },
        RangeEvent::CopiesLost { range },
        RangeEvent::MoveRefused {
            range,
            error: MoveError::InFlight,
        },
    ];
    let events = [
        KvEvent::Coordinating {
            term: Token::new(4, 2),
            ranges: 256,
        },
        KvEvent::CoordinatorOutdone,
        KvEvent::CoordinatorRefused {
            error: JournalCommandError::NotOpen,
        },
        KvEvent::TableDamaged,
        KvEvent::RefusedOn {
            node: node("b", 2),
            difference: otherwise(),
        },
        KvEvent::Refused {
            difference: otherwise(),
        },
        KvEvent::StoreDamaged,
        KvEvent::StoreFull { bytes: 9 },
        KvEvent::OwnerOf { range },
        KvEvent::OwnerNoMore { range },
        KvEvent::Watched {
            watch: 9,
            news: WatchNews::Lagged,
        },
    ];
    let bucket = BucketName::new("carts").unwrap();
    let events = events.into_iter().chain(ranges.map(KvEvent::Ranges));
    events.map(move |event| Event::Kv {
        bucket: bucket.clone(),
        event,
    })
}

#[test]
fn every_event_is_one_line_for_people() {
    for event in all() {
        let line = event.to_string();
        assert!((8..400).contains(&line.len()), "{} bytes: {line}", line.len());
        assert!(!line.contains(['\n', '{', '[']), "{line}");
    }
}

#[test]
fn the_lines_say_who_and_what() {
    let lines: Vec<String> = all().iter().map(ToString::to_string).collect();
    for wanted in [
        "a:7355#0000000000000001 is Up",
        "a:7355#0000000000000001 was removed, it was Down",
        "connection refused",
        "two\\nlines",
        "down: b:7355#0000000000000002; of 2 members are unreachable: b:7355#0000000000000002",
        "was paused for 3s",
        "name is carts here and of a\\npeer in the cluster; shards is 4 here and 8 in the cluster",
        "shard 7 was not handed off in time",
        "instance 4.2 ended by itself; the next one starts in 2s",
    ] {
        assert!(
            lines.iter().any(|line| line.contains(wanted)),
            "{wanted}: {lines:#?}"
        );
    }
}

/// Hears what events are called.
#[derive(Default)]
struct Table(crate::ordered::OrderedMap<(EventArea, &'static str), (Severity, Vec<EventField>, String)>);

impl EventListener for Table {
    fn hear(&mut self, mark: EventMark, fields: Fields<'_>, text: fmt::Arguments<'_>) -> fmt::Result {
        let fields: Vec<EventField> = fields.iter().map(|(field, _)| *field).collect();
        assert!(fields.iter().all(|field| EventField::ALL.contains(field)));
        let row = self.0.entry((mark.area, mark.name));
        let (severity, _, _) = row.or_insert((mark.severity, fields, text.to_string()));
        assert_eq!(*severity, mark.severity, "{} is one thing", mark.name);
        Ok(())
    }
}

#[test]
fn every_event_has_a_name_of_its_own_that_stays() {
    let mut table = Table::default();
    let events = all();
    for event in &events {
        event.tell(&mut table).unwrap();
    }
    let names: Vec<&str> = table.0.keys().map(|(_, name)| *name).collect();
    assert!(names.len() > 65, "{}", names.len());
    let is_plain = |name: &&str| name.chars().all(|sign| sign.is_ascii_lowercase() || sign == '_');
    assert!(names.iter().all(is_plain), "{names:?}");
    // Operators look for these.
    for known in [
        "member_up",
        "unreachable",
        "sbr_downing",
        "leader_changed",
        "hand_off_timeout",
    ] {
        assert!(names.contains(&known), "{known}");
    }
}

/// Whose event it is.
fn is_subject(about: &str) -> bool {
    ["kind ", "singleton ", "path ", "bucket "]
        .iter()
        .any(|what| about.starts_with(what))
}

/// What the chapter says of an event: what stands in a log for sure, and the beginning of one line of many.
fn point(name: &str, (severity, fields, text): &(Severity, Vec<EventField>, String)) -> String {
    let fields = fields.iter().map(|field| format!(", `{field:?}`").to_lowercase());
    let fields: String = fields.collect();
    // Which kind, singleton, path or bucket it is about stands in front of each of their lines.
    let text = match text.split_once(": ") {
        Some((about, text)) if is_subject(about) => text,
        _ => text,
    };
    let head = format!("* `{name}` ({severity:?}{fields}): ");
    let room = 110_usize.saturating_sub(head.len());
    let is_long = text.chars().count() > room;
    match text
        .char_indices()
        .nth(room.saturating_sub(2))
        .filter(|_| is_long)
    {
        Some((end, _)) => format!(
            "{head}{} …\n",
            text[..end].rsplit_once(' ').map_or("", |(text, _)| text)
        ),
        None => format!("{head}{text}\n"),
    }
}

#[test]
fn the_chapter_of_events_has_all_of_them() {
    let mut table = Table::default();
    for event in all() {
        event.tell(&mut table).unwrap();
    }
    let path = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/events.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (head, _) = page.split_once("\n## ").unwrap();
    let mut wanted = String::from(head);
    let mut last = None;
    for ((area, name), event) in &table.0 {
        if last != Some(area) {
            wanted.push_str(&format!("\n## {area:?}\n\n"));
            last = Some(area);
        }
        wanted.push_str(&point(name, event));
    }
    if std::env::var_os("QUORATE_BLESS").is_some() {
        std::fs::write(&path, &wanted).unwrap();
    } else {
        assert!(page == wanted, "QUORATE_BLESS=1 writes docs/events.md");
    }
}
