//! Messages that wait in a region: those that nobody waits for any more, what a nearly full buffer says, and
//! what a region that ends does with them.

use super::*;
use crate::cx::OfSharding;
use crate::effect::Answer;
use crate::owner::Requester;
use crate::sharding::state::chain::AskChain;

fn foreign_ask(id: u64, remaining: Duration, rig: &Rig) -> PendingMessage {
    let ticket = AskTicket {
        ask: AskRef { asker: c(), id },
        remaining_ms: 0,
        chain: AskChain::default(),
    };
    let mut pending = pending("asked", Some(ticket), 1);
    pending.deadline = Some(rig.fixture.mono() + remaining);
    pending
}

#[test]
fn a_message_whose_asker_stopped_waiting_is_not_delivered() {
    let mut rig = Rig::hosting();
    rig.region.on_paused();
    let (short, long) = (
        foreign_ask(1, Duration::from_secs(1), &rig),
        foreign_ask(2, Duration::from_secs(9), &rig),
    );
    rig.act(|region, shared| region.route(shared, short));
    rig.act(|region, shared| region.route(shared, long));
    rig.fixture.stand_still(Duration::from_secs(1));
    let effects = rig.act(|region, shared| region.on_still_member(shared));
    let delivered: Vec<u64> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Host(
                Requester::Sharding,
                HostOrder::Deliver {
                    reply_to: Some(ask), ..
                },
            ) => Some(ask.id),
            _ => None,
        })
        .collect();
    assert_eq!(
        delivered,
        vec![2],
        "the first one's asker was told that it timed out"
    );
    assert_eq!(rig.fixture.stats.sharding.entity_messages_expired, 1);
    assert!(rig.region.buffers.is_empty());
}

/// What stood still has several things due at once, and a shard may start before the time of the ask is
/// looked at.
#[test]
fn i_44_an_own_ask_whose_time_is_over_is_not_delivered_by_what_was_due_before() {
    let mut rig = Rig::registered(true);
    let me = rig.fixture.me.clone();
    let kind = rig.region.kind().id;
    let seconds = Duration::from_secs;
    for (token, timeout) in [(7, seconds(1)), (8, seconds(9))] {
        let opened = rig
            .asks
            .open(&mut rig.fixture.cx::<OfSharding>(), token, (kind, SHARD), timeout);
        let (id, deadline) = opened.unwrap();
        let ask = AskRef {
            asker: me.clone(),
            id,
        };
        let ticket = AskTicket {
            ask,
            remaining_ms: 0,
            chain: AskChain::default(),
        };
        let mut pending = pending("asked", Some(ticket), 0);
        pending.deadline = Some(deadline);
        rig.act(|region, shared| region.route(shared, pending));
    }
    rig.fixture.stand_still(seconds(1));
    let effects = rig.act(|region, shared| region.on_host_shard(shared, &a(), term(), (SHARD, TOKEN)));
    let delivered = effects.iter().filter(|effect| {
        matches!(
            effect,
            Effect::Host(Requester::Sharding, HostOrder::Deliver { .. })
        )
    });
    assert_eq!(delivered.count(), 1, "nobody waits for the first one any more");
    let result = Err(AskFailure::TimeoutBuffered);
    assert!(effects.contains(&Effect::Reply {
        token: 7,
        answer: Answer::Asked(result),
    }));
    assert_eq!(rig.asks.len(), 1);
    assert_eq!(rig.fixture.stats.sharding.entity_messages_expired, 1);
}

/// With room for four messages and for forty bytes.
fn small() -> Rig {
    let mut config = Config::lan(ClusterName::new("test").unwrap());
    config.sharding.buffer_messages_max = 4;
    config.sharding.buffer_bytes_max = 40;
    Rig::with_config(true, config)
}

fn has_room(rig: &Rig) -> bool {
    let limits = &rig.region.kind().config;
    let (messages_max, bytes_max) = (limits.buffer_messages_max, limits.buffer_bytes_max);
    rig.region.buffered().leaves_room(messages_max, bytes_max)
}

#[test]
fn i_45_a_buffer_has_room_below_three_quarters_of_its_messages() {
    let mut rig = small();
    for text in ["1", "2"] {
        rig.route(text);
    }
    assert!(has_room(&rig));
    rig.route("3");
    assert!(!has_room(&rig));
}

