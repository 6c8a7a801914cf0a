//! What an application asks for: get, update, delete, subscribe, keys. Applies a change here first, then has
//! it spread as far as was asked for; what is refused changed nothing. Spec: sharding 1.12 (local API, write
//! flow).

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::crdt::{Applied, CustomError, DataDelta, DataOp, DataValue, OpError};
use super::delta_log;
use super::durable::DurableWaiter;
use super::measure::{around_len, data_len, delta_len, op_len, version_len};
use super::operations::{KeepState, OpenTargets, Operation, OperationWork};
use super::protocol::{Answer, Command, DdataBody, DeltaEntry, ReadError, SubscribeError, Timer, WriteError};
use super::replicas::Replicas;
use super::spread;
use super::state::DataEnvelope;
use super::state::consistency::{Consistency, ReplicaPreference, ReplicaTargets};
use super::state::key::Key;
use super::{Replicator, ReplicatorStage, SMALL_MESSAGE_BYTES, send, send_weighed, wall_ms};
use crate::ddata::Cx;
use crate::ident::UniqueAddress;
use crate::input::Caller;

/// Least and greatest time an operation waits.
pub(super) const TIMEOUT_MIN: Duration = Duration::from_millis(1);
pub(super) const TIMEOUT_MAX: Duration = Duration::from_secs(3600);

/// After this part of the time the replicas that are not needed are asked as well.
const SECONDARY_AFTER: u32 = 5;

/// How many have to agree, and for how long they are waited for.
#[derive(Clone, Copy)]
struct QuorumLevel {
    consistency: Consistency,
    timeout: Duration,
}

/// A change that was made here and is to be made elsewhere.
struct NewWrite<'a> {
    caller: Caller,
    key: &'a Key,
    plan: OpenTargets,
    delta: Option<DeltaEntry>,
    waits_for_store: bool,
}

/// Why an operation cannot begin.
enum NoQuorum {
    TooFew {
        present: usize,
        required: usize,
    },
    /// This node alone is enough.
    Alone,
}

impl Replicator {
    /// An application wants something.
    pub(crate) fn on_command(&mut self, cx: &mut Cx<'_>, caller: impl Into<Caller>, command: Command) {
        let caller = caller.into();
        self.notice_absence_now(cx);
        let command = if self.keeps_waiting() {
            match self.keep_early(cx, caller, command) {
                Some(command) => command,
                None => return,
            }
        } else {
            command
        };
        match command {
            Command::Get {
                key,
                consistency,
                timeout,
            } => self.get_command(cx, caller, key, QuorumLevel { consistency, timeout }),
            Command::Update {
                key,
                initial,
                op,
                consistency,
                timeout,
            } => {
                let change =
                    |replicator: &mut Self, cx: &mut Cx<'_>| replicator.apply(cx, &key, initial, &op);
                self.write_command(cx, caller, &key, QuorumLevel { consistency, timeout }, change);
            }
            Command::Delete {
                key,
                consistency,
                timeout,
            } => {
                let change =
                    |replicator: &mut Self, cx: &mut Cx<'_>| replicator.delete(cx, &key).map(|()| None);
                self.write_command(cx, caller, &key, QuorumLevel { consistency, timeout }, change);
            }
            Command::Subscribe { pattern } => {
                let has_room = self.subscriptions.len() < cx.config().ddata.subscribers_max;
                let outcome = match caller {
                    Caller::Host(token) if has_room => {
                        self.subscriptions.add(token, pattern);
                        Ok(())
                    }
                    // Machines of this node ask, and are told nothing else.
                    Caller::Host(_) | Caller::Sharding(_) | Caller::Kv(_) => Err(SubscribeError::TooMany),
                };
                reply(cx, caller, Answer::Subscribed(outcome));
            }
            Command::Unsubscribe { subscriber } => {
                self.subscriptions.remove(subscriber);
                reply(cx, caller, Answer::Subscribed(Ok(())));
            }
            Command::Keys => {
                let live = self
                    .entries
                    .iter()
                    .filter(|(_, entry)| !entry.envelope.is_deleted());
                let keys = live.map(|(key, _)| key.clone()).collect();
                reply(cx, caller, Answer::Keys(keys));
            }
            Command::Replicas => {
                let count = Replicas::new(cx.view(), &cx.config().ddata).electorate().members;
                let count = if self.takes_part() { count } else { 0 };
                reply(cx, caller, Answer::Replicas(count));
            }
            Command::Flush => {
                self.tell_subscribers(cx);
                reply(cx, caller, Answer::Subscribed(Ok(())));
            }
        }
        self.after_input(cx);
    }

