//! The cases of the specification, type by type. Spec: sharding 1.13, 10.6, 10.21.

use super::*;
use crate::ordered::OrderedMap;

const ORSET: DataType = DataType::OrSet;
const SETS: DataType = DataType::OrMap(ValueType::GSet);

fn count(by: u64) -> DataOp {
    DataOp::GCounter(GCounterOp::Increment(by))
}

fn gcounter(data: &DataValue) -> u128 {
    let DataValue::GCounter(counter) = data else {
        panic!("a counter");
    };
    counter.value()
}

/// A set of these dots, by the nodes' names, that has seen these versions.
fn dots(elements: &[(&str, &[(&str, u64)])], seen: &[(&str, u64)]) -> OrSet {
    let mut set = OrSet::new();
    for (name, version) in seen {
        let range = VersionRange {
            from: 1,
            to: *version,
        };
        set.0.context.add(&node(name), range);
    }
    for (key, of) in elements {
        let mut dots = Few::none();
        for (name, version) in *of {
            let node = set.0.context.index(&node(name)).expect("a node that was seen");
            dots.push(Dot {
                node,
                version: *version,
            });
        }
        set.0
            .entries
            .insert(element(key), DottedEntry { dots, value: () });
    }
    set
}

fn shown(set: &OrSet) -> OrderedMap<&str, Vec<(&str, u64)>> {
    let dots = |dots: &Few<Dot>| -> Vec<(&str, u64)> {
        let mut shown: Vec<(&str, u64)> = dots
            .iter()
            .map(|dot| (set.0.context.node(dot.node).address().host(), dot.version))
            .collect();
        shown.sort_unstable();
        shown
    };
    let entries = set.0.entries.iter();
    entries
        .map(|(key, entry)| (core::str::from_utf8(key).expect("text"), dots(&entry.dots)))
        .collect()
}

fn values<'a>(replica: &'a Replica, key: &str) -> Vec<&'a str> {
    let text = |bytes: &'a Element| core::str::from_utf8(bytes).expect("text");
    match &replica.data {
        DataValue::OrMap(map) => match map.get(key.as_bytes()) {
            Some(DataValue::GSet(set)) => set.iter().map(text).collect(),
            _ => Vec::new(),
        },
        DataValue::OrMultiMap(map) => map.get(key.as_bytes()).map(text).collect(),
        other => panic!("a map of sets, not {other:?}"),
    }
}

fn bind(key: &str, value: &str) -> DataOp {
    DataOp::OrMultiMap(OrMultiMapOp::AddBinding {
        key: element(key),
        value: element(value),
    })
}

fn put(key: &str, value: &str) -> DataOp {
    DataOp::LwwMap(LwwMapOp::Put {
        key: element(key),
        value: element(value),
        clock: LwwClock::Forward,
    })
}

fn write(value: &str) -> DataOp {
    DataOp::LwwRegister(LwwRegisterOp::Set {
        value: element(value),
        clock: LwwClock::Forward,
    })
}

#[test]
fn s_174_a_counter_that_grows_has_no_decrement_and_passes_64_bits() {
    let mut a = Replica::new("a", DataType::GCounter);
    let down = DataOp::PnCounter(PnCounterOp::Decrement(1));
    let (found, operation) = (DataType::GCounter, "PnCounter");
    assert_eq!(
        a.data.apply(&down, &mut a.minting),
        Err(OpError::WrongType { found, operation })
    );
    a.op(count(u64::MAX));
    a.op(count(u64::MAX));
    assert_eq!(gcounter(&a.data), 2 * u128::from(u64::MAX));
    assert_eq!(a.op(count(0)), Applied::Unchanged);
}

#[test]
fn s_175_up_on_one_node_and_down_on_another_is_zero_by_state_and_by_delta() {
    let (mut a, mut b) = (
        Replica::new("a", DataType::PnCounter),
        Replica::new("b", DataType::PnCounter),
    );
    a.op(DataOp::PnCounter(PnCounterOp::Increment(10)));
    b.op(DataOp::PnCounter(PnCounterOp::Decrement(10)));
    let mut fresh = Replica::new("c", DataType::PnCounter);
    fresh.delta(&b, 1);
    assert!(matches!(&fresh.data, DataValue::PnCounter(counter) if counter.value() == -10));
    fresh.delta(&a, 1);
    a.full(&b);
    assert!(matches!(&a.data, DataValue::PnCounter(counter) if counter.value() == 0));
    assert_eq!(fresh.data, a.data);
}

