//! Queues over the log of a voter: more goes through one than the log may hold, whatever is confirmed and
//! when, and a log that was left full goes on. Spec: sharding 1.14, 10.7.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::delivery::ProducerSettings;
use quorate_core::sharding::ids::EntityId;
use quorate_core::store::{LogName, Outcome, Space, StoreAnswer, StoreIdentity, StoreOrder};

use super::ProducerError;
use super::queue::{DurableQueue, Entry};
use crate::codec::Bytes;
use crate::journal::{AppendPurpose, Journal, Keeper, log_name};
use crate::queue_bounds::QueueBounds;
use crate::shared::Shared;
use crate::store::{SharedMemoryStore, Store, StoreFault, StoreScope, Stores};
use crate::testing::{block_on, idle_node, voter};

const LOG_BYTES_MAX: usize = 1 << 20;
const MESSAGE: usize = 90_000;

/// What queues need of a node, over one voter that answers at once. It ends with the test's process.
fn node() -> Arc<Shared> {
    let (shared, commands) = idle_node(|config| {
        config.journal.voters = 1;
        config.journal.log_bytes_max = LOG_BYTES_MAX;
    });
    voter::serve(&commands, LOG_BYTES_MAX, Duration::ZERO);
    shared
}

fn open(shared: &Arc<Shared>) -> DurableQueue {
    block_on(DurableQueue::open_with(shared, &Keeper::Quorum, "jobs")).unwrap()
}

fn sent(seq: u64) -> Entry {
    Entry::Sent {
        seq,
        entity: b"e".to_vec(),
        payload: Bytes(vec![u8::try_from(seq % 251).unwrap(); MESSAGE].into()),
    }
}

fn write(shared: &Shared, queue: &mut DurableQueue, entry: Entry) {
    block_on(queue.write(vec![entry], &shared.background)).unwrap();
}

/// The numbers of what a new owner finds unconfirmed. Each has its own bytes.
fn unconfirmed(shared: &Arc<Shared>) -> Vec<u64> {
    let (kept, _) = open(shared).split();
    for (seq, _, payload) in &kept {
        assert!(payload.len() == MESSAGE && payload.iter().all(|byte| u64::from(*byte) == seq % 251));
    }
    kept.into_iter().map(|(seq, ..)| seq).collect()
}

#[test]
fn s_1_14_more_goes_through_a_queue_than_its_log_may_hold_and_after_a_restart_too() {
    let shared = node();
    for life in 0..3_u64 {
        let mut queue = open(&shared);
        for seq in life * 100..(life + 1) * 100 {
            write(&shared, &mut queue, sent(seq));
            write(&shared, &mut queue, Entry::Confirmed { seq });
        }
    }
    assert_eq!(unconfirmed(&shared), []);
}

#[test]
fn s_1_14_what_nobody_confirms_stays_while_everything_behind_it_goes_through() {
    let shared = node();
    let mut queue = open(&shared);
    (0..4).for_each(|seq| write(&shared, &mut queue, sent(seq)));
    for seq in 4..200 {
        write(&shared, &mut queue, sent(seq));
        if seq != 100 {
            write(&shared, &mut queue, Entry::Confirmed { seq });
        }
    }
    assert_eq!(unconfirmed(&shared), [0, 1, 2, 3, 100]);
    assert_eq!(unconfirmed(&shared), [0, 1, 2, 3, 100], "and again");
}

#[test]
fn s_1_14_a_queue_has_room_for_half_of_its_log_and_again_when_something_is_confirmed() {
    let shared = node();
    let mut queue = open(&shared);
    let mut seq = 0;
    while queue.has_room(MESSAGE) {
        write(&shared, &mut queue, sent(seq));
        seq += 1;
    }
    assert_eq!(seq, (LOG_BYTES_MAX / 2 / MESSAGE) as u64);
    write(&shared, &mut queue, Entry::Confirmed { seq: 3 });
    assert!(queue.has_room(MESSAGE));
    drop(queue);
    assert!(open(&shared).has_room(MESSAGE));
}

#[test]
fn s_1_14_a_log_that_was_left_full_is_opened_and_goes_on() {
    for every in [1, 2, 5, 100] {
        let shared = node();
        let name = log_name("", &EntityId::new(b"jobs")).unwrap();
        fill(&shared, &name, every);
        let kept = unconfirmed(&shared);
        let mut queue = open(&shared);
        for seq in kept.iter().copied().rev() {
            write(&shared, &mut queue, Entry::Confirmed { seq });
        }
        for seq in 1_000..1_100 {
            write(&shared, &mut queue, sent(seq));
            write(&shared, &mut queue, Entry::Confirmed { seq });
        }
        assert_eq!(unconfirmed(&shared), [], "{every}");
    }
}

