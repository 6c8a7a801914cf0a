//! Whole nodes: who votes, whose log it is, what callers are told. Spec: sharding 10.7, 10.16; reliability
//! I-84.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use crate::config::Config;
use crate::effect::{Answer, CommandError as AnyError, Effect};
use crate::event::Event as AnyEvent;
use crate::fixture::{Fixture, member, node, picture};
use crate::ident::{ClusterName, UniqueAddress};
use crate::input::SendTarget;
use crate::journal::Journals;
use crate::journal::protocol::{
    Answer as JournalAnswer, Command, Event, JournalCommandError, LOG_NAME_BYTES_MAX, Msg, Rejection,
    VoterBody, VoterMsg,
};
use crate::journal::state::{OpenedLog, StoreId, TokenClaim, Voters, WriterEnd, WriterError};
use crate::membership::state::member::Status;
use crate::message::Message;
use crate::ordered::OrderedMap;
use crate::owner::Requester;
use crate::reject::Rejection as AnyRejection;
use crate::signal::Signal;
use crate::store::memory::MemoryMap;
use crate::store::{Bytes, LogName, StoreError, StoreOrder, StoreReport};
use crate::timer::Timer;
use crate::token::Token;

const MINUTE: Duration = Duration::from_secs(60);

struct Peer {
    fixture: Fixture,
    journals: Journals,
    disk: Option<MemoryMap>,
    answers: OrderedMap<u64, Answer>,
    events: Vec<Event>,
    rejected: Vec<AnyRejection>,
}

/// Nodes whose messages arrive at once, and whose stores answer at once.
struct World {
    peers: Vec<Peer>,
    lives: u64,
    down: Vec<usize>,
    /// Does not hear who is to vote.
    deaf: Option<usize>,
    /// Reads that stores have yet to refuse.
    unread: usize,
    wire: VecDeque<(UniqueAddress, UniqueAddress, Msg)>,
    last_command: u64,
    last_opener: u64,
}

fn log(name: &str) -> LogName {
    Arc::from(name)
}

fn bytes(text: &str) -> Bytes {
    Bytes::from(text.as_bytes())
}

impl World {
    /// Nodes with a store each, and the last ones without.
    fn new(voters: usize, stores: usize, without: usize) -> Self {
        let mut world = Self {
            peers: Vec::new(),
            lives: 0,
            down: Vec::new(),
            deaf: None,
            unread: 0,
            wire: VecDeque::new(),
            last_command: 0,
            last_opener: 0,
        };
        for at in 0..stores + without {
            let disk = (at < stores).then(|| {
                let mut disk = MemoryMap::new();
                disk.boot(1_000 + at as u128);
                disk
            });
            world.peers.push(peer(at, 1 + at as u64, disk, voters));
        }
        world.lives = world.peers.len() as u64;
        world
    }

    /// All are Up.
    fn up(mut self) -> Self {
        self.see();
        self
    }

    fn see(&mut self) {
        let nodes: Vec<UniqueAddress> = self.peers.iter().map(|peer| peer.fixture.me.clone()).collect();
        for peer in &mut self.peers {
            let members = nodes.iter().map(|node| member(node, Status::Up));
            let view = picture(&peer.fixture.me.clone(), members, &[]);
            let (_, after) = peer.fixture.see(view);
            peer.journals.on_view_changed(&mut peer.fixture.cx(), &after);
        }
        self.run();
    }

    /// All are killed, and started again on what their stores held.
    fn restart(&mut self, voters: usize) {
        for at in 0..self.peers.len() {
            self.lives += 1;
            let disk = self.peers[at].disk.take().map(|mut disk| {
                disk.boot(9_000 + u128::from(self.lives));
                disk
            });
            self.peers[at] = peer(at, self.lives, disk, voters);
        }
        self.wire.clear();
        self.see();
    }

