//! Shards whose entities are remembered begin without a message, and are stored before they have a home.

use super::*;
use crate::ddata::crdt::{DataOp, DataValue, Minting, OrSet, OrSetOp};
use crate::ddata::protocol::{Answer as DataAnswer, Command as DataCommand, ReadError, WriteError};
use crate::effect::{Answer, CommandError, JournalAnswer, JournalCommandError};
use crate::input::{Command, JournalCommand, StoreAsk};
use crate::journal::state::{OpenedLog, TokenClaim, WriterEnd};
use crate::sharding::state::ids::SHARDS_MAX;
use crate::sharding::state::remember::RememberStore;
use crate::store::Record;
use crate::wire::encode_data;

impl Rig {
    /// Recovered; the store has not said which shards there are.
    fn remembering() -> Self {
        Self::remembering_in(RememberStore::Data)
    }

    fn remembering_in(store: RememberStore) -> Self {
        let mut rig = Self::on(a(), 6000);
        let mut kind = rig.coordinator.kind.clone();
        kind.settings.remember_entities = Some(store);
        rig.coordinator = Coordinator::new(kind);
        rig.view(&[(a(), Status::Up), (b(), Status::Up), (c(), Status::Up)]);
        for node in [a(), b(), c()] {
            rig.register(&node, &[]);
        }
        assert!(rig.coordinator.is_active());
        rig
    }

    /// What the store is asked; of shards with high numbers it knows nothing.
    fn asked(&mut self) -> (StoreAsk, Command) {
        let mut first = None;
        while let Some((ask, command)) = self.fixture.outbox.asked.pop_front() {
            if ask.part == 0 {
                first = Some((ask, command));
            } else {
                self.answer(ask, DataAnswer::Value(Err(ReadError::NotFound)));
            }
        }
        first.expect("the store is asked")
    }

    fn is_asked(&self) -> bool {
        !self.fixture.outbox.asked.is_empty()
    }

    fn answer(&mut self, ask: StoreAsk, answer: DataAnswer) -> Vec<Effect> {
        self.act(|coordinator, cx| coordinator.on_store_answer(cx, ask, Answer::Ddata(answer)))
    }

    fn homes(&self) -> Vec<ShardId> {
        self.coordinator.places.homes().map(|(shard, _)| shard).collect()
    }
}

fn shards(numbers: &[u32]) -> DataAnswer {
    let mut data = DataValue::OrSet(OrSet::new());
    let mut minting = Minting::new(b());
    for number in numbers {
        let op = DataOp::OrSet(OrSetOp::Add(number.to_le_bytes().into()));
        data.apply(&op, &mut minting).unwrap();
    }
    DataAnswer::Value(Ok(Arc::new(data)))
}

#[test]
fn shards_that_are_remembered_get_a_home_without_a_message() {
    let mut rig = Rig::remembering();
    let (ask, command) = rig.asked();
    assert!(matches!(command, Command::Ddata(DataCommand::Get { .. })));
    assert_eq!(rig.homes(), []);
    rig.answer(ask, shards(&[7, 9, 5_999, 6_000]));
    // There were more shards once: the last one's entities have to be found.
    assert_eq!(rig.homes(), [7, 9, 5_999, 6_000].map(ShardId));
    assert!(!rig.is_asked());
}

#[test]
fn s_131_a_new_shard_has_a_home_only_when_it_is_stored_however_long_that_takes() {
    let mut rig = Rig::remembering();
    let (ask, _) = rig.asked();
    rig.asks_home(&b(), S);
    rig.answer(ask, DataAnswer::Value(Err(ReadError::NotFound)));
    assert_eq!(rig.homes(), []);
    for _ in 0..4 {
        let (ask, _) = rig.asked();
        rig.answer(ask, DataAnswer::Written(Err(WriteError::NotServing)));
    }
    assert!(!rig.is_asked(), "it rests before it asks again");
    rig.asks_home(&c(), ShardId(5));
    rig.fire(Duration::from_secs(2));
    let (ask, command) = rig.asked();
    let Command::Ddata(DataCommand::Update { op, .. }) = command else {
        panic!("{command:?}");
    };
    let names = [4_u32, 5].map(|number| number.to_le_bytes().into());
    let both = OrSetOp::Change {
        add: names.to_vec(),
        remove: vec![],
    };
    assert_eq!(op, DataOp::OrSet(both));
    rig.answer(ask, DataAnswer::Written(Ok(())));
    assert_eq!(rig.homes(), [S, ShardId(5)]);
}

#[test]
fn the_store_is_asked_again_until_it_says_which_shards_there_are() {
    let mut rig = Rig::remembering();
    for _ in 0..15 {
        let (ask, _) = rig.asked();
        rig.answer(ask, DataAnswer::Value(Err(ReadError::NotServing)));
    }
    assert!(!rig.is_asked());
    rig.fire(Duration::from_secs(2));
    let (ask, _) = rig.asked();
    rig.answer(ask, shards(&[1]));
    assert_eq!(rig.homes(), [ShardId(1)]);
}

#[test]
fn what_regions_host_is_known_without_the_store() {
    let mut rig = Rig::remembering();
    rig.register(&b(), &[S]);
    let effects = rig.asks_home(&c(), S);
    assert_eq!(effects.len(), 1, "its home: {effects:?}");
}

