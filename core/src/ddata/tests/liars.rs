//! Peers that lie: a typed rejection, a counter, no change, and memory within the limits. Spec: reliability
//! 3c, I-65, I-68.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use core::time::Duration;

use super::super::crdt::{
    DataOp, DataType, DataValue, LwwClock, LwwRegisterOp, MergeError, Minting, PnCounter, PnCounterOp,
    Tallies, Tally, VERSION_MAX, claim_max,
};
use super::super::protocol::{CarriedValue, DdataBody, DeltaEntry, KeyDigest, Msg, Rejection};
use super::super::state::consistency::Consistency::Local;
use super::super::state::{DataEnvelope, Digest, Pruning};
use super::world::{SECOND, World, add, add_for_good, increment, key};
use crate::bytes::WireError;
use crate::fixture::node;
use crate::ident::UniqueAddress;
use crate::message::Message;
use crate::ordered::OrderedSet;
use crate::wire;

/// The second node says this to the first.
fn say(world: &mut World, body: DdataBody) {
    let from = world.peers[1].fixture.me.clone();
    let to_uid = world.peers[0].fixture.me.uid();
    world.with(0, |machine, cx| {
        machine.on_message(
            cx,
            &from,
            Msg {
                to_uid,
                body,
                weight: 0,
            },
        )
    });
}

fn gossip(name: &str, envelope: DataEnvelope) -> DdataBody {
    let carried = CarriedValue {
        key: key(name),
        envelope,
        idle_ms: None,
    };
    DdataBody::Gossip {
        send_back: false,
        entries: Vec::from([carried]),
    }
}

fn value((mut data, op): (DataValue, DataOp), uid: u64) -> DataValue {
    let mut minting = Minting::new(node("liar", uid));
    data.apply(&op, &mut minting).unwrap();
    data
}

#[test]
fn s_232_a_value_of_another_type_is_refused_and_the_local_one_stays() {
    let mut world = World::new(2, |_| {});
    world.update(0, "a", increment(1), Local);
    say(&mut world, gossip("a", DataEnvelope::new(value(add("x"), 2))));
    let (held, found) = (DataType::GCounter, DataType::OrSet);
    let error = MergeError::TypeMismatch { held, found };
    assert_eq!(
        world.rejections(0),
        [Rejection::WrongType { key: key("a"), error }]
    );
    assert_eq!(world.count(0, "a"), 1);
    let delta = {
        let (mut data, op) = add("x");
        data.apply(&op, &mut Minting::new(node("n1", 2)))
            .unwrap()
            .into_delta()
            .unwrap()
    };
    let entry = DeltaEntry {
        settled_ms: 0,
        key: key("a"),
        after: 0,
        upto: 1,
        deltas: Vec::from([delta]),
    };
    say(
        &mut world,
        DdataBody::Deltas {
            operation: Some(7),
            entries: Vec::from([entry]),
        },
    );
    assert_eq!(world.rejections(0).len(), 2);
    assert_eq!(world.peers[0].fixture.stats.ddata.rejected, 2);
}

#[test]
fn s_232_a_value_of_another_type_leaves_no_marker_behind() {
    let mut world = World::new(2, |_| {});
    world.update(0, "a", increment(1), Local);
    let before = world.peers[0].machine.envelope(&key("a")).cloned();
    let mut other = DataEnvelope::new(value(add("x"), 2));
    let owner = world.peers[1].fixture.me.clone();
    let seen = OrderedSet::from([owner.clone()]);
    let marker = Pruning::Initialized { owner, seen };
    other.pruning.insert(node("gone", 3), marker);
    say(&mut world, gossip("a", other));
    assert_eq!(world.rejections(0).len(), 1);
    assert_eq!(world.peers[0].machine.envelope(&key("a")).cloned(), before);
}

#[test]
fn more_keys_or_bytes_than_fit_are_refused() {
    let mut world = World::new(2, |config| {
        config.ddata.keys_max = 10;
        config.ddata.value_bytes_max = 1 << 10;
        config.ddata.bytes_max = 8 << 10;
    });
    for number in 0..30 {
        say(
            &mut world,
            gossip(
                &alloc::format!("{number}"),
                DataEnvelope::new(value(increment(1), 2)),
            ),
        );
    }
    assert_eq!(world.peers[0].machine.keys().count(), 10);
    assert_eq!(world.rejections(0).len(), 20);
    for number in 0..1000_u32 {
        let element = [&number.to_le_bytes()[..], &[0; 60]].concat();
        let mut grown = value(add_for_good(&element), 2);
        let _ = &mut grown;
        say(&mut world, gossip("0-set", DataEnvelope::new(grown)));
    }
    assert!(world.peers[0].machine.bytes() <= 8 << 10);
}