    fn run(&mut self) {
        loop {
            let mut quiet = true;
            for at in 0..self.peers.len() {
                quiet &= !self.perform(at);
            }
            if let Some((from, to, msg)) = self.wire.pop_front() {
                quiet = false;
                let at = self.peers.iter().position(|peer| peer.fixture.me == to);
                let is_choice = matches!(
                    &msg,
                    Msg::Voter(VoterMsg {
                        body: VoterBody::Elect { .. },
                        ..
                    })
                );
                let misses = |at: &usize| self.down.contains(at) || (is_choice && self.deaf == Some(*at));
                if let Some(at) = at.filter(|at| !misses(at)) {
                    let peer = &mut self.peers[at];
                    peer.journals.on_message(&mut peer.fixture.cx(), &from, msg);
                }
            }
            if quiet {
                return;
            }
        }
    }

    fn perform(&mut self, at: usize) -> bool {
        let peer = &mut self.peers[at];
        let me = peer.fixture.me.clone();
        let mut worked = false;
        while let Some(message) = peer.fixture.outbox.loopback.pop_front() {
            worked = true;
            if let Message::Journal(msg) = message {
                peer.journals.on_message(&mut peer.fixture.cx(), &me, *msg);
            }
        }
        for effect in peer.fixture.effects() {
            worked = true;
            match effect {
                Effect::Send {
                    to: SendTarget::Node(to),
                    message: Message::Journal(msg),
                } if !self.down.contains(&at) => self.wire.push_back((me.clone(), to, *msg)),
                Effect::Store(Requester::Journal, request) => {
                    let fails = self.unread > 0 && matches!(request.order, StoreOrder::Read { .. });
                    self.unread -= usize::from(fails);
                    let report = match &mut peer.disk {
                        Some(_) if fails => StoreReport {
                            id: request.id,
                            outcome: Err(StoreError::Busy),
                        },
                        Some(disk) => StoreReport {
                            id: request.id,
                            outcome: disk.obey(Requester::Journal.space(), &request.order),
                        },
                        None => request.without_a_store(),
                    };
                    peer.journals.on_stored(&mut peer.fixture.cx(), report);
                }
                Effect::Reply { token, answer } => {
                    assert!(peer.answers.insert(token, answer).is_none(), "answered twice");
                }
                Effect::Notify(AnyEvent::Journal(event)) => peer.events.push(event),
                Effect::Notify(AnyEvent::Rejected { rejection, .. }) => peer.rejected.push(rejection),
                other => assert!(matches!(other, Effect::Send { .. }), "{other:?}"),
            }
        }
        peer.journals.check_invariants().unwrap();
        worked
    }

    fn pass(&mut self, time: Duration) {
        let step = Duration::from_millis(500);
        for _ in 0..time.as_millis() / step.as_millis() {
            for peer in &mut self.peers {
                let until = peer.fixture.mono() + step;
                while let Some(timer) = peer.fixture.next_timer(until) {
                    if let Timer::Journal(timer) = timer {
                        peer.journals.on_timer(&mut peer.fixture.cx(), timer);
                    }
                }
            }
            self.run();
        }
    }

    fn command(&mut self, at: usize, command: Command) -> u64 {
        self.last_command += 1;
        let caller = self.last_command;
        let peer = &mut self.peers[at];
        peer.journals.on_command(&mut peer.fixture.cx(), caller, command);
        self.run();
        caller
    }

    fn answer(&mut self, at: usize, caller: u64) -> Option<Answer> {
        self.peers[at].answers.remove(&caller)
    }

    fn asks_open(&mut self, at: usize, name: &str) -> (u64, u64) {
        self.last_opener += 1;
        let opener = self.last_opener;
        let (log, claim) = (log(name), TokenClaim::Term);
        (opener, self.command(at, Command::Open { log, opener, claim }))
    }

