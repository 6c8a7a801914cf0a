//! Writers of one log among all the rest. Checked: what was acknowledged is there, in one order, whoever
//! takes the log over; who was replaced writes nothing any more; what was refused never appears.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::{Begun, LIFE_MS, Model};
use crate::kv::requests::tests::world::key;
use crate::kv::requests::{CallAnswer, CallError, CallGoal};
use crate::kv::state::logged::{LogChange, LogDenial, LogRecord, LogWrite};
use crate::kv::state::outcome::LogHold;
use crate::ordered::{OrderedMap, OrderedSet};
use crate::store::Bytes;
use crate::token::Token;

pub(super) const LOG: &str = "l";

const WRITERS: usize = 3;

/// One that believes to own the log, or would like to.
#[derive(Clone, Debug, Default)]
struct Writer {
    placement: Option<Token>,
    token: Option<Token>,
    /// All that it has read and written.
    content: Vec<usize>,
    hold: Option<LogHold>,
    /// What it waits for, or will ask again because nobody knows what became of it.
    wanted: Option<LogChange>,
    is_unknown: bool,
    call: Option<usize>,
}

#[derive(Debug, Default)]
pub(super) struct Logs {
    writers: [Writer; WRITERS],
    placements: u64,
    /// What was acknowledged to writers, in its order.
    acknowledged: Vec<usize>,
    /// By call: the highest token that somebody had when it began, and how much was acknowledged.
    before: OrderedMap<usize, (Token, usize)>,
    tokens: OrderedSet<Token>,
    void: OrderedSet<usize>,
    /// Appends in a turn gone on with, claims, refusals, outcomes that nobody knew.
    pub(super) tried: [usize; 4],
}

fn bytes_of(numbers: &[usize]) -> Bytes {
    let words: Vec<_> = numbers.iter().map(ToString::to_string).collect();
    Bytes::from(words.join(",").as_bytes())
}

fn numbers_of(bytes: &[u8]) -> Vec<usize> {
    let words = str::from_utf8(bytes).unwrap().split(',');
    words
        .filter(|word| !word.is_empty())
        .map(|word| word.parse().unwrap())
        .collect()
}

fn content(log: &LogRecord) -> Vec<usize> {
    let state = log.snapshot().map(|snapshot| numbers_of(&snapshot.state));
    let mut all = state.unwrap_or_default();
    all.extend(log.records().iter().flat_map(|record| numbers_of(record)));
    assert_eq!(all.len() as u64, log.last(), "one number is one record: {log:?}");
    all
}

impl Model {
    /// Some writer does something.
    pub(super) fn write_log(&mut self) {
        let at = self.below(WRITERS);
        let (is_replaced, is_crashed) = (self.below(12) == 0, self.below(25) == 0);
        if is_crashed || (is_replaced && !self.seed.is_multiple_of(2)) {
            let mut writer = Writer::default();
            if !self.seed.is_multiple_of(2) {
                self.logs.placements += u64::from(is_replaced);
                writer.placement = Some(Token::new(1, self.logs.placements.max(1)));
            }
            self.logs.writers[at] = writer;
        }
        if self.logs.writers[at].call.is_some() {
            return;
        }
        let kind = self.below(8);
        let number = self.world.calls.len();
        let writer = &mut self.logs.writers[at];
        let last = writer.content.len() as u64;
        let change = match (writer.wanted.take(), writer.token) {
            (Some(change), _) => change,
            (None, None) => LogChange::Claim {
                placement: writer.placement,
            },
            (None, Some(token)) => LogChange::Write(match kind {
                0 if last > 0 => LogWrite::Keep {
                    token,
                    through: last,
                    state: bytes_of(&writer.content),
                },
                1 => LogWrite::Append {
                    token,
                    expected: last,
                    records: [number, number + 1_000_000]
                        .map(|number| bytes_of(&[number]))
                        .into(),
                },
                _ => LogWrite::Append {
                    token,
                    expected: last,
                    records: [bytes_of(&[number])].into(),
                },
            }),
        };
        let hold = writer.hold.take();
        self.logs.tried[0] += usize::from(hold.is_some());
        writer.wanted = Some(change.clone());
        writer.call = Some(number);
        let past = self.past.len();
        let known = if self.below(4) == 0 {
            self.below(past)
        } else {
            past - 1
        };
        let configuration = self.past[known].clone();
        let goal = CallGoal::Log { change, hold };
        let begun = self.begun(LOG, goal.clone());
        self.begun.push(begun);
        self.world.begin(&key(LOG), goal, configuration, &[]);
    }

