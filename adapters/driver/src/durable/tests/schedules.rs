//! Random lives of one entity on two nodes: incarnations that nobody has told to stop, stores that fail with
//! and without having done it, kills. Whatever happens, the log has what was acknowledged, once, in order,
//! and nothing that was said not to be done.

use quorate_core::ordered::OrderedMap;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use super::*;

const SEEDS: u64 = 20;
const STEPS: u64 = 60;
/// More than two at once are no other than two: all but one are stale.
const LIVES_MAX: usize = 4;

#[derive(Serialize, Deserialize)]
struct Noted(u64);
impl Versioned for Noted {}

#[derive(Default, Serialize, Deserialize)]
struct Notes(Vec<u64>);
impl Versioned for Notes {}

/// Notes numbers; 0 only reads.
struct Book;

impl EventSourced for Book {
    type Command = u64;
    type Reply = Vec<u64>;
    type Event = Noted;
    type State = Notes;

    async fn handle(&mut self, _: &EntityContext, notes: &Notes, number: u64) -> Decision<Self> {
        if number == 0 {
            return Decision::reply(notes.0.clone());
        }
        Decision::persist(Noted(number)).reply(Vec::new())
    }

    fn apply(notes: &mut Notes, Noted(number): Noted) {
        notes.0.push(number);
    }

    fn retention(&self) -> Retention {
        Retention::snapshot_every(4).delete_covered_events()
    }
}

struct World {
    chance: ChaCha8Rng,
    nodes: [(DurableHost, Arc<Plan>); 2],
    lives: Vec<DurableEntity<u64, Vec<u64>>>,
    told: OrderedMap<u64, Result<Vec<u64>, AskError>>,
    /// What has happened, by kind.
    seen: OrderedMap<&'static str, u64>,
}

impl World {
    fn new(seed: u64) -> Self {
        let stores = SharedMemoryStore::new();
        Self {
            chance: ChaCha8Rng::seed_from_u64(seed),
            nodes: [node(&stores), node(&stores)],
            lives: Vec::new(),
            told: OrderedMap::new(),
            seen: OrderedMap::new(),
        }
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.chance.next_u64() % limit as u64).unwrap_or(0)
    }

    fn start(&mut self) {
        let node = self.below(2);
        let book = self.nodes[node].0.entity(("book", b"one"), |_| Book);
        self.lives.push(book);
    }

    fn ask(&mut self, number: u64) {
        if self.lives.is_empty() {
            self.start();
        }
        let which = self.below(self.lives.len());
        let answer = self.lives[which].ask(&number);
        let what = match &answer {
            Ok(_) => "done",
            Err(AskError::NotDurable(DurableFailure::Fenced)) => "fenced",
            Err(AskError::NotDurable(DurableFailure::FencedUnknown)) => "fenced, unknown",
            Err(AskError::NotDurable(DurableFailure::Full)) => "full",
            // It has ended by itself: its snapshot was refused.
            Err(AskError::Failed(AskFailure::EntityStoppedUnhandled)) => "stopped",
            Err(error) => panic!("{number}: {error}"),
        };
        if what == "stopped" {
            drop(self.lives.swap_remove(which));
        } else if what.starts_with("fenced") {
            let stale = self.lives.swap_remove(which);
            assert_eq!(stale.next_answer(), None, "it has stopped");
        }
        *self.seen.entry(what).or_default() += 1;
        self.told.insert(number, answer);
    }

    fn step(&mut self, number: u64) {
        match self.below(9) {
            0 if self.lives.len() < LIVES_MAX => self.start(),
            1 if !self.lives.is_empty() => {
                let which = self.below(self.lives.len());
                let left = self.lives.swap_remove(which).kill();
                assert_eq!(left, []);
            }
            2 | 3 => {
                let faults = [
                    Fault::FailDone,
                    Fault::FailUndone,
                    Fault::Unavailable,
                    Fault::Full,
                ];
                let fault = self.below(faults.len());
                let node = self.below(2);
                lock(&self.nodes[node].1.faults).push_back(faults[fault].clone());
            }
            _ => self.ask(number),
        }
    }

    fn verify(mut self, seed: u64) -> OrderedMap<&'static str, u64> {
        for (_, plan) in &self.nodes {
            lock(&plan.faults).clear();
        }
        self.start();
        let mut last = self.lives.pop().expect("it was started");
        let noted = last.ask(&0).expect("it can be read");
        let what = format!("seed {seed}: {noted:?} of {:?}", self.told);
        assert!(
            noted.is_sorted_by(|one, next| one < next),
            "in order, none twice: {what}"
        );
        for (number, told) in &self.told {
            let is_there = noted.contains(number);
            match told {
                Ok(_) => assert!(is_there, "{number} was acknowledged: {what}"),
                Err(error) if error.may_have_been_handled() => {}
                Err(_) => assert!(!is_there, "{number} was not done: {what}"),
            }
        }
        self.seen
    }
}

#[test]
fn i_80_whatever_happens_to_its_incarnations_an_entity_has_what_was_acknowledged_once() {
    let mut seen = OrderedMap::<&str, u64>::new();
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        (1..=STEPS).for_each(|number| world.step(number));
        for (what, count) in world.verify(seed) {
            *seen.entry(what).or_default() += count;
        }
    }
    for what in ["done", "fenced", "fenced, unknown", "full"] {
        assert!(seen.get(what).is_some_and(|count| *count > 5), "{what}: {seen:?}");
    }
    println!("{SEEDS} schedules: {seen:?}");
}
