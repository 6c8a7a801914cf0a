//! Which keys callers are told of: from any member, while owners differ, are away, or change.

use alloc::vec::Vec;
use alloc::{format, vec};
use core::time::Duration;

use super::world::{World, carts, change, key, settings};
use crate::ddata::state::key::Key;
use crate::effect::{Answer as AnyAnswer, CommandError};
use crate::journal::state::StoreId;
use crate::kv::protocol::listing::{ListAnswer, OwnerListed};
use crate::kv::protocol::ranges::{RangeCommand, RangeCommandError};
use crate::kv::protocol::{Answer, BucketBody, Command, KvCommandError, Msg};
use crate::kv::state::clock::VersionClock;
use crate::kv::state::exchange::{KvAsk, KvChange};
use crate::kv::state::level::{Level, LevelError};
use crate::kv::state::listed::{KeyPage, KeysWanted, ListedKey, ListedPart, PageWanted};
use crate::kv::state::outcome::{CallError, CallGoal};
use crate::kv::state::settings::range_of;
use crate::kv::state::table::RangeId;

const SECOND: Duration = Duration::from_secs(1);
const RANGES: u16 = 8;

fn wanted(range: u16, prefix: &str, after: Option<Key>, keys_max: u16) -> PageWanted {
    PageWanted {
        range: RangeId(range),
        keys: KeysWanted {
            prefix: prefix.into(),
            after,
            keys_max,
        },
        level: Level::Quorum,
    }
}

impl World {
    fn begin_list(&mut self, index: usize, wanted: PageWanted) -> u64 {
        let command = Command::List {
            bucket: carts(),
            wanted,
            timeout: SECOND * 10,
        };
        self.command(index, command)
    }

    fn listed(&self, index: usize, token: u64) -> Option<Result<KeyPage, CallError>> {
        match self.peers[index].answers.get(&token)? {
            AnyAnswer::Kv(Answer::Listed(result)) => Some(result.clone()),
            other => panic!("unexpected {other:?}"),
        }
    }

    fn list(&mut self, index: usize, wanted: PageWanted) -> Result<KeyPage, CallError> {
        let token = self.begin_list(index, wanted);
        let until = self.now() + SECOND * 11;
        while self.now() < until {
            if let Some(result) = self.listed(index, token) {
                return result;
            }
            self.run(Duration::from_millis(5));
        }
        panic!("a page without an answer")
    }

