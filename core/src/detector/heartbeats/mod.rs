//! Heartbeats: asks the receivers on the ring whether they live, answers those who ask, and says who fell
//! silent and who is back. Never marks anybody itself and never downs: it signals verdicts to membership.
//! Spec: membership 2.11, 2.13, 8.5, 8.6.

mod doubt;

use alloc::vec::Vec;
use core::time::Duration;

use crate::buffered::{BufferedLoad, BufferingMachine};
use crate::config::{FailureDetectorConfig, ValidConfig};
use crate::detector::Cx;
use crate::detector::phi::PhiSettings;
use crate::detector::refusals::Refusals;
use crate::detector::registry::DetectorRegistry;
use crate::detector::revalidation::Revalidation;
use crate::detector::ring;
use crate::ident::{Address, UniqueAddress};
use crate::membership::state::member::Member;
use crate::membership::state::reachability::ReachabilityStatus;
use crate::message::{DetectorMsg, Heartbeat};
use crate::ordered::{OrderedMap, OrderedSet};
use crate::reject::Rejection;
use crate::signal::Verdicts;
use crate::time::Instant;
use crate::timer::DetectorTimer;
use crate::view::{MembershipPhase, View};

/// The failure detector of one node.
#[derive(Clone, Debug)]
pub(crate) struct Detector {
    registry: DetectorRegistry,
    stage: MonitorStage,
    /// Of the last heartbeat round; 0 before the first.
    sequence: u64,
    /// When a pause was last forgiven.
    compensated_at: Option<Instant>,
    /// Whom the ring makes this node monitor.
    receivers: OrderedSet<UniqueAddress>,
    /// Members that fell out of the ring's choice while they were silent: asked on until they answer, so that
    /// somebody notices their return.
    former: OrderedSet<UniqueAddress>,
    /// The last round that each of them has answered.
    answered: OrderedMap<UniqueAddress, u64>,
    refusals: Refusals,
}

/// Whether this node monitors others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MonitorStage {
    /// It is no member, yet or any more: it asks nobody.
    Stopped,
    /// It asks its receivers in rounds.
    Monitoring { round_due: Instant },
    /// The same, but this process stood still, or a member refuses it, and nobody has said since that it is
    /// still a member.
    Revalidating {
        round_due: Instant,
        revalidation: Revalidation,
    },
}

impl MonitorStage {
    /// When the next round of heartbeats is due.
    const fn round_due(self) -> Option<Instant> {
        match self {
            Self::Stopped => None,
            Self::Monitoring { round_due } | Self::Revalidating { round_due, .. } => Some(round_due),
        }
    }

    const fn set_round_due(&mut self, at: Instant) {
        match self {
            Self::Stopped => {}
            Self::Monitoring { round_due } | Self::Revalidating { round_due, .. } => *round_due = at,
        }
    }

    /// What is waited for since this process stood still; `None` if it did not, or somebody has counted it in
    /// since.
    const fn revalidation(&mut self) -> Option<&mut Revalidation> {
        match self {
            Self::Stopped | Self::Monitoring { .. } => None,
            Self::Revalidating { revalidation, .. } => Some(revalidation),
        }
    }
}

impl Detector {
    pub(crate) fn new(config: &ValidConfig) -> Self {
        Self {
            registry: DetectorRegistry::new(
                phi_settings(&config.failure_detector),
                config.failure_detector.implementation,
            ),
            stage: MonitorStage::Stopped,
            sequence: 0,
            compensated_at: None,
            receivers: OrderedSet::new(),
            former: OrderedSet::new(),
            answered: OrderedMap::new(),
            refusals: Refusals::default(),
        }
    }

    /// Starts with this node's membership, never earlier; stops with it; follows the ring in between.
    pub(crate) fn on_view_changed(&mut self, cx: &mut Cx<'_>, before: &View, after: &View) {
        let own = after
            .self_member()
            .filter(|_| after.phase() == MembershipPhase::Member);
        let Some(data_center) = own.map(Member::data_center) else {
            self.stop(cx);
            return;
        };
        self.refusals.follow(before, after, cx.mono());
        let started = self.stage == MonitorStage::Stopped;
        if started {
            self.start(cx);
        }
        let same = core::ptr::eq(before.members(), after.members())
            || own_nodes(before, data_center).eq(own_nodes(after, data_center));
        if started || !same || before.unreachable() != after.unreachable() {
            self.follow(cx, after, data_center);
            if self.stage.revalidation().is_some() && self.nobody_could_tell(cx.config(), after) {
                self.believe(cx);
            }
        }
    }

    /// A member has sent gossip, and this node is a member after it.
    pub(crate) fn on_gossip_heard(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress) {
        let is_over = self
            .stage
            .revalidation()
            .is_some_and(|stage| stage.is_over_with_gossip())
            && !self.refusals.is_refused_by(from);
        let view = cx.view();
        if is_over && view.phase() == MembershipPhase::Member && view.member(from).is_some() {
            self.believe(cx);
        }
    }

