//! What subscribers hear of changes: each that was acknowledged, or that some may have been missed.

use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use super::world::{World, carts, change, key};
use crate::ddata::state::key::{Key, Pattern};
use crate::effect::{Answer as AnyAnswer, CommandError};
use crate::kv::protocol::ranges::RangeCommand;
use crate::kv::protocol::watching::{NoticeStatement, WatchNews};
use crate::kv::protocol::{BucketBody, Command, Event, KvCommandError, Msg};
use crate::kv::state::exchange::KvChange;
use crate::kv::state::level::Level;
use crate::kv::state::outcome::CallGoal;

const SECOND: Duration = Duration::from_secs(1);

impl World {
    fn watch(&mut self, index: usize, pattern: Pattern) -> u64 {
        let bucket = carts();
        let watch = self.command(index, Command::Watch { bucket, pattern });
        self.run(SECOND);
        watch
    }

    /// What a subscriber has heard since this was asked last.
    fn heard(&mut self, index: usize, watch: u64) -> Vec<WatchNews> {
        let mut heard = Vec::new();
        self.peers[index].events.retain(|event| match event {
            Event::Watched { watch: of, news } if *of == watch => {
                heard.push(news.clone());
                false
            }
            _ => true,
        });
        heard
    }

    /// The keys of which it has heard, each once.
    fn changed(&mut self, index: usize, watch: u64) -> Vec<Key> {
        let mut keys = Vec::new();
        for news in self.heard(index, watch) {
            let WatchNews::Changed(changed) = news else {
                panic!("unexpected {news:?}")
            };
            keys.extend(changed);
        }
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

fn prefix(text: &str) -> Pattern {
    Pattern::Prefix(text.into())
}

fn of(name: &str) -> Pattern {
    Pattern::Key(key(name))
}

#[test]
fn changes_are_heard_by_key_and_by_prefix_from_any_member() {
    let mut world = World::new(5);
    world.open(0..5);
    let one = world.watch(4, of("a 1"));
    let some = world.watch(3, prefix("a "));
    assert_eq!(world.heard(4, one), [WatchNews::Lagged], "it is in place");
    assert_eq!(world.heard(3, some), [WatchNews::Lagged]);
    for name in ["a 1", "a 2", "b 1"] {
        world.put(0, name, "1");
    }
    world.run(SECOND);
    assert_eq!(world.changed(4, one), [key("a 1")]);
    assert_eq!(world.changed(3, some), [key("a 1"), key("a 2")]);
    let decide = CallGoal::Conditional {
        expected: None,
        change: change("1"),
    };
    world.call(1, "a 3", decide).unwrap();
    let context = world.get(0, "a 1").siblings.clock().clone();
    world.run(SECOND * 12);
    world.heard(4, one);
    world.heard(3, some);
    let delete = CallGoal::Write {
        change: KvChange::Delete,
        context,
        level: Level::Quorum,
    };
    world.call(2, "a 1", delete).unwrap();
    world.run(SECOND);
    assert_eq!(world.changed(4, one), [key("a 1")], "its end is a change");
    // Reading changes nothing.
    world.run(SECOND * 2);
    world.get(3, "a 2");
    world.run(SECOND);
    assert_eq!(world.changed(3, some), [key("a 1")]);
    assert!(world.peers.iter().all(|peer| peer.rejections == 0));
}

#[test]
fn who_listens_no_more_is_told_nothing_and_is_forgotten() {
    let mut world = World::new(3);
    world.open(0..3);
    let ends = world.watch(0, prefix(""));
    let dies = world.watch(2, prefix(""));
    world.heard(0, ends);
    world.command(0, Command::Unwatch { watch: ends });
    world.put(1, "a", "1");
    world.run(SECOND);
    assert_eq!(world.heard(0, ends), []);
    assert!(world.heard(2, dies).len() > 1);
    world.kill(2);
    let has_watchers = |world: &World| {
        let open = world.peers[0].machine.bucket(&carts()).unwrap();
        open.store().unwrap().has_watchers()
    };
    assert!(has_watchers(&world));
    world.run(SECOND * 30);
    assert!(!has_watchers(&world), "it does not say so again");
}

#[test]
fn a_notice_that_is_lost_shows_later() {
    let mut world = World::new(4);
    world.open(0..4);
    let watch = world.watch(3, prefix(""));
    assert_eq!(world.heard(3, watch), [WatchNews::Lagged]);
    world.lose = |body| matches!(body, BucketBody::Notice(_));
    for number in 0..9 {
        world.put(0, &format!("{number}"), "1");
    }
    world.lose = |_| false;
    world.heard(3, watch);
    world.run(SECOND * 7);
    assert!(world.heard(3, watch).contains(&WatchNews::Lagged));
    world.run(SECOND * 7);
    assert_eq!(world.heard(3, watch), [], "and once");
}

#[test]
fn a_move_of_a_range_is_a_mark_and_changes_are_heard_from_who_owns_it_then() {
    let mut world = World::new(5);
    world.open(0..5);
    let name = "a";
    let range = world.peers[0]
        .machine
        .bucket(&carts())
        .unwrap()
        .settings()
        .range_of(&key(name));
    let others = |world: &World| {
        let owners = world.owners(0, range);
        (0..5)
            .find(|index| !owners.contains(&world.store(*index)))
            .unwrap()
    };
    let listener = others(&world);
    let watch = world.watch(listener, of(name));
    assert_eq!(world.heard(listener, watch), [WatchNews::Lagged]);
    // All owners are replaced by turns, so that nobody is left who was asked at first.
    for _ in 0..4 {
        let from = world.owners(0, range)[0];
        let to = world.store(others(&world));
        world
            .command_ranges(0, RangeCommand::Move { range, from, to })
            .unwrap();
        world.run(SECOND * 10);
        assert!(world.owners(0, range).contains(&to));
        assert!(world.heard(listener, watch).contains(&WatchNews::Lagged));
        world.put(0, name, "1");
        world.run(SECOND);
        assert!(world.changed(listener, watch).contains(&key(name)));
    }
}

#[test]
fn more_than_there_may_be_are_refused() {
    let mut world = World::new(3);
    let refused = |error: KvCommandError| AnyAnswer::Refused(CommandError::Kv(error));
    let bucket = carts();
    let pattern = prefix("");
    let early = world.command(0, Command::Watch { bucket, pattern });
    assert_eq!(world.peers[0].answers[&early], refused(KvCommandError::NotOpen));
    world.open(0..3);
    let watches: Vec<u64> = (0..crate::kv::watching::WATCHES_MAX)
        .map(|_| {
            let (bucket, pattern) = (carts(), of("a"));
            world.command(0, Command::Watch { bucket, pattern })
        })
        .collect();
    world.run(SECOND);
    assert!(
        watches
            .iter()
            .all(|watch| world.heard(0, *watch) == [WatchNews::Lagged])
    );
    let (bucket, pattern) = (carts(), of("a"));
    let one_more = world.command(0, Command::Watch { bucket, pattern });
    assert_eq!(
        world.peers[0].answers[&one_more],
        refused(KvCommandError::TooManyCalls)
    );
    // The owners have no place for another node's either.
    let other = world.watch(1, of("a"));
    assert_eq!(world.heard(1, other), [WatchNews::Refused]);
    world.command(0, Command::Unwatch { watch: watches[0] });
    world.run(SECOND);
    let other = world.watch(1, of("a"));
    assert_eq!(world.heard(1, other), [WatchNews::Lagged]);
}

#[test]
fn what_nobody_wanted_to_hear_is_refused() {
    let mut world = World::new(3);
    world.open(0..3);
    let watch = world.watch(0, of("a"));
    let (store, from) = (world.store(1), world.peers[1].fixture.me.clone());
    let notice = |watch, keys| Msg {
        to_uid: 1,
        bucket: carts(),
        body: BucketBody::Notice(NoticeStatement::Changed {
            store,
            watch,
            session: u64::MAX,
            number: u64::MAX,
            keys,
        }),
    };
    let uid = world.peers[0].fixture.me.uid();
    let say = |world: &mut World, message: Msg| {
        let message = Msg {
            to_uid: uid,
            ..message
        };
        world.with(0, |machine, cx| machine.on_message(cx, &from, message));
    };
    say(&mut world, notice(watch, [key("b")].into()));
    assert_eq!(world.peers[0].rejections, 1);
    say(&mut world, notice(watch + 9, [key("a")].into()));
    assert_eq!(world.peers[0].rejections, 1);
    // Numbers that no owner has come to are a gap, and the next true one is another.
    world.heard(0, watch);
    say(&mut world, notice(watch, [key("a")].into()));
    let changed = WatchNews::Changed([key("a")].into());
    assert_eq!(world.heard(0, watch), [WatchNews::Lagged, changed]);
    world.run(SECOND * 7);
    assert!(world.heard(0, watch).contains(&WatchNews::Lagged));
}
