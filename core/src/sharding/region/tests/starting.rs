//! Entities that are remembered by a shard to which they do not belong any more: told to the home of the
//! right one until it has them, and forgotten only then.

use super::remembering::{config, id, lives, slot_of, write};
use super::*;
use crate::sharding::protocol::EntityStarts;
use crate::sharding::state::extractor::ShardExtractor;

const THERE: ShardId = ShardId(5);
pub(super) const RETRY: Duration = Duration::from_secs(2);

fn starts(from: ShardId, shard: ShardId, ids: &[&str]) -> EntityStarts {
    EntityStarts {
        kind: KindId::of("files"),
        from,
        shard,
        entities: ids.iter().map(|text| id(text)).collect(),
    }
}

pub(super) fn tells(to: UniqueAddress, ids: &[&str]) -> Effect {
    Effect::Send {
        to: SendTarget::Node(to),
        message: Message::Sharding(ShardingMsg::Start(starts(SHARD, THERE, ids))),
    }
}

fn confirms(to: UniqueAddress, ids: &[&str]) -> Effect {
    Effect::Send {
        to: SendTarget::Node(to),
        message: Message::Sharding(ShardingMsg::Started(starts(THERE, SHARD, ids))),
    }
}

/// What is said about starts.
pub(super) fn said(effects: &[Effect]) -> Vec<Effect> {
    let is_about_starts = |effect: &&Effect| {
        let Effect::Send { message, .. } = effect else {
            return false;
        };
        matches!(
            message,
            Message::Sharding(ShardingMsg::Start(_) | ShardingMsg::Started(_))
        )
    };
    effects.iter().filter(is_about_starts).cloned().collect()
}

/// Those that begin with an m belong to another shard.
pub(super) fn by_name() -> ShardExtractor {
    ShardExtractor::custom("by name", |entity, _| {
        if entity.as_bytes().starts_with(b"m") {
            THERE.0
        } else {
            SHARD.0
        }
    })
}

impl Rig {
    /// The extractor is another one than when these were stored: those that begin with an m belong to another
    /// shard.
    fn with_other_extractor(ids: &[&str]) -> Self {
        let mut rig = Self::remembering(config());
        rig.region.kind.settings.extractor = by_name();
        rig.load(ids);
        rig
    }

    pub(super) fn lives_at(&mut self, node: UniqueAddress) -> Vec<Effect> {
        let homes = vec![(node, vec![THERE])];
        self.act(|region, shared| region.on_shard_homes(shared, &a(), term(), homes))
    }

    pub(super) fn started(&mut self, ids: &[&str]) -> Vec<Effect> {
        let starts = starts(SHARD, THERE, ids);
        self.act(|region, shared| region.on_started(shared, &c(), starts))
    }

    fn start(&mut self, ids: &[&str]) -> Vec<Effect> {
        let starts = starts(THERE, SHARD, ids);
        self.act(|region, shared| region.on_start(shared, &c(), starts))
    }
}

#[test]
fn who_belongs_to_another_shard_by_now_is_moved_there_and_never_started_here() {
    let mut rig = Rig::with_other_extractor(&["moved", "stays"]);
    let effects = rig.wait(Duration::from_millis(1));
    assert_eq!(lives(&effects), ["start stays"]);
    let question = says(a(), ShardingBody::GetShardHome { shard: THERE });
    assert!(effects.contains(&question), "its shard has to run: {effects:?}");
    assert!(rig.wait(RETRY).contains(&question), "asked until there is a home");
    assert_eq!(said(&rig.lives_at(c())), [tells(c(), &["moved"])]);
    assert!(!rig.is_asked(), "nothing is forgotten");
    let effects = rig.started(&["moved"]);
    assert_eq!(rig.confirm().0, write(&[], &["moved"]), "only now");
    assert_eq!(said(&[effects, rig.wait(RETRY * 5)].concat()), []);
    assert_eq!(rig.started(&["moved"]), [], "said again");
}

#[test]
fn s_137_of_five_the_one_that_is_not_confirmed_is_told_every_retry_interval_until_it_is() {
    let all = ["m1", "m2", "m3", "m4", "m5"];
    let mut rig = Rig::with_other_extractor(&all);
    rig.wait(Duration::from_millis(1));
    assert_eq!(said(&rig.lives_at(c())), [tells(c(), &all)]);
    // The rest of the message that did not fit would follow at once; what was told is told again with it.
    assert_eq!(said(&rig.started(&all[..4])), [tells(c(), &all[4..])]);
    assert_eq!(rig.confirm().0, write(&[], &all[..4]));
    rig.wait(RETRY);
    for _ in 0..3 {
        assert_eq!(said(&rig.wait(RETRY)), [tells(c(), &all[4..])]);
    }
    assert_eq!(
        said(&rig.lives_at(a())),
        [tells(a(), &all[4..])],
        "at a new home at once"
    );
    rig.started(&all[4..]);
    assert_eq!(rig.confirm().0, write(&[], &all[4..]));
    assert_eq!(said(&rig.wait(RETRY * 5)), []);
}

