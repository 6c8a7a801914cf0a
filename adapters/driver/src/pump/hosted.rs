//! What runs on this node: the entities of kinds and the instances of singletons and paths. Does what the
//! core orders and reports what cannot be done; decides nothing about shards, nor about who may have an
//! instance. Spec: sharding 1.4, 1.10, 10.5.

use std::borrow::Cow;
use std::sync::Arc;

use quorate_core::effect::{AllocationQuestion, HostOrder, HostedInstance};
use quorate_core::input::{HostReport, Recipient};
use quorate_core::load::state::sample::LoadPartId;
use quorate_core::ordered::OrderedMap;
use quorate_core::owner::Requester;
use quorate_core::paths::protocol::PathPick;
use quorate_core::sharding::ids::Slot;
use quorate_core::sharding::protocol::{AllocationAnswer, AllocationDecided};

use super::action::AfterOrder;
pub(crate) use super::base::RegisteredName;
use super::slots::{KindLoad, Slots};
use crate::allocating::Decider;
use crate::listeners::Gate;
use crate::mailbox::{EntityStart, Mailbox, MailboxMessage, Occasion, Reported, Reports, Starter, Who};
use crate::shortcut::ShortcutPlace;
use crate::stats::HostStats;
use crate::sync::Task;

#[derive(Clone)]
struct RegisteredHost {
    name: Arc<str>,
    starter: Option<Arc<dyn Starter>>,
    /// Who says where its shards go, where the application does.
    decider: Option<Decider>,
}

/// What a registration has to take back if the core refuses it.
pub(crate) struct RegistrationUndo {
    of: RegisteredName,
    /// What there was before; nothing if it is new.
    before: Option<RegisteredHost>,
}

/// The table of what runs on a node, and of what it only reaches.
pub(crate) struct Hosted {
    known: OrderedMap<RegisteredName, RegisteredHost>,
    entities: Slots,
    /// Slots and reports of their own. They share the room, the gate and the users' runtime of the entities.
    instances: Slots,
    /// The same of paths.
    paths: Slots,
}

impl Hosted {
    /// Whose orders come here, and who hears the reports.
    pub(crate) const OWNERS: [Requester; 3] = [Requester::Sharding, Requester::Singleton, Requester::Path];

    pub(crate) fn new(reports: Arc<Reports>) -> Self {
        Self {
            known: OrderedMap::new(),
            instances: Slots::new(Arc::new(reports.beside(Requester::Singleton))),
            paths: Slots::new(Arc::new(reports.beside(Requester::Path))),
            entities: Slots::new(reports),
        }
    }

    /// Notes how something is made that is registered. What can be made stays so when it is registered again
    /// as a proxy: entities by the first registration that can make them, instances by the newest.
    pub(crate) fn register(
        &mut self,
        of: RegisteredName,
        name: &Arc<str>,
        starter: Option<Arc<dyn Starter>>,
        decider: Option<Decider>,
    ) -> Option<RegistrationUndo> {
        let before = self.known.get(&of).cloned();
        // Another name with the same hash is the core's to refuse.
        if before.as_ref().is_some_and(|known| known.name != *name) {
            return None;
        }
        let known = before.clone().unwrap_or_else(|| RegisteredHost {
            name: Arc::clone(name),
            starter: None,
            decider: None,
        });
        let is_taken = match of {
            RegisteredName::Kind(_) => known.starter.is_none(),
            RegisteredName::Singleton(_) | RegisteredName::Path(_) => true,
        };
        let starter = starter.filter(|_| is_taken);
        let decider = decider.filter(|_| known.decider.is_none());
        if before.is_some() && starter.is_none() && decider.is_none() {
            return None;
        }
        let registered = RegisteredHost {
            starter: starter.or(known.starter),
            decider: decider.or(known.decider),
            name: known.name,
        };
        self.known.insert(of, registered);
        if matches!(of, RegisteredName::Path(_)) {
            // The core hosts it whatever the leader answers, and whenever.
            return None;
        }
        Some(RegistrationUndo { of, before })
    }

    /// The core has refused it.
    pub(crate) fn undo(&mut self, RegistrationUndo { of, before }: RegistrationUndo) {
        match before {
            Some(before) => self.known.insert(of, before),
            None => self.known.remove(&of),
        };
    }

    /// The task that has the application say where shards of a kind go; the answer at once if there is nobody
    /// to ask.
    pub(crate) fn decide(&self, question: AllocationQuestion) -> Result<Task, AllocationAnswer> {
        let registered = self.known.get(&RegisteredName::Kind(question.kind));
        match registered.and_then(|registered| registered.decider.as_ref()) {
            Some(decider) => {
                let too_late = self.entities.reports().until(question.deadline);
                Ok(decider.task(question, too_late))
            }
            None => Err(AllocationAnswer {
                kind: question.kind,
                number: question.number,
                decided: AllocationDecided::Failed,
            }),
        }
    }

