//! A coordinator whose state is stored: what it asks of its log, what it does meanwhile, and what it makes of
//! what the log holds. The log is the test's: it answers when the test says so.

use super::*;
use crate::effect::{Answer as AnyAnswer, CommandError as AnyError};
use crate::input::{Command as AnyCommand, StoreAsk};
use crate::journal::protocol::{Answer, Command, JournalCommandError, TERM_STEP};
use crate::journal::state::{OpenedLog, TokenClaim, WriterEnd, WriterError};
use crate::sharding::protocol::{ListPart, StoreUser};
use crate::store::{Bytes, Record, Snapshot};
use crate::token::Token;

const HELD: JournalCommandError = JournalCommandError::Ended(WriterEnd::Fenced {
    held: Token::new(9, 1),
});

/// What a majority of the voters holds.
#[derive(Clone, Default)]
struct Log {
    snapshot: Option<Snapshot>,
    records: Vec<Bytes>,
    last: u64,
}

impl Log {
    fn of(homes: &[(ShardId, UniqueAddress)]) -> Self {
        Self::holding(&record::whole(64, &placed(homes)).unwrap())
    }

    fn holding(record: &[u8]) -> Self {
        Self {
            snapshot: None,
            records: vec![Bytes::from(record)],
            last: 1,
        }
    }

    /// Does what is asked, and says so.
    fn obey(&mut self, command: Command) -> (u64, Answer) {
        let opener = opener_of(&command);
        let answer = match command {
            Command::Open { claim, .. } => {
                let mut opened = self.opened();
                if let TokenClaim::TermAbove(term) = claim {
                    opened.token = Token::new(term + 1, 1);
                }
                Answer::Opened(opened)
            }
            Command::Append {
                expected, records, ..
            } => {
                assert_eq!(expected, self.last);
                self.last += records.len() as u64;
                self.records.extend(records);
                Answer::Appended { last: self.last }
            }
            Command::Keep { covers, state, .. } => {
                assert_eq!(covers, self.last);
                self.records.clear();
                self.snapshot = Some(Snapshot {
                    through: covers,
                    token: Token::new(1, 1),
                    state,
                });
                Answer::Kept
            }
            Command::Forget { .. } | Command::Close { .. } => panic!("{command:?}"),
        };
        (opener, answer)
    }

    fn opened(&self) -> OpenedLog {
        let token = Token::new(2, 1);
        let first = self.last - self.records.len() as u64;
        let records = self.records.iter().zip(first + 1..);
        OpenedLog {
            token,
            snapshot: self.snapshot.clone(),
            records: records
                .map(|(bytes, sequence)| Record {
                    sequence,
                    token,
                    bytes: bytes.clone(),
                })
                .collect(),
            last: self.last,
        }
    }

    fn homes(&self) -> Vec<(ShardId, UniqueAddress)> {
        let mut homes = record::Homes::new();
        let snapshot = self.snapshot.iter().map(|snapshot| &snapshot.state);
        for bytes in snapshot.chain(&self.records) {
            record::apply(bytes, 64, &mut homes).unwrap();
        }
        let homes = homes.into_iter();
        homes.map(|(shard, placement)| (shard, placement.node)).collect()
    }
}

/// With which token an earlier coordinator placed shards.
const EARLIER: Token = Token::new(2, 9);

fn placed(homes: &[(ShardId, UniqueAddress)]) -> record::Homes {
    let token = EARLIER;
    let homes = homes.iter().cloned();
    homes
        .map(|(shard, node)| (shard, record::PlacedHome { node, token }))
        .collect()
}

const fn opener_of(command: &Command) -> u64 {
    match command {
        Command::Open { opener, .. }
        | Command::Append { opener, .. }
        | Command::Keep { opener, .. }
        | Command::Forget { opener, .. }
        | Command::Close { opener, .. } => *opener,
    }
}

impl Rig {
    /// The order that the log has not answered.
    fn ordered(&mut self) -> Option<Command> {
        let asked = self.fixture.outbox.asked.drain(..);
        let mut orders: Vec<Command> = asked
            .map(|(ask, command)| match command {
                AnyCommand::Journal(command) => {
                    assert_eq!(ask.request, opener_of(&command));
                    command
                }
                other => panic!("{other:?}"),
            })
            .collect();
        let order = orders.pop();
        let closed = |order: &Command| matches!(order, Command::Close { .. });
        assert!(orders.iter().all(closed), "one order at a time: {orders:?}");
        order
    }

