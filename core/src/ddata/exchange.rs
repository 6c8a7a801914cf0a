//! Reads and writes between replicas: what a replica answers, and what the asker does with the answers. Spec:
//! sharding 1.12 (write flow, read flow), 2.3.

use alloc::vec::Vec;

use super::commands::{reply, value_of};
use super::durable::DurableWaiter;
use super::entries::digest_of;
use super::operations::{KeepState, Operation, OperationWork};
use super::protocol::{Answer, DdataBody, Nack, ReadError, WriteError};
use super::state::DataEnvelope;
use super::state::key::Key;
use super::{Replicator, SMALL_MESSAGE_BYTES, send, send_weighed};
use crate::ddata::Cx;
use crate::ident::UniqueAddress;

impl Replicator {
    pub(super) fn on_read(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, operation: u64, key: &Key) {
        self.touch(key, cx.mono());
        let held = self.entries.get(key);
        let weight = held.map_or(0, |entry| entry.bytes) + SMALL_MESSAGE_BYTES;
        let envelope = held.map(|entry| entry.envelope.clone());
        send_weighed(cx, from, DdataBody::ReadResult { operation, envelope }, weight);
    }

    pub(super) fn on_read_result(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        id: u64,
        envelope: Option<DataEnvelope>,
    ) {
        let Some(operation) = self.operations.get_mut(id) else {
            cx.counters().answers_late += 1;
            return;
        };
        let OperationWork::Read { merged, held, .. } = &mut operation.work else {
            return;
        };
        if !operation.waiting.remove(from) {
            return;
        }
        held.push((from.clone(), envelope.as_ref().map(digest_of)));
        operation.answered += 1;
        let key = operation.key.clone();
        if let Some(envelope) = envelope {
            match merged {
                Some(merged) => {
                    // Of another type than the answers before: it is refused below, when it meets what this
                    // node holds.
                    let _ = merged.merge(envelope.clone());
                }
                None => *merged = Some(envelope.clone()),
            }
            if let Err(rejection) = self.merge_in(cx, Some(from), &key, envelope, cx.mono()) {
                Self::reject(cx, from, rejection);
            }
        }
        self.finish_if_done(cx, id);
    }

    pub(super) fn on_write(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        operation: u64,
        key: &Key,
        envelope: DataEnvelope,
    ) {
        match self.merge_in(cx, Some(from), key, envelope, cx.mono()) {
            Ok(_) => self.confirm(cx, from, operation, key),
            Err(rejection) => {
                let reason = rejection.as_nack();
                Self::reject(cx, from, rejection);
                send(cx, from, DdataBody::WriteNack { operation, reason });
            }
        }
    }

    pub(super) fn on_repair(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        key: &Key,
        envelope: DataEnvelope,
    ) {
        cx.counters().repairs_received += 1;
        if let Err(rejection) = self.merge_in(cx, Some(from), key, envelope, cx.mono()) {
            Self::reject(cx, from, rejection);
        }
    }

    pub(super) fn on_write_ack(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, id: u64) {
        let Some(operation) = self.operations.get_mut(id) else {
            cx.counters().answers_late += 1;
            return;
        };
        if matches!(operation.work, OperationWork::Write { .. }) && operation.waiting.remove(from) {
            operation.answered += 1;
            self.finish_if_done(cx, id);
        }
    }

    pub(super) fn on_write_nack(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, id: u64, reason: Nack) {
        let Some(operation) = self.operations.get_mut(id) else {
            cx.counters().answers_late += 1;
            return;
        };
        let OperationWork::Write { as_delta, .. } = &operation.work else {
            return;
        };
        let resend = *as_delta && reason == Nack::Gap && operation.waiting.contains(from);
        operation.on_nack(from, reason);
        let key = operation.key.clone();
        if resend {
            self.send_value(cx, id, &key, core::slice::from_ref(from));
        }
        self.finish_if_done(cx, id);
    }

    /// The store of this node has what a write waits for, or has not.
    pub(super) fn on_stored_here(&mut self, cx: &mut Cx<'_>, id: u64, stored_now: bool) {
        let Some(operation) = self.operations.get_mut(id) else {
            return;
        };
        if !stored_now {
            if let Some(operation) = self.operations.close(id) {
                cx.counters().operations_failed += 1;
                let answer = match operation.work {
                    OperationWork::Read { .. } => Answer::Value(Err(ReadError::StoreFailed)),
                    OperationWork::Write { .. } => Answer::Written(Err(WriteError::StoreFailed)),
                };
                reply(cx, operation.caller, answer);
            }
            return;
        }
        match &mut operation.work {
            OperationWork::Read { kept, .. } => *kept = KeepState::Done,
            OperationWork::Write { stored, .. } => *stored = true,
        }
        self.finish_if_done(cx, id);
    }

