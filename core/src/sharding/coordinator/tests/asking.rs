//! A strategy of the application that is asked: what it is asked, and which of its answers still make sense.

use super::*;
use crate::effect::{AllocationNeed, AllocationQuestion};
use crate::sharding::allocation::AllocationSettings;
use crate::sharding::protocol::survey::ShardDecision;
use crate::sharding::protocol::{AllocationAnswer, AllocationDecided};

const TIMEOUT: Duration = Duration::from_secs(5);

/// As [`Rig::active`], with a strategy that is asked.
fn asking() -> Rig {
    let mut rig = Rig::on(a(), 6000);
    rig.coordinator.kind.settings.allocation = Some(AllocationSettings::Asked("outside".into()));
    rig.view(&[(a(), Status::Up), (b(), Status::Up), (c(), Status::Up)]);
    for node in [a(), b(), c()] {
        rig.register(&node, &[]);
    }
    assert!(rig.coordinator.is_active());
    rig
}

fn questions(effects: &[Effect]) -> Vec<AllocationQuestion> {
    let question = |effect: &Effect| match effect {
        Effect::Allocate(question) => Some((**question).clone()),
        _ => None,
    };
    effects.iter().filter_map(question).collect()
}

fn wanted(question: &AllocationQuestion) -> Vec<(ShardId, Option<UniqueAddress>)> {
    let AllocationNeed::Homes(wanted) = &question.need else {
        panic!("{question:?}")
    };
    wanted
        .iter()
        .map(|wanted| (wanted.shard, wanted.requester.clone()))
        .collect()
}

fn answer(rig: &mut Rig, number: u64, decided: AllocationDecided) -> Vec<Effect> {
    let kind = KindId::of("files");
    rig.act(|coordinator, cx| {
        let answer = AllocationAnswer {
            kind,
            number,
            decided,
        };
        coordinator.on_allocation_answer(cx, answer);
    })
}

fn homes(homes: &[(ShardId, UniqueAddress)]) -> AllocationDecided {
    AllocationDecided::Homes(homes.to_vec())
}

fn unanswered(shards: usize) -> Effect {
    event(ShardingEvent::AllocationUnanswered { shards })
}

/// A question about shard `S`, which `c` has asked for.
fn asked() -> (Rig, u64) {
    let mut rig = asking();
    let questions = questions(&rig.asks_home(&c(), S));
    let [question] = &questions[..] else {
        panic!("{questions:?}")
    };
    assert_eq!(wanted(question), [(S, Some(c()))]);
    let nodes: Vec<_> = question
        .regions
        .iter()
        .map(|region| region.node.clone())
        .collect();
    assert_eq!(nodes, [a(), b(), c()]);
    (rig, question.number)
}

#[test]
fn a_shard_goes_where_the_answer_says() {
    let (mut rig, number) = asked();
    let effects = answer(&mut rig, number, homes(&[(S, b())]));
    assert_eq!(effects, vec![allocated(S, b()), says(b(), host(S))]);
    assert_eq!(rig.fire(TIMEOUT), vec![], "nothing is waited for");
}

#[test]
fn what_is_asked_for_while_a_question_is_open_is_in_the_next_one() {
    let (mut rig, number) = asked();
    for shard in [S, ShardId(5), ShardId(6)] {
        assert_eq!(rig.asks_home(&b(), shard), vec![]);
    }
    let next = questions(&answer(&mut rig, number, homes(&[(S, a())])));
    let [question] = &next[..] else { panic!("{next:?}") };
    assert_eq!(
        wanted(question),
        [(ShardId(5), Some(b())), (ShardId(6), Some(b()))]
    );
    let at_a = &question.regions[0];
    assert_eq!(
        (&at_a.node, &at_a.shards[..]),
        (&a(), &[S][..]),
        "as it is by now"
    );
    // What is left out, and what is no region, is left to the coordinator: the one with the fewest.
    let effects = answer(&mut rig, question.number, homes(&[(ShardId(6), node("z", 9))]));
    assert!(effects.contains(&allocated(ShardId(5), b())) && effects.contains(&allocated(ShardId(6), c())));
}

