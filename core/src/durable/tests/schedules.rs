//! Random lives of one entity: incarnations that nobody has told to stop, a store that fails with and without
//! having done it and answers late, kills. Whatever happens, the log has what was acknowledged, once, in
//! order, and nothing that was said not to be done.

use alloc::vec;
use alloc::vec::Vec;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::super::*;
use crate::log::{LogRequest, ReplayedPart, UnreadableLog};
use crate::ordered::OrderedMap;
use crate::store::memory::MemoryMap;
use crate::store::{Bytes, LogName, Space, StoreAnswer, StoreError, StoreOrder};
use crate::token::Token;

const SEEDS: u64 = 400;
const STEPS: u32 = 300;
/// More than two at once are no other than two: all but one are stale.
const LIVES_MAX: usize = 4;

/// What whoever asked has heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Kept,
    NotDone,
    Unknown,
}

/// One incarnation.
struct Life {
    entity: DurableMachine,
    token: Token,
    numbers: Vec<u64>,
    /// What its store has not answered.
    asked: Option<LogRequest>,
    is_waiting: bool,
    writing: Option<u64>,
}

fn bytes(numbers: &[u64]) -> Bytes {
    let all: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    all.into()
}

fn replay(numbers: &mut Vec<u64>, found: ReplayedPart<'_>) -> Result<(), UnreadableLog> {
    let kept = match found {
        ReplayedPart::Beginning => {
            numbers.clear();
            return Ok(());
        }
        ReplayedPart::Snapshot(snapshot) => &snapshot.state,
        ReplayedPart::Record(record) => &record.bytes,
    };
    let (chunks, rest) = kept.as_chunks::<8>();
    assert!(rest.is_empty());
    numbers.extend(chunks.iter().map(|chunk| u64::from_le_bytes(*chunk)));
    Ok(())
}

fn order(request: LogRequest, token: Token) -> StoreOrder {
    let log = LogName::from("book/one");
    match request {
        LogRequest::Claim => StoreOrder::Open {
            log,
            token,
            opener: token.count,
        },
        LogRequest::ReadSnapshot => StoreOrder::ReadSnapshot { log },
        LogRequest::Read { from } => StoreOrder::ReadLog {
            log,
            from,
            bytes_max: 20,
        },
        LogRequest::Append {
            expected, records, ..
        } => StoreOrder::Append {
            log,
            token,
            expected,
            records,
        },
        LogRequest::Keep { covers, state } => StoreOrder::Snapshot {
            log,
            token,
            through: covers,
            state,
        },
        LogRequest::Forget { through } => StoreOrder::DeleteRange { log, token, through },
        LogRequest::Close => panic!("nobody gives it up"),
    }
}

impl Life {
    fn new(count: u64, keeps: RetentionKeeps) -> Self {
        let retention = LogRetention {
            events: 4,
            keeps,
            ..LogRetention::default()
        };
        let mut life = Self {
            entity: DurableMachine::new(retention, count.is_multiple_of(2)),
            token: Token { term: 1, count },
            numbers: Vec::new(),
            asked: None,
            is_waiting: false,
            writing: None,
        };
        let step = life.entity.begin();
        let DurableStep::Ask(request) = step else {
            panic!("{step:?}");
        };
        life.asked = Some(request);
        life
    }

    fn answer(&mut self, answer: Result<StoreAnswer, StoreError>) -> DurableStep {
        let Self { entity, numbers, .. } = self;
        let mut take = |found: ReplayedPart<'_>| replay(numbers, found);
        match answer {
            Ok(StoreAnswer::Opened(log)) => entity.on_claimed(log, &mut take),
            Ok(StoreAnswer::Snapshot(snapshot)) => entity.on_snapshot(snapshot.as_ref(), &mut take),
            Ok(StoreAnswer::Records { records, .. }) => entity.on_records(&records, &mut take),
            Ok(StoreAnswer::Appended { .. }) => entity.on_appended(),
            Ok(StoreAnswer::Kept | StoreAnswer::Deleted) => entity.on_kept(),
            Ok(
                StoreAnswer::Identity(_)
                | StoreAnswer::Value(_)
                | StoreAnswer::Items { .. }
                | StoreAnswer::Written,
            ) => panic!("no answer to that"),
            Err(error) => entity.on_failed(error),
        }
    }
}

struct World {
    chance: ChaCha8Rng,
    keeps: RetentionKeeps,
    logs: MemoryMap,
    lives: Vec<Life>,
    born: u64,
    given: u64,
    told: OrderedMap<u64, Told>,
    /// Those that were acknowledged, in that order.
    kept: Vec<u64>,
    /// What has happened, by kind.
    seen: OrderedMap<&'static str, u64>,
}

