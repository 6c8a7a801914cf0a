//! Limits, and what a forged value or a clock that lies may not do. Spec: sharding 10.8, reliability I-66,
//! I-68.

use super::*;

#[test]
fn i_68_stamps_of_a_node_grow_although_its_clock_jumps_back() {
    let mut a = Replica::new("a", DataType::LwwMap);
    let mut last = i64::MIN;
    for (now, key) in [(1_000, "x"), (400, "x"), (400, "y"), (1_000, "x")] {
        a.minting.set_now(now);
        a.op(DataOp::LwwMap(LwwMapOp::Remove(element(key))));
        a.op(DataOp::LwwMap(LwwMapOp::Put {
            key: element(key),
            value: element("v"),
            clock: LwwClock::Forward,
        }));
        assert!(a.data.newest_stamp().expect("a write") >= last.max(1_000));
        last = a.data.newest_stamp().expect("a write");
    }
}

#[test]
fn i_68_a_stamp_too_far_in_the_future_is_refused_with_its_distance() {
    for data_type in [
        DataType::LwwRegister,
        DataType::LwwMap,
        DataType::OrMap(ValueType::LwwRegister),
    ] {
        let mut a = Replica::new("a", data_type);
        a.minting.set_now(70_000);
        let (value, clock) = (element("v"), LwwClock::Forward);
        let set = DataOp::LwwRegister(LwwRegisterOp::Set { value, clock });
        a.op(match data_type {
            DataType::LwwRegister => set,
            DataType::LwwMap => DataOp::LwwMap(LwwMapOp::Put {
                key: element("k"),
                value: element("v"),
                clock,
            }),
            _ => DataOp::OrMap(OrMapOp::Update {
                key: element("k"),
                op: Box::new(set),
            }),
        });
        let refused = Err(FutureStamp { ahead_ms: 60_001 });
        assert_eq!(a.data.check_stamps(9_999, 60_000), refused);
        assert_eq!(a.deltas[0].check_stamps(9_999, 60_000), refused);
        assert_eq!(a.data.check_stamps(10_000, 60_000), Ok(()));
        assert_eq!(a.deltas[0].check_stamps(10_000, 60_000), Ok(()));
    }
}

#[test]
fn s_232_a_value_of_another_type_is_refused_and_changes_nothing() {
    let mut a = Replica::new("a", DataType::OrSet);
    a.op(add("x"));
    let before = a.clone();
    let flag = DataValue::empty(DataType::Flag).expect("a built-in type");
    let (held, found) = (DataType::OrSet, DataType::Flag);
    assert_eq!(a.data.merge(&flag), Err(MergeError::TypeMismatch { held, found }));
    let delta = DataDelta::Flag(Flag::new());
    assert_eq!(
        a.data.merge_delta(&delta),
        Err(MergeError::TypeMismatch { held, found })
    );
    let mut sets = DataValue::empty(DataType::OrMap(ValueType::GSet)).expect("a built-in type");
    let flags = DataValue::empty(DataType::OrMap(ValueType::Flag)).expect("a built-in type");
    assert!(matches!(sets.merge(&flags), Err(MergeError::TypeMismatch { .. })));
    assert_eq!(a.data, before.data);
}

#[test]
fn deltas_that_overfill_the_cloud_are_refused_until_a_whole_value_comes() {
    let [mut a, mut b] = ["a", "b"].map(|name| Replica::new(name, DataType::OrSet));
    // Every second delta is lost, so that every other one leaves a gap.
    for number in 1..=2 * CLOUD_MAX + 2 {
        a.op(add(&alloc::format!("{number}")));
        if number % 2 == 0 {
            let result = b.data.merge_delta(&a.deltas[number - 1]);
            assert_eq!(result.is_err(), number > 2 * CLOUD_MAX, "{number}");
        }
    }
    let before = b.data.clone();
    assert_eq!(
        b.data.merge_delta(&a.deltas[2 * CLOUD_MAX + 1]),
        Err(MergeError::CloudFull)
    );
    assert_eq!((b.data == before, b.data.cloud()), (true, CLOUD_MAX));
    // What closes a gap is still taken.
    assert!(b.data.merge_delta(&a.deltas[0]).is_ok());
    b.full(&a);
    assert_eq!((b.data.cloud(), bytes(&b.data)), (0, bytes(&a.data)));
}

#[test]
fn dots_of_this_node_that_it_never_minted_refuse_its_operations_and_can_be_seen_before() {
    let mut liar = Replica::new("a", DataType::OrSet);
    (0..5).for_each(|_| {
        liar.op(add("x"));
    });
    let mut a = Replica::new("a", DataType::OrSet);
    a.op(add("y"));
    assert_eq!(
        liar.data.highest_version_of(&node("a")),
        5,
        "more than this node has minted"
    );
    a.full(&liar);
    let before = a.data.clone();
    assert_eq!(
        a.data.apply(&add("z"), &mut a.minting),
        Err(OpError::DotsExhausted)
    );
    assert_eq!((a.data, a.minting.minted()), (before, 1));
}

#[test]
fn i_100_a_removed_member_with_the_last_versions_is_forgotten_all_the_same() {
    let mut a = Replica::new("a", DataType::OrSet);
    for (gone, element) in [("b", "x"), ("c", "y"), ("d", "z")] {
        let mut liar = Replica::new(gone, DataType::OrSet);
        liar.minting = Minting::resume(node(gone), VERSION_MAX - (1 << 40));
        liar.op(add(element));
        a.full(&liar);
    }
    a.op(add("mine"));
    for gone in ["b", "c", "d"] {
        assert_eq!(a.data.settle(&node(gone)), Ok(()));
        assert!(!a.data.mentions(&node(gone)));
    }
    assert_eq!(a.set(), ["mine", "x", "y", "z"], "what they added stays");
    assert_eq!(a.data.nodes(), [node("a")]);
    a.op(remove("y"));
    assert_eq!(a.set(), ["mine", "x", "z"], "and can be removed");
}

