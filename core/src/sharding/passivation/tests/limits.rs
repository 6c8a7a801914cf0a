//! Sequences of the limit strategies. Spec: sharding 6.4.

use alloc::vec;

use super::*;

#[test]
fn s_051_to_s_055_least_recently_used_shares_its_limit_among_shards() {
    let settings = plain(10, Replacement::LeastRecentlyUsed);
    let mut first = Shard::new(&settings);
    // S-051
    let evicted = first.access_all(1..=20);
    assert_eq!(evicted, each(1..=20, |id| (id > 10).then(|| id - 10)));
    assert_eq!(first.active(), (11..=20).collect::<Vec<_>>());
    // S-052
    let mut second = Shard::new(&settings);
    assert_eq!(second.share_among(2), []);
    assert_eq!(first.share_among(2), [11, 12, 13, 14, 15]);
    assert_eq!(second.access(21), []);
    // S-054
    assert_eq!(second.access_all(22..=24), each(22..=24, |_| None));
    let mut third = Shard::new(&settings);
    third.share_among(3);
    assert_eq!(first.share_among(3), [16, 17]);
    assert_eq!(second.share_among(3), [21]);
    assert_eq!(third.access(31), []);
    // S-055
    assert_eq!(second.access_all(25..=30), each(25..=30, |id| Some(id - 3)));
    assert_eq!(
        third.access_all(32..=40),
        each(32..=40, |id| (id > 33).then(|| id - 3))
    );
    assert_eq!(first.active(), [18, 19, 20]);
    assert_eq!(second.active(), [28, 29, 30]);
    assert_eq!(third.active(), [38, 39, 40]);
}

#[test]
fn s_057_the_limit_of_a_region_is_changed_while_it_runs() {
    let mut shard = Shard::new(&plain(10, Replacement::LeastRecentlyUsed));
    shard.share_among(2);
    shard.access_all(16..=20);
    assert_eq!(shard.set_limit(6), [16, 17]);
    let evicted = shard.access_all(1..=10);
    let before = |id| if id < 4 { id + 17 } else { id - 3 };
    assert_eq!(evicted, each(1..=10, |id| Some(before(id))));
    assert_eq!(shard.set_limit(12), []);
    let evicted = shard.access_all(11..=20);
    assert_eq!(evicted, each(11..=20, |id| (id > 13).then(|| id - 6)));
    assert_eq!(shard.active(), (15..=20).collect::<Vec<_>>());
}

#[test]
fn s_058_and_s_060_what_is_used_twice_is_kept_in_the_upper_segment() {
    let mut shard = Shard::new(&segmented(10, &[0.2, 0.8]));
    let evicted = shard.access_all(1..=20);
    assert_eq!(evicted, each(1..=20, |id| (id > 10).then(|| id - 10)));
    assert_eq!(shard.access_all(11..=20), each(11..=20, |_| None));
    // 13 to 20 are in the upper segment now, 11 and 12 sank: a newcomer pushes out those two before any
    // other.
    let mut probe = Shard {
        passivation: shard.passivation.clone(),
        places: shard.places.clone(),
        now: shard.now,
    };
    assert_eq!(probe.access_all([101, 102, 103]), [[11], [12], [101]]);
    shard.share_among(2);
    let evicted = shard.shrink();
    assert_eq!(evicted, [], "share_among has shrunk it already");
    assert_eq!(shard.active(), (16..=20).collect::<Vec<_>>());
    // S-060: two shards, five each.
    let evicted = shard.access_all((11..=20).rev());
    let gone = |id: u64| match id {
        15 => Some(20),
        id if id < 15 => Some(id + 1),
        _ => None,
    };
    assert_eq!(evicted, each((11..=20).rev(), gone));
    assert_eq!(shard.active(), [11, 16, 17, 18, 19]);
}

#[test]
fn s_061_segments_follow_the_limit() {
    let mut shard = Shard::new(&segmented(20, &[0.2, 0.8]));
    shard.access_all(1..=30);
    assert_eq!(shard.share_among(2), (11..=20).collect::<Vec<_>>());
    assert_eq!(shard.set_limit(10), (21..=25).collect::<Vec<_>>());
    let evicted = shard.access_all(1..=10);
    let before = |id| if id < 6 { id + 25 } else { id - 5 };
    assert_eq!(evicted, each(1..=10, |id| Some(before(id))));
    assert_eq!(shard.set_limit(30), []);
    let evicted = shard.access_all(11..=30);
    assert_eq!(evicted, each(11..=30, |id| (id > 20).then(|| id - 15)));
    assert_eq!(shard.active(), (16..=30).collect::<Vec<_>>());
}