    /// The log does what it was asked for. What the coordinator does then.
    fn log_obeys(&mut self, log: &mut Log) -> Vec<Effect> {
        let command = self.ordered().expect("an order");
        let (opener, answer) = log.obey(command);
        self.log_says(opener, Ok(answer))
    }

    /// The log does all that it is asked for until it is asked for nothing.
    fn log_obeys_all(&mut self, log: &mut Log) -> Vec<Effect> {
        let mut effects = Vec::new();
        while let Some(command) = self.ordered() {
            let (opener, answer) = log.obey(command);
            effects.extend(self.log_says(opener, Ok(answer)));
        }
        effects
    }

    fn log_refuses(&mut self, error: JournalCommandError) -> Vec<Effect> {
        let opener = opener_of(&self.ordered().expect("an order"));
        self.log_says(opener, Err(error))
    }

    fn log_says(&mut self, opener: u64, answer: Result<Answer, JournalCommandError>) -> Vec<Effect> {
        let ask = StoreAsk {
            kind: KindId::of("files"),
            user: StoreUser::CoordinatorLog,
            request: opener,
            part: 0,
        };
        let answer = match answer {
            Ok(answer) => AnyAnswer::Journal(answer),
            Err(error) => AnyAnswer::Refused(AnyError::Journal(error)),
        };
        let mut effects = self.act(|coordinator, cx| coordinator.on_log_answer(cx, ask, answer));
        effects.extend(self.all_start());
        effects
    }

    /// Every region has begun what it was told to host, and homes are told.
    fn all_start(&mut self) -> Vec<Effect> {
        let waits: Vec<ShardId> = self.coordinator.places.all_unconfirmed().collect();
        let mut effects = Vec::new();
        for shard in waits {
            let home = self.coordinator.places.home(shard).unwrap().clone();
            effects.extend(self.started(&home, shard));
        }
        effects
    }

    /// All three nodes are there, and what the log holds has been read.
    fn recovered(mode: StoreMode, log: &mut Log) -> Self {
        let mut rig = Self::begun(mode);
        for node in [a(), b(), c()] {
            rig.register(&node, &[]);
        }
        rig.log_obeys_all(log);
        assert!(rig.coordinator.is_active());
        rig
    }

    fn begun(mode: StoreMode) -> Self {
        let mut rig = Self::storing(a(), 64, mode);
        rig.view(&[(a(), Status::Up), (b(), Status::Up), (c(), Status::Up)]);
        rig
    }
}

const MODES: [StoreMode; 2] = [StoreMode::DistributedData, StoreMode::Events];

fn late(writing: bool, times: u32) -> Effect {
    event(ShardingEvent::CoordinatorStateLate { writing, times })
}

#[test]
fn s_117_the_state_is_read_however_late_and_nothing_is_allocated_before() {
    for mode in MODES {
        let mut log = Log::of(&[(S, b())]);
        let mut rig = Rig::begun(mode);
        for node in [a(), b(), c()] {
            rig.register(&node, &[]);
        }
        assert_eq!(
            rig.asks_home(&c(), S),
            vec![],
            "nobody runs it, the store may know it"
        );
        let waited = rig.fire(Duration::from_secs(7));
        let said: Vec<&Effect> = waited
            .iter()
            .filter(|effect| matches!(effect, Effect::Notify(_)))
            .collect();
        assert_eq!(
            said,
            [&late(false, 1), &late(false, 2)],
            "three times over the limit of 2 s"
        );
        assert_eq!(rig.fixture.stats.sharding.state_answers_late, 3);
        assert_eq!(rig.phase(), Some(CoordinatorPhase::Recovering));
        rig.log_obeys(&mut log);
        assert_eq!(rig.phase(), Some(CoordinatorPhase::Active));
        let effects = rig.log_obeys(&mut log);
        let back = [allocated(S, b()), says(b(), host(S)), says(c(), home(S, b()))];
        assert!(
            effects.ends_with(&back),
            "the home is the stored one: {effects:?}"
        );
    }
}