#[test]
fn s_177_merging_elements_that_both_have_keeps_the_dots_that_count() {
    let mut this = dots(
        &[("1", &[("a", 3), ("d", 7)]), ("2", &[("b", 5), ("c", 2)])],
        &[("a", 3), ("b", 5), ("c", 2), ("d", 7)],
    );
    // The case has c:2 beyond the second vector's c:1; here every dot lies within its context.
    let that = dots(
        &[("1", &[("a", 3)]), ("2", &[("b", 6), ("c", 2)])],
        &[("a", 3), ("b", 6), ("c", 2), ("d", 8)],
    );
    this.0.merge(&that.0).expect("few nodes");
    let expected = OrderedMap::from([
        ("1", Vec::from([("a", 3)])),
        ("2", Vec::from([("b", 6), ("c", 2)])),
    ]);
    assert_eq!(shown(&this), expected);
}

#[test]
fn s_178_elements_that_one_side_has_keep_what_the_other_has_not_seen() {
    let mut this = dots(&[("1", &[("a", 3)])], &[("a", 3), ("d", 7)]);
    let that = dots(
        &[
            ("3", &[("a", 4)]),
            ("4", &[("a", 3), ("d", 8)]),
            ("5", &[("a", 2)]),
        ],
        &[("a", 4), ("d", 8)],
    );
    let delta = DottedDelta {
        part: that.0,
        removed: crate::ordered::OrderedSet::new(),
        whole: false,
    };
    this.0.merge_delta(&delta).expect("few nodes");
    let one = |name, version| Vec::from([(name, version)]);
    assert_eq!(
        shown(&this),
        OrderedMap::from([("1", one("a", 3)), ("3", one("a", 4)), ("4", one("d", 8))])
    );
}

#[test]
fn s_180_deltas_across_a_gap_lose_nothing_once_the_whole_value_comes() {
    let (mut a, mut b) = (Replica::new("a", ORSET), Replica::new("b", ORSET));
    for text in ["a", "b", "c", "d"] {
        a.op(add(text));
    }
    for number in [1, 3, 4] {
        b.delta(&a, number);
    }
    assert_eq!((b.set(), b.data.cloud()), (Vec::from(["a", "c", "d"]), 1));
    b.full(&a);
    assert_eq!((b.set(), b.data.cloud()), (Vec::from(["a", "b", "c", "d"]), 0));
    assert_eq!(bytes(&b.data), bytes(&a.data));
}

fn merged_in_every_order(all: [&DataValue; 3]) -> Vec<DataValue> {
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let join = |[first, second, third]: [usize; 3]| merged(&merged(all[first], all[second]), all[third]);
    orders.map(join).into()
}

#[test]
fn s_181_s_182_what_was_removed_after_a_merge_stays_removed_in_every_order() {
    let (mut a, mut b) = (Replica::new("a", ORSET), Replica::new("b", ORSET));
    a.op(add("z"));
    let c = a.clone();
    a.op(remove("z"));
    b.op(add("z"));
    a.full(&b);
    b.op(remove("z"));
    for end in merged_in_every_order([&a.data, &c.data, &b.data]) {
        assert!(matches!(&end, DataValue::OrSet(set) if set.is_empty()));
    }
    b.full(&c);
    let b3 = merged(&b.data, &c.data);
    for end in merged_in_every_order([&a.data, &c.data, &b3]) {
        assert!(matches!(&end, DataValue::OrSet(set) if set.is_empty()));
    }
}

#[test]
fn s_184_a_remove_does_not_take_an_add_that_it_has_not_seen() {
    let [mut a, mut b, mut c] = ["a", "b", "c"].map(|name| Replica::new(name, ORSET));
    a.op(add("x"));
    b.delta(&a, 1);
    b.op(add("x"));
    c.op(add("x"));
    b.op(remove("x"));
    c.delta(&b, 2);
    assert_eq!(c.set(), ["x"]);
    c.delta(&a, 1);
    c.delta(&b, 1);
    assert_eq!(
        c.set(),
        ["x"],
        "its own add only: those of the others were removed"
    );
    c.op(remove("x"));
    assert!(c.set().is_empty());
}

#[test]
fn two_removes_of_two_concurrent_adds_leave_no_ghost() {
    let [mut a, mut b, mut c, mut d, mut e] = ["a", "b", "c", "d", "e"].map(|name| Replica::new(name, ORSET));
    a.op(add("x"));
    b.op(add("x"));
    c.delta(&a, 1);
    d.delta(&b, 1);
    c.op(remove("x"));
    d.op(remove("x"));
    e.delta(&a, 1);
    e.delta(&b, 1);
    e.delta(&c, 1);
    assert_eq!(e.set(), ["x"]);
    e.delta(&d, 1);
    assert!(e.set().is_empty());
}

