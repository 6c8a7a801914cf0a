//! What hosts a kind, asked of every node that may: who answers, who is named as silent, and what is not
//! believed.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use super::world::*;
use super::*;
use crate::effect::{Answer, CommandError, ShardingAnswer, ShardingCommandError};
use crate::input::ShardingCommand;
use crate::message::{Message, ShardingMsg};
use crate::sharding::protocol::survey::{
    DECISIONS_MAX, EntityListing, EntityPage, EntityPosition, Explained, RegionCounts, ShardDecision, Survey,
    SurveyMsg,
};

fn survey(world: &mut World, at: usize, timeout: Duration) {
    world.with(at, |peer| {
        peer.registered.clear();
        let kind = kind();
        let command = ShardingCommand::Survey { kind, timeout };
        peer.sharding.on_command(&mut peer.fixture.cx(), 900, command);
    });
    world.run_for(Duration::ZERO);
}

fn found(world: &mut World, at: usize) -> Survey {
    match world.peers[at].registered.pop() {
        Some(Answer::Sharding(ShardingAnswer::Surveyed(survey))) => survey,
        other => panic!("{other:?}"),
    }
}

fn entities(survey: &Survey, at: usize) -> Option<(u32, u64)> {
    let counts = survey.regions.get(&address(at))?.as_ref()?;
    let sum: u64 = counts
        .shards
        .iter()
        .map(|(_, entities)| u64::from(*entities))
        .sum();
    assert_eq!(
        (counts.shards.len() as u32, sum),
        (counts.shards_total, counts.entities_total)
    );
    Some((counts.shards_total, counts.entities_total))
}

#[test]
fn everybody_who_may_host_is_asked_and_a_proxy_asks_as_well() {
    let mut world = World::formed(3, 1);
    world.touch_all(0);
    survey(&mut world, 3, secs(3));
    let survey = found(&mut world, 3);
    assert_eq!(survey.silent, []);
    let hosted: Vec<_> = (0..3).map(|at| entities(&survey, at)).collect();
    assert_eq!(hosted, vec![Some((4, 4)); 3]);
    assert_eq!(entities(&survey, 3), Some((0, 0)), "the proxy itself");
}

#[test]
fn who_does_not_answer_in_time_is_named_and_a_late_answer_changes_nothing() {
    let mut world = World::formed(3, 0);
    world.touch_all(0);
    world.cut.insert((0, 2));
    survey(&mut world, 0, secs(3));
    assert_eq!(world.peers[0].registered.len(), 0, "it waits");
    world.run_for(secs(3));
    let survey = found(&mut world, 0);
    assert_eq!(survey.silent, [address(2)]);
    assert_eq!((survey.regions.len(), entities(&survey, 1)), (2, Some((4, 4))));
    let late = SurveyMsg::Counts {
        id: 1,
        region: None,
        more: false,
    };
    world.deliver(2, 0, Message::Sharding(ShardingMsg::Survey(late)));
    assert_eq!(world.peers[0].registered.len(), 0);
}

#[test]
fn who_is_removed_meanwhile_is_not_waited_for() {
    let mut world = World::formed(3, 0);
    world.touch_all(0);
    world.crash(&[2]);
    survey(&mut world, 0, secs(3));
    world.remove(&[2]);
    let survey = found(&mut world, 0);
    assert_eq!((survey.silent, survey.regions.len()), (Vec::new(), 2));
}

#[test]
fn answers_of_those_who_were_not_asked_and_shards_that_cannot_be_are_not_believed() {
    let mut world = World::formed(2, 1);
    world.cut.insert((0, 1));
    survey(&mut world, 0, secs(3));
    let say = |from: usize, shard: u32| {
        let region = Some(RegionCounts {
            shards: vec![(ShardId(shard), 1)],
            shards_total: 1,
            entities_total: 1,
        });
        (
            from,
            Message::Sharding(ShardingMsg::Survey(SurveyMsg::Counts {
                id: 1,
                region,
                more: false,
            })),
        )
    };
    let (from, stranger) = say(2, 1);
    world.deliver(from, 0, stranger);
    assert_eq!(world.peers[0].registered.len(), 0);
    let (from, impossible) = say(1, SHARDS);
    world.deliver(from, 0, impossible);
    assert_eq!(entities(&found(&mut world, 0), 1), None);
}