#[test]
fn s_120_a_known_home_is_told_while_another_is_written_and_a_new_one_waits() {
    for mode in MODES {
        let mut log = Log::of(&[(S, b())]);
        let mut rig = Rig::recovered(mode, &mut log);
        let new = ShardId(7);
        let writes = rig.fixture.stats.sharding.state_writes;
        assert_eq!(rig.asks_home(&b(), new), vec![], "decided, and told nobody");
        assert_eq!(rig.asks_home(&c(), S), vec![says(c(), home(S, b()))], "at once");
        assert_eq!(
            rig.asks_home(&c(), new),
            vec![],
            "one question more changes nothing"
        );
        assert_eq!(
            rig.log_obeys(&mut log),
            vec![
                allocated(new, a()),
                says(b(), home(new, a())),
                says(c(), home(new, a()))
            ]
        );
        assert_eq!(log.homes(), [(S, b()), (new, a())]);
        assert_eq!(rig.fixture.stats.sharding.state_writes, writes + 1);
    }
}

#[test]
fn s_111_without_a_majority_known_shards_are_served_and_a_new_one_waits_until_it_is_back() {
    let mut log = Log::of(&[(S, b())]);
    let mut rig = Rig::recovered(StoreMode::Events, &mut log);
    assert_eq!(rig.asks_home(&c(), ShardId(6)), vec![]);
    for _ in 0..3 {
        rig.fire(Duration::from_secs(5));
        assert_eq!(rig.asks_home(&c(), S), vec![says(c(), home(S, b()))]);
        assert_eq!(rig.asks_home(&c(), ShardId(6)), vec![]);
    }
    assert_eq!(rig.fixture.stats.sharding.state_answers_late, 3);
    let effects = rig.log_obeys(&mut log);
    assert_eq!(
        effects,
        vec![allocated(ShardId(6), a()), says(c(), home(ShardId(6), a()))]
    );
}

#[test]
fn s_121_a_coordinator_that_its_store_refuses_begins_anew_and_finds_what_is_stored() {
    for mode in MODES {
        let mut log = Log::of(&[(S, b())]);
        let mut rig = Rig::recovered(mode, &mut log);
        rig.asks_home(&c(), ShardId(7));
        let effects = rig.log_refuses(HELD);
        let (term, error) = (term(), HELD);
        assert_eq!(
            effects,
            vec![event(ShardingEvent::CoordinatorRefused { term, error })]
        );
        assert_eq!(rig.phase(), Some(CoordinatorPhase::Waiting));
        assert_eq!(rig.asks_home(&c(), S), vec![], "it is nobody's coordinator");
        rig.fire(Duration::from_secs(6));
        assert_eq!(
            rig.phase(),
            Some(CoordinatorPhase::Recovering),
            "after coordinator_failure_backoff"
        );
        rig.register(&a(), &[]);
        rig.claims(&b(), &[(S, Token::new(3, 1))]);
        rig.register(&c(), &[]);
        rig.log_obeys_all(&mut log);
        assert_eq!(rig.phase(), Some(CoordinatorPhase::Active));
        assert_eq!(rig.asks_home(&c(), S), vec![says(c(), home(S, b()))]);
        assert_eq!(rig.asks_home(&c(), ShardId(7)), vec![]);
        assert_eq!(
            rig.log_obeys(&mut log),
            vec![allocated(ShardId(7), a()), says(c(), home(ShardId(7), a()))],
            "asked again, it is given"
        );
    }
}

#[test]
fn refused_again_and_again_it_waits_longer_up_to_a_limit() {
    let mut rig = Rig::begun(StoreMode::Events);
    let mut waits = Vec::new();
    for _ in 0..7 {
        rig.log_refuses(HELD);
        let from = rig.fixture.mono();
        while rig.phase() == Some(CoordinatorPhase::Waiting) {
            rig.fire(Duration::from_secs(1));
        }
        waits.push(rig.fixture.mono().since(from).as_secs());
    }
    assert!(
        (5..=7).contains(&waits[0]) && (10..=13).contains(&waits[1]),
        "{waits:?}"
    );
    assert!(waits[6] <= 31, "{waits:?}");
}