#[test]
fn s_185_clear_spares_a_concurrent_add_and_a_later_one() {
    let [mut a, mut b] = ["a", "b"].map(|name| Replica::new(name, ORSET));
    a.op(add("b"));
    a.op(add("c"));
    b.full(&a);
    b.op(add("d"));
    a.op(DataOp::OrSet(OrSetOp::Clear));
    a.op(add("b"));
    b.delta(&a, 3);
    assert_eq!(b.set(), ["d"]);
    b.delta(&a, 4);
    assert_eq!(b.set(), ["b", "d"]);
    a.delta(&b, 1);
    assert_eq!(bytes(&a.data), bytes(&b.data));
}

#[test]
fn s_187_a_remove_brings_no_more_context_than_it_needs() {
    let [mut a, mut b, mut c] = ["a", "b", "c"].map(|name| Replica::new(name, ORSET));
    a.op(add("x"));
    b.op(add("y"));
    a.full(&b);
    a.op(remove("x"));
    c.delta(&a, 1);
    c.delta(&a, 2);
    assert!(c.set().is_empty() && !c.data.mentions(&node("b")));
    c.delta(&b, 1);
    assert_eq!(c.set(), ["y"], "which the remover had seen, and left");
}

#[test]
fn s_188_deltas_coalesce() {
    let mut a = Replica::new("a", ORSET);
    a.op(add("x"));
    a.op(add("y"));
    a.op(remove("x"));
    let mut joined = a.deltas[0].clone();
    joined.join(&a.deltas[1]).expect("one type");
    assert_eq!(joined.size(), 2);
    joined.join(&a.deltas[2]).expect("one type");
    assert_eq!(joined.size(), 2, "one added, one removed");
    let mut b = Replica::new("b", ORSET);
    b.data.merge_delta(&joined).expect("one type");
    assert_eq!(bytes(&b.data), bytes(&a.data));
    let other = DataDelta::Flag(Flag::from_bool(true));
    assert!(matches!(
        joined.join(&other),
        Err(MergeError::TypeMismatch { .. })
    ));
}

#[test]
fn a_removal_that_comes_as_a_change_is_news_once() {
    let mut a = Replica::new("a", ORSET);
    a.op(add("x"));
    a.op(add("y"));
    let mut b = Replica::new("b", ORSET);
    b.full(&a);
    b.op(remove("x"));
    for changed in [true, false] {
        assert_eq!(a.data.merge_delta(&b.deltas[0]), Ok(MergeOutcome { changed }));
        assert_eq!(a.set(), ["y"]);
    }
}

#[test]
fn s_190_a_set_in_a_map_is_not_replaced_by_put() {
    let mut a = Replica::new("a", DataType::OrMap(ValueType::OrSet));
    let put = |value: DataValue| {
        DataOp::OrMap(OrMapOp::Put {
            key: element("k"),
            value: alloc::boxed::Box::new(value),
        })
    };
    a.op(put(DataValue::OrSet(OrSet::new())));
    let before = a.data.clone();
    assert_eq!(
        a.data.apply(&put(DataValue::OrSet(OrSet::new())), &mut a.minting),
        Err(OpError::PutOverSet)
    );
    let refused = a.data.apply(&put(DataValue::Flag(Flag::new())), &mut a.minting);
    assert!(matches!(refused, Err(OpError::WrongValueType { .. })));
    assert_eq!(a.data, before);
}

/// a knows a, b and c; then `change` at b and a removal of b at a.
fn removed_beside(change: DataOp) -> (Replica, Replica) {
    let mut a = Replica::new("a", SETS);
    a.op(update("a", "A"));
    a.op(update("b", "B"));
    let mut b = Replica::new("b", SETS);
    b.op(update("c", "C"));
    b.full(&a);
    a.full(&b);
    a.op(DataOp::OrMap(OrMapOp::Remove(element("b"))));
    b.op(change);
    (a, b)
}

