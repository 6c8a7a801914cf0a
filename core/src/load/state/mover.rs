//! What somebody who moves units by load remembers, and what a unit costs its node. Decides nothing about
//! places: who plans asks which two nodes are due, and says what moved. Spec: sharding 5.5, 10.20, 10.22.

use crate::config::CapacitySelector;
use crate::ident::UniqueAddress;
use crate::load::state::moves::{COOL_DOWN, Extremes, GAP_MIN, MoveWindows, gap};
use crate::load::state::sample::{LoadPartId, Loads};
use crate::ordered::OrderedMap;
use crate::time::Instant;
use crate::view::View;

/// The rounds of one who moves units by load, and what it has moved. Holds at most one entry for each unit.
///
/// Numbers of units and load want different things: a node that gave a unit away has one less than the
/// others, and would be given it back at once. So a unit that moved by load counts where it was until the
/// cool-down is over and the two nodes are no longer so far apart that it would move again.
#[derive(Clone, Debug)]
pub(crate) struct LoadMoves<U> {
    round: u64,
    windows: MoveWindows<UniqueAddress>,
    away: OrderedMap<U, AwayUnit>,
}

/// A unit that moved by load.
#[derive(Clone, Debug)]
struct AwayUnit {
    from: UniqueAddress,
    to: UniqueAddress,
    since: Instant,
}

impl<U> Default for LoadMoves<U> {
    fn default() -> Self {
        Self {
            round: 0,
            windows: MoveWindows::default(),
            away: OrderedMap::new(),
        }
    }
}

impl<U: Ord> LoadMoves<U> {
    /// Takes note of what is known now of the nodes that may have units; says whether that is a new round.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        (loads, selector): (&Loads, CapacitySelector),
        view: &View,
        may_have: impl Fn(&UniqueAddress) -> bool,
    ) -> bool {
        let is_new = loads.round() != self.round;
        if !is_new && self.away.is_empty() {
            return false;
        }
        let mut round = loads.capacities(selector, view);
        round.retain(|(node, _)| may_have(node));
        let is_far = |away: &AwayUnit| gap(&round, &away.from, &away.to).is_some_and(|gap| gap >= GAP_MIN);
        self.away
            .retain(|_, away| now.since(away.since) < COOL_DOWN || is_far(away));
        if is_new {
            self.round = loads.round();
            self.windows.push(now, round);
        }
        is_new
    }

    /// Between which nodes something is to move now; not if a change touches one of them.
    pub(crate) fn due(
        &mut self,
        now: Instant,
        is_pending: impl Fn(&UniqueAddress) -> bool,
    ) -> Option<Extremes<UniqueAddress>> {
        self.windows.due(now, is_pending)
    }

    /// A unit goes because of load.
    pub(crate) fn moved(&mut self, now: Instant, unit: U, from: UniqueAddress, to: UniqueAddress) {
        self.windows.moved(now, from.clone(), to.clone());
        let since = now;
        self.away.insert(unit, AwayUnit { from, to, since });
    }

    /// Units that there are no more have no place to count at.
    pub(crate) fn keep(&mut self, is_there: impl Fn(&U) -> bool) {
        self.away.retain(|unit, _| is_there(unit));
    }

    /// A unit did not go after all.
    pub(crate) fn stays(&mut self, unit: &U) {
        self.away.remove(unit);
    }

    /// From where to where a unit has gone because of load, if it is not to go back now.
    pub(crate) fn course(&self, unit: &U) -> Option<(&UniqueAddress, &UniqueAddress)> {
        let away = self.away.get(unit)?;
        Some((&away.from, &away.to))
    }

    /// Where a unit counts that this node has: somewhere else, if it has come from there because of load.
    pub(crate) fn counts_at(&self, unit: &U, host: &UniqueAddress) -> Option<&UniqueAddress> {
        let (from, to) = self.course(unit)?;
        (to == host).then_some(from)
    }

    /// Whether every unit counts where it is.
    pub(crate) fn is_empty(&self) -> bool {
        self.away.is_empty()
    }
}

