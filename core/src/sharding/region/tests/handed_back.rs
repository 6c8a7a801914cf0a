//! Messages that reach a region which does not serve their shard: they go back to the node whose user sent
//! them, and that one sends them again, in order. Spec: sharding 10.14 b.

use super::*;
use crate::sharding::region::home::KnownHome;
use crate::sharding::state::chain::AskChain;

/// A message of a user of `from`.
fn foreign(text: &str, from: UniqueAddress) -> PendingMessage {
    PendingMessage {
        from: Some(from),
        is_admitted: false,
        ..pending(text, None, 1)
    }
}

/// A message of this node's user that comes back after so many hops.
fn comes_back(rig: &mut Rig, text: &str, hops: u8, from: UniqueAddress) -> Vec<Effect> {
    let pending = PendingMessage {
        from: None,
        is_admitted: false,
        ..pending(text, None, hops)
    };
    rig.act(|region, shared| region.on_handed_back(shared, &from, pending))
}

fn asks_home() -> Effect {
    says(a(), ShardingBody::GetShardHome { shard: SHARD })
}

fn learns(rig: &mut Rig, home: UniqueAddress) -> Vec<Effect> {
    rig.act(|region, shared| region.on_shard_homes(shared, &a(), term(), homes(home)))
}

#[test]
fn what_is_not_served_here_is_handed_back_and_never_passed_on() {
    let mut rig = Rig::registered(true);
    learns(&mut rig, c());
    let effects = rig.act(|region, shared| region.route(shared, foreign("1", a())));
    assert_eq!(effects, vec![hands_back(a(), envelope("1", None, 1))]);
    let own = rig.route("2");
    assert_eq!(own, vec![sends(c(), envelope("2", None, 0))], "only users' own");
    assert_eq!(rig.fixture.stats.sharding.entity_messages_handed_back, 1);
}

#[test]
fn a_sender_gets_everything_back_until_it_marks_even_if_the_shard_runs_here_meanwhile() {
    let mut rig = Rig::registered(true);
    let first = rig.act(|region, shared| region.route(shared, foreign("1", c())));
    assert_eq!(
        first,
        vec![hands_back(c(), envelope("1", None, 1)), asks_home()],
        "somebody thinks that it is here"
    );
    rig.act(|region, shared| region.on_host_shard(shared, &a(), term(), (SHARD, TOKEN)));
    let second = rig.act(|region, shared| region.route(shared, foreign("2", c())));
    assert_eq!(
        second,
        vec![hands_back(c(), envelope("2", None, 1))],
        "it was sent behind the first"
    );
    let other = rig.act(|region, shared| region.route(shared, foreign("x", a())));
    assert!(other.contains(&delivers(slot(0), "x")), "{other:?}");
    let marked = rig.act(|region, shared| region.on_mark(shared, &c(), marks(5)));
    assert_eq!(marked, vec![acknowledges(c(), 5)]);
    let third = rig.act(|region, shared| region.route(shared, foreign("1", c())));
    assert_eq!(third, vec![delivers(slot(0), "1")]);
}

#[test]
fn a_mark_is_acknowledged_at_once_behind_what_waited_before_it() {
    let mut rig = Rig::hosting();
    rig.route("0");
    rig.passivate_first();
    for text in ["1", "2"] {
        rig.act(|region, shared| region.route(shared, foreign(text, c())));
    }
    rig.act(|region, shared| region.route(shared, foreign("x", a())));
    let marked = rig.act(|region, shared| region.on_mark(shared, &c(), marks(1)));
    let back = |text| hands_back(c(), envelope(text, None, 1));
    assert_eq!(marked, vec![back("1"), back("2"), acknowledges(c(), 1)]);
    // Repeated, because the acknowledgement was late.
    let again = rig.act(|region, shared| region.on_mark(shared, &c(), marks(1)));
    assert_eq!(again, vec![acknowledges(c(), 1)]);
    let entity = EntityId::from("e");
    let resumed = rig.act(|region, shared| region.on_entity_stopped(shared, SHARD, &entity));
    assert!(
        resumed.contains(&delivers(slot(1), "x")),
        "another's stays: {resumed:?}"
    );
    // The same during a pause.
    rig.region.on_paused();
    rig.act(|region, shared| region.route(shared, foreign("3", c())));
    let marked = rig.act(|region, shared| region.on_mark(shared, &c(), marks(2)));
    assert_eq!(marked, vec![back("3"), acknowledges(c(), 2)]);
}