#[test]
fn s_191_an_update_survives_a_removal_with_its_value_and_a_put_with_the_new_one() {
    let (mut a, b) = removed_beside(update("b", "B2"));
    a.full(&b);
    assert_eq!(values(&a, "b"), ["B", "B2"]);
    assert_eq!(
        (values(&a, "a"), values(&a, "c")),
        (Vec::from(["A"]), Vec::from(["C"]))
    );
    let set = GSet::from_elements(alloc::collections::BTreeSet::from([element("B2")]));
    let (mut a, b) = removed_beside(DataOp::OrMap(OrMapOp::Put {
        key: element("b"),
        value: alloc::boxed::Box::new(DataValue::GSet(set)),
    }));
    a.full(&b);
    assert_eq!(values(&a, "b"), ["B2"]);
}

/// Akka's update carries only what it added, so that a removal that comes first leaves {B2}; here it carries
/// the value (10.21: deltas lead to what whole values lead to).
#[test]
fn s_192_an_update_beside_a_removal_keeps_its_value_in_whatever_order_both_come() {
    let (a, b) = removed_beside(update("b", "B2"));
    for removal_first in [true, false] {
        let mut c = Replica::new("c", SETS);
        c.full(&b);
        c = Replica {
            deltas: Vec::new(),
            ..c
        };
        let mut d = Replica::new("d", SETS);
        d.delta(&a, 1);
        d.delta(&a, 2);
        let (first, second) = if removal_first { (&a, &b) } else { (&b, &a) };
        for from in [first, second] {
            let last = from.deltas.len();
            d.delta(from, last);
        }
        assert_eq!(values(&d, "b"), ["B", "B2"], "removal first: {removal_first}");
        assert_eq!(values(&c, "b"), ["B", "B2"]);
    }
}

#[test]
fn s_194_a_key_that_comes_back_has_its_new_values_only() {
    let [mut a, mut by_state, mut by_delta, mut by_joined] =
        ["a", "b", "c", "d"].map(|name| Replica::new(name, DataType::OrMultiMap));
    a.op(bind("b", "B"));
    for other in [&mut by_state, &mut by_delta, &mut by_joined] {
        other.full(&a);
    }
    a.op(DataOp::OrMultiMap(OrMultiMapOp::Remove(element("b"))));
    a.op(bind("b", "B2"));
    by_state.full(&a);
    by_delta.delta(&a, 2);
    by_delta.delta(&a, 3);
    let mut joined = a.deltas[1].clone();
    joined.join(&a.deltas[2]).expect("one type");
    by_joined.data.merge_delta(&joined).expect("one type");
    for other in [&by_state, &by_delta, &by_joined] {
        assert_eq!(values(other, "b"), ["B2"]);
        assert_eq!(bytes(&other.data), bytes(&a.data));
    }
}

#[test]
fn s_195_put_replaces_the_values_and_a_binding_adds_to_them() {
    let [mut a, mut b] = ["a", "b"].map(|name| Replica::new(name, DataType::OrMultiMap));
    a.op(bind("b", "B"));
    b.delta(&a, 1);
    a.op(DataOp::OrMultiMap(OrMultiMapOp::Put {
        key: element("b"),
        values: Vec::from([element("B2"), element("B3")]),
    }));
    b.delta(&a, 2);
    assert_eq!(values(&b, "b"), ["B2", "B3"]);
    let [mut a, mut b] = ["a", "b"].map(|name| Replica::new(name, DataType::OrMultiMap));
    for value in ["B", "B3", "B4"] {
        a.op(bind("b", value));
    }
    (1..=3).for_each(|number| b.delta(&a, number));
    assert_eq!(values(&b, "b"), ["B", "B3", "B4"]);
}

fn register(replica: &Replica) -> (&str, i64) {
    let DataValue::LwwRegister(register) = &replica.data else {
        panic!("a register");
    };
    let held = register.get().expect("a write");
    (core::str::from_utf8(&held.value).expect("text"), held.stamp)
}

#[test]
fn s_197_i_67_the_greater_stamp_wins_and_of_equal_ones_the_lower_node() {
    let [mut a, mut b] = ["a", "b"].map(|name| Replica::new(name, DataType::LwwRegister));
    a.minting.set_now(99);
    b.minting.set_now(100);
    a.op(write("of a"));
    b.op(write("of b"));
    let (mut left, mut right) = (a.clone(), b.clone());
    left.full(&b);
    right.full(&a);
    assert_eq!(
        (register(&left), register(&right)),
        (("of b", 100), ("of b", 100))
    );
    let mut a = Replica::new("a", DataType::LwwRegister);
    a.minting.set_now(100);
    a.op(write("of a"));
    let (mut left, mut right) = (a.clone(), b.clone());
    left.full(&b);
    right.full(&a);
    assert_eq!(
        (register(&left), register(&right)),
        (("of a", 100), ("of a", 100))
    );
}

