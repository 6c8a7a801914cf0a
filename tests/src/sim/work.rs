//! The workload: messages to entities, what entities do with them, and what becomes of the answers. The
//! payload of a message begins with its position in the history; the answer repeats it.

use core::time::Duration;

use quorate_core::config::ValidConfig;
use quorate_core::effect::HostOrder;
use quorate_core::effect::HostedInstance;
use quorate_core::ident::Role;
use quorate_core::input::MessageCommand;
use quorate_core::input::Recipient;
use quorate_core::input::{Command, HostReport, Input, KindSettings, ShardingCommand};
use quorate_core::owner::Requester;
use quorate_core::sharding::chain::AskChain;
use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::{EntityId, KindId, ShardId, Slot};
use quorate_core::wakeups;

use super::engine::{Happening, Sim};
use super::entities::{Letter, Obeyed, Turn};
use super::history::{MessageRecord, ProcessId, Whereabouts, message_number};
use super::process::Open;
use super::trace::Show;
use super::watches::End;
use crate::invariants::{Cause, i_44};

/// The kind that all simulated nodes host.
pub const KIND: &str = "orders";
/// Its shards.
pub const SHARDS: u32 = 16;
/// The workload's entities are `e0` up to this number, exclusive.
pub const ENTITIES: u64 = 20;

/// The workload's entities of a shard.
pub(crate) fn entities_in(shard: ShardId) -> impl Iterator<Item = String> {
    let entities = (0..ENTITIES).map(|entity| format!("e{entity}"));
    entities.filter(move |entity| ShardId::of(&EntityId::from(entity.as_str()), SHARDS) == shard)
}

/// The shard of an entity, of the workload's kind or of its clocks.
pub(crate) fn shard_of(kind: KindId, entity: &EntityId) -> ShardId {
    let clock = wakeups::index_of(entity).filter(|_| kind != KindId::of(KIND));
    clock.map_or_else(|| ShardId::of(entity, SHARDS), ShardId)
}

/// The role of the node whose kind differs.
pub(super) fn role_of_one() -> Role {
    Role::new("one").expect("invariant: a short name is legal")
}

impl Sim {
    /// From now on the node that starts at an address registers the kind, and singletons, for a role that
    /// only it has.
    #[must_use]
    pub const fn with_another_kind_on(mut self, index: usize) -> Self {
        self.differs = Some(index);
        self
    }

    /// The settings of the node at an address.
    pub(crate) fn config_of(&self, index: usize) -> ValidConfig {
        let mut config = self.config.clone();
        if self.differs == Some(index) {
            config.roles.push(role_of_one());
        }
        config
            .roles
            .extend(self.lives.role().filter(|_| self.lives.hosts(index)));
        if self.singletons.enabled {
            config.roles.extend(super::singletons::roles_of(index));
        }
        if self.paths.enabled {
            config.roles.extend(super::paths::roles_of(index));
        }
        let valid = config
            .validate()
            .expect("invariant: the simulator's profiles are legal");
        match self.held_periods {
            Some(periods) => valid.with_down_members_held_for(periods),
            None => valid,
        }
    }

    pub(crate) fn register_kind(&mut self, process: ProcessId) {
        let index = self.processes[process as usize].index;
        let differs = self.differs == Some(index);
        if self.durables.enabled {
            self.register_clocks(process);
        }
        let settings = KindSettings {
            role: differs.then(role_of_one).or(self.lives.role()),
            remember_entities: self.remembered.store(),
            allocation: self.lives.allocation(),
            lease: self.lives.leases.enabled,
            ..KindSettings::new(KIND, SHARDS, self.lives.hosts(index))
        };
        self.command(
            process,
            Open::Command("register"),
            Command::Sharding(ShardingCommand::RegisterKind(Box::new(settings))),
        );
    }

    /// Asks an entity from the node at an address; `None` if nothing runs there. The answer is in the history
    /// under the number returned.
    pub fn ask(&mut self, index: usize, entity: &str, timeout: Duration) -> Option<usize> {
        self.ask_saying(index, entity, timeout, &[])
    }

