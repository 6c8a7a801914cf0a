//! Shards that move because of load, and when none does. Three regions with three shards each, unless a test
//! says otherwise: `b` has least to spare, `c` most. Spec: sharding 5.5, 10.20.

use super::*;
use crate::load::state::sample::{KnownLoad, LoadPartId, LoadSample, Loads, PartLoad};
use crate::load::state::share::LoadShare;
use crate::sharding::allocation::{AllocationSettings, HashingLimits, SimultaneousLimits};
use crate::sharding::protocol::survey::ShardDecision;

const HOT: [u16; 3] = [500, 900, 100];

fn members() -> [(UniqueAddress, Status); 3] {
    [(a(), Status::Up), (b(), Status::Up), (c(), Status::Up)]
}

fn shards(from: u32, count: u32) -> impl Iterator<Item = ShardId> {
    (from..from + count).map(ShardId)
}

/// A coordinator whose regions have so many shards each.
fn rig(counts: [u32; 3]) -> Rig {
    let mut rig = Rig::active();
    let mut first = 0;
    for (node, count) in [a(), b(), c()].iter().zip(counts) {
        for shard in shards(first, count) {
            rig.coordinator.set_home(shard, at(node));
        }
        first += count;
    }
    rig
}

impl Rig {
    /// A round in which so many thousandths of the processors are used, on `a`, `b` and `c`.
    fn knows(&mut self, used: [u16; 3], parts: &[PartLoad]) {
        let of = |used| KnownLoad {
            sample: LoadSample {
                cpu: LoadShare::from_thousandths(used),
                ..LoadSample::default()
            },
            parts: parts.into(),
            age_rounds: 0,
        };
        let known = [a(), b(), c()].into_iter().zip(used.map(of)).collect();
        self.fixture.loads = Arc::new(Loads::new(self.fixture.loads.round() + 1, known));
    }

    /// Ten seconds later the balance is looked at, with such a round.
    fn hears(&mut self, used: [u16; 3]) -> Vec<Effect> {
        self.knows(used, &[]);
        self.fixture.stand_still(Duration::from_secs(10));
        self.act(|coordinator, cx| coordinator.on_rebalance_tick(cx))
    }

    /// Looks often enough for anything to move; what does, with where it is.
    fn moves(&mut self, used: [u16; 3]) -> Vec<(ShardId, UniqueAddress)> {
        for _ in 0..4 {
            self.hears(used);
        }
        self.under_way()
    }

    fn under_way(&self) -> Vec<(ShardId, UniqueAddress)> {
        let moving = self.coordinator.hand_offs.keys();
        moving
            .map(|shard| (*shard, self.home(*shard).expect("a home")))
            .collect()
    }

    fn home(&self, shard: ShardId) -> Option<UniqueAddress> {
        self.coordinator.places.home(shard).cloned()
    }

    /// All have marked and the owner has stopped the only shard that moves; it runs where it comes to.
    fn hands_over(&mut self) -> (ShardId, UniqueAddress) {
        let [(shard, from)] = &self.under_way()[..] else {
            panic!("one moves: {:?}", self.under_way())
        };
        let (shard, from, number) = (*shard, from.clone(), self.coordinator.last_hand_off);
        for node in [a(), b(), c()] {
            self.act(|coordinator, cx| {
                coordinator.on_begin_hand_off_ack(cx, &node, &term(), (shard, number));
            });
        }
        self.act(|coordinator, cx| coordinator.on_shard_stopped(cx, &from, &term(), shard));
        let home = self.home(shard).expect("a home");
        self.started(&home, shard);
        (shard, home)
    }
}

