//! The rules of one replica, and of calls, one by one. Spec: sharding 10.7, 10.19; reliability I-70 to I-75,
//! B-62.

use alloc::vec;
use alloc::vec::Vec;

use super::world::{GRACE_MS, Node, World, key, put, values};
use crate::journal::state::StoreId;
use crate::kv::replica::{Adoption, EPOCHS_AHEAD_MAX};
use crate::kv::requests::{CallAnswer, CallError, CallGoal};
use crate::kv::state::call::{Ballot, CallId, RequestId};
use crate::kv::state::clock::{Actor, VersionClock, VersionDot};
use crate::kv::state::configuration::{Configuration, Owners};
use crate::kv::state::entry::{AcceptedDecision, KeyDecision, ROUNDS_AHEAD_MAX};
use crate::kv::state::exchange::{KvAnswer, KvAsk, KvChange, KvRefusal, Mint, SettleStep, TTL_MS_MAX};
use crate::kv::state::level::Level;

const NOW_MS: u64 = 1_000;

fn stores(ids: &[u128]) -> Vec<StoreId> {
    ids.iter().copied().map(StoreId).collect()
}

fn stable(epoch: u64, ids: &[u128]) -> Configuration {
    Configuration {
        epoch,
        owners: Owners::Stable(stores(ids)),
    }
}

fn joint(epoch: u64, from: &[u128], to: &[u128]) -> Configuration {
    Configuration {
        epoch,
        owners: Owners::Joint {
            from: stores(from),
            to: stores(to),
        },
    }
}

fn node(configuration: &Configuration) -> Node {
    let mut node = Node::new(0, 3);
    node.adopt(configuration);
    node
}

fn request(number: u64, attempt: u32) -> RequestId {
    RequestId {
        call: CallId { origin: 5, number },
        attempt,
    }
}

fn mint(node: &Node, request: RequestId) -> Mint {
    Mint {
        request,
        open_from: 0,
        actor: node.replica.actor(),
        context: VersionClock::new(),
        is_proven: false,
        change: put("v"),
    }
}

fn ask(node: &mut Node, ask: KvAsk) -> KvAnswer {
    let epoch = node.epoch();
    node.answer(&key("k"), epoch, &ask, NOW_MS)
}

fn minted(answer: &KvAnswer) -> VersionDot {
    match answer {
        KvAnswer::Minted { dot, .. } => *dot,
        other => panic!("{other:?}"),
    }
}