#[test]
fn s_198_a_concurrent_put_survives_a_removal() {
    let [mut a, mut b, mut c] = ["a", "b", "c"].map(|name| Replica::new(name, DataType::LwwMap));
    a.op(put("a", "1"));
    a.op(put("b", "2"));
    b.op(put("c", "3"));
    a.full(&b);
    b.full(&a);
    c.full(&a);
    a.op(DataOp::LwwMap(LwwMapOp::Remove(element("b"))));
    let get = |replica: &Replica, key: &str| -> Option<Element> {
        let DataValue::LwwMap(map) = &replica.data else {
            panic!("a map");
        };
        map.get(key.as_bytes()).cloned()
    };
    assert_eq!(
        [get(&a, "a"), get(&a, "b"), get(&a, "c")],
        [Some(element("1")), None, Some(element("3"))]
    );
    b.op(put("b", "22"));
    let mut by_state = a.clone();
    by_state.full(&b);
    for numbers in [[&a, &b], [&b, &a]] {
        let mut by_delta = c.clone();
        for from in numbers {
            by_delta.delta(from, from.deltas.len());
        }
        assert_eq!(get(&by_delta, "b"), Some(element("22")));
        assert_eq!(bytes(&by_delta.data), bytes(&by_state.data));
    }
}

#[test]
fn s_200_a_flag_stays_on() {
    let [mut a, b] = ["a", "b"].map(|name| Replica::new(name, DataType::Flag));
    a.op(DataOp::Flag(FlagOp::SwitchOn));
    a.full(&b);
    assert!(matches!(a.data, DataValue::Flag(flag) if flag.is_on()));
    assert_eq!(a.op(DataOp::Flag(FlagOp::SwitchOn)), Applied::Unchanged);
}

#[test]
fn s_201_i_64_i_66_pruning_keeps_elements_and_sums_and_forgets_the_node() {
    let [mut a, mut b, mut c] = ["a", "b", "c"].map(|name| Replica::new(name, DataType::GCounter));
    a.op(count(3));
    b.op(count(4));
    c.op(count(5));
    a.full(&b);
    a.full(&c);
    a.data.settle(&node("b")).expect("it can be settled");
    assert_eq!(
        (gcounter(&a.data), a.data.nodes()),
        (12, Vec::from([node("a"), node("c")]))
    );

    let [mut a, mut b] = ["a", "b"].map(|name| Replica::new(name, ORSET));
    b.op(add("x"));
    a.op(add("y"));
    a.full(&b);
    assert_eq!(a.data.settle(&node("b")), Ok(()));
    assert_eq!(
        (a.set(), a.data.nodes()),
        (Vec::from(["x", "y"]), Vec::from([node("a")]))
    );
    b.data.settle(&node("b")).expect("it can be settled");
    b.full(&a);
    assert_eq!(bytes(&b.data), bytes(&a.data));
}

#[test]
fn s_204_removed_and_put_again_is_new() {
    let sets = DataType::OrMap(ValueType::OrSet);
    let [mut a, mut b] = ["a", "b"].map(|name| Replica::new(name, sets));
    let inner = |text: &str| {
        DataOp::OrMap(OrMapOp::Update {
            key: element("k"),
            op: alloc::boxed::Box::new(add(text)),
        })
    };
    a.op(inner("old"));
    b.delta(&a, 1);
    a.op(DataOp::OrMap(OrMapOp::Remove(element("k"))));
    a.op(inner("new"));
    assert_eq!(
        a.minting.minted(),
        4,
        "one counter for the map and the sets in it: no version is used twice"
    );
    b.delta(&a, 2);
    b.delta(&a, 3);
    assert_eq!(bytes(&b.data), bytes(&a.data));
    let DataValue::OrMap(map) = &b.data else {
        panic!("a map");
    };
    assert!(matches!(map.get(b"k"), Some(DataValue::OrSet(set)) if set.contains(b"new") && set.len() == 1));
}

#[test]
fn s_205_equal_values_are_equal_bytes_in_whatever_order_they_came_about() {
    let [mut a, mut b, mut c] = ["a", "b", "c"].map(|name| Replica::new(name, ORSET));
    for text in ["z", "x", "y"] {
        a.op(add(text));
    }
    b.op(add("y"));
    c.op(add("w"));
    let orders = merged_in_every_order([&a.data, &b.data, &c.data]);
    for other in &orders {
        assert_eq!(bytes(other), bytes(&orders[0]));
    }
}
