//! The values of the keyed store one by one, and the laws of their joins.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::call::{Ballot, CallId};
use super::clock::{ACTORS_MAX, Actor, VersionClock, VersionDot};
use super::entry::{AcceptedDecision, DecidedVersion, KeyDecision, KvEntry, Register, Unchanged};
use super::level::{Level, LevelError};
use super::pruning::ClockPruning;
use super::settings::{BucketSettings, BucketSettingsError};
use super::siblings::{PutError, SIBLINGS_MAX, Siblings, VALUES_BYTES_MAX, Version, VersionContent};
use super::table::{RangeLevels, RangeLevelsError};
use crate::bytes::WireError;
use crate::ddata::state::key::{BadKey, KEY_BYTES_MAX, Key};
use crate::journal::state::StoreId;

fn actor(store: u128) -> Actor {
    Actor {
        store: StoreId(store),
        boot: 1,
        since: 1,
    }
}

fn version(store: u128, count: u64, value: &str) -> Version {
    let content = match value {
        "" => VersionContent::Tombstone,
        _ => VersionContent::Value {
            bytes: Arc::from(value.as_bytes()),
            expires_ms: None,
        },
    };
    Version {
        dot: VersionDot {
            actor: actor(store),
            count,
        },
        at_ms: count,
        content,
    }
}

fn put(siblings: &mut Siblings, version: Version, context: &VersionClock) {
    siblings.put(version, context).unwrap();
}

fn clock(entries: &[(u128, u64)]) -> VersionClock {
    let mut clock = VersionClock::new();
    for (store, count) in entries {
        let dot = VersionDot {
            actor: actor(*store),
            count: *count,
        };
        clock.add(dot, *count);
    }
    clock
}

#[test]
fn s_334_a_quorum_is_half_of_them_and_one_more() {
    let quorums: Vec<_> = (1..=7).map(|copies| Level::Quorum.of(copies).unwrap()).collect();
    assert_eq!(quorums, [1, 2, 2, 3, 3, 4, 4]);
}

#[test]
fn i_70_gets_meet_puts_exactly_if_w_and_r_are_above_n() {
    for copies in 1..=7_usize {
        for read in 1..=copies {
            for write in 1..=copies {
                let small = |count: usize| u8::try_from(count).unwrap();
                let levels = RangeLevels::new(small(copies), small(read), small(write)).unwrap();
                let of =
                    |count: usize| (0_u32..1 << copies).filter(move |set| set.count_ones() as usize == count);
                let meets =
                    |one: usize, other: usize| of(one).all(|one| of(other).all(|other| one & other != 0));
                assert_eq!(levels.is_strict(), meets(read, write));
                assert!(meets(levels.decisive(), levels.decisive()));
                assert!(meets(levels.decisive(), write));
                assert!(
                    meets(levels.decisive(), copies - write + 1),
                    "what a newcomer is given"
                );
            }
        }
    }
}

#[test]
fn b_62_levels_and_settings_that_no_bucket_can_have_are_refused() {
    let wrong = |level: Level, found| assert_eq!(level.of(3), Err(LevelError { copies: 3, found }));
    wrong(Level::Replicas(0), 0);
    wrong(Level::Replicas(4), 4);
    assert_eq!([Level::One, Level::All].map(|level| level.of(3).unwrap()), [1, 3]);
    let settings = BucketSettings::default();
    let levels = settings.check().unwrap();
    assert_eq!((levels.copies(), levels.reads(), levels.writes()), (3, 2, 2));
    assert!(levels.is_strict());
    let check = |change: fn(&mut BucketSettings)| {
        let mut settings = BucketSettings::default();
        change(&mut settings);
        settings.check().unwrap_err()
    };
    assert_eq!(
        check(|s| s.copies = 0),
        BucketSettingsError::Copies(RangeLevelsError::Copies { found: 0 })
    );
    assert_eq!(
        check(|s| s.copies = 10),
        BucketSettingsError::Copies(RangeLevelsError::Copies { found: 10 })
    );
    assert_eq!(check(|s| s.ranges = 0), BucketSettingsError::Ranges { found: 0 });
    assert_eq!(
        check(|s| s.ranges = 4_097),
        BucketSettingsError::Ranges { found: 4_097 }
    );
    assert_eq!(
        check(|s| s.merge = Some(Arc::from(""))),
        BucketSettingsError::MergeName
    );
    let level = BucketSettingsError::Level(LevelError { copies: 3, found: 4 });
    assert_eq!(check(|s| s.read_least = Level::Replicas(4)), level);
    assert_eq!(check(|s| s.write_least = Level::Replicas(4)), level);
}

