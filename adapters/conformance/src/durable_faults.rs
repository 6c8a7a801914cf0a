//! What entities keep on a disk that fails: nothing acknowledged is lost, nothing counts twice, and what was
//! said not to be done is not there. Spec: reliability I-80 to I-82; sharding 10.7.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use quorate_core::sharding::errors::AskFailure;
use quorate_driver::AskError;
use quorate_driver::EntityContext;
use quorate_driver::durable::{Decision, DurableFailure, EventSourced, Retention, Versioned};
use quorate_driver::testing::{DurableEntity, DurableHost};
use serde::{Deserialize, Serialize};

use super::disk::FaultyDisk;
use super::store_faults::OnDisk;
use super::stores::Reopen;

/// Commands to one entity in its life.
const COMMANDS: u64 = 24;

/// Moments at which the power fails, spread over a life.
const POWER_FAILURES: u64 = 60;

/// So long an answer may take to be seen.
const LOOK: Duration = Duration::from_millis(1);

#[derive(Serialize, Deserialize)]
struct NotedNumbers {
    number: u64,
    /// So that records have several sizes, and some are larger than a sector.
    padding: String,
}

impl Versioned for NotedNumbers {}

#[derive(Default, Serialize, Deserialize)]
struct Notes(Vec<u64>);

impl Versioned for Notes {}

/// Notes numbers; 0 only reads.
struct NumberBook {
    padding: usize,
    retention: Retention,
}

impl EventSourced for NumberBook {
    type Command = u64;
    type Reply = Vec<u64>;
    type Event = NotedNumbers;
    type State = Notes;

    async fn handle(&mut self, _: &EntityContext, notes: &Notes, number: u64) -> Decision<Self> {
        if number == 0 {
            return Decision::reply(notes.0.clone());
        }
        let padding = "x".repeat(usize::try_from(number % 7).unwrap_or(0) * self.padding);
        Decision::persist(NotedNumbers { number, padding }).reply(vec![number])
    }

    fn apply(notes: &mut Notes, event: NotedNumbers) {
        notes.0.push(event.number);
    }

    fn retention(&self) -> Retention {
        self.retention
    }
}

type Pages = DurableEntity<u64, Vec<u64>>;

fn host(make: OnDisk<'_>, disk: &FaultyDisk) -> DurableHost {
    DurableHost::start(make(disk.clone())).expect("there is a thread")
}

fn book(host: &DurableHost) -> Pages {
    host.entity(("book", b"one"), |_| NumberBook {
        padding: 200,
        retention: Retention::snapshot_every(5).delete_covered_events(),
    })
}

/// One that fills its disk.
fn thick_book(host: &DurableHost) -> Pages {
    host.entity(("book", b"one"), |_| NumberBook {
        padding: 20_000,
        retention: Retention::default(),
    })
}

/// What became of each command: by its number, which is the order in which they were sent.
type Told = BTreeMap<u64, Result<Vec<u64>, AskError>>;

/// Sends everything at once, and looks at the answers until all are there or the power is off.
fn live(make: OnDisk<'_>, disk: &FaultyDisk) -> Told {
    let host = host(make, disk);
    let mut book = book(&host);
    for number in 1..=COMMANDS {
        assert_eq!(book.send(&number), number);
    }
    let mut told = Told::new();
    while told.len() < usize::try_from(COMMANDS).unwrap_or(usize::MAX) && disk.has_power() {
        if book.has_answered() {
            told.extend(book.next_answer());
        } else {
            thread::sleep(LOOK);
        }
    }
    told.extend(book.kill());
    host.stop();
    told
}

