//! Convergence: gossip, deltas, expiry, and how much is sent. Spec: sharding 1.12, 6.9; reliability I-62.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::super::protocol::{Command, DataChange, DdataBody, Event};
use super::super::state::consistency::Consistency::{All, Local, Majority};
use super::super::state::key::Pattern;
use super::world::{SECOND, World, add, add_for_good, increment, key, remove};

#[test]
fn s_235_sets_changed_on_five_nodes_at_once_end_equal() {
    let mut world = World::new(5, |_| {});
    for round in 0..100_u32 {
        for index in 0..5 {
            let element = alloc::format!("{}", (round * 7 + index as u32 * 3) % 40);
            let change = if round % 3 == 2 {
                remove(&element)
            } else {
                add(&element)
            };
            world.update(index, "s", change, Local);
        }
        if round % 10 == 0 {
            world.run(SECOND / 20);
        }
    }
    world.run(20 * SECOND);
    world.assert_equal();
}

#[test]
fn s_210_a_thousand_updates_in_one_tick_are_left_to_gossip() {
    let mut world = World::new(2, |_| {});
    for _ in 0..1000 {
        world.update(0, "a", increment(1), Local);
    }
    world.run(SECOND);
    let deltas = world
        .sent
        .iter()
        .filter(|(_, _, body)| matches!(body, DdataBody::Deltas { .. }));
    assert_eq!(deltas.count(), 0);
    world.run(2 * SECOND);
    assert_eq!(world.counts("a"), [1000; 2]);
}

#[test]
fn s_255_a_gap_is_not_closed_by_deltas_but_by_a_confirmed_write() {
    // No gossip: deltas alone.
    let mut world = World::new(3, |config| config.ddata.gossip_interval = 100_000 * SECOND);
    world.peers.iter_mut().for_each(|peer| {
        let mut config = super::world::config();
        config.ddata.gossip_interval = 100_000 * SECOND;
        config.ddata.delta_interval = Some(SECOND / 5);
        peer.fixture.config = config.validate().unwrap();
    });
    world.update(0, "a", increment(1), Local);
    world.run(SECOND);
    assert_eq!(world.counts("a"), [1; 3]);
    world.update(0, "a", increment(2), All);
    world.run(SECOND);
    assert_eq!(world.counts("a"), [3; 3]);
    // Lost on the way: the next one comes across a gap.
    world.lose = |body| matches!(body, DdataBody::Deltas { .. });
    world.update(0, "a", increment(5), Local);
    world.run(SECOND);
    world.lose = |_| false;
    world.update(0, "a", increment(10), Local);
    world.run(SECOND);
    assert_eq!(world.counts("a"), [18, 3, 3]);
    let token = world.update(0, "a", increment(100), All);
    world.run(SECOND);
    assert!(!world.is_open(0, token));
    world.update(0, "a", increment(4), Local);
    world.run(SECOND);
    assert_eq!(world.counts("a"), [122; 3]);
}

#[test]
fn s_231_with_and_without_deltas_the_values_are_the_same() {
    let values = [true, false].map(|deltas| {
        let mut world = World::new(3, |config| config.ddata.deltas = deltas);
        for index in 0..3 {
            for element in ["x", "y", "z"] {
                world.update(index, "s", add(element), Local);
                world.update(index, "c", increment(3), Majority);
            }
            world.update(index, "s", remove("y"), Local);
            world.run(SECOND);
        }
        world.run(20 * SECOND);
        world.assert_equal();
        let delta_messages = world
            .sent
            .iter()
            .any(|(_, _, body)| matches!(body, DdataBody::Deltas { .. }));
        assert_eq!(delta_messages, deltas);
        (
            world.counts("c"),
            alloc::format!("{:?}", world.peers[0].machine.get(&key("s")).unwrap().data_type()),
        )
    });
    assert_eq!(values[0], values[1]);
    assert_eq!(values[0].0, [27; 3]);
}