#[test]
fn what_comes_back_goes_out_again_in_order_and_before_what_came_later() {
    let mut rig = Rig::registered(true);
    learns(&mut rig, c());
    for text in ["1", "2", "3"] {
        rig.route(text);
    }
    assert_eq!(comes_back(&mut rig, "1", 2, c()), vec![sends_mark(c(), 1)]);
    assert_eq!(
        rig.route("4"),
        vec![],
        "nothing is sent before the acknowledgement"
    );
    assert_eq!(comes_back(&mut rig, "2", 2, c()), vec![], "marked once");
    assert_eq!(learns(&mut rig, a()), vec![], "not even to a new home");
    assert_eq!(comes_back(&mut rig, "3", 2, c()), vec![]);
    assert_eq!(rig.acknowledged(a(), 1), vec![], "of somebody else");
    assert_eq!(rig.acknowledged(c(), 0), vec![], "of something else");
    let again = [("1", 2), ("2", 2), ("3", 2), ("4", 0)];
    let again: Vec<Effect> = again
        .iter()
        .map(|(text, hops)| offers(a(), envelope(text, None, *hops)))
        .collect();
    assert_eq!(rig.acknowledged(c(), 1), again);
}

#[test]
fn a_message_that_comes_back_while_others_go_out_again_goes_before_them() {
    let mut rig = Rig::registered(true);
    learns(&mut rig, c());
    for text in ["1", "2"] {
        rig.route(text);
    }
    comes_back(&mut rig, "1", 2, c());
    comes_back(&mut rig, "2", 2, c());
    rig.act(|region, shared| region.on_begin_hand_off(shared, &a(), term(), (SHARD, 4)));
    rig.acknowledged(c(), 1);
    rig.route("3");
    // The first is sent, and comes back before the second is.
    rig.region.flushing.clear();
    rig.region.buffers.nothing_comes_back(SHARD);
    let first = rig.region.buffers.pop(SHARD).unwrap();
    rig.region.shards.entry(SHARD).home = KnownHome::Known {
        node: a(),
        used: true,
    };
    rig.act(|region, shared| region.on_handed_back(shared, &a(), first));
    learns(&mut rig, c());
    let order = ["1", "2", "3"].map(|text| text.as_bytes().to_vec());
    let waits = rig
        .region
        .buffers
        .iter()
        .map(|pending| pending.envelope.payload.to_vec());
    assert_eq!(waits.collect::<Vec<_>>(), order);
}

#[test]
fn another_home_is_used_only_when_the_one_before_has_acknowledged_everything() {
    let mut rig = Rig::registered(true);
    learns(&mut rig, c());
    rig.route("1");
    assert_eq!(learns(&mut rig, a()), vec![sends_mark(c(), 1)]);
    assert_eq!(rig.route("2"), vec![]);
    assert_eq!(comes_back(&mut rig, "1", 2, c()), vec![]);
    let both = vec![
        offers(a(), envelope("1", None, 2)),
        offers(a(), envelope("2", None, 0)),
    ];
    assert_eq!(rig.acknowledged(c(), 1), both);
}

#[test]
fn a_step_repeats_a_bounded_number_of_marks_and_the_next_goes_on_behind_them() {
    const MARKS: u32 = 5_000;
    let mut rig = Rig::registered(true);
    rig.act(|region, shared| {
        for shard in (0..MARKS).map(ShardId) {
            let (node, used) = (c(), true);
            region.shards.entry(shard).home = KnownHome::Known { node, used };
            region.forget_home(shared.cx, shard);
        }
    });
    let mut repeats = || {
        let sent = rig.act(|region, shared| region.on_timer(shared, &RegionTimer::Marks));
        let shard = |effect| match effect {
            Effect::Send {
                message: Message::Sharding(ShardingMsg::Mark(mark)),
                ..
            } => mark.shard.0,
            other => panic!("{other:?}"),
        };
        sent.into_iter().map(shard).collect::<Vec<u32>>()
    };
    let (first, second) = (repeats(), repeats());
    assert_eq!(first, (0..4_096).collect::<Vec<_>>());
    let behind = (4_096..MARKS).chain(0..2 * 4_096 - MARKS);
    assert_eq!(second, behind.collect::<Vec<_>>(), "nobody answered");
}

