//! When something moves by load, and when not. Spec: sharding 5.5, 10.20, 10.22.

use super::*;

type Round = Vec<(&'static str, NodeSample)>;

fn fresh(capacity: f64) -> NodeSample {
    NodeSample {
        capacity,
        age_rounds: 0,
        usable: true,
    }
}

fn round<const N: usize>(capacities: [(&'static str, f64); N]) -> Round {
    capacities
        .map(|(node, capacity)| (node, fresh(capacity)))
        .to_vec()
}

fn at(seconds: u64) -> Instant {
    Instant::from_millis(1_000_000 + seconds * 1_000)
}

/// Rounds three seconds apart, the last one at `until`.
fn windows(until: u64, rounds: &[Round]) -> MoveWindows<&'static str> {
    let mut windows = MoveWindows::default();
    for (before, round) in rounds.iter().enumerate() {
        let left = u64::try_from(rounds.len() - 1 - before).unwrap();
        windows.push(at(until - 3 * left), round.clone());
    }
    windows
}

fn due(windows: &mut MoveWindows<&'static str>, now: u64) -> Option<(&'static str, &'static str)> {
    let found = windows.due(at(now), |_| false)?;
    Some((found.hot, found.cold))
}

#[test]
fn s_327_three_rounds_that_agree_move_something_and_then_nothing_for_thirty_seconds() {
    let far = round([("a", 0.2), ("b", 0.9)]);
    let mut moving = windows(100, &[far.clone(), far.clone()]);
    assert_eq!(due(&mut moving, 100), None, "two rounds are not enough");
    moving.push(at(103), far.clone());
    assert_eq!(due(&mut moving, 103), Some(("a", "b")));
    moving.moved(at(103), "a", "b");
    for second in 1..30 {
        moving.push(at(103 + second), far.clone());
        assert_eq!(due(&mut moving, 103 + second), None, "after {second} s");
        let back = round([("a", 0.9), ("b", 0.2)]);
        moving.push(at(103 + second), back);
        assert_eq!(due(&mut moving, 103 + second), None, "nor back after {second} s");
    }
    for second in [133, 136] {
        moving.push(at(second), far.clone());
        assert_eq!(
            due(&mut moving, second),
            None,
            "rounds of the cool-down do not count"
        );
    }
    moving.push(at(139), far);
    assert_eq!(due(&mut moving, 139), Some(("a", "b")));

    let near = round([("a", 0.45), ("b", 0.60)]);
    assert_eq!(
        due(&mut windows(100, &[near.clone(), near.clone(), near]), 100),
        None
    );
}

#[test]
fn one_round_that_does_not_agree_begins_anew() {
    let far = round([("a", 0.2), ("b", 0.9)]);
    let near = round([("a", 0.5), ("b", 0.6)]);
    let other = round([("a", 0.2), ("b", 0.3), ("c", 0.9)]);
    for odd in [near, other, round([("a", 0.2)]), round([])] {
        let mut moving = windows(100, &[far.clone(), odd, far.clone(), far.clone()]);
        assert_eq!(due(&mut moving, 100), None);
        moving.push(at(103), far.clone());
        assert_eq!(due(&mut moving, 103), Some(("a", "b")));
    }
}

#[test]
fn only_fresh_samples_of_usable_nodes_count() {
    let old = NodeSample {
        age_rounds: AGE_ROUNDS_MAX + 1,
        ..fresh(0.0)
    };
    let leaving = NodeSample {
        usable: false,
        ..fresh(1.0)
    };
    let mut all = round([("a", 0.2), ("b", 0.9), ("c", f64::NAN)]);
    all.extend([("old", old), ("leaving", leaving)]);
    let found = extremes(&all).unwrap();
    assert_eq!((found.hot, found.cold), ("a", "b"));
    let as_old_as_may_be = NodeSample {
        age_rounds: AGE_ROUNDS_MAX,
        ..fresh(0.1)
    };
    all.push(("still", as_old_as_may_be));
    assert_eq!(extremes(&all).unwrap().hot, "still");
    assert_eq!(extremes(&round([("a", 0.5), ("b", 0.5)])), None, "none is hotter");
}

#[test]
fn nothing_moves_to_or_from_a_node_that_a_change_touches() {
    let far = round([("a", 0.2), ("b", 0.9)]);
    let mut moving = windows(100, &[far.clone(), far.clone(), far]);
    for touched in ["a", "b"] {
        assert_eq!(moving.due(at(100), |node| *node == touched), None);
    }
    assert!(moving.due(at(100), |node| *node == "c").is_some());
}

#[test]
fn other_pairs_do_not_wait_for_one_that_cools_down() {
    let mut moving = MoveWindows::default();
    moving.moved(at(100), "a", "b");
    for second in [103, 106, 109] {
        moving.push(at(second), round([("a", 0.2), ("b", 0.5), ("c", 0.9)]));
    }
    assert_eq!(due(&mut moving, 109), Some(("a", "c")));
    moving.moved(at(109), "a", "c");
    assert!(moving.is_cooling(at(129), &"b", &"a"));
    assert!(!moving.is_cooling(at(130), &"b", &"a"));
    assert!(moving.is_cooling(at(138), &"a", &"c"));
}

#[test]
fn the_unit_closest_to_half_the_gap_moves_and_none_that_flips_the_order() {
    let units = [("small", 0.1), ("best", 0.25), ("flips", 0.31), ("huge", 0.6)];
    assert_eq!(choose_unit(0.6, units), Some("best"));
    assert_eq!(choose_unit(0.62, units), Some("flips"), "the two end equal");
    assert_eq!(choose_unit(0.1, units), None);
    assert_eq!(choose_unit(0.6, [("none", f64::NAN), ("odd", -0.1)]), None);
    assert_eq!(choose_unit(0.6, [("first", 0.1), ("second", 0.1)]), Some("first"));
    for (unit, rate) in units {
        if choose_unit(0.6, [(unit, rate)]).is_some() {
            assert!(0.2 + rate <= 0.8 - rate, "{unit} does not flip the order");
        }
    }
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut moving = MoveWindows::default();
    for second in 0..1_000 {
        moving.push(at(second), round([("a", 0.5), ("b", 0.5)]));
        moving.moved(at(second), "a", "b");
        moving.push(at(second), round([("c", 0.5), ("d", 0.6)]));
    }
    assert!(moving.rounds.len() <= ROUNDS);
    assert!(moving.moved.len() <= 30);
}
