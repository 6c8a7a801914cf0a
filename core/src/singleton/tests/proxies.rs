//! The way of users to a singleton. Spec: sharding 1.11, 6.7.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::SOON;
use super::world::{MARGIN, World, secs};
use crate::cx::OfSingleton;
use crate::effect::{Answer, Effect};
use crate::fixture::{Fixture, member, node, picture};
use crate::membership::state::member::Status;
use crate::message::Message;
use crate::messaging::Asks;
use crate::messaging::protocol::{AskReply, AskTicket};

use crate::sharding::state::chain::AskChain;
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::ids::Payload;
use crate::singleton::protocol::{
    InstanceMessage, Msg, SingletonBody, SingletonStatement, Timer as SingletonTimer,
};
use crate::singleton::proxy::{ProxyMessage, SingletonProxy};
use crate::singleton::state::SingletonId;
use crate::timer::Timer;
use crate::token::Token;

#[test]
fn s_170_a_full_buffer_drops_the_oldest_and_one_without_room_every_message() {
    for (room, delivered) in [(3, 3), (0, 0)] {
        let mut world = World::with_config(2, |config| config.singleton.buffer_messages_max = room);
        let asks: Vec<_> = (0..5).map(|_| world.ask(1, secs(60))).collect();
        world.set(&[(0, Status::Up), (1, Status::Up)]);
        world.run_for(secs(2));
        assert_eq!(world.host(0).delivered, delivered);
        for (number, ask) in asks.into_iter().enumerate() {
            let dropped = number + delivered < 5;
            let result = world.answered(ask).expect("an answer");
            assert_eq!(
                result == Err(AskFailure::BufferFull),
                dropped,
                "message {number} of {room}"
            );
        }
    }
}

#[test]
fn s_171_where_the_instance_ended_messages_wait_and_a_new_oldest_is_asked_at_once() {
    let mut world = World::formed(3);
    world.run_for(SOON);
    assert!(world.state(2).target.is_some());
    world.fails(0);
    assert_eq!(world.state(2).target, None);
    let ask = world.ask(2, secs(60));
    assert_eq!(world.state(2).waiting, 1);
    world.run_for(secs(1) + SOON);
    assert!(
        world.answered(ask).is_some_and(|result| result.is_ok()),
        "by the next one"
    );
    world.crash(&[0]);
    world.set(&[(0, Status::Down)]);
    world.remove(&[0]);
    let asked = world.heard_by(1, |body| *body == SingletonBody::Identify);
    assert!(
        asked.iter().any(|(from, _)| *from == 2),
        "without waiting for a tick"
    );
    let ask = world.ask(2, secs(60));
    world.run_for(MARGIN + secs(3));
    assert!(world.answered(ask).is_some_and(|result| result.is_ok()));
}

#[test]
fn s_172_a_late_answer_of_an_earlier_oldest_is_never_used() {
    let mut world = World::formed(3);
    world.run_for(SOON);
    let old = world.token(0).expect("it runs");
    world.crash(&[0]);
    world.set(&[(0, Status::Down)]);
    world.remove(&[0]);
    world.says(0, 2, 99, SingletonBody::Identified { token: old });
    assert_eq!(world.state(2).target, None, "no member");
    // Of the present head, but to an earlier question.
    let token = Token::new(old.term + 1, 1);
    world.says(1, 2, 0, SingletonBody::Identified { token });
    assert_eq!(world.state(2).target, None, "an earlier question");
    assert_eq!(world.stats(2).answers_stale, 1);
}

#[test]
fn a_message_to_an_instance_that_ended_is_not_given_to_its_successor() {
    let mut world = World::formed(2);
    world.run_for(SOON);
    world.hold_wire();
    let ask = world.ask(1, secs(60));
    world.fails(0);
    world.run_for(secs(2));
    assert_eq!(world.running(), [0]);
    world.release_wire();
    world.run_for(SOON);
    assert_eq!(world.answered(ask), Some(Err(AskFailure::EntityStoppedUnhandled)));
    assert_eq!(world.host(0).delivered, 0);
}

#[test]
fn b_48_an_answer_of_an_instance_counts_only_from_the_node_that_the_message_was_given_to() {
    let mut world = World::formed(3);
    world.run_for(SOON);
    world.host(0).silent = true;
    let ask = world.ask(2, secs(60));
    for id in 0..8 {
        world.answers(1, 2, id);
    }
    assert_eq!(world.answered(ask), None, "no instance is there");
    let counts = (world.stats(2).answers_stale, world.rejected(2));
    assert_eq!(
        counts,
        (7, 1),
        "to the one that is open nobody else can have the answer"
    );
    world.answers(0, 2, 1);
    assert!(world.answered(ask).is_some_and(|result| result.is_ok()));
}

