//! What waits for one link, by lane: bounded, with a rule of its own for when the bound is reached. Decides
//! what is shed and what is rejected; sends nothing. Spec: `ARCHITECTURE.md`, sharding 10.3, I-95.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use quorate_core::input::SendTarget;
use quorate_core::message::{Lane, Message, ShardingMsg};

use crate::settings::LinkLimits;

/// What became of a message that was to wait.
#[derive(Debug)]
pub(crate) enum QueueOutcome {
    /// It waits.
    Kept,
    /// It waits, and the oldest of its lane was dropped for it.
    Shed,
    /// It was not taken.
    Rejected(SendTarget, Message),
    /// It was only offered, and was not taken.
    Refused(SendTarget, Message),
    /// It waits, and its lane is beyond its bound: the link has to go.
    Overflow,
}

#[derive(Debug, Default)]
struct LaneQueue {
    messages: VecDeque<(SendTarget, Message)>,
    bytes: usize,
}

impl LaneQueue {
    fn push(&mut self, to: SendTarget, message: Message) {
        self.bytes = self.bytes.saturating_add(message.payload_bytes());
        self.messages.push_back((to, message));
    }

    fn pop(&mut self) -> Option<(SendTarget, Message)> {
        let (to, message) = self.messages.pop_front()?;
        self.bytes = self.bytes.saturating_sub(message.payload_bytes());
        Some((to, message))
    }

    fn fits(&self, message: &Message, messages_max: usize, bytes_max: usize) -> bool {
        self.messages.len() < messages_max && self.bytes.saturating_add(message.payload_bytes()) <= bytes_max
    }
}

/// The messages that wait for one link.
#[derive(Debug, Default)]
pub(crate) struct LinkQueues {
    lanes: [LaneQueue; Lane::ALL.len()],
    /// Something that was offered has found no room, and its sender has not been told since that there is
    /// some. Until then no message to an entity is taken, which would overtake it, and no mark: one that is
    /// taken stands behind all that its sender wants sent.
    refuses: bool,
}

/// Whether it may not overtake a message to an entity.
const fn keeps_order(message: &Message) -> bool {
    matches!(
        message,
        Message::Sharding(ShardingMsg::Entity(_) | ShardingMsg::Mark(_))
    )
}

const fn position(lane: Lane) -> usize {
    match lane {
        Lane::Control => 0,
        Lane::Gossip => 1,
        Lane::Reply => 2,
        Lane::User => 3,
        Lane::Bulk => 4,
    }
}

impl LinkQueues {
    /// Lets a message wait, under its lane's rule.
    pub(crate) fn push(
        &mut self,
        limits: &LinkLimits,
        lane: Lane,
        (to, message): (SendTarget, Message),
        is_offer: bool,
    ) -> QueueOutcome {
        if self.bars(&message) {
            return self.not_taken(to, message, is_offer);
        }
        let queue = &mut self.lanes[position(lane)];
        let fits = match lane {
            Lane::Control | Lane::Gossip => true,
            Lane::Reply => queue.fits(
                &message,
                limits.reply_queue_messages_max,
                limits.reply_queue_bytes_max,
            ),
            Lane::User => queue.fits(
                &message,
                limits.user_queue_messages_max,
                limits.user_queue_bytes_max,
            ),
            Lane::Bulk => queue.fits(
                &message,
                limits.bulk_queue_messages_max,
                limits.bulk_queue_bytes_max,
            ),
        };
        if !fits {
            return self.not_taken(to, message, is_offer);
        }
        queue.push(to, message);
        match lane {
            Lane::Control if queue.messages.len() > limits.control_queue_messages_max => {
                QueueOutcome::Overflow
            }
            Lane::Gossip if queue.messages.len() > limits.gossip_queue_messages_max => {
                queue.pop();
                QueueOutcome::Shed
            }
            Lane::Control | Lane::Gossip | Lane::Reply | Lane::User | Lane::Bulk => QueueOutcome::Kept,
        }
    }

    fn not_taken(&mut self, to: SendTarget, message: Message, is_offer: bool) -> QueueOutcome {
        if !is_offer {
            return QueueOutcome::Rejected(to, message);
        }
        self.refuses = true;
        QueueOutcome::Refused(to, message)
    }

