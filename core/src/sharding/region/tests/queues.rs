//! Messages that waited for a home whose queue is full: they wait on, in order, and none is lost. Spec:
//! sharding 10.3, 10.14 b.

use super::*;
use crate::cx::OfSharding;
use crate::ident::Address;

/// A rig in which so many messages wait for their home.
fn waiting(texts: &[&str]) -> Rig {
    let mut rig = Rig::registered(true);
    for text in texts {
        rig.route(text);
    }
    rig
}

fn learns(rig: &mut Rig, home: UniqueAddress) -> Vec<Effect> {
    rig.act(|region, shared| region.on_shard_homes(shared, &a(), term(), homes(home)))
}

/// The host has no room for a message that was offered.
fn refused(rig: &mut Rig, text: &str) -> Vec<Effect> {
    let pending = PendingMessage {
        is_admitted: true,
        ..pending(text, None, 0)
    };
    rig.act(|region, shared| region.on_refused(shared, &c(), pending))
}

fn room(rig: &mut Rig, address: &Address) -> Vec<Effect> {
    rig.act(|region, shared| region.on_room(shared, address))
}

fn offered(texts: &[&str]) -> Vec<Effect> {
    let offered = |text: &&str| offers(c(), envelope(text, None, 0));
    texts.iter().map(offered).collect()
}

#[test]
fn i_44_what_waited_and_finds_no_room_waits_on_in_order_before_what_came_later() {
    let mut rig = waiting(&["1", "2", "3", "4"]);
    assert_eq!(learns(&mut rig, c()), offered(&["1", "2", "3", "4"]));
    assert_eq!(refused(&mut rig, "2"), []);
    assert_eq!(refused(&mut rig, "3"), []);
    assert_eq!(rig.route("5"), [], "behind those that wait");
    assert_eq!(refused(&mut rig, "4"), []);
    assert_eq!(room(&mut rig, a().address()), [], "of somebody else");
    assert_eq!(
        rig.act(|region, shared| region.on_timer(shared, &RegionTimer::Flush)),
        []
    );
    let again = offered(&["2", "3", "4", "5"]);
    assert_eq!(room(&mut rig, c().address()), again);
    // Room was not for all of them.
    for text in ["4", "5"] {
        assert_eq!(refused(&mut rig, text), []);
    }
    assert_eq!(room(&mut rig, c().address()), offered(&["4", "5"]));
    assert_eq!(rig.route("6"), [sends(c(), envelope("6", None, 0))]);
    assert_eq!(rig.fixture.stats.sharding.dead_letters, 0);
}

#[test]
fn i_43_what_a_home_gives_back_goes_before_what_found_no_room_on_the_way_there() {
    let mut rig = waiting(&["1", "2", "3"]);
    learns(&mut rig, c());
    assert_eq!(refused(&mut rig, "3"), []);
    for (text, marks) in [("1", vec![sends_mark(c(), 1)]), ("2", vec![])] {
        let pending = pending(text, None, 0);
        let effects = rig.act(|region, shared| region.on_handed_back(shared, &c(), pending));
        assert_eq!(effects, marks);
    }
    assert_eq!(
        room(&mut rig, c().address()),
        [],
        "its home is not known any more"
    );
    rig.acknowledged(c(), 1);
    assert_eq!(learns(&mut rig, c()), offered(&["1", "2", "3"]));
}

#[test]
fn i_44_what_found_no_room_before_its_shard_moves_waits_for_the_next_home() {
    let mut rig = waiting(&["1", "2"]);
    learns(&mut rig, c());
    let effects = rig.act(|region, shared| region.on_begin_hand_off(shared, &a(), term(), (SHARD, 7)));
    assert_eq!(effects, [sends_mark(c(), 1)]);
    assert_eq!(refused(&mut rig, "2"), []);
    let effects = rig.acknowledged(c(), 1);
    let (term, shard, number) = (term(), SHARD, 7);
    let forgotten = says(a(), ShardingBody::BeginHandOffAck { term, shard, number });
    assert!(effects.contains(&forgotten), "{effects:?}");
    let effects = learns(&mut rig, a());
    assert_eq!(
        effects,
        [offers(a(), envelope("2", None, 0))],
        "its queue has room"
    );
}

/// A queue takes no mark before what found no room has come back.
#[test]
fn i_43_marks_go_again_when_there_is_room() {
    let mut rig = waiting(&["1", "2"]);
    learns(&mut rig, c());
    rig.act(|region, shared| region.on_begin_hand_off(shared, &a(), term(), (SHARD, 7)));
    assert_eq!(refused(&mut rig, "2"), []);
    let mut again =
        |home: UniqueAddress| rig.act(|region, shared| region.repeat_marks_at(shared.cx, home.address()));
    assert_eq!(again(a()), [], "at somebody else's");
    assert_eq!(again(c()), [sends_mark(c(), 1)]);
    rig.acknowledged(c(), 1);
    let effects = rig.act(|region, shared| region.repeat_marks_at(shared.cx, c().address()));
    assert_eq!(effects, []);
}

/// Its host tells it only when its home is gone, and another one has had what came later.
#[test]
fn i_43_what_found_no_room_and_comes_back_too_late_is_not_sent_to_the_next_home() {
    let mut rig = waiting(&["1", "2"]);
    learns(&mut rig, c());
    rig.view_without(&c());
    rig.route("3");
    assert_eq!(learns(&mut rig, a()), [offers(a(), envelope("3", None, 0))]);
    let effects = refused(&mut rig, "2");
    let handed_off = |effect: &Effect| {
        let Effect::Notify(crate::event::Event::Sharding { event, .. }) = effect else {
            return false;
        };
        matches!(
            event,
            ShardingEvent::DeadLetter {
                reason: AskFailure::HandedOff,
                ..
            }
        )
    };
    assert!(effects.iter().any(handed_off), "{effects:?}");
    assert!(rig.region.buffers.is_empty());
}

#[test]
fn i_44_what_found_no_room_before_its_home_died_looks_for_another_one() {
    let mut rig = waiting(&["1"]);
    learns(&mut rig, c());
    assert_eq!(refused(&mut rig, "1"), []);
    rig.view_without(&c());
    assert!(rig.timer(RegionTimer::Retry));
    let effects = rig.act(|region, shared| region.on_timer(shared, &RegionTimer::Retry));
    let asks = says(a(), ShardingBody::GetShardHome { shard: SHARD });
    assert_eq!(effects, [asks]);
}

#[test]
fn i_44_an_ask_that_found_no_room_can_expire_unhandled() {
    let mut rig = Rig::registered(true);
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
    let again = ask.clone();
    rig.act(|region, shared| region.route(shared, ask));
    learns(&mut rig, c());
    assert_eq!(rig.asks.take_back(id, &c()), Ok(deadline));
    rig.act(|region, shared| region.on_refused(shared, &c(), again));
    assert_eq!(rig.region.buffers.len(), 1);
    rig.act(|region, shared| region.on_ask_expired(shared.cx, SHARD, id));
    assert!(rig.region.buffers.is_empty());
}
