//! What the ways of users' messages to entities and to singletons have in common: the table of open asks, the
//! answer that goes straight to who asked, what its end is called. A room of values and functions without a
//! machine: sharding and the singletons call it, each for its own messages. Decides nothing about where a
//! message goes. Spec: sharding 10.2, reliability I-44.
//!
//! `protocol` has the words: whom a message is for, what travels with an ask, what the host does and says.

mod asks;
pub mod protocol;

use core::time::Duration;

pub(crate) use self::asks::{Asks, TIMEOUT_MAX, TIMEOUT_MIN};
use self::protocol::{AskReply, AskTicket};
use crate::config::ValidConfig;
use crate::cx::{Cx, MachineWords};
use crate::ident::UniqueAddress;
use crate::input::{DropReason, SendTarget};
use crate::reject::Rejection;
use crate::sharding::state::chain::AskChain;
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::ids::{AskRef, Payload};

/// A machine whose users ask.
pub(crate) trait AskingMachine: MachineWords {
    /// What the messages wait for that have not left this node.
    type Place: Copy;

    /// Its timer for the earliest deadline of an ask.
    fn deadline() -> Self::Timer;

    /// How many asks of one node may be open.
    fn open_asks_max(config: &ValidConfig) -> usize;

    /// Where it counts asks.
    fn counter(counters: &mut Self::Counters, of: AskCount) -> &mut u64;

    /// How it says an answer to another node.
    fn reply(reply: AskReply) -> Self::Msg;
}

/// For how long an answer is waited for, and by whom beside this node's user.
pub(crate) struct AskWait {
    pub(crate) timeout: Duration,
    pub(crate) chain: AskChain,
}

/// What every machine counts of asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AskCount {
    /// One more is open.
    Opened,
    /// One was answered.
    Answered,
    /// One has no answer.
    Failed,
    /// An answer came to an ask that is not open any more.
    Late,
}

fn count<W: AskingMachine>(cx: &mut Cx<'_, W>, of: AskCount) {
    *W::counter(cx.counters(), of) += 1;
}

/// Sends an answer straight to who asked. One that would not fit into a frame is too large for an asker on
/// this node as well: it must not depend on where somebody lives whether it works.
pub(crate) fn answer<W: AskingMachine>(cx: &mut Cx<'_, W>, ask: AskRef, result: Result<Payload, AskFailure>) {
    let AskRef { asker, id } = ask;
    let to = asker.clone();
    let result = match result {
        Ok(payload) if payload.len() > cx.config().limits.payload_bytes_max() => {
            Err(AskFailure::ReplyTooLarge)
        }
        Ok(_) | Err(_) => result,
    };
    cx.send(&asker, W::reply(AskReply { id, to, result }));
}

/// An answer came back unsent. One that did not fit into a frame would leave its asker waiting for nothing;
/// any other was for a node that has gone or does not read, and who waits there hears so from its own node.
pub(crate) fn answer_again<W: AskingMachine>(
    cx: &mut Cx<'_, W>,
    to: &SendTarget,
    reply: AskReply,
    reason: DropReason,
) {
    match (to, reason) {
        (SendTarget::Node(node), DropReason::TooLarge) if reply.result.is_ok() => {
            let result = Err(AskFailure::ReplyTooLarge);
            cx.send(node, W::reply(AskReply { result, ..reply }));
        }
        (
            SendTarget::Node(_) | SendTarget::Address(_),
            DropReason::TooLarge | DropReason::QueueFull | DropReason::Unreachable | DropReason::NoRoom,
        ) => {}
    }
}

/// Whether a node may send this message: who asks sends its messages itself, so that nobody answers an ask in
/// another one's name (B-48).
pub(crate) fn may_send<W: MachineWords>(
    cx: &mut Cx<'_, W>,
    from: &UniqueAddress,
    ask: Option<&AskTicket>,
) -> bool {
    let is_its_own = ask.is_none_or(|ticket| ticket.ask.asker == *from);
    if !is_its_own {
        let what = "an ask of another node";
        cx.reject(from, Rejection::Unexpected { what });
    }
    is_its_own
}

/// What becomes of a message that the host gave back unsent, of a node that `has_ended` or not.
pub(crate) const fn unsent(reason: DropReason, has_ended: bool) -> AskFailure {
    match reason {
        DropReason::QueueFull | DropReason::Unreachable | DropReason::NoRoom if has_ended => {
            AskFailure::NodeStoppedUnsent
        }
        DropReason::QueueFull | DropReason::NoRoom => AskFailure::MailboxFull,
        DropReason::TooLarge => AskFailure::TooLarge,
        DropReason::Unreachable => AskFailure::Unreachable,
    }
}