    /// All keys, by pages of this size, in their order.
    fn all_keys(&mut self, index: usize, prefix: &str, keys_max: u16) -> Vec<Key> {
        let mut all = Vec::new();
        for range in 0..RANGES {
            let mut after = None;
            loop {
                let page = self.list(index, wanted(range, prefix, after, keys_max)).unwrap();
                assert!(page.keys.len() <= usize::from(keys_max) && page.keys.is_sorted());
                all.extend(page.keys);
                match page.next {
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
        }
        all.sort_unstable();
        all
    }

    fn delete(&mut self, index: usize, name: &str) {
        let context = self.get(index, name).siblings.clock().clone();
        let change = KvChange::Delete;
        let level = Level::Quorum;
        let goal = CallGoal::Write {
            change,
            context,
            level,
        };
        self.call(index, name, goal).unwrap();
    }
}

fn keys(names: &[&str]) -> Vec<Key> {
    names.iter().map(|name| key(name)).collect()
}

fn many() -> Vec<Key> {
    (10..90).map(|number| key(&format!("k{number}"))).collect()
}

fn filled(count: usize) -> World {
    let mut world = World::new(count);
    world.open(0..count);
    for name in many() {
        world.put(0, name.as_str(), "1");
    }
    world
}

#[test]
fn all_keys_are_listed_once_by_pages_from_any_member() {
    let mut world = filled(5);
    for (index, keys_max) in [(0, 1_024), (4, 3), (2, 1)] {
        assert_eq!(world.all_keys(index, "", keys_max), many());
    }
    let some: Vec<Key> = many().into_iter().filter(|key| key.as_str() < "k4").collect();
    let some: Vec<Key> = some.into_iter().filter(|key| key.as_str() >= "k3").collect();
    assert_eq!(world.all_keys(1, "k3", 2), some);
    assert_eq!(world.all_keys(1, "x", 2), vec![]);
    // What is behind a key that is before all that begin so is all of them.
    let mut behind = Vec::new();
    for range in 0..RANGES {
        let page = world.list(3, wanted(range, "k3", Some(key("a")), 99)).unwrap();
        behind.extend(page.keys);
    }
    behind.sort_unstable();
    assert_eq!(behind, some);
    assert!(world.peers.iter().all(|peer| peer.rejections == 0));
}

#[test]
fn what_was_deleted_or_has_ended_is_not_listed_and_what_turns_decided_is() {
    let mut world = World::new(3);
    world.open(0..3);
    for name in ["a", "b"] {
        world.put(0, name, "1");
    }
    world.delete(1, "a");
    let write = |ttl_ms| CallGoal::Write {
        change: KvChange::Put {
            bytes: [1_u8].as_slice().into(),
            ttl_ms,
        },
        context: VersionClock::new(),
        level: Level::Quorum,
    };
    world.call(2, "c", write(Some(2_000))).unwrap();
    let decide = |change| CallGoal::Conditional {
        expected: None,
        change,
    };
    world.call(2, "d", decide(change("1"))).unwrap();
    world.call(2, "e", decide(KvChange::Delete)).unwrap();
    assert_eq!(world.all_keys(0, "", 9), keys(&["b", "c", "d"]));
    world.run(SECOND * 3);
    assert_eq!(world.all_keys(0, "", 9), keys(&["b", "d"]));
}

#[test]
fn a_deletion_that_one_owner_missed_is_heeded_and_repaired() {
    let mut world = World::new(3);
    world.open(0..3);
    world.put(0, "a", "1");
    world.run(SECOND);
    world.lose = |body| matches!(body, BucketBody::Ask(asked) if matches!(asked.ask, KvAsk::Merge(_)));
    let context = world.get(0, "a").siblings.clock().clone();
    let delete = CallGoal::Write {
        change: KvChange::Delete,
        context,
        level: Level::One,
    };
    world.call(0, "a", delete).unwrap();
    // The caller's own store made the deletion; what was to go to the others was lost, and is not repeated.
    world.run(SECOND * 11);
    world.lose = |_| false;
    assert_eq!(world.all_keys(0, "", 9), vec![]);
    world.run(SECOND);
    assert_eq!(world.all_keys(1, "", 9), vec![], "repaired by the read");
}

#[test]
fn a_listing_goes_on_while_its_range_moves() {
    let mut world = filled(4);
    let owned = |world: &World, range| world.owners(0, range);
    let stores: Vec<StoreId> = (0..4).map(|index| world.store(index)).collect();
    let mut all = Vec::new();
    for range in (0..RANGES).map(RangeId) {
        let first = world.list(3, wanted(range.0, "", None, 2)).unwrap();
        all.extend(first.keys);
        let owners = owned(&world, range);
        let to = *stores.iter().find(|store| !owners.contains(store)).unwrap();
        let from = owners[0];
        world
            .command_ranges(0, RangeCommand::Move { range, from, to })
            .unwrap();
        let mut after = first.next;
        while let Some(key) = after {
            let page = world.list(3, wanted(range.0, "", Some(key), 2)).unwrap();
            all.extend(page.keys);
            after = page.next;
        }
        world.run(SECOND * 5);
        assert!(owned(&world, range).contains(&to), "it has moved");
    }
    all.sort_unstable();
    assert_eq!(all, many());
}

#[test]
fn a_page_waits_for_enough_owners_and_says_how_many_it_heard() {
    let mut world = filled(3);
    for index in [1, 2] {
        world.kill(index);
    }
    let late = world.list(0, wanted(0, "", None, 9));
    assert_eq!(late, Err(CallError::Timeout { acknowledged: 1 }));
    let one = PageWanted {
        level: Level::One,
        ..wanted(0, "", None, 9)
    };
    assert!(world.list(0, one).is_ok());
    let level = Level::Replicas(4);
    let never = PageWanted {
        level,
        ..wanted(0, "", None, 9)
    };
    let error = LevelError { copies: 3, found: 4 };
    assert_eq!(world.list(0, never), Err(CallError::Level(error)));
}

#[test]
fn what_cannot_be_listed_is_refused_and_a_page_waits_for_the_bucket() {
    let mut world = World::new(3);
    let refused = |world: &World, token| match world.peers[0].answers.get(&token) {
        Some(AnyAnswer::Refused(CommandError::Kv(error))) => error.clone(),
        other => panic!("unexpected {other:?}"),
    };
    let early = world.begin_list(0, wanted(0, "", None, 9));
    assert_eq!(refused(&world, early), KvCommandError::NotOpen);
    for index in 0..3 {
        world.open_as(index, settings());
    }
    let beyond = world.begin_list(0, wanted(RANGES, "", None, 9));
    assert_eq!(refused(&world, beyond), RangeCommandError::NoRange.into());
    let waiting: Vec<u64> = (0..crate::kv::listing::PAGES_OPEN_MAX)
        .map(|_| world.begin_list(0, wanted(0, "", None, 9)))
        .collect();
    let one_more = world.begin_list(0, wanted(0, "", None, 9));
    assert_eq!(refused(&world, one_more), KvCommandError::TooManyCalls);
    world.run(SECOND * 5);
    for token in waiting {
        assert_eq!(world.listed(0, token), Some(Ok(KeyPage::default())));
    }
    let open = world.begin_list(0, wanted(0, "", None, 9));
    world.with(0, |machine, cx| machine.halt(cx));
    // Its own store has answered.
    let ended = Err(CallError::Timeout { acknowledged: 1 });
    assert_eq!(world.listed(0, open), Some(ended));
}

#[test]
fn keys_that_no_honest_owner_names_are_refused() {
    let mut world = filled(3);
    world.lose = |body| matches!(body, BucketBody::List(_));
    let token = world.begin_list(0, wanted(0, "k", None, 2));
    let mut number = 0;
    world.with(0, |machine, _| number = machine.calls.draw_number() - 1);
    let store = world.store(1);
    let from = world.peers[1].fixture.me.clone();
    let is_here = |key: &Key| range_of(key, RANGES) == RangeId(0);
    let here: Vec<Key> = many().into_iter().filter(is_here).collect();
    let elsewhere = many().into_iter().find(|key| !here.contains(key)).unwrap();
    let part = |keys: &[&Key], is_last| {
        let listed = |key: &&Key| ListedKey {
            key: (*key).clone(),
            digest: 1,
            is_alive: true,
            is_decided: false,
        };
        let keys = keys.iter().map(listed).collect();
        OwnerListed::Part(ListedPart { keys, is_last })
    };
    let lies = [
        part(&[&here[1], &here[0]], true),
        part(&[&here[0], &here[1], &here[2]], true),
        part(&[], false),
        part(&[&elsewhere], true),
        part(&[&key("other")], true),
    ];
    for (told, said) in (1..).zip(lies) {
        let answer = ListAnswer {
            store,
            listing: number,
            range: RangeId(0),
            epoch: 1,
            said,
        };
        let message = Msg {
            to_uid: world.peers[0].fixture.me.uid(),
            bucket: carts(),
            body: BucketBody::Listed(alloc::boxed::Box::new(answer)),
        };
        world.with(0, |machine, cx| machine.on_message(cx, &from, message));
        assert_eq!(world.peers[0].rejections, told);
    }
    assert_eq!(world.listed(0, token), None);
    world.lose = |_| false;
    world.run(SECOND);
    assert_eq!(world.listed(0, token).unwrap().unwrap().keys, here[..2]);
}