    /// A name, or the number where this node does not know it.
    pub(crate) fn name(&self, of: RegisteredName) -> Cow<'_, str> {
        match (self.known.get(&of), of) {
            (Some(known), _) => Cow::Borrowed(&known.name),
            (None, RegisteredName::Kind(kind)) => Cow::Owned(format!("{kind:?}")),
            (None, RegisteredName::Singleton(singleton)) => Cow::Owned(format!("{singleton:?}")),
            (None, RegisteredName::Path(path)) => Cow::Owned(format!("{path:?}")),
        }
    }

    /// How many run.
    pub(crate) const fn live(&self) -> u64 {
        self.entities.live() + self.instances.live() + self.paths.live()
    }

    /// What is counted here.
    pub(crate) fn show(&self, stats: &mut HostStats) {
        stats.entities = self.entities.live();
        stats.singletons = self.instances.live();
        stats.path_instances = self.paths.live();
        self.entities.reports().durable.show(stats);
        self.entities.reports().failures.show(stats);
        self.instances.reports().failures.show(stats);
        self.paths.reports().failures.show(stats);
    }

    /// Whether all mailboxes together have room for more from the user links.
    pub(crate) fn has_room(&self) -> bool {
        self.entities.reports().budget.has_room()
    }

    /// What waits in all mailboxes, of the room in them.
    pub(crate) fn mailboxes_used(&self) -> f64 {
        self.entities.reports().budget.used()
    }

    /// The load of what runs here by kind and path, since the last call.
    pub(crate) fn load_of_kinds(&mut self) -> Vec<KindLoad> {
        let mut loads = self.entities.load_of_kinds();
        loads.extend(self.paths.load_of_kinds());
        loads
    }

    /// How many instances of a path run here.
    pub(crate) fn instances_of(&self, path: LoadPartId) -> u32 {
        self.paths.live_of(path)
    }

    /// The loop runs, and the node knows the time.
    pub(crate) fn beat(&self) {
        self.entities.reports().gate.beat();
    }

    /// After a pause of the process no entity and no singleton begins with a message until the node knows
    /// that it is still a member.
    pub(crate) fn gate(&self, gate: Gate) {
        let reports = self.entities.reports();
        match gate {
            Gate::Hold => reports.gate.hold(),
            Gate::Release => reports.gate.release(),
        }
    }

    /// Whether entities may not begin at the moment.
    pub(crate) fn are_held_back(&self) -> bool {
        self.entities.reports().gate.is_held()
    }

    /// Those whose handlers have held a thread for so many looks, `kind/id`, `singleton/name` or
    /// `path/name#slot`; `None` for one that is gone meanwhile.
    pub(crate) fn holders(&self, looks: u64) -> Vec<Option<String>> {
        let name = |who: &Recipient| match who {
            Recipient::Entity(kind, id) => {
                format!("{}/{id}", self.name(RegisteredName::Kind(*kind)).escape_debug())
            }
            Recipient::Singleton(singleton) => {
                format!(
                    "singleton/{}",
                    self.name(RegisteredName::Singleton(*singleton)).escape_debug()
                )
            }
            Recipient::Path(path, pick) => {
                let name = self.name(RegisteredName::Path(*path));
                match pick {
                    PathPick::Slot(slot) => format!("path/{name}#{slot}"),
                    PathPick::Routed | PathPick::Hash(_) | PathPick::Every => format!("path/{name}"),
                }
            }
        };
        let holders = Self::OWNERS.map(|owner| self.slots(owner).holders(looks));
        holders.into_iter().flatten().map(|who| who.map(name)).collect()
    }

    /// Whether something was taken over of which the node has not heard.
    pub(crate) fn has_reports(&self) -> bool {
        self.entities.has_reports() || self.instances.has_reports() || self.paths.has_reports()
    }

    /// The way past the queues of what was reported.
    pub(crate) fn shortcut(&self) -> Arc<ShortcutPlace<Reported>> {
        Arc::clone(&self.entities.reports().shortcut)
    }

    /// Whether nothing waits for anything that runs here, and nothing was reported that is not heard yet.
    pub(crate) fn is_quiet(&self) -> bool {
        let is_quiet = |owner: &Requester| self.slots(*owner).reports().is_quiet();
        !self.has_reports() && Self::OWNERS.iter().all(is_quiet)
    }

    /// Takes over what was reported, unless there is something of an earlier time.
    pub(crate) fn take_reports(&mut self) {
        self.entities.take_reports();
        self.instances.take_reports();
        self.paths.take_reports();
    }

    /// The next report for this owner of what was taken over. Forgets what has ended.
    pub(crate) fn next_report(&mut self, owner: Requester) -> Option<HostReport> {
        self.slots_mut(owner).next_report()
    }

    /// An entity or instance has reported.
    #[cfg(test)]
    pub(super) fn is_told(&self, owner: Requester, report: HostReport) {
        self.slots(owner).reports().push(report);
    }

    /// Everything that was reported.
    pub(crate) fn all_reports(&mut self) -> Vec<(Requester, HostReport)> {
        let mut all = Vec::new();
        for owner in Self::OWNERS {
            let reports = self.slots_mut(owner).all_reports().into_iter();
            all.extend(reports.map(|report| (owner, report)));
        }
        all
    }

    /// Does what the core orders. What cannot be done is said at once.
    pub(crate) fn order(&mut self, owner: Requester, order: HostOrder) -> Result<AfterOrder, HostReport> {
        match order {
            HostOrder::Start { slot, instance } => self.start(owner, slot, instance).map(AfterOrder::Start),
            HostOrder::Deliver {
                slot,
                payload,
                reply_to,
                deadline,
                chain,
            } => {
                let occasion = Occasion::of(reply_to, deadline, chain);
                let delivery = MailboxMessage { payload, occasion };
                let waker = self.slots_mut(owner).deliver(slot, delivery)?;
                Ok(waker.map_or(AfterOrder::Nothing, AfterOrder::Wake))
            }
            HostOrder::Stop { slot } => self.end(owner, slot, Mailbox::drain),
            HostOrder::StopWithState { slot } => self.end(owner, slot, Mailbox::drain_with_state),
            HostOrder::Kill { slot } => self.end(owner, slot, Mailbox::kill),
        }
    }

    fn end(&self, owner: Requester, slot: Slot, how: fn(&Mailbox)) -> Result<AfterOrder, HostReport> {
        self.slots(owner).end(slot, how).map(|()| AfterOrder::Nothing)
    }

    /// Stops all of them now. What to say of the asks that they have not begun with.
    pub(crate) fn kill_all(&self) -> Vec<(Requester, HostReport)> {
        let left = |owner| {
            let reports = self.slots(owner).kill_all();
            reports.into_iter().map(move |report| (owner, report))
        };
        Self::OWNERS.into_iter().flat_map(left).collect()
    }

    fn start(&mut self, owner: Requester, slot: Slot, instance: HostedInstance) -> Result<Task, HostReport> {
        let of = match instance {
            HostedInstance::Entity { kind, .. } => RegisteredName::Kind(kind),
            HostedInstance::Singleton { singleton, .. } => RegisteredName::Singleton(singleton),
            HostedInstance::Path { path, .. } => RegisteredName::Path(path),
        };
        let registered = self.known.get(&of);
        let Some((name, starter)) = registered.and_then(|r| Some((&r.name, r.starter.as_ref()?))) else {
            return Err(HostReport::Stopped { slot });
        };
        let (recipient, who, state) = match instance {
            HostedInstance::Entity {
                kind,
                shard,
                entity,
                token,
            } => {
                let who = Who::entity(Arc::clone(name), (shard, token), entity.clone());
                (Recipient::Entity(kind, entity), who, None)
            }
            HostedInstance::Singleton { singleton, token } => {
                let who = Who::singleton(Arc::clone(name), token);
                (Recipient::Singleton(singleton), who, None)
            }
            HostedInstance::Path {
                path,
                slot,
                token,
                state,
            } => {
                let who = Who::path(Arc::clone(name), slot, token);
                (Recipient::Path(path, PathPick::Slot(slot)), who, state)
            }
        };
        let mailbox = Arc::new(Mailbox::default());
        let task = starter.start(EntityStart {
            who,
            slot,
            mailbox: Arc::clone(&mailbox),
            state,
            reports: Arc::clone(self.slots(owner).reports()),
        });
        self.slots_mut(owner).put(slot, recipient, mailbox);
        Ok(task)
    }

    /// No other machine has anything run.
    fn slots(&self, owner: Requester) -> &Slots {
        if owner == Requester::Singleton {
            &self.instances
        } else if owner == Requester::Path {
            &self.paths
        } else {
            &self.entities
        }
    }

    fn slots_mut(&mut self, owner: Requester) -> &mut Slots {
        if owner == Requester::Singleton {
            &mut self.instances
        } else if owner == Requester::Path {
            &mut self.paths
        } else {
            &mut self.entities
        }
    }
}

