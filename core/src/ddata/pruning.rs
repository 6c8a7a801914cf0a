//! Forgetting who contributed what, once a node is removed. It is announced to all; when all know, it is said
//! when it ends; then every replica on its own gives what stands under that name to nobody. Nothing happens
//! while anybody is unreachable. Never moves anything before the end. Spec: sharding 1.12 (pruning), 10.8;
//! `docs/adr/0012`.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::Replicator;
use super::measure::envelope_len;
use super::protocol::Event;
use super::replicas::Replicas;
use super::state::key::Key;
use super::state::{DataEnvelope, Pruning};
use crate::ddata::Cx;
use crate::ident::UniqueAddress;
use crate::ordered::{OrderedMap, OrderedSet};
use crate::time::Instant;
use crate::view::View;

/// Removed nodes that are remembered: as many as there are tombstones. Past it the rest waits for the next
/// look.
const DEPARTED_MAX: usize = 10_000;

/// Who was removed, and how much time has passed in which everybody could hear of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Departed {
    /// By the clock below.
    since: OrderedMap<UniqueAddress, Duration>,
    /// Time in which nobody was unreachable.
    all_reachable: Duration,
    /// Until when that is counted, and whether it was running.
    counted: Option<(Instant, bool)>,
    /// When each marker was first found to have ended, by the clock above. A wall clock that jumps ends it
    /// here before others may have heard of it: they get the time that everything gets to spread.
    ended: OrderedMap<(Key, UniqueAddress), Duration>,
}

impl Departed {
    pub(super) fn on_view_changed(&mut self, now: Instant, all_reachable: bool, before: &View, after: &View) {
        self.count(now, all_reachable);
        for member in after.gone_since(before) {
            self.add(&member.node);
        }
    }

    /// Lets the clock run up to now.
    fn count(&mut self, now: Instant, all_reachable: bool) {
        if let Some((then, true)) = self.counted {
            self.all_reachable += now.since(then);
        }
        self.counted = Some((now, all_reachable));
    }

    /// Time until now in which this node was away is none in which anything spread.
    pub(super) const fn skip(&mut self, now: Instant) {
        self.counted = Some((now, false));
    }

    fn add(&mut self, node: &UniqueAddress) {
        if self.since.len() < DEPARTED_MAX {
            self.since.entry(node.clone()).or_insert(self.all_reachable);
        }
    }

    /// Those whose last changes have had time to spread.
    fn ripe(&self, after: Duration) -> OrderedSet<UniqueAddress> {
        let ripe = self
            .since
            .iter()
            .filter(|(_, since)| self.is_over(**since, after));
        ripe.map(|(node, _)| node.clone()).collect()
    }

    fn is_over(&self, since: Duration, after: Duration) -> bool {
        self.all_reachable.saturating_sub(since) > after
    }

    /// Up to when a key is settled: the latest of its markers that ended so long ago. `ended` is all of them.
    fn settles(&mut self, key: &Key, ended: Vec<(UniqueAddress, u64)>, after: Duration) -> Option<u64> {
        let mut until = None;
        for (node, obsolete_at_ms) in ended {
            let now = self.all_reachable;
            let since = *self.ended.entry((key.clone(), node)).or_insert(now);
            if self.is_over(since, after) {
                until = until.max(Some(obsolete_at_ms));
            }
        }
        until
    }
}

/// What one look finds to do for a key.
enum PruningStep {
    Start(UniqueAddress),
    Perform(UniqueAddress),
    Abandon(UniqueAddress),
    Settle(u64),
}

impl Replicator {
    pub(super) fn on_pruning_tick(&mut self, cx: &mut Cx<'_>) {
        self.durable.note_alive();
        let view = Arc::clone(cx.view());
        let replicas = Replicas::new(&view, &cx.config().ddata);
        let all_reachable = replicas.all_reachable();
        self.departed.count(cx.mono(), all_reachable);
        if !all_reachable {
            return;
        }
        let leads = replicas.i_lead();
        if leads {
            self.notice_strangers(&view);
        }
        let told: OrderedSet<UniqueAddress> = replicas.told().cloned().collect();
        let ripe = self.departed.ripe(cx.config().ddata.max_pruning_dissemination);
        let dissemination = cx.config().ddata.max_pruning_dissemination;
        let now_ms = cx.now().unix_ms;
        let mut steps: Vec<(Key, PruningStep)> = Vec::new();
        for (key, entry) in self.entries.iter() {
            let durable = cx.config().ddata.is_durable(key);
            let may_start = leads && (!durable || has_quorate_stores(cx, &view));
            let found = steps_for(
                cx.me(),
                &view,
                &entry.envelope,
                Removals {
                    told: &told,
                    ripe: &ripe,
                },
                may_start,
            );
            steps.extend(found.into_iter().map(|step| (key.clone(), step)));
            let ended = ended(&entry.envelope, now_ms);
            if let Some(until_ms) = self.departed.settles(key, ended, dissemination) {
                steps.push((key.clone(), PruningStep::Settle(until_ms)));
            }
        }
        for (key, step) in steps {
            self.take_step(cx, &key, step);
        }
        let named: OrderedSet<UniqueAddress> = self.named_nodes();
        self.departed.since.retain(|node, _| named.contains(node));
        let entries = &self.entries;
        self.departed.ended.retain(|(key, node), _| {
            let held = entries.get(key);
            held.is_some_and(|held| held.envelope.pruning.contains_key(node))
        });
    }