#[test]
fn s_118_homes_on_members_that_were_removed_are_none() {
    let mut log = Log::of(&[(S, c()), (ShardId(5), b())]);
    let mut rig = Rig::storing(a(), 64, StoreMode::Events);
    rig.removed.push(c());
    rig.gone.push(c());
    rig.view(&[(a(), Status::Up), (b(), Status::Up)]);
    rig.register(&a(), &[]);
    rig.register(&b(), &[]);
    rig.asks_home(&b(), S);
    let effects = rig.log_obeys_all(&mut log);
    assert!(effects.contains(&allocated(ShardId(5), b())), "{effects:?}");
    assert!(effects.contains(&allocated(S, a())), "{effects:?}");
    assert_eq!(log.homes(), [(S, a()), (ShardId(5), b())]);
}

#[test]
fn after_all_nodes_were_killed_shards_go_to_the_same_addresses() {
    for mode in MODES {
        let before = |host| node(host, 77);
        let mut log = Log::of(&[
            (S, before("b")),
            (ShardId(5), before("c")),
            (ShardId(6), before("a")),
        ]);
        let mut rig = Rig::storing(a(), 64, mode);
        rig.view(&[(a(), Status::Up), (b(), Status::Up)]);
        rig.register(&a(), &[]);
        rig.register(&b(), &[]);
        rig.asks_home(&a(), ShardId(5));
        let effects = rig.log_obeys_all(&mut log);
        assert!(effects.contains(&allocated(S, b())) && effects.contains(&allocated(ShardId(6), a())));
        assert_eq!(rig.asks_home(&b(), ShardId(5)), vec![], "c may still come");
        rig.view(&[(a(), Status::Up), (b(), Status::Up), (c(), Status::Up)]);
        rig.register(&c(), &[]);
        let effects = rig.log_obeys_all(&mut log);
        let told = says(b(), home(ShardId(5), c()));
        assert!(effects.contains(&allocated(ShardId(5), c())) && effects.contains(&told));
        assert_eq!(log.homes(), [(S, b()), (ShardId(5), c()), (ShardId(6), a())]);
        rig.fire(Duration::from_secs(60));
        assert_eq!(rig.fixture.stats.sharding.homes_given_up, 0);
    }
}

#[test]
fn a_home_that_does_not_come_back_is_given_up_after_the_time_limit_and_the_margin() {
    let mut log = Log::of(&[(S, node("gone", 9)), (ShardId(5), node("gone", 9))]);
    let mut rig = Rig::recovered(StoreMode::Events, &mut log);
    assert_eq!(rig.asks_home(&b(), S), vec![]);
    rig.fire(MARGIN - Duration::from_secs(1));
    assert_eq!(rig.asks_home(&b(), S), vec![]);
    let given_up = rig.fixture.stats.sharding.homes_given_up;
    assert_eq!(given_up, 0, "what runs there may not have noticed");
    rig.fire(Duration::from_secs(2));
    rig.log_obeys_all(&mut log);
    assert_eq!(rig.asks_home(&b(), S), vec![says(b(), home(S, a()))]);
    assert_eq!(log.homes(), [(S, a())], "nobody asked for the other one");
    assert_eq!(rig.fixture.stats.sharding.homes_given_up, 2);
}

#[test]
fn a_live_regions_claim_wins_over_the_store_which_learns_of_it() {
    let mut log = Log::of(&[(S, b())]);
    let mut rig = Rig::begun(StoreMode::Events);
    rig.register(&a(), &[]);
    rig.register(&b(), &[]);
    rig.register(&c(), &[S]);
    rig.log_obeys_all(&mut log);
    assert_eq!(rig.asks_home(&b(), S), vec![says(b(), home(S, c()))]);
    assert_eq!(log.homes(), [(S, c())]);
}

#[test]
fn a_claim_that_comes_during_the_write_of_a_choice_wins() {
    let mut log = Log::default();
    let mut rig = Rig::recovered(StoreMode::Events, &mut log);
    rig.asks_home(&b(), S);
    rig.register(&c(), &[S]);
    rig.log_obeys_all(&mut log);
    assert_eq!(rig.asks_home(&a(), S), vec![]);
    assert_eq!(rig.asks_home(&b(), S), vec![says(b(), home(S, c()))]);
    assert_eq!(log.homes(), [(S, c())]);
}

#[test]
fn a_choice_whose_region_leaves_during_the_write_is_made_again() {
    let mut log = Log::default();
    let mut rig = Rig::recovered(StoreMode::Events, &mut log);
    rig.asks_home(&c(), S);
    rig.act(|coordinator, cx| coordinator.on_graceful_shutdown(cx, &a()));
    let effects = rig.log_obeys_all(&mut log);
    assert_eq!(
        effects,
        vec![allocated(S, b()), says(b(), host(S)), says(c(), home(S, b()))]
    );
    assert_eq!(log.homes(), [(S, b())]);
}