#[test]
fn a_huge_set_is_refused_although_it_was_decoded() {
    let mut world = World::new(2, |config| {
        config.ddata.value_bytes_max = 1 << 10;
        config.limits.bulk_frame_bytes_max = 128 << 10;
    });
    let mut data = DataValue::empty(DataType::GSet).unwrap();
    let mut minting = Minting::new(node("liar", 9));
    for number in 0..40_u8 {
        let (_, op) = add_for_good(&[number; 4000]);
        data.apply(&op, &mut minting).unwrap();
    }
    say(&mut world, gossip("a", DataEnvelope::new(data)));
    assert_eq!(world.rejections(0), [Rejection::TooLarge { key: key("a") }]);
    assert_eq!(world.peers[0].machine.keys().count(), 0);
}

#[test]
fn a_vector_of_nodes_that_never_were_is_refused() {
    let mut world = World::new(2, |_| {});
    let mut envelope = DataEnvelope::new(value(increment(1), 2));
    envelope.deltas = (0..30_000)
        .map(|uid| (node("ghost", uid), 1))
        .collect::<BTreeMap<_, _>>();
    say(&mut world, gossip("a", envelope));
    assert!(matches!(
        world.rejections(0)[..],
        [Rejection::TooManyContributors { .. }]
    ));
}

#[test]
fn a_message_with_more_values_than_any_peer_gathers_is_refused() {
    for (values, refused) in [(8, 0), (9, 1), (20, 1)] {
        let mut world = World::new(2, |config| config.ddata.max_delta_elements = 2);
        let mut body = gossip("a", DataEnvelope::new(value(increment(1), 2)));
        if let DdataBody::Gossip { entries, .. } = &mut body {
            *entries = (0..values).map(|_| entries[0].clone()).collect();
        }
        say(&mut world, body);
        assert_eq!(world.rejections(0).len(), refused, "{values}");
        assert_eq!(world.peers[0].machine.keys().count(), 1 - refused);
    }
}

#[test]
fn a_status_of_more_chunks_than_there_may_be_is_refused() {
    let mut world = World::new(2, |_| {});
    for (total, refused) in [(1_000_000, 0), (1_000_001, 1), (u32::MAX, 2)] {
        let (chunk, digests) = (0, Vec::new());
        say(
            &mut world,
            DdataBody::Status {
                chunk,
                total,
                digests,
            },
        );
        assert_eq!(world.rejections(0).len(), refused, "{total}");
    }
}

#[test]
fn what_is_known_already_takes_no_room_a_second_time() {
    let mut world = World::new(2, |config| {
        config.ddata.value_bytes_max = 8 << 10;
        config.ddata.bytes_max = 8 << 10;
    });
    let (mut data, first) = add_for_good(&[1; 5000]);
    let (_, second) = add_for_good(&[2; 2000]);
    let mut minting = Minting::new(node("other", 2));
    data.apply(&first, &mut minting).unwrap();
    say(&mut world, gossip("a", DataEnvelope::new(data.clone())));
    data.apply(&second, &mut minting).unwrap();
    say(&mut world, gossip("a", DataEnvelope::new(data)));
    assert_eq!(world.rejections(0), []);
    assert!(world.peers[0].machine.bytes() > 7000);
}

#[test]
fn a_storm_of_digests_is_cut_off() {
    let mut world = World::new(2, |_| {});
    for _ in 0..1000 {
        let digest = KeyDigest {
            key: key("a"),
            digest: Digest(5),
            idle_ms: None,
        };
        say(
            &mut world,
            DdataBody::Status {
                chunk: 0,
                total: 1,
                digests: Vec::from([digest]),
            },
        );
    }
    let answered = world.sent.iter().filter(|(from, _, _)| *from == 0).count();
    assert!(answered <= 40, "{answered}");
    assert!(world.rejections(0).contains(&Rejection::TooManyStatuses));
}

