//! Sloppy buckets: who stands in for owners that are away, and what becomes of what is kept for them.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use super::durable::durable;
use super::world::{World, carts, change, config, get, key, put, settings, values};
use crate::journal::state::StoreId;
use crate::kv::Cx;
use crate::kv::protocol::hints::{HintAsk, HintStatement, HintWanted};
use crate::kv::protocol::{BucketBody, Event, Msg};
use crate::kv::state::clock::VersionClock;
use crate::kv::state::configuration::{Configuration, Owners};
use crate::kv::state::entry::KvEntry;
use crate::kv::state::exchange::KvChange;
use crate::kv::state::level::Level;
use crate::kv::state::outcome::{CallAnswer, CallError, CallGoal};
use crate::kv::state::settings::BucketSettings;
use crate::kv::state::table::RangeId;
use crate::owner::Requester;
use crate::store::{Bytes, Change, StoreOrder};

const SECOND: Duration = Duration::from_secs(1);
const NODES: usize = 6;

fn sloppy() -> BucketSettings {
    BucketSettings {
        is_sloppy: true,
        ..settings()
    }
}

fn world_of(settings: &BucketSettings) -> World {
    let mut world = World::new(NODES);
    // What owners lack they are to get from hints.
    world.lose = |body| matches!(body, BucketBody::Trees(_));
    for index in 0..NODES {
        world.open_as(index, settings.clone());
    }
    world.run(SECOND * 5);
    // Each asks for the table once all stores are known.
    for index in 0..NODES {
        world.get(index, "warm");
    }
    for peer in &mut world.peers {
        peer.machine.buckets.get_mut(&carts()).unwrap().miss();
    }
    world.run(SECOND * 2);
    world
}

fn all(value: &str, context: VersionClock) -> CallGoal {
    CallGoal::Write {
        change: change(value),
        context,
        level: Level::All,
    }
}

fn range(name: &str) -> RangeId {
    settings().range_of(&key(name))
}

/// The nodes whose stores own a key, and the others.
fn parts(world: &World, name: &str) -> (Vec<usize>, Vec<usize>) {
    let owners = world.owners(0, range(name));
    let at = |store: &StoreId| (0..world.peers.len()).find(|index| world.store(*index) == *store);
    let owners: Vec<usize> = owners.iter().filter_map(at).collect();
    let others = (0..NODES).filter(|index| !owners.contains(index)).collect();
    (owners, others)
}

/// A key of which node 0, which coordinates, owns nothing.
fn name(world: &World) -> &'static str {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    let is_elsewhere = |name: &&&str| !parts(world, name).0.contains(&0);
    names.iter().find(is_elsewhere).expect("some key lies elsewhere")
}

fn lose(world: &mut World, index: usize) {
    lose_links(world, index);
    world.lose_sight_of(index);
}

fn heal(world: &mut World, index: usize) {
    world.cut.retain(|(from, to)| *from != index && *to != index);
    world.find_again(index);
}

fn hints(world: &World) -> Vec<usize> {
    let peers = world.peers.iter();
    let stores = peers.filter_map(|peer| peer.machine.bucket(&carts())?.store());
    stores.map(|store| store.hints()).collect()
}

fn held(world: &World, index: usize, name: &str) -> Vec<alloc::string::String> {
    let store = world.peers[index]
        .machine
        .bucket(&carts())
        .unwrap()
        .store()
        .unwrap();
    let (_, hosted) = store.ranges().find(|(of, _)| *of == range(name)).unwrap();
    let entry = hosted.entry(&key(name)).cloned().unwrap_or_default();
    values(&entry).into_iter().map(Into::into).collect()
}

fn counted(world: &mut World, of: impl Fn(&crate::kv::protocol::counters::Counters) -> u64) -> u64 {
    let peers = world.peers.iter_mut();
    peers.map(|peer| of(Cx::counters(&mut peer.fixture.cx()))).sum()
}