#[test]
fn what_was_not_moved_when_the_shard_ends_is_remembered_as_it_is() {
    let mut rig = Rig::with_other_extractor(&["moved"]);
    rig.wait(Duration::from_millis(1));
    rig.lives_at(c());
    rig.act(|region, shared| region.on_hand_off(shared, &a(), term(), (SHARD, false)));
    assert_eq!(said(&rig.wait(RETRY * 3)), []);
    rig.started(&["moved"]);
    assert!(!rig.is_asked(), "its next home finds it, and tells again");
}

#[test]
fn who_is_to_be_started_for_another_is_stored_first_and_then_confirmed() {
    let mut rig = Rig::recalling(&["known"]);
    let effects = rig.start(&["known", "new"]);
    assert_eq!(said(&effects), [confirms(c(), &["known"])]);
    let (asked, effects) = rig.confirm();
    assert_eq!(asked, write(&["new"], &[]));
    assert_eq!(lives(&effects), ["start new"]);
    assert_eq!(said(&effects), [confirms(c(), &["new"])]);
    assert_eq!(
        said(&rig.start(&["new"])),
        [confirms(c(), &["new"])],
        "asked again"
    );
    assert!(!rig.is_asked());
}

#[test]
fn who_is_to_be_started_before_it_is_known_who_there_is_waits_for_that() {
    let mut rig = Rig::remembering(config());
    assert_eq!(rig.start(&["known", "new"]), []);
    assert_eq!(said(&rig.load(&["known"])), [confirms(c(), &["known"])]);
    assert_eq!(rig.confirm().0, write(&["new"], &[]));
}

#[test]
fn s_134_one_that_passivates_starts_again_and_is_confirmed_then() {
    let mut rig = Rig::recalling(&["e"]);
    let slot = slot_of(&rig.wait(Duration::from_millis(1)), "e");
    rig.passivates("e", slot);
    assert_eq!(rig.start(&["e"]), []);
    rig.stop(slot);
    assert_eq!(rig.confirm().0, write(&[], &["e"]));
    let (asked, effects) = rig.confirm();
    assert_eq!(asked, write(&["e"], &[]));
    assert_eq!(lives(&effects), ["start e"]);
    assert_eq!(said(&effects), [confirms(c(), &["e"])]);
}

#[test]
fn s_135_one_whose_stop_is_queued_is_alive_afterwards_and_confirmed() {
    let mut rig = Rig::recalling(&["e"]);
    let slot = slot_of(&rig.wait(Duration::from_millis(1)), "e");
    rig.send("other");
    let (asks, _) = rig.asked();
    rig.passivates("e", slot);
    rig.stop(slot);
    assert_eq!(rig.start(&["e"]), []);
    rig.answer(asks[0], super::remembering::ok());
    assert_eq!(rig.confirm().0, write(&[], &["e"]));
    let (asked, effects) = rig.confirm();
    assert_eq!(asked, write(&["e"], &[]));
    assert_eq!(said(&effects), [confirms(c(), &["e"])]);
}

#[test]
fn what_no_region_says_is_refused() {
    let mut rig = Rig::recalling(&[]);
    let long = "e".repeat(1_025);
    let [from, shard] = [THERE, SHARD];
    for bad in [
        starts(from, shard, &["e", &long]),
        starts(from, ShardId(9), &["e"]),
        starts(from, shard, &[""]),
    ] {
        let effects = rig.act(|region, shared| region.on_start(shared, &c(), bad));
        let [Effect::Notify(Event::Rejected { .. })] = &effects[..] else {
            panic!("{effects:?}");
        };
    }
    assert!(!rig.is_asked());
    rig.region.kind.settings.remember_entities = None;
    assert_eq!(rig.start(&["e"]).len(), 1);
}

#[test]
fn what_belongs_to_others_is_not_told_on_behalf_of_a_shard_that_failed() {
    let mut rig = Rig::with_other_extractor(&["moved", "stays"]);
    rig.wait(Duration::from_millis(1));
    rig.lives_at(c());
    rig.send("new");
    let effects = rig.wait(Duration::from_secs(5));
    assert!(effects.contains(&event(ShardingEvent::ShardFailed { shard: SHARD })));
    assert_eq!(said(&rig.wait(RETRY * 4)), [], "what it remembers is not known");
}