#[test]
fn i_68_a_stamp_of_the_future_is_refused_and_counted() {
    let mut world = World::new(2, |_| {});
    let set = |at_ms: i64| {
        let mut data = DataValue::empty(DataType::LwwRegister).unwrap();
        let mut minting = Minting::new(node("n1", 2));
        minting.set_now(at_ms);
        let op = DataOp::LwwRegister(LwwRegisterOp::Set {
            value: Arc::from(&b"x"[..]),
            clock: LwwClock::Forward,
        });
        data.apply(&op, &mut minting).unwrap();
        DataEnvelope::new(data)
    };
    let now = i64::try_from(world.peers[0].fixture.now.unix_ms).unwrap();
    say(&mut world, gossip("a", set(now + 3_600_001)));
    assert!(matches!(
        world.rejections(0)[..],
        [Rejection::StampAhead {
            ahead_ms: 3_600_001,
            ..
        }]
    ));
    assert_eq!(world.peers[0].machine.keys().count(), 0);
    say(&mut world, gossip("a", set(now + 3_600_000)));
    assert_eq!(world.peers[0].machine.keys().count(), 1);
}

/// A value with an element that a node added when it had minted so many versions.
fn minted(by: &UniqueAddress, versions: u64) -> DataEnvelope {
    let (mut data, op) = add("x");
    data.apply(&op, &mut Minting::resume(by.clone(), versions))
        .unwrap();
    DataEnvelope::new(data)
}

fn highest(world: &World, index: usize, of: &UniqueAddress) -> u64 {
    let data = world.peers[index].machine.get(&key("a"));
    data.map_or(0, |data| data.highest_version_of(of))
}

#[test]
fn i_100_versions_of_mine_that_i_never_minted_are_gone_above_and_the_last_ones_are_refused() {
    let mut world = World::new(3, |_| {});
    let me = world.peers[0].fixture.me.clone();
    say(&mut world, gossip("a", minted(&me, 1 << 61)));
    assert_eq!(world.peers[0].fixture.stats.ddata.versions_skipped, 1);
    world.update(0, "a", add("y"), Local);
    world.run(Duration::from_secs(30));
    world.assert_equal();
    assert_eq!(
        highest(&world, 2, &me),
        (1 << 61) + 2,
        "what I add is above the lie, everywhere"
    );
    say(&mut world, gossip("a", minted(&me, VERSION_MAX - (1 << 40))));
    assert!(matches!(
        world.rejections(0)[..],
        [Rejection::OutOfRange { what: "version" } | Rejection::Forged { .. }]
    ));
    world.update(0, "a", add("z"), Local);
    assert_eq!(highest(&world, 0, &me), (1 << 61) + 3);
}

#[test]
fn i_100_a_change_that_names_versions_of_mine_leaves_me_versions() {
    let mut world = World::new(2, |_| {});
    let me = world.peers[0].fixture.me.clone();
    let (mut data, op) = add("x");
    let delta = data.apply(&op, &mut Minting::resume(me.clone(), 1 << 50));
    let entry = DeltaEntry {
        settled_ms: 0,
        key: key("a"),
        after: 0,
        upto: 1,
        deltas: Vec::from([delta.unwrap().into_delta().unwrap()]),
    };
    let (operation, entries) = (None, Vec::from([entry]));
    say(&mut world, DdataBody::Deltas { operation, entries });
    let token = world.update(0, "a", add("y"), Local);
    assert_eq!(highest(&world, 0, &me), (1 << 50) + 2);
    assert!(!world.is_open(0, token));
}

#[test]
fn i_100_the_last_versions_of_a_member_are_believed_of_itself_alone() {
    let mut world = World::new(3, |_| {});
    let third = world.peers[2].fixture.me.clone();
    let (liar, gone) = (world.peers[1].fixture.me.clone(), node("gone", 77));
    let last = VERSION_MAX - (1 << 40);
    say(&mut world, gossip("a", minted(&third, last)));
    assert_eq!(world.rejections(0), [Rejection::OutOfRange { what: "version" }]);
    assert_eq!(highest(&world, 0, &third), 0);
    say(&mut world, gossip("a", minted(&liar, last)));
    say(&mut world, gossip("a", minted(&gone, last)));
    assert_eq!(highest(&world, 0, &liar), last + 1, "its own are its own affair");
    assert_eq!(highest(&world, 0, &gone), last + 1, "nobody needs any of them");
    assert_eq!(world.rejections(0).len(), 1);
}