#[test]
fn an_element_too_long_to_be_written_is_refused() {
    let long: Element = Arc::from(alloc::vec![7; ELEMENT_BYTES_MAX + 1]);
    let bytes = ELEMENT_BYTES_MAX + 1;
    let mut a = Replica::new("a", DataType::OrSet);
    let refused = Err(OpError::ElementTooLong { bytes });
    assert_eq!(
        a.data
            .apply(&DataOp::OrSet(OrSetOp::Add(long.clone())), &mut a.minting),
        refused
    );
    let mut b = Replica::new("b", DataType::GSet);
    assert_eq!(
        b.data.apply(&DataOp::GSet(GSetOp::Add(long)), &mut b.minting),
        refused
    );
    a.op(add(&"x".repeat(ELEMENT_BYTES_MAX)));
    super::bytes(&a.data);
}

#[test]
fn i_63_a_removal_that_meets_a_settling_stays_a_removal_in_either_order() {
    let gone_node = node("gone");
    let [mut a, mut b, mut gone] = ["a", "b", "gone"].map(|name| Replica::new(name, DataType::OrSet));
    for text in ["kept", "removed", "also removed"] {
        gone.op(add(text));
    }
    a.op(add("own"));
    a.full(&gone);
    b.full(&a);
    a.op(DataOp::OrSet(OrSetOp::Remove(element("also removed"))));
    a.data.settle(&gone_node).expect("it can be settled");
    assert_eq!(a.set(), ["kept", "own", "removed"]);
    b.op(DataOp::OrSet(OrSetOp::Remove(element("removed"))));
    b.data.settle(&gone_node).expect("it can be settled");
    let before = b.clone();
    b.full(&a);
    a.full(&before);
    assert_eq!(a.set(), ["kept", "own"]);
    assert_eq!(super::bytes(&b.data), super::bytes(&a.data));
    // A second node is settled behind the first.
    let [mut a, mut other] = [a, Replica::new("other", DataType::OrSet)];
    other.op(add("of another"));
    a.full(&other);
    let mut b = a.clone();
    a.data.settle(&node("other")).expect("it can be settled");
    b.op(DataOp::OrSet(OrSetOp::Remove(element("of another"))));
    b.data.settle(&node("other")).expect("it can be settled");
    a.full(&b);
    assert_eq!(
        (a.set(), a.data.nodes()),
        (Vec::from(["kept", "own"]), Vec::from([node("a")]))
    );
}

#[test]
fn i_66_every_type_forgets_a_pruned_node_and_keeps_its_value() {
    let ops = |data_type: DataType| match data_type {
        DataType::PnCounter => DataOp::PnCounter(PnCounterOp::Decrement(3)),
        DataType::PnCounterMap => DataOp::PnCounterMap(PnCounterMapOp::Increment {
            key: element("k"),
            by: 3,
        }),
        DataType::LwwRegister => DataOp::LwwRegister(LwwRegisterOp::Set {
            value: element("v"),
            clock: LwwClock::Forward,
        }),
        DataType::LwwMap => DataOp::LwwMap(LwwMapOp::Put {
            key: element("k"),
            value: element("v"),
            clock: LwwClock::Forward,
        }),
        DataType::OrMultiMap => DataOp::OrMultiMap(OrMultiMapOp::AddBinding {
            key: element("k"),
            value: element("v"),
        }),
        _ => DataOp::OrMap(OrMapOp::Update {
            key: element("k"),
            op: Box::new(DataOp::PnCounter(PnCounterOp::Increment(3))),
        }),
    };
    for data_type in [
        DataType::PnCounter,
        DataType::PnCounterMap,
        DataType::LwwRegister,
        DataType::LwwMap,
        DataType::OrMultiMap,
        DataType::OrMap(ValueType::PnCounter),
    ] {
        let [mut a, mut b, mut gone] = ["a", "b", "gone"].map(|name| Replica::new(name, data_type));
        gone.op(ops(data_type));
        a.full(&gone);
        b.full(&gone);
        let before = shown(&a.data);
        a.data.settle(&node("gone")).expect("it can be settled");
        assert_eq!(shown(&a.data), before, "{data_type:?}");
        assert!(!a.data.mentions(&node("gone")) && !a.data.nodes().contains(&node("gone")));
        b.data.settle(&node("gone")).expect("it can be settled");
        assert!(!b.data.mentions(&node("gone")));
        b.full(&a);
        assert_eq!(super::bytes(&b.data), super::bytes(&a.data), "{data_type:?}");
    }
}

/// What a reader of the value sees.
fn shown(data: &DataValue) -> alloc::string::String {
    match data {
        DataValue::PnCounter(held) => alloc::format!("{}", held.value()),
        DataValue::PnCounterMap(held) => alloc::format!("{:?}", held.iter().collect::<Vec<_>>()),
        DataValue::LwwRegister(held) => alloc::format!("{:?}", held.get().map(|held| &held.value)),
        DataValue::LwwMap(held) => alloc::format!("{:?}", held.iter().collect::<Vec<_>>()),
        DataValue::OrMultiMap(held) => alloc::format!("{:?}", held.iter().collect::<Vec<_>>()),
        DataValue::OrMap(held) => held
            .iter()
            .map(|(key, value)| alloc::format!("{key:?} {}", shown(value)))
            .collect(),
        DataValue::GCounter(_)
        | DataValue::GSet(_)
        | DataValue::OrSet(_)
        | DataValue::Flag(_)
        | DataValue::Custom(_) => {
            unreachable!()
        }
    }
}
