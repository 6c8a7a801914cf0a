//! What machines say to each other, and who hears it. One slot per statement: saying it again before it was
//! heard merges the two, so the bound of the queue is the number of statements.

use alloc::sync::Arc;

use crate::drain::DrainPart;
use crate::ident::UniqueAddress;
use crate::ordered::{OrderedMap, OrderedSet};
use crate::paths::state::table::PathTable;
use crate::sharding::protocol::registry::{Judgement, RegistrationFields, RegistrationId};
use crate::sharding::state::fields::FieldDifferences;
use crate::store::LogName;
use crate::time::Instant;
use crate::token::Token;
use crate::view::View;

/// A statement of one machine to the others.
#[derive(Clone, Debug)]
pub(crate) enum Signal {
    /// Said by membership; heard by the detector, the resolver, the replicator, the logs, load, the paths and
    /// the room of age. `after` is the picture when it is heard.
    ViewChanged {
        /// The picture when the machines heard last.
        before: Arc<View>,
        /// The picture now.
        after: Arc<View>,
    },
    /// Said by the room of age once it knows who acts for whom in the new picture; heard by everything that
    /// acts for others: regions, coordinators, the ask table and singletons.
    AgesChanged {
        /// The picture when they heard last.
        before: Arc<View>,
        /// The picture now.
        after: Arc<View>,
    },
    /// Said by the room of age: the removal margin of a departed member is over; heard as `AgesChanged` is.
    MarginOver,
    /// Said by membership; heard by the detector: this node sent a state or the version of one.
    GossipHeard(UniqueAddress),
    /// Said by the detector; heard by membership: whom I now observe as silent or back.
    Verdicts(Verdicts),
    /// Said by the resolver; heard by membership.
    DownDecided(OrderedSet<UniqueAddress>),
    /// Said by membership when this node is leaving; heard by the part that is to hand over now.
    DrainRequested(DrainPart),
    /// Said by a part that has handed over; heard by membership.
    Drained(DrainPart),
    /// Said by who speaks to a peer that hears nothing any more; heard by membership: it is to be refused for
    /// good.
    Quarantine(UniqueAddress),
    /// Said by the detector when this process stood still, or a member refuses it; heard by the resolver and
    /// by everything that acts for others: regions, coordinators, the registry of kinds, singletons.
    Paused {
        /// The last moment it is known to have run.
        since: Instant,
    },
    /// Said by singletons and the keyed store; heard by the registry, which asks the cluster: this node has
    /// one with such fields, or has it no more.
    Registered(RegistrationId, Option<RegistrationFields>),
    /// Said by the registry; heard by whose it is: what the cluster makes of one of this node.
    Judged(RegistrationId, Judgement),
    /// Said by the registry of the oldest member; heard by whose it is, which tells users: another node's was
    /// refused.
    RefusedOn(RegistrationId, UniqueAddress, FieldDifferences),
    /// Said by logs; heard by sharding, whose coordinators give placements away: what is placed with this
    /// token does not get its log, which is promised to one of a later placement.
    PlacementOutdone {
        /// The log.
        log: LogName,
        /// The placement's token.
        placement: Token,
        /// What the log is promised to.
        held: Token,
    },
    /// Said by paths; heard by membership, which gossips it: what is to be in the table of paths.
    PathsWritten(Arc<PathTable>),
    /// Said by the detector: after a pause, a member reached since then still counts this node in; heard as
    /// `Paused` is.
    StillMember,
    /// Said by membership; heard by the detector: a member says that this node was removed.
    ToldRemoved(UniqueAddress),
    /// Said by the detector; heard by membership: who lives is to be seen from who sees a new state.
    RollCall,
    /// Said by the detector; heard by membership: to whom no link gets through now, because one of its ends
    /// refuses it.
    LinksCut(OrderedSet<UniqueAddress>),
    /// Said by the detector; heard by membership: a member refused this node, and no other counts it in.
    Disowned,
}

/// Changes of what this node itself observes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdicts {
    /// Members that became silent.
    pub(crate) unreachable: OrderedSet<UniqueAddress>,
    /// Members that answer again.
    pub(crate) reachable: OrderedSet<UniqueAddress>,
}