#[test]
fn after_a_pause_a_stored_choice_waits_for_its_end() {
    let mut log = Log::default();
    let mut rig = Rig::recovered(StoreMode::Events, &mut log);
    rig.asks_home(&c(), S);
    rig.coordinator.on_paused();
    assert_eq!(
        rig.log_obeys(&mut log),
        vec![],
        "it may be somebody else's by now"
    );
    let effects = rig.act(|coordinator, cx| coordinator.on_still_member(cx));
    assert_eq!(effects, vec![allocated(S, a())]);
    assert_eq!(rig.all_start(), vec![says(c(), home(S, a()))]);
}

#[test]
fn events_are_replaced_by_a_snapshot_and_values_by_one_value() {
    for (mode, records) in [(StoreMode::Events, 3), (StoreMode::DistributedData, 8)] {
        let mut log = Log::default();
        let mut rig = Rig::recovered(mode, &mut log);
        for shard in 0..records {
            assert_eq!(log.records.len(), shard);
            rig.asks_home(&c(), ShardId(shard as u32));
            let effects = rig.log_obeys(&mut log);
            assert!(!effects.is_empty());
        }
        rig.log_obeys(&mut log);
        assert!(log.records.is_empty() && log.snapshot.is_some());
        assert_eq!(log.homes().len(), records);
    }
}

#[test]
fn what_one_mode_stored_is_read_by_the_other() {
    for (first, second) in [(MODES[0], MODES[1]), (MODES[1], MODES[0])] {
        let mut log = Log::default();
        let mut rig = Rig::recovered(first, &mut log);
        rig.asks_home(&c(), S);
        rig.log_obeys_all(&mut log);
        let rig = Rig::recovered(second, &mut log);
        assert_eq!(rig.coordinator.places.home(S), Some(&a()));
    }
}

#[test]
fn a_full_log_is_replaced_by_a_snapshot_before_the_change_is_written_again() {
    let mut log = Log::of(&[(S, b())]);
    let mut rig = Rig::recovered(StoreMode::Events, &mut log);
    rig.asks_home(&c(), ShardId(7));
    rig.log_refuses(JournalCommandError::Refused(WriterError::Full));
    let effects = rig.log_obeys_all(&mut log);
    assert_eq!(
        effects,
        vec![allocated(ShardId(7), a()), says(c(), home(ShardId(7), a()))]
    );
    assert_eq!((log.records.len(), log.homes().len()), (1, 2));
}

#[test]
fn homes_of_shards_that_the_kind_does_not_have_leave_the_log() {
    let mut log = Log::of(&[(S, b()), (ShardId(64), b())]);
    let mut rig = Rig::begun(StoreMode::Events);
    for node in [a(), b(), c()] {
        rig.register(&node, &[]);
    }
    rig.log_obeys_all(&mut log);
    assert!(rig.coordinator.is_active(), "such a log is not damaged");
    assert_eq!(log.homes(), [(S, b())]);
}

#[test]
fn damaged_state_is_named_and_nothing_is_allocated() {
    let mut damaged = record::whole(64, &placed(&[(S, b())])).unwrap().to_vec();
    damaged[0] = 9;
    let mut rig = Rig::begun(StoreMode::Events);
    for node in [a(), b()] {
        rig.register(&node, &[]);
    }
    rig.register(&c(), &[ShardId(9)]);
    let Some(Command::Open { log, opener, .. }) = rig.ordered() else {
        panic!("it opens its log");
    };
    let opened = Answer::Opened(Log::holding(&damaged).opened());
    let effects = rig.log_says(opener, Ok(opened));
    assert_eq!(effects, vec![event(ShardingEvent::CoordinatorStateDamaged)]);
    assert_eq!(rig.ordered(), Some(Command::Close { log, opener }));
    assert_eq!(rig.asks_home(&b(), S), vec![], "the store knows where it was");
    assert_eq!(
        rig.asks_home(&b(), ShardId(9)),
        vec![says(b(), home(ShardId(9), c()))]
    );
    assert_eq!(rig.phase(), Some(CoordinatorPhase::Recovering));
}