#[test]
fn a_mark_is_repeated_until_it_is_acknowledged_or_its_node_is_lost() {
    let mut rig = Rig::registered(true);
    learns(&mut rig, c());
    rig.route("1");
    learns(&mut rig, a());
    assert!(rig.timer(RegionTimer::Marks));
    let again = rig.act(|region, shared| region.on_timer(shared, &RegionTimer::Marks));
    assert_eq!(again, vec![sends_mark(c(), 1)], "with the same number");
    rig.route("2");
    let lost = rig.act(|region, shared| region.acknowledge_for(shared, &c()));
    assert_eq!(lost, vec![offers(a(), envelope("2", None, 0))]);
    let late = comes_back(&mut rig, "1", 2, c());
    let dead = ShardingEvent::DeadLetter {
        shard: SHARD,
        reason: AskFailure::HandedOff,
    };
    assert_eq!(late, vec![event(dead)], "a later one may have been handled");
}

#[test]
fn i_43_last_words_of_a_lost_home_do_not_overtake_what_was_handled_here() {
    for was_handled in [false, true] {
        let mut rig = Rig::registered(true);
        learns(&mut rig, c());
        rig.route("1");
        rig.view_without(&c());
        rig.act(|region, shared| region.on_host_shard(shared, &a(), term(), (SHARD, TOKEN)));
        if was_handled {
            assert!(rig.route("2").contains(&delivers(slot(0), "2")));
        }
        // Who was removed had said so before.
        let late = comes_back(&mut rig, "1", 2, c());
        let dead = ShardingEvent::DeadLetter {
            shard: SHARD,
            reason: AskFailure::HandedOff,
        };
        if was_handled {
            assert_eq!(late, vec![event(dead)]);
        } else {
            assert!(late.contains(&delivers(slot(0), "1")), "{late:?}");
        }
    }
}

#[test]
fn the_coordinator_hears_that_a_home_is_forgotten_when_everything_sent_there_has_arrived() {
    let mut rig = Rig::registered(true);
    learns(&mut rig, c());
    rig.route("1");
    let begins = |rig: &mut Rig, number| {
        rig.act(|region, shared| region.on_begin_hand_off(shared, &a(), term(), (SHARD, number)))
    };
    assert_eq!(begins(&mut rig, 4), vec![sends_mark(c(), 1)]);
    assert_eq!(begins(&mut rig, 5), vec![], "marked once");
    let forgotten = |number| {
        says(
            a(),
            ShardingBody::BeginHandOffAck {
                term: term(),
                shard: SHARD,
                number,
            },
        )
    };
    assert_eq!(rig.acknowledged(c(), 1), vec![forgotten(5)]);
    assert_eq!(begins(&mut rig, 5), vec![forgotten(5)], "asked again");
    // A hand-off that was cancelled is not answered any more.
    learns(&mut rig, c());
    rig.route("2");
    begins(&mut rig, 6);
    learns(&mut rig, c());
    assert_eq!(rig.acknowledged(c(), 2), vec![]);
}

#[test]
fn a_message_that_comes_back_to_the_shards_new_home_is_delivered() {
    let mut rig = Rig::hosting();
    let effects = comes_back(&mut rig, "1", 2, c());
    assert!(effects.contains(&delivers(slot(0), "1")), "{effects:?}");
}

#[test]
fn a_message_that_comes_back_again_and_again_waits_longer() {
    let mut rig = Rig::registered(true);
    for (mark, hops) in [(1, 2), (2, 4)] {
        learns(&mut rig, c());
        rig.route("1");
        comes_back(&mut rig, "1", hops, c());
        let at_once = rig.acknowledged(c(), mark);
        assert_eq!(at_once, vec![asks_home()], "at once");
        rig.region.buffers.take(SHARD);
    }
    learns(&mut rig, c());
    rig.route("1");
    comes_back(&mut rig, "1", 6, c());
    assert_eq!(rig.acknowledged(c(), 3), vec![], "with the next retry");
    assert!(rig.timer(RegionTimer::Retry));
    let retry = rig.act(|region, shared| region.on_timer(shared, &RegionTimer::Retry));
    assert_eq!(retry, vec![asks_home()]);
}

