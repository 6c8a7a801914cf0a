//! Who has not marked in a hand-off, as one sees it who reads what coordinators say and hear: what an event
//! of a hand-off that took too long has to name. Spec: sharding 10.14 g.

use alloc::vec::Vec;

use super::{ShardId, ShardingBody, ShardingEvent, ShardingMessage, ShardingMsg, address};
use crate::ident::UniqueAddress;
use crate::message::Message;
use crate::ordered::{OrderedMap, OrderedSet};

/// Hand-offs of one shard that are kept: the present one, and such of which an event may not have been looked
/// at.
const KEPT: usize = 4;

/// One hand-off.
#[derive(Debug, Default)]
struct Told {
    number: u64,
    /// Who was told to forget the home and has not said that he did.
    silent: OrderedSet<UniqueAddress>,
    /// Who was unreachable or dead at any time since it began: nobody waits for such.
    excused: OrderedSet<UniqueAddress>,
}

/// The last hand-offs by coordinator and shard. What a coordinator says to its own node is not seen.
#[derive(Debug, Default)]
pub(super) struct Unmarked(OrderedMap<(usize, ShardId), Vec<Told>>);

impl Unmarked {
    /// Something was said, whether it arrives or not.
    pub(super) fn on_said(&mut self, (from, to): (usize, usize), message: &Message, absent: &[usize]) {
        let Some(ShardingBody::BeginHandOff { shard, number, .. }) = body(message) else {
            return;
        };
        let told = self.0.entry((from, *shard)).or_default();
        if told.last().is_none_or(|last| last.number != *number) {
            told.push(Told {
                number: *number,
                ..Told::default()
            });
            if told.len() > KEPT {
                told.remove(0);
            }
        }
        if let Some(last) = told.last_mut() {
            last.silent.insert(address(to));
            last.excused.extend(absent.iter().map(|at| address(*at)));
        }
    }

    /// A coordinator hears something.
    pub(super) fn on_heard(&mut self, from: usize, to: usize, message: &Message) {
        let Some(ShardingBody::BeginHandOffAck { shard, number, .. }) = body(message) else {
            return;
        };
        for told in self.0.get_mut(&(to, *shard)).into_iter().flatten() {
            if told.number == *number {
                told.silent.remove(&address(from));
            }
        }
    }

    /// Some cannot be reached from here on, or are dead.
    pub(super) fn on_absent(&mut self, absent: &[usize]) {
        for told in self.0.values_mut().flatten() {
            told.excused.extend(absent.iter().map(|at| address(*at)));
        }
    }

    /// A hand-off took too long: whoever is silent is named, and nobody else; if all have marked, who has not
    /// stopped.
    pub(super) fn check(&self, at: usize, event: &ShardingEvent) {
        let ShardingEvent::HandOffTimeout {
            shard,
            unmarked,
            running,
        } = event
        else {
            return;
        };
        assert!(
            !unmarked.is_empty() || !running.is_empty(),
            "{event:?} names nobody"
        );
        let me = address(at);
        let named: OrderedSet<&UniqueAddress> = unmarked.iter().filter(|node| **node != me).collect();
        let none = Vec::new();
        let told = self.0.get(&(at, *shard)).unwrap_or(&none);
        let fits = |told: &Told| {
            let expected = told.silent.iter().filter(|node| !told.excused.contains(*node));
            named.iter().all(|node| told.silent.contains(*node))
                && expected.clone().all(|node| named.contains(node))
        };
        assert!(
            told.iter().any(fits) || (told.is_empty() && named.is_empty()),
            "{event:?} does not name who has not marked: {told:?}"
        );
    }
}

/// What a message says of a kind.
pub(super) fn body(message: &Message) -> Option<&ShardingBody> {
    match message {
        Message::Sharding(ShardingMsg::Kind(ShardingMessage { body, .. })) => Some(body),
        _ => None,
    }
}