#[test]
fn a_question_has_a_bounded_number_of_shards() {
    let (mut rig, number) = asked();
    for shard in 100..700 {
        rig.asks_home(&c(), ShardId(shard));
    }
    let mut next = questions(&answer(&mut rig, number, homes(&[])));
    let mut sizes = Vec::new();
    while let Some(question) = next.pop() {
        sizes.push(wanted(&question).len());
        next = questions(&answer(&mut rig, question.number, homes(&[])));
    }
    assert_eq!(sizes, [256, 256, 88]);
    assert_eq!(rig.coordinator.places.homes().count(), 601);
}

#[test]
fn without_an_answer_in_time_a_shard_goes_to_who_asked_for_it() {
    let (mut rig, number) = asked();
    assert_eq!(rig.fire(TIMEOUT - Duration::from_millis(1)), vec![]);
    let effects = rig.fire(Duration::from_millis(1));
    let own = [unanswered(1), allocated(S, c()), says(c(), host(S))];
    assert_eq!(effects, own);
    assert_eq!(answer(&mut rig, number, homes(&[(S, b())])), vec![], "too late");
    assert_eq!(*rig.coordinator.places.home(S).unwrap(), c());
    assert_eq!(rig.fixture.stats.sharding.allocation_answers_late, 1);
}

#[test]
fn a_failure_is_no_answer_at_once() {
    let (mut rig, number) = asked();
    let effects = answer(&mut rig, number, AllocationDecided::Failed);
    assert_eq!(
        effects,
        vec![unanswered(1), allocated(S, c()), says(c(), host(S))]
    );
    let decided = rig.coordinator.placement(S).unwrap().decided;
    let decided: Vec<_> = decided.into_iter().map(|decided| decided.decision).collect();
    let (home, is_desired) = (c(), false);
    let begun = ShardDecision::Allocated { home, is_desired };
    assert_eq!(decided, [ShardDecision::Unanswered, begun], "people can see why");
    // One who asked and has left is nobody to give it to.
    let (mut rig, number) = asked();
    rig.view(&[(a(), Status::Up), (b(), Status::Up), (c(), Status::Leaving)]);
    let effects = answer(&mut rig, number, AllocationDecided::Failed);
    assert!(effects.contains(&allocated(S, a())), "{effects:?}");
}

#[test]
fn a_late_answer_is_looked_at_anew() {
    // The region has gone meanwhile.
    let (mut rig, number) = asked();
    rig.view(&[(a(), Status::Up), (b(), Status::Leaving), (c(), Status::Up)]);
    let effects = answer(&mut rig, number, homes(&[(S, b())]));
    assert!(effects.contains(&allocated(S, a())), "{effects:?}");
    // Another one has registered with the shard.
    let (mut rig, number) = asked();
    rig.register(&b(), &[S]);
    answer(&mut rig, number, homes(&[(S, a())]));
    assert_eq!(*rig.coordinator.places.home(S).unwrap(), b());
    assert!(rig.coordinator.places.all_chosen().next().is_none());
    // A shard that nobody has asked about.
    let (mut rig, number) = asked();
    answer(
        &mut rig,
        number,
        homes(&[(S, b()), (ShardId(77), b()), (ShardId(99_999), b())]),
    );
    assert_eq!(
        rig.coordinator
            .places
            .homes()
            .map(|(shard, _)| shard)
            .collect::<Vec<_>>(),
        [S]
    );
}