#[test]
fn a_stand_in_counts_for_an_owner_that_is_away_and_gives_it_what_it_kept() {
    let mut world = world_of(&sloppy());
    let name = name(&world);
    let (owners, _) = parts(&world, name);
    lose(&mut world, owners[1]);
    let written = world.call(0, name, all("1", VersionClock::new()));
    assert!(matches!(written, Ok(CallAnswer::Written(_))), "{written:?}");
    assert_eq!(hints(&world).iter().sum::<usize>(), 1);
    assert!(held(&world, owners[1], name).is_empty());
    heal(&mut world, owners[1]);
    world.run(SECOND / 10);
    assert_eq!(held(&world, owners[1], name), ["1"]);
    assert_eq!(hints(&world).iter().sum::<usize>(), 0);
    assert_eq!(counted(&mut world, |counters| counters.hints_kept), 1);
    assert_eq!(counted(&mut world, |counters| counters.hints_delivered), 1);
    assert!(world.peers.iter().all(|peer| peer.rejections == 0));
}

#[test]
fn gets_find_what_stand_ins_keep() {
    let mut world = world_of(&sloppy());
    let name = name(&world);
    let (owners, _) = parts(&world, name);
    lose(&mut world, owners[1]);
    world.call(0, name, all("1", VersionClock::new())).unwrap();
    lose(&mut world, owners[0]);
    lose(&mut world, owners[2]);
    assert_eq!(values(&world.get(0, name)), ["1"], "no owner can be reached");
    for owner in &owners {
        heal(&mut world, *owner);
    }
    world.run(SECOND);
    for owner in owners {
        assert_eq!(held(&world, owner, name), ["1"]);
    }
    assert_eq!(hints(&world).iter().sum::<usize>(), 0);
}

#[test]
fn nobody_stands_in_in_a_strict_bucket() {
    let mut world = world_of(&settings());
    let name = name(&world);
    let (owners, _) = parts(&world, name);
    lose(&mut world, owners[1]);
    let written = world.call(0, name, all("1", VersionClock::new()));
    assert_eq!(written, Err(CallError::Timeout { acknowledged: 2 }));
    lose(&mut world, owners[2]);
    assert!(matches!(
        world.call(0, name, get()),
        Err(CallError::Timeout { .. })
    ));
    assert_eq!(counted(&mut world, |counters| counters.hints_kept), 0);
}

#[test]
fn nobody_stands_in_for_who_makes_a_version_or_decides() {
    let mut world = world_of(&sloppy());
    let name = name(&world);
    let (owners, _) = parts(&world, name);
    lose(&mut world, owners[1]);
    lose(&mut world, owners[2]);
    let condition = CallGoal::Conditional {
        expected: None,
        change: change("1"),
    };
    let decided = world.call(0, name, condition);
    assert!(matches!(decided, Err(CallError::Timeout { .. })), "{decided:?}");
    lose(&mut world, owners[0]);
    let written = world.call(0, name, put("1", VersionClock::new()));
    assert!(matches!(written, Err(CallError::Timeout { .. })), "{written:?}");
    assert_eq!(counted(&mut world, |counters| counters.hints_kept), 0);
}

#[test]
fn what_was_deleted_and_forgotten_does_not_come_back_with_a_hint() {
    let mut world = world_of(&sloppy());
    let name = name(&world);
    let (owners, others) = parts(&world, name);
    lose(&mut world, owners[1]);
    let Ok(CallAnswer::Written(clock)) = world.call(0, name, all("1", VersionClock::new())) else {
        panic!("somebody stands in")
    };
    let keeper = hints(&world).iter().position(|hints| *hints == 1).unwrap();
    // The owner is back, and who has its hint is not heard by it.
    lose(&mut world, keeper);
    let is_cut = |(from, to): &(usize, usize)| {
        let is_there = *from == owners[1] || *to == owners[1];
        !is_there || *from == keeper || *to == keeper
    };
    world.cut.retain(is_cut);
    world.find_again(owners[1]);
    let delete = CallGoal::Write {
        change: KvChange::Delete,
        context: clock,
        level: Level::All,
    };
    let caller = *others.iter().find(|index| **index != keeper).unwrap();
    world.call(caller, name, delete).unwrap();
    world.lose = |_| false;
    world.run(SECOND * 100);
    for owner in &owners {
        let bucket = world.peers[*owner].machine.bucket(&carts()).unwrap();
        let (_, hosted) = bucket
            .store()
            .unwrap()
            .ranges()
            .find(|(of, _)| *of == range(name))
            .unwrap();
        assert_eq!(hosted.entry(&key(name)), None, "all have forgotten it");
    }
    heal(&mut world, keeper);
    world.run(SECOND * 5);
    assert!(values(&world.get(0, name)).is_empty(), "it came back");
    assert_eq!(counted(&mut world, |counters| counters.hints_expired), 1);
}