    /// Another node speaks.
    pub(crate) fn on_message(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, msg: DetectorMsg) {
        match msg {
            DetectorMsg::Heartbeat(heartbeat) => self.on_heartbeat(cx, from, heartbeat),
            DetectorMsg::HeartbeatRsp(response) => self.on_heartbeat_rsp(cx, from, response),
        }
    }

    /// Answers who asks for this very incarnation, whatever its status.
    pub(crate) fn on_heartbeat(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, heartbeat: Heartbeat) {
        if !heartbeat.is_for(cx.me()) {
            return reject(cx, from, "heartbeat for another incarnation");
        }
        cx.counters().heartbeats_answered += 1;
        let echo = Heartbeat {
            sequence: heartbeat.sequence,
            ..Heartbeat::new(from, 0)
        };
        cx.send(from, DetectorMsg::HeartbeatRsp(echo));
    }

    /// Takes a sign of life from a receiver.
    pub(crate) fn on_heartbeat_rsp(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, response: Heartbeat) {
        if !response.is_for(cx.me()) {
            return reject(cx, from, "heartbeat for another incarnation");
        }
        let Some(round) = response.round_by(self.sequence) else {
            return reject(cx, from, "heartbeat response");
        };
        if !self.is_active(from) || !self.is_news(from, round) {
            return;
        }
        if self.refusals.heard(from) {
            cx.say_links_cut(self.refusals.cut_off());
        }
        self.revalidate(cx, from, round);
        if self.registry.heartbeat(from, cx.mono()).is_some() {
            cx.counters().heartbeats_late += 1;
        }
        if self.former.remove(from) && !self.receivers.contains(from) {
            self.forget(cx, from);
        }
    }

    pub(crate) fn on_timer(&mut self, cx: &mut Cx<'_>, timer: DetectorTimer) {
        if self.stage == MonitorStage::Stopped {
            return;
        }
        match timer {
            DetectorTimer::Heartbeat => self.send_heartbeats(cx),
            DetectorTimer::Reaper => self.reap(cx),
            DetectorTimer::FirstHeartbeat(address) => self.expect_answers(cx, &address),
            DetectorTimer::Refused => cx.say_disowned(),
        }
    }

    /// What must hold between inputs.
    pub(crate) fn check_invariants(&self, view: &View) {
        let active = || self.receivers.union(&self.former);
        if self.stage == MonitorStage::Stopped {
            assert!(active().next().is_none(), "a stopped detector asks nobody");
            assert!(
                self.registry.monitored().next().is_none(),
                "a stopped detector monitors nobody"
            );
        }
        for node in active() {
            assert!(node != view.me(), "a node does not monitor itself");
            assert!(view.member(node).is_some(), "only members are monitored: {node}");
        }
        for node in self.answered.keys() {
            assert!(
                self.is_active(node),
                "only who is asked can have answered: {node}"
            );
        }
        for node in self.registry.monitored() {
            assert!(self.is_active(node), "every monitored node is asked: {node}");
        }
    }

    fn start(&mut self, cx: &mut Cx<'_>) {
        let config = &cx.config().failure_detector;
        let initial = cx.config().membership.periodic_tasks_initial_delay;
        let reaper_at = cx.mono() + initial.max(config.unreachable_nodes_reaper_interval);
        let round_due = cx.mono() + initial.max(config.heartbeat_interval);
        self.stage = MonitorStage::Monitoring { round_due };
        cx.wake(DetectorTimer::Heartbeat, round_due);
        cx.wake(DetectorTimer::Reaper, reaper_at);
    }

    fn stop(&mut self, cx: &mut Cx<'_>) {
        if self.stage == MonitorStage::Stopped {
            return;
        }
        self.stage = MonitorStage::Stopped;
        cx.cancel(DetectorTimer::Heartbeat);
        cx.cancel(DetectorTimer::Reaper);
        cx.cancel(DetectorTimer::Refused);
        for node in self.receivers.union(&self.former) {
            cx.cancel(first_heartbeat(node));
        }
        self.receivers.clear();
        self.former.clear();
        self.answered.clear();
        self.registry.clear();
        self.refusals.clear();
    }

    /// Takes the receivers of a new ring. A receiver that fell out is forgotten if it is gone or fine.
    fn follow(&mut self, cx: &mut Cx<'_>, view: &View, data_center: &str) {
        let monitored_by = cx.config().failure_detector.monitored_by_nr_of_members;
        let is_of_mine = |member: &Member| member.data_center() == data_center;
        let is_member = |node: &UniqueAddress| view.member(node).is_some_and(is_of_mine);
        let is_unreachable = |node: &UniqueAddress| !view.is_reachable(node);
        let nodes = own_nodes(view, data_center);
        let chosen = ring::receivers_of(cx.me(), nodes, is_unreachable, monitored_by);
        let was = core::mem::replace(&mut self.receivers, chosen);
        for node in was.difference(&self.receivers.clone()) {
            if is_member(node) && !self.registry.is_available(node, cx.mono()) {
                self.former.insert(node.clone());
            } else {
                self.forget(cx, node);
            }
        }
        let gone: Vec<UniqueAddress> = self
            .former
            .iter()
            .filter(|node| !is_member(node))
            .cloned()
            .collect();
        for node in gone {
            self.former.remove(&node);
            self.forget(cx, &node);
        }
    }