/// Statements not heard yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signals {
    /// Whether there may be any. Nearly always there is none, and each input asks.
    any: bool,
    said: PendingSignals,
}

#[derive(Clone, Debug, Default)]
struct PendingSignals {
    view_before: Option<Arc<View>>,
    ages_before: Option<Arc<View>>,
    margin_over: bool,
    gossip_heard: Option<UniqueAddress>,
    verdicts: Option<Verdicts>,
    down: Option<OrderedSet<UniqueAddress>>,
    drain_requested: Option<DrainPart>,
    drained: OrderedSet<DrainPart>,
    quarantine: OrderedSet<UniqueAddress>,
    registered: OrderedMap<RegistrationId, Option<RegistrationFields>>,
    judged: OrderedMap<RegistrationId, Judgement>,
    refused_on: OrderedMap<(RegistrationId, UniqueAddress), FieldDifferences>,
    outdone: OrderedMap<LogName, (Token, Token)>,
    paths_written: Option<Arc<PathTable>>,
    paused: Option<Instant>,
    still_member: bool,
    told_removed: OrderedSet<UniqueAddress>,
    links_cut: Option<OrderedSet<UniqueAddress>>,
    roll_call: bool,
    disowned: bool,
}

impl Signals {
    /// Where somebody says something.
    const fn say(&mut self) -> &mut PendingSignals {
        self.any = true;
        &mut self.said
    }

    /// Says that the picture changed away from `before`; the oldest unheard `before` is kept.
    pub(crate) fn view_changed(&mut self, before: Arc<View>) {
        self.say().view_before.get_or_insert(before);
    }

    /// Says that the ages are those of the picture now; the oldest unheard `before` is kept.
    pub(crate) fn ages_changed(&mut self, before: Arc<View>) {
        self.say().ages_before.get_or_insert(before);
    }

    /// Says that the work of a departed member is free.
    pub(crate) const fn margin_over(&mut self) {
        self.say().margin_over = true;
    }

    /// Says that `from` gossips. The detector asks whether anybody does, so the last one is enough.
    pub(crate) fn gossip_heard(&mut self, from: UniqueAddress) {
        self.say().gossip_heard = Some(from);
    }

    /// Says what the detector found; a later verdict about a node replaces an unheard earlier one.
    pub(crate) fn verdicts(&mut self, new: Verdicts) {
        let slot = self.say().verdicts.get_or_insert_with(Verdicts::default);
        for node in new.unreachable {
            slot.reachable.remove(&node);
            slot.unreachable.insert(node);
        }
        for node in new.reachable {
            slot.unreachable.remove(&node);
            slot.reachable.insert(node);
        }
    }

    /// Says whom the resolver wants down.
    pub(crate) fn down_decided(&mut self, nodes: OrderedSet<UniqueAddress>) {
        self.say().down.get_or_insert_with(OrderedSet::new).extend(nodes);
    }

    /// Says that this part is to hand over. One is asked after the other, so a later one replaces an unheard
    /// earlier one.
    pub(crate) fn request_drain(&mut self, part: DrainPart) {
        self.say().drain_requested = Some(part);
    }

    /// Says that a part has handed over.
    pub(crate) fn drained(&mut self, part: DrainPart) {
        self.say().drained.insert(part);
    }

    /// Says that a peer is to be refused for good.
    pub(crate) fn quarantine(&mut self, node: UniqueAddress) {
        self.say().quarantine.insert(node);
    }

    /// Says what this node has registered; the latest counts.
    pub(crate) fn registered(&mut self, id: RegistrationId, fields: Option<RegistrationFields>) {
        self.say().registered.insert(id, fields);
    }

    /// Says what was decided about a registration of this node; the latest counts.
    pub(crate) fn judged(&mut self, id: RegistrationId, judgement: Judgement) {
        self.say().judged.insert(id, judgement);
    }

    /// Says in what another node's registration differs.
    pub(crate) fn refused_on(
        &mut self,
        id: RegistrationId,
        node: UniqueAddress,
        difference: FieldDifferences,
    ) {
        self.say().refused_on.insert((id, node), difference);
    }