#[test]
fn s_062_most_recently_used_goes_before_the_one_that_has_the_message() {
    let mut shard = Shard::new(&plain(10, Replacement::MostRecentlyUsed));
    let evicted = shard.access_all(1..=20);
    assert_eq!(evicted, each(1..=20, |id| (id > 10).then(|| id - 1)));
    assert_eq!(shard.active(), [1, 2, 3, 4, 5, 6, 7, 8, 9, 20]);
    assert_eq!(shard.share_among(2), [20, 9, 8, 7, 6]);
    let evicted = shard.access_all(1..=20);
    assert_eq!(evicted, each(1..=20, |id| (id > 5).then(|| id - 1)));
    assert_eq!(shard.active(), [1, 2, 3, 4, 20]);
}

/// Every entity as often as its number says: one to four times.
fn by_number(shard: &mut Shard, ids: impl IntoIterator<Item = u64>) -> Vec<(u64, Vec<u64>)> {
    let mut evicted = Vec::new();
    for id in ids {
        let times = (id - 1) % 4 + 1;
        let gone: Vec<u64> = (0..times).flat_map(|_| shard.access(id)).collect();
        evicted.push((id, gone));
    }
    evicted.retain(|(_, gone)| !gone.is_empty());
    evicted
}

#[test]
fn s_064_and_s_065_least_frequently_used_goes_and_of_those_the_least_recently_used() {
    let mut shard = Shard::new(&plain(10, Replacement::LeastFrequentlyUsed { aging: false }));
    let evicted = by_number(&mut shard, 1..=20);
    let expected = [
        (11, 1),
        (12, 5),
        (13, 9),
        (14, 13),
        (15, 2),
        (16, 6),
        (17, 10),
        (18, 17),
        (19, 14),
        (20, 18),
    ];
    assert_eq!(evicted, expected.map(|(id, gone)| (id, vec![gone])));
    assert_eq!(shard.active(), [3, 4, 7, 8, 11, 12, 15, 16, 19, 20]);
    // S-065
    assert_eq!(shard.share_among(2), [3, 7, 11, 15, 19]);
    let evicted = by_number(&mut shard, 1..=20);
    for (id, gone) in &evicted {
        let expected = if (id - 1) % 4 == 0 { id + 3 } else { id - 1 };
        assert_eq!(gone, &[expected], "{id}");
    }
    assert_eq!(evicted.len(), 20);
    assert_eq!(shard.active(), [4, 8, 12, 16, 20]);
}

#[test]
fn s_067_with_aging_an_entity_that_was_busy_once_goes_in_the_end() {
    let mut shard = Shard::new(&plain(5, Replacement::LeastFrequentlyUsed { aging: true }));
    shard.access_all([1, 2]);
    for id in 3..=5 {
        shard.access_all([id; 6]);
    }
    // Newcomers begin above the last one that went, so they come up to the busy ones.
    assert_eq!(shard.access_all(6..=10), [[1], [2], [6], [7], [8]]);
    assert_eq!(shard.active(), [3, 4, 5, 9, 10]);
    assert_eq!(shard.access_all(11..=15), [[9], [10], [11], [12], [13]]);
    assert_eq!(shard.active(), [3, 4, 5, 14, 15]);
    assert_eq!(shard.access_all(16..=20), [[3], [4], [5], [14], [15]]);
    assert_eq!(shard.active(), [16, 17, 18, 19, 20]);

    let mut shard = Shard::new(&plain(5, Replacement::LeastFrequentlyUsed { aging: false }));
    shard.access_all([1; 6]);
    shard.access_all(2..=1_000);
    assert!(shard.active().contains(&1), "without aging it stays for ever");
}

/// A window of a fifth, a filter, and two segments of a quarter and three quarters.
fn composite() -> PassivationSettings {
    PassivationSettings::limit(LimitSettings {
        per_region: NonZeroUsize::new(20).unwrap(),
        replacement: Replacement::Segmented(Segments::new(&[0.25, 0.75]).unwrap()),
        window: Some(WindowSettings::fixed(0.2).unwrap()),
        filter: Some(SketchSettings::default()),
    })
}

#[test]
fn s_068_newcomers_that_are_used_once_push_out_only_each_other() {
    let mut shard = Shard::new(&composite());
    let evicted = shard.access_all(1..=40);
    assert_eq!(evicted, each(1..=40, |id| (id > 20).then(|| id - 4)));
    let active: Vec<u64> = (1..=16).chain(37..=40).collect();
    assert_eq!(shard.active(), active);
}

