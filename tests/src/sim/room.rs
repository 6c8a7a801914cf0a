//! Queues of links that hold few messages to entities, in some seeds of the profile `life`, as `links` bounds
//! them. What is offered to a full one comes back and goes on waiting in its node. From then on nothing to
//! entities is taken before the node has heard that there is room, and it hears that behind everything that
//! came back. Hosts tell such news late, one after the other, while their nodes do other things and read what
//! peers sent. Users send bursts there, for a single message fills nothing. Decides only that; the invariants
//! judge. Spec: sharding 10.3.

use std::collections::BTreeMap;

use quorate_core::input::{DropReason, LinkEvent, SendTarget};
use quorate_core::message::{Message, ShardingMsg};

use super::chance::{Chance, Purpose};
use super::engine::Sim;
use super::history::ProcessId;
use super::network::{LinkState, Network};

/// Of a thousand seeds, how many have queues with a bound.
const BOUNDED: u64 = 200;
/// The largest bound: a burst is longer.
const MESSAGES_MAX: u64 = 8;
/// Of a thousand messages of such a seed, how many begin a burst, the longest burst, and the longest time
/// between two messages of it.
const BURSTS: u64 = 300;
const BURST_MAX: u64 = 16;
const BURST_GAP_MAX: u64 = 200;
/// The longest time between two pieces of news that a host has for its node.
const NEWS_GAP_MAX: u64 = 150;

/// Whether a message takes room in a queue that has a bound.
fn is_for_entity(message: &Message) -> bool {
    matches!(message, Message::Sharding(ShardingMsg::Entity(_)))
}

/// Messages to entities in one link.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    /// On their way over the present epoch.
    on_the_way: usize,
    /// Something was offered and found no room, and the node has not heard of room since.
    is_refusing: bool,
    /// It is on its way to the node that there is room.
    is_said: bool,
    /// What was refused, is on its way back, and has to be heard before it is said that there is room.
    coming_back: usize,
}

impl Crowd {
    /// One sets out.
    pub(crate) fn enters(&mut self) {
        self.on_the_way += 1;
    }

    /// One has arrived, whoever reads it.
    pub(crate) fn leaves(&mut self) {
        self.on_the_way = self.on_the_way.saturating_sub(1);
    }

    /// The link has broken, with all that was on it.
    pub(crate) fn leave(&mut self) {
        self.on_the_way = 0;
    }
}

/// What a node hears of a queue with a bound.
#[derive(Clone, Copy, Debug)]
enum News {
    Refused,
    Room,
}

/// The bound of a run, if it has one.
#[derive(Debug)]
pub(crate) struct Room {
    chance: Chance,
    most: Option<usize>,
    /// Who sends what is left of a burst, to which entity.
    burst: Option<(usize, u64, u64)>,
    /// When each process hears the last piece of its news.
    told: BTreeMap<ProcessId, u64>,
    /// Messages that were offered to a full queue and went on waiting.
    pub(crate) offers_refused: u64,
}

impl Room {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            chance: Chance::new(seed, Purpose::Queues),
            most: None,
            burst: None,
            told: BTreeMap::new(),
            offers_refused: 0,
        }
    }

    /// Draws whether queues have a bound in this run, and which.
    pub(crate) fn bound_some(&mut self) {
        let (is_bounded, most) = (
            self.chance.per_mille(BOUNDED),
            self.chance.between(1, MESSAGES_MAX),
        );
        self.most = is_bounded.then(|| usize::try_from(most).unwrap_or(usize::MAX));
    }

    pub(crate) const fn is_bounded(&self) -> bool {
        self.most.is_some()
    }

    /// When a process hears of something that its host knows now: after what the host knew before.
    pub(crate) fn told_at(&mut self, process: ProcessId, now: u64) -> u64 {
        if !self.is_bounded() {
            return now;
        }
        let gap = self.chance.below(NEWS_GAP_MAX);
        let last = self.told.entry(process).or_default();
        *last = now.max(*last) + gap;
        *last
    }

    /// Who sends the next message to whom: what was drawn, or the next one of a burst.
    pub(crate) fn next_of_burst(&mut self, drawn: (usize, u64)) -> (usize, u64) {
        if !self.is_bounded() {
            return drawn;
        }
        if let Some((sender, entity, left)) = self.burst {
            self.burst = (left > 1).then_some((sender, entity, left - 1));
            return (sender, entity);
        }
        if self.chance.per_mille(BURSTS) {
            self.burst = Some((drawn.0, drawn.1, self.chance.between(1, BURST_MAX)));
        }
        drawn
    }
}

