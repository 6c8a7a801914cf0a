//! What an entity says to its clock: that it has to be woken, before it keeps what for, and what is next when
//! it was woken. When it has to ask the core decides. Spec: issue "reminders"; `docs/adr/0016`.

use std::time::Duration;

use quorate_core::wakeups::{self, KnownWakeup, WakeUp};

use super::{ClockAnswer, ClockRequest};
use crate::codec::Bytes;
use crate::entity::EntityContext;
use crate::error::{AskError, DurableFailure};
use crate::region::{EntityRef, Region};

/// For so long an entity waits for its clock before a command fails: as long as it waits for a store.
const PATIENCE: Duration = Duration::from_secs(2);

/// See the module.
pub(in crate::durable) struct ClockWaker {
    clock: EntityRef<ClockRequest, ClockAnswer>,
    entity: Bytes,
    known: KnownWakeup,
}

impl ClockWaker {
    /// The way of an entity to its clock.
    pub(in crate::durable) fn new(
        clocks: &Region<ClockRequest, ClockAnswer>,
        context: &EntityContext,
    ) -> Self {
        let clock = clocks.entity(wakeups::clock_of(context.id()).as_bytes());
        Self {
            entity: Bytes(context.id().as_bytes().into()),
            clock,
            known: KnownWakeup::default(),
        }
    }

    /// The entity is woken at this time or before, from when this completes.
    ///
    /// # Errors
    /// It is not known whether it is.
    pub(in crate::durable) async fn wants(&mut self, at_ms: u64) -> Result<(), DurableFailure> {
        if self.known.covers(at_ms) {
            return Ok(());
        }
        let entity = self.entity.clone();
        let asked = self.clock.ask(&ClockRequest::Wake { entity, at_ms });
        match asked.timeout(PATIENCE).await {
            Ok(ClockAnswer::Kept { version, at_ms }) => {
                self.known.on_kept(WakeUp { at_ms, version });
                Ok(())
            }
            Ok(ClockAnswer::Full) => Err(DurableFailure::Full),
            Ok(ClockAnswer::Nothing | ClockAnswer::Outdated) | Err(_) => Err(DurableFailure::Unavailable),
        }
    }

    /// Whether it may say what is next without another write.
    pub(in crate::durable) fn is_sure(&self, version: u64, has_written: bool) -> bool {
        self.known.is_sure(version, has_written)
    }

    /// What it wanted to be woken for is not kept.
    pub(in crate::durable) const fn forget(&mut self) {
        self.known.forget();
    }

    /// It was woken under this version, has done what was due, and is to be woken next at this time. Nothing
    /// is lost if that is not heard: it is woken again.
    pub(in crate::durable) async fn handled(
        &mut self,
        version: u64,
        next_ms: Option<u64>,
    ) -> Result<(), AskError> {
        let entity = self.entity.clone();
        let handled = ClockRequest::Handled {
            entity,
            version,
            next_ms,
        };
        self.known.forget();
        if let ClockAnswer::Kept { version, at_ms } = self.clock.ask(&handled).timeout(PATIENCE).await? {
            self.known.on_kept(WakeUp { at_ms, version });
        }
        Ok(())
    }
}
