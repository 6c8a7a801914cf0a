//! What the host of the entities reports: answers go to who asked, and each region hears what became of its
//! entities. Decides nothing. Spec: sharding 1.4, 10.5.

use crate::effect::Answer;
use crate::event::ShardingEvent;
use crate::input::{HostReport, StoreAsk};
use crate::lease::protocol::LeaseReport;
use crate::messaging::answer;
use crate::sharding::pending_message::RegionContext;
use crate::sharding::protocol::StoreUser;
use crate::sharding::protocol::watch::EntityEnd;
use crate::sharding::region::leased;
use crate::sharding::slots::Tenant;
use crate::sharding::state::ids::{KindId, Slot};
use crate::sharding::{Cx, Sharding};
use crate::token::Token;

impl Sharding {
    /// A machine of this node that keeps something answers.
    pub(crate) fn on_store_answer(&mut self, cx: &mut Cx<'_>, ask: StoreAsk, answer: Answer) {
        let Some(machines) = self.kinds.get_mut(&ask.kind) else {
            return;
        };
        match ask.user {
            StoreUser::Shard(_) | StoreUser::Look(_) => {
                machines.region.on_store_answer(shared!(self, cx), ask, answer);
            }
            StoreUser::Coordinator => machines.coordinator.on_store_answer(cx, ask, answer),
            StoreUser::CoordinatorLog => machines.coordinator.on_log_answer(cx, ask, answer),
        }
        self.say_if_drained(cx);
    }

    /// The lease keeper speaks.
    pub(crate) fn on_lease(&mut self, cx: &mut Cx<'_>, report: &LeaseReport) {
        let Some((name, shard)) = leased(cx, &report.name) else {
            return;
        };
        let kind = KindId::of(name);
        if let Some(machines) = self.kinds.get_mut(&kind)
            && machines.region.kind().settings.lease
            && machines.region.kind().has(shard)
        {
            machines.region.on_lease(shared!(self, cx), shard, report.outcome);
        }
        self.after_kind(cx, kind);
        self.say_if_drained(cx);
    }

    /// The log of a shard of this node, or of one of its entities, is promised to a later placement. Names of
    /// logs begin with that of the kind.
    pub(crate) fn on_placement_outdone(&mut self, cx: &mut Cx<'_>, log: &str, placement: Token, held: Token) {
        let named = log.strip_prefix("/sharding/").unwrap_or(log);
        for machines in self.kinds.values() {
            let name = &*machines.region.kind().settings.name;
            let is_its = named.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'));
            // A name with such a letter is written in another way there.
            let is_escaped = |letter: char| matches!(letter, '%' | '/') || letter.is_control();
            if is_its || name.contains(is_escaped) {
                machines.region.say_outdone(cx, placement, held);
            }
        }
    }

    /// The host of the entities reports.
    pub(crate) fn on_report(&mut self, cx: &mut Cx<'_>, report: HostReport) {
        match report {
            HostReport::Answered { ask, result } => answer(cx, ask, result),
            HostReport::Stopped { slot } => {
                let Some(tenant) = self.slots.release(slot) else {
                    return;
                };
                let end = self.end_of(slot, &tenant);
                if let Some(machines) = self.kinds.get_mut(&tenant.kind) {
                    let shared = shared!(self, cx);
                    machines
                        .region
                        .on_entity_stopped(shared, tenant.shard, &tenant.entity);
                }
                if let Some(why) = end {
                    self.on_entity_ended(cx, &tenant, why);
                }
                self.after_kind(cx, tenant.kind);
                self.say_if_drained(cx);
            }
            HostReport::Failed { slot } => self.on_entity_ends(slot, EntityEnd::Failed),
            HostReport::Passivate { slot } => self.on_passivate(cx, slot),
            HostReport::Ending { slot, forget } => {
                self.on_entity_ends(slot, EntityEnd::Stopped);
                if forget {
                    self.on_forgotten(cx, slot);
                }
            }
            HostReport::Escalated { slot } => self.on_escalated(cx, slot),
            // Said of instances of paths.
            HostReport::Running { .. } | HostReport::State { .. } => {}
            HostReport::Refused {
                slot,
                ask: None,
                reason,
            } => {
                cx.counters().dead_letters += 1;
                if let Some(tenant) = self.slots.tenant(slot) {
                    let shard = tenant.shard;
                    cx.notify_sharding(tenant.kind, ShardingEvent::DeadLetter { shard, reason });
                }
            }
            HostReport::Refused {
                ask: Some(ask),
                reason,
                ..
            } => answer(cx, ask, Err(reason)),
        }
    }

    fn on_passivate(&mut self, cx: &mut Cx<'_>, slot: Slot) {
        let Some(Tenant { kind, shard, entity }) = self.slots.tenant(slot).cloned() else {
            return;
        };
        if let Some(machines) = self.kinds.get_mut(&kind) {
            machines
                .region
                .on_passivate(shared!(self, cx), shard, &entity, slot);
        }
    }

    fn on_forgotten(&mut self, cx: &mut Cx<'_>, slot: Slot) {
        let Some(Tenant { kind, shard, entity }) = self.slots.tenant(slot).cloned() else {
            return;
        };
        if let Some(machines) = self.kinds.get_mut(&kind) {
            machines.region.on_forgotten(cx, shard, &entity, slot);
        }
    }

    fn on_escalated(&mut self, cx: &mut Cx<'_>, slot: Slot) {
        let Some(Tenant { kind, shard, .. }) = self.slots.tenant(slot).cloned() else {
            return;
        };
        let Some(machines) = self.kinds.get_mut(&kind) else {
            return;
        };
        let ending = machines.region.on_escalated(shared!(self, cx), shard, slot);
        if ending.is_empty() {
            // The shard stops: the others go on elsewhere.
            self.on_entity_ends(slot, EntityEnd::Failed);
        } else {
            self.on_shard_failed(cx, kind, shard, &ending);
        }
        self.after_kind(cx, kind);
    }
}