#[test]
fn b_62_keys_values_siblings_and_actors_are_bounded() {
    assert_eq!(Key::new(""), Err(BadKey));
    assert_eq!(Key::new(&"k".repeat(KEY_BYTES_MAX + 1)), Err(BadKey));
    let mut many = Siblings::new();
    for count in 1..=SIBLINGS_MAX as u64 {
        put(&mut many, version(1, count, "v"), &VersionClock::new());
    }
    let before = many.clone();
    let one_more = || version(1, 65, "v");
    assert_eq!(
        many.put(one_more(), &VersionClock::new()),
        Err(PutError::Siblings)
    );
    assert_eq!(many, before, "nothing changed");
    put(&mut many, one_more(), before.clock());
    assert_eq!(many.versions().len(), 1);

    let mut large = Siblings::new();
    let value: String = "v".repeat(VALUES_BYTES_MAX);
    put(&mut large, version(1, 1, &value), &VersionClock::new());
    assert_eq!(
        large.put(version(1, 2, "v"), &VersionClock::new()),
        Err(PutError::Bytes)
    );

    let context: Vec<_> = (0..ACTORS_MAX as u128).map(|store| (store + 10, 1)).collect();
    let refused = Siblings::new().put(version(1, 1, "v"), &clock(&context));
    assert_eq!(refused, Err(PutError::Actors));
    assert_eq!(
        clock(&[&context[..], &[(1, 1)]].concat()).encode(),
        Err(WireError::LimitExceeded { what: "actors" })
    );
}

#[test]
fn ranges_are_equal_arcs_and_the_same_everywhere() {
    let settings = BucketSettings::default();
    let range = |name: &str| settings.range_of(&Key::new(name).unwrap()).0;
    assert_eq!(["a", "b", "carts/7"].map(range), [106, 25, 207], "never changes");
    let mut counts = [0; 256];
    (0..25_600).for_each(|number| counts[usize::from(range(&alloc::format!("key-{number}")))] += 1);
    assert!(
        counts.iter().all(|count| (50..=150).contains(count)),
        "{counts:?}"
    );
}

#[test]
fn s_335_what_is_known_changes_nothing_and_what_is_concurrent_stays() {
    let mut held = Siblings::new();
    put(&mut held, version(1, 1, "a"), &VersionClock::new());
    let first = held.clone();
    put(&mut held, version(1, 2, "b"), first.clock());
    let second = held.clone();
    assert!(!held.join(&second), "the same again");
    assert!(!held.join(&first), "dominated");
    let mut other = first.clone();
    put(&mut other, version(2, 1, "c"), first.clock());
    assert!(held.join(&other), "concurrent");
    assert_eq!(held.versions().len(), 2);
    assert!(held.dominates(&other) && held.dominates(&second) && !other.dominates(&held));
}

#[test]
fn s_337_a_tombstone_wins_over_an_older_value_and_loses_to_a_newer_one() {
    let mut held = Siblings::new();
    put(&mut held, version(1, 1, "a"), &VersionClock::new());
    let older = held.clone();
    put(&mut held, version(1, 2, ""), older.clock());
    held.join(&older);
    assert!(held.is_dead() && !held.is_empty());
    let mut newer = held.clone();
    put(&mut newer, version(2, 1, "b"), held.clock());
    held.join(&newer);
    assert_eq!(held.values().count(), 1);
}

#[test]
fn a_value_that_expires_is_the_same_tombstone_everywhere() {
    let mut one = Siblings::new();
    let mut mortal = version(1, 1, "a");
    mortal.content = VersionContent::Value {
        bytes: Arc::from(&b"a"[..]),
        expires_ms: Some(500),
    };
    put(&mut one, mortal, &VersionClock::new());
    let mut other = one.clone();
    assert!(!one.expire(499) && one.expire(500) && !one.expire(501));
    assert_eq!(one.versions()[0].at_ms, 500);
    assert!(!one.dominates(&other) || !other.dominates(&one));
    assert!(
        one.dominates(&other) && !one.clone().join(&other),
        "what has ended stays so"
    );
    assert!(other.join(&one));
    assert_eq!(one, other);
    assert!(!one.are_dead_for(100, 599) && one.are_dead_for(100, 600));
    let mut late = Siblings::new();
    late.join(&one);
    assert_eq!(late, one);
}