    fn open(&mut self, at: usize, name: &str) -> (u64, OpenedLog) {
        let (opener, caller) = self.asks_open(at, name);
        self.pass(Duration::from_secs(5));
        match self.answer(at, caller) {
            Some(Answer::Journal(JournalAnswer::Opened(opened))) => (opener, opened),
            other => panic!("{other:?}"),
        }
    }

    fn append(&mut self, at: usize, name: &str, opener: u64, expected: u64, text: &str) -> Option<Answer> {
        let command = Command::Append {
            log: log(name),
            opener,
            expected,
            records: vec![bytes(text)],
            upkeep: false,
        };
        let caller = self.command(at, command);
        self.answer(at, caller)
    }

    fn settled(&self) -> Vec<Option<bool>> {
        let settled = |peer: &Peer| peer.journals.voters().map(|_| peer.journals.votes());
        self.peers.iter().map(settled).collect()
    }
}

fn peer(at: usize, uid: u64, disk: Option<MemoryMap>, voters: usize) -> Peer {
    let mut config = Config::lan(ClusterName::new("test").unwrap());
    config.journal.voters = voters;
    config.journal.open_logs_max = 2;
    Peer {
        fixture: Fixture::with_config(node(&format!("n{at:02}"), uid), config),
        journals: Journals::default(),
        disk,
        answers: OrderedMap::new(),
        events: Vec::new(),
        rejected: Vec::new(),
    }
}

fn refused(error: JournalCommandError) -> Option<Answer> {
    Some(Answer::Refused(AnyError::Journal(error)))
}

const fn appended(last: u64) -> Option<Answer> {
    Some(Answer::Journal(JournalAnswer::Appended { last }))
}

fn texts(opened: &OpenedLog) -> Vec<&str> {
    let text = |record: &'_ crate::store::Record| core::str::from_utf8(&record.bytes).unwrap().len();
    assert!(opened.records.iter().map(text).all(|len| len > 0));
    opened
        .records
        .iter()
        .map(|record| core::str::from_utf8(&record.bytes).unwrap())
        .collect()
}

#[test]
fn the_oldest_stores_vote_for_good_and_all_members_know() {
    let mut world = World::new(3, 4, 1).up();
    assert!(!world.settled().contains(&None), "nobody waits to be asked");
    world.pass(MINUTE);
    let (votes, knows) = (Some(true), Some(false));
    assert_eq!(world.settled(), [votes, votes, votes, knows, knows]);
    let voters: Vec<StoreId> = (1_000..1_003).map(StoreId).collect();
    assert!(
        world
            .peers
            .iter()
            .all(|peer| peer.journals.voters() == Some(&*voters))
    );
    assert_eq!(
        world.peers[0].events,
        [Event::Settled {
            voters: 3,
            votes: true
        }]
    );

    // The first are younger now.
    world.peers.rotate_left(2);
    world.restart(3);
    world.pass(MINUTE);
    assert_eq!(world.settled(), [votes, knows, knows, votes, votes]);
}

#[test]
fn nothing_is_chosen_before_there_are_as_many_stores_as_are_to_vote() {
    let mut world = World::new(3, 2, 3).up();
    world.pass(MINUTE);
    assert_eq!(world.settled(), [None; 5]);
    let (opener, caller) = world.asks_open(4, "a");
    world.pass(MINUTE);
    assert_eq!(world.answer(4, caller), None, "it waits");
    let (log, close) = (
        log("a"),
        Command::Close {
            log: log("a"),
            opener,
        },
    );
    assert!(log.len() == 1);
    let closed = world.command(4, close);
    assert_eq!(world.answer(4, closed), Some(Answer::Done));
    assert_eq!(world.answer(4, caller), refused(JournalCommandError::Closed));
}