fn lose_links(world: &mut World, index: usize) {
    for other in 0..world.peers.len() {
        world.cut.extend([(index, other), (other, index)]);
    }
}

#[test]
fn a_get_makes_no_hint_younger() {
    let mut world = world_of(&sloppy());
    let name = name(&world);
    let (owners, _) = parts(&world, name);
    lose(&mut world, owners[1]);
    world.call(0, name, all("1", VersionClock::new())).unwrap();
    lose(&mut world, owners[0]);
    lose(&mut world, owners[2]);
    // Half of the grace, which is 30 s.
    for _ in 0..7 {
        assert_eq!(values(&world.get(0, name)), ["1"]);
        world.run(SECOND * 2);
    }
    world.run(SECOND * 2);
    assert!(values(&world.get(0, name)).is_empty());
    assert_eq!(hints(&world).iter().sum::<usize>(), 0);
}

#[test]
fn present_owners_get_what_was_kept_for_one_that_owns_the_range_no_more() {
    let mut world = world_of(&sloppy());
    let name = name(&world);
    let (owners, _) = parts(&world, name);
    let gone = world.store(owners[1]);
    lose(&mut world, owners[1]);
    world.call(0, name, all("1", VersionClock::new())).unwrap();
    world.kill(owners[1]);
    world.remove(owners[1]);
    world.run(SECOND * 13);
    let present = world.owners(0, range(name));
    assert!(!present.contains(&gone), "another one has taken its place");
    assert_eq!(hints(&world).iter().sum::<usize>(), 0);
    assert_eq!(counted(&mut world, |counters| counters.hints_delivered), 1);
    for owner in present {
        let index = (0..NODES).find(|index| world.store(*index) == owner).unwrap();
        assert_eq!(held(&world, index, name), ["1"]);
    }
}

#[test]
fn hints_of_a_durable_bucket_outlive_their_process() {
    let settings = BucketSettings {
        is_sloppy: true,
        ..durable()
    };
    let mut world = world_of(&settings);
    let name = name(&world);
    let (owners, _) = parts(&world, name);
    lose(&mut world, owners[1]);
    world.call(0, name, all("1", VersionClock::new())).unwrap();
    let keeper = hints(&world).iter().position(|hints| *hints == 1).unwrap();
    world.kill(keeper);
    world.remove(keeper);
    let again = world.restart(keeper);
    world.see();
    world.open_as(again, settings.clone());
    world.run(SECOND * 3);
    assert_eq!(hints(&world)[again], 1);
    for other in 0..world.peers.len() {
        world.cut.extend([(owners[1], other), (other, owners[1])]);
    }
    heal(&mut world, owners[1]);
    world.run(SECOND * 3);
    assert_eq!(held(&world, owners[1], name), ["1"]);
    world.run(SECOND);
    assert_eq!(hints(&world)[again], 0);
    // Nothing of it is on the disk any more.
    world.kill(again);
    world.remove(again);
    let third = world.restart(again);
    world.see();
    world.open_as(third, settings);
    world.run(SECOND * 3);
    assert_eq!(hints(&world)[third], 0);
}

#[test]
fn a_damaged_hint_is_damage_of_the_store() {
    let settings = BucketSettings {
        is_sloppy: true,
        ..durable()
    };
    let mut world = world_of(&settings);
    world.kill(3);
    world.remove(3);
    let again = world.restart(3);
    let damaged = Change::Put {
        key: crate::kv::layout::hint_key(&carts(), StoreId(7), &key("a")),
        value: Bytes::from(&b"\x01\x02"[..]),
    };
    let batch = [damaged].into();
    let write = StoreOrder::Write { batch };
    world.peers[again]
        .store
        .obey(Requester::Kv.space(), &write)
        .unwrap();
    world.see();
    world.open_as(again, settings);
    world.run(SECOND * 3);
    assert!(world.peers[again].events.contains(&Event::StoreDamaged));
}

