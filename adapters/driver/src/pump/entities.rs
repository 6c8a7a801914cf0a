//! The entities that run on this node, by kind. Does what the core orders and reports what cannot be done; decides nothing about
//! shards. Spec: sharding 1.4, 10.5.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use quorate_core::effect::{AllocationQuestion, EntityOrder, PlacementToken};
use quorate_core::input::EntityReport;
use quorate_core::sharding::ids::{EntityId, KindId, ShardId, Slot};
use quorate_core::sharding::protocol::{AllocationAnswer, AllocationDecided};

use super::slots::Slots;
use crate::allocating::Decider;
use crate::counters::{DurableCounters, FailureCounters};
use crate::listeners::Gate;
use crate::mailbox::{Delivery, Mailbox, Occasion, Reports, Start, Starter, Who};
use crate::sync::Task;

struct Registered {
    name: Arc<str>,
    starter: Option<Arc<dyn Starter>>,
    /// Who says where its shards go, where the application does.
    decider: Option<Decider>,
}

/// The table of a node's entities.
pub(crate) struct Entities {
    kinds: BTreeMap<KindId, Registered>,
    slots: Slots<(KindId, EntityId)>,
}

impl Entities {
    pub(crate) const fn new(reports: Arc<Reports>) -> Self {
        Self {
            kinds: BTreeMap::new(),
            slots: Slots::new(reports),
        }
    }

    /// Notes how entities of a kind are started; says whether the kind is new. A kind that can be started stays so when
    /// it is registered again as a proxy.
    pub(crate) fn register(
        &mut self,
        name: &Arc<str>,
        starter: Option<Arc<dyn Starter>>,
        decider: Option<Decider>,
    ) -> Option<KindId> {
        let kind = KindId::of(name);
        if let Some(known) = self.kinds.get_mut(&kind) {
            if known.name == *name && known.starter.is_none() {
                known.starter = starter;
            }
            if known.name == *name && known.decider.is_none() {
                known.decider = decider;
            }
            return None;
        }
        let name = Arc::clone(name);
        let registered = Registered {
            name,
            starter,
            decider,
        };
        self.kinds.insert(kind, registered);
        Some(kind)
    }

    /// The task that has the application say where shards of a kind go; the answer at once if there is nobody to ask.
    pub(crate) fn decide(&self, question: AllocationQuestion) -> Result<Task, AllocationAnswer> {
        let registered = self.kinds.get(&question.kind);
        match registered.and_then(|registered| registered.decider.as_ref()) {
            Some(decider) => {
                let too_late = self.slots.reports().until(question.deadline);
                Ok(decider.task(question, too_late))
            }
            None => Err(AllocationAnswer {
                kind: question.kind,
                number: question.number,
                decided: AllocationDecided::Failed,
            }),
        }
    }

    pub(crate) fn forget(&mut self, kind: KindId) {
        self.kinds.remove(&kind);
    }