/// A store that has lost the first record of a log, and whatever is asked for in its place.
#[derive(Debug)]
struct Holed(SharedMemoryStore);

impl Store for Holed {
    fn open(&mut self) -> Result<StoreIdentity, StoreFault> {
        self.0.open()
    }

    fn commit(&mut self, orders: &[(Space, &StoreOrder)]) -> Result<Vec<Outcome>, StoreFault> {
        let mut outcomes = self.0.commit(orders)?;
        for outcome in &mut outcomes {
            if let Ok(StoreAnswer::Records { records, .. }) = outcome {
                records.retain(|record| record.sequence > 1);
            }
        }
        Ok(outcomes)
    }

    fn scope(&self) -> StoreScope {
        self.0.scope()
    }
}

#[test]
fn s_1_14_a_queue_in_which_a_record_is_missing_is_not_begun_with() {
    let logs = SharedMemoryStore::new();
    let shared = node();
    let keeper = |store: Box<dyn Store>| {
        let stores = Stores::start(store, Arc::default()).unwrap();
        let keeper = Keeper::Store(stores.access().unwrap());
        (stores, keeper)
    };
    let (_whole, whole) = keeper(Box::new(logs.node()));
    let open = |keeper: &Keeper| block_on(DurableQueue::open_with(&shared, keeper, "jobs"));
    let mut queue = open(&whole).unwrap();
    (1..=3).for_each(|seq| write(&shared, &mut queue, sent(seq)));
    let (_holed, holed) = keeper(Box::new(Holed(logs.node())));
    assert!(matches!(open(&holed), Err(ProducerError::Unreadable)));
    let kept = open(&whole).unwrap().split().0;
    assert_eq!(kept.iter().map(|(seq, ..)| *seq).collect::<Vec<_>>(), [1, 2, 3]);
}

/// As it was left before logs were made shorter by their bytes: nothing goes into it any more. Of so many
/// messages one is unconfirmed.
fn fill(shared: &Arc<Shared>, name: &LogName, every: u64) {
    let sleep = shared.background.sleeper();
    let mut journal = Keeper::Quorum
        .journal(shared, &sleep, LogName::clone(name), None)
        .unwrap();
    block_on(journal.open()).unwrap();
    let mut last = 0;
    for seq in 0.. {
        let confirmed = Entry::Confirmed { seq };
        for entry in [Some(sent(seq)), (seq % every != 0).then_some(confirmed)]
            .into_iter()
            .flatten()
        {
            let record = entry.record().unwrap();
            if block_on(journal.append(last, vec![record], AppendPurpose::Keep)).is_err() {
                return;
            }
            last += 1;
        }
    }
}

#[test]
fn s_1_14_a_producer_of_a_queue_that_is_nearly_full_has_all_its_messages_written() {
    let shared = node();
    let queue = open(&shared);
    let (entries, written) = async_channel::unbounded();
    let bounds: QueueBounds = shared.queue_bounds;
    assert!(bounds.message_bytes_max() >= MESSAGE);
    for seq in 0..300 {
        entries.try_send(sent(seq)).unwrap();
        if let Some(seq) = seq.checked_sub(4) {
            entries.try_send(Entry::Confirmed { seq }).unwrap();
        }
    }
    entries.close();
    let inbox = super::orders::ProducerInbox::default();
    let settings = ProducerSettings::default();
    block_on(queue.run(written, &inbox, &shared.background, &settings));
    while let Some(said) = inbox.take() {
        assert!(!matches!(said, super::orders::TaskReport::StoreFailed));
    }
    assert_eq!(unconfirmed(&shared), [296, 297, 298, 299]);
}

#[test]
fn s_1_14_a_log_that_has_an_end_is_not_waited_for_when_it_is_full() {
    let shared = node();
    let queue = open(&shared);
    let (entries, written) = async_channel::unbounded();
    for seq in 0..2 {
        let payload = Bytes(vec![7; LOG_BYTES_MAX / 8 * 5].into());
        let entity = b"e".to_vec();
        entries.try_send(Entry::Sent { seq, entity, payload }).unwrap();
    }
    entries.close();
    let inbox = super::orders::ProducerInbox::default();
    let settings = ProducerSettings::default();
    block_on(queue.run(written, &inbox, &shared.background, &settings));
    let said: Vec<_> = std::iter::from_fn(|| inbox.take()).collect();
    let [
        super::orders::TaskReport::Stored(0),
        ..,
        super::orders::TaskReport::StoreFailed,
    ] = said[..]
    else {
        panic!("{} answers", said.len())
    };
}
