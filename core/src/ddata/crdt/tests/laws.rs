//! The laws on histories of four replicas that change, remove and add again, send whole values, and send
//! deltas in the order of each sender but in any order between senders. Every value and delta passes through
//! its bytes. Spec: reliability I-60, I-61, I-65; for maps of joined values `docs/adr/0010`.

use alloc::boxed::Box;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Types whose joins are lawful without exception.
const LAWFUL: [DataType; 7] = [
    DataType::GCounter,
    DataType::PnCounter,
    DataType::GSet,
    DataType::OrSet,
    DataType::OrMultiMap,
    DataType::LwwRegister,
    DataType::Flag,
];

/// Maps whose values are joined.
const MAPS: [DataType; 5] = [
    DataType::OrMap(ValueType::GSet),
    DataType::OrMap(ValueType::OrSet),
    DataType::OrMap(ValueType::PnCounter),
    DataType::PnCounterMap,
    DataType::LwwMap,
];

/// A step: who, what kind, two small numbers that pick key, value or peer.
type Step = (usize, u8, u8, u8);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec((0..NAMES.len(), 0..10_u8, 0..3_u8, 0..4_u8), 0..40)
}

fn key(pick: u8) -> Element {
    element(["x", "y", "z"][usize::from(pick)])
}

fn value(pick: u8) -> Element {
    element(["u", "v", "w", "long enough to matter"][usize::from(pick)])
}

/// The operation of a step; `kind` below 3 adds, 3 removes, 4 does what is left of the type.
fn operation(data_type: DataType, kind: u8, first: u8, second: u8) -> DataOp {
    let (key, value, by) = (
        key(first),
        value(second),
        u64::from(first) * 7 + u64::from(second),
    );
    let inner = |values: ValueType| match values {
        ValueType::PnCounter => operation(DataType::PnCounter, kind, first, second),
        ValueType::OrSet => operation(DataType::OrSet, (kind + second) % 5, second % 3, 0),
        ValueType::GCounter | ValueType::GSet | ValueType::LwwRegister | ValueType::Flag => {
            DataOp::GSet(GSetOp::Add(value.clone()))
        }
    };
    let clock = LwwClock::Forward;
    match (data_type, kind) {
        (DataType::GCounter, _) => DataOp::GCounter(GCounterOp::Increment(by)),
        (DataType::PnCounter, 0..3) => DataOp::PnCounter(PnCounterOp::Increment(by)),
        (DataType::PnCounter, _) => DataOp::PnCounter(PnCounterOp::Decrement(by)),
        (DataType::GSet, _) => DataOp::GSet(GSetOp::Add(value)),
        (DataType::OrSet, 0..3) => DataOp::OrSet(OrSetOp::Add(key)),
        (DataType::OrSet, 3) => DataOp::OrSet(OrSetOp::Remove(key)),
        (DataType::OrSet, _) => DataOp::OrSet(OrSetOp::Clear),
        (DataType::OrMap(values), 0..3) => DataOp::OrMap(OrMapOp::Update {
            key,
            op: Box::new(inner(values)),
        }),
        (DataType::OrMap(_), 3) => DataOp::OrMap(OrMapOp::Remove(key)),
        (DataType::OrMap(_), _) => DataOp::OrMap(OrMapOp::Clear),
        (DataType::OrMultiMap, 0) => DataOp::OrMultiMap(OrMultiMapOp::AddBinding { key, value }),
        (DataType::OrMultiMap, 1) => DataOp::OrMultiMap(OrMultiMapOp::RemoveBinding { key, value }),
        (DataType::OrMultiMap, 2) => DataOp::OrMultiMap(OrMultiMapOp::Put {
            key,
            values: Vec::from([value, element("u")]),
        }),
        (DataType::OrMultiMap, 3) => DataOp::OrMultiMap(OrMultiMapOp::Remove(key)),
        (DataType::OrMultiMap, _) => DataOp::OrMultiMap(OrMultiMapOp::ReplaceBinding {
            key,
            old: element("u"),
            new: value,
        }),
        (DataType::PnCounterMap, 0..3) => DataOp::PnCounterMap(PnCounterMapOp::Increment { key, by }),
        (DataType::PnCounterMap, 3) => DataOp::PnCounterMap(PnCounterMapOp::Remove(key)),
        (DataType::PnCounterMap, _) => DataOp::PnCounterMap(PnCounterMapOp::Decrement { key, by }),
        (DataType::LwwRegister, _) => DataOp::LwwRegister(LwwRegisterOp::Set { value, clock }),
        (DataType::LwwMap, 0..3) => DataOp::LwwMap(LwwMapOp::Put { key, value, clock }),
        (DataType::LwwMap, 3) => DataOp::LwwMap(LwwMapOp::Remove(key)),
        (DataType::LwwMap, _) => DataOp::LwwMap(LwwMapOp::Clear),
        (DataType::Flag, _) => DataOp::Flag(FlagOp::SwitchOn),
        (DataType::Custom, _) => unreachable!("not among the types under test"),
    }
}