#[test]
fn b_48_a_message_that_names_the_ask_of_another_node_is_refused_and_answers_nothing() {
    let mut world = World::formed(3);
    world.run_for(SOON);
    world.host(0).silent = true;
    let asks = [world.ask(0, secs(60)), world.ask(2, secs(60))];
    let delivered = world.host(0).delivered;
    for asker in [0, 2] {
        for token in [world.token(0).expect("it runs"), Token::new(9, 9)] {
            world.delivers(1, 0, (asker, 1), token);
        }
    }
    assert_eq!(asks.map(|ask| world.answered(ask)), [None, None]);
    assert_eq!(world.host(0).delivered, delivered);
    assert_eq!(world.stats(0).dead_letters, 0);
}

#[test]
fn an_ask_says_whether_its_message_may_have_been_handled() {
    let mut world = World::formed(2);
    world.run_for(SOON);
    world.host(0).silent = true;
    let sent = world.ask(1, secs(2));
    let lost = world.ask(1, secs(60));
    world.run_for(secs(3));
    assert_eq!(world.answered(sent), Some(Err(AskFailure::TimeoutSent)));
    world.crash(&[0]);
    world.set(&[(0, Status::Down)]);
    world.run_for(Duration::from_millis(1));
    assert_eq!(world.answered(lost), Some(Err(AskFailure::PeerLost)));
    let waits = world.ask(1, secs(2));
    world.run_for(secs(3));
    assert_eq!(world.answered(waits), Some(Err(AskFailure::TimeoutBuffered)));
    assert_eq!(world.state(1).waiting, 0, "what nobody waits for takes no room");
}

#[test]
fn where_no_member_has_the_role_an_ask_says_so_and_an_unknown_name_at_once() {
    let mut world = World::new(1);
    let ask = world.ask(0, secs(2));
    world.run_for(secs(3));
    assert_eq!(world.answered(ask), Some(Err(AskFailure::NobodyHosts)));
    let mut world = World::new(1);
    world.forget(0);
    let ask = world.ask(0, secs(2));
    assert_eq!(world.answered(ask), Some(Err(AskFailure::UnknownKind)));
}

#[test]
fn what_waited_through_a_pause_longer_than_its_asker_is_not_delivered() {
    let mut world = World::formed(2);
    world.run_for(SOON);
    world.pause(0);
    let (short, long) = (world.ask(1, secs(2)), world.ask(1, secs(60)));
    world.run_for(secs(3));
    assert_eq!(world.answered(short), Some(Err(AskFailure::TimeoutSent)));
    world.still_member(0);
    world.run_for(SOON);
    assert_eq!(world.host(0).delivered, 1, "the one that is still waited for");
    assert!(world.answered(long).is_some_and(|result| result.is_ok()));
    assert_eq!(world.stats(0).messages_expired, 1);
}

#[test]
fn an_ask_whose_time_is_over_does_not_count_as_sent() {
    let mut user = User::new(Status::Up);
    let billing = SingletonId::of("billing");
    let opened = user
        .asks
        .open(&mut user.fixture.cx::<OfSingleton>(), 7, billing, secs(1));
    let (id, deadline) = opened.unwrap();
    let ticket = AskTicket::of(&user.fixture.me, id, AskChain::default());
    let message = ProxyMessage {
        payload: Payload::from([1]),
        ask: Some((ticket, deadline)),
    };
    let cx = &mut user.fixture.cx();
    user.proxy.send(cx, &mut user.asks, message).unwrap();
    assert_eq!(user.sent(), (Vec::new(), 1));
    user.fixture.stand_still(secs(1));
    user.finds(1);
    assert_eq!(user.sent(), (Vec::new(), 0), "nobody waits for it");
    user.asks
        .on_deadline(&mut user.fixture.cx::<OfSingleton>(), |_| false);
    let result = Err(AskFailure::TimeoutBuffered);
    let answer = Answer::Asked(result);
    assert_eq!(user.fixture.effects(), [Effect::Reply { token: 7, answer }]);
}

#[test]
fn s_170_what_expired_in_the_buffer_takes_no_bytes_of_it() {
    let mut world = World::with_config(2, |config| config.singleton.buffer_bytes_max = 4);
    let early: Vec<_> = (0..2).map(|_| world.ask(1, secs(2))).collect();
    world.run_for(secs(3));
    let expired = Some(Err(AskFailure::NobodyHosts));
    assert!(early.iter().all(|ask| world.answered(*ask) == expired));
    let late: Vec<_> = (0..4).map(|_| world.ask(1, secs(60))).collect();
    assert!(
        late.iter().all(|ask| world.answered(*ask).is_none()),
        "there is room"
    );
    let one_more = world.ask(1, secs(60));
    assert_eq!(world.answered(late[0]), Some(Err(AskFailure::BufferFull)));
    world.set(&[(0, Status::Up), (1, Status::Up)]);
    world.run_for(secs(2));
    assert_eq!(world.host(0).delivered, 4);
    assert!(world.answered(one_more).is_some_and(|result| result.is_ok()));
}

