//! What only one machine may do: say its statements to the others, and have the host do what is its business.
//! A machine that is not named here cannot. Decides nothing.

use alloc::boxed::Box;
use alloc::sync::Arc;

use super::{
    Cx, OfDdata, OfDetector, OfDowning, OfJournal, OfKv, OfLoad, OfMembership, OfOldest, OfPaths, OfSharding,
    OfSingleton,
};
use crate::drain::DrainPart;
use crate::effect::{AllocationQuestion, Effect, HostOrder};
use crate::event::ShardingEvent;
use crate::ident::UniqueAddress;
use crate::input::{Command, JournalCommand, StoreAsk};
use crate::kv::state::bucket::BucketName;
use crate::kv::state::settings::BucketFields;
use crate::lease::protocol::LeaseOrder;
use crate::load::state::sample::Loads;
use crate::oldest::state::Succession;
use crate::ordered::OrderedSet;
use crate::owner::Requester;
use crate::paths::state::table::PathTable;
use crate::sharding::protocol::registry::{Judgement, RegistrationFields, RegistrationId};
use crate::sharding::state::fields::FieldDifferences;
use crate::sharding::state::ids::KindId;
use crate::signal::Verdicts;
use crate::singleton::state::SingletonId;
use crate::singleton::state::fields::SingletonFields;
use crate::store::{LogName, StoreRequest};
use crate::time::Instant;
use crate::token::Token;
use crate::view::View;

impl Cx<'_, OfMembership> {
    /// Replaces the picture.
    pub(crate) fn publish(&mut self, view: View) {
        let before = core::mem::replace(self.view, Arc::new(view));
        self.signals.view_changed(before);
    }

    /// Says that `from` gossips with this node.
    pub(crate) fn say_gossip_heard(&mut self, from: UniqueAddress) {
        self.signals.gossip_heard(from);
    }

    /// Says that a member takes this node for removed.
    pub(crate) fn say_told_removed(&mut self, by: UniqueAddress) {
        self.signals.told_removed(by);
    }

    /// Says that this node is leaving, and that this part of it has to be drained now.
    pub(crate) fn request_drain(&mut self, part: DrainPart) {
        self.signals.request_drain(part);
    }

    /// Has the host refuse links of an incarnation.
    pub(crate) fn quarantine(&mut self, node: UniqueAddress) {
        self.push(Effect::Quarantine(node));
    }
}

impl Cx<'_, OfDetector> {
    /// Says who is silent and who is back.
    pub(crate) fn say_verdicts(&mut self, verdicts: Verdicts) {
        self.signals.verdicts(verdicts);
    }

    /// Says that this process stood still since then, or is refused since now.
    pub(crate) fn say_paused(&mut self, since: Instant) {
        self.signals.paused(since);
    }

    /// Says that this node is a member still.
    pub(crate) fn say_still_member(&mut self) {
        self.signals.still_member();
    }

    /// Says to whom no link gets through.
    pub(crate) fn say_links_cut(&mut self, cut: OrderedSet<UniqueAddress>) {
        self.signals.links_cut(cut);
    }

    /// Says that everybody is to see a new state.
    pub(crate) fn say_roll_call(&mut self) {
        self.signals.roll_call();
    }

    /// Says that nobody counts this node in.
    pub(crate) fn say_disowned(&mut self) {
        self.signals.disowned();
    }
}

impl Cx<'_, OfJournal> {
    /// Says that a log is promised to a later placement than the one that opens it.
    pub(crate) fn say_placement_outdone(&mut self, log: LogName, placement: Token, held: Token) {
        self.signals.placement_outdone(log, placement, held);
    }
}

impl Cx<'_, OfDowning> {
    /// Says who has to go.
    pub(crate) fn say_down_decided(&mut self, nodes: OrderedSet<UniqueAddress>) {
        self.signals.down_decided(nodes);
    }

    /// Asks the keeper of a lease for something; its report comes home to the resolver.
    pub(crate) fn order_lease(&mut self, order: LeaseOrder) {
        self.push(Effect::Lease(Requester::Resolver, order));
    }
}

impl Cx<'_, OfOldest> {
    /// Replaces who acts for whom.
    pub(crate) fn publish_succession(&mut self, succession: Succession) {
        *self.succession = Arc::new(succession);
    }

    /// Says that the ages are those of the picture now.
    pub(crate) fn say_ages_changed(&mut self, before: Arc<View>) {
        self.signals.ages_changed(before);
    }

    /// Says that the work of a departed member is free.
    pub(crate) fn say_margin_over(&mut self) {
        self.signals.margin_over();
    }
}

impl Cx<'_, OfLoad> {
    /// Replaces what is known of the load of nodes.
    pub(crate) fn publish_loads(&mut self, loads: Loads) {
        *self.loads = Arc::new(loads);
    }
}