    /// Whether this answer is to a later round than those `node` has answered. The same answer once more, or
    /// an older one that comes behind, is no sign of life: it may have been on its way since before the node
    /// crashed.
    fn is_news(&mut self, node: &UniqueAddress, sequence: u64) -> bool {
        match self.answered.get_mut(node) {
            Some(last) if *last >= sequence => false,
            Some(last) => {
                *last = sequence;
                true
            }
            None => {
                self.answered.insert(node.clone(), sequence);
                true
            }
        }
    }

    fn forget(&mut self, cx: &mut Cx<'_>, node: &UniqueAddress) {
        self.registry.remove(node);
        self.answered.remove(node);
        cx.cancel(first_heartbeat(node));
    }

    fn is_active(&self, node: &UniqueAddress) -> bool {
        self.receivers.contains(node) || self.former.contains(node)
    }

    fn send_heartbeats(&mut self, cx: &mut Cx<'_>) {
        self.sequence += 1;
        let now = cx.mono();
        let first_expected = now + cx.config().failure_detector.expected_response_after;
        for node in self.receivers.union(&self.former) {
            let heartbeat = Heartbeat::new(node, self.sequence);
            cx.counters().heartbeats_sent += 1;
            cx.send(node, DetectorMsg::Heartbeat(heartbeat));
            let timer = first_heartbeat(node);
            if !self.registry.is_monitoring(node) && !cx.is_set(timer.clone()) {
                cx.wake(timer, first_expected);
            }
        }
        let round_due = now + cx.config().failure_detector.heartbeat_interval;
        self.stage.set_round_due(round_due);
        cx.wake(DetectorTimer::Heartbeat, round_due);
    }

    /// A receiver that never answered is taken to have been alive until now, so that its silence begins to
    /// count.
    fn expect_answers(&mut self, cx: &mut Cx<'_>, address: &Address) {
        let silent = self
            .receivers
            .union(&self.former)
            .filter(|node| node.address() == address);
        let silent: Vec<UniqueAddress> = silent
            .filter(|node| !self.registry.is_monitoring(node))
            .cloned()
            .collect();
        for node in silent {
            self.registry.heartbeat(&node, cx.mono());
        }
    }

    /// Compares what the detectors say with what this node has published, and says the difference at once.
    fn reap(&mut self, cx: &mut Cx<'_>) {
        let (now, view) = (cx.mono(), cx.view());
        let table = view.gossip().reachability();
        let observed = |node: &UniqueAddress| table.status(cx.me(), node);
        let patience = cx.config().stable_after(view.members().len());
        let is_explained = |node: &UniqueAddress| self.refusals.explain(node, view, now, patience);
        let silent = self
            .registry
            .unavailable(now)
            .filter(|node| observed(node) == ReachabilityStatus::Reachable && !is_explained(node));
        let unreachable: OrderedSet<UniqueAddress> = silent.cloned().collect();
        let published = view.unreachable().iter();
        let back = published.filter(|node| {
            observed(node) == ReachabilityStatus::Unreachable
                && (self.registry.is_available(node, now) || is_explained(node))
        });
        let reachable: OrderedSet<UniqueAddress> = back.cloned().collect();
        cx.counters().unreachable_verdicts += unreachable.len() as u64;
        cx.counters().reachable_verdicts += reachable.len() as u64;
        if !unreachable.is_empty() || !reachable.is_empty() {
            cx.say_verdicts(Verdicts {
                unreachable,
                reachable,
            });
        }
        let interval = cx.config().failure_detector.unreachable_nodes_reaper_interval;
        cx.wake(DetectorTimer::Reaper, now + interval);
    }
}

impl BufferingMachine for Detector {
    fn buffered(&self) -> BufferedLoad {
        // Heartbeats are answered at once.
        BufferedLoad::NOTHING
    }
}

fn own_nodes<'a>(view: &'a View, data_center: &'a str) -> impl Iterator<Item = &'a UniqueAddress> {
    let own = view
        .members()
        .iter()
        .filter(move |member| member.data_center() == data_center);
    own.map(|member| &member.node)
}

fn reject(cx: &mut Cx<'_>, from: &UniqueAddress, what: &'static str) {
    cx.reject(from, Rejection::Unexpected { what });
}

fn first_heartbeat(node: &UniqueAddress) -> DetectorTimer {
    DetectorTimer::FirstHeartbeat(node.address().clone())
}

/// The configuration allows any duration above zero; phi counts in milliseconds and cannot divide by less.
fn phi_settings(config: &FailureDetectorConfig) -> PhiSettings {
    PhiSettings {
        threshold: config.threshold,
        max_sample_size: config.max_sample_size,
        min_std_deviation: config.min_std_deviation.max(Duration::from_micros(1)),
        max_std_deviation: config.heartbeat_interval,
        acceptable_heartbeat_pause: config.acceptable_heartbeat_pause,
        first_heartbeat_estimate: config.heartbeat_interval.max(Duration::from_millis(1)),
    }
}

#[cfg(test)]
mod tests;