#[test]
fn i_100_a_member_whose_versions_were_claimed_to_the_last_half_is_heard_and_hears_the_others() {
    let mut world = World::new(4, |_| {});
    let third = world.peers[2].fixture.me.clone();
    for round in 0..2 {
        // What is believed of others, to the last: beyond it once the member has gone above the lie before.
        let last = claim_max(highest(&world, 0, &third));
        say(&mut world, gossip("a", minted(&third, last - 1)));
        world.update(2, "a", add(&format!("third {round}")), Local);
        world.run(Duration::from_secs(30));
        world.partition(&[0, 1], &[2, 3]);
        for index in [0, 2, 3] {
            world.update(index, "a", add(&format!("{index} apart {round}")), Local);
        }
        world.run(Duration::from_secs(30));
        world.heal();
        world.run(Duration::from_secs(30));
        world.assert_equal();
        assert!(highest(&world, 3, &third) > last, "what it adds is above the lie");
        let Some(DataValue::OrSet(set)) = world.peers[1].machine.get(&key("a")).map(|data| &**data) else {
            panic!("the set is held");
        };
        let apart = [0, 2, 3].map(|index| set.contains(format!("{index} apart {round}").as_bytes()));
        assert_eq!(apart, [true; 3], "what was added apart has come to all");
    }
    let last = minted(&third, VERSION_MAX / 2 + (1 << 40));
    say(&mut world, gossip("b", last));
    assert!(
        world.peers[0].machine.get(&key("b")).is_none(),
        "nor is every step believed"
    );
}

#[test]
fn i_100_changes_that_others_say_are_known_are_joined_all_the_same() {
    let mut world = World::new(3, |_| {});
    let third = world.peers[2].fixture.me.clone();
    let mut envelope = DataEnvelope::new(value(increment(1), 2));
    envelope.deltas = BTreeMap::from([(third.clone(), u64::MAX)]);
    say(&mut world, gossip("a", envelope));
    let (mut data, op) = increment(7);
    let applied = data.apply(&op, &mut Minting::new(third.clone())).unwrap();
    let entry = DeltaEntry {
        settled_ms: 0,
        key: key("a"),
        after: 0,
        upto: 1,
        deltas: Vec::from([applied.into_delta().unwrap()]),
    };
    let to_uid = world.peers[0].fixture.me.uid();
    let body = DdataBody::Deltas {
        operation: Some(3),
        entries: Vec::from([entry]),
    };
    let weight = 0;
    world.with(0, |machine, cx| {
        machine.on_message(cx, &third, Msg { to_uid, body, weight })
    });
    assert_eq!(world.count(0, "a"), 8, "acknowledged, so it is here");
    let acks = world
        .sent
        .iter()
        .filter(|(_, to, body)| *to == 2 && *body == DdataBody::WriteAck { operation: 3 });
    assert_eq!(acks.count(), 1);
}

#[test]
fn i_100_how_many_changes_i_have_logged_nobody_tells_me() {
    let mut world = World::new(2, |_| {});
    let me = world.peers[0].fixture.me.clone();
    world.update(0, "a", increment(1), Local);
    let mut envelope = DataEnvelope::new(value(increment(1), 2));
    envelope.deltas = BTreeMap::from([(me, u64::MAX)]);
    say(&mut world, gossip("a", envelope));
    world.update(0, "a", increment(1), Local);
    world.run(Duration::from_secs(30));
    let deltas = world.sent.iter().filter_map(|(from, _, body)| match body {
        DdataBody::Deltas { entries, .. } if *from == 0 => Some(entries),
        _ => None,
    });
    assert!(deltas.flatten().all(|entry| entry.after < entry.upto));
    world.assert_equal();
}

#[test]
fn changes_of_a_key_that_came_back_follow_those_that_the_others_have() {
    let mut world = World::new(2, |_| {});
    let me = world.peers[0].fixture.me.clone();
    world.update(0, "b", increment(1), Local);
    // This node has forgotten the key "a", and its first change of it.
    let mut envelope = DataEnvelope::new(value(increment(1), 2));
    envelope.deltas = BTreeMap::from([(me, 1)]);
    say(&mut world, gossip("a", envelope));
    world.update(0, "a", increment(1), Local);
    world.run(SECOND);
    let deltas = world.sent.iter().filter_map(|(from, _, body)| match body {
        DdataBody::Deltas { entries, .. } if *from == 0 => Some(entries),
        _ => None,
    });
    let of_a = deltas.flatten().filter(|entry| entry.key == key("a"));
    let numbers: Vec<(u64, u64)> = of_a.map(|entry| (entry.after, entry.upto)).collect();
    assert_eq!(numbers, [(1, 2)]);
}