#[test]
fn s_070_a_lower_limit_asks_the_window_first_and_the_sketch_begins_anew() {
    let mut shard = Shard::new(&composite());
    shard.access_all(1..=16); // into the window, and from there into the main area
    shard.access_all(17..=20);
    shard.access_all(5..=16); // into the upper segment
    shard.access_all((17..=20).chain(17..=20)); // twice more often than 1 to 4
    assert_eq!(shard.access_all(25..=28), [[1], [2], [3], [4]]);
    assert_eq!(shard.share_among(2), [25, 26, 17, 18, 19, 20, 5, 6, 7, 8]);
    assert_eq!(shard.access_all(17..=20), [[27], [28], [9], [10]]);
    assert_eq!(shard.active(), (11..=20).collect::<Vec<_>>());
}

#[test]
fn s_071_without_a_window_a_newcomer_has_to_be_used_more_often_than_who_would_go() {
    let settings = PassivationSettings::limit(LimitSettings {
        per_region: NonZeroUsize::new(10).unwrap(),
        replacement: Replacement::LeastRecentlyUsed,
        window: None,
        filter: Some(SketchSettings::default()),
    });
    let mut shard = Shard::new(&settings);
    assert_eq!(
        shard.access_all(1..=20),
        each(1..=20, |id| (id > 10).then_some(id))
    );
    for id in 11..=20 {
        assert_eq!(shard.access(id), [id - 10]);
        assert_eq!(shard.access_all([id; 4]), each([id; 4], |_| None));
    }
    for id in 1..=10 {
        assert_eq!(shard.access_all([id; 2]), [[id], [id]]);
    }
    assert_eq!(shard.share_among(2), [11, 12, 13, 14, 15]);
    let evicted = shard.access_all(1..=10);
    let gone = |id| if id <= 5 { id + 15 } else { id };
    assert_eq!(evicted, each(1..=10, |id| Some(gone(id))));
    assert_eq!(shard.active(), [1, 2, 3, 4, 5]);
}

/// Who is in the window and who in the main area, as far as who is where decides who goes.
fn adaptive() -> PassivationSettings {
    let climbing = ClimbingSettings::default().every(2.0).unwrap();
    let climbing = climbing.step(0.4, 0.5).unwrap().restart_at(0.8).unwrap();
    PassivationSettings::limit(LimitSettings {
        per_region: NonZeroUsize::new(10).unwrap(),
        replacement: Replacement::LeastRecentlyUsed,
        window: Some(WindowSettings::climbing(0.1, climbing.within(0.1, 1.0).unwrap()).unwrap()),
        // Exact counts, as far as a sketch has them, and none is halved during the test.
        filter: Some(SketchSettings::new(64, 100.0).unwrap()),
    })
}

#[test]
fn s_072_the_window_grows_and_shrinks_with_the_share_of_hits() {
    let mut shard = Shard::new(&adaptive());
    let share = |shard: &Shard, expected: f64, phase| {
        let (found, _) = shard.passivation.window().unwrap();
        assert!((found - expected).abs() < 1e-9, "{phase}: {found}");
    };
    // The settled state: everybody is used often, and the window has its least share.
    for id in 1..=10 {
        assert_eq!(shard.access_all([id; 10]), each([id; 10], |_| None));
    }
    share(&shard, 0.1, "A");
    // Newcomers that are used once in a while: nobody hits, so the direction turns and the window grows.
    for round in 0..4 {
        for id in 11..=20 {
            let gone = if id == 11 && round > 0 { 20 } else { id - 1 };
            assert_eq!(shard.access(id), [gone], "B {id}");
        }
    }
    share(&shard, 0.525, "B");
    for id in 21..=30 {
        let gone = match id {
            21 => 20,
            22..=25 => id - 21,
            _ => id - 5,
        };
        assert_eq!(shard.access_all([id; 2]), [vec![gone], vec![]], "C {id}");
    }
    share(&shard, 0.725, "C");
    for id in 21..=24 {
        let gone = id + 5;
        let expected = [vec![gone], vec![], vec![], vec![], vec![]];
        assert_eq!(shard.access_all([id; 5]), expected, "D {id}");
    }
    share(&shard, 0.825, "D");
    let window = [30, 5, 6, 21, 22, 23, 24, 7];
    for (at, id) in (31..=40).chain(31..=40).enumerate() {
        let gone = match window.get(at) {
            Some(before) => *before,
            None if id <= 38 => id + 2,
            None => id - 8,
        };
        assert_eq!(shard.access(id), [gone], "E {id}");
    }
    share(&shard, 0.775, "E");
    for id in 41..=50 {
        assert_eq!(shard.access_all([id; 2]), [vec![id - 7], vec![]], "F {id}");
    }
    share(&shard, 0.375, "F");
    for id in 51..=60 {
        assert_eq!(shard.access_all([id; 2]), [vec![id - 3], vec![]], "G {id}");
    }
    share(&shard, 0.175, "G");
    assert_eq!(shard.access_all(61..=70), each(61..=70, |id| Some(id - 1)));
    assert_eq!(shard.active(), [8, 9, 33, 44, 45, 46, 47, 58, 59, 70]);
}
