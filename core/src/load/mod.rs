//! How loaded the nodes are: smooths what the host measures of this one, and exchanges that with others in
//! rounds, never in the state that is gossiped. In a small cluster each tells all others; in a large one
//! leaders and coordinators ask some members, each for itself and its neighbours. Publishes what it knows
//! once a round ([`Loads`]) and moves nothing: whoever places things reads that. Spec: sharding 5.5, 10.20.

mod probes;
pub mod protocol;
mod smoothing;
pub mod state;

use alloc::sync::Arc;
use alloc::vec::Vec;

use self::probes::{CollectedLoad, OpenProbe, Probes};
use self::protocol::{ChordProbe, ChordReply, LoadMeasure, Msg, SampleTold, Timer};
use self::smoothing::Smoothing;
use self::state::chord::{contacts, neighbors};
use self::state::moves::AGE_ROUNDS_MAX;
use self::state::sample::{KnownLoad, LoadSample, Loads, PARTS_MAX, PartLoad};
use crate::config::{CapacitySelector, LoadSpread};
use crate::cx::OfLoad;
use crate::ident::UniqueAddress;
use crate::membership::state::member::Member;
use crate::oldest::state::{may_act, oldest};
use crate::ordered::{OrderedMap, OrderedSet};
use crate::reject::Rejection;
use crate::view::View;

/// What the machine may touch outside itself.
type Cx<'a> = crate::cx::Cx<'a, OfLoad>;

/// The machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Load {
    /// The round that goes on; 0 before the first.
    round: u64,
    own: Smoothing,
    /// What was heard of members, this node among them, in the last rounds.
    heard: OrderedMap<UniqueAddress, HeardLoad>,
    probes: Probes,
}

/// What was heard of a member, and in which round.
#[derive(Clone, Debug)]
struct HeardLoad {
    round: u64,
    sample: LoadSample,
    parts: Arc<[PartLoad]>,
}

impl Load {
    /// The host has measured. The first measure begins the rounds.
    pub(crate) fn on_measured(&mut self, cx: &mut Cx<'_>, measure: &LoadMeasure) {
        cx.counters().measured += 1;
        let beyond = measure.parts.len().saturating_sub(PARTS_MAX);
        cx.counters().parts_left_out += u64::try_from(beyond).unwrap_or(u64::MAX);
        self.own.add(cx.mono(), cx.config().load.half_life, measure);
        let (sample, parts) = (self.own.sample(), self.own.parts());
        self.take(cx, &cx.me().clone(), sample, Some(parts));
    }

    /// Another node speaks.
    pub(crate) fn on_message(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, msg: Msg) {
        if cx.config().load.spread == LoadSpread::Off {
            return;
        }
        if !is_on_ring(cx.view(), from) {
            cx.counters().samples_ignored += 1;
            return;
        }
        match msg {
            Msg::Sample(told) => {
                cx.counters().samples_taken += 1;
                let parts = (!told.parts.is_empty()).then(|| Arc::from(told.parts));
                self.take(cx, from, told.sample, parts);
            }
            Msg::Probe(probe) => self.on_probe(cx, from, probe),
            Msg::Reply(reply) => self.on_reply(cx, from, reply),
        }
    }

    /// A timer is due.
    pub(crate) fn on_timer(&mut self, cx: &mut Cx<'_>, timer: &Timer) {
        match timer {
            Timer::Round => self.on_round(cx),
            Timer::AnswersDue => cx.counters().probes_unanswered += self.probes.give_up(),
            Timer::NeighborsDue(place) => {
                if let Some(asker) = self.probes.asker_at(*place).cloned() {
                    self.answer(cx, &asker);
                }
            }
        }
    }

    /// The picture changed: nothing is remembered of nodes that are members no longer.
    pub(crate) fn on_view_changed(&mut self, cx: &mut Cx<'_>, after: &View) {
        let is_member = |node: &UniqueAddress| after.member(node).is_some();
        for place in self.probes.retain(is_member) {
            cx.cancel(Timer::NeighborsDue(place));
        }
        let before = self.heard.len();
        self.heard.retain(|node, _| is_member(node) || node == after.me());
        if self.heard.len() < before {
            self.publish(cx, self.round.saturating_sub(1));
        }
    }

