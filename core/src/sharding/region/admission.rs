//! Who waits for room in the buffer. A full buffer pauses this node's own users and never a link: an ask is
//! kept, its caller waits in any case; so is a message whose caller waits to hear that it was taken, and what
//! the host had taken already when it heard that the buffer is full. Callers hear in the order in which they
//! came, as room comes. Never keeps a message itself. Spec: sharding 10.3, 10.14 b.

use alloc::collections::VecDeque;

use super::ShardRegion;
use crate::effect::{Answer, CommandError, ShardingCommandError};
use crate::event::ShardingEvent;
use crate::input::Token;
use crate::sharding::Cx;
use crate::sharding::pending_message::{PendingMessage, RegionContext};

/// Messages beyond the buffer's bounds, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct MessageAdmissions {
    /// Who is told when there is room for each; nobody waits for what the host had taken already.
    waiting: VecDeque<Option<Token>>,
    /// Who gave the message that is on its way into the region and wants to hear when it was taken.
    caller: Option<Token>,
    /// Users were told that the buffer is full, and not yet that it has room.
    is_full: bool,
}

impl MessageAdmissions {
    /// How many messages there are.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

impl ShardRegion {
    /// A message of this node's user, who waits to hear that it was taken: at once, or when there is room for
    /// it. Refused if as many wait as may.
    pub(crate) fn tell(&mut self, shared: &mut RegionContext<'_, '_>, token: Token, pending: PendingMessage) {
        self.admissions.caller = Some(token);
        self.route(shared, pending);
        if let Some(token) = self.admissions.caller.take() {
            shared.cx.reply(token, Answer::Done);
        }
    }

    /// A message is about to wait here. If there is no room and its caller may be kept waiting, it is kept
    /// all the same.
    pub(super) fn admit(&mut self, shared: &mut RegionContext<'_, '_>, pending: &mut PendingMessage) {
        if pending.is_admitted || self.buffers.fits(&self.kind.config, pending) {
            return;
        }
        let may_wait = !pending.is_foreign()
            && (pending.envelope.ask.is_some()
                || self.admissions.waiting.len() < self.kind.config.buffer_waiting_max);
        self.say_full(shared.cx);
        if may_wait {
            pending.is_admitted = true;
            if pending.envelope.ask.is_none() {
                self.admissions.waiting.push_back(self.admissions.caller.take());
            }
        }
    }

    /// There is no room for a message of this node's user. Whether its caller hears so.
    pub(super) fn refuse_caller(&mut self, cx: &mut Cx<'_>) -> bool {
        let caller = self.admissions.caller.take();
        if let Some(token) = caller {
            let error = CommandError::Sharding(ShardingCommandError::BufferFull);
            cx.reply(token, Answer::Refused(error));
        }
        caller.is_some()
    }

    /// Messages have left the buffer: tells who waited for that, and users when there is room for more.
    pub(super) fn admit_waiting(&mut self, cx: &mut Cx<'_>) {
        if !self.admissions.is_full {
            return;
        }
        let limits = &self.kind.config;
        let (messages_max, bytes_max) = (limits.buffer_messages_max, limits.buffer_bytes_max);
        let now = self.buffers.buffered();
        while !self.admissions.waiting.is_empty()
            && now.messages.saturating_sub(self.admissions.waiting.len()) < messages_max
            && now.bytes <= bytes_max
        {
            if let Some(Some(token)) = self.admissions.waiting.pop_front() {
                cx.reply(token, Answer::Done);
            }
        }
        if self.admissions.waiting.is_empty() && now.leaves_room(messages_max, bytes_max) {
            self.admissions.is_full = false;
            self.notify(cx, ShardingEvent::BufferHasRoom);
        }
    }

    fn say_full(&mut self, cx: &mut Cx<'_>) {
        if !core::mem::replace(&mut self.admissions.is_full, true) {
            let messages = self.buffers.len();
            self.notify(cx, ShardingEvent::BufferFull { messages });
        }
    }
}
