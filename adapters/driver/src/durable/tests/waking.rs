//! What an entity says to its clock, and when: before it keeps what it has to be woken for, and only while it
//! surely owns its log.

use std::time::{Duration, Instant};

use quorate_core::sharding::chain::AskChain;
use quorate_core::sharding::ids::{EntityId, KindId};
use quorate_core::wakeups::{call, clock_of, clocks_of};

use super::*;
use crate::codec;
use crate::commands::UserCommand;
use crate::durable::clocks::{ClockAnswer, ClockRequest};
use quorate_core::input::Recipient;

/// Far beyond what anything takes.
const LIMIT: Duration = Duration::from_secs(60);

const HOUR_MS: u64 = 3_600_000;

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Wish {
    /// Is reminded in so many hours.
    Remind(u64),
    Forget,
    Look,
    /// As long as what a clock says.
    Long([u8; 7]),
}

#[derive(Serialize, Deserialize)]
struct Happened;

impl Versioned for Happened {}

#[derive(Default, Serialize, Deserialize)]
struct Events(u64);

impl Versioned for Events {}

struct Sleeper;

impl EventSourced for Sleeper {
    type Command = Wish;
    type Reply = u64;
    type Event = Happened;
    type State = Events;

    async fn handle(&mut self, _: &EntityContext, events: &Events, wish: Wish) -> Decision<Self> {
        let name = "it";
        match wish {
            Wish::Look | Wish::Long(_) => Decision::reply(events.0),
            Wish::Forget => Decision::persist(Happened).forget_reminder(name).reply(events.0),
            Wish::Remind(hours) => {
                let after = Duration::from_millis(hours * HOUR_MS);
                Decision::persist(Happened)
                    .remind(name, after, &Wish::Look)
                    .reply(events.0)
            }
        }
    }

    fn apply(events: &mut Events, _: Happened) {
        events.0 += 1;
    }
}

const KIND: &str = "sleeper";

fn sleeper(node: &DurableHost) -> DurableEntity<Wish, u64> {
    node.entity_with_clocks((KIND, b"1"), |_| Sleeper)
}

fn clock() -> Recipient {
    let clock = clock_of(&EntityId::from("1"));
    Recipient::Entity(KindId::of(&clocks_of(KIND)), clock)
}

/// The next question to the clock, answered.
fn asked(node: &DurableHost, said: ClockAnswer) -> ClockRequest {
    let begin = Instant::now();
    loop {
        if let Ok(command) = node.commands.user.try_recv() {
            let UserCommand::Ask {
                to, payload, reply, ..
            } = command
            else {
                panic!("it only asks");
            };
            assert_eq!(to, clock());
            reply.send(Ok(codec::encode_answer(&said)));
            return codec::decode(&payload).unwrap();
        }
        assert!(begin.elapsed() < LIMIT, "it asks its clock");
        std::thread::yield_now();
    }
}

fn is_quiet(node: &DurableHost) -> bool {
    node.commands.user.is_empty()
}

fn appends(plan: &Plan) -> usize {
    lock(&plan.orders)
        .iter()
        .filter(|order| **order == "append")
        .count()
}

fn kept(version: u64, hours: u64) -> ClockAnswer {
    let at_ms = hours * HOUR_MS;
    ClockAnswer::Kept { version, at_ms }
}

/// When it wants to be woken, in hours.
fn wanted(order: &ClockRequest) -> u64 {
    match order {
        ClockRequest::Wake { entity, at_ms } if *entity.0 == *b"1" => at_ms / HOUR_MS,
        _ => panic!("{order:?}"),
    }
}

/// Under which version it was woken, and when it wants to be next.
fn handled(order: &ClockRequest) -> (u64, Option<u64>) {
    match order {
        ClockRequest::Handled {
            entity,
            version,
            next_ms,
        } if *entity.0 == *b"1" => (*version, next_ms.map(|at| at / HOUR_MS)),
        _ => panic!("{order:?}"),
    }
}

/// As its clock asks it.
fn wake(entity: &mut DurableEntity<Wish, u64>, version: u64) {
    assert!(entity.put_bytes(call(version), AskChain::of_a_clock()).is_some());
    let (_, answer) = entity.next_answer().unwrap();
    assert_eq!(answer, Err(AskError::Decode), "a clock is answered with nothing");
}

#[test]
fn the_clock_knows_before_anything_is_kept_and_is_asked_no_more_than_needed() {
    let (node, plan) = node(&SharedMemoryStore::new());
    let mut entity = sleeper(&node);
    assert_eq!(entity.ask(&Wish::Look), Ok(0));
    entity.send(&Wish::Remind(5));
    assert_eq!(wanted(&asked(&node, ClockAnswer::Full)), 5);
    assert_eq!(
        entity.next_answer().unwrap().1,
        Err(AskError::NotDurable(DurableFailure::Full))
    );
    entity.send(&Wish::Remind(5));
    asked(&node, ClockAnswer::Outdated);
    assert_eq!(
        entity.next_answer().unwrap().1,
        Err(AskError::NotDurable(DurableFailure::Unavailable))
    );
    assert_eq!(
        (entity.ask(&Wish::Look), appends(&plan)),
        (Ok(0), 0),
        "nothing was kept"
    );
    entity.send(&Wish::Remind(5));
    assert!(!entity.has_answered() && appends(&plan) == 0);
    assert_eq!(wanted(&asked(&node, kept(1, 5))), 5);
    assert_eq!(entity.next_answer().unwrap().1, Ok(0));
    // Later than it is woken anyway.
    assert_eq!(entity.ask(&Wish::Remind(7)), Ok(1));
    assert_eq!(entity.ask(&Wish::Forget), Ok(2));
    assert!(is_quiet(&node));
    entity.send(&Wish::Remind(3));
    assert_eq!(wanted(&asked(&node, kept(2, 3))), 3);
    assert_eq!(entity.next_answer().unwrap().1, Ok(3));
    // The next incarnation knows of no clock.
    entity.kill();
    let mut next = sleeper(&node);
    next.send(&Wish::Remind(9));
    assert_eq!(wanted(&asked(&node, kept(3, 3))), 9);
    assert_eq!(next.next_answer().unwrap().1, Ok(4));
    next.drain();
}