    /// An operation has waited long enough for its first replicas, or for all.
    pub(super) fn on_operations_due(&mut self, cx: &mut Cx<'_>) {
        self.end_early_due(cx);
        while let Some(id) = self.operations.pop_due(cx.mono()) {
            let Some(operation) = self.operations.get_mut(id) else {
                continue;
            };
            if operation.retry_at.is_none() {
                // Its row of deadlines is gone already.
                if let Some(operation) = self.operations.close(id) {
                    Self::fail(cx, operation);
                }
                continue;
            }
            if self.takes_part() {
                self.ask_the_others(cx, id);
            } else {
                self.operations.wait_until_deadline(id);
            }
        }
        self.wake_operations(cx);
    }

    /// After a fifth of the time: replicas beyond those needed, and the whole value to those that were sent a
    /// change only.
    fn ask_the_others(&mut self, cx: &mut Cx<'_>, id: u64) {
        let Some(operation) = self.operations.get_mut(id) else {
            return;
        };
        let secondary = core::mem::take(&mut operation.secondary);
        operation.waiting.extend(secondary.iter().cloned());
        let key = operation.key.clone();
        match &operation.work {
            OperationWork::Read { .. } => {
                for node in &secondary {
                    let (operation, key) = (id, key.clone());
                    send(cx, node, DdataBody::Read { operation, key });
                }
            }
            OperationWork::Write { .. } => {
                let to: Vec<UniqueAddress> = operation.waiting.iter().cloned().collect();
                self.send_value(cx, id, &key, &to);
            }
        }
        self.operations.wait_until_deadline(id);
    }

    fn finish_if_done(&mut self, cx: &mut Cx<'_>, id: u64) {
        let Some(operation) = self.operations.get_mut(id) else {
            return;
        };
        let has_quorum = operation.has_quorum();
        let is_stored = match &mut operation.work {
            // What a read found is durable here before anybody is told, so that a later read does not find
            // less.
            OperationWork::Read { kept, .. } => {
                let settings = &cx.config().ddata;
                let waits = settings.is_durable(&operation.key) && settings.write_behind_interval.is_none();
                if has_quorum && *kept == KeepState::NotAsked {
                    *kept = if waits && self.durable.lacks(&operation.key) {
                        let waiter = DurableWaiter::Local { operation: id };
                        self.durable.note(&operation.key, Some(waiter));
                        KeepState::Waits
                    } else {
                        KeepState::Done
                    };
                }
                *kept == KeepState::Done
            }
            OperationWork::Write { stored, .. } => *stored,
        };
        let is_done = operation.has_quorum() && is_stored;
        if !is_done && !operation.is_lost() {
            return;
        }
        let Some(operation) = self.operations.close(id) else {
            return;
        };
        if !is_done {
            cx.counters().operations_failed += 1;
            let error = self.why_lost(&operation);
            return reply(cx, operation.caller, Answer::Written(Err(error)));
        }
        cx.counters().operations_done += 1;
        match operation.work {
            OperationWork::Write { .. } => reply(cx, operation.caller, Answer::Written(Ok(()))),
            OperationWork::Read { .. } => self.finish_read(cx, operation),
        }
    }

    /// Why a write cannot reach its quorum.
    fn why_lost(&self, operation: &Operation) -> WriteError {
        let OperationWork::Write {
            other_type: Some(held),
            ..
        } = operation.work
        else {
            return WriteError::StoreFailed;
        };
        let entry = self.entries.get(&operation.key);
        let data = entry.and_then(|entry| entry.envelope.data.as_ref());
        data.map_or(WriteError::StoreFailed, |data| WriteError::OtherType {
            written: data.data_type(),
            held,
        })
    }

    /// Tells the value, which this node holds by now, and has those replicas repaired that answered with
    /// less.
    fn finish_read(&mut self, cx: &mut Cx<'_>, operation: Operation) {
        let Operation {
            caller, key, work, ..
        } = operation;
        let OperationWork::Read { merged, held, .. } = work else {
            return;
        };
        let mine = self.entries.get(&key).map(|entry| entry.envelope.clone());
        let Some(current) = mine.or(merged) else {
            return reply(cx, caller, Answer::Value(value_of(None)));
        };
        // Whoever was away for long repairs nobody.
        let held = if self.takes_part() { held } else { Vec::new() };
        let digest = digest_of(&current);
        let weight = self.entries.get(&key).map_or(0, |entry| entry.bytes) + SMALL_MESSAGE_BYTES;
        for (node, theirs) in held {
            if theirs != Some(digest) {
                cx.counters().repairs_sent += 1;
                let (key, envelope) = (key.clone(), current.clone());
                send_weighed(cx, &node, DdataBody::Repair { key, envelope }, weight);
            }
        }
        reply(cx, caller, Answer::Value(value_of(Some(&current))));
    }
}
