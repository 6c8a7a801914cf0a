//! Random chords: a few members of the ring are asked, each for itself and its neighbours, so that the cost
//! does not grow with the cluster. Positions count from 1 in the order of the members. Spec: sharding 5.5.

use alloc::vec::Vec;

use rand_core::Rng;

use crate::ordered::OrderedSet;
use crate::rng;

/// How many different members are heard of on average when `contacts` of `members` are asked, each with
/// `neighbors` on either side.
#[must_use]
pub fn expected_distinct(members: u32, contacts: u32, neighbors: u32) -> f64 {
    let reached = u64::from(neighbors) * 2 + 1;
    let others = u64::from(members).saturating_sub(reached);
    // The probability that none of the contacts is close enough to a given member.
    let missed = |drawn: u32| {
        let left = others.saturating_sub(u64::from(drawn));
        left as f64 / (f64::from(members) - f64::from(drawn))
    };
    let missed: f64 = (0..contacts.min(members)).map(missed).product();
    f64::from(members) * (1.0 - missed)
}

/// Different random positions, as many as there are at most.
pub fn contacts(rng: &mut dyn Rng, members: usize, count: usize) -> Vec<usize> {
    let mut all: Vec<usize> = (1..=members).collect();
    rng::choose_front(rng, &mut all, count);
    all.truncate(count);
    all
}

/// The neighbours of a position on either side, around the ring, without itself; the nearest first, each
/// once. None for a position that is not on the ring.
#[must_use]
pub fn neighbors(members: usize, position: usize, on_each_side: usize) -> Vec<usize> {
    if !(1..=members).contains(&position) {
        return Vec::new();
    }
    let others = members - 1;
    let index = position - 1;
    let after = on_each_side.min(others);
    let before = on_each_side.min(others - after);
    let mut found = Vec::with_capacity(after + before);
    for distance in 1..=after {
        found.push((index + distance) % members + 1);
        if distance <= before {
            found.push((index + members - distance) % members + 1);
        }
    }
    found
}

/// Who answers when these positions are asked, in order.
#[must_use]
pub fn seen(members: usize, positions: &[usize], on_each_side: usize) -> OrderedSet<usize> {
    let on_ring = positions
        .iter()
        .copied()
        .filter(|position| (1..=members).contains(position));
    on_ring
        .flat_map(|position| {
            neighbors(members, position, on_each_side)
                .into_iter()
                .chain([position])
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng;

    use super::*;

    fn seen_by(members: usize, position: usize) -> Vec<usize> {
        seen(members, &[position], 1).into_iter().collect()
    }

    #[test]
    fn m_446_three_contacts_on_a_ring_of_twelve() {
        assert_eq!(seen_by(12, 1), [1, 2, 12]);
        assert_eq!(seen_by(12, 5), [4, 5, 6]);
        assert_eq!(seen_by(12, 9), [8, 9, 10]);
        let all: Vec<_> = seen(12, &[1, 5, 9], 1).into_iter().collect();
        assert_eq!(all, [1, 2, 4, 5, 6, 8, 9, 10, 12]);
    }

    #[test]
    fn expected_numbers_are_those_of_the_rules_and_of_chance() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        for (members, asked, on_each_side, expected) in
            [(100, 5, 2, 23.0), (1_000, 10, 2, 49.1), (15, 3, 1, 7.75)]
        {
            let distinct = expected_distinct(members, asked, on_each_side);
            assert!(
                (distinct - expected).abs() < 0.06,
                "found {distinct}, expected {expected}"
            );
            let (members, asked, on_each_side) = (members as usize, asked as usize, on_each_side as usize);
            let rounds = 2_000;
            let total: usize = (0..rounds)
                .map(|_| seen(members, &contacts(&mut rng, members, asked), on_each_side).len())
                .sum();
            let mean = total as f64 / f64::from(rounds);
            assert!((mean - distinct).abs() < 0.4, "drawn {mean}, expected {distinct}");
        }
    }

    #[test]
    fn small_rings_wrap_and_nobody_counts_twice() {
        assert_eq!(expected_distinct(0, 5, 2), 0.0);
        assert_eq!(expected_distinct(3, 3, 3), 3.0);
        assert_eq!(expected_distinct(6, 9, 0), 6.0);
        for members in 0..8 {
            for position in 0..=members + 1 {
                for on_each_side in 0..6 {
                    let found = neighbors(members, position, on_each_side);
                    let distinct: OrderedSet<_> = found.iter().copied().collect();
                    assert_eq!(found.len(), distinct.len());
                    assert!(!distinct.contains(&position));
                    let is_on_ring = (1..=members).contains(&position);
                    let expected = if is_on_ring {
                        (2 * on_each_side).min(members - 1)
                    } else {
                        0
                    };
                    assert_eq!(found.len(), expected, "{members} {position} {on_each_side}");
                }
            }
        }
        assert_eq!(seen(4, &[0, 5], 9).len(), 0);
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        assert_eq!(contacts(&mut rng, 3, 9).len(), 3);
        assert_eq!(contacts(&mut rng, 0, 9).len(), 0);
    }
}