impl Network {
    /// Takes a message into the queue of a link, or says why not. A mark needs no room, and overtakes nothing
    /// that found none.
    pub(crate) fn takes(
        &mut self,
        from: ProcessId,
        to: usize,
        message: &Message,
        is_offer: bool,
    ) -> Result<(), DropReason> {
        let is_mark = matches!(message, Message::Sharding(ShardingMsg::Mark(_)));
        let Some(most) = self.room.most.filter(|_| is_mark || is_for_entity(message)) else {
            return Ok(());
        };
        let held = self.held(from, to);
        let crowd = &mut self.link(from, to).crowd;
        if !crowd.is_refusing && (is_mark || held < most) {
            return Ok(());
        }
        if !is_offer {
            return Err(DropReason::QueueFull);
        }
        crowd.is_refusing = true;
        crowd.coming_back += 1;
        self.room.offers_refused += 1;
        Err(DropReason::NoRoom)
    }

    /// Messages to entities that wait for a dial or are on their way.
    fn held(&mut self, from: ProcessId, to: usize) -> usize {
        let link = self.link(from, to);
        match &link.state {
            LinkState::Dialling(waiting) => {
                let waiting = waiting.iter().filter(|(_, message)| is_for_entity(message));
                waiting.count()
            }
            LinkState::Idle { .. } | LinkState::Up(_) => link.crowd.on_the_way,
        }
    }

    /// Whether a queue that refused something is less than half full, and its node has yet to be told so.
    /// Says it once.
    fn has_room_again(&mut self, from: ProcessId, to: usize) -> bool {
        let half = self.room.most.unwrap_or(usize::MAX).div_ceil(2);
        let held = self.held(from, to);
        let crowd = &mut self.link(from, to).crowd;
        let is_news = crowd.is_refusing && !crowd.is_said && held < half;
        crowd.is_said |= is_news;
        is_news
    }

    /// A node hears something of a link. Whether it hears that there is room now, or later: behind all that
    /// was refused until now.
    fn hears(&mut self, from: ProcessId, to: usize, of: News) -> bool {
        let crowd = &mut self.link(from, to).crowd;
        match of {
            News::Refused => crowd.coming_back = crowd.coming_back.saturating_sub(1),
            News::Room if crowd.coming_back > 0 => return false,
            News::Room => (crowd.is_refusing, crowd.is_said) = (false, false),
        }
        true
    }
}

impl Sim {
    /// Something has left the queue of a link: from half of its bound on there is room again.
    pub(super) fn make_room(&mut self, from: ProcessId, to: usize) {
        if self.network.room.is_bounded() && self.network.has_room_again(from, to) {
            let to = self.address(to);
            self.tell_soon(from, LinkEvent::Room { to });
        }
    }

    /// A node hears what its host knows of a link.
    pub(super) fn is_told(&mut self, process: ProcessId, event: LinkEvent) {
        if let Some((index, news)) = self.news_of_room(&event)
            && !self.network.hears(process, index, news)
        {
            self.tell_soon(process, event);
        } else {
            self.tell_link(process, event);
        }
    }

    fn news_of_room(&self, event: &LinkEvent) -> Option<(usize, News)> {
        let (to, news) = match event {
            LinkEvent::Room { to } => (SendTarget::Address(to.clone()), News::Room),
            LinkEvent::Dropped {
                to,
                reason: DropReason::NoRoom,
                ..
            } => (to.clone(), News::Refused),
            LinkEvent::Dropped { .. }
            | LinkEvent::Down { .. }
            | LinkEvent::WrongIncarnation { .. }
            | LinkEvent::Quarantined { .. }
            | LinkEvent::QuarantinedBy { .. } => return None,
        };
        Some((self.index_of(&to)?, news))
    }