    /// Says that a log is promised to a later placement than the one that opens it; the latest counts.
    pub(crate) fn placement_outdone(&mut self, log: LogName, placement: Token, held: Token) {
        self.say().outdone.insert(log, (placement, held));
    }

    /// Says what is to be gossiped of paths; what was said before and not heard yet stays in it.
    pub(crate) fn paths_written(&mut self, table: Arc<PathTable>) {
        let slot = &mut self.say().paths_written;
        *slot = Some(match slot.take() {
            Some(before) => before.merged(&table),
            None => table,
        });
    }

    /// Says that this process stood still from `since` until now. What was said before about it no longer
    /// holds.
    pub(crate) fn paused(&mut self, since: Instant) {
        let said = self.say();
        said.paused = Some(since);
        said.still_member = false;
    }

    /// Says that the pause did no harm.
    pub(crate) fn still_member(&mut self) {
        self.say().still_member = true;
    }

    /// Says that a member takes this node for removed.
    pub(crate) fn told_removed(&mut self, by: UniqueAddress) {
        self.say().told_removed.insert(by);
    }

    /// Says to whom no link gets through; the latest counts.
    pub(crate) fn links_cut(&mut self, cut: OrderedSet<UniqueAddress>) {
        self.say().links_cut = Some(cut);
    }

    /// Says that everybody is to see a new state.
    pub(crate) const fn roll_call(&mut self) {
        self.say().roll_call = true;
    }

    /// Says that this node has to end.
    pub(crate) const fn disowned(&mut self) {
        self.say().disowned = true;
    }

    /// Takes the next statement; the picture before all that speaks of it, so that it is heard with it in
    /// mind.
    pub(crate) fn take(&mut self, now: &Arc<View>) -> Option<Signal> {
        if !self.any {
            return None;
        }
        let next = self.said.take(now);
        self.any = next.is_some();
        next
    }
}

impl PendingSignals {
    fn take(&mut self, now: &Arc<View>) -> Option<Signal> {
        if let Some(from) = self.gossip_heard.take() {
            return Some(Signal::GossipHeard(from));
        }
        if let Some(before) = self.view_before.take() {
            return Some(Signal::ViewChanged {
                before,
                after: Arc::clone(now),
            });
        }
        if let Some(before) = self.ages_before.take() {
            return Some(Signal::AgesChanged {
                before,
                after: Arc::clone(now),
            });
        }
        if core::mem::take(&mut self.margin_over) {
            return Some(Signal::MarginOver);
        }
        if let Some(since) = self.paused.take() {
            return Some(Signal::Paused { since });
        }
        if core::mem::take(&mut self.still_member) {
            return Some(Signal::StillMember);
        }
        if let Some(by) = self.told_removed.pop_first() {
            return Some(Signal::ToldRemoved(by));
        }
        if core::mem::take(&mut self.disowned) {
            return Some(Signal::Disowned);
        }
        if let Some(cut) = self.links_cut.take() {
            return Some(Signal::LinksCut(cut));
        }
        if core::mem::take(&mut self.roll_call) {
            return Some(Signal::RollCall);
        }
        if let Some(verdicts) = self.verdicts.take() {
            return Some(Signal::Verdicts(verdicts));
        }
        if let Some(nodes) = self.down.take() {
            return Some(Signal::DownDecided(nodes));
        }
        if let Some(table) = self.paths_written.take() {
            return Some(Signal::PathsWritten(table));
        }
        if let Some(part) = self.drain_requested.take() {
            return Some(Signal::DrainRequested(part));
        }
        if let Some(node) = self.quarantine.pop_first() {
            return Some(Signal::Quarantine(node));
        }
        if let Some((id, fields)) = self.registered.pop_first() {
            return Some(Signal::Registered(id, fields));
        }
        if let Some((log, (placement, held))) = self.outdone.pop_first() {
            return Some(Signal::PlacementOutdone { log, placement, held });
        }
        if let Some((id, judgement)) = self.judged.pop_first() {
            return Some(Signal::Judged(id, judgement));
        }
        if let Some(((id, node), difference)) = self.refused_on.pop_first() {
            return Some(Signal::RefusedOn(id, node, difference));
        }
        self.drained.pop_first().map(Signal::Drained)
    }
}
