//! Remembered entities: stored before they start, started without a message, and what a store that fails does
//! to their shard.

use alloc::format;
use alloc::string::String;

use super::*;
use crate::ddata::crdt::{DataOp, DataValue, OrSet, OrSetOp};
use crate::ddata::protocol::{Answer as DataAnswer, Command as DataCommand, ReadError, WriteError};
use crate::ddata::state::consistency::Consistency;
use crate::effect::HostedInstance;
use crate::effect::{Answer, CommandError, JournalAnswer, JournalCommandError};
use crate::input::{Command, JournalCommand, StoreAsk};
use crate::journal::state::{OpenedLog, TokenClaim, WriterEnd};
use crate::owner::Requester;
use crate::sharding::state::fields::StoreMode;
use crate::sharding::state::remember::{EntityRecovery, RememberStore};
use crate::store::Record;

const ENTITY_BACKOFF: Duration = Duration::from_secs(10);
const SHARD_BACKOFF: Duration = Duration::from_secs(10);
/// What is the same wherever it is kept which entities there are.
const STORES: [RememberStore; 2] = [RememberStore::Data, RememberStore::Events];

const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// What the store was asked, as one: all parts of one question.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Read,
    Write { add: Vec<String>, remove: Vec<String> },
}

pub(super) fn config() -> Config {
    Config::lan(ClusterName::new("test").unwrap())
}

pub(super) fn id(text: &str) -> EntityId {
    EntityId::from(text)
}

pub(super) fn ok() -> Answer {
    Answer::Ddata(DataAnswer::Written(Ok(())))
}

fn nothing() -> Answer {
    Answer::Ddata(DataAnswer::Value(Err(ReadError::NotFound)))
}

fn late() -> Answer {
    let (answered, required) = (1, 2);
    Answer::Ddata(DataAnswer::Value(Err(ReadError::Timeout { answered, required })))
}

fn unconfirmed() -> Answer {
    let (confirmed, required) = (1, 2);
    Answer::Ddata(DataAnswer::Written(Err(WriteError::Unconfirmed {
        confirmed,
        required,
    })))
}

fn set_of(ids: &[&str]) -> Answer {
    let mut minting = crate::ddata::crdt::Minting::new(a());
    let mut data = DataValue::OrSet(OrSet::new());
    for id in ids {
        let op = DataOp::OrSet(OrSetOp::Add(id.as_bytes().into()));
        data.apply(&op, &mut minting).unwrap();
    }
    Answer::Ddata(DataAnswer::Value(Ok(Arc::new(data))))
}

impl Rig {
    pub(super) fn remembering(config: Config) -> Self {
        Self::remembering_on(RememberStore::Data, config)
    }

    /// All entities of the kind belong to [`SHARD`].
    pub(super) fn remembering_on(store: RememberStore, config: Config) -> Self {
        let mut rig = Self::with_config(true, config);
        rig.region.kind.settings.remember_entities = Some(store);
        let extractor = crate::sharding::state::extractor::ShardExtractor::custom("third", |_, _| SHARD.0);
        rig.region.kind.settings.extractor = extractor;
        rig.act(|region, shared| region.on_register_ack(shared, &a(), term()));
        rig.act(|region, shared| region.on_host_shard(shared, &a(), term(), (SHARD, TOKEN)));
        rig
    }

    pub(super) fn recalling(ids: &[&str]) -> Self {
        Self::recalling_on(RememberStore::Data, ids)
    }

    /// Loaded, with these.
    pub(super) fn recalling_on(store: RememberStore, ids: &[&str]) -> Self {
        let mut rig = Self::remembering_on(store, config());
        rig.load(ids);
        rig
    }

    pub(super) fn load(&mut self, ids: &[&str]) -> Vec<Effect> {
        let (asks, asked) = self.asked();
        assert_eq!(asked, Asked::Read);
        let mut effects = Vec::new();
        for (at, ask) in asks.into_iter().enumerate() {
            let answer = match self.region.kind.settings.remember_entities.unwrap() {
                RememberStore::Events => opened(ids),
                RememberStore::Data if at == 0 => set_of(ids),
                RememberStore::Data => nothing(),
            };
            effects.extend(self.answer(ask, answer));
        }
        effects
    }