/// What one unit of a part costs its node, in units of capacity: its part of the messages that the node
/// handles, of what the node uses. A node tells of parts as a whole, so all units of one cost the same; where
/// it tells of no messages, or not of the part, so do all that run there, which are at least `units`.
pub(crate) fn unit_rates(
    loads: &Loads,
    selector: CapacitySelector,
    node: &UniqueAddress,
    units: usize,
) -> impl Fn(LoadPartId) -> f64 + use<> {
    let known = loads.get(node);
    let free = known.and_then(|known| known.sample.capacities().select(selector));
    let used = 1.0 - free.unwrap_or(1.0);
    let parts: alloc::vec::Vec<_> = known.map(|known| known.parts.to_vec()).unwrap_or_default();
    let messages: f64 = parts.iter().map(|part| f64::from(part.messages_per_second)).sum();
    let told: f64 = parts.iter().map(|part| f64::from(part.units)).sum();
    let all = told.max(f64::from(u32::try_from(units).unwrap_or(u32::MAX)));
    move |part| {
        let known = parts.iter().find(|known| known.part == part);
        match known {
            Some(known) if messages > 0.0 => {
                let share = f64::from(known.messages_per_second) / messages;
                used * share / f64::from(known.units.max(1))
            }
            Some(_) | None => used / all.max(1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use core::time::Duration;

    use super::*;
    use crate::fixture::{member, node, picture};
    use crate::load::state::sample::{KnownLoad, LoadSample, PartLoad};
    use crate::load::state::share::LoadShare;
    use crate::membership::state::member::Status;

    fn nodes() -> [UniqueAddress; 3] {
        [node("a", 1), node("b", 2), node("c", 3)]
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_millis(1_000_000) + Duration::from_secs(seconds)
    }

    /// What `a`, `b` and `c` use of their processors, in thousandths.
    fn loads(round: u64, used: [u16; 3], parts: &[PartLoad]) -> Loads {
        let of = |used| KnownLoad {
            sample: LoadSample {
                cpu: LoadShare::from_thousandths(used),
                memory: Some(LoadShare::NONE),
                ..LoadSample::default()
            },
            parts: parts.into(),
            age_rounds: 0,
        };
        Loads::new(round, nodes().into_iter().zip(used.map(of)).collect())
    }

    fn looks(moves: &mut LoadMoves<u8>, seconds: u64, used: [u16; 3]) -> bool {
        let view = picture(
            &nodes()[0],
            nodes().iter().map(|node| member(node, Status::Up)),
            &[],
        );
        let known = (&loads(seconds, used, &[]), CapacitySelector::Cpu);
        moves.look(at(seconds), known, &view, |node| *node != nodes()[2])
    }

    #[test]
    fn each_round_counts_once_and_only_those_who_may_have_something() {
        let [a, b, _] = nodes();
        let mut moves = LoadMoves::default();
        for (seconds, is_new) in [(3, true), (3, false), (6, true), (6, false)] {
            assert_eq!(looks(&mut moves, seconds, [900, 100, 0]), is_new);
            assert_eq!(moves.due(at(seconds), |_| false), None);
        }
        looks(&mut moves, 9, [900, 100, 0]);
        let due = moves.due(at(9), |_| false).unwrap();
        assert_eq!((due.hot, due.cold), (a, b), "c may not");
    }

    #[test]
    fn s_327_what_moved_counts_where_it_was_while_it_would_move_again() {
        let [a, b, c] = nodes();
        let mut moves = LoadMoves::default();
        moves.moved(at(0), 7, a.clone(), b.clone());
        assert_eq!(moves.course(&7), Some((&a, &b)));
        assert_eq!(moves.counts_at(&7, &b), Some(&a));
        assert_eq!((moves.counts_at(&7, &a), moves.counts_at(&7, &c)), (None, None));
        assert_eq!(moves.counts_at(&8, &b), None);
        looks(&mut moves, 29, [500, 500, 0]);
        assert!(!moves.is_empty(), "it cools down");
        looks(&mut moves, 31, [800, 500, 0]);
        assert!(!moves.is_empty(), "the gap is there");
        // Without a new round what was known last is looked at again.
        assert!(!looks(&mut moves, 31, [799, 500, 0]));
        assert_eq!(moves.course(&7), None, "nothing is left of it");
        moves.moved(at(40), 7, a.clone(), c);
        looks(&mut moves, 71, [900, 500, 0]);
        assert!(moves.is_empty(), "nothing is known of one of the two");
        moves.moved(at(80), 7, a, b);
        moves.stays(&7);
        assert!(moves.is_empty());
        moves.moved(at(80), 8, nodes()[0].clone(), nodes()[1].clone());
        moves.keep(|unit| *unit == 8);
        assert!(!moves.is_empty());
        moves.keep(|unit| *unit == 7);
        assert!(moves.is_empty());
    }

    #[test]
    fn a_unit_costs_its_part_of_the_messages_of_what_its_node_uses() {
        let [a, ..] = nodes();
        let part = |part, messages_per_second, units| PartLoad {
            part: LoadPartId(part),
            messages_per_second,
            units,
            ..PartLoad::default()
        };
        let rates = |parts: &[PartLoad], units, selector| {
            let rates = unit_rates(&loads(1, [800, 0, 0], parts), selector, &a, units);
            let of: Vec<_> = [1, 2, 3].map(|part| rates(LoadPartId(part))).into();
            of.iter()
                .map(|rate| (rate * 1_000.0 + 0.5) as u16)
                .collect::<Vec<_>>()
        };
        let told = [part(1, 300, 2), part(2, 100, 1)];
        assert_eq!(
            rates(&told, 4, CapacitySelector::Cpu),
            [300, 200, 200],
            "3 is not told"
        );
        assert_eq!(rates(&told, 2, CapacitySelector::Mix), [150, 100, 133]);
        assert_eq!(rates(&[part(1, 0, 3)], 4, CapacitySelector::Cpu), [200, 200, 200]);
        assert_eq!(rates(&[], 0, CapacitySelector::Cpu), [800, 800, 800]);
        assert_eq!(
            rates(&[], 0, CapacitySelector::Load),
            [0, 0, 0],
            "nothing is known of it"
        );
    }
}