    /// How long until the next message of the workload, of which one comes in `mean` microseconds.
    pub(super) fn until_next_message(&mut self, mean: u64) -> u64 {
        match self.network.room.burst {
            Some(_) => self.network.room.chance.between(1, BURST_GAP_MAX),
            None => self.workload.between(1, 2 * mean),
        }
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::message::{EntityEnvelope, ShardMark};
    use quorate_core::sharding::ids::{EntityId, KindId, ShardId};

    use super::*;

    fn bounded(most: usize) -> Network {
        let mut network = Network::new(1);
        network.room.most = Some(most);
        network.link(0, 1).state = LinkState::Up(1);
        network
    }

    fn to_entity() -> Message {
        Message::Sharding(ShardingMsg::Entity(EntityEnvelope {
            kind: KindId::of("files"),
            shard: ShardId(0),
            entity: EntityId::from("e"),
            payload: [].into(),
            ask: None,
            hops: 0,
        }))
    }

    fn mark() -> Message {
        let (kind, shard, number) = (KindId::of("files"), ShardId(0), 1);
        Message::Sharding(ShardingMsg::Mark(ShardMark { kind, shard, number }))
    }

    fn send(network: &mut Network, is_offer: bool) -> Result<(), DropReason> {
        let taken = network.takes(0, 1, &to_entity(), is_offer);
        if taken.is_ok() {
            network.link(0, 1).crowd.enters();
        }
        taken
    }

    #[test]
    fn a_full_queue_refuses_what_is_offered_and_all_that_would_overtake_it_until_its_node_hears_of_room() {
        let mut network = bounded(4);
        for _ in 0..4 {
            assert_eq!(send(&mut network, true), Ok(()));
        }
        assert_eq!(send(&mut network, false), Err(DropReason::QueueFull));
        assert!(!network.has_room_again(0, 1), "nothing was offered in vain");
        assert_eq!(network.takes(0, 1, &mark(), false), Ok(()), "it needs no room");
        assert_eq!(send(&mut network, true), Err(DropReason::NoRoom));
        let overtakes = network.takes(0, 1, &mark(), false);
        assert_eq!(overtakes, Err(DropReason::QueueFull));
        network.link(0, 1).crowd.leaves();
        let after = [true, false].map(|is_offer| send(&mut network, is_offer));
        assert_eq!(after, [Err(DropReason::NoRoom), Err(DropReason::QueueFull)]);
        network.link(0, 1).crowd.leaves();
        assert!(!network.has_room_again(0, 1), "half of it is taken");
        network.link(0, 1).crowd.leaves();
        assert!(network.has_room_again(0, 1));
        assert!(!network.has_room_again(0, 1), "said once");
        assert_eq!(send(&mut network, true), Err(DropReason::NoRoom), "not heard yet");
        for _ in 0..3 {
            assert!(!network.hears(0, 1, News::Room), "something comes back still");
            assert!(network.hears(0, 1, News::Refused));
        }
        assert!(network.hears(0, 1, News::Room));
        assert_eq!(send(&mut network, true), Ok(()));
        assert_eq!(network.room.offers_refused, 3);
    }

    #[test]
    fn a_broken_link_has_room_and_a_queue_without_a_bound_always() {
        let mut network = bounded(1);
        assert_eq!(send(&mut network, true), Ok(()));
        assert_eq!(send(&mut network, true), Err(DropReason::NoRoom));
        network.link(0, 1).crowd.leave();
        assert!(network.has_room_again(0, 1));
        network.room.most = None;
        assert_eq!(network.takes(0, 1, &to_entity(), false), Ok(()));
    }

    #[test]
    fn news_of_a_process_come_in_their_order() {
        let mut network = bounded(1);
        let mut last = 0;
        for now in [0, 0, 0, 10, 10, 5_000] {
            let at = network.room.told_at(0, now);
            assert!(at >= last && at >= now);
            last = at;
        }
    }

    #[test]
    fn a_burst_has_one_sender_and_one_entity() {
        let mut network = bounded(1);
        let mut longest = 0;
        for drawn in 0..2_000 {
            let drawn = (drawn, u64::try_from(drawn).unwrap());
            let before = network.room.burst;
            let now = network.room.next_of_burst(drawn);
            let expected = before.map_or(drawn, |(sender, entity, _)| (sender, entity));
            assert_eq!(now, expected);
            longest = longest.max(network.room.burst.map_or(0, |(_, _, left)| left));
        }
        assert_eq!(longest, BURST_MAX);
        network.room.most = None;
        network.room.burst = None;
        assert_eq!(network.room.next_of_burst((7, 7)), (7, 7));
    }
}
