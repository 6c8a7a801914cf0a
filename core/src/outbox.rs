//! Effects on their way to the host, and messages to myself on their way back through the router.

use alloc::collections::VecDeque;

use crate::effect::{Answer, Effect};
use crate::input::{Command, JournalCommand, StoreAsk};
use crate::message::Message;

/// Effects for which room stays when all are taken: one change of a large cluster may have said thousands.
const EFFECTS_KEPT: usize = 256;

/// First-in first-out queues. `effects` is drained by the host after each input; the others by the router
/// within it: messages of this node to itself, what one machine asks of another, and the answers to that.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeOutbox {
    pub(crate) effects: VecDeque<Effect>,
    pub(crate) loopback: VecDeque<Message>,
    pub(crate) asked: VecDeque<(StoreAsk, Command)>,
    pub(crate) answered: VecDeque<(StoreAsk, Answer)>,
    pub(crate) log_asked: VecDeque<(u64, JournalCommand)>,
    pub(crate) log_answered: VecDeque<(u64, Answer)>,
}

impl NodeOutbox {
    /// The host has taken all effects.
    #[inline]
    pub(crate) fn give_room_back(&mut self) {
        if self.effects.capacity() > EFFECTS_KEPT {
            self.effects.shrink_to(EFFECTS_KEPT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EFFECTS_KEPT, NodeOutbox};
    use crate::effect::{Answer, Effect};

    #[test]
    fn room_for_thousands_of_effects_is_given_back_and_the_usual_room_stays() {
        let mut outbox = NodeOutbox::default();
        let effect = |token| Effect::Reply {
            token,
            answer: Answer::Done,
        };
        outbox.effects.extend((0..5_000).map(effect));
        outbox.effects.clear();
        outbox.give_room_back();
        assert_eq!(outbox.effects.capacity(), EFFECTS_KEPT);
        outbox.effects.push_back(effect(1));
        outbox.effects.clear();
        outbox.give_room_back();
        assert_eq!(outbox.effects.capacity(), EFFECTS_KEPT);
    }
}