#[test]
fn an_ask_that_was_answered_leaves_no_deadline_behind_that_others_wait_for() {
    let mut world = World::formed(2);
    world.run_for(SOON);
    let early = world.ask(1, secs(2));
    world.run_for(SOON);
    assert!(world.answered(early).is_some_and(|result| result.is_ok()));
    world.host(0).silent = true;
    let late = world.ask(1, secs(4));
    world.run_for(secs(5));
    assert_eq!(world.answered(late), Some(Err(AskFailure::TimeoutSent)));
}

#[test]
fn no_ask_waits_for_more_than_a_day_and_only_so_many_are_open() {
    let mut config = crate::config::Config::lan(crate::ident::ClusterName::new("test").unwrap());
    config.singleton.open_asks_max = 2;
    let mut fixture = Fixture::with_config(node("a", 1), config);
    let (mut asks, id) = (Asks::default(), SingletonId::of("billing"));
    let began = fixture.mono();
    asks.open(&mut fixture.cx::<OfSingleton>(), 7, id, secs(10 * 86_400))
        .unwrap();
    let due = fixture.timers.next().map(|(at, _)| at.since(began));
    assert_eq!(due, Some(secs(86_400)));
    let (second, _) = asks
        .open(&mut fixture.cx::<OfSingleton>(), 8, id, secs(1))
        .unwrap();
    let full = Err(AskFailure::TooManyOpenAsks);
    assert_eq!(asks.open(&mut fixture.cx::<OfSingleton>(), 9, id, secs(1)), full);
    asks.close(
        &mut fixture.cx::<OfSingleton>(),
        second,
        Err(AskFailure::PeerLost),
    );
    assert!(
        asks.open(&mut fixture.cx::<OfSingleton>(), 9, id, secs(1))
            .is_ok()
    );
}

#[test]
fn a_message_larger_than_the_whole_buffer_is_refused_and_pushes_nothing_out() {
    let mut world = World::with_config(1, |config| config.singleton.buffer_bytes_max = 2);
    let small = world.ask(0, secs(60));
    let large = world.ask_with(0, b"large", secs(60));
    assert_eq!(world.answered(large), Some(Err(AskFailure::BufferFull)));
    assert_eq!(
        (world.answered(small), world.stats(0).messages_pushed_out),
        (None, 0)
    );
}

#[test]
fn the_bytes_of_a_users_message_and_of_its_answer_count_where_messages_wait_for_a_link() {
    let delivery = InstanceMessage {
        singleton: SingletonId::of("billing"),
        token: Token::new(1, 1),
        ask: None,
        payload: Payload::from(b"seven b".as_slice()),
    };
    let reply = |result| AskReply {
        id: 1,
        to: node("a", 1),
        result,
    };
    let statement = SingletonStatement {
        singleton: SingletonId::of("billing"),
        to: node("a", 1),
        epoch: 1,
        body: SingletonBody::Identify,
    };
    let bytes = [
        Msg::Delivery(delivery),
        Msg::Reply(reply(Ok(Payload::from(b"four".as_slice())))),
        Msg::Reply(reply(Err(AskFailure::PeerLost))),
        Msg::Statement(statement),
    ]
    .map(|msg| Message::Singleton(msg).payload_bytes());
    assert_eq!(bytes, [7, 4, 0, 0]);
}

/// A member that looks for the instance at an older one, and what leaves it.
struct User {
    fixture: Fixture,
    proxy: SingletonProxy,
    asks: Asks<SingletonId>,
}

impl User {
    fn new(oldest: Status) -> Self {
        let me = node("b", 2);
        let mut fixture = Fixture::new(me.clone());
        let members = [(node("a", 1), oldest), (me.clone(), Status::Up)];
        let members = members.iter().map(|(node, status)| member(node, *status));
        fixture.view = Arc::new(picture(&me, members, &[]));
        let mut user = Self {
            fixture,
            proxy: SingletonProxy::new(SingletonId::of("billing"), None),
            asks: Asks::default(),
        };
        user.proxy.on_ages_changed(&mut user.fixture.cx());
        user
    }