#[test]
fn i_100_ends_of_markers_far_ahead_are_refused() {
    let mut world = World::new(2, |_| {});
    let mut settled = DataEnvelope::new(value(increment(1), 2));
    settled.settled_ms = u64::MAX;
    say(&mut world, gossip("a", settled));
    let mut performed = DataEnvelope::new(value(increment(1), 2));
    let obsolete_at_ms = u64::MAX;
    performed.pruning = BTreeMap::from([(node("gone", 5), Pruning::Performed { obsolete_at_ms })]);
    say(&mut world, gossip("a", performed));
    assert_eq!(world.rejections(0).len(), 2);
    assert!(
        world
            .rejections(0)
            .iter()
            .all(|rejection| matches!(rejection, Rejection::StampAhead { .. }))
    );
    assert_eq!(world.peers[0].machine.keys().count(), 0);
}

#[test]
fn i_100_a_total_at_its_end_stays_there_and_the_others_count_on() {
    let mut world = World::new(2, |_| {});
    let liar = Minting::new(node("n1", 2));
    let mut data = DataValue::empty(DataType::PnCounter).unwrap();
    let tally = Tally {
        up: 0,
        down: u128::MAX,
    };
    let tallies = Tallies::from_sorted(Vec::from([(liar.me().clone(), tally)])).unwrap();
    data.merge(&DataValue::PnCounter(PnCounter::from_tallies(tallies)))
        .unwrap();
    say(&mut world, gossip("c", DataEnvelope::new(data)));
    let up = || {
        let op = DataOp::PnCounter(PnCounterOp::Increment(u64::MAX));
        (DataValue::empty(DataType::PnCounter).unwrap(), op)
    };
    world.update(0, "c", up(), Local);
    world.update(0, "c", up(), Local);
    let Some(DataValue::PnCounter(counter)) = world.peers[0].machine.get(&key("c")).map(Arc::as_ref) else {
        panic!("it is there");
    };
    assert_eq!(counter.value(), i128::MIN);
    assert_eq!(counter.len(), 2);
}

#[test]
fn ghosts_in_markers_and_versions_count_towards_the_limit_on_bytes() {
    let mut world = World::new(2, |config| {
        config.ddata.value_bytes_max = 1 << 10;
        config.ddata.bytes_max = 1 << 20;
    });
    let ghosts = || (0..1_000_u64).map(|uid| node("ghost-with-a-long-name", uid));
    for number in 0..200 {
        let mut envelope = DataEnvelope::new(value(increment(1), 2));
        if number % 2 == 0 {
            envelope.deltas = ghosts().map(|ghost| (ghost, 1)).collect();
        } else {
            let seen = ghosts().collect();
            let owner = node("n1", 2);
            let marker = Pruning::Initialized { owner, seen };
            envelope.pruning = BTreeMap::from([(node("gone", 5), marker)]);
        }
        say(&mut world, gossip(&alloc::format!("{number}"), envelope));
    }
    let held = world.peers[0].machine.keys().count();
    assert!((20..40).contains(&held), "{held} keys of some 35 kB each");
    assert!(world.peers[0].machine.bytes() <= 1 << 20);
    assert_eq!(world.rejections(0).len(), 200 - held);
    assert!(
        world
            .rejections(0)
            .iter()
            .all(|rejection| matches!(rejection, Rejection::Full { .. }))
    );
}

/// What a peer's frame is for this node.
fn read(body: DdataBody) -> Result<Message, WireError> {
    read_body(&body_of(body))
}

fn body_of(body: DdataBody) -> Vec<u8> {
    let (to_uid, weight) = (1, 0);
    let message = Message::Ddata(Msg { to_uid, body, weight });
    let mut frame = Vec::new();
    wire::encode_message(&message, 0, &super::world::config().limits, &mut frame).unwrap();
    frame.split_off(wire::HEADER_BYTES)
}

fn read_body(body: &[u8]) -> Result<Message, WireError> {
    wire::decode_message(
        Msg::DDATA.kind,
        Msg::DDATA.lane,
        body,
        &super::world::config().limits,
    )
}