#[test]
fn an_answer_to_an_earlier_opening_is_nobodys() {
    let mut log = Log::of(&[(S, b())]);
    let mut rig = Rig::begun(StoreMode::Events);
    let earlier = rig.ordered().unwrap();
    let (opener, answer) = log.obey(earlier);
    rig.log_says(opener.wrapping_add(1), Ok(answer.clone()));
    assert!(!rig.coordinator.ledger.is_ready());
    rig.log_says(opener, Ok(answer));
    assert!(rig.coordinator.ledger.is_ready());
}

#[test]
fn s_10_16_a_claim_with_the_stored_token_goes_on_and_is_told_nothing() {
    let mut log = Log::of(&[(S, b())]);
    let mut rig = Rig::begun(StoreMode::Events);
    rig.register(&a(), &[]);
    rig.claims(&b(), &[(S, EARLIER)]);
    rig.register(&c(), &[]);
    rig.log_obeys_all(&mut log);
    assert_eq!(rig.fixture.stats.sharding.claims_renewed, 0);
    assert_eq!(rig.coordinator.places.token(S), EARLIER);
    assert_eq!(rig.asks_home(&c(), S), vec![says(c(), home(S, b()))]);
    assert_eq!(log.records.len(), 1, "nothing is written");
}

#[test]
fn s_10_16_a_claim_whose_token_has_not_come_is_asked_for_it_once_and_does_not_begin_anew() {
    let registers = |rig: &mut Rig| {
        let said = RegionRegistration {
            fields: KindFields::of(&rig.coordinator.kind.settings),
            hosted: vec![S],
            draining: false,
        };
        rig.act(|coordinator, cx| coordinator.on_register_part(cx, &b(), ListPart::WHOLE, said))
    };
    let query = says(b(), ShardingBody::RegionQuery { term: super::term() });
    let ack = says(b(), ShardingBody::RegisterAck { term: super::term() });
    for (tokens, renewed) in [(vec![(S, EARLIER)], 0), (vec![], 1)] {
        let mut log = Log::of(&[(S, b())]);
        let mut rig = Rig::begun(StoreMode::Events);
        rig.register(&a(), &[]);
        rig.register(&c(), &[]);
        rig.log_obeys_all(&mut log);
        // The link broke between the two, or there was no coordinator yet when the tokens came.
        assert_eq!(registers(&mut rig), vec![query.clone()]);
        assert_eq!(
            rig.phase(),
            Some(CoordinatorPhase::Recovering),
            "it has not spoken"
        );
        rig.act(|coordinator, cx| coordinator.on_shard_tokens(cx, &b(), tokens));
        let effects = registers(&mut rig);
        assert!(effects.contains(&ack) && !effects.contains(&query), "{effects:?}");
        assert_eq!(rig.phase(), Some(CoordinatorPhase::Active));
        assert_eq!(rig.fixture.stats.sharding.claims_renewed, renewed);
        assert_eq!(rig.coordinator.places.home(S), Some(&b()));
    }
}

#[test]
fn s_10_16_a_claim_whose_token_is_not_the_stored_one_gets_a_new_one_that_is_stored_first() {
    // An earlier coordinator stored that c has it, which was lost with its message: b goes on with what it
    // was given before.
    for stored in [(S, c()), (S, b())] {
        let mut log = Log::of(&[stored]);
        let mut rig = Rig::begun(StoreMode::Events);
        rig.register(&a(), &[]);
        rig.claims(&b(), &[(S, Token::new(2, 4))]);
        rig.register(&c(), &[]);
        rig.log_obeys(&mut log);
        assert_eq!(rig.fixture.stats.sharding.claims_renewed, 1);
        assert_eq!(rig.given, [], "not before it is stored");
        assert_eq!(rig.asks_home(&c(), S), vec![], "it is to begin anew");
        let command = rig.ordered().expect("a write");
        let (opener, answer) = log.obey(command);
        let ask = StoreAsk {
            kind: KindId::of("files"),
            user: StoreUser::CoordinatorLog,
            request: opener,
            part: 0,
        };
        let answer = AnyAnswer::Journal(answer);
        let effects = rig.act(|coordinator, cx| coordinator.on_log_answer(cx, ask, answer));
        assert_eq!(effects, vec![allocated(S, b()), says(b(), host(S))]);
        let renewed = Token::new(3, 1);
        assert_eq!(rig.given, [(S, renewed)], "of the term that was claimed");
        assert!(renewed > EARLIER);
        assert_eq!(rig.started(&b(), S), vec![says(c(), home(S, b()))]);
        // It says so again, in the same term.
        rig.claims(&b(), &[(S, renewed)]);
        assert_eq!(rig.fixture.stats.sharding.claims_renewed, 1);
    }
}