#[test]
fn s_224_s_225_expired_keys_are_told_and_may_come_back() {
    let expire = |config: &mut crate::config::Config| {
        let rule = (Pattern::parse("t-*").unwrap(), 10 * SECOND);
        config.ddata.expire_keys_after_inactivity = Vec::from([rule]);
    };
    let mut world = World::new(2, expire);
    world.command(
        1,
        Command::Subscribe {
            pattern: Pattern::parse("t-*").unwrap(),
        },
    );
    world.update(0, "t-1", increment(1), Local);
    world.update(0, "kept", increment(1), Local);
    world.run(5 * SECOND);
    // S-225: used on one node, it stays on the other.
    world.get(0, "t-1", Local);
    world.run(7 * SECOND);
    assert_eq!(world.counts("t-1"), [1; 2]);
    world.run(20 * SECOND);
    assert!((0..2).all(|index| world.peers[index].machine.get(&key("t-1")).is_none()));
    assert_eq!(world.counts("kept"), [1; 2]);
    world.update(0, "t-1", increment(4), Local);
    world.run(5 * SECOND);
    assert_eq!(world.counts("t-1"), [4; 2]);
    let told: Vec<&str> = world
        .changes(1)
        .iter()
        .filter_map(|event| match event {
            Event::Changed {
                change: DataChange::Value(_),
                ..
            } => Some("value"),
            Event::Changed {
                change: DataChange::Expired,
                ..
            } => Some("expired"),
            Event::Changed {
                change: DataChange::Deleted,
                ..
            } => Some("deleted"),
            Event::LargeValue { .. }
            | Event::Pruned { .. }
            | Event::StoreAwaited { .. }
            | Event::StoreRead
            | Event::AwayForLong { .. }
            | Event::StillReplica
            | Event::StoreLost
            | Event::StoreOutdated { .. } => None,
        })
        .collect();
    assert_eq!(told, ["value", "expired", "value"]);
}

#[test]
fn s_234_a_restarted_node_gets_everything_back() {
    let mut world = World::new(3, |_| {});
    for index in 0..50 {
        world.update(index % 3, &index.to_string(), increment(1), Majority);
    }
    world.run(10 * SECOND);
    let me = crate::fixture::node("n2", 77);
    let config = world.peers[2].fixture.config.clone();
    world.peers.pop();
    world.add_peer(me, super::world::config(), crate::store::memory::MemoryMap::new());
    let _ = config;
    world.all_up();
    world.run(20 * SECOND);
    world.assert_equal();
    assert_eq!(world.peers[2].machine.keys().count(), 50);
}

/// Three nodes that hold half, a quarter and a quarter of so many keys when they meet again; the world, after
/// how many rounds they are equal at most, and the bound for it.
fn heal(keys: usize, per_chunk: usize) -> (World, usize, usize) {
    let mut world = World::new(3, |config| {
        config.ddata.deltas = false;
        config.ddata.max_delta_elements = per_chunk;
    });
    world.checks = false;
    world.partition(&[0], &[1, 2]);
    world.partition(&[1], &[2]);
    for number in 0..keys {
        let side = if number % 2 == 0 { 0 } else { 1 + number / 2 % 2 };
        let name = alloc::format!("key-{number}");
        world.update(side, &name, increment(number as u64 + 1), Local);
    }
    world.heal();
    // ceil(keys / 5000) * (log2(3) + 3) rounds of 2 s, where 5,000 are ten chunks of five hundred.
    let bound = keys.div_ceil(10 * per_chunk) * 4585 / 1000;
    let step = bound.div_ceil(30);
    let mut rounds = 0;
    while rounds < bound && !world.is_equal() {
        let more = step.min(bound - rounds);
        world.run(u32::try_from(more * 2).unwrap() * SECOND);
        rounds += more;
    }
    world.assert_equal();
    (0..3).for_each(|index| world.check(index));
    assert_eq!(world.peers[0].machine.keys().count(), keys);
    let bytes: usize = world.sent_bytes.iter().sum();
    std::println!(
        "{keys} keys are equal after at most {rounds} rounds, the bound is {bound}; {} messages, {bytes} bytes",
        world.sent.len()
    );
    (world, rounds, bound)
}

/// As many chunks as a hundred thousand keys have.
#[test]
fn i_62_a_hundred_thousand_keys_in_small_converge_in_three_quarters_of_the_bound() {
    let (_, rounds, bound) = heal(4_000, 20);
    assert!(rounds <= bound * 3 / 4, "{rounds} of {bound}");
}

