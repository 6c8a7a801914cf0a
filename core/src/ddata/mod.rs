//! Distributed data: values that every node holds and changes, and that converge. This file holds the
//! replicator's parts and hands each input to its file; it decides nothing. Spec: sharding 1.12, 1.13, 10.6,
//! 10.8, 10.10, 10.21.

mod admission;
mod claims;
mod commands;
pub mod crdt;
mod delta_log;
mod doubt;
mod durable;
mod early;
mod entries;
mod exchange;
mod expiry;
mod gossip;
mod in_flux;
mod measure;
mod notify;
mod operations;
pub mod protocol;
mod pruning;
mod replicas;
pub mod slices;
mod spread;
pub mod state;
mod subscriptions;

use alloc::string::String;
use alloc::sync::Arc;
use core::time::Duration;

use crate::buffered::{BufferedLoad, BufferingMachine};
use crate::cx::OfDdata;
use crate::ddata::claims::SaidVersions;
use crate::ddata::crdt::{DataValue, Minting};
use crate::ddata::delta_log::DeltaLog;
use crate::ddata::doubt::Doubt;
use crate::ddata::durable::DurableKeys;
use crate::ddata::early::EarlyCommands;
use crate::ddata::entries::KeyEntries;
use crate::ddata::operations::Operations;
use crate::ddata::protocol::{DdataBody, Event, Msg, Timer};
use crate::ddata::pruning::Departed;
use crate::ddata::replicas::Replicas;
use crate::ddata::slices::{RoundRobin, Rounds};
use crate::ddata::state::Digest;
use crate::ddata::state::key::Key;
use crate::ddata::subscriptions::KeySubscriptions;
use crate::ident::UniqueAddress;
use crate::ordered::OrderedMap;
use crate::view::{MembershipPhase, View};

/// What the machine may touch outside itself.
pub(crate) type Cx<'a> = crate::cx::Cx<'a, OfDdata>;

/// What a message without a value weighs in a queue, at most: its key and a few numbers.
const SMALL_MESSAGE_BYTES: usize = 320;

/// Everything a node knows about distributed data. Users see it through [`Replicator::get`] and the getters
/// beside it.
#[derive(Clone, Debug)]
pub struct Replicator {
    entries: KeyEntries,
    operations: Operations,
    early: EarlyCommands,
    subscriptions: KeySubscriptions,
    log: DeltaLog,
    minting: Minting,
    said_versions: SaidVersions,
    turns: RoundRobin,
    delta_ticks: u64,
    rounds: Rounds,
    /// Statuses heard of each peer since the last gossip tick.
    statuses: OrderedMap<UniqueAddress, u32>,
    departed: Departed,
    durable: DurableKeys,
    doubt: Doubt,
    stage: ReplicatorStage,
}

/// Where the replicator is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplicatorStage {
    /// This node is no member yet.
    Idle,
    /// What the store holds is being read.
    Loading,
    /// It takes part.
    Serving,
    /// The store failed, or the node is no member any more: it takes no part until it is restarted.
    Stopped,
}

impl Replicator {
    pub(crate) fn new(me: &UniqueAddress) -> Self {
        Self {
            entries: KeyEntries::default(),
            operations: Operations::default(),
            early: EarlyCommands::default(),
            subscriptions: KeySubscriptions::default(),
            log: DeltaLog::default(),
            minting: Minting::new(me.clone()),
            said_versions: SaidVersions::default(),
            turns: RoundRobin::default(),
            delta_ticks: 0,
            rounds: Rounds::default(),
            statuses: OrderedMap::new(),
            departed: Departed::default(),
            durable: DurableKeys::default(),
            doubt: Doubt::default(),
            stage: ReplicatorStage::Idle,
        }
    }