/// The power fails at any write while an entity is at work. Its next incarnation has everything that was
/// answered, nothing of what was said not to be done, nothing twice, and in order.
pub fn i_80_no_acknowledged_event_of_an_entity_is_lost_and_none_counts_twice(make: OnDisk<'_>) {
    let disk = FaultyDisk::new(1);
    let told = live(make, &disk);
    assert!(told.values().all(Result::is_ok), "without a fault: {told:?}");
    let steps = disk.steps();
    let (mut cut_short, mut unacknowledged_and_there) = (0, 0);
    for moment in 1..=POWER_FAILURES {
        let disk = FaultyDisk::new(moment);
        disk.fail_power_after(steps * moment / POWER_FAILURES);
        let told = live(make, &disk);
        let acknowledged = told.values().filter(|told| told.is_ok()).count() as u64;
        cut_short += u64::from(acknowledged < COMMANDS);
        let after = host(make, &disk.after_power_failure());
        let mut found = book(&after);
        let noted = found.ask(&0).expect("the log can be read");
        let again = found.ask(&(COMMANDS + 1));
        assert!(again.is_ok(), "it can be written on");
        found.drain();
        after.stop();
        let what = format!("power failure {moment}: {noted:?} of {told:?}");
        assert!(
            noted.is_sorted_by(|one, next| one < next),
            "in order, none twice: {what}"
        );
        for (number, told) in &told {
            let is_there = noted.contains(number);
            match told {
                Ok(_) => assert!(is_there, "{number} was acknowledged: {what}"),
                Err(error) if error.may_have_been_handled() => {}
                Err(_) => assert!(!is_there, "{number} was not done: {what}"),
            }
        }
        unacknowledged_and_there += noted.len() as u64 - acknowledged;
    }
    assert!(cut_short > POWER_FAILURES / 2, "the power did fail: {cut_short}");
    println!(
        "{POWER_FAILURES} power failures, {cut_short} in the middle of a life, {unacknowledged_and_there} events there that nobody \
         was told of"
    );
}

/// A disk that does not sync, and one that fills up: the entity repeats or says so, and goes on when the disk
/// is well.
pub fn i_82_an_entity_goes_on_when_its_disk_is_well_again(make: OnDisk<'_>) {
    let disk = FaultyDisk::new(7);
    let node = host(make, &disk);
    let mut entity = thick_book(&node);
    let mut expected = Vec::new();
    let mut was_full = 0;
    for number in 1..=60 {
        if number % 9 == 0 {
            disk.fail_syncs(2);
        }
        if number == 30 {
            let size = disk.size().expect("the power is on");
            disk.set_capacity(usize::try_from(size).unwrap_or(usize::MAX));
        }
        match entity.ask(&number) {
            Ok(_) => expected.push(number),
            Err(AskError::NotDurable(DurableFailure::Full)) => {
                was_full += 1;
                assert_eq!(entity.ask(&0), Ok(expected.clone()), "a full disk can be read");
                if was_full == 3 {
                    disk.set_capacity(usize::MAX);
                }
            }
            Err(error) => panic!("{number}: {error}"),
        }
    }
    assert_eq!(was_full, 3, "it was full");
    let left = entity.kill();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(thick_book(&node).ask(&0), Ok(expected));
    node.stop();
}

/// One entity on two machines in turn: each time the later incarnation finds everything, and what the earlier
/// one still tries is refused.
pub fn an_entity_goes_from_machine_to_machine_and_the_stale_one_is_refused(
    here: Reopen<'_>,
    there: Reopen<'_>,
) {
    let machines = [here(), there()].map(|store| DurableHost::start(store).expect("there is a thread"));
    let mut expected = Vec::new();
    let mut stale: Option<Pages> = None;
    let mut number = 0;
    for round in 0..6 {
        let mut owner = book(&machines[round % 2]);
        // The one before has the log until this one has recovered: nobody tells it to stop.
        assert_eq!(owner.ask(&0), Ok(expected.clone()), "round {round}");
        for _ in 0..7 {
            number += 1;
            assert_eq!(owner.ask(&number), Ok(vec![number]));
            expected.push(number);
        }
        if let Some(mut stale) = stale.replace(owner) {
            // Its last snapshot may have been on its way when the next one opened: then it has heard so and
            // stopped before.
            let refused = stale.ask(&(number + 1_000));
            let is_refused = matches!(
                refused,
                Err(AskError::NotDurable(DurableFailure::Fenced)
                    | AskError::Failed(AskFailure::EntityStoppedUnhandled))
            );
            assert!(is_refused, "round {round}: {refused:?}");
            assert_eq!(stale.next_answer(), None, "it has stopped");
        }
    }
    drop(stale.map(Pages::kill));
    machines.into_iter().for_each(DurableHost::stop);
}
