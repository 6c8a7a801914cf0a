//! Numbers of messages: the least and the most that a legal message can hold, and how one is drawn. Decides
//! nothing about messages. Spec: `docs/WIRE.md` 4.

use std::collections::VecDeque;

use quorate_core::ddata::crdt::VERSION_MAX;
use quorate_core::journal::protocol::NUMBER_MAX;
use quorate_core::kv::state::table::RANGES_MAX;
use quorate_core::message::Message;
use quorate_core::paths::state::settings::{EXPECTED_LOAD_MAX, INSTANCES_MAX};
use quorate_core::wire::COUNTER_MAX;

use super::PAYLOAD_BYTES_MAX;
use crate::sim::Chance;

/// A number of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    /// What it is.
    pub name: &'static str,
    /// The least that is legal.
    pub low: u64,
    /// The most that is legal.
    pub high: u64,
}

/// States the numbers and the table of them.
macro_rules! numbers {
    ($($name:ident = $text:literal, $low:expr, $high:expr;)+) => {
        $(pub(super) const $name: Number = Number { name: $text, low: $low, high: $high };)+
        /// Every number that is lied about.
        #[must_use]
        pub const fn table() -> &'static [Number] {
            &[$($name),+]
        }
    };
}

numbers! {
    CLOCK = "counter of a vector clock", 0, COUNTER_MAX;
    DIGEST = "digest", 0, u64::MAX;
    HEARTBEAT = "sequence of a heartbeat", 0, u64::MAX;
    STAMP = "time in microseconds or milliseconds", 0, u64::MAX;
    REASON = "reason of a refusal", 1, u8::MAX as u64;
    UP_NUMBER = "up number of a term", 0, i32::MAX as u64;
    TOKEN_TERM = "term of a token", 0, u64::MAX;
    TOKEN_COUNT = "count of a token", 0, u64::MAX;
    HASH = "hash of a name", 0, u64::MAX;
    SHARD = "shard", 0, u16::MAX as u64;
    SHARDS = "number of shards", 1, 65_536;
    HAND_OFF = "number of a hand-off", 0, u64::MAX;
    LIST = "number of a list in parts", 1, u64::MAX;
    PARTS = "parts of a list", 2, u16::MAX as u64;
    PART = "index of a part", 0, u16::MAX as u64;
    ASK = "number of an ask", 0, u64::MAX;
    REMAINING = "milliseconds that an ask still has", 0, u32::MAX as u64;
    HOPS = "hops of a message", 0, u8::MAX as u64;
    MARK = "number of a mark", 0, u64::MAX;
    STATEMENT = "number of a statement about watches", 0, u64::MAX;
    FIRST_STATEMENT = "number of the first statement", 1, u64::MAX;
    WATCH = "number of a watch", 0, u64::MAX;
    ROUND = "round of announcements", 0, u32::MAX as u64;
    ACCEPTANCE = "number of an acceptance", 0, u64::MAX;
    QUESTION = "number of a question", 0, u64::MAX;
    COUNT = "count of entities or shards", 0, u32::MAX as u64;
    LIST_BYTES = "bytes of a list of entities", 0, u32::MAX as u64;
    TOTAL = "count of all entities", 0, u64::MAX;
    EPOCH = "epoch of a singleton's question", 0, u64::MAX;
    SINGLETON_TERM = "term of a singleton", 0, u64::MAX;
    OPERATION = "number of an operation on data", 0, u64::MAX;
    CHUNK = "chunk of digests", 0, u32::MAX as u64;
    CHUNKS = "number of chunks", 0, u32::MAX as u64;
    DELTA = "number of a delta", 0, u64::MAX;
    SETTLED = "time up to which a value is settled", 0, u64::MAX;
    DOT = "version of a dot", 1, VERSION_MAX;
    AMOUNT = "amount of a counter", 1, u64::MAX;
    OPENER = "opener of a log", 0, NUMBER_MAX;
    REQUEST = "number of a request to a log", 0, NUMBER_MAX;
    POSITION = "position or record of a log", 0, NUMBER_MAX;
    LOG_TERM = "term or count of a log's token", 0, NUMBER_MAX;
    LOG_PART = "part of a snapshot", 0, u32::MAX as u64;
    SHARE = "thousandths of a share of load", 0, 1_000;
    PROBE = "number of a question for load", 0, u32::MAX as u64;
    RADIUS = "neighbours that are asked for their load", 0, 8;
    PATH_REQUEST = "number of a request to the leader", 0, u64::MAX;
    PATH_EPOCH = "counter of an epoch of paths", 0, u64::MAX;
    KNOWN_MOVE = "counter of the last move that a sender knows", 0, u64::MAX;
    SLOT = "slot of a path", 0, u16::MAX as u64;
    INSTANCES = "instances of a path", 1, INSTANCES_MAX as u64;
    EXPECTED_LOAD = "load that users expect of a path", 1, EXPECTED_LOAD_MAX as u64;
    RANGE = "range of a bucket", 0, RANGES_MAX as u64 - 1;
    RANGE_EPOCH = "epoch of a range", 1, NUMBER_MAX;
    BALLOT = "round of a turn", 0, NUMBER_MAX;
    CALL = "number of a call of the keyed store", 0, u64::MAX;
    TOLERANCE = "hosts that a path may lose", 0, u16::MAX as u64;
    STATE_BYTES = "bytes of an instance's state", 0, u64::MAX;
    SIZE = "bytes of a payload", 0, PAYLOAD_BYTES_MAX as u64;
}

/// Numbers that were heard lately: what a lie is near to.
#[derive(Clone, Debug, Default)]
pub struct Heard(VecDeque<u64>);

/// So many are remembered: those of a few dozen messages.
const HEARD_MAX: usize = 256;

impl Heard {
    /// Notes the numbers of a message, as they are printed.
    pub fn hear(&mut self, message: &Message) {
        let text = match message {
            // Mostly names and columns; their counters are in the state that is known anyway.
            Message::Membership(_) => return,
            other @ (Message::Detector(_)
            | Message::Sharding(_)
            | Message::Ddata(_)
            | Message::Singleton(_)
            | Message::Path(_)
            | Message::Journal(_)
            | Message::Load(_)
            | Message::Kv(_)) => format!("{other:?}"),
        };
        let numbers = text.split(|c: char| !c.is_ascii_digit());
        for number in numbers.filter_map(|digits| digits.parse().ok()).take(HEARD_MAX) {
            if self.0.contains(&number) {
                continue;
            }
            if self.0.len() == HEARD_MAX {
                self.0.pop_front();
            }
            self.0.push_back(number);
        }
    }

    /// Draws a number: at its ends, anywhere, a power of two, a small one, or one that was heard, or one
    /// beside it.
    pub(super) fn draw(&self, number: Number, chance: &mut Chance) -> u64 {
        let Number { low, high, .. } = number;
        let span = high - low;
        let (case, near) = (chance.below(10), chance.below(3));
        match case {
            0 => low + near.min(span),
            1 => high - near.min(span),
            2 => chance.between(low, high.min(u64::MAX - 1)),
            3 => low + (1 << chance.below(u64::from(u64::BITS - span.leading_zeros()).max(1))).min(span),
            4 | 5 => low + chance.below(64).min(span),
            _ => {
                let heard = self.0.get(chance.index(self.0.len())).copied().unwrap_or(low);
                heard.saturating_add(near).saturating_sub(1).clamp(low, high)
            }
        }
    }
}