struct World {
    data_type: DataType,
    replicas: Vec<Replica>,
    /// `heard[r][s]`: how many deltas of `s` have reached `r`.
    heard: Vec<Vec<usize>>,
    with_fulls: bool,
    with_removals: bool,
}

impl World {
    fn new(data_type: DataType, with_fulls: bool, with_removals: bool) -> Self {
        Self {
            data_type,
            replicas: NAMES.iter().map(|name| Replica::new(name, data_type)).collect(),
            heard: Vec::from([const { [0; NAMES.len()] }; NAMES.len()].map(Vec::from)),
            with_fulls,
            with_removals,
        }
    }

    fn step(&mut self, (who, kind, first, second): Step) {
        let peer = usize::from(second);
        match kind {
            0..5 => {
                let kind = if self.with_removals { kind } else { kind % 3 };
                let now = i64::from(first) * 10 - i64::from(second);
                let replica = &mut self.replicas[who];
                replica.minting.set_now(now);
                let before = replica.data.clone();
                replica.op(operation(self.data_type, kind, first, second));
                assert_eq!(
                    merged(&replica.data, &before),
                    replica.data,
                    "an operation only goes up"
                );
            }
            5..8 => {
                self.deliver(peer, who);
            }
            _ if self.with_fulls => {
                let from = self.replicas[peer].clone();
                self.replicas[who].full(&from);
            }
            _ => {
                self.deliver(peer, who);
            }
        }
    }

    /// The next delta of `from` reaches `to`, if there is one.
    fn deliver(&mut self, from: usize, to: usize) -> bool {
        let next = self.heard[to][from] + 1;
        if from == to || next > self.replicas[from].deltas.len() {
            return false;
        }
        let sender = self.replicas[from].clone();
        self.replicas[to].delta(&sender, next);
        self.heard[to][from] = next;
        true
    }

    fn run(mut self, steps: &[Step]) -> Self {
        for step in steps {
            self.step(*step);
        }
        self
    }

    /// What merging all whole values gives.
    fn whole(&self) -> DataValue {
        let first = self.replicas[0].data.clone();
        self.replicas
            .iter()
            .fold(first, |all, replica| merged(&all, &replica.data))
    }
}

fn check_join(world: &World) {
    let [a, b, c, d] = [0, 1, 2, 3].map(|at| &world.replicas[at].data);
    for (a, b) in [(a, b), (b, c), (c, d), (d, a)] {
        let joined = merged(a, b);
        assert_eq!(bytes(&joined), bytes(&merged(b, a)), "commutative");
        assert_eq!(bytes(&merged(a, a)), bytes(a), "idempotent");
    }
}

fn check_lawful(world: &World) {
    let [a, b, c, d] = [0, 1, 2, 3].map(|at| &world.replicas[at].data);
    for (a, b, c) in [(a, b, c), (b, c, d), (c, d, a)] {
        let joined = merged(a, b);
        assert_eq!(bytes(&merged(&joined, b)), bytes(&joined), "contains both");
        assert_eq!(bytes(&merged(&joined, a)), bytes(&joined), "contains both");
        assert_eq!(
            bytes(&merged(&joined, c)),
            bytes(&merged(a, &merged(b, c))),
            "associative"
        );
    }
}

/// Delivers what is left of all deltas, the senders in a changing order.
fn deliver_the_rest(world: &mut World) {
    for round in 0.. {
        let mut progress = false;
        for to in 0..NAMES.len() {
            for from in 0..NAMES.len() {
                progress |= world.deliver((from + round + to) % NAMES.len(), to);
            }
        }
        if !progress {
            break;
        }
    }
}