#[test]
fn a_stand_in_without_room_refuses_and_does_not_count() {
    let mut config = config();
    config.kv.store_bytes_max = 16 * 20;
    let mut world = World::with_config(NODES, config);
    for index in 0..NODES {
        world.open_as(index, sloppy());
    }
    world.run(SECOND * 7);
    let name = name(&world);
    let (owners, _) = parts(&world, name);
    lose(&mut world, owners[1]);
    let written = world.call(0, name, all("more than there is room for", VersionClock::new()));
    assert_eq!(written, Err(CallError::Timeout { acknowledged: 2 }));
    assert!(counted(&mut world, |counters| counters.hints_refused) > 0);
    assert_eq!(hints(&world).iter().sum::<usize>(), 0);
}

#[test]
fn who_leaves_gives_its_hints_to_owners_that_are_there() {
    let mut world = world_of(&sloppy());
    let name = name(&world);
    let (owners, _) = parts(&world, name);
    lose(&mut world, owners[1]);
    world.call(0, name, all("1", VersionClock::new())).unwrap();
    let keeper = hints(&world).iter().position(|hints| *hints == 1).unwrap();
    world.with(keeper, |machine, cx| machine.on_drain_requested(cx));
    world.run(SECOND);
    assert_eq!(hints(&world)[keeper], 0);
}

/// Has node 0 ask a store that stands in; whether that was wrong.
fn ask(world: &mut World, to: usize, change: impl FnOnce(&mut HintAsk)) -> bool {
    let name = "a";
    let owners = world.owners(0, range(name));
    let owner = owners[0];
    let owners = Owners::Stable(owners);
    let mut asked = HintAsk {
        store: world.store(to),
        owner,
        range: range(name),
        configuration: Configuration { epoch: 1, owners },
        key: key(name),
        call: 1 << 40,
        step: 1,
        wanted: HintWanted::Keep {
            entry: KvEntry::default(),
            age_ms: 0,
        },
    };
    change(&mut asked);
    let from = world.peers[0].fixture.me.clone();
    let msg = Msg {
        to_uid: world.peers[to].fixture.me.uid(),
        bucket: carts(),
        body: BucketBody::Hint(Box::new(HintStatement::Ask(asked))),
    };
    let before = world.peers[to].rejections;
    world.with(to, |machine, cx| machine.on_message(cx, &from, msg));
    world.run(SECOND / 10);
    world.peers[to].rejections > before
}

#[test]
fn b_62_what_nobody_may_ask_of_a_stand_in_is_rejected() {
    let mut world = world_of(&sloppy());
    let (owners, others) = parts(&world, "a");
    let other = *others.last().unwrap();
    let stranger = StoreId(12_345);
    assert!(!ask(&mut world, other, |_| {}));
    assert!(ask(&mut world, other, |asked| asked.owner = stranger), "no owner");
    assert!(ask(&mut world, owners[0], |_| {}), "an owner itself");
    assert!(
        ask(&mut world, other, |asked| asked.range = RangeId(8)),
        "no range"
    );
    assert!(ask(&mut world, other, |asked| asked.key = key("elsewhere")));
    let refused = counted(&mut world, |counters| counters.hints_refused);
    assert!(
        !ask(&mut world, other, |asked| asked.configuration.epoch = 1 << 40),
        "far ahead"
    );
    assert!(
        !ask(&mut world, other, |asked| {
            let age_ms = 15_000;
            let entry = KvEntry::default();
            asked.wanted = HintWanted::Keep { entry, age_ms };
        }),
        "too old"
    );
    assert_eq!(
        counted(&mut world, |counters| counters.hints_refused),
        refused + 2
    );
    assert_eq!(hints(&world).iter().sum::<usize>(), 0);
    let mut world = world_of(&settings());
    let (_, others) = parts(&world, "a");
    assert!(ask(&mut world, others[0], |_| {}), "a strict bucket");
}