impl std::fmt::Debug for Hosted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hosted")
            .field("known", &self.known.len())
            .field("live", &self.live())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::pin::Pin;

    use quorate_core::effect::PlacementToken;
    use quorate_core::sharding::chain::AskChain;
    use quorate_core::sharding::errors::AskFailure;
    use quorate_core::sharding::ids::{EntityId, KindId, Payload, ShardId};

    use super::*;

    struct Idle;

    impl Starter for Idle {
        fn start(&self, start: EntityStart) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            drop(start);
            Box::pin(ready(()))
        }
    }

    const fn slot(generation: u32) -> Slot {
        Slot { index: 0, generation }
    }

    fn kind() -> RegisteredName {
        RegisteredName::Kind(KindId::of("k"))
    }

    fn start(hosted: &mut Hosted, generation: u32) -> bool {
        let instance = HostedInstance::Entity {
            kind: KindId::of("k"),
            shard: ShardId(0),
            entity: EntityId::from("e"),
            token: PlacementToken::default(),
        };
        let slot = slot(generation);
        matches!(
            hosted.order(Requester::Sharding, HostOrder::Start { slot, instance }),
            Ok(AfterOrder::Start(_))
        )
    }

    #[test]
    fn a_kind_that_is_registered_again_as_a_proxy_is_started_as_before() {
        let mut hosted = Hosted::new(Arc::default());
        let name = Arc::from("k");
        assert!(hosted.register(kind(), &name, None, None).is_some(), "it is new");
        assert!(!start(&mut hosted, 1), "nobody knows how to make it");
        let undo = hosted.register(kind(), &name, Some(Arc::new(Idle)), None);
        assert!(
            hosted.register(kind(), &name, None, None).is_none(),
            "nothing to undo"
        );
        assert!(start(&mut hosted, 2));
        hosted.undo(undo.unwrap());
        assert!(!start(&mut hosted, 3), "it was refused");
        assert_eq!(hosted.name(kind()), "k", "it is reached as before");
    }

    #[test]
    fn what_is_for_an_entity_that_has_ended_does_not_reach_the_next_in_its_place() {
        let mut hosted = Hosted::new(Arc::default());
        hosted.register(kind(), &Arc::from("k"), Some(Arc::new(Idle)), None);
        assert!(start(&mut hosted, 1));
        hosted.entities.stopped(slot(1));
        assert!(start(&mut hosted, 2));
        hosted.entities.stopped(slot(1));
        assert_eq!(hosted.live(), 1, "that was said before");
        for (generation, is_there) in [(1, false), (2, true), (3, false)] {
            let deliver = HostOrder::Deliver {
                slot: slot(generation),
                payload: Payload::from([7]),
                reply_to: None,
                deadline: None,
                chain: AskChain::default(),
            };
            match hosted.order(Requester::Sharding, deliver) {
                Ok(AfterOrder::Nothing) => assert!(is_there, "{generation}"),
                Err(HostReport::Refused { reason, .. }) => {
                    assert_eq!((is_there, reason), (false, AskFailure::EntityStoppedUnhandled));
                }
                other => panic!("{:?}", other.err()),
            }
        }
    }

    #[test]
    fn the_load_of_a_kind_is_what_waits_and_what_came_since_the_last_measure() {
        let mut hosted = Hosted::new(Arc::default());
        hosted.register(kind(), &Arc::from("k"), Some(Arc::new(Idle)), None);
        assert_eq!(hosted.load_of_kinds(), []);
        assert!(start(&mut hosted, 1));
        let load = |mailboxes, delivered| KindLoad {
            part: LoadPartId(KindId::of("k").raw()),
            mailboxes,
            delivered,
        };
        assert_eq!(hosted.load_of_kinds(), [load(0.0, 0)]);
        assert_eq!(hosted.mailboxes_used(), 0.0);
        for _ in 0..250 {
            let deliver = HostOrder::Deliver {
                slot: slot(1),
                payload: Payload::from([7]),
                reply_to: None,
                deadline: None,
                chain: AskChain::default(),
            };
            assert!(hosted.order(Requester::Sharding, deliver).is_ok());
        }
        assert!(hosted.mailboxes_used() > 0.0);
        assert_eq!(
            hosted.load_of_kinds(),
            [load(0.25, 250)],
            "a quarter of a thousand"
        );
        assert_eq!(hosted.load_of_kinds(), [load(0.25, 0)], "nothing came since then");
        hosted.entities.stopped(slot(1));
        assert_eq!(hosted.load_of_kinds(), [load(0.0, 0)], "it has ended");
    }
}