#[test]
fn shards_of_a_large_kind_are_in_several_keys_and_each_stays_small() {
    let mut rig = Rig::on(a(), SHARDS_MAX);
    let mut kind = rig.coordinator.kind.clone();
    kind.settings.remember_entities = Some(RememberStore::Data);
    rig.coordinator = Coordinator::new(kind);
    rig.view(&[(a(), Status::Up)]);
    rig.register(&a(), &[]);
    let mut read = Vec::new();
    while let Some((ask, command)) = rig.fixture.outbox.asked.pop_front() {
        let Command::Ddata(DataCommand::Get { key, .. }) = command else {
            panic!("{command:?}");
        };
        read.push((ask.part, key));
        rig.answer(ask, shards(&[u32::from(ask.part) * 16_384]));
    }
    assert_eq!(
        read.iter().map(|(part, _)| *part).collect::<Vec<_>>(),
        [0, 1, 2, 3]
    );
    assert_eq!(rig.homes(), [0, 16_384, 32_768, 49_152].map(ShardId));
    rig.asks_home(&a(), ShardId(65_535));
    let (ask, command) = rig.fixture.outbox.asked.pop_front().unwrap();
    let Command::Ddata(DataCommand::Update { key, .. }) = command else {
        panic!("{command:?}");
    };
    assert_eq!((ask.part, &key), (3, &read[3].1));
    rig.answer(ask, DataAnswer::Written(Ok(())));
    assert_eq!(rig.homes().last(), Some(&ShardId(65_535)));

    // What a key holds at most, and what one key for all would hold.
    let most = rig.fixture.config.ddata.value_bytes_max;
    let bytes = |shards: u32| {
        let mut data = DataValue::OrSet(OrSet::new());
        let mut minting = Minting::new(b());
        for shard in 0..shards {
            let op = DataOp::OrSet(OrSetOp::Add(shard.to_le_bytes().into()));
            data.apply(&op, &mut minting).unwrap();
        }
        let mut bytes = Vec::new();
        encode_data(&data, &mut bytes).unwrap();
        bytes.len()
    };
    assert!(bytes(16_384) < most / 3, "{} of {most}", bytes(16_384));
    assert!(bytes(SHARDS_MAX) > most);
}

/// What a log holds that these shards were added to.
fn opened(numbers: &[u32]) -> Answer {
    let mut bytes = vec![1, 1];
    bytes.extend_from_slice(&u32::try_from(numbers.len()).unwrap().to_le_bytes());
    for number in numbers {
        bytes.extend_from_slice(&[4, 0]);
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    let token = Token::new(3, 1);
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

#[test]
fn shards_are_remembered_in_a_log_that_each_term_opens_and_that_is_asked_again_when_it_refuses() {
    let mut rig = Rig::remembering_in(RememberStore::Events);
    let (ask, command) = rig.asked();
    let Command::Journal(JournalCommand::Open { claim, log, .. }) = command else {
        panic!("{command:?}");
    };
    assert_eq!((claim, &*log), (TokenClaim::Term, "/sharding/files/shards"));
    rig.act(|coordinator, cx| coordinator.on_store_answer(cx, ask, opened(&[7, 9])));
    assert_eq!(rig.homes(), [7, 9].map(ShardId));
    rig.asks_home(&b(), S);
    assert_eq!(rig.homes(), [7, 9].map(ShardId), "it is stored first");
    let (ask, command) = rig.asked();
    assert!(matches!(command, Command::Journal(JournalCommand::Append { .. })));
    let held = Token::new(4, 1);
    let fenced = JournalCommandError::Ended(WriterEnd::Fenced { held });
    let fenced = Answer::Refused(CommandError::Journal(fenced));
    rig.act(|coordinator, cx| coordinator.on_store_answer(cx, ask, fenced));
    rig.fixture.outbox.asked.clear();
    rig.fire(Duration::from_secs(2));
    let (ask, command) = rig.asked();
    assert!(matches!(command, Command::Journal(JournalCommand::Open { .. })));
    rig.act(|coordinator, cx| coordinator.on_store_answer(cx, ask, opened(&[7, 9])));
    let (ask, command) = rig.asked();
    assert!(matches!(command, Command::Journal(JournalCommand::Append { .. })));
    let last = 2;
    let answer = Answer::Journal(JournalAnswer::Appended { last });
    rig.act(|coordinator, cx| coordinator.on_store_answer(cx, ask, answer));
    assert_eq!(rig.homes(), [S, ShardId(7), ShardId(9)]);
}

#[test]
fn a_damaged_log_of_shards_is_named_once() {
    let mut rig = Rig::remembering_in(RememberStore::Events);
    let mut named = 0;
    for _ in 0..3 {
        let (ask, _) = rig.asked();
        let Answer::Journal(JournalAnswer::Opened(mut found)) = opened(&[1]) else {
            unreachable!();
        };
        found.records[0].bytes = Arc::from(*b"rubbish");
        let answer = Answer::Journal(JournalAnswer::Opened(found));
        let effects = rig.act(|coordinator, cx| coordinator.on_store_answer(cx, ask, answer));
        let is_it = |effect: &&Effect| alloc::format!("{effect:?}").contains("RememberedDamaged");
        named += effects.iter().filter(is_it).count();
        rig.fixture.outbox.asked.clear();
        rig.fire(Duration::from_secs(2));
    }
    assert_eq!((named, rig.homes()), (1, vec![]));
}