#[test]
fn many_values_in_one_message_are_read_up_to_four_times_what_an_honest_peer_gathers() {
    let carried = |bytes: usize| CarriedValue {
        key: key("a"),
        envelope: DataEnvelope::new(value(add_for_good(&alloc::vec![7; bytes]), 2)),
        idle_ms: None,
    };
    let gossip = |sizes: &[usize]| DdataBody::Gossip {
        send_back: false,
        entries: sizes.iter().map(|bytes| carried(*bytes)).collect(),
    };
    assert!(read(gossip(&[60_000; 4])).is_ok());
    let what = "entries";
    assert_eq!(
        read(gossip(&[60_000; 5])),
        Err(WireError::LimitExceeded { what }),
        "no honest peer sends that"
    );
    // One value may be as large as its frame.
    let mut large = DataValue::empty(DataType::GSet).unwrap();
    for number in 0..20_u8 {
        let (_, op) = add_for_good(&[number; 60_000]);
        large.apply(&op, &mut Minting::new(node("n1", 2))).unwrap();
    }
    let whole = CarriedValue {
        envelope: DataEnvelope::new(large),
        ..carried(1)
    };
    let entries = Vec::from([whole]);
    let send_back = false;
    assert!(read(DdataBody::Gossip { send_back, entries }).is_ok());
}

#[test]
fn more_changes_of_a_key_than_any_peer_gathers_are_not_read() {
    let delta = {
        let (mut data, op) = increment(1);
        let applied = data.apply(&op, &mut Minting::new(node("n1", 2))).unwrap();
        applied.into_delta().unwrap()
    };
    let deltas = |count: usize| {
        let entry = DeltaEntry {
            settled_ms: 0,
            key: key("a"),
            after: 0,
            upto: 1,
            deltas: alloc::vec![delta.clone(); count],
        };
        DdataBody::Deltas {
            operation: None,
            entries: Vec::from([entry]),
        }
    };
    let mut most = body_of(deltas(10_000));
    assert!(read_body(&most).is_ok());
    // The count of changes is behind the receiver, the tag, whether it is an operation, the count of keys,
    // the key and three numbers.
    let count = 8 + 1 + 1 + 2 + 2 + 3 * 8;
    assert_eq!(most[count..count + 2], 10_000_u16.to_le_bytes());
    most[count..count + 2].copy_from_slice(&10_001_u16.to_le_bytes());
    let what = "deltas";
    assert_eq!(read_body(&most), Err(WireError::LimitExceeded { what }));
}

#[test]
fn i_68_a_stamp_of_the_future_is_refused_in_a_delta_as_well() {
    let mut world = World::new(2, |_| {});
    let set = |value: &'static [u8]| {
        let op = DataOp::LwwRegister(LwwRegisterOp::Set {
            value: Arc::from(value),
            clock: LwwClock::Forward,
        });
        (DataValue::empty(DataType::LwwRegister).unwrap(), op)
    };
    world.peers[0].ahead_ms = 2 * 3_600_000;
    world.run(SECOND);
    world.lose = |body| !matches!(body, DdataBody::Deltas { .. });
    world.update(0, "a", set(b"x"), Local);
    world.run(5 * SECOND);
    assert!(world.peers[1].machine.get(&key("a")).is_none());
    let rejections = world.rejections(1);
    assert!(
        matches!(rejections[..], [Rejection::StampAhead { .. }]),
        "{rejections:?}"
    );
}

#[test]
fn markers_that_more_nodes_have_seen_than_a_value_may_name_are_refused() {
    let mut world = World::new(2, |_| {});
    let marked = |count: u64| {
        let mut envelope = DataEnvelope::new(value(increment(1), 2));
        for gone in [1_000_001, 1_000_002] {
            let seen = (0..count).map(|number| node("seen", 1_000 + number)).collect();
            let owner = node("n1", 2);
            let marker = Pruning::Initialized { owner, seen };
            envelope.pruning.insert(node("gone", gone), marker);
        }
        gossip("a", envelope)
    };
    say(&mut world, marked(10_001));
    let rejections = world.rejections(0);
    let [Rejection::TooManyContributors { nodes: 20_002, .. }] = rejections[..] else {
        panic!("{rejections:?}")
    };
    assert!(world.peers[0].machine.get(&key("a")).is_none());
}
