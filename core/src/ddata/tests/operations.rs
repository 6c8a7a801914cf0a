//! Operations: what becomes of reads and writes. Spec: sharding 1.12, 6.9.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::super::crdt::{DataOp, DataType, DataValue, OrMultiMapOp};
use super::super::protocol::{
    Answer, Command, DataChange, DdataBody, Event, Msg, ReadError, Rejection, WriteError,
};
use super::super::state::consistency::Consistency::{All, Local, Majority, MajorityPlus, Replicas};
use super::super::state::key::Pattern;
use super::world::{SECOND, World, add, increment, key};
use crate::membership::state::member::Status;
use crate::ordered::OrderedSet;

const DONE: Answer = Answer::Written(Ok(()));

#[test]
fn s_211_alone_a_write_to_two_is_refused_but_stays() {
    let mut world = World::new(1, |_| {});
    let token = world.get(0, "a", Local);
    assert_eq!(*world.answer(0, token), Answer::Value(Err(ReadError::NotFound)));
    let subscriber = world.command(
        0,
        Command::Subscribe {
            pattern: Pattern::Key(key("a")),
        },
    );
    let token = world.update(0, "a", increment(3), Local);
    assert_eq!(*world.answer(0, token), DONE);
    let token = world.update(0, "a", increment(1), Replicas(2));
    let refused = WriteError::NotEnoughReplicas {
        present: 1,
        required: 2,
    };
    assert!(refused.may_have_been_handled());
    assert_eq!(*world.answer(0, token), Answer::Written(Err(refused)));
    world.run(SECOND);
    let told = world.changes(0);
    let Some(Event::Changed {
        subscribers,
        change: DataChange::Value(data),
        ..
    }) = told.last()
    else {
        panic!("{told:?}");
    };
    assert_eq!(*subscribers, [subscriber]);
    assert!(matches!(&**data, DataValue::GCounter(counter) if counter.value() == 4));
    for level in [Majority, All] {
        let token = world.update(0, "a", increment(1), level);
        assert_eq!(*world.answer(0, token), DONE);
    }
    assert_eq!(world.count(0, "a"), 6);
}

#[test]
fn s_212_a_second_node_gets_what_there_is_and_both_count() {
    let mut world = World::new(2, |_| {});
    let token = world.update(0, "a", increment(6), Local);
    assert_eq!(*world.answer(0, token), DONE);
    world.run(5 * SECOND);
    assert_eq!(world.counts("a"), [6, 6]);
    for (by, level) in [(20, Local), (1, Replicas(2)), (1, All), (1, Majority)] {
        for index in 0..2 {
            let token = world.update(index, "b", increment(by), level);
            world.run(SECOND / 10);
            assert_eq!(*world.answer(index, token), DONE);
        }
    }
    assert_eq!(world.counts("b"), [46, 46]);
}

#[test]
fn s_214_a_majority_goes_on_without_a_third_and_all_does_not() {
    let mut world = World::new(3, |_| {});
    for index in 0..3 {
        world.update(index, "e", increment(50), Majority);
    }
    world.run(SECOND);
    assert_eq!(world.counts("e"), [150; 3]);
    world.partition(&[0, 1], &[2]);
    world.update(1, "e", increment(1), Local);
    let read = world.get(0, "e", Majority);
    world.run(2 * SECOND);
    assert!(
        matches!(world.answer(0, read), Answer::Value(Ok(data)) if matches!(&**data, DataValue::GCounter(c) if c.value() == 151))
    );
    // Three writes at once: each sees those before it.
    let tokens: Vec<u64> = (0..3)
        .map(|_| world.update(1, "e", increment(1), Majority))
        .collect();
    assert_eq!(world.count(1, "e"), 154);
    world.run(2 * SECOND);
    for token in tokens {
        assert_eq!(*world.answer(1, token), DONE);
    }
    let read = world.get(0, "unknown", All);
    let here = world.get(0, "unknown", Local);
    world.run(2 * SECOND);
    let failed = ReadError::Timeout {
        answered: 2,
        required: 3,
    };
    assert_eq!(*world.answer(0, read), Answer::Value(Err(failed)));
    assert_eq!(*world.answer(0, here), Answer::Value(Err(ReadError::NotFound)));
    world.heal();
    let read = world.get(2, "e", Majority);
    world.run(SECOND);
    assert!(
        matches!(world.answer(2, read), Answer::Value(Ok(data)) if matches!(&**data, DataValue::GCounter(c) if c.value() == 154))
    );
}