#[test]
fn m_441_to_m_443_old_actors_go_down_to_the_number() {
    let ages = |ages: &[u64]| -> Vec<_> {
        (1_u128..)
            .zip(ages)
            .map(|(store, age)| (actor(store), 2_000_000 - age * 1_000))
            .collect()
    };
    let left = |small, young_s: u64, big, old_s: u64, ages: &[(Actor, u64)]| {
        let pruning = ClockPruning {
            small,
            big,
            young_ms: young_s * 1_000,
            old_ms: old_s * 1_000,
        };
        ages.len() - pruning.choose(ages, 2_000_000).len()
    };
    let three = ages(&[1_000, 1_000, 1_000]);
    assert_eq!(left(3, 1, 1, 1, &three), 3, "441: not above small");
    assert_eq!(left(1, 1_001, 1, 1, &three), 3, "442: all are young");
    assert_eq!(left(1, 1, 2, 100_000, &three), 2, "443: above big");
    assert_eq!(left(1, 1, 100, 999, &three), 1, "all are old: down to small");
    let mixed = ages(&[1_000, 10, 1_000, 10]);
    assert_eq!(left(0, 20, 0, 999, &mixed), 2, "young ones stay");
}

#[test]
fn m_445_equal_ages_do_not_depend_on_the_order() {
    let entries: Vec<_> = (1..=4).map(|store| (actor(store), 7)).collect();
    let pruning = ClockPruning {
        small: 1,
        big: 2,
        young_ms: 1,
        old_ms: 10_000,
    };
    let chosen = pruning.choose(&entries, 1_000);
    assert_eq!(chosen, [actor(1), actor(2)]);
    for turn in 0..4 {
        let mut turned = entries.clone();
        turned.rotate_left(turn);
        turned.reverse();
        assert_eq!(pruning.choose(&turned, 1_000), chosen);
    }
}

#[test]
fn s_338_more_than_fifty_actors_of_the_day_before_are_forgotten_and_newer_puts_still_win() {
    let mut held = Siblings::new();
    for store in 1..=60 {
        let context = held.clock().clone();
        put(&mut held, version(store, 1, "v"), &context);
    }
    let before = held.clone();
    let pruning = ClockPruning::default();
    let is_over = |actor: Actor| actor.store.0 != 60;
    let gone = pruning.of(held.clock(), 86_400_100, is_over);
    assert_eq!(gone.len(), 10);
    let mut entry = KvEntry::of(held);
    entry.forget(|actor| gone.contains(&actor));
    let mut held = entry.siblings;
    assert_eq!(
        (held.clock().entries().len(), held.versions()),
        (50, before.versions())
    );
    let context = held.clock().clone();
    put(&mut held, version(60, 2, "new"), &context);
    assert_eq!(held.versions().len(), 1);
    held.join(&before);
    assert_eq!(held.versions().len(), 1, "it still wins over what it overwrote");
    let mut own = KvEntry::of(before.clone());
    own.forget(|_| true);
    assert!(
        own.siblings.clock().covers(before.versions()[0].dot),
        "who gave one stays"
    );
}

fn accepted(round: u64, version: Option<u64>) -> AcceptedDecision {
    let call = CallId {
        origin: 1,
        number: round,
    };
    let decision = version.map_or(KeyDecision::Ordinary { at_ms: 5 }, |number| {
        KeyDecision::Value(DecidedVersion {
            version: CallId { origin: 1, number },
            before: None,
            at_ms: 5,
            content: VersionContent::Tombstone,
        })
    });
    AcceptedDecision {
        ballot: Ballot { round, call, step: 0 },
        decision,
    }
}

#[test]
fn while_a_turn_is_open_no_ordinary_version_comes_in() {
    let mut siblings = Siblings::new();
    put(&mut siblings, version(1, 1, "a"), &VersionClock::new());
    let ordinary = KvEntry::of(siblings);
    let ballot = |round| accepted(round, None).ballot;
    let mut entry = KvEntry::default();
    assert_eq!(entry.merge(&ordinary), Ok(true));
    entry.promise_to(ballot(2)).unwrap();
    let held = ballot(2);
    assert_eq!(entry.admits_versions(), Err(Unchanged::Blocked { held }));
    assert_eq!(entry.merge(&ordinary), Ok(false), "what is held is no change");
    assert_eq!(
        KvEntry {
            siblings: Siblings::new(),
            ..entry.clone()
        }
        .merge(&ordinary),
        Err(Unchanged::Blocked { held })
    );
    assert_eq!(entry.accept(&accepted(1, None)), Err(Unchanged::Blocked { held }));
    entry.accept(&accepted(2, None)).unwrap();
    assert_eq!(entry.admits_versions(), Ok(()));
    entry.accept(&accepted(3, Some(9))).unwrap();
    let other = KvEntry {
        siblings: Siblings::new(),
        ..entry.clone()
    };
    let key = Key::new("k").unwrap();
    assert_eq!(
        entry.digest(&key),
        other.digest(&key),
        "siblings behind it are not compared"
    );
    assert_eq!(entry.admits_versions(), Err(Unchanged::Conditional));
    assert_eq!(entry.promise_to(ballot(1 << 43)), Err(Unchanged::TooFarAhead));
}