    /// A kind's name, or its number where this node does not know it.
    pub(crate) fn name(&self, kind: KindId) -> Cow<'_, str> {
        match self.kinds.get(&kind) {
            Some(known) => Cow::Borrowed(&known.name),
            None => Cow::Owned(format!("{kind:?}")),
        }
    }

    /// How many run.
    pub(crate) const fn live(&self) -> u64 {
        self.slots.live()
    }

    /// How often entities failed.
    pub(crate) fn failures(&self) -> &FailureCounters {
        &self.slots.reports().failures
    }

    /// What durable entities have done.
    pub(crate) fn durable(&self) -> &DurableCounters {
        &self.slots.reports().durable
    }

    /// Whether all mailboxes together, those of singletons too, have room for more from the user links.
    pub(crate) fn has_room(&self) -> bool {
        self.slots.reports().budget.has_room()
    }

    /// The loop runs, and the node knows the time.
    pub(crate) fn beat(&self) {
        self.slots.reports().gate.beat();
    }

    /// After a pause of the process no entity and no singleton begins with a message until the node knows that it is still a
    /// member.
    pub(crate) fn gate(&self, gate: Gate) {
        let reports = self.slots.reports();
        match gate {
            Gate::Hold => reports.gate.hold(),
            Gate::Release => reports.gate.release(),
        }
    }

    /// Whether entities may not begin at the moment.
    pub(crate) fn are_held_back(&self) -> bool {
        self.slots.reports().gate.is_held()
    }

    /// Those whose handlers have held a thread for so many looks, `kind/id`; `None` for one that is gone meanwhile.
    pub(crate) fn holders(&self, looks: u64) -> Vec<Option<String>> {
        let name = |(kind, id): &(KindId, EntityId)| format!("{}/{id}", self.name(*kind).escape_debug());
        let holders = self.slots.holders(looks);
        holders.into_iter().map(|who| who.map(name)).collect()
    }

    /// Moves what entities reported to an empty `into`.
    pub(crate) fn take_reports(&self, into: &mut VecDeque<EntityReport>) {
        self.slots.take_reports(into);
    }

    /// Does what the core orders. What cannot be done is said at once.
    pub(crate) fn order(&mut self, order: EntityOrder) -> Result<Option<Task>, EntityReport> {
        match order {
            EntityOrder::Start {
                slot,
                kind,
                shard,
                entity,
                token,
            } => self.start(slot, (kind, entity), (shard, token)).map(Some),
            EntityOrder::Deliver {
                slot,
                payload,
                reply_to,
                deadline,
                chain,
            } => {
                let occasion = Occasion::of(reply_to, deadline, chain);
                let delivery = Delivery { payload, occasion };
                self.slots.deliver(slot, delivery).map(|()| None)
            }
            EntityOrder::Stop { slot } => self.slots.end(slot, Mailbox::drain).map(|()| None),
            EntityOrder::Kill { slot } => self.slots.end(slot, Mailbox::kill).map(|()| None),
        }
    }

    /// Forgets an entity whose end was reported.
    pub(crate) fn stopped(&mut self, slot: Slot) {
        self.slots.stopped(slot);
    }

    /// Stops all of them now. What to say of the asks that they have not begun with.
    pub(crate) fn kill_all(&self) -> Vec<EntityReport> {
        self.slots.kill_all()
    }

    fn start(
        &mut self,
        slot: Slot,
        (kind, id): (KindId, EntityId),
        place: (ShardId, PlacementToken),
    ) -> Result<Task, EntityReport> {
        let registered = self.kinds.get(&kind);
        let Some((name, starter)) = registered.and_then(|r| Some((&r.name, r.starter.as_ref()?))) else {
            return Err(EntityReport::Stopped { slot });
        };
        let mailbox = Arc::new(Mailbox::default());
        let task = starter.start(Start {
            who: Who::entity(Arc::clone(name), place, id.clone()),
            slot,
            mailbox: Arc::clone(&mailbox),
            reports: Arc::clone(self.slots.reports()),
        });
        self.slots.put(slot, (kind, id), mailbox);
        Ok(task)
    }
}

impl std::fmt::Debug for Entities {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entities")
            .field("kinds", &self.kinds.len())
            .field("live", &self.live())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::pin::Pin;

    use quorate_core::sharding::chain::AskChain;
    use quorate_core::sharding::errors::AskFailure;
    use quorate_core::sharding::ids::Payload;

    use super::*;

    struct Idle;

    impl Starter for Idle {
        fn start(&self, start: Start) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            drop(start);
            Box::pin(ready(()))
        }
    }

    const fn slot(generation: u32) -> Slot {
        Slot { index: 0, generation }
    }

    fn start(entities: &mut Entities, generation: u32) -> bool {
        let order = EntityOrder::Start {
            slot: slot(generation),
            kind: KindId::of("k"),
            shard: ShardId(0),
            entity: EntityId::from("e"),
            token: PlacementToken::default(),
        };
        matches!(entities.order(order), Ok(Some(_)))
    }

    #[test]
    fn a_kind_that_is_registered_again_as_a_proxy_is_started_as_before() {
        let mut entities = Entities::new(Arc::default());
        let name = Arc::from("k");
        assert_eq!(entities.register(&name, None, None), Some(KindId::of("k")));
        assert!(!start(&mut entities, 1), "nobody knows how to make it");
        assert_eq!(entities.register(&name, Some(Arc::new(Idle)), None), None);
        assert_eq!(entities.register(&name, None, None), None);
        assert!(start(&mut entities, 2));
    }

    #[test]
    fn what_is_for_an_entity_that_has_ended_does_not_reach_the_next_in_its_place() {
        let mut entities = Entities::new(Arc::default());
        entities.register(&Arc::from("k"), Some(Arc::new(Idle)), None);
        assert!(start(&mut entities, 1));
        entities.stopped(slot(1));
        assert!(start(&mut entities, 2));
        entities.stopped(slot(1));
        assert_eq!(entities.live(), 1, "that was said before");
        for (generation, is_there) in [(1, false), (2, true), (3, false)] {
            let deliver = EntityOrder::Deliver {
                slot: slot(generation),
                payload: Payload::from([7]),
                reply_to: None,
                deadline: None,
                chain: AskChain::default(),
            };
            match entities.order(deliver) {
                Ok(None) => assert!(is_there, "{generation}"),
                Err(EntityReport::Refused { reason, .. }) => {
                    assert_eq!((is_there, reason), (false, AskFailure::EntityStoppedUnhandled));
                }
                other => panic!("{:?}", other.err()),
            }
        }
    }
}