    pub(super) fn begun(&mut self, name: &str, goal: CallGoal) -> Begun {
        let highest = self.logs.tokens.last().copied().unwrap_or(Token::NONE);
        let acknowledged = self.logs.acknowledged.len();
        self.logs.before.insert(self.begun.len(), (highest, acknowledged));
        let key = key(name);
        let of_key = |write: &usize| self.begun[*write].key == key;
        Begun {
            at_ms: self.world.now_ms,
            before: self.shown.iter().copied().filter(of_key).collect(),
            depth: self.depths.get(&key).copied().unwrap_or_default(),
            is_seen: false,
            key,
            goal,
        }
    }

    pub(super) fn judge_log(&mut self, number: usize, answer: Result<CallAnswer, CallError>) {
        let CallGoal::Log { change, .. } = self.begun[number].goal.clone() else {
            panic!("about a log");
        };
        let at = self
            .logs
            .writers
            .iter()
            .position(|writer| writer.call == Some(number));
        let mut nobody = Writer::default();
        let seed = self.seed;
        let (highest, least) = self.logs.before[&number];
        let Logs {
            writers,
            acknowledged,
            tokens,
            void,
            tried,
            ..
        } = &mut self.logs;
        let writer = at.map_or(&mut nobody, |at| &mut writers[at]);
        writer.call = None;
        match answer {
            Ok(CallAnswer::Logged { log: Ok(log), hold }) => {
                writer.hold = Some(hold);
                writer.wanted = None;
                writer.is_unknown = false;
                if let Some(log) = log {
                    tried[1] += 1;
                    let all = content(&log);
                    assert!(log.token() > highest, "seed {seed}: a lower token has the log");
                    assert!(
                        tokens.insert(log.token()),
                        "seed {seed}: two have {}",
                        log.token()
                    );
                    // Somebody may have it already who came later.
                    let is_whole = all.len() >= least
                        && (all.starts_with(acknowledged) || acknowledged.starts_with(&all));
                    assert!(is_whole, "seed {seed}: {all:?} lacks of {acknowledged:?}");
                    assert!(all.iter().all(|one| !void.contains(one)), "seed {seed}: {all:?}");
                    writer.token = Some(log.token());
                    writer.content = all;
                } else if let LogChange::Write(LogWrite::Append { records, .. }) = &change
                    && at.is_some()
                {
                    let own = records.iter().flat_map(|record| numbers_of(record));
                    writer.content.extend(own);
                    let (all, known) = (&writer.content, &*acknowledged);
                    let is_one = all.starts_with(known) || known.starts_with(all);
                    assert!(is_one, "seed {seed}: {all:?} and {known:?} were acknowledged");
                    if all.len() > known.len() {
                        *acknowledged = all.clone();
                    }
                }
            }
            Ok(CallAnswer::Logged { log: Err(denial), .. }) => {
                tried[2] += 1;
                assert!(
                    matches!(denial, LogDenial::Fenced { .. }),
                    "seed {seed}: {denial}"
                );
                if let (LogChange::Write(LogWrite::Append { records, .. }), false) =
                    (&change, writer.is_unknown || at.is_none())
                {
                    void.extend(records.iter().flat_map(|record| numbers_of(record)));
                }
                *writer = Writer {
                    placement: writer.placement,
                    ..Writer::default()
                };
            }
            Err(CallError::Timeout { .. }) => {
                tried[3] += 1;
                writer.is_unknown = true;
            }
            other => panic!("seed {seed}: {other:?}"),
        }
    }

    /// The log as who takes it over in the end finds it.
    pub(super) fn end_log(&mut self) {
        let placement = (!self.seed.is_multiple_of(2)).then(|| Token::new(9, 1));
        self.world.now_ms += LIFE_MS;
        let change = LogChange::Claim { placement };
        let number = self.begun.len();
        self.finish(LOG, CallGoal::Log { change, hold: None });
        let Some(Ok(CallAnswer::Logged {
            log: Ok(Some(log)), ..
        })) = &self.world.calls[number].answer
        else {
            panic!("seed {}: taken over", self.seed);
        };
        let (all, acknowledged) = (content(log), &self.logs.acknowledged);
        assert!(
            all.starts_with(acknowledged),
            "seed {}: {all:?}, {acknowledged:?}",
            self.seed
        );
    }
}