    /// Nodes that values name although they are no members and nobody was seen leaving: of an earlier life of
    /// the cluster.
    fn notice_strangers(&mut self, view: &View) {
        for node in self.named_nodes() {
            if view.member(&node).is_none() {
                self.departed.add(&node);
            }
        }
    }

    fn named_nodes(&self) -> OrderedSet<UniqueAddress> {
        let mut named = OrderedSet::new();
        for (_, entry) in self.entries.iter() {
            if let Some(data) = &entry.envelope.data {
                named.extend(data.nodes());
            }
            named.extend(entry.envelope.deltas.keys().cloned());
        }
        named
    }

    fn take_step(&mut self, cx: &mut Cx<'_>, key: &Key, step: PruningStep) {
        let Some(entry) = self.entries.get(key) else {
            return;
        };
        let used = entry.used;
        let Some(mut envelope) = self.entries.take(key) else {
            return;
        };
        match step {
            PruningStep::Start(node) => envelope.start_pruning(&node, cx.me()),
            PruningStep::Abandon(node) => envelope.abandon_pruning(|of, _| *of == node),
            PruningStep::Perform(node) => {
                let until_ms = cx.now().unix_ms.saturating_add(marker_life_ms(cx, key));
                envelope.perform_pruning(&node, until_ms);
            }
            PruningStep::Settle(until_ms) => {
                let nodes = envelope.settle(until_ms);
                self.on_settled(cx, key, &mut envelope, nodes);
            }
        }
        let bytes = envelope_len(&envelope);
        self.changed(cx, key, envelope, bytes, used);
    }

    /// What some nodes contributed to a key has become nobody's here. What this node has logged of it is
    /// about the value as it was before: whoever lacks that needs the whole value.
    pub(super) fn on_settled(
        &mut self,
        cx: &mut Cx<'_>,
        key: &Key,
        envelope: &mut DataEnvelope,
        nodes: Vec<UniqueAddress>,
    ) {
        let _ = self.log_change(cx, key, envelope, None);
        for node in nodes {
            cx.counters().pruned += 1;
            let key = key.clone();
            cx.notify(Event::Pruned { key, node });
        }
    }
}

/// Whether nobody is left who could do what a marker announces. It must go everywhere: the marker of a lower
/// owner wins where two meet, and a later life of an address may be the higher one.
pub(super) fn is_abandoned(view: &View, owner: &UniqueAddress) -> bool {
    view.member(owner).is_none()
}

/// Who has to have seen a marker before it is performed, and whose time of being removed is long enough ago.
#[derive(Clone, Copy)]
struct Removals<'a> {
    told: &'a OrderedSet<UniqueAddress>,
    ripe: &'a OrderedSet<UniqueAddress>,
}

/// What is to be done for one value before its markers end.
fn steps_for(
    me: &UniqueAddress,
    view: &View,
    envelope: &DataEnvelope,
    Removals { told, ripe }: Removals<'_>,
    may_start: bool,
) -> Vec<PruningStep> {
    let mut steps = Vec::new();
    for (node, marker) in &envelope.pruning {
        match marker {
            Pruning::Initialized { owner, seen } => {
                if owner == me && told.iter().all(|node| seen.contains(node)) {
                    steps.push(PruningStep::Perform(node.clone()));
                } else if is_abandoned(view, owner) {
                    let again = may_start && ripe.contains(node);
                    let step = if again {
                        PruningStep::Start
                    } else {
                        PruningStep::Abandon
                    };
                    steps.push(step(node.clone()));
                }
            }
            Pruning::Performed { .. } => {}
        }
    }
    if may_start {
        let unmarked = ripe.iter().filter(|node| !envelope.pruning.contains_key(*node));
        let named = unmarked.filter(|node| view.member(node).is_none() && envelope.mentions(node));
        steps.extend(named.map(|node| PruningStep::Start(node.clone())));
    }
    steps
}

/// The markers of a value that have ended by a wall clock, with their ends.
fn ended(envelope: &DataEnvelope, now_ms: u64) -> Vec<(UniqueAddress, u64)> {
    let ended = envelope.pruning.iter().filter_map(|(node, marker)| match marker {
        Pruning::Performed { obsolete_at_ms } if *obsolete_at_ms <= now_ms => {
            Some((node.clone(), *obsolete_at_ms))
        }
        Pruning::Performed { .. } | Pruning::Initialized { .. } => None,
    });
    ended.collect()
}

/// Whether as many replicas are there as the cluster needs to begin: before that, the disks of others may
/// hold what this one lacks.
fn has_quorate_stores(cx: &Cx<'_>, view: &View) -> bool {
    let electorate = Replicas::new(view, &cx.config().ddata).electorate();
    electorate.members >= cx.config().membership.min_nr_of_members
}

fn marker_life_ms(cx: &Cx<'_>, key: &Key) -> u64 {
    let settings = &cx.config().ddata;
    let life = if settings.is_durable(key) {
        settings.durable_pruning_marker_time_to_live
    } else {
        settings.pruning_marker_time_to_live
    };
    u64::try_from(life.as_millis()).unwrap_or(u64::MAX)
}