#[test]
fn an_answer_to_an_earlier_coordinator_of_this_node_is_none() {
    let (mut rig, number) = asked();
    rig.act(|coordinator, cx| coordinator.halt(cx));
    rig.view(&[(a(), Status::Up), (b(), Status::Up), (c(), Status::Up)]);
    for node in [a(), b(), c()] {
        rig.register(&node, &[]);
    }
    let again = questions(&rig.asks_home(&c(), S));
    assert!(again[0].number > number);
    assert_eq!(answer(&mut rig, number, homes(&[(S, b())])), vec![]);
    assert!(rig.coordinator.places.homes().next().is_none());
}

#[test]
fn after_a_pause_nothing_is_given_away_until_it_has_done_no_harm() {
    let (mut rig, number) = asked();
    rig.act(|coordinator, _| coordinator.on_paused());
    assert_eq!(answer(&mut rig, number, homes(&[(S, b())])), vec![]);
    let again = questions(&rig.act(|coordinator, cx| coordinator.on_still_member(cx)));
    assert_eq!(wanted(&again[0]), [(S, Some(c()))]);
}

/// Shards 1 to 3 at `a`, and the question which should move.
fn asked_for_moves() -> (Rig, u64) {
    let mut rig = asking();
    for shard in 1..4 {
        rig.coordinator.set_home(ShardId(shard), at(&a()));
    }
    let questions = questions(&rig.fire(Duration::from_secs(10)));
    let [question] = &questions[..] else {
        panic!("{questions:?}")
    };
    assert!(matches!(&question.need, AllocationNeed::Moves { in_progress } if in_progress.is_empty()));
    (rig, question.number)
}

fn moving(rig: &Rig) -> Vec<u32> {
    rig.coordinator.hand_offs.keys().map(|shard| shard.0).collect()
}

#[test]
fn what_the_answer_says_moves_if_it_is_still_where_it_was() {
    let (mut rig, number) = asked_for_moves();
    // The third has gone to another node and back to none, the second runs at another node by now.
    rig.act(|coordinator, cx| {
        for shard in [2, 3] {
            coordinator.clear_home(cx, ShardId(shard));
        }
        coordinator.set_home(ShardId(2), at(&b()));
    });
    let named = [1, 1, 2, 3, 77].map(ShardId);
    let effects = answer(&mut rig, number, AllocationDecided::Moves(named.to_vec()));
    assert!(!effects.is_empty());
    assert_eq!(moving(&rig), [1]);
    assert_eq!(
        rig.coordinator.last_hand_off, 1,
        "once, however often it is named"
    );
}

#[test]
fn a_failure_about_moves_is_no_answer_at_once() {
    let (mut rig, number) = asked_for_moves();
    assert_eq!(
        answer(&mut rig, number, AllocationDecided::Failed),
        vec![unanswered(0)]
    );
    assert_eq!(rig.fixture.stats.sharding.allocation_answers_late, 0);
    assert_eq!(rig.fire(TIMEOUT), vec![], "nothing is waited for");
    let again = answer(&mut rig, number, AllocationDecided::Failed);
    assert_eq!(again, vec![], "it is said twice");
    assert_eq!(rig.fixture.stats.sharding.allocation_answers_late, 1);
}

#[test]
fn nothing_moves_without_an_answer_or_at_a_bad_time() {
    let (mut rig, number) = asked_for_moves();
    assert_eq!(rig.fire(TIMEOUT), vec![unanswered(0)]);
    assert_eq!(
        answer(&mut rig, number, AllocationDecided::Moves(vec![ShardId(1)])),
        vec![]
    );
    let (mut rig, number) = asked_for_moves();
    let members = [(a(), Status::Up), (b(), Status::Up), (c(), Status::Up)];
    rig.view_with(&members, &[c()]);
    answer(&mut rig, number, AllocationDecided::Moves(vec![ShardId(1)]));
    assert_eq!(moving(&rig), [0; 0], "somebody is unreachable");
    // It is asked again with the next look.
    rig.view(&members);
    let again = questions(&rig.fire(Duration::from_secs(10)));
    assert!(again[0].number > number);
}
