//! Taking over what removed nodes contributed. Starts when their last changes had time to reach everybody, is done by one
//! owner once all know, and leaves a marker by which late data is told apart. Nothing happens while anybody is
//! unreachable. Spec: sharding 1.12 (pruning), 10.8.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::admission::envelope_len;
use super::protocol::Event;
use super::replicas::Replicas;
use super::state::key::Key;
use super::state::{Envelope, Pruning};
use super::{Replicator, wall_ms};
use crate::ddata::Cx;
use crate::ident::UniqueAddress;
use crate::time::Instant;
use crate::view::View;

/// Removed nodes that are remembered: as many as there are tombstones. Past it the rest waits for the next look.
const DEPARTED_MAX: usize = 10_000;

/// Late data is taken over at most so often beside one marker; what comes then waits until the marker has gone.
const FOLDS_MAX: usize = 64;

/// Who was removed, and how much time has passed in which everybody could hear of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Departed {
    /// By the clock below.
    since: BTreeMap<UniqueAddress, Duration>,
    /// Time in which nobody was unreachable.
    all_reachable: Duration,
    /// Until when that is counted, and whether it was running.
    counted: Option<(Instant, bool)>,
}

impl Departed {
    pub(super) fn on_view_changed(&mut self, now: Instant, all_reachable: bool, before: &View, after: &View) {
        self.count(now, all_reachable);
        if core::ptr::eq(before.members(), after.members()) {
            return;
        }
        let gone = before
            .members()
            .iter()
            .filter(|member| after.member(&member.node).is_none());
        for member in gone {
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

    fn add(&mut self, node: &UniqueAddress) {
        if self.since.len() < DEPARTED_MAX {
            self.since.entry(node.clone()).or_insert(self.all_reachable);
        }
    }

    /// Those whose last changes have had time to spread.
    fn ripe(&self, after: Duration) -> BTreeSet<UniqueAddress> {
        let ripe = self
            .since
            .iter()
            .filter(|(_, since)| self.all_reachable.saturating_sub(**since) > after);
        ripe.map(|(node, _)| node.clone()).collect()
    }
}

/// What one look finds to do for a key.
enum Step {
    Start(UniqueAddress),
    Take(UniqueAddress),
    Adopt(UniqueAddress),
    Abandon(UniqueAddress),
    Forget,
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
        let told: BTreeSet<UniqueAddress> = replicas.told().cloned().collect();
        let ripe = self.departed.ripe(cx.config().ddata.max_pruning_dissemination);
        let mut steps: Vec<(Key, Step)> = Vec::new();
        for (key, entry) in self.entries.iter() {
            let durable = cx.config().ddata.is_durable(key);
            let may_start = leads && (!durable || has_quorate_stores(cx, &view));
            let found = steps_for(
                cx.me(),
                &view,
                &entry.envelope,
                (&told, &ripe),
                (leads, may_start),
                cx.now().unix_ms,
            );
            steps.extend(found.into_iter().map(|step| (key.clone(), step)));
        }
        for (key, step) in steps {
            self.take_step(cx, &key, step);
        }
        let named: BTreeSet<UniqueAddress> = self.named_nodes();
        self.departed.since.retain(|node, _| named.contains(node));
    }

    /// Nodes that values name although they are no members and nobody was seen leaving: of an earlier life of the cluster.
    fn notice_strangers(&mut self, view: &View) {
        for node in self.named_nodes() {
            if view.member(&node).is_none() {
                self.departed.add(&node);
            }
        }
    }

    fn named_nodes(&self) -> BTreeSet<UniqueAddress> {
        let mut named = BTreeSet::new();
        for (_, entry) in self.entries.iter() {
            if let Some(data) = &entry.envelope.data {
                named.extend(data.nodes());
            }
            named.extend(entry.envelope.deltas.keys().cloned());
        }
        named
    }

    fn take_step(&mut self, cx: &mut Cx<'_>, key: &Key, step: Step) {
        let Some(entry) = self.entries.get(key) else {
            return;
        };
        let used = entry.used;
        let Some(mut envelope) = self.entries.take(key) else {
            return;
        };
        match step {
            Step::Start(node) => envelope.start_pruning(&node, cx.me()),
            Step::Adopt(node) => envelope.adopt(&node, cx.me()),
            Step::Abandon(node) => envelope.abandon_pruning(|of, _| *of == node),
            Step::Take(node) => {
                self.minting.set_now(wall_ms(cx));
                let until_ms = cx.now().unix_ms.saturating_add(marker_life_ms(cx, key));
                match envelope.prune(&node, &mut self.minting, until_ms) {
                    Ok(()) => {
                        cx.counters().pruned += 1;
                        // A later delta of this node would bring what it took over to replicas that do not know yet that
                        // it did, and count it there once more (I-64): only the whole value, with its marker, may follow.
                        let _ = self.log_change(cx, key, &mut envelope, None);
                        let key = key.clone();
                        cx.notify(Event::Pruned { key, node });
                    }
                    // Forged, and refused on every change as well; a later look tries again.
                    Err(_) => return self.entries.put_back(key, envelope),
                }
            }
            Step::Forget => {
                envelope.drop_obsolete(cx.now().unix_ms);
            }
        }
        let bytes = envelope_len(&envelope);
        self.changed(cx, key, envelope, bytes, used);
    }
}

/// Whether nobody is left who could do what a marker announces. It must go everywhere: the marker of a lower owner wins where
/// two meet, and a later life of an address may be the higher one.
pub(super) fn is_abandoned(view: &View, owner: &UniqueAddress) -> bool {
    view.member(owner).is_none()
}

/// What is to be done for one value.
fn steps_for(
    me: &UniqueAddress,
    view: &View,
    envelope: &Envelope,
    (told, ripe): (&BTreeSet<UniqueAddress>, &BTreeSet<UniqueAddress>),
    (leads, may_start): (bool, bool),
    now_ms: u64,
) -> Vec<Step> {
    let mut steps = Vec::new();
    for (node, marker) in &envelope.pruning {
        match marker {
            Pruning::Initialized { owner, seen } => {
                if owner == me && told.iter().all(|node| seen.contains(node)) {
                    steps.push(Step::Take(node.clone()));
                } else if is_abandoned(view, owner) {
                    let again = may_start && ripe.contains(node);
                    let step = if again { Step::Start } else { Step::Abandon };
                    steps.push(step(node.clone()));
                }
            }
            Pruning::Performed {
                owner,
                obsolete_at_ms,
                folds,
            } => {
                let is_late = envelope.mentions(node);
                if is_late && owner == me && folds.len() < FOLDS_MAX {
                    steps.push(Step::Take(node.clone()));
                } else if is_late && leads && view.member(owner).is_none() {
                    steps.push(Step::Adopt(node.clone()));
                } else if !is_late && *obsolete_at_ms <= now_ms {
                    steps.push(Step::Forget);
                }
            }
        }
    }
    if may_start {
        let unmarked = ripe.iter().filter(|node| !envelope.pruning.contains_key(*node));
        let named = unmarked.filter(|node| view.member(node).is_none() && envelope.mentions(node));
        steps.extend(named.map(|node| Step::Start(node.clone())));
    }
    steps
}

/// Whether as many replicas are there as the cluster needs to begin: before that, the disks of others may hold what this
/// one lacks.
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