impl World {
    fn new(seed: u64) -> Self {
        let keeps = [RetentionKeeps::Everything, RetentionKeeps::BehindSnapshot][(seed % 2) as usize];
        Self {
            chance: ChaCha8Rng::seed_from_u64(seed),
            keeps,
            logs: MemoryMap::new(),
            lives: Vec::new(),
            born: 0,
            given: 0,
            told: OrderedMap::new(),
            kept: Vec::new(),
            seen: OrderedMap::new(),
        }
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.chance.next_u64() % limit as u64).unwrap_or(0)
    }

    fn saw(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn start(&mut self) {
        self.born += 1;
        self.lives.push(Life::new(self.born, self.keeps));
    }

    fn tell(&mut self, number: Option<u64>, told: Told) {
        let Some(number) = number else { return };
        assert_eq!(self.told.insert(number, told), None, "told twice");
        if told == Told::Kept {
            self.kept.push(number);
        }
    }

    fn kill(&mut self, at: usize) {
        let life = self.lives.remove(at);
        self.tell(life.writing, Told::Unknown);
    }

    /// What the store says of a request, which it has done or not.
    fn obey(&mut self, request: LogRequest, token: Token, fails: bool) -> Result<StoreAnswer, StoreError> {
        let writes = matches!(
            request,
            LogRequest::Append { .. } | LogRequest::Keep { .. } | LogRequest::Forget { .. }
        );
        let order = order(request, token);
        let fault = if fails { self.below(12) } else { 12 };
        match fault {
            0 => {
                self.saw("done, and not said");
                let done = self.logs.obey(Space(0), &order);
                done.and(Err(StoreError::OutcomeUnknown))
            }
            1 => {
                self.saw("not done, and not said");
                Err(StoreError::OutcomeUnknown)
            }
            2 => Err(StoreError::Unavailable),
            3 => Err(StoreError::Busy),
            4 if writes => {
                self.saw("full");
                Err(StoreError::Full)
            }
            _ => self.logs.obey(Space(0), &order),
        }
    }

    /// Does what a life says, until it asks, waits or has nothing to do.
    fn go_on(&mut self, at: usize, mut step: DurableStep) {
        loop {
            let life = &mut self.lives[at];
            step = match step {
                DurableStep::Ask(request) => {
                    life.asked = Some(request);
                    return;
                }
                DurableStep::Wait(_) => {
                    life.is_waiting = true;
                    return;
                }
                DurableStep::Durable => {
                    let number = life.writing.take();
                    life.numbers.extend(number);
                    let is_due = life.entity.is_due();
                    self.tell(number, Told::Kept);
                    if !is_due {
                        return;
                    }
                    DurableStep::MakeRoom
                }
                DurableStep::MakeRoom => {
                    let state = bytes(&life.numbers);
                    let step = life.entity.retain(|| Some(state));
                    self.saw("snapshot");
                    step
                }
                DurableStep::NotDone(failure) => {
                    assert!(!failure.may_have_been_handled());
                    let number = life.writing.take();
                    self.saw("given up");
                    return self.tell(number, Told::NotDone);
                }
                DurableStep::Stopped(failure) => {
                    let life = self.lives.remove(at);
                    self.saw("fenced");
                    let is_unknown = failure.may_have_been_handled();
                    let told = if is_unknown { Told::Unknown } else { Told::NotDone };
                    return self.tell(life.writing, told);
                }
                DurableStep::Recovered | DurableStep::Retained => return,
                DurableStep::Nothing => panic!("everything here is waited for"),
            };
        }
    }

    fn turn(&mut self) {
        if self.lives.is_empty() || (self.lives.len() < LIVES_MAX && self.below(25) == 0) {
            return self.start();
        }
        let at = self.below(self.lives.len());
        if self.below(60) == 0 {
            return self.kill(at);
        }
        let life = &mut self.lives[at];
        if let Some(request) = life.asked.take() {
            let token = life.token;
            let answer = self.obey(request, token, true);
            let step = self.lives[at].answer(answer);
            return self.go_on(at, step);
        }
        if core::mem::take(&mut life.is_waiting) {
            let step = life.entity.on_waited();
            return self.go_on(at, step);
        }
        assert!(life.entity.is_running(), "it asks, waits or runs");
        self.given += 1;
        life.writing = Some(self.given);
        let step = life.entity.write(vec![bytes(&[self.given])]);
        self.go_on(at, step);
    }

    /// What the log amounts to in the end.
    fn end(&mut self) -> Vec<u64> {
        while !self.lives.is_empty() {
            self.kill(0);
        }
        self.start();
        while !self.lives[0].entity.is_running() {
            let life = &mut self.lives[0];
            let request = life.asked.take().expect("nothing is in its way");
            let token = life.token;
            let answer = self.obey(request, token, false);
            let step = self.lives[0].answer(answer);
            self.go_on(0, step);
        }
        self.lives.remove(0).numbers
    }
}

#[test]
fn what_was_acknowledged_is_there_once_and_what_was_not_done_is_not() {
    let mut seen = OrderedMap::<&'static str, u64>::new();
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        (0..STEPS).for_each(|_| world.turn());
        let numbers = world.end();
        let kept: Vec<u64> = numbers
            .iter()
            .copied()
            .filter(|number| world.told[number] == Told::Kept)
            .collect();
        assert_eq!(kept, world.kept, "seed {seed}: acknowledged, once, in order");
        for number in &numbers {
            assert_ne!(world.told[number], Told::NotDone, "seed {seed}: {number}");
            let times = numbers.iter().filter(|other| *other == number).count();
            assert_eq!(times, 1, "seed {seed}: {number}");
        }
        *seen.entry("kept").or_default() += kept.len() as u64;
        for (what, times) in world.seen {
            *seen.entry(what).or_default() += times;
        }
    }
    let rare = seen.values().min();
    assert!(seen.len() == 7 && rare > Some(&100), "{seen:?}");
}