    /// What must hold between inputs.
    pub(crate) fn check_invariants(&self, view: &View) -> Result<(), &'static str> {
        self.probes.check_invariants()?;
        let is_known = |node: &UniqueAddress| node == view.me() || view.member(node).is_some();
        if !self.heard.keys().all(is_known) {
            return Err("load of a node that is no member");
        }
        Ok(())
    }

    /// Remembers what was heard, and begins the rounds if nothing was before. Parts that are not told are
    /// those that were.
    fn take(
        &mut self,
        cx: &mut Cx<'_>,
        of: &UniqueAddress,
        sample: LoadSample,
        parts: Option<Arc<[PartLoad]>>,
    ) {
        let known = parts.or_else(|| self.heard.get(of).map(|heard| Arc::clone(&heard.parts)));
        let heard = HeardLoad {
            round: self.round,
            sample,
            parts: known.unwrap_or_default(),
        };
        self.heard.insert(of.clone(), heard);
        if !cx.is_set(Timer::Round) {
            let due = cx.mono() + cx.config().load.interval;
            cx.wake(Timer::Round, due);
        }
    }

    /// A round is over, the next one begins.
    fn on_round(&mut self, cx: &mut Cx<'_>) {
        let over = self.round;
        self.heard
            .retain(|_, heard| over.saturating_sub(heard.round) <= AGE_ROUNDS_MAX);
        self.publish(cx, over);
        self.round += 1;
        if self.heard.is_empty() {
            // Nobody measures anything: the next measure, or the next sample of another, begins anew.
            return;
        }
        let due = cx.mono() + cx.config().load.interval;
        cx.wake(Timer::Round, due);
        // Measured in the round that is over, or in the one before if the host is a little late.
        let own = self.heard.get(cx.me());
        let is_fresh = own.is_some_and(|own| own.round + 1 >= over);
        let view = Arc::clone(cx.view());
        if !is_fresh || !is_on_ring(&view, cx.me()) {
            return;
        }
        let ring: Vec<&Member> = ring(&view).collect();
        match cx.config().load.spread {
            LoadSpread::Off => {}
            LoadSpread::Auto if ring.len() > cx.config().load.direct_members_max => {
                self.ask_some(cx, &view, &ring);
            }
            LoadSpread::Direct | LoadSpread::Auto => self.tell_all(cx, &view, &ring),
            LoadSpread::Chord => self.ask_some(cx, &view, &ring),
        }
    }

    /// What is known after that round, for all who read it: of members that are reachable.
    fn publish(&self, cx: &mut Cx<'_>, round: u64) {
        let view = Arc::clone(cx.view());
        let is_shown = |node: &UniqueAddress| node == view.me() || view.is_reachable(node);
        let known = |(node, heard): (&UniqueAddress, &HeardLoad)| {
            let known = KnownLoad {
                sample: heard.sample,
                parts: Arc::clone(&heard.parts),
                age_rounds: round.saturating_sub(heard.round),
            };
            (node.clone(), known)
        };
        let shown = self.heard.iter().filter(|(node, _)| is_shown(node)).map(known);
        cx.publish_loads(Loads::new(round, shown.collect()));
    }

    /// Tells every other member how loaded this node is, and those who decide for others by parts.
    fn tell_all(&self, cx: &mut Cx<'_>, view: &View, ring: &[&Member]) {
        let sample = self.own.sample();
        let deciders = deciders(view);
        let others = ring.iter().filter(|member| member.node != *view.me());
        for member in others.filter(|member| view.is_reachable(&member.node)) {
            let parts = match deciders.contains(&member.node) {
                true => self.own.parts().to_vec(),
                false => Vec::new(),
            };
            cx.counters().samples_sent += 1;
            cx.send(&member.node, Msg::Sample(SampleTold { sample, parts }));
        }
    }

    /// Asks a few members, if this node decides for others, and whoever has least to spare of those it knows:
    /// what runs there is told by that node alone.
    fn ask_some(&mut self, cx: &mut Cx<'_>, view: &View, ring: &[&Member]) {
        if !view.is_leader() && !cx.succession().is_oldest_of_any() {
            return;
        }
        let config = &cx.config().load;
        let others: Vec<&UniqueAddress> = ring
            .iter()
            .map(|member| &member.node)
            .filter(|node| *node != view.me() && view.is_reachable(node))
            .collect();
        let positions = contacts(cx.rng(), others.len(), config.chord_contacts);
        let chosen: OrderedSet<&UniqueAddress> = positions
            .into_iter()
            .filter_map(|position| others.get(position - 1).copied())
            .collect();
        let hottest = self
            .hottest(config.selector, &others)
            .filter(|node| !chosen.contains(node));
        for node in &chosen {
            self.probe(cx, node, config.chord_neighbors, None);
        }
        if let Some(node) = hottest {
            self.probe(cx, &node, 0, None);
        }
        let due = cx.mono() + config.chord_timeout;
        cx.wake(Timer::AnswersDue, due);
    }

    fn hottest(&self, selector: CapacitySelector, others: &[&UniqueAddress]) -> Option<UniqueAddress> {
        let known = others.iter().filter_map(|node| {
            let heard = self.heard.get(*node)?;
            Some((*node, heard.sample.capacities().select(selector)?))
        });
        let hottest = known.min_by(|(_, one), (_, other)| one.total_cmp(other))?;
        Some(hottest.0.clone())
    }

    fn probe(&mut self, cx: &mut Cx<'_>, node: &UniqueAddress, radius: usize, asker: Option<&UniqueAddress>) {
        let id = self.probes.ask(OpenProbe {
            of: node.clone(),
            radius,
            asker: asker.cloned(),
        });
        cx.counters().probes_sent += 1;
        let radius = u8::try_from(radius).unwrap_or(u8::MAX);
        cx.send(node, Msg::Probe(ChordProbe { id, radius }));
    }

    /// A member asks. For its neighbours this node asks them, and answers when they have, or in time.
    fn on_probe(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, probe: ChordProbe) {
        let me = cx.me().clone();
        let own = self.heard.get(&me).map(|heard| (me.clone(), heard.sample));
        let own: Vec<_> = own.into_iter().collect();
        // More than this node would ask for itself is not asked for others.
        let radius = usize::from(probe.radius).min(cx.config().load.chord_neighbors);
        let view = Arc::clone(cx.view());
        let asked = match radius {
            0 => Vec::new(),
            _ => ring_neighbors(&view, &me, radius),
        };
        let Some(place) = self.probes.begin(from, probe.id, own) else {
            cx.counters().probes_refused += 1;
            return;
        };
        for node in &asked {
            self.probe(cx, node, 0, Some(from));
        }
        if asked.is_empty() {
            return self.answer(cx, from);
        }
        let due = cx.mono() + cx.config().load.chord_timeout / 2;
        cx.wake(Timer::NeighborsDue(place), due);
    }

    /// A member answers.
    fn on_reply(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, reply: ChordReply) {
        if !self.probes.has_asked(reply.id) {
            cx.reject(from, Rejection::Unexpected { what: "chord reply" });
            return;
        }
        let Some(probe) = self.probes.answered(from, reply.id) else {
            cx.counters().replies_late += 1;
            return;
        };
        let sample_of = |node: &UniqueAddress| {
            let found = reply.samples.iter().find(|(of, _)| of == node);
            found.cloned()
        };
        if let Some(asker) = probe.asker {
            if let Some(collected) = self.probes.add(&asker, reply.id, sample_of(from)) {
                self.send_reply(cx, &asker, collected);
            }
            return;
        }
        let view = Arc::clone(cx.view());
        let near = ring_neighbors(&view, from, probe.radius);
        let parts: Arc<[PartLoad]> = reply.parts.as_slice().into();
        for (node, sample) in reply.samples {
            if node == *from {
                cx.counters().samples_taken += 1;
                self.take(cx, &node, sample, Some(Arc::clone(&parts)));
            } else if node != *cx.me() && near.contains(&node) {
                cx.counters().samples_taken += 1;
                self.take(cx, &node, sample, None);
            } else {
                cx.counters().samples_ignored += u64::from(node != *cx.me());
            }
        }
    }

    /// Answers a member with what is known by now.
    fn answer(&mut self, cx: &mut Cx<'_>, asker: &UniqueAddress) {
        if let Some(collected) = self.probes.finish(asker) {
            self.send_reply(cx, asker, collected);
        }
    }

    fn send_reply(&self, cx: &mut Cx<'_>, asker: &UniqueAddress, collected: CollectedLoad) {
        let CollectedLoad { place, reply } = collected;
        cx.cancel(Timer::NeighborsDue(place));
        cx.counters().probes_answered += 1;
        let parts = self.own.parts().to_vec();
        cx.send(asker, Msg::Reply(ChordReply { parts, ..reply }));
    }
}