fn check_deltas_equal_wholes(mut world: World) {
    let whole = world.whole();
    deliver_the_rest(&mut world);
    for replica in &world.replicas {
        assert_eq!(replica.data, whole, "deltas give what whole values give");
        assert_eq!(bytes(&replica.data), bytes(&whole), "equal values, equal bytes");
        assert_eq!(
            replica.data.cloud(),
            0,
            "nothing waits once everything has been seen"
        );
    }
}

/// All deltas of each sender, joined into one in any grouping, do what they do one by one.
fn check_coalescing(world: &World, groups: usize) {
    let mut apart = DataValue::empty(world.data_type).expect("a built-in type");
    let mut together = apart.clone();
    for replica in &world.replicas {
        for delta in &replica.deltas {
            apart.merge_delta(delta).expect("the same type");
        }
        for group in replica.deltas.chunks(groups) {
            let mut joined = group[0].clone();
            for later in &group[1..] {
                joined.join(later).expect("the same type");
            }
            together.merge_delta(&sent(&joined)).expect("the same type");
        }
    }
    assert_eq!(
        bytes(&apart),
        bytes(&together),
        "joined deltas do what they do one by one"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn i_60_s_202_joins_are_commutative_associative_idempotent_and_contain_both(steps in steps()) {
        for data_type in LAWFUL {
            let world = World::new(data_type, true, true).run(&steps);
            check_join(&world);
            check_lawful(&world);
        }
    }

    #[test]
    fn i_60_i_61_deltas_in_the_order_of_each_sender_give_what_whole_values_give(steps in steps(), fulls: bool) {
        for data_type in LAWFUL {
            check_deltas_equal_wholes(World::new(data_type, fulls, true).run(&steps));
        }
    }

    #[test]
    fn i_60_s_188_joined_deltas_do_what_they_do_one_by_one(steps in steps(), groups in 1..5_usize) {
        for data_type in LAWFUL {
            check_coalescing(&World::new(data_type, true, true).run(&steps), groups);
        }
    }

    #[test]
    fn i_60_maps_of_joined_values_are_lawful_while_nothing_is_removed(steps in steps(), groups in 1..5_usize) {
        for data_type in MAPS {
            let world = World::new(data_type, true, false).run(&steps);
            check_join(&world);
            check_lawful(&world);
            check_coalescing(&world, groups);
            check_deltas_equal_wholes(world);
        }
    }

    #[test]
    fn i_61_maps_of_joined_values_converge_with_removals_once_whole_values_went_round(steps in steps()) {
        for data_type in MAPS {
            let mut world = World::new(data_type, true, true).run(&steps);
            check_join(&world);
            deliver_the_rest(&mut world);
            // Twice around the ring: everybody has heard everybody.
            for at in 0..2 * NAMES.len() {
                let from = world.replicas[at % NAMES.len()].clone();
                world.replicas[(at + 1) % NAMES.len()].full(&from);
            }
            for replica in &world.replicas {
                assert_eq!(bytes(&replica.data), bytes(&world.replicas[0].data));
                assert_eq!(replica.data.cloud(), 0);
            }
        }
    }

    #[test]
    fn i_65_what_was_removed_leaves_nothing_behind(steps in steps()) {
        for data_type in [DataType::OrSet, DataType::OrMultiMap, DataType::PnCounterMap, DataType::LwwMap] {
            let mut world = World::new(data_type, true, true).run(&steps);
            deliver_the_rest(&mut world);
            let mut data = world.whole();
            let minting = &mut Minting::resume(node("e"), 0);
            for pick in 0..3 {
                let op = match data_type {
                    DataType::OrSet => DataOp::OrSet(OrSetOp::Remove(key(pick))),
                    DataType::OrMultiMap => DataOp::OrMultiMap(OrMultiMapOp::Remove(key(pick))),
                    DataType::PnCounterMap => DataOp::PnCounterMap(PnCounterMapOp::Remove(key(pick))),
                    _ => DataOp::LwwMap(LwwMapOp::Remove(key(pick))),
                };
                data.apply(&op, minting).expect("a legal operation");
            }
            // A table of at most four nodes of 12 bytes each with a version, the counts and the type.
            assert!(bytes(&data).len() <= 1 + 2 + 4 * (12 + 8) + 4 + 4, "{data:?}");
        }
    }
}
