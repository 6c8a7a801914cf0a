//! Effects on their way to the host, and messages to myself on their way back through the router.

use alloc::collections::VecDeque;

use crate::effect::Effect;
use crate::message::Message;

/// Two first-in first-out queues. `effects` is drained by the host after each input; `loopback` by the router within it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox {
    pub(crate) effects: VecDeque<Effect>,
    pub(crate) loopback: VecDeque<Message>,
}