    /// The value that this node holds; `None` if it holds none, or the key was deleted.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Arc<DataValue>> {
        self.entries
            .get(key)
            .and_then(|entry| entry.envelope.data.as_ref())
    }

    /// Keys held, deleted ones included.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.entries.iter().map(|(key, _)| key)
    }

    /// Bytes held: encoded values and a flat amount per key. A little more than the truth between two
    /// comparisons.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.entries.bytes()
    }

    /// The digest of every key, without delta versions: equal on replicas that agree. Costs an encoding of
    /// every value.
    #[must_use]
    pub fn digests(&self) -> OrderedMap<Key, Digest> {
        let entries = self.entries.iter();
        entries
            .map(|(key, entry)| (key.clone(), entries::digest_of(&entry.envelope)))
            .collect()
    }

    /// Operations that wait for others, for the store, or for the store to be read.
    #[must_use]
    pub fn open_operations(&self) -> usize {
        self.operations.len() + self.early.len()
    }

    /// What is known about a key's pruning and its deltas.
    #[must_use]
    pub fn envelope(&self, key: &Key) -> Option<&state::DataEnvelope> {
        self.entries.get(key).map(|entry| &entry.envelope)
    }

    /// Another node's replicator speaks.
    pub(crate) fn on_message(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, message: Msg) {
        self.notice_absence_now(cx);
        // Meant for an earlier incarnation of this address, from one that is no member (any more), or too
        // early: what it brings comes again with gossip.
        let is_from_replica = Replicas::new(cx.view(), &cx.config().ddata).hears(from);
        let is_heard = message.to_uid == cx.me().uid() && is_from_replica;
        if is_heard && self.on_doubt(cx, from, &message) {
            return;
        }
        if !is_heard || !self.takes_part() {
            cx.counters().ignored += 1;
            return self.refuse(cx, from, &message);
        }
        match message.body {
            DdataBody::Read { operation, key } => self.on_read(cx, from, operation, &key),
            DdataBody::ReadResult { operation, envelope } => {
                self.on_read_result(cx, from, operation, envelope)
            }
            DdataBody::Write {
                operation,
                key,
                envelope,
            } => self.on_write(cx, from, operation, &key, envelope),
            DdataBody::WriteAck { operation } => self.on_write_ack(cx, from, operation),
            DdataBody::WriteNack { operation, reason } => self.on_write_nack(cx, from, operation, reason),
            DdataBody::Repair { key, envelope } => self.on_repair(cx, from, &key, envelope),
            DdataBody::Status {
                chunk,
                total,
                digests,
            } => self.on_status(cx, from, chunk, total, digests),
            DdataBody::Request { keys } => self.on_request(cx, from, keys),
            DdataBody::Gossip { send_back, entries } => self.on_gossip(cx, from, send_back, entries),
            DdataBody::Deltas { operation, entries } => self.on_deltas(cx, from, operation, entries),
        }
        self.after_input(cx);
    }

    /// A timer is due.
    pub(crate) fn on_timer(&mut self, cx: &mut Cx<'_>, timer: Timer) {
        if self.stage == ReplicatorStage::Stopped {
            return;
        }
        self.notice_absence_now(cx);
        match timer {
            Timer::Gossip if self.doubt.is_open() => self.ask_whether_still_member(cx),
            Timer::Gossip if self.takes_part() => self.on_gossip_tick(cx),
            Timer::Deltas if self.takes_part() => self.on_delta_tick(cx),
            Timer::Pruning if self.takes_part() => self.on_pruning_tick(cx),
            Timer::Gossip | Timer::Deltas | Timer::Pruning => {}
            Timer::Notify => self.tell_subscribers(cx),
            Timer::Operations => self.on_operations_due(cx),
            Timer::WriteBehind => self.durable.on_write_behind(),
            Timer::Load if self.stage == ReplicatorStage::Loading => self.durable.load_again(cx),
            Timer::Load => {}
        }
        self.after_input(cx);
    }

    /// The picture changed.
    pub(crate) fn on_view_changed(&mut self, cx: &mut Cx<'_>, before: &View, after: &View) {
        self.notice_absence(cx, before);
        let is_member = Replicas::new(after, &cx.config().ddata).includes_me();
        match self.stage {
            ReplicatorStage::Idle if is_member => self.start(cx),
            ReplicatorStage::Loading | ReplicatorStage::Serving
                if after.phase() == MembershipPhase::Halted || !is_member =>
            {
                self.stop(cx)
            }
            ReplicatorStage::Idle
            | ReplicatorStage::Loading
            | ReplicatorStage::Serving
            | ReplicatorStage::Stopped => {}
        }
        let all_reachable = Replicas::new(after, &cx.config().ddata).all_reachable();
        self.departed
            .on_view_changed(cx.mono(), all_reachable, before, after);
        self.forget_unheard(cx, after);
        self.said_versions.forget_removed(after);
    }

    fn start(&mut self, cx: &mut Cx<'_>) {
        self.minting.set_now(wall_ms(cx));
        if cx.config().ddata.durable_keys.is_empty() {
            self.serve(cx);
        } else {
            self.stage = ReplicatorStage::Loading;
            self.durable.load(cx);
        }
    }

    fn serve(&mut self, cx: &mut Cx<'_>) {
        self.stage = ReplicatorStage::Serving;
        if self.takes_part() {
            self.begin_early(cx);
        }
    }

    /// After every input: has the store keep what changed, and waits for what there is to wait for. Nothing
    /// is woken for a replicator that holds nothing.
    fn after_input(&mut self, cx: &mut Cx<'_>) {
        self.store_noted(cx);
        if !self.takes_part() {
            return;
        }
        let config = cx.config();
        let settings = &config.ddata;
        let has_keys = self.entries.len() > 0;
        let has_rounds = has_keys || !self.statuses.is_empty() || self.durable.is_held_back();
        arm(cx, has_rounds, Timer::Gossip, settings.gossip_interval);
        if let Some(interval) = settings.pruning_interval {
            arm(cx, has_keys, Timer::Pruning, interval);
        }
        let has_deltas = !self.log.is_empty();
        arm(
            cx,
            has_deltas,
            Timer::Deltas,
            settings.delta_propagation_interval(),
        );
        let has_news = self.subscriptions.has_news();
        arm(cx, has_news, Timer::Notify, settings.notify_subscribers_interval);
    }

    /// It takes no part any more; whoever waits is told.
    fn stop(&mut self, cx: &mut Cx<'_>) {
        self.stage = ReplicatorStage::Stopped;
        self.doubt.end();
        self.end_early(cx);
        for operation in self.operations.take_all() {
            Self::fail(cx, operation);
        }
    }

    /// The store cannot be trusted: nothing that it should keep is acknowledged any more.
    fn on_store_lost(&mut self, cx: &mut Cx<'_>) {
        cx.notify(Event::StoreLost);
        self.stop(cx);
    }

    /// Checks the machine's rules. Linear.
    pub(crate) fn check_invariants(&self, keys_max: usize) -> Result<(), String> {
        if !self.entries.is_consistent() {
            return Err(String::from("the sum of bytes is not the sum of the entries"));
        }
        if self.entries.len() > keys_max {
            return Err(alloc::format!("{} keys, above the limit", self.entries.len()));
        }
        if !self.operations.is_consistent() {
            return Err(String::from("an open operation without a deadline"));
        }
        Ok(())
    }
}