#[test]
fn there_are_no_more_surveys_than_there_may_be_and_a_node_that_ends_answers_them() {
    let mut world = World::formed(2, 0);
    world.cut.insert((0, 1));
    for _ in 0..16 {
        survey(&mut world, 0, secs(3));
    }
    survey(&mut world, 0, secs(3));
    let many = CommandError::Sharding(ShardingCommandError::TooManySurveys);
    assert_eq!(world.peers[0].registered, [Answer::Refused(many)]);
    world.peers[0].registered.clear();
    world.with(0, |peer| peer.sharding.halt(&mut peer.fixture.cx()));
    assert_eq!(
        world.peers[0].registered,
        vec![Answer::Refused(CommandError::Stopped); 16]
    );
}

fn explained(world: &mut World, at: usize, entity: &str) -> Option<Answer> {
    world.with(at, |peer| {
        peer.registered.clear();
        let command = ShardingCommand::Explain {
            kind: kind(),
            entity: EntityId::new(entity.as_bytes()),
            timeout: secs(3),
        };
        peer.sharding.on_command(&mut peer.fixture.cx(), 901, command);
    });
    world.run_for(Duration::ZERO);
    world.peers[at].registered.pop()
}

fn explain(world: &mut World, at: usize, entity: &str) -> Option<Explained> {
    match explained(world, at, entity) {
        Some(Answer::Sharding(ShardingAnswer::Explained(explained))) => Some(explained),
        None => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_shard_is_explained_by_its_coordinator_the_same_from_every_node_and_not_at_all_if_that_is_silent() {
    let mut world = World::formed(3, 1);
    world.touch_all(0);
    let first = explain(&mut world, 0, "a").unwrap();
    let placement = first.placement.clone().unwrap();
    assert_eq!(first.coordinator, Some(address(0)));
    let home = placement.home.clone().unwrap();
    let decided: Vec<_> = placement
        .decided
        .iter()
        .map(|decided| &decided.decision)
        .collect();
    let is_desired = false;
    assert_eq!(decided, [&ShardDecision::Allocated { home, is_desired }]);
    for at in 1..4 {
        assert_eq!(explain(&mut world, at, "a").unwrap(), first, "from {at}");
    }
    world.cut.insert((1, 0));
    assert_eq!(explain(&mut world, 1, "a"), None, "it waits");
    world.run_for(secs(3));
    let Some(Answer::Sharding(ShardingAnswer::Explained(silent))) = world.peers[1].registered.pop() else {
        panic!("an answer in time");
    };
    assert_eq!((silent.coordinator, silent.placement), (Some(address(0)), None));
}

#[test]
fn no_more_decisions_are_remembered_of_a_shard_than_may_be() {
    let mut world = World::formed(2, 0);
    world.touch_all(0);
    world.with(0, |peer| {
        let machines = peer.sharding.kinds.get_mut(&kind()).unwrap();
        for round in 0..2 * DECISIONS_MAX {
            let home = address(round % 2);
            machines
                .coordinator
                .note(&peer.fixture.cx(), ShardId(0), ShardDecision::Found { home });
        }
        let decided = machines.coordinator.placement(ShardId(0)).unwrap().decided;
        assert_eq!(decided.len(), DECISIONS_MAX);
    });
}

#[test]
fn an_id_that_no_entity_can_have_is_not_explained() {
    let mut world = World::formed(1, 0);
    let most = world.peers[0].fixture.config.limits.entity_id_bytes_max;
    for (length, is_legal) in [(0, false), (1, true), (most, true), (most + 1, false)] {
        let entity = "x".repeat(length);
        let refused = Answer::Refused(CommandError::Sharding(ShardingCommandError::BadEntityId));
        assert_eq!(
            explained(&mut world, 0, &entity) != Some(refused),
            is_legal,
            "{length}"
        );
    }
}

fn list(world: &mut World, at: usize, after: Option<EntityPosition>) {
    world.with(at, |peer| {
        peer.registered.clear();
        let command = ShardingCommand::ListEntities {
            kind: kind(),
            after,
            timeout: secs(3),
        };
        peer.sharding.on_command(&mut peer.fixture.cx(), 900, command);
    });
}

fn page(world: &mut World, at: usize) -> EntityPage {
    match world.peers[at].registered.pop() {
        Some(Answer::Sharding(ShardingAnswer::Entities(page))) => page,
        other => panic!("{other:?}"),
    }
}

/// All entities of all pages with their shards, and how many pages those were.
fn listed(world: &mut World, at: usize) -> (Vec<(ShardId, EntityId)>, usize) {
    let (mut all, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        list(world, at, after);
        let page = page(world, at);
        assert_eq!((page.silent, page.unanswered), (Vec::new(), Vec::new()));
        pages += 1;
        for of in page.shards {
            assert_eq!(world.hosts()[&of.shard], [world.peer_of(&of.node)]);
            all.extend(of.entities.into_iter().map(|entity| (of.shard, entity)));
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return (all, pages),
        }
    }
}

#[test]
fn s_114_the_entities_of_each_shard_are_listed_page_by_page_from_any_node() {
    let mut small = config();
    // A page of a node holds some 60 of these ids.
    small.limits.control_frame_bytes_max = 8 * 1024;
    let mut world = World::with_config(3, 1, &small);
    world.all_up();
    let mut expected = Vec::new();
    for number in 0..600 {
        let id = format!("{number:064}");
        let entity = EntityId::from(id.as_str());
        world.tell(3, &entity, "begin");
        expected.push((ShardId::of(&entity, SHARDS), entity));
    }
    expected.sort();
    for at in 0..4 {
        let (all, pages) = listed(&mut world, at);
        assert!(all.is_sorted(), "by shard and id");
        assert_eq!(all, expected, "from node {at}: each once");
        assert!((4..30).contains(&pages), "{pages} pages");
    }
}

#[test]
fn s_115_shards_of_a_node_that_does_not_answer_in_time_are_named_and_those_of_the_others_listed() {
    let mut world = World::formed(3, 1);
    world.touch_all(3);
    let hosts = world.hosts();
    // The coordinator's own shards are named as well: this node knows where it sent something.
    for silent in [2, 0] {
        world.cut.insert((3, silent));
        list(&mut world, 3, None);
        assert_eq!(world.peers[3].registered.len(), 0, "it waits");
        world.run_for(secs(3));
        world.cut.clear();
        let page = page(&mut world, 3);
        let theirs = |at: usize| {
            hosts
                .iter()
                .filter(move |(_, on)| **on == [at])
                .map(|(shard, _)| *shard)
        };
        assert_eq!(page.unanswered, theirs(silent).collect::<Vec<_>>());
        assert_eq!((page.silent, page.next), (vec![address(silent)], None));
        let others = hosts
            .iter()
            .filter(|(_, on)| **on != [silent])
            .map(|(shard, _)| *shard);
        let said: Vec<ShardId> = page.shards.iter().map(|of| of.shard).collect();
        assert_eq!(said, others.collect::<Vec<_>>());
    }
    // A node that has sent nothing there hears of the shards from the coordinator.
    world.cut.insert((1, 2));
    list(&mut world, 1, None);
    world.run_for(secs(3));
    let named = page(&mut world, 1).unanswered;
    let theirs = hosts.iter().filter(|(_, on)| **on == [2]);
    assert_eq!(named, theirs.map(|(shard, _)| *shard).collect::<Vec<_>>());
}

#[test]
fn entities_of_shards_that_cannot_be_or_that_were_not_asked_for_are_not_believed() {
    let mut world = World::formed(2, 1);
    let after = Some(EntityPosition {
        shard: ShardId(3),
        entity: Some(EntityId::from("m")),
    });
    let entities = |shard, id: &str| EntityListing {
        shards: vec![(ShardId(shard), vec![EntityId::from(id)])],
        ..EntityListing::default()
    };
    let lost = EntityListing {
        homes: vec![(address(1), vec![ShardId(SHARDS)])],
        ..EntityListing::default()
    };
    world.cut.insert((0, 1));
    list(&mut world, 0, after);
    for lie in [entities(SHARDS, "z"), entities(3, "m"), entities(2, "z"), lost] {
        let listed = Some(lie);
        let said = Message::Sharding(ShardingMsg::Survey(SurveyMsg::Entities { id: 1, listed }));
        world.deliver(1, 0, said);
        assert_eq!(world.peers[0].registered.len(), 0, "it counts as no answer");
    }
    assert_eq!(world.peers[0].rejected.len(), 4);
    world.run_for(secs(3));
    let page = page(&mut world, 0);
    assert_eq!((page.silent, page.shards), (vec![address(1)], Vec::new()));
}
