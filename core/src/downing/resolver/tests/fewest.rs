//! The resolver by the rule of the fewest nodes. Spec: membership 3.10.

use super::*;

/// Stable after 2 s, patience of 4 s beyond, and each watched by so many.
fn fewest(me: u64, monitored_by: usize) -> Bench {
    let mut config = impatient(IndirectRule::Fewest);
    config.failure_detector.monitored_by_nr_of_members = monitored_by;
    Bench::of_config(me, config)
}

/// Both ends of each link report each other.
fn links(pairs: &[(u64, u64)]) -> Vec<(u64, u64)> {
    pairs.iter().flat_map(|(a, b)| [(*a, *b), (*b, *a)]).collect()
}

#[test]
fn i_19_of_broken_links_the_node_that_explains_them_goes_and_one_node_says_so() {
    for (me, expected) in [(1, vec![]), (2, vec![1]), (3, vec![])] {
        // 1 is the sick one, and 2 the first of the others.
        let mut bench = fewest(me, 9);
        bench.see(5, &links(&[(1, 3), (1, 4)]));
        bench.run_for(ms(2000));
        assert_eq!(bench.downed(), expected, "{me}");
    }
}

#[test]
fn s_3_10_a_member_that_is_down_counts_on_the_other_side_for_two_stable_periods() {
    // 5 was downed, and then 3 and 4 are cut off: they may not know it, and count three.
    for (split_at, expected) in [(1000, vec![1, 2]), (1999, vec![1, 2]), (2000, vec![3, 4])] {
        let mut bench = fewest(1, 9);
        let statuses: Vec<(u64, Status)> = (1..=5)
            .map(|uid| (uid, if uid == 5 { Status::Down } else { Status::Up }))
            .collect();
        bench.see(5, &[]);
        bench.see_of(&statuses, &[], &[1]);
        bench.run_for(ms(split_at));
        let split: Vec<(u64, u64)> = [(1, 3), (1, 4), (2, 3), (2, 4)].into();
        bench.see_of(&statuses, &split, &[1]);
        bench.run_for(ms(2000));
        assert_eq!(bench.downed(), expected, "{split_at}");
    }
}

#[test]
fn s_3_10_who_is_watched_anew_restarts_the_wait_and_is_no_evidence_before_the_first_silence() {
    // On a ring of six each watches two. 3 falls silent: who watched it watches the next one besides.
    let mut bench = fewest(1, 2);
    let silence = bench.fixture.config.first_silence();
    assert_eq!(
        bench.fixture.config.stable_after(6),
        silence,
        "longer than what is set"
    );
    assert_eq!(
        bench.fixture.config.stable_after(3),
        ms(2000),
        "everybody watches everybody"
    );
    bench.see(6, &[]);
    bench.run_for(ms(20_000));
    let watches = |bench: &Bench| {
        let now = bench.fixture.mono();
        bench.resolver.evidence.watches(now, silence)
    };
    let before = watches(&bench);
    let watchers: Vec<u64> = (1..=6).filter(|at| watched(&before, *at).contains(&3)).collect();
    let rows: Vec<(u64, u64)> = watchers.iter().map(|at| (*at, 3)).collect();
    bench.see(6, &rows);
    assert_eq!(watches(&bench), before, "nobody else is watched yet, as evidence");
    bench.run_for(silence - ms(1));
    assert_eq!((watches(&bench), bench.downed()), (before.clone(), vec![]));
    bench.run_for(ms(1));
    assert_ne!(watches(&bench), before);
    assert_eq!(bench.downed(), [3]);
}

fn watched(watches: &Watches, at: u64) -> Vec<u64> {
    match watches {
        Watches::Everybody => Vec::new(),
        Watches::These(each) => {
            let subjects = each.get(&n(at)).into_iter().flatten();
            subjects.map(UniqueAddress::uid).collect()
        }
    }
}

/// Every second 1 hears 5 or does not, and so does 2, until patience is over.
fn flapping(bench: &mut Bench, steady: &[(u64, u64)]) {
    bench.see(5, steady);
    for step in 0..6 {
        let mut rows = steady.to_vec();
        rows.extend([(1, 4), (4, 1)]);
        if step % 2 == 0 {
            rows.extend([(2, 4), (4, 2)]);
        }
        bench.see(5, &rows);
        bench.run_for(ms(1000));
        assert_eq!(bench.downed(), [], "{step}");
    }
    bench.run_for(ms(1));
}

#[test]
fn s_3_10_unrest_that_one_node_explains_ends_with_that_node() {
    for (me, expected) in [(1, vec![4]), (2, vec![]), (3, vec![]), (4, vec![])] {
        let mut bench = fewest(me, 9);
        flapping(&mut bench, &[]);
        assert_eq!(bench.downed(), expected, "{me}");
    }
}

#[test]
fn s_3_10_whoever_could_not_stand_when_patience_is_over_goes_alone() {
    // 3 and 5 are on the other side, and whose side 4 is on changes: two against two, and 4.
    let split: Vec<(u64, u64)> = [1, 2, 4].iter().flat_map(|at| [(*at, 3), (*at, 5)]).collect();
    for me in [1, 2, 4] {
        let mut bench = fewest(me, 9);
        flapping(&mut bench, &split);
        assert_eq!(bench.downed(), [me], "{me}");
        let event = bench.events().pop().unwrap();
        assert_eq!(event.decision, DowningDecision::DownReachable);
    }
}

#[test]
fn s_3_10_on_a_ring_a_split_is_found_in_waves_and_each_of_them_restarts_the_wait() {
    // Five of a hundred, each watched by nine: whoever is found silent has the next ones watched.
    let named = |uid: u64| node(&std::format!("h{uid:03}"), uid);
    let side = [5, 11, 40, 52, 90];
    let members: Vec<Member> = (1..=100).map(|uid| member(&named(uid), Status::Up)).collect();
    let mut config = impatient(IndirectRule::Fewest);
    config.downing.stable_after = None;
    config.downing.down_all_when_unstable = DownAllWhenUnstable::Off;
    let fixture = Fixture::with_config(named(5), config);
    let resolver = Resolver::new(&fixture.config);
    let mut bench = Bench { fixture, resolver };
    let mut rows: Vec<(u64, u64)> = Vec::new();
    let mut waves = 0;
    loop {
        let mut gossip = Gossip::new();
        for member in &members {
            gossip.upsert_member(member.clone());
        }
        for (observer, subject) in &rows {
            gossip
                .reachability_mut()
                .unreachable(&named(*observer), &named(*subject));
        }
        bench.show(picture_of(&named(5), gossip));
        let watches = bench
            .resolver
            .evidence
            .watches(Instant::from_millis(u64::MAX / 2000), ms(0));
        let Watches::These(each) = watches else {
            panic!("not everybody watches everybody");
        };
        let before = rows.len();
        for observer in side {
            let silent = each.get(&named(observer)).unwrap().iter().map(UniqueAddress::uid);
            let silent = silent
                .filter(|uid| !side.contains(uid))
                .map(|uid| (observer, uid));
            rows.extend(silent.filter(|row| !rows.contains(row)).collect::<Vec<_>>());
        }
        if rows.len() == before {
            break;
        }
        waves += 1;
        // Detection of a wave takes less than the wait, so nothing is decided between two of them.
        bench.run_for(ms(9_000));
        assert_eq!(bench.downed(), [], "wave {waves}");
    }
    assert_eq!(waves, 5);
    bench.run_for(ms(30_001));
    assert_eq!(bench.downed(), side, "five cannot stand against the others");
}