#[test]
fn s_327_three_looks_that_agree_move_a_shard_and_nothing_comes_back_for_thirty_seconds() {
    let mut rig = rig([3, 3, 3]);
    for _ in 0..2 {
        rig.hears(HOT);
        assert_eq!(rig.under_way(), [], "two are not enough");
    }
    let effects = rig.hears(HOT);
    let moved = ShardId(3);
    assert_eq!(
        rig.under_way(),
        [(moved, b())],
        "the oldest of those that cost the same"
    );
    let (from, to) = (b(), c());
    let said = event(ShardingEvent::ShardMovesByLoad {
        shard: moved,
        from: from.clone(),
        to: to.clone(),
    });
    assert!(effects.contains(&said), "{effects:?}");
    assert_eq!(rig.fixture.stats.sharding.shards_moved_by_load, 1);
    // Nothing else goes while it moves.
    rig.moves(HOT);
    assert_eq!(rig.under_way().len(), 1);
    assert_eq!(rig.hands_over(), (moved, c()), "not to who has the fewest");
    let placement = rig.coordinator.placement(moved).unwrap();
    let decided: Vec<_> = placement.decided.into_iter().map(|it| it.decision).collect();
    assert_eq!(decided[0], ShardDecision::MovesByLoad { from });
}

#[test]
fn s_327_what_has_moved_counts_where_it_was_until_the_cool_down_is_over_and_the_gap_is_gone() {
    let mut rig = rig([3, 3, 3]);
    rig.moves(HOT);
    let (moved, _) = rig.hands_over();
    let even = [500, 600, 400];
    // The last look with a gap was ten seconds before the move was over.
    rig.hears(even);
    assert_eq!(
        rig.under_way(),
        [],
        "b has two fewer than c, and is not given one"
    );
    // Uneven for another reason: that is seen to, and what has moved stays.
    rig.coordinator.set_home(ShardId(20), at(&c()));
    rig.coordinator.set_home(ShardId(21), at(&c()));
    rig.hears(even);
    assert_eq!(rig.under_way(), [(ShardId(6), c())]);
    assert_eq!(rig.hands_over(), (ShardId(6), b()));
    rig.hears(even);
    assert_eq!(rig.home(moved), Some(c()));
    // The gap is there still: it goes on counting where it was.
    let mut rig = super::load::rig([3, 3, 3]);
    rig.moves(HOT);
    rig.hands_over();
    rig.fixture.stand_still(Duration::from_secs(30));
    rig.hears([800, 900, 100]);
    assert_eq!(rig.under_way(), []);
    rig.hears(even);
    assert_eq!(
        rig.under_way(),
        [(ShardId(6), c())],
        "the numbers, and not what has moved"
    );
}

#[test]
fn s_327_a_gap_that_stays_moves_the_next_one_after_the_cool_down() {
    let mut rig = rig([6, 6, 6]);
    rig.moves(HOT);
    assert_eq!(rig.hands_over().0, ShardId(6));
    // A look ten seconds after it is over. The second after that is the first that is not within the thirty.
    for _ in 0..3 {
        rig.hears(HOT);
        assert_eq!(rig.under_way(), []);
    }
    rig.hears(HOT);
    assert_eq!(rig.hands_over(), (ShardId(7), c()));
}

#[test]
fn numbers_come_first_and_load_moves_nothing_while_they_are_uneven() {
    let mut rig = rig([3, 5, 1]);
    rig.coordinator.kind.settings.allocation =
        Some(AllocationSettings::LeastShardsOneByOne(SimultaneousLimits {
            threshold: 4,
            simultaneous: 3,
        }));
    assert_eq!(rig.moves(HOT), [], "the strategy lets them be, and so does load");
    let mut rig = super::load::rig([3, 3, 1]);
    rig.moves(HOT);
    let (shard, home) = rig.hands_over();
    assert_eq!((shard, home), (ShardId(0), c()), "of a, for its number");
    assert_eq!(rig.fixture.stats.sharding.shards_moved_by_load, 0);
}

#[test]
fn nothing_moves_by_load_if_it_is_turned_off_or_somebody_else_says_where_shards_go() {
    let mut off = Rig::configured(a(), (6000, StoreMode::Memory), |config| config.load.moves = false);
    off.view(&members());
    for (node, first) in [(a(), 0), (b(), 3), (c(), 6)] {
        off.register(&node, &[]);
        for shard in shards(first, 3) {
            off.coordinator.set_home(shard, at(&node));
        }
    }
    assert_eq!(off.moves(HOT), []);
    let hashing = AllocationSettings::ConsistentHashing(HashingLimits::default());
    for others in [
        hashing,
        AllocationSettings::External,
        AllocationSettings::Asked("own".into()),
    ] {
        let mut rig = rig([3, 3, 3]);
        rig.coordinator.kind.settings.allocation = Some(others);
        rig.moves(HOT);
        assert_eq!(rig.fixture.stats.sharding.shards_moved_by_load, 0);
    }
}