    /// The same, with something to say behind the message's number.
    pub(crate) fn ask_saying(
        &mut self,
        index: usize,
        entity: &str,
        timeout: Duration,
        says: &[u8],
    ) -> Option<usize> {
        self.ask_of(
            index,
            (KindId::of(KIND), entity),
            AskChain::default(),
            timeout,
            says,
        )
    }

    /// The same, of an entity of any kind.
    pub(crate) fn ask_of(
        &mut self,
        index: usize,
        (kind, entity): (KindId, &str),
        chain: AskChain,
        timeout: Duration,
        says: &[u8],
    ) -> Option<usize> {
        let (process, at, mut payload) = self.compose(index, entity, true)?;
        if !says.is_empty() {
            payload.truncate(8);
            payload.extend(says);
        }
        self.history.messages[at].timeout = Some(u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX / 2));
        let command = Command::Message(MessageCommand::Ask {
            to: Recipient::Entity(kind, EntityId::from(entity)),
            payload: payload.into(),
            timeout,
            chain,
        });
        self.arrives_for(process, at);
        self.command(process, Open::Ask(at), command);
        Some(at)
    }

    /// What became of a message sent with [`Self::ask`]; `None` while it waits, and for one whose asker is
    /// gone.
    #[must_use]
    pub fn outcome(&self, ask: usize) -> Option<Result<(), AskFailure>> {
        self.history.messages.get(ask)?.outcome
    }

    /// Tells an entity something from the node at an address; `None` if nothing runs there.
    pub fn tell(&mut self, index: usize, entity: &str) -> Option<usize> {
        let (process, at, payload) = self.compose(index, entity, false)?;
        self.arrives_for(process, at);
        self.trace.begin(self.now, process, b'M');
        self.trace.bytes(&payload);
        let input = Input::Tell {
            to: Recipient::Entity(KindId::of(KIND), EntityId::from(entity)),
            payload: payload.into(),
        };
        self.feed(process, &Cause::Command, input);
        Some(at)
    }

    /// One message of the random workload: a random node, a random entity, mostly an ask.
    pub(crate) fn random_message(&mut self, nodes: usize) {
        let drawn = (self.workload.index(nodes), self.workload.below(ENTITIES));
        let (index, entity) = self.network.room.next_of_burst(drawn);
        let ask = self.workload.per_mille(700);
        let timeout = self.workload.between(500, 5_000);
        let entity = format!("e{entity}");
        if ask {
            let ask = self.ask(index, &entity, Duration::from_millis(timeout));
            self.asks_durable(ask);
            self.usurps_at_random();
            self.deliver_at_random(nodes);
        } else {
            self.tell(index, &entity);
        }
    }

    /// Writes a message down that the node at an address is about to send; `None` if nothing runs there.
    pub(crate) fn compose(
        &mut self,
        index: usize,
        entity: &str,
        ask: bool,
    ) -> Option<(ProcessId, usize, Vec<u8>)> {
        let padding = self.workload.below(48);
        let process = self.running_at(index)?;
        if self.now < self.processes[process as usize].paused_until {
            return None;
        }
        let at = self.history.messages.len();
        self.history.messages.push(MessageRecord {
            sender: process,
            entity: EntityId::from(entity),
            ask,
            sent_at: self.now,
            timeout: None,
            left_at: self.now,
            in_transit: 0,
            whereabouts: Whereabouts::At(process),
            handled: 0,
            outcome: None,
        });
        let mut payload = (at as u64).to_le_bytes().to_vec();
        payload.resize(8 + usize::try_from(padding).unwrap_or(0), 0xA5);
        Some((process, at, payload))
    }

    /// The node wants something done with an entity.
    pub(crate) fn on_order(&mut self, process: ProcessId, order: HostOrder) {
        self.trace.begin(self.now, process, b'O');
        self.trace.debug(&order);
        if self.trace.shows(Show::Everything) {
            self.say(process, format_args!("{order:?}"));
        }
        let result = self
            .checks
            .on_order(process, &order, self.assumptions.safe(), &mut self.history);
        match result {
            Ok(overlaps) => self.assumptions.overlaps += overlaps,
            Err((invariant, what)) => return self.violated(invariant, process, what),
        }
        if let Err(what) = self.judge_lease(process, &order) {
            return self.violated("I-54", process, what);
        }
        if self.processes[process as usize].is_stuck && matches!(order, HostOrder::Kill { .. }) {
            // Its handler runs on all the same, and nobody hears that it has ended.
            return self.processes[process as usize].entities.runs_on(order.slot());
        }
        let slot = order.slot();
        let mut begins = None;
        if let HostOrder::Start {
            instance: HostedInstance::Entity { entity, token, .. },
            ..
        } = &order
        {
            self.starts_remembered(process, entity);
            self.watches.started(self.now, process, slot, entity);
            begins = Some((entity.clone(), token.stored()));
        }
        let number = match &order {
            HostOrder::Deliver { payload, .. } => message_number(payload),
            HostOrder::Start { .. }
            | HostOrder::Stop { .. }
            | HostOrder::StopWithState { .. }
            | HostOrder::Kill { .. } => None,
        };
        let killed = match &order {
            HostOrder::Kill { .. } => self.processes[process as usize]
                .entities
                .get(slot)
                .map(|entity| (entity.kind, entity.id.clone())),
            HostOrder::Start { .. }
            | HostOrder::Stop { .. }
            | HostOrder::StopWithState { .. }
            | HostOrder::Deliver { .. } => None,
        };
        match self.processes[process as usize].entities.obey(order) {
            Obeyed::Started => {
                if let Some((entity, placement)) = begins {
                    self.starts_durable((process, slot), &entity, placement);
                }
            }
            Obeyed::Queued(schedule) => {
                if let Some(at) = number {
                    self.history.messages[at].whereabouts = Whereabouts::Mailbox(process);
                    if let Err(what) = i_44::on_delivered(&self.history.messages[at], self.now) {
                        return self.violated("I-44", process, format!("message {at} {what}"));
                    }
                }
                self.schedule_turn(process, slot, schedule);
            }
            Obeyed::Stopping(schedule) => self.schedule_turn(process, slot, schedule),
            Obeyed::Refused(report) => self.report_soon(process, report),
            Obeyed::Killed(letters) => {
                self.durables.ended(process, slot);
                if let Some(name) = killed {
                    self.history.stopped(process, slot, &name);
                    let end = self.lives.escalates.then_some(End::Failed);
                    if end.is_some() {
                        self.lives.failing.insert((process, slot), name.1.clone());
                    }
                    self.watches.stopped(process, slot, &name.1, end);
                }
                self.drop_letters(process, slot, letters);
            }
            Obeyed::Nonsense(what) => self.violated("I-42", process, format!("{what}: {slot:?}")),
        }
    }

    fn drop_letters(&mut self, process: ProcessId, slot: Slot, letters: Vec<Letter>) {
        for letter in letters {
            self.history.message_is(&letter.payload, Whereabouts::Destroyed);
            if let Some(ask) = letter.reply_to {
                let result = Err(AskFailure::EntityStopped);
                self.report_soon(process, HostReport::Answered { ask, result });
            }
        }
        let wait = self.entity_chance.between(10, 3_000);
        let unheard = &mut self.processes[process as usize].unheard;
        unheard.entities.insert(slot);
        let report = Box::new(HostReport::Stopped { slot });
        self.queue
            .push(self.now + wait, Happening::Reported { process, report });
    }

    fn schedule_turn(&mut self, process: ProcessId, slot: Slot, schedule: bool) {
        // Always drawn, so that one turn more or less shifts nothing else.
        let slow = self.entity_chance.per_mille(20);
        let wait = self.entity_chance.between(10, if slow { 60_000 } else { 3_000 });
        if schedule {
            let wait = wait + self.lives.slowness();
            self.queue
                .push(self.now + wait, Happening::Turn { process, slot });
        }
    }

    /// A report that must not reach the node in the middle of its effects.
    fn report_soon(&mut self, process: ProcessId, report: HostReport) {
        let report = Box::new(report);
        self.queue
            .push(self.now + 1, Happening::Reported { process, report });
    }

    /// An entity has time.
    pub(crate) fn on_turn(&mut self, process: ProcessId, slot: Slot) {
        const LOOK_AGAIN: u64 = 20_000;
        let host = &self.processes[process as usize];
        if !host.runs() {
            return;
        }
        if !host.may_begin(self.now) || host.is_stuck {
            let later = Happening::Turn { process, slot };
            return self.queue.push(self.now + LOOK_AGAIN, later);
        }
        if self.holds_back(process, slot) {
            return;
        }
        // Before anything ends: what is lost is said first, also if only this makes it known.
        self.lose_overdue_leases(process);
        match self.processes[process as usize].entities.turn(slot) {
            Turn::Nothing => {}
            Turn::Handles(letter, again) => {
                self.handle(process, slot, letter);
                self.schedule_turn(process, slot, again);
            }
            Turn::Stopped(entity) => {
                self.durables.ended(process, slot);
                self.history
                    .stopped(process, slot, &(entity.kind, entity.id.clone()));
                self.watches.stopped(process, slot, &entity.id, None);
                self.report_now(process, HostReport::Stopped { slot });
            }
        }
    }

    pub(crate) fn on_reported(&mut self, process: ProcessId, report: HostReport) {
        if let HostReport::Stopped { slot } = &report {
            let unheard = &mut self.processes[process as usize].unheard;
            unheard.entities.remove(slot);
        }
        if let HostReport::Stopped { slot } = &report
            && let Some(entity) = self.lives.failing.remove(&(process, *slot))
        {
            // Who began to watch it meanwhile hears of it now.
            self.watches.ends(self.now, &entity, End::Failed);
        }
        if self.processes[process as usize].runs() {
            self.report_now(process, report);
        }
    }

    /// Whether a process runs on although that of the next home knows of its removal, outside of the safe
    /// assumptions.
    fn is_left_behind(&self, process: ProcessId, next: ProcessId) -> bool {
        let (left, next) = (&self.processes[process as usize], &self.processes[next as usize]);
        !self.assumptions.safe() && next.node.view().is_removed(&left.me)
    }

    fn handle(&mut self, process: ProcessId, slot: Slot, letter: Letter) {
        let Some(at) = message_number(&letter.payload) else {
            return self.violated("I-44", process, "a payload lost its number".to_owned());
        };
        let entity = self.processes[process as usize].entities.get(slot);
        let name = entity.map(|entity| entity.id.clone());
        let result = self.checks.i44.on_handled(&mut self.history, at, name.as_ref());
        if let Err(what) = result {
            return self.violated("I-44", process, what);
        }
        if let Err(what) = self.checks.i52.on_handled(process, self.now) {
            return self.violated("I-52", process, what);
        }
        if let Err(swap) = self.checks.i43.on_handled(&self.history, process, at)
            && !self.is_left_behind(process, swap.home)
            && Some(self.history.messages[at].sender) != self.history.liar
        {
            return self.violated("I-43", process, swap.what);
        }
        if let Some(name) = &name {
            self.note_remembered(process, slot, name);
        }
        if self.durables.enabled {
            return self.handle_durable((process, slot), letter, at);
        }
        let fate = self.lives.fate();
        if let Some(ask) = letter.reply_to {
            self.answer(process, ask, letter.payload, fate);
        }
        if self.suffer(process, slot, fate) {
            return;
        }
        if let Some(end) = self.remembered.end() {
            return self.ends_by_itself(process, slot, end);
        }
        if self.passivations.asks() || self.remembered.asks() {
            if let Some(name) = &name {
                self.remembered.may_be_forgotten(process, slot, name);
            }
            self.report_now(process, HostReport::Passivate { slot });
        }
    }

    pub(crate) fn report_now(&mut self, process: ProcessId, report: HostReport) {
        self.trace.begin(self.now, process, b'E');
        self.trace.debug(&report);
        if self.trace.shows(Show::Everything) {
            self.say(process, format_args!("{report:?}"));
        }
        self.feed(process, &Cause::Entity, Input::Host(Requester::Sharding, report));
    }
}