#[test]
fn a_log_is_found_after_its_owner_has_moved_and_after_all_nodes_were_killed() {
    let mut world = World::new(3, 3, 1).up();
    world.pass(MINUTE);
    let (mine, opened) = world.open(3, "counter/7");
    assert_eq!((opened.last, opened.snapshot), (0, None));
    assert_eq!(world.append(3, "counter/7", mine, 0, "one"), appended(1));
    assert_eq!(world.append(3, "counter/7", mine, 1, "two"), appended(2));

    let (other, opened) = world.open(1, "counter/7");
    assert_eq!(texts(&opened), ["one", "two"]);
    let late = world.append(3, "counter/7", mine, 2, "late");
    let held = opened.token;
    assert_eq!(
        late,
        refused(JournalCommandError::Ended(WriterEnd::Fenced { held }))
    );
    assert!(world.peers[3].events.contains(&Event::Fenced {
        log: log("counter/7"),
        held
    }));
    let (covers, state) = (2, bytes("state"));
    let keep = Command::Keep {
        log: log("counter/7"),
        opener: other,
        covers,
        state,
    };
    let kept = world.command(1, keep);
    assert_eq!(world.answer(1, kept), Some(Answer::Journal(JournalAnswer::Kept)));
    assert_eq!(world.append(1, "counter/7", other, 2, "three"), appended(3));

    world.restart(3);
    world.pass(MINUTE);
    let (_, again) = world.open(0, "counter/7");
    assert_eq!((texts(&again), again.last), (vec!["three"], 3));
    assert_eq!(
        again.snapshot.map(|snapshot| (snapshot.through, snapshot.state)),
        Some((2, bytes("state")))
    );
    assert!(again.token > held);
}

#[test]
fn a_majority_of_the_stores_is_enough_and_less_is_not() {
    let mut world = World::new(3, 3, 0).up();
    world.pass(MINUTE);
    let (opener, _) = world.open(0, "a");
    world.down = vec![2];
    assert_eq!(world.append(0, "a", opener, 0, "one"), appended(1));
    world.down = vec![1, 2];
    let command = Command::Append {
        log: log("a"),
        opener,
        expected: 1,
        records: vec![bytes("two")],
        upkeep: false,
    };
    let caller = world.command(0, command);
    world.pass(MINUTE);
    assert_eq!(world.answer(0, caller), None, "one of three");
    let second = Command::Append {
        log: log("a"),
        opener,
        expected: 1,
        records: vec![bytes("other")],
        upkeep: false,
    };
    let second = world.command(0, second);
    let in_flight = refused(JournalCommandError::Refused(WriterError::InFlight));
    assert_eq!(world.answer(0, second), in_flight, "nothing else is handled");
    world.down = vec![1];
    world.pass(Duration::from_secs(2));
    assert_eq!(world.answer(0, caller), appended(2), "it repeats itself");
    world.down.clear();
    let (_, opened) = world.open(1, "a");
    assert_eq!(
        texts(&opened),
        ["one", "two"],
        "of all who has missed something, somebody has it"
    );
}

#[test]
fn i_84_a_store_that_was_lost_comes_back_as_another_one_and_does_not_vote() {
    let mut world = World::new(3, 3, 0).up();
    world.pass(MINUTE);
    let (opener, _) = world.open(0, "a");
    assert_eq!(world.append(0, "a", opener, 0, "one"), appended(1));
    let mut empty = MemoryMap::new();
    empty.boot(77);
    world.peers[1].disk = Some(empty);
    world.restart(3);
    world.pass(MINUTE);
    assert_eq!(world.settled(), [Some(true), Some(false), Some(true)]);
    let (_, opened) = world.open(1, "a");
    assert_eq!(texts(&opened), ["one"]);
    let mut empty = MemoryMap::new();
    empty.boot(78);
    world.peers[2].disk = Some(empty);
    world.restart(3);
    world.pass(MINUTE);
    let (_, caller) = world.asks_open(1, "a");
    world.pass(MINUTE);
    assert_eq!(
        world.answer(1, caller),
        None,
        "one of three is no majority, whatever comes in place of the others"
    );
}