#[test]
fn a_shard_that_would_make_the_cold_node_the_hot_one_stays() {
    let mut rig = rig([1, 1, 1]);
    assert_eq!(rig.moves(HOT), [], "it is all that b does");
    // Others do most of it.
    let part = |part, messages_per_second, units| PartLoad {
        part: LoadPartId(part),
        messages_per_second,
        units,
        ..PartLoad::default()
    };
    let kind = rig.coordinator.kind.id.raw();
    for _ in 0..4 {
        rig.knows(HOT, &[part(kind, 100, 1), part(77, 300, 1)]);
        rig.act(|coordinator, cx| coordinator.on_rebalance_tick(cx));
    }
    assert_eq!(rig.under_way(), [(ShardId(1), b())]);
}

#[test]
fn s_328_nothing_moves_by_load_in_bad_times() {
    let joining = [(node("d", 4), Status::Joining)];
    let bad: [fn(&mut Rig); 4] = [
        |rig| drop(rig.view_with(&members(), &[c()])),
        |rig| rig.coordinator.on_paused(),
        |rig| rig.coordinator.unheard.extend([node("d", 4)]),
        |rig| rig.fixture.loads = Arc::default(),
    ];
    for begins in bad {
        let mut rig = rig([3, 3, 3]);
        rig.hears(HOT);
        rig.hears(HOT);
        rig.knows(HOT, &[]);
        begins(&mut rig);
        rig.act(|coordinator, cx| coordinator.on_rebalance_tick(cx));
        assert_eq!(rig.under_way(), []);
    }
    let mut rig = rig([3, 3, 3]);
    rig.view(&[members().as_slice(), &joining].concat());
    assert_eq!(rig.moves(HOT), []);
    rig.view(&members());
    rig.hears(HOT);
    assert_eq!(rig.under_way(), [(ShardId(3), b())]);
}

#[test]
fn only_regions_that_may_have_shards_are_hot_or_cold() {
    // Who leaves, and who hosts nothing, is neither; of the others a has most to spare.
    let mut rig = rig([3, 3, 3]);
    rig.coordinator.regions.get_mut(&c()).unwrap().draining = true;
    let shard = rig.moves([100, 900, 0]);
    assert_eq!(shard, [(ShardId(3), b())]);
    assert_eq!(rig.hands_over(), (ShardId(3), a()));
    let mut rig = super::load::rig([3, 3, 3]);
    rig.view(&[(a(), Status::Up), (b(), Status::Up), (c(), Status::Leaving)]);
    let shard = rig.moves([100, 900, 0]);
    assert_eq!(shard, [(ShardId(3), b())]);
}

#[test]
fn a_shard_that_did_not_go_stays_where_it_is_and_counts_there() {
    let mut rig = rig([3, 3, 3]);
    rig.moves(HOT);
    let (shard, _) = rig.under_way()[0];
    let timeout = rig.coordinator.kind.config.handoff_timeout;
    rig.fixture.stand_still(timeout);
    rig.act(|coordinator, cx| coordinator.on_hand_off_timer(cx, shard));
    assert_eq!((rig.under_way(), rig.home(shard)), (Vec::new(), Some(b())));
    assert!(rig.coordinator.by_load.is_empty());
    assert!(!rig.coordinator.is_away(shard));
}

#[test]
fn a_shard_whose_new_home_is_gone_goes_elsewhere_and_not_back() {
    let mut rig = rig([3, 3, 3]);
    rig.moves(HOT);
    rig.act(|coordinator, cx| coordinator.on_region_stopped(cx, &c()));
    // What c had goes to who has fewest: b, when this one counts there no more.
    assert_eq!(rig.hands_over(), (ShardId(3), a()));
    // Nowhere else: back.
    let mut rig = super::load::rig([3, 3, 3]);
    rig.moves(HOT);
    for gone in [a(), c()] {
        rig.coordinator.regions.get_mut(&gone).unwrap().draining = true;
    }
    assert_eq!(rig.hands_over(), (ShardId(3), b()));
}