#[test]
fn of_what_comes_back_without_a_home_the_first_asks_for_it_unless_it_did_so_too_often() {
    let mut rig = Rig::registered(true);
    assert_eq!(comes_back(&mut rig, "1", 2, c()), vec![asks_home()]);
    assert_eq!(comes_back(&mut rig, "2", 2, c()), vec![], "it is asked for");
    let mut rig = Rig::registered(true);
    assert_eq!(comes_back(&mut rig, "1", 6, c()), vec![]);
    assert!(rig.timer(RegionTimer::Retry), "with the next retry");
}

#[test]
fn what_comes_for_a_shard_that_stops_is_handed_back_at_once_even_if_it_starts_here_again() {
    let mut rig = Rig::hosting();
    rig.route("1");
    rig.act(|region, shared| region.on_hand_off(shared, &a(), term(), (SHARD, false)));
    let effects = rig.act(|region, shared| region.route(shared, foreign("2", c())));
    assert_eq!(effects, vec![hands_back(c(), envelope("2", None, 1))]);
    rig.act(|region, shared| region.on_host_shard(shared, &a(), term(), (SHARD, TOKEN)));
    let effects = rig.act(|region, shared| region.route(shared, foreign("3", c())));
    assert_eq!(effects, vec![hands_back(c(), envelope("3", None, 1))]);
    let effects = rig.act(|region, shared| region.route(shared, foreign("4", a())));
    assert_eq!(
        effects,
        vec![],
        "nothing of that one went back: it waits until the entity has stopped"
    );
    let again = rig.act(|region, shared| region.on_entity_stopped(shared, SHARD, &EntityId::from("e")));
    assert!(again.contains(&delivers(slot(1), "4")), "{again:?}");
}

#[test]
fn what_another_node_sent_and_does_not_fit_goes_back_and_what_is_of_this_node_is_refused() {
    let mut config = Config::lan(ClusterName::new("test").unwrap());
    config.sharding.buffer_messages_max = 1;
    config.sharding.buffer_waiting_max = 0;
    let mut rig = Rig::with_config(true, config);
    rig.act(|region, shared| region.on_register_ack(shared, &a(), term()));
    rig.act(|region, shared| region.on_host_shard(shared, &a(), term(), (SHARD, TOKEN)));
    rig.region.on_paused();
    assert_eq!(
        rig.act(|region, shared| region.route(shared, foreign("1", c()))),
        vec![]
    );
    let full = event(ShardingEvent::BufferFull { messages: 1 });
    let effects = rig.act(|region, shared| region.route(shared, foreign("2", c())));
    let [one, two] = ["1", "2"].map(|text| hands_back(c(), envelope(text, None, 1)));
    let room = event(ShardingEvent::BufferHasRoom);
    let all = [full.clone(), one, room, two];
    assert_eq!(effects, all, "what was there before goes back first");
    assert_eq!(rig.route("0"), vec![], "there is room again");
    let dead = ShardingEvent::DeadLetter {
        shard: SHARD,
        reason: AskFailure::BufferFull,
    };
    assert_eq!(rig.route("3"), vec![full, event(dead)]);
    // The one that came back is not overtaken: what comes behind it goes back as well, until its sender has
    // marked.
    rig.act(|region, shared| region.on_still_member(shared));
    let effects = rig.act(|region, shared| region.route(shared, foreign("4", c())));
    assert_eq!(effects, vec![hands_back(c(), envelope("4", None, 1))]);
}

#[test]
fn what_others_sent_and_counts_as_handed_back_is_named() {
    let mut rig = Rig::registered(true);
    rig.region.buffers.push_handed_back(foreign("1", c()));
    let named = rig.region.buffers.check_invariants().unwrap_err();
    assert_eq!(named, "buffers: others' messages count as handed back");
}

#[test]
fn what_does_not_fit_in_a_pause_goes_back_behind_what_that_node_sent_for_other_entities() {
    let mut config = Config::lan(ClusterName::new("test").unwrap());
    config.sharding.buffer_messages_max = 1;
    config.sharding.buffer_waiting_max = 0;
    let mut rig = Rig::with_config(true, config);
    rig.act(|region, shared| region.on_register_ack(shared, &a(), term()));
    rig.act(|region, shared| region.on_host_shard(shared, &a(), term(), (SHARD, TOKEN)));
    rig.region.on_paused();
    rig.act(|region, shared| region.route(shared, foreign("1", c())));
    let mut other = foreign("2", c());
    other.envelope.entity = EntityId::from("f");
    let effects = rig.act(|region, shared| region.route(shared, other));
    let [one, mut two] = ["1", "2"].map(|text| envelope(text, None, 1));
    two.entity = EntityId::from("f");
    let full = event(ShardingEvent::BufferFull { messages: 1 });
    let room = event(ShardingEvent::BufferHasRoom);
    assert_eq!(effects, [full, hands_back(c(), one), room, hands_back(c(), two)]);
}