/// The members among which load is exchanged: the full ones of this node's data center, in their order.
fn ring(view: &View) -> impl Iterator<Item = &Member> {
    let own = view.self_member().map(Member::data_center);
    let members = view.members().iter();
    members.filter(move |member| own == Some(member.data_center()) && may_act(member.status))
}

fn is_on_ring(view: &View, node: &UniqueAddress) -> bool {
    let own = view.self_member().map(Member::data_center);
    view.member(node)
        .is_some_and(|member| own == Some(member.data_center()) && may_act(member.status))
}

/// The neighbours of a member on either side; nobody if it is not on the ring.
fn ring_neighbors(view: &View, node: &UniqueAddress, on_each_side: usize) -> Vec<UniqueAddress> {
    let ring: Vec<&UniqueAddress> = ring(view).map(|member| &member.node).collect();
    let Ok(index) = ring.binary_search(&node) else {
        return Vec::new();
    };
    let near = neighbors(ring.len(), index + 1, on_each_side).into_iter();
    near.filter_map(|position| ring.get(position - 1).copied().cloned())
        .collect()
}

/// Who decides for others where things are: the leader, and the oldest of each role, which coordinates what
/// has that role.
fn deciders(view: &View) -> OrderedSet<UniqueAddress> {
    let mut found: OrderedSet<UniqueAddress> = view.leader().cloned().into_iter().collect();
    let roles: OrderedSet<_> = ring(view)
        .flat_map(|member| member.roles.as_slice().iter())
        .collect();
    for role in roles.into_iter().map(Some).chain([None]) {
        found.extend(oldest(view, role).map(|member| member.node.clone()));
    }
    found
}

#[cfg(test)]
mod tests;
