//! What a node says and what the simulated host does about it: sends, answers, events, its end. Records
//! everything in the history and the trace; decides nothing.

use quorate_core::effect::{Answer, DdataAnswer, Effect, HaltReason, ShardingAnswer};
use quorate_core::event::{DetectorEvent, DowningEvent, Event, MembershipEvent, ShardingEvent};
use quorate_core::input::{SendTarget, Token};
use quorate_core::membership::events::MembershipChange;
use quorate_core::membership::gossip::Gossip;
use quorate_core::membership::reachability::{ReachabilityRecord, ReachabilityStatus};
use quorate_core::message::{
    DetectorMsg, GossipEnvelope, MembershipMsg, Message, ShardingMsg, SingletonMsg, Welcome,
};
use quorate_core::owner::Requester;
use quorate_core::sharding::ids::KindId;

use super::engine::{Happening, Sim};
use super::history::{Life, ProcessId};
use super::process::{Open, Process, Times};
use super::trace::Show;
use crate::invariants::{Moment, Said};
use crate::lease::MemoryLeases;

/// What invariants want to know about a moment of a process.
fn moment<'a>(host: &'a Process, (at, leases): (u64, &'a MemoryLeases)) -> Moment<'a> {
    let times = Times::of(host.node.config(), host.node.view().members().len());
    Moment {
        at,
        mono: host.now(at).mono.as_micros(),
        stable_after: times.stable_after,
        patience: times.patience,
        stays_patiently: times.stays_patiently,
        flaps_patiently: times.flaps_patiently,
        slack: times.slack,
        margin: times.margin,
        view: host.node.view(),
        leases,
    }
}

/// How long the handlers of a node that has ended run on if nobody could stop them: as long as nobody may
/// take their work over, which is the removal margin, counted from the node's end instead of its removal.
fn handlers_end_after(host: &Process) -> u64 {
    Times::of(host.node.config(), host.node.view().members().len()).margin
}

impl Sim {
    /// Does what a node says.
    pub(crate) fn carry_out(&mut self, process: ProcessId, effect: Effect) {
        match effect {
            Effect::Send { to, message } => self.on_send(process, to, message, false),
            Effect::Offer { to, message } => self.on_send(process, to, message, true),
            Effect::Notify(event) => self.on_notify(process, &event),
            Effect::Reply { token, answer } => self.on_reply(process, token, answer),
            Effect::Host(Requester::Sharding, order) => self.on_order(process, order),
            Effect::Host(Requester::Singleton, order) => self.on_instance_order(process, order),
            Effect::Host(Requester::Path, order) => self.on_path_order(process, order),
            Effect::Host(owner, order) => {
                self.violated("host", process, format!("an order of {owner:?}: {order:?}"));
            }
            Effect::Lease(owner, order) => self.on_lease_order(process, owner, order),
            Effect::Store(owner, request) => self.on_store_order(process, owner, request),
            Effect::Allocate(_) => {} // no kind here has a strategy that is asked
            Effect::Quarantine(node) => {
                self.trace.begin(self.now, process, b'Q');
                self.trace.number(node.uid());
                self.processes[process as usize].quarantined.insert(node);
            }
            Effect::Halt(reason) => self.on_halt(process, reason),
        }
    }

    fn on_send(&mut self, process: ProcessId, to: SendTarget, message: Message, is_offer: bool) {
        match &message {
            Message::Membership(MembershipMsg::Gossip(GossipEnvelope { gossip, .. }))
            | Message::Membership(MembershipMsg::Welcome(Welcome { gossip, .. }))
                if !self.is_bare =>
            {
                self.history.held(process, &gossip.open(&Gossip::new()));
            }
            // A delta's state is the one that is held after this step.
            Message::Membership(MembershipMsg::GossipDelta(_))
            | Message::Membership(MembershipMsg::Gossip(_))
            | Message::Membership(MembershipMsg::Welcome(_)) => {}
            Message::Sharding(ShardingMsg::Entity(envelope) | ShardingMsg::HandBack(envelope)) => {
                self.history.leaves(&envelope.payload, self.now);
            }
            Message::Singleton(SingletonMsg::Delivery(delivery)) => {
                self.history.leaves(&delivery.payload, self.now);
            }
            Message::Singleton(SingletonMsg::Statement(statement)) => self.on_statement(process, statement),
            Message::Singleton(SingletonMsg::Reply(_)) => {}
            Message::Membership(MembershipMsg::InitJoin(_))
            | Message::Membership(MembershipMsg::InitJoinAck(_))
            | Message::Membership(MembershipMsg::InitJoinNack)
            | Message::Membership(MembershipMsg::Join(_))
            | Message::Membership(MembershipMsg::JoinRefused(_))
            | Message::Membership(MembershipMsg::Removed { .. })
            | Message::Membership(MembershipMsg::Leave(_))
            | Message::Membership(MembershipMsg::Down(_))
            | Message::Detector(DetectorMsg::Heartbeat(_))
            | Message::Detector(DetectorMsg::HeartbeatRsp(_))
            | Message::Membership(MembershipMsg::ExitingConfirmed { .. })
            | Message::Membership(MembershipMsg::GossipStatus(_))
            | Message::Membership(MembershipMsg::GossipSeen(_))
            | Message::Sharding(ShardingMsg::Kind(_))
            | Message::Sharding(
                ShardingMsg::AskReply(_)
                | ShardingMsg::Registry(_)
                | ShardingMsg::Survey(_)
                | ShardingMsg::Mark(_)
                | ShardingMsg::MarkAck(_)
                | ShardingMsg::Watch(_)
                | ShardingMsg::Start(_)
                | ShardingMsg::Started(_),
            )
            | Message::Ddata(_)
            | Message::Journal(_)
            | Message::Load(_) => {}
            Message::Kv(message) => self.note_kv_message(message),
            Message::Path(message) => self.note_path_message(message),
        }
        self.send(process, to, message, is_offer);
    }

    fn on_notify(&mut self, process: ProcessId, event: &Event) {
        if self.is_bare {
            return;
        }
        self.trace.begin(self.now, process, b'N');
        match event {
            Event::Membership(MembershipEvent::Changed { change, .. }) => self.trace.debug(change),
            Event::Membership(MembershipEvent::SelfUp)
            | Event::Membership(MembershipEvent::SelfRemoved)
            | Event::Membership(MembershipEvent::JoinFailed { .. })
            | Event::Membership(MembershipEvent::LeaderIncapacitated { .. })
            | Event::Downing(DowningEvent::NobodyHasDowningRole { .. })
            | Event::Downing(DowningEvent::Decision(_))
            | Event::Detector(DetectorEvent::Paused { .. } | DetectorEvent::Refused { .. })
            | Event::Detector(DetectorEvent::StillMember)
            | Event::Sharding { .. }
            | Event::Rejected { .. }
            | _ => self.trace.debug(event),
        }
        if self.trace.shows(Show::Facts) {
            self.show_event(process, event);
        }
        match event {
            Event::Membership(MembershipEvent::SelfRemoved) => {
                self.history.processes[process as usize].self_removed += 1;
                self.give_back_unsent(process);
            }
            Event::Sharding { kind, event } => self.on_sharding_event(process, *kind, event),
            Event::Ddata(event) => self.on_data_event(process, event),
            Event::Membership(MembershipEvent::PathsNotHandedOver { node }) => {
                self.paths.counts.let_go += 1;
                self.checks.i50.on_let_go(process, node);
            }
            Event::Membership(MembershipEvent::JoinFailed { reason }) => {
                self.join_failures.push(reason.clone())
            }
            Event::Downing(DowningEvent::Decision(report)) if !report.down.is_empty() => {
                self.note_known_broken(process);
            }
            Event::Detector(DetectorEvent::Paused { .. } | DetectorEvent::Refused { .. }) => {
                self.processes[process as usize].in_doubt = true;
            }
            Event::Detector(DetectorEvent::StillMember) => {
                // What its own users sent in the pause comes behind what others did.
                self.checks.i48.forget(process, None);
                self.processes[process as usize].in_doubt = false;
                self.checks.i52.on_still_member(process);
            }
            Event::Membership(_)
            | Event::Detector(_)
            | Event::Downing(_)
            | Event::Journal(_)
            | Event::Rejected { .. } => {}
            Event::Singleton { event, .. } => self.on_singleton_event(process, event),
            Event::Kv { bucket, event } => self.on_kv_event(process, bucket, event),
            Event::Path { path, event } => self.on_path_event(process, *path, event),
            // A later version's.
            _ => {}
        }
        let unstopped = self.processes[process as usize].entities.unstopped();
        let host = &self.processes[process as usize];
        let moment = moment(host, (self.now, &self.leases));
        let result = self
            .checks
            .on_event(process, event, unstopped, &moment, &self.history);
        if let Err((invariant, what)) = result {
            self.violated(invariant, process, what);
        }
    }

    /// A process downs somebody: of the first one it is kept what it knew.
    fn note_known_broken(&mut self, process: ProcessId) {
        if self.history.known_broken.is_none() {
            let view = self.processes[process as usize].node.view();
            let rows = view.gossip().reachability().records().iter();
            let reported = rows.filter(|row| row.status != ReachabilityStatus::Reachable);
            let link = |row: &ReachabilityRecord| {
                let (one, other) = (&row.observer, &row.subject);
                (one.min(other).clone(), one.max(other).clone())
            };
            self.history.known_broken = Some(reported.map(link).collect());
        }
    }

    fn on_sharding_event(&mut self, process: ProcessId, kind: KindId, event: &ShardingEvent) {
        self.note_known_home(process, event);
        if let ShardingEvent::ShardStarted { shard, term } = event
            && self.history.is_liar(&term.node)
        {
            self.history.placed_by_liar.insert((kind, *shard));
        }
        let safe = self.assumptions.safe();
        let host = &self.processes[process as usize];
        let moment = moment(host, (self.now, &self.leases));
        let result = self
            .checks
            .on_sharding(Said { process, kind, event }, safe, &moment, &self.history);
        match result {
            Ok(overlaps) => self.assumptions.overlaps += overlaps,
            Err((invariant, what)) => return self.violated(invariant, process, what),
        }
        if let Err((invariant, what)) = self.judge_home(process, event) {
            return self.violated(invariant, process, what);
        }
        let record = &mut self.history.processes[process as usize];
        match event {
            ShardingEvent::ShardStarted { shard, .. } => {
                record.shards.insert((kind, *shard));
                self.watches.hosts(process, *shard, u64::MAX);
            }
            ShardingEvent::ShardStopped { shard } => {
                record.shards.remove(&(kind, *shard));
                self.watches.hosts(process, *shard, self.now);
                self.checks.i48.forget(process, Some(*shard));
                self.remembered.shard_stopped(process, *shard);
            }
            ShardingEvent::DeadLetter { shard, .. } => {
                record.dead_letters += 1;
                self.checks.i48.forget(process, Some(*shard));
            }
            ShardingEvent::ShardFailed { shard } | ShardingEvent::ShardLeaseLost { shard } => {
                self.checks.i48.forget(process, Some(*shard));
            }
            ShardingEvent::RegionRegistered { .. }
            | ShardingEvent::KindRefused { .. }
            | ShardingEvent::KindRefusedOn { .. }
            | ShardingEvent::MayRunTwice { .. }
            | ShardingEvent::AllocationUnanswered { .. }
            | ShardingEvent::CoordinatorStarted { .. }
            | ShardingEvent::CoordinatorRecovered { .. }
            | ShardingEvent::CoordinatorStateLate { .. }
            | ShardingEvent::CoordinatorRefused { .. }
            | ShardingEvent::CoordinatorStateDamaged
            | ShardingEvent::ShardAllocated { .. }
            | ShardingEvent::RememberedDamaged { .. }
            | ShardingEvent::ShardStopTimeout { .. }
            | ShardingEvent::HandOffTimeout { .. }
            | ShardingEvent::HandOffCancelled { .. }
            | ShardingEvent::ShardConflict { .. }
            | ShardingEvent::ShardMovesByLoad { .. }
            | ShardingEvent::EnvelopeUnmatched
            | ShardingEvent::Drained => {}
            ShardingEvent::BufferHasRoom => {}
            ShardingEvent::BufferFull { .. } => self.lives.counts.full += 1,
            // A later version's.
            _ => {}
        }
    }

    fn on_reply(&mut self, process: ProcessId, token: Token, answer: Answer) {
        self.trace.begin(self.now, process, b'R');
        self.trace.number(token);
        self.trace.debug(&answer);
        let Some(open) = self.processes[process as usize].open.remove(&token) else {
            let what = format!("command {token} is answered twice: {answer:?}");
            return self.violated("I-44", process, what);
        };
        match (open, answer) {
            (Open::Ask(at), Answer::Asked(result)) => {
                let answer = result.clone();
                let result = self.checks.i44.on_answer(&mut self.history, at, result);
                if let Err(what) = result {
                    self.violated("I-44", process, what);
                }
                let answer = answer.as_deref().ok();
                if self.is_of_a_clock(at, answer) {
                    return;
                }
                if let Some(payload) = answer {
                    self.on_durable_answer(process, at, payload);
                }
                self.on_delivery_answer(at, answer);
            }
            (
                Open::Ask(at),
                Answer::Done
                | Answer::Refused(_)
                | Answer::Sharding(
                    ShardingAnswer::Surveyed(_)
                    | ShardingAnswer::Entities(_)
                    | ShardingAnswer::ShardsStopped(_)
                    | ShardingAnswer::Explained(_)
                    | ShardingAnswer::ShutDown(_)
                    | ShardingAnswer::Terminated(_),
                )
                | Answer::Ddata(_)
                | Answer::Singleton(_)
                | Answer::Journal(_)
                | Answer::Kv(_),
            ) => {
                let what = format!("ask {at} is answered like a command");
                self.violated("I-44", process, what);
            }
            (Open::Data(at), Answer::Ddata(answer)) => self.on_data_answer(process, at, answer),
            (Open::Subscription, Answer::Ddata(DdataAnswer::Subscribed(Ok(())))) => {}
            (open @ (Open::Data(_) | Open::Subscription), answer) => {
                self.violated("I-44", process, format!("{open:?} is answered with {answer:?}"));
            }
            (Open::Host(name), answer) => self.on_hosting(process, name, &answer),
            (Open::Tell(at), answer) => self.on_told(process, at, &answer),
            (Open::Keyed(place), Answer::Kv(answer)) => self.on_keyed_answer(place, answer),
            (Open::Log(call), Answer::Kv(answer)) => self.on_log_answer(process, call, Some(answer)),
            (Open::Log(call), Answer::Refused(_)) => self.on_log_answer(process, call, None),
            (open @ (Open::Keyed(_) | Open::Log(_)), answer) => {
                self.violated("I-44", process, format!("{open:?} is answered with {answer:?}"));
            }
            (Open::Watch(at), answer) => self.on_watch_answer(process, at, &answer),
            (Open::Command(name), answer) => {
                if answer != Answer::Done {
                    self.fact(process, format_args!("{name}: {answer:?}"));
                }
            }
        }
    }

    fn on_halt(&mut self, process: ProcessId, reason: HaltReason) {
        self.trace.begin(self.now, process, b'H');
        self.trace.debug(&reason);
        self.fact(process, format_args!("halts: {reason:?}"));
        *self.halts.entry(format!("{reason:?}")).or_default() += 1;
        let host = &mut self.processes[process as usize];
        host.life = Life::Halted(reason);
        let unanswered = |open: &&Open| {
            matches!(
                open,
                Open::Ask(_) | Open::Data(_) | Open::Watch(_) | Open::Keyed(_) | Open::Log(_)
            )
        };
        let unanswered = host.open.values().find(unanswered);
        if let Some(open) = unanswered {
            let what = format!("halts with {open:?} unanswered");
            return self.violated("I-44", process, what);
        }
        let result = self.checks.i49.on_halt(process, reason, &self.history);
        if let Err(what) = result {
            return self.violated("I-49", process, what);
        }
        self.give_leases_back(process, Life::Halted(reason));
        self.bury(process, Life::Halted(reason));
    }

    pub(crate) fn bury(&mut self, process: ProcessId, life: Life) {
        self.data_asker_is_gone(process);
        self.keyed_caller_is_gone(process);
        let host = &mut self.processes[process as usize];
        host.wake = None;
        host.leases.clear();
        host.entities.clear();
        host.open.clear();
        self.durables.died(process);
        let host = &self.processes[process as usize];
        let handlers_run_on = host.is_stuck && life != Life::Crashed;
        let end = self.now + handlers_end_after(host);
        self.bury_instances(process, life);
        self.bury_paths(process);
        self.history.ended(process, life, handlers_run_on);
        self.history.processes[process as usize].ended_at = self.now;
        self.watches.died(self.now, process);
        self.checks.ended(process);
        if handlers_run_on {
            self.queue.push(end, Happening::HandlersEnded(process));
        }
        self.changed = true;
        self.close_links(process);
    }

    fn show_event(&self, process: ProcessId, event: &Event) {
        let Event::Membership(MembershipEvent::Changed { change, .. }) = event else {
            return self.say(process, format_args!("{event:?}"));
        };
        let is_noise = matches!(
            change,
            MembershipChange::SeenChanged { .. }
                | MembershipChange::ReachabilityChanged
                | MembershipChange::TombstonesChanged
                | MembershipChange::RoleLeaderChanged { .. }
        );
        if !is_noise {
            self.say(process, format_args!("{change:?}"));
        }
    }
}