    fn send(&mut self, number: u32) {
        let message = ProxyMessage {
            payload: Payload::from(number.to_be_bytes().as_slice()),
            ask: None,
        };
        let cx = &mut self.fixture.cx();
        self.proxy.send(cx, &mut self.asks, message).unwrap();
    }

    /// The messages that were sent, and how many questions.
    fn sent(&mut self) -> (Vec<u32>, usize) {
        let (mut numbers, mut questions) = (Vec::new(), 0);
        for effect in self.fixture.effects() {
            match effect {
                Effect::Send {
                    message: Message::Singleton(Msg::Delivery(delivery)),
                    ..
                } => {
                    let bytes = <[u8; 4]>::try_from(&*delivery.payload).unwrap();
                    numbers.push(u32::from_be_bytes(bytes));
                }
                Effect::Send {
                    message: Message::Singleton(Msg::Statement(_)),
                    ..
                } => questions += 1,
                other => panic!("{other:?}"),
            }
        }
        (numbers, questions)
    }

    fn finds(&mut self, epoch: u64) {
        let (token, from) = (Token::new(1, 1), node("a", 1));
        let cx = &mut self.fixture.cx();
        self.proxy.on_identified(cx, &mut self.asks, &from, epoch, token);
    }
}

#[test]
fn of_many_that_wait_a_bounded_number_goes_at_once_and_nothing_overtakes_the_rest() {
    let mut user = User::new(Status::Up);
    (0..300).for_each(|number| user.send(number));
    assert_eq!(user.sent(), (Vec::new(), 1));
    user.finds(1);
    assert_eq!(user.sent().0, Vec::from_iter(0..256));
    user.send(300);
    assert_eq!(user.sent().0, []);
    let flush = Timer::Singleton(SingletonTimer::Flush(SingletonId::of("billing")));
    let due = user.fixture.timers.at(&flush);
    let soon = user.fixture.mono() + Duration::from_millis(1);
    assert!(due.is_some_and(|due| due <= soon), "{due:?}");
    user.proxy.flush(&mut user.fixture.cx(), &mut user.asks);
    assert_eq!(user.sent().0, Vec::from_iter(256..301));
    user.send(301);
    assert_eq!(user.sent().0, [301]);
}

#[test]
fn a_member_that_is_down_is_not_asked_and_another_instance_than_the_one_that_is_used_may_end() {
    let mut user = User::new(Status::Down);
    assert_eq!(user.sent(), (Vec::new(), 0));
    let mut user = User::new(Status::Up);
    user.finds(1);
    assert_eq!(user.sent(), (Vec::new(), 1));
    let (oldest, me) = (node("a", 1), node("b", 2));
    for (from, token) in [(&oldest, Token::new(1, 2)), (&me, Token::new(1, 1))] {
        user.proxy.on_gone(&mut user.fixture.cx(), from, token);
        assert_eq!(user.sent(), (Vec::new(), 0));
        assert!(user.proxy.target().is_some());
    }
    user.proxy
        .on_gone(&mut user.fixture.cx(), &oldest, Token::new(1, 1));
    assert_eq!(user.sent(), (Vec::new(), 1), "it is looked for anew");
    assert_eq!(user.proxy.target(), None);
}

#[test]
fn the_end_of_the_node_says_of_each_ask_whether_its_message_was_sent() {
    let mut world = World::formed(2);
    world.run_for(SOON);
    world.host(0).silent = true;
    let sent = world.ask(1, secs(60));
    world.run_for(SOON);
    world.fails(0);
    let unsent = world.ask(1, secs(60));
    world.set(&[(1, Status::Down)]);
    assert_eq!(world.answered(sent), None, "the host has its turn");
    world.speaks_last(1);
    let answers = [sent, unsent].map(|ask| world.answered(ask));
    let expected = [AskFailure::NodeStopped, AskFailure::NodeStoppedUnsent];
    assert_eq!(answers, expected.map(|failure| Some(Err(failure))));
}

#[test]
fn i_44_what_comes_back_unsent_when_the_instances_node_is_lost_was_not_handled() {
    let mut world = World::formed(2);
    world.run_for(SOON);
    world.host(0).silent = true;
    let [unsent, sent] = [secs(60); 2].map(|timeout| world.ask(1, timeout));
    world.set(&[(0, Status::Down)]);
    assert_eq!(world.answered(unsent), None, "the host has its turn");
    world.gives_back(unsent, 0);
    world.run_for(Duration::from_millis(1));
    let answers = [unsent, sent].map(|ask| world.answered(ask));
    let expected = [AskFailure::Unreachable, AskFailure::PeerLost];
    assert_eq!(answers, expected.map(|failure| Some(Err(failure))));
}