#[test]
fn what_does_not_fit_for_one_entity_does_not_hold_up_the_others() {
    let mut config = Config::lan(ClusterName::new("test").unwrap());
    config.sharding.buffer_messages_max = 1;
    config.sharding.buffer_waiting_max = 0;
    let mut rig = Rig::with_config(true, config);
    rig.act(|region, shared| region.on_register_ack(shared, &a(), term()));
    rig.act(|region, shared| region.on_host_shard(shared, &a(), term(), (SHARD, TOKEN)));
    rig.route("0");
    rig.passivate_first();
    rig.route("1");
    let effects = rig.act(|region, shared| region.route(shared, foreign("2", c())));
    assert_eq!(effects[1..], [hands_back(c(), envelope("2", None, 1))]);
    let mut other = foreign("3", c());
    other.envelope.entity = EntityId::from("f");
    let effects = rig.act(|region, shared| region.route(shared, other));
    assert!(effects.contains(&delivers(slot(1), "3")), "{effects:?}");
    // Of the one there is room for by now, nothing overtakes what went back.
    let entity = EntityId::from("e");
    rig.act(|region, shared| region.on_entity_stopped(shared, SHARD, &entity));
    let effects = rig.act(|region, shared| region.route(shared, foreign("4", c())));
    assert_eq!(effects, vec![hands_back(c(), envelope("4", None, 1))]);
    rig.act(|region, shared| region.on_mark(shared, &c(), marks(1)));
    let effects = rig.act(|region, shared| region.route(shared, foreign("2", c())));
    assert!(effects.contains(&delivers(slot(2), "2")), "{effects:?}");
}

#[test]
fn what_waits_for_a_shard_is_kept_for_its_entity_although_the_buffer_is_full_by_then() {
    let mut config = Config::lan(ClusterName::new("test").unwrap());
    config.sharding.buffer_messages_max = 1;
    config.sharding.buffer_waiting_max = 0;
    let mut rig = Rig::with_config(true, config);
    rig.act(|region, shared| region.on_register_ack(shared, &a(), term()));
    rig.act(|region, shared| region.on_host_shard(shared, &a(), term(), (SHARD, TOKEN)));
    rig.route("0");
    rig.act(|region, shared| region.on_hand_off(shared, &a(), term(), (SHARD, false)));
    rig.route("2");
    comes_back(&mut rig, "1", 2, c());
    // The hand-off is cancelled: both go to the entity, which has not stopped.
    let effects = rig.act(|region, shared| region.on_host_shard(shared, &a(), term(), (SHARD, TOKEN)));
    assert!(!effects.iter().any(|effect| matches!(
        effect,
        Effect::Notify(Event::Sharding {
            event: ShardingEvent::DeadLetter { .. },
            ..
        })
    )));
    let entity = EntityId::from("e");
    let effects = rig.act(|region, shared| region.on_entity_stopped(shared, SHARD, &entity));
    let both = [delivers(slot(1), "1"), delivers(slot(1), "2")];
    assert!(effects.ends_with(&both), "{effects:?}");
}

#[test]
fn a_region_that_has_ended_hands_back_what_others_send_and_fails_what_comes_back() {
    let mut rig = Rig::registered(true);
    rig.act(|region, shared| region.drain(shared));
    assert!(rig.region.is_drained());
    let effects = rig.act(|region, shared| region.route(shared, foreign("1", c())));
    assert_eq!(effects, vec![hands_back(c(), envelope("1", None, 1))]);
    let dead = ShardingEvent::DeadLetter {
        shard: SHARD,
        reason: AskFailure::NodeStoppedUnsent,
    };
    assert_eq!(comes_back(&mut rig, "2", 2, c()), vec![event(dead)]);
}