    fn get_command(&mut self, cx: &mut Cx<'_>, caller: Caller, key: Key, level: QuorumLevel) {
        let refuse = |cx: &mut Cx<'_>, error| reply(cx, caller, Answer::Value(Err(error)));
        if self.stage != ReplicatorStage::Serving {
            return refuse(cx, ReadError::NotServing);
        }
        self.touch(&key, cx.mono());
        let plan = match plan(cx, level) {
            Ok(plan) => plan,
            Err(NoQuorum::Alone) => {
                let held = self.entries.get(&key).map(|entry| &entry.envelope);
                return reply(cx, caller, Answer::Value(value_of(held)));
            }
            Err(NoQuorum::TooFew { present, required }) => {
                return refuse(cx, ReadError::NotEnoughReplicas { present, required });
            }
        };
        if self.operations.len() >= cx.config().ddata.open_operations_max {
            return refuse(cx, ReadError::TooManyOperations);
        }
        let to = plan.targets.primary.clone();
        let work = OperationWork::Read {
            merged: None,
            held: Vec::new(),
            kept: KeepState::NotAsked,
        };
        let operation = self.operations.open(caller, key.clone(), work, plan);
        for node in to {
            let key = key.clone();
            send(cx, &node, DdataBody::Read { operation, key });
        }
        self.wake_operations(cx);
    }