    /// Whether this message may not be taken, even if there is room.
    pub(crate) const fn bars(&self, message: &Message) -> bool {
        self.refuses && keeps_order(message)
    }

    /// Who was refused may be told that there is room.
    pub(crate) fn has_room_again(&self, limits: &LinkLimits) -> bool {
        !self.is_slow(limits)
    }

    /// Who was refused has been told that there is room.
    pub(crate) const fn admits_again(&mut self) {
        self.refuses = false;
    }

    /// The next message, in the order in which lanes are served.
    pub(crate) fn pop(&mut self) -> Option<(SendTarget, Message)> {
        Lane::ALL
            .iter()
            .find_map(|lane| self.lanes[position(*lane)].pop())
    }

    /// Whom the next message is for.
    pub(crate) fn front(&self) -> Option<&SendTarget> {
        Lane::ALL
            .iter()
            .find_map(|lane| self.lanes[position(*lane)].messages.front())
            .map(|(to, _)| to)
    }

    /// Takes out every message for which `wanted` does not hold, lane by lane, each in order.
    pub(crate) fn remove_unless(
        &mut self,
        wanted: impl Fn(&SendTarget) -> bool,
    ) -> Vec<(SendTarget, Message)> {
        let mut out = Vec::new();
        for queue in &mut self.lanes {
            let waiting = core::mem::take(queue);
            for (to, message) in waiting.messages {
                if wanted(&to) {
                    queue.push(to, message);
                } else {
                    out.push((to, message));
                }
            }
        }
        out
    }

    /// Takes out every message of a lane for which `wanted` holds, in order. Those that stay keep theirs.
    pub(crate) fn take(
        &mut self,
        lane: Lane,
        wanted: impl Fn(&SendTarget, &Message) -> bool,
    ) -> Vec<(SendTarget, Message)> {
        let queue = &mut self.lanes[position(lane)];
        if !queue.messages.iter().any(|(to, message)| wanted(to, message)) {
            return Vec::new();
        }
        let mut out = Vec::new();
        for (to, message) in core::mem::take(queue).messages {
            if wanted(&to, &message) {
                out.push((to, message));
            } else {
                queue.push(to, message);
            }
        }
        out
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lanes.iter().all(|queue| queue.messages.is_empty())
    }

    /// Whether senders should wait: from half of what may wait on.
    pub(crate) fn is_slow(&self, limits: &LinkLimits) -> bool {
        let user = &self.lanes[position(Lane::User)];
        user.messages.len() >= limits.user_queue_messages_max / 2
            || user.bytes >= limits.user_queue_bytes_max / 2
    }

    pub(crate) fn len(&self, lane: Lane) -> usize {
        self.lanes[position(lane)].messages.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use quorate_core::ident::{Address, UniqueAddress};
    use quorate_core::message::EntityEnvelope;
    use quorate_core::sharding::ids::{EntityId, KindId, ShardId};

    /// Queues with room for eight messages or for 80 bytes, and these messages' payloads in the user lane.
    fn slow_with(payloads: &[usize]) -> bool {
        let limits = LinkLimits {
            user_queue_messages_max: 8,
            user_queue_bytes_max: 80,
            ..LinkLimits::default()
        };
        let to = UniqueAddress::new(Address::new("b", 1).unwrap(), 1);
        let mut queues = LinkQueues::default();
        for bytes in payloads {
            let message = Message::Sharding(ShardingMsg::Entity(EntityEnvelope {
                kind: KindId::of("files"),
                shard: ShardId(0),
                entity: EntityId::from("e"),
                payload: vec![0; *bytes].into(),
                ask: None,
                hops: 0,
            }));
            let queued = queues.push(
                &limits,
                Lane::User,
                (SendTarget::Node(to.clone()), message),
                false,
            );
            assert!(matches!(queued, QueueOutcome::Kept), "{queued:?}");
        }
        queues.is_slow(&limits)
    }

    #[test]
    fn i_95_a_peer_is_slow_from_half_of_its_messages_on() {
        assert!(!slow_with(&[1; 3]));
        assert!(slow_with(&[1; 4]));
    }

    #[test]
    fn i_95_a_peer_is_slow_from_half_of_its_bytes_on() {
        assert!(!slow_with(&[39]));
        assert!(slow_with(&[40]), "one large message is enough");
    }
}