impl BufferingMachine for Replicator {
    fn buffered(&self) -> BufferedLoad {
        // What it holds came over bulk links or from callers, and has bounds of its own
        // (`ddata.open_operations_max`, `ddata.bytes_max`).
        BufferedLoad::NOTHING
    }
}

/// Sets a timer that is not set yet, if there is something to wait for.
fn arm(cx: &mut Cx<'_>, is_needed: bool, timer: Timer, interval: Duration) {
    if is_needed && !cx.is_set(timer) {
        cx.wake(timer, cx.mono() + interval);
    }
}

/// The wall clock as stamps use it.
fn wall_ms(cx: &Cx<'_>) -> i64 {
    i64::try_from(cx.now().unix_ms).unwrap_or(i64::MAX)
}

/// Sends to another replicator what is small.
fn send(cx: &mut Cx<'_>, to: &UniqueAddress, body: DdataBody) {
    send_weighed(cx, to, body, SMALL_MESSAGE_BYTES);
}

/// Sends to another replicator about so many bytes.
fn send_weighed(cx: &mut Cx<'_>, to: &UniqueAddress, body: DdataBody, weight: usize) {
    let to_uid = to.uid();
    let msg = Msg { to_uid, body, weight };
    cx.send(to, msg);
}

#[cfg(test)]
mod tests;