#[test]
fn s_215_a_hundred_writes_in_flight_on_each_of_three_nodes_all_count() {
    let mut world = World::new(3, |_| {});
    let mut tokens = Vec::new();
    for _ in 0..100 {
        for index in 0..3 {
            tokens.push((index, world.update(index, "f", increment(1), Replicas(2))));
        }
    }
    world.run(2 * SECOND);
    for (index, token) in tokens {
        assert_eq!(*world.answer(index, token), DONE);
    }
    let read = world.get(1, "f", Replicas(2));
    world.run(SECOND);
    assert!(
        matches!(world.answer(1, read), Answer::Value(Ok(data)) if matches!(&**data, DataValue::GCounter(c) if c.value() == 300))
    );
}

#[test]
fn s_214_an_unconfirmed_write_says_so_stays_and_spreads() {
    let mut world = World::new(3, |_| {});
    world.partition(&[0], &[1, 2]);
    let token = world.update(0, "a", increment(5), Majority);
    world.run(2 * SECOND);
    let unconfirmed = WriteError::Unconfirmed {
        confirmed: 1,
        required: 2,
    };
    assert_eq!(*world.answer(0, token), Answer::Written(Err(unconfirmed)));
    assert_eq!(world.count(0, "a"), 5);
    world.heal();
    world.run(20 * SECOND);
    assert_eq!(world.counts("a"), [5; 3]);
    world.assert_equal();
}

#[test]
fn s_228_replicas_beyond_those_needed_are_asked_after_a_fifth_of_the_time() {
    let mut world = World::new(5, |_| {});
    // Whoever of the two that are asked first is cut off, others confirm.
    world.partition(&[0], &[1, 2]);
    let token = world.update(0, "a", increment(1), Majority);
    world.run(SECOND / 6);
    let asked = |world: &World| {
        let writes = world.sent.iter().filter(|(from, _, body)| {
            *from == 0
                && matches!(
                    body,
                    DdataBody::Write { .. }
                        | DdataBody::Deltas {
                            operation: Some(_),
                            ..
                        }
                )
        });
        writes
            .map(|(_, to, _)| *to)
            .collect::<crate::ordered::OrderedSet<usize>>()
    };
    assert_eq!(asked(&world).len(), 2);
    world.run(SECOND / 10);
    assert_eq!(asked(&world).len(), 4);
    assert_eq!(*world.answer(0, token), DONE);
}

#[test]
fn s_228_a_gap_is_closed_by_the_whole_value() {
    let mut world = World::new(2, |config| {
        config.ddata.gossip_interval = 1000 * SECOND;
        config.ddata.delta_interval = Some(SECOND / 5);
    });
    world.lose = |body| matches!(body, DdataBody::Deltas { operation: None, .. });
    world.update(0, "s", add("x"), Local);
    world.run(SECOND);
    let token = world.update(0, "s", add("y"), All);
    world.run(SECOND / 10);
    assert_eq!(*world.answer(0, token), DONE);
    assert_eq!(world.peers[1].fixture.stats.ddata.delta_gaps, 1);
    world.assert_equal();
}

#[test]
fn a_write_brings_the_changes_before_it_that_its_replica_was_not_sent() {
    let mut world = World::new(3, |config| config.ddata.gossip_interval = 1000 * SECOND);
    for number in 0..20 {
        let token = world.update(0, "s", add(&alloc::format!("{number}")), Majority);
        world.run(SECOND / 100);
        assert_eq!(*world.answer(0, token), DONE);
    }
    let gaps = world.peers.iter().map(|peer| peer.fixture.stats.ddata.delta_gaps);
    assert_eq!(gaps.sum::<u64>(), 0);
    let whole = |body: &DdataBody| matches!(body, DdataBody::Write { .. } | DdataBody::Gossip { .. });
    assert!(!world.sent.iter().any(|(_, _, body)| whole(body)));
    // Of two replicas each was asked for some of them.
    let asked = |to| {
        world
            .sent
            .iter()
            .filter(|(from, at, _)| (*from, *at) == (0, to))
            .count()
    };
    assert!(asked(1) > 0 && asked(2) > 0);
}