fn refused(answer: KvAnswer) -> KvRefusal {
    match answer {
        KvAnswer::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn i_70_a_replica_adopts_what_is_newer_keeps_it_and_refuses_what_is_older() {
    let (first, second) = (stable(3, &[0, 1, 2]), stable(5, &[0, 1, 3]));
    let mut node = node(&first);
    assert_eq!(node.replica.adopt(&first), Ok(Adoption::Known));
    node.adopt(&second);
    let newer = KvRefusal::OtherConfiguration(second.clone());
    assert_eq!(node.replica.adopt(&first), Err(newer.clone()));
    assert_eq!(refused(node.answer(&key("k"), 3, &KvAsk::Get, NOW_MS)), newer);
    node.restart();
    assert_eq!(node.epoch(), 5, "it is kept");
    assert_eq!(
        node.replica.adopt(&stable(5, &[0, 1, 4])),
        Err(newer),
        "two of one epoch"
    );
    for wrong in [
        stable(5 + EPOCHS_AHEAD_MAX + 1, &[0, 1, 2]),
        stable(6, &[]),
        stable(6, &[1, 1]),
        joint(6, &[0, 1], &[2, 3]),
    ] {
        assert_eq!(node.replica.adopt(&wrong), Err(KvRefusal::TooFarAhead));
    }
    node.adopt(&stable(6, &[1, 2, 3]));
    assert_eq!(refused(ask(&mut node, KvAsk::Get)), KvRefusal::NoOwner);
}

#[test]
fn i_73_a_request_is_decided_once_and_a_refusal_stays_one() {
    let mut node = node(&stable(1, &[0, 1, 2]));
    let first = KvAsk::Mint(mint(&node, request(1, 0)));
    let dot = minted(&ask(&mut node, first.clone()));
    assert_eq!(minted(&ask(&mut node, first.clone())), dot);
    assert_eq!(node.entry(&key("k")).siblings.versions().len(), 1);

    let mut early = mint(&node, request(2, 0));
    let answer = node.answer(&key("k"), 2, &KvAsk::Mint(early.clone()), NOW_MS);
    let other = KvRefusal::OtherConfiguration(stable(1, &[0, 1, 2]));
    assert_eq!(refused(answer), other);
    assert_eq!(
        refused(ask(&mut node, KvAsk::Mint(early.clone()))),
        other,
        "remembered"
    );
    early.request = request(2, 1);
    assert_eq!(minted(&ask(&mut node, KvAsk::Mint(early))).count, dot.count + 1);

    let mut later = mint(&node, request(9, 0));
    later.open_from = 9;
    ask(&mut node, KvAsk::Mint(later));
    assert_eq!(refused(ask(&mut node, first.clone())), KvRefusal::Over);

    node.restart();
    let actor = node.replica.actor();
    assert_eq!(refused(ask(&mut node, first)), KvRefusal::OtherActor(actor));
}

#[test]
fn i_73_so_many_open_calls_of_one_node_are_remembered_and_no_more() {
    let mut node = node(&stable(1, &[0, 1, 2]));
    for number in 0..=4_096 {
        let mut mint = mint(&node, request(number, 0));
        mint.change = KvChange::Put {
            bytes: [].into(),
            ttl_ms: Some(0),
        };
        let expected = if number < 4_096 {
            KvRefusal::Ttl
        } else {
            KvRefusal::Busy
        };
        assert_eq!(refused(ask(&mut node, KvAsk::Mint(mint))), expected);
    }
    node.replica.forget_origin(5);
    let again = KvAsk::Mint(mint(&node, request(4_096, 0)));
    minted(&ask(&mut node, again));
}

#[test]
fn i_75_no_dot_is_given_again_after_reaping_a_restart_or_a_return() {
    let mut node = node(&stable(1, &[0]));
    let mut dots = Vec::new();
    let mut number = 0;
    let mut next = |node: &mut Node| {
        number += 1;
        let mint = mint(node, request(number, 0));
        dots.push(minted(&ask(node, KvAsk::Mint(mint))));
        node.keep(&key("k"), crate::kv::state::entry::KvEntry::default());
        assert_eq!(dots.iter().filter(|dot| *dot == dots.last().unwrap()).count(), 1);
    };
    next(&mut node);
    next(&mut node);
    node.entries.clear();
    node.restart_anew();
    next(&mut node);
    node.adopt(&joint(2, &[0], &[1]));
    node.adopt(&stable(3, &[1]));
    node.adopt(&joint(4, &[1], &[0]));
    next(&mut node);
    node.adopt(&stable(5, &[0]));
    next(&mut node);
}

#[test]
fn a_newcomer_drops_what_it_held_and_takes_over_values_and_promises() {
    let mut old = node(&stable(1, &[0, 1, 2]));
    let first = KvAsk::Mint(mint(&old, request(1, 0)));
    ask(&mut old, first);
    let ballot = Ballot::NONE.above(CallId { origin: 5, number: 2 });
    ask(&mut old, KvAsk::Promise(ballot));

    let mut newcomer = Node::new(3, 3);
    newcomer.adopt(&stable(1, &[3, 4, 5]));
    let left_over = KvAsk::Mint(mint(&newcomer, request(1, 0)));
    ask(&mut newcomer, left_over);
    let before = newcomer.replica.actor();
    newcomer.adopt(&joint(2, &[0, 1, 2], &[3, 1, 2]));
    assert!(newcomer.entries.is_empty());
    assert_eq!(newcomer.replica.actor(), Actor { since: 2, ..before });

    let theirs = old.entry(&key("k"));
    let mut entry = newcomer.entry(&key("k"));
    assert_eq!(
        newcomer.replica.take_over((&key("k"), &mut entry), 2, &theirs),
        Ok(true)
    );
    assert_eq!((values(&entry), entry.promise()), (vec!["v"], ballot));
    newcomer.adopt(&stable(3, &[3, 1, 2]));
    let late = newcomer.replica.take_over((&key("k"), &mut entry), 3, &theirs);
    assert_eq!(late, Err(KvRefusal::NoOwner), "it is no newcomer any more");
}

#[test]
fn b_62_a_context_that_no_get_gave_is_refused_and_nothing_is_lost() {
    let mut world = World::new((3, 2, 2), 0);
    let seen = world.write(put("v"), &VersionClock::new(), 2, &[0]).unwrap();
    let forged = |actor: Actor, count| {
        let mut clock = seen.clone();
        clock.add(VersionDot { actor, count }, 1);
        clock
    };
    let owner = world.nodes[0].replica.actor();
    let other = world.nodes[1].replica.actor();
    for clock in [
        forged(owner, 99),
        forged(other, 99),
        forged(Actor { boot: 9, ..owner }, 1),
    ] {
        let answer = world.write(put("w"), &clock, 2, &[0]);
        assert_eq!(answer, Err(CallError::Context));
    }
    let forged = forged(other, 99);
    let mut liar = world.nodes[1].entry(&key("k"));
    liar.siblings
        .put(
            crate::kv::state::siblings::Version {
                dot: VersionDot {
                    actor: owner,
                    count: 50,
                },
                at_ms: 1,
                content: crate::kv::state::siblings::VersionContent::Tombstone,
            },
            &forged,
        )
        .unwrap();
    let answer = ask(&mut world.nodes[1], KvAsk::Merge(liar));
    assert_eq!(
        refused(answer),
        KvRefusal::TooFarAhead,
        "a dot of its own that it never gave"
    );
    assert_eq!(values(&world.get(2, &[1, 2]).unwrap()), ["v"]);
}

#[test]
fn i_100_dots_and_turns_that_are_too_far_ahead_are_refused() {
    let mut owner = node(&stable(1, &[0, 1, 2]));
    let actor = owner.replica.actor();
    let turn = |round| Ballot {
        round,
        call: CallId { origin: 9, number: 9 },
        step: 0,
    };
    let far = turn(ROUNDS_AHEAD_MAX + 1);
    assert_eq!(
        refused(ask(&mut owner, KvAsk::Promise(far))),
        KvRefusal::TooFarAhead
    );
    let at_ms = NOW_MS;
    let accepted = AcceptedDecision {
        ballot: far,
        decision: KeyDecision::Ordinary { at_ms },
    };
    assert_eq!(
        refused(ask(&mut owner, KvAsk::Accept(accepted))),
        KvRefusal::TooFarAhead
    );
    let mut ahead = mint(&owner, request(1, 0));
    ahead.context.add(VersionDot { actor, count: 1 }, 1);
    ahead.is_proven = true;
    assert_eq!(
        refused(ask(&mut owner, KvAsk::Mint(ahead))),
        KvRefusal::TooFarAhead
    );
    assert!(owner.entries.is_empty());
    let beyond = VersionDot {
        actor,
        count: 1 << 48,
    };
    let mut clock = VersionClock::new();
    clock.add(beyond, 1);
    assert!(VersionClock::decode(&clock.encode().unwrap()).is_err());
}

#[test]
fn i_72_a_context_that_its_owner_has_not_seen_is_proven_by_others() {
    let mut world = World::new((3, 2, 2), 0);
    world.cut = stores(&[2]);
    let seen = world.write(put("v1"), &VersionClock::new(), 2, &[0]).unwrap();
    world.cut = vec![];
    world.write(put("v2"), &seen, 2, &[2]).unwrap();
    assert_eq!(values(&world.get(2, &[0, 2]).unwrap()), ["v2"]);
}

fn settle(node: &mut Node, step: SettleStep, now_ms: u64) -> KvAnswer {
    let digest = node.entry(&key("k")).digest(&key("k"));
    let epoch = node.epoch();
    node.answer(&key("k"), epoch, &KvAsk::Settle { digest, step }, now_ms)
}

#[test]
fn i_75_a_tombstone_is_reaped_after_its_grace_where_all_n_own_the_range_and_are_alike() {
    let mut owner = node(&stable(1, &[0, 1, 2]));
    let mut delete = mint(&owner, request(1, 0));
    delete.change = KvChange::Delete;
    ask(&mut owner, KvAsk::Mint(delete));
    let late = NOW_MS + GRACE_MS;
    let not_alike = KvAnswer::Refused(KvRefusal::NotAlike);
    assert_eq!(
        settle(&mut owner, SettleStep::Reap, late - 1),
        not_alike,
        "too early"
    );
    let wrong = KvAsk::Settle {
        digest: 1,
        step: SettleStep::Reap,
    };
    assert_eq!(
        owner.answer(&key("k"), 1, &wrong, late),
        not_alike,
        "it holds something else"
    );
    owner.adopt(&joint(2, &[0, 1, 2], &[0, 1, 3]));
    assert_eq!(
        settle(&mut owner, SettleStep::Reap, late),
        not_alike,
        "it is moved"
    );
    owner.adopt(&stable(3, &[0, 1]));
    assert_eq!(
        settle(&mut owner, SettleStep::Compare, late),
        not_alike,
        "an owner is missing"
    );
    owner.adopt(&stable(4, &[0, 1, 3]));
    assert_eq!(settle(&mut owner, SettleStep::Compare, late), KvAnswer::Done);
    assert_eq!(owner.entries.len(), 1);
    assert_eq!(settle(&mut owner, SettleStep::Reap, late), KvAnswer::Done);
    assert!(owner.entries.is_empty());

    let alive = KvAsk::Mint(mint(&owner, request(2, 0)));
    ask(&mut owner, alive);
    assert_eq!(
        settle(&mut owner, SettleStep::Reap, late * 2),
        not_alike,
        "it is alive"
    );
}

#[test]
fn s_338_only_actors_that_give_no_dots_any_more_are_forgotten() {
    let mut owner = node(&stable(1, &[0, 1, 2]));
    let first = owner.replica.actor();
    let mut clock = VersionClock::new();
    for boot in 1..=2 {
        let first = Actor { boot, ..first };
        owner.adopt(&stable(1, &[0, 1, 2]));
        let mut mint = mint(&owner, request(1, 0));
        mint.context = clock.clone();
        assert_eq!(mint.actor, first);
        let answer = ask(&mut owner, KvAsk::Mint(mint));
        clock.add(minted(&answer), 1);
        owner.restart();
    }
    let not_alike = KvAnswer::Refused(KvRefusal::NotAlike);
    let present = owner.replica.actor();
    assert_eq!(
        settle(&mut owner, SettleStep::Prune(vec![present]), NOW_MS),
        not_alike
    );
    let other = Actor {
        store: StoreId(1),
        ..first
    };
    assert_eq!(
        settle(&mut owner, SettleStep::Prune(vec![other]), NOW_MS),
        not_alike
    );
    assert_eq!(
        settle(&mut owner, SettleStep::Prune(vec![first]), NOW_MS),
        KvAnswer::Done
    );
    let entry = owner.entry(&key("k"));
    assert_eq!(entry.siblings.clock().entries().len(), 1);
    assert_eq!(values(&entry), ["v"]);
}

#[test]
fn i_75_who_was_away_for_too_long_answers_no_reads_until_it_has_caught_up() {
    let mut node = node(&stable(1, &[0, 1, 2]));
    node.replica.set_behind();
    assert_eq!(refused(ask(&mut node, KvAsk::Get)), KvRefusal::Behind);
    let mint = KvAsk::Mint(mint(&node, request(1, 0)));
    assert_eq!(refused(ask(&mut node, mint)), KvRefusal::Behind);
    let merge = KvAsk::Merge(crate::kv::state::entry::KvEntry::default());
    assert_eq!(ask(&mut node, merge), KvAnswer::Done);
    // It may hold what all others have forgotten, and what was sent to it before may still come.
    let settle = KvAsk::Settle {
        digest: 0,
        step: SettleStep::Compare,
    };
    assert_eq!(refused(ask(&mut node, settle)), KvRefusal::Behind);
    node.replica.on_caught_up(StoreId(1), 2, 2);
    assert!(node.replica.is_behind(), "that was another epoch");
    node.replica.on_caught_up(StoreId(1), 1, 3);
    assert!(node.replica.is_behind() && !node.replica.is_behind_of(StoreId(1)));
    node.replica.on_caught_up(StoreId(2), 1, 3);
    assert!(matches!(ask(&mut node, KvAsk::Get), KvAnswer::Held(_)));
}

#[test]
fn i_70_a_get_answers_once_w_owners_have_what_it_found_even_if_its_replies_agree() {
    let mut world = World::new((3, 1, 3), 0);
    world.cut = stores(&[1, 2]);
    assert!(world.write(put("v"), &VersionClock::new(), 3, &[0]).is_err());
    world.cut = vec![];
    let alone = world.get(1, &[0]);
    assert_eq!(
        alone,
        Err(CallError::Timeout { acknowledged: 1 }),
        "one owner alone has it"
    );
    assert_eq!(values(&world.get(1, &[0, 1, 2]).unwrap()), ["v"]);
    assert_eq!(values(&world.nodes[2].entry(&key("k"))), ["v"]);
}

#[test]
fn below_the_least_level_a_get_writes_nothing_back() {
    let mut world = World::new((3, 2, 2), 0);
    world.cut = stores(&[1, 2]);
    assert!(world.write(put("v"), &VersionClock::new(), 2, &[0]).is_err());
    world.cut = vec![];
    assert_eq!(values(&world.get(1, &[0]).unwrap()), ["v"]);
    let one = CallGoal::Get { level: Level::One };
    assert!(world.run("k", one, &[]).is_ok());
    assert!(world.nodes[1].entries.is_empty() && world.nodes[2].entries.is_empty());
}

#[test]
fn i_70_in_joint_a_put_is_on_w_of_both_sets() {
    let mut world = World::new((3, 2, 2), 1);
    world.configuration = joint(2, &[0, 1, 2], &[0, 1, 3]);
    world.cut = stores(&[0, 3]);
    let missed = world.write(put("v"), &VersionClock::new(), 2, &[1]);
    assert_eq!(
        missed,
        Err(CallError::Timeout { acknowledged: 1 }),
        "only one of the new owners"
    );
    world.cut = stores(&[0]);
    assert!(world.write(put("w"), &VersionClock::new(), 2, &[1]).is_ok());
}

#[test]
fn conditional_puts_follow_each_other_and_a_conflict_names_what_is_there() {
    let mut world = World::new((3, 2, 2), 0);
    let Ok(CallAnswer::Decided(first)) = world.conditional(None, put("v1")) else {
        panic!()
    };
    let conflict = |present| Ok(CallAnswer::Conflict { present });
    assert_eq!(world.conditional(None, put("v2")), conflict(Some(first)));
    let Ok(CallAnswer::Decided(second)) = world.conditional(Some(first), put("v3")) else {
        panic!()
    };
    assert_eq!(world.conditional(Some(first), put("v4")), conflict(Some(second)));
    for from in [[0, 1], [1, 2]] {
        let found = world.get(2, &from).unwrap();
        let Some(KeyDecision::Value(decided)) = found.accepted().map(|own| &own.decision) else {
            panic!()
        };
        assert_eq!(decided.content.value().unwrap().as_ref(), b"v3");
        assert_eq!(decided.version, second);
    }
    let Ok(CallAnswer::Decided(third)) = world.conditional(Some(second), KvChange::Delete) else {
        panic!()
    };
    assert_eq!(world.conditional(Some(second), put("v5")), conflict(Some(third)));
    assert!(matches!(
        world.conditional(None, put("v6")),
        Ok(CallAnswer::Decided(_))
    ));
}

/// Owners forget a deletion one after the other; what one holds that did not hear of that is older than all
/// that comes after the grace, although the others count turns anew.
#[test]
fn i_75_a_deletion_that_one_owner_has_not_forgotten_is_below_a_later_put() {
    let mut world = World::new((3, 2, 2), 0);
    let Ok(CallAnswer::Decided(first)) = world.conditional(None, put("v1")) else {
        panic!()
    };
    assert!(world.conditional(Some(first), KvChange::Delete).is_ok());
    // Several nodes have wanted it at once: it took turns.
    let entry = world.nodes[2].entries.get_mut(&key("k"));
    let register = entry.and_then(|entry| entry.register.as_mut()).unwrap();
    register.promise.round += 5;
    register.accepted.as_mut().unwrap().ballot = register.promise;
    for owner in [0, 1] {
        world.nodes[owner].entries.remove(&key("k"));
    }
    world.now_ms += GRACE_MS + 1;
    world.cut = vec![StoreId(2)];
    assert!(matches!(
        world.conditional(None, put("v2")),
        Ok(CallAnswer::Decided(_))
    ));
    world.cut.clear();
    let found = world.get(2, &[1, 2]).unwrap();
    let Some(KeyDecision::Value(decided)) = found.accepted().map(|own| &own.decision) else {
        panic!("{found:?}")
    };
    assert_eq!(decided.content.value().map(AsRef::as_ref), Some(&b"v2"[..]));
}

#[test]
fn a_key_is_written_with_conditions_or_without() {
    let mut world = World::new((3, 2, 2), 0);
    world.conditional(None, put("v1")).unwrap();
    let ordinary = world.write(put("v2"), &VersionClock::new(), 2, &[0]);
    assert_eq!(ordinary, Err(CallError::Conditional));

    let mut world = World::new((3, 2, 2), 0);
    let clock = world.write(put("v1"), &VersionClock::new(), 2, &[0]).unwrap();
    assert_eq!(world.conditional(None, put("v2")), Err(CallError::Ordinary));
    assert!(
        world.write(put("v3"), &clock, 2, &[1]).is_ok(),
        "the turn left nothing in its way"
    );
    assert_eq!(values(&world.get(2, &[0, 2]).unwrap()), ["v3"]);
    let clock = world.get(2, &[0, 1]).unwrap().siblings.clock().clone();
    world.write(KvChange::Delete, &clock, 2, &[0]).unwrap();
    assert!(matches!(
        world.conditional(None, put("v4")),
        Ok(CallAnswer::Decided(_))
    ));
}

#[test]
fn a_turn_that_nobody_ends_is_ended_by_the_next_call() {
    for kind in 0..3 {
        let mut world = World::new((3, 2, 2), 0);
        let ballot = Ballot::NONE.above(CallId { origin: 9, number: 9 });
        for at in [0, 1] {
            world.nodes[at].adopt(&stable(1, &[0, 1, 2]));
            ask(&mut world.nodes[at], KvAsk::Promise(ballot));
        }
        match kind {
            0 => {
                world.write(put("v"), &VersionClock::new(), 2, &[0]).unwrap();
                assert_eq!(values(&world.get(2, &[0, 1]).unwrap()), ["v"]);
            }
            1 => assert!(matches!(
                world.conditional(None, put("v")),
                Ok(CallAnswer::Decided(_))
            )),
            _ => assert_eq!(world.run("k", CallGoal::Resolve, &[]), Ok(CallAnswer::Resolved)),
        }
        let blocked = world.nodes.iter().filter(|node| {
            matches!(
                node.entry(&key("k")).admits_versions(),
                Err(crate::kv::state::entry::Unchanged::Blocked { .. })
            )
        });
        assert_eq!(blocked.count(), 0);
    }
}

#[test]
fn what_some_owner_accepted_alone_is_decided_by_the_get_that_finds_it() {
    let mut world = World::new((3, 2, 2), 0);
    let Ok(CallAnswer::Decided(first)) = world.conditional(None, put("v1")) else {
        panic!()
    };
    let entry = world.nodes[0].entry(&key("k"));
    let mut own = entry.accepted().unwrap().clone();
    let call = CallId { origin: 9, number: 9 };
    if let KeyDecision::Value(decided) = &mut own.decision {
        decided.version = call;
    }
    own.ballot = own.ballot.above(call);
    ask(&mut world.nodes[2], KvAsk::Accept(own.clone()));
    let version = |found: Option<&AcceptedDecision>| match found.map(|own| own.decision.clone()) {
        Some(KeyDecision::Value(decided)) => decided.version,
        other => panic!("{other:?}"),
    };
    assert_eq!(version(world.get(2, &[0, 1]).unwrap().accepted()), first);
    assert_eq!(version(world.get(2, &[1, 2]).unwrap().accepted()), call);
    assert_eq!(
        version(world.get(2, &[0, 1]).unwrap().accepted()),
        call,
        "it stays decided"
    );
    assert!(matches!(
        world.conditional(Some(first), put("v2")),
        Ok(CallAnswer::Conflict { .. })
    ));
}

#[test]
fn a_value_lives_as_long_as_it_was_given() {
    let mut world = World::new((3, 2, 2), 0);
    let mortal = |ttl_ms| KvChange::Put {
        bytes: b"v"[..].into(),
        ttl_ms: Some(ttl_ms),
    };
    for wrong in [0, TTL_MS_MAX + 1] {
        let refused = world.write(mortal(wrong), &VersionClock::new(), 2, &[0]);
        assert_eq!(refused, Err(CallError::Ttl));
        assert_eq!(world.conditional(None, mortal(wrong)), Err(CallError::Ttl));
    }
    world.write(mortal(50), &VersionClock::new(), 2, &[0]).unwrap();
    world.now_ms += 49;
    assert_eq!(values(&world.get(2, &[0, 1]).unwrap()), ["v"]);
    world.now_ms += 1;
    assert!(world.get(3, &[0, 1, 2]).unwrap().siblings.is_dead());
    let held: Vec<_> = world.nodes.iter().map(|node| node.entry(&key("k"))).collect();
    assert!(
        held[0] == held[1] && held[1] == held[2],
        "alike without a message"
    );
}
