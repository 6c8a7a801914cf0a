//! I-44: every accepted message is exactly one of handled, buffered, in flight, given up with a reason,
//! destroyed by a fault. No message is handled twice, none is delivered whose asker has stopped waiting,
//! every ask of a living node is answered exactly once, an answer that says "not handled" is true for ever,
//! and at rest what is left over is exactly what was given up.

use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::{EntityId, Payload};

use crate::sim::{History, Life, MessageRecord, ProcessId, Whereabouts, message_number};

/// An entity is given a message. Nobody waits for what it would do once its asker has stopped waiting; the
/// time it took from one node to another does not count, because clocks of nodes are never compared.
pub(crate) fn on_delivered(message: &MessageRecord, now: u64) -> Result<(), String> {
    let Some(timeout) = message.timeout else {
        return Ok(());
    };
    let latest = message.sent_at + timeout + message.in_transit;
    match now.checked_sub(latest) {
        None | Some(0) => Ok(()),
        Some(late) => Err(format!(
            "is delivered {late} us after its asker stopped waiting: {message:?}"
        )),
    }
}

#[derive(Debug, Default)]
pub(crate) struct Conservation {
    /// Asks answered by an entity.
    pub(crate) answered: u64,
    /// Asks that failed.
    pub(crate) failed: u64,
}

impl Conservation {
    /// An entity handles a message.
    #[allow(clippy::unused_self, reason = "all invariants are asked in one way")]
    pub(crate) fn on_handled(
        &self,
        history: &mut History,
        at: usize,
        entity: Option<&EntityId>,
    ) -> Result<(), String> {
        let is_liars = history.is_given_to_liar(at);
        let Some(message) = history.messages.get_mut(at) else {
            return Err(format!("handles message {at}, which nobody sent"));
        };
        if entity.is_some_and(|entity| *entity != message.entity) {
            return Err(format!("message {at} for {} came to {entity:?}", message.entity));
        }
        message.handled += 1;
        message.whereabouts = Whereabouts::Handled;
        if message.handled > 1 {
            return Err(format!("message {at} is handled {} times", message.handled));
        }
        match message.outcome {
            Some(Err(failure)) if !is_liars && !failure.may_have_been_handled() => Err(format!(
                "message {at} is handled after it was reported as not handled: {failure:?}"
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// An ask ends. What the liar was given it may answer as it likes.
    pub(crate) fn on_answer(
        &mut self,
        history: &mut History,
        at: usize,
        result: Result<Payload, AskFailure>,
    ) -> Result<(), String> {
        let is_liars = history.is_given_to_liar(at);
        let message = &mut history.messages[at];
        if message.outcome.is_some() {
            return Err(format!("ask {at} is answered twice"));
        }
        match result {
            Ok(payload) => {
                self.answered += 1;
                message.outcome = Some(Ok(()));
                if !is_liars && message_number(&payload) != Some(at) {
                    return Err(format!("ask {at} got the answer of another"));
                }
                if !is_liars && message.handled == 0 {
                    return Err(format!("ask {at} has an answer and was never handled"));
                }
            }
            Err(failure) => {
                self.failed += 1;
                message.outcome = Some(Err(failure));
                if !is_liars && !failure.may_have_been_handled() && message.handled > 0 {
                    return Err(format!("ask {at} was handled and failed with {failure:?}"));
                }
            }
        }
        Ok(())
    }
}

pub(super) fn at_rest(history: &History) -> Result<(), (ProcessId, String)> {
    let mut left_over = vec![0_u64; history.processes.len()];
    // Of those that were sent before giving up is counted, who knows when they were given up.
    let mut from_before = left_over.clone();
    for (at, message) in history.messages.iter().enumerate() {
        let asker = &history.processes[message.sender as usize];
        if message.ask && message.outcome.is_none() && asker.life == Life::Running {
            return Err((
                message.sender,
                format!("ask {at} was never answered: {message:?}"),
            ));
        }
        match message.whereabouts {
            Whereabouts::InFlight => {
                return Err((message.sender, format!("message {at} is in flight at rest")));
            }
            Whereabouts::Mailbox(process) => {
                return Err((process, format!("message {at} waits in a mailbox at rest")));
            }
            Whereabouts::At(process) if !message.ask => {
                let is_early = message.sent_at < history.letters_from;
                left_over[process as usize] += 1;
                from_before[process as usize] += u64::from(is_early);
            }
            Whereabouts::At(_) | Whereabouts::Handled | Whereabouts::Destroyed => {}
        }
    }
    for (at, process) in history.processes.iter().enumerate() {
        let (left, letters) = (left_over[at], process.dead_letters);
        let balances = (left - from_before[at]..=left + history.copies).contains(&letters);
        if process.life == Life::Running && !balances {
            let process = ProcessId::try_from(at).unwrap_or(ProcessId::MAX);
            return Err((
                process,
                format!("{left} messages are left over, {letters} were given up"),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    /// A message sent in second 10, of which somebody waits five seconds, and that was between nodes for two.
    fn message(timeout: Option<u64>) -> MessageRecord {
        MessageRecord {
            sender: 0,
            entity: EntityId::from("e"),
            ask: timeout.is_some(),
            sent_at: 10 * SECOND,
            timeout,
            left_at: 10 * SECOND,
            in_transit: 2 * SECOND,
            whereabouts: Whereabouts::InFlight,
            handled: 0,
            outcome: None,
        }
    }

    #[test]
    fn i_44_a_delivery_after_its_asker_stopped_waiting_is_seen_and_its_way_does_not_count() {
        let ask = message(Some(5 * SECOND));
        assert_eq!(on_delivered(&ask, 12 * SECOND), Ok(()));
        assert_eq!(on_delivered(&ask, 17 * SECOND), Ok(()), "in the last moment");
        assert!(on_delivered(&ask, 17 * SECOND + 1).is_err());
        assert_eq!(
            on_delivered(&message(None), 1_000 * SECOND),
            Ok(()),
            "nobody waits"
        );
    }
}