#[test]
fn i_45_a_buffer_has_room_below_three_quarters_of_its_bytes() {
    let mut rig = small();
    rig.route("28 bytes and an id of one...");
    assert_eq!(rig.region.buffers.len(), 1);
    assert!(has_room(&rig), "29 of 40");
    let mut rig = small();
    rig.route("29 bytes and an id of one....");
    assert!(!has_room(&rig), "30 of 40");
}

#[test]
fn a_draining_region_ends_only_when_what_it_buffers_has_gone() {
    let mut rig = Rig::registered(true);
    rig.route("1");
    rig.act(|region, shared| region.drain(shared));
    assert!(!rig.region.is_drained(), "a message waits for its home");
    let effects = rig.act(|region, shared| region.on_shard_homes(shared, &a(), term(), homes(c())));
    let drained = event(ShardingEvent::Drained);
    assert_eq!(
        effects,
        vec![offers(c(), envelope("1", None, 0)), sends_mark(c(), 1)],
        "it may come back"
    );
    assert!(!rig.region.is_drained());
    assert_eq!(
        rig.acknowledged(c(), 1),
        vec![says(a(), ShardingBody::RegionStopped), drained]
    );
    assert!(rig.region.is_drained());
}

#[test]
fn a_draining_region_that_nobody_stays_for_gives_up_at_once() {
    let mut rig = Rig::registered(true);
    rig.route("1");
    let me = rig.fixture.me.clone();
    rig.view(&[
        (a(), Status::Leaving),
        (me, Status::Leaving),
        (c(), Status::Exiting),
    ]);
    let effects = rig.act(|region, shared| region.drain(shared));
    let reason = AskFailure::NodeStoppedUnsent;
    let dead = event(ShardingEvent::DeadLetter { shard: SHARD, reason });
    assert!(effects.contains(&dead), "{effects:?}");
    assert!(rig.region.is_drained());
}

#[test]
fn what_still_waits_when_a_draining_regions_time_is_up_was_not_handled() {
    let mut rig = Rig::registered(true);
    rig.route("1");
    rig.act(|region, shared| region.drain(shared));
    let effects = rig.act(|region, shared| region.on_timer(shared, &RegionTimer::Drain));
    let dead = event(ShardingEvent::DeadLetter {
        shard: SHARD,
        reason: AskFailure::NodeStoppedUnsent,
    });
    assert!(effects.contains(&dead), "{effects:?}");
    assert!(!AskFailure::NodeStoppedUnsent.may_have_been_handled());
    assert!(rig.region.is_drained());
}

#[test]
fn that_nobody_hosts_is_believed_of_the_coordinators_node_until_a_coordinator_answers() {
    let mut rig = Rig::new(true);
    let effects = rig.act(|region, shared| region.on_nobody_hosts(shared, &c()));
    assert_eq!(
        effects,
        vec![rejected(c(), Rejection::Sharding(ShardingRejection::WrongSender))]
    );
    let view = Arc::clone(&rig.fixture.view);
    assert!(!rig.region.nobody_hosts(&view));
    rig.act(|region, shared| region.on_nobody_hosts(shared, &a()));
    assert!(rig.region.nobody_hosts(&view));
    rig.act(|region, shared| region.on_register_ack(shared, &a(), term()));
    assert!(!rig.region.nobody_hosts(&view), "it may only be recovering");
}

#[test]
fn that_nobody_hosts_is_not_believed_of_who_will_coordinate_next() {
    let mut rig = Rig::new(true);
    let members = [
        (a(), Status::Leaving),
        (node("b", 2), Status::Up),
        (c(), Status::Up),
    ];
    rig.view(&members);
    let next = node("b", 2);
    let effects = rig.act(|region, shared| region.on_nobody_hosts(shared, &next));
    assert_eq!(effects, vec![], "it may not have the kind yet");
    let view = Arc::clone(&rig.fixture.view);
    assert!(!rig.region.nobody_hosts(&view));
    rig.act(|region, shared| region.on_nobody_hosts(shared, &a()));
    assert!(rig.region.nobody_hosts(&view));
}