#[test]
fn who_chose_may_fail_before_all_have_agreed() {
    let mut world = World::new(3, 4, 0);
    // The choice reaches the second alone.
    world.down = vec![2, 3];
    world = world.up();
    let agreed = Voters {
        stores: (1_001..1_004).map(StoreId).collect(),
        is_settled: false,
    };
    let elect = VoterBody::Elect {
        stores: Arc::clone(&agreed.stores),
    };
    let (from, to) = (
        world.peers[0].fixture.me.clone(),
        world.peers[1].fixture.me.clone(),
    );
    world
        .wire
        .push_back((from, to.clone(), Msg::Voter(VoterMsg { to, body: elect })));
    world.run();
    world.down.clear();
    world.restart(3);
    world.pass(MINUTE);
    let (votes, knows) = (Some(true), Some(false));
    assert_eq!(world.settled(), [knows, votes, votes, votes], "they, or none");
}

#[test]
fn a_store_that_cannot_say_who_is_to_vote_is_counted_and_asked_again() {
    let mut world = World::new(1, 1, 0);
    world.unread = 3;
    let mut world = world.up();
    world.pass(MINUTE);
    assert_eq!(world.peers[0].fixture.stats.journal.requests_failed, 3);
    assert_eq!(world.settled(), [Some(true)]);
}

#[test]
fn nothing_is_settled_before_every_store_has_agreed() {
    let mut world = World::new(3, 3, 1);
    world.deaf = Some(2);
    let mut world = world.up();
    world.pass(MINUTE);
    assert_eq!(world.settled(), [None; 4]);
    world.deaf = None;
    world.pass(MINUTE);
    assert_eq!(world.settled(), [Some(true), Some(true), Some(true), Some(false)]);
}

#[test]
fn stores_that_have_agreed_to_others_are_named_and_change_nothing() {
    let mut world = World::new(3, 3, 0).up();
    world.pass(MINUTE);
    let me = world.peers[1].fixture.me.clone();
    let from = world.peers[2].fixture.me.clone();
    let stores = [5, 6, 7].map(StoreId).into();
    let voters = Some(Voters {
        stores,
        is_settled: true,
    });
    let (asks, store) = (false, Some(StoreId(5)));
    let body = VoterBody::Introduction { asks, store, voters };
    world.wire.push_back((
        from.clone(),
        me.clone(),
        Msg::Voter(VoterMsg { to: me.clone(), body }),
    ));
    let stores = [1_000, 1_001].map(StoreId).into();
    let body = VoterBody::Elect { stores };
    world
        .wire
        .push_back((from.clone(), me.clone(), Msg::Voter(VoterMsg { to: me, body })));
    world.run();
    assert!(world.peers[1].events.contains(&Event::Conflict { node: from }));
    assert_eq!(
        world.peers[1].rejected,
        [AnyRejection::Journal(Rejection::BadVoters)]
    );
    let stores = [1_001, 1_002, 1_003].map(StoreId).into();
    let body = VoterBody::Elect { stores };
    let me = world.peers[1].fixture.me.clone();
    let from = world.peers[2].fixture.me.clone();
    world
        .wire
        .push_back((from, me.clone(), Msg::Voter(VoterMsg { to: me, body })));
    world.run();
    world.restart(3);
    world.pass(MINUTE);
    let voters: Vec<StoreId> = (1_000..1_003).map(StoreId).collect();
    assert_eq!(
        world.peers[1].journals.voters(),
        Some(&*voters),
        "once in its life"
    );
}

#[test]
fn another_number_in_the_settings_changes_nothing_and_is_named() {
    let mut world = World::new(3, 5, 0).up();
    world.pass(MINUTE);
    world.restart(5);
    world.pass(MINUTE);
    assert_eq!(world.peers[0].journals.voters().map(<[_]>::len), Some(3));
    let named = Event::OtherNumber {
        held: 3,
        configured: 5,
    };
    assert!(world.peers[0].events.contains(&named));
}