#[test]
fn s_10_16_after_a_takeover_no_token_is_given_again() {
    let mut log = Log::default();
    let mut given = Vec::new();
    for term in 2..5 {
        let mut rig = Rig::recovered(StoreMode::Events, &mut log);
        let Coordinator { tokens, places, .. } = &mut rig.coordinator;
        tokens.begin(&super::term(), Some(term), places);
        for shard in 0..3 {
            rig.asks_home(&c(), ShardId(shard + 10 * term as u32));
            rig.log_obeys_all(&mut log);
            given.push(rig.coordinator.places.token(ShardId(shard + 10 * term as u32)));
        }
    }
    assert!(given.is_sorted_by(|one, next| one < next), "{given:?}");
}

#[test]
fn s_10_15_when_the_tokens_of_a_term_are_used_up_another_term_is_claimed() {
    let mut log = Log::default();
    let mut rig = Rig::recovered(StoreMode::Events, &mut log);
    rig.coordinator
        .tokens
        .adopt(Token::new(3, crate::token::PLACEMENTS_MAX));
    rig.asks_home(&c(), S);
    assert_eq!(rig.phase(), Some(CoordinatorPhase::Recovering));
    assert!(matches!(rig.ordered(), Some(Command::Open { .. })));
}

#[test]
fn i_100_a_home_whose_log_is_promised_to_a_later_term_gets_a_token_above_that() {
    // Of an earlier term, of this one, of a later one, and of one that one node's word does not take anybody
    // to.
    for (promised, above) in [
        (2, None),
        (3, Some(3)),
        (40, Some(40)),
        (1 << 40, Some(3 + TERM_STEP)),
    ] {
        let mut log = Log::default();
        let mut rig = Rig::recovered(StoreMode::Events, &mut log);
        rig.asks_home(&c(), S);
        rig.log_obeys_all(&mut log);
        let (home, first) = (
            rig.coordinator.places.home(S).unwrap().clone(),
            rig.coordinator.places.token(S),
        );
        assert_eq!(first.term, 3);
        let says = |rig: &mut Rig, node: &UniqueAddress| {
            let tokens = vec![(S, Token::new(promised, 0))];
            rig.act(|coordinator, cx| coordinator.on_shard_tokens(cx, node, tokens));
            rig.ordered()
        };
        let other = [b(), c()].into_iter().find(|node| *node != home).unwrap();
        assert_eq!(says(&mut rig, &other), None, "it does not live there");
        let order = says(&mut rig, &home).expect("an order");
        let claimed = match &order {
            Command::Open {
                claim: TokenClaim::TermAbove(term),
                ..
            } => Some(*term),
            _ => None,
        };
        assert_eq!(claimed, above);
        let (opener, answer) = log.obey(order);
        rig.log_says(opener, Ok(answer));
        for node in [a(), b(), c()] {
            rig.claims(&node, &[(S, first)][..usize::from(node == home)]);
        }
        rig.log_obeys_all(&mut log);
        let now = rig.coordinator.places.token(S);
        assert_eq!(rig.coordinator.places.home(S), Some(&home));
        assert!(now > first && now.term > above.unwrap_or(0), "{promised}: {now}");
        assert!(
            !rig.coordinator.places.is_renewed(S),
            "it is told once it is stored"
        );
    }
}

#[test]
fn s_10_16_what_a_region_claims_is_not_stored_before_everybody_has_spoken() {
    let mut log = Log::of(&[(S, c())]);
    let mut rig = Rig::begun(StoreMode::Events);
    rig.log_obeys(&mut log);
    rig.register(&a(), &[]);
    rig.claims(&b(), &[(S, Token::new(2, 4))]);
    assert_eq!(rig.ordered(), None, "stored, it would pass for the stored token");
    rig.register(&c(), &[]);
    rig.log_obeys_all(&mut log);
    assert_eq!(rig.fixture.stats.sharding.claims_renewed, 1);
    assert_eq!(rig.coordinator.places.token(S), Token::new(3, 1));
}
