//! A full buffer pauses this node's users: who waits for room, who hears when, and who is refused. Spec:
//! sharding 10.3, 10.14 b.

use super::*;
use crate::cx::OfSharding;
use crate::effect::{Answer, CommandError, ShardingCommandError};

/// Room for two messages, and for two whose callers wait.
fn rig() -> Rig {
    let mut config = Config::lan(ClusterName::new("test").unwrap());
    config.sharding.buffer_messages_max = 2;
    config.sharding.buffer_waiting_max = 2;
    let mut rig = Rig::with_config(true, config);
    rig.act(|region, shared| region.on_register_ack(shared, &a(), term()));
    rig
}

fn tells(rig: &mut Rig, token: u64, text: &str) -> Vec<Effect> {
    let pending = pending(text, None, 0);
    rig.act(|region, shared| region.tell(shared, token, pending))
}

fn hears(token: u64) -> Effect {
    let answer = Answer::Done;
    Effect::Reply { token, answer }
}

fn learns(rig: &mut Rig, home: UniqueAddress) -> Vec<Effect> {
    rig.act(|region, shared| region.on_shard_homes(shared, &a(), term(), homes(home)))
}

fn offered(text: &str) -> Effect {
    offers(c(), envelope(text, None, 0))
}

#[test]
fn a_caller_beyond_a_full_buffer_waits_for_room_and_order_holds() {
    let mut rig = rig();
    let asks = says(a(), ShardingBody::GetShardHome { shard: SHARD });
    assert_eq!(tells(&mut rig, 1, "1"), [asks, hears(1)]);
    assert_eq!(tells(&mut rig, 2, "2"), [hears(2)]);
    let full = event(ShardingEvent::BufferFull { messages: 2 });
    assert_eq!(tells(&mut rig, 3, "3"), [full], "nobody hears of it yet");
    assert_eq!(rig.route("4"), [], "it was on its way");
    let refused = Effect::Reply {
        token: 5,
        answer: Answer::Refused(CommandError::Sharding(ShardingCommandError::BufferFull)),
    };
    assert_eq!(tells(&mut rig, 5, "5"), [refused], "and is no dead letter");
    let dead = event(ShardingEvent::DeadLetter {
        shard: SHARD,
        reason: AskFailure::BufferFull,
    });
    assert_eq!(rig.route("6"), [dead]);
    let room = event(ShardingEvent::BufferHasRoom);
    let out: Vec<Effect> = ["1", "2", "3", "4"].map(offered).into();
    let out = [out, vec![hears(3), room]].concat();
    assert_eq!(learns(&mut rig, c()), out);
    assert_eq!(tells(&mut rig, 7, "7").last(), Some(&hears(7)));
}

#[test]
fn callers_hear_one_by_one_as_room_comes_and_not_before() {
    let mut rig = rig();
    for (token, text) in [(1, "1"), (2, "2"), (3, "3"), (4, "4")] {
        tells(&mut rig, token, text);
    }
    let effects = learns(&mut rig, c());
    assert!(
        effects.contains(&hears(3)) && effects.contains(&hears(4)),
        "{effects:?}"
    );
    let again = |text| PendingMessage {
        is_admitted: true,
        ..pending(text, None, 0)
    };
    for text in ["1", "2", "3"] {
        rig.act(|region, shared| region.on_refused(shared, &c(), again(text)));
    }
    let full = event(ShardingEvent::BufferFull { messages: 3 });
    assert_eq!(tells(&mut rig, 5, "5"), [full]);
    let to = c().address().clone();
    let effects = rig.act(|region, shared| region.on_room(shared, &to));
    assert!(effects.contains(&hears(5)), "{effects:?}");
}

#[test]
fn an_ask_is_kept_by_a_full_buffer_because_its_caller_waits() {
    let mut rig = rig();
    for text in ["1", "2", "3", "4"] {
        rig.route(text);
    }
    let (me, kind) = (rig.fixture.me.clone(), rig.region.kind().id);
    let opened = rig.asks.open(
        &mut rig.fixture.cx::<OfSharding>(),
        7,
        (kind, SHARD),
        Duration::from_secs(1),
    );
    let (id, deadline) = opened.unwrap();
    let ticket = AskTicket {
        ask: AskRef { asker: me, id },
        remaining_ms: 0,
        chain: AskChain::default(),
    };
    let ask = PendingMessage {
        deadline: Some(deadline),
        ..pending("asked", Some(ticket), 0)
    };
    assert_eq!(rig.act(|region, shared| region.route(shared, ask)), []);
    assert_eq!(rig.region.buffers.len(), 5);
    rig.act(|region, shared| region.on_ask_expired(shared.cx, SHARD, id));
    assert_eq!(rig.region.buffers.len(), 4, "it was not handled");
}

#[test]
fn who_waits_for_room_hears_when_the_region_ends() {
    let mut rig = rig();
    for (token, text) in [(1, "1"), (2, "2"), (3, "3")] {
        tells(&mut rig, token, text);
    }
    let effects = rig.act(|region, shared| region.halt(shared));
    assert!(effects.contains(&hears(3)), "{effects:?}");
}

#[test]
fn another_nodes_message_waits_for_no_room_and_goes_back() {
    let mut rig = rig();
    rig.act(|region, shared| region.on_host_shard(shared, &a(), term(), (SHARD, TOKEN)));
    rig.region.on_paused();
    for text in ["1", "2"] {
        rig.route(text);
    }
    let foreign = pending("x", None, 1);
    let effects = rig.act(|region, shared| region.route(shared, foreign));
    let full = event(ShardingEvent::BufferFull { messages: 2 });
    assert_eq!(effects, [full, hands_back(c(), envelope("x", None, 1))]);
}