/// `QUORATE_KEYS` asks for more keys than a debug build has time for.
#[test]
fn i_62_many_keys_converge_after_a_heal_within_the_bound() {
    let keys = std::env::var("QUORATE_KEYS").map_or(6_000, |keys| keys.parse().unwrap());
    let (world, _, _) = heal(keys, 500);
    let largest = world
        .sent
        .iter()
        .map(|(_, _, body)| match body {
            DdataBody::Gossip { entries, .. } => entries.len(),
            DdataBody::Status { digests, .. } => digests.len(),
            DdataBody::Read { .. }
            | DdataBody::ReadResult { .. }
            | DdataBody::Write { .. }
            | DdataBody::WriteAck { .. }
            | DdataBody::WriteNack { .. }
            | DdataBody::Repair { .. }
            | DdataBody::Request { .. }
            | DdataBody::Deltas { .. } => 0,
        })
        .max();
    // A round keeps its chunks until they are twice as large as is meant; the receiver refuses four times
    // that.
    assert!(largest < Some(1_200), "{largest:?}");
}

#[test]
fn a_value_at_its_size_limit_spreads_and_one_byte_more_is_refused() {
    let mut world = World::new(2, |config| config.ddata.value_bytes_max = 10_000);
    // A set with one element of this length has exactly the limit.
    let empty = super::super::measure::data_len(&add_for_good(b"").0);
    let with_one = {
        let mut probe = World::new(1, |_| {});
        probe.update(0, "p", add_for_good(b""), Local);
        super::super::measure::data_len(probe.peers[0].machine.get(&key("p")).unwrap())
    };
    assert!(with_one > empty);
    let fits = alloc::vec![7_u8; 10_000 - with_one];
    let beyond = alloc::vec![7_u8; 10_001 - with_one];
    let token = world.update(0, "a", add_for_good(&beyond), Local);
    let refused = super::super::protocol::WriteError::TooLarge { bytes_max: 10_000 };
    assert_eq!(
        *world.answer(0, token),
        super::super::protocol::Answer::Written(Err(refused))
    );
    assert!(world.peers[0].machine.get(&key("a")).is_none());
    let token = world.update(0, "a", add_for_good(&fits), All);
    world.run(SECOND);
    assert_eq!(
        *world.answer(0, token),
        super::super::protocol::Answer::Written(Ok(()))
    );
    world.assert_equal();
    let token = world.update(1, "a", add_for_good(b"x"), Local);
    assert!(matches!(
        world.answer(1, token),
        super::super::protocol::Answer::Written(Err(_))
    ));
}

#[test]
fn a_value_weighs_what_it_has_in_bytes_and_a_little_around() {
    let mut world = World::new(2, |config| config.ddata.deltas = false);
    world.update(0, "a", add_for_good(&[7; 10_000]), All);
    world.run(SECOND);
    world.assert_equal();
    assert!((10_000..12_000).contains(&world.heaviest), "{}", world.heaviest);
}

#[test]
fn s_230_a_message_for_another_incarnation_is_ignored() {
    let mut world = World::new(2, |_| {});
    let from = world.peers[0].fixture.me.clone();
    let body = DdataBody::Read {
        operation: 1,
        key: key("a"),
    };
    let msg = super::super::protocol::Msg {
        to_uid: 999,
        body,
        weight: 0,
    };
    world.with(1, |machine, cx| machine.on_message(cx, &from, msg));
    assert_eq!(world.peers[1].fixture.stats.ddata.ignored, 1);
    assert!(world.sent.is_empty());
}

/// Bytes that one of three nodes sends per element of 16 bytes, fifty a second, added to a set of a thousand.
fn bytes_per_update(
    level: super::super::state::consistency::Consistency,
    pause: core::time::Duration,
) -> usize {
    const UPDATES: u32 = 100;
    let mut world = World::new(3, |_| {});
    let element = |number: u32| alloc::format!("element-{number:08}");
    for number in 0..1000 {
        world.update(0, "s", add(&element(number)), Local);
    }
    world.run(10 * SECOND);
    world.assert_equal();
    let before = world.sent_bytes[0];
    for number in 1000..1000 + UPDATES {
        world.update(0, "s", add(&element(number)), level);
        world.run(pause);
    }
    world.run(5 * SECOND);
    world.assert_equal();
    let spent = world.sent_bytes[0] - before;
    let before = world.sent_bytes[0];
    world.run(5 * SECOND + UPDATES * pause);
    let idle = world.sent_bytes[0] - before;
    spent.saturating_sub(idle) / UPDATES as usize
}

#[test]
fn what_an_update_costs_follows_its_change_and_not_the_value() {
    for (level, pause) in [
        (Majority, 20),
        (Local, 20),
        (Majority, 700),
        (Local, 700),
        (All, 700),
    ] {
        let bytes = bytes_per_update(level, core::time::Duration::from_millis(pause));
        assert!(
            bytes < 800,
            "{bytes} bytes per update, {level:?}, every {pause} ms"
        );
    }
}