#[test]
fn who_is_woken_says_what_is_next_and_proves_first_that_it_owns_its_log() {
    let (node, plan) = node(&SharedMemoryStore::new());
    let mut entity = sleeper(&node);
    entity.send(&Wish::Remind(5));
    asked(&node, kept(7, 5));
    assert_eq!(entity.next_answer().unwrap().1, Ok(0));
    let before = appends(&plan);
    // It has that version itself.
    wake(&mut entity, 7);
    assert_eq!(handled(&asked(&node, kept(8, 5))), (7, Some(5)));
    wake(&mut entity, 8);
    assert_eq!(handled(&asked(&node, ClockAnswer::Outdated)), (8, Some(5)));
    assert_eq!((entity.ask(&Wish::Look), appends(&plan)), (Ok(1), before));
    // It does not know who has this one: it writes first.
    wake(&mut entity, 11);
    assert_eq!(handled(&asked(&node, kept(12, 5))), (11, Some(5)));
    assert_eq!(appends(&plan), before + 1);
    assert_eq!(entity.ask(&Wish::Forget), Ok(1));
    wake(&mut entity, 12);
    assert_eq!(handled(&asked(&node, ClockAnswer::Nothing)), (12, None));
    entity.drain();
}

#[test]
fn a_stale_incarnation_takes_no_wish_of_its_successor_back() {
    let stores = SharedMemoryStore::new();
    let ((here, _), (there, _)) = (node(&stores), node(&stores));
    let mut stale = sleeper(&here);
    assert_eq!(stale.ask(&Wish::Look), Ok(0));
    let mut owner = sleeper(&there);
    owner.send(&Wish::Remind(5));
    asked(&there, kept(7, 5));
    assert_eq!(owner.next_answer().unwrap().1, Ok(0));
    // The clock's question comes to the wrong one, which knows of no reminder.
    wake(&mut stale, 7);
    assert_eq!(stale.next_answer(), None, "it is refused by the log and ends");
    assert!(is_quiet(&here), "and has said nothing");
    owner.drain();
}

#[test]
fn who_was_told_when_it_is_woken_and_could_not_keep_what_for_is_not_sure_of_its_log() {
    let stores = SharedMemoryStore::new();
    let ((here, plan), (there, _)) = (node(&stores), node(&stores));
    let mut stale = sleeper(&here);
    assert_eq!(stale.ask(&Wish::Look), Ok(0));
    let mut owner = sleeper(&there);
    owner.send(&Wish::Remind(5));
    asked(&there, kept(7, 5));
    assert_eq!(owner.next_answer().unwrap().1, Ok(0));
    lock(&plan.faults).push_back(Fault::Full);
    stale.send(&Wish::Remind(9));
    assert_eq!(wanted(&asked(&here, kept(8, 5))), 9);
    assert_eq!(
        stale.next_answer().unwrap().1,
        Err(AskError::NotDurable(DurableFailure::Full))
    );
    wake(&mut stale, 8);
    assert_eq!(stale.next_answer(), None, "it is refused by the log and ends");
    assert!(is_quiet(&here), "and has not taken the other's wish back");
    owner.drain();
}

#[test]
fn a_command_with_the_bytes_of_a_clocks_question_is_a_command() {
    let (node, _) = node(&SharedMemoryStore::new());
    let mut entity = sleeper(&node);
    let Recipient::Entity(kind, id) = clock() else {
        panic!("a clock is an entity");
    };
    let chains = [AskChain::default(), AskChain::of(&[AskChain::entity(kind, &id)])];
    for chain in chains {
        assert_eq!(codec::encode(&Wish::Long([0; 7])).unwrap(), call(3));
        assert!(entity.put_bytes(call(3), chain).is_some());
        assert_eq!(entity.next_answer().unwrap().1, Ok(0));
    }
    assert!(is_quiet(&node));
    entity.drain();
}

#[test]
fn a_wake_up_is_no_command_whatever_bytes_it_has_and_where_nobody_wakes() {
    let (node, _) = node(&SharedMemoryStore::new());
    let look = || codec::encode(&Wish::Look).unwrap();
    let mut entity = sleeper(&node);
    assert!(entity.put_bytes(look(), AskChain::of_a_clock()).is_some());
    assert_eq!(entity.next_answer().unwrap().1, Err(AskError::Undecodable));
    assert_eq!(entity.ask(&Wish::Look), Ok(0));
    entity.drain();
    let mut unwatched: DurableEntity<Wish, u64> = node.entity((KIND, b"2"), |_| Sleeper);
    assert!(unwatched.put_bytes(call(2), AskChain::of_a_clock()).is_some());
    assert_eq!(unwatched.next_answer().unwrap().1, Err(AskError::Undecodable));
    unwatched.drain();
}