#[test]
fn a_region_whose_time_to_hand_over_is_up_hands_back_and_does_not_answer_for_others() {
    let mut rig = Rig::hosting();
    rig.region.on_paused();
    rig.act(|region, shared| region.route(shared, foreign("1", c())));
    rig.route("2");
    rig.act(|region, shared| region.drain(shared));
    let effects = rig.act(|region, shared| region.on_timer(shared, &RegionTimer::Drain));
    let dead = event(ShardingEvent::DeadLetter {
        shard: SHARD,
        reason: AskFailure::NodeStoppedUnsent,
    });
    assert_eq!(effects[..2], [hands_back(c(), envelope("1", None, 1)), dead]);
}

#[test]
fn an_expired_message_is_dropped_instead_of_handed_back() {
    let mut rig = Rig::hosting();
    rig.region.on_paused();
    let ticket = AskTicket {
        ask: AskRef { asker: c(), id: 9 },
        remaining_ms: 500,
        chain: AskChain::default(),
    };
    let mut asked = pending("1", Some(ticket), 1);
    asked.deadline = Some(rig.fixture.mono() + Duration::from_millis(500));
    rig.act(|region, shared| region.route(shared, asked));
    rig.fixture.stand_still(Duration::from_millis(500));
    let effects = rig.act(|region, shared| region.on_hand_off(shared, &a(), term(), (SHARD, false)));
    assert!(!effects.iter().any(|effect| matches!(
        effect,
        Effect::Send {
            message: Message::Sharding(ShardingMsg::HandBack(_)),
            ..
        }
    )));
    assert_eq!(rig.fixture.stats.sharding.entity_messages_expired, 1);
}

#[test]
fn what_is_kept_of_a_sender_that_was_removed_is_forgotten() {
    let mut rig = Rig::registered(true);
    rig.act(|region, shared| region.route(shared, foreign("1", c())));
    rig.act(|region, shared| region.on_host_shard(shared, &a(), term(), (SHARD, TOKEN)));
    rig.view_without(&c());
    let effects = rig.act(|region, shared| region.route(shared, foreign("2", c())));
    assert!(effects.contains(&delivers(slot(0), "2")), "{effects:?}");
    // The same of what is kept for one entity alone, for which there was no room.
    let mut config = Config::lan(ClusterName::new("test").unwrap());
    config.sharding.buffer_messages_max = 1;
    let mut rig = Rig::with_config(true, config);
    rig.act(|region, shared| region.on_register_ack(shared, &a(), term()));
    rig.act(|region, shared| region.on_host_shard(shared, &a(), term(), (SHARD, TOKEN)));
    rig.route("0");
    rig.passivate_first();
    rig.act(|region, shared| region.route(shared, foreign("1", c())));
    let effects = rig.act(|region, shared| region.route(shared, foreign("2", c())));
    let [one, two] = ["1", "2"].map(|text| hands_back(c(), envelope(text, None, 1)));
    let full = event(ShardingEvent::BufferFull { messages: 1 });
    let room = event(ShardingEvent::BufferHasRoom);
    assert_eq!(effects, [full, one, room, two]);
    rig.view_without(&c());
    let entity = EntityId::from("e");
    rig.act(|region, shared| region.on_entity_stopped(shared, SHARD, &entity));
    let effects = rig.act(|region, shared| region.route(shared, foreign("3", c())));
    assert!(effects.contains(&delivers(slot(1), "3")), "{effects:?}");
}

#[test]
fn a_home_that_says_it_is_none_is_asked_for_again_at_once_or_with_the_next_retry() {
    for at_once in [false, true] {
        let mut rig = Rig::registered(true);
        rig.act(|region, shared| region.seek(shared, SHARD));
        learns(&mut rig, c());
        rig.act(|region, shared| region.is_not_home(shared, SHARD, &a(), at_once));
        assert_eq!(rig.region.home_of(SHARD), Some(&c()), "somebody else says so");
        rig.act(|region, shared| region.is_not_home(shared, SHARD, &c(), at_once));
        assert_eq!(rig.region.home_of(SHARD), None);
        let effects = if at_once {
            rig.act(|region, shared| region.seek(shared, SHARD))
        } else {
            assert!(rig.timer(RegionTimer::Retry));
            rig.act(|region, shared| region.on_timer(shared, &RegionTimer::Retry))
        };
        assert_eq!(effects, [asks_home()], "at once: {at_once}");
    }
}
