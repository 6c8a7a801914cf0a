//! Singletons between callers, the node and their instances: hands registrations and reports in, does what the core orders. Decides
//! nothing. Spec: sharding 1.10, 1.11.

use std::sync::Arc;

use quorate_core::effect::SingletonOrder;
use quorate_core::event::{Event, SingletonEvent};
use quorate_core::input::{Command, EntityReport, Input, SingletonCommand, SingletonSettings};
use quorate_core::sharding::errors::AskFailure;
use quorate_core::singleton::state::SingletonId;

use super::limits::REPORTS_PER_TURN;
use super::machine::Machine;
use super::replies::Waiting;
use super::{Action, Pump};
use crate::error::ClusterError;
use crate::mailbox::Starter;
use crate::sync::Sender;

impl<M: Machine> Pump<M> {
    /// A caller wants to host a singleton, or to reach it.
    pub(super) fn register_singleton(
        &mut self,
        settings: SingletonSettings,
        starter: Option<Arc<dyn Starter>>,
        reply: Sender<Result<(), ClusterError>>,
    ) {
        if settings.hosts && settings.lease && !self.leases.has_keeper() {
            return reply.send(Err(ClusterError::NoLeaseKeeper));
        }
        let undo = self.instances.register(&settings.name, starter);
        let token = self.replies.insert(Waiting::Singleton { reply, undo });
        let command = Command::Singleton(SingletonCommand::Register(settings));
        self.linked.handle(Input::Command { token, command });
        self.drive_node();
    }

    /// What the core wants of an instance.
    pub(super) fn order_instance(&mut self, order: SingletonOrder) {
        match self.instances.order(order) {
            Ok(Some(task)) => self.base.act(Action::Start(task)),
            Ok(None) => {}
            Err(report) => {
                if matches!(report, EntityReport::Refused { .. }) {
                    self.base.stats.mailbox_refused += 1;
                }
                self.base.feedback.push_back(Input::Singleton(report));
            }
        }
    }

    /// Hands what instances reported to the node, at most a batch per turn.
    pub(crate) fn take_instance_reports(&mut self) {
        if self.instance_reports.is_empty() {
            self.instances.take_reports(&mut self.instance_reports);
        }
        for _ in 0..REPORTS_PER_TURN {
            let Some(report) = self.instance_reports.pop_front() else {
                return;
            };
            if let EntityReport::Stopped { slot } = &report {
                self.instances.stopped(*slot);
            }
            self.linked.handle(Input::Singleton(report));
            self.drive_node();
        }
    }

    /// A message without an asker was not taken: nobody waits for an answer, so those who listen hear of it.
    pub(super) fn dead_letter(&mut self, singleton: SingletonId, reason: AskFailure) {
        let event = SingletonEvent::DeadLetter { reason };
        self.publish(Event::Singleton { singleton, event });
    }
}