    fn write_command(
        &mut self,
        cx: &mut Cx<'_>,
        caller: Caller,
        key: &Key,
        level: QuorumLevel,
        change: impl FnOnce(&mut Self, &mut Cx<'_>) -> Result<Option<DeltaEntry>, WriteError>,
    ) {
        let refuse = |cx: &mut Cx<'_>, error| reply(cx, caller, Answer::Written(Err(error)));
        if self.stage != ReplicatorStage::Serving {
            return refuse(cx, WriteError::NotServing);
        }
        let settings = &cx.config().ddata;
        let waits_for_store = settings.is_durable(key) && settings.write_behind_interval.is_none();
        let plan = plan(cx, level);
        let waits = waits_for_store || plan.is_ok();
        if waits && self.operations.len() >= cx.config().ddata.open_operations_max {
            return refuse(cx, WriteError::TooManyOperations);
        }
        let delta = match change(self, cx) {
            Ok(delta) => delta,
            Err(error) => return refuse(cx, error),
        };
        let plan = match plan {
            Ok(plan) => plan,
            Err(NoQuorum::TooFew { present, required }) => {
                return refuse(cx, WriteError::NotEnoughReplicas { present, required });
            }
            Err(NoQuorum::Alone) if waits_for_store => alone(cx, level.timeout),
            Err(NoQuorum::Alone) => return reply(cx, caller, Answer::Written(Ok(()))),
        };
        let write = NewWrite {
            caller,
            key,
            plan,
            delta,
            waits_for_store,
        };
        self.open_write(cx, write);
    }

    fn open_write(&mut self, cx: &mut Cx<'_>, write: NewWrite<'_>) {
        let NewWrite {
            caller,
            key,
            plan,
            delta,
            waits_for_store,
        } = write;
        let to = plan.targets.primary.clone();
        let work = OperationWork::Write {
            stored: !waits_for_store,
            as_delta: delta.is_some(),
            store_nacks: 0,
            durable: cx.config().ddata.is_durable(key),
            other_type: None,
        };
        let operation = self.operations.open(caller, key.clone(), work, plan);
        if waits_for_store {
            self.durable.note(key, Some(DurableWaiter::Local { operation }));
        }
        for node in &to {
            match delta.as_ref().and_then(|entry| self.changes_for(cx, node, entry)) {
                Some(entry) => {
                    let weight = spread::weight(&entry);
                    let (operation, entries) = (Some(operation), alloc::vec![entry]);
                    send_weighed(cx, node, DdataBody::Deltas { operation, entries }, weight);
                }
                None => self.send_value(cx, operation, key, core::slice::from_ref(node)),
            }
        }
        self.wake_operations(cx);
    }

    /// What a replica is to be sent so that it has a change: this one and those before it that it was not
    /// sent yet. A write asks other replicas than the one before it did; without these it would meet a gap
    /// there, and cost the whole value.
    fn changes_for(&mut self, cx: &Cx<'_>, node: &UniqueAddress, newest: &DeltaEntry) -> Option<DeltaEntry> {
        if cx.view().is_reachable(node) {
            self.log.take_key_for(&newest.key, node)
        } else {
            // It may never get this, so that it does not count as sent.
            Some(newest.clone())
        }
    }

    /// Sends the whole value, as it is now, to replicas that have to confirm it.
    pub(super) fn send_value(&mut self, cx: &mut Cx<'_>, operation: u64, key: &Key, to: &[UniqueAddress]) {
        let Some(entry) = self.entries.get(key) else {
            return;
        };
        for node in to {
            let body = DdataBody::Write {
                operation,
                key: key.clone(),
                envelope: entry.envelope.clone(),
            };
            send_weighed(cx, node, body, entry.bytes + SMALL_MESSAGE_BYTES);
            if cx.view().is_reachable(node) {
                self.log.note_sent(key, node);
            }
        }
    }

    /// Sets the timer to the earliest deadline of an open operation.
    pub(super) fn wake_operations(&self, cx: &mut Cx<'_>) {
        let due = [self.operations.next_due(), self.early.next_due()];
        if let Some(at) = due.into_iter().flatten().min() {
            cx.wake(Timer::Operations, at);
        }
    }

    /// Applies a change here. `Ok` has the change to send, if it can be sent as such.
    fn apply(
        &mut self,
        cx: &mut Cx<'_>,
        key: &Key,
        initial: DataValue,
        op: &DataOp,
    ) -> Result<Option<DeltaEntry>, WriteError> {
        check_type(cx, &initial)?;
        let settings = &cx.config().ddata;
        let (value_max, keys_max, bytes_max) =
            (settings.value_bytes_max, settings.keys_max, settings.bytes_max);
        let op_bytes = op_len(op);
        if !self
            .entries
            .has_room(key, self.bytes_of(key) + op_bytes, keys_max, bytes_max)
        {
            return Err(WriteError::Full);
        }
        self.minting.set_now(wall_ms(cx));
        let is_new = self.entries.get(key).is_none();
        let mut envelope = self
            .entries
            .take(key)
            .unwrap_or_else(|| DataEnvelope::new(initial));
        let before = (is_new || self.bytes_of(key) + op_bytes > value_max).then(|| envelope.clone());
        let refuse = |replicator: &mut Self, held, error| {
            if !is_new {
                replicator.entries.put_back(key, held);
            }
            Err(error)
        };
        let Some(data) = &mut envelope.data else {
            return refuse(self, envelope, WriteError::Deleted);
        };
        let applied = Arc::make_mut(data).apply(op, &mut self.minting);
        let mut bytes = self.bytes_of(key) + op_bytes;
        let applied = match applied {
            Ok(applied) => applied,
            Err(error) => return refuse(self, envelope, WriteError::Refused(error)),
        };
        if let Some(before) = before {
            let written = data_len(data);
            if written > value_max {
                let bytes_max = value_max;
                return refuse(self, before, WriteError::TooLarge { bytes_max });
            }
            bytes = written + around_len(&envelope);
        }
        let delta = match applied {
            Applied::Delta(delta) => Some(delta),
            Applied::Whole => None,
            // What was asked for is so already. A new key comes to be all the same.
            Applied::Unchanged if is_new => None,
            Applied::Unchanged => {
                self.entries.put_back(key, envelope);
                self.touch(key, cx.mono());
                return Ok(None);
            }
        };
        let versions = envelope.deltas.len();
        let entry = self.log_change(cx, key, &mut envelope, delta);
        bytes += (envelope.deltas.len() - versions) * version_len(cx.me());
        self.changed(cx, key, envelope, bytes, cx.mono());
        match entry {
            Some(_) => self.note_on_its_way(cx, key),
            None => self.end_flux(key),
        }
        Ok(entry)
    }

    /// Numbers a change and logs it, before the value that has it is put in place.
    pub(super) fn log_change(
        &mut self,
        cx: &Cx<'_>,
        key: &Key,
        envelope: &mut DataEnvelope,
        delta: Option<DataDelta>,
    ) -> Option<DeltaEntry> {
        if !cx.config().ddata.deltas {
            return None;
        }
        let after = envelope.deltas.get(cx.me()).copied().unwrap_or(0);
        let size_max = cx.config().ddata.max_delta_size;
        let delta = delta.filter(|delta| delta_len(delta) <= delta_log::DELTA_BYTES_MAX);
        let settled_ms = envelope.settled_ms;
        let upto = self.log.push(key, (after, settled_ms), delta.clone(), size_max);
        envelope.deltas.insert(cx.me().clone(), upto);
        delta.map(|delta| DeltaEntry {
            key: key.clone(),
            after,
            upto,
            settled_ms,
            deltas: alloc::vec![delta],
        })
    }

    fn delete(&mut self, cx: &mut Cx<'_>, key: &Key) -> Result<(), WriteError> {
        match self.entries.get(key) {
            Some(entry) if entry.envelope.is_deleted() => return Err(WriteError::Deleted),
            Some(_) => {}
            None => {
                let settings = &cx.config().ddata;
                if !self
                    .entries
                    .has_room(key, 0, settings.keys_max, settings.bytes_max)
                {
                    return Err(WriteError::Full);
                }
            }
        }
        self.changed(cx, key, DataEnvelope::deleted(), 0, cx.mono());
        Ok(())
    }

    fn bytes_of(&self, key: &Key) -> usize {
        self.entries.get(key).map_or(0, |entry| entry.bytes)
    }

    /// Tells who waits for an operation that it cannot go on.
    pub(super) fn fail(cx: &mut Cx<'_>, operation: Operation) {
        let Operation {
            caller,
            answered,
            required,
            ..
        } = operation;
        let answer = match operation.work {
            OperationWork::Read { .. } if answered >= required => Answer::Value(Err(ReadError::StoreFailed)),
            OperationWork::Read { .. } => Answer::Value(Err(ReadError::Timeout { answered, required })),
            OperationWork::Write { stored: false, .. } if answered >= required => {
                Answer::Written(Err(WriteError::StoreFailed))
            }
            OperationWork::Write { .. } => Answer::Written(Err(WriteError::Unconfirmed {
                confirmed: answered,
                required,
            })),
        };
        cx.counters().operations_failed += 1;
        reply(cx, caller, answer);
    }
}

/// Answers an application.
pub(super) fn reply(cx: &mut Cx<'_>, caller: Caller, answer: Answer) {
    cx.reply(caller, crate::effect::Answer::Ddata(answer));
}

/// What a read says about what it found.
pub(super) fn value_of(held: Option<&DataEnvelope>) -> Result<Arc<DataValue>, ReadError> {
    match held {
        None => Err(ReadError::NotFound),
        Some(envelope) => envelope.data.clone().ok_or(ReadError::Deleted),
    }
}

/// Whom to ask, and how many have to answer.
fn plan(cx: &mut Cx<'_>, QuorumLevel { consistency, timeout }: QuorumLevel) -> Result<OpenTargets, NoQuorum> {
    let view = Arc::clone(cx.view());
    let replicas = Replicas::new(&view, &cx.config().ddata);
    let electorate = replicas.electorate();
    let required = consistency.required(electorate, cx.config().ddata.majority_min_cap);
    let present = consistency.counted(electorate);
    if required > present {
        return Err(NoQuorum::TooFew { present, required });
    }
    if required <= 1 {
        return Err(NoQuorum::Alone);
    }
    let others = replicas.full(consistency.leaves_out_exiting());
    let preference = if cx.config().ddata.prefer_oldest {
        ReplicaPreference::AsGiven
    } else {
        ReplicaPreference::Shuffled
    };
    let targets = ReplicaTargets::choose(
        others,
        required - 1,
        preference,
        |node| view.is_reachable(node),
        cx.rng(),
    );
    let timeout = timeout.clamp(TIMEOUT_MIN, TIMEOUT_MAX);
    let now = cx.mono();
    Ok(OpenTargets {
        required,
        targets,
        deadline: now + timeout,
        retry_at: now + timeout / SECONDARY_AFTER,
    })
}

/// The plan of a write that waits for this node's store only.
fn alone(cx: &Cx<'_>, timeout: Duration) -> OpenTargets {
    let timeout = timeout.clamp(TIMEOUT_MIN, TIMEOUT_MAX);
    OpenTargets {
        required: 1,
        targets: ReplicaTargets::default(),
        deadline: cx.mono() + timeout,
        retry_at: cx.mono() + timeout,
    }
}

/// A type that this node was not told of is not written: what it is called on the wire would mean nothing to
/// the others.
fn check_type(cx: &Cx<'_>, initial: &DataValue) -> Result<(), WriteError> {
    if let DataValue::Custom(own) = initial
        && cx.config().ddata.custom_types.get(own.name()).is_none()
    {
        let what = alloc::format!("the type `{}` is not registered on this node", own.name());
        return Err(WriteError::Refused(OpError::Custom(CustomError(what))));
    }
    Ok(())
}