    /// Takes one question, which must be there.
    pub(super) fn asked(&mut self) -> (Vec<StoreAsk>, Asked) {
        let mut all: Vec<_> = self.fixture.outbox.asked.drain(..).collect();
        all.retain(|(_, command)| !is_close(command));
        // Looks are between, and wait for nobody.
        if all.iter().any(|(_, command)| !is_look(command)) {
            all.retain(|(_, command)| !is_look(command));
        }
        assert!(!all.is_empty(), "the store was asked for something");
        let (mut add, mut remove, mut reads) = (Vec::new(), Vec::new(), 0);
        let text = |bytes: &Arc<[u8]>| String::from_utf8(bytes.to_vec()).unwrap();
        let mut asks = Vec::new();
        for (ask, command) in all {
            asks.push(ask);
            match command {
                Command::Ddata(DataCommand::Get { .. }) => reads += 1,
                Command::Ddata(DataCommand::Update {
                    op: DataOp::OrSet(OrSetOp::Change { add: a, remove: r }),
                    ..
                }) => {
                    add.extend(a.iter().map(text));
                    remove.extend(r.iter().map(text));
                }
                Command::Journal(JournalCommand::Open { .. }) => reads += 1,
                Command::Journal(JournalCommand::Append { records, .. }) => {
                    for record in records {
                        let (comes, names) = events_of(&record);
                        if comes { &mut add } else { &mut remove }.extend(names);
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        add.sort();
        remove.sort();
        if reads > 0 {
            assert!(add.is_empty() && remove.is_empty());
            return (asks, Asked::Read);
        }
        (asks, Asked::Write { add, remove })
    }

    pub(super) fn is_asked(&self) -> bool {
        let mut asked = self.fixture.outbox.asked.iter();
        asked.any(|(_, command)| !is_look(command) && !is_close(command))
    }

    /// The store has done what it was asked for.
    pub(super) fn agree(&mut self, ask: StoreAsk) -> Vec<Effect> {
        let answer = match self.region.kind.settings.remember_entities.unwrap() {
            RememberStore::Data => ok(),
            RememberStore::Events => Answer::Journal(JournalAnswer::Appended { last: ask.request }),
        };
        self.answer(ask, answer)
    }

    /// The store will never do it.
    fn refuse(&mut self, ask: StoreAsk, reads: bool) -> Vec<Effect> {
        let answer = match self.region.kind.settings.remember_entities.unwrap() {
            RememberStore::Data if reads => Answer::Ddata(DataAnswer::Value(Err(ReadError::Deleted))),
            RememberStore::Data => Answer::Ddata(DataAnswer::Written(Err(WriteError::Full))),
            RememberStore::Events => fenced(),
        };
        self.answer(ask, answer)
    }

    pub(super) fn answer(&mut self, ask: StoreAsk, answer: Answer) -> Vec<Effect> {
        self.act(|region, shared| region.on_store_answer(shared, ask, answer))
    }

    /// Confirms the write that is open; what it was, and what came of it.
    pub(super) fn confirm(&mut self) -> (Asked, Vec<Effect>) {
        let (asks, asked) = self.asked();
        let mut effects = Vec::new();
        for ask in asks {
            effects.extend(self.agree(ask));
        }
        (asked, effects)
    }

    pub(super) fn send(&mut self, entity: &str) -> Vec<Effect> {
        let mut pending = pending(entity, None, 0);
        pending.envelope.entity = id(entity);
        self.act(|region, shared| region.route(shared, pending))
    }

    pub(super) fn stop(&mut self, slot: Slot) -> Vec<Effect> {
        let tenant = self.slots.release(slot).unwrap();
        self.act(|region, shared| region.on_entity_stopped(shared, tenant.shard, &tenant.entity))
    }

    pub(super) fn passivates(&mut self, entity: &str, slot: Slot) -> Vec<Effect> {
        self.act(|region, shared| region.on_passivate(shared, SHARD, &id(entity), slot))
    }

    /// Lets time pass, with this region's timers.
    pub(super) fn wait(&mut self, time: Duration) -> Vec<Effect> {
        let until = self.fixture.mono() + time;
        let mut effects = Vec::new();
        while let Some(timer) = self.fixture.next_timer(until) {
            if let Timer::Sharding(ShardingTimer::Region(_, timer)) = timer {
                effects.extend(self.act(|region, shared| region.on_timer(shared, &timer)));
            }
        }
        effects
    }
}

fn is_close(command: &Command) -> bool {
    matches!(command, Command::Journal(JournalCommand::Close { .. }))
}

/// A log that holds these.
fn opened(ids: &[&str]) -> Answer {
    let mut bytes = vec![1, 1];
    bytes.extend_from_slice(&u32::try_from(ids.len()).unwrap().to_le_bytes());
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    for id in ids {
        bytes.extend_from_slice(&u16::try_from(id.len()).unwrap().to_le_bytes());
        bytes.extend_from_slice(id.as_bytes());
    }
    found(bytes)
}

fn found(bytes: Vec<u8>) -> Answer {
    let token = Token::new(1, 1);
    let (sequence, bytes) = (1, bytes.into());
    Answer::Journal(JournalAnswer::Opened(OpenedLog {
        token,
        snapshot: None,
        records: vec![Record {
            sequence,
            token,
            bytes,
        }],
        last: 1,
    }))
}

fn fenced() -> Answer {
    let end = WriterEnd::Fenced {
        held: Token::new(9, 1),
    };
    Answer::Refused(CommandError::Journal(JournalCommandError::Ended(end)))
}

/// Whether names come or go by a record, and which.
fn events_of(record: &[u8]) -> (bool, Vec<String>) {
    assert_eq!(record[0], 1);
    let mut rest = &record[6..];
    let mut names = Vec::new();
    while let Some((len, behind)) = rest.split_first_chunk::<2>() {
        let (name, behind) = behind.split_at(usize::from(u16::from_le_bytes(*len)));
        names.push(String::from_utf8(name.to_vec()).unwrap());
        rest = behind;
    }
    (record[1] == 1, names)
}

fn is_look(command: &Command) -> bool {
    let local = Consistency::Local;
    matches!(command, Command::Ddata(DataCommand::Get { consistency, .. }) if *consistency == local)
}

pub(super) fn write(add: &[&str], remove: &[&str]) -> Asked {
    let texts = |all: &[&str]| all.iter().map(|text| String::from(*text)).collect();
    Asked::Write {
        add: texts(add),
        remove: texts(remove),
    }
}

/// Who started and who was given a message, in order.
pub(super) fn lives(effects: &[Effect]) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let told = effects.iter().filter_map(|effect| match effect {
        Effect::Host(
            Requester::Sharding,
            HostOrder::Start {
                instance: HostedInstance::Entity { entity, .. },
                ..
            },
        ) => Some(format!("start {entity}")),
        Effect::Host(Requester::Sharding, HostOrder::Deliver { payload, .. }) => {
            Some(format!("deliver {}", text(payload)))
        }
        Effect::Host(Requester::Sharding, HostOrder::Stop { .. }) => Some(String::from("stop")),
        Effect::Host(Requester::Sharding, HostOrder::Kill { .. }) => Some(String::from("kill")),
        _ => None,
    });
    told.collect()
}

pub(super) fn slot_of(effects: &[Effect], wanted: &str) -> Slot {
    let started = effects.iter().find_map(|effect| match effect {
        Effect::Host(
            Requester::Sharding,
            HostOrder::Start {
                slot,
                instance: HostedInstance::Entity { entity, .. },
            },
        ) if *entity == id(wanted) => Some(*slot),
        _ => None,
    });
    started.expect("it has started")
}

#[test]
fn s_127_an_id_is_stored_before_the_entity_starts_and_handles_its_message() {
    for store in STORES {
        let mut rig = Rig::recalling_on(store, &[]);
        assert_eq!(lives(&rig.send("e")), [""; 0]);
        let (asked, effects) = rig.confirm();
        assert_eq!(asked, write(&["e"], &[]));
        assert_eq!(lives(&effects), ["start e", "deliver e"]);
        assert_eq!(lives(&rig.send("e")), ["deliver e"], "known from now on");
        assert!(!rig.is_asked());
    }
}

#[test]
fn every_question_to_the_store_has_a_number_of_its_own() {
    for store in STORES {
        let mut rig = Rig::remembering_on(store, config());
        let mut last = rig.fixture.outbox.asked[0].0.request;
        rig.load(&[]);
        for entity in ["a", "b"] {
            rig.send(entity);
            let (asks, _) = rig.asked();
            assert!(asks[0].request > last, "{asks:?} after {last}");
            last = asks[0].request;
            rig.agree(asks[0]);
        }
    }
}

#[test]
fn s_128_new_ids_during_a_write_are_the_next_one_together() {
    for store in STORES {
        let mut rig = Rig::recalling_on(store, &[]);
        rig.send("a");
        let (asks, asked) = rig.asked();
        assert_eq!(asked, write(&["a"], &[]));
        for entity in ["b", "c", "d", "c"] {
            rig.send(entity);
        }
        assert!(!rig.is_asked(), "one write at a time");
        assert_eq!(lives(&rig.agree(asks[0])), ["start a", "deliver a"]);
        let (asked, effects) = rig.confirm();
        assert_eq!(asked, write(&["b", "c", "d"], &[]));
        assert_eq!(lives(&effects).len(), 7, "three starts, four messages");
    }
}

#[test]
fn remembered_entities_start_without_a_message_and_only_where_they_belong() {
    for store in STORES {
        let mut rig = Rig::remembering_on(store, config());
        assert_eq!(lives(&rig.send("x")), [""; 0], "it waits for what is remembered");
        let effects = rig.load(&["x", "y"]);
        assert_eq!(lives(&effects), ["start x", "deliver x"]);
        assert_eq!(lives(&rig.wait(Duration::from_millis(1))), ["start y"]);
        assert!(!rig.is_asked(), "both are known");
    }
}

#[test]
fn s_130_a_store_that_does_not_answer_stops_the_shard_which_begins_again() {
    for store in STORES {
        let mut rig = Rig::recalling_on(store, &["old"]);
        let old = slot_of(&rig.wait(Duration::from_millis(1)), "old");
        rig.send("new");
        let effects = rig.wait(WRITE_TIMEOUT);
        assert_eq!(lives(&effects), ["stop"], "with what is in its mailbox handled");
        assert!(effects.contains(&event(ShardingEvent::ShardFailed { shard: SHARD })));
        assert!(rig.timer(RegionTimer::ShardStop(SHARD)), "it may take so long");
        rig.fixture.outbox.asked.clear();
        assert_eq!(lives(&rig.send("old")), [""; 0]);
        rig.stop(old);
        assert!(!rig.timer(RegionTimer::ShardStop(SHARD)));
        assert!(!rig.is_asked());
        rig.wait(SHARD_BACKOFF);
        let effects = rig.load(&["old"]);
        assert_eq!(lives(&effects), ["start old", "deliver old"]);
        let (asked, effects) = rig.confirm();
        assert_eq!(asked, write(&["new"], &[]), "nothing was lost");
        assert_eq!(lives(&effects), ["start new", "deliver new"]);
    }
}

/// Every way in which a store can fail, at every step: the shard begins again, and every message is
/// delivered.
#[test]
fn s_131_whatever_the_store_does_at_whatever_step_everything_is_there_again() {
    for store in STORES {
        enum Fault {
            NoResponse,
            Refuses,
            Late,
        }
        for fault in [Fault::NoResponse, Fault::Refuses, Fault::Late] {
            for step in ["load", "start", "stop"] {
                let mut rig = Rig::remembering_on(store, config());
                let mut effects = Vec::new();
                if step != "load" {
                    effects.extend(rig.load(&["e"]));
                    effects.extend(rig.wait(Duration::from_millis(1)));
                }
                effects.extend(rig.send(if step == "start" { "new" } else { "e" }));
                if step == "stop" {
                    let slot = slot_of(&effects, "e");
                    rig.passivates("e", slot);
                    rig.stop(slot);
                }
                let (asks, _) = rig.asked();
                let mut rest = match fault {
                    Fault::NoResponse => rig.wait(Duration::from_secs(31)),
                    Fault::Refuses => rig.refuse(asks[0], step == "load"),
                    // After the time: nobody waits for it any more.
                    Fault::Late => {
                        let mut effects = rig.wait(Duration::from_secs(31));
                        effects.extend(rig.agree(asks[0]));
                        effects
                    }
                };
                let failed = event(ShardingEvent::ShardFailed { shard: SHARD });
                assert!(rest.contains(&failed), "{step}");
                if step == "start" {
                    let slot = slot_of(&effects, "e");
                    rest.extend(rig.stop(slot));
                }
                if !rig.is_asked() || step == "stop" || step == "start" {
                    rest.extend(rig.wait(SHARD_BACKOFF));
                }
                rest.extend(rig.load(&["e"]));
                rest.extend(rig.wait(Duration::from_millis(1)));
                if step == "start" {
                    rest.extend(rig.confirm().1);
                }
                let lives = lives(&rest);
                assert!(lives.contains(&String::from("start e")), "{step}: {lives:?}");
                if step == "start" {
                    assert!(lives.contains(&String::from("deliver new")), "{lives:?}");
                }
                if step == "load" {
                    assert!(lives.contains(&String::from("deliver e")), "{lives:?}");
                }
            }
        }
    }
}

#[test]
fn s_132_an_entity_that_crashed_starts_again_after_a_pause_or_with_a_message() {
    for store in STORES {
        let mut rig = Rig::recalling_on(store, &["e"]);
        let slot = slot_of(&rig.wait(Duration::from_millis(1)), "e");
        rig.stop(slot);
        assert_eq!(
            lives(&rig.wait(ENTITY_BACKOFF - Duration::from_millis(2))),
            [""; 0]
        );
        let effects = rig.wait(Duration::from_millis(4));
        assert_eq!(lives(&effects), ["start e"]);
        rig.stop(slot_of(&effects, "e"));
        assert_eq!(lives(&rig.send("e")), ["start e", "deliver e"]);
        assert_eq!(lives(&rig.wait(ENTITY_BACKOFF * 2)), [""; 0], "once is enough");
        assert!(!rig.is_asked());
    }
}

#[test]
fn s_132_one_that_is_passivated_or_forgets_itself_is_forgotten() {
    for store in STORES {
        let mut rig = Rig::recalling_on(store, &["p", "q"]);
        let effects = rig.wait(Duration::from_millis(1));
        let [p, q] = ["p", "q"].map(|entity| slot_of(&effects, entity));
        assert_eq!(lives(&rig.passivates("p", p)), ["stop"]);
        rig.act(|region, shared| region.on_forgotten(shared.cx, SHARD, &id("q"), q));
        assert!(!rig.is_asked(), "only when it has stopped");
        rig.stop(p);
        let runs = |rig: &Rig, entity| rig.region.runs(SHARD, &id(entity));
        assert_eq!(runs(&rig, "p"), Some(false), "it has stopped for whoever asks");
        assert_eq!(runs(&rig, "q"), Some(true), "it is about to");
        let (asked, _) = rig.confirm();
        assert_eq!(asked, write(&[], &["p"]));
        rig.stop(q);
        let (asked, effects) = rig.confirm();
        assert_eq!((asked, lives(&effects).len()), (write(&[], &["q"]), 0));
        assert_eq!(lives(&rig.wait(ENTITY_BACKOFF * 2)), [""; 0]);
    }
}

#[test]
fn s_134_a_message_while_it_passivates_starts_it_again() {
    for store in STORES {
        let mut rig = Rig::recalling_on(store, &["e"]);
        let slot = slot_of(&rig.wait(Duration::from_millis(1)), "e");
        rig.passivates("e", slot);
        assert_eq!(lives(&rig.send("e")), [""; 0]);
        rig.stop(slot);
        let (asked, effects) = rig.confirm();
        assert_eq!((asked, lives(&effects).len()), (write(&[], &["e"]), 0));
        let (asked, effects) = rig.confirm();
        assert_eq!(asked, write(&["e"], &[]));
        assert_eq!(lives(&effects), ["start e", "deliver e"]);
    }
}

#[test]
fn s_135_a_message_while_its_stop_is_queued_starts_it_again() {
    for store in STORES {
        let mut rig = Rig::recalling_on(store, &["e"]);
        let slot = slot_of(&rig.wait(Duration::from_millis(1)), "e");
        rig.send("other");
        let (asks, _) = rig.asked();
        rig.passivates("e", slot);
        rig.stop(slot);
        assert!(!rig.is_asked(), "it waits for the write under way");
        rig.send("e");
        rig.agree(asks[0]);
        assert_eq!(rig.confirm().0, write(&[], &["e"]));
        let (asked, effects) = rig.confirm();
        assert_eq!(asked, write(&["e"], &[]));
        assert_eq!(lives(&effects), ["start e", "deliver e"]);
    }
}

#[test]
fn s_140_a_shard_that_failed_begins_again_and_one_that_was_handed_off_does_not() {
    for store in STORES {
        let mut rig = Rig::remembering_on(store, config());
        rig.asked();
        let effects = rig.wait(Duration::from_secs(31) + SHARD_BACKOFF);
        assert!(effects.contains(&event(ShardingEvent::ShardFailed { shard: SHARD })));
        rig.load(&["e"]);
        let slot = slot_of(&rig.wait(Duration::from_millis(1)), "e");
        let effects = rig.act(|region, shared| region.on_hand_off(shared, &a(), term(), (SHARD, false)));
        assert_eq!(lives(&effects), ["stop"]);
        let effects = rig.stop(slot);
        let (term, shard) = (term(), SHARD);
        assert!(effects.contains(&says(a(), ShardingBody::ShardStopped { term, shard })));
        assert_eq!(rig.wait(SHARD_BACKOFF * 3), []);
        assert!(!rig.is_asked(), "who moves is remembered as it is");
    }
}

#[test]
fn a_shard_stops_only_when_what_is_being_written_is_settled() {
    for store in STORES {
        let mut rig = Rig::recalling_on(store, &["p"]);
        let slot = slot_of(&rig.wait(Duration::from_millis(1)), "p");
        rig.passivates("p", slot);
        rig.send("new");
        let (asks, asked) = rig.asked();
        assert_eq!(asked, write(&["new"], &[]));
        rig.stop(slot);
        let (term, shard) = (term(), SHARD);
        let stopped = says(
            a(),
            ShardingBody::ShardStopped {
                term: term.clone(),
                shard,
            },
        );
        let effects = rig.act(|region, shared| region.on_hand_off(shared, &a(), term, (SHARD, false)));
        assert!(!effects.contains(&stopped));
        let effects = rig.agree(asks[0]);
        assert!(
            !effects.contains(&stopped),
            "who was passivated is to be forgotten first"
        );
        let (asked, effects) = rig.confirm();
        assert_eq!(asked, write(&[], &["p"]));
        assert!(effects.contains(&stopped));
        assert_eq!(lives(&effects), [""; 0], "the other one starts in its next home");
    }
}

#[test]
fn s_147_a_read_that_is_not_answered_is_repeated() {
    let mut rig = Rig::remembering(config());
    let (asks, _) = rig.asked();
    for ask in &asks[1..] {
        rig.answer(*ask, nothing());
    }
    for _ in 0..14 {
        rig.answer(asks[0], late());
        let (again, asked) = rig.asked();
        assert_eq!((again.len(), asked), (1, Asked::Read));
    }
    rig.answer(asks[0], set_of(&["e"]));
    assert_eq!(lives(&rig.wait(Duration::from_millis(1))), ["start e"]);

    let mut rig = Rig::remembering(config());
    let (asks, _) = rig.asked();
    let mut effects = Vec::new();
    for _ in 0..15 {
        effects.extend(rig.answer(asks[0], late()));
    }
    assert!(effects.contains(&event(ShardingEvent::ShardFailed { shard: SHARD })));
}

#[test]
fn s_147_a_log_that_is_opened_late_is_loaded_and_one_that_is_not_opened_fails_the_shard() {
    let events = RememberStore::Events;
    let mut rig = Rig::remembering_on(events, config());
    let (asks, _) = rig.asked();
    assert_eq!(rig.wait(Duration::from_secs(29)), []);
    rig.answer(asks[0], opened(&["e"]));
    assert_eq!(lives(&rig.wait(Duration::from_millis(1))), ["start e"]);

    let mut rig = Rig::remembering_on(events, config());
    let (asks, _) = rig.asked();
    let failed = event(ShardingEvent::ShardFailed { shard: SHARD });
    assert_eq!(rig.wait(Duration::from_secs(30)), [failed]);
    assert_eq!(rig.answer(asks[0], opened(&["e"])), [], "nobody waits for it");
    rig.wait(SHARD_BACKOFF);
    rig.load(&["e"]);
    assert_eq!(lives(&rig.wait(Duration::from_millis(1))), ["start e"]);
}

/// The claims with which the log was opened, and how often it was given up.
fn claims(rig: &mut Rig) -> (Vec<TokenClaim>, usize) {
    let asked = rig.fixture.outbox.asked.drain(..);
    let (mut claims, mut closed) = (Vec::new(), 0);
    for (_, command) in asked {
        match command {
            Command::Journal(JournalCommand::Open { claim, .. }) => claims.push(claim),
            Command::Journal(JournalCommand::Close { .. }) => closed += 1,
            other => panic!("{other:?}"),
        }
    }
    (claims, closed)
}

#[test]
fn a_log_is_opened_with_the_token_of_the_placement_if_that_is_stored_and_given_up_with_the_shard() {
    let token = Token::new(4, 2);
    let claims_of = [
        (StoreMode::Memory, TokenClaim::Count),
        (StoreMode::Events, TokenClaim::Placed(token)),
        (StoreMode::DistributedData, TokenClaim::Placed(token)),
    ];
    for (mode, claim) in claims_of {
        let mut rig = Rig::with_config(true, config());
        rig.region.kind.settings.remember_entities = Some(RememberStore::Events);
        rig.region.kind.settings.store_mode = Some(mode);
        rig.act(|region, shared| region.on_register_ack(shared, &a(), term()));
        rig.act(|region, shared| region.on_host_shard(shared, &a(), term(), (SHARD, token)));
        let ask = rig.fixture.outbox.asked[0].0;
        assert_eq!(claims(&mut rig), (vec![claim], 0), "{mode}");
        // A later placement has it.
        let effects = rig.answer(ask, fenced());
        assert!(effects.contains(&event(ShardingEvent::ShardFailed { shard: SHARD })));
        assert_eq!(claims(&mut rig), (vec![], 1));
        rig.wait(SHARD_BACKOFF);
        assert_eq!(claims(&mut rig), (vec![claim], 0), "never with a higher one");
        // Its coordinator hears of the term, to give it with a token above.
        let held = Token::new(9, 7);
        let said = rig.act(|region, shared| region.say_outdone(shared.cx, token, held));
        let tokens = vec![(SHARD, Token::new(9, 0))];
        let outdone = says(a(), ShardingBody::ShardTokens { tokens });
        assert_eq!(
            said,
            if claim == TokenClaim::Count {
                vec![]
            } else {
                vec![outdone]
            }
        );
        assert_eq!(
            rig.act(|region, shared| region.say_outdone(shared.cx, Token::new(4, 1), held)),
            vec![]
        );
        rig.act(|region, shared| region.on_hand_off(shared, &a(), term(), (SHARD, false)));
        assert_eq!(claims(&mut rig), (vec![], 1));
    }
}

#[test]
fn a_log_that_holds_something_else_is_named_and_nobody_is_started() {
    let mut rig = Rig::remembering_on(RememberStore::Events, config());
    let (asks, _) = rig.asked();
    let effects = rig.answer(asks[0], found(vec![7, 7, 7]));
    let shard = Some(SHARD);
    assert_eq!(effects[0], event(ShardingEvent::RememberedDamaged { shard }));
    assert_eq!(effects[1], event(ShardingEvent::ShardFailed { shard: SHARD }));
    assert_eq!(lives(&rig.send("e")), [""; 0]);
}

#[test]
fn a_write_that_is_not_confirmed_is_repeated() {
    let mut rig = Rig::recalling(&[]);
    rig.send("e");
    let (asks, first) = rig.asked();
    rig.answer(asks[0], unconfirmed());
    let (again, second) = rig.asked();
    assert_eq!((first, &asks), (second, &again));
    assert_eq!(lives(&rig.answer(again[0], ok())), ["start e", "deliver e"]);
}

#[test]
fn s_148_an_impossible_step_is_counted_and_the_shard_fails_if_that_is_wanted() {
    for fails in [false, true] {
        let mut config = config();
        config.sharding.fail_on_invalid_entity_state_transition = fails;
        let mut rig = Rig::remembering(config);
        rig.load(&["e"]);
        // As if it were new.
        let here = rig.region.shards.hosted_mut(SHARD).unwrap();
        here.remember(&mut rig.fixture.cx(), id("e"));
        assert_eq!(rig.fixture.stats.sharding.entity_transitions_invalid, 1);
        let effects = rig.send("new");
        let failed = effects.contains(&event(ShardingEvent::ShardFailed { shard: SHARD }));
        assert_eq!(failed, fails);
    }
}

#[test]
fn s_150_what_waits_for_the_store_is_bounded_and_the_newest_is_refused() {
    let mut config = config();
    config.sharding.buffer_messages_max = 2;
    config.sharding.buffer_waiting_max = 0;
    let mut rig = Rig::remembering(config);
    rig.load(&[]);
    rig.send("e");
    rig.send("e");
    let reason = AskFailure::BufferFull;
    let effects = rig.send("e");
    assert_eq!(
        effects,
        [
            event(ShardingEvent::BufferFull { messages: 2 }),
            event(ShardingEvent::DeadLetter { shard: SHARD, reason }),
        ]
    );
    assert_eq!(lives(&rig.confirm().1), ["start e", "deliver e", "deliver e"]);
}

#[test]
fn recovery_at_a_constant_rate_and_nothing_during_a_pause() {
    let mut config = config();
    config.sharding.entity_recovery = EntityRecovery::ConstantRate {
        frequency: Duration::from_secs(2),
        entities: 2,
    };
    let mut rig = Rig::remembering(config);
    rig.load(&["a", "b", "c", "d", "e"]);
    assert_eq!(lives(&rig.wait(Duration::from_secs(1))).len(), 2);
    rig.region.on_paused();
    assert_eq!(lives(&rig.wait(Duration::from_secs(10))), [""; 0]);
    rig.act(|region, shared| region.on_still_member(shared));
    assert_eq!(lives(&rig.wait(Duration::from_secs(1))).len(), 2);
    assert_eq!(lives(&rig.wait(Duration::from_secs(2))).len(), 1);
}

#[test]
fn what_the_store_says_during_a_pause_counts_after_it() {
    for store in STORES {
        let mut rig = Rig::recalling_on(store, &[]);
        rig.send("e");
        let (asks, _) = rig.asked();
        rig.region.on_paused();
        assert_eq!(lives(&rig.agree(asks[0])), [""; 0]);
        let effects = rig.act(|region, shared| region.on_still_member(shared));
        assert_eq!(lives(&effects), ["start e", "deliver e"]);
    }
}

#[test]
fn all_that_a_shard_escalated_start_again_after_the_pause() {
    for store in STORES {
        let mut rig = Rig::recalling_on(store, &["a", "b"]);
        let effects = rig.wait(Duration::from_millis(1));
        let [a, b] = ["a", "b"].map(|entity| slot_of(&effects, entity));
        let effects = rig.act(|region, shared| drop(region.on_escalated(shared, SHARD, a)));
        assert_eq!(lives(&effects), ["kill"]);
        rig.stop(a);
        rig.stop(b);
        assert_eq!(lives(&rig.wait(ENTITY_BACKOFF)), ["start a", "start b"]);
        assert!(!rig.is_asked());
    }
}

#[test]
fn entities_that_are_heard_of_later_start_too_and_none_starts_twice() {
    let mut rig = Rig::recalling(&["e"]);
    let slot = slot_of(&rig.wait(Duration::from_millis(1)), "e");
    rig.wait(Duration::from_secs(10));
    let effects = rig.load(&["e", "late"]);
    let effects = [effects, rig.wait(Duration::from_millis(1))].concat();
    assert_eq!(lives(&effects), ["start late"]);
    rig.passivates("e", slot);
    rig.wait(Duration::from_secs(10));
    assert_eq!(lives(&rig.load(&["e", "late"])), [""; 0], "it is being forgotten");
}

/// The parts of what is remembered are read one after the other. The earlier home has forgotten `gone`, and
/// this node hears of it when it has read that part and others are open.
#[test]
fn s_127_what_is_forgotten_while_other_parts_are_read_is_not_started() {
    let mut rig = Rig::remembering(config());
    let (asks, asked) = rig.asked();
    assert_eq!(asked, Asked::Read);
    let (last, first) = asks.split_last().unwrap();
    for (at, ask) in first.iter().enumerate() {
        let answer = if at == 0 {
            set_of(&["e", "gone"])
        } else {
            nothing()
        };
        rig.answer(*ask, answer);
    }
    rig.wait(Duration::from_millis(300));
    rig.answer(*last, set_of(&["f"]));
    let (looks, asked) = rig.asked();
    assert_eq!(asked, Asked::Read);
    assert_eq!(looks.len(), asks.len(), "at all parts, at one time");
    for (at, look) in looks.into_iter().enumerate() {
        rig.answer(look, if at == 0 { set_of(&["e"]) } else { nothing() });
    }
    let effects = rig.wait(Duration::from_millis(1));
    assert_eq!(
        lives(&effects),
        ["start e", "start f"],
        "what it does not hold is as it was answered"
    );
}

/// An earlier home was cut off while it forgot the entity, and comes back.
#[test]
fn who_runs_and_is_forgotten_by_an_earlier_home_is_written_again() {
    let mut rig = Rig::recalling(&["e", "f"]);
    let slot = slot_of(&rig.wait(Duration::from_millis(1)), "e");
    rig.wait(Duration::from_secs(10));
    rig.load(&["f"]);
    let (asks, asked) = rig.asked();
    assert_eq!(asked, write(&["e"], &[]));
    let effects = rig.act(|region, shared| region.on_hand_off(shared, &a(), term(), (SHARD, false)));
    assert_eq!(lives(&effects), ["stop", "stop"]);
    assert_eq!(
        lives(&rig.answer(asks[0], ok())),
        [""; 0],
        "it has been running all the time"
    );
    rig.stop(slot);
}

/// The same, and its store fails before it looks: who ran, or had crashed, is written when the shard begins
/// anew, however often that fails.
#[test]
fn who_ran_when_the_store_failed_is_written_again_unless_it_was_forgotten_since() {
    let mut rig = Rig::recalling(&["forgets", "ran", "waits"]);
    let effects = rig.wait(Duration::from_millis(1));
    let [forgets, ran, waits] = ["forgets", "ran", "waits"].map(|entity| slot_of(&effects, entity));
    rig.stop(waits);
    for entity in ["new", "other"] {
        rig.send(entity);
    }
    let (asks, asked) = rig.asked();
    assert_eq!(asked, write(&["new"], &[]));
    assert_eq!(lives(&rig.refuse(asks[0], false)), ["stop", "stop"]);
    rig.act(|region, shared| region.on_forgotten(shared.cx, SHARD, &id("forgets"), forgets));
    rig.stop(forgets);
    rig.stop(ran);
    for fails in [true, false] {
        rig.wait(SHARD_BACKOFF);
        rig.load(&[]);
        let (asks, asked) = rig.asked();
        assert_eq!(asked, write(&["ran", "waits"], &[]));
        if fails {
            rig.refuse(asks[0], false);
            continue;
        }
        let effects: Vec<Effect> = asks.into_iter().flat_map(|ask| rig.agree(ask)).collect();
        assert_eq!(lives(&effects), ["start ran", "start waits"]);
    }
    let (asked, _) = rig.confirm();
    assert_eq!(asked, write(&["new", "other"], &[]));
    let effects = rig.wait(ENTITY_BACKOFF * 2);
    assert_eq!(lives(&effects), [""; 0], "each runs once");
}

/// It crashed, was started by a message, passivated and forgotten; the end of the first pause finds it while
/// it is new again.
#[test]
fn the_end_of_an_old_pause_starts_nobody_who_is_being_stored() {
    for store in STORES {
        let mut rig = Rig::recalling_on(store, &["e"]);
        let slot = slot_of(&rig.wait(Duration::from_millis(1)), "e");
        rig.stop(slot);
        let slot = slot_of(&rig.send("e"), "e");
        rig.passivates("e", slot);
        rig.stop(slot);
        assert_eq!(rig.confirm().0, write(&[], &["e"]));
        rig.wait(ENTITY_BACKOFF - Duration::from_millis(1));
        rig.send("e");
        let (asks, asked) = rig.asked();
        assert_eq!(asked, write(&["e"], &[]));
        assert_eq!(lives(&rig.wait(Duration::from_millis(2))), [""; 0]);
        assert_eq!(lives(&rig.agree(asks[0])), ["start e", "deliver e"]);
    }
}