#[test]
fn of_what_was_accepted_the_later_turn_is_taken_and_never_one_below_a_promise() {
    let of = |accepted: AcceptedDecision| KvEntry {
        siblings: Siblings::new(),
        register: Some(Box::new(Register {
            promise: accepted.ballot,
            accepted: Some(accepted),
        })),
    };
    let (older, newer) = (of(accepted(1, Some(1))), of(accepted(2, Some(2))));
    let mut entry = older.clone();
    assert_eq!(entry.merge(&newer), Ok(true));
    assert_eq!(entry.merge(&older), Ok(false));
    assert_eq!(entry, newer);
    let mut promised = KvEntry::default();
    promised.promise_to(accepted(3, None).ballot).unwrap();
    assert!(promised.merge(&newer).is_err());
    let mut newcomer = promised.clone();
    newcomer.take_over(&newer);
    assert_eq!(
        (newcomer.accepted(), newcomer.promise()),
        (newer.accepted(), promised.promise())
    );
    let key = Key::new("k").unwrap();
    assert_eq!(
        newcomer.digest(&key),
        newer.digest(&key),
        "promises are not compared"
    );
}

#[test]
fn bytes_that_are_none_of_an_entry_are_refused() {
    let mut siblings = Siblings::new();
    put(&mut siblings, version(1, 1, "a"), &VersionClock::new());
    let bytes = KvEntry::of(siblings).encode().unwrap();
    for end in 0..bytes.len() {
        assert!(KvEntry::decode(&bytes[..end]).is_err(), "cut at {end}");
    }
    assert!(KvEntry::decode(&[&bytes[..], &[0]].concat()).is_err());
    let refused = |at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        KvEntry::decode(&bytes).unwrap_err()
    };
    let malformed = |what| WireError::Malformed { what };
    assert_eq!(refused(34, 0), malformed("dot"), "the count is none");
    assert_eq!(refused(41, 1), malformed("dot"), "a count that nobody gives");
    assert_eq!(
        refused(84, 2),
        malformed("siblings"),
        "the clock does not cover it"
    );
    assert_eq!(refused(100, 4), malformed("version"));
    assert_eq!(refused(bytes.len() - 1, 3), malformed("entry"));
    assert_eq!(
        VersionClock::decode(&[1, 2]),
        Err(WireError::LimitExceeded { what: "actors" })
    );
}

/// A history of some replicas: puts and meetings, as (replica, other, kind).
fn history() -> impl Strategy<Value = Vec<(usize, usize, u8)>> {
    prop::collection::vec((0..3_usize, 0..3_usize, 0..6_u8), 0..40)
}

fn replicas(steps: &[(usize, usize, u8)]) -> Vec<Siblings> {
    let mut all = vec![Siblings::new(); 3];
    let mut count = 0;
    for (at, other, kind) in steps {
        let theirs = all[*other].clone();
        count += 1;
        let store = *at as u128;
        match kind {
            0 => put(&mut all[*at], version(store, count, "v"), &VersionClock::new()),
            1 => put(&mut all[*at], version(store, count, "v"), theirs.clock()),
            2 => put(&mut all[*at], version(store, count, ""), theirs.clock()),
            _ => {
                all[*at].join(&theirs);
            }
        }
    }
    all
}

proptest! {
    #[test]
    fn siblings_have_the_laws_of_a_join(steps in history()) {
        let all = replicas(&steps);
        let [a, b, c] = &all[..] else { panic!() };
        let join = |one: &Siblings, other: &Siblings| {
            let mut joined = one.clone();
            let changed = joined.join(other);
            assert_eq!(changed, joined != *one);
            assert!(joined.dominates(one) && joined.dominates(other));
            joined
        };
        prop_assert_eq!(join(a, b), join(b, a));
        prop_assert_eq!(join(&join(a, b), c), join(a, &join(b, c)));
        prop_assert_eq!(&join(a, a), a);
        let versions = join(a, b);
        for version in versions.versions() {
            prop_assert!(versions.clock().covers(version.dot));
        }
    }

    #[test]
    fn an_entry_comes_back_as_it_was(
        steps in history(),
        round in 0..9_u64,
        version in prop::option::of(0..9_u64),
    ) {
        let mut entry = KvEntry::of(replicas(&steps).remove(0));
        if round > 0 {
            entry.accept(&accepted(round, version)).unwrap();
            entry.promise_to(accepted(round + 1, None).ballot).unwrap();
        }
        let bytes = entry.encode().unwrap();
        prop_assert_eq!(KvEntry::decode(&bytes), Ok(entry.clone()));
        let clock = entry.siblings.clock();
        prop_assert_eq!(&VersionClock::decode(&clock.encode().unwrap()).unwrap(), clock);
    }
}