#[test]
fn s_228_members_that_exit_are_not_waited_for_by_all() {
    let mut world = World::new(4, |_| {});
    world.see(
        |index| Some(if index == 3 { Status::Exiting } else { Status::Up }),
        &[],
    );
    world.partition(&[0, 1, 2], &[3]);
    for level in [All, MajorityPlus(1)] {
        let token = world.update(0, "a", increment(1), level);
        world.run(SECOND / 10);
        assert_eq!(*world.answer(0, token), DONE);
    }
    let token = world.update(0, "a", increment(1), Replicas(4));
    world.run(2 * SECOND);
    let unconfirmed = WriteError::Unconfirmed {
        confirmed: 3,
        required: 4,
    };
    assert_eq!(*world.answer(0, token), Answer::Written(Err(unconfirmed)));
}

#[test]
fn s_222_the_oldest_are_asked_first_where_that_is_set() {
    let mut world = World::new(3, |config| {
        config.ddata.prefer_oldest = true;
        config.ddata.gossip_interval = 1000 * SECOND;
        config.ddata.delta_interval = Some(1000 * SECOND);
    });
    let token = world.update(0, "a", increment(1), Replicas(2));
    world.run(SECOND / 10);
    assert_eq!(*world.answer(0, token), DONE);
    assert_eq!(world.counts("a"), [1, 1, 0]);
}

#[test]
fn a_weakly_up_member_hears_but_does_not_count() {
    let mut world = World::new(3, |_| {});
    world.see(
        |index| Some(if index == 2 { Status::WeaklyUp } else { Status::Up }),
        &[],
    );
    world.partition(&[0, 1], &[]);
    let token = world.update(0, "a", increment(1), Replicas(3));
    assert_eq!(
        *world.answer(0, token),
        Answer::Written(Err(WriteError::NotEnoughReplicas {
            present: 2,
            required: 3
        }))
    );
    world.run(5 * SECOND);
    assert_eq!(world.counts("a"), [1; 3]);
}

#[test]
fn s_252_an_operation_of_another_type_changes_nothing() {
    let mut world = World::new(1, |_| {});
    world.update(0, "a", increment(1), Local);
    let token = world.update(0, "a", add("x"), Local);
    let Answer::Written(Err(WriteError::Refused(error))) = world.answer(0, token) else {
        panic!("{:?}", world.answer(0, token));
    };
    assert_eq!(
        error.to_string(),
        "the value is of type GCounter, but the operation is for type OrSet"
    );
    assert_eq!(world.count(0, "a"), 1);
}

#[test]
fn what_a_change_of_a_map_adds_is_counted_as_it_is() {
    let mut world = World::new(1, |config| {
        config.ddata.value_bytes_max = 2_048;
        config.ddata.bytes_max = 2_048;
    });
    let element = |text: &str| -> Arc<[u8]> { Arc::from(text.as_bytes()) };
    let long = "x".repeat(60);
    let changes = [
        OrMultiMapOp::AddBinding {
            key: element("k"),
            value: element(&long),
        },
        OrMultiMapOp::Put {
            key: element(&long),
            values: [element(&long)].into(),
        },
    ];
    for change in changes {
        let initial = DataValue::empty(DataType::OrMultiMap).unwrap();
        let token = world.update(0, "m", (initial, DataOp::OrMultiMap(change)), Local);
        assert_eq!(*world.answer(0, token), DONE);
    }
}

#[test]
fn a_deleted_key_can_never_be_used_again_anywhere() {
    let mut world = World::new(2, |_| {});
    world.update(0, "a", increment(1), All);
    world.run(SECOND);
    let delete = |consistency| Command::Delete {
        key: key("a"),
        consistency,
        timeout: SECOND,
    };
    let token = world.command(0, delete(All));
    world.run(SECOND);
    assert_eq!(*world.answer(0, token), DONE);
    for index in 0..2 {
        let token = world.update(index, "a", increment(1), Local);
        assert_eq!(
            *world.answer(index, token),
            Answer::Written(Err(WriteError::Deleted))
        );
        let token = world.get(index, "a", Majority);
        world.run(SECOND);
        assert_eq!(
            *world.answer(index, token),
            Answer::Value(Err(ReadError::Deleted))
        );
    }
    let token = world.command(0, delete(Local));
    assert_eq!(*world.answer(0, token), Answer::Written(Err(WriteError::Deleted)));
}