#[test]
fn callers_are_told_what_they_did_wrong() {
    let mut world = World::new(0, 1, 0).up();
    let (_, caller) = world.asks_open(0, "a");
    assert_eq!(
        world.answer(0, caller),
        refused(JournalCommandError::NotConfigured)
    );

    let mut world = World::new(1, 1, 0).up();
    world.pass(MINUTE);
    for name in ["", &"x".repeat(LOG_NAME_BYTES_MAX + 1)] {
        let (_, caller) = world.asks_open(0, name);
        assert_eq!(world.answer(0, caller), refused(JournalCommandError::BadName));
    }
    let (first, _) = world.open(0, "a");
    let (_, _) = world.open(0, "b");
    let (_, caller) = world.asks_open(0, "c");
    assert_eq!(world.answer(0, caller), refused(JournalCommandError::TooMany));
    assert_eq!(
        world.append(0, "c", 9, 0, "x"),
        refused(JournalCommandError::NotOpen)
    );
    assert_eq!(
        world.append(0, "a", first + 9, 0, "x"),
        refused(JournalCommandError::NotOpen)
    );
    let conflict = refused(JournalCommandError::Refused(WriterError::SequenceConflict {
        last: 0,
    }));
    assert_eq!(world.append(0, "a", first, 3, "x"), conflict);

    let (second, _) = world.open(0, "a");
    assert_eq!(
        world.append(0, "a", first, 0, "x"),
        refused(JournalCommandError::NotOpen)
    );
    assert_eq!(world.append(0, "a", second, 0, "x"), appended(1));
    let claim = TokenClaim::Placed(Token::new(1, 0));
    let (log, opener) = (log("a"), 500);
    let given = world.command(0, Command::Open { log, opener, claim });
    let answer = world.answer(0, given);
    assert!(
        matches!(
            answer,
            Some(Answer::Refused(AnyError::Journal(JournalCommandError::Ended(
                WriterEnd::Fenced { .. }
            ))))
        ),
        "{answer:?}"
    );
    let said = world.peers[0].fixture.heard();
    let outdone = said.iter().filter_map(|signal| match signal {
        Signal::PlacementOutdone { placement, held, .. } => Some((*placement, *held)),
        _ => None,
    });
    let outdone: Vec<(Token, Token)> = outdone.collect();
    assert!(
        matches!(outdone[..], [(placement, held)] if placement == Token::new(1, 0) && held > placement.opened())
    );
}

#[test]
fn who_waits_at_the_end_of_the_node_is_told() {
    let mut world = World::new(3, 2, 0).up();
    let (_, caller) = world.asks_open(0, "a");
    let peer = &mut world.peers[0];
    peer.journals.halt(&mut peer.fixture.cx());
    world.run();
    assert_eq!(world.answer(0, caller), Some(Answer::Refused(AnyError::Stopped)));
    assert_eq!(world.peers[0].journals.owned(), 0);
}

#[test]
fn i_84_of_a_store_that_two_members_claim_nobody_is_asked_until_one_has_it_again() {
    let mut world = World::new(3, 3, 0).up();
    world.pass(MINUTE);
    let [first, _, third] = [0, 1, 2].map(|at: usize| world.peers[at].fixture.me.clone());
    let says = |store: u128| {
        let body = VoterBody::Introduction {
            asks: false,
            store: Some(StoreId(store)),
            voters: None,
        };
        let to = first.clone();
        (third.clone(), first.clone(), Msg::Voter(VoterMsg { to, body }))
    };
    world.wire.push_back(says(1_001));
    world.run();
    let (_, caller) = world.asks_open(0, "a");
    world.pass(MINUTE);
    assert_eq!(world.answer(0, caller), None, "its own store alone is sure");
    world.wire.push_back(says(1_002));
    world.pass(MINUTE);
    let answer = world.answer(0, caller);
    let is_opened = matches!(answer, Some(Answer::Journal(JournalAnswer::Opened(_))));
    assert!(is_opened, "{answer:?}");
}