impl Cx<'_, OfSharding> {
    /// Tells users a fact about a kind.
    pub(crate) fn notify_sharding(&mut self, kind: KindId, event: ShardingEvent) {
        self.notify((kind, event));
    }

    /// Says that nothing runs here any more.
    pub(crate) fn say_drained(&mut self) {
        self.signals.drained(DrainPart::Sharding);
    }

    /// Asks another machine of this node, which keeps what must outlive entities; its answer comes home to
    /// who asks.
    pub(crate) fn ask_store(&mut self, ask: StoreAsk, command: Command) {
        self.outbox.asked.push_back((ask, command));
    }

    /// Says that a peer is to be refused for good.
    pub(crate) fn say_quarantine(&mut self, node: UniqueAddress) {
        self.signals.quarantine(node);
    }

    /// Says what the cluster makes of a singleton or a bucket of this node.
    pub(crate) fn say_judged(&mut self, id: RegistrationId, judgement: Judgement) {
        self.signals.judged(id, judgement);
    }

    /// Says that another node's singleton or bucket was refused, and in what it differs.
    pub(crate) fn say_refused_on(
        &mut self,
        id: RegistrationId,
        node: UniqueAddress,
        difference: FieldDifferences,
    ) {
        self.signals.refused_on(id, node, difference);
    }

    /// Asks the keeper of a lease for something; its report comes home to sharding.
    pub(crate) fn order_lease(&mut self, order: LeaseOrder) {
        self.push(Effect::Lease(Requester::Sharding, order));
    }

    /// Has the host do something with an entity.
    pub(crate) fn order(&mut self, order: HostOrder) {
        self.push(Effect::Host(Requester::Sharding, order));
    }

    /// Asks the application where shards should be; its answer is a command.
    pub(crate) fn ask_allocation(&mut self, question: Box<AllocationQuestion>) {
        self.push(Effect::Allocate(question));
    }
}

impl Cx<'_, OfDdata> {
    /// Says that nothing of this node is only here.
    pub(crate) fn say_drained(&mut self) {
        self.signals.drained(DrainPart::Ddata);
    }

    /// Asks the node's store for something; its answer comes home to the replicator.
    pub(crate) fn order_store(&mut self, request: StoreRequest) {
        self.push(Effect::Store(Requester::Ddata, request));
    }
}

impl Cx<'_, OfJournal> {
    /// Asks the node's store for something; its answer comes home to the quorum logs.
    pub(crate) fn order_store(&mut self, request: StoreRequest) {
        self.push(Effect::Store(Requester::Journal, request));
    }
}

impl Cx<'_, OfKv> {
    /// Says that no range is this node's any more, or that nobody else can have one.
    pub(crate) fn say_drained(&mut self) {
        self.signals.drained(DrainPart::Kv);
    }

    /// Asks the node's store for something; its answer comes home to the keyed store.
    pub(crate) fn order_store(&mut self, request: StoreRequest) {
        self.push(Effect::Store(Requester::Kv, request));
    }

    /// Says which settings a bucket of this node has, so that the cluster is asked; `None`: it is none of
    /// this node's any more.
    pub(crate) fn say_registered(&mut self, bucket: BucketName, fields: Option<BucketFields>) {
        let fields = fields.map(RegistrationFields::Bucket);
        self.signals.registered(RegistrationId::Bucket(bucket), fields);
    }

    /// Asks the quorum logs of this node, as who has opened one under this number; the answer comes home to
    /// the keyed store.
    pub(crate) fn ask_log(&mut self, opener: u64, command: JournalCommand) {
        self.outbox.log_asked.push_back((opener, command));
    }
}

impl Cx<'_, OfSingleton> {
    /// Says that nothing runs here any more.
    pub(crate) fn say_drained(&mut self) {
        self.signals.drained(DrainPart::Singletons);
    }

    /// Says which fields a singleton of this node has, so that the cluster is asked; `None`: it is none of
    /// this node's any more.
    pub(crate) fn say_registered(&mut self, singleton: SingletonId, fields: Option<SingletonFields>) {
        let fields = fields.map(RegistrationFields::Singleton);
        self.signals
            .registered(RegistrationId::Singleton(singleton), fields);
    }

    /// Has the host do something with an instance.
    pub(crate) fn order(&mut self, order: HostOrder) {
        self.push(Effect::Host(Requester::Singleton, order));
    }

    /// Asks the keeper of a lease for something; its report comes home to the singletons.
    pub(crate) fn order_lease(&mut self, order: LeaseOrder) {
        self.push(Effect::Lease(Requester::Singleton, order));
    }

    /// Asks the node's store for something; its answer comes home to the singletons.
    pub(crate) fn order_store(&mut self, request: StoreRequest) {
        self.push(Effect::Store(Requester::Singleton, request));
    }
}

impl Cx<'_, OfPaths> {
    /// Says that nothing runs here any more.
    pub(crate) fn say_drained(&mut self) {
        self.signals.drained(DrainPart::Paths);
    }

    /// Says what is to be gossiped of paths, beside what is gossiped already.
    pub(crate) fn write_table(&mut self, table: Arc<PathTable>) {
        self.signals.paths_written(table);
    }

    /// Has the host do something with an instance.
    pub(crate) fn order(&mut self, order: HostOrder) {
        self.push(Effect::Host(Requester::Path, order));
    }
}