#[test]
fn a_read_repairs_the_replicas_that_lack_something() {
    let mut world = World::new(3, |config| {
        config.ddata.gossip_interval = 1000 * SECOND;
        config.ddata.delta_interval = Some(1000 * SECOND);
    });
    world.update(0, "a", increment(7), Local);
    let read = world.get(1, "a", All);
    world.run(SECOND);
    assert!(matches!(world.answer(1, read), Answer::Value(Ok(_))));
    // The reader and the third, which had nothing, too.
    assert_eq!(world.counts("a"), [7; 3]);
    assert_eq!(world.peers[2].fixture.stats.ddata.repairs_received, 1);
}

#[test]
fn s_224_a_new_subscriber_to_a_prefix_hears_of_every_key_in_portions_and_of_none_beside() {
    let mut world = World::new(1, |_| {});
    for number in 0..1_203 {
        world.update(0, &format!("stock/{number:04}"), increment(1), Local);
    }
    for beside in ["stock", "stoc", "stock0", "t"] {
        world.update(0, beside, increment(1), Local);
    }
    let pattern = Pattern::below("stock/").unwrap();
    world.command(0, Command::Subscribe { pattern });
    let mut heard = Vec::new();
    // A round has room for 500, of which the subscriber takes one.
    for portion in [499, 499, 205, 0] {
        world.command(0, Command::Flush);
        let told = world.changes(0).into_iter().skip(heard.len());
        let told: Vec<_> = told
            .map(|event| match event {
                Event::Changed { key, .. } => key,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(told.len(), portion);
        heard.extend(told);
    }
    assert!(heard.is_sorted(), "in their order");
    assert!(heard.iter().all(|key| key.as_str().starts_with("stock/")));
}

#[test]
fn s_254_subscribers_hear_merged_values_once_per_round_and_nothing_that_is_no_news() {
    let mut world = World::new(2, |_| {});
    world.command(
        0,
        Command::Subscribe {
            pattern: Pattern::parse("s*").unwrap(),
        },
    );
    world.update(0, "s", add("x"), Local);
    world.run(SECOND);
    world.update(1, "s", add("y"), Local);
    world.run(SECOND);
    let sizes: Vec<usize> = world
        .changes(0)
        .iter()
        .map(|event| match event {
            Event::Changed {
                change: DataChange::Value(data),
                ..
            } => match &**data {
                DataValue::OrSet(set) => set.len(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(sizes, [1, 2]);
}

#[test]
fn operations_beyond_the_limit_are_refused_and_change_nothing() {
    let mut world = World::new(2, |config| config.ddata.open_operations_max = 2);
    world.partition(&[0], &[1]);
    for _ in 0..2 {
        world.update(0, "a", increment(1), All);
    }
    let token = world.update(0, "a", increment(1), All);
    assert_eq!(
        *world.answer(0, token),
        Answer::Written(Err(WriteError::TooManyOperations))
    );
    let token = world.get(0, "a", All);
    assert_eq!(
        *world.answer(0, token),
        Answer::Value(Err(ReadError::TooManyOperations))
    );
    assert_eq!(world.count(0, "a"), 2);
    world.run(2 * SECOND);
    assert_eq!(world.peers[0].machine.open_operations(), 0);
}

#[test]
fn a_node_that_is_no_member_any_more_answers_what_is_open_and_serves_nothing() {
    let mut world = World::new(2, |_| {});
    world.partition(&[0], &[1]);
    let token = world.update(0, "a", increment(1), All);
    assert!(world.is_open(0, token));
    world.see(|index| (index == 1).then_some(Status::Up), &[]);
    let unconfirmed = WriteError::Unconfirmed {
        confirmed: 1,
        required: 2,
    };
    assert_eq!(*world.answer(0, token), Answer::Written(Err(unconfirmed)));
    let token = world.get(0, "a", Local);
    assert_eq!(*world.answer(0, token), Answer::Value(Err(ReadError::NotServing)));
}

#[test]
fn an_answer_that_comes_twice_counts_once() {
    let mut world = World::new(5, |_| {});
    for other in 2..5 {
        world.cut.insert((0, other));
    }
    let token = world.update(0, "a", increment(1), All);
    world.run(SECOND / 50);
    let answers = world.sent.iter().filter_map(|(from, _, body)| match body {
        DdataBody::WriteAck { operation } => Some((*from, *operation)),
        _ => None,
    });
    let answers: Vec<(usize, u64)> = answers.collect();
    let [(1, operation)] = answers[..] else {
        panic!("{answers:?}")
    };
    let (from, to_uid) = (world.peers[1].fixture.me.clone(), world.peers[0].fixture.me.uid());
    for _ in 0..3 {
        let (body, weight) = (DdataBody::WriteAck { operation }, 0);
        let msg = Msg { to_uid, body, weight };
        world.with(0, |machine, cx| machine.on_message(cx, &from, msg));
    }
    assert!(world.is_open(0, token), "two of five have it");
}

#[test]
fn an_answer_to_a_read_that_comes_twice_counts_once() {
    let mut world = World::new(5, |_| {});
    world.partition(&[0], &[1, 2, 3, 4]);
    let token = world.get(0, "a", Majority);
    let asked = world.sent.iter().find_map(|(_, to, body)| match body {
        DdataBody::Read { operation, .. } => Some((*to, *operation)),
        _ => None,
    });
    let (who, operation) = asked.unwrap();
    let (from, to_uid) = (
        world.peers[who].fixture.me.clone(),
        world.peers[0].fixture.me.uid(),
    );
    for _ in 0..3 {
        let (envelope, weight) = (None, 0);
        let body = DdataBody::ReadResult { operation, envelope };
        let msg = Msg { to_uid, body, weight };
        world.with(0, |machine, cx| machine.on_message(cx, &from, msg));
    }
    assert!(world.is_open(0, token), "two of five have answered");
}

#[test]
fn who_leaves_tells_what_it_has_not_told_before_it_says_that_it_is_done() {
    let mut world = World::new(4, |_| {});
    world.run(SECOND);
    world.update(0, "a", increment(7), Local);
    world.with(0, |machine, cx| machine.on_drain_requested(cx));
    world.run(SECOND / 500);
    assert_eq!(world.counts("a"), [7; 4]);
}

/// What a node was told of a key that has another type elsewhere, each text once.
fn conflicts(world: &World, index: usize) -> OrderedSet<String> {
    let of_types = |rejection: &Rejection| matches!(rejection, Rejection::WrongType { .. });
    let all = world.rejections(index).into_iter();
    all.filter(of_types)
        .map(|rejection| rejection.to_string())
        .collect()
}

#[test]
fn s_232_a_key_written_as_two_types_on_two_nodes_is_told_to_both_with_both_types() {
    let mut world = World::new(3, |_| {});
    world.partition(&[0], &[1, 2]);
    world.update(0, "a", increment(1), Local);
    world.update(1, "a", add("x"), All);
    world.run(5 * SECOND);
    world.heal();
    // Whoever writes so that others have to have it hears so at once, not at the end of the time.
    let token = world.update(0, "a", increment(1), Majority);
    world.run(SECOND);
    let (written, held) = (DataType::GCounter, DataType::OrSet);
    assert_eq!(
        *world.answer(0, token),
        Answer::Written(Err(WriteError::OtherType { written, held }))
    );
    // Whoever does not, from the gossip: on both sides, and nothing of either value is changed.
    world.run(30 * SECOND);
    let counter_here = "a has another type elsewhere: a OrSet cannot be merged into a GCounter";
    let set_here = "a has another type elsewhere: a GCounter cannot be merged into a OrSet";
    assert_eq!(conflicts(&world, 0), OrderedSet::from([counter_here.to_string()]));
    for index in [1, 2] {
        assert_eq!(conflicts(&world, index), OrderedSet::from([set_here.to_string()]));
    }
    assert_eq!(world.count(0, "a"), 2);
    let token = world.update(1, "a", add("y"), Majority);
    world.run(SECOND);
    assert_eq!(*world.answer(1, token), DONE, "a majority holds its type");
}
